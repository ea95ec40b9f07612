"""The claim about a person: when it is made, what it says, and what other releases do to it."""

from dataclasses import replace

import pytest
from built_claims import CONSERVATIVE, build, claim, text
from built_releases import CORPUS, SAME, release, review, training

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.claims import OTHER_PEOPLE, build_claims
from pipelines.accounting.composition import Publication
from pipelines.accounting.corpus_facts import corpus_facts
from pipelines.accounting.events import Composed
from pipelines.accounting.facts import COPIES_BY_PERSON, PERSON, ReleaseFacts
from pipelines.accounting.synthetic_text import claim_of_text
from pipelines.report.people import covered_rows
from pipelines.settings.dedup import DedupConfig
from pipelines.settings.redact import RedactConfig

OF_PEOPLE = {"record": PERSON, "owner_records": 2, "num_private_records": 900}


def test_a_training_on_people_states_the_epsilon_of_a_person_first():
    found = build(OF_PEOPLE, CONSERVATIVE)
    one = found["claims"][found["headline"]]
    assert (one["notion"], one["unit"], one["is_guarantee"]) == ("owner_dp", "person", True)
    assert one["epsilon"] == claim(found, "dp_private_set")["epsilon"]
    assert "everything that one person wrote in private rows was replaced" in one["statement"]
    assert "at most 2 records to a step" in one["statement"]
    for needed in ("Somebody with two ids counts as two people", "only private rows are covered", "what others wrote"):
        assert needed in text(one), needed
    assert "A person or a fact may be spread" not in text(one)
    assert "one person's text" in text(one)


APART = {"couples_people": ()}
FITTED = {"conservative": "classifier", "classifier": "/model"}
LEFT = "what deduplication and redaction left of everything that one person wrote"


@pytest.mark.parametrize("corpus", [{}, CONSERVATIVE])
def test_text_that_was_deduplicated_together_is_covered_after_deduplication(corpus):
    one = claim(build(OF_PEOPLE, corpus), "owner_dp")
    assert LEFT in one["statement"]
    assert one["corpus"] == "private_set"
    assert "What this reveals about the person is not covered" in text(one)


def test_text_that_was_deduplicated_by_person_is_covered_as_it_was_written():
    one = claim(build(OF_PEOPLE, APART), "owner_dp")
    assert "about whether everything that one person wrote was replaced" in one["statement"]
    assert (one["corpus"], one["is_guarantee"]) == ("raw", True)
    assert "before deduplication and redaction" in text(one)
    assert "only private rows are covered" not in text(one)
    public = claim(build(OF_PEOPLE, {**APART, **CONSERVATIVE}), "owner_dp")
    assert "about whether everything that one person wrote in private rows was replaced" in public["statement"]
    assert "Public rows, also of the same person, are the same in both worlds" in text(public)
    held = claim(build(OF_PEOPLE, {**APART, **CONSERVATIVE, "holds_rows": True}), "owner_dp")
    assert LEFT in held["statement"]
    assert "gate.on_hit = hold" in text(held)
    nothing_public = claim(build(OF_PEOPLE, {**APART, "holds_rows": True}), "owner_dp")
    assert nothing_public["statement"] == one["statement"]


def test_training_on_original_text_covers_it_however_it_was_deduplicated():
    original = {**OF_PEOPLE, "method": "dpsgd", "tokenizer": {"kind": "bytes", "trained_on": "none"}}
    one = claim(build(original), "owner_dp")
    assert "about whether everything that one person wrote was replaced" in one["statement"]
    assert one["corpus"] == "raw"
    assert "duplicates and secrets included" in text(one)


@pytest.mark.parametrize(
    ("scope", "redact", "learnt", "says"),
    [
        ("owner", {}, False, []),
        ("corpus", {}, False, ["dedup.scope = corpus"]),
        ("owner", {"policies": ("some.module:Policy",)}, False, ["plug-ins"]),
        (
            "owner",
            FITTED,
            True,
            ["learnt from sentences of this corpus"],
        ),
        ("owner", FITTED, False, []),
    ],
)
def test_what_couples_people_follows_from_settings(scope, redact, learnt, says):
    dedup, settings = DedupConfig(scope=scope), RedactConfig(**redact)
    found = corpus_facts(
        dedup,
        settings,
        has_public_rows=False,
        reads_places=False,
        learnt_from_corpus=learnt,
        by_person=scope == "owner",
    )
    assert len(found.couples_people) == len(says)
    assert all(part in how for part, how in zip(says, found.couples_people, strict=True))


