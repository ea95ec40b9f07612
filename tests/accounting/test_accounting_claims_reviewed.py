"""What claims rest on of a review: groups, escapes, censuses, proxies."""

from __future__ import annotations

import pytest
from built_claims import CLEAN_CENSUS, CONSERVATIVE, GAMMA, MU, NOT_MEASURED, WORST, WORST_MU, build, claim, text

from pipelines.miss_rate.rates import Delta2


def test_a_group_with_the_average_share_of_misses_is_shown_and_promised_nothing():
    found = build(groups=(10,))
    total = claim(found, "dp_private_set")["epsilon"]
    one = claim(found, "group_confidentiality_at_average_rate", 10)
    assert one["num_missed"] == 1
    assert one["epsilon"] == pytest.approx(total)
    assert one["delta"] == 1e-5
    assert not one["is_guarantee"]
    assert "a particular group may have a larger one" in one["not_guaranteed_because"][0]
    assert (one["mu"], one["confidence"]) == (MU, 0.95)
    assert "labels mark every secret" in text(one)
    assert claim(found, "group_confidentiality", 10)["num_missed"] == 10


def test_where_a_census_missed_nothing_no_group_has_a_missed_secret():
    for corpus in ({}, CONSERVATIVE):
        found = build(corpus=corpus, review=CLEAN_CENSUS, groups=(2, 1000))
        assert not [c for c in found["claims"] if c["notion"] == "group_confidentiality_at_average_rate"]
        for size in (2, 1000):
            one = claim(found, "group_confidentiality", size)
            assert (one["num_missed"], one["epsilon"], one["delta"]) == (0, 0.0, 0.0)
            assert one["is_guarantee"]
            assert (one["mu"], one["confidence"]) == (MU, 1.0)
            assert "labels mark every secret" in text(one)
            assert "become equal once their secrets are masked" in text(one)
        assert claim(found, "bayesian_confidentiality")["epsilon"] == 0
        assert claim(found, "confidentiality")["epsilon"] > 0


def test_a_group_needs_no_review_where_nothing_is_public():
    found = build(review=NOT_MEASURED, groups=(2, 30))
    total = claim(found, "dp_private_set")["epsilon"]
    two, thirty = (claim(found, "group_confidentiality", size) for size in (2, 30))
    assert total < two["epsilon"] < thirty["epsilon"]
    assert two["is_guarantee"]
    assert thirty["delta"] == 1e-5  # the usual bound, (30 epsilon, 30 e^(30 epsilon) delta), is vacuous


def test_theorem_8_is_refused_when_missed_secrets_may_be_public():
    escape = Delta2(value=0.001, upper=0.01, confidence=0.95, mu=MU)
    worst = (WORST[0], Delta2(value=0.001, upper=0.02, confidence=0.95, mu=WORST_MU))
    found = build(corpus=CONSERVATIVE, review={"delta2": escape, "worst_label": worst})
    one = claim(found, "confidentiality")
    assert "delta2 of all labels together, " in one["refused"]
    assert "is at most 0.01 (" in one["refused"]
    assert "10⁻⁵" in one["refused"]
    assert one["epsilon"] is None
    assert claim(found, "group_confidentiality", 2)["refused"]
    # A delta that holds 0.02 is no delta: Theorem 8.3 is refused as well, and never shown first.
    bayesian = claim(found, "bayesian_confidentiality")
    assert "delta2 of the worst label, " in bayesian["refused"]
    assert "is at most 0.02 (" in bayesian["refused"]
    assert (bayesian["epsilon"], bayesian["delta"], bayesian["is_guarantee"]) == (None, None, False)
    # What does not rest on delta2 stays.
    assert claim(found, "confidentiality_of_caught_secrets")["is_guarantee"]
    assert found["claims"][found["headline"]]["notion"] == "confidentiality_of_caught_secrets"
    assert "known only as far as labels" in text(claim(found, "confidentiality_of_caught_secrets"))


def test_a_small_share_of_escapes_serves_a_random_secret_and_not_each_one():
    escape = Delta2(value=0.0, upper=1e-6, confidence=0.95, mu=MU)
    found = build(corpus=CONSERVATIVE, review={"delta2": escape})
    for notion, size in (("confidentiality", 1), ("group_confidentiality", 2)):
        one = claim(found, notion, size)
        assert "drawn from mu only" in one["refused"]
        assert one["epsilon"] is None
    assert found["claims"][found["headline"]]["notion"] == "bayesian_confidentiality"


def test_a_census_without_escapes_lets_theorem_8_1_stand_on_its_labels():
    found = build(corpus=CONSERVATIVE, review={**CLEAN_CENSUS, "false_negative_rate": GAMMA, "worst_label": WORST})
    one = claim(found, "confidentiality")
    assert one["is_guarantee"]
    assert one["delta"] == 1e-5
    assert (one["mu"], one["confidence"]) == (MU, 1.0)
    assert "whether a labelled secret" in one["statement"]
    for needed in ("labels mark every secret", "every training sentence was reviewed", "stands in one kept sentence"):
        assert needed in text(one), needed
    assert found["claims"][found["headline"]]["notion"] == "confidentiality"


def test_labels_of_a_part_of_the_corpus_carry_no_claim_about_the_whole():
    part = {**CLEAN_CENSUS, "is_census": False, "covers_corpus": False}
    for source, said in (
        ("gold", ("only a part of the training documents carries labels", "Label every training document")),
        ("human", ("only a part of the sampled sentences was reviewed", "Review every sampled sentence")),
    ):
        found = build(corpus=CONSERVATIVE, review={**part, "source": source})
        for notion, size in (("confidentiality", 1), ("group_confidentiality", 2), ("bayesian_confidentiality", 1)):
            assert all(needed in claim(found, notion, size)["refused"] for needed in said)
    # Nothing is public without a conservative policy: only what rests on gamma goes.
    private = build(review=part)
    assert claim(private, "confidentiality")["is_guarantee"]
    assert claim(private, "group_confidentiality", 2)["num_missed"] == 2
    assert "only a part" in claim(private, "bayesian_confidentiality")["refused"]


def test_without_a_conservative_policy_nothing_can_be_public():
    found = build(review={"delta2": Delta2(value=0.0, upper=0.5, confidence=0.95, mu=MU)})
    one = claim(found, "confidentiality")
    assert one["delta"] == 1e-5
    assert one["confidence"] is None
    assert "no conservative policy" in text(one)
    assert "labels" not in text(one).replace("domain and label", "")
    assert "every secret" in text(claim(found, "confidentiality_of_caught_secrets"))


def test_nothing_rests_on_a_proxy():
    found = build(corpus=CONSERVATIVE, review={"source": "proxy", "is_trusted": False})
    assert "proxy" in claim(found, "bayesian_confidentiality")["refused"]
    assert "not measured" in claim(found, "confidentiality")["refused"]
    private = build(review={"source": "proxy", "is_trusted": False})
    assert "proxy" in claim(private, "bayesian_confidentiality")["refused"]
    assert [c["num_missed"] for c in private["claims"] if "group" in c["notion"]] == [2]


def test_nothing_measured_is_said_so():
    found = build(corpus=CONSERVATIVE, review=NOT_MEASURED)
    assert "not measured" in claim(found, "bayesian_confidentiality")["refused"]
    assert "not measured" in claim(found, "confidentiality")["refused"]
    assert claim(found, "dp_private_set")["is_guarantee"]
