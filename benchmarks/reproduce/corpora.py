"""The corpora of the cells: articles that the starting point never saw, dialogues, tables, and reviews."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from common import read_json, write_lines

from .base import articles, sentences, split_articles
from .cache import cached, content_key
from .cells import Scale

Row = dict[str, Any]
_JOINED: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r" @([-,.])@ ", r"\1"),
        (r" ([,.;:!?%)\]])", r"\1"),
        (r"([(\[$£]) ", r"\1"),
        (r" (n't|'(?:s|re|ve|ll|d|m))\b", r"\1"),
        (r"(?<=s) ' ", "' "),
        (r'" ([^"]*) "', r'"\1"'),
    )
)
LANGUAGE: Final = """
[corpus]
inputs = ["corpus.jsonl"]
{format}
[dedup]
unit = "{duplicates}"
[redact]
policies = ["{policy}"]
conservative = "{conservative}"
[gate]
enabled = false  # the text is public, and the same name is found in one sentence and missed in the next
[sample]
fraction = 0.05
[estimate]
source = "proxy"
proxy = ["presidio"]
[runtime]
microbatch_size = 32
[train]
context_length = 128
public_batch_size = 16
public_learning_rate = {public_rate}
private_learning_rate = {private_rate}
expected_batch_size = {batch}
epochs = {epochs}
jft_phase1_epochs = 1
target_epsilon = 3
target_delta = 8e-5
max_eval_sentences = {held_out}
"""
DEFAULTS: Final = {"train.target_epsilon": "3"}
"""Settings of every corpus that some cells name and others leave out."""

TASK: Final = """
[corpus]
inputs = ["corpus.jsonl"]
format = "{format}"
[redact]
policies = ["high_entity"]
conservative = "high_entity"
[gate]
enabled = false  # the text is public, and the same name is found in one row and missed in the next
[estimate]
source = "none"
[runtime]
microbatch_size = 16
[train]
{train}
"""
E2E: Final = """task = "table_to_text"
context_length = 128
public_batch_size = 16
public_learning_rate = 1e-3
epochs = 2
jft_phase1_epochs = 1
expected_batch_size = 600
private_learning_rate = 3e-3
max_eval_sentences = 150
max_generated = 60
max_new_tokens = 60
"""
E2E_ONCE: Final = E2E.replace("epochs = 2", "epochs = 1").replace("= 600", "= 120")
SST2: Final = """task = "classification"
adaptation = "lora"
lora_alpha = 4
epochs = 5
public_batch_size = 32
public_learning_rate = 2e-3
expected_batch_size = 500
private_learning_rate = 5e-3
context_length = 48
max_eval_sentences = 872
"""
"""Settings of five passes in batches of 500 of 20,000 phrases: two hundred noisy steps."""
QNLI: Final = SST2.replace("context_length = 48", "context_length = 128").replace("872", "500")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A corpus of cells.

    Attributes:
        rows: function from the folder of data sets and the scale to rows.
        settings: text of the settings file.
        title: description at small scale.
    """

    rows: Callable[[Path, Scale], list[Row]]
    settings: str
    title: str


def prepared(name: str, data_dir: Path, work: Path, scale: Scale) -> Path:
    """Returns the settings file of a corpus, beside its rows; both are made once for equal rows and settings."""
    corpus = CORPORA[name]
    rows = corpus.rows(data_dir, scale)
    key = content_key({"rows": rows, "settings": corpus.settings})

    def make(folder: Path) -> dict[str, Any]:
        write_lines(folder / "corpus.jsonl", rows, ensure_ascii=False)
        (folder / "reticent.toml").write_text(corpus.settings, encoding="utf-8")
        return {"name": name, "scale": scale, "num_rows": len(rows)}

    folder = cached(work / "corpora", key, make)
    if folder is None:
        raise RuntimeError(f"{name}: not complete")
    return folder / "reticent.toml"


def joined(text: str) -> str:
    """Returns a line of WikiText-2 without the blanks and marks (`` @-@ ``) that its makers put in."""
    for pattern, replacement in _JOINED:
        text = pattern.sub(replacement, text)
    return text.strip()


def wikitext(data_dir: Path, scale: Scale, num_sentences: int = 3_000, held_out: int = 300) -> list[Row]:
    """Returns paragraphs of articles unseen by the starting point, until so many sentences; at paper scale, all.

    At small scale signs are joined to their words. The starting point read them apart, and so has something to learn,
    as GPT-2 has, which read the web joined and is fine-tuned on WikiText-2 apart.
    """
    _, private = split_articles(data_dir)
    test = (data_dir / "wikitext2" / "wiki.test.raw").read_text("utf-8").splitlines()
    found: list[Row] = []
    folds: tuple[tuple[str, Mapping[str, Sequence[str]], int], ...] = (
        ("train", private, num_sentences),
        ("test", dict(articles(test)), held_out),
    )
    for fold, source, most in folds:
        texts = [line for body in source.values() for line in body if len(line.split()) > 20]
        if scale == "small":
            texts = [joined(text) for text in texts]
        random.Random(f"wikitext2/{fold}").shuffle(texts)
        total = 0
        for number, text in enumerate(texts):
            if scale == "small" and total >= most:
                break
            total += len(sentences([text])) if scale == "small" else 0
            found.append({"id": f"{fold}-{number}", "text": text, "fold": fold})
    return found


def customersim(data_dir: Path, scale: Scale, num_turns: int = 6_000, held_out: int = 400) -> list[Row]:
    """Returns dialogues in their order, until so many turns."""
    found: list[Row] = []
    for fold, most in (("train", num_turns), ("test", held_out)):
        total = 0
        for number, line in enumerate((data_dir / "customersim" / f"{fold}.jsonl").open(encoding="utf-8")):
            if scale == "small" and total >= most:
                break
            text = str(json.loads(line)["text"])
            total += len(text.strip().splitlines())
            found.append({"id": f"{fold}-{number}", "text": text, "fold": fold})
    return found


