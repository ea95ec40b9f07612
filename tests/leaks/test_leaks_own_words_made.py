"""The list of our own wording: it is that of the code, no person is in it, and an ordinary run does not stop for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from increment import drive, write_project
from support import TESTS

from flows.own_words import own_words as made
from pipelines.gate.files import Unit, json_units, page_units, units_of
from pipelines.gate.own import OWN_WORDS
from pipelines.gate.own import own_words as known
from pipelines.graph import GRAPH
from pipelines.report.public import public_version
from pipelines.report.render import render_html

LISTED = json.loads(OWN_WORDS.read_text("utf-8"))


@pytest.mark.slow
def test_the_list_is_that_of_the_code() -> None:
    """Every change of public prose changes it; what it says by mistake lets a leaked name pass."""
    found = made()
    new, gone = sorted(set(found) - set(LISTED)), sorted(set(LISTED) - set(found))
    assert found == LISTED, (
        f"what reports and model cards say has changed. Run `make own-words`, look in the diff of {OWN_WORDS.name} for "
        f"names of people, and commit it. New: {new[:5]}, gone: {gone[:5]}"
    )


PRINTED = {"korn", "graubard", "pearson", "li", "box", "long"}
"""In ``korn_graubard`` and ``clopper_pearson``, by which intervals were computed; and in the style sheet."""


def test_no_person_who_is_cited_in_the_source_is_in_it() -> None:
    """Names before a year in brackets, as papers are cited, wherever in the source."""
    files = [file for part in ("pipelines", "flows") for file in (TESTS.parent / part).rglob("*.py")]
    cited = {
        name.lower()
        for file in files
        for names in re.findall(
            r"((?:[A-Z][a-z]+(?:, | and | et al\.)?)+) (?:\((?:19|20)\d\d|(?:19|20)\d\d,)", file.read_text("utf-8")
        )
        for name in re.findall(r"[A-Z][a-z]+", names)
    }
    assert {"dwork", "roth", "su", "li", "elenberg"} <= cited
    people = cited | {"wang", "zhao", "sanders", "shi", "balle"}
    assert people & {word for run in LISTED for word in run.split(" ")} == PRINTED


# --- that it is complete: else a harmless run is stopped, because somebody is called as a heading is ----------------


def foreign(units: Iterator[Unit]) -> set[str]:
    """Words that are not ours."""
    return {word for unit in units for word in known().uncovered(unit.text)}


def said(document: dict[str, Any]) -> Iterator[Unit]:
    yield from json_units(document)
    yield from page_units(render_html(document))


def runs() -> list[str]:
    from support.trainings import RUNS

    return sorted(RUNS)


MADE_UP = {"exact", *("all", "labels", "one", "kind", "of", "secret", "a", "test")}
"""By the tests of claims: a reason for the stability of deduplication, and a distribution with the words before it."""


@pytest.mark.slow
@pytest.mark.parametrize("run", runs())
def test_all_that_the_claims_of_a_method_say_is_ours(run: str) -> None:
    """Every method, refused and issued, with and without a conservative policy, in combinations of the tests' own."""
    from support.trainings import build

    full = json.loads((TESTS / "report/golden/full.json").read_text("utf-8"))
    ours = {**full, "settings": {}, "title": "Privacy and utility report", "training": {}, "warnings": []}
    for clean, stable, conservative in ((False, False, False), (True, True, False), (False, True, True)):
        for seed in (False, True):
            changes = {"insecure_test_seed": seed, "record": "dialogue" if seed else "sentence"}
            claims = [*build(run, clean=clean, stable=stable, conservative=conservative, **changes).values()]
            public = public_version(ours, {"claims": claims, "headline": 0, "accountants": []})
            assert foreign(said(public)) <= MADE_UP, run


# --- of a whole run -------------------------------------------------------------------------------------------------

SMALL = {
    "NUM_LAYERS": "1",
    "NUM_HEADS": "2",
    "EMBEDDING_SIZE": "16",
    "CONTEXT_LENGTH": "32",
    "VOCAB_SIZE": "400",
    "EPOCHS": "1",
    "EXPECTED_BATCH_SIZE": "32",
}
FILLED_IN = {"usr", "sys", "gpt2lmheadmodel"}
"""What a run of the simulator fills in: names of speakers, and of the class of the model."""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["crt", "jft", "dpsgd", "redacted", "redaction_schedule"])
def test_an_ordinary_run_says_nothing_that_is_not_ours(tmp_path: Path, method: str) -> None:
    """Whoever is masked in the corpus and is called as a word of our report is: the run is not stopped for it."""
    config = write_project(tmp_path / "run", 2, 40)
    environment = {f"RETICENT__TRAIN__{name}": value for name, value in SMALL.items()}
    if method != "redacted":
        environment["RETICENT__TRAIN__NOISE_MULTIPLIER"] = "2.0"
    drive(config, tuple(GRAPH), RETICENT__TRAIN__METHOD=method, **environment)
    objects = tmp_path / "run/reticent-store/public/objects"
    files = [path for path in objects.rglob("*") if path.name in ("report.html", "report.json", "README.md")]
    assert {path.suffix for path in files} >= {".html", ".json"}
    (key,) = {json.loads(path.read_text("utf-8"))["signed_by"] for path in files if path.name == "report.json"}
    for path in files:
        assert foreign(units_of(path)) <= FILLED_IN | {key}, path