def test_documents_without_an_id_are_people_only_by_assumption():
    own = replace(of_people(), owner_missing="own")
    said = text(claim(build_claims(own, CORPUS, review(), ()), "owner_dp"))
    assert "documents without an id count as one person each (corpus.owner_missing = own)" in said
    assert "corpus.owner_missing" not in text(claim(build_claims(of_people(), CORPUS, review(), ()), "owner_dp"))


@pytest.mark.parametrize("publishes_counts", [True, False])
def test_records_of_people_are_not_called_unpublished_if_counts_are_published(publishes_counts):
    publication = Publication(publishes_counts=publishes_counts)
    said = text(claim(build_claims(of_people(), CORPUS, review(), (), publication), "owner_dp"))
    assert "the number of people is public" in said
    assert ("is not public, and is not published" in said) is not publishes_counts


def test_assumptions_about_other_releases_count_the_people_of_other_files():
    others = "Releases on the same people from other files share no record with this one. They count"
    one = claim(beside_people(of_people(), people=[other()]), "owner_dp")
    assert others in text(one)
    assert others in text(one["together"])
    assert others not in text(claim(build(), "dp_private_set"))


def test_no_claim_of_text_calls_people_files():
    whole = {"epsilon": None, "delta": None, "is_guarantee": False, "not_guaranteed_because": [], "refused": "no noise",
             "unit": PERSON, "statement": "", "assumptions": []}  # fmt: skip
    found = build(OF_PEOPLE, APART)
    found["claims"][found["headline"]]["together"] = whole
    (reason,) = claim_of_text(found)["not_guaranteed_because"]
    assert reason == "of all releases on these files or people together nothing is claimed: no noise"


def test_a_bound_that_was_measured_is_named_as_a_choice_by_private_text():
    measured = replace(training("crt"), owner_bound=4, is_bound_measured=True)
    for made, does in ((measured, True), (replace(measured, is_bound_measured=False), False)):
        said = text(claim(build_claims(made, CORPUS, review(), ()), "dp_private_set"))
        assert "were not chosen by looking at private data" in said
        assert ("except guarantee.owner_bound, which was measured on it" in said) is does


def test_a_training_on_records_makes_no_claim_about_people():
    assert all(one["notion"] != "owner_dp" for one in build()["claims"])


def test_delta_counts_people():
    found = build({**OF_PEOPLE, "num_private_records": 90_000, "target_delta": 1e-4})
    one = claim(found, "owner_dp")
    assert not one["is_guarantee"]
    assert "all of one random person's" in one["not_guaranteed_because"][0]


def of_people(name="crt", people="customers/field/id"):
    return replace(training(name), record=PERSON, owner_records=1, owner_space=people)


def claims_beside(own, others):
    return build_claims(own, CORPUS, review(), (2,), Publication(redactions=SAME), others)


def other(people="customers/field/id", record=PERSON):
    made = release("crt", 1)
    return replace(made, facts=replace(made.facts, record=record, owner_space=people))


def test_releases_on_the_same_people_compose():
    found = claims_beside(of_people(), [other()])
    one = claim(found, "owner_dp")
    assert one["refused"] is None
    assert one["together"]["unit"] == PERSON
    assert one["together"]["epsilon"] == pytest.approx(found["together"]["epsilon"])
    assert one["together"]["epsilon"] > one["epsilon"] == epsilon(of_people().event, of_people().target_delta)


def test_a_release_that_couples_people_limits_the_claim_of_all_together():
    apart = replace(CORPUS, couples_people=())

    def whole(name, **facts):
        made = release(name, 1)
        facts = replace(made.facts, record=PERSON, owner_space="customers/field/id", **facts)
        found = build_claims(
            of_people(), apart, review(), (2,), Publication(redactions=SAME), [replace(made, facts=facts)]
        )
        one = claim(found, "owner_dp")
        assert one["corpus"] == "raw"
        return one["together"]

    noted = {"decisions": frozenset({COPIES_BY_PERSON})}
    assert whole("crt", **noted)["corpus"] == "raw"
    assert whole("dpsgd")["corpus"] == "raw"
    for coupled in (whole("crt"), whole("crt", **noted, redactions=frozenset({"another recipe"}))):
        assert coupled["corpus"] == "private_set"
        assert LEFT in coupled["statement"]


def test_a_model_on_text_that_was_prepared_otherwise_covers_what_that_left():
    changed = replace(of_people(), is_on_other_text=True)
    one = claim(build_claims(changed, replace(CORPUS, couples_people=()), review(), ()), "owner_dp")
    assert one["corpus"] == "private_set"
    changed = replace(of_people("dpsgd"), is_on_other_text=True)
    assert claim(build_claims(changed, CORPUS, review(), ()), "owner_dp")["corpus"] == "raw"


