"""Facts about the preparation behind a release that the ledger keeps: files, redaction, and stability."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.accounting.decisions import made as decisions_made
from pipelines.context import pseudonym
from pipelines.files import canonical_json
from pipelines.graph_names import PRIVATE, REDACTED
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects.keys import make_key, own_ingredients
from pipelines.store.objects.session import Session

REDACTION_STAGES = ("split", "dedup_keys", "dedup_buckets", "dedup_resolve", "dedup_mask", "redact")
"""The stages that decide what is masked in a sentence, and what passes as public."""

LATER_STAGES = frozenset({"dedup_buckets"})
"""Those of them that stores of earlier versions lack. Another stage did their work."""


def redaction_id(session: Session) -> str:
    """Identifies how the run's settings, code and packages redact a sentence."""
    return redaction_id_of(session, {stage: own_ingredients(session, stage) for stage in REDACTION_STAGES})


def redaction_id_of(session: Session, own: Mapping[str, Mapping[str, Any]]) -> str:
    """Computes `redaction_id` from the input-independent ingredients of the keys of `REDACTION_STAGES`."""
    there = {stage: {**own[stage], "seed": None} for stage in REDACTION_STAGES if stage in own}
    return make_key(session, {"redaction": there})[:16]


def redacted_output(session: Session, inputs: Mapping[str, Sequence[tuple[str | None, str]]]) -> str | None:
    """Identifies the run's redacted text by its contents; None if it is not among the inputs."""
    digests = []
    for _, key in inputs.get("redact", ()):
        manifest = manifests.load(session.roots, "redact", key)
        if manifest is None:
            return None
        digests.append(manifest.output_digest((REDACTED,)))
    return hashlib.sha256(canonical_json(sorted(digests))).hexdigest()[:16] if digests else None


def preparation_facts(
    session: Session, training: Mapping[str, Any], inputs: Mapping[str, Sequence[tuple[str | None, str]]]
) -> dict[str, Any]:
    """Returns the fields of `ReleaseFacts` that follow from the settings of the preparation."""
    from pipelines.accounting.corpus_facts import corpus_facts  # loads pyarrow
    from pipelines.settings.shard import publishes_rows

    configs: Mapping[str, Any] = session.configs
    publishes = publishes_rows(configs, training["method"])
    corpus = corpus_facts(
        configs["dedup"],
        configs["redact"],
        has_public_rows=publishes or bool(training["trains_on_public_rows"]),
        reads_places=bool(configs["train"].conversation_tokens),
        holds=configs["gate"].holds,
    )
    reads_original = all(phase["rows"] == "original" for phase in training["phases"])
    output = redacted_output(session, inputs)
    return {
        "redactions": [redaction_id(session), *([output] if output else [])],
        "sentence_stability": 1 if reads_original else corpus.dedup_stability,
        "publishes_rows": publishes,
        "holds_rows": corpus.holds_rows,
        "decisions": sorted(decisions_made(configs)),
        "recipe": session.configs["train"].recipe("train"),
        "owner_space": configs["corpus"].space_of_people,
    }


def data_tokens(session: Session) -> frozenset[str]:
    """Returns the pseudonyms of every input file's name and of every piece's content."""
    secret = session.roots.secret
    return frozenset(
        token[:16]
        for partition in session.spec.partitions
        for piece in partition.pieces
        for token in (pseudonym(secret, "file", piece.name), pseudonym(secret, "content", piece.digest))
    )


def private_data(session: Session, inputs: Mapping[str, Sequence[tuple[str | None, str]]]) -> tuple[str, int]:
    """Returns the digest of the inputs' private shards, with the run's overlay, and the number of partitions."""
    digests = []
    for _, key in inputs.get("shard", ()):
        manifest = manifests.load(session.roots, "shard", key)
        files = manifest.files if manifest else {}
        digests.append(sorted(str(e["sha256"]) for path, e in files.items() if path.endswith(f"/{PRIVATE}")))
    data: list[Any] = sorted(digests)
    if session.spec.overlay is not None:
        data.append(session.spec.overlay)
    return hashlib.sha256(canonical_json(data)).hexdigest()[:16], len(digests)
