"""Microsoft Presidio's analyzer as a policy, on our own Docs, without any network, and several times as fast.

A row is one sentence. Its finds are those of ``AnalyzerEngine.analyze`` with all default recognisers, with less work:

* Each pattern recogniser runs only on text that could match it. Most sentences match no pattern.
* Lemmas are computed only for a find whose score depends on context words.
* The parser does not run. It could only cut an entity at what it takes for the end of a sentence inside the row.

A recogniser without a known gate always runs. If another release of Presidio is installed, all recognisers always run.
`presidio_engine` has all uses of Presidio's private parts. ``tests/policies/detectors/test_policies_presidio.py``
compares the finds with plain ``analyze``.
"""

from __future__ import annotations

from typing import Any, Final

from pipelines.language import entities_of, text_of
from pipelines.policies.detectors import presidio_engine as engine
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.english.ordinary import without_ordinary
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence, Span

_PATTERN_RESULTS: Final = "reticent_presidio"


class PresidioPolicy:
    """Masks all finds of the analyzer at its default threshold. Labels and scores are Presidio's.

    Its entities come from the model's Doc, which the other policies share. The caller's recognisers
    (``redact.recognizers``) run as well.
    """

    needs: frozenset[str] = SPECS["presidio"].components

    def __init__(self, options: PolicyOptions) -> None:
        self._name = options.name
        # Made here, so that a broken installation is an error and not a failed row.
        self._engine = engine.make_analyzer(
            options.model, type(self).needs | engine.CONTEXT, options.language, options.recognizers
        )
        self._language = options.language
        self._dates_and_numbers = options.dates_and_numbers
        self._entities = self._engine.get_supported_entities(language=options.language)
        self._recognizers = self._engine.registry.get_recognizers(language=options.language, all_fields=True)
        self._spacy = next(r for r in self._recognizers if engine.kind_of(r) == "SpacyRecognizer")
        gates = engine.gates()
        others = [r for r in self._recognizers if r is not self._spacy]
        self._readers = [r for r in others if engine.kind_of(r) not in engine.GATES and not engine.reads_text_only(r)]
        self._text_only = [(r, gates.get(engine.kind_of(r))) for r in others if r not in self._readers]
        if self._readers:
            self.needs = self.needs | engine.CONTEXT  # they may look at any annotation

    def wants(self, sentence: Sentence) -> frozenset[str]:
        """Returns the components of lemmas if context words can change the score of a find."""
        doc = sentence.doc
        if doc is None:
            return frozenset()
        text = text_of(doc)
        of_patterns: list[Any] = []
        wanted: frozenset[str] = frozenset()
        for recognizer, gate in self._text_only:
            if gate is not None and not gate(text):
                continue
            results = recognizer.analyze(text, self._entities, None)
            if results:
                of_patterns += engine.identified(results, recognizer)
                wanted = engine.CONTEXT if recognizer.context else wanted
        doc.user_data[_PATTERN_RESULTS] = of_patterns
        return wanted

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns the analyzer's finds, without those that `dates_and_numbers` leaves out.

        Raises:
            ValueError: the sentence has no Doc.
        """
        doc = sentence.doc
        if doc is not None and doc.user_data.get(_PATTERN_RESULTS) == [] and not self._readers:
            spans = [Span(start, end, label, self._name, score) for label, start, end, score in self._entities_in(doc)]
        else:
            finds = self.analyze(sentence)
            of_doc = _of_doc(sentence) if finds else sentence
            spans = [
                s for label, start, end, score in finds for s in of_doc.spans([(start, end, label)], self._name, score)
            ]
        return without_ordinary(spans, sentence, self._dates_and_numbers, by_model=True)

    def _entities_in(self, doc: Any) -> list[engine.Found]:
        """Returns the finds in tokens, if there are no others than the model's entities, which do not overlap."""
        threshold = max(self._engine.default_score_threshold, 1e-9)
        return [
            found
            for found in engine.scored_entities(self._engine, entities_of(doc))
            if found[0] in self._spacy.supported_entities and found[3] >= threshold
        ]

    def analyze(self, sentence: Sentence) -> list[engine.Found]:
        """Returns the finds of ``AnalyzerEngine.analyze`` in the Doc's text: (type, start, end, score), as characters.

        Raises:
            ValueError: the sentence has no Doc, or one that was not annotated for this policy.
        """
        doc = sentence.doc
        if doc is None or _PATTERN_RESULTS not in doc.user_data:
            raise ValueError("presidio needs a Doc that was annotated for it")
        of_patterns = doc.user_data[_PATTERN_RESULTS]
        if not of_patterns and not self._readers:
            return [
                (kind, doc[start].idx, doc[end - 1].idx + len(doc[end - 1]), score)
                for kind, start, end, score in self._entities_in(doc)
            ]
        entities = engine.scored_entities(self._engine, entities_of(doc))
        artifacts = engine.artifacts_of(self._engine, doc, entities, self._language)
        results = list(of_patterns)
        for recognizer in (self._spacy, *self._readers):
            results += engine.identified(recognizer.analyze(text_of(doc), self._entities, artifacts) or [], recognizer)
        return engine.last_steps(self._engine, text_of(doc), results, artifacts, self._recognizers)


def _of_doc(sentence: Sentence) -> Sentence:
    """Returns the sentence with the offsets of its Doc, which differ from those of the text after wide gaps."""
    assert sentence.doc is not None  # noqa: S101 - the caller has checked
    text = text_of(sentence.doc)
    if text == sentence.text:
        return sentence
    starts = [token.idx for token in sentence.doc]
    return Sentence(text, starts, [token.idx + len(token) for token in sentence.doc], sentence.doc)
