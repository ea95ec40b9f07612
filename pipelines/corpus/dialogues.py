"""Groups the messages of a chat into dialogues, by thread and by gaps of time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pipelines.corpus.items import BadRow, Document, Rejected, Turn
from pipelines.corpus.records import Record, Source, document

MAX_OPEN = 1_000
"""Number of threads that may be open at once. The one without a message for the longest time ends first."""
_LINE_BREAKS = re.compile(r"[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")


class Message(NamedTuple):
    """A message of a chat.

    Attributes:
        row: 1-based position of the message in its file, counted with system lines and unusable messages
        speaker: name of the speaker as the file writes it; None if unknown
        text: text of the message
        time: seconds since any fixed moment; None if unknown
        thread: name of the channel or thread; messages of different threads never share a dialogue
    """

    row: int
    speaker: str | None
    text: str
    time: float | None = None
    thread: str | None = None


class LeftOut(NamedTuple):
    """A part of a chat that is not text of a speaker, such as a system line or a picture. It is counted by kind."""

    kind: str


Items = list[Document | Rejected | LeftOut]
"""Documents and rejected rows of one row, and its parts that are left out."""


class Dialogue(NamedTuple):
    """Consecutive messages that make one document.

    Attributes:
        row: position of its first message in the file
        turns: pairs of speaker and text
        source_id: the dialogue's own id in the file, if it has one
        left_out: numbers of the parts left out, by kind
        domain, fold, label: values that the file gives for the whole dialogue
        is_text: flag that the turns are only lines of a text, such as subtitles without speakers
    """

    row: int
    turns: Sequence[tuple[str | None, str]]
    source_id: str | None = None
    left_out: tuple[tuple[str, int], ...] = ()
    domain: str | None = None
    fold: str | None = None
    label: str | None = None
    is_text: bool = False


def dialogue_document(source: Source, dialogue: Dialogue, record: Record | None = None) -> Document:
    """Makes the document of a dialogue: the utterances in lines, and the turns with their speakers.

    Args:
        source: place of the dialogue
        dialogue: turns and values of the dialogue
        record: record with id, domain, fold and label under the settings' names, which replace those of the dialogue

    Raises:
        BadRow: the dialogue has no text, or cannot be used.
    """
    parts: list[str] = []
    turns: list[Turn] = []
    at = 0
    for speaker, utterance in dialogue.turns:
        text = _LINE_BREAKS.sub("\n", utterance).strip()
        if text:
            turns.append(Turn(at, at + len(text), (speaker or "").strip() or None))
            parts.append(text)
            at += len(text) + 1
    options = source.options
    given = {options.domain_field: dialogue.domain, options.fold_field: dialogue.fold}
    return document(
        source,
        "\n".join(parts),
        {**given, options.label_field: dialogue.label, **(record or {})},
        source_id=dialogue.source_id,
        num_rows=1 if dialogue.is_text else max(1, len(turns)),
        turns=None if dialogue.is_text else tuple(turns),
        left_out=dialogue.left_out,
    )


class _Open:
    """A dialogue whose end is not known yet."""

    def __init__(self, row: int) -> None:
        self.row = row
        self.turns: list[tuple[str | None, str]] = []
        self.num_chars = 0
        self.time: float | None = None


def dialogues(
    items: Iterable[Message | LeftOut | tuple[int, BadRow]], *, gap_minutes: float, max_chars: int
) -> Iterator[tuple[int, Dialogue | BadRow]]:
    """Groups messages into dialogues.

    A message continues the dialogue of its thread, unless more than ``gap_minutes`` have passed since the last message
    there, or the dialogue would have more than ``max_chars`` characters. Messages without a time always continue it.
    Memory holds the open dialogues, at most `MAX_OPEN`.

    Args:
        items: messages, parts that are left out, and unusable messages with their rows, in the order of the file
        gap_minutes: minutes of silence after which a new dialogue begins
        max_chars: largest number of characters in a dialogue

    Yields:
        Pairs of the first message's row and the dialogue, in the order in which dialogues end, and unusable messages.
        The numbers of parts left out belong to the next dialogue that ends.
    """
    opened: dict[str | None, _Open] = {}
    left_out: Counter[str] = Counter()
    held: Dialogue | None = None  # the last dialogue waits for the parts left out after it

    def ended(made: _Open) -> Iterator[tuple[int, Dialogue]]:
        nonlocal held
        if held is not None:
            yield held.row, held
        held = Dialogue(made.row, made.turns, left_out=tuple(sorted(left_out.items())))
        left_out.clear()

    for item in items:
        if isinstance(item, LeftOut):
            left_out[item.kind] += 1
            continue
        if not isinstance(item, Message):
            yield item
            continue
        if not item.text.strip():
            left_out["empty"] += 1
            continue
        current = opened.pop(item.thread, None)
        if current is not None and _ends_before(current, item, gap_minutes, max_chars):
            yield from ended(current)
            current = None
        if current is None:
            current = _Open(item.row)
            if len(opened) >= MAX_OPEN:
                yield from ended(opened.pop(next(iter(opened))))
        current.turns.append((item.speaker, item.text))
        current.num_chars += len(item.text) + 1
        current.time = current.time if item.time is None else item.time
        opened[item.thread] = current
    for made in opened.values():
        yield from ended(made)
    if held is not None:
        total = Counter(dict(held.left_out)) + left_out
        yield held.row, held._replace(left_out=tuple(sorted(total.items())))


def _ends_before(current: _Open, message: Message, gap_minutes: float, max_chars: int) -> bool:
    if current.num_chars + len(message.text) > max_chars:
        return True
    if current.time is None or message.time is None:
        return False
    return message.time - current.time > gap_minutes * 60
