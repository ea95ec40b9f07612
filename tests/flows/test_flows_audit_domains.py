"""The attack across domains as stages of an audit: what it is refused for, how it trains, and what it finds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from support.contexts import artifact, stage_context
from support.memorised import trained_on
from support.patches import Patch
from support.project import reticent
from support.shared_server import shared_server
from support.tables import write_rows
from support.waiting import start, wait_for
from test_flows_audit import SMALL

from flows.commands.plan import plan_document
from flows.commands.run import requested, run_job
from flows.running.spec import AUDIT
from pipelines.artifacts import Source, Target
from pipelines.errors import ConfigError
from pipelines.settings.loading import load_settings
from pipelines.stages.audit import domain_models as audit_domain_models
from pipelines.stages.audit import domains as audit_domains
from pipelines.stages.audit import training as audit_training
from pipelines.stages.audit.training import train_each_without
from pipelines.training.encoded import Record

KEYWORDS = 'keywords = {travel = ["seat"], media = ["cable"]}\n'
POLICY = f'policies = ["keywords"]\n{KEYWORDS}'
ON = {name: value for name, value in SMALL.items() if not name.endswith("ENABLED")} | {
    "RETICENT__AUDIT__DOMAINS": "true",
    "RETICENT__AUDIT__NUM_PUBLIC_CANARIES": "0",  # no conservative policy, so no public rows
    "RETICENT__AUDIT__DOMAIN_PROMPTS": "4",
    "RETICENT__AUDIT__DOMAIN_GENERATIONS": "2",
}
SAID = {"travel": "i want to have my seat", "media": "i want to have cable"}


def project(
    folder: Path, *, domains: tuple[str, ...] = ("travel", "media"), redact: str = POLICY, train: str = "", num: int = 4
) -> Path:
    rows = [
        {"text": f"USR: {SAID.get(d, 'hello')} number {n}\nSYS: here you are", "domain": d, "id": f"{d}{n}", "fold": f}
        for f, many in (("train", num), ("test", 3))
        for d in domains
        for n in range(many)
    ]
    folder.mkdir(exist_ok=True)
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = folder / "reticent.toml"
    config.write_text(
        f'[corpus]\ninputs = ["corpus.jsonl"]\n[split]\nmode = "turns"\n[redact]\n{redact}[gate]\nenabled = false\n'
        '[estimate]\nsource = "none"\n[train]\nnum_layers = 1\nnum_heads = 2\nembedding_size = 32\n'
        f"context_length = 96\nepochs = 2\nexpected_batch_size = 8\n{train}"
    )
    return config


def planned(config: Path, **more: str) -> dict[str, str]:
    plan = plan_document(config, {**ON, "RETICENT__AUDIT__ENABLED": "true", **more}, read=True)
    return {row["step"]: row["action"] for row in plan["stages"] if row["stage"] == "audit"}


@pytest.mark.slow
def test_the_stages_are_planned_only_if_they_are_asked_for(tmp_path: Path) -> None:
    config = project(tmp_path)
    assert planned(config).keys() >= {"domain_models", "domains", "model", None}
    off = planned(config, RETICENT__AUDIT__DOMAINS="false", RETICENT__AUDIT__NUM_SECRETS="0")
    assert "model" in off
    assert not off.keys() & {"domain_models", "domains", "secrets"}
    assert "secrets" in planned(config, RETICENT__AUDIT__NUM_SECRETS="10")
    assert not planned(config, RETICENT__AUDIT__ENABLED="false")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"redact": 'policies = ["identifiers"]\n'}, r"redact\.policies has none"),
        ({"domains": ("travel",)}, "the training text has 1"),
        ({"domains": ("travel", "food")}, "the training text has 1"),
        ({"domains": ("travel", "Travel")}, "same label"),
        ({"redact": f'{POLICY}conservative = "identifiers"\n'}, r"train\.tokenizer = \"bytes\""),
        ({"train": 'task = "table_to_text"\nmethod = "no_dp"\n'}, "task table_to_text"),
    ],
)
def test_what_it_cannot_be_run_on_is_refused_before_anything_runs(
    tmp_path: Path, given: dict[str, Any], told: str
) -> None:
    config = project(tmp_path, **given)
    with pytest.raises(ConfigError, match=told) as refused:
        planned(config)
    assert not any(word in str(refused.value) for word in ("seat", "cable", "hello"))
    planned(config, RETICENT__AUDIT__DOMAINS="false")


def test_forcing_the_audit_forces_the_stages_that_the_settings_ask_for(tmp_path: Path) -> None:
    """Guards `reticent audit --force audit`, which was refused wherever domains are not attacked."""
    config, enabled = project(tmp_path), {"RETICENT__AUDIT__ENABLED": "true"}
    optional = {"audit_domain_models", "audit_domains", "audit_secrets"}
    for environment, missing in ((enabled, optional), ({**enabled, **ON}, set())):
        _, forced = requested(None, None, ["audit"], load_settings(config, environment))
        assert set(forced) == set(AUDIT) - missing
        plan = plan_document(config, environment, read=True, forced=forced)
        assert {row["action"] for row in plan["stages"] if row["stage"] == "audit"} <= {"run", "maybe"}
    for name, told in (
        ("audit.domains", "audit.domains is left out of runs"),
        ("audit.exposure", r"no stage audit.exposure; the stages of audit are audit.model, audit.membership"),
        ("atack", "no stage atack; the stages are split, dedup"),
    ):
        with pytest.raises(ConfigError, match=told):
            run_job(config, from_stage=None, only=None, force=[name], verify=None, environ=enabled)


def test_bytes_make_public_rows_of_a_domain_no_matter(tmp_path: Path) -> None:
    redact = f'{POLICY}conservative = "identifiers"\n'
    assert "domains" in planned(project(tmp_path, redact=redact, train='tokenizer = "bytes"\n'))


def test_a_finished_reference_is_not_trained_again(tmp_path: Path, patch: Patch) -> None:
    asked: list[Any] = []

    def trained(ctx: Any, work: Target, rows: Any, excluded: Any) -> tuple[Source, Source]:
        asked.append(excluded)
        if len(asked) == 2:
            raise KeyboardInterrupt
        made = work.below("made")
        made.text("weights", f"{excluded}, attempt {len(asked)}")
        return Source(folder=made.folder), Source(folder=made.folder)

    patch(audit_training, "_trained", trained)
    wanted = {"reference-0": [("a", None)], "reference-1": [("b", None)]}
    scratch = tmp_path / "scratch"
    with pytest.raises(KeyboardInterrupt):
        train_each_without(stage_context("audit_domain_models", tmp_path / "first", {}, scratch=scratch), wanted)
    ctx = stage_context("audit_domain_models", tmp_path / "second", {}, scratch=scratch)
    train_each_without(ctx, wanted)
    assert asked == [[("a", None)], [("b", None)], [("b", None)]]
    assert [(ctx.out.folder / name / "weights").read_text() for name in wanted] == [
        "[('a', None)], attempt 1",
        "[('b', None)], attempt 3",
    ]


def _split(folder: Path, *rows: tuple[str, str, str]) -> Path:
    sentences = (
        {"doc_id": f"d{number}", "text": text, "token_ends": [len(text)], "domain": domain, "fold": fold}
        for number, (domain, fold, text) in enumerate(rows)
    )
    write_rows(folder / "sentences.parquet", "sentences", sentences, speaker="USR")
    return folder


def test_each_reference_is_trained_without_the_documents_of_its_domain(tmp_path: Path, patch: Patch) -> None:
    configs = load_settings(project(tmp_path), ON).stages
    rows = [("media", "train", "a"), ("travel", "train", "b"), ("travel", "test", "c"), ("food", "train", "d")]
    inputs = {"split": _split(tmp_path, *rows)}
    given: dict[str, Any] = {}
    patch(audit_domain_models, "train_each_without", lambda ctx, excluded: given.update(excluded))
    ctx = stage_context("audit_domain_models", tmp_path / "out", configs, inputs)
    assert audit_domain_models.run(ctx) == {"num_models": 2}  # no policy knows food
    assert given == {"reference-0": [("d0", None)], "reference-1": [("d1", None)]}
    assert pl.read_parquet(tmp_path / "out/references.parquet")["domain"].to_list() == ["media", "travel"]


def test_the_stage_tells_rates_and_c_of_every_ordered_pair_and_no_text(tmp_path: Path, patch: Patch) -> None:
    both, *single = ([Record(texts=[SAID[d]], speakers=["USR"]) for d in ds] for ds in (SAID, ["media"], ["travel"]))
    models = {"train": trained_on(both, 60), "reference-1": trained_on(single[0], 40)}
    models["reference-0"] = trained_on(single[1], 40)
    patch(audit_domains, "open_audited", lambda ctx, stage: models[stage])
    patch(audit_domains, "open_reference", lambda ctx, stage, folder: models[folder])
    references = Target(folder=tmp_path / "references")
    references.folder.mkdir()
    with references.table(audit_domain_models.REFERENCES) as writer:
        for number, domain in enumerate(("media", "travel")):
            writer.append(domain=domain, folder=f"reference-{number}")
    held_out = [(domain, "test", f"i want to have {n}") for domain in SAID for n in "abcde"]
    configs = {**load_settings(project(tmp_path), {**ON, "RETICENT__AUDIT__MAX_NEW_TOKENS": "16"}).stages}
    newer = replace(artifact("audit_domain_models", references.folder), recipe={"engine": 2})
    inputs = {"split": _split(tmp_path, *held_out), "audit_domain_models": newer, "train": tmp_path}
    ctx = stage_context("audit_domains", tmp_path / "out", configs, inputs)
    assert audit_domains.run(ctx) == {"num_pairs": 2, "num_prompts": 8}
    found = json.loads((tmp_path / "out/domains.json").read_text())
    assert (found["policies"], found["num_prompts"]) == (["keywords"], {"media": 4, "travel": 4})
    assert [(pair["prompts"], pair["leaked"]) for pair in found["pairs"]] == [("media", "travel"), ("travel", "media")]
    assert any(pair["rate"]["num_hits"] for pair in found["pairs"])
    assert not any(pair["rate_reference"]["num_hits"] for pair in found["pairs"])
    assert found["c"]["value"] is None  # no reference leaked
    assert "(engine 1 → 2)" in found["other_recipe"]
    assert not any(word in json.dumps(found) for word in ("seat", "cable", "want"))


def test_a_domain_without_held_out_conversations_is_refused(tmp_path: Path) -> None:
    configs = load_settings(project(tmp_path), ON).stages
    ctx = SimpleNamespace(configs=configs, inputs={"split": ()})
    with pytest.raises(ConfigError, match="held-out conversation"):
        audit_domains._prompts(ctx, "media", None, [])


@pytest.mark.slow
def test_an_audit_across_domains_goes_on_between_two_trainings_that_were_killed(tmp_path: Path) -> None:
    config = project(tmp_path / "job", train='task = "dialogue"\nspeakers = ["SYS", "USR"]\n', num=24)
    process = start("audit", config, cwd=tmp_path, **ON, **shared_server())
    private = config.parent / "reticent-store/private"
    trained_once = lambda: list(private.glob("work/*/*/reference-0/done.json"))  # noqa: E731
    done = wait_for("a reference", trained_once, 480, process=process, pause=0.01)
    process.kill()
    process.wait()
    trained = (done[0].parent / "model/model.safetensors").read_bytes()

    again = reticent("audit", config, "--json", cwd=tmp_path, timeout=480, **ON, **shared_server())
    assert again.returncode == 0, again.stderr
    document = json.loads(again.stdout.splitlines()[-1])
    assert {(pair["prompts"], pair["leaked"]) for pair in document["domains"]["pairs"]} == {
        ("media", "travel"),
        ("travel", "media"),
    }
    (weights,) = private.glob("objects/audit_domain_models/*/reference-0/model.safetensors")
    assert weights.read_bytes() == trained  # another training would have drawn other noise
    assert "Leaks of one domain" in Path(document["outputs"]["report"]).read_text()
    public = config.parent / "reticent-store/public"
    assert "Leaks of one domain" not in (public / "latest/public_report/report.html").read_text()
    assert not any(path.name.startswith("audit") for path in (public / "objects").iterdir())
    told = reticent("audit", config, cwd=tmp_path, **ON, **shared_server())
    assert "leaks of another domain" in told.stdout
