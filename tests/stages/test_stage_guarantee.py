"""The guarantee stage: from files to claims, with the settings of the stages before it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from accounting.built_releases import release
from guarantee_stage import ESTIMATE, RATE, claims, stated
from pydantic import ValidationError
from support.training_events import EVENTS

from pipelines.context import Releases
from pipelines.miss_rate.breakdown import MU_OF_ONE_LABEL
from pipelines.miss_rate.estimate import not_measured
from pipelines.settings.guarantee import GuaranteeConfig


def test_the_defaults_make_every_row_private_and_claim_the_raw_corpus(tmp_path):
    found = claims(tmp_path)
    one = found["confidentiality", 1]
    assert one["corpus"] == "raw"
    assert one["dedup_stability"] == 1
    assert one["delta"] == 1e-5
    assert one["is_guarantee"]
    assert found["bayesian_confidentiality", 1]["epsilon"] < one["epsilon"]
    assert {("group_confidentiality", 2), ("group_confidentiality", 10)} <= set(found)


@pytest.mark.parametrize(
    ("redact", "size"),
    [
        ({"replacement": "label"}, 1),
        ({"replacement": "surrogate", "surrogate_scope": "corpus"}, 1),
        ({"replacement": "surrogate"}, 3),  # copies of a sentence in two documents get two surrogates
    ],
)
def test_labels_and_surrogates_reach_the_claims(tmp_path, redact, size):
    document = stated(tmp_path, redact=redact)
    for shown in (document["claims"], document["public"]["claims"]):
        found = {(c["notion"], c["group_size"]): c for c in shown}
        assert "redact.replacement" in found["bayesian_confidentiality", 1]["refused"]
        one = found["confidentiality", 1]
        assert (one["corpus"], one["dedup_stability"]) == ("raw", size)
        assert (one["epsilon"] == one["epsilon_unamplified"]) == (size == 1)
    assert document["dedup_stability"]["replace_one"] == size


def test_a_conservative_policy_brings_delta2_in(tmp_path):
    found = claims(tmp_path, redact={"conservative": "conservative"})
    assert "0.01" in found["confidentiality", 1]["refused"]
    assert "0.02" in found["bayesian_confidentiality", 1]["refused"]  # an epsilon at delta 0.02 promises nothing
    assert found["bayesian_confidentiality", 1]["epsilon"] is None


def test_the_bayesian_claim_uses_the_worst_label(tmp_path):
    one = claims(tmp_path)["bayesian_confidentiality", 1]
    assert one["delta"] == pytest.approx(0.3 * 1e-5)
    assert one["mu"] == MU_OF_ONE_LABEL


def test_labels_of_a_part_of_the_corpus_reach_the_claims(tmp_path):
    found = claims(tmp_path, estimate={**ESTIMATE, "covers_corpus": False})
    assert "only a part" in found["bayesian_confidentiality", 1]["refused"]
    assert found["confidentiality", 1]["is_guarantee"]


def test_the_conservative_policy_may_tie_rows_together_too(tmp_path):
    name = "pipelines.policies.detectors.digits:DigitsPolicy"
    one = claims(tmp_path, redact={"policies": ("digits",), "conservative": name})["confidentiality", 1]
    assert any(f"plug-ins: {name}." in text for text in one["assumptions"])


@pytest.mark.parametrize(
    "policies", [("digits", "propagate"), ("digits", "speakers"), ("pipelines.policies.detectors.digits:DigitsPolicy",)]
)
def test_policies_that_read_documents_leave_no_claim_before_deduplication(tmp_path, policies):
    """Guards "redaction depends on the sentence alone" in the claims of policies of which that is not known."""
    one = claims(tmp_path, redact={"policies": policies})["confidentiality", 1]
    assert one["corpus"] == "deduplicated"
    assert not any("depends on the sentence alone" in text for text in one["assumptions"])


def test_the_public_is_told_the_same_whatever_was_measured(tmp_path):
    """Guards claims, refusals and digits of the public report that tell two worlds apart."""
    other = {**ESTIMATE, "false_negative_rate": {**RATE, "upper": 0.9}, "delta2": {**RATE, "upper": 0.0, "value": 0.0}}
    documents = []
    for name, estimate in (
        ("one", ESTIMATE),
        ("other", {**other, "is_census": True}),
        ("third", {**other, "source": "proxy"}),
    ):
        (tmp_path / name).mkdir()
        documents.append(stated(tmp_path / name, estimate=estimate, redact={"conservative": "conservative"}))
    assert documents[0]["claims"] != documents[1]["claims"]
    assert documents[0]["public"] == documents[1]["public"] == documents[2]["public"]
    (tmp_path / "all").mkdir()
    told = stated(tmp_path / "all", redact={"conservative": "conservative"}, report={"publish_counts": True})
    assert told["public"]["claims"] == told["claims"]
    assert all(claim["covers"].startswith("the model alone") for claim in told["claims"])


LIGHT = {
    "method": "jft",
    "variant": "light_noise",
    "phases": [
        {"name": "one", "rows": "redacted", "event": EVENTS["event"]},
        {"name": "two", "rows": "original", "event": EVENTS["event"]},
    ],
    "event": {"type": "composed", "events": [EVENTS["event"]] * 2},
    "light_noise_miss_rate": {"value": 0.001, "upper": 0.002, "confidence": 0.95, "basis": "measured"},
}


def test_numbers_that_follow_from_a_measurement_are_not_published(tmp_path):
    """Guards an epsilon, in the public report, of noise that was chosen by the misses in private text."""
    found = stated(tmp_path, **LIGHT)
    assert not any(claim["is_guarantee"] for claim in found["claims"])
    assert found["public"]["accountants"] == []
    for claim in found["public"]["claims"]:
        assert claim["epsilon"] is claim["epsilon_unamplified"] is claim["delta"] is None
        assert "measured on this text" in claim["refused"]


def test_a_table_is_published_where_the_method_or_the_settings_ask(tmp_path):
    """Guards "there is no public set" of a method whose run published one."""
    for number, (method, publish, is_public) in enumerate(
        [("dpsgd", "auto", False), ("dpsgd", "always", True), ("crt", "auto", True), ("crt", "never", True)]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        document = stated(folder, redact={"conservative": "conservative"}, shard={"publish": publish}, method=method)
        one = next(c for c in document["claims"] if c["notion"] == "confidentiality")
        assert (one["refused"] is not None) == is_public, (method, publish)
        assert ("the table of public rows" in one["covers"]) == (is_public and publish != "never")


def test_earlier_releases_reach_the_claims(tmp_path):
    """Guards "one release" of a store that knows of several."""
    from pipelines.accounting.events import from_json
    from pipelines.accounting.ledger import Release

    event = from_json(EVENTS["event"])
    earlier = Release(release_id="r1", key="other", event=event, delta=1e-5)
    own = Release(release_id="r2", key="k", event=event, delta=1e-5)
    kept = Release(release_id="r3", key="z", event=event, delta=1e-5, is_public=False)
    found = stated(tmp_path, releases=Releases(published=(earlier, own, kept), redactions=frozenset({"recipe"})))
    assert found["together"]["num_releases"] == 2
    assert found["together"]["epsilon"] > found["claims"][0]["epsilon_unamplified"]


@pytest.mark.parametrize(
    ("scope", "noted", "corpus"),
    [
        ("owner", None, "raw"),
        ("owner", {"copies of a person"}, "raw"),
        ("owner", set(), "private_set"),  # trained before the setting changed, though it found the same copies
        ("corpus", {"copies of a person"}, "private_set"),
    ],
)
def test_a_person_is_covered_as_the_text_was_deduplicated_for_this_model(tmp_path, scope, noted, corpus):
    """Guards a claim about text before deduplication, of a model for which people were deduplicated together."""
    own = release("crt", 1, redactions=frozenset({"recipe"}))
    facts = replace(own.facts, record="person", owner_space="/file/", decisions=frozenset(noted or ()))
    published = () if noted is None else (replace(own, key="k", facts=facts),)
    found = claims(
        tmp_path,
        dedup={"scope": scope},
        record="person",
        owner_records=1,
        train={"unit": "owner"},
        releases=Releases(published=published, redactions=frozenset({"recipe"})),
    )
    assert found["owner_dp", 1]["corpus"] == corpus


def test_documents_that_count_as_people_are_an_assumption_of_the_claim(tmp_path):
    corpus = {"owner_from": "field", "owner_field": "customer_id", "owner_missing": "own"}
    people = {"record": "person", "owner_records": 1, "train": {"unit": "owner"}}
    found = claims(tmp_path, corpus=corpus, artifacts={"split": []}, **people)["owner_dp", 1]
    assert any("corpus.owner_missing = own" in text for text in found["assumptions"])


def test_normalised_copies_and_public_rows_leave_no_claim_before_deduplication(tmp_path):
    """A copy in other letters can move between the masked, private rows and the public ones, which have no noise."""
    found = claims(tmp_path, dedup={"normalise": "casefold"}, redact={"conservative": "conservative"})
    one = found["confidentiality_of_caught_secrets", 1]
    assert (one["corpus"], one["dedup_stability"]) == ("deduplicated", None)
    assert any("without noise; no claim about the corpus before" in text for text in one["assumptions"])


@pytest.mark.parametrize(
    ("dedup", "corpus", "stability"),
    [
        ({"verify": False}, "deduplicated", None),
        ({"mode": "mask_all"}, "raw", 3),
        ({"normalise": "casefold"}, "raw", 3),
    ],
)
def test_the_dedup_settings_decide_what_the_claim_is_about(tmp_path, dedup, corpus, stability):
    one = claims(tmp_path, dedup=dedup)["confidentiality", 1]
    assert one["corpus"] == corpus
    assert one["dedup_stability"] == stability


def test_copies_that_stand_elsewhere_in_their_conversations_are_paid_for(tmp_path):
    assert claims(tmp_path, reads_places=True)["confidentiality", 1]["dedup_stability"] == 3


def test_an_unmeasured_run_still_gets_its_claims(tmp_path):
    estimate = not_measured(num_sampled_sentences=1, is_census=False, confidence=0.95, reason="no gold")
    found = claims(tmp_path, estimate=estimate, guarantee={"groups": (3,)})
    assert "not measured" in found["bayesian_confidentiality", 1]["refused"]
    assert found["confidentiality", 1]["is_guarantee"]
    assert found["group_confidentiality", 3]["num_missed"] == 3


def test_uncollapsed_masks_reach_the_claims(tmp_path):
    assert "collapse" in claims(tmp_path, redact={"collapse": False})["bayesian_confidentiality", 1]["refused"]


def test_groups_are_checked_and_sorted():
    assert GuaranteeConfig(groups=(10, 2, 2)).groups == (2, 10)
    with pytest.raises(ValidationError):
        GuaranteeConfig(groups=(0,))


@pytest.mark.parametrize(
    ("redact", "shard", "expected"),
    [
        ({}, {}, {"add_or_remove_one": 3, "replace_one": 3}),
        ({"conservative": "conservative"}, {"publish": "always"}, {"add_or_remove_one": None, "replace_one": None}),
        ({"policies": ("json:JSONDecoder",)}, {}, {"add_or_remove_one": None, "replace_one": None}),
    ],
)
def test_the_stability_behind_the_claims_is_written_down(tmp_path, redact, shard, expected):
    """Guards: the report derived it anew, and forgot plug-ins, which may look at whole documents."""
    found = stated(tmp_path, redact=redact, shard=shard, dedup={"normalise": "casefold"}, method="dpsgd")
    assert {key: found["dedup_stability"][key] for key in expected} == expected


def test_documents_that_are_held_back_leave_no_claim_about_a_secret(tmp_path):
    """Guards against 803 private records in one world and 798 in the other, under a claim for one record."""
    found = claims(tmp_path, split={"other_languages": "hold"})
    assert "split.other_languages = hold" in found["confidentiality", 1]["refused"]
    assert found["confidentiality", 1]["epsilon"] is None
    assert found["dp_private_set", 1]["is_guarantee"]  # its neighbours are the records that are left
    assert "what the choice of these records reveals" in " ".join(found["dp_private_set", 1]["assumptions"])


def test_trainings_that_follow_from_what_changed_reach_the_claims(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    asked = claims(tmp_path / "a", train={"when": {"changed": 0.1}})
    by_nights = claims(tmp_path / "b", train={"when": {"nights": 7}})
    for one, other in zip(asked.values(), by_nights.values(), strict=True):
        assert any("train.when, changed" in text for text in one["assumptions"])
        assert not any("train.when" in text for text in other["assumptions"])


def test_a_training_whose_examples_were_not_compared_is_no_guarantee(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert not any(one["is_guarantee"] for one in claims(tmp_path / "a", num_comparisons=0).values())
    assert claims(tmp_path / "b", num_comparisons=1)["confidentiality", 1]["is_guarantee"]
