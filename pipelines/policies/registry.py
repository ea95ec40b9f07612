"""Finds policies and their specs by name. A built-in policy is imported only when it is made.

The registry refers to built-in policies by text and not by import. The code digest of a run covers the modules of the
policies that the run selects, so an edit to the code of any other policy reruns nothing.
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
from pipelines.policies.protocol import DocumentPolicy, Policy, PolicySpec, SpeakerPolicy

ENTRY_POINTS: Final = "reticent.policies"
"""The group of entry points in which installed packages offer policies by name."""


def check_name(name: str) -> None:
    """Checks a policy's name without importing it.

    Raises:
        ValueError: the name is neither a registered name nor an import path. The message gives the nearest name.
    """
    reference(name)


def reference(name: str) -> str:
    """Returns ``module:Class`` of a policy. Raises the ValueError of `check_name`."""
    return SPECS[name].reference if name in SPECS else resolve(name, SPECS, ENTRY_POINTS, "policy", "Class")


def policy_modules(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the modules of the named policies, sorted, each once. Raises the ValueError of `check_name`."""
    return tuple(sorted({reference(name).partition(":")[0] for name in names}))


@functools.cache
def spec(name: str) -> PolicySpec | None:
    """Returns the spec of a policy. Imports a plug-in for this.

    Returns:
        The spec, or None if the plug-in cannot be imported or has no spec.

    Raises:
        ValueError: the name is neither a registered name nor an import path.
        ConfigError: the ``spec`` of a plug-in is no `PolicySpec`.
    """
    if name in SPECS:
        return SPECS[name]
    try:
        declared = getattr(load(reference(name)), "spec", None)
    except Exception:
        return None  # `make_policy` reports this error with advice
    if declared is not None and not isinstance(declared, PolicySpec):
        raise ConfigError(f"policy '{name}': its spec must be a reticent.plugins.policies.PolicySpec")
    return declared


def specs(names: Iterable[str]) -> tuple[PolicySpec, ...]:
    """Returns the specs of the named policies that have one."""
    return tuple(declared for name in names if (declared := spec(name)) is not None)


def review_labels(
    policies: Iterable[str], names: tuple[str, ...] = REVIEW_LABELS, own: Mapping[str, str] | None = None
) -> ReviewLabels:
    """Returns the map from any label to a label of reviews.

    Args:
        policies: policies of the run. Built-in policies are always included.
        names, own: fields of `ReviewLabels`.
    """
    declared = {known.name: known.review_labels for known in SPECS.values()}
    plugins = ((name, spec(name)) for name in policies if name not in SPECS)
    declared.update((name, plugin.review_labels) for name, plugin in plugins if plugin is not None)
    return ReviewLabels(names=names, own=own or {}, declared=declared)


def may_read_documents(name: str) -> bool:
    """Returns true if a policy reads whole documents. A plug-in without a spec may read them."""
    declared = spec(name)
    return declared is None or declared.reads_documents


def reads_speakers(name: str) -> bool:
    """Returns true if a policy is told the names of a document's speakers. Its spec must say so."""
    declared = spec(name)
    return declared is not None and declared.reads_speakers


def plugin_options(name: str, values: Mapping[str, Any]) -> Any:
    """Returns the options of a plug-in, validated by the model that its spec declares.

    Raises:
        ValueError: the options do not fit the model, the policy is built in, or it cannot be imported.
    """
    where = f"options.{name}"
    if name in SPECS:
        fields = SPECS[name].options
        raise ValueError(
            f"{where}: the settings of '{name}' are fields of the table itself"
            + (f": {', '.join(fields.model_fields)}" if fields is not None else ", and it has none")
        )
    declared = spec(name)
    if declared is None:
        raise ValueError(f"{where}: policy '{name}' cannot be imported, or has no spec that declares options")
    return check_options(declared.options, values, where)


def make_policy(options: PolicyOptions, setting: str = "redact.policies") -> Policy:
    """Imports and makes the policy that ``options.name`` names.

    Raises:
        ConfigError: the name does not resolve, the class cannot be made, is no policy, or contradicts its spec.
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
        policy = getattr(importlib.import_module(module_name), attribute)(options)
    except ConfigError:
        raise
    except (ImportError, AttributeError) as error:
        missing = f"module '{error.name}'" if isinstance(error, ImportError) and error.name else f"'{attribute}'"
        near = nearest(attribute, {*SPECS, *installed(ENTRY_POINTS)})
        raise ConfigError(f"{setting}: policy '{name}' cannot be imported: {missing} not found. {near}") from error
    except Exception as error:
        raise ConfigError(f"{setting}: policy '{name}' could not be made ({type(error).__name__})") from error
    if not isinstance(policy, Policy) or not isinstance(policy.needs, frozenset):
        raise ConfigError(f"{setting}: policy '{name}' needs a method find(sentence) and a frozenset 'needs'")
    if declared is not None and declared.reads_documents != isinstance(policy, DocumentPolicy):
        has = "has no" if declared.reads_documents else "has a"
        raise ConfigError(
            f"{setting}: policy '{name}' {has} method find_in_document, but its spec says reads_documents = "
            f"{declared.reads_documents}"
        )
    if declared is not None and declared.reads_speakers != isinstance(policy, SpeakerPolicy):
        has = "has no" if declared.reads_speakers else "has a"
        raise ConfigError(
            f"{setting}: policy '{name}' {has} method find_names, but its spec says reads_speakers = "
            f"{declared.reads_speakers}"
        )
    if declared is not None and not declared.components <= policy.needs:
        raise ConfigError(f"{setting}: policy '{name}': 'needs' lacks components that its spec names")
    return policy
