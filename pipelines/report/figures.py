"""Puts the figures of all stages and partitions together into the one document that both reports are made of.

A figure that a stage did not give stays None ("not measured"): a sum over partitions is None unless every partition
gave its part, because a partial sum would pass for the whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pipelines.language import without_model_text
from pipelines.numbers import is_number
from pipelines.report.claims import DP_NOTION, headline_claim, normalised, not_together, whole_of
from pipelines.report.synthetic import section

SCHEMA_VERSION: Final = 1
_MANY_OTHERS: Final = 0.01
_FEW_PUBLIC: Final = 300
Figures = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The parsed data files of the stages before the report, which it is made of.

    Attributes:
        split, redact, shard: figures by partition, in corpus order.
        dedup, estimate, train: figures of the whole corpus.
        reidentification: figures on links to a table of people; None or empty without a table.
        events: events of the mechanism, as the train stage wrote them.
        curves: the learning curves, as the train stage wrote them.
        utility: figures on what the policies found in held-out text, and on the rest.
        claims: the claims file of the guarantee stage.
        lineage: (stage, partition, key) of every artifact that was read.
        left_out: number of files beside the corpus that were not read, by suffix or by reason.
        held_by_label: number of rows that the gate holds, by label of the finds; a row may count for several.
        settings: settings, as far as they may be shown.
        publishes_rows: flag that the rows of the public side are published as a table.
        audit: results of attacks; None if nobody attacked.
        synthetic, synthetic_check: figures of the synthetic table, and counts in it; None if there is no table.
        signed_by: the fingerprint of the key that releases of this store are signed with (`pipelines.signatures`).
    """

    split: Sequence[Figures] = ()
    redact: Sequence[Figures] = ()
    shard: Sequence[Figures] = ()
    dedup: Figures = field(default_factory=dict)
    estimate: Figures = field(default_factory=dict)
    reidentification: Figures | None = None
    train: Figures = field(default_factory=dict)
    events: Any = None
    curves: Any = None
    utility: Any = None
    claims: Any = None
    lineage: Sequence[tuple[str, str | None, str]] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    held_by_label: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    publishes_rows: bool = False
    audit: Any = None
    synthetic: Any = None
    synthetic_check: Any = None
    signed_by: str | None = None


def total(figures: Sequence[Figures], key: str) -> int | None:
    """The sum of one count over all partitions, or None when a partition lacks it."""
    values = [part.get(key) for part in figures]
    if not values or not all(is_number(value) for value in values):
        return None
    return sum(int(value) for value in values if value is not None)


def totals(figures: Sequence[Figures], key: str) -> dict[str, int] | None:
    """The sum of a mapping of counts over all partitions, or None when a partition lacks it."""
    values = [part.get(key) for part in figures]
    if not values or not all(isinstance(value, Mapping) for value in values):
        return None
    summed: dict[str, int] = {}
    for value in values:
        for name, number in (value or {}).items():
            summed[name] = summed.get(name, 0) + int(number)
    return dict(sorted(summed.items()))


def ratio(numerator: Any, denominator: Any) -> float | None:
    """A fraction, or None where it is undefined or a part of it is missing."""
    if not is_number(numerator) or not is_number(denominator) or denominator <= 0:
        return None
    return float(numerator) / float(denominator)


def build(sources: Sources, *, title: str) -> dict[str, Any]:
    """The full report as one JSON document. It is for the trusted side: see `pipelines.report.public`.

    Args:
        sources: data files of the stages before.
        title: the heading of the report.

    Returns:
        A document of JSON values; `metrics` is flat, None stands for "not measured" or, for ``epsilon`` and
        ``delta``, for a claim that was refused.
    """
    corpus = _corpus(sources.split) | {"files_left_out": dict(sorted(sources.left_out.items()))}
    redaction = _redaction(sources.redact)
    shards = _shards(sources.shard, sources.dedup) | {"num_held_by_label": dict(sorted(sources.held_by_label.items()))}
    all_private = bool(sources.redact) and redaction["conservative"] is None and shards["num_public"] == 0
    miss_rate = _miss_rate(sources.estimate, all_private=all_private)
    if sources.reidentification:
        miss_rate["reidentification"] = {k: v for k, v in sources.reidentification.items() if k != "links"}
    training = _training(sources)
    claims = normalised(sources.claims)
    return {
        "schema_version": SCHEMA_VERSION,
        "version": "full",
        "title": title,
        "publishes_rows": sources.publishes_rows,
        "publishes_counts": True,
        "metrics": _metrics(corpus, redaction, shards, miss_rate, training, claims, sources.dedup),
        "corpus": corpus,
        "dedup": _dedup(sources.dedup, sources.claims),
        "redaction": redaction,
        "shards": shards,
        "miss_rate": miss_rate,
        "training": training,
        "claims": claims,
        "accountants": _accountants(sources.claims),
        "person": (sources.claims or {}).get("person"),
        "warnings": [*_warnings(sources), *data_warnings(corpus, redaction, shards)],
        "settings": {table: dict(values) for table, values in sources.settings.items()},
        "lineage": [{"stage": stage, "partition": partition, "key": key} for stage, partition, key in sources.lineage],
        "audit": sources.audit,
        "synthetic": section(sources.synthetic, sources.synthetic_check),
        "signed_by": sources.signed_by,
        "withheld": [],
    }


