"""The public version of a report: allow-lists, because whatever was counted on private rows leaks outside epsilon.

Kept: the claims and the settings behind them, what the public shard and model show anyway, the held-out figures (the
held-out fold is public by assumption), and the estimated rates, each of which is a release of its own and says so.
Rates and the figures that derive from them are coarse, since a rate in full precision gives its two counts back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pipelines.report.numbers import Direction, coarse

METRICS: Final = (
    "num_public",
    "miss_rate",
    "miss_rate_upper",
    "false_negative_rate",
    "false_negative_rate_upper",
    "delta2_upper",
    "recall",
    "precision",
    "perplexity",
    "perplexity_at_initialisation",
    "epsilon",
    "delta",
    "epsilon_dp",
    "noise_multiplier",
    "num_steps",
)
_DEDUP: Final = (
    "mode",
    "normalise",
    "verify",
    "min_tokens",
    "target_false_positive_rate",
    "expected_items",
    "stability",
    "stability_reason",
)
_SHARDS: Final = ("num_public", "num_public_tokens")
_MISS_RATE: Final = (
    "source",
    "is_census",
    "covers_corpus",
    "labelled_share",
    "confidence",
    "mu",
    "miss_rate",
    "false_negative_rate",
    "delta2",
    "delta2_is_zero_by_construction",
    "worst_label",
    "recall",
    "precision",
    "recall_as_in_jft",
    "assumptions",
)
_TRAINING: Final = (
    "method",
    "perplexity",
    "perplexity_per_word",
    "bits_per_byte",
    "perplexity_at_initialisation",
    "perplexity_reason",
    "loss_per_token",
    "loss_per_token_standard_error",
    "next_token_accuracy",
    "accuracy",
    "accuracy_standard_error",
    "accuracy_by_class",
    "accuracy_at_initialisation",
    "scores",
    "task",
    "next_word_accuracy",
    "evaluate_fold",
    "evaluated_on",
    "num_eval_sentences",
    "num_eval_tokens",
    "num_parameters",
    "num_trained_parameters",
    "base_model",
    "adaptation",
    "vocab_size",
    "tokenizer",
    "num_public_records",
    "num_steps",
    "noise_multiplier",
    "epochs",
    "record",
    "relation",
    "target_delta",
    "target_epsilon",
    "max_grad_norm",
    "insecure_test_seed",
)
WITHHELD: Final = (
    "counts of documents, sentences, tokens, rejected rows and duplicates",
    "what was masked, by label and by policy, and its share of the text",
    "the number of private records, of flagged sentences and of reviewed ones",
    "the estimated rates by label",
    "digits of ε, δ and the noise multiplier beyond the third, which would give the number of private records back "
    "(steps, batch size and epochs are shown, and still bound that number roughly)",
    "the order of the partitions (their number shows in the files of the public table)",
    "learning curves and training losses",
    "perplexity and accuracy on what the policies found in held-out text",
    "warnings, because they quote counts",
)
_RATE_DIGITS = 3
_KEY_CHARACTERS = 12
_CLAIM_DIGITS = 3
_DIRECTIONS: Final[Mapping[str, Direction]] = {
    "miss_rate": "nearest",
    "miss_rate_upper": "up",
    "false_negative_rate": "nearest",
    "false_negative_rate_upper": "up",
    "delta2_upper": "up",
    "recall": "nearest",
    "precision": "nearest",
}
_COUNTED_WARNING: Final = (
    "the training side was warned about this run; the warning is withheld here, because it counts private records"
)


def public_version(full: Mapping[str, Any]) -> dict[str, Any]:
    """What of a full report may be published beside the model.

    Args:
        full: as `pipelines.report.figures.build` returns it.

    Returns:
        A document of the same shape. Sections are there with fewer keys; `withheld` names what was dropped.
        Lineage has one row a stage: keys are under the store's secret and tell nothing, but the order of
        the partitions is that of the private corpus, and how many there are is left to the public table to say.
    """
    redaction = full["redaction"]
    named = [*(redaction["policies"] or ()), *([redaction["conservative"]] if redaction["conservative"] else [])]
    return {
        "schema_version": full["schema_version"],
        "version": "public",
        "title": full["title"],
        "metrics": _metrics(full["metrics"]),
        "corpus": {},
        "dedup": _only(full["dedup"], _DEDUP),
        "redaction": {
            "policies": [_without_plugin(name) for name in redaction["policies"] or ()],
            "conservative": _without_plugin(redaction["conservative"]),
        },
        "shards": _only(full["shards"], _SHARDS),
        "miss_rate": _rates(full["miss_rate"]),
        "training": _training(full["training"]),
        "claims": [_claim(claim, _counted(full), named) for claim in full["claims"]],
        "accountants": [{**row, "epsilon": coarse(row["epsilon"], _CLAIM_DIGITS, "up")} for row in full["accountants"]],
        "warnings": [],
        "settings": full["settings"],
        "lineage": _merged_lineage(full["lineage"]),
        "withheld": list(WITHHELD),
    }


def _only(values: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def _merged_lineage(lineage: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a stage; a partitioned one gets a digest of its keys, even of a single one, so that no count shows."""
    keys: dict[str, list[str]] = {}
    whole: dict[str, str] = {}
    for row in lineage:
        keys.setdefault(row["stage"], []).append(row["key"])
        if row["partition"] is None:
            whole[row["stage"]] = row["key"]
    return [
        {"stage": stage, "partition": None, "key": whole[stage] if stage in whole else _digest(found)}
        for stage, found in keys.items()
    ]


