"""Microsoft Presidio's analyzer as a policy, on our own Docs, without any network, and several times as fast.

The finds are those of ``AnalyzerEngine.analyze`` with all default recognisers (extra ``presidio``), for less work:

* Each pattern recogniser runs only on text that could match it (`GATES`), which for most sentences is none.
* Only a find whose score context words can change asks for lemmas.
* The parser runs only where it can change an entity (see `language.Annotator`).

A recogniser without a known gate always runs, and in a release of Presidio other than `GATES_MADE_FOR` all of them do.
`PresidioPolicy.self_test` compares the finds with plain ``analyze``.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pipelines.errors import ConfigError
from pipelines.language import PARSED_ENTITIES
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.protocol import LABEL_PATTERN, PolicyOptions, Sentence, Span

if TYPE_CHECKING:
    from presidio_analyzer import AnalyzerEngine
    from spacy.tokens import Doc

_CONTEXT: Final = frozenset({"tagger", "attribute_ruler", "lemmatizer"})
_FOUND: Final = "reticent_presidio"

_DIGIT: Final = re.compile(r"\d")
_LETTER_AND_DIGIT: Final = re.compile(r"[^\W\d_]\d|\d[^\W\d_]|\]\d|\d{6}")
_DATE: Final = re.compile(r"\d[-/.]|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)-", re.I)
_IP: Final = re.compile(r"::|[0-9A-Fa-f]:|\d\.\d")
_MAC: Final = re.compile(r"[0-9A-Fa-f]{2}[:-]|[0-9A-Fa-f]{4}\.")
_CRYPTO: Final = re.compile(r"\w{26}")
_IBAN: Final = re.compile(r"\w\w\d\d")
_URL: Final = re.compile(r"[\w.-]\.\w")
_DIGIT_RUN: Final = re.compile(r"\d(?:\D{0,6}\d){3,}")
_SHORT_NUMBERS: Final = re.compile(r"16[489]")


def _digits(count: int) -> Callable[[str], bool]:
    return lambda text: len(_DIGIT.findall(text)) >= count


def _may_hold_phone(text: str) -> bool:
    """Whether some digits, at most a few characters apart, could be a telephone number of any default region.

    The shortest valid ones have four digits and are German; of the numbers of four digits only a few are (years are
    none of them), so a run of just four is looked at. With a ``+`` anything goes.
    """
    for match in _DIGIT_RUN.finditer(text):
        digits = "".join(_DIGIT.findall(match[0]))
        if len(digits) > 4 or not digits.isascii() or _SHORT_NUMBERS.match(digits) or "+" in text or "＋" in text:
            return True
    return False


def _found_by(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.search(text) is not None


GATES: Final[Mapping[str, Callable[[str], bool]]] = {
    "CreditCardRecognizer": _digits(12),
    "UsBankRecognizer": _digits(8),
    "UsLicenseRecognizer": _found_by(_LETTER_AND_DIGIT),
    "UsItinRecognizer": _digits(9),
    "UsPassportRecognizer": _digits(8),
    "UsSsnRecognizer": _digits(9),
    "NhsRecognizer": _digits(10),
    "MedicalLicenseRecognizer": _digits(7),
    "CryptoRecognizer": _found_by(_CRYPTO),
    "DateRecognizer": _found_by(_DATE),
    "IbanRecognizer": _found_by(_IBAN),
    "IpRecognizer": _found_by(_IP),
    "MacAddressRecognizer": _found_by(_MAC),
    "PhoneRecognizer": _may_hold_phone,
    "UrlRecognizer": _found_by(_URL),
    "EmailRecognizer": lambda text: "@" in text,
}
"""Necessary conditions by class of recogniser: text that fails the test cannot hold a find of it."""

GATES_MADE_FOR: Final = "2.2.362"
"""The release of presidio-analyzer whose patterns the gates were made for; another may have wider ones."""


class PresidioPolicy:
    """Masks whatever the analyzer finds at its default threshold; labels and scores are Presidio's own.

    Its entities are the model's, from the Doc that the other policies share. The caller's own recognisers
    (``redact.recognizers``) run as well.
    """

    needs: frozenset[str] = SPECS["presidio"].components

    def __init__(self, options: PolicyOptions) -> None:
        if importlib.util.find_spec("presidio_analyzer") is None:
            raise ConfigError("policy 'presidio' needs the analyzer: run 'pip install reticent[presidio]'")
        self._name = options.name
        self._model = options.model
        # Made now, so that a broken install is no failing row.
        self._engine = _analyzer(options.model, options.language, options.recognizers)
        self._language = options.language
        self._entities = self._engine.get_supported_entities(language=options.language)
        self._recognizers = self._engine.registry.get_recognizers(language=options.language, all_fields=True)
        self._spacy = next(r for r in self._recognizers if _kind(r) == "SpacyRecognizer")
        gates = GATES if importlib.metadata.version("presidio-analyzer") == GATES_MADE_FOR else {}
        others = [r for r in self._recognizers if r is not self._spacy]
        self._readers = [r for r in others if _kind(r) not in GATES and not _reads_text_only(r)]
        self._text_only = [(r, gates.get(_kind(r))) for r in others if r not in self._readers]
        if self._readers:
            self.needs = self.needs | _CONTEXT  # they may look at any annotation

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
                found += _identified(results, recognizer)
                wanted = _CONTEXT if recognizer.context else wanted
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

    def analyze(self, sentence: Sentence) -> list[tuple[str, int, int, float]]:
        """What ``AnalyzerEngine.analyze`` gives for the Doc's text: (type, start, end, score), characters of that text.

        Raises:
            ValueError: the sentence carries no Doc, or one that was not annotated for this policy.
        """
        doc = sentence.doc
        if doc is None or _FOUND not in doc.user_data:
            raise ValueError("presidio needs a Doc that was annotated for it")
        nlp_engine: Any = self._engine.nlp_engine
        settings = nlp_engine.ner_model_configuration
        entities, scores = [], []
        for start, end, label in doc.user_data[PARSED_ENTITIES]:
            kind = settings.model_to_presidio_entity_mapping.get(label, label)
            if label in settings.labels_to_ignore or kind in settings.labels_to_ignore:
                continue
            is_low = kind in settings.low_score_entity_names
            entities.append((start, end, kind))
            scores.append(settings.default_score * (settings.low_confidence_score_multiplier if is_low else 1))
        found = doc.user_data[_FOUND]
        threshold = self._engine.default_score_threshold
        if not found and not self._readers:  # one model's entities do not overlap: none is a part of another
            return [
                (kind, doc[start].idx, doc[end - 1].idx + len(doc[end - 1]), float(score))
                for (start, end, kind), score in zip(entities, scores, strict=True)
                if kind in self._entities and kind in self._spacy.supported_entities and score >= max(threshold, 1e-9)
            ]
        return self._analyze_in_full(doc, entities, scores)

    def _analyze_in_full(
        self, doc: Doc, entities: Sequence[tuple[int, int, str]], scores: Sequence[float]
    ) -> list[tuple[str, int, int, float]]:
        """The analyzer's own last steps: context words raise scores, finds inside others go, low scores go."""
        import spacy.tokens
        from presidio_analyzer import EntityRecognizer
        from presidio_analyzer.nlp_engine import NlpArtifacts

        artifacts = NlpArtifacts(
            entities=[spacy.tokens.Span(doc, start, end, label=kind) for start, end, kind in entities],
            tokens=doc,
            tokens_indices=[token.idx for token in doc],
            lemmas=[token.lemma_ for token in doc],
            nlp_engine=self._engine.nlp_engine,
            language=self._language,
            scores=list(scores),
        )
        results = list(doc.user_data[_FOUND])
        for recognizer in (self._spacy, *self._readers):
            results += _identified(recognizer.analyze(doc.text, self._entities, artifacts) or [], recognizer)
        results = self._engine._enhance_using_context(doc.text, results, artifacts, self._recognizers, None)
        return [
            (str(r.entity_type), int(r.start), int(r.end), float(r.score))
            for r in EntityRecognizer.remove_duplicates(results)
            if r.score >= self._engine.default_score_threshold
        ]

    def self_test(self) -> list[int]:
        """Compares the finds with plain ``analyze`` on `SELF_TEST`.

        Returns:
            Positions in `SELF_TEST` of the texts whose finds differ; empty where the short cuts are right.
        """
        from pipelines.language import Annotator, load_pipeline

        whole = load_pipeline(self._model, frozenset({*self.needs, *_CONTEXT, "parser"}))
        annotator = Annotator(whole)
        differing = []
        for number, text in enumerate(SELF_TEST):
            plain = whole(text)
            ours = whole.tokenizer(text)
            starts = [token.idx for token in ours]
            sentence = Sentence(text, starts, [token.idx + len(token) for token in ours], ours)
            annotator.annotate([ours], self.needs)
            annotator.annotate([ours], self.wants(sentence))
            artifacts = self._engine.nlp_engine._doc_to_nlp_artifact(plain, self._language)
            expected = self._engine.analyze(text, language=self._language, nlp_artifacts=artifacts)
            if sorted(self.analyze(sentence)) != sorted((r.entity_type, r.start, r.end, r.score) for r in expected):
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