def _corpus(split: Sequence[Figures]) -> dict[str, Any]:
    counts = ("num_documents", "num_sentences", "num_tokens", "num_rejected", "num_empty", "num_held_back")
    gold = ("num_gold_spans", "num_documents_with_gold")
    own = total(split, "num_own_owners")  # only if owners are known
    return {
        **{key: total(split, key) for key in (*counts, *gold)},
        **({} if own is None else {"num_own_owners": own}),
        "num_partitions": len(split),
        "rejected_by_reason": totals(split, "rejected_by_reason"),
        "documents_by_other_language": totals(split, "documents_by_other_language"),
        "parts_left_out": totals(split, "parts_left_out"),
        "num_sentences_by_fold": totals(split, "num_sentences_by_fold"),
    }


def _redaction(redact: Sequence[Figures]) -> dict[str, Any]:
    counts = (
        "num_sentences",
        "num_tokens",
        "num_duplicates",
        "num_duplicate_tokens",
        "num_masked_tokens",
        "num_flagged_by_conservative",
        "num_conservative_failed",
        "num_failed_closed",
    )
    mappings = (
        "masked_tokens_by_label",
        "spans_by_label",
        "masked_tokens_by_policy",
        "observed_tokens_by_policy",
        "masked_tokens_by_domain",
        "tokens_by_domain",
    )
    found: dict[str, Any] = {key: total(redact, key) for key in counts} | {key: totals(redact, key) for key in mappings}
    first = redact[0] if redact else {}
    without = totals(redact, "rows_without_model")
    read, left_out = found["num_tokens"], found["num_duplicate_tokens"]
    num_judged = None if read is None or left_out is None else read - left_out
    return {
        **found,
        "policies": list(first["policies"]) if first.get("policies") is not None else None,
        "conservative": first.get("conservative"),
        **({"descriptions": first["descriptions"]} if first.get("descriptions") else {}),
        **({"rows_without_model": without} if without is not None else {}),
        "num_judged_tokens": num_judged,
        "coverage": ratio(found["num_masked_tokens"], num_judged),
    }


def _dedup(dedup: Figures, claims: Any) -> dict[str, Any]:
    """The figures of deduplication, with the stability that the claims rest on: it depends on what is public, too."""
    known = claims.get("dedup_stability") if isinstance(claims, Mapping) else None
    if known is None:
        return dict(dedup)
    stability = {key: known[key] for key in ("add_or_remove_one", "replace_one")}
    return {**dedup, "stability": stability, "stability_reason": known["reason"]}


def _shards(shard: Sequence[Figures], dedup: Figures) -> dict[str, Any]:
    keys = ("num_public", "num_private", "num_public_tokens", "num_private_tokens", "num_all_mask", "num_held")
    return {**{key: total(shard, key) for key in keys}, "num_duplicates": dedup.get("num_duplicates")}


def _miss_rate(estimate: Figures, *, all_private: bool) -> dict[str, Any]:
    """The estimate, with delta2 set to 0 where no sentence is ever public: nothing can escape, by construction."""
    found = dict(estimate)
    found["delta2_is_zero_by_construction"] = all_private
    if all_private:
        found["delta2"] = {"value": 0.0, "upper": 0.0, "confidence": 1.0}
    return found


