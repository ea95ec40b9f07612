"""Facts for claims, from the settings of the preparation."""

from __future__ import annotations

from typing import Any

from pipelines.accounting.facts import CorpusFacts
from pipelines.dedup.stability import Stability, dedup_stability
from pipelines.policies import registry
from pipelines.policies.detectors.specs import SPECS


def stability_of_dedup(dedup: Any, redact: Any, *, has_public_rows: bool, reads_places: bool) -> Stability:
    """Returns how many training records one sentence of the raw corpus can change. Arguments as `corpus_facts`."""
    return dedup_stability(
        dedup.mode,
        dedup.normalise,
        dedup.verify,
        unit=dedup.unit,
        has_public_set=has_public_rows and redact.conservative is not None,
        reads_places=reads_places,
        reads_documents=any(map(registry.may_read_documents, _policies(redact))),
        reads_document_names=redact.replacement == "surrogate" and redact.surrogate_scope == "document",
    )


def _policies(redact: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*redact.policies, *((redact.conservative,) if redact.conservative else ()))))


def corpus_facts(
    dedup: Any,
    redact: Any,
    *,
    has_public_rows: bool,
    reads_places: bool,
    learnt_from_corpus: bool = False,
    holds: bool = False,
    decisions: frozenset[str] = frozenset(),
    by_person: bool = False,
) -> CorpusFacts:
    """Returns the facts of deduplication, redaction and the gate that follow from settings.

    Args:
        dedup, redact: settings tables of these names.
        has_public_rows: true if rows that the conservative policy accepts are published, or trained on without noise.
        reads_places: true if training knows which records begin or end their conversation.
        learnt_from_corpus: true if policies learnt from sentences of the corpus (`pipelines.miss_rate.learnt`).
        holds: true if the gate holds rows with a find (`GateConfig.holds`).
        decisions: decisions beyond a row that settings asked for (`pipelines.accounting.decisions.made`).
        by_person: true if the text of each person was deduplicated by itself.
    """
    policies = _policies(redact)
    specs = [(name, registry.spec(name)) for name in policies]
    fitted = tuple(name for name, spec in specs if spec is not None and spec.is_fitted)
    plugins = (*(name for name in policies if name not in SPECS), *redact.recognizers)  # code of other packages
    stability = stability_of_dedup(dedup, redact, has_public_rows=has_public_rows, reads_places=reads_places)
    coupled = {
        "deduplication compared the text of different people (dedup.scope = corpus)": not by_person,
        "policies of redaction learnt from sentences of this corpus": learnt_from_corpus and bool(fitted),
        "nobody can check what plug-ins among the policies of redaction remember": bool(plugins),
    }
    return CorpusFacts(
        dedup_stability=stability.replace_one,
        dedup_reason=stability.reason,
        dedup_min_tokens=dedup.min_tokens,
        has_conservative=redact.conservative is not None,
        reads_documents=tuple(name for name, spec in specs if spec is not None and spec.reads_documents),
        fitted=() if learnt_from_corpus else fitted,
        learnt=fitted if learnt_from_corpus else (),
        plugins=plugins,
        collapses=redact.collapse,
        replacement=redact.replacement,
        # A plug-in cannot be checked, and selective DP would rest on it.
        redactor_is_stable=all(name in SPECS and SPECS[name].is_stable for name in policies),
        # Without a conservative policy no row would be public, so none can be held.
        holds_rows=holds and redact.conservative is not None,
        decisions=decisions,
        couples_people=tuple(how for how, does in coupled.items() if does),
    )
