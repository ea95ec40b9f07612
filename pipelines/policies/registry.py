"""Finds policies by name, and what they say of themselves. No built-in policy is imported until it is made.

Built-in policies are named as text on purpose: the code digest of a run covers the modules of the policies that it
selects, and an edit to the code of any other policy reruns nothing.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pipelines.errors import ConfigError
from pipelines.plugins import check_options, installed, load, nearest, resolve
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.labels import REVIEW_LABELS, ReviewLabels
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import DocumentPolicy, Policy, PolicySpec

ENTRY_POINTS: Final = "reticent.policies"
"""Installed packages offer policies of their own under names in this group of entry points."""


def check_name(name: str) -> None:
    """Checks a policy's name without importing it.

    Raises:
        ValueError: neither a registered name nor an import path; the message gives the nearest name.
    """
    reference(name)


def reference(name: str) -> str:
    """``module:Class`` of a policy. Raises ValueError as `check_name`."""
    return SPECS[name].reference if name in SPECS else resolve(name, SPECS, ENTRY_POINTS, "policy", "Class")


def policy_modules(names: Iterable[str]) -> tuple[str, ...]:
    """The modules that hold the named policies, sorted, each once. Raises ValueError as `check_name`."""
    return tuple(sorted({reference(name).partition(":")[0] for name in names}))


@functools.cache
def spec(name: str) -> PolicySpec | None:
    """What a policy says it is. A plug-in is imported; None where it cannot be, or says nothing.

    Raises:
        ValueError: as `check_name`.
        ConfigError: the ``spec`` of a plug-in is no `PolicySpec`.
    """
    if name in SPECS:
        return SPECS[name]
    try:
        found = getattr(load(reference(name)), "spec", None)
    except Exception:
        return None  # told with advice when the policy is made
    if found is not None and not isinstance(found, PolicySpec):
        raise ConfigError(f"policy '{name}': its spec must be a reticent.plugins.policies.PolicySpec")
    return found


def specs(names: Iterable[str]) -> tuple[PolicySpec, ...]:
    """The specs of the named policies that have one."""
    return tuple(found for name in names if (found := spec(name)) is not None)


def review_labels(
    policies: Iterable[str], names: tuple[str, ...] = REVIEW_LABELS, own: Mapping[str, str] | None = None
) -> ReviewLabels:
    """Which label of reviews any label counts as.

    Args:
        policies: those of the run; built-in ones are known anyway.
        names, own: as `ReviewLabels` has them.
    """
    declared = {known.name: known.review_labels for known in SPECS.values()}
    plugins = ((name, spec(name)) for name in policies if name not in SPECS)
    declared.update((name, found.review_labels) for name, found in plugins if found is not None)
    return ReviewLabels(names=names, own=own or {}, declared=declared)


def may_read_documents(name: str) -> bool:
    """Whether a policy looks at whole documents; a plug-in without a spec may."""
    found = spec(name)
    return found is None or found.reads_documents


def plugin_options(name: str, values: Mapping[str, Any]) -> Any:
    """The options of a plug-in, validated by the model that its spec declares.

    Raises:
        ValueError: they do not fit it; or the policy is built in, or cannot be imported.
    """
    where = f"options.{name}"
    if name in SPECS:
        fields = SPECS[name].options
        raise ValueError(
            f"{where}: the settings of '{name}' are fields of the table itself"
            + (f": {', '.join(fields.model_fields)}" if fields is not None else ", and it has none")
        )
    found = spec(name)
    if found is None:
        raise ValueError(f"{where}: policy '{name}' cannot be imported, or has no spec that declares options")
    return check_options(found.options, values, where)


def make_policy(options: PolicyOptions, setting: str = "redact.policies") -> Policy:
    """Imports and makes the policy that ``options.name`` names.

    Args:
        options: the name and what the policy is told.
        setting: which setting named it, for the error message.

    Raises:
        ConfigError: the name does not resolve, the class cannot be made, it is no policy, or not what its spec says.
    """
    name = options.name
    try:
        module_name, _, attribute = reference(name).partition(":")
    except ValueError as error:
        raise ConfigError(f"{setting}: {error}") from None
    declared = spec(name)
    if name not in SPECS and declared is not None and options.own is None:
        try:
            options = options.model_copy(update={"own": check_options(declared.options, {}, f"options.{name}")})
        except ValueError as error:
            raise ConfigError(f"{setting.partition('.')[0]}.{error}") from None
    try:
        made = getattr(importlib.import_module(module_name), attribute)(options)
    except ConfigError:
        raise
    except (ImportError, AttributeError) as error:
        missing = f"module '{error.name}'" if isinstance(error, ImportError) and error.name else f"'{attribute}'"
        near = nearest(attribute, {*SPECS, *installed(ENTRY_POINTS)})
        raise ConfigError(f"{setting}: policy '{name}' cannot be imported: {missing} not found. {near}") from (error)
    except Exception as error:
        raise ConfigError(f"{setting}: policy '{name}' could not be made ({type(error).__name__})") from error
    if not isinstance(made, Policy) or not isinstance(made.needs, frozenset):
        raise ConfigError(f"{setting}: policy '{name}' needs a method find(sentence) and a frozenset 'needs'")
    if declared is not None and declared.reads_documents != isinstance(made, DocumentPolicy):
        has = "has no" if declared.reads_documents else "has a"
        raise ConfigError(
            f"{setting}: policy '{name}' {has} method find_in_document, but its spec says reads_documents = "
            f"{declared.reads_documents}"
        )
    if declared is not None and not declared.components <= made.needs:
        raise ConfigError(f"{setting}: policy '{name}': 'needs' lacks components that its spec names")
    return made
