"""The throughput of the rule splitter against spaCy's bare tokenizer pipe, which only tokenises.

    python benchmarks/split.py [--characters 20000000] [--data-dir FOLDER] [--repeats 3] [--out FILE]

Reads a folder's .txt and .raw files, or generates customer-service dialogues. Both run in this process, interleaved,
on the same documents; the fastest round of each counts, by the processor's time. First the tokens are compared: all
tokens that are not white space must have the same offsets, once spaCy, too, cuts a full stop off a code. The goal is
a ratio of at least 0.9.
"""

from __future__ import annotations

import itertools
from collections import deque
from pathlib import Path

import spacy
from common import command_line, least_seconds, write_json

from pipelines.corpus.customersim import simulate
from pipelines.corpus.split import MAX_RUN_CHARS, Splitter, _cut_stops_off_codes

DOCUMENT_CHARACTERS = 20_000


def documents(folder: Path | None, num_characters: int) -> list[str]:
    if folder is None:
        texts, size = [], 0
        for row in simulate(10**9, 0):
            texts.append(row["text"])
            size += len(row["text"])
            if size >= num_characters:
                return texts
    files = sorted(path for path in folder.rglob("*") if path.suffix in {".txt", ".raw"})
    text = "".join(itertools.chain.from_iterable(path.open(errors="replace") for path in files))[:num_characters]
    return [text[at : at + DOCUMENT_CHARACTERS] for at in range(0, len(text), DOCUMENT_CHARACTERS)]


def main() -> None:
    parser = command_line(__doc__, data_dir=False, out="")
    parser.add_argument("--characters", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    texts = documents(args.data_dir, args.characters)
    nlp = spacy.blank("en")
    _cut_stops_off_codes(nlp)  # the one rule that ours has besides; spaCy is timed without it
    splitter = Splitter(mode="rules")
    num_tokens = 0
    for text in texts:
        starts, ends = splitter.tokens(text)
        num_tokens += len(starts)
        if max(map(len, text.split()), default=0) <= MAX_RUN_CHARS:
            expected = [(t.idx, t.idx + len(t)) for t in nlp(text) if not t.is_space]
            if list(zip(starts, ends, strict=True)) != expected:
                raise SystemExit("the tokens differ, no figure is worth printing")
    num_sentences = sum(map(len, Splitter(mode="rules").split(texts)))
    contestants = {
        "spaCy": lambda: deque(spacy.blank("en").pipe(texts), maxlen=0),
        "rules": lambda: deque(Splitter(mode="rules").split(texts), maxlen=0),
    }
    seconds = {name: processor for name, (_, processor) in least_seconds(contestants, args.repeats).items()}
    rates = {name: num_tokens / value for name, value in seconds.items()}
    write_json(args.out, {"num_tokens": num_tokens, "tokens_per_second": rates})
    print(
        f"{num_tokens:,} tokens, {num_sentences:,} sentences, tokens equal; best of {args.repeats}:"
        f" spaCy's tokenizer pipe {rates['spaCy']:,.0f} tokens/s, rule splitter {rates['rules']:,.0f} tokens/s,"
        f" ratio {rates['rules'] / rates['spaCy']:.2f}"
    )


if __name__ == "__main__":
    main()
