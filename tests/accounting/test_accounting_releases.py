"""Several releases on the same records: composed first, credit once, and no more credit than a claim would give."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import pytest
from built_releases import (
    CORPUS,
    DELTA,
    GAMMA,
    MU,
    OTHER,
    PHASES,
    SAME,
    STEADY,
    alone,
    build,
    one,
    release,
    review,
    training,
    twice,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from support.trainings import DP, document

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.claim_documents import credit_of
from pipelines.accounting.claims import Review, build_claims
from pipelines.accounting.composition import Publication
from pipelines.accounting.confidentiality import amplify_epsilon
from pipelines.accounting.events import Composed, Gaussian, SelfComposed, from_json
from pipelines.accounting.facts import ReleaseFacts, parse_training
from pipelines.accounting.ledger import composed_epsilon
from pipelines.miss_rate.rates import Delta2


def test_a_method_that_reads_the_original_gets_no_credit_in_the_ledger():
    """Guards the ledger's "0.035 with credit" for one dpsgd release of epsilon 3, which redaction never touched."""
    assert credit_of(build("dpsgd"))["epsilon"] is None
    assert credit_of(build("crt"))["epsilon"] == pytest.approx(amplify_epsilon(alone(), 0.2))


@pytest.mark.parametrize("notion", ["confidentiality", "dp_private_set"])
def test_what_an_earlier_release_held_is_among_the_assumptions_of_all_together(notion):
    """By the entry in the ledger: this run's gate may stop, or its method read no public row."""
    earlier = release("crt", 1)
    holding = replace(earlier, facts=replace(earlier.facts, holds_rows=True))
    assert ReleaseFacts.from_json(json.loads(json.dumps(holding.facts.to_json()))) == holding.facts
    assert "holds_rows" not in earlier.facts.to_json()
    for others, is_supposed in (([earlier], False), ([earlier, holding], True), ([holding], True)):
        claim = one(build("crt", others), notion)
        assert any("the gate holds sentences" in text for text in claim["together"]["assumptions"]) == is_supposed
        assert not any("the gate holds sentences" in text for text in claim["assumptions"])


def test_a_release_on_original_text_counts_in_full_beside_one_on_redacted_text():
    """Guards the ledger's "epsilon 0" for crt and dpsgd together, which cost 4.31."""
    clean = review(upper=0.0)
    found = credit_of(build("crt", [release("dpsgd", 1)], known=clean))
    assert found["epsilon"] == pytest.approx(alone())
    assert credit_of(build("crt", known=clean))["epsilon"] == 0


def test_credit_uses_the_worst_label_and_passes_every_check_of_the_claim():
    """Guards credit by the average gamma, and credit without the checks of coverage, collapsing and delta2."""
    assert credit_of(build("crt"))["epsilon"] > amplify_epsilon(alone(), GAMMA.upper)
    for corpus, known, word in (
        (CORPUS, review(source="proxy"), "proxy"),
        (replace(CORPUS, collapses=False), review(), "collapse"),
        (CORPUS, replace(review(), covers_corpus=False), "only a part"),
        (replace(CORPUS, has_conservative=True), review(escape=0.01), "delta2"),
        (CORPUS, replace(review(), worst_label=None), "gamma"),
    ):
        found = credit_of(build("crt", [release("crt", 1)], corpus=corpus, known=known))
        assert found["epsilon"] is None
        assert word in found["reason"]


NAMES = st.sampled_from(sorted(PHASES))
RELEASES = st.lists(st.tuples(NAMES, st.sampled_from([SAME, OTHER]), st.booleans()), max_size=3)


SETS = given(
    own=NAMES,
    earlier=RELEASES,
    gamma=st.sampled_from([0.0, 0.01, 0.3]),
    conservative=st.booleans(),
    census=st.booleans(),
)


@settings(max_examples=12)
@SETS
def test_the_ledger_never_gives_more_than_the_claims_of_each_release(own, earlier, gamma, conservative, census):
    """Guards the property: one release costs what its best claim says; several cost at least as much as any of them."""
    check_credit(own, earlier, gamma, conservative, census)


