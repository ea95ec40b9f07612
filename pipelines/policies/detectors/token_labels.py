"""Maps the classes of token-classification models (BIO, BILOU, BIOES or plain) to our labels and thresholds."""

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
"""Our label by the common label of a model. All other labels keep their name."""

DEFAULT_THRESHOLD: Final = 0.5

_OUTSIDE: Final = frozenset({"O", "OUT", "OUTSIDE", "OTHER"})
_PREFIXED: Final = re.compile(r"([BILUESM])[-_](.+)")
_NAMELESS: Final = re.compile(r"LABEL_\d+")


def strip_prefix(label: str) -> str:
    """Removes the chunk prefix of a class: ``PER`` for ``B-PER``, ``O`` for the class outside all entities."""
    if label.upper() in _OUTSIDE:
        return OUTSIDE
    prefixed = _PREFIXED.fullmatch(label)
    return prefixed[2] if prefixed else label


def group_classes(classes: Mapping[int, str], labels: Mapping[str, str]) -> dict[str, list[int]]:
    """Returns the classes that make up each of our labels. The class outside all entities is left out.

    Args:
        classes: names of the model's classes (``config.id2label``).
        labels: our label by the model's label, with or without its prefix. ``O`` masks nothing.

    Raises:
        ConfigError: the model has no label that ``labels`` names, the classes have no names, or no class is outside.
    """
    plain = {index: strip_prefix(label) for index, label in classes.items()}
    known = {*classes.values(), *plain.values()}
    for name in labels:
        if name not in known:
            raise ConfigError(
                f"redact.token_classifier_labels: the model has no label '{name}'; it has {', '.join(sorted(known))}"
            )
    groups: dict[str, list[int]] = {}
    has_outside = False
    for index in sorted(classes):
        name = labels.get(classes[index]) or labels.get(plain[index]) or ""
        if not name:
            if _NAMELESS.fullmatch(classes[index]):
                raise ConfigError(
                    f"redact.token_classifier: the model calls its classes {classes[index]} and so on; say what they "
                    f'are: token_classifier_labels = {{{classes[index]} = "O", ...}}'
                )
            name = OUTSIDE if plain[index] == OUTSIDE else USUAL.get(label_of(plain[index]), label_of(plain[index]))
        if name == OUTSIDE:
            has_outside = True
            continue
        if LABEL_PATTERN.fullmatch(name) is None:
            raise ConfigError(
                f"redact.token_classifier: the model's label '{classes[index]}' gives no label of ours; name one in "
                "token_classifier_labels"
            )
        groups.setdefault(name, []).append(index)
    if not has_outside:
        raise ConfigError(
            "redact.token_classifier: no class of the model means 'no entity'; set it to \"O\" in "
            "token_classifier_labels"
        )
    if not groups:
        raise ConfigError('redact.token_classifier_labels: every label of the model is "O", so nothing is masked')
    return groups


def choose_thresholds(
    labels: frozenset[str], *, given: float | None, by_label: Mapping[str, float], described: Mapping[str, float]
) -> dict[str, float]:
    """Returns the threshold of every label: from the settings, else from the model's folder, else the default.

    Args:
        labels: labels that the model finds.
        given: threshold of the settings for all labels, if they have one.
        by_label: thresholds of the settings for single labels.
        described: thresholds in the model's folder.

    Raises:
        ConfigError: the model does not find a label that the settings name.
    """
    for name in by_label:
        if name not in labels:
            raise ConfigError(
                f"redact.token_classifier_thresholds: the model finds no '{name}'; it finds {', '.join(sorted(labels))}"
            )
    fallback = {label: float(described.get(label, DEFAULT_THRESHOLD)) if given is None else given for label in labels}
    return fallback | dict(by_label)
