"""Any GLiNER or GLiNER2 model as a policy. The settings name kinds of secrets, which the model finds untrained.

U. Zaratiana et al., *GLiNER: Generalist Model for Named Entity Recognition using Bidirectional Transformer*
(NAACL 2024). U. Zaratiana et al., *GLiNER2: An Efficient Multi-Task Information Extraction System with Schema-Driven
Interface* (2025).

The model reads overlapping windows of tokens, by one thread. Windows of the same numbers of words and word pieces are
read several at once, if a trial gives the same scores as one at a time. So a find depends on the sentence alone. The
libraries themselves cut off text that is too long, and drop scores that are not finite. This policy halves a window
until the model reads all of it, and fails the row if a score is not finite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from pipelines.errors import ConfigError
from pipelines.policies.detectors.gliner_models import Answer, open_model
from pipelines.policies.detectors.model_options import folder_of
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.detectors.token_encoder import UNREAD, one_thread
from pipelines.policies.detectors.windows import windows
from pipelines.policies.options import OUTSIDE, PolicyOptions
from pipelines.policies.protocol import NamedPolicy, Sentence, Span

_TOKENS: Final = 96
_OVERLAP: Final = 24
_SPARE: Final = 8
"""Fewest word pieces of a window."""

_AT_ONCE: Final = 8
"""Windows in a batch."""

_TRIAL: Final = 0.01
"""Probability of the finds that a trial compares."""


class GlinerPolicy(NamedPolicy):
    """Masks every span whose probability reaches the threshold. The probability is the score.

    Raises:
        ConfigError: the settings name no model, the package is missing, or there is no such model.
    """

    reads_context: ClassVar[bool] = SPECS["gliner"].reads_context

    def __init__(self, options: PolicyOptions) -> None:
        if options.gliner is None:
            raise ConfigError("policy 'gliner' needs a model: set redact.gliner to the folder of one")
        super().__init__(options)
        self._threshold = options.gliner_threshold
        self._our_labels = dict(options.gliner_labels)
        self._model = open_model(folder_of("gliner", options.gliner, options.gliner_revision))
        self._max_words, self._max_pieces = self._model.room(list(self._our_labels))
        if self._max_pieces < _SPARE:
            raise ConfigError("redact.gliner_labels: the model cannot read so many labels and text besides; name fewer")
        self._seen: dict[str, list[Answer]] = {}
        self._exact: dict[tuple[int, int], bool] = {}

    @property
    def labels(self) -> frozenset[str]:
        """The labels that the policy can find."""
        return frozenset({*self._our_labels.values(), UNREAD} - {OUTSIDE})

    def prepare(self, sentences: Sequence[Sentence]) -> None:
        """Reads the windows of these sentences in batches, and forgets those of earlier sentences."""
        self._seen = {}
        texts = {text: size for s in sentences for _, _, text, size in self._windows(s) if self._fits(size)}
        alike: dict[tuple[int, int], list[str]] = {}
        for text, size in texts.items():
            alike.setdefault(size, []).append(text)
        for size, group in sorted(alike.items()):
            while len(group) >= _AT_ONCE and self._is_exact(group[:_AT_ONCE], size):
                self._seen |= zip(group[:_AT_ONCE], self._ask(group[:_AT_ONCE]), strict=True)
                group = group[_AT_ONCE:]
            self._seen |= {text: self._ask([text])[0] for text in group}

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns the spans that reach the threshold, and the tokens that are too long to read.

        Raises:
            ValueError: the model returned a value that is not a finite number.
        """
        spans = set()
        for first, last, text, size in self._windows(sentence):
            if not self._fits(size):
                spans.add(Span(first, last, UNREAD, self._name))
                continue
            base = sentence.starts[first]
            for start, end, asked, score in self._seen[text] if text in self._seen else self._ask([text])[0]:
                tokens = sentence.widen(base + start, base + end)
                if tokens is not None and self._our_labels[asked] != OUTSIDE:
                    spans.add(Span(*tokens, self._our_labels[asked], self._name, min(1.0, round(score, 6))))
        return sorted(spans)

    def _ask(self, texts: Sequence[str], threshold: float | None = None) -> list[list[Answer]]:
        with one_thread("cpu"):
            return self._model.ask(texts, list(self._our_labels), threshold or self._threshold)

    def _is_exact(self, batch: Sequence[str], size: tuple[int, int]) -> bool:
        """Returns true if the scores of a batch are those of its windows one at a time, to the last bit.

        This depends on the kernel and not on the text. So it is tested once per size in each process, with finds of
        almost any score.
        """
        if size not in self._exact:
            low = min(self._threshold, _TRIAL)
            alone = [self._ask([text], low)[0] for text in batch]
            if not any(alone):
                return False
            self._exact[size] = alone == self._ask(batch, low)
        return self._exact[size]

    def _windows(self, sentence: Sentence) -> Iterator[tuple[int, int, str, tuple[int, int]]]:
        """Yields runs of tokens that the model can read whole, and single tokens of any length.

        Yields:
            The first token, the token after the last, their text, and its numbers of words and word pieces.
        """
        pending = windows(sentence.num_tokens, _TOKENS, _OVERLAP)
        while pending:
            first, last = pending.pop()
            text = sentence.text[sentence.starts[first] : sentence.ends[last - 1]]
            size = self._model.size_of(text)
            if last - first == 1 or self._fits(size):
                yield first, last, text, size
            else:
                middle = (first + last) // 2
                pending += [(first, middle), (middle, last)]

    def _fits(self, size: tuple[int, int]) -> bool:
        return size[0] <= self._max_words and size[1] <= self._max_pieces