def _digest(keys: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()[:_KEY_CHARACTERS]


def _training(training: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of the model. The noise goes down: it is calibrated to the number of private records."""
    kept = _only(training, _TRAINING)
    return kept | {"noise_multiplier": coarse(kept.get("noise_multiplier"), _CLAIM_DIGITS, "down")}


def _without_plugin(name: str | None) -> str | None:
    """A plug-in's import path may name a customer."""
    return "plug-in" if name is not None and ":" in name else name


def _metrics(metrics: Mapping[str, Any]) -> dict[str, Any]:
    kept = _only(metrics, METRICS)
    for key, direction in _DIRECTIONS.items():
        kept[key] = coarse(kept.get(key), _RATE_DIGITS, direction)
    for key in ("epsilon", "delta", "epsilon_dp"):
        kept[key] = coarse(kept.get(key), _CLAIM_DIGITS, "up")
    kept["noise_multiplier"] = coarse(kept.get("noise_multiplier"), _CLAIM_DIGITS, "down")
    return kept


def _rates(miss_rate: Mapping[str, Any]) -> dict[str, Any]:
    kept = _only(miss_rate, _MISS_RATE)
    if kept.get("worst_label"):
        kept["worst_label"] = _only(kept["worst_label"], ("mu", "false_negative_rate", "delta2"))
    rounded: dict[str, Any] = _coarse_rates(kept)
    return rounded


def _coarse_rates(values: Any, direction: Direction = "nearest") -> Any:
    """All numbers below ``values`` with few digits; the second of a pair and whatever is called upper goes up."""
    if isinstance(values, Mapping):
        return {
            key: value
            if key == "confidence"
            else _coarse_rates(value, "up" if key in ("upper", "epsilon", "delta") else "nearest")
            for key, value in values.items()
        }
    if isinstance(values, list | tuple) and len(values) == 2:
        return [_coarse_rates(values[0], "down"), _coarse_rates(values[1], "up")]
    return coarse(values, _RATE_DIGITS, direction) if isinstance(values, float) else values


def _counted(full: Mapping[str, Any]) -> frozenset[str]:
    """The warnings that quote the number of private records, as far as that can be told; else all of them."""
    counts = {full["training"].get("num_private_records"), full["shards"].get("num_private")} - {None}
    quotes = [re.compile(rf"(?<!\d){number}(?!\d)") for number in counts]
    return frozenset(w for w in full["warnings"] if not quotes or any(quote.search(w) for quote in quotes))


def _claim(claim: Mapping[str, Any], counted: frozenset[str], policies: Iterable[str]) -> dict[str, Any]:
    """The claim with coarse figures, and with neither private counts nor import paths among its assumptions."""
    kept = [_COUNTED_WARNING if text in counted else text for text in claim["assumptions"]]
    for name in policies:
        if ":" in name:
            kept = [text.replace(name, "plug-in") for text in kept]
    numbers = ("epsilon", "delta", "epsilon_unamplified")
    return {
        **claim,
        **{key: coarse(claim[key], _CLAIM_DIGITS, "up") for key in numbers},
        "assumptions": list(dict.fromkeys(kept)),
        "as_in_paper": _coarse_rates(claim["as_in_paper"]),
    }
