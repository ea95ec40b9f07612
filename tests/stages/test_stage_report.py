"""The report stage on files in two roots: what it reads, writes and returns, and that the bytes are repeatable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support import TESTS
from support.contexts import artifact, stage_context
from support.imports import loaded_after

from pipelines.artifacts import Artifact
from pipelines.context import StageContext
from pipelines.graph import GRAPH
from pipelines.settings.corpus import CorpusConfig
from pipelines.settings.redact import RedactConfig
from pipelines.settings.report import ReportConfig
from pipelines.settings.tables import config_class
from pipelines.settings.train import TrainConfig
from pipelines.stage import OUTSIDE
from pipelines.stages.train import report
from pipelines.training.scoring.evaluation import Evaluation
from pipelines.training.scoring.figures import figures_document

SOURCES = TESTS / "report" / "sources.json"
SECRET = "ACME-4711"
PARTITIONS = ("0f" * 8, "a7" * 8)


def _artifacts(root: Path) -> dict[str, tuple[Artifact, ...]]:
    files: dict[str, Any] = json.loads(SOURCES.read_text("utf-8"))
    claims = files.pop("claims")
    scored = (
        figures_document(Evaluation(reason=""), {}, evaluate_fold="", num_available=0).keys() & files["train"].keys()
    )
    inputs: dict[str, tuple[Artifact, ...]] = {}
    contents = {
        "split": [{"figures": part} for part in files["split"]],
        "dedup_resolve": [{"figures": files["dedup"]}],
        "redact": [{"figures": part} for part in files["redact"]],
        "estimate": [{"figures": files["estimate"]}],
        "shard": [{"figures": part} for part in files["shard"]],
        "train": [{"figures": files["train"], "events": files["events"], "curves": files["curves"]}],
        "evaluate": [{"figures": {name: files["train"].pop(name) for name in scored}}],
        "train_utility": [{"figures": files["utility"]}],
        "guarantee": [{"claims": {**claims, "public": claims}}],
        "gate": [{"held_by_label": {"ACME": 3, "PERSON": 20}}],
        "synthesize": [{"synthetic": files["synthetic"]}],
        "synthesize_check": [{"check": files["synthetic_check"]}],
    }
    for stage, parts in contents.items():
        artifacts = []
        for index, documents in enumerate(parts):
            partition = PARTITIONS[index] if GRAPH[stage].partitioned else None
            folder = root / stage / str(index)
            folder.mkdir(parents=True)
            for name, document in documents.items():
                (folder / f"{name}.json").write_text(json.dumps(document), "utf-8")
            key = f"{len(inputs):02x}{index:02x}" * 16
            artifacts.append(artifact(stage, folder, partition, key=key))
        inputs[stage] = tuple(artifacts)
    return inputs


def _context(root: Path, **settings: Any) -> StageContext:
    configs = {name: config_class(reference)() for name, reference in GRAPH["report"].configs.items()}
    configs |= {
        "corpus": CorpusConfig(inputs=(f"/data/{SECRET}",)),
        "redact": RedactConfig(policies=("regex",), patterns={"ACME": f"{SECRET}[0-9]"}),
        "train": TrainConfig(speakers=(SECRET,)),
        "report": ReportConfig(**settings),
    }
    inputs = _artifacts(root / "inputs")
    return stage_context("report", root / "private", configs, inputs, public_folder=root / "public")


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_inputs_here_are_those_of_the_graph(tmp_path: Path) -> None:
    """But for what no stage made, and for the audit, which most runs lack."""
    read = [edge.stage for edge in GRAPH["report"].inputs if edge.stage not in (*OUTSIDE, "audit")]
    assert list(_artifacts(tmp_path)) == read


def test_both_versions_are_written_each_in_its_root(tmp_path: Path) -> None:
    context = _context(tmp_path, title="Ours")
    returned = report.run(context)
    private, public = _contents(tmp_path / "private"), _contents(tmp_path / "public")
    assert set(private) == {"report.html", "report.json"}
    assert set(public) == {*private, "model_card.md", "data_card.md"}
    full = json.loads(private["report.json"])
    assert full["shards"]["num_held_by_label"] == {"ACME": 3, "PERSON": 20}
    assert b"masked as ACME" in private["report.html"]
    assert not any(b"held_by_label" in data or b"masked as" in data for data in public.values())
    shown = json.loads(public["report.json"])
    assert (full["version"], shown["version"]) == ("full", "public")
    assert full["title"] == shown["title"] == "Ours"
    assert returned["metrics"] == full["metrics"]
    assert full["metrics"]["num_private"] == 5302
    assert b"5302" not in public["report.json"]
    assert b"5,302" not in public["report.html"]
    assert b"5,302" in private["report.html"]
    assert b"What a policy found" in private["report.html"]
    assert b"What a policy found" not in public["report.html"]
    assert full["training"]["utility"]["groups"]["private"]["num_words"] == 60
    assert "utility" not in shown["training"]


def test_lineage_names_every_artifact_by_a_short_key(tmp_path: Path) -> None:
    context = _context(tmp_path)
    report.run(context)
    full = json.loads((tmp_path / "private" / "report.json").read_text("utf-8"))
    expected = [(a.stage, a.partition, a.key[:12]) for found in context.inputs.values() for a in found]
    assert [(r["stage"], r["partition"], r["key"]) for r in full["lineage"]] == expected
    public = (tmp_path / "public" / "report.json").read_text("utf-8")
    assert all(name not in public for name in PARTITIONS)


def test_the_bytes_depend_on_the_inputs_only(tmp_path: Path) -> None:
    for name in ("first", "second"):
        report.run(_context(tmp_path / name))
    for root in ("private", "public"):
        assert _contents(tmp_path / "first" / root) == _contents(tmp_path / "second" / root)


def test_unkeyed_settings_leave_the_bytes_alone(tmp_path: Path) -> None:
    one, other = _context(tmp_path / "one"), _context(tmp_path / "other")
    report.run(one)
    changed = CorpusConfig(inputs=("elsewhere",), partition_documents=7)
    assert changed.keyed() == one.configs["corpus"].keyed()
    object.__setattr__(other, "configs", {**other.configs, "corpus": changed})
    report.run(other)
    assert _contents(tmp_path / "one" / "private") == _contents(tmp_path / "other" / "private")


def test_no_setting_that_may_be_a_secret_is_shown(tmp_path: Path) -> None:
    report.run(_context(tmp_path))
    for root in ("private", "public"):
        for name, content in _contents(tmp_path / root).items():
            assert SECRET.encode() not in content, f"{root}/{name}"
    assert b"1 value, not shown" in _contents(tmp_path / "private")["report.html"]


def test_the_public_version_can_be_left_out(tmp_path: Path) -> None:
    report.run(_context(tmp_path, public=False))
    assert _contents(tmp_path / "public") == {}
    assert set(_contents(tmp_path / "private")) == {"report.html", "report.json"}


def test_settings_are_documented_and_strict() -> None:
    assert all(field.description for field in ReportConfig.model_fields.values())
    with pytest.raises(ValidationError, match="Extra inputs"):
        ReportConfig(publik=True)  # type: ignore[call-arg]


def test_importing_the_stage_loads_nothing_heavy() -> None:
    assert not {"jinja2", "numpy", "torch"} & loaded_after("import pipelines.settings.report")
