"""Estimate: rates of missed secrets, from the sample and reviews, gold labels or a proxy.

``screened.parquet`` (a ``shard`` table) holds the reviewed part of JFT's manual-screening set, with every secret masked
that a reviewer saw. ``reidentification.json`` says how many documents could be linked to a table of people
(`pipelines.miss_rate.reidentification`). It is empty without a table. No other stage but the report reads it.
``figures.json`` is flat:

- ``source``: ``human``, ``gold``, ``proxy`` (no guarantee rests on it), or ``not_measured`` (every measured figure is
  null).
- ``is_census``: true if every training document has labels and every training sentence was reviewed, so that no
  sampling error exists. ``covers_corpus``: true if every training document has labels (a list, which may be empty).
  ``labelled_share``: share of the training sentences that lie in such documents. Only these sentences are judged. If
  they are a part of the corpus, all rates describe that part alone, and no claim about the corpus rests on them.
  If people reviewed, both figures describe the sampled sentences instead: true if all were reviewed, and the reviewed
  share. ``num_unreviewed_sentences`` (of the replicates), ``num_disputed_sentences`` (reviewers disagree, not settled)
  and ``num_trusted_spans`` (masked at review, and left masked by the reviewer) are null otherwise.
- ``large_sentences``: for the large sentences (`pipelines.miss_rate.large`), ``num_reviewed`` and ``num_unreviewed`` of
  the sample's large part (null unless people review), ``is_reviewed`` (true if that part counts), and
  ``most_missed_secrets``: the cap that bounds use if that part does not count, one secret per token.
- ``num_learnt_sentences``: number of sentences that policies learnt from, by the lists next to their models
  (`pipelines.miss_rate.learnt`). The sample leaves them out, because they do not show what such a policy misses.
- ``num_screened_sentences``: number of rows of ``screened.parquet``. ``num_population_sentences``: number of sentences
  of the training fold.
- ``confidence``: confidence of two-sided intervals, and of each one-sided bound on its own. ``mu``: the population that
  gamma and delta2 average over.
- ``num_sampled_sentences`` (distinct, in labelled documents), ``num_kept_sentences`` (of those, not duplicates),
  ``num_tokens``, ``num_sensitive_tokens``, ``num_missed_tokens`` (over all sampled sentences, duplicates masked whole);
  ``num_secret_spans``, ``num_missed_spans``, ``num_escaped_spans`` (over kept sentences; a secret over several
  sentences counts once, and is missed if any piece of it is).
- ``num_missed_spans`` is the sum of ``num_unmasked_spans`` (some token of the secret is unmasked) and
  ``num_unstable_spans`` (masked, but masking it by hand would change what else is masked:
  `pipelines.miss_rate.stability`). ``num_unstable_together_spans``: number of spans that are stable alone, and not
  known to be stable together with other secrets of the sentence. ``num_unstable_elsewhere_spans``: number of unstable
  spans that change other sentences. The last three are null if a proxy judged, because nothing was measured.
- ``miss_rate``: m, missed sensitive tokens over all tokens: ``value``, ``mean_of_replicates``, intervals
  ``student_t`` (the paper's), ``student_t_clipped``, ``clopper_pearson``, ``cluster_robust``, ``bootstrap``,
  ``recommended``, with ``recommended_method``, ``reason``, ``design_effect``. An interval that does not exist is null.
- ``false_negative_rate``: gamma, ``value`` and one-sided ``upper`` with its ``confidence``: any token of a secret
  stays unmasked, or its redaction is unstable. ``false_negative_rate_masked``: the former alone; no claim uses it.
- ``delta2``: the same rate for secrets whose sentence is public as well. Without a conservative policy every row is
  private, and the guarantee stage uses 0 instead.
- ``escape_per_sentence``: share of all training sentences that are public and hold a missed secret (``value``,
  ``upper``, ``num_sentences`` in the sample).
- ``recall`` = found / (found + missed) and ``precision`` = found / masked, in tokens of kept sentences;
  ``recall_as_in_jft`` = 1 - missed / masked, as in the paper. That figure is too high, because it credits false
  positives.
- ``by_label``: gamma by label of the secret, with bounds that hold for all labels at once. ``worst_label``: the largest
  ``false_negative_rate`` and ``delta2`` of any label, likewise; null if no secret was seen.
- ``by_domain``: the same for domains, if the corpus has several. ``planning``: design effect and units per sentence,
  for `reticent sample --plan`.
- ``assumptions``, ``warnings``: sentences. If each domain was sampled on its own, all rates are weighted accordingly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.context import StageContext
from pipelines.corpus.tables import DOCUMENTS, SENTENCES
from pipelines.errors import InputError
from pipelines.miss_rate.estimate import Labelled, measured, not_measured
from pipelines.miss_rate.gold_labels import Coverage, coverage, review_all
from pipelines.miss_rate.judgements import HumanJudge, review_judged, screened_rows
from pipelines.miss_rate.large import Large, find_large
from pipelines.miss_rate.learnt import DRAW_ANEW, Learnt, read_learnt
from pipelines.miss_rate.reidentification import reidentification
from pipelines.miss_rate.review import ReviewTable, SecretSpan
from pipelines.miss_rate.review_log import Ballot, ballots_of, read_decisions, sentence_key
from pipelines.miss_rate.sampling import TRAIN_FOLD, Partition
from pipelines.miss_rate.tables import SAMPLE, STABILITY
from pipelines.miss_rate.weights import Weights
from pipelines.policies.judging.apply import Redactor
from pipelines.policies.judging.judge import Request
from pipelines.policies.labels import ReviewLabels
from pipelines.policies.sharding import SHARD
from pipelines.settings.estimate import EstimateConfig


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``figures.json``, ``reidentification.json`` and ``screened.parquet``.

    Raises:
        InputError: the settings ask for gold labels or reviews, and none exist.
        StageError: the sample and the redacted rows do not fit together.
    """
    config: EstimateConfig = ctx.configs["estimate"]
    sample = ctx.input("sample")
    sampling = sample.json("figures.json")
    is_census = bool(sampling["is_census"])
    decisions = ballots_of(read_decisions(*ctx.outside.reviews)) if ctx.outside.reviews else {}
    covered = coverage([artifact.table(DOCUMENTS) for artifact in ctx.inputs["split"]])
    source = _source(config, has_reviews=bool(decisions), covered=covered)
    redact = ctx.configs.get("redact")
    known = read_learnt(redact.learnt_from(), ctx.run.secret) if redact is not None else frozenset()
    partitions = _partitions(ctx, source)
    if source == "none":
        reason = (
            "estimate.source is none"
            if config.source == "none"
            else "nobody has reviewed (`reticent review`), and no training document brings gold labels"
        )
        figures = not_measured(
            num_sampled_sentences=sampling["num_distinct_sentences"],
            is_census=is_census,
            confidence=config.confidence,
            reason=f"the miss rate was not measured: {reason}",
        )
    else:
        strata = [(s["domain"], s["inclusion_probability"]) for s in sampling["strata"]]
        num_replicates, large = len(sampling["replicates"]), _large_part(ctx, sampling)
        weighted = partial(Weights, strata, num_replicates, large)
        if source == "gold":
            judged = _judged_by_gold_labels(ctx, partitions, num_replicates, weighted(), known, covered)
        else:
            judged = _judged_by_people_or_proxy(ctx, source, partitions, num_replicates, weighted, known, decisions)
        figures = measured(
            judged.table,
            source=source,
            is_census=is_census,
            confidence=config.confidence,
            labelled=judged.labelled,
            large=None if judged.weights.with_large else large,
            num_population=int(sampling.get("num_population_sentences") or 0),
        )
        if judged.num_learnt and not figures["num_kept_sentences"] and not figures["num_unreviewed_sentences"]:
            reason = f"not measured: {DRAW_ANEW}"
            figures = not_measured(
                num_sampled_sentences=0, is_census=False, confidence=config.confidence, reason=reason
            )
    with ctx.out.table(SHARD, "screened") as writer:
        judge = HumanJudge(ctx.run.secret, decisions)
        for row in screened_rows(sample.table(SAMPLE, "screening"), partitions, judge) if decisions else ():
            writer.append(**row)
    ctx.out.json("reidentification.json", _links(ctx, config))
    figures["num_screened_sentences"] = writer.num_rows
    figures["num_learnt_sentences"] = len(known)
    figures["num_population_sentences"] = sampling.get("num_population_sentences")
    figures["warnings"] = [*figures["warnings"], *sampling["warnings"]]
    ctx.out.json("figures.json", figures)
    return {
        "source": figures["source"],
        "num_sampled_sentences": figures["num_sampled_sentences"],
        "num_secret_spans": figures["num_secret_spans"],
        "num_screened_sentences": writer.num_rows,
    }


