"""Finds the dialogues in JSON by their structure: lists of turns, whatever the names of their fields."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from pipelines.corpus.records import value_at
from pipelines.corpus.transcripts import transcript_turns
from pipelines.corpus.turns import ITSELF, NONE, is_role, rows_of, text_of_parts

_RECORDS: Final = 60
_TURNS: Final = 400
_DEPTH: Final = 3
_LISTS: Final = (
    "turns", "messages", "conversations", "conversation", "utterances", "dialogue", "dialog", "dialogs", "dialogues",
    "log", "chat", "chat_messages", "history", "transcript", "exchanges", "contents", "chosen", "segments",
)  # fmt: skip
_TEXTS: Final = (
    "text", "content", "utterance", "value", "message", "body", "transcript", "sentence", "parts", "msg", "says",
    "line", "input_text",
)  # fmt: skip
_SPEAKERS: Final = (
    "speaker", "role", "author.role", "from", "sender", "speaker_label", "speaker_id", "speaker_name", "author.name",
    "author", "participant", "participant.name", "sender.name", "from.name", "user", "user.name", "username", "agent",
    "actor", "party", "who", "name", "spk", "side", "is_user", "is_agent",
)  # fmt: skip
_TIMES: Final = (
    "ts",
    "timestamp",
    "time",
    "date",
    "created_at",
    "createdAt",
    "createdDateTime",
    "sent_at",
    "sentAt",
    "timestamp_ms",
    "date_unixtime",
)
_EXPORTS: Final = (
    {"guild", "channel"}, {"conversation_parts"}, {"from_id"}, {"messageType"}, {"client_msg_id"}, {"plain_body"},
    {"text_entities"}, {"timestamp_ms"},
)  # fmt: skip
"""Keys of records or turns in exports of chats, which have formats of their own."""

_MAX_SPEAKER_CHARS: Final = 60

_IS_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z_-]{0,40}[0-9]{0,2}")


@dataclass(frozen=True)
class Structure:
    """A place where the records of a file hold dialogues.

    Attributes:
        path: value of ``turns_field``
        speaker: value of ``speaker_field``; None if a text names the speakers
        text: value of ``text_field``; None if the turns are texts themselves
        score: confidence from 0 to 1
        num_turns: number of turns seen
        share: share of the records that have such a list
        records: records around the turns
    """

    path: str
    speaker: str | None
    text: str | None
    score: float
    num_turns: int
    share: float
    records: Sequence[Mapping[str, Any]] = ()


def structure_of_rows(rows: Sequence[Any]) -> Structure | None:
    """Returns the best place in rows: lines of a file, elements of an array, or rows of a table."""
    records = [{ITSELF: row} if isinstance(row, list) else row for row in rows[:_RECORDS]]
    known = [record for record in records if isinstance(record, Mapping)]
    if 2 * len(known) < len(records) or not known:
        return None
    return max(_candidates(known), key=lambda one: (one.score, one.num_turns), default=None)


def structure_of_file(value: Any) -> Structure | None:
    """Returns the best place in the value of a file, which may be cut off: an array, an object, or deeper records."""
    if isinstance(value, list):
        found = structure_of_rows(value)
        if found is not None and found.path == ITSELF:
            return replace(found, path="*")
        return found
    if not isinstance(value, Mapping):
        return None
    inside = [_inside(one, "*") for one in (list(value.values()),) if len(value) > 1]
    # A key that is no usual name may be a name of a person or a number, which no setting may quote.
    below = {key: _inside(_values(one), f"{key}.*") for key, one in value.items() if _IS_NAME.fullmatch(key)}
    deeper = [found for found in below.values() if found is not None]
    if len(deeper) > 1 and len({found.path.partition(".")[2] for found in deeper}) == 1:
        best = max(deeper, key=lambda found: found.num_turns)
        deeper.append(replace(best, path=f"*.{best.path.partition('.')[2]}", num_turns=best.num_turns + 1))
    own = structure_of_rows([value])
    ranked = [found for found in (*inside, *deeper) if found is not None and found.share >= 0.8]
    return max(ranked, key=lambda found: (found.score, found.num_turns), default=None) or own


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else []


def _inside(rows: list[Any], place: str) -> Structure | None:
    """Finds the structure of records at a place of a file that has several of them."""
    if len(rows) < 2 or not all(isinstance(row, Mapping | list) for row in rows[:_RECORDS]):
        return None
    found = structure_of_rows(rows)
    return found and replace(found, path=f"{place}.{found.path}" if found.path else place)


def _candidates(records: Sequence[Mapping[str, Any]]) -> Iterator[Structure]:
    values: dict[str, list[Any]] = {}
    for record in records:
        for path, value in _places(record):
            values.setdefault(path, []).append(value)
    is_export = any(marks <= set(record) for record in records for marks in _EXPORTS)
    for path, found in values.items():
        share = len(found) / len(records)
        if share >= 0.5:
            made = _lists(path, found) or _texts(path, found)
            if made is not None:
                is_one_chat = is_export or _is_export(found[0]) or (len(records) == 1 and _has_times(found[0]))
                score = min(made.score, 0.6) if is_one_chat else made.score
                yield replace(made, share=share, score=score, records=records)


def _places(record: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yields the lists, columns of lists and texts of a record with their paths, the outer ones first."""
    for key, value in record.items():
        if not isinstance(key, str) or "." in key or "*" in key:
            continue
        if isinstance(value, list | str) and value:
            yield prefix + key, value
        elif isinstance(value, Mapping):
            columns = [column for column in value.values() if isinstance(column, list)]
            if len(columns) > 1 and len(columns) == len(value) and rows_of(value):
                yield prefix + key, rows_of(value)
            elif depth < _DEPTH:
                yield from _places(value, f"{prefix}{key}.", depth + 1)


