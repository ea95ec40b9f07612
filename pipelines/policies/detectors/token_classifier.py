"""Any token-classification model as a policy: of Hugging Face transformers, or a spaCy pipeline with ``ner``.

A token is masked when the probabilities of all classes of a label (``B-PER`` and ``I-PER``) together reach the label's
threshold in any window that reads it. What a window gives depends on its own text alone: windows are evaluated in
fixed shapes, on the CPU by one thread and several at once only where that is seen to change no bit, so that neither
the company in a batch nor the number of workers can flip a decision that is near a threshold.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from pipelines.errors import ConfigError
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.detectors.token_compact import COMPACT
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence, Span

DESCRIPTION: Final = "reticent.json"
"""What `reticent train-detector` writes beside a model: labels, thresholds, and what it was judged on."""

DEFAULT_THRESHOLD: Final = 0.5


class Reader(Protocol):
    """Finds the labelled tokens of sentences by a model."""

    labels: frozenset[str]
    """What it may find, in our names."""

    def find(self, sentence: Sentence) -> list[tuple[int, int, str, float]]:
        """Runs of tokens ``(start, end, label, score)``."""
        ...

    def prepare(self, sentences: Sequence[Sentence]) -> None:
        """Reads several sentences at once where that is faster; `find` answers the same without it."""
        ...


class TokenClassifierPolicy:
    """Masks what the model finds above its thresholds; the score is the probability, 1.0 where the model gives none."""

    needs: ClassVar[frozenset[str]] = SPECS["token_classifier"].components
    reads_context: ClassVar[bool] = SPECS["token_classifier"].reads_context

    def __init__(self, options: PolicyOptions) -> None:
        self._name = options.name
        self._reader = open_reader(options)

    @property
    def labels(self) -> frozenset[str]:
        """What it may find."""
        return self._reader.labels

    def prepare(self, sentences: Sequence[Sentence]) -> None:
        """Reads several sentences at once (`pipelines.policies.judging.judge`)."""
        self._reader.prepare(sentences)

    def find(self, sentence: Sentence) -> list[Span]:
        """The runs of tokens above the threshold of their label.

        Raises:
            ValueError: the model gave no number.
        """
        return [Span(*run[:3], self._name, run[3]) for run in self._reader.find(sentence)]


def open_reader(options: PolicyOptions) -> Reader:
    """Opens the model that the settings name. The network is not asked.

    Raises:
        ConfigError: there is no such model, it is of another kind, its labels need a map, or a threshold or a label of
            the settings is none of its own.
    """
    from pipelines.policies.detectors.model_options import location_of

    if options.token_classifier is None:
        raise ConfigError(
            "policy 'token_classifier' needs a model: set redact.token_classifier to a folder, e.g. one that "
            "`reticent train-detector` wrote"
        )
    location, commit = location_of("token_classifier", options.token_classifier, options.token_classifier_revision)
    described = read_description(Path(location)) if commit is None else {}
    reader: Reader
    if commit is None and (Path(location) / "config.cfg").is_file():
        from pipelines.policies.detectors.token_spacy import SpacyReader

        if options.token_classifier_threshold is not None or options.token_classifier_thresholds:
            raise ConfigError(
                "redact.token_classifier_threshold: a spaCy pipeline gives no probabilities; its recall is set when "
                "it is trained (`reticent train-detector --recall`)"
            )
        reader = SpacyReader(Path(location), options.token_classifier_labels)
    else:
        from pipelines.policies.detectors.token_encoder import EncoderReader

        reader = EncoderReader(
            location,
            commit,
            labels=options.token_classifier_labels,
            threshold=options.token_classifier_threshold,
            thresholds=options.token_classifier_thresholds,
            described=described.get("thresholds", {}),
            device=options.token_classifier_device,
        )
    return reader


def read_description(folder: Path) -> dict[str, Any]:
    """What `reticent train-detector` wrote beside a model; empty where it is a model from elsewhere.

    Raises:
        ConfigError: it describes something else, or other weights.
    """
    path = folder / DESCRIPTION
    if not path.exists():
        return {}
    try:
        described: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ConfigError(f"redact.token_classifier: {DESCRIPTION} in its folder cannot be read") from None
    if not isinstance(described, dict) or described.get("kind") != "detector":
        raise ConfigError(
            f"redact.token_classifier: its folder holds another kind of model ({DESCRIPTION}); a classifier of "
            "`reticent train-policy` belongs to redact.classifier"
        )
    if described.get("weights_sha256") != weights_digest(folder):
        raise ConfigError(
            f"redact.token_classifier: the weights in its folder are not those that {DESCRIPTION} names; train it anew"
        )
    return described


def weights_digest(folder: Path) -> str:
    """SHA-256 over a detector's weights: of transformers, or of spaCy's entity recogniser."""
    import hashlib

    digest = hashlib.sha256()
    for name in ("model.safetensors", COMPACT, "ner/model", "tok2vec/model"):
        if (folder / name).is_file():
            with (folder / name).open("rb") as file:
                digest.update(name.encode() + bytes.fromhex(hashlib.file_digest(file, "sha256").hexdigest()))
    return digest.hexdigest()