def _links(ctx: StageContext, config: EstimateConfig) -> dict[str, Any]:
    if config.reidentification_table is None:
        return {}
    return reidentification(
        Path(config.reidentification_table),
        config.reidentification_id,
        ctx.inputs["split"],
        ctx.inputs["redact"],
        num_documents=config.reidentification_documents,
        confidence=config.confidence,
        seed=ctx.seed,
    )


class _Judged(NamedTuple):
    """A sample that was judged.

    Attributes:
        table: judgements of the sample.
        labelled: part of the sample that has labels.
        weights: weights of the sampled sentences.
        num_learnt: number of sampled sentences left out because policies learnt from them.
    """

    table: ReviewTable
    labelled: Labelled
    weights: Weights
    num_learnt: int


def _large_part(ctx: StageContext, sampling: Mapping[str, Any]) -> Large:
    """Returns the large part of the sample. Bounds of an older sample allow for what large sentences may hide."""
    if "large" in sampling:
        return Large.of_figures(sampling["large"]["classes"])
    if sampling["is_census"]:
        return Large()
    return find_large([artifact.table(SENTENCES) for artifact in ctx.inputs["split"]], TRAIN_FOLD)


def _partitions(ctx: StageContext, source: str) -> list[Partition]:
    redacted = {artifact.partition: artifact for artifact in ctx.inputs["redact"]}
    # No guarantee rests on a proxy, so no stability was measured for it.
    measured_stability = ctx.inputs["stability"] if source in ("gold", "human") else ()
    stability = {artifact.partition: artifact.table(STABILITY) for artifact in measured_stability}
    return [
        Partition(a.partition or "", a, redacted[a.partition], stability.get(a.partition)) for a in ctx.inputs["split"]
    ]


