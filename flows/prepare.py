"""The flow of the preparation, from raw text to measured public and private sets. CRT Algorithm 1, lines 1 to 4."""

from __future__ import annotations

from prefect import flow

from flows.running.ending import one_message
from flows.running.lifecycle import require_usable_input, run_of
from flows.running.spec import PREPARATION
from flows.running.wiring import Outputs, each, whole
from tasks import stages


@flow(name="prepare", persist_result=False)
@one_message
def prepare(config: str = "reticent.toml") -> dict[str, Outputs]:
    """Splits, deduplicates, redacts, measures and shards.

    Args:
        config: settings file, or specification of a run that has begun
    """
    with run_of(config, PREPARATION) as run:
        sentences = each(stages.split, run)  # A.5: tokenise and split before anything else
        require_usable_input(run)
        keys = each(stages.dedup_keys, run, split=sentences)
        found = each(stages.dedup_buckets, run, dedup_keys=keys)
        duplicates = whole(stages.dedup_resolve, run, dedup_keys=keys, dedup_buckets=found)
        decisions = each(stages.dedup_mask, run, split=sentences, dedup_resolve=duplicates)  # line 1: D' = Dedup(D)
        redacted = each(stages.redact, run, split=sentences, dedup_mask=decisions)  # line 2: D'' = Redact_pi(D')
        sampled = whole(stages.sample, run, split=sentences)
        # Proposition 5: D'' as of D
        stable = each(stages.stability, run, sample=sampled, split=sentences, redact=redacted)
        estimated = whole(stages.estimate, run, sample=sampled, split=sentences, redact=redacted, stability=stable)
        masked = each(stages.gate_strings, run, split=sentences, redact=redacted)
        passed = whole(stages.gate, run, gate_strings=masked, redact=redacted)  # holds back rows with masked strings
        shards = each(stages.shard, run, redact=redacted, gate=passed)  # lines 3 and 4: D_pri and D_pub
        published = each(stages.publish, run, shard=shards, gate=passed)  # only if method or settings ask for it
    return {
        "split": sentences,
        "dedup_resolve": duplicates,
        "redact": redacted,
        "estimate": estimated,
        "gate": passed,
        "shard": shards,
        "publish": published,
    }
