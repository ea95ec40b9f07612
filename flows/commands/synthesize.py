"""``reticent synthesize``: runs the job with synthetic text switched on, and describes the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.commands.run import run_job
from flows.running.spec import open_store
from pipelines.errors import StageError
from pipelines.numbers import upper_bound
from pipelines.settings.loading import ENV_PREFIX, load_settings
from pipelines.store.objects import runs
from pipelines.store.place.roots import Roots

_CLAIM_FIELDS = ("num_rows", "num_filtered", "notion", "epsilon", "delta", "is_guarantee", "not_guaranteed_because")


def synthesize_document(
    config: Path, environ: Mapping[str, str], *, rows: int | None = None, force: Sequence[str] = ()
) -> dict[str, Any]:
    """Runs stages that are not up to date, including synthetic text, and describes the table.

    Returns:
        A dictionary of ``num_rows``, ``path`` (of the Parquet file), ``epsilon``, ``delta``, ``is_guarantee``,
        ``is_published``, …, and counts of private text in the table: ``replayed``, ``gate_hits`` and the rates of a
        model that never saw the text.

    Raises:
        ReticentError: a stage failed.
    """
    prefix = f"{ENV_PREFIX}SYNTHESIZE__"
    switched = {**environ, f"{prefix}ENABLED": "true", **({f"{prefix}ROWS": str(rows)} if rows is not None else {})}
    record = run_job(config, from_stage=None, only=None, force=force, verify=None, environ=switched)
    roots = open_store(load_settings(config, switched))
    key, check = (runs.key_in(record, stage) for stage in ("synthesize", "synthesize_check"))
    if key is None or check is None:
        raise StageError(
            "nothing was written: this run kept an earlier model (because of train.when, or because documents were "
            "forgotten since), which was not trained on the present text. `reticent run --force train` trains one"
        )
    found = roots.private_files("synthesize", key).json("synthetic.json")
    return {
        **{name: found[name] for name in _CLAIM_FIELDS},
        **_counted(roots.private_files("synthesize_check", check).json("check.json")),
        "path": str(_table(roots, key, is_published=found["is_published"])),
        "is_published": found["is_published"],
        "run_id": record["run_id"],
        "outputs": dict(record["outputs"]),
    }


def _counted(check: Mapping[str, Any]) -> dict[str, Any]:
    """Returns counts of private text in the table, for the operator only, because epsilon does not cover them."""
    replay, finds = check["replay"], check["finds"]

    def rows(found: Mapping[str, Any] | None, name: str) -> Any:
        return None if found is None or found["start"] is None else found["start"]["rows"][name]

    return {
        "replayed": replay["table"]["rows"]["num_hits"],
        "replayed_unpublished": replay["table"]["rows_unpublished"]["num_hits"],
        "replayed_rate": replay["table"]["rows"]["value"],
        "replayed_rate_at_start": [rows(replay, "low"), rows(replay, "value"), rows(replay, "high")],
        "replayed_p_value": replay["table"]["p_value"],
        "gate_hits": None if finds is None else finds["table"]["rows"]["num_hits"],
        "gate_hits_rate_at_start": [rows(finds, "low"), rows(finds, "value"), rows(finds, "high")],
    }


def _table(roots: Roots, key: str, *, is_published: bool) -> Path:
    if is_published:
        return roots.object_dir("public", "synthesize", key) / "synthetic.parquet"
    return roots.object_dir("private", "synthesize", key) / "private_synthetic.parquet"


def synthesize_text(document: Mapping[str, Any]) -> str:
    """Formats the document for people."""
    where = "public root" if document["is_published"] else "private root, like its model"
    lines = [
        f"synthetic text of run {document['run_id']}",
        f"  rows          {document['num_rows']:,}; {document['num_filtered']:,} dropped by public policies",
        f"  table         {document['path']} ({where})",
    ]
    if document["is_guarantee"]:
        lines.append(
            f"  claim         epsilon {upper_bound(document['epsilon'])} at delta "
            f"{upper_bound(document['delta'])} ({document['notion'].replace('_', ' ')}): the model's, by "
            "post-processing"
        )
    else:
        lines.append(f"  claim         NO GUARANTEE: {'; '.join(document['not_guaranteed_because'])}")
    finds = "not searched" if document["gate_hits"] is None else f"{document['gate_hits']:,} rows with a masked string"
    lines.append(
        f"  trusted side  {document['replayed']:,} rows replay a passage of one training document (p = "
        f"{document['replayed_p_value']:.2g} against held-out documents), {document['replayed_unpublished']:,} of them "
        f"a passage that is not published; {finds}. These counts come from private text: do not pass them on, and "
        "base no decision on them (docs/releasing.md)"
    )
    return "\n".join(lines)
