"""Dedup, step 1 of 3: the 128-bit key of every sentence of one partition."""

from __future__ import annotations

from typing import Any

from pipelines.context import StageContext


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``keys.parquet``: one row per sentence, in the same order."""
    import pyarrow.compute as pc

    from pipelines.dedup.kernels import compiled
    from pipelines.dedup.keys import KeyMaker
    from pipelines.tables import TableWriter, iter_batches, open_table

    config = ctx.configs["dedup"]
    source = ctx.one("split").private("sentences.parquet")
    with open_table(source, "sentences") as table:
        maker = KeyMaker(config.normalise, config.hash_seed, compiled(table.metadata.num_rows))
    columns = ["doc_id", "sentence_index", "text", "token_starts", "speaker", "domain", "fold", "label"]
    num_in_scope = 0
    with TableWriter(ctx.private_dir / "keys.parquet", "keys") as writer:
        for batch in iter_batches(source, "sentences", columns):
            lengths = batch.column("token_starts").value_lengths().to_numpy(zero_copy_only=False)
            folds = pc.equal(batch.column("fold"), "train").to_numpy(zero_copy_only=False)
            in_scope = folds & (lengths >= config.min_tokens)
            fields = [batch.column(name) for name in ("speaker", "domain", "label")]
            high, low = maker.key_arrays(batch.column("text"), fields, in_scope)
            writer.write(
                {
                    "doc_id": batch.column("doc_id"),
                    "sentence_index": batch.column("sentence_index"),
                    "key_high": high,
                    "key_low": low,
                    "in_scope": in_scope,
                }
            )
            num_in_scope += int(in_scope.sum())
            ctx.progress(writer.num_rows, None, "hashing sentences")
    return {"num_sentences": writer.num_rows, "num_in_scope": num_in_scope}
