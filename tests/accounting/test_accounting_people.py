"""The epsilon of a person beside that of a record, for each method, and what is told when counts may not be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from built_releases import CORPUS, SAME, release, review, training
from hypothesis import given
from hypothesis import strategies as st
from support.trainings import DP, RUNS, build_all, document

from flows.commands.ledger_people import person_of
from pipelines.accounting.accountants import epsilon
from pipelines.accounting.claims import build_claims
from pipelines.accounting.composition import Publication
from pipelines.accounting.events import USELESS, Composed, Gaussian, NeighboringRelation, SelfComposed, from_json
from pipelines.accounting.facts import parse_training
from pipelines.accounting.groups import group_epsilon
from pipelines.accounting.people import (
    EXAMPLE,
    People,
    add_records,
    noised_event,
    people_of,
    person_epsilon,
    sizes_of,
)
from pipelines.report.people import figures_text, person_sentences
from pipelines.report.public import public_version

PEOPLE = People(owner_from="field", num_people=12, median=2, most=7, has_assumed=False)
NOISED = from_json(DP)
LIGHT = {"jft/light_noise", "jft/conservative_light_noise"}
UNNOISED = {"no_dp", "redacted", "anonymized"}


def person(name, people=PEOPLE, **facts):
    return build_all(name, people=people, **facts)["person"]


@pytest.mark.parametrize("name", sorted(set(RUNS) - UNNOISED))
def test_every_noised_method_states_the_group_epsilon_of_its_noised_steps(name):
    event = Composed(events=(NOISED, NOISED)) if name in LIGHT else NOISED
    found = person(name, stable=True)
    assert found["refused"] is None
    assert [f["num_records"] for f in found["figures"]] == [1, 2, 7]
    assert [f["whose"] for f in found["figures"]] == [["one"], ["median"], ["most"]]
    for figure in found["figures"]:
        assert figure["epsilon"] == pytest.approx(group_epsilon(event, 1e-6, figure["num_records"]), rel=1e-9)
    assert found["figures"][0]["epsilon"] == pytest.approx(
        epsilon(event, 1e-6, NeighboringRelation.REPLACE_ONE), rel=1e-9
    )
    claims = {c["notion"]: c for c in build_all(name, stable=True)["claims"]}
    assert claims[found["basis"]]["epsilon"] == pytest.approx(found["figures"][0]["epsilon"])
    assert found["is_guarantee"] == claims[found["basis"]]["is_guarantee"]


@pytest.mark.parametrize("name", sorted(UNNOISED))
def test_a_method_without_noise_says_why_there_is_no_figure(name):
    found = person(name)
    assert found["figures"] == []
    assert "noise" in found["refused"]
    assert "No figure is stated for a person" in " ".join(person_sentences(found))


def test_selective_methods_state_none_while_the_claim_about_a_record_is_refused():
    found = person("redaction_schedule")
    assert found["basis"] is None
    assert "training adds no noise to a part of what it reads" in found["refused"]


@pytest.mark.slow
def test_queries_without_credit_for_sampling_cost_a_gaussian_of_a_kth_of_the_noise():
    queries = {"type": "self_composed", "count": 9, "event": {"type": "gaussian", "noise_multiplier": 8.0}}
    facts = parse_training(document("sdpsgd_lstm", event=queries))
    smaller = SelfComposed(count=9, event=Gaussian(noise_multiplier=8.0 / 5))
    expected = epsilon(smaller, 1e-6, NeighboringRelation.REPLACE_ONE)
    assert person_epsilon(noised_event(facts), 1e-6, 5) == pytest.approx(expected, rel=1e-3)


def test_without_owners_a_person_with_four_records_is_the_example():
    found = person("dpsgd", people=None)
    assert not found["is_known"]
    assert [(f["num_records"], f["whose"]) for f in found["figures"]] == [(1, ["one"]), (EXAMPLE, ["example"])]
    said = " ".join(person_sentences(found))
    assert "does not cover a person with several" in said
    assert "is not known (corpus.owner_from)" in said
    assert "4 records" in said


def test_the_public_learns_no_count_of_records():
    found = person("dpsgd", people=PEOPLE.withheld())
    assert found["is_known"]
    assert found["num_people"] is None
    assert [f["num_records"] for f in found["figures"]] == [1, EXAMPLE]
    assert "How many records people have is not told here" in " ".join(person_sentences(found))
    counted = {"person": person("dpsgd")}
    full = {
        **dict.fromkeys(("schema_version", "title", "synthetic", "signed_by", "audit")),
        **{name: {} for name in ("metrics", "settings", "dedup", "shards", "training", "miss_rate")},
        "publishes_rows": False, "warnings": [], "redaction": {"policies": [], "conservative": None},
    }  # fmt: skip
    shown = public_version(full, counted)["person"]
    assert shown["num_people"] is None
    assert [f["num_records"] for f in shown["figures"]] == [1]
    shown = public_version(full, counted, publishes_counts=True)["person"]
    assert shown["num_people"] == 12
    assert shown["figures"][2]["epsilon"] >= counted["person"]["figures"][2]["epsilon"]
    assert public_version(full, {"claims": []})["person"] is None


def test_nobody_may_have_more_than_one_record_and_nobody_may_have_any():
    one = people_of("file", {"a": 1, "b": 1}, has_assumed=True)
    assert sizes_of(one) == {1: ["one", "median", "most"]}
    assert sizes_of(people_of("file", {}, has_assumed=False)) == {1: ["one"], EXAMPLE: ["example"]}
    assert any("owner_missing = own" in text for text in person("crt", people=one)["assumptions"])


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_the_median_and_the_most_are_numbers_that_people_have(counts):
    found = people_of("file", {str(i): n for i, n in enumerate(counts)}, has_assumed=False)
    assert found.num_people == len(counts)
    assert found.most == max(counts)
    assert found.median in counts
    assert sum(n <= found.median for n in counts) * 2 >= len(counts)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), unique=True), st.integers(1, 12))
def test_rows_of_one_record_count_once(rows, size):
    owners = {"a": "x", "b": "x", "c": "y"}
    counts: Counter[str] = Counter()
    add_records(counts, rows, owners, size)
    records = {(doc, index // size) for doc, index in rows}
    assert counts == Counter(owners[doc] for doc, _ in records)


@pytest.mark.slow
def test_an_epsilon_that_limits_nothing_is_no_figure():
    noise = from_json(
        {**DP, "event": {**DP["event"], "sample_rate": 1.0, "event": {"type": "gaussian", "noise_multiplier": 0.3}}}
    )
    assert person_epsilon(noise, 1e-6, 2) < USELESS
    assert person_epsilon(noise, 1e-6, 40) is None
    assert person_epsilon(noise, 1e-6, 10**9) is None
    assert "without a useful limit with 40 records" in figures_text(
        [{"num_records": 1, "whose": ["one"], "epsilon": 3.0}, {"num_records": 40, "whose": ["most"], "epsilon": None}]
    )


def test_all_releases_together_have_a_figure_of_their_own():
    alone = person("dpsgd")
    both = {**alone, "together": {**alone, "num_releases": 2}}
    said = " ".join(person_sentences(both))
    assert "for 2 releases together, with so many records in each, ε is" in said
    assert "For this model alone, ε is" in said
    refused = {**alone, "together": {**alone, "num_releases": 2, "refused": "no noise", "figures": []}}
    assert "2 releases together: no figure for a person, because no noise." in " ".join(person_sentences(refused))
    assert person_sentences(None) == []


def beside(other, people=PEOPLE, *, shares_files=True):
    """What is said of a person of this training, by records with at most 4 of anybody, beside another release."""
    own = replace(training("dpsgd"), owner_space="customers", owner_bound=people and people.bound)
    joined = {"others": [other]} if shares_files else {"of_people": [other]}
    return build_claims(own, CORPUS, review(), (2,), Publication(redactions=SAME), people=people, **joined)["person"]


def earlier(**facts):
    made = release("dpsgd", 1)
    return replace(made, facts=replace(made.facts, **{"owner_space": "customers", "owner_bound": 4, **facts}))


BOUNDED = replace(PEOPLE, most=4, bound=4)


@pytest.mark.parametrize("shares_files", [True, False])
@pytest.mark.parametrize(
    "facts", [{"owner_bound": None}, {"owner_space": ""}, {"owner_space": "staff"}, {"record": "dialogue"}]
)
def test_nobody_is_the_most_of_releases_that_bound_nobody(facts, shares_files):
    found = beside(earlier(**facts), BOUNDED, shares_files=shares_files)
    whole = found["together"]
    assert found["is_guarantee"]
    assert [(f["num_records"], f["whose"]) for f in whole["figures"]] == [(1, ["one"]), (EXAMPLE, ["example"])]
    assert not whole["is_guarantee"]
    unbounded = "nothing bounds how many records of this kind a person brought to the other releases"
    assert unbounded in whole["not_guaranteed_because"]
    said = " ".join(person_sentences(found))
    assert "for 2 releases together promise nothing, because nothing bounds" in said
    assert said.count("the most of anybody") == 1  # of this model alone


@pytest.mark.parametrize(("bound", "most"), [(2, 4), (4, 4), (9, 9)])
def test_the_most_of_several_releases_is_their_largest_bound(bound, most):
    found = beside(earlier(owner_bound=bound), BOUNDED)
    whole = found["together"]
    assert [(f["num_records"], f["whose"]) for f in whole["figures"]] == [(1, ["one"]), (most, ["most"])]
    assert whole["is_guarantee"]
    assert [f["num_records"] for f in found["figures"]] == [1, 2, 4]
    unknown = beside(earlier(owner_bound=None), None)["together"]
    assert [f["whose"] for f in unknown["figures"]] == [["one"], ["example"]]


def test_the_ledger_names_the_most_only_where_each_release_bounds_it():
    own = replace(earlier(), release_id="r2", key="k2")
    known = {"is_known": True, "figures": [{"num_records": 1, "whose": ["one"]}, {"num_records": 7, "whose": ["most"]}]}

    def listed(*releases):
        found = person_of(releases, 1e-6, known)
        assert found["is_known"]
        return [(f["num_records"], *f["whose"]) for f in found["figures"]]

    assert listed(own) == [(1, "one"), (7, "most")]
    assert listed(earlier(owner_bound=9), own) == [(1, "one"), (9, "most")]
    for other in (earlier(owner_bound=None), earlier(record="dialogue"), earlier(owner_space="staff")):
        assert listed(other, own) == [(1, "one"), (EXAMPLE, "example")]


def test_a_person_is_covered_in_private_rows_alone_if_others_are_public():
    found = person("crt", conservative=True)
    assert found["has_public_rows"]
    assert "neither are rows on the public side" in " ".join(person_sentences(found))
    assert any("Public rows are the same in both worlds" in text for text in found["assumptions"])
    assert not person("crt")["has_public_rows"]
