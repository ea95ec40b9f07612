"""The corpora of the papers, where they are present: counts as their READMEs state them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from support import REPOSITORY

from pipelines.corpus.items import Document, Rejected
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import scan

DATA = Path(os.environ.get("RETICENT_TEST_DATA", REPOSITORY.parent / "shared" / "data"))


def read(inputs: str, format: str, **fields) -> tuple[list[Document], list[Rejected]]:
    if not list(DATA.glob(inputs)):
        pytest.skip(f"{inputs} is not below {DATA}; set RETICENT_TEST_DATA to the folder of the papers' corpora")
    options = ReadOptions(**fields)
    parts = scan([inputs], base_dir=DATA, format=format, options=options, secret=b"k")
    items = [item for part in parts for piece in part.pieces for item in read_documents(piece, options)]
    return [i for i in items if isinstance(i, Document)], [i for i in items if isinstance(i, Rejected)]


def folds(documents: list[Document]) -> Counter:
    return Counter(document.fold for document in documents)


def test_wikitext_2():
    documents, rejected = read("wikitext2/*.raw", "wikitext")
    assert not rejected
    assert folds(documents) == {"train": 600, "valid": 60, "test": 60}
    words = Counter()
    for document in documents:
        words[document.fold] += len(document.text.split())
    assert words == {"train": 2_051_910, "valid": 213_886, "test": 241_211}


def test_multidogo():
    documents, rejected = read("multidogo/*/*.tsv", "multidogo")
    # The README counts lines with all columns; a few of those have an empty utterance, or another number of labels.
    lines, words, conversations = Counter(), Counter(), Counter()
    for document in documents:
        where = (document.domain, document.fold)
        lines[where] += document.text.count("\n") + 1
        words[where] += len(document.text.split()) - document.text.count("\n") - 1
        conversations[where] += 1
    for item in rejected:
        if item.reason != "bad_columns":
            fold = {"train": "train", "dev": "valid", "test": "test"}[Path(item.name).stem]
            lines[Path(item.name).parent.name, fold] += 1
    stated = {
        "airline": (1_701, 14_350, 49_045),
        "media": (1_702, 12_163, 37_246),
        "insurance": (1_632, 14_491, 46_830),
    }
    for domain, figures in stated.items():
        where = (domain, "train")
        # Three lines of media with other labels than words hold 19 words.
        words[where] += 19 if domain == "media" else 0
        assert (conversations[where], lines[where], words[where]) == figures
    tests = {"airline": (486, 4_066), "media": (487, 3_473), "insurance": (467, 4_105)}
    assert {d: (conversations[d, "test"], lines[d, "test"]) for d in tests} == tests
    assert Counter(item.reason for item in rejected) == {"bad_columns": 219, "empty": 41, "bad_spans": 3}
    assert all(document.gold is not None for document in documents)
    first = next(d for d in documents if d.source_id == "31971762-f14e-4d55-b909-0370f6e4db19")
    assert [(first.text[g.start : g.end], g.label) for g in first.gold][:3] == [
        ("viswa", "name"),
        ("mumbai", "departure_city"),
        ("chennai", "arrival_city"),
    ]


@pytest.mark.slow
def test_e2e():
    documents, rejected = read("e2e/*.csv", "e2e")
    assert not rejected
    assert folds(documents) == {"valid": 4_672, "test": 4_693}
    meanings = {fold: {d.text.split(" || ")[0] for d in documents if d.fold == fold} for fold in ("valid", "test")}
    assert {fold: len(found) for fold, found in meanings.items()} == {"valid": 547, "test": 630}
    assert folds(read("e2e/*.jsonl", "e2e")[0]) == {"train": 42_061, "valid": 4_672}


@pytest.mark.slow
def test_sst_2():
    documents, rejected = read("sst2/*.*sv", "glue")
    assert not rejected
    assert folds(documents) == {"train": 67_349, "test": 1_821}
    assert {document.label for document in documents} == {"0", "1"}
    assert folds(read("sst2/dev.jsonl", "glue")[0]) == {"valid": 872}


def test_customersim():
    documents, rejected = read("customersim/*.jsonl", "dialogue")
    assert not rejected
    assert folds(documents) == {"train": 10_000, "valid": 1_000, "test": 1_000}
    turns = Counter()
    for document in documents:
        turns[document.fold] += len(document.text.splitlines())
    assert turns == {"train": 85_199, "valid": 8_500, "test": 8_534}


def test_presidio_research():
    documents, rejected = read("presidio_research/*.json", "json", text_field="full_text")
    assert not rejected
    assert len(documents) == 1_500
    assert sum(len(document.gold) for document in documents) > 1_000
