"""The audit as stages of a run: what it leaves alone, what it finds, and the alarm that stops a run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from increment import drive
from looked_at import EVERYTHING, finished_run
from support.copies import copied
from support.patches import Patch, patching

import pipelines
from flows.commands import audit as command
from flows.commands.ledger import ledger_document
from flows.commands.plan import plan_document, plan_text
from flows.running import auditing
from flows.running.spec import begin, open_store
from pipelines.attacks.canaries import Canary
from pipelines.attacks.exposure import Rank
from pipelines.attacks.patterns import Pattern
from pipelines.attacks.sequential_test import SequentialTest
from pipelines.errors import ConfigError, PrivacyGateError
from pipelines.settings.loading import load_settings
from pipelines.stages.audit.canaries import Rankings, among_strangers
from pipelines.stages.audit.canary_table import drawn
from pipelines.store.objects import code, runs
from pipelines.store.objects.ledger_lines import locked, read_documents
from pipelines.store.objects.session import open_session
from pipelines.store.place.outcome import Outcome

pytestmark = pytest.mark.slow  # one audit for all of them; CI runs it
ROOT = Path(pipelines.__file__).parents[1]
SMALL = {
    "RETICENT__AUDIT__ENABLED": "true",
    "RETICENT__AUDIT__NUM_MEMBERS": "20",
    "RETICENT__AUDIT__NUM_CANARIES": "12",
    "RETICENT__AUDIT__NUM_PUBLIC_CANARIES": "8",
    "RETICENT__AUDIT__CANDIDATES": "200",
    "RETICENT__AUDIT__NUM_PROMPTS": "4",
    "RETICENT__AUDIT__NUM_GENERATIONS": "1",
    "RETICENT__AUDIT__MAX_NEW_TOKENS": "8",
    "RETICENT__AUDIT__NUM_TRIALS": "100",
    "RETICENT__AUDIT__NUM_SECRETS": "50",
}
STAGES = {"audit_model", "audit_membership", "audit_extraction", "audit_canaries", "audit_secrets", "audit"}


def _audited(folder: Path) -> None:
    copied(finished_run().parent, folder / "project")
    config = folder / "project" / "reticent.toml"
    drive(config, EVERYTHING)  # the copy is a store of its own
    before = _public(config)
    outcomes = drive(config, EVERYTHING, **SMALL)
    (folder / "before.json").write_text(json.dumps(before))
    (folder / "states.json").write_text(json.dumps({o.stage: o.state for o in outcomes}))


def _public(config: Path) -> dict[str, str]:
    """Every public file by its place below the artifact, whose key changes with the report's."""
    root = config.parent / "reticent-store/public/objects"
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and path.name != "manifest.json")
    parts = ((path.relative_to(root).parts, path.read_bytes().hex()) for path in files)
    return {"/".join((place[0], *place[2:])): content for place, content in parts}


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The settings file of an audited run. Not to be changed."""
    folder = tmp_path_factory.mktemp("audited")
    _audited(folder)
    return folder / "project" / "reticent.toml"


def artifact(config: Path, stage: str) -> Path:
    roots = open_store(load_settings(config, {}))
    key = next(key for name, _, key in (runs.latest(roots) or {})["artifacts"] if name == stage)
    return roots.object_dir("private", stage, key)


def test_only_the_audit_and_the_report_are_built_and_nothing_public_changes(audited: Path) -> None:
    states = json.loads((audited.parent.parent / "states.json").read_text())
    assert {stage for stage, state in states.items() if state == "completed"} == {*STAGES, "report"}
    assert _public(audited) == json.loads((audited.parent.parent / "before.json").read_text())
    objects = audited.parent / "reticent-store/public/objects"
    assert not any(path.name.startswith("audit") for path in objects.iterdir())
    assert len(ledger_document(audited, {})["releases"]) == len(ledger_document(finished_run(), {})["releases"])


def test_the_released_model_saw_no_canary_and_the_audits_model_no_member(audited: Path) -> None:
    canaries = pl.read_parquet(artifact(audited, "audit_model") / "canaries.parquet")
    assert canaries.height == 32
    assert 0 < canaries["is_included"].sum() < 32
    events = [json.loads((artifact(audited, stage) / "events.json").read_text()) for stage in ("train", "audit_model")]
    members = pl.read_parquet(artifact(audited, "audit_model") / "members.parquet")
    of_public = canaries["variant"] == "public"
    added = int(canaries.filter(~of_public)["is_included"].sum())
    counts = [event["num_private_records"] for event in events]
    assert counts[1] == counts[0] + added - members["record"].n_unique()
    figures = [
        json.loads((artifact(audited, stage) / "figures.json").read_text()) for stage in ("train", "audit_model")
    ]
    public = [found["num_public_records"] for found in figures]
    assert public[1] == public[0] + int(canaries.filter(of_public)["is_included"].sum())
    for path in (audited.parent / "reticent-store/public").rglob("*"):
        if path.is_file():
            assert not any(text.encode() in path.read_bytes() for text in canaries["text"])


def test_members_and_others_are_private_and_their_text_stands_once(audited: Path) -> None:
    members = pl.read_parquet(artifact(audited, "audit_model") / "members.parquet")
    latest = audited.parent / "reticent-store/private/latest"
    sentences, redacted = (pl.read_parquet(latest / name / "*.parquet") for name in ("sentences", "redacted"))
    once = sentences.filter(pl.col("text").is_unique()).select("doc_id", "sentence_index", "text")
    rows = members.join(once, on=["doc_id", "sentence_index"]).join(redacted, on=["doc_id", "sentence_index"])
    assert rows.height == members.height == 20
    assert (rows["num_masked_tokens"].gt(0) | rows["flagged_by_conservative"]).all()


def test_scores_are_joined_by_identifier(audited: Path) -> None:
    coins = pl.read_parquet(artifact(audited, "audit_model") / "canaries.parquet").select("canary_id", "is_included")
    scores = pl.read_parquet(artifact(audited, "audit_canaries") / "exposures.parquet")
    joined = scores.join(coins, on="canary_id", suffix="_of_coin")
    assert joined.height == scores.height == 32
    assert (joined["is_included"] == joined["is_included_of_coin"]).all()


def test_no_claim_is_compared_with_what_public_canaries_tell(audited: Path) -> None:
    """A model that repeats them word by word would refute any epsilon; no policy found them, so none is claimed."""
    exposures = artifact(audited, "audit_canaries")
    kinds = pl.read_parquet(exposures / "exposures.parquet").group_by("variant").len().rows()
    assert dict(kinds) == {"missed": 12, "detected": 12, "public": 8}
    names = {group["name"] for group in json.loads((exposures / "exposure.json").read_text())["groups"]}
    assert "public, trained on" in names
    found = json.loads((artifact(audited, "audit") / "audit.json").read_text())
    of_model = {row["num_trials"] for row in found["estimates"] if row["game"] == "the audit's model"}
    assert max(of_model) <= 12


@pytest.mark.parametrize("change", [{"TRAIN__METHOD": "dpsgd"}, {"REDACT__CONSERVATIVE": ""}])
def test_public_canaries_need_public_rows(audited: Path, change: dict[str, str]) -> None:
    environment = {**SMALL, **{f"RETICENT__{name}": value for name, value in change.items()}}
    configs = load_settings(audited, environment, refuses_idle=False).stages
    ctx: Any = SimpleNamespace(configs=configs, out=SimpleNamespace(scratch=None))
    with pytest.raises(ConfigError, match="no public rows"):
        drawn(ctx)


def test_the_document_is_the_contracts_and_holds_no_secret(audited: Path) -> None:
    found = json.loads((artifact(audited, "audit") / "audit.json").read_text())
    assert {
        "schema_version",
        "exposure",
        "membership",
        "extraction",
        "domains",
        "secrets",
        "epsilon_claimed",
        "alarm",
    } <= found.keys()
    assert set(found["epsilon_lower"]) == {"value", "confidence", "delta", "relation", "estimator", "ceiling"}
    assert found["epsilon_lower"]["relation"] == "add_or_remove_one"
    assert found["epsilon_lower"]["value"] <= found["epsilon_claimed"] < 3.0  # replace-one, of the guarantee
    assert found["alarm"] is False
    assert found["membership"]["num_members"] == 20
    strings = _masked(audited)
    assert len(strings) > 20
    for stage in STAGES:
        for path in artifact(audited, stage).glob("*.json"):
            text = path.read_text()
            assert not any(json.dumps(string)[1:-1] in text for string in strings), path.name


def _masked(config: Path) -> list[str]:
    """Masked strings of several letters and digits: short ones are parts of figures."""
    latest = config.parent / "reticent-store/private/latest"
    sentences, redacted = (pl.read_parquet(latest / name / "*.parquet") for name in ("sentences", "redacted"))
    rows = sentences.join(redacted.select("doc_id", "sentence_index", "spans"), on=["doc_id", "sentence_index"])
    return sorted(
        {
            row["text"][span["start"] : span["end"]]
            for row in rows.iter_rows(named=True)
            for span in row["spans"]
            if span["end"] - span["start"] > 7 and " " in row["text"][span["start"] : span["end"]]
        }
    )


def test_the_report_tells_the_trusted_side_alone(audited: Path) -> None:
    latest = audited.parent / "reticent-store"
    full = (latest / "private/latest/report/report.html").read_text()
    public = (latest / "public/latest/public_report/report.html").read_text()
    assert "What attacks found" in full
    assert "a leak if its AUC" in full
    assert "largest exposure of ten (bits) by γ" in full
    assert "missed by the conservative policy as well" in full
    assert "What attacks found" not in public
    assert (
        "Nobody attacked this model"
        in (finished_run().parent / "reticent-store/private/latest/report/report.html").read_text()
    )


def test_a_run_that_does_not_ask_for_an_audit_finds_the_one_that_was_made(audited: Path) -> None:
    plan = plan_document(audited, SMALL, read=True)
    assert {row["action"] for row in plan["stages"]} == {"hit"}
    assert {row["step"] for row in plan["stages"] if row["stage"] == "audit"} >= {"model", "membership"}
    plain = plan_document(finished_run(), {}, read=True)
    assert "audit" not in {row["stage"] for row in plain["stages"]}


def test_an_attacks_setting_does_not_train_again(audited: Path) -> None:
    attacks = dict.fromkeys(("model", "membership", "canaries", "extraction", "secrets"), "hit")
    for setting, step in (("NUM_PROMPTS", "extraction"), ("NUM_SECRETS", "secrets")):
        plan = plan_document(audited, {**SMALL, f"RETICENT__AUDIT__{setting}": "5"}, read=True)
        actions = {row["step"]: row["action"] for row in plan["stages"] if row["stage"] == "audit"}
        assert actions == {**attacks, step: "run", None: "maybe"}


def test_an_upgrade_trains_no_model_of_the_audit_anew(audited: Path, tmp_path: Path, patch: Patch) -> None:
    """The edited module takes the steps of every training."""
    copied(audited.parent, tmp_path / "project")
    config = tmp_path / "project" / "reticent.toml"
    before = artifact(config, "audit_model")
    (config.parent / "reticent-store/private/cache/code.json").unlink()  # what was read of the code before
    scan, edited = code.scan_source, ROOT / "pipelines/training/loop.py"
    patch(
        code, "scan_source", lambda path, module: scan(path, module) | ({"digest": "edited"} if path == edited else {})
    )
    plan = plan_document(config, SMALL, read=True)
    rows = {(row["stage"], row["step"]): row for row in plan["stages"] if row["stage"] in ("train", "audit")}
    for name in (("train", None), ("audit", "model")):
        assert (rows[name]["action"], rows[name]["reasons"]) == ("stale", ["code: pipelines/training/loop.py"])
    assert "`reticent audit --force audit.model` trains another\n" in plan_text(plan)
    assert rows["audit", None]["action"] == "run"  # it takes those steps itself
    states = {outcome.stage: outcome.state for outcome in drive(config, EVERYTHING, **SMALL)}
    assert (states["train"], states["audit_model"], states["audit"]) == ("cached", "cached", "completed")
    assert artifact(config, "audit_model") == before


def test_only_an_alarm_is_told_as_one(audited: Path, patch: Patch) -> None:
    def stopped_by(error: PrivacyGateError) -> Any:
        def run_job(*_: Any, **__: Any) -> Any:
            raise error

        return run_job

    patch(command, "run_job", stopped_by(PrivacyGateError("the ledger is damaged")))
    with pytest.raises(PrivacyGateError, match="the ledger is damaged"):  # and not the figures of an earlier audit
        command.audit_document(audited, SMALL)
    patch(command, "run_job", stopped_by(auditing.AuditAlarm("refuted")))
    found = command.audit_document(audited, SMALL)
    assert (found["alarm"], found["alarm_reason"]) == (True, "refuted")
    assert found["epsilon_lower"] is not None


@pytest.mark.parametrize("named", [{"selected": ("audit_model",)}, {"selected": EVERYTHING, "forced": ("audit",)}])
def test_a_stage_that_is_left_out_cannot_be_asked_for(audited: Path, named: Any) -> None:
    with pytest.raises(ConfigError, match=r"left out of runs unless audit.enabled = true"):
        begin(audited, {}, **named)


def test_a_form_without_a_hole_is_refused(audited: Path) -> None:
    with pytest.raises(ConfigError, match="canary_form"):
        load_settings(audited, {**SMALL, "RETICENT__AUDIT__CANARY_FORM": "My ID is 7."})


def _with_evidence(
    config: Path, p_value: float | None, patch: Patch, name: str, *, alarm: bool = False, looked_at: bool = True
) -> str:
    """A run whose audit is to say so."""
    run = begin(config, {}, selected=EVERYTHING)
    session = open_session(run)
    session.outcomes.append(Outcome(stage="train", partition=None, state="cached", key="trained"))
    evidence = [] if p_value is None else [{"audit": name, "p_value": p_value}]
    patch(auditing, "audit_of", lambda session: {"evidence": evidence, "alarm": alarm}, never_called=not looked_at)
    return run


def test_evidence_of_several_nights_raises_the_alarm_which_stays_until_it_is_settled(
    audited: Path, tmp_path: Path, patch: Patch
) -> None:
    copied(audited.parent, tmp_path / "project")
    config = tmp_path / "project" / "reticent.toml"
    roots = open_store(load_settings(config, {}))
    auditing.require_no_alarm(_with_evidence(config, 0.5, patch, "night-1"))
    auditing.require_no_alarm(_with_evidence(config, None, patch, "night-2"))  # nothing was claimed
    auditing.require_no_alarm(_with_evidence(config, 1e-5, patch, "night-3"))
    auditing.require_no_alarm(_with_evidence(config, 1e-5, patch, "night-3"))  # no new evidence
    with pytest.raises(PrivacyGateError, match="refutes the claimed epsilon"):
        auditing.require_no_alarm(_with_evidence(config, 1e-5, patch, "night-4"))
    with pytest.raises(PrivacyGateError, match="refutes"):
        auditing.require_no_alarm(_with_evidence(config, 0.9, patch, "night-5"))
    with patching() as none_made:
        unaudited = _with_evidence(config, None, none_made, "night-5", looked_at=False)
    with patching() as none_found:
        none_found(auditing, "audit_of", lambda session: None)
        with pytest.raises(PrivacyGateError, match="refutes"):
            auditing.require_no_alarm(unaudited)
    with locked(roots) as path:
        lines = [d for d in read_documents(roots, path) if d["type"] == "audited"]
    assert [d["audit"] for d in lines] == ["night-1", "night-3", "night-4", "night-5"]
    with pytest.raises(ConfigError, match="reason"):
        auditing.clear_alarm(roots, " ")
    auditing.clear_alarm(roots, "clipping was off")
    with pytest.raises(ConfigError, match="nothing to settle"):
        auditing.clear_alarm(roots, "again")
    with pytest.raises(PrivacyGateError, match="Train anew"):  # the model whose audit raised the alarm
        auditing.require_no_alarm(_with_evidence(config, 1e-5, patch, "night-4"))
    with pytest.raises(PrivacyGateError, match="Train anew"):  # one that would have
        auditing.require_no_alarm(_with_evidence(config, 0.9, patch, "night-5", alarm=True))
    auditing.require_no_alarm(_with_evidence(config, 0.5, patch, "night-1"))
    auditing.require_no_alarm(_with_evidence(config, 0.5, patch, "night-6"))


def test_correct_engines_raise_no_alarm_in_years_of_nights() -> None:
    state: Any = SequentialTest()
    for night in range(2_000):
        state = state.after(str(night), ((night * 7919) % 2_000 + 0.5) / 2_000)  # p-values as even as can be
    assert not state.is_alarm


def test_canaries_that_were_trained_on_are_no_strangers_to_each_other() -> None:
    pattern = Pattern.parse("{digits:2}")
    losses = np.arange(100.0)
    scorer = SimpleNamespace(pattern=pattern, losses=lambda indices, in_double=False: losses[list(indices)])
    first, second, left_out = (
        Canary(id=str(index), pattern=pattern, index=index, num_copies=1, variant="missed") for index in (0, 1, 50)
    )
    ranks = {canary.id: Rank(size=100, num_below=canary.index) for canary in (first, second, left_out)}
    found = among_strangers(scorer, ranks, [first, second, left_out], [first, second])
    assert {name: (rank.num_below, rank.size) for name, rank in found.items()} == {
        "0": (0, 99),
        "1": (0, 99),  # and not second to the other
        "50": (48, 98),
    }


def test_drawn_candidates_are_strangers_too() -> None:
    """Other canaries that the model read would take the first ranks from each other."""
    pattern = Pattern.parse("{digits:2}")
    losses = np.arange(100.0)
    scorer: Any = SimpleNamespace(
        pattern=pattern, losses=lambda indices, in_double=False: losses[list(indices)], is_exact=True
    )
    known = [Canary(id=str(at), pattern=pattern, index=at, num_copies=1, variant="missed") for at in range(4)]
    drawn_ones = list(range(50))
    rankings = Rankings(model=scorer, released=scorer, indices=drawn_ones, losses=(losses[:50], losses[:50]))
    found = rankings.exposures(known, trained_on=known)["model"]
    assert {exposure.rank.num_below for exposure in found.values()} == {0}
    assert {exposure.rank.num_tied for exposure in found.values()} == {0}
