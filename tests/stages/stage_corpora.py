"""Small corpora as the stages before train leave them, in one partition."""

from typing import NamedTuple

from support.contexts import artifact
from support.tables import span_of, table_writer, write_rows

MASK = "<MASK>"
STAGES = ("split", "redact", "shard", "estimate")


class Row(NamedTuple):
    """A row of a corpus; ``secret`` is what of its text is masked, None in a public row."""

    document: int
    index: int
    text: str
    secret: str | None
    speaker: str | None
    label: str | None
    fold: str


def write_corpus(folder, rows):
    """Writes sentences, redacted rows and shards; `artifacts` names them. An empty folder ``estimate`` stands by."""
    for name in STAGES:
        (folder / name).mkdir(parents=True)
    sentences, redacted, shards = [], [], {True: [], False: []}
    for row in map(Row._make, rows):
        head, shown, spans = head_of(row), row.text, []
        if row.secret is not None:
            start = row.text.index(row.secret)
            shown, spans = row.text.replace(row.secret, MASK, 1), [span_of(start, start + len(row.secret))]
        shard = {**head, "redacted_text": shown, "num_tokens": 6, "num_masked_tokens": len(spans)}
        sentences.append({**head, "fold": row.fold, "text": row.text, "token_ends": [9]})
        redacted.append({**shard, "fold": row.fold, "spans": spans})
        if row.fold == "train":
            shards[row.secret is None].append(shard)
    write_rows(folder / "split/sentences.parquet", "sentences", sentences)
    write_rows(folder / "redact/redacted.parquet", "redacted", redacted)
    write_rows(folder / "shard/private.parquet", "shard", shards[False])
    write_rows(folder / "shard/public.parquet", "shard", shards[True])


def head_of(row):
    """What every table says of a row."""
    named = {"speaker": row.speaker, "domain": None, "label": row.label}
    return {"doc_id": f"{row.document:032d}", "sentence_index": row.index, **named}


def artifacts(folder):
    """What stands in a folder that `write_corpus` filled."""
    return {name: artifact(name, folder / name, "p") for name in STAGES}


def write_stability(path, rows, num_tokens):
    """Writes that every run of tokens of every row, whether it is a secret or not, is stable."""
    with table_writer(path, "stability") as writer:
        for doc_id, index in rows:
            for start in range(num_tokens):
                for end in range(start + 1, num_tokens + 1):
                    writer.append(
                        doc_id=doc_id,
                        sentence_index=index,
                        start_token=start,
                        end_token=end,
                        is_stable=True,
                        is_stable_together=True,
                        reason="stable",
                    )
