"""Claims: which are issued, which are refused and why, and what each one states."""

from __future__ import annotations

import json
import math

import pytest

from pipelines.accounting.claims import Review, build_claims
from pipelines.accounting.confidentiality import amplify_epsilon
from pipelines.accounting.events import UnsupportedEventError
from pipelines.accounting.run_facts import CorpusFacts, parse_training
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate

MU = "uniform over the secrets of a test"
# REPLACE_ONE epsilon of noise 4, rate 0.1, 10 steps at delta 1e-5 is about 1.2.
STEP = {"type": "poisson_sampled", "sample_rate": 0.1, "event": {"type": "gaussian", "noise_multiplier": 4.0}}
EVENTS = {
    "schema_version": 1,
    "method": "crt",
    "record": "sentence",
    "num_private_records": 1000,
    "num_public_records": 500,
    "event": {"type": "self_composed", "count": 10, "event": STEP},
    "target_delta": 1e-5,
    "target_epsilon": None,
    "relation": "replace_one",
    "max_grad_norm": 0.5,
    "insecure_test_seed": False,
    "tokenizer": {"kind": "bpe_public", "trained_on": "public"},
    "public_order": "content_hash",
    "assumption_notes": ["a note of the training stage"],
}
GAMMA = FalseNegativeRate(value=0.05, upper=0.1, confidence=0.95, mu=MU)
NO_ESCAPE = Delta2(value=0.0, upper=1e-6, confidence=0.95, mu=MU)


def build(events=None, corpus=None, review=None, groups=(2, 10)):
    training = parse_training({**EVENTS, **(events or {})})
    facts = {"dedup_stability": 1, "dedup_reason": "exact copies.", "has_conservative": True, **(corpus or {})}
    known = {"source": "gold", "is_trusted": True, "false_negative_rate": GAMMA, "delta2": NO_ESCAPE, **(review or {})}
    found = build_claims(training, CorpusFacts(**facts), Review(**known), groups)
    json.dumps(found, allow_nan=False)
    return found


def claim(found, notion, group_size=1):
    (match,) = [c for c in found["claims"] if c["notion"] == notion and c["group_size"] == group_size]
    return match


def text(one):
    return " ".join(one["assumptions"])


@pytest.fixture(scope="module")
def usual():
    return build()


def test_all_claims_are_issued_and_state_what_they_are_about(usual):
    assert [c["notion"] for c in usual["claims"]] == [
        "dp_private_set",
        "confidentiality",
        "confidentiality_of_caught_secrets",
        "group_confidentiality",
        "group_confidentiality",
        "bayesian_confidentiality",
    ]
    for one in usual["claims"]:
        assert one["refused"] is None
        assert one["is_guarantee"]
        assert one["unit"] == "sentence"
        assert one["relation"] == "replace_one"
        assert one["epsilon_unamplified"] == claim(usual, "dp_private_set")["epsilon"]
        for needed in (
            "validation and test folds are public",
            "hyper-parameters were not chosen by looking at private data",
            "pre-trained on other, public data",
            "tokenizer was trained on the public set",
            "covers the weights only",
            "compose the unamplified epsilons",
            "a note of the training stage",
        ):
            assert needed in text(one), needed
    assert usual["headline"] == 1
    assert usual["warnings"] == []


def test_the_relation_is_replacement_and_the_papers_figure_stands_beside_it(usual):
    one = claim(usual, "dp_private_set")
    assert one["as_in_paper"]["relation"] == "add_or_remove_one"
    assert one["epsilon"] > 1.5 * one["as_in_paper"]["epsilon"]
    figures = {(f["accountant"], f["relation"]): f for f in usual["accountants"]}
    assert figures["pld", "replace_one"]["epsilon"] == one["epsilon"]
    assert figures["rdp", "replace_one"]["epsilon"] is None
    assert not figures["gdp_clt", "add_or_remove_one"]["is_bound"]


def test_bayesian_confidentiality_amplifies_once_with_upper_bounds(usual):
    one, epsilon = claim(usual, "bayesian_confidentiality"), claim(usual, "dp_private_set")["epsilon"]
    assert one["epsilon"] == pytest.approx(math.log(1 + 0.1 * (math.exp(epsilon) - 1)))
    assert one["delta"] == pytest.approx(0.1 * 1e-5 + 1e-6)
    assert one["mu"] == MU
    assert one["confidence"] == pytest.approx(0.9)  # both bounds at once
    paper = one["as_in_paper"]
    assert paper["epsilon"] == pytest.approx(
        amplify_epsilon(claim(usual, "dp_private_set")["as_in_paper"]["epsilon"], 0.05)
    )


