"""Policies for named entities of spaCy's model: low and high entity (Just Fine-tune Twice, section on detectors).

Both policies read the same Doc, so selecting both costs one pass. Each row is one sentence, and the entity recogniser
has its own token vectors, so neither the parser nor the tagger runs.
"""

from __future__ import annotations

from typing import ClassVar

from pipelines.language import entities_of
from pipelines.policies.detectors.specs import HIGH_LABELS, LOW_LABELS, OTHER_CORPORA, SPECS
from pipelines.policies.english.ordinary import without_ordinary
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import NamedPolicy, Sentence, Span


class HighEntityPolicy(NamedPolicy):
    """Masks the entities of the 18 OntoNotes types, and of the types of models for other languages.

    spaCy gives no confidence, so the score is 1.
    """

    needs: ClassVar[frozenset[str]] = SPECS["high_entity"].components
    labels: ClassVar[frozenset[str]] = HIGH_LABELS

    def __init__(self, options: PolicyOptions) -> None:
        super().__init__(options)
        self._dates_and_numbers = options.dates_and_numbers

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns the entities of the policy's types, without those that `dates_and_numbers` leaves out.

        Raises:
            ValueError: the sentence has no Doc.
        """
        if sentence.doc is None:
            raise ValueError("an entity policy needs a Doc")
        typed = [(start, end, OTHER_CORPORA.get(label, label)) for start, end, label in entities_of(sentence.doc)]
        found = [Span(start, end, label, self._name) for start, end, label in typed if label in self.labels]
        return without_ordinary(found, sentence, self._dates_and_numbers, by_model=True)


class LowEntityPolicy(HighEntityPolicy):
    """Masks persons, organisations, dates and locations."""

    labels: ClassVar[frozenset[str]] = LOW_LABELS
