"""All uses of private parts of Presidio's analyzer, and gates that depend on its patterns.

Written for presidio-analyzer 2.2.362. The private parts are ``AnalyzerEngine._enhance_using_context``,
``SpacyNlpEngine.nlp`` set from outside, the fields of ``ner_model_configuration``,
``LemmaContextAwareEnhancer._find_index_of_match_token``, and the metadata that tell the context step the recogniser
of a result. If an upgrade changes one of them,
``tests/policies/detectors/test_policies_presidio_engine.py`` names it.
"""

from __future__ import annotations

import bisect
import functools
import importlib
import importlib.metadata
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import phonenumbers
import regex
from phonenumbers import phonenumberutil
from presidio_analyzer import AnalyzerEngine, EntityRecognizer, Pattern, PatternRecognizer, RecognizerResult
from presidio_analyzer.context_aware_enhancers import LemmaContextAwareEnhancer
from presidio_analyzer.nlp_engine import NlpArtifacts, SpacyNlpEngine
from presidio_analyzer.predefined_recognizers import EmailRecognizer, PhoneRecognizer, UrlRecognizer
from presidio_analyzer.recognizer_registry import RecognizerRegistryProvider
from spacy.tokens import Doc
from spacy.tokens import Span as DocSpan

from pipelines.errors import ConfigError
from pipelines.language import load_pipeline
from pipelines.policies.english.code import site_parser
from pipelines.policies.options import LABEL_PATTERN

Found = tuple[str, int, int, float]
"""Type, start, end, score. The offsets are characters of a Doc's text."""

CONTEXT: Final = frozenset({"tagger", "attribute_ruler", "lemmatizer"})
"""spaCy components that the context step reads."""

_DIGIT: Final = re.compile(r"\d")
_LETTER_AND_DIGIT: Final = re.compile(r"[^\W\d_]\d|\d[^\W\d_]|\]\d|\d{6}")
_DATE: Final = re.compile(r"\d[-/.]")
_MONTH: Final = re.compile(r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)-", re.I)
_IP: Final = re.compile(r"::|[0-9A-Fa-f]:")
_IP_DIGITS: Final = re.compile(r"\d\.\d")
_MAC: Final = re.compile(r"[0-9A-Fa-f]{2}[:-]|[0-9A-Fa-f]{4}\.")
_MAC_MARKS: Final = 5
_MAC_DOTS: Final = 2
_CRYPTO_LENGTH: Final = 26
_CRYPTO: Final = re.compile(rf"\w{{{_CRYPTO_LENGTH}}}")
_IBAN: Final = re.compile(r"[^\W\d_]{2}\d\d")
_AT: Final = re.compile(r"\S@\w")
_URL: Final = re.compile(r"[\w.-]\.\w")
# Marks that may stand between the digits of a telephone number, up to four of them.
_PHONE_MARKS: Final = getattr(phonenumberutil, "_VALID_PUNCTUATION", None)
_DIGIT_RUN: Final = re.compile(
    rf"\d(?:[{_PHONE_MARKS}]{{0,4}}\d){{3,}}" if _PHONE_MARKS is not None else r"\d(?:\D{0,6}\d){3,}"
)
_SHORT_NUMBERS: Final = re.compile(r"16[489]")
MIN_PHONE_DIGITS: Final = 7
"""Digits of the shortest number that is valid in one of Presidio's regions other than Germany."""


@functools.lru_cache(maxsize=4)
def _num_digits(text: str) -> int:
    return len(_DIGIT.findall(text))


def _digits(count: int) -> Callable[[str], bool]:
    return lambda text: _num_digits(text) >= count


def _may_hold_license(text: str) -> bool:
    return _num_digits(text) > 0 and _LETTER_AND_DIGIT.search(text) is not None


def _may_hold_date(text: str) -> bool:
    return (_num_digits(text) > 0 and _DATE.search(text) is not None) or (
        "-" in text and _MONTH.search(text) is not None
    )


def _may_hold_address_of_machine(text: str) -> bool:
    has_digits = "." in text and _num_digits(text) > 1 and _IP_DIGITS.search(text) is not None
    return has_digits or (":" in text and _IP.search(text) is not None)


def _may_hold_mac(text: str) -> bool:
    has_marks = text.count(":") >= _MAC_MARKS or text.count("-") >= _MAC_MARKS or text.count(".") >= _MAC_DOTS
    return has_marks and _MAC.search(text) is not None


