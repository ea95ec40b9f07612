"""Reads dialogues in JSON: records with a list of turns, each with a speaker and a text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

from pipelines.corpus.dialogues import Dialogue, Items, dialogue_document
from pipelines.corpus.items import BadRow, Reason
from pipelines.corpus.json_stream import json_parts
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.records import Record, Source, rejected, value_at
from pipelines.corpus.speakers import ROLE
from pipelines.corpus.transcripts import transcript_turns

NONE: Final = "-"
"""Value of ``speaker_field`` for dialogues whose turns name no speaker, because two speakers take turns."""
ITSELF: Final = ""
"""Key under which a record that is a list holds itself."""

_TEXT_KINDS: Final = ("", "text", "input_text", "output_text", "multimodal_text")
_LEFT_OUT_KINDS: Final = ("image", "audio", "video", "file", "tool", "function", "reasoning", "thinking", "document")
_TOOL_ROLES: Final = ("tool", "function", "ipython", "observation", "function_call", "tool_call", "tool_response")
_TOOL_CALLS: Final = ("tool_calls", "function_call")
_ROLES: Final = {**dict.fromkeys(("gpt", "chatgpt", "model", "bard", "bing"), "assistant"), "developer": "system"}
_VARIANTS: Final = ("messages", "sharegpt")
_LISTS: Final = ("messages", "conversations", "conversation")
_SPEAKERS: Final = ("role", "from")
_TEXTS: Final = ("content", "value")
_MAX_PARTS_DEPTH: Final = 5
_ADVICE: Final = "Set corpus.turns_field to the name of the field that holds the list of turns."


class Turn(NamedTuple):
    """A turn as its record gives it.

    Attributes:
        speaker: name of the speaker; None if unknown
        text: text; empty if the turn has none
        is_usable: false if the turn or its text has a wrong type
    """

    speaker: str | None
    text: str
    is_usable: bool = True


class TurnsReader:
    """Reads the records of a JSON file that is an object of dialogues, holds its records deeper, or is one dialogue."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        parts = options.turns_field.split(".")
        self._outer = parts[: max(0, len(parts) - 1 - parts[::-1].index("*"))] if "*" in parts else None

    def read(self, file: BinaryIO) -> Iterator[tuple[int, Record | BadRow]]:
        """Yields the records in the order of the file. A record without an id gets its key in the object of records."""
        number = 0
        for place, value in json_parts(file, self._wants, limit_bytes=self._options.json_bytes):
            number += 1
            yield number, self._record(place, value)
        if not number:
            yield 1, BadRow("no_turns", f"the file has no value at the place of corpus.turns_field. {_ADVICE}")

    def _wants(self, place: str) -> bool:
        if self._outer is None:
            return place == "" and self._options.turns_field == "."
        parts = place.split(".", len(self._outer))
        fits = all(want in ("*", part) for want, part in zip(self._outer, parts, strict=False))
        return len(parts) > len(self._outer) and parts[-1] != "" and fits

    def _record(self, place: str, value: Any) -> Record | BadRow:
        if isinstance(value, BadRow):
            return value
        if isinstance(value, list):
            value = {ITSELF: value}
        if not isinstance(value, dict):
            return BadRow("not_an_object", f"neither an object nor a list. {_ADVICE}")
        key = place.split(".", len(self._outer or ()))[-1]
        if key not in ("", "item") and self._options.id_field != NONE:
            value.setdefault(self._options.id_field, key)
        return value


def turns(source: Source, record: Record) -> Items:
    """Returns the dialogue of a record, and a rejection for each turn that cannot be used. Raises `BadRow`."""
    left_out: Counter[str] = Counter()
    found = turns_of(source, record, left_out)
    return dialogue_of(source, record, found, left_out)


def dialogue_of(source: Source, record: Record, found: Sequence[Turn], left_out: Counter[str]) -> Items:
    """Makes the document of some turns, and a rejection for each that cannot be used.

    Raises:
        BadRow: no turn has text, or the document cannot be used.
    """
    bad = [number for number, turn in enumerate(found, start=1) if not turn.is_usable]
    texts = [(turn.speaker, turn.text) for turn in found if turn.is_usable and turn.text.strip()]
    left_out["empty"] += sum(turn.is_usable and not turn.text.strip() for turn in found)
    if not texts:
        reason: Reason = "wrong_type" if bad else "empty" if left_out.total() > left_out["empty"] else "missing_text"
        advice = "Set corpus.text_field to the name of the text in a turn, and corpus.turns_field to the list of turns."
        raise BadRow(reason if found or left_out.total() else "empty", f"no turn of the dialogue has text. {advice}")
    counts = tuple(sorted((+left_out).items()))
    items: Items = [dialogue_document(source, Dialogue(source.row, texts, left_out=counts), record)]
    return items + [
        rejected(source, "wrong_type", f"turn {number} of the dialogue is no text of a speaker.", 0) for number in bad
    ]


def turns_of(source: Source, record: Record, left_out: Counter[str]) -> list[Turn]:
    """Returns the turns of a record, and counts the parts that are no text. Raises `BadRow` if there is no list."""
    options = source.options
    path = options.turns_field.rpartition("*")[2].strip(".")
    names = (path, ITSELF, *(_LISTS if source.format in _VARIANTS else ()))
    value = next((found for name in names if (found := value_at(record, name)) is not None), None)
    return list_of_turns(value, source.format, options, left_out)


