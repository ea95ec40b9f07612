"""Guarantee: claims with their assumptions, from the events of training and the results of the review.

``claims.json`` has ``schema_version``, ``claims`` (fields: `pipelines.accounting.claims.Claim`), ``headline`` (index of
the claim to show first, or null), ``accountants`` (every accountant's epsilon under both relations), ``together``
(all releases that may share records, or null), ``person`` (`pipelines.accounting.people.person_document`),
``warnings``, ``releases`` (digest of these releases), ``dedup_stability`` (records that one sentence of the raw corpus
can change: ``add_or_remove_one``, ``replace_one``, ``reason``), and ``public``: the same document for the public,
without figures that were counted on private text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pipelines.accounting.claim_documents import withheld
from pipelines.accounting.claims import Review, build_claims
from pipelines.accounting.composition import Publication
from pipelines.accounting.corpus_facts import corpus_facts, stability_of_dedup
from pipelines.accounting.decisions import made
from pipelines.accounting.facts import COPIES_BY_PERSON, TrainingFacts, parse_training
from pipelines.accounting.ledger import Release, releases_digest
from pipelines.accounting.people import People, add_records, people_of
from pipelines.accounting.withdrawn import withdrawals
from pipelines.context import Releases, StageContext
from pipelines.corpus.tables import DOCUMENTS
from pipelines.methods.registry import method as described
from pipelines.methods.registry import rule_of
from pipelines.miss_rate.rates import delta2_of, false_negative_rate_of, stability_of, worst_label_of
from pipelines.policies.sharding import SHARD
from pipelines.settings.guarantee import GuaranteeConfig
from pipelines.settings.shard import publishes_rows

if TYPE_CHECKING:
    from pipelines.settings.corpus import CorpusConfig
    from pipelines.settings.train import TrainConfig

_TRUSTED_SOURCES = frozenset({"gold", "human"})


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``claims.json``.

    Raises:
        UnsupportedEventError: training reports something that no accountant covers.
    """
    config: GuaranteeConfig = ctx.configs["guarantee"]
    redact, report = ctx.configs["redact"], ctx.configs["report"]
    training = parse_training(ctx.input("train").json("events.json"))
    space = ctx.configs["corpus"].space_of_people
    training = replace(
        training,
        is_chosen_by_private_scores=config.chosen_by == "private_scores",
        owner_space=space,
        owner_missing=ctx.configs["corpus"].owner_missing,
        is_bound_measured=training.owner_bound is not None and config.owner_bound_basis == "measured",
    )
    releases = ctx.outside.releases or Releases()
    if ctx.outside.releases is not None:
        withdrawn = withdrawals(releases.recipe, training.method)
        training = replace(training, is_on_other_text=not releases.is_current, withdrawn=withdrawn)
    figures = ctx.input("estimate").json("figures.json")
    publication, others = _publication(ctx, training.method, releases)
    facts: dict[str, Any] = {
        "has_public_rows": publication.publishes_rows or rule_of(training.method, training.variant).has_public_set,
        "reads_places": training.reads_places,
    }
    settings, key = made(ctx.configs), releases.trained_as(ctx.input("train").key)
    own = [release for release in releases.published if release.key == key]
    corpus = corpus_facts(
        ctx.configs["dedup"],
        redact,
        **facts,
        learnt_from_corpus=bool(figures.get("num_learnt_sentences")),
        holds=ctx.configs["gate"].holds or _table_holds(releases),
        decisions=settings | _noted(releases, key),
        by_person=COPIES_BY_PERSON in settings
        and all(release.facts is not None and COPIES_BY_PERSON in release.facts.decisions for release in own),
    )
    stability = stability_of_dedup(ctx.configs["dedup"], redact, **facts)
    review = Review(
        source=figures["source"],
        is_trusted=figures["source"] in _TRUSTED_SOURCES,
        false_negative_rate=false_negative_rate_of(figures),
        delta2=delta2_of(figures),
        worst_label=worst_label_of(figures),
        is_census=bool(figures["is_census"]),
        covers_corpus=bool(figures["covers_corpus"]),
        num_training_sentences=figures.get("num_population_sentences"),
        stability=stability_of(figures),
    )
    people = _people(ctx, training)
    joined = {"others": others, "of_people": releases.of_people}
    claims = build_claims(training, corpus, review, config.groups, publication, people=people, **joined)
    public = claims
    if not report.publish_counts:
        told = people and people.withheld()
        public = build_claims(training, corpus, Review.withheld(), config.groups, publication, people=told, **joined)
        if training.is_noise_from_private_text:
            public = withheld(public)
    document = {
        "schema_version": 2,
        **claims,
        "public": public,
        "releases": releases_digest(releases.published),
        "dedup_stability": asdict(stability),
    }
    if space:
        document["of_people"] = {"owner_space": space, "releases": releases_digest(releases.of_people)}
    ctx.out.json("claims.json", document)
    num_refused = sum(claim["refused"] is not None for claim in document["claims"])
    return {"num_claims": len(document["claims"]), "num_refused": num_refused}


