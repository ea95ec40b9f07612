"""What ``plan``, ``status`` and ``run`` end with: what would happen, what it costs, and what to do next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from looked_at import finished_run
from support.copies import copied

from flows.commands.conclusion import conclusion, next_commands
from flows.commands.ledger import ledger_document
from flows.commands.plan import last_run, plan_document, plan_text, run_text, status_text
from flows.running.artifacts import figure_rows
from flows.running.figures import FIGURES, headlines, label_of, written

EPOCHS = {"RETICENT__TRAIN__EPOCHS": "2"}


def last_line(environ: dict[str, str], config: Path | None = None) -> str:
    return plan_text(plan_document(config or finished_run(), environ, read=True)).splitlines()[-1]


def test_nothing_to_do_is_said_and_machines_still_read_hit() -> None:
    document = plan_document(finished_run(), {}, read=True)
    assert {row["action"] for row in document["stages"]} == {"hit"}
    text = plan_text(document)
    assert " hit" not in text
    assert text.count("up to date") == len({(row["stage"], row["step"]) for row in document["stages"]})
    assert text.endswith("\n\nNothing to do.")
    assert status_text(plan_document(finished_run(), {}, read=False)).endswith("\n\nNothing to do.")
    assert document["training_ahead"] is None


@pytest.mark.slow
def test_a_training_is_said_with_its_cost_in_the_ledger() -> None:
    document = plan_document(finished_run(), EPOCHS, read=True)
    (group,) = ledger_document(finished_run(), {})["groups"]
    ahead = document["training_ahead"]
    assert ahead["is_certain"]
    assert ahead["epsilon_before"] == group["epsilon"]
    # Twice the queries cost less than twice epsilon, and more than once.
    assert group["epsilon"] * 1.2 < ahead["epsilon_after"] < group["epsilon"] * 2
    assert last_line(EPOCHS).startswith("Would train: epsilon 3 → about 4.")
    budget = {**EPOCHS, "RETICENT__GUARANTEE__BUDGET_EPSILON": "3.5"}
    assert last_line(budget).endswith("above guarantee.budget_epsilon = 3.5, so the training will probably be refused.")
    other = {
        **EPOCHS,
        "RETICENT__TRAIN__TARGET_EPSILON": "1",
    }  # unlike the newest: no figure is better than a wrong one
    assert last_line(other) == "Would train: epsilon in the ledger is 3, and grows by what the new training costs."


def test_the_first_training_costs_at_most_its_target(tmp_path: Path) -> None:
    config = copied(finished_run().parent, tmp_path / "first") / "reticent.toml"
    environ = {"RETICENT__STORE__ROOT": '"another"'}
    assert last_line(environ, config) == "Would train: epsilon 0 → at most 3 in the ledger."
    trusted = {"RETICENT__TRAIN__METHOD": "no_dp", "RETICENT__TRAIN__TARGET_EPSILON": ""}
    assert last_line({**environ, **trusted}, config).endswith("without a training that costs epsilon.")
    text = status_text(plan_document(config, {"RETICENT__STORE__ROOT": '"third"'}, read=False))
    assert text.endswith("`reticent plan` reads them and says what a run would do.")


@pytest.mark.parametrize("action", ["run", "maybe"])
def test_stages_without_training_are_named(action: str) -> None:
    rows = [{"stage": name, "action": action, "reasons": []} for name in ("redact", "redact", "report")]
    document = {"stages": rows, "training_ahead": None}
    assert conclusion(document) == "Would run redact, report, without a training that costs epsilon."


def test_a_run_ends_with_rounded_figures_and_three_commands(tmp_path: Path) -> None:
    record = last_run(finished_run(), {})
    text = run_text(record)
    assert "built" in text.splitlines()[0]
    assert any(line.split()[-2:] == ["claim", "3"] for line in text.splitlines() if "epsilon" in line)
    shown = [value for _, value in headlines(record["metrics"])]
    assert len(shown) >= 8
    assert all(value in text for value in shown)
    parts = [value.split()[0] for value in shown if "." in value]
    assert all(len(part.replace(".", "").lstrip("0")) <= 3 for part in parts), parts
    commands = next_commands(record, Path("reticent.toml"))
    assert [" ".join(line.split()[:2]) for line in commands] == ["reticent open", "reticent audit", "reticent sign"]
    commands = next_commands(record, tmp_path / "my settings.toml")
    assert all(f" -c '{tmp_path}/my settings.toml'" in line for line in commands)
    unmeasured = {**record, "metrics": {**record["metrics"], "false_negative_rate_upper": None}}
    assert "reticent review" in next_commands(unmeasured, Path("reticent.toml"))[1]
    assert "reticent status" in next_commands({**record, "outputs": {}}, Path("reticent.toml"))[0]


def test_every_figure_of_a_report_has_a_name_and_bounds_are_rounded_up() -> None:
    metrics = last_run(finished_run(), {})["metrics"]
    for name in metrics:
        assert "_" not in label_of(name)
        assert json.dumps(metrics[name]) is not None
    assert written("epsilon", 2.00001) == "2.01"
    assert written("epsilon", None).startswith("no bound")
    assert written("miss_rate", None) == "not measured"
    rows = figure_rows({**metrics, "a_name": "Mary Jones"})
    assert [row["figure"] for row in rows][:2] == ["rows rejected", "sentences"]
    assert len(rows) == len(metrics)
    assert "Mary" not in str(rows)
    several: dict[str, Any] = {"epsilon": 3.2, "epsilon_this_model": 2.0, "num_releases": 2}
    assert ("epsilon, all releases on these files", "3.2") in headlines(several)
    assert len(headlines(several)) == 3
    assert len(headlines({**several, "num_releases": 1})) == 1
    assert all(label_of(name) == label for name, (label, _) in FIGURES.items())