def list_of_turns(value: Any, format: str, options: ReadOptions, left_out: Counter[str]) -> list[Turn]:
    """Returns the turns of a list, of columns with a list each, or of a text with the speakers before their lines.

    Raises:
        BadRow: the value is none of these.
    """
    if isinstance(value, str):
        value = _decoded(value)
    if isinstance(value, str):
        pairs = transcript_turns(value)
        if pairs is None:
            raise _no_turns("no line with a speaker")
        return [Turn(None if name is None else _role(name), text) for name, text in pairs]
    if isinstance(value, Mapping):
        value = rows_of(value)
    if not isinstance(value, list):
        raise _no_turns("no list of turns")
    others = format in _VARIANTS
    speakers = (options.speaker_field, *(_SPEAKERS if others else ()))
    texts = (options.text_field, *(_TEXTS if others else ()))
    found: list[Turn] = []
    for number, turn in enumerate(value):
        made = _turn(turn, speakers, texts, left_out)
        if made is not None and (options.speaker_field == NONE or isinstance(turn, str)):
            made = made._replace(speaker=f"SPEAKER_{number % 2 + 1}")
        found += [made] if made is not None else []
    return found


def _no_turns(what: str) -> BadRow:
    return BadRow("no_turns", f"has {what}. {_ADVICE}")


def rows_of(value: Mapping[str, Any]) -> list[Any] | None:
    """Returns the rows of columns with a list each, or the values of an object of objects; None for anything else."""
    lists = {name: column for name, column in value.items() if isinstance(column, list)}
    if len(lists) > 1 and len({len(column) for column in lists.values()}) == 1:
        return [dict(zip(lists, cells, strict=True)) for cells in zip(*lists.values(), strict=True)]
    return list(value.values()) if value and all(isinstance(one, Mapping) for one in value.values()) else None


def _decoded(text: str) -> Any:
    """Decodes a list in JSON, which a column of a table may hold. Other text stays."""
    if text.lstrip()[:2] not in ("[{", "[[", '["', "[]"):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _turn(turn: Any, speakers: Sequence[str], texts: Sequence[str], left_out: Counter[str]) -> Turn | None:
    """Returns a turn; None for one that is left out and counted."""
    if isinstance(turn, list) and len(turn) == 2 and all(isinstance(part, str) for part in turn):
        return Turn(_role(turn[0]), turn[1])
    if isinstance(turn, str):
        return Turn(None, turn)
    if turn is None:
        return Turn(None, "")
    if not isinstance(turn, Mapping):
        return Turn(None, "", is_usable=False)
    speaker = next((name for at in speakers if (name := speaker_of(value_at(turn, at))) is not None), None)
    if speaker is not None and speaker.lower() in _TOOL_ROLES:
        left_out["tool"] += 1
        return None
    calls = [turn[name] for name in _TOOL_CALLS if turn.get(name)]
    num_calls = sum(len(call) if isinstance(call, list) else 1 for call in calls)
    before = left_out.total()
    left_out["tool"] += num_calls
    value = next((value for at in texts if (value := value_at(turn, at)) is not None), None)
    text = text_of_parts(value, left_out)
    if text == "" and left_out.total() > before:
        return None
    return Turn(speaker, text or "", is_usable=text is not None)


def speaker_of(value: Any) -> str | None:
    """Returns the name of a speaker. A number or a flag becomes a role, because it is no name; None for other types."""
    if isinstance(value, str):
        return _role(value.strip()) if value.strip() else None
    return f"SPEAKER_{int(value)}" if isinstance(value, int) and -1 < value < 10**9 else None


def is_role(name: str) -> bool:
    """Checks if a speaker's name is that of a role, such as user, gpt or tool."""
    return bool(ROLE.fullmatch(name)) or name.lower() in _ROLES or name.lower() in _TOOL_ROLES


def _role(name: str) -> str:
    return f"SPEAKER_{name}" if name.isascii() and name.isdigit() else _ROLES.get(name.lower(), name)


def text_of_parts(value: Any, left_out: Counter[str], depth: int = 0) -> str | None:
    """Returns a text, or those of a list of parts, in lines. Counts parts that are no text; None for wrong types."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if depth > _MAX_PARTS_DEPTH:
        return None
    if isinstance(value, Mapping):
        kind = value.get("type") or value.get("content_type") or ""
        known = next((known for known in _LEFT_OUT_KINDS if known in str(kind)), None)
        if known is not None or (kind not in _TEXT_KINDS and not isinstance(value.get("text"), str)):
            left_out[known or "other part"] += 1
            return ""
        inner = next((value[name] for name in ("text", "parts", "content", "value") if name in value), None)
        if inner is None and not kind:
            left_out["other part"] += 1
        return text_of_parts(inner, left_out, depth + 1)
    if not isinstance(value, list):
        return None
    texts = [text_of_parts(part, left_out, depth + 1) for part in value]
    if any(text is None for text in texts):
        return None
    return "\n".join(text for text in texts if text)