def _kind(recognizer: Any) -> str:
    return recognizer.GATED_AS if hasattr(recognizer, "GATED_AS") else type(recognizer).__name__


def _reads_text_only(recognizer: Any) -> bool:
    """Whether a recogniser is one of patterns and nothing more, so that it needs no annotation."""
    from presidio_analyzer import PatternRecognizer

    return isinstance(recognizer, PatternRecognizer) and type(recognizer).analyze is PatternRecognizer.analyze


def _identified(results: Sequence[Any], recognizer: Any) -> list[Any]:
    """Results that say which recogniser they are from, as the context step asks."""
    from presidio_analyzer import RecognizerResult

    for result in results:
        metadata = result.recognition_metadata = result.recognition_metadata or {}
        metadata.setdefault(RecognizerResult.RECOGNIZER_IDENTIFIER_KEY, recognizer.id)
        metadata.setdefault(RecognizerResult.RECOGNIZER_NAME_KEY, recognizer.name)
    return list(results)


def _of_doc(sentence: Sentence) -> Sentence:
    """The sentence with the offsets of its Doc: those of the text, but for wide gaps."""
    assert sentence.doc is not None  # noqa: S101 - the caller has checked
    text = sentence.doc.text
    if text == sentence.text:
        return sentence
    starts = [token.idx for token in sentence.doc]
    return Sentence(text, starts, [token.idx + len(token) for token in sentence.doc], sentence.doc)


