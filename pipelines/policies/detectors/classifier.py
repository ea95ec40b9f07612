"""A sequence classifier over windows of tokens (Domain Private Transformers, section 5.1): `reticent train-policy`.

A window is masked if the classifier gives some domain a probability above the threshold. The policy masks the union of
the windows' tokens in the original sentence. It does not mask one window before it reads the next, because the
classifier would then see masks. The classifier was fitted on other rows, so it couples records, and the guarantee says
so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Final

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from pipelines.errors import ConfigError
from pipelines.policies.detectors.keywords import label_of
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.detectors.trained_folder import read_classifier
from pipelines.policies.detectors.windows import windows
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import NamedPolicy, Sentence, Span
from pipelines.quiet import quiet_transformers

MAX_PIECES: Final = 512
"""Word pieces that models of this kind read at once."""


class ClassifierPolicy(NamedPolicy):
    """Masks windows above the threshold. The label is the domain, and the score is its probability."""

    reads_context: ClassVar[bool] = SPECS["classifier"].reads_context

    def __init__(self, options: PolicyOptions) -> None:
        if options.classifier is None:
            raise ConfigError(
                "policy 'classifier' needs a trained model: run `reticent train-policy`, then set "
                "redact.classifier to its folder"
            )
        folder = Path(options.classifier)
        described = read_classifier(folder)
        super().__init__(options)
        self._threshold = options.classifier_threshold
        self._labels = [label_of(domain) for domain in described["domains"]]
        self._window, self._overlap = int(described["window_tokens"]), int(described["overlap_tokens"])
        with quiet_transformers():
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            self._model: Any = AutoModelForSequenceClassification.from_pretrained(folder, local_files_only=True).eval()

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns the windows above the threshold. A score depends on nothing but the sentence.

        Raises:
            ValueError: a single token is longer than the model can read.
        """
        cuts = [
            part
            for window in windows(sentence.num_tokens, self._window, self._overlap)
            for part in self._readable(sentence, window)
        ]
        if not cuts:
            return []
        texts = [sentence.text[sentence.starts[a] : sentence.ends[b - 1]] for a, b in cuts]
        inputs = self._tokenizer(texts, padding=True, return_tensors="pt")
        with torch.no_grad():
            probabilities = torch.softmax(self._model(**inputs).logits, dim=-1)
        spans = []
        for (first, last), (probability, domain) in zip(
            cuts, zip(*(t.tolist() for t in probabilities.max(dim=-1)), strict=True), strict=True
        ):
            if probability > self._threshold:
                spans.append(Span(first, last, self._labels[domain], self._name, min(1.0, round(probability, 6))))
        return spans

    def _readable(self, sentence: Sentence, window: tuple[int, int]) -> list[tuple[int, int]]:
        """Halves a window until the model can read each part. The model would ignore the word pieces past its limit."""
        first, last = window
        start, end = sentence.starts[first], sentence.ends[last - 1]
        # A character has at most four pieces (the bytes of UTF-8), and the model adds two special tokens.
        if (
            4 * (end - start) + 2 <= MAX_PIECES
            or len(self._tokenizer(sentence.text[start:end])["input_ids"]) <= MAX_PIECES
        ):
            return [window]
        if last - first == 1:
            raise ValueError("a token is longer than the classifier can read")
        middle = (first + last) // 2
        return [*self._readable(sentence, (first, middle)), *self._readable(sentence, (middle, last))]
