"""Decodes the headers and bodies of mails, also if they name no character set, a wrong one or an unknown one."""

from __future__ import annotations

import re
from email.header import decode_header
from email.message import Message
from typing import Final

from pipelines.corpus.encodings import encoding_of
from pipelines.corpus.items import BadRow

_SPACES = re.compile(r"\s+")
_BRACKETS: Final = re.compile(r"<([^<>]+)>")
_ADDRESS: Final = re.compile(r"[^\s<>()\[\]\",;:@]+@[^\s<>()\[\]\",;:@]+")
_ENCODED = re.compile(r"=\?[^?\s]+\?[bBqQ]\?[^?]*\?=(?:\s+(?==\?))?")
_META: Final = re.compile(rb"<meta[^>]{1,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_MAX_ENCODED_CHARS: Final = 1 << 16
_NOT_NAMED: Final = ("us-ascii", "ascii", "unknown-8bit", "default")
_LARGER: Final = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "gb_2312-80": "gb18030",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "big5": "big5-hkscs",
    "iso-8859-8-i": "iso-8859-8",
    "iso-8859-8-e": "iso-8859-8",
    "iso-8859-6-i": "iso-8859-6",
    "windows-874": "cp874",
    "iso-2022-jp": "iso-2022-jp-ext",
    "utf8": "utf-8",
    "utf-8-mac": "utf-8",
    "utf8mb4": "utf-8",
    "unicode-1-1-utf-8": "utf-8",
    "cp-850": "cp850",
}
"""Character sets that mail programs use under the name of a smaller one, or under a name that Python does not know."""


def decoded(data: bytes, charset: str | None, *, is_page: bool = False, is_strict: bool = False) -> str:
    """Decodes a body.

    The declared character set decides if the bytes fit. If they do not, or if the name is unknown, a larger character
    set of the same family is tried, then the one that a page names, then a guess (`encoding_of`).

    Args:
        data: bytes of the body
        charset: declared character set in lower case; None for none
        is_page: true for HTML
        is_strict: true to read control characters in ISO-8859-1 as the signs of windows-1252, which were meant

    Raises:
        BadRow: the bytes are in no character set that was tried.
    """
    named = None if charset in _NOT_NAMED else charset
    if named and is_strict and named in ("iso-8859-1", "latin1", "latin-1") and re.search(rb"[\x80-\x9f]", data):
        named = "windows-1252"
    meta = _META.search(data[:4096]) if is_page else None
    for one in (named or "utf-8", _LARGER.get(named or ""), meta[1].decode("ascii").lower() if meta else None):
        text = _in(data, one) if one else None
        if text is not None:
            return text
    guess = encoding_of(data)
    text = _in(data, guess)
    if text is None:
        raise BadRow(
            "undecodable",
            "its text is not in the character set that it names, or that one is unknown, and no other one fits.",
        )
    return text.removeprefix("\ufeff")


def _in(data: bytes, charset: str) -> str | None:
    try:
        return data.decode(charset)
    except (LookupError, ValueError):
        return None


def addresses(message: Message, name: str) -> tuple[str, ...]:
    """Returns the addresses in a header: those in angle brackets, else words with an at sign, else the whole value."""
    value = _SPACES.sub(" ", _raw(message, name).encode("utf-8", "replace").decode("utf-8")).strip()
    found = _BRACKETS.findall(value) or _ADDRESS.findall(value) or [value]
    return tuple(address for address in map(str.strip, found) if address)


def _raw(message: Message, name: str) -> str:
    return next((str(value) for key, value in message.raw_items() if key.lower() == name.lower()), "")


def header(message: Message, name: str) -> str:
    """Returns a header's value as text on one line. A value that nothing decodes stays as it is."""
    value = _raw(message, name)
    if value.isascii():
        text = _words(value)
    else:  # bytes outside ASCII, which a header must not hold
        try:
            value = decoded(value.encode("utf-8", "surrogateescape"), None)
        except BadRow:
            value = value.encode("ascii", "replace").decode("ascii")
        text = _ENCODED.sub(lambda found: _words(found[0].strip()), value)
    return _SPACES.sub(" ", text.encode("utf-8", "replace").decode("utf-8")).strip()


def _words(value: str) -> str:
    parts: list[str] = []
    if len(value) > _MAX_ENCODED_CHARS:  # the library's time grows with the square
        return value
    try:
        for part, charset in decode_header(value):
            parts.append(part if isinstance(part, str) else decoded(part, charset))
    except (ValueError, LookupError, BadRow):
        return value
    return "".join(parts)
