"""A policy that masks every find in the whole document, because names and codes recur without revealing context.

This couples the rows of a document, because other rows decide whether a word of a row is masked. So a guarantee for
single sentences has to suppose that a secret does not change the masks of other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pipelines.policies.detectors.phrases import PhraseTable, pieces
from pipelines.policies.english.common_words import COMMON_WORDS, NUMBER_WORDS
from pipelines.policies.protocol import NamedPolicy, Sentence, Span

GRAMMATICAL_LABELS: Final = frozenset({"PRON", "PROPN", "SUBJ", "OBJ", "VERB", "ROOT", "LITERAL_MASK", "FAILED_CLOSED"})
"""Labels that describe the role of a word in its sentence and not the word itself."""

_NAME_LABELS: Final = frozenset({"PERSON", "NAME"})
_MIN_CHARS: Final = 3


class PropagatePolicy(NamedPolicy):
    """Masks every mention in a document of a find of another policy in the document.

    It looks for the whole find, and also for the single words of a person's name. It ignores everyday words and short
    numbers, because they usually mean something else elsewhere.
    """

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns no spans, because the policy needs the whole document."""
        return []

    def find_in_document(self, sentences: Sequence[Sentence], found: Sequence[Sequence[Span]]) -> list[list[Span]]:
        """Returns all mentions of the finds in the document."""
        phrases: dict[str, str] = {}
        for sentence, spans in zip(sentences, found, strict=True):
            for span in spans:
                if span.label in GRAMMATICAL_LABELS:
                    continue
                text = sentence.text[sentence.starts[span.start_token] : sentence.ends[span.end_token - 1]]
                words = pieces(text)
                if any(_is_distinctive(word) for word in words):
                    phrases.setdefault(text, span.label)
                if span.label in _NAME_LABELS and len(words) > 1:
                    for word in words:
                        if _is_distinctive(word) and not word.isdigit():
                            phrases.setdefault(word, span.label)
        table = PhraseTable(sorted(phrases.items()))
        if not table:
            return [[] for _ in sentences]
        return [sentence.spans(table.find(sentence.text), self._name) for sentence in sentences]


def _is_distinctive(word: str) -> bool:
    """Returns true if a word is rare enough to mean the same everywhere in a document."""
    return len(word) >= _MIN_CHARS and word not in COMMON_WORDS and word not in NUMBER_WORDS
