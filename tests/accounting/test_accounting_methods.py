"""Every training method's claims: what is issued, what is refused, and which recorded facts decide it."""

from __future__ import annotations

import math

import pytest
from support.trainings import DP, MET, RATE, TWO_PHASES, build

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.claim_documents import withheld
from pipelines.accounting.confidentiality import amplify_epsilon
from pipelines.accounting.events import Composed, UnsupportedEventError, dp_sgd, from_json
from pipelines.methods.registry import RULES
from pipelines.miss_rate.rates import Stability


def private():
    return epsilon(from_json(DP), 1e-6)


@pytest.mark.parametrize("name", RULES)
def test_every_method_has_a_run_here_and_says_relation_unit_and_assumptions(name):
    for one in build(name).values():
        assert one["relation"] == "replace_one"
        assert one["unit"] == "sentence"
        assert one["assumptions"]
        assert one["group_size"] >= 1
        assert one["refused"] or math.isfinite(one["epsilon"])


def test_without_noise_nothing_is_promised():
    for one in build("no_dp").values():
        assert "no noise" in one["refused"]


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.is_unnoised])
def test_what_reads_text_without_noise_has_no_differential_privacy(name):
    assert "adds no noise" in build(name)["dp_private_set"]["refused"]


def test_dpsgd_reads_the_original_so_redaction_gives_no_credit():
    found = build("dpsgd", clean=True, conservative=True)
    for notion in ("dp_private_set", "confidentiality", "group_confidentiality"):
        assert found[notion]["is_guarantee"]
        assert (found[notion]["epsilon"] == pytest.approx(private())) is (notion != "group_confidentiality")
    assert found["selective_dp"]["is_guarantee"]
    assert "DP implies" in found["selective_dp"]["theorem"]
    text = " ".join(found["confidentiality"]["assumptions"])
    assert "redaction gives no credit" in text
    assert "duplicates included" in text
    assert found["confidentiality"]["corpus"] == "raw"


LEARNT = {"tokenizer": {"kind": "bpe_public", "trained_on": "public"}}


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if not rule.has_public_set])
def test_a_vocabulary_learnt_on_protected_rows_voids_every_claim(name):
    for one in build(name, clean=True, stable=True, **LEARNT).values():
        assert not one["is_guarantee"]
        if not one["refused"]:
            assert any("vocabulary was learnt" in reason for reason in one["not_guaranteed_because"])
    assert build("crt", clean=True, **LEARNT)["confidentiality"]["is_guarantee"]


def test_the_order_of_public_rows_matters_only_where_some_were_read_without_noise():
    assert build("dpsgd", public_order="none")["dp_private_set"]["is_guarantee"]
    assert not build("jft/direct", public_order="unknown")["confidentiality_of_masked_secrets"]["is_guarantee"]


@pytest.mark.parametrize("name", RULES)
def test_no_claim_of_any_method_is_less_for_labels_or_surrogates(name):
    """Whatever is issued costs all that training spent: what is read without noise differs from secret to secret."""
    masks = build(name, clean=True, stable=True)
    for replacement in ("label", "surrogate"):
        found = build(name, clean=True, stable=True, replacement=replacement)
        for one in found.values():
            assert one["refused"] or one["epsilon"] >= one["epsilon_unamplified"]
    reads_masks = name not in ("dpsgd", "no_dp", "sdpsgd_lstm")
    assert (masks != found) == (reads_masks or name == "sdpsgd_lstm")


@pytest.mark.parametrize("name", ["redacted", "anonymized"])
def test_masks_that_tell_a_kind_are_no_mask_in_the_place_of_a_secret(name):
    found = build(name, clean=True, stable=True, typed_masks=True)
    assert "the kind of their secret" in found["confidentiality_of_masked_secrets"]["refused"]
    assert found["selective_dp"]["refused"]
    assert found["selective_dp_of_the_policy"]["refused"]
    assert build(name, clean=True, stable=True)["selective_dp_of_the_policy"]["is_guarantee"]


