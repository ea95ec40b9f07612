"""The public version of a report: allow-lists, because whatever was counted on private rows leaks outside epsilon.

Kept: the settings, what the published table and the model show anyway, the held-out figures (the held-out fold is
public by assumption), and the claims that hold whatever a review of private text found. A figure that tells two worlds
apart which differ in one secret, however few its digits are, is left out: the estimated rates, the claims that rest on
them, and whether those were refused. ``report.publish_counts`` puts them in, coarse, since a rate in full precision
gives its two counts back; every claim is about the model alone then.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

from pipelines.corpus.formats import FORMATS
from pipelines.filled_in import mark_document, our_names
from pipelines.language import SPACYS_OWN
from pipelines.numbers import Direction, coarse
from pipelines.policies.detectors.specs import SPECS
from pipelines.report.claims import normalised
from pipelines.report.figures import claim_metrics
from pipelines.report.synthetic import public_section

METRICS: Final = (
    "perplexity",
    "perplexity_at_initialisation",
    "epsilon",
    "delta",
    "epsilon_this_model",
    "num_releases",
    "epsilon_dp",
    "noise_multiplier",
    "num_steps",
)
RATES: Final = (
    "miss_rate",
    "miss_rate_upper",
    "false_negative_rate",
    "false_negative_rate_upper",
    "delta2_upper",
    "recall",
    "precision",
)
"""Figures that were counted on private text; published only where the settings say so."""
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
    "false_negative_rate_masked",
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
_RATES_WITHHELD: Final = "how much the redaction missed (m, γ, δ₂, recall), and the claims that rest on it"
_TABLE_WITHHELD: Final = "what was counted in the synthetic table"
WITHHELD: Final = (
    "counts of documents, sentences, tokens, rejected rows and duplicates",
    "what was masked, by label and by policy, and its share of the text",
    "the number of private records, of flagged sentences and of reviewed ones",
    _RATES_WITHHELD,
    "digits of ε, δ and the noise multiplier beyond the third, which would give the number of private records back "
    "(steps, batch size and epochs are shown, and still bound that number roughly)",
    "lineage: a key that stays the same, or does not, from one report to the next tells whether private text changed",
    "learning curves and training losses",
    "perplexity and accuracy on what the policies found in held-out text",
    "warnings, because they quote counts",
)
_UNCOUNTED: Final = frozenset({"one", "example", "bound"})
"""People whose number of records nobody counted: it stands in source (`pipelines.accounting.people`) or settings."""
_RATE_DIGITS = 3
_CLAIM_DIGITS = 3
_DIRECTIONS: Final[Mapping[str, Direction]] = {
    "miss_rate": "nearest",
    "miss_rate_upper": "up",
    "false_negative_rate": "up",
    "false_negative_rate_upper": "up",
    "delta2_upper": "up",
    "recall": "nearest",
    "precision": "nearest",
}
_ROUNDED_UP: Final = frozenset(
    {"upper", "epsilon", "delta", "gamma", "false_negative_rate", "false_negative_rate_masked", "delta2"}
)
_COUNTED_WARNING: Final = (
    "the training side was warned about this run; the warning is withheld here, because it counts private records"
)


def public_version(full: Mapping[str, Any], claims: Any, *, publishes_counts: bool = False) -> dict[str, Any]:
    """Returns the part of a full report that may be published beside the model.

    Args:
        full: result of `pipelines.report.figures.build`.
        claims: public part of the claims, as the guarantee stage wrote it.
        publishes_counts: flag that the settings put the rates into the public root.

    Returns:
        A document of the same shape. Sections are there with fewer keys; `withheld` names what was dropped.
    """
    redaction, publishes_rows = full["redaction"], full["publishes_rows"]
    named = [*(redaction["policies"] or ()), *([redaction["conservative"]] if redaction["conservative"] else [])]
    shown = normalised(claims)
    metrics = full["metrics"] | claim_metrics(shown)
    keys = (*METRICS, *(RATES if publishes_counts else ()), *(("num_public",) if publishes_rows else ()))
    accountants = (claims or {}).get("accountants") or []
    return {
        "schema_version": full["schema_version"],
        "version": "public",
        "title": full["title"],
        "publishes_rows": publishes_rows,
        "publishes_counts": publishes_counts,
        "metrics": _metrics(metrics, keys),
        "corpus": {},
        "dedup": _only(full["dedup"], _DEDUP),
        "redaction": {
            "policies": [_without_plugin(name) for name in redaction["policies"] or ()],
            "conservative": _without_plugin(redaction["conservative"]),
        },
        "shards": _only(full["shards"], _SHARDS) if publishes_rows else {},
        "miss_rate": _rates(full["miss_rate"]) if publishes_counts else {},
        "training": _training(full["training"], publishes_rows=publishes_rows),
        "claims": [_claim(claim, _counted(full), named) for claim in shown],
        "accountants": [{**row, "epsilon": coarse(row["epsilon"], _CLAIM_DIGITS, "up")} for row in accountants],
        "person": _person((claims or {}).get("person"), _bound(full["settings"]), publishes_counts=publishes_counts),
        "warnings": [],
        "settings": full["settings"],
        "lineage": [],
        **({"audit": _audit(full["audit"])} if publishes_counts else {}),
        "synthetic": public_section(full["synthetic"], publishes_counts=publishes_counts),
        "signed_by": full["signed_by"],
        "withheld": [
            *(text for text in WITHHELD if not (publishes_counts and text is _RATES_WITHHELD)),
            *((_TABLE_WITHHELD,) if full["synthetic"] and not publishes_counts else ()),
        ],
    }


_CHOICES: Final = frozenset(
    {
        *("accountant", "adaptation", "corpus", "evaluate_fold", "meteor_matching", "method", "mode"),
        *("normalise", "notion", "recommended_method", "record", "relation", "source", "status", "task"),
        *("theorem", "tokenizer", "unit", "version", "owner_from", "basis", "whose"),
    }
)
"""Keys whose values are fixed words; another value there is searched by the gate."""
_FREE_SETTINGS: Final = frozenset({"model"})
"""Settings whose value may be a name that users gave."""


def marked(public: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the public document with marks around all that is filled in (`pipelines.filled_in`)."""
    policies: dict[str, Container[str]] = dict.fromkeys(("conservative", "policies"), frozenset({*SPECS, "plug-in"}))
    # "core" may be a masked nickname, and the name of a model of spaCy's tells nothing of the text.
    policies |= {"format": frozenset({*FORMATS, "auto"}), "model": SPACYS_OWN}
    choices = dict.fromkeys(_CHOICES, our_names()) | policies
    settings = {
        table: {
            name: mark_document(value, dict.fromkeys(values.keys() - _FREE_SETTINGS, our_names()) | policies, key=name)
            for name, value in values.items()
        }
        for table, values in public["settings"].items()
    }
    document: dict[str, Any] = mark_document(
        {name: part for name, part in public.items() if name != "settings"}, choices
    )
    return {**document, "settings": settings}


