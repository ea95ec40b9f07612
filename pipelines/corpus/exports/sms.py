"""Reads text messages of Android phones in XML, as "SMS Backup & Restore" and tools like it write them.

A dialogue is the messages with one person or group up to a gap in time. Each element is parsed alone, so a damaged one
takes no other with it, and no declaration of the file (entities, external files) reaches the parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from pipelines.corpus.dialogues import DialogueReader, Item, LeftOut, Message
from pipelines.corpus.exports.parts import MEDIA, SYSTEM, seconds
from pipelines.corpus.items import BadRow
from pipelines.corpus.rows import BOM
from pipelines.corpus.xml_dumps import parsed

SELF: Final = "SELF"
"""Speaker of the messages that the owner of the phone sent, whose name the file does not hold."""

_READ_BYTES: Final = 1 << 16
_UNKNOWN: Final = ("", "null", "(unknown)", "unknown")
_INSERTED: Final = "insert-address-token"
_DRAFTS: Final = ("3",)
_SENT: Final = ("2", "4", "5", "6")
_FROM: Final = "137"
_CLOSED: Final = (b"</mms", b"</smses", b"<smses", b"<sms", b"<mms")
_NAME: Final = re.compile(rb"</?[A-Za-z]+")
_TAG: Final = re.compile(rb"(<[A-Za-z]+(?:\s+[\w:.-]+\s*=\s*(?:\"[^\"]*+\"|'[^']*+'))*+)\s*+/?>")
_DATA: Final = re.compile(rb"\sdata=(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))")
# Android writes characters beyond U+FFFF as two references, which XML forbids.
_PAIR: Final = re.compile(rb"&#(5[56][0-9]{3});&#(5[67][0-9]{3});")
_DIGITS: Final = re.compile(r"[^0-9]+")


class SmsReader(DialogueReader):
    """Reader of ``sms-….xml``."""

    _row = 0

    def items(self, file: BinaryIO) -> Iterator[Item]:
        """Yields the messages and what is left out."""
        has_frame = False
        num_bytes = 0
        parts: list[bytes] = []  # tags of a message with parts that has not ended yet
        for tag in _tags(file, self.options.json_bytes):
            name = _name(tag)
            has_frame = has_frame or name == b"<smses"
            if parts and name in _CLOSED:
                yield from self._checked(b"".join(parts) + (b"</mms>" if name == b"</mms" else b""), _mms)
                parts = []
            if name == b"<sms":
                yield from self._checked(tag, _sms)
            elif name == b"<mms" or parts:
                num_bytes = len(tag) + (num_bytes if parts else 0)
                parts.append(tag)
                if name == b"<mms" and tag.rstrip().endswith(b"/>"):
                    yield from self._checked(tag, _mms)
                    parts = []
                elif num_bytes > self.options.json_bytes:
                    self._row += 1
                    yield self._row, _TOO_LONG
                    parts = []
        if parts:
            yield from self._checked(b"".join(parts), _mms)
        if not has_frame and not self._row:
            yield 1, BadRow("missing_text", "holds no list of text messages (<smses>). Set corpus.format for the file.")

    def _checked(self, data: bytes, read: Any) -> Iterator[Item]:
        self._row += 1
        try:
            if len(data) > self.options.json_bytes:
                raise _TOO_LONG
            tag = _TAG.match(data)
            if tag is None:
                raise _DAMAGED
            element = tag[1] + b"/>" if read is _sms else data[: data.rindex(b">") + 1]
            yield from read(self._row, parsed(_PAIR.sub(_character, element).decode("utf-8")))
        except UnicodeDecodeError:
            yield self._row, BadRow("undecodable", "not UTF-8. Set corpus.encoding to the character set of the file.")
        except BadRow as bad:
            yield self._row, bad


_DAMAGED: Final = BadRow("bad_markup", "a message that is damaged, or cut off. Export the messages again.")
_TOO_LONG: Final = BadRow("over_long", "a message is longer than corpus.max_document_chars allows. Leave it out.")


def _tags(file: BinaryIO, limit: int) -> Iterator[bytes]:
    """Yields the tags of a file, each with the text behind it, without the bytes of pictures and sound.

    A tag keeps at most ``limit`` bytes and one more block, and then too many for a message.
    """
    left = file.read(_READ_BYTES).removeprefix(BOM)
    more = left
    while more:
        start, end = left.find(b"<"), 0
        while start >= 0 and (end := left.find(b"<", start + 1)) >= 0:
            yield _DATA.sub(b"", left[start:end])
            start = end
        left = _DATA.sub(_without_data, left[start:]) if start >= 0 else b""
        more = file.read(_READ_BYTES)
        if len(left) <= limit + _READ_BYTES:
            left += more
        elif b"<" in more:
            left += more[more.index(b"<") :]
    if left.startswith(b"<"):
        yield _DATA.sub(b"", left)


def _without_data(found: re.Match[bytes]) -> bytes:
    """Returns the beginning of an attribute that is not complete, because the rest of it may follow."""
    start = len(b" data='")
    return b"" if found[0].endswith(found[0][start - 1 : start], start) else found[0][:start]


def _name(tag: bytes) -> bytes:
    found = _NAME.match(tag)
    return found[0] if found else b""


def _character(found: re.Match[bytes]) -> bytes:
    high, low = int(found[1]), int(found[2])
    if not (0xD800 <= high < 0xDC00 <= low < 0xE000):
        return found[0]
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)).encode()


def _known(value: str | None) -> str | None:
    value = (value or "").strip()
    return None if value.lower() in _UNKNOWN else value


def _thread(address: str | None) -> str:
    """Returns the last digits of each number of a thread, in order, because a number has several spellings."""
    found = []
    for part in (address or "").split("~"):
        digits = _DIGITS.sub("", part)
        found.append(digits[-9:] if len(digits) > 6 else part.strip().lower())
    return "~".join(sorted(filter(None, found)))


def _sms(row: int, element: Any) -> Iterator[Item]:
    """Yields a text message. Raises `BadRow`."""
    kind = element.get("type")
    if element.get("body") is None:
        raise BadRow("missing_text", "a message without a body. Export the messages again.")
    if kind in _DRAFTS:
        yield LeftOut("draft")
        return
    address, contact = _known(element.get("address")), _known(element.get("contact_name"))
    speaker = SELF if kind in _SENT else contact or address
    text, subject = element.get("body"), _known(element.get("subject"))
    text = text if _known(text) else ""
    text = f"{subject}\n{text}" if subject else text
    names = (contact,) if contact else ()
    yield Message(row, speaker, text, seconds(element.get("date")), _thread(address), names=names)


def _mms(row: int, element: Any) -> Iterator[Item]:
    """Yields the text of a message with parts, and its pictures and the like as parts left out."""
    box = element.get("msg_box")
    if box in _DRAFTS:
        yield LeftOut("draft")
        return
    texts, num_media = [], 0
    for part in element.iter("part"):
        form = (part.get("ct") or "").lower()
        if form == "text/plain":
            texts += [text] if (text := part.get("text")) and _known(text) else []
        elif form != "application/smil":  # the layout of the parts
            num_media += 1
    yield from [MEDIA] * num_media
    subject = _known(element.get("sub"))
    texts = [subject, *texts] if subject and not subject.startswith("proto:") else texts
    if not texts:
        if not num_media:
            yield SYSTEM
        return
    address, contact = _known(element.get("address")), _known(element.get("contact_name"))
    is_group = "~" in (address or "")
    sender = next((one.get("address") for one in element.iter("addr") if one.get("type") == _FROM), None)
    sender = None if sender == _INSERTED else _known(sender)
    speaker = SELF if box in _SENT else sender or (None if is_group else address)
    if box not in _SENT and contact and not is_group:
        speaker = contact
    people = tuple(filter(_known, (name.strip() for name in (contact or "").split(","))))
    time = seconds(element.get("date"))
    yield Message(row, speaker, "\n".join(texts), time, _thread(address), names=people)
