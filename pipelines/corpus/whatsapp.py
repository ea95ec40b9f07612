"""Reads chats that WhatsApp exports as text, from iOS and Android, in many languages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Final, NamedTuple

from pipelines.corpus import whatsapp_words as words
from pipelines.corpus.dialogues import DialogueReader, Item, LeftOut, Message
from pipelines.corpus.items import BadRow
from pipelines.corpus.log_lines import Entry, Start, entries, read_lines, seconds, with_head

_M: Final = "[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]{0,4}"
_SP: Final = "[ \u00a0\u202f\u2009]"
HEADER: Final = re.compile(
    rf"{_M}(?P<open>\[?){_M}(?P<a>\d{{1,4}}){_M}(?P<sep>[./-]){_M}{_SP}?(?P<b>\d{{1,2}}){_M}(?P=sep){_M}{_SP}?"
    rf"(?P<c>\d{{1,4}})\.?{_M}[,،]?{_SP}?(?:(?P<before>[^\W\d_]{{1,5}})(?:{_SP}las)?{_SP}?)??"
    rf"(?P<hour>\d{{1,2}})[:.](?P<minute>\d{{2}})(?:[:.](?P<second>\d{{2}}))?{_M}"
    rf"(?:{_SP}?(?P<after>[^\s\d\]:–-]{{1,12}}(?:{_SP}[^\W\d_]{{1,2}}\.)?))?{_M}"
    rf"(?P<close>\]{_SP}?|{_SP}[-–]{_SP}|:{_SP})"
)
"""The date and time before a message: ``[12.03.24, 10:15:32] ``, ``3/12/24, 10:15 PM - ``, ``12/03/16 10:15:32: ``."""

_NAME: Final = re.compile(r"(?P<name>[^\n]{1,100}?):(?:\s|$)")
_MARKS: Final = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_GENERATED: Final = "\u200e"
_QUOTES: Final = (("“", "”"), ("„", "“"), ("«", "»"), ("「", "」"))
_LONGEST_NAME: Final = 3  # colons

Order = tuple[int, int, int]
_ORDERS: Final[dict[str, Order]] = {"dmy": (2, 1, 0), "mdy": (2, 0, 1), "ymd": (0, 1, 2)}


class _Times:
    """Turns dates and times into seconds.

    The head of the file decides the order of day, month and year for the whole file: the order with the fewest dates
    that do not exist, then with the fewest steps back in time. If two orders are equal, month/day applies to slashes
    with AM or PM, and day/month to all others.

    Args:
        head: headers of the first messages, in order
    """

    def __init__(self, head: Sequence[re.Match[str]]) -> None:
        is_american = any(m["sep"] == "/" and _half(m) for m in head)
        ranked = ("mdy", "dmy", "ymd") if is_american else ("dmy", "mdy", "ymd")
        self.order = min(ranked, key=lambda order: self._faults(head, _ORDERS[order]))

    def _faults(self, head: Iterable[re.Match[str]], order: Order) -> tuple[int, int]:
        num_wrong = num_back = 0
        last = 0.0
        for match in head:
            time = _time(match, order)
            if time is None:
                num_wrong += 1
                continue
            num_back += time < last
            last = time
        return num_wrong, num_back

    def of(self, match: re.Match[str]) -> float | None:
        """Returns the seconds; None if there is no such time."""
        return _time(match, _ORDERS[self.order])


def _half(match: re.Match[str]) -> str:
    """Returns "am", "pm", or "" for a clock of 24 hours or an unknown word."""
    for word in (match["after"], match["before"]):
        if word:
            plain = re.sub(r"[\s.]", "", word).casefold()
            if plain in words.AFTERNOON:
                return "pm"
            if plain in words.MORNING:
                return "am"
    return ""


def _time(match: re.Match[str], order: Order) -> float | None:
    date = (match["a"], match["b"], match["c"])
    year, month, day = (date[at] for at in order)
    if any(len(part) > 2 for part in (month, day)) or len(year) not in (2, 4):
        return None
    hour, half = int(match["hour"]), _half(match)
    if half and hour <= 12:
        hour = hour % 12 + 12 * (half == "pm")
    return seconds(
        int(year) + 2000 * (len(year) == 2), int(month), int(day), hour, int(match["minute"]), int(match["second"] or 0)
    )


class Layout(NamedTuple):
    """The layout of a file.

    Attributes:
        style: marks around the date and between its numbers, which are the same in all messages of a file
        times: order of day and month
        long_names: names with a colon
    """

    style: tuple[str, str, str]
    times: _Times
    long_names: tuple[str, ...]

    @classmethod
    def of(cls, head: Iterable[str]) -> Layout:
        """Finds the layout of the messages in the first lines of a file."""
        found = [match for match in map(HEADER.match, head) if match]
        counts = Counter(map(_style, found))
        style = max(counts, key=counts.__getitem__) if counts else ("", "", "")
        found = [match for match in found if _style(match) == style]
        return cls(style, _Times(found), _long_names(match.string[match.end() :] for match in found))

    def start(self, line: str) -> Start | None:
        """Returns the beginning of a message or system line; None for a line that continues one."""
        match = HEADER.match(line)
        if match is None or _style(match) != self.style:
            return None
        time, rest = self.times.of(match), match.string[match.end() :]
        name, text = _speaker(rest, self.long_names)
        return Start(None, "", time, "system") if name is None else Start(name, text, time)


def _style(match: re.Match[str]) -> tuple[str, str, str]:
    return match["open"], match["sep"], re.sub(rf"{_SP}", "", match["close"])


def _long_names(rests: Iterable[str]) -> tuple[str, ...]:
    """Finds names with a colon: what stands before a later colon in every message of the name up to the first one."""
    counts: Counter[str] = Counter()
    for rest in rests:
        at = -1
        for _ in range(_LONGEST_NAME):
            at = rest.find(": ", at + 1)
            if at < 0:
                break
            counts[rest[:at]] += 1
    names = {
        name
        for name, count in counts.items()
        if count >= 3 and ": " in name and count == counts[name.partition(": ")[0]]
    }
    return tuple(sorted(names, key=len, reverse=True))


def _speaker(rest: str, long_names: Sequence[str]) -> tuple[str | None, str]:
    """Splits a line behind its time into name and text. A line without a name is a system line."""
    for name in long_names:
        if rest.startswith(f"{name}: "):
            return _bare(name), rest[len(name) + 2 :]
    match = None if words.NOTICE.match(_bare(rest[:200])) else _NAME.match(rest)
    if match is None or _has_open_quote(match["name"]):  # Ann changed the subject to "Trip: Rome"
        return None, ""
    return _bare(match["name"]) or None, rest[match.end() :]


def _has_open_quote(name: str) -> bool:
    return name.count('"') % 2 == 1 or any(name.count(a) > name.count(b) for a, b in _QUOTES)


def _bare(name: str) -> str:
    return _MARKS.sub("", name).strip(" ~\u00a0\u202f\t")


def _item(entry: Entry) -> Message | LeftOut | tuple[int, BadRow]:
    """Returns the message, or what its text stands for."""
    start = entry.start
    if start.left_out:
        return LeftOut(start.left_out)
    if entry.fault is not None:
        return entry.row, entry.fault
    text = _MARKS.sub("", words.EDITED.sub("", entry.text)).strip()
    if words.DELETED.fullmatch(text):
        return LeftOut("deleted")
    if text == "null" or words.BRACKETED.fullmatch(text) or words.OMITTED.fullmatch(text):
        return LeftOut("media")
    caption = words.ATTACHED.sub("", text)
    if caption != text:
        caption = words.FILE_NAME.sub("", caption).strip()
        return Message(entry.row, start.speaker, caption, start.time) if caption else LeftOut("media")
    if entry.text.startswith(_GENERATED) or words.NOTICE.match(text):
        return LeftOut("system")
    return Message(entry.row, start.speaker, text, start.time)


class WhatsApp(DialogueReader):
    """Reads the text file of an exported chat."""

    def items(self, file: BinaryIO) -> Iterator[Item]:
        """Yields the messages and what is left out."""
        limit = self.options.max_document_chars
        head, lines = with_head(read_lines(file, limit))
        layout = Layout.of(head)
        return map(_item, entries(lines, layout.start, limit))
