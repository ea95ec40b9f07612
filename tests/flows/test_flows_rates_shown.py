"""The rates that `reticent estimate` prints first are averages; those that claims take are of the worst label."""

from __future__ import annotations

from typing import Any

from flows.commands.estimate import estimate_text
from flows.commands.ledger import ledger_text
from pipelines.accounting.assumptions import OF_WORST_LABEL

RATE = {"value": 0.01, "upper": 0.095}


def estimated(**changes: Any) -> dict[str, Any]:
    miss_rate = {"value": 0.001, "recommended": (0.0, 0.002)}
    rates = dict.fromkeys(("false_negative_rate", "false_negative_rate_masked", "delta2"), RATE)
    figures = dict.fromkeys(("recall", "precision", "recall_as_in_jft"), 0.9)
    return {
        "source": "gold labels", "num_sampled_sentences": 10, "num_secret_spans": 9, "is_census": False,
        "confidence": 0.95, "mu": "uniform over the secrets", "by_label": {}, "warnings": [], "miss_rate": miss_rate,
        "worst_label": {"num_labels": 3, "false_negative_rate": RATE, "delta2": {"value": 0.0, "upper": 0.993}},
        **rates, **figures, **changes,
    }  # fmt: skip


def ledger(credit: dict[str, Any]) -> str:
    group = {
        "group": 1, "num_releases": 1, "epsilon": 3.0, "delta": 1e-5, "left": None, "num_more": None,
        "not_guaranteed_because": None, "credit": credit, "by_owner": False, "person": None,
    }  # fmt: skip
    row = {
        "group": 1, "started": None, "state": "published", "epsilon": 3.0, "delta": 1e-5, "data": None, "key": "k" * 40,
        "purpose": "release", "is_public": True, "withdrawn": None,
    }  # fmt: skip
    return ledger_text(
        {
            "releases": [row], "tables": [], "groups": [group], "people": [], "copies": [], "signatures": [],
            "nights": None, "budget": {"epsilon": None},
        }
    )  # fmt: skip


def test_both_say_which_rates_claims_take() -> None:
    """Guards a ledger that said delta2 0.993 where the estimate said 0.095, and neither said of what."""
    text = estimate_text(estimated())
    assert "at most 9.5\N{NO-BREAK SPACE}%" in text
    assert "claims about a random secret take the worst of 3 labels" in text
    assert "delta2 at most 99.3\N{NO-BREAK SPACE}%" in text
    assert "worst" not in estimate_text(estimated(worst_label=None))
    reason = (
        f"delta2 {OF_WORST_LABEL}, the probability that a secret is missed and its sentence is public, is at most 1"
    )
    for credit in ({"epsilon": None, "reason": reason}, {"epsilon": 0.1, "delta": 0.993, "reason": None}):
        assert "worst label, which `reticent estimate` prints below the averages" in ledger(credit)
    assert "worst label" not in ledger({"epsilon": None, "reason": "the method reads the original text"})
