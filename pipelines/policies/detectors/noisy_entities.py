"""Persons, places and organisations in informal English, by a small model that is part of the package.

It was trained on tweets (`benchmarks/train_english_detector.py`), in small letters and with typos too, and reads
handles as persons. It runs on the CPU, so that a redaction has the same bytes on machines with a GPU and without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pipelines.errors import ConfigError
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.detectors.token_classifier import read_description
from pipelines.policies.detectors.token_encoder import EncoderReader
from pipelines.policies.english.noisy_entities import FOLDER
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence, Span


class NoisyEntitiesPolicy:
    """Masks what the model gives a probability above the label's threshold, which is the score."""

    needs: ClassVar[frozenset[str]] = SPECS["noisy_entities"].components
    reads_context: ClassVar[bool] = SPECS["noisy_entities"].reads_context

    def __init__(self, options: PolicyOptions) -> None:
        if options.language != "en":
            raise ConfigError(f"policy 'noisy_entities' reads English, but redact.language is '{options.language}'")
        self._name = options.name
        described = read_description(FOLDER)["thresholds"]
        self._reader = EncoderReader(
            str(FOLDER), None, labels={}, threshold=None, thresholds={}, described=described, device="cpu"
        )

    def prepare(self, sentences: Sequence[Sentence]) -> None:
        """As `Policy`."""
        self._reader.prepare(sentences)

    def find(self, sentence: Sentence) -> list[Span]:
        """The runs of tokens above the threshold of their label."""
        return [Span(*run[:3], self._name, run[3]) for run in self._reader.find(sentence)]

    def probabilities(self, sentence: Sentence) -> list[float]:
        """For every token the highest probability of a label; 1 where the model cannot read it."""
        scores, unread = self._reader.scores(sentence)
        highest = (max(of_token) for of_token in zip(*scores.values(), strict=True))
        return [1.0 if flag else value for value, flag in zip(highest, unread, strict=True)]
