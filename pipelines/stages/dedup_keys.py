"""Dedup, step 1 of 3: the 128-bit key of every sentence of one partition."""

from __future__ import annotations

from typing import Any

from pipelines.context import StageContext


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``keys.parquet``: one row per sentence, in the same order."""
    from pipelines.dedup.keys import KeyMaker
    from pipelines.tables import TableWriter, iter_batches

    config = ctx.configs["dedup"]
    maker = KeyMaker(config.normalise, config.hash_seed)
    source = ctx.one("split").private("sentences.parquet")
    columns = ["doc_id", "sentence_index", "text", "token_starts", "speaker", "domain", "fold", "label"]
    num_in_scope = 0
    with TableWriter(ctx.private_dir / "keys.parquet", "keys") as writer:
        for batch in iter_batches(source, "sentences", columns):
            lengths = batch.column("token_starts").value_lengths().to_pylist()
            folds = batch.column("fold").to_pylist()
            in_scope = [f == "train" and n >= config.min_tokens for f, n in zip(folds, lengths, strict=True)]
            fields = zip(*(batch.column(name).to_pylist() for name in ("speaker", "domain", "label")), strict=True)
            high, low = maker.keys(batch.column("text").to_pylist(), fields, in_scope)
            writer.extend(
                {
                    "doc_id": batch.column("doc_id").to_pylist(),
                    "sentence_index": batch.column("sentence_index").to_pylist(),
                    "key_high": high,
                    "key_low": low,
                    "in_scope": in_scope,
                }
            )
            num_in_scope += sum(in_scope)
            ctx.progress(writer.num_rows, None, "hashing sentences")
    return {"num_sentences": writer.num_rows, "num_in_scope": num_in_scope}
