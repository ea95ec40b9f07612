"""Recognises dialogues in JSON, JSON lines, Parquet and Arrow, and finds the settings that read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple

from pipelines.corpus.diarised import SEGMENTS, segments_of
from pipelines.corpus.fields import fields_around
from pipelines.corpus.format_list_chats import ADDITIONS, ANSWERS, PROMPTS
from pipelines.corpus.formats import FORMATS
from pipelines.corpus.json_stream import begun_values
from pipelines.corpus.json_structure import Structure, structure_of_file, structure_of_rows
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.owner_fields import owner_field
from pipelines.corpus.recognition import Head, Reading, Recogniser
from pipelines.corpus.records import value_at
from pipelines.corpus.rows import BOM
from pipelines.corpus.turns import NONE

_ROWS: Final = 60
_TIMES: Final = (
    "start", "end", "start_time", "end_time", "startTime", "offset", "offsetInTicks", "timestamp", "ts",
    "BeginOffsetMillis", "elements", "duration",
)  # fmt: skip
_SIDE_FILES: Final = (
    ({"service_name", "slots", "intents"}, "the schema of a dialogue corpus"),
    ({"chatgpt_plus_user", "email"}, "the account of a ChatGPT export"),
    ({"conversation_id", "is_anonymous"}, "links of a ChatGPT export"),
    ({"conversation_id", "rating"}, "ratings of a ChatGPT export"),
    ({"uuid", "full_name", "email_address"}, "the accounts of a Claude export"),
)
_FORMS: Final[Mapping[tuple[str | None, str | None], str]] = {
    ("role", "content"): "messages",
    ("from", "value"): "sharegpt",
}
"""Formats by the names of speaker and text in a turn."""


class _Begun(NamedTuple):
    """The beginning of a file: its value, or its rows if it has many. A suffix other than .json stands for lines."""

    value: Any
    rows: list[Any]
    is_rows: bool
    is_misnamed: bool = False


def _begun(head: Head) -> _Begun | None:
    """Reads the beginning of a file as JSON, JSON lines or rows of a table; None for anything else."""
    if head.suffix in (".parquet", ".arrow"):
        table = _table(head)
        return _Begun(None, table, is_rows=True) if table else None
    data = head.data.removeprefix(BOM)
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    rows = _lines(data, head.is_whole)
    if rows is not None:
        return _Begun(None, rows, is_rows=True)
    values = begun_values(data.decode("utf-8", "replace").encode(), _ROWS)
    if len(values) > 1:
        return _Begun(None, values, is_rows=True, is_misnamed=head.suffix != ".json")
    if head.suffix != ".json":
        return None
    value = values[0] if values else None
    rows = value if isinstance(value, list) else [value]
    return _Begun(value, rows, is_rows=False) if isinstance(value, list | Mapping) else None


def _lines(data: bytes, is_whole: bool) -> list[Any] | None:
    """Returns the values of the first lines; None if the file is not one value in each line."""
    lines = [line for line in data.split(b"\n", 4 * _ROWS)[: 4 * _ROWS] if line.strip()]
    if not is_whole and len(lines) < 4 * _ROWS:
        lines = lines[:-1]
    values = []
    for line in lines[:_ROWS]:
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    is_array = len(lines) == 1 and isinstance(values[0] if values else None, list)
    enough = len(values) >= 0.8 * len(lines[:_ROWS]) and all(isinstance(value, list | dict) for value in values)
    return values if values and enough and not is_array and (len(values) > 1 or isinstance(values[0], dict)) else None


def _table(head: Head) -> list[Any] | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if head.suffix == ".parquet":
            with pq.ParquetFile(head.path) as file:
                batch = next(file.iter_batches(_ROWS), None)
                return batch.to_pylist() if batch is not None else None
        with pa.memory_map(str(head.path)) as source:
            is_file = source.read(6) == b"ARROW1"
            source.seek(0)
            reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches)) if is_file else reader
            return [row for batch in islice(batches, 1) for row in batch.slice(0, _ROWS).to_pylist()]
    except (pa.ArrowException, OSError, ValueError):
        return None


def recognise(head: Head) -> Reading | None:
    """Recognises a file with dialogues, or a file beside them that is no text; None for any other file."""
    begun = _begun(head)
    found = _recognised(begun) if begun is not None else None
    if found is None or found.format is None or begun is None or not begun.is_misnamed:
        return found
    return Reading(None, 0.95, f"{found.what}; each object takes several lines: rename the file to .json")


def _recognised(begun: _Begun) -> Reading | None:
    records = [row for row in begun.rows[:_ROWS] if isinstance(row, Mapping)]
    if records and 2 * len(records) >= len(begun.rows[:_ROWS]):
        for marks, what in _SIDE_FILES:
            if all(marks <= record.keys() for record in records[:3]):
                return Reading(None, 0.95, what)
        found = _chatgpt(records) or _call(records)
        if found is not None:
            return found._replace(owner=owner_field(records))
    pairs = _pairs(records)
    structure = structure_of_rows(begun.rows) if begun.is_rows else structure_of_file(begun.value)
    nested = _nested(structure) if structure is not None else _flat(begun)
    best = max((one for one in (pairs, nested) if one is not None), key=lambda one: one.score, default=None)
    return best and best._replace(owner=owner_field(records if structure is None else structure.records))


def _fields(records: Sequence[Mapping[str, Any]], **fields: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({**fields_around(records), **fields}.items()))


def _chatgpt(records: Sequence[Mapping[str, Any]]) -> Reading | None:
    nodes = [node for record in records for node in islice(_mapping(record).values(), 5)]
    if not nodes or not all(isinstance(node, Mapping) and {"id", "parent"} <= node.keys() for node in nodes[:20]):
        return None
    return Reading("chatgpt", 0.99, "conversations of a ChatGPT export")


def _mapping(record: Mapping[str, Any]) -> Mapping[str, Any]:
    value = record.get("mapping")
    return value if isinstance(value, Mapping) else {}


def _call(records: Sequence[Mapping[str, Any]]) -> Reading | None:
    found = [segments_of(record) for record in records]
    texts = [turn for turns in found for turn in turns or () if turn.text.strip()]
    places = [value_at(record, place) for record in records for place in SEGMENTS if place]
    segments = [place[0] for place in places if isinstance(place, list) and place and isinstance(place[0], Mapping)]
    is_timed = any(name in segment for segment in segments for name in _TIMES)
    is_by_word = any("results" in record for record in records)
    if sum(map(bool, found)) < 0.8 * len(records) or not texts or not (is_timed or is_by_word):
        return None
    if any(turn.speaker for turn in texts):
        return Reading("diarised", 0.95, "transcripts of calls, by speaker", _fields(records))
    return Reading("diarised", 0.85, "transcripts of speech, without speakers", _fields(records))


def _pairs(records: Sequence[Mapping[str, Any]]) -> Reading | None:
    def has(names: Sequence[str]) -> str | None:
        for name in names:
            values = [record[name] for record in records if record.get(name)]
            if records and len(values) >= 0.9 * len(records) and all(isinstance(v, str | list) for v in values):
                return name
        return None

    prompt, answer = has(PROMPTS), has(ANSWERS)
    if answer is None or prompt is None:
        return None
    score = {"instruction": 0.95, "prompt": 0.92, "query": 0.8}.get(prompt, 0.6)
    if answer == "answer" or (answer == "chosen" and prompt != "prompt"):
        score = min(score, 0.6)
    if all(isinstance(record.get(name), list) for record in records for name in (prompt, answer)):
        score = 0.98  # both are messages, so that one alone is no dialogue
    addition = next((f", {name}" for name in ADDITIONS if any(record.get(name) for record in records)), "")
    return Reading("instructions", score, f"pairs of {prompt}{addition} and {answer}", _fields(records))


def _nested(found: Structure) -> Reading:
    names = {"turns_field": found.path, "speaker_field": found.speaker, "text_field": found.text}
    form = _FORMS.get((found.speaker, found.text), "turns")
    score = min(found.score + 0.07, 0.97) if form != "turns" and found.score >= 0.9 else found.score
    defaults = replace(ReadOptions(), **FORMATS[form].presets)
    fields = {key: name for key, name in names.items() if name and name != getattr(defaults, key)}
    place = f"in {found.path}" if found.path else "in each row"
    speakers = "two speakers in turn" if found.speaker == NONE else f"speakers in {found.speaker}"
    what = f"dialogues: turns {place}, {speakers if found.speaker else 'a speaker before each utterance'}"
    what += f", texts in {found.text}" if found.text else ""
    return Reading(form, score, what, _fields(found.records, **fields))


def _flat(begun: _Begun) -> Reading | None:
    """Recognises a file that is itself one list of turns, which may as well be a table."""
    if begun.is_rows or not isinstance(begun.value, list):
        return None
    found = structure_of_rows([begun.value])
    if found is None or found.speaker in (None, NONE) or found.text is None:
        return None
    records = [row for row in begun.rows if isinstance(row, Mapping)]
    fields = (("speaker_field", found.speaker or NONE), ("text_field", found.text), ("turns_field", "."))
    if all({"start", "end"} <= record.keys() for record in records[:5]):
        return Reading("diarised", 0.92, "a call: one list of segments with speakers", (("turns_field", "."),))
    return Reading("turns", 0.45, "one dialogue: a list of turns with speakers", fields)


RECOGNISERS: Final[tuple[Recogniser, ...]] = (recognise,)