def _may_hold_crypto(text: str) -> bool:
    return any(len(piece) >= _CRYPTO_LENGTH for piece in text.split()) and _CRYPTO.search(text) is not None


def _may_hold_phone(text: str) -> bool:
    """Returns true if digits with few marks between them could be a telephone number of a default region.

    The shortest valid numbers have four digits and are German. Only a few numbers of four digits are valid, and years
    are not, so the first digits of a run of exactly four decide. With a ``+`` in the text, every run counts.
    """
    for match in _DIGIT_RUN.finditer(text):
        digits = "".join(_DIGIT.findall(match[0]))
        if len(digits) > 4 or not digits.isascii() or _SHORT_NUMBERS.match(digits) or "+" in text or "＋" in text:
            return True
    return False


def phone_regions(text: str, regions: Sequence[str]) -> list[str]:
    """Returns the regions of which a text may hold a telephone number.

    Without a ``+``, the library reads a number as one of the region, or as one with the prefix for calls abroad. So it
    finds none of a region that it does not know ("UK"), and all but German numbers have `MIN_PHONE_DIGITS`.
    """
    if "+" in text or "＋" in text:
        return list(regions)
    longest = max((_num_digits(match[0]) for match in _DIGIT_RUN.finditer(text)), default=0)
    is_short = longest < MIN_PHONE_DIGITS  # also with an extension, whose digits are no part of the number
    return [r for r in regions if r in phonenumbers.SUPPORTED_REGIONS and (r == "DE" or not is_short)]


def _found_by(pattern: re.Pattern[str], mark: str = "", num_digits: int = 0) -> Callable[[str], bool]:
    return lambda text: mark in text and _num_digits(text) >= num_digits and pattern.search(text) is not None


GATES: Final[Mapping[str, Callable[[str], bool]]] = {
    "CreditCardRecognizer": _digits(12),
    "UsBankRecognizer": _digits(8),
    "UsLicenseRecognizer": _may_hold_license,
    "UsItinRecognizer": _digits(9),
    "UsPassportRecognizer": _digits(8),
    "UsSsnRecognizer": _digits(9),
    "NhsRecognizer": _digits(10),
    "MedicalLicenseRecognizer": _digits(7),
    "CryptoRecognizer": _may_hold_crypto,
    "DateRecognizer": _may_hold_date,
    "IbanRecognizer": _found_by(_IBAN, num_digits=2),
    "IpRecognizer": _may_hold_address_of_machine,
    "MacAddressRecognizer": _may_hold_mac,
    "PhoneRecognizer": _may_hold_phone,
    "UrlRecognizer": _found_by(_URL, "."),
    "EmailRecognizer": _found_by(_AT, "@"),
}
"""Necessary conditions by class of recogniser. Text that fails the test cannot hold a find of the recogniser."""

GATES_MADE_FOR: Final = "2.2.362"
"""The release of presidio-analyzer for whose patterns the gates were made. Another release may have wider patterns."""


PATTERN_SECONDS: Final = 10.0
"""Longest time of one pattern on one text, in seconds. A row on which a pattern takes longer is masked whole."""

_MAIL_CHARACTER: Final = r"[!#$%&'*+\-/=?^_`{|}~\w]"
_MAIL: Final = (
    rf"\b(?:{_MAIL_CHARACTER}(?:[!#$%&'*+\-/=?^_`{{|}}~.\w]{{0,254}}{_MAIL_CHARACTER})?"
    r"@\w+(?:-+\w+)*(?:\.\w+(?:-+\w+)*)+)\b"
)
"""Presidio's pattern of mail addresses, in linear time: with a longest local part, and read in one way only."""

_URL_START: Final = r"(?<![a-z0-9.\-])"
"""Presidio's pattern of hosts matches at the first character of a run of these, or nowhere in the run."""


class SlowPatternError(RuntimeError):
    """A pattern took longer than `PATTERN_SECONDS`. Presidio would skip it, and leave its finds unmasked."""