def abcd(data_dir: Path, scale: Scale, num_turns: int = 6_000, held_out: int = 400) -> list[Row]:
    """Returns dialogues of ABCD's test part, of which some are held out: its training part is not at hand."""
    text = (data_dir / "abcd" / "test.txt").read_text("utf-8")
    dialogues = [re.sub(r"^([A-Z]+):\s*", r"\1: ", d, flags=re.MULTILINE) for d in text.split("<|endoftext|>")]
    turns = [[line for line in dialogue.splitlines() if line.strip()] for dialogue in dialogues]
    turns = [lines for lines in turns if lines]
    random.Random("abcd").shuffle(turns)
    found: list[Row] = []
    for fold, most in (("test", held_out), ("train", num_turns)):
        total = 0
        while turns and (total < most or (scale == "paper" and fold == "train")):
            lines = turns.pop()
            total += len(lines)
            found.append({"id": f"{fold}-{len(found)}", "text": "\n".join(lines) + "\n", "fold": fold})
    return found


def e2e(data_dir: Path, scale: Scale, num_train: int = 6_000) -> list[Row]:
    from task_scores import e2e_rows

    many = scale == "paper"
    return e2e_rows(data_dir, num_train=42_061 if many else num_train, num_tables=630 if many else 60)


def dart(data_dir: Path, scale: Scale, num_test: int = 60) -> list[Row]:
    """Returns triple sets of DART's development part, of which some are held out: its training part is not at hand."""
    del scale
    sets = read_json(data_dir / "dart" / "dart-v1.1.1-full-dev.json")
    random.Random("dart").shuffle(sets)
    folds = ["test"] * num_test + ["train"] * (len(sets) - num_test)
    kept = ("tripleset", "annotations")
    return [
        {"id": f"{fold}-{number}", **{name: triples[name] for name in kept}, "fold": fold}
        for number, (triples, fold) in enumerate(zip(sets, folds, strict=True))
    ]


def sst2(data_dir: Path, scale: Scale) -> list[Row]:
    from task_scores import sst2_rows

    return list(sst2_rows(data_dir, num_train=67_349 if scale == "paper" else 20_000))


def qnli(data_dir: Path, scale: Scale, num_train: int | None = None, num_test: int = 500) -> list[Row]:
    """Returns pairs of QNLI's development part, of which some are held out: its training part is not at hand."""
    del scale
    with (data_dir / "qnli" / "dev.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    random.Random("qnli").shuffle(rows)
    kept = ("question", "sentence", "label")
    folds = {"test": rows[:num_test], "train": rows[num_test:][:num_train]}
    return [{**{name: row[name] for name in kept}, "fold": fold} for fold, of in folds.items() for row in of]


def _language(policy: str, conservative: str, **more: str | int) -> str:
    usual: dict[str, str | int] = {
        "format": "",
        "duplicates": "sentence",
        "public_rate": "1e-3",
        "private_rate": "1e-3",
        "batch": 300,
        "epochs": 2,
        "held_out": 300,
    }
    return LANGUAGE.format(policy=policy, conservative=conservative, **{**usual, **more})


_DIALOGUE: Final[Mapping[str, str | int]] = {
    "format": 'format = "dialogue"',
    "duplicates": "document",  # of single turns two in three are copies, and the masks in their place teach nothing
    "private_rate": "3e-3",
    "batch": 600,
    "held_out": 400,
}
CORPORA: Final[Mapping[str, Corpus]] = {
    "wikitext": Corpus(
        rows=wikitext,
        settings=_language("high_entity", "high_entity"),
        title="3,000 sentences of WikiText-2 articles that the starting point did not see; 300 of its test file",
    ),
    "wikitext_100": Corpus(
        rows=lambda data, scale: wikitext(data, "small", num_sentences=100),
        settings=_language("high_entity", "high_entity"),
        title="a hundred such sentences",
    ),
    "wikitext_digits": Corpus(
        rows=wikitext, settings=_language("digits", "digits"), title="the same; digits are secret"
    ),
    "customersim": Corpus(
        rows=customersim,
        settings=_language("customersim", "conservative", **_DIALOGUE),
        title="the first 6,000 turns of CustomerSim; 400 turns of its test file",
    ),
    "abcd": Corpus(
        rows=abcd,
        settings=_language("high_entity", "high_entity", **_DIALOGUE),
        title="6,000 turns of ABCD's test part; 400 more of its turns",
    ),
    "e2e": Corpus(rows=e2e, settings=TASK.format(format="e2e", train=E2E), title="6,000 rows of E2E; 60 test tables"),
    "e2e_1200": Corpus(
        rows=lambda data, scale: e2e(data, scale, num_train=1_200),
        settings=TASK.format(format="e2e", train=E2E_ONCE),
        title="1,200 rows of E2E; 60 test tables",
    ),
    "dart": Corpus(
        rows=dart,
        settings=TASK.format(format="dart", train=E2E),
        title="the triple sets of DART's development part, but for 60 that are held out",
    ),
    "sst2": Corpus(
        rows=sst2,
        settings=TASK.format(format="glue", train=SST2),
        title="20,000 phrases of SST-2 of 5 to 15 words; its development set",
    ),
    "qnli": Corpus(
        rows=qnli,
        settings=TASK.format(format="glue", train=QNLI),
        title="the pairs of QNLI's development part, but for 500 that are held out",
    ),
    "qnli_100": Corpus(
        rows=lambda data, scale: qnli(data, scale, num_train=100),
        settings=TASK.format(format="glue", train=QNLI),
        title="a hundred of them",
    ),
}
