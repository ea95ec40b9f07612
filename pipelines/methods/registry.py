"""Finds training methods by name: those of this package, and those that other installed packages offer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pipelines.methods import anonymized, crt, dpsgd, jft, no_dp, redacted, redaction_schedule, sdpsgd_lstm
from pipelines.methods.rule import MethodRule
from pipelines.methods.spec import MethodSpec

METHODS: Final[Mapping[str, MethodSpec]] = {
    module.SPEC.name: module.SPEC
    for module in (crt, jft, dpsgd, redaction_schedule, sdpsgd_lstm, redacted, anonymized, no_dp)
}
"""The built-in methods by name."""

RULES: Final[Mapping[str, MethodRule]] = {
    f"{name}/{variant}" if variant else name: spec.rule(variant)
    for name, spec in METHODS.items()
    for variant in spec.rules
}
"""What can be claimed of each of them, by ``method`` or ``method/variant``."""


def rule_of(method: str, variant: str | None) -> MethodRule:
    """The rule of a method; differential privacy only, which rests on its event alone, for one that is not known."""
    name = f"{method}/{variant}" if variant else method
    return RULES.get(name) or RULES.get(method) or MethodRule(claims=("dp",))
