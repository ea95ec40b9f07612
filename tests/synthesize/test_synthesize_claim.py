"""What is claimed of synthetic text is what is claimed of its model, or nothing."""

import pytest
from support.trainings import document

from pipelines.accounting.claims import Review, build_claims
from pipelines.accounting.facts import CorpusFacts, parse_training
from pipelines.accounting.synthetic_text import NO_CLAIM, NO_NOISE, NOT_CHOSEN, POST_PROCESSING, claim_of_text

CORPUS = CorpusFacts(dedup_stability=1, dedup_reason="", has_conservative=True, redactor_is_stable=True)


def claims(name, **changes):
    return build_claims(parse_training(document(name, **changes)), CORPUS, Review.withheld(), (2,))


@pytest.mark.parametrize("name", ["no_dp", "redacted", "anonymized"])
def test_a_model_without_a_bound_gives_text_without_a_guarantee(name):
    found = claim_of_text(claims(name))
    assert not found["is_guarantee"]
    assert found["epsilon"] is None
    assert found["not_guaranteed_because"][0] == (NO_CLAIM if name == "no_dp" else NO_NOISE)


@pytest.mark.parametrize("name", ["dpsgd", "crt", "jft/direct", "sdpsgd_lstm"])
def test_the_text_has_the_epsilon_of_the_model_and_says_what_that_rests_on(name):
    made = claims(name)
    claim, found = made["claims"][made["headline"]], claim_of_text(made)
    assert (found["epsilon"], found["delta"]) == (claim["epsilon"], claim["delta"])
    assert found["is_guarantee"] == claim["is_guarantee"]
    assert {POST_PROCESSING, NOT_CHOSEN, *claim["assumptions"]} <= set(found["assumptions"])


def test_a_known_seed_voids_the_texts_claim_too():
    assert claim_of_text(claims("dpsgd"))["is_guarantee"]
    found = claim_of_text(claims("dpsgd", insecure_test_seed=True))
    assert not found["is_guarantee"]
    assert found["not_guaranteed_because"]


def test_of_several_releases_the_text_costs_what_they_cost_together():
    made = claims("dpsgd")
    whole = {**made["claims"][made["headline"]], "epsilon": 9.0, "num_releases": 2}
    made["claims"][made["headline"]]["together"] = whole
    found = claim_of_text(made)
    assert found["epsilon"] == 9.0 > found["epsilon_this_model"]


def test_text_of_a_model_that_has_no_claim_together_with_earlier_ones_says_why():
    made = claims("dpsgd")
    claim = made["claims"][made["headline"]]
    nothing = {"epsilon": None, "delta": None, "is_guarantee": False, "not_guaranteed_because": []}
    claim["together"] = {**claim, **nothing, "num_releases": 2, "refused": "an earlier one added no noise"}
    found = claim_of_text(made)
    assert (found["is_guarantee"], found["epsilon"]) == (False, None)
    assert "an earlier one added no noise" in found["not_guaranteed_because"][0]
