"""A recipe found wrong: claims on its models are refused, and they cost what they did in truth."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from support.trainings import RUNS, document
from test_accounting_ledger import DELTA, release

from pipelines.accounting import withdrawn
from pipelines.accounting.claims import Review, build_claims
from pipelines.accounting.events import Gaussian, PoissonSampled, SelfComposed
from pipelines.accounting.facts import CorpusFacts, ReleaseFacts, parse_training
from pipelines.accounting.ledger import composed_epsilon, epsilon_alone
from pipelines.accounting.withdrawn import Withdrawal, withdrawals
from pipelines.methods.registry import METHODS, rule_of
from pipelines.training.recipes import recipe_of

NOISE_WAS_HALF = Withdrawal(
    part="method crt",
    version=1,
    since="9.9",
    reason="half of the noise was added",
    true_event=lambda event: SelfComposed(
        count=10, event=PoissonSampled(sample_rate=0.1, event=Gaussian(noise_multiplier=2.0))
    ),
)
UNKNOWN = Withdrawal(part="engine", version=1, since="9.9", reason="nobody knows what it did")


def facts(method: str = "crt", **changes: object) -> ReleaseFacts:
    given = {"method": method, "record": "sentence", "num_private_records": 100, "phases": ()}
    return ReleaseFacts(**{**given, "redactions": frozenset({"r"}), **changes})


def test_no_recipe_of_the_present_is_withdrawn() -> None:
    for method in METHODS:
        assert not withdrawals(recipe_of(method, "language_modelling"), method)


@pytest.mark.parametrize(
    ("recipe", "method", "is_hit"),
    [
        ({"method crt": 1, "engine": 2}, "crt", True),
        ({"method crt": 2, "engine": 1}, "crt", False),
        ({"method jft": 1, "engine": 1}, "jft", False),
        ({}, "crt", True),  # before there were recipes all were the first
        ({}, "jft", False),
        ({}, None, True),  # an entry that does not say its method may be this one
    ],
)
def test_a_withdrawal_hits_its_part_and_version(patch, recipe, method, is_hit) -> None:
    patch.constant(withdrawn, "WITHDRAWN", [NOISE_WAS_HALF])
    assert bool(withdrawals(recipe, method)) == is_hit


def test_the_ledger_charges_the_true_cost_and_infinity_where_it_is_unknown(patch) -> None:
    one = replace(release("a"), facts=facts(recipe={"engine": 1, "method crt": 1}))
    stated = composed_epsilon([one], DELTA)
    patch.constant(withdrawn, "WITHDRAWN", [NOISE_WAS_HALF])
    true = composed_epsilon([replace(one, event=NOISE_WAS_HALF.true_event(one.event), facts=None)], DELTA)
    assert composed_epsilon([one], DELTA) == pytest.approx(true)
    assert true != pytest.approx(stated)
    assert epsilon_alone(one) == pytest.approx(stated)  # what the entry recorded, which it is checked against
    patch.constant(withdrawn, "WITHDRAWN", [UNKNOWN])
    assert composed_epsilon([one], DELTA) == math.inf
    assert composed_epsilon([replace(one, facts=None)], DELTA) == math.inf
    assert composed_epsilon([replace(one, facts=facts(recipe={"engine": 2}))], DELTA) == pytest.approx(stated)


def test_a_recipe_stays_with_a_release_and_is_absent_in_entries_of_before() -> None:
    given = facts(recipe={"engine": 3})
    assert ReleaseFacts.from_json(given.to_json()).recipe == {"engine": 3}
    old = facts().to_json()
    assert "recipe" not in old
    assert ReleaseFacts.from_json(old).recipe == {}


def test_every_claim_on_such_a_model_is_refused_with_the_reason() -> None:
    training = replace(parse_training(document("crt")), withdrawn=(UNKNOWN,))
    corpus = CorpusFacts(dedup_stability=1, dedup_reason="exact.")
    found = build_claims(training, corpus, Review.withheld(), (2,))
    assert found["headline"] is None
    for claim in found["claims"]:
        assert "nobody knows what it did" in claim["refused"]
        assert claim["epsilon"] is claim["delta"] is claim["together"] is None
        assert not claim["is_guarantee"]
    assert {figure["epsilon"] for figure in found["accountants"]} == {None}


def test_a_model_of_other_text_gets_no_credit_and_says_so() -> None:
    from pipelines.accounting.stale import OTHER_TEXT

    known = Review.withheld()
    corpus = CorpusFacts(dedup_stability=1, dedup_reason="exact.")
    for name in RUNS:
        training = parse_training(document(name))
        found = build_claims(replace(training, is_on_other_text=True), corpus, known, (2,))
        assert OTHER_TEXT in found["warnings"]
        issued = {claim["notion"] for claim in found["claims"] if claim["is_guarantee"]}
        if any(phase.is_unnoised for phase in training.phases):  # what was masked then is not known to be masked now
            assert not issued
        elif rule_of(training.method, training.variant).has_public_set:
            assert issued <= {"dp_private_set"}
        else:
            now = build_claims(training, corpus, known, (2,))
            assert issued <= {claim["notion"] for claim in now["claims"] if claim["is_guarantee"]}