def _training(sources: Sources) -> dict[str, Any]:
    found = dict(sources.train)
    events = sources.events if isinstance(sources.events, Mapping) else {}
    for key in ("record", "relation", "target_delta", "target_epsilon", "max_grad_norm", "insecure_test_seed"):
        found.setdefault(key, events.get(key))
    curves = sources.curves if isinstance(sources.curves, Mapping) else {}
    exact = [
        row["epsilon"]
        for row in _accountants(sources.claims)
        if row["is_bound"] and row["relation"] == found["relation"] and row["delta"] == found["target_delta"]
    ]
    least = min((bound for bound in exact if bound is not None), default=math.inf)
    # ε so far is computed on a coarse grid, so it can exceed the ε of the whole training, which bounds it as well.
    found["curves"] = [
        row if row.get("epsilon_so_far") is None else {**row, "epsilon_so_far": min(row["epsilon_so_far"], least)}
        for row in curves.get("epochs") or ()
    ]
    found["curves_note"] = curves.get("note")
    found["utility"] = sources.utility if isinstance(sources.utility, Mapping) else None
    return found


def _accountants(claims: Any) -> list[dict[str, Any]]:
    found = claims.get("accountants") if isinstance(claims, Mapping) else None
    return [dict(row) for row in found or ()]


def _warnings(sources: Sources) -> list[str]:
    """Returns the warnings of the stages, each once."""
    claims = sources.claims if isinstance(sources.claims, Mapping) else {}
    found = [w for part in (claims, sources.train, sources.estimate) for w in part.get("warnings") or ()]
    return list(dict.fromkeys(found))


def data_warnings(corpus: Figures, redaction: Figures, shards: Figures) -> list[str]:
    """Returns warnings for readers who never saw the text: other languages, and a very small public side."""
    found = []
    others, num_documents = corpus["documents_by_other_language"] or {}, corpus["num_documents"]
    without = redaction.get("rows_without_model")
    if without is not None:  # each document was read in its language
        others = {}
        found += [without_model_text(without)] if without else []
    number, num_held = sum(others.values()), corpus["num_held_back"] or 0
    share = ratio(number, None if num_documents is None else num_documents + num_held)
    if share is not None and share >= _MANY_OTHERS:
        listed = ", ".join(f"{count:,} {language}" for language, count in others.items())
        become = (
            "they are left out (split.other_languages)"
            if num_held
            else 'the policies find little there; split.other_languages = "hold" leaves them out'
        )
        found.append(f"{number:,} documents ({share:.0%}) are plainly in another language ({listed}): {become}")
    num_public = shards["num_public"]
    if redaction["conservative"] is not None and num_public is not None and num_public < _FEW_PUBLIC:
        found.append(
            f"few rows are public ({num_public:,}). A tokenizer and a model learn little from them. Use a pretrained "
            "train.model, which needs none, or a redact.conservative that leaves more rows public"
        )
    return found


def _metrics(
    corpus: Figures,
    redaction: Figures,
    shards: Figures,
    miss_rate: Figures,
    training: Figures,
    claims: Sequence[Figures],
    dedup: Figures,
) -> dict[str, Any]:
    rate = miss_rate.get("miss_rate") or {}
    missed_secrets = miss_rate.get("false_negative_rate") or {}
    escaped = miss_rate.get("delta2") or {}
    return {
        **{key: corpus[key] for key in ("num_documents", "num_sentences", "num_tokens", "num_rejected")},
        "duplicates": dedup.get("num_duplicates"),
        "coverage": redaction["coverage"],
        "num_public": shards["num_public"],
        "num_private": shards["num_private"],
        "num_held": shards["num_held"],
        "miss_rate": rate.get("value"),
        "miss_rate_upper": (rate.get("recommended") or (None, None))[1],
        "false_negative_rate": missed_secrets.get("value"),
        "false_negative_rate_upper": missed_secrets.get("upper"),
        "delta2_upper": escaped.get("upper"),
        "recall": miss_rate.get("recall"),
        "precision": miss_rate.get("precision"),
        **{
            key: training.get(key)
            for key in ("perplexity", "perplexity_at_initialisation", "noise_multiplier", "num_steps")
        },
        **claim_metrics(claims),
    }


def claim_metrics(claims: Sequence[Figures]) -> dict[str, Any]:
    """The figures of claims that are shown first, of all releases together where there are several."""
    headline = headline_claim(claims) or {}
    issued = headline if headline.get("status") == "issued" else {}
    of_dp = next((c for c in claims if c["notion"] == DP_NOTION and c["status"] == "issued"), {})

    def whole(claim: Figures, key: str) -> Any:
        return whole_of(claim).get(key) if claim and not_together(claim) is None else None

    return {
        "epsilon": whole(issued, "epsilon"),
        "delta": whole(issued, "delta"),
        "epsilon_this_model": issued.get("epsilon"),
        "num_releases": (issued.get("together") or {"num_releases": 1})["num_releases"] if issued else None,
        "epsilon_dp": whole(of_dp, "epsilon"),
    }
