"""Settings of the policies that read a token-classification model, and where such a model lies."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, Field, field_validator

from pipelines.errors import ConfigError
from pipelines.policies.protocol import LABEL_PATTERN
from pipelines.pretrained import folder_files, hub_commit, is_hub_name

OUTSIDE = "O"
"""The name of a class that masks nothing."""


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
"""Our label by the kind of secret that a GLiNER model looks for."""


def absolute(path: str | None) -> str | None:
    """Returns the same path.

    Raises:
        ValueError: the path is not absolute.
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


def identity_of(field: str, name: str | None, revision: str | None) -> dict[str, Any]:
    """Returns the part of keys that identifies a model, in addition to its files. It does not contain a path.

    Args:
        field: setting that names the model.
        name: value of the setting.
        revision: revision of a hub model.
    """
    if name is None:
        return {}
    if Path(name).is_absolute():
        return {field: "a folder"}  # whose files count by content
    return {f"{field}_commit": hub_commit(name, revision)}


def files_of(name: str | None) -> tuple[str, ...]:
    """Returns the files of a model in a folder and its inner folders. A hub model has no such files."""
    if name is None or not Path(name).is_absolute():
        return ()
    inner = sorted(path for path in Path(name).rglob("*") if path.is_file() and path.parent != Path(name))
    return tuple(map(str, [*folder_files(Path(name)), *inner]))


def location_of(field: str, name: str, revision: str | None) -> tuple[str, str | None]:
    """Returns a folder, or the name and commit of a hub model, without network access.

    Raises:
        ConfigError: there is no such folder, the local cache has no such model, or a folder has a revision.
    """
    if Path(name).is_absolute():
        if revision is not None:
            raise ConfigError(f"redact.{field}_revision belongs to a model on the hub, and to no folder")
        if not Path(name).is_dir():
            raise ConfigError(f"redact.{field}: there is no folder where it says")
        return name, None
    commit = hub_commit(name, revision)
    if commit is None:
        which = "" if revision is None else f" --revision {revision}"
        raise ConfigError(
            f"redact.{field}: {name!r} is not in the local Hugging Face cache{f' at {revision}' if revision else ''}, "
            f"and redaction asks no network; fetch it once with `hf download {name}{which}`, or name a folder"
        )
    return name, commit


class GlinerOptions(BaseModel):
    """Settings of the policy ``gliner``."""

    gliner: str | None = Field(
        default=None,
        description='Folder of a model for the policy "gliner" (`pip install reticent[gliner]`); an absolute path.',
    )
    gliner_labels: dict[str, str] = Field(
        default_factory=lambda: dict(GLINER_LABELS),
        min_length=1,
        description="What the gliner model is asked for, in its language, and our label for it: "
        '{"phone number" = "PHONE_NUMBER", "weekday" = "O"}; "O" masks nothing.',
    )
    gliner_threshold: float = Field(
        default=0.3, gt=0, lt=1, description="Probability from which a span of the gliner model is masked."
    )

    _gliner_folder = field_validator("gliner")(absolute)
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
        "Others keep their own, and PER, LOC and the like become PERSON, LOCATION.",
    )
    token_classifier_threshold: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Probability from which a token is masked: that of all classes of a label together. By default "
        "what the model's folder says, else 0.5.",
    )
    token_classifier_thresholds: dict[str, float] = Field(
        default_factory=dict, description="The same for single labels of ours: {PERSON = 0.2}."
    )
    token_classifier_device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="Where the token_classifier runs; auto is a GPU if there is one."
    )

    _absolute_or_hub = field_validator("token_classifier")(_place)

    _classifier_labels = field_validator("token_classifier_labels")(_checked)

    @field_validator("token_classifier_thresholds")
    @classmethod
    def _probabilities(cls, thresholds: dict[str, float]) -> dict[str, float]:
        if any(not 0 < value < 1 for value in thresholds.values()):
            raise ValueError("a threshold must be between 0 and 1")
        return thresholds
