"""What is found once is masked in the whole document: names and codes return without the context that gave them away.

This ties the rows of a document together (whether a word is masked in one depends on the others), so a guarantee for
single sentences has to suppose that a secret does not change what is masked elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from pipelines.policies.detectors.phrases import PhraseTable, pieces
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.english.common_words import COMMON_WORDS, NUMBER_WORDS
from pipelines.policies.protocol import NamedPolicy, Sentence, Span

GRAMMATICAL_LABELS: Final = frozenset({"PRON", "PROPN", "SUBJ", "OBJ", "VERB", "ROOT", "LITERAL_MASK", "FAILED_CLOSED"})
"""Labels of finds that say what a word does in its sentence and not what it is."""

_NAME_LABELS: Final = frozenset({"PERSON", "NAME"})
_MIN_CHARS: Final = 3


class PropagatePolicy(NamedPolicy):
    """Masks, anywhere in a document, what another policy masked somewhere in it.

    A find is carried over whole, and a person's name word by word too. Everyday words and short numbers are not, since
    they stand for something else elsewhere.
    """

    needs: ClassVar[frozenset[str]] = SPECS["propagate"].components

    def find(self, sentence: Sentence) -> list[Span]:
        """Nothing: one sentence alone has nothing to carry over."""
        return []

    def find_in_document(self, sentences: Sequence[Sentence], found: Sequence[Sequence[Span]]) -> list[list[Span]]:
        """The other places of what was found; nothing where the document is a single sentence without repeats."""
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
    """Whether a word is rare enough to be the same thing wherever it stands."""
    return len(word) >= _MIN_CHARS and word not in COMMON_WORDS and word not in NUMBER_WORDS
