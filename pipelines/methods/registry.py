"""Finds training methods by name: those of this package, and those that other packages offer."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pipelines.errors import ConfigError
from pipelines.methods import anonymized, crt, dpsgd, jft, no_dp, redacted, redaction_schedule, sdpsgd_lstm
from pipelines.methods.rule import MethodRule
from pipelines.methods.settings import MethodSettings
from pipelines.methods.spec import MethodSpec
from pipelines.plugins import load_spec, resolve

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

PROTECTIONS: Final = frozenset(
    name
    for spec in METHODS.values()
    for kind in spec.settings.__mro__
    if issubclass(kind, MethodSettings)
    for name in kind.PROTECTIONS
)
"""Settings of noise and clipping of any of them."""

ENTRY_POINTS: Final = "reticent.methods"
"""Installed packages offer methods of their own under names in this group of entry points."""


class SettingsOfMethods(
    no_dp.NoDPSettings,
    redacted.RedactedSettings,
    dpsgd.DPSGDSettings,
    crt.CRTSettings,
    sdpsgd_lstm.SpanSettings,
    redaction_schedule.ScheduleSettings,
    jft.JFTSettings,
):
    """The settings of all of them, side by side as ``[train]`` has them."""


def module_of(name: str) -> str:
    """Returns the module that describes a method.

    Raises:
        ValueError: no method has this name; the message gives the nearest.
    """
    if name in METHODS:
        return f"pipelines.methods.{name}"
    return resolve(name, METHODS, ENTRY_POINTS, "method").partition(":")[0]


@functools.cache
def method(name: str) -> MethodSpec:
    """Returns the description of a method; see `pipelines.plugins.load_spec`."""
    found = load_spec(name, METHODS, ENTRY_POINTS, "method", MethodSpec)
    if name not in METHODS and found.first_phase is not None:
        raise ConfigError(f"method '{name}': a method of another package has no first phase of its own")
    return found


def rule_of(name: str, variant: str | None) -> MethodRule:
    """Returns what can be claimed of a method, or of one of its variants.

    Of a method that is not known any more, only differential privacy can be claimed: that rests on its event alone.
    """
    try:
        spec = method(name)
    except ConfigError:
        return MethodRule(claims=("dp",), plugins=(name,))
    if variant not in spec.rules and None not in spec.rules:
        return MethodRule(claims=("dp",))
    rule = spec.rule(variant if variant in spec.rules else None)
    return rule if name in METHODS else replace(rule, plugins=(name,))
