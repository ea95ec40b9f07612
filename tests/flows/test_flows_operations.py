"""`reticent doctor` and `reticent metrics`: what they see, and what they must not say."""

from __future__ import annotations

import json
import re
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from increment import drive
from looked_at import EVERYTHING, finished_run
from prometheus_client.parser import text_string_to_metric_families
from support.patches import Patch
from support.project import reticent

from flows.commands import doctor
from flows.commands.doctor import doctor_document, doctor_text
from flows.commands.ledger import ledger_document, ledger_text
from flows.commands.metrics import metrics_text, write_metrics
from flows.commands.plan import plan_document
from flows.running.spec import begin, open_store
from pipelines.errors import ConfigError, PrivacyGateError
from pipelines.settings.loading import load_settings
from pipelines.store.objects import runs
from pipelines.store.place import file_system


def gauges(config: Path) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(metrics_text(config, {})):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def states(config: Path, environ: dict[str, str] | None = None) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in doctor_document(config, environ or {})["checks"]:
        found.setdefault(row["name"], set()).add(row["state"])
    return found


def test_metrics_are_the_last_runs_figures() -> None:
    record: Any = runs.latest(open_store(load_settings(finished_run(), {})))
    found = gauges(finished_run())
    figures = record["metrics"]
    assert found["reticent_last_run_success"] == {(): 1}
    assert found["reticent_sentences"] == {(): figures["num_sentences"]}
    assert found["reticent_epsilon"] == {(): figures["epsilon"]}
    assert found["reticent_last_completed_timestamp_seconds"] == {(): record["finished"]}
    assert found["reticent_stage_partitions"][("redact", "completed")] == 4
    assert found["reticent_audit_alarm"] == {(): 0}
    assert {name for (name,) in found["reticent_stage_seconds"]} >= {"train", "train.evaluate", "dedup.keys"}
    unmeasured = {name for name, value in figures.items() if value is None}
    assert not {f"reticent_{name}" for name in unmeasured} & found.keys()


def test_metrics_name_no_file_and_no_partition() -> None:
    text = metrics_text(finished_run(), {})
    assert "night-" not in text
    assert str(finished_run().parent) not in text
    record: Any = runs.latest(open_store(load_settings(finished_run(), {})))
    named = {name for _, partition, key in record["artifacts"] for name in (partition, key) if name}
    assert len(named) > 10
    assert not any(name in text for name in named)


def test_metrics_are_written_in_one_step_and_not_for_everybody(tmp_path: Path) -> None:
    write_metrics("a 1\n", tmp_path / "reticent.prom")
    assert [path.name for path in tmp_path.iterdir()] == ["reticent.prom"]
    assert (tmp_path / "reticent.prom").stat().st_mode & 0o777 == 0o640
    with pytest.raises(ConfigError, match="its folder must exist"):
        write_metrics("a 1\n", tmp_path / "none" / "reticent.prom")


def test_nothing_has_run_yet(tmp_path: Path) -> None:
    (tmp_path / "reticent.toml").write_text('[corpus]\ninputs = ["."]\n')
    with pytest.raises(ConfigError, match="no run has ended yet"):
        metrics_text(tmp_path / "reticent.toml", {})
    assert not (tmp_path / "reticent-store").exists()
    assert states(tmp_path / "reticent.toml")["store"] == {"ok"}
    assert not (tmp_path / "reticent-store").exists()


def test_a_sound_installation() -> None:
    document = doctor_document(finished_run(), {})
    assert document["num_failed"] == 0, doctor_text(document)
    assert {row["name"] for row in document["checks"]} >= {"python", "packages", "settings", "store", "disk", "server"}
    assert not list(finished_run().parent.rglob(".probe-*"))