@pytest.mark.parametrize(("name", "cost"), [("redacted", 0), ("anonymized", 0), ("jft/direct", 1)])
def test_masked_secrets_cost_what_read_the_original(name, cost):
    one = build(name)["confidentiality_of_masked_secrets"]
    assert one["is_guarantee"]
    assert one["epsilon"] == pytest.approx(cost * private())
    assert "Nothing is promised for other secrets" in one["statement"]
    assert "of the 90 masked secrets that were reviewed, the redaction of 7 was not stable" in one["statement"]
    assert ("every copy" in " ".join(one["assumptions"])) == bool(cost)


@pytest.mark.parametrize("name", ["redacted", "anonymized", "jft/direct", "jft/light_noise"])
@pytest.mark.parametrize("stability", [None, Stability(num_caught=0, num_unstable=0)])
def test_a_promise_for_stably_masked_secrets_says_where_nobody_knows_how_many_there_are(name, stability):
    """Masked text is read without noise, so a secret that moves other masks shows: the sentence leaves it out."""
    one = build(name, stability=stability)["confidentiality_of_masked_secrets"]
    assert "whose redaction is stable" in one["statement"]
    assert "was not measured" in one["statement"]


@pytest.mark.parametrize("name", ["redacted", "anonymized", "jft/direct", "jft/light_noise", "crt"])
def test_one_secret_that_changes_other_sentences_ends_every_claim_about_masked_ones(name):
    elsewhere = Stability(num_caught=90, num_unstable=7, num_unstable_elsewhere=3)
    for notion, one in build(name, stability=elsewhere).items():
        if "confidentiality" in notion:
            assert "3 of 90" in one["refused"], notion


@pytest.mark.parametrize("name", ["redacted", "jft/direct", "redaction_schedule", "sdpsgd_lstm"])
def test_selective_dp_needs_recall_1_and_a_stable_redactor(name):
    found = build(name, clean=False, stable=True)
    assert "No sample can mend this" in found["selective_dp"]["refused"]
    assert found["selective_dp_of_the_policy"]["is_guarantee"]
    assert "nothing that the policy misses" in found["selective_dp_of_the_policy"]["statement"]
    found = build(name, clean=True, stable=False)
    for notion in ("selective_dp", "selective_dp_of_the_policy"):
        assert "redact(D) = redact(D')" in found[notion]["refused"]
    one = build(name, clean=True, stable=True)["selective_dp"]
    assert one["is_guarantee"]
    assert one["epsilon"] == pytest.approx(0 if name == "redacted" else private())
    if name != "sdpsgd_lstm":
        assert one["corpus"] == "deduplicated"
    if name != "redacted":
        assert one["as_in_paper"]["epsilon"] < one["epsilon"]


def test_screened_rows_stand_in_for_recall_1():
    assert build("jft/manual_screening", stable=True)["selective_dp"]["is_guarantee"]


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.requires])
def test_a_precondition_that_is_not_recorded_as_met_refuses(name):
    method = RULES[name]
    for missing in method.requires:
        for recorded in ({**MET, missing: "yes"}, {k: v for k, v in MET.items() if k != missing}):
            for notion, one in build(name, clean=True, stable=True, preconditions=recorded).items():
                if notion != "dp_private_set":
                    assert one["refused"] == method.requires[missing]
                    assert one["epsilon"] is None


@pytest.mark.parametrize("name", ["jft/light_noise", "jft/conservative_light_noise"])
def test_light_noise_is_an_estimate_with_the_sound_forms_beside_it(name):
    found = build(name, conservative=True)
    estimate = found["light_noise_estimate"]
    assert not estimate["is_guarantee"]
    assert "estimate" in estimate["not_guaranteed_because"][0]
    sound = found["bayesian_confidentiality"]
    assert sound["is_guarantee"]
    # gamma once, on phase 1 as a whole; phase 2 reads the original and gets no credit.
    assert sound["epsilon"] == pytest.approx(amplify_epsilon(private(), 0.1) + private())
    assert sound["delta"] == pytest.approx(0.1 * 1e-6 + 1e-6)
    both = epsilon(from_json({"type": "composed", "events": [DP, DP]}), 1e-6)
    assert found["dp_private_set"]["epsilon"] == pytest.approx(both)
    assert found["selective_dp"]["epsilon"] == pytest.approx(both)
    assert estimate["epsilon"] < both


