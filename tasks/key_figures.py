"""The line that a stage leaves in Prefect's log: its key figure. Only numbers, never text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pipelines.numbers import real
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects.session import Session
from pipelines.store.place.outcome import Outcome

_LINES: Final[Mapping[str, str]] = {
    "split": "{num_sentences:,} sentences in {num_documents:,} documents, {num_rejected:,} rows rejected",
    "dedup_keys": "{num_in_scope:,} sentences compared",
    "dedup_buckets": "{num_duplicates:,} duplicates found",
    "dedup_resolve": "{num_duplicates:,} duplicates",
    "dedup_mask": "{num_duplicates:,} of {num_sentences:,} sentences masked as duplicates",
    "redact": "{num_masked_tokens:,} of {num_tokens:,} tokens masked, {num_failed_closed:,} rows masked whole",
    "sample": "{num_sampled_sentences:,} sentences to review",
    "stability": "{num_unstable_secrets:,} of {num_caught_secrets:,} caught secrets not masked stably",
    "estimate": "{num_sampled_sentences:,} sentences judged, {num_secret_spans:,} secrets in them",
    "gate_strings": "{num_strings:,} masked strings to search for",
    "gate": "{num_strings:,} strings searched in {num_public_rows:,} public rows, {num_held_rows:,} rows held back",
    "shard": "{num_public:,} public and {num_private:,} private rows",
    "publish": "{num_published:,} rows published",
    "train": "{num_steps:,} steps on {num_private_records:,} private and {num_public_records:,} public records",
    "evaluate": "{num_eval_sentences:,} held-out sentences",
    "guarantee": "{num_claims:,} claims, {num_refused:,} refused",
    "audit_membership": "{num_members:,} members and {num_non_members:,} others",
    "audit_extraction": "{num_texts:,} texts from {num_prompts:,} prompts",
    "audit_canaries": "{num_canaries:,} canaries",
    "synthesize_rows": "{num_rows:,} rows written, {num_filtered:,} left out",
    "synthesize": "{num_rows:,} rows, {num_filtered:,} left out",
}


def key_figure(session: Session, stage: str, outcomes: Iterable[Outcome]) -> str:
    """Describes what a stage made or found in the store.

    Returns:
        A line such as ``2 of 3 partitions built: 2,342 sentences in 200 documents, 0 rows rejected``.
    """
    made = [outcome for outcome in outcomes if outcome.key is not None]
    if not made:
        return "left out"
    built = sum(outcome.state == "completed" for outcome in made)
    said = f"{built} of {len(made)} partitions built" if len(made) > 1 else ("built" if built else "up to date")
    loaded = [manifests.load(session.roots, stage, outcome.key or "") for outcome in made]
    stats = [manifest.stats for manifest in loaded if manifest is not None]
    if stage == "report" and stats:
        return f"{said}: epsilon {real(stats[0].get('metrics', {}).get('epsilon'), 3, upper=True)}"
    figures: Counter[str] = Counter()
    for one in stats:
        figures.update({name: value for name, value in one.items() if _is_count(value)})
    try:
        return f"{said}: {_LINES[stage].format_map({**figures})}"
    except KeyError:  # the stage counts nothing, or an older version of it counted something else
        return said


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