def test_what_is_missing_is_named(patch: Patch) -> None:
    required = [*(metadata.requires("reticent") or ()), "no-such-thing>=1", "pyarrow<1"]
    patch(doctor.metadata, "requires", lambda name: required)
    (told,) = [row for row in doctor_document(finished_run(), {})["checks"] if row["name"] == "packages"]
    assert told["state"] == "failed"
    assert "no-such-thing is missing" in told["text"]
    assert f"pyarrow is {metadata.version('pyarrow')}, but <1 is needed" in told["text"]


def test_settings_that_a_late_stage_would_refuse() -> None:
    environ = {"RETICENT__REDACT__POLICIES": '["no_such_package.policies:Policy"]'}
    assert states(finished_run(), environ)["settings"] == {"failed"}


def test_a_device_that_is_not_there() -> None:
    import torch

    expected = "ok" if torch.cuda.is_available() else "failed"
    assert states(finished_run(), {"RETICENT__RUNTIME__DEVICE": "cuda"})["device"] == {expected}


def test_a_damaged_ledger_and_a_record_that_was_edited(project: Path) -> None:
    store = project.parent / "reticent-store" / "private"
    record = next(store.glob("runs/*/record.json"))
    record.write_text(record.read_text().replace('"completed"', '"Completed"', 1))
    assert "failed" in states(project)["store"]
    (ledger,) = store.glob("ledger/*.jsonl")
    ledger.write_text(ledger.read_text().replace('"epsilon":', '"epsilom":', 1))
    assert "failed" in states(project)["store"]


def test_a_disk_without_locks(patch: Patch, project: Path) -> None:
    patch(file_system.fcntl, "flock", lambda *_: None)  # as some network disks answer
    (told,) = [row for row in doctor_document(project, {})["checks"] if "flock" in row["text"]]
    assert told["state"] == "failed"


@pytest.mark.slow
def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    done = reticent("doctor", finished_run(), cwd=tmp_path, PREFECT_API_URL="http://127.0.0.1:9/api")
    assert done.returncode == 5
    assert re.search(r"failed +server", done.stdout)


def test_a_store_that_was_copied_goes_on_once_the_first_one_is_retired(project: Path, tmp_path: Path) -> None:
    """Back-up and restore: with the same secret, ledger and artifacts, nothing is built again, and one trains."""
    begin(project, {})
    shutil.copytree(project.parent, tmp_path / "restored", symlinks=True)
    restored = tmp_path / "restored" / "reticent.toml"
    assert ledger_document(restored, {}) == ledger_document(project, {})
    (told,) = plan_document(restored, {}, read=True)["warnings"]
    assert "is a copy" in told
    assert "failed" in states(restored)["store"]
    with pytest.raises(PrivacyGateError, match="is a copy"):
        drive(restored, EVERYTHING)

    proof = json.loads(reticent("retire", project, "--json", cwd=tmp_path).stdout)["proof"]
    done = reticent("ledger", restored, "--retired", proof, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "failed" not in states(restored)["store"]
    assert {o.state for o in drive(restored, EVERYTHING)} == {"cached"}
    with pytest.raises(PrivacyGateError, match="was retired"):
        begin(project, {})


@pytest.mark.slow
def test_two_copies_that_may_both_spend_stand_in_the_ledger_and_in_every_claim(project: Path, tmp_path: Path) -> None:
    done = reticent("ledger", project, "--acknowledge-copy", "a second site", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a second site" in ledger_text(ledger_document(project, {}))
    states = {o.stage: o.state for o in drive(project, EVERYTHING)}
    assert {stage for stage, state in states.items() if state == "completed"} == {"guarantee", "report"}
    roots = open_store(load_settings(project, {}))
    found = roots.private_files("guarantee", runs.key_in(runs.latest(roots), "guarantee") or "").json("claims.json")
    for claims in (found["claims"], found["public"]["claims"]):
        assert claims
        assert all(any("the copy released nothing" in text for text in claim["assumptions"]) for claim in claims)
    assert "a second site" not in json.dumps(found)