@pytest.mark.slow
@settings(max_examples=40)
@SETS
def test_nor_for_many_more_sets_of_releases(own, earlier, gamma, conservative, census):
    """As the one above."""
    check_credit(own, earlier, gamma, conservative, census)


def check_credit(own, earlier, gamma, conservative, census):
    corpus = replace(CORPUS, has_conservative=conservative)
    known = review(upper=gamma)
    if census:
        exact = replace(GAMMA, value=gamma, upper=gamma, confidence=1.0)
        known = replace(known, is_census=True, false_negative_rate=exact, stability=STEADY)
    others = [
        release(name, number, redactions, facts=None) if unknown else release(name, number, redactions)
        for number, (name, redactions, unknown) in enumerate(earlier)
    ]
    found = build(own, others, corpus=corpus, known=known)
    single = build(own, corpus=corpus, known=known)
    bayesian = next((c for c in single["claims"] if c["notion"] == "bayesian_confidentiality"), None)
    issued = bayesian is not None and bayesian["refused"] is None
    assert credit_of(single)["epsilon"] == (bayesian["epsilon"] if issued else None)
    together = credit_of(found)
    if together["epsilon"] is not None:
        each = [credit_of(build(r.facts.method + (f"/{r.facts.variant}" if r.facts.variant else ""), corpus=corpus,
                                known=known)) for r in others if r.facts is not None]  # fmt: skip
        least = [c["epsilon"] for c in (credit_of(single), *each) if c["epsilon"] is not None]
        assert together["epsilon"] >= max(least, default=0.0) * (1 - 1e-9)
        # What gets no credit alone gets none together: it costs its own epsilon in full.
        unamplified = [composed_epsilon([r], DELTA) for r in others if r.facts is None or r.facts.redactions == OTHER]
        assert together["epsilon"] >= max([0.0, *unamplified]) * (1 - 1e-6)
    apart = [single, *(build(name, corpus=corpus, known=known) for name, _, unknown in earlier if not unknown)]
    for claim, each in itertools.product(found["claims"], apart if others else ()):
        whole = claim["together"]
        same = [c for c in each["claims"] if (c["notion"], c["group_size"]) == (claim["notion"], claim["group_size"])]
        if same and whole is not None and whole["refused"] is None:  # what one alone gives away, all together do
            assert same[0]["refused"] is None, (claim["notion"], same[0]["refused"])
            assert whole["epsilon"] >= same[0]["epsilon"] * (1 - 1e-9), claim["notion"]
            assert whole["delta"] >= same[0]["delta"] * (1 - 1e-9), claim["notion"]
            assert same[0]["is_guarantee"] or not whole["is_guarantee"], claim["notion"]
    if others:
        total = composed_epsilon([release(own, 99), *others], DELTA)
        assert found["together"]["epsilon"] == (pytest.approx(total) if math.isfinite(total) else None)


CENSUS = Review(
    source="gold",
    is_trusted=True,
    false_negative_rate=replace(GAMMA, value=0.0, upper=0.0, confidence=1.0),
    delta2=Delta2.zero(MU),
    worst_label=(replace(GAMMA, value=0.0, upper=0.0, confidence=1.0), Delta2.zero(MU)),
    is_census=True,
    stability=STEADY,
)


@pytest.mark.parametrize(("own", "other"), [("crt", "dpsgd"), ("dpsgd", "crt")])
def test_a_group_of_masked_secrets_is_not_free_beside_a_release_on_original_text(own, other):
    """Guards "epsilon 0, delta 0, guarantee" for groups: redaction never touched what dpsgd read."""
    assert one(build("crt", known=CENSUS), "group_confidentiality", 2)["epsilon"] == 0
    found = one(build(own, [release(other, 1)], known=CENSUS), "group_confidentiality", 2)["together"]
    dpsgd = one(build("dpsgd", known=CENSUS), "group_confidentiality", 2)
    assert found["epsilon"] >= dpsgd["epsilon"] > 0
    assert found["delta"] >= dpsgd["delta"] > 0
    repeated = release(other, 1, insecure_test_seed=True)
    assert "infinite" in one(build(own, [repeated], known=CENSUS), "group_confidentiality", 2)["together"]["refused"]


