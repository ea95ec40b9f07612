"""The options of built-in policies, and `PolicyOptions`, which holds the options that a policy is made with.

Each option is defined once, in the model of its policy. ``[redact]`` inherits the option with its check, and a policy
reads the option from `PolicyOptions`. `reticent.policies.RedactOptions` repeats names and types for type checkers.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from pipelines.plugins import check_import_path
from pipelines.pretrained import is_hub_name

LABEL_PATTERN: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
"""Labels are counted in the figures, so their alphabet leaves no room for a copied secret with spaces or digits."""

OUTSIDE = "O"
"""The label of a class that masks nothing."""

GLINER_LABELS: Final = {
    "person": "PERSON",
    "organization": "ORG",
    "location": "LOCATION",
    "address": "ADDRESS",
    "phone number": "PHONE_NUMBER",
    "email": "EMAIL_ADDRESS",
    "username": "USERNAME",
    "password": "PASSWORD",
    "date of birth": "DATE",
    "account number": "ID_NUMBER",
}
"""Kinds of secrets that a GLiNER model looks for, each with our label."""


def absolute(path: str | None) -> str | None:
    """Returns the path if it is absolute or None.

    Raises:
        ValueError: the path is relative.
    """
    if path is not None and not Path(path).is_absolute():
        raise ValueError("the path must be absolute")
    return path


def _place(name: str | None) -> str | None:
    if name is not None and not Path(name).is_absolute() and not is_hub_name(name):
        raise ValueError("name an absolute folder, or a model of the hub that is in the local cache (owner/name)")
    return name


def _checked(labels: dict[str, str]) -> dict[str, str]:
    for label in labels.values():
        if label != OUTSIDE and LABEL_PATTERN.fullmatch(label) is None:
            raise ValueError("a label must be capitals, digits and underscores")
    return labels


class RegexOptions(BaseModel):
    """Settings of the policy ``regex``."""

    patterns: dict[str, str] = Field(
        default_factory=dict, description='Regular expressions of the policy "regex", by label: LABEL = "pattern".'
    )
    pattern_seconds: float = Field(
        default=1.0,
        gt=0,
        le=60,
        description="Longest time of one pattern on one sentence, in seconds. If it takes longer, the row is masked "
        "whole.",
    )


class NamesOptions(BaseModel):
    """Settings of the policy ``names``."""

    names: tuple[str, ...] = Field(default=(), description='Names that the policy "names" masks, in any case.')
    names_file: str | None = Field(
        default=None, description='Absolute path of a file with more names for the policy "names", one per line.'
    )

    _absolute_file = field_validator("names_file")(absolute)

    def references(self) -> tuple[str, ...]:
        """Returns the file of names."""
        return (self.names_file,) if self.names_file is not None else ()


class KeywordsOptions(BaseModel):
    """Settings of the policy ``keywords``."""

    keywords: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description='Keywords of 1 to 3 words of the policy "keywords", by domain: DOMAIN = ["word", ...].',
    )


class PresidioOptions(BaseModel):
    """Settings of the policy ``presidio``."""

    recognizers: tuple[str, ...] = Field(
        default=(), description='Your own recognisers for the policy "presidio", as package.module:Class.'
    )

    @field_validator("recognizers")
    @classmethod
    def _import_paths(cls, references: tuple[str, ...]) -> tuple[str, ...]:
        for reference in references:
            check_import_path(reference)
        return references

    def references(self) -> tuple[str, ...]:
        """Returns the modules of the recognisers."""
        return tuple(recognizer.partition(":")[0] for recognizer in self.recognizers)


class ClassifierOptions(BaseModel):
    """Settings of the policy ``classifier``."""

    classifier: str | None = Field(
        default=None,
        description='Absolute path of a folder that `reticent train-policy` wrote, for the policy "classifier".',
    )
    classifier_threshold: float = Field(
        default=0.96,
        gt=0,
        lt=1,
        description='Probability of a domain above which the policy "classifier" masks a window of tokens.',
    )

    _absolute_folder = field_validator("classifier")(absolute)

    def references(self) -> tuple[str, ...]:
        """Returns the description of the trained model, which holds the digest of the model's weights."""
        return (str(Path(self.classifier) / "reticent.json"),) if self.classifier is not None else ()