def _people(ctx: StageContext, training: TrainingFacts) -> People | None:
    """Counts the private records of each owner. None if owners are unknown; no counts if it read other text."""
    corpus: CorpusConfig = ctx.configs["corpus"]
    train: TrainConfig = ctx.configs["train"]
    if not corpus.has_owners:
        return None
    if training.is_on_other_text:
        return People(owner_from=corpus.owner_from)
    size, reads_original = train.record_unit().num_sentences, train.view().private != "private_shard"
    shards = ctx.inputs.get("shard") or (None,) * len(ctx.inputs["split"])
    counts: Counter[str] = Counter()
    for split, shard in zip(ctx.inputs["split"], shards, strict=True):
        owners: dict[str, str] = {}
        rows: list[tuple[str, int]] = []
        for row in split.table(DOCUMENTS).rows(["doc_id", "owner", "fold", "num_sentences"]):
            owners[row["doc_id"]] = row["owner"]
            if reads_original and row["fold"] == "train":
                rows += [(row["doc_id"], index) for index in range(0, row["num_sentences"], size)]
        if not reads_original and shard is not None:
            of_shard = shard.table(SHARD, "private").rows(["doc_id", "sentence_index"])
            rows += [(row["doc_id"], row["sentence_index"]) for row in of_shard]
        add_records(counts, rows, owners, size)
    has_assumed = training.owner_missing == "own"
    found = people_of(corpus.owner_from, counts, has_assumed=has_assumed, bound=training.owner_bound)
    return replace(found, is_measured=training.is_bound_measured)


def _table_holds(releases: Releases) -> bool:
    """Checks that a table of public rows was published from which the gate had held rows back."""
    return any(r.is_table and r.facts is not None and r.facts.holds_rows for r in releases.published)


def _noted(releases: Releases, key: str) -> frozenset[str]:
    """Returns the decisions behind the model, whatever the settings are now, and behind tables of public rows."""
    facts = [r.facts for r in releases.published if r.facts is not None and (r.is_table or r.key == key)]
    return frozenset[str]().union(*(known.decisions for known in facts))


def _publication(ctx: StageContext, method: str, releases: Releases) -> tuple[Publication, list[Release]]:
    """Returns what the run publishes, and the other releases that may share a record with its model."""
    shard, report = ctx.configs["shard"], ctx.configs["report"]
    known, redactions = releases.published, releases.redactions
    key = releases.trained_as(ctx.input("train").key)
    own = next((release for release in reversed(known) if release.key == key), None)
    if (
        own is not None
        and own.facts is not None
        and releases.is_current
        and (described(method).trains_on_public_rows or any(phase.rows != "original" for phase in own.facts.phases))
    ):
        redactions |= own.facts.redactions
    tables = [release.facts.redactions for release in known if release.is_table and release.facts is not None]
    publishes = publishes_rows(ctx.configs, method)
    was_published = any(not found.isdisjoint(redactions) for found in tables)
    publication = Publication(
        publishes_model=described(method).publishes_model,
        publishes_rows=publishes or was_published,
        is_withdrawn=was_published and not publishes,
        foreign_tables=any(found.isdisjoint(redactions) for found in tables),
        publishes_report=report.public,
        publishes_counts=report.public and report.publish_counts,
        keeps_superseded=shard.keep_superseded,
        has_copy=releases.is_copied,
        redactions=redactions,
    )
    return publication, [release for release in known if release is not own and not release.is_table]
