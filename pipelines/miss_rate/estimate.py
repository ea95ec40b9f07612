"""From reviewed sentences to the figures of the estimate stage: m, gamma, delta2, recall, precision, intervals.

All estimates are ratios over the *distinct* sampled sentences. Given how many distinct ones the replicates hit, these
are a simple random sample without replacement, so no weighting is needed; a sentence drawn by two replicates counts
once, not twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipelines.miss_rate import intervals
from pipelines.miss_rate.intervals import ClusteredCounts, Interval
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate, MissRate
from pipelines.miss_rate.review import ReviewTable

MU: Final = "uniform over the labelled secrets of the training sentences that are left after deduplication"
"""The distribution that gamma and delta2 are stated over (CRT, section 4: uniform over the secrets)."""

_MEASURED: Final[Mapping[str, Any]] = {
    "num_tokens": None,
    "num_sensitive_tokens": None,
    "num_missed_tokens": None,
    "num_kept_sentences": None,
    "num_secret_spans": None,
    "num_missed_spans": None,
    "num_escaped_spans": None,
    "miss_rate": None,
    "false_negative_rate": None,
    "delta2": None,
    "escape_per_sentence": None,
    "recall": None,
    "precision": None,
    "recall_as_in_jft": None,
    "by_label": {},
}


def not_measured(*, num_sampled_sentences: int, is_census: bool, confidence: float, reason: str) -> dict[str, Any]:
    """The figures of a corpus without reviews and without gold labels: nothing is known, and they say so."""
    return {
        **_MEASURED,
        "source": "not_measured",
        "is_census": is_census,
        "confidence": confidence,
        "mu": MU,
        "num_sampled_sentences": num_sampled_sentences,
        "assumptions": [],
        "warnings": [reason],
    }


def measured(table: ReviewTable, *, source: str, is_census: bool, confidence: float) -> dict[str, Any]:
    """The figures of a reviewed sample.

    Args:
        table: the distinct sampled sentences.
        source: who said what is sensitive: ``gold``.
        is_census: whether the sample is the whole population, so that the figures are exact for this corpus.
        confidence: of two-sided intervals and, each on its own, of one-sided bounds.

    Returns:
        Flat JSON values; their meaning is given in `pipelines.stages.estimate`.
    """
    secrets = ClusteredCounts.of(table.missed_secrets, table.secrets)
    escapes = ClusteredCounts.of(table.escaped_secrets, table.secrets)
    return {
        "source": source,
        "is_census": is_census,
        "confidence": confidence,
        "mu": MU,
        "num_sampled_sentences": table.num_sentences,
        "num_kept_sentences": table.num_kept,
        "num_tokens": sum(table.tokens),
        "num_sensitive_tokens": sum(table.sensitive),
        "num_missed_tokens": sum(table.missed),
        "num_secret_spans": int(secrets.num_units),
        "num_missed_spans": int(secrets.num_hits),
        "num_escaped_spans": int(escapes.num_hits),
        "miss_rate": _miss_rate(table, is_census, confidence),
        "false_negative_rate": _bounded(secrets, is_census, confidence),
        "delta2": _bounded(escapes, is_census, confidence),
        "escape_per_sentence": _escape_per_sentence(table, is_census, confidence),
        "recall": _ratio(table.policy_found, table.policy_found + table.policy_missed),
        "precision": _ratio(table.policy_found, table.policy_masked),
        "recall_as_in_jft": _recall_as_in_jft(table),
        "by_label": {
            label: {
                "num_secret_spans": count.num_secrets,
                "num_missed_spans": count.num_missed,
                "false_negative_rate": count.num_missed / count.num_secrets,
            }
            for label, count in sorted(table.labels.items())
        },
        "assumptions": [
            "the gold labels mark every secret of every sampled sentence; a sentence without labels holds none",
            "gamma and delta2 are averages over mu: a kind of secret that the policy always misses may hide in them",
        ],
        "warnings": _warnings(table, secrets, is_census, confidence),
    }


def _miss_rate(table: ReviewTable, is_census: bool, confidence: float) -> dict[str, Any]:
    tokens = ClusteredCounts.of(table.missed, table.tokens)
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
        "recommended": _pair(intervals.korn_graubard(tokens, confidence)),
        "recommended_method": "korn_graubard",
        "reason": "exact binomial interval at the effective sample size: misses come in clusters (sentences), which"
        " clopper_pearson ignores; student_t (as in the paper) knows no bounds and gives no length to zero misses;"
        " cluster_robust is too short for few misses",
    }


def _bounded(counts: ClusteredCounts, is_census: bool, confidence: float) -> dict[str, Any]:
    value = counts.value
    if is_census:
        return {"value": value, "upper": value, "confidence": 1.0}
    return {"value": value, "upper": intervals.korn_graubard_upper(counts, confidence), "confidence": confidence}


def _escape_per_sentence(table: ReviewTable, is_census: bool, confidence: float) -> dict[str, Any]:
    num_escapes = sum(escaped > 0 for escaped in table.escaped_secrets)
    value = _ratio(num_escapes, table.num_sentences)
    if is_census:
        return {"value": value, "upper": value, "num_sentences": num_escapes}
    upper = intervals.clopper_pearson_upper(num_escapes, table.num_sentences, confidence)
    return {"value": value, "upper": upper, "num_sentences": num_escapes}


def _recall_as_in_jft(table: ReviewTable) -> float | None:
    """JFT, section 6.3: 1 - m / Pct, where Pct counts everything that was masked, false positives included."""
    share = _ratio(table.policy_missed, table.policy_masked)
    return None if share is None else 1 - share


def _warnings(table: ReviewTable, secrets: ClusteredCounts, is_census: bool, confidence: float) -> list[str]:
    found = []
    if secrets.num_units == 0:
        found.append(
            "the sampled sentences hold no labelled secret, so gamma and delta2 are unknown (bound 1); "
            "raise sample.fraction or sample.min_sentences"
            if not is_census
            else "the training sentences hold no labelled secret, so there is no gamma and no delta2"
        )
    elif secrets.num_hits == 0 and not is_census:
        upper = intervals.korn_graubard_upper(secrets, confidence)
        found.append(f"no secret was missed in the sample; that shows gamma <= {upper:.3g}, not 0")
    if is_census:
        return found
    used = sum(t > 0 for t in table.replicate_tokens)
    if used < 2:
        found.append("fewer than two replicates hold a token, so there is no Student-t interval")
    else:
        rates = [m / t for m, t in zip(table.replicate_missed, table.replicate_tokens, strict=True) if t]
        paper = intervals.student_t(rates, confidence)
        if paper and intervals.clip(paper) != paper:
            found.append("the Student-t interval (as in the paper) leaves the range 0 to 1; a clipped one is beside it")
    return found


def _pair(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [float(interval[0]), float(interval[1])]


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None


def miss_rate_of(figures: Mapping[str, Any]) -> MissRate | None:
    """m of an estimate's figures, with the upper end of the recommended interval; None where it was not measured."""
    rate = figures.get("miss_rate")
    if not rate or rate["value"] is None:
        return None
    confidence = 1.0 if figures["is_census"] else float(figures["confidence"])
    return MissRate(value=rate["value"], upper=rate["recommended"][1], confidence=confidence)


def false_negative_rate_of(figures: Mapping[str, Any]) -> FalseNegativeRate | None:
    """gamma of an estimate's figures; None where no secret was seen."""
    rate = figures.get("false_negative_rate")
    if not rate or rate["value"] is None:
        return None
    return FalseNegativeRate(value=rate["value"], upper=rate["upper"], confidence=rate["confidence"], mu=figures["mu"])


def delta2_of(figures: Mapping[str, Any]) -> Delta2 | None:
    """delta2 of an estimate's figures; None where no secret was seen."""
    rate = figures.get("delta2")
    if not rate or rate["value"] is None:
        return None
    return Delta2(value=rate["value"], upper=rate["upper"], confidence=rate["confidence"], mu=figures["mu"])