def test_group_confidentiality_counts_missed_secrets_rounded_up(usual):
    total = claim(usual, "dp_private_set")["epsilon"]
    two, ten = claim(usual, "group_confidentiality", 2), claim(usual, "group_confidentiality", 10)
    assert (two["num_missed"], ten["num_missed"]) == (1, 1)
    assert two["epsilon"] == pytest.approx(total)
    assert ten["delta"] == pytest.approx(math.exp(total) * 1e-5 + 10 * 1e-6)
    assert "misses at most 1 of the 10" in text(ten)


def test_a_group_counts_wholly_where_gamma_is_unknown():
    found = build(
        corpus={"has_conservative": False},
        review={"source": "not_measured", "is_trusted": False, "false_negative_rate": None, "delta2": None},
        groups=(2, 30),
    )
    assert claim(found, "group_confidentiality", 2)["num_missed"] == 2
    assert claim(found, "group_confidentiality", 2)["epsilon"] == pytest.approx(
        2 * claim(found, "dp_private_set")["epsilon"]
    )
    large = claim(found, "group_confidentiality", 30)
    assert "vacuous" in large["refused"]
    assert large["epsilon"] is None
    assert not large["is_guarantee"]


def test_theorem_8_is_refused_when_missed_secrets_may_be_public():
    found = build(review={"delta2": Delta2(value=0.001, upper=0.01, confidence=0.95, mu=MU)})
    one = claim(found, "confidentiality")
    assert "0.01" in one["refused"]
    assert "1e-05" in one["refused"]
    assert one["epsilon"] is None
    assert claim(found, "group_confidentiality", 2)["refused"]
    # What does not rest on it stays: the conditional claim, and the Bayesian one, whose delta holds delta2.
    assert claim(found, "confidentiality_of_caught_secrets")["refused"] is None
    assert claim(found, "bayesian_confidentiality")["delta"] == pytest.approx(0.1 * 1e-5 + 0.01)
    assert found["claims"][found["headline"]]["notion"] == "bayesian_confidentiality"


def test_without_a_conservative_policy_nothing_can_be_public():
    found = build(
        corpus={"has_conservative": False}, review={"delta2": Delta2(value=0.0, upper=0.5, confidence=0.95, mu=MU)}
    )
    one = claim(found, "confidentiality")
    assert one["delta"] == 1e-5
    assert one["confidence"] is None
    assert "no conservative policy" in text(one)
    assert claim(found, "bayesian_confidentiality")["delta"] == pytest.approx(1e-6)
    assert claim(found, "bayesian_confidentiality")["confidence"] == pytest.approx(0.95)
    assert "every secret" in text(claim(found, "confidentiality_of_caught_secrets"))


def test_nothing_rests_on_a_proxy():
    found = build(review={"source": "proxy", "is_trusted": False})
    assert "proxy" in claim(found, "bayesian_confidentiality")["refused"]
    assert "not measured" in claim(found, "confidentiality")["refused"]
    private = build(corpus={"has_conservative": False}, review={"source": "proxy", "is_trusted": False})
    assert "proxy" in claim(private, "bayesian_confidentiality")["refused"]
    assert claim(private, "group_confidentiality", 2)["num_missed"] == 2


def test_nothing_measured_is_said_so():
    found = build(review={"source": "not_measured", "is_trusted": False, "false_negative_rate": None, "delta2": None})
    assert "not measured" in claim(found, "bayesian_confidentiality")["refused"]
    assert "not measured" in claim(found, "confidentiality")["refused"]
    assert claim(found, "dp_private_set")["is_guarantee"]


def test_a_test_seed_is_no_guarantee():
    found = build(events={"insecure_test_seed": True})
    for one in found["claims"]:
        assert not one["is_guarantee"]
        assert "insecure_test_seed" in one["not_guaranteed_because"][0]


@pytest.mark.parametrize(
    ("events", "word"),
    [
        ({"tokenizer": {"kind": "bpe", "trained_on": "private"}}, "tokenizer"),
        ({"public_order": "corpus"}, "order"),
    ],
)
def test_what_leaks_beside_epsilon_is_no_guarantee(events, word):
    for one in build(events=events)["claims"]:
        assert not one["is_guarantee"]
        assert word in one["not_guaranteed_because"][0]


