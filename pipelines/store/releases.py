"""What a run has to know of releases on its files, and what the ledger keeps of the preparation behind a release."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.context import Releases
from pipelines.store import manifest as manifests
from pipelines.store.anchors import release_stages
from pipelines.store.files import canonical_json
from pipelines.store.keys import make_key, own_ingredients
from pipelines.store.ledger import data_tokens, document_of, read_ledger
from pipelines.store.roots import Roots
from pipelines.store.session import Session

if TYPE_CHECKING:
    from pipelines.accounting.ledger import Scope

_RECIPE = ("split", "dedup_keys", "dedup_resolve", "dedup_mask", "redact")
"""The stages that decide what is masked in a sentence, and what passes as public."""


def redaction_recipe(session: Session) -> str:
    """Identifies how the run's settings, code and packages redact a sentence."""
    own = {stage: {**own_ingredients(session, stage), "seed": None} for stage in _RECIPE}
    return make_key(session, {"redaction": own})[:16]


def redacted_output(session: Session, inputs: Mapping[str, Sequence[tuple[str | None, str]]]) -> str | None:
    """Identifies the run's redacted text by its contents; None where a stage was not handed it."""
    digests = []
    for _, key in inputs.get("redact", ()):
        manifest = manifests.load(session.roots, "redact", key)
        if manifest is None:
            return None
        digests.append(manifest.output_digest(("redacted.parquet",)))
    return hashlib.sha256(canonical_json(sorted(digests))).hexdigest()[:16] if digests else None


def preparation_facts(
    session: Session, training: Mapping[str, Any], inputs: Mapping[str, Sequence[tuple[str | None, str]]]
) -> dict[str, Any]:
    """The fields of `ReleaseFacts` that the settings of the preparation tell.

    Args:
        session: the run.
        training: the fields that training tells.
        inputs: keys of the release's inputs.
    """
    from pipelines.accounting.corpus_facts import corpus_facts
    from pipelines.stages.shard import publishes_rows

    configs: Mapping[str, Any] = session.configs
    publishes = publishes_rows(configs, training["method"])
    corpus = corpus_facts(
        configs["dedup"],
        configs["redact"],
        has_public_rows=publishes or bool(training["trains_on_public_rows"]),
        reads_places=bool(configs["train"].conversation_tokens),
    )
    reads_original = all(phase["rows"] == "original" for phase in training["phases"])
    output = redacted_output(session, inputs)
    return {
        "redactions": [redaction_recipe(session), *([output] if output else [])],
        "sentence_stability": 1 if reads_original else corpus.dedup_stability,
        "publishes_rows": publishes,
    }


def releases_on_files(session: Session) -> Releases:
    """The published releases that may share a record with the run, oldest first, whatever key they have.

    Raises:
        LedgerError: the ledger is not as it was written.
    """
    from pipelines.accounting.ledger import overlapping

    everything = [r for r in read_ledger(session.roots) if r.state == "published"]
    tokens = data_tokens(session)
    scope: Scope = getattr(session.configs.get("guarantee"), "budget_scope", "overlap")
    found = []
    for group in overlapping(everything, scope):
        if any(r.tokens is None or tokens & r.tokens for r in group):
            found += list(group)
    order = {r.release_id: n for n, r in enumerate(everything)}
    return Releases(
        published=tuple(sorted(found, key=lambda r: order[r.release_id])),
        redaction=redaction_recipe(session),
        adopted=adopted_models(session.roots),
    )


def adopted_models(roots: Roots) -> dict[str, str]:
    """Keys of models that were adopted under another key, with the key before (`pipelines.store.maintenance.adopt`)."""
    found = {}
    for stage in release_stages():
        for path in sorted((roots.private / "manifests" / stage).glob("*.json")):
            manifest = manifests.load(roots, stage, path.stem)
            if manifest is not None and manifest.lineage.get("adopted_from"):
                found[path.stem] = str(manifest.lineage["adopted_from"])
    return found


def digest_of(releases: Releases) -> str:
    """What of the releases enters the key of a stage that reads them."""
    documents = [{**document_of(r), "tokens": None, "run_id": None} for r in releases.published]
    return hashlib.sha256(canonical_json([releases.redaction, documents])).hexdigest()
