"""Reads logs of IRC from weechat, irssi, znc, HexChat, mIRC and Ubuntu's bot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from pipelines.corpus.dialogues import Dialogue, DialogueReader, Item, LeftOut, Message
from pipelines.corpus.items import BadRow
from pipelines.corpus.log_lines import bad_row, read_lines, seconds

_MONTHS: Final = {
    name: at
    for at, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}
_TIME: Final = re.compile(
    r"(?:\[|\()?(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ,]{1,2}"
    r"|(?P<name>[A-Za-z][a-z]{2}) {1,2}(?P<of>\d{1,2}) )?"
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?(?:\.\d{1,6})?(?: ?(?P<half>[AaPp])[Mm])?"
    r"(?:Z|[+-]\d\d:?\d\d)?(?:\]|\))?(?P<gap>[ \t]{1,4})"
)
_NICK: Final = r"[ @+%&~!]{0,3}(?P<nick>[^\s<>@+%&~!][^<>\t]{0,63})"
_MESSAGE: Final = re.compile(rf"<{_NICK}>(?:[ \t]+|$)")
_ACTION: Final = re.compile(r"(?:\*|Action:)[ \t]+[@+%&~!]?(?P<nick>[^\s<>*]{1,64}) ")
_SYSTEM: Final = re.compile(
    r"-!-|\*\*\*|-->|<--|--(?:[ \t]|$)|===|=!=|---|[-<>]{1,3}\t|-[^\s-][^\s]{0,80}-[ \t]"
    r"|\*[ \t]{1,3}(?:\*|Now talking |Topic (?:for|is|on) |You (?:are|have|were) |Disconnected|Loaded |Received a )"
)
"""Lines of the program: a note, a notice of a service, a topic."""
_EVENT: Final = re.compile(
    r"(?:\([^)\n]{1,200}\) |\[[^\]\n]{1,200}\] )?(?:has (?:joined|quit|left)(?: ?[#&(\[]|\.?\s*$)|have joined|"
    r"has (?:changed|set) the topic|has been kicked|(?:is|are) now known as|sets? (?:mode|ban|the topic)|"
    r"changed? (?:the )?topic|(?:gives|removes) (?:channel|voice|half)|was kicked|(?:joined|quit)(?: [#&(\[]|\.?\s*$))"
)
"""What a nick did, where an action also begins with the nick."""
_RENAMED: Final = re.compile(
    r"(?:-!-|\*{1,3}|--|===|=!=)\s{1,4}(?P<old>[^\s]{1,64}) (?:is|are) now known as (?P<new>[^\s]{1,64})"
)
_DAY: Final = re.compile(
    r"(?:---|\*\*\*\*|Session|--) ?(?:Day changed|Log (?:opened|closed)|BEGIN LOGGING|ENDING LOGGING|Start|Close|Time)"
    r"[^A-Za-z0-9]{0,3}(?:AT |to )?(?P<date>[^\n]{0,60})",
    re.IGNORECASE,
)
_DATE: Final = re.compile(r"(?P<name>[A-Z][a-z]{2})\w{0,6} +(?P<day>\d{1,2})\b.{0,20}?(?P<year>\d{4})")
_RELAYED: Final = re.compile(r"(?:\[[^\[\]]{1,40}\] )?<(?P<nick>[^<>\s][^<>]{0,63})> ")
_RELAY: Final = re.compile(r"bridge|relay|discord|gateway|telegram|matrix|slack|xmpp|mattermost", re.IGNORECASE)
_COLOURS: Final = re.compile(r"\x03(?:\d{1,2}(?:,\d{1,2})?)?|\x04[0-9A-Fa-f]{0,6}|[\x02\x0f\x11\x16\x1d\x1e\x1f]")
_MAX_NICKS: Final = 10_000
_MAX_OTHERS: Final = 10  # of a person
_DAY_SECONDS: Final = 86_400.0


class Part(NamedTuple):
    """A line of a log.

    Attributes:
        kind: ``message``, ``system`` or ``other``
        nick: nick of the speaker; "" for other kinds
        text: text of the message
        time: match of the time at the start of the line, if there is one
    """

    kind: str
    nick: str = ""
    text: str = ""
    time: re.Match[str] | None = None


def part_of(line: str) -> Part:
    """Splits a line of any of the programs."""
    time = _TIME.match(line)
    body = line[time.end() :] if time else line
    if time and time["gap"] == "\t" and time["year"] and "\t" in body:
        return _weechat(body, time)
    found = _MESSAGE.match(body) or _MESSAGE.match(body.lstrip(" "))
    if found:
        return Part("message", found["nick"], found.string[found.end() :], time)
    body = body.lstrip(" \t")
    found = _ACTION.match(body)
    if found and not _EVENT.match(body, found.end()) and not _SYSTEM.match(body):
        return Part("message", found["nick"], body[found.end() :], time)
    if found or _SYSTEM.match(body):
        return Part("system", time=time)
    return Part("other", time=time)


def _weechat(body: str, time: re.Match[str]) -> Part:
    prefix, _, text = body.partition("\t")
    prefix = prefix.strip(" ")
    if prefix == "*":
        nick, _, text = text.partition(" ")
        return Part("message", nick.lstrip("@+%&~!"), text, time)
    if prefix in ("", "-->", "<--", "--", "=!=", "<->") or " " in prefix:
        return Part("system", time=time)
    return Part("message", prefix.lstrip("@+%&~!").strip("<>"), text, time)


class _Clock:
    """Turns the times of a log into seconds. The lines of many programs have no date, or one without a year."""

    def __init__(self) -> None:
        self._day = 0.0
        self._year = 2000
        self._last = 0.0

    def see(self, line: str) -> None:
        """Takes the date from a line about a new day or a new log, if there is one."""
        found = _DAY.search(line, 0, 200)
        date = _DATE.search(found["date"]) if found else None
        if date is not None:
            day = seconds(int(date["year"]), _MONTHS.get(date["name"].lower(), 0), int(date["day"]))
            if day is not None:
                self._day, self._year, self._last = day, int(date["year"]), day

    def of(self, match: re.Match[str] | None) -> float | None:
        """Returns the seconds of a time; None without a time."""
        if match is None:
            return None
        hour = int(match["hour"])
        if match["half"]:
            hour = hour % 12 + 12 * (match["half"] in "Pp")
        clock = hour * 3600.0 + int(match["minute"]) * 60 + int(match["second"] or 0)
        if match["year"]:
            day = seconds(int(match["year"]), int(match["month"]), int(match["day"]))
            return None if day is None else day + clock
        if match["name"]:
            day = seconds(self._year, _MONTHS.get(match["name"].lower(), 0), int(match["of"]))
            if day is None:
                return None
            if day + clock < self._last - 180 * _DAY_SECONDS:  # December is over
                self._year += 1
                day = seconds(self._year, _MONTHS[match["name"].lower()], int(match["of"])) or day
            self._last = day + clock
            return self._last
        if self._day + clock < self._last - 3600:  # midnight is over; a shorter step back is a corrected clock
            self._day += _DAY_SECONDS
        self._last = self._day + clock
        return self._last


class _Nicks:
    """Follows changes of nicks, so that a person stays one speaker, whose name holds all nicks.

    A later person with the same nick may count as the same speaker.
    """

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._others: dict[str, list[str]] = {}

    def see(self, line: str) -> None:
        """Takes a change of nick from a system line, if it says one."""
        found = _RENAMED.search(line, 0, 400)
        if found is None:
            return
        old, new = found["old"].lstrip("@+%&~!"), found["new"].lstrip("@+%&~!").rstrip(".")
        first = self.first(old)
        self._first.pop(new, None)
        if first == new:
            return
        for known in (self._first, self._others):
            if len(known) >= _MAX_NICKS:
                del known[next(iter(known))]
        self._first[new] = first
        others = self._others.setdefault(first, [])
        if new not in others and len(others) < _MAX_OTHERS:
            others.append(new)

    def first(self, nick: str) -> str:
        """Returns the first nick of a person."""
        return self._first.get(nick, nick)

    def name(self, first: str | None) -> str | None:
        """Returns the first nick of a person and all others, because people may be addressed by any of them."""
        return ", ".join((first, *self._others.get(first, ()))) if first else first


class _Relays:
    """Finds the nicks of programs that relay other chats: ``<bridge> [boats] <mo> hi`` is a message of mo."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}  # of relayed messages; -1 for a person

    def of(self, nick: str, text: str) -> tuple[str, str]:
        """Returns the nick of the person who speaks, and the text."""
        found = _RELAYED.match(text)
        count = self._counts.pop(nick, 0)
        if len(self._counts) >= _MAX_NICKS:
            del self._counts[next(iter(self._counts))]
        is_relay = _RELAY.search(nick) is not None
        self._counts[nick] = count + 1 if found and count >= 0 else count if count > 2 or is_relay else -1
        if found and (is_relay or self._counts[nick] > 2):
            return found["nick"], text[found.end() :]
        return nick, text


class Irc(DialogueReader):
    """Reads the log of a channel."""

    def read(self, file: BinaryIO) -> Iterator[tuple[int, Dialogue | BadRow]]:
        """Yields the dialogues, by the names that speakers had last, and unusable lines."""
        self._nicks = _Nicks()
        for row, found in super().read(file):
            if isinstance(found, Dialogue):
                found = found._replace(turns=[(self._nicks.name(nick), text) for nick, text in found.turns])
            yield row, found

    def items(self, file: BinaryIO) -> Iterator[Item]:
        """Yields the messages and what is left out."""
        clock, relays, nicks = _Clock(), _Relays(), self._nicks
        row = 0
        for line in read_lines(file, self.options.max_document_chars):
            if line.is_blank:
                continue
            row += 1
            if line.fault:
                yield row, bad_row(line.fault)
                continue
            text = _COLOURS.sub("", line.text)
            part = part_of(text)
            if part.kind == "message":
                nick, text = relays.of(part.nick, part.text)
                yield Message(row, nicks.first(nick), text, clock.of(part.time))
                continue
            clock.of(part.time)
            clock.see(text)
            nicks.see(text)
            yield LeftOut(part.kind)