@pytest.mark.parametrize("own", ["crt", "dpsgd"])
@pytest.mark.parametrize("redactions", [SAME, OTHER])
@pytest.mark.parametrize("as_first_version", [False, True])
def test_a_release_that_reads_unmasked_text_without_noise_leaves_no_bound(own, redactions, as_first_version):
    """Guards S-DPSGD's event: its noised queries alone made "epsilon 4.47 for 2 releases" of a missed secret."""
    lstm = release("sdpsgd_lstm", 1, redactions)
    if as_first_version:
        lstm = replace(lstm, event=from_json(DP), facts=replace(lstm.facts, phases=lstm.facts.phases[:1]))
    found = build(own, [lstm], known=CENSUS)
    for notion in ("confidentiality", "dp_private_set"):
        assert "infinite" in one(found, notion)["together"]["refused"]
    assert found["together"]["epsilon"] is None
    assert math.isinf(composed_epsilon([release(own, 0), lstm], DELTA))


def test_an_entry_of_the_first_version_that_may_be_s_dpsgd_is_charged_as_unnoised():
    """Guards: such an entry names no method, and cost its noised queries alone."""
    queries = SelfComposed(count=40, event=Gaussian(noise_multiplier=20.0))
    lstm = release("sdpsgd_lstm", 1, event=queries, facts=None)
    assert math.isinf(composed_epsilon([release("dpsgd", 0), lstm], DELTA))
    assert build("dpsgd", [lstm], known=CENSUS)["together"]["epsilon"] is None
    sampled = [release("dpsgd", number) for number in (0, 1)]
    assert composed_epsilon([sampled[0], replace(sampled[1], facts=None)], DELTA) == composed_epsilon(sampled, DELTA)


def test_events_of_the_first_version_of_s_dpsgd_get_what_they_lack():
    old = document("sdpsgd_lstm", num_private_records=10)
    assert "phases" not in old
    facts = parse_training(old)
    assert [phase.rows for phase in facts.phases] == ["original", "redacted"]
    assert facts.phases[1].is_unnoised
    assert math.isinf(epsilon(facts.event, DELTA))


@pytest.mark.parametrize("own", ["sentence", "dialogue"])
def test_records_of_another_unit_leave_no_claim_before_deduplication(own):
    """Guards "one replaced sentence changes at most 1 record": a copy that it unmasks stands in another dialogue."""
    other = release("crt", 1)
    unit = {"sentence": "dialogue", "dialogue": "sentence"}[own]
    other = replace(other, facts=replace(other.facts, record=unit))
    found = build_claims(
        replace(training("crt"), record=own), CORPUS, CENSUS, (2,), Publication(redactions=SAME), [other]
    )
    assert one(found, "confidentiality")["together"]["corpus"] == "deduplicated"


def test_what_is_said_first_is_said_of_all_releases():
    """Guards "It is 0 for a secret whose redaction is stable" beside a figure that dpsgd is part of."""
    claim = one(build("crt", [release("dpsgd", 1)], known=CENSUS), "confidentiality")
    assert "It is 0 for" in claim["statement"]
    whole = claim["together"]
    assert "It is 0 for" not in whole["statement"]
    assert "training on original text" in whole["statement"]
    assert any("without a copy" in text for text in whole["assumptions"])
    assert not any("without a copy" in text for text in claim["assumptions"])


@pytest.mark.slow
def test_every_claim_states_all_releases_together_beside_this_one():
    """Guards "one release" among the assumptions, and epsilon 3, where the ledger said four and 6.293."""
    others = [release("crt", n) for n in range(3)]
    found = build("crt", others, known=review(upper=0.0))
    four = epsilon(Composed(events=(from_json(DP),) * 4), DELTA)
    assert found["together"] == {
        "num_releases": 4,
        "epsilon": pytest.approx(four),
        "delta": DELTA,
        "unit": "sentence",
        "relation": "replace_one",
    }
    claim = one(found, "confidentiality")
    assert claim["epsilon"] == pytest.approx(alone())
    assert claim["together"]["epsilon"] == pytest.approx(four)
    assert claim["together"]["num_releases"] == 4
    for each in found["claims"]:
        assert any("3 other releases of this store" in text for text in each["assumptions"])
        assert not any("no other release" in text for text in each["assumptions"])
    assert build("crt")["together"] is None
    assert one(build("crt"), "confidentiality")["together"] is None


