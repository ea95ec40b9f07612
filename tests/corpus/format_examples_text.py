"""Examples of text files, tables and known corpora in their original layout, with made-up content."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
from format_example import Example

NOTES = [
    {"id": "1", "text": "Ann Lee called about the parcel that we sent on Monday, and it is not there."},
    {"id": "2", "text": "She will be at 12 Mill Road until noon, and wants to hear from us before that."},
    {"id": "3", "text": "We told her that the shop has sent another one, and that it is on its way."},
]
COLUMNS = {name: [note[name] for note in NOTES] for name in ("id", "text")}
TAGGED = "Ann B-PER\nLee I-PER\ncalled O\nfrom O\nOslo B-LOC\n. O\n\nShe O\nis O\nlate O\n. O\n"
DIALOGUE = """SYS: Hello, how may I help you?
USR: My parcel is late, and my name is Ann Lee.
<|endoftext|>SYS: Good morning.
USR: I would like to know where my order is.
"""
MULTIDOGO = (
    "conversationId\tturnNumber\tutteranceId\tutterance\tslot-labels\tintent\n"
    "acs-1\t0\tu0\thi i am ann lee\tO O O B-name I-name\topeningGreeting\n"
    "acs-1\t1\tu1\tmy flight is at noon\tO O O O B-time\tcontentOnly\n"
)
PERSONACHAT = """1 your persona: i like to ski.
2 your persona: i live by the sea.
3 hello, how are you today?\ti am fine, i have just come back from the beach.
4 do you swim?\tno, but i go there with my dog.
"""
WIKITEXT = """ = Mill Road =\x20

 Mill Road is a street of shops in the old part of the town , and it is 1 @.@ 5 km long .\x20

 = = History = =\x20

 It was built in 1892 , when the mill was still at work .\x20
"""
DART = [
    {
        "tripleset": [["Mill Road", "LENGTH", "1.5 km"]],
        "annotations": [{"source": "made up", "text": "Mill Road is 1.5 km long."}],
    }
]


def _lines(*values: object) -> bytes:
    return "".join(f"{json.dumps(value)}\n" for value in values).encode()


def _parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(COLUMNS), file)
    return file.getvalue()


def _arrow() -> bytes:
    file = io.BytesIO()
    table = pa.table(COLUMNS)
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


def _csv(mark: str, names: tuple[str, ...], *rows: tuple[str, ...]) -> bytes:
    quote = '"' if mark == "," else ""
    lines = [mark.join(names), *(mark.join(f"{quote}{cell}{quote}" for cell in row) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


_ROWS = tuple((note["id"], note["text"]) for note in NOTES)

EXAMPLES: dict[str, Example] = {
    "txt": Example("note.txt", "\n".join(note["text"] for note in NOTES).encode() + b"\n", 3, 3, 0),
    "jsonl": Example("notes.jsonl", _lines(*NOTES), 3, 3, 0),
    "json": Example("notes.json", json.dumps(NOTES, indent=1).encode(), 3, 3, 0),
    "csv": Example("notes.csv", _csv(",", ("id", "text"), *_ROWS), 3, 3, 0),
    "tsv": Example("notes.tsv", _csv("\t", ("id", "text"), *_ROWS), 3, 3, 0),
    "parquet": Example("notes.parquet", _parquet(), 3, 3, 0),
    "huggingface": Example("train/data-00000-of-00001.arrow", _arrow(), 3, 3, 0),
    "wikitext": Example("wiki.train.tokens", WIKITEXT.encode(), 1, 1, 0),
    "dialogue": Example("calls.txt", DIALOGUE.encode(), 2, 2, 2),
    "multidogo": Example("airline/train.tsv", MULTIDOGO.encode(), 1, 2, 1),
    "e2e": Example(
        "trainset.csv", _csv(",", ("mr", "ref"), ("name[Aromi], eatType[pub]", "Aromi is a pub by the river.")), 1, 1, 0
    ),
    "dart": Example("dart-train.json", json.dumps(DART, indent=1).encode(), 1, 1, 0),
    "glue": Example(
        "SST-2/train.tsv", _csv("\t", ("sentence", "label"), ("a film that is fine , and never dull", "1")), 1, 1, 0
    ),
    "conll": Example("ner.conll", TAGGED.encode(), 2, 2, 0),
    "personachat": Example("train_self_original.txt", PERSONACHAT.encode(), 1, 1, 3),
}
"""One example of each format, by the format's name."""

HEADERLESS = "ham\tWe are at the station now\nspam\tYou have won a prize, call now\nham\tIt is late, go to sleep\n"

MORE: tuple[tuple[str, Example], ...] = (
    ("tsv", Example("SMSSpamCollection", (HEADERLESS * 2).encode(), 6, 6, 0)),
    ("dialogue", Example("calls.jsonl", _lines({"text": DIALOGUE.partition("<")[0]}), 1, 1, 2)),
)
"""Other layouts of these formats."""
