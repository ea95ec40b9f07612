"""Any token-classification model as a policy: one of Hugging Face transformers, or a spaCy pipeline with ``ner``.

A token is masked if the probabilities of all classes of a label (``B-PER`` and ``I-PER``) together reach the label's
threshold in any window that contains the token. The result for a window depends on its own text alone. Windows are
evaluated in fixed shapes and, on the CPU, by one thread. The CPU evaluates several windows at once only if a test shows
that this changes no bit. So neither the other windows of a batch nor the number of workers can flip a decision near a
threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pipelines.errors import ConfigError
from pipelines.policies.detectors.model_options import location_of
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.detectors.trained_folder import read_detector
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import NamedPolicy, Sentence, Span

if TYPE_CHECKING:
    from pipelines.policies.detectors.token_encoder import EncoderReader
    from pipelines.policies.detectors.token_spacy import SpacyReader


class TokenClassifierPolicy(NamedPolicy):
    """Masks the model's finds above its thresholds. The score is the probability, or 1.0 if the model gives none."""

    reads_context: ClassVar[bool] = SPECS["token_classifier"].reads_context

    def __init__(self, options: PolicyOptions) -> None:
        super().__init__(options)
        self._reader = open_reader(options)

    @property
    def labels(self) -> frozenset[str]:
        """The labels that the policy can find."""
        return self._reader.labels

    def prepare(self, sentences: Sequence[Sentence]) -> None:
        """Reads several sentences at once (`pipelines.policies.judging.judge`)."""
        self._reader.prepare(sentences)

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns the runs of tokens above the threshold of their label.

        Raises:
            ValueError: the model returned a value that is not a finite number.
        """
        return [Span(*run[:3], self._name, run[3]) for run in self._reader.find(sentence)]


def open_reader(options: PolicyOptions) -> SpacyReader | EncoderReader:
    """Opens the model that the settings name, without network access.

    Raises:
        ConfigError: there is no such model, it is of another kind, its labels need a map, or the model has no label
            that a threshold or a map in the settings names.
    """
    if options.token_classifier is None:
        raise ConfigError(
            "policy 'token_classifier' needs a model: set redact.token_classifier to a folder, e.g. one that "
            "`reticent train-detector` wrote"
        )
    location, commit = location_of("token_classifier", options.token_classifier, options.token_classifier_revision)
    described = read_detector(Path(location)) if commit is None else {}
    # Only one of the two readers is imported: the first loads spaCy, the second torch.
    if commit is None and (Path(location) / "config.cfg").is_file():
        from pipelines.policies.detectors.token_spacy import SpacyReader

        if options.token_classifier_threshold is not None or options.token_classifier_thresholds:
            raise ConfigError(
                "redact.token_classifier_threshold: a spaCy pipeline gives no probabilities; its recall is set when "
                "it is trained (`reticent train-detector --recall`)"
            )
        if options.token_classifier_onnx is not None:
            raise ConfigError("redact.token_classifier_onnx: the folder holds a spaCy pipeline, which has no ONNX file")
        return SpacyReader(Path(location), options.token_classifier_labels)
    from pipelines.policies.detectors.token_encoder import EncoderReader

    return EncoderReader(
        location,
        commit,
        labels=options.token_classifier_labels,
        threshold=options.token_classifier_threshold,
        thresholds=options.token_classifier_thresholds,
        described=described.get("thresholds", {}),
        device=options.token_classifier_device,
        onnx=options.token_classifier_onnx,
        joint=options.token_classifier_aggregation == "any",  # noqa: S105 - no password
    )
