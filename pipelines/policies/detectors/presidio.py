"""Microsoft Presidio's analyzer as a policy, on our own Docs, without any network, and several times as fast.

The finds are those of ``AnalyzerEngine.analyze`` with all default recognisers, for less work:

* Each pattern recogniser runs only on text that could match it, which for most sentences is none.
* Only a find whose score context words can change asks for lemmas.
* The parser runs only where it can change an entity (see `language.Annotator`).

A recogniser without a known gate always runs, and in another release of Presidio than the gates were made for all of
them do. What is private to Presidio stands in `presidio_engine`. `PresidioPolicy.self_test` compares the finds with
plain ``analyze``.
"""

from __future__ import annotations

from typing import Any, Final

from pipelines.language import PARSED_ENTITIES
from pipelines.policies.detectors import presidio_engine as engine
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence, Span

_FOUND: Final = "reticent_presidio"


class PresidioPolicy:
    """Masks whatever the analyzer finds at its default threshold; labels and scores are Presidio's own.

    Its entities are the model's, from the Doc that the other policies share. The caller's own recognisers
    (``redact.recognizers``) run as well.
    """

    needs: frozenset[str] = SPECS["presidio"].components

    def __init__(self, options: PolicyOptions) -> None:
        self._name = options.name
        self._model = options.model
        # Made now, so that a broken install is no failing row.
        self._engine = engine.make_analyzer(
            options.model, type(self).needs | engine.CONTEXT, options.language, options.recognizers
        )
        self._language = options.language
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
        """What else must be annotated: lemmas, where context words can change the score of a find."""
        doc = sentence.doc
        if doc is None:
            return frozenset()
        text = doc.text  # made anew from the tokens whenever it is asked for
        found: list[Any] = []
        wanted: frozenset[str] = frozenset()
        for recognizer, gate in self._text_only:
            if gate is not None and not gate(text):
                continue
            results = recognizer.analyze(text, self._entities, None)
            if results:
                found += engine.identified(results, recognizer)
                wanted = engine.CONTEXT if recognizer.context else wanted
        doc.user_data[_FOUND] = found
        return wanted

    def find(self, sentence: Sentence) -> list[Span]:
        """The analyzer's finds.

        Raises:
            ValueError: the sentence carries no Doc.
        """
        finds = self.analyze(sentence)
        of_doc = _of_doc(sentence) if finds else sentence
        spans: list[Span] = []
        for label, start, end, score in finds:
            spans += of_doc.spans([(start, end, label)], self._name, score)
        return spans

    def analyze(self, sentence: Sentence) -> list[engine.Found]:
        """What ``AnalyzerEngine.analyze`` gives for the Doc's text: (type, start, end, score), characters of that text.

        Raises:
            ValueError: the sentence carries no Doc, or one that was not annotated for this policy.
        """
        doc = sentence.doc
        if doc is None or _FOUND not in doc.user_data:
            raise ValueError("presidio needs a Doc that was annotated for it")
        entities = engine.scored_entities(self._engine, doc.user_data[PARSED_ENTITIES])
        found = doc.user_data[_FOUND]
        threshold = self._engine.default_score_threshold
        if not found and not self._readers:  # one model's entities do not overlap: none is a part of another
            return [
                (kind, doc[start].idx, doc[end - 1].idx + len(doc[end - 1]), score)
                for kind, start, end, score in entities
                if kind in self._entities and kind in self._spacy.supported_entities and score >= max(threshold, 1e-9)
            ]
        artifacts = engine.artifacts_of(self._engine, doc, entities, self._language)
        results = list(found)
        for recognizer in (self._spacy, *self._readers):
            results += engine.identified(recognizer.analyze(doc.text, self._entities, artifacts) or [], recognizer)
        return engine.last_steps(self._engine, doc.text, results, artifacts, self._recognizers)

    def self_test(self) -> list[int]:
        """Compares the finds with plain ``analyze`` on `SELF_TEST`.

        Returns:
            Positions in `SELF_TEST` of the texts whose finds differ; empty where the short cuts are right.
        """
        from pipelines.language import Annotator, load_pipeline

        whole = load_pipeline(self._model, frozenset({*self.needs, *engine.CONTEXT, "parser"}))
        annotator = Annotator(whole)
        differing = []
        for number, text in enumerate(SELF_TEST):
            plain = whole(text)
            ours = whole.tokenizer(text)
            starts = [token.idx for token in ours]
            sentence = Sentence(text, starts, [token.idx + len(token) for token in ours], ours)
            annotator.annotate([ours], self.needs)
            annotator.annotate([ours], self.wants(sentence))
            if sorted(self.analyze(sentence)) != sorted(engine.plain_analyze(self._engine, plain, self._language)):
                differing.append(number)
        return differing


SELF_TEST: Final = (
    "Mail joe.bloggs@example.co.uk or www.example.org/a, IP 10.0.0.1 or fe80::1, MAC 00:1A:2B:3C:4D:5E.",
    "My card 4111 1111 1111 1111 and SSN 078-05-1120, ITIN 912-70-1234, passport A12345678, license D1234567.",
    "Call (212) 555-0123, +49 30 901820, 030 90 18 20 or 16401; NHS 943 476 5919; IBAN GB82 WEST 1234 5698 7654 32.",
    "Born 1987-06-05 or 5/6/87, account 123456789012, DEA AB1234563, wallet 1BoatSLRHtKNngkdXEeobR76b53LETtpyT.",
    "Mary Jones of Acme Ltd. met two Germans in New York on Monday in 1999, didn't she? Nothing to see here.",
)
"""Text that most recognisers find something in."""


def _of_doc(sentence: Sentence) -> Sentence:
    """The sentence with the offsets of its Doc: those of the text, but for wide gaps."""
    assert sentence.doc is not None  # noqa: S101 - the caller has checked
    text = sentence.doc.text
    if text == sentence.text:
        return sentence
    starts = [token.idx for token in sentence.doc]
    return Sentence(text, starts, [token.idx + len(token) for token in sentence.doc], sentence.doc)