@functools.lru_cache(maxsize=2)
def _analyzer(model: str, language: str, recognizers: tuple[str, ...]) -> AnalyzerEngine:
    """One analyzer a process, on the run's model, with the e-mail recogniser cut off from the network.

    Raises:
        ConfigError: a recogniser of the caller's cannot be imported or made, or Presidio knows no such language.
    """
    import tldextract
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import SpacyNlpEngine
    from presidio_analyzer.predefined_recognizers import EmailRecognizer
    from presidio_analyzer.recognizer_registry import RecognizerRegistryProvider

    from pipelines.language import load_pipeline

    # No cache folder and no list address: the suffix list that the package ships is the only one it can use.
    extract = tldextract.TLDExtract(cache_dir=None, suffix_list_urls=())

    class OfflineEmailRecognizer(EmailRecognizer):  # type: ignore[misc]
        """Presidio's own recogniser, checking domains against the shipped suffix list only."""

        GATED_AS = "EmailRecognizer"

        def validate_result(self, pattern_text: str) -> bool:
            return bool(extract(pattern_text).fqdn)

    engine: Any = SpacyNlpEngine(models=[{"lang_code": language, "model_name": model}])
    # Set here, or load() would look for a download.
    engine.nlp = {language: load_pipeline(model, PresidioPolicy.needs | _CONTEXT)}
    registry = RecognizerRegistryProvider(
        registry_configuration={"supported_languages": [language]}
    ).create_recognizer_registry()
    registry.add_nlp_recognizer(nlp_engine=engine)
    registry.remove_recognizer("EmailRecognizer")
    registry.add_recognizer(OfflineEmailRecognizer(supported_language=language))
    for reference in recognizers:
        registry.add_recognizer(_own_recognizer(reference))
    return AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=[language])


def _own_recognizer(reference: str) -> Any:
    from presidio_analyzer import EntityRecognizer

    module, _, name = reference.partition(":")
    try:
        made = getattr(importlib.import_module(module), name)()
    except Exception as error:
        raise ConfigError(
            f"redact.recognizers: '{reference}' cannot be imported and made ({type(error).__name__}); it must be the "
            "import path package.module:Class of a recogniser that takes no arguments"
        ) from error
    if not isinstance(made, EntityRecognizer):
        raise ConfigError(f"redact.recognizers: '{reference}' is no presidio_analyzer.EntityRecognizer")
    if any(LABEL_PATTERN.fullmatch(entity) is None for entity in made.supported_entities):
        raise ConfigError(f"redact.recognizers: entities of '{reference}' must be capitals, digits and underscores")
    return made
