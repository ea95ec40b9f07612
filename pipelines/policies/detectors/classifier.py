"""A sequence classifier over windows of tokens (Domain Private Transformers, section 5.1): `reticent train-policy`.

A window is masked when the classifier gives some domain more than the threshold. What is masked is the union of the
windows' tokens in the original sentence; masking one window before reading the next would show the classifier masks.
The classifier was fitted on other rows, so it ties records together, and the guarantee says so.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, ClassVar, Final

from pipelines.errors import ConfigError
from pipelines.policies.detectors.keywords import label_of
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.detectors.windows import windows
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence, Span

MAX_PIECES: Final = 512
"""What models of this kind read at once."""

DESCRIPTION: Final = "reticent.json"
"""Beside the model: the domains, the window, and the digest of the weights, which stands for them in keys."""


class ClassifierPolicy:
    """Masks windows that the classifier is sure of; the label is the domain, the score its probability."""

    needs: ClassVar[frozenset[str]] = SPECS["classifier"].components
    reads_context: ClassVar[bool] = SPECS["classifier"].reads_context

    def __init__(self, options: PolicyOptions) -> None:
        if options.classifier is None:
            raise ConfigError(
                "policy 'classifier' needs a trained model: run `reticent train-policy`, then set "
                "redact.classifier to its folder"
            )
        folder = Path(options.classifier)
        described = read_description(folder)
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        from pipelines.quiet import quiet_transformers

        self._name, self._threshold = options.name, options.classifier_threshold
        self._labels = [label_of(domain) for domain in described["domains"]]
        self._window, self._overlap = int(described["window_tokens"]), int(described["overlap_tokens"])
        with quiet_transformers():
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            self._model: Any = AutoModelForSequenceClassification.from_pretrained(folder, local_files_only=True).eval()

    def find(self, sentence: Sentence) -> list[Span]:
        """The windows above the threshold. One sentence at a time, so that a score depends on nothing else.

        Raises:
            ValueError: one token alone is more than the model can read.
        """
        import torch

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
        """A window, or its halves, or theirs: the model would leave unread what is beyond its last word piece."""
        first, last = window
        start, end = sentence.starts[first], sentence.ends[last - 1]
        # A character is four pieces (the bytes of UTF-8) at most, and two pieces are the model's own.
        if (
            4 * (end - start) + 2 <= MAX_PIECES
            or len(self._tokenizer(sentence.text[start:end])["input_ids"]) <= MAX_PIECES
        ):
            return [window]
        if last - first == 1:
            raise ValueError("a token is longer than the classifier can read")
        middle = (first + last) // 2
        return [*self._readable(sentence, (first, middle)), *self._readable(sentence, (middle, last))]


def weights_digest(folder: Path) -> str:
    """SHA-256 of a model's weights."""
    with (folder / "model.safetensors").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_description(folder: Path) -> dict[str, Any]:
    """What `reticent train-policy` wrote beside a model.

    Raises:
        ConfigError: the folder holds no classifier, or other weights than it was written with.
    """
    try:
        described: dict[str, Any] = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        digest = weights_digest(folder)
    except (OSError, ValueError):
        raise ConfigError(
            f"redact.classifier: {folder} holds no classifier; `reticent train-policy` writes one"
        ) from None
    if described.get("weights_sha256") != digest:
        raise ConfigError(f"redact.classifier: the weights in {folder} are not those that {DESCRIPTION} names")
    return described
