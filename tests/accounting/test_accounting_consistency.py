"""No claim, under any settings, rests on two assumptions that contradict each other, or is refused in vain."""

from __future__ import annotations

import itertools

import pytest
from support.trainings import RUNS, document

from pipelines.accounting import confidentiality_claims as claims_module
from pipelines.accounting.assumptions import Assumption, contradictions
from pipelines.accounting.claims import Review, build_claims
from pipelines.accounting.composition import Publication
from pipelines.accounting.corpus_facts import corpus_facts
from pipelines.accounting.facts import parse_training
from pipelines.methods.registry import rule_of
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate
from pipelines.settings.dedup import DedupConfig
from pipelines.settings.redact import RedactConfig
from pipelines.settings.shard import ShardConfig, publishes

MU = "one kind of secret of a test"
DEDUP = [
    {},
    {"normalise": "casefold"},
    {"mode": "mask_all"},
    {"verify": False},
    {"unit": "document"},
    {"min_tokens": 3},
]
POLICIES = [("digits",), ("high_entity", "propagate"), ("digits", "classifier"), ("acme.policies:Ours",)]
REVIEWS = [(0.0, 0.0, True), (0.2, 0.01, False), (0.2, 0.0, False)]
# Pairs of phrases that cannot both be true of one claim, found by reading, not from the code's own marks.
OPPOSITES = [
    ("redaction depends on the sentence alone", "look beyond one sentence, at its document"),
    ("no row is published", "part of delta"),
    ("no row is published", "in the published table"),
    ("no row is published", "public rows are published with them"),
    ("no other release of this store", "other releases of this store may share"),
    ("after deduplication and redaction", "training reads the original text"),
    ("after deduplication and redaction", "duplicates included"),
    ("holds for every secret", "part of delta"),
    ("training reads the original text: redaction gives no credit", "costs nothing for a masked secret"),
    ("a masked secret costs as much as a missed one", "costs nothing for a masked secret"),
    ("stands in one kept sentence", "duplicates included"),
    ("were not chosen by looking at private data, except for", "According to the settings"),
    ("are exact for the labelled secrets", "from a random sample"),
]
MENDABLE = (
    "no work",
    "no review",
    "no sample",
    "no further review",
    "no sample can mend",
    "vacuous",
    "training adds no noise to private records",
    "not stated here",
)


def everything():
    """Claims under all of these settings, with the settings."""
    for name, dedup, policies, conservative, publish, places, collapse, (gamma, escape, census) in itertools.product(
        RUNS, DEDUP, POLICIES, (None, "conservative"), ("auto", "always"), (False, True), (True, False), REVIEWS
    ):
        if (places or not collapse) and (dedup or escape or publish != "auto"):
            continue  # these say nothing about one another
        one = parse_training(document(name, reads_places=places))
        redact = RedactConfig(
            policies=policies,
            conservative=conservative,
            collapse=collapse,
            **({"classifier": "/somewhere"} if "classifier" in policies else {}),
        )
        is_published = publishes(ShardConfig(publish=publish), one.method) and conservative is not None
        corpus = corpus_facts(
            DedupConfig(**dedup),
            redact,
            has_public_rows=is_published or rule_of(one.method, one.variant).has_public_set,
            reads_places=places,
            holds=True,
        )
        rate = FalseNegativeRate(value=0.0, upper=gamma, confidence=1.0 if census else 0.95, mu=MU)
        found = Delta2(value=0.0, upper=escape, confidence=1.0 if census else 0.95, mu=MU)
        review = Review(
            source="gold", is_trusted=True, false_negative_rate=rate, delta2=found, worst_label=(rate, found),
            is_census=census,
        )  # fmt: skip
        for claim in build_claims(one, corpus, review, (2,), Publication(publishes_rows=is_published))["claims"]:
            yield claim["notion"], claim["refused"], (*claim["assumptions"], claim["statement"])


@pytest.fixture(scope="module")
def stated():
    return set(everything())


@pytest.mark.slow
def test_no_claim_rests_on_assumptions_that_contradict_each_other(stated):
    """Guards "redaction depends on the sentence alone" beside policies that look further."""
    assert len(stated) > 500
    for notion, refused, texts in stated:
        said = " | ".join(texts)
        for one, other in OPPOSITES:
            assert not (one in said and other in said), (notion, one, other)
        assert "contradict each other" not in (refused or "")


@pytest.mark.slow
def test_every_phrase_of_the_test_before_is_said_somewhere(stated):
    """Guards that test against phrases that nobody uses any more."""
    of_others = ("other releases of this store may share", "were not chosen by looking at private data, except for")
    said = {text for _, _, texts in stated for text in texts}
    phrases = {phrase for pair in OPPOSITES for phrase in pair} - {*of_others}
    assert not {phrase for phrase in phrases if not any(phrase in text for text in said)}


@pytest.mark.slow
def test_every_refusal_says_what_can_mend_it_or_that_nothing_can(stated):
    """Guards "review more" where no review helps: a refusal names a way, or begins with that there is none."""
    ways = ("review", "label", "set ", "take ", "rerun", "Set ")
    for refused in {refused for _, refused, _ in stated if refused}:
        assert any(word in refused for word in (*MENDABLE, *ways)), refused


def test_a_contradiction_is_refused_and_not_issued(patch):
    """Guards the check itself: planted, it must take the numbers away."""
    planted = [Assumption("one thing", {"public rows": "none"}), Assumption("another", {"public rows": "some"})]
    assert contradictions(planted) == ["public rows"]
    assert contradictions([*planted[:1], "plain words"]) == []
    patch(claims_module, "about_public_set", lambda *_: planted)
    review = Review(source="gold", is_trusted=True, false_negative_rate=None, delta2=None)
    corpus = corpus_facts(DedupConfig(), RedactConfig(policies=("digits",)), has_public_rows=False, reads_places=False)
    found = build_claims(parse_training(document("crt", reads_places=False)), corpus, review, (2,))
    claim = next(c for c in found["claims"] if c["notion"] == "confidentiality")
    assert "contradict each other about public rows" in claim["refused"]
    assert claim["epsilon"] is None