@pytest.mark.parametrize("lower", [0.0, 0.001, 0.005])
def test_light_noise_states_the_estimate_of_both_ends_of_the_interval(lower):
    rate = {**RATE, "lower": lower, "basis": "measured"}
    estimate = build("jft/light_noise", light_noise_miss_rate=rate)["light_noise_estimate"]
    both = estimate["as_in_paper"]
    assert not estimate["is_guarantee"]
    assert both["status"] == "estimates, no guarantee"
    assert (both["m_lower"], both["m_upper"]) == (lower, 0.01)
    assert both["epsilon_at_m_upper"] == estimate["epsilon"]
    # Phase 2 reads original text and keeps its rate. Without a miss its cost is all.
    first, second = (from_json(DP) for _ in range(2))
    thinner = dp_sgd(noise_multiplier=first.event.event.noise_multiplier, sample_rate=0.1 * lower, num_steps=5)
    wanted = epsilon(Composed(events=(thinner, second)), 1e-6) if lower else private()
    assert both["epsilon_at_m_lower"] == pytest.approx(wanted)
    assert both["epsilon_at_m_lower"] < both["epsilon_at_m_upper"]


def test_the_estimates_of_a_measured_miss_rate_stay_out_of_public_claims():
    rate = {**RATE, "lower": 0.001, "basis": "measured"}
    claims = [build("jft/light_noise", light_noise_miss_rate=rate)["light_noise_estimate"]]
    assert claims[0]["as_in_paper"]
    assert withheld({"claims": claims, "headline": None})["claims"][0]["as_in_paper"] == {}


@pytest.mark.parametrize("name", ["jft/light_noise", "jft/conservative_light_noise"])
@pytest.mark.parametrize("basis", ["measured", None])
def test_noise_chosen_by_a_measurement_of_this_text_makes_no_guarantee(name, basis):
    """Guards against a rate that differs in the neighbouring world: another mechanism ran there, at m = 0 no noise."""
    rate = {key: value for key, value in RATE.items() if key != "basis"} | ({"basis": basis} if basis else {})
    found = build(name, clean=True, light_noise_miss_rate=rate)
    assert {one["is_guarantee"] for one in found.values()} == {False}
    for one in found.values():
        if not one["refused"]:
            assert any("measured on this text" in reason for reason in one["not_guaranteed_because"])
        assert any("except for the noise of phase 1" in text for text in one["assumptions"])
    for fixed in ("fixed_beforehand", "public_text"):
        told = build(name, clean=True, light_noise_miss_rate={**RATE, "basis": fixed})
        assert told["bayesian_confidentiality"]["is_guarantee"]
        assert told["dp_private_set"]["is_guarantee"]
        assert any("According to the settings" in text for text in told["dp_private_set"]["assumptions"])


def test_light_noise_without_a_recorded_miss_rate_is_refused():
    found = build("jft/light_noise", light_noise_miss_rate=None)
    assert "not recorded" in found["light_noise_estimate"]["refused"]


@pytest.mark.parametrize(
    "changes",
    [
        {"phases": None, "event": DP},  # of a method with several
        {"phases": TWO_PHASES, "event": DP},  # one phase is left out of the whole
        {"phases": [{**TWO_PHASES[0], "event": {"type": "none"}}, TWO_PHASES[1]], "event": DP},
        {"phases": [{**TWO_PHASES[0], "rows": "masked"}, TWO_PHASES[1]]},
    ],
)
def test_phases_that_contradict_the_run_are_refused(changes):
    with pytest.raises(UnsupportedEventError):
        build("jft/direct", **changes)
