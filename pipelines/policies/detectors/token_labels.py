"""Classes of token-classification models: BIO, BILOU, BIOES or plain, and what we call them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pipelines.errors import ConfigError
from pipelines.policies.detectors.keywords import label_of
from pipelines.policies.options import LABEL_PATTERN, OUTSIDE

USUAL: Final[Mapping[str, str]] = {
    "PER": "PERSON",
    "PERS": "PERSON",
    "NAME": "PERSON",
    "LOC": "LOCATION",
    "ORGANIZATION": "ORG",
    "ORGANISATION": "ORG",
    "CORPORATION": "ORG",
    "GROUP": "ORG",
}
"""Usual labels of models, and what other policies call the same. All others keep their name."""

_OUTSIDE: Final = frozenset({"O", "OUT", "OUTSIDE", "OTHER"})
_PREFIXED: Final = re.compile(r"([BILUESM])[-_](.+)")
_NAMELESS: Final = re.compile(r"LABEL_\d+")


def ungrouped(label: str) -> str:
    """A class without its place in a chunk: ``PER`` for ``B-PER``, ``O`` for the class outside of all."""
    if label.upper() in _OUTSIDE:
        return OUTSIDE
    prefixed = _PREFIXED.fullmatch(label)
    return prefixed[2] if prefixed else label


def groups_of(classes: Mapping[int, str], told: Mapping[str, str]) -> dict[str, list[int]]:
    """Our labels, and the classes that make up each. The class outside of all entities is left out.

    Args:
        classes: of the model (``config.id2label``).
        told: our label by the model's, with or without its prefix; ``O`` masks nothing.

    Raises:
        ConfigError: a name in ``told`` is none of the model's, the classes have no names, or no class is outside.
    """
    plain = {index: ungrouped(label) for index, label in classes.items()}
    known = {*classes.values(), *plain.values()}
    for name in told:
        if name not in known:
            raise ConfigError(
                f"redact.token_classifier_labels: the model has no label '{name}'; it has {', '.join(sorted(known))}"
            )
    groups: dict[str, list[int]] = {}
    outside = False
    for index in sorted(classes):
        name = told.get(classes[index]) or told.get(plain[index]) or ""
        if not name:
            if _NAMELESS.fullmatch(classes[index]):
                raise ConfigError(
                    f"redact.token_classifier: the model calls its classes {classes[index]} and so on; say what they "
                    f'are: token_classifier_labels = {{{classes[index]} = "O", ...}}'
                )
            name = OUTSIDE if plain[index] == OUTSIDE else USUAL.get(label_of(plain[index]), label_of(plain[index]))
        if name == OUTSIDE:
            outside = True
            continue
        if LABEL_PATTERN.fullmatch(name) is None:
            raise ConfigError(
                f"redact.token_classifier: the model's label '{classes[index]}' gives no label of ours; name one in "
                "token_classifier_labels"
            )
        groups.setdefault(name, []).append(index)
    if not outside:
        raise ConfigError(
            "redact.token_classifier: no class of the model means 'no entity'; set it to \"O\" in "
            "token_classifier_labels"
        )
    if not groups:
        raise ConfigError('redact.token_classifier_labels: every label of the model is "O", so nothing is masked')
    return groups


def thresholds_of(
    labels: frozenset[str],
    *,
    default: float,
    given: float | None,
    by_label: Mapping[str, float],
    described: Mapping[str, float],
) -> dict[str, float]:
    """The threshold of every label: that of the settings, else of the model's folder, else the default.

    Raises:
        ConfigError: a label of the settings is none of the model's.
    """
    for name in by_label:
        if name not in labels:
            raise ConfigError(
                f"redact.token_classifier_thresholds: the model finds no '{name}'; it finds {', '.join(sorted(labels))}"
            )
    fallback = {label: given if given is not None else float(described.get(label, default)) for label in labels}
    return fallback | dict(by_label)
