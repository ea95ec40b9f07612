"""Claims: which are issued, which are refused and why, and what each one states."""

from __future__ import annotations

import math

import pytest
from built_claims import CLEAN_CENSUS, CONSERVATIVE, EVENTS, MU, STABILITY, WORST_MU, build, claim, text
from support.training_events import STEP

from pipelines.accounting.confidentiality import amplify_epsilon
from pipelines.accounting.events import UnsupportedEventError
from pipelines.accounting.facts import parse_training
from pipelines.accounting.groups import group_epsilon
from pipelines.miss_rate.rates import Stability


@pytest.fixture(scope="module")
def usual():
    return build()


def test_all_claims_are_issued_and_state_what_they_are_about(usual):
    assert [c["notion"] for c in usual["claims"]] == [
        "dp_private_set",
        "confidentiality",
        "confidentiality_of_caught_secrets",
        "group_confidentiality",
        "group_confidentiality_at_average_rate",
        "bayesian_confidentiality",
    ]
    for one in usual["claims"]:
        assert one["refused"] is None
        assert one["is_guarantee"] == (one["notion"] != "group_confidentiality_at_average_rate")
        assert one["unit"] == "sentence"
        assert one["relation"] == "replace_one"
        assert one["epsilon_unamplified"] == claim(usual, "dp_private_set")["epsilon"]
        for needed in (
            "validation and test folds are public",
            "hyper-parameters were not chosen by looking at private data",
            "pre-trained on other, public data",
            "tokenizer was trained on the public set",
            "what is not published: learning curves",
            "no other release of this store",
            "a note of the training stage",
            "speaker, domain and label of a row are not redacted",
            "not a finite number says so without noise",
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


def test_bayesian_confidentiality_amplifies_once_with_the_bound_of_the_worst_label(usual):
    one, epsilon = claim(usual, "bayesian_confidentiality"), claim(usual, "dp_private_set")["epsilon"]
    assert one["epsilon"] == pytest.approx(math.log(1 + 0.4 * (math.exp(epsilon) - 1)))
    assert one["delta"] == pytest.approx(0.4 * 1e-5)
    assert one["mu"] == WORST_MU
    assert one["confidence"] == pytest.approx(0.95)
    paper = one["as_in_paper"]
    assert paper["gamma"] == 0.05
    assert MU in paper["mu"]
    assert paper["epsilon"] == pytest.approx(
        amplify_epsilon(claim(usual, "dp_private_set")["as_in_paper"]["epsilon"], 0.05)
    )


def test_a_bayesian_claim_says_what_the_attacker_must_not_know(usual):
    one = claim(usual, "bayesian_confidentiality")
    assert "not in which sentence" in one["statement"]
    for needed in (
        "must not know in which sentence",
        "which may be 1",
        "may know of which kind",
        "labels mark every secret",
        "stands in one kept sentence",
    ):
        assert needed in text(one), needed


def test_both_bounds_of_a_bayesian_claim_hold_at_once():
    one = claim(build(corpus=CONSERVATIVE), "bayesian_confidentiality")
    assert one["delta"] == pytest.approx(0.4 * 1e-5 + 1e-6)
    assert one["confidence"] == pytest.approx(0.9)
    assert one["is_guarantee"]


def test_without_a_bound_for_each_label_there_is_no_bayesian_claim():
    assert "gamma" in claim(build(review={"worst_label": None}), "bayesian_confidentiality")["refused"]


def test_every_secret_of_a_group_counts_as_missed(usual):
    """The theorem is about the group's own missed share; the average over the corpus bounds no particular group."""
    total = claim(usual, "dp_private_set")["epsilon"]
    one = claim(usual, "group_confidentiality", 2)
    assert one["num_missed"] == 2
    assert one["epsilon"] == group_epsilon(parse_training(EVENTS).event, 1e-5, 2) > total
    assert one["delta"] == 1e-5  # (2 epsilon, 2 e^(2 epsilon) delta) has a larger one
    assert one["is_guarantee"]
    assert (one["mu"], one["confidence"]) == (None, None)
    assert "each secret stands in one kept sentence" in text(one)


@pytest.mark.parametrize("seed", [True, None])
def test_a_test_seed_or_an_unknown_one_is_no_guarantee(seed):
    found = build(events={"insecure_test_seed": seed})
    for one in found["claims"]:
        assert not one["is_guarantee"]
        assert any("insecure_test_seed" in reason for reason in one["not_guaranteed_because"])


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
        assert any(word in reason for reason in one["not_guaranteed_because"])


def test_a_stability_above_one_is_a_group(usual):
    found = build(events={"target_delta": 1e-8}, corpus={"dedup_stability": 3, "dedup_reason": "mask_all."})
    one = claim(found, "confidentiality")
    assert one["corpus"] == "raw"
    assert one["dedup_stability"] == 3
    three = group_epsilon(parse_training(EVENTS).event, 1e-8, 3)
    assert (one["epsilon"], one["delta"]) == (three, 1e-8)
    assert three > claim(found, "dp_private_set")["epsilon"]
    assert claim(found, "group_confidentiality_at_average_rate", 2)["epsilon"] == three
    bayesian = claim(found, "bayesian_confidentiality")
    assert bayesian["epsilon"] == pytest.approx(amplify_epsilon(three, 0.4))


@pytest.mark.parametrize(
    ("events", "corpus"),
    [({}, {"dedup_stability": None, "dedup_reason": "verify = false."}), ({"record": "dialogue"}, {})],
)
def test_without_a_stability_the_claim_is_about_the_deduplicated_corpus(usual, events, corpus):
    one = claim(build(events=events, corpus=corpus), "confidentiality")
    assert one["corpus"] == "deduplicated"
    assert "after* splitting and deduplication" in text(one)
    assert one["epsilon"] == claim(usual, "confidentiality")["epsilon"]
    assert claim(usual, "confidentiality")["corpus"] == "raw"


def test_a_claim_before_deduplication_is_not_one_before_splitting(usual):
    for one in usual["claims"][1:]:
        assert "after splitting into sentences, before deduplication" in text(one)
        assert "splitting into sentences came out the same in both" in text(one)
    assert "splitting" not in text(usual["claims"][0])


def test_epsilon_0_is_for_stably_masked_secrets_and_the_others_are_counted():
    """Guards the words: a flat "for one that it masks it is 0" is false of a secret whose mask moves other masks."""
    for stability, words in (
        (STABILITY, "of the 950 masked secrets that were reviewed, the redaction of 20 was not stable, and such"),
        (
            Stability(num_caught=3, num_unstable=1),
            "of the 3 masked secrets that were reviewed, the redaction of 1 was not",
        ),
        (Stability(num_caught=0, num_unstable=0), "was not measured"),
        (None, "was not measured"),
    ):
        found = build(review={"stability": stability}, groups=(10,))
        one = claim(found, "confidentiality")
        assert "masking it by hand leaves all else as it was" in one["statement"]
        assert words in one["statement"]
        for notion, size in (("confidentiality", 1), ("group_confidentiality_at_average_rate", 10)):
            assert words in text(claim(found, notion, size))
        assert "no other sentence of the corpus is what its sentence becomes" in text(one)


@pytest.mark.parametrize(
    "stability",
    [
        None,
        Stability(num_caught=1000, num_unstable=0, num_unstable_together=1),
        Stability(num_caught=1000, num_unstable=1),
    ],
)
def test_a_census_misses_nothing_only_where_every_combination_is_stable(stability):
    """Guards groups: each secret may be stable alone, and two of one sentence not be together."""
    found = build(review={**CLEAN_CENSUS, "stability": stability}, groups=(2,))
    assert claim(found, "group_confidentiality", 2)["num_missed"] == 2
    assert claim(found, "group_confidentiality", 2)["epsilon"] > 0


def test_a_secret_that_changes_other_sentences_leaves_no_claim():
    """One record's epsilon would not pay for the others, nor for one that moves to the public set."""
    some = Stability(num_caught=950, num_unstable=20, num_unstable_elsewhere=3)
    found = build(review={"stability": some})
    for one in found["claims"]:
        if one["notion"] == "dp_private_set":
            assert one["is_guarantee"]
        else:
            assert "3 of 950" in one["refused"]
            assert "propagate" in one["refused"]


def test_masks_that_show_lengths_give_no_credit():
    found = build(corpus={"collapses": False})
    assert "collapse" in claim(found, "bayesian_confidentiality")["refused"]
    assert [c["num_missed"] for c in found["claims"] if "group" in c["notion"]] == [2]
    assert "collapse" in text(claim(found, "confidentiality"))
    assert "it is 0" not in claim(found, "confidentiality")["statement"]


@pytest.mark.parametrize("replacement", ["label", "surrogate"])
def test_labels_and_surrogates_give_no_credit(replacement, usual):
    found = build(corpus={"replacement": replacement})
    assert f"redact.replacement is {replacement}" in claim(found, "bayesian_confidentiality")["refused"]
    assert [c["num_missed"] for c in found["claims"] if "group" in c["notion"]] == [2]
    one = claim(found, "confidentiality")
    assert "it is 0" not in one["statement"]
    assert one["epsilon"] == claim(usual, "confidentiality")["epsilon"]  # that of a missed secret
    caught = claim(found, "confidentiality_of_caught_secrets")
    assert "costs as much as a missed one" in text(caught)
    assert (caught["is_guarantee"], caught["epsilon"]) == (True, one["epsilon"])
    for kind, is_free in (("mask", True), (replacement, False)):
        group = claim(build(corpus={"replacement": kind}, review=CLEAN_CENSUS), "group_confidentiality", 2)
        assert (group["epsilon"] == 0) == is_free


@pytest.mark.parametrize("policies", [{"reads_documents": ("propagate",)}, {"plugins": ("own:Policy",)}])
def test_labels_that_other_sentences_change_are_refused(policies):
    """Masks may stay where a label changes, which no review of masks sees."""
    for replacement in ("mask", "surrogate"):
        found = build(corpus={"replacement": replacement, **policies})
        for notion in ("confidentiality", "confidentiality_of_caught_secrets"):
            one = claim(found, notion)
            assert (one["refused"] is None) == (replacement == "mask")
    assert "another label" in claim(found, "confidentiality")["refused"]
    original = build(corpus={"replacement": "surrogate", "reads_redacted": False, **policies})
    assert claim(original, "confidentiality")["is_guarantee"]


def test_policies_that_tie_rows_together_are_named():
    facts = {
        "dedup_stability": None,
        "reads_documents": ("propagate",),
        "fitted": ("classifier",),
        "plugins": ("acme.policies:Ours",),
        "dedup_min_tokens": 3,
    }
    one = claim(build(corpus=facts), "confidentiality")
    assert "look beyond one sentence, at its document: propagate" in text(one)
    assert "fitted on text: classifier" in text(one)
    assert "plug-ins: acme.policies:Ours. Nobody can check from here whether they keep a state" in text(one)
    assert "fewer than 3 tokens" in text(one)


def test_no_private_record_costs_nothing_but_what_escapes():
    found = build(events={"event": {"type": "none"}, "num_private_records": 0}, corpus=CONSERVATIVE)
    assert claim(found, "dp_private_set")["epsilon"] == 0
    assert claim(found, "dp_private_set")["delta"] == 0
    assert claim(found, "confidentiality")["delta"] == 0
    assert claim(found, "bayesian_confidentiality")["epsilon"] == 0
    assert claim(found, "bayesian_confidentiality")["delta"] == pytest.approx(1e-6)


def test_no_noise_is_refused():
    found = build(events={"event": {"type": "gaussian", "noise_multiplier": 0.0}})
    for one in found["claims"]:
        assert "no noise" in one["refused"]
        assert one["epsilon"] is None
        assert one["epsilon_unamplified"] is None
    assert found["headline"] is None


def test_a_large_delta_is_warned_of_loudly_and_is_no_guarantee():
    found = build(events={"target_delta": 0.001})
    assert "1 / 1000" in found["warnings"][0]
    for one in found["claims"]:
        assert one["refused"] or any("publishes one random record" in r for r in one["not_guaranteed_because"])
        assert not one["is_guarantee"]
    assert found["headline"] is None
    assert build(events={"target_delta": 1e-5})["warnings"] == []


def test_a_delta_that_is_too_large_is_never_shown_first():
    # Delta is below 1 / 1000 private records, but not below 1 / 1500 records: about the private set only.
    found = build(events={"target_delta": 8e-4})
    assert [c["notion"] for c in found["claims"] if c["is_guarantee"]] == ["dp_private_set", "bayesian_confidentiality"]
    assert found["claims"][found["headline"]]["notion"] == "bayesian_confidentiality"


def test_a_method_that_nobody_described_gets_no_theorem():
    found = build(events={"method": "something_new", "tokenizer": {"kind": "bytes", "trained_on": "none"}})
    assert [c["notion"] for c in found["claims"]] == ["dp_private_set"]
    assert found["claims"][0]["is_guarantee"]


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
