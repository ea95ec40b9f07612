"""The tasks, one for each stage. Names and titles come from the graph, and a task only calls the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect import State, Task

from pipelines.graph import GRAPH
from pipelines.store.place.outcome import PartitionKeys
from tasks.base import OPTIONS, build


def _task(name: str) -> Task[Any, State[Any]]:
    stage = GRAPH[name]

    def run(run: str, inputs: Mapping[str, PartitionKeys]) -> State[Any]:
        return build(run, name, inputs)

    run.__name__ = run.__qualname__ = name  # Prefect tells tasks apart by it
    run.__doc__ = stage.title
    return Task(run, name=name, task_run_name=stage.shown_name.replace(".", " "), **OPTIONS)


split = _task("split")
dedup_keys = _task("dedup_keys")
dedup_buckets = _task("dedup_buckets")
dedup_resolve = _task("dedup_resolve")
dedup_mask = _task("dedup_mask")
redact = _task("redact")
sample = _task("sample")
stability = _task("stability")
estimate = _task("estimate")
gate_strings = _task("gate_strings")
gate = _task("gate")
shard = _task("shard")
publish = _task("publish")
train_phase1 = _task("train_phase1")
train = _task("train")
evaluate = _task("evaluate")
train_utility = _task("train_utility")
guarantee = _task("guarantee")
audit_model = _task("audit_model")
audit_membership = _task("audit_membership")
audit_extraction = _task("audit_extraction")
audit_canaries = _task("audit_canaries")
audit_secrets = _task("audit_secrets")
audit_domain_models = _task("audit_domain_models")
audit_domains = _task("audit_domains")
audit = _task("audit")
synthesize_rows = _task("synthesize_rows")
synthesize = _task("synthesize")
synthesize_check = _task("synthesize_check")
report = _task("report")