def _only(values: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def _training(training: Mapping[str, Any], *, publishes_rows: bool) -> dict[str, Any]:
    """The figures of the model. The noise goes down: it is calibrated to the number of private records."""
    kept = _only(training, (*_TRAINING, *(("num_public_records",) if publishes_rows else ())))
    return kept | {"noise_multiplier": coarse(kept.get("noise_multiplier"), _CLAIM_DIGITS, "down")}


def _without_plugin(name: str | None) -> str | None:
    """A plug-in's import path may name a customer."""
    return "plug-in" if name is not None and ":" in name else name


def _metrics(metrics: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    kept = _only(metrics, keys)
    for key, direction in _DIRECTIONS.items():
        if key in kept:
            kept[key] = coarse(kept[key], _RATE_DIGITS, direction)
    for key in ("epsilon", "delta", "epsilon_this_model", "epsilon_dp"):
        kept[key] = coarse(kept.get(key), _CLAIM_DIGITS, "up")
    kept["noise_multiplier"] = coarse(kept.get("noise_multiplier"), _CLAIM_DIGITS, "down")
    return kept


def _bound(settings: Mapping[str, Mapping[str, Any]]) -> int | None:
    """The largest number of records of a person, if a setting fixed it without a look at the private text."""
    guarantee = settings.get("guarantee") or {}
    return guarantee.get("owner_bound") if guarantee.get("owner_bound_basis") not in (None, "measured") else None


def _person(person: Mapping[str, Any] | None, bound: int | None, *, publishes_counts: bool) -> dict[str, Any] | None:
    """The figures of people, rounded as those of claims. How many records people have is a private count."""
    if person is None:
        return None

    def of_bound(figure: Mapping[str, Any]) -> dict[str, Any]:
        is_bound = bound is not None and figure["num_records"] == bound
        return {**figure, "whose": ["bound" if who == "most" and is_bound else who for who in figure["whose"]]}

    def told(part: Mapping[str, Any]) -> dict[str, Any]:
        named = map(of_bound, part["figures"])
        figures = [f for f in named if publishes_counts or _UNCOUNTED.issuperset(f["whose"])]
        return {**part, "figures": [{**f, "epsilon": coarse(f["epsilon"], _CLAIM_DIGITS, "up")} for f in figures]}

    counts = {} if publishes_counts else {"num_people": None}
    return {**told(person), **counts, "together": person["together"] and told(person["together"])}


def _audit(audit: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Of each attack its one figure: lower bounds on epsilon, best AUC, largest exposure. None: nobody attacked."""
    if audit is None:
        return None
    lower, membership, exposure = audit["epsilon_lower"], audit["membership"], audit["exposure"]
    best = membership and membership["best"]
    people = [
        {
            "num_records": game["num_records"],
            "epsilon_lower": coarse(game["lower"]["value"], _RATE_DIGITS, "down"),
            "claims": [
                {"whose": c["whose"], "epsilon": coarse(c["epsilon"], _RATE_DIGITS, "up")} for c in game["claims"]
            ],
        }
        for game in audit.get("person") or ()
    ]
    largest = max((group["maximum"] for group in exposure["groups"]), default=None) if exposure else None
    return {
        "epsilon_lower": coarse(lower["value"], _RATE_DIGITS, "down") if lower else None,
        **({"person": people} if people else {}),
        "membership_auc": coarse(best["auc"], _RATE_DIGITS) if best else None,
        "exposure": coarse(largest, _RATE_DIGITS),
    }


def _rates(miss_rate: Mapping[str, Any]) -> dict[str, Any]:
    kept = _only(miss_rate, _MISS_RATE)
    if kept.get("worst_label"):
        kept["worst_label"] = _only(kept["worst_label"], ("mu", "false_negative_rate", "delta2"))
    if links := miss_rate.get("reidentification"):  # neither counts nor anything of the table
        texts = {name: _only(links[name], ("best", "linked", "correct")) for name in ("original", "redacted")}
        kept["reidentification"] = {"confidence": links["confidence"], **texts}
    rounded: dict[str, Any] = _coarse_rates(kept)
    return rounded


def _coarse_rates(values: Any, direction: Direction = "nearest") -> Any:
    """All numbers below ``values`` with few digits. The second of a pair and whatever is in `_ROUNDED_UP` go up."""
    if isinstance(values, Mapping):
        return {
            key: value if key == "confidence" else _coarse_rates(value, "up" if key in _ROUNDED_UP else direction)
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
    plugins = [name for name in policies if ":" in name]

    def published(assumptions: Iterable[str]) -> list[str]:
        kept = [_COUNTED_WARNING if text in counted else text for text in assumptions]
        for name in plugins:
            kept = [text.replace(name, "plug-in") for text in kept]
        return list(dict.fromkeys(kept))

    numbers = ("epsilon", "delta", "epsilon_unamplified")
    return {
        **claim,
        **{key: coarse(claim[key], _CLAIM_DIGITS, "up") for key in numbers},
        "together": claim["together"]
        and {
            **claim["together"],
            **{key: coarse(claim["together"][key], _CLAIM_DIGITS, "up") for key in ("epsilon", "delta")},
            "assumptions": published(claim["together"].get("assumptions") or ()),
        },
        "assumptions": published(claim["assumptions"]),
        "as_in_paper": _coarse_rates(claim["as_in_paper"]),
    }
