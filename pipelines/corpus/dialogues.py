"""Groups the messages of a chat into dialogues, by thread and by gaps of time."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO, Final, NamedTuple

from pipelines.corpus.items import BadRow, Document, Rejected, Turn
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.records import Record, Source, document, is_unicode

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
        is_thread: flag that ``thread`` is one dialogue, which no pause ends
        names: names of people who are mentioned in it
    """

    row: int
    speaker: str | None
    text: str
    time: float | None = None
    thread: str | None = None
    is_thread: bool = False
    names: tuple[str, ...] = ()


class LeftOut(NamedTuple):
    """A part of a chat that is not text of a speaker, such as a system line or a picture. It is counted by kind.

    Attributes:
        kind: kind of the part. From readers of other packages, kinds outside `KINDS` are counted as `OTHER`, because
            counts are shown, and a kind in free text could hold text of the corpus.
    """

    kind: str


OTHER: Final = "other part"
KINDS: Final = frozenset({
    "attachment", "code", "deleted", "draft", "embed", "empty", "header", "media", "note", "poll", "quote", "reaction",
    "reasoning", "signature", "sound", "system", "table", "tool", OTHER,
})  # fmt: skip
"""Kinds of parts that a reader of another package may leave out."""


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
        names: names of people who are mentioned, or whose turns have a role as speaker
        owners: ids of the customers in it; None if the format does not tell who is one
    """

    row: int
    turns: Sequence[tuple[str | None, str]]
    source_id: str | None = None
    left_out: tuple[tuple[str, int], ...] = ()
    domain: str | None = None
    fold: str | None = None
    label: str | None = None
    is_text: bool = False
    names: tuple[str, ...] = ()
    owners: tuple[str, ...] | None = None


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
    made = document(
        source,
        "\n".join(parts),
        {**given, options.label_field: dialogue.label, **(record or {})},
        source_id=dialogue.source_id,
        num_rows=1 if dialogue.is_text else max(1, len(turns)),
        turns=None if dialogue.is_text else tuple(turns),
        left_out=dialogue.left_out,
    )
    if options.owner_from == "sender" and dialogue.owners is not None:
        made = replace(made, owners=tuple(filter(is_unicode, dialogue.owners)))
    return replace(made, names=tuple(filter(is_unicode, dialogue.names))) if dialogue.names else made


Item = Message | LeftOut | tuple[int, BadRow]
"""A message, a part that is left out, or an unusable message with its row."""


class DialogueReader(ABC):
    """A reader of the messages of a file, which it groups into dialogues.

    Args:
        options: options of reading
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    @abstractmethod
    def items(self, file: BinaryIO) -> Iterator[Item]:
        """Yields the messages of a file in its order, the parts that are left out, and unusable messages."""

    def read(self, file: BinaryIO) -> Iterator[tuple[int, Dialogue | BadRow]]:
        """Yields the dialogues and unusable messages of a file; see `dialogues`."""
        gap, limit = self.options.dialogue_gap_minutes, self.options.max_document_chars
        return dialogues(self.items(file), gap_minutes=gap, max_chars=limit)


class _Open:
    """A dialogue whose end is not known yet."""

    def __init__(self, row: int) -> None:
        self.row = row
        self.messages: list[Message] = []
        self.num_chars = 0
        self.time: float | None = None


def dialogues(items: Iterable[Item], *, gap_minutes: float, max_chars: int) -> Iterator[tuple[int, Dialogue | BadRow]]:
    """Groups messages into dialogues.

    A message continues the dialogue of its thread, unless more than ``gap_minutes`` have passed since the last message
    there (``is_thread``: however many), or the dialogue would have more than ``max_chars`` characters. Messages without
    a time always continue it. A file may hold the newest message first: a gap may also lead backwards, and the turns of
    such a dialogue are put into the order of their times. Memory holds the open dialogues, at most `MAX_OPEN`.

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
        names = dict.fromkeys(name for message in made.messages for name in message.names)
        held = Dialogue(made.row, turns_of(made.messages), None, tuple(sorted(left_out.items())), names=tuple(names))
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
        if (problem := unusable(item.speaker, item.text)) is not None:
            yield item.row, problem
            continue
        current = opened.pop(item.thread, None)
        if current is not None and _ends_before(current, item, gap_minutes, max_chars):
            yield from ended(current)
            current = None
        if current is None:
            current = _Open(item.row)
            if len(opened) >= MAX_OPEN:
                yield from ended(opened.pop(next(iter(opened))))
        current.messages.append(item)
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
    if message.is_thread or current.time is None or message.time is None:
        return False
    return abs(message.time - current.time) > gap_minutes * 60


def unusable(speaker: str | None, text: str) -> BadRow | None:
    """Returns the reason why one message would make its whole dialogue unusable, or None."""
    if "\0" in text or "\0" in (speaker or ""):
        return BadRow("nul", "the message holds a NUL character. Remove it.")
    if not is_unicode(text) or not is_unicode(speaker or ""):
        return BadRow("undecodable", "holds half of a surrogate pair as a JSON escape. Write the character whole.")
    return None


def turns_of(messages: list[Message]) -> list[tuple[str | None, str]]:
    """Returns speakers and texts in the order of the messages, or of their times if the newest message comes first."""
    times = [message.time for message in messages if message.time is not None]
    if times and len(times) == len(messages) and times[0] > times[-1]:
        messages = messages[::-1]  # those of one time
        messages.sort(key=lambda message: message.time or 0.0)
    return [(message.speaker, message.text) for message in messages]
