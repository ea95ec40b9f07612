"""The recipe of the detector that ships with Reticent, and what it finds on text that it never saw.

    python benchmarks/train_english_detector.py --data-dir FOLDER --out /tmp/of_btc            # what ships
    python benchmarks/train_english_detector.py --data-dir FOLDER --train wnut17_train --hold-out --out /tmp/of_wnut
    python benchmarks/english_detector.py --data-dir FOLDER --of-btc /tmp/of_btc --of-wnut /tmp/of_wnut

It learns from the train part of the Broad Twitter Corpus or of WNUT-17 (both CC BY 4.0), from sentences written here
with names of the package faker, and from noise: small letters, capitals, no apostrophes, typos, hashtags, other names.
Handles are labelled PERSON, as the Broad Twitter Corpus does where they name one. The encoder is the first layers of
all-MiniLM-L6-v2 (Apache 2.0). The last command judges each of the two on the set that it did not learn. `--hold-out`
leaves a fifth of the texts out, on which that command can choose a threshold.
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import torch
from common import command_line

from pipelines.files import write_json
from pipelines.policies.detectors.token_compact import low_rank, save_compact
from pipelines.policies.detectors.trained_folder import DESCRIPTION, detector_digest
from pipelines.policies.learning.encoder import train_encoder
from pipelines.policies.learning.examples import Example, make_example, read_conll
from pipelines.policies.learning.names import draw_name

LAYERS, RANK, EPOCHS, SEED, THRESHOLD = 3, 112, 2, 20261122, 0.5
LEARNT = {"PERSON", "LOCATION", "ORG"}

FRAMES = """
my name is {n}|hi this is {n}|i'm {n} and my order has not arrived|this is {n} speaking, how can i help|{n} here
the account is under {n}|can you put it in my husband's name, {n}?|thanks {n}|thank you {n}, have a good day|hello {n}!
please send it to {n}|i spoke with {n} yesterday|{n} told me that it was fixed|regards, {n}|dear {n},|sure, it is {n}
{n} and {n} were there|ask {n} about it|passenger: {n}|name on the card: {n}|{n} called again|it was signed by {n}
the patient, {n}, was seen at 9|from: {n}|cc {n}|on behalf of {n}|first name {n}|who is {n}?|tell {n} i said hi
hello, how may i help you today?|can you give me your confirmation number please|i would like to change my seat
my internet is not working since monday|the total is 45 dollars|ok great, thank you so much|is there anything else?
what is the email on the account?|i want to cancel my subscription|one moment please while i look that up|yes please
have a wonderful day|no that is all|could i have your full name and date of birth|the booking is for two adults
i need a copy of my bill|we will send you an update by mail|sorry to hear that|it keeps saying that the code is wrong
"""


def written(rng: random.Random, number: int) -> list[Example]:
    """Writes sentences of the frames, with names."""
    frames = [frame for frame in re.split(r"[|\n]", FRAMES) if frame]
    made = []
    for _ in range(number):
        text, spans, at = "", [], 0
        frame = rng.choice(frames)
        for slot in re.finditer(re.escape("{n}"), frame):
            text += frame[at : slot.start()]
            name = draw_name(rng)
            spans.append((len(text), len(text) + len(name), "PERSON"))
            text, at = text + name, slot.end()
        made.append(make_example(text + frame[at:], spans))
    return made


def tweets(path: Path) -> list[Example]:
    """Reads the texts of a file with persons, places and organisations, and every handle as a person."""
    made = []
    with path.open(encoding="utf-8") as lines:
        for example in read_conll(lines, path.name):
            spans = [span for span in example.spans if span[2] in LEARNT]
            taken = {c for start, end, _ in spans for c in range(start, end)}
            spans += [(*m.span(), "PERSON") for m in re.finditer(r"@\w+", example.text) if m.start() not in taken]
            made.append(make_example(example.text, spans))
    return made


def parted(examples: list[Example]) -> tuple[list[Example], list[Example]]:
    """Divides the distinct texts into a held-out fifth and the others."""
    distinct = list({example.text: example for example in examples}.values())
    random.Random(SEED).shuffle(distinct)
    return distinct[: len(distinct) // 5], distinct[len(distinct) // 5 :]


def main() -> None:
    parser = command_line(__doc__, data_dir=True)
    parser.add_argument("--train", default="btc_train", help="files of FOLDER/ner, without their ending")
    parser.add_argument("--hold-out", action="store_true", help="leave a fifth of the texts out")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    examples = [e for part in given.train.split(",") for e in tweets(given.data_dir / "ner" / f"{part}.conll")]
    if given.hold_out:
        _, examples = parted(examples)
    examples += written(random.Random(SEED), len(examples) // 6)
    model, tokenizer = train_encoder(
        examples,
        base="minilm",
        layers=LAYERS,
        epochs=EPOCHS,
        names=draw_name,
        seed=SEED,
        prepare=low_rank(RANK),
        progress=lambda done, total: print(done, total, file=sys.stderr, flush=True) if done % 50 == 0 else None,
    )
    model.config.max_position_embeddings = 256
    positions = model.bert.embeddings.position_embeddings
    positions.weight = torch.nn.Parameter(positions.weight[:256].detach().clone())
    given.out.mkdir(parents=True, exist_ok=True)
    save_compact(model, tokenizer, given.out, RANK)
    describe(given.out, given.train.split(","))


def describe(folder: Path, parts: list[str]) -> None:
    document = {
        "kind": "detector",
        "model": "encoder",
        "base": "minilm",
        "language": "en",
        "labels": sorted(LEARNT),
        "thresholds": dict.fromkeys(sorted(LEARNT), THRESHOLD),
        "trained_on": parts,
        "seed": SEED,
        "weights_sha256": detector_digest(folder),
    }
    write_json(folder / DESCRIPTION, document)


if __name__ == "__main__":
    main()
