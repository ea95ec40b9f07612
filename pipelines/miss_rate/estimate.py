"""The figures of the estimate stage from reviewed sentences: m, gamma, delta2, recall, precision, intervals.

All estimates are ratios over the *distinct* sampled sentences, each weighted by 1 / its inclusion probability. A
sentence drawn by two replicates counts once, not twice. The replicates alone are a simple random sample. Weights differ
because of the large part of the sample (`pipelines.miss_rate.large`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pipelines import intervals
from pipelines.intervals import ClusteredCounts, Interval
from pipelines.miss_rate.breakdown import bounded, by_domain, columns_sum, label_rows, ratio, weighted, worst_label
from pipelines.miss_rate.large import Large
from pipelines.miss_rate.large_estimate import about_large, large_figures, unseen_of
from pipelines.miss_rate.review import ReviewTable
from pipelines.numbers import percent

MU: Final = (
    "uniform over the pairs (sentence, labelled secret) of the training sentences that are left after deduplication"
)
"""Distribution over which gamma and delta2 are stated (CRT, section 4: uniform over the secrets)."""

_PART_ONLY: Final = {"human": "; of the reviewed sentences only", "gold": "; of the labelled documents only"}

_LEFT_OUT: Final = "; without the sentences that a policy learnt from"
_BOOTSTRAP_SEED: Final = 20_220

_MEASURED: Final[Mapping[str, Any]] = {
    "num_tokens": None,
    "num_sensitive_tokens": None,
    "num_missed_tokens": None,
    "num_kept_sentences": None,
    "num_secret_spans": None,
    "num_missed_spans": None,
    "num_unmasked_spans": None,
    "num_unstable_spans": None,
    "num_unstable_together_spans": None,
    "num_unstable_elsewhere_spans": None,
    "num_escaped_spans": None,
    "miss_rate": None,
    "false_negative_rate": None,
    "false_negative_rate_masked": None,
    "delta2": None,
    "escape_per_sentence": None,
    "recall": None,
    "precision": None,
    "recall_as_in_jft": None,
    "worst_label": None,
    "by_label": {},
    "by_domain": {},
    "planning": {},
    "num_unreviewed_sentences": None,
    "large_sentences": None,
    "num_disputed_sentences": None,
    "num_trusted_spans": None,
}


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """The judged part of the sentences to judge.

    Attributes:
        is_whole: true if every training document carries labels, or every sampled sentence was reviewed.
        share: share of the training sentences in labelled documents, or of the sample that was reviewed; None without a
            sentence.
        num_unreviewed, num_disputed, num_trusted: numbers, after a review by people, of sentences that nobody judged,
            of sentences that reviewers judge differently, and of secrets that only a mask at review supports.
        num_left_out: number of sampled sentences that a policy learnt from, which are no evidence; None if no policy
            learnt from this corpus.
        num_unreviewed_large: number of sentences of the large part of the sample that nobody judged.
    """

    is_whole: bool = True
    share: float | None = 1.0
    num_unreviewed: int | None = None
    num_disputed: int | None = None
    num_trusted: int | None = None
    num_left_out: int | None = None
    num_unreviewed_large: int | None = None


EVERYTHING: Final = Labelled()


def not_measured(*, num_sampled_sentences: int, is_census: bool, confidence: float, reason: str) -> dict[str, Any]:
    """Returns the figures of a corpus without reviews and gold labels, which say that nothing is known."""
    return {
        **_MEASURED,
        "source": "not_measured",
        "is_census": is_census,
        "covers_corpus": False,
        "labelled_share": 0.0,
        "confidence": confidence,
        "mu": MU,
        "num_sampled_sentences": num_sampled_sentences,
        "assumptions": [],
        "warnings": [reason],
    }


def measured(
    table: ReviewTable,
    *,
    source: str,
    is_census: bool,
    confidence: float,
    labelled: Labelled = EVERYTHING,
    large: Large | None = None,
    num_population: int = 0,
) -> dict[str, Any]:
    """Computes the figures of a reviewed sample.

    Args:
        table: distinct sampled sentences of labelled documents.
        source: judge of what is sensitive: ``gold``, ``human`` or ``proxy``.
        is_census: true if every training sentence was sampled. The figures are then exact for this corpus, if all of
            it is labelled. A part of it never counts as the whole.
        confidence: confidence of two-sided intervals and, each separately, of one-sided bounds.
        labelled: labelled part of the training fold.
        large: large sentences of the corpus, if the large part of the sample is not in ``table``: bounds then allow
            for misses in them. None if it is in ``table``.
        num_population: number of training sentences; needed with ``large``.

    Returns:
        Flat JSON values; see `pipelines.stages.prepare.estimate` for their meaning.
    """
    secrets, tokens = _secrets(table), _tokens(table)
    escapes = ClusteredCounts.of(table.escaped_secrets, table.secrets, weights=table.weights)
    unmasked = ClusteredCounts.of(table.missed_secrets, table.secrets, weights=table.weights)
    num_unmasked, num_unstable = sum(table.missed_secrets), sum(table.unstable_secrets)
    is_census = is_census and labelled.is_whole and not labelled.num_left_out
    left_out = "" if labelled.num_left_out is None else _LEFT_OUT
    unseen = None if large is None or is_census else unseen_of(table, large, num_population)
    num_units = weighted(table.secrets, table.weights)
    worst = worst_label(table, is_census, confidence, unseen)
    gamma = bounded(secrets, is_census, confidence, unseen, "missed", num_units)
    return {
        "source": source,
        "is_census": is_census,
        "covers_corpus": labelled.is_whole,
        "labelled_share": labelled.share,
        "confidence": confidence,
        "mu": MU
        + left_out
        + ("" if labelled.is_whole else _PART_ONLY.get(source, "; of the part that was judged only")),
        "num_sampled_sentences": table.num_sentences,
        "num_kept_sentences": table.num_kept,
        "num_unreviewed_sentences": labelled.num_unreviewed,
        "large_sentences": large_figures(table, unseen, labelled.num_unreviewed_large, is_census, confidence),
        "num_disputed_sentences": labelled.num_disputed,
        "num_trusted_spans": labelled.num_trusted,
        "num_tokens": sum(table.tokens),
        "num_sensitive_tokens": sum(table.sensitive),
        "num_missed_tokens": sum(table.missed),
        "num_secret_spans": sum(table.secrets),
        "num_missed_spans": num_unmasked + num_unstable,
        "num_unmasked_spans": num_unmasked,
        "num_unstable_spans": num_unstable if table.has_stability else None,
        "num_unstable_together_spans": table.num_unstable_together if table.has_stability else None,
        "num_unstable_elsewhere_spans": table.num_unstable_elsewhere if table.has_stability else None,
        "num_escaped_spans": sum(table.escaped_secrets),
        "miss_rate": _miss_rate(table, tokens, is_census, confidence),
        "false_negative_rate": gamma,
        "false_negative_rate_masked": bounded(unmasked, is_census, confidence, unseen, "missed", num_units),
        "delta2": bounded(escapes, is_census, confidence, unseen, "escaped", num_units),
        "escape_per_sentence": _escape_per_sentence(table, is_census, confidence),
        "recall": ratio(table.policy_found, table.policy_found + table.policy_missed),
        "precision": ratio(table.policy_found, table.policy_masked),
        "recall_as_in_jft": _recall_as_in_jft(table),
        "worst_label": worst and {**worst, "mu": worst["mu"] + left_out},
        "by_label": label_rows(table, is_census, confidence, unseen),
        "by_domain": by_domain(table, is_census, confidence, unseen),
        "planning": {
            name: {
                "design_effect": intervals.design_effect(counts),
                "units_per_sentence": ratio(weighted(units, table.weights), sum(table.weights)),
            }
            for name, counts, units in (
                ("gamma", secrets, table.secrets),
                ("delta2", escapes, table.secrets),
                ("miss_rate", tokens, table.tokens),
            )
        },
        "assumptions": [*_ASSUMPTIONS[source], *_SHARED_ASSUMPTIONS],
        "warnings": [
            *_about_coverage(labelled, source),
            *_about_learning(labelled),
            *_about_stability(table),
            *about_large(unseen, labelled.num_unreviewed_large, confidence),
            *_warnings(table, secrets, is_census, confidence, gamma["upper"]),
        ],
    }


_NOT_CHOSEN: Final = (
    "no policy, threshold or list was chosen by what this sample showed: one that was fits it better than the rest of "
    "the text; after such a change, draw another sample (sample.draw) and review that"
)
_ASSUMPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "gold": (
        "the gold labels mark every secret of every sampled sentence of a labelled document; a sentence of one "
        "without labels holds none",
        _NOT_CHOSEN,
    ),
    "human": (
        "the reviewers saw every secret of the sentences that they judged; a mask that they let stand is one secret",
        "the sentences judged so far are a random part of the sample (they are shown in random order)",
        _NOT_CHOSEN,
    ),
    "proxy": (
        "PROXY: what the proxy policies find is taken for the truth; what they miss is missing here too, so the true "
        "rates may be far higher. No guarantee rests on these figures",
    ),
}
_SHARED_ASSUMPTIONS: Final = (
    "gamma and delta2 are averages over mu: a sentence, or a kind of secret, that the policy always misses "
    "may hide in them; the worst label is shown with them",
)


def _tokens(table: ReviewTable) -> ClusteredCounts:
    return ClusteredCounts.of(table.missed, table.tokens, worst=table.sensitive, weights=table.weights)


def _secrets(table: ReviewTable) -> ClusteredCounts:
    missed = columns_sum(table.missed_secrets, table.unstable_secrets)
    return ClusteredCounts.of(missed, table.secrets, weights=table.weights)


def _about_stability(table: ReviewTable) -> list[str]:
    if not table.has_stability:
        return [
            "whether masked secrets are redacted stably was not measured: the rates count unmasked secrets only, and "
            "no claim rests on them"
        ]
    found = []
    num_unstable = sum(table.unstable_secrets)
    num_caught = sum(table.secrets) - sum(table.missed_secrets)
    if num_unstable:
        found.append(
            f"{num_unstable:,} of {num_caught:,} secrets are masked, but masking them by hand would change what else "
            "is masked: they cost epsilon and count as missed"
        )
    if table.num_unstable_elsewhere:
        found.append(
            f"masking {table.num_unstable_elsewhere} of {num_caught} secrets by hand changes what is masked in other "
            "sentences of their documents: claims are refused, for one such secret changes several records"
        )
    return found


def _about_learning(labelled: Labelled) -> list[str]:
    if not labelled.num_left_out:
        return []
    return [
        f"{labelled.num_left_out} sampled sentences are left out, because a policy learnt from them: the rates are over"
        " the other sentences of the corpus, and draw another sample (sample.draw) where too few are left"
    ]


def _about_coverage(labelled: Labelled, source: str) -> list[str]:
    found = []
    if labelled.num_disputed:
        found.append(
            f"reviewers disagree on {labelled.num_disputed} sentences; until `reticent review --adjudicate` settles "
            "them, whatever any of them marked counts as a secret"
        )
    if source == "proxy":
        found.append("judged by a proxy, not by people or gold labels: no guarantee rests on these figures")
    if labelled.is_whole:
        return found
    share = 0.0 if labelled.share is None else labelled.share
    if source == "human":
        return [
            *found,
            f"{labelled.num_unreviewed} sampled sentences are not reviewed yet ({share:.1%} are): the rates describe "
            "those that are, and claims that need gamma or delta2 over the corpus are refused until all of them are",
        ]
    return [
        *found,
        f"only {share:.3%} of the training sentences are in documents with labels: all rates describe that part "
        "alone, and claims that need gamma or delta2 over the corpus are refused",
    ]


def _miss_rate(table: ReviewTable, tokens: ClusteredCounts, is_census: bool, confidence: float) -> dict[str, Any]:
    rates = [m / t for m, t in zip(table.replicate_missed, table.replicate_tokens, strict=True) if t]
    value = tokens.value
    if is_census:
        exact = None if value is None else [value, value]
        return {
            "value": value,
            "mean_of_replicates": value,
            "student_t": None,
            "student_t_clipped": None,
            "clopper_pearson": None,
            "cluster_robust": None,
            "bootstrap": None,
            "design_effect": None,
            "recommended": exact,
            "recommended_method": "census",
            "reason": "every training sentence was reviewed, so there is no sampling error",
        }
    paper = intervals.student_t(rates, confidence)
    robust = intervals.cluster_robust(tokens, confidence)
    return {
        "value": value,
        "mean_of_replicates": sum(rates) / len(rates) if rates else None,
        "student_t": _pair(paper),
        "student_t_clipped": _pair(intervals.clip(paper) if paper else None),
        "clopper_pearson": _pair(intervals.clopper_pearson(tokens.num_hits, tokens.num_units, confidence)),
        "cluster_robust": _pair(robust),
        "bootstrap": _pair(intervals.bootstrap(tokens, confidence, np.random.default_rng(_BOOTSTRAP_SEED))),
        "design_effect": intervals.design_effect(tokens),
        "recommended": _pair(intervals.korn_graubard(tokens, confidence)),
        "recommended_method": "korn_graubard",
        "reason": "exact binomial interval at the effective sample size: misses come in clusters (sentences), which"
        " clopper_pearson ignores; student_t (as in the paper) knows no bounds and gives no length to zero misses;"
        " cluster_robust is too short for few misses",
    }


def _escape_per_sentence(table: ReviewTable, is_census: bool, confidence: float) -> dict[str, Any]:
    num_escapes = sum(escaped > 0 for escaped in table.escaped_secrets)
    value = ratio(num_escapes, table.num_sentences)
    if is_census:
        return {"value": value, "upper": value, "num_sentences": num_escapes}
    if len(set(table.weights)) > 1:
        found = [escaped > 0 for escaped in table.escaped_secrets]
        counts = ClusteredCounts.of(found, np.ones(table.num_sentences), weights=table.weights)
        value, upper = counts.value, intervals.ratio_upper(counts, confidence)
    else:
        upper = intervals.clopper_pearson_upper(num_escapes, table.num_sentences, confidence)
    return {"value": value, "upper": upper, "num_sentences": num_escapes}


def _recall_as_in_jft(table: ReviewTable) -> float | None:
    """Returns 1 - m / Pct (JFT, section 6.3). Pct counts everything that was masked, false positives included."""
    share = ratio(table.policy_missed, table.policy_masked)
    return None if share is None else 1 - share


def _warnings(
    table: ReviewTable, secrets: ClusteredCounts, is_census: bool, confidence: float, upper: float
) -> list[str]:
    found = []
    if secrets.num_units == 0:
        found.append(
            "the sampled sentences hold no labelled secret, so gamma and delta2 are unknown (bound 1); "
            "raise sample.fraction or sample.min_sentences"
            if not is_census
            else "the training sentences hold no labelled secret, so there is no gamma and no delta2"
        )
    elif secrets.num_hits == 0 and not is_census:
        found.append(f"no secret was missed in the sample; that shows gamma <= {percent(upper, upper=True)}, not 0")
    if is_census:
        return found
    used = sum(t > 0 for t in table.replicate_tokens)
    if used < 2:
        found.append("fewer than two replicates hold a token, so there is no Student-t interval")
    else:
        rates = [m / t for m, t in zip(table.replicate_missed, table.replicate_tokens, strict=True) if t]
        paper = intervals.student_t(rates, confidence)
        if paper and intervals.clip(paper) != paper:
            found.append("the Student-t interval (as in the paper) leaves the range 0 to 1; a clipped one is given too")
    return found


def _pair(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [float(interval[0]), float(interval[1])]
