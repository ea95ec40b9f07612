"""The gates of Presidio's recognisers lose no find of plain ``analyze``."""

import pytest

from pipelines.language import Annotator, load_pipeline
from pipelines.policies.detectors import presidio, presidio_engine
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence
from pipelines.policies.registry import make_policy

MODEL = "en_core_web_sm"
TEXTS = (
    "Mail joe.bloggs@example.co.uk or www.example.org/a, IP 10.0.0.1 or fe80::1, MAC 00:1A:2B:3C:4D:5E.",
    "My card 4111 1111 1111 1111 and SSN 078-05-1120, ITIN 912-70-1234, passport A12345678, license D1234567.",
    "Call (212) 555-0123, +49 30 901820, 030 90 18 20 or 16401; NHS 943 476 5919; IBAN GB82 WEST 1234 5698 7654 32.",
    "Born 1987-06-05 or 5/6/87, account 123456789012, DEA AB1234563, wallet 1BoatSLRHtKNngkdXEeobR76b53LETtpyT.",
    "Mary Jones of Acme Ltd. met two Germans in New York on Monday in 1999, didn't she? Nothing to see here.",
)


def differing(policy):
    """The texts in which the policy and plain ``analyze`` find other things."""
    whole = load_pipeline(MODEL, frozenset({*policy.needs, *presidio_engine.CONTEXT}))
    annotator, engine = Annotator(whole), policy._engine
    found = []
    for text in TEXTS:
        artifacts = engine.nlp_engine._doc_to_nlp_artifact(whole(text), "en")
        results = engine.analyze(text, language="en", nlp_artifacts=artifacts)
        doc = whole.tokenizer(text)
        sentence = Sentence(text, [t.idx for t in doc], [t.idx + len(t) for t in doc], doc)
        annotator.annotate([doc], policy.needs)
        annotator.annotate([doc], policy.wants(sentence))
        finds = policy.analyze(sentence)
        spans = [
            s for kind, start, end, score in finds for s in sentence.spans([(start, end, kind)], "presidio", score)
        ]
        assert sorted(policy.find(sentence)) == sorted(spans)
        if sorted(finds) != sorted((r.entity_type, r.start, r.end, r.score) for r in results):
            found.append(text)
    return found


@pytest.fixture
def policy():
    return make_policy(PolicyOptions(name="presidio", model=MODEL))


def test_presidios_short_cuts_find_what_plain_analyze_finds(policy):
    assert differing(policy) == []
    # The test sees a gate that keeps a recogniser from text that it finds something in.
    policy._text_only = [(r, lambda text: "@" not in text) for r, _ in policy._text_only]
    assert differing(policy) == [text for text in TEXTS if "@" in text]


def test_another_release_of_presidio_runs_every_recogniser(patch):
    patch.constant(presidio_engine, "GATES_MADE_FOR", "0.0")
    policy = make_policy(PolicyOptions(name="presidio", model=MODEL))
    assert all(gate is None for _, gate in policy._text_only)
    assert policy.needs == presidio.PresidioPolicy.needs
    assert differing(policy) == []
