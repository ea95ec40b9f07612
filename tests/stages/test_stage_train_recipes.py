"""What a recipe computes is written down: another loss, weight or event needs another version (`MethodSpec.recipe`).

``RETICENT_GOLDEN=write`` adds what a new version computes, and refuses to write over that of a version that is there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import test_stage_train_methods as by_method
import test_stage_train_tasks as by_task
from pydantic_core import to_jsonable_python
from safetensors.torch import load_file
from support.contexts import stage_context

from pipelines.accounting.facts import parse_training
from pipelines.artifacts import Source
from pipelines.context import Runtime
from pipelines.methods.registry import METHODS
from pipelines.settings.audit import AuditConfig
from pipelines.settings.guarantee import GuaranteeConfig
from pipelines.settings.redact import RedactConfig
from pipelines.settings.split import SplitConfig
from pipelines.settings.train import TrainConfig
from pipelines.stages.audit import model as audit_model
from pipelines.stages.audit.canary_table import CANARIES
from pipelines.stages.audit.records import MEMBERS
from pipelines.training.recipes import recipe_of

GOLDEN = Path(__file__).with_name("recipes.json")
WRITES = os.environ.get("RETICENT_GOLDEN") == "write"
FIXED = {
    "insecure_test_seed": True,
    "epochs": 2,
    "jft_phase1_epochs": 2,
    "noise_multiplier": 0.7,
    "target_epsilon": None,
}
BY_METHOD = ("crt", "dpsgd", "no_dp", "redacted", "anonymized", "jft direct", "redaction_schedule", "sdpsgd_lstm")
TOLERANCE = 5e-4
"""Relative. The same steps on another processor differ by 1e-6 or so; with noise of 0.71 or a step less, by 1e-3."""


def computed(ctx) -> dict[str, object]:
    """Figures of a training that change with every step, by enough to be told from rounding."""
    at_the_end = by_method.read(ctx, "curves.json")["epochs"][-1]["evaluation"]
    figures, facts = by_method.read(ctx, "figures.json"), parse_training(by_method.read(ctx, "events.json"))
    folder = ctx.out.folder if (ctx.out.folder / "model").is_dir() else ctx.out.public_folder
    weights = load_file(folder / "model/model.safetensors")
    return {
        "weights": {name: float(weight.double().norm()) for name, weight in sorted(weights.items())},
        **{name: figures[name] for name in ("perplexity_at_initialisation", "accuracy_at_initialisation")},
        **{name: at_the_end[name] for name in ("perplexity", "accuracy")},
        "phases": [[phase.name, phase.rows, repr(phase.event)] for phase in facts.phases],
        "records": [facts.num_private_records, facts.num_public_records],
    }


def differences(found: object, golden: object, at: str = "") -> list[str]:
    if isinstance(golden, dict) and isinstance(found, dict):
        names = sorted(golden.keys() | found.keys())
        return [line for name in names for line in differences(found.get(name), golden.get(name), f"{at}/{name}")]
    is_same = found == pytest.approx(golden, rel=TOLERANCE) if isinstance(golden, float) else found == golden
    return [] if is_same else [f"{at}: {golden} → {found}"]


def compare(name: str, recipe: dict[str, int], found: dict[str, object]) -> None:
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    then = golden.get(name, {"recipe": None, "computes": {}})
    if WRITES and then["recipe"] != recipe:
        golden[name] = {"recipe": recipe, "computes": found}
        GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")
        return
    assert then["recipe"] == recipe, f"no figures of {recipe}: look at what changed, then RETICENT_GOLDEN=write"
    changed = differences(found, then["computes"])
    assert not changed, f"{name} computes something else: raise a version of its recipe {recipe}: {changed}"


@pytest.mark.parametrize("name", BY_METHOD)
def test_golden_a_method_computes_what_its_recipe_says(tmp_path: Path, name: str) -> None:
    changes = {**FIXED, "public_learning_rate": 0.1, "private_learning_rate": 0.1} if name == "sdpsgd_lstm" else FIXED
    ctx = by_method.run(tmp_path / "run", by_method.corpus(tmp_path / "corpus"), name, **changes)
    compare(name, recipe_of(name.split()[0], "language_modelling"), computed(ctx))


@pytest.mark.parametrize("name", list(by_task.TASKS))
def test_golden_a_task_is_encoded_as_its_recipe_says(tmp_path: Path, families, name: str) -> None:
    changes = {**FIXED, "epochs": 1, "max_grad_norm": 1.0}
    if by_task.TASKS[name][1]["task"] in ("response", "table_to_text"):
        changes["max_generated"] = 0
    ctx = by_task.train(tmp_path, families, name, "dpsgd", **changes)
    compare(f"dpsgd {name}", recipe_of("dpsgd", by_task.TASKS[name][1]["task"]), computed(ctx))


def test_golden_a_model_of_an_audit_reads_and_leaves_out_what_its_recipe_says(tmp_path: Path) -> None:
    """Raise `pipelines.training.recipes.AUDIT` if canaries, coins or the rows under attack are drawn otherwise."""
    settings = {**by_method.SMALL, **FIXED, "epochs": 1, "method": "crt"}
    asked = AuditConfig(num_members=20, num_canaries=6, num_public_canaries=2, copies=10, copies_differ=True)
    configs = {"audit": asked, "train": TrainConfig(**settings), "redact": RedactConfig(conservative="conservative")}
    configs |= {"split": SplitConfig(), "guarantee": GuaranteeConfig()}
    inputs = by_method.corpus(tmp_path / "corpus")
    runtime = Runtime(device="cpu")
    ctx = stage_context("audit_model", tmp_path / "out", configs, inputs, seed=3, runtime=runtime, secret=bytes(32))
    counts = audit_model.run(ctx)
    canaries, members = (list(Source(folder=ctx.out.folder).table(table).rows()) for table in (CANARIES, MEMBERS))
    weights = load_file(ctx.out.folder / "model/model.safetensors")
    found = {
        "canaries": [[row[n] for n in ("variant", "text", "num_copies", "is_included")] for row in canaries],
        "members": [[row["record"], row["doc_id"], row["sentence_index"]] for row in members],
        "counts": {
            **counts,
            **{n: by_method.read(ctx, "figures.json")[n] for n in ("num_public_records", "num_steps")},
        },
        "records": by_method.read(ctx, "events.json")["num_private_records"],
        "weights": {name: float(weight.double().norm()) for name, weight in sorted(weights.items())},
    }
    recipe = {**asked.recipe("audit_model"), **configs["train"].recipe("audit_model")}
    compare("audit of crt", recipe, found)


def test_every_method_has_figures() -> None:
    assert {name.split()[0] for name in BY_METHOD} == METHODS.keys()


def test_golden_no_default_of_a_training_changes() -> None:
    """A changed default would train anew for everybody who left the setting out, and a new setting must do nothing."""
    fields = TrainConfig.model_fields
    found = {n: to_jsonable_python(f.get_default(call_default_factory=True)) for n, f in fields.items()}
    golden = json.loads(GOLDEN.read_text())
    if WRITES:
        golden["defaults"] = found | golden.get("defaults", {})
        GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")
    assert found == golden["defaults"]
