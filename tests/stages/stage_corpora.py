"""Small corpora as the stages before train leave them, in one partition."""

from contextlib import ExitStack
from typing import NamedTuple

from support.contexts import artifact
from support.tables import table_writer

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
    with ExitStack() as stack:
        sentences, redacted, private, public = (
            stack.enter_context(table_writer(folder / path, schema))
            for path, schema in (
                ("split/sentences.parquet", "sentences"),
                ("redact/redacted.parquet", "redacted"),
                ("shard/private.parquet", "shard"),
                ("shard/public.parquet", "shard"),
            )
        )
        for row in map(Row._make, rows):
            head = head_of(row)
            shown = row.text if row.secret is None else row.text.replace(row.secret, MASK, 1)
            spans = []
            if row.secret is not None:
                start = row.text.index(row.secret)
                spans = [{"start": start, "end": start + len(row.secret), "start_token": 0, "end_token": 1}]
                spans[0] |= {"label": "NAME", "policy": "p", "score": 1.0}
            sentences.append(
                **head, fold=row.fold, text=row.text, token_starts=[0], token_ends=[9], char_start=0,
                is_overlong_piece=False,
            )  # fmt: skip
            redacted.append(
                **head, fold=row.fold, redacted_text=shown, spans=spans, flagged_by_conservative=False, num_tokens=6,
                num_masked_tokens=len(spans), is_duplicate=False, failed_closed=False,
            )  # fmt: skip
            if row.fold == "train":
                shard = {**head, "redacted_text": shown, "num_tokens": 6, "num_masked_tokens": len(spans)}
                (public if row.secret is None else private).append(**shard)


def head_of(row):
    """What every table says of a row."""
    named = {"speaker": row.speaker, "domain": None, "label": row.label}
    return {"doc_id": f"{row.document:032d}", "sentence_index": row.index, **named}


def artifacts(folder):
    """What stands in a folder that `write_corpus` filled."""
    return {name: artifact(name, folder / name, "p") for name in STAGES}


def write_stability(path, rows, num_tokens, unstable=(), loose=(), elsewhere=()):
    """A verdict on every run of tokens of every row, whether it is a secret or not: stable, but for the rows named."""
    with table_writer(path, "stability") as writer:
        for doc_id, index in rows:
            row = doc_id, index
            reason = "document" if row in elsewhere else "sentence" if row in unstable else "stable"
            for start in range(num_tokens):
                for end in range(start + 1, num_tokens + 1):
                    writer.append(
                        doc_id=doc_id,
                        sentence_index=index,
                        start_token=start,
                        end_token=end,
                        is_stable=reason == "stable",
                        is_stable_together=reason == "stable" and row not in loose,
                        reason=reason,
                    )