def _name(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _lists(path: str, values: Sequence[Any]) -> Structure | None:
    lists = [value for value in values if isinstance(value, list)]
    num_turns = sum(map(len, lists))
    if 2 * len(lists) < len(values) or num_turns < 1.5 * len(lists):
        return None
    named = _name(path) in (*_LISTS, ITSELF)
    turns = [turn for value in lists for turn in value][:_TURNS]
    if all(isinstance(turn, str) for turn in turns):
        score = 0.8 if named and _words(turns) >= 2 else 0.3 if _words(turns) >= 4 else 0.0
        return Structure(path, NONE, None, score, num_turns, 0) if score else None
    if not all(isinstance(turn, Mapping) for turn in turns):
        pairs = [t for t in turns if isinstance(t, list) and len(t) == 2 and all(isinstance(part, str) for part in t)]
        are_roles = len(pairs) == len(turns) and all(is_role(speaker) for speaker, _ in pairs)
        return Structure(path, None, None, 0.85, num_turns, 0) if are_roles else None
    leaves = [[dict(_leaves(turn)) for turn in value if isinstance(turn, Mapping)] for value in lists]
    speaker = _speaker(leaves)
    text = _text([leaf for dialogue in leaves for leaf in dialogue][:_TURNS], speaker)
    if text is None:
        return None
    if speaker is None:
        score = 0.3 if not named else 0.8
        return Structure(path, NONE, text, score, num_turns, 0)
    columns = _columns(leaves, speaker)
    are_roles = all(isinstance(value, str) and is_role(value) for column in columns for value in column)
    if named or are_roles:
        score = 0.9 if speaker in _SPEAKERS else 0.8
    else:  # a form and a list of authors look alike, but no name comes back in them
        returns = any(len(set(map(str, column))) < len(column) for column in columns)
        score = 0.7 if returns and _alternates(leaves, speaker) else 0.4
    return Structure(path, speaker, text, score, num_turns, 0)


def _leaves(turn: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in turn.items():
        if not isinstance(key, str) or "." in key:
            continue
        if isinstance(value, Mapping) and not prefix:
            yield from _leaves(value, f"{key}.")
        elif isinstance(value, list):
            text = text_of_parts(value, Counter())
            if (text and not all(isinstance(part, str) for part in value)) or (text and key == "parts"):
                yield prefix + key, text
        elif value is not None:
            yield prefix + key, value


def _text(turns: Sequence[Mapping[str, Any]], speaker: str | None) -> str | None:
    counts = Counter(name for turn in turns for name, value in turn.items() if isinstance(value, str) and value.strip())
    usual = [name for name, number in counts.items() if 2 * number >= len(turns) and name != speaker]
    words = {name: _words([turn[name] for turn in turns if isinstance(turn.get(name), str)]) for name in usual}
    named = (name for want in _TEXTS for name in usual if _name(name) == want)
    least = 3 if speaker is None else 1.5
    others = (name for name in usual if words[name] >= least)
    return next((name for name in named if words[name] >= 1.5), None) or max(
        others, key=lambda n: words[n], default=None
    )


def _speaker(dialogues: Sequence[Sequence[Mapping[str, Any]]]) -> str | None:
    """Returns the field with few short values that repeat in a dialogue; a usual name counts before any other."""
    names = Counter(name for turns in dialogues for turn in turns for name in turn)
    total = sum(map(len, dialogues))
    usual = [name for name, number in names.items() if number >= 0.7 * total]
    known = [name for name in _SPEAKERS if name in usual]
    fitting = (name for name in known if _names_speakers(dialogues, name))
    others = (name for name in usual if name not in known and _alternates(dialogues, name))
    return next(fitting, None) or next(others, None)


def _columns(dialogues: Sequence[Sequence[Mapping[str, Any]]], name: str) -> list[list[Any]]:
    return [[turn[name] for turn in turns if name in turn] for turns in dialogues]


def _names_speakers(dialogues: Sequence[Sequence[Mapping[str, Any]]], name: str) -> bool:
    columns = _columns(dialogues, name)
    values = [value for column in columns for value in column]
    if not all(isinstance(v, str | int) and len(str(v)) <= _MAX_SPEAKER_CHARS and "\n" not in str(v) for v in values):
        return False
    if all(isinstance(value, str) and is_role(value) for value in values):
        return True
    long = [column for column in columns if len(column) >= 4]
    return sum(len(set(column)) for column in long) <= 0.75 * sum(map(len, long))


def _alternates(dialogues: Sequence[Sequence[Mapping[str, Any]]], name: str) -> bool:
    columns = [column for column in _columns(dialogues, name) if len(column) > 1]
    values = [value for column in columns for value in column]
    if not values or not all(isinstance(v, str) and 0 < len(v) <= _MAX_SPEAKER_CHARS for v in values):
        return False
    changes = [a != b for column in columns for a, b in pairwise(column)]
    are_roles = all(is_role(value) for value in values)
    distinct = sum(len(set(column)) for column in columns) / len(columns)
    few = len(set(values)) <= max(2, len(values) // 4)
    return are_roles or (few and 1.5 <= distinct <= 4 and sum(changes) >= 0.6 * len(changes))


def _texts(path: str, values: Sequence[Any]) -> Structure | None:
    """Recognises a text that names the speaker before each utterance."""
    texts = [value for value in values if isinstance(value, str)][:20]
    if 2 * len(texts) < len(values):
        return None
    found = [turns for text in texts if (turns := transcript_turns(text[:20_000])) is not None and len(turns) > 1]
    tags = [speaker for turns in found for speaker, _ in turns if speaker is not None]
    several = sum(len({speaker for speaker, _ in turns}) > 1 for turns in found)
    if len(found) < 0.8 * len(texts) or several < 0.5 * len(texts) or len(tags) < 3 * len(found):
        roles = tags and all(is_role(tag) for tag in tags)
        if not roles or len(found) < 0.8 * len(texts) or several < 0.5 * len(texts):
            return None
    score = 0.85 if _name(path) in _LISTS or all(is_role(tag) for tag in tags) else 0.6
    return Structure(path, None, None, score, sum(map(len, found)), 0)


def _has_times(value: Any) -> bool:
    return any(value_at(turn, name) is not None for turn in _first_turns(value) for name in _TIMES)


def _is_export(value: Any) -> bool:
    return any(marks <= turn.keys() for turn in _first_turns(value) for marks in _EXPORTS)


def _first_turns(value: Any) -> list[Mapping[str, Any]]:
    return [turn for turn in value[:5] if isinstance(turn, Mapping)] if isinstance(value, list) else []


def _words(texts: Sequence[str]) -> float:
    return sum(len(text.split()) for text in texts) / max(1, len(texts))