class _Limited:
    """A compiled pattern that fails if it takes too long, in the place where Presidio keeps compiled patterns."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._pattern = regex.compile(pattern, flags)

    def finditer(self, text: str, timeout: float | None = None) -> Iterator[Any]:
        """Yields the matches.

        Raises:
            SlowPatternError: the pattern took too long.
        """
        del timeout
        try:
            yield from self._pattern.finditer(text, timeout=PATTERN_SECONDS)
        except TimeoutError:
            raise SlowPatternError from None


def _limit(recognizer: Any) -> None:
    """Gives the patterns of a recogniser a time limit after which the row fails."""
    flags = recognizer.global_regex_flags
    for pattern in recognizer.patterns:
        pattern.compiled_regex, pattern.compiled_with_flags = _Limited(pattern.regex, flags), flags


def gates() -> Mapping[str, Callable[[str], bool]]:
    """Returns `GATES`, or no gates if another release is installed."""
    return GATES if importlib.metadata.version("presidio-analyzer") == GATES_MADE_FOR else {}


def kind_of(recognizer: Any) -> str:
    """Returns the class name under which `GATES` has a recogniser."""
    return recognizer.GATED_AS if hasattr(recognizer, "GATED_AS") else type(recognizer).__name__


def reads_text_only(recognizer: Any) -> bool:
    """Returns true if a recogniser uses patterns only, so that it needs no annotation."""
    return isinstance(recognizer, PatternRecognizer) and type(recognizer).analyze is PatternRecognizer.analyze


def identified(results: Sequence[Any], recognizer: Any) -> list[Any]:
    """Adds the recogniser to the metadata of results, because the context step reads it there."""
    for result in results:
        metadata = result.recognition_metadata = result.recognition_metadata or {}
        metadata.setdefault(RecognizerResult.RECOGNIZER_IDENTIFIER_KEY, recognizer.id)
        metadata.setdefault(RecognizerResult.RECOGNIZER_NAME_KEY, recognizer.name)
    return list(results)


def scored_entities(engine: AnalyzerEngine, entities: Sequence[tuple[int, int, str]]) -> list[Found]:
    """Converts a model's entities (start, end, label) to Presidio's types and scores, without those that it ignores."""
    nlp_engine: Any = engine.nlp_engine
    settings = nlp_engine.ner_model_configuration
    scored: list[Found] = []
    for start, end, label in entities:
        kind = settings.model_to_presidio_entity_mapping.get(label, label)
        if label in settings.labels_to_ignore or kind in settings.labels_to_ignore:
            continue
        is_low = kind in settings.low_score_entity_names
        score = settings.default_score * (settings.low_confidence_score_multiplier if is_low else 1)
        scored.append((kind, start, end, float(score)))
    return scored


def artifacts_of(engine: AnalyzerEngine, doc: Doc, entities: Sequence[Found], language: str) -> Any:
    """Returns a Doc and its entities (tokens, from `scored_entities`) as the analyzer's recognisers read them."""
    return NlpArtifacts(
        entities=[DocSpan(doc, start, end, label=kind) for kind, start, end, _ in entities],
        tokens=doc,
        tokens_indices=[token.idx for token in doc],
        lemmas=[token.lemma_ for token in doc],
        nlp_engine=engine.nlp_engine,
        language=language,
        scores=[score for *_, score in entities],
    )


def last_steps(
    engine: AnalyzerEngine, text: str, results: Sequence[Any], artifacts: Any, recognizers: Sequence[Any]
) -> list[Found]:
    """Runs the analyzer's last steps: raises scores by context words, and drops nested finds and low scores."""
    enhanced = engine._enhance_using_context(text, list(results), artifacts, recognizers, None)
    return [
        (str(r.entity_type), int(r.start), int(r.end), float(r.score))
        for r in without_nested(enhanced)
        if r.score >= engine.default_score_threshold
    ]


PRESIDIOS_OWN: Final = EntityRecognizer.remove_duplicates


def without_nested(results: Iterable[RecognizerResult]) -> list[RecognizerResult]:
    """Returns what `EntityRecognizer.remove_duplicates` does, without time that grows with the square of the finds.

    A find inside one of its kind with at least its score is left out, as is one with the score 0.
    """
    kept = []
    widest: dict[str, list[tuple[int, int]]] = {}  # of each kind, those inside no other: starts and ends both rise
    for result in sorted(results, key=lambda r: (-r.score, r.start, r.start - r.end)):
        ranges = widest.setdefault(result.entity_type, [])
        at = bisect.bisect_right(ranges, (result.start, sys.maxsize))
        if result.score == 0 or (at and ranges[at - 1][1] >= result.end):
            continue
        kept.append(result)
        first = at - 1 if at and ranges[at - 1][0] == result.start else at
        last = first
        while last < len(ranges) and ranges[last][1] <= result.end:
            last += 1
        ranges[first:last] = [(result.start, result.end)]
    return kept


