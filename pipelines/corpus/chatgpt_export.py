"""Reads the conversations of ChatGPT's data export, along the branch that was last shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from pipelines.corpus.dialogues import Items
from pipelines.corpus.items import BadRow
from pipelines.corpus.records import Record, Source, value_at
from pipelines.corpus.turns import Turn, dialogue_of, speaker_of, text_of_parts

_IDS: Final = ("id", "conversation_id")
_TEXTS: Final = ("text", "multimodal_text")


def chatgpt(source: Source, record: Record) -> Items:
    """Returns the conversation of a record: the messages from the first one down to ``current_node``.

    System messages, tools and their calls, pictures and thoughts are left out and counted. A conversation without
    ``current_node`` ends with its newest message.

    Raises:
        BadRow: the record has no tree of messages, or no message has text.
    """
    nodes = record.get("mapping")
    if not isinstance(nodes, Mapping):
        raise BadRow("no_turns", 'has no field "mapping" with the messages. Give conversations.json of the export.')
    left_out: Counter[str] = Counter()
    found: list[Turn] = []
    for message in _branch(nodes, record.get("current_node")):
        made = _turn(message, left_out)
        found += [made] if made is not None else []
    given = {source.options.id_field: next((record[name] for name in _IDS if record.get(name)), None), **record}
    return dialogue_of(source, given, found, left_out)


def _branch(nodes: Mapping[str, Any], last: Any) -> list[Mapping[str, Any]]:
    """Returns the messages on the way from the root to a node, without a node twice if parents form a circle."""
    if not isinstance(last, str) or last not in nodes:
        times = {name: value_at(node, "message.create_time") for name, node in nodes.items()}
        known = {name: time for name, time in times.items() if isinstance(time, int | float)}
        last = max(known, key=lambda name: known[name], default=next(reversed(list(nodes)), None))
    messages: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    while isinstance(last, str) and last in nodes and last not in seen:
        seen.add(last)
        message = value_at(nodes[last], "message")
        if message is not None:
            messages.append(message)
        last = value_at(nodes[last], "parent")
    return messages[::-1]


def _turn(message: Any, left_out: Counter[str]) -> Turn | None:
    """Returns a turn; None for a message that is left out and counted."""
    if not isinstance(message, Mapping):
        return Turn(None, "", is_usable=False)
    role = speaker_of(value_at(message, "author.role"))
    content = message.get("content")
    kind = value_at(content, "content_type")
    if role == "system" or value_at(message, "metadata.is_visually_hidden_from_conversation") is True:
        left_out["system"] += 1
    elif role == "tool" or message.get("recipient", "all") not in ("all", None):
        left_out["tool"] += 1
    elif kind is not None and kind not in _TEXTS:
        left_out["reasoning" if kind in ("thoughts", "reasoning_recap") else "other part"] += 1
    else:
        before = left_out.total()
        text = text_of_parts(value_at(content, "parts"), left_out)
        if text != "" or left_out.total() == before:
            return Turn(role, text or "", is_usable=text is not None)
    return None