def test_an_earlier_release_without_noise_leaves_no_bound_for_all_together():
    found = build("dpsgd", [release("jft/direct", 1)])
    claim = one(found, "confidentiality")
    assert claim["epsilon"] == pytest.approx(alone())
    assert "no noise" in claim["together"]["refused"]
    assert found["together"]["epsilon"] is None


def test_a_headline_that_holds_for_all_releases_is_shown_before_one_that_does_not():
    """A masked secret may be safe from all releases where a missed one is not; then that claim is the headline."""
    found = build("jft/direct", [release("redacted", 1)])
    shown = found["claims"][found["headline"]]
    assert shown["notion"] == "confidentiality_of_masked_secrets"
    assert shown["together"]["refused"] is None


def test_rows_that_another_redaction_took_for_public_leave_no_bound_for_a_missed_secret():
    found = build("crt", [release("crt", 1, OTHER)])
    claim = one(found, "confidentiality")
    assert claim["is_guarantee"]
    assert "another redaction took for public" in claim["together"]["refused"]
    assert one(build("crt", [release("crt", 1)]), "confidentiality")["together"]["refused"] is None


def test_a_release_of_which_nothing_is_known_counts_in_full():
    found = build("crt", [release("dpsgd", 1, facts=None)], known=review(upper=0.0))
    assert credit_of(found)["epsilon"] is None
    assert found["together"]["epsilon"] == pytest.approx(twice())
    # An event with noise may be S-DPSGD's, which reads a part of the text without: no claim rests on it.
    for notion in ("dp_private_set", "confidentiality"):
        assert one(found, notion)["together"]["refused"]


def test_noise_that_can_be_repeated_and_models_on_the_trusted_side():
    insecure = build("crt", [release("crt", 1, insecure_test_seed=True)])
    assert insecure["together"]["epsilon"] is None
    kept = build("crt", [release("redacted", 1, is_public=False), release("crt", 2, state="abandoned")])
    assert kept["together"] is None


def test_records_of_several_kinds_compose_for_a_sentence():
    dialogue = release("crt", 1)
    dialogue = replace(dialogue, facts=replace(dialogue.facts, record="dialogue"))
    assert one(build("crt", [dialogue]), "dp_private_set")["together"]["unit"] == "sentence"


def test_a_delta_that_is_too_large_for_an_earlier_release_is_no_guarantee():
    """Guards the rule of delta >= 1/N for all releases together: the largest number of records counts."""
    large = release("crt", 1)
    large = replace(large, facts=replace(large.facts, num_private_records=2_000_000))
    claim = one(build("crt", [large]), "dp_private_set")
    assert claim["is_guarantee"]
    assert not claim["together"]["is_guarantee"]
    assert "one over the number of records" in claim["together"]["not_guaranteed_because"][0]


def test_an_earlier_release_whose_preconditions_were_not_met_leaves_differential_privacy_only():
    schedule = release("jft/direct", 1)
    schedule = replace(
        schedule, facts=replace(schedule.facts, method="redaction_schedule", variant=None, met=frozenset())
    )
    found = build("jft/direct", [schedule])
    claim = one(found, "confidentiality_of_masked_secrets")
    assert claim["is_guarantee"]
    assert "drawn up front" in claim["together"]["refused"]


def test_a_decision_behind_an_earlier_release_counts_for_all_of_them():
    """Guards against a setting that is taken back: what it decided about whole documents is out."""
    earlier = release("crt", 1)
    held = replace(earlier, facts=replace(earlier.facts, decisions=frozenset({"documents in another language"})))
    assert ReleaseFacts.from_json(held.facts.to_json()) == held.facts
    assert "decisions" not in earlier.facts.to_json()  # no key that earlier versions wrote
    found = one(build("crt", [held]), "confidentiality")
    assert found["refused"] is None
    assert "split.other_languages" in found["together"]["refused"]
    assert one(build("crt", [earlier]), "confidentiality")["together"]["is_guarantee"]
