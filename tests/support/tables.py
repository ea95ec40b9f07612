"""Every table of the stages by its name, for tests that write and read them."""

from pipelines.corpus.tables import DOCUMENTS, GOLD, REJECTED, SENTENCES
from pipelines.dedup.tables import DECISIONS, DUPLICATES, KEYS, MASKED
from pipelines.gate.tables import GATE_HITS, GATE_INDEX, GATE_STRINGS
from pipelines.miss_rate.tables import CHOSEN, SAMPLE, STABILITY
from pipelines.policies.sharding import PUBLIC_IDS, PUBLISHED, SHARD
from pipelines.policies.tables import REDACTED
from pipelines.tables import Table, TableWriter
from pipelines.training.scoring.tables import GENERATED, TOKEN_SCORES

SCHEMAS = {
    schema.name: schema
    for schema in (
        SENTENCES, DOCUMENTS, REJECTED, GOLD, KEYS, DUPLICATES, DECISIONS, MASKED, REDACTED, SHARD, PUBLISHED,
        PUBLIC_IDS, SAMPLE, CHOSEN, STABILITY, GATE_STRINGS, GATE_INDEX, GATE_HITS, TOKEN_SCORES, GENERATED,
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