def _learnt(ctx: StageContext, known: frozenset[str]) -> Learnt:
    return Learnt(known, lambda text: sentence_key(ctx.run.secret, text))


def _judged_by_gold_labels(
    ctx: StageContext,
    partitions: Sequence[Partition],
    num_replicates: int,
    weights: Weights,
    known: frozenset[str],
    covered: Coverage,
) -> _Judged:
    learnt, map_labels = _learnt(ctx, known), ctx.configs["estimate"].map_labels
    sample = ctx.input("sample").table(SAMPLE)
    table = review_all(sample, partitions, num_replicates, weights, map_labels, learnt, ctx.run.progress)
    num_left_out = learnt.num_left_out if known else None
    labelled = Labelled(is_whole=covered.is_whole, share=covered.share, num_left_out=num_left_out)
    return _Judged(table, labelled, weights, learnt.num_left_out)


def _judged_by_people_or_proxy(
    ctx: StageContext,
    source: str,
    partitions: Sequence[Partition],
    num_replicates: int,
    weighted: Callable[..., Weights],
    known: frozenset[str],
    decisions: Mapping[str, Ballot],
) -> _Judged:
    config: EstimateConfig = ctx.configs["estimate"]
    labels = config.review_labels(ctx.configs["redact"].policies)
    sample = ctx.input("sample").table(SAMPLE)

    def reviewed(judge: Any, weights: Weights, learnt: Learnt) -> tuple[ReviewTable, int]:
        return review_judged(sample, partitions, judge, num_replicates, weights, learnt, ctx.run.progress)

    people, weights, learnt = HumanJudge(ctx.run.secret, decisions, labels), weighted(), _learnt(ctx, known)
    judge = people if source == "human" else _proxy(ctx, config, labels)
    table, num_unreviewed = reviewed(judge, weights, learnt)
    num_unreviewed_large = 0
    if weights.with_large and num_unreviewed:
        # A large part with unreviewed sentences does not count: its inclusion probabilities are unknown.
        without = HumanJudge(ctx.run.secret, decisions, labels), weighted(with_large=False), _learnt(ctx, known)
        table_without, num_unreviewed_without = reviewed(*without)
        num_unreviewed_large, num_unreviewed = num_unreviewed - num_unreviewed_without, num_unreviewed_without
        if num_unreviewed_large:
            table, (people, weights, learnt) = table_without, without
    total = table.num_sentences + num_unreviewed
    labelled = Labelled(
        is_whole=num_unreviewed == 0,
        share=table.num_sentences / total if total else None,
        num_unreviewed=num_unreviewed if source == "human" else None,
        num_disputed=people.num_disputed if source == "human" else None,
        num_trusted=people.num_trusted if source == "human" else None,
        num_left_out=learnt.num_left_out if known else None,
        num_unreviewed_large=num_unreviewed_large if source == "human" else None,
    )
    return _Judged(table, labelled, weights, learnt.num_left_out)


