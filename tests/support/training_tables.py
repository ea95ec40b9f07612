"""Sentences, redacted tables and shards of a small corpus, written as the stages before training write them."""

import re
from collections import Counter

from pipelines.mask import MASK
from pipelines.policies.redact import redact_text
from pipelines.policies.sharding import is_private
from pipelines.training.data.corpus import TrainingTables
from support.tables import SCHEMAS, table_at, table_writer

TOKEN = re.compile(r"\w+|[^\w\s]")
SECRET = re.compile(r"\{(.*?)\}")


def parse(marked):
    """``"I am {Ann Lee}."`` gives the text without braces and the character ranges of what was inside."""
    text, ranges, at = "", [], 0
    for found in SECRET.finditer(marked):
        text += marked[at : found.start()]
        ranges.append((len(text), len(text) + len(found[1])))
        text += found[1]
        at = found.end()
    return text + marked[at:], ranges


def row_of(
    doc_id,
    index,
    marked,
    speaker=None,
    fold="train",
    *,
    domain=None,
    is_duplicate=False,
    failed_closed=False,
    flagged=False,
):
    """A sentences row and its redacted row."""
    text, ranges = parse(marked)
    tokens = [m.span() for m in TOKEN.finditer(text)]
    starts, ends = [a for a, _ in tokens], [b for _, b in tokens]
    mask = bytearray(any(a < end and start < b for start, end in ranges) for a, b in tokens)
    whole = is_duplicate or failed_closed
    spans = []
    for start, end in [] if whole else ranges:
        covered = [i for i, (a, b) in enumerate(tokens) if a < end and start < b]
        spans.append(
            {"start_token": covered[0], "end_token": covered[-1] + 1, "start": start, "end": end}
            | {"label": "NAME", "policy": "names", "score": 1.0}
        )
    common = {
        "doc_id": doc_id,
        "sentence_index": index,
        "speaker": speaker,
        "domain": domain,
        "fold": fold,
        "label": None,
    }
    sentence = {"text": text, "token_starts": starts, "token_ends": ends, "char_start": 0, "is_overlong_piece": False}
    redacted = {
        "redacted_text": MASK if whole else redact_text(text, starts, ends, mask),
        "spans": spans,
        "flagged_by_conservative": bool(flagged),
        "num_tokens": len(tokens),
        "num_masked_tokens": len(tokens) if whole else sum(mask),
        "is_duplicate": is_duplicate,
        "failed_closed": failed_closed,
    }
    return common | sentence, common | redacted


def document_row(doc_id, num_sentences, fold="train"):
    """A row of the documents table."""
    found = {"doc_id": doc_id, "source_file": "f", "source_row": 0, "source_id": None, "num_sentences": num_sentences}
    return found | {"num_tokens": 1, "num_chars": 1, "fold": fold, "has_gold": False}


def write_tables(folder, rows, num_partitions=1):
    """Writes the tables of ``rows`` (pairs from `row_of`), whole documents to a partition; and their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    documents = list(dict.fromkeys(sentence["doc_id"] for sentence, _ in rows))
    paths = {name: [] for name in ("public", "private", "sentences", "redacted", "documents")}
    for number in range(num_partitions):
        mine = [r for r in rows if documents.index(r[0]["doc_id"]) % num_partitions == number]
        lengths = Counter(sentence["doc_id"] for sentence, _ in mine)
        shards = [redacted for _, redacted in mine if redacted["fold"] == "train"]
        for name, table, content in (
            ("sentences", "sentences", [sentence for sentence, _ in mine]),
            ("redacted", "redacted", [redacted for _, redacted in mine]),
            ("public", "shard", [row for row in shards if not is_private(row)]),
            ("private", "shard", [row for row in shards if is_private(row)]),
            ("documents", "documents", [document_row(doc_id, length) for doc_id, length in lengths.items()]),
        ):
            path = folder / f"{name}{number}.parquet"
            with table_writer(path, table) as writer:
                for row in content:
                    writer.append(**{column: row[column] for column in SCHEMAS[table].names})
            paths[name].append(table_at(path, table))
    return TrainingTables(**paths)
