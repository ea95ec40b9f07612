"""A corpus of any size for `benchmarks/growth.py`, of which nothing is split: altered copies of a smaller one.

Every partition is one copy of the sentences of 15,000 CustomerSim dialogues as the stage ``split`` made them. What
occurs once in these has the copy's number behind it, so that it stays the only one of its kind; what repeats there
repeats in every copy. Names of documents begin with the copy's number. The share of duplicates is then about that of
as many dialogues, and **all copies hold the same repeated sentences**, where real text would have further ones.

The settings file names a corpus of one short row for each partition, and as many buckets as the text would have, had it
been input. All stages but the first run as they do anywhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from common import write_lines

from pipelines.context import StageContext
from pipelines.corpus.tables import SENTENCES
from pipelines.dedup.hash_ranges import usual_buckets

ORIGINAL = "original"
"""The file beside the settings that names the folder of the smaller corpus."""


def write_copies(folder: Path, original: Path, copies: int, settings: str) -> Path:
    """Writes a settings file whose corpus is made when its stage ``split`` is built, unless the file is there."""
    config = folder / "reticent.toml"
    if not config.exists():
        rows = ({"id": str(number), "text": f"copy {number}"} for number in range(copies))
        write_lines(folder / "corpus" / "copies.jsonl", rows)
        (folder / "secret").write_text("5e" * 32)
        (folder / ORIGINAL).write_text(str(original), encoding="utf-8")
        buckets = usual_buckets(copies * input_bytes(original))
        config.write_text(settings.format(partition_documents=1) + f"[dedup]\nbuckets = {buckets}\n")
    return config


def input_bytes(folder: Path) -> int:
    """Returns the size of a project's corpus; of copies, the size that their text would have as input."""
    if (folder / ORIGINAL).exists():
        copies = len((folder / "corpus" / "copies.jsonl").read_text("utf-8").splitlines())
        return copies * input_bytes(Path((folder / ORIGINAL).read_text("utf-8")))
    return sum(file.stat().st_size for file in (folder / "corpus").iterdir())


def copy_instead_of_splitting(folder: Path) -> None:
    """Lets this process copy instead of splitting, if a project is one of copies."""
    if (folder / ORIGINAL).exists():
        from pipelines.stages.prepare import split

        split.run = copier(Path((folder / ORIGINAL).read_text("utf-8")))


def copier(original: Path) -> Callable[[StageContext], Mapping[str, Any]]:
    """Returns a stage ``split`` whose output is one copy of another project's sentences."""

    @functools.cache  # read only if a copy has to be made
    def read() -> tuple[pa.Table, pa.ChunkedArray]:
        """Returns the sentences, with a flag for each that is the only one of its text."""
        files = sorted((original / "reticent-store" / "private" / "objects" / "split").glob("*/sentences.parquet"))
        sentences = pa.concat_tables(pq.read_table(file, schema=SENTENCES.columns) for file in files).combine_chunks()
        counted = pc.value_counts(sentences["text"].combine_chunks())
        once = counted.field("values").filter(pc.equal(counted.field("counts"), 1))
        return sentences, pc.is_in(sentences["text"], value_set=once)

    def run(ctx: StageContext) -> Mapping[str, Any]:
        sentences, occurs_once = read()
        (piece,) = ctx.outside.pieces
        number = str(piece.first_row)
        altered = pc.binary_join_element_wise(sentences["text"], number, " ")
        columns = {name: sentences[name] for name in SENTENCES.names}
        columns["text"] = pc.if_else(occurs_once, altered, sentences["text"])
        columns["doc_id"] = pc.binary_replace_slice(sentences["doc_id"], 0, 4, f"{piece.first_row:04x}")
        with ctx.out.table(SENTENCES) as writer:
            writer.write(columns)
        return {"num_sentences": writer.num_rows}

    return run