def _source(config: EstimateConfig, *, has_reviews: bool, covered: Any) -> str:
    """Chooses whose labels count: people, gold labels, a proxy, or nobody."""
    has_gold = covered.num_labelled_documents > 0
    if config.source == "gold" and not has_gold:
        raise InputError(
            "estimate.source is gold, but no training document brings gold labels; set corpus.gold_field to the field "
            "that holds them, or estimate.source to auto"
        )
    if config.source == "human" and not has_reviews:
        raise InputError("estimate.source is human, but nobody has reviewed yet; run `reticent review`, then run again")
    if config.source != "auto":
        return config.source
    if has_gold and (covered.is_whole or not has_reviews):
        return "gold"
    return "human" if has_reviews else "none"


def _proxy(ctx: StageContext, config: EstimateConfig, labels: ReviewLabels) -> Any:
    """Makes a judge that takes the union of the proxy policies for the truth. A run of masked tokens is one secret."""
    # The proxy has the options of [redact], without its exclusions.
    spec = dataclasses.replace(
        ctx.configs["redact"].redactor_spec(ctx.configs["corpus"].separator()),
        policies=config.proxy,
        conservative=None,
        observed=(),
        exclude=(),
        exclude_labels=(),
        stabilise=False,
    )
    redactor = Redactor.from_spec(spec)

    def judge(rows: Any) -> list[Any]:
        requests = [Request(r["text"], r["token_starts"], r["token_ends"], redact=not r["is_duplicate"]) for r in rows]
        found = []
        for verdict in redactor.judge(requests):
            runs: list[SecretSpan] = []
            for span in verdict.spans:
                if runs and span.start_token < runs[-1].end_token:  # overlapping finds are one secret
                    end = max(runs[-1].end_token, span.end_token)
                    runs[-1] = runs[-1]._replace(end_token=end)
                else:
                    label = labels.of(span.label, span.policy)
                    runs.append(SecretSpan(span.start_token, span.end_token, label))
            found.append(tuple(runs))
        return found

    return judge
