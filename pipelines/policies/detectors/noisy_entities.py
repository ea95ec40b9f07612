"""A policy that finds persons, places and organisations in informal English by a small model of this package.

The model was trained on tweets (`benchmarks/train_english_detector.py`), also in lower case and with typos, and labels
handles as persons. It runs on the CPU, so redaction gives the same bytes on machines with and without a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pipelines.errors import ConfigError
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.detectors.token_encoder import EncoderReader
from pipelines.policies.detectors.trained_folder import read_detector
from pipelines.policies.english.noisy_entities import FOLDER
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import NamedPolicy, Sentence, Span


class NoisyEntitiesPolicy(NamedPolicy):
    """Masks tokens whose probability of a label reaches the label's threshold. The probability is the score."""

    reads_context: ClassVar[bool] = SPECS["noisy_entities"].reads_context

    def __init__(self, options: PolicyOptions) -> None:
        if options.language != "en":
            raise ConfigError(f"policy 'noisy_entities' reads English, but redact.language is '{options.language}'")
        super().__init__(options)
        described = read_detector(FOLDER)["thresholds"]
        self._reader = EncoderReader(
            str(FOLDER), None, labels={}, threshold=None, thresholds={}, described=described, device="cpu"
        )

    def prepare(self, sentences: Sequence[Sentence]) -> None:
        """Reads several sentences at once (`pipelines.policies.judging.judge`)."""
        self._reader.prepare(sentences)

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns the runs of tokens above the threshold of their label."""
        return [Span(*run[:3], self._name, run[3]) for run in self._reader.find(sentence)]

    def probabilities(self, sentence: Sentence) -> list[float]:
        """Returns the highest probability of a label for every token, or 1 if the model cannot read the token."""
        scores, unread = self._reader.scores(sentence)
        highest = (max(of_token) for of_token in zip(*scores.values(), strict=True))
        return [1.0 if flag else value for value, flag in zip(highest, unread, strict=True)]
