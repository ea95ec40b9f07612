"""`train.when`: nights that prepare text and leave model, tables and report as they are."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from increment import drive
from looked_at import EVERYTHING, finished_run
from support.patches import Patch

from flows.commands.ledger import ledger_document, ledger_text
from flows.commands.plan import plan_document, plan_text, run_text
from flows.running.spec import RELEASED, open_store
from pipelines.corpus.customersim import simulate
from pipelines.errors import ConfigError
from pipelines.settings.loading import load_settings
from pipelines.store.objects import runs
from pipelines.store.upkeep import training_schedule as due
from pipelines.store.upkeep.maintenance import gc
from pipelines.store.upkeep.training_schedule import changed_share

WHEN = "RETICENT__TRAIN__WHEN"


def piece(digest: str, size: int, kind: str = "txt") -> dict[str, Any]:
    return {"digest": digest, "format": kind, "start_byte": 10, "end_byte": 10 + size}


def add_text(config: Path, name: str) -> None:
    rows = [row | {"domain": "post"} for row in simulate(3, 7, "A")]
    path = config.parent / "corpus" / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row | {"id": f"{name}-{row['id']}"}) + "\n" for row in rows))


def public_files(config: Path) -> dict[str, bytes]:
    root = config.parent / "reticent-store" / "public"
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_night_in_between_prepares_and_leaves_what_is_published(project: Path) -> None:
    roots = open_store(load_settings(project, {}))
    trained, published, ledger = runs.latest(roots), public_files(project), ledger_document(project, {})
    assert trained is not None
    add_text(project, "night-77")
    environ = {WHEN: "{nights = 7, changed = 0.9}"}

    plan = plan_document(project, environ, read=True)
    assert not {row["stage"] for row in plan["stages"]} & {"train", "report", "publish", "guarantee"}
    assert "0 of 7 nights have passed" in plan_text(plan)
    audited = plan_document(project, {**environ, "RETICENT__AUDIT__ENABLED": "true"}, read=True)
    assert audited["stages"] == plan["stages"]  # nor is a model trained for the audit
    outcomes = drive(project, EVERYTHING, **environ)

    assert {o.stage for o in outcomes if o.state == "completed"} >= {"split", "redact", "shard"}
    assert not {o.stage for o in outcomes if o.state == "completed"} & set(RELEASED)
    assert public_files(project) == published
    now = runs.latest(roots)
    assert now is not None
    assert (now["trained_by"], now["run_id"] > trained["run_id"]) == (trained["run_id"], True)
    assert runs.key_in(now, "train") == runs.key_in(trained, "train")
    assert runs.key_in(now, "report") == runs.key_in(trained, "report")
    assert "no training this time" in run_text(now)
    assert "num_sentences" not in now["metrics"]  # the release's, which are of other text
    assert {name: now["outputs"][name] for name in ("model", "report")} == {
        name: roots.shown_here(trained["outputs"])[name]
        for name in ("model", "report")  # the project is a copy
    }
    assert ledger_document(project, {})["tables"] == ledger["tables"]  # no table left the house
    assert ledger_document(project, {})["releases"] == ledger["releases"]


@pytest.mark.slow
def test_it_trains_when_the_nights_have_passed(project: Path, patch: Patch) -> None:
    add_text(project, "night-77")
    environ = {WHEN: "{nights = 7}"}
    drive(project, EVERYTHING, **environ)
    roots = open_store(load_settings(project, environ))
    gc(roots, keep_runs=1, dry_run=False)  # what the run that trained had seen is still known
    assert plan_document(project, environ, read=True)["training_waits"] is not None

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=days)

    patch.constant(due, "datetime", Later)
    days = 6
    assert plan_document(project, environ, read=True)["training_waits"]["nights"] == 6
    days = 7
    assert plan_document(project, environ, read=True)["training_waits"] is None
    states = {o.stage: o.state for o in drive(project, EVERYTHING, **environ)}
    assert (states["train"], states["report"]) == ("completed", "completed")
    record = runs.latest(roots)
    assert record is not None
    assert record["trained_by"] is None


def test_it_trains_when_enough_has_changed(project: Path) -> None:
    environ = {WHEN: "{nights = 400, changed = 0.3}"}
    add_text(project, "night-77")
    waits = plan_document(project, environ, read=True)["training_waits"]
    assert 0 < waits["changed"] < 0.3
    (project.parent / "corpus" / "night-00.jsonl").unlink()
    assert plan_document(project, environ, read=True)["training_waits"] is None


@pytest.mark.parametrize("named", [{"forced": ("train",)}, {"selected": ("train", "evaluate")}])
def test_who_asks_for_a_training_gets_one(project: Path, named: dict[str, Any]) -> None:
    add_text(project, "night-77")
    assert plan_document(project, {WHEN: "{nights = 7}"}, read=True, **named)["training_waits"] is None


def test_a_run_of_one_stage_does_not_bring_training_forward(project: Path) -> None:
    add_text(project, "night-77")
    drive(project, ("split",))
    assert plan_document(project, {WHEN: "{nights = 7}"}, read=True)["training_waits"] is not None


def test_the_first_run_trains(tmp_path: Path) -> None:
    shutil.copytree(finished_run().parent / "corpus", tmp_path / "corpus")
    shutil.copy(finished_run(), tmp_path / "reticent.toml")
    shutil.copy(finished_run().parent / "secret", tmp_path / "secret")
    assert plan_document(tmp_path / "reticent.toml", {WHEN: "{nights = 7}"}, read=True)["training_waits"] is None


@pytest.mark.slow
def test_plan_and_ledger_say_how_long_the_budget_lasts(project: Path) -> None:
    environ = {WHEN: "{nights = 7}", "RETICENT__GUARANTEE__BUDGET_EPSILON": "8"}
    document = ledger_document(project, environ)
    (group,) = document["groups"]
    (alone,) = (r["epsilon"] for r in document["releases"])
    # Twice the queries cost less than twice epsilon, and more than the square root of two times epsilon.
    assert (8 / alone) - 1 <= group["num_more"] <= (8 / alone) ** 2 - 1
    said = f"{group['num_more'] * 7} nights, one training every 7"
    assert said in ledger_text(document)
    assert said in plan_text(plan_document(project, environ, read=True))
    short = ledger_document(project, {**environ, "RETICENT__GUARANTEE__BUDGET_EPSILON": f"{alone * 1.01}"})
    assert short["groups"][0]["num_more"] == 0


@pytest.mark.parametrize("value", ["{}", "{nights = 0}", "{changed = 1.5}", "{weeks = 1}", "7"])
def test_what_makes_no_sense_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="when"):
        load_settings(finished_run(), {WHEN: value})


pieces = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 100))


@given(pieces, pieces)
def test_the_share_of_text_that_changed(old: dict[str, int], new: dict[str, int]) -> None:
    before = [piece(digest, size) for digest, size in old.items()]
    after = [piece(digest, size) for digest, size in new.items()]
    share = changed_share(before, after)
    assert 0 <= share <= 1
    assert changed_share(before, before) == 0
    assert changed_share(before, [*before, *after]) <= share
    if before:
        assert changed_share(before, []) == 1
        assert (share == 0) == (old.keys() == new.keys())


def test_the_format_that_changed_most_counts() -> None:
    before = [piece("a", 1_000_000), piece("t", 10, "parquet")]
    assert changed_share(before, [piece("a", 1_000_000), piece("u", 10, "parquet")]) == 1
    assert changed_share(before, [*before, piece("b", 10_000)]) == pytest.approx(0.01)


def test_nights_are_days_of_the_calendar(project: Path) -> None:
    roots, settings = open_store(load_settings(project, {})), load_settings(project, {WHEN: "{nights = 2}"})
    started = runs.started_at(str((runs.latest(roots) or {})["run_id"]))
    assert started is not None
    midnight = datetime.fromisoformat(started).replace(hour=0, minute=0, second=1)
    when: Any = settings.stages["train"]
    for hours, nights in ((23, 0), (24, 1), (47, 1), (48, 2)):
        found = due.last_training(roots, when.when, (), now=midnight.astimezone(UTC) + timedelta(hours=hours))
        assert found is not None
        assert (found.nights, found.is_due) == (nights, nights >= 2)
