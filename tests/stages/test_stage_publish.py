"""The publish step: which rows leave the private root, and what they tell beside their text."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from support.contexts import stage_context
from support.tables import DEFAULTS, read_table, write_rows

from pipelines.errors import PrivacyGateError
from pipelines.policies.sharding import content_key
from pipelines.settings.shard import ShardConfig
from pipelines.settings.train import TrainConfig
from pipelines.stages.prepare.publish import run

ROWS = [("d2", 7, "again"), ("d1", 3, "hello there"), ("d1", 9, "again"), ("d3", 0, "good day")]


def publish(root: Any, rows: Any = ROWS, method: str = "crt", publish: str = "auto", masked: int = 0) -> Any:
    told = DEFAULTS["shard"] | {"num_tokens": 2, "num_masked_tokens": masked, "speaker": "A"}
    made = [told | {"doc_id": doc, "sentence_index": index, "redacted_text": text} for doc, index, text in rows]
    made.sort(key=lambda row: (content_key(row), row["doc_id"], row["sentence_index"]))
    write_rows(root / "shard/public.parquet", "shard", made)
    configs = {"shard": ShardConfig(publish=publish), "train": TrainConfig(method=method)}
    more = {"public_folder": root / "public", "secret": b"secret"}
    counts = run(stage_context("publish", root / "private", configs, {"shard": root / "shard"}, partition="p", **more))
    public = read_table(root / "public/public.parquet", "published").to_pylist()
    ids = read_table(root / "private/public_ids.parquet", "public_ids").to_pylist()
    assert counts == {"num_published": len(public)}
    return public, ids


def test_published_rows_tell_neither_document_nor_place(tmp_path: Any) -> None:
    """Guards gaps between sentence numbers, which show where private sentences stand."""
    public, ids = publish(tmp_path)
    frame = pl.read_parquet(tmp_path / "public/public.parquet")
    assert set(frame.columns) == {"row_id", "redacted_text", "num_tokens", "speaker", "domain", "label"}
    raw = (tmp_path / "public/public.parquet").read_bytes()
    assert b"doc_id" not in raw
    assert b"sentence_index" not in raw
    assert len({row["row_id"] for row in public}) == len(ROWS)  # equal rows are told apart
    back = {row["row_id"]: (row["doc_id"], row["sentence_index"]) for row in ids}
    found = sorted((*back[row["row_id"]], row["redacted_text"]) for row in public)
    assert found == sorted(ROWS)


def test_the_published_bytes_do_not_depend_on_where_rows_stand(tmp_path: Any) -> None:
    """Guards the neighbouring world: other documents and other gaps, the same public rows."""
    publish(tmp_path / "one")
    publish(tmp_path / "other", [(f"x{n}", 100 * n, text) for n, (_, _, text) in enumerate(reversed(ROWS))])
    one, other = (tmp_path / name / "public/public.parquet" for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("method", "setting", "is_public"),
    [
        ("crt", "auto", True), ("dpsgd", "auto", False), ("jft", "auto", False), ("redacted", "auto", False),
        ("dpsgd", "always", True), ("crt", "never", False),
    ],
)  # fmt: skip
def test_a_table_is_published_where_the_method_or_the_settings_ask(
    tmp_path: Any, method: str, setting: str, is_public: bool
) -> None:
    """Guards tables of methods that need none, in which a missed secret is given away."""
    public, ids = publish(tmp_path, method=method, publish=setting)
    assert (len(public), len(ids)) == ((4, 4) if is_public else (0, 0))


def test_a_row_with_a_mask_is_never_published(tmp_path: Any) -> None:
    with pytest.raises(PrivacyGateError, match="with a mask was about to be published"):
        publish(tmp_path, masked=1)
    assert not (tmp_path / "public/public.parquet").exists()
