"""Every table of the stages by its name, for tests that write and read them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipelines.corpus.tables import DOCUMENTS, GOLD, REJECTED, SENTENCES, SPEAKERS
from pipelines.dedup.key_tables import FOUND, KEYS
from pipelines.dedup.tables import DECISIONS, DUPLICATES, MASKED
from pipelines.gate.tables import GATE_HITS, GATE_INDEX, GATE_STRINGS
from pipelines.miss_rate.tables import CHOSEN, SAMPLE, STABILITY
from pipelines.policies.held import HELD
from pipelines.policies.sharding import PUBLIC_IDS, PUBLISHED, SHARD
from pipelines.policies.tables import REDACTED, SURROGATES
from pipelines.tables import Table, TableWriter
from pipelines.training.scoring.tables import GENERATED, TOKEN_SCORES

SCHEMAS = {
    schema.name: schema
    for schema in (
        SENTENCES, DOCUMENTS, REJECTED, GOLD, KEYS, FOUND, DUPLICATES, DECISIONS, MASKED, REDACTED, SHARD, PUBLISHED,
        PUBLIC_IDS, SAMPLE, CHOSEN, STABILITY, GATE_STRINGS, GATE_INDEX, GATE_HITS, HELD, TOKEN_SCORES, GENERATED,
        SURROGATES, SPEAKERS,
    )
}  # fmt: skip


def table_at(path, name):
    """The table of a name in a file."""
    return Table(path, SCHEMAS[name])


def read_table(path, name):
    """All of it."""
    return table_at(path, name).read()


def table_writer(path, name):
    """Writes it."""
    return TableWriter(path, SCHEMAS[name])


_ROW = {"doc_id": "d", "sentence_index": 0, "speaker": None, "domain": None, "label": None}
DEFAULTS: dict[str, dict[str, Any]] = {
    "sentences": {
        **_ROW, "text": "Hello", "token_starts": [0], "token_ends": [5], "char_start": 0, "is_overlong_piece": False,
        "fold": "train",
    },
    "redacted": {
        **_ROW, "redacted_text": "x", "spans": [], "flagged_by_conservative": False, "num_tokens": 1,
        "num_masked_tokens": 0, "is_duplicate": False, "failed_closed": False, "fold": "train",
    },
    "shard": {**_ROW, "redacted_text": "x", "num_tokens": 1, "num_masked_tokens": 0},
    "documents": {
        "doc_id": "d", "source_file": "f", "source_row": 1, "source_id": None, "num_sentences": 1, "num_tokens": 1,
        "num_chars": 1, "fold": "train", "has_gold": False,
    },
}  # fmt: skip
"""A row of each table, for the columns that a test does not care about."""


def span_of(start: int, end: int, label: str = "NAME") -> dict[str, Any]:
    """A masked span of a row, as one token."""
    return {"start": start, "end": end, "start_token": 0, "end_token": 1, "label": label, "policy": "p", "score": 1.0}


def write_rows(path: Path, schema: str, rows: Iterable[Mapping[str, Any]], **common: Any) -> None:
    """Writes a table, and makes its folder.

    Args:
        path, schema: the file, and the table that it holds.
        rows: what is special about each row.
        common: what is told of all rows; the other columns are those of `DEFAULTS`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with table_writer(path, schema) as writer:
        for row in rows:
            writer.append(**{**DEFAULTS.get(schema, {}), **common, **row})