class GlinerOptions(BaseModel):
    """Settings of the policy ``gliner``."""

    gliner: str | None = Field(
        default=None,
        description='Model of the policy "gliner", of GLiNER (`pip install reticent[gliner]`) or GLiNER2 '
        "(`reticent[gliner2]`): the absolute path of a folder, or a name on the hub that is in the local cache.",
    )
    gliner_revision: str | None = Field(
        default=None, description="Branch, tag or commit of a gliner model from the hub; by default main."
    )
    gliner_labels: dict[str, str] = Field(
        default_factory=lambda: dict(GLINER_LABELS),
        min_length=1,
        description='Kinds of secrets that the gliner model looks for, in its language, each with our label: {"phone '
        'number" = "PHONE_NUMBER", "weekday" = "O"}; "O" masks nothing.',
    )
    gliner_threshold: float = Field(
        default=0.3, gt=0, lt=1, description="Probability from which a span of the gliner model is masked."
    )

    _gliner_place = field_validator("gliner")(_place)
    _gliner_labels = field_validator("gliner_labels")(_checked)


class TokenClassifierOptions(BaseModel):
    """Settings of the policy ``token_classifier``."""

    token_classifier: str | None = Field(
        default=None,
        description='Model of the policy "token_classifier": the absolute path of a folder (of `reticent '
        "train-detector`, of Hugging Face transformers, or a spaCy pipeline), or a name on the hub that is in the "
        "local cache.",
    )
    token_classifier_revision: str | None = Field(
        default=None, description="Branch, tag or commit of a token_classifier from the hub; by default main."
    )
    token_classifier_labels: dict[str, str] = Field(
        default_factory=dict,
        description='Our label for labels of the token_classifier: {PER = "PERSON", MISC = "O"}; "O" masks nothing. '
        "Other labels stay as they are, and PER, LOC and the like become PERSON, LOCATION.",
    )
    token_classifier_threshold: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Probability, of all classes of a label together, from which a token is masked. Default: the "
        "threshold in the model's folder, else 0.5.",
    )
    token_classifier_thresholds: dict[str, float] = Field(
        default_factory=dict, description="The same for single labels of ours: {PERSON = 0.2}."
    )
    token_classifier_device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="Device of the token_classifier; auto is a GPU if there is one."
    )
    token_classifier_onnx: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)*\.onnx$",
        description="ONNX file in the folder of the token_classifier that runs instead of its weights, on the CPU "
        "(`pip install reticent[onnx]`), e.g. onnx/model.onnx. Default: the only ONNX file if there are no weights.",
    )

    token_classifier_aggregation: Literal["label", "any"] = Field(
        default="label",
        description="Probability of a token that counts. label: of the classes of one label. any: of all labels "
        "together, so that a model that is sure of a secret and unsure of its kind still masks it.",
    )

    _absolute_or_hub = field_validator("token_classifier")(_place)

    _classifier_labels = field_validator("token_classifier_labels")(_checked)

    @field_validator("token_classifier_thresholds")
    @classmethod
    def _probabilities(cls, thresholds: dict[str, float]) -> dict[str, float]:
        if any(not 0 < value < 1 for value in thresholds.values()):
            raise ValueError("a threshold must be between 0 and 1")
        return thresholds


class PrecisionOptions(BaseModel):
    """Settings of the policies that find entities and identifiers."""

    dates_and_numbers: Literal["all", "careful", "identifying"] = Field(
        default="all",
        description="Finds of entity policies, presidio, addresses and identifiers that count. all: every one. "
        "careful: without code, doses, versions, standards, court cases, and numbers, days and times of everyday use. "
        "identifying: also without other dates and numbers, unless they have a cue (born, account, aged), are a full "
        "date or a long number.",
    )


class BuiltInOptions(
    PrecisionOptions,
    TokenClassifierOptions,
    GlinerOptions,
    ClassifierOptions,
    PresidioOptions,
    KeywordsOptions,
    NamesOptions,
    RegexOptions,
):
    """The options of all built-in policies."""


class PolicyOptions(BuiltInOptions):
    """The options that a policy is made with. A policy reads its own options and ignores the others.

    Besides the attributes below, it has the fields of ``[redact]`` that built-in policies declare, such as ``patterns``
    (`docs/settings.md`).

    Attributes:
        name: name of the policy in the settings, which its spans bear.
        model: spaCy model of the run.
        language: language code of the run.
        own: instance of the options model that the spec of a plug-in declares; None without one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str
    model: str = "en_core_web_sm"
    language: str = "en"
    own: Any = None

    @property
    def threshold(self) -> float:
        """The same as ``classifier_threshold``."""
        return self.classifier_threshold
