"""``reticent synthesize``: the job with synthetic text switched on, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.commands.run import run_job
from flows.running.spec import open_store
from pipelines.errors import StageError
from pipelines.settings.loading import ENV_PREFIX, load_settings
from pipelines.store.objects import runs
from pipelines.store.place.roots import Roots

_TOLD = ("num_rows", "num_filtered", "notion", "epsilon", "delta", "is_guarantee", "not_guaranteed_because")


def synthesize_document(
    config: Path, environ: Mapping[str, str], *, rows: int | None = None, force: Sequence[str] = ()
) -> dict[str, Any]:
    """Runs what is not up to date, synthetic text included, and says what there is.

    Args:
        config: the settings file.
        environ: the environment.
        rows: of the table; None as the settings have it.
        force: stages to build anew.

    Returns:
        ``num_rows``, ``path`` (of the Parquet file), ``epsilon``, ``delta``, ``is_guarantee``, ``is_published``, …; and
        of the private text, ``replayed``, ``gate_hits`` and what a model that never saw it would give.

    Raises:
        ReticentError: as the stages raise it.
    """
    prefix = f"{ENV_PREFIX}SYNTHESIZE__"
    switched = {**environ, f"{prefix}ENABLED": "true", **({f"{prefix}ROWS": str(rows)} if rows is not None else {})}
    record = run_job(config, from_stage=None, only=None, force=force, verify=None, environ=switched)
    roots = open_store(load_settings(config, switched))
    key, check = (runs.key_in(record, stage) for stage in ("synthesize", "synthesize_check"))
    if key is None or check is None:
        raise StageError(
            "nothing was written: this run kept an earlier model (train.when, or something was forgotten since), which "
            "is none of the text as it is now. `reticent run --force train` trains one"
        )
    found = roots.private_files("synthesize", key).json("synthetic.json")
    return {
        **{name: found[name] for name in _TOLD},
        **_counted(roots.private_files("synthesize_check", check).json("check.json")),
        "path": str(_table(roots, key, is_published=found["is_published"])),
        "is_published": found["is_published"],
        "run_id": record["run_id"],
        "outputs": dict(record["outputs"]),
    }


def _counted(check: Mapping[str, Any]) -> dict[str, Any]:
    """What of the private text stands in the table: for the operator's terminal, for epsilon does not cover it."""
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
    """What there is, for people."""
    from pipelines.report.numbers import real

    where = "public root" if document["is_published"] else "private root, where its model lies"
    lines = [
        f"synthetic text of run {document['run_id']}",
        f"  rows          {document['num_rows']:,}; {document['num_filtered']:,} dropped by public policies",
        f"  table         {document['path']} ({where})",
    ]
    if document["is_guarantee"]:
        lines.append(
            f"  claim         epsilon {real(document['epsilon'], upper=True)} at delta {document['delta']:g} "
            f"({document['notion'].replace('_', ' ')}): the model's, by post-processing"
        )
    else:
        lines.append(f"  claim         NO GUARANTEE: {'; '.join(document['not_guaranteed_because'])}")
    finds = "not searched" if document["gate_hits"] is None else f"{document['gate_hits']:,} rows with a masked string"
    lines.append(
        f"  trusted side  {document['replayed']:,} rows replay a passage of one training document (p = "
        f"{document['replayed_p_value']:.2g} against held-out documents), {document['replayed_unpublished']:,} of them "
        f"one that is not published anyway; {finds}. Counted on private text: do not "
        "pass it on, and let it decide nothing (docs/synthesizing.md)"
    )
    return "\n".join(lines)