class LinearContextEnhancer(LemmaContextAwareEnhancer):  # type: ignore[misc]
    """Presidio's context step, which does not look for the token of each find from the start of the text."""

    @staticmethod
    def _find_index_of_match_token(word: str, start: int, tokens: Sequence[Any], tokens_indices: Sequence[int]) -> int:
        """Returns the index of the first token that ends after a character."""
        del word
        index = bisect.bisect_right(range(len(tokens)), start, key=lambda i: tokens_indices[i] + len(tokens[i]))
        if index == len(tokens):
            raise ValueError("no token ends after the start of the find")
        return index


@functools.lru_cache(maxsize=8)
def make_analyzer(model: str, needs: frozenset[str], language: str, recognizers: tuple[str, ...]) -> AnalyzerEngine:
    """Makes the analyzer of a process on the run's model, with an e-mail recogniser that uses no network.

    Raises:
        ConfigError: a recogniser of the caller cannot be imported or made, or Presidio does not support the language.
    """

    class OfflineEmailRecognizer(EmailRecognizer):  # type: ignore[misc]
        """Presidio's recogniser, with domains checked against the suffix list of the package only."""

        GATED_AS = "EmailRecognizer"
        PATTERNS = (Pattern("Email (Medium)", _MAIL, 0.5),)

        def validate_result(self, pattern_text: str) -> bool:
            return bool(site_parser()(pattern_text).fqdn)

    class LinearUrlRecognizer(UrlRecognizer):  # type: ignore[misc]
        """Presidio's recogniser, which looks for a host only where one can begin."""

        GATED_AS = "UrlRecognizer"
        PATTERNS = tuple(
            Pattern(p.name, p.regex.replace("(?i)((www", f"(?i){_URL_START}((www", 1), p.score)
            for p in UrlRecognizer.PATTERNS
        )

    class FewRegionsPhoneRecognizer(PhoneRecognizer):  # type: ignore[misc]
        """Presidio's recogniser, which looks only for numbers of regions that the text may hold."""

        GATED_AS = "PhoneRecognizer"

        def analyze(self, text: str, entities: list[str], nlp_artifacts: Any = None) -> list[RecognizerResult]:
            self.supported_regions = phone_regions(text, self.DEFAULT_SUPPORTED_REGIONS)
            found: list[RecognizerResult] = super().analyze(text, entities, nlp_artifacts)
            return found

    # Recognisers call it on their own finds.
    EntityRecognizer.remove_duplicates = staticmethod(without_nested)
    engine: Any = SpacyNlpEngine(models=[{"lang_code": language, "model_name": model}])
    # Without this, load() would try to download the model.
    engine.nlp = {language: load_pipeline(model, needs - CONTEXT, needs & CONTEXT)}
    registry = RecognizerRegistryProvider(
        registry_configuration={"supported_languages": [language]}
    ).create_recognizer_registry()
    registry.add_nlp_recognizer(nlp_engine=engine)
    for own in (OfflineEmailRecognizer, LinearUrlRecognizer, *([FewRegionsPhoneRecognizer] if gates() else ())):
        registry.remove_recognizer(own.GATED_AS)
        registry.add_recognizer(own(supported_language=language))
    for reference in recognizers:
        registry.add_recognizer(_own_recognizer(reference))
    for recognizer in registry.recognizers:
        if reads_text_only(recognizer):
            _limit(recognizer)
    return AnalyzerEngine(
        registry=registry,
        nlp_engine=engine,
        supported_languages=[language],
        context_aware_enhancer=LinearContextEnhancer(),
    )


def _own_recognizer(reference: str) -> Any:
    module, _, name = reference.partition(":")
    try:
        recognizer = getattr(importlib.import_module(module), name)()
    except Exception as error:
        raise ConfigError(
            f"redact.recognizers: '{reference}' cannot be imported and made ({type(error).__name__}); it must be the "
            "import path package.module:Class of a recogniser that takes no arguments"
        ) from error
    if not isinstance(recognizer, EntityRecognizer):
        raise ConfigError(f"redact.recognizers: '{reference}' is no presidio_analyzer.EntityRecognizer")
    if any(LABEL_PATTERN.fullmatch(entity) is None for entity in recognizer.supported_entities):
        raise ConfigError(f"redact.recognizers: entities of '{reference}' must be capitals, digits and underscores")
    return recognizer
