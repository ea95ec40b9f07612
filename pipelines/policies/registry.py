"""Finds policies by name. Nothing is imported until a policy is made, so settings can be checked cheaply.

The table is plain data on purpose: the code digest of a run covers the modules of the policies that it selects, and
an edit to any other policy reruns nothing.
"""

from __future__ import annotations

import difflib
import functools
import importlib
from collections.abc import Iterable, Mapping
from typing import Final

from pipelines.errors import ConfigError
from pipelines.policies.protocol import Policy, PolicyOptions

POLICIES: Final[Mapping[str, str]] = {
    "addresses": "pipelines.policies.detectors.addresses:AddressesPolicy",
    "classifier": "pipelines.policies.detectors.classifier:ClassifierPolicy",
    "conservative": "pipelines.policies.detectors.conservative:ConservativePolicy",
    "customersim": "pipelines.policies.detectors.customersim:CustomerSimPolicy",
    "digits": "pipelines.policies.detectors.digits:DigitsPolicy",
    "high_contextual": "pipelines.policies.detectors.contextual:HighContextualPolicy",
    "high_entity": "pipelines.policies.detectors.entities:HighEntityPolicy",
    "jft_code": "pipelines.policies.detectors.contextual:JftCodePolicy",
    "jft_code_low": "pipelines.policies.detectors.contextual:JftCodeLowPolicy",
    "keywords": "pipelines.policies.detectors.keywords:KeywordsPolicy",
    "low_contextual": "pipelines.policies.detectors.contextual:LowContextualPolicy",
    "low_entity": "pipelines.policies.detectors.entities:LowEntityPolicy",
    "names": "pipelines.policies.detectors.names:NamesPolicy",
    "presidio": "pipelines.policies.detectors.presidio:PresidioPolicy",
    "propagate": "pipelines.policies.detectors.propagate:PropagatePolicy",
    "regex": "pipelines.policies.detectors.regex:RegexPolicy",
}
"""Built-in policies: name -> ``module:Class``."""

DOCUMENT_POLICIES: Final = frozenset({"propagate"})
"""Those of them that look at whole documents."""

ENTRY_POINTS: Final = "reticent.policies"
"""Installed packages offer policies of their own under names in this group of entry points."""


def is_plugin(name: str) -> bool:
    """Whether ``name`` is an import path ``package.module:Class`` and not a registered name."""
    return ":" in name


def check_name(name: str) -> None:
    """Checks a policy's name without importing it.

    Raises:
        ValueError: neither a registered name nor an import path; the message gives the nearest name.
    """
    if is_plugin(name):
        module, _, attribute = name.partition(":")
        if not attribute.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
            raise ValueError(f"'{name}' is not an import path of the form package.module:Class")
    elif name not in POLICIES and name not in _installed():
        raise ValueError(
            f"unknown policy '{name}'; {_nearest(name)}known: {', '.join(sorted({*POLICIES, *_installed()}))}, "
            "or an import path package.module:Class"
        )


def reference(name: str) -> str:
    """``module:Class`` of a policy. Raises ValueError as `check_name`."""
    check_name(name)
    return name if is_plugin(name) else POLICIES.get(name) or _installed()[name]


@functools.cache
def _installed() -> dict[str, str]:
    """Policies of other installed packages; looked for only when a name is none of ours, since looking is slow."""
    from importlib.metadata import entry_points

    return {point.name: point.value.replace(" ", "") for point in entry_points(group=ENTRY_POINTS)}


def policy_modules(names: Iterable[str]) -> tuple[str, ...]:
    """The modules that hold the named policies, sorted, each once. Raises ValueError as `check_name`."""
    return tuple(sorted({reference(name).partition(":")[0] for name in names}))


def make_policy(options: PolicyOptions, setting: str = "redact.policies") -> Policy:
    """Imports and makes the policy that ``options.name`` names.

    Args:
        options: the name and what the policy is told.
        setting: which setting named it, for the error message.

    Raises:
        ConfigError: the name does not resolve, the class cannot be made, or it is no policy.
    """
    name = options.name
    try:
        module_name, _, attribute = reference(name).partition(":")
    except ValueError as error:
        raise ConfigError(f"{setting}: {error}") from None
    try:
        made = getattr(importlib.import_module(module_name), attribute)(options)
    except ConfigError:
        raise
    except (ImportError, AttributeError) as error:
        missing = f"module '{error.name}'" if isinstance(error, ImportError) and error.name else f"'{attribute}'"
        raise ConfigError(
            f"{setting}: policy '{name}' cannot be imported: {missing} not found. {_nearest(name)}"
        ) from (error)
    except Exception as error:
        raise ConfigError(f"{setting}: policy '{name}' could not be made ({type(error).__name__})") from error
    if not isinstance(made, Policy) or not isinstance(made.needs, frozenset):
        raise ConfigError(f"{setting}: policy '{name}' needs a method find(sentence) and a frozenset 'needs'")
    return made


def _nearest(name: str) -> str:
    stem = name.rpartition(":")[2] if is_plugin(name) else name
    near = difflib.get_close_matches(stem.lower(), {**POLICIES, **_installed()}, n=1, cutoff=0.4)
    return f"did you mean '{near[0]}'? " if near else ""