def test_a_stability_above_one_is_a_group(usual):
    found = build(corpus={"dedup_stability": 3, "dedup_reason": "mask_all."})
    total = claim(usual, "dp_private_set")["epsilon"]
    assert claim(found, "dp_private_set")["epsilon"] == total
    one = claim(found, "confidentiality")
    assert one["corpus"] == "raw"
    assert one["dedup_stability"] == 3
    assert one["epsilon"] == pytest.approx(3 * total)
    assert one["delta"] == pytest.approx(3 * math.exp(3 * total) * 1e-5 + 1e-6)
    assert claim(found, "group_confidentiality", 2)["epsilon"] == pytest.approx(3 * total)
    bayesian = claim(found, "bayesian_confidentiality")
    assert bayesian["epsilon"] == pytest.approx(amplify_epsilon(3 * total, 0.1))


@pytest.mark.parametrize(
    ("events", "corpus"),
    [({}, {"dedup_stability": None, "dedup_reason": "verify = false."}), ({"record": "dialogue"}, {})],
)
def test_without_a_stability_the_claim_is_about_the_deduplicated_corpus(usual, events, corpus):
    one = claim(build(events=events, corpus=corpus), "confidentiality")
    assert one["corpus"] == "deduplicated"
    assert "after* deduplication" in text(one)
    assert one["epsilon"] == claim(usual, "confidentiality")["epsilon"]
    assert claim(usual, "confidentiality")["corpus"] == "raw"


def test_masks_that_show_lengths_give_no_credit():
    found = build(corpus={"collapses": False})
    assert "collapse" in claim(found, "bayesian_confidentiality")["refused"]
    assert claim(found, "group_confidentiality", 2)["num_missed"] == 2
    assert "collapse" in text(claim(found, "confidentiality"))
    assert "it is 0" not in claim(found, "confidentiality")["statement"]


def test_policies_that_tie_rows_together_are_named():
    one = claim(build(corpus={"couples_rows": ("propagate",), "dedup_min_tokens": 3}), "confidentiality")
    assert "propagate" in text(one)
    assert "fewer than 3 tokens" in text(one)


def test_no_private_record_costs_nothing_but_what_escapes():
    found = build(events={"event": {"type": "none"}, "num_private_records": 0})
    assert claim(found, "dp_private_set")["epsilon"] == 0
    assert claim(found, "dp_private_set")["delta"] == 0
    assert claim(found, "confidentiality")["delta"] == pytest.approx(1e-6)
    assert claim(found, "bayesian_confidentiality")["epsilon"] == 0


def test_no_noise_is_refused():
    found = build(events={"event": {"type": "gaussian", "noise_multiplier": 0.0}})
    for one in found["claims"]:
        assert "no noise" in one["refused"]
        assert one["epsilon"] is None
        assert one["epsilon_unamplified"] is None
    assert found["headline"] is None


def test_a_large_delta_is_warned_of_loudly():
    found = build(events={"target_delta": 0.001})
    assert "1 / 1000" in found["warnings"][0]
    assert build(events={"target_delta": 0.000999})["warnings"] == []


def test_other_methods_get_no_theorem_of_crt():
    found = build(events={"method": "dpsgd"})
    assert claim(found, "dp_private_set")["is_guarantee"]
    for one in found["claims"][1:]:
        assert "dpsgd" in one["refused"]
        assert one["epsilon"] is None
        assert not one["is_guarantee"]


@pytest.mark.parametrize(
    "events",
    [
        {"schema_version": 2},
        {"event": {"type": "laplace"}},
        {"event": {"type": "none"}},  # with private records
        {"event": {"type": "self_composed", "count": 0, "event": STEP}},
        {"target_delta": 0.0},
        {"target_delta": None},
        {"tokenizer": None},
    ],
)
def test_events_that_cannot_be_trusted_are_refused(events):
    with pytest.raises(UnsupportedEventError):
        build(events=events)


def test_a_missing_key_is_named():
    with pytest.raises(UnsupportedEventError, match="public_order"):
        parse_training({name: value for name, value in EVENTS.items() if name != "public_order"})


def test_a_missing_seed_flag_makes_no_guarantee():
    found = build(events={"insecure_test_seed": None})
    assert not any(one["is_guarantee"] for one in found["claims"])
