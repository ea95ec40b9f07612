"""What is private to Presidio is as our code was written for; each failure names what an upgrade changed."""

import importlib.metadata
import inspect

import phonenumbers
import presidio_analyzer as presidio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from presidio_analyzer import RecognizerResult
from presidio_analyzer.context_aware_enhancers import LemmaContextAwareEnhancer
from presidio_analyzer.predefined_recognizers import PhoneRecognizer

from pipelines.policies.detectors import presidio_engine as engine


def test_the_gates_are_for_the_installed_release():
    assert importlib.metadata.version("presidio-analyzer") == engine.GATES_MADE_FOR, (
        "another release of presidio-analyzer: compare the patterns of its recognisers with GATES, see that "
        "test_policies_presidio.py and benchmarks/redaction.py find no difference, then raise GATES_MADE_FOR"
    )
    assert engine.gates() == engine.GATES
    from presidio_analyzer import predefined_recognizers

    assert [name for name in engine.GATES if not hasattr(predefined_recognizers, name)] == []


DIGITS = st.text("0123456789 -()./", max_size=24)


@given(st.lists(DIGITS, max_size=3), st.sampled_from([" ", " call ", " +1 ", " +49 ", " 011 ", " 00"]))
@example(["089 1234"], " ")
@example(["310 1234"], " ")
@example(["(212) 555-0199"], " ")
@example(["", "", "20 7946 0018"], " +44 ")
@example(["310 1234", "310 1234"], " call ")
@example(["310 1234 ext. 5678"], " ")
def test_telephone_numbers_are_those_of_all_regions(pieces, joint):
    text = joint.join(pieces)
    made = engine.make_analyzer("en_core_web_sm", frozenset({"ner"}), "en", ())
    (own,) = (r for r in made.registry.recognizers if engine.kind_of(r) == "PhoneRecognizer")
    assert type(own) is not PhoneRecognizer
    finds, of_all = (r.analyze(text, ["PHONE_NUMBER"]) for r in (own, PhoneRecognizer()))
    assert [(r.start, r.end, r.score) for r in finds] == [(r.start, r.end, r.score) for r in of_all]


def test_short_telephone_numbers_are_german():
    known = [region for region in PhoneRecognizer.DEFAULT_SUPPORTED_REGIONS if region in phonenumbers.SUPPORTED_REGIONS]
    assert engine.phone_regions("(212) 555-0199", PhoneRecognizer.DEFAULT_SUPPORTED_REGIONS) == known
    for short in ("555-019", "in 1939, 1945 and 1950", "12345 or 67890", "301 234 ext. 5678"):
        assert engine.phone_regions(short, PhoneRecognizer.DEFAULT_SUPPORTED_REGIONS) == ["DE"]
    for plus in "+＋":
        assert engine.phone_regions(f"{plus}44", ("UK", "IL")) == ["UK", "IL"]
    for code in {phonenumbers.country_code_for_region(region) for region in known} - {49}:
        for region in phonenumbers.region_codes_for_country_code(code):
            assert min(_lengths(code, region)) >= engine.MIN_PHONE_DIGITS, region
    # A number with the prefix for calls abroad has two digits of the prefix, and those of the country.
    abroad = min(
        len(str(code)) + min(_lengths(code, region))
        for code, regions in phonenumbers.COUNTRY_CODE_TO_REGION_CODE.items()
        for region in regions
    )
    assert 2 + abroad >= engine.MIN_PHONE_DIGITS


def _lengths(code, region):
    return phonenumbers.PhoneMetadata.metadata_for_region_or_calling_code(code, region).general_desc.possible_length


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        ("AnalyzerEngine._enhance_using_context", ["text", "raw_results", "nlp_artifacts", "recognizers", "context"]),
        ("nlp_engine.SpacyNlpEngine._doc_to_nlp_artifact", ["doc", "language"]),
        ("EntityRecognizer.remove_duplicates", ["results"]),
        (
            "context_aware_enhancers.LemmaContextAwareEnhancer._find_index_of_match_token",
            ["word", "start", "tokens", "tokens_indices"],
        ),
        ("EntityRecognizer.analyze", ["text", "entities", "nlp_artifacts"]),
    ],
)
def test_private_functions_take_what_they_are_given(function, parameters):
    found = presidio
    for name in function.split("."):
        found = getattr(found, name)
    assert [name for name in inspect.signature(found).parameters if name != "self"] == parameters


def test_the_engine_has_the_fields_that_are_read():
    made = engine.make_analyzer("en_core_web_sm", frozenset({"ner"}), "en", ())
    settings = made.nlp_engine.ner_model_configuration
    for name in ("model_to_presidio_entity_mapping", "labels_to_ignore", "low_score_entity_names"):
        assert hasattr(settings, name), name
    assert 0 < settings.low_confidence_score_multiplier * settings.default_score < settings.default_score
    assert "en" in made.nlp_engine.nlp
    assert isinstance(made.default_score_threshold, float | int)
    assert presidio.RecognizerResult.RECOGNIZER_IDENTIFIER_KEY
    assert presidio.RecognizerResult.RECOGNIZER_NAME_KEY
    kinds = {engine.kind_of(recognizer) for recognizer in made.registry.get_recognizers(language="en", all_fields=True)}
    assert kinds >= {"SpacyRecognizer", "EmailRecognizer"}
    assert "OfflineEmailRecognizer" not in kinds


@given(
    st.lists(
        st.tuples(st.sampled_from("AB"), st.integers(0, 12), st.integers(0, 8), st.sampled_from([0.0, 0.4, 0.85, 1.0])),
        max_size=25,
    )
)
def test_nested_finds_are_left_out_as_presidio_does(drawn):
    results = [RecognizerResult(kind, start, start + size, score) for kind, start, size, score in drawn]

    def plain(found):
        return sorted((r.entity_type, r.start, r.end, r.score) for r in found)

    assert plain(engine.without_nested(results)) == plain(engine.PRESIDIOS_OWN(results))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=12), st.integers(0, 60))
def test_the_token_of_a_find_is_presidios(drawn, start):
    tokens, indices, end = [], [], 0
    for gap, size in drawn:
        indices.append(end + gap)
        tokens.append("a" * size)
        end += gap + size

    def found(enhancer):
        try:
            return enhancer._find_index_of_match_token("a", start, tokens, indices)
        except ValueError:
            return None

    assert found(engine.LinearContextEnhancer) == found(LemmaContextAwareEnhancer)


def test_the_analyzer_takes_the_linear_context_step():
    made = engine.make_analyzer("en_core_web_sm", frozenset({"ner"}), "en", ())
    assert type(made.context_aware_enhancer) is engine.LinearContextEnhancer
