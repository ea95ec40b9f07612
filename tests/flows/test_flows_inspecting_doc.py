"""Every block of docs/inspecting.md runs against a real run and gives an answer that is right."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from looked_at import DOMAINS, finished_run
from support import REPOSITORY

PAGE = REPOSITORY / "docs" / "inspecting.md"


@pytest.fixture(scope="module")
def project() -> Path:
    return finished_run().parent


@pytest.fixture(scope="module")
def answers(project: Path) -> dict[int, pl.DataFrame]:
    """Runs the page from top to bottom, as a reader would, and keeps each question's answer."""
    found: dict[int, pl.DataFrame] = {}
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        for part in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE):
            for block in re.findall(r"^```python\n(.*?)^```", part, flags=re.MULTILINE | re.DOTALL):
                exec(compile(block, f"{PAGE.name}: {part.splitlines()[0]}", "exec"), names)
                if number := re.match(r"(\d+)\. ", part):
                    found[int(number[1])] = names["answer"]
    return found


def figures(project: Path, stage: str) -> list[dict[str, Any]]:
    return [json.loads(p.read_text()) for p in project.glob(f"reticent-store/private/objects/{stage}/*/figures.json")]


def test_ten_questions_are_answered(answers: dict[int, pl.DataFrame]) -> None:
    assert sorted(answers) == list(range(1, 11))
    assert all(len(frame) > 0 for frame in answers.values())


def test_masks_by_label_are_those_of_the_figures(answers: dict[int, pl.DataFrame], project: Path) -> None:
    counted: dict[str, int] = {}
    for part in figures(project, "redact"):
        for label, count in part["spans_by_label"].items():
            counted[label] = counted.get(label, 0) + count
    told = answers[1].group_by("label").agg(pl.col("spans").sum())
    assert dict(told.iter_rows()) == counted
    assert answers[1]["share"].is_between(0, 1, closed="none").all()


def test_documents_with_most_masks(answers: dict[int, pl.DataFrame]) -> None:
    frame = answers[2]
    assert len(frame) == 10
    assert frame["masked"].is_sorted(descending=True)
    assert frame["masked"][0] > 3
    assert set(frame["source_file"]) <= {f"night-{n:02d}.jsonl" for n in range(3)}


def test_flagged_without_a_mask(answers: dict[int, pl.DataFrame]) -> None:
    assert not answers[3]["redacted_text"].str.contains("<MASK>", literal=True).any()
    assert answers[3]["fold"].is_in(["train", "valid", "test"]).all()


def test_duplicates_and_rejected_rows(answers: dict[int, pl.DataFrame], project: Path) -> None:
    assert answers[4]["duplicates"].sum() == sum(f["num_duplicates"] for f in figures(project, "redact"))
    assert answers[4]["most_occurrences"].min() >= 2
    assert answers[5]["rows"].sum() == 2
    assert answers[5]["files"].to_list() == [1] * len(answers[5])


def test_public_share_per_domain(answers: dict[int, pl.DataFrame], project: Path) -> None:
    frame = answers[6]
    assert frame["domain"].to_list() == list(DOMAINS)
    assert frame["public_rows"].is_between(0, 1, closed="none").all()
    shards = figures(project, "shard")
    assert round((frame["rows"] * frame["public_rows"]).sum()) == sum(f["num_public"] for f in shards)


def test_longest_public_rows(answers: dict[int, pl.DataFrame]) -> None:
    assert answers[7]["num_tokens"].is_sorted(descending=True)
    assert answers[7]["num_tokens"][0] >= 8
    assert not answers[7]["redacted_text"].str.contains("<MASK>", literal=True).any()


def test_what_was_masked_holds_the_simulated_secrets(answers: dict[int, pl.DataFrame], project: Path) -> None:
    secrets = set()
    for path in (project / "corpus").glob("*.jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line) if line.startswith("{") else {}
            secrets |= {row["text"][s["start"] : s["end"]] for s in row.get("spans", ())}
    assert len(secrets & set(answers[8]["masked"])) > 20


def test_a_census_is_like_the_population(answers: dict[int, pl.DataFrame]) -> None:
    population, sample = answers[9].drop("of").rows()
    assert population == pytest.approx(sample)
    assert 0 < sample[2] < 1


def test_missed_secrets_are_those_of_the_estimate(answers: dict[int, pl.DataFrame], project: Path) -> None:
    (estimate,) = figures(project, "estimate")
    told = {label: counts for label, *counts, _ in answers[10].iter_rows()}
    counts = ("num_secret_spans", "num_missed_spans", "num_unmasked_spans")
    assert told == {label: [found[name] for name in counts] for label, found in estimate["by_label"].items()}
    assert answers[10]["missed"].sum() > answers[10]["unmasked"].sum() > 0
