"""What is published beside a model, and what the public is told: tables, refusals, neighbours."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from built_releases import CORPUS, MU, PHASES, SAME, build, one, review

from pipelines.accounting.claims import Review
from pipelines.accounting.composition import Publication
from pipelines.methods.registry import RULES, rule_of
from pipelines.miss_rate.rates import Delta2

PUBLISHED = Publication(publishes_rows=True, redactions=SAME)
FLAGGING = replace(CORPUS, has_conservative=True)


def test_a_published_table_brings_delta2_into_every_method():
    """Guards "Epsilon is for any secret … there is no public set" above a table that quoted a missed secret."""
    for name in ("dpsgd", "jft/light_noise"):
        found = build(name, corpus=FLAGGING, known=review(escape=0.01), publication=PUBLISHED)
        for notion, size in (("confidentiality", 1), ("group_confidentiality", 2), ("bayesian_confidentiality", 1),
                             ("selective_dp", 1)):  # fmt: skip
            for claim in found["claims"]:
                if (claim["notion"], claim["group_size"]) == (notion, size):
                    assert "delta2" in claim["refused"], (name, notion)
    found = build("dpsgd", corpus=FLAGGING, known=review(escape=0.01), publication=PUBLISHED)
    caught = one(found, "confidentiality_of_caught_secrets")
    assert caught["is_guarantee"]
    assert "It does not hold for a secret in a public sentence" in " ".join(caught["assumptions"])
    assert "the table of public rows" in caught["covers"]
    assert "stands in the published table" in " ".join(one(found, "dp_private_set")["assumptions"])
    closed = build("dpsgd", corpus=FLAGGING, known=review(escape=0.01))
    assert one(closed, "confidentiality")["is_guarantee"]
    assert "no row is published" in " ".join(one(closed, "confidentiality")["assumptions"])
    assert "table" not in one(closed, "confidentiality")["covers"]


def test_a_published_table_depends_on_which_copy_is_kept():
    unbounded = replace(FLAGGING, dedup_stability=None, dedup_reason="normalised copies.")
    clean = review()
    assert one(build("dpsgd", corpus=unbounded, known=clean), "confidentiality")["corpus"] == "raw"
    published = build("dpsgd", corpus=unbounded, known=clean, publication=PUBLISHED)
    assert one(published, "confidentiality")["corpus"] == "deduplicated"


@pytest.mark.parametrize("beside", [{"publishes_counts": True}, {"keeps_superseded": True}])
def test_what_no_claim_can_cover_makes_it_a_claim_about_the_model_alone(beside):
    for claim in build("crt", publication=Publication(redactions=SAME, **beside))["claims"]:
        assert claim["covers"].startswith("the model alone")
        assert claim["beside"]
        assert "what this run publishes" not in claim["statement"]
    for claim in build("crt")["claims"]:
        assert claim["covers"].startswith("everything that this run publishes")
        assert not claim["beside"]


def test_what_the_public_is_told_does_not_depend_on_what_a_review_found():
    """Guards digits, and refusals, of the public report that tell two worlds apart."""
    documents = set()
    for known, conservative, publication in itertools.product(
        (review(), review(upper=0.9, escape=0.4), replace(review(), is_census=True), review(source="proxy")),
        (False, True),
        (Publication(redactions=SAME), PUBLISHED),
    ):
        corpus = replace(CORPUS, has_conservative=conservative)
        assert known != Review.withheld()
        found = [build(n, corpus=corpus, known=Review.withheld(), publication=publication) for n in PHASES]
        documents.add((conservative, publication.publishes_rows, json.dumps(found)))
    assert len(documents) == 4  # by the settings alone
    told = build("crt", corpus=FLAGGING, known=Review.withheld())
    assert "not stated here" in one(told, "confidentiality")["refused"]
    assert one(told, "confidentiality_of_caught_secrets")["is_guarantee"]
    assert told["claims"][told["headline"]]["notion"] == "confidentiality_of_caught_secrets"
    open_ = build("crt", known=Review.withheld())
    assert one(open_, "confidentiality")["is_guarantee"]
    assert one(open_, "group_confidentiality", 2)["num_missed"] == 2


def test_a_refusal_that_no_work_can_mend_says_so_first_with_the_number():
    """Guards "review more" where 4,072 sentences can never give the bound."""
    known = replace(review(escape=0.01), num_training_sentences=4072)
    refused = one(build("crt", corpus=FLAGGING, known=known), "confidentiality")["refused"]
    assert refused.startswith("no sample of this corpus can give so small a bound")
    assert "2,995,731 reviews without a find" in refused  # delta is 1e-6 here
    assert "4,072 training sentences" in refused
    assert "Without redact.conservative" in refused
    large = replace(known, num_training_sentences=10**7)
    assert (
        "Review more (about 2,995,731" in one(build("crt", corpus=FLAGGING, known=large), "confidentiality")["refused"]
    )
    seen = replace(known, delta2=Delta2(value=0.005, upper=0.01, confidence=0.95, mu=MU))
    assert one(build("crt", corpus=FLAGGING, known=seen), "confidentiality")["refused"].startswith("no further review")


def test_rules_that_cannot_be_mended_begin_by_saying_so():
    for name in RULES:
        if name in PHASES and rule_of(*name.split("/") if "/" in name else (name, None)).is_unnoised:
            refused = one(build(name), "dp_private_set")["refused"]
            assert refused.startswith("no work can mend this")


def test_neighbours_are_those_of_what_the_method_reads():
    """Guards "after deduplication and redaction" in the claims of methods that read the original."""
    told = {name: " ".join(one(build(name), "dp_private_set")["assumptions"]) for name in PHASES}
    assert "after deduplication and redaction" in told["crt"]
    assert "after deduplication and redaction" not in told["dpsgd"]
    assert "duplicates and secrets included" in told["dpsgd"]
    assert "One part of training reads the original text" in told["jft/light_noise"]