@pytest.mark.parametrize("found", [other("staff/field/id"), other("", "sentence"), release("dpsgd", 2)])
def test_beside_a_release_on_records_or_other_people_nothing_is_claimed_about_a_person(found):
    one = claim(claims_beside(of_people(), [found]), "owner_dp")
    assert one["epsilon"] is None
    assert "another release" in one["refused"]


def test_the_ledger_keeps_who_the_people_are():
    facts = other().facts
    assert ReleaseFacts.from_json(facts.to_json()) == facts
    assert "owner_space" not in release("crt", 1).facts.to_json()  # as versions before wrote it


def beside_people(own, others=(), people=()):
    return build_claims(own, CORPUS, review(), (2,), Publication(redactions=SAME), others, of_people=people)


def test_releases_on_the_same_people_compose_although_they_share_no_file():
    found = beside_people(of_people(), people=[other()])
    one, record = claim(found, "owner_dp"), claim(found, "dp_private_set")
    both = claims_beside(of_people(), [other()])
    assert one["together"]["epsilon"] == pytest.approx(claim(both, "owner_dp")["together"]["epsilon"])
    assert one["together"]["num_releases"] == 2
    assert (record["together"], found["together"]) == (None, None)  # a record is in one of them only


def test_a_release_on_records_of_the_same_people_ends_the_claim_about_a_person():
    one = claim(beside_people(of_people(), people=[other("customers/field/id", "sentence")]), "owner_dp")
    assert one["refused"] == OTHER_PEOPLE


def test_the_figure_of_a_person_with_k_records_counts_other_files():
    found = beside_people(replace(training("crt"), owner_space="customers"), people=[other("customers", "sentence")])
    person, alone = found["person"], build_claims(training("crt"), CORPUS, review(), (2,))["person"]
    assert (person["together"]["num_releases"], found["together"]) == (2, None)
    assert person["figures"] == alone["figures"]
    assert all(
        both["epsilon"] > one["epsilon"]
        for both, one in zip(person["together"]["figures"], person["figures"], strict=True)
    )


@pytest.mark.parametrize(("redactions", "unit"), [(SAME, "dialogue"), (frozenset({"another"}), "sentence")])
def test_a_record_is_part_of_the_person_whose_document_it_is_in(redactions, unit):
    """Beside a release on people, the figure of a record is that of a person, if both divided the text alike."""
    made = other()
    made = replace(made, facts=replace(made.facts, redactions=redactions))
    own = replace(training("crt"), record="dialogue")
    found = claims_beside(own, [made])
    assert found["together"]["unit"] == unit
    whole = Composed(events=(own.event, made.event))
    assert found["together"]["epsilon"] == pytest.approx(epsilon(whole, own.target_delta))
    assert claims_beside(own, [other("", "block")])["together"]["unit"] == "sentence"


def test_records_of_trainings_on_people_who_are_told_apart_otherwise_are_records_all_the_same():
    own = replace(training("crt"), owner_space="customers")
    assert claims_beside(own, [other("staff", "sentence")])["together"]["unit"] == own.record
    assert claims_beside(own, [other("", "sentence")])["together"]["unit"] == own.record


@pytest.mark.parametrize("shares_files", [True, False])
def test_rows_that_another_redaction_took_for_public_are_not_covered(shares_files):
    """A lenient policy let an earlier release train without noise on rows that are private now."""
    lenient = other()
    facts = replace(lenient.facts, redactions=frozenset({"lenient"}), trains_on_public_rows=True)
    lenient = replace(lenient, facts=facts)
    found = beside_people(of_people("dpsgd"), **({"others": [lenient]} if shares_files else {"people": [lenient]}))
    rows = "in rows that are private in every release"
    for notion in ("owner_dp", "dp_private_set") if shares_files else ("owner_dp",):
        one = claim(found, notion)
        assert rows not in one["statement"]  # of this model alone
        assert rows in one["together"]["statement"]
        assert "only rows that are private in every release are covered" in " ".join(one["together"]["assumptions"])
        assert covered_rows(one) == f" {rows}"
    strict = claim(beside_people(of_people("dpsgd"), [other()]), "owner_dp")
    assert rows not in strict["together"]["statement"]
    own = replace(training("dpsgd"), owner_space="customers/field/id")
    joined = {"others": [lenient]} if shares_files else {"people": [lenient]}
    assert beside_people(own, **joined)["person"]["has_public_rows"]


def test_a_table_by_another_redaction_limits_the_claim_of_one_release():
    publication = Publication(redactions=SAME, foreign_tables=True)
    one = claim(build_claims(of_people("dpsgd"), CORPUS, review(), (2,), publication), "owner_dp")
    assert "in rows that are private in every release" in one["statement"]
