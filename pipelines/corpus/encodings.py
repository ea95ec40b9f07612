"""Character sets of files: their names, their detection, and streams that turn them into UTF-8.

Every reader sees UTF-8. A file in another character set (``corpus.encoding``) is converted between its bytes and its
rows, so that a row has the same bytes, and a partition the same end, as if the file had been UTF-8 from the start.
"""

from __future__ import annotations

import codecs
import io
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, BinaryIO, Final, cast

UTF8: Final = "utf-8"
WESTERN: Final = "windows-1252"

_PART_BYTES = 1 << 16
_SAMPLE_BYTES = 1 << 16
_BEFORE_BYTES = 2000
_LEAST_CUT_BYTES = 1 << 12
_GOOD_PER_BAD = 6
_MARK = "reticent.undecodable"


def _range(ends: str) -> str:
    return "".join(map(chr, range(ord(ends[0]), ord(ends[1]) + 1)))


_NO_ENCODINGS: Final = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs"})
_BOMS: Final = (
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is the start of this one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ESCAPES: Final = (
    (re.compile(rb"\x1b\$[@B(]|\x1b\([BJI]"), "iso-2022-jp-2"),
    (re.compile(rb"\x1b\$\)C"), "iso-2022-kr"),
)
_MARKS: Final = frozenset("’‘“”„«»–—…€£°§·•´¿¡©®™ºª、。「」，！？：；（）《》")
_CYRILLIC: Final = _range("ая") + "ёєіїґђћјљњџѓќўѕ"
_FIRST_PLANE: Final = {
    "cp932": ("cp932", (0x88, 0x98)),
    "euc_jp": ("cp932", (0x88, 0x98)),
    "gb18030": ("gb2312", (0xB0, 0xD7)),
    "big5hkscs": ("big5", (0xA4, 0xC6)),
    "cp949": ("euc_kr", (0xB0, 0xC8)),
}
"""First bytes of the frequent characters in the standards of Japan, China, Taiwan and Korea."""
_CHAOS: Final = 0.06
"""Difference in charset-normalizer's measure of disorder that says nothing."""
_CANDIDATES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "cp1252": (
        WESTERN,
        (
            "àâæçéèêëîïôœùûüÿ",
            "äöüß",
            "áéíñóúü",
            "ãâàáçéêíóõôúü",
            "àèéìíîòóùú",
            "àçèéíïòóúü",
            "éëïóöüèê",
            "åäöé",
            "æøåéóò",
            "áæéíðóöþúý",
        ),
    ),
    "cp1250": ("windows-1250", ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "ăâîşţ", "čćđšž")),
    "iso8859_2": ("iso-8859-2", ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "ăâîşţ", "čćđšž")),
    "cp1254": ("windows-1254", ("âçğıîöşüû",)),
    "cp1257": ("windows-1257", ("ąčęėįšųūž", "āčēģīķļņšūž", "äõöüšž")),
    "cp1255": ("windows-1255", (_range("את"),)),
    "cp1251": ("windows-1251", (_CYRILLIC,)),
    "koi8_r": ("koi8-r", (_CYRILLIC,)),
    "cp866": ("cp866", (_CYRILLIC,)),
    "cp1253": ("windows-1253", (_range("αώ") + "ΐΰ",)),
    "cp1256": ("windows-1256", (_range("ءي") + "پچژگکیے",)),
    "cp932": ("cp932", ()),
    "euc_jp": ("euc-jp", ()),
    "gb18030": ("gb18030", ()),
    "big5hkscs": ("big5-hkscs", ()),
    "cp949": ("cp949", ()),
    "cp874": ("cp874", (_range("กๅ"),)),
    "mac_roman": ("mac-roman", ("àâæçéèêëîïôœùûüÿ", "äöüß", "áéíñóúü", "åäöé", "æøåé")),
    "cp850": ("cp850", ("àâæçéèêëîïôœùûüÿ", "äöüß", "áéíñóúü", "åäöé", "æøåé")),
}
"""Character sets that detection considers, in order of preference: the name in charset-normalizer, the name in the
settings, and for each language the letters that are not ASCII."""


WIDE: Final = ("utf-16", "utf-32")
"""Beginnings of the names of character sets whose text does not look like ASCII."""


def checked_encoding(name: str) -> str:
    """Returns the usual spelling of a character set's name: ``utf-8`` for ``UTF8``.

    Raises:
        ValueError: Python knows no character set of this name.
    """
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        info = None
    is_text = info is not None and getattr(info, "_is_text_encoding", True)
    if info is None or not is_text or info.name.replace("-", "_") in _NO_ENCODINGS:
        raise ValueError(f"unknown character set '{name}'; for example utf-8, windows-1252, utf-16, gb18030, shift_jis")
    spelled = info.name.replace("_", "-")
    if spelled in ("utf-8-sig", "ascii"):
        return UTF8  # a byte order mark is no text, and ASCII is a part of UTF-8
    return re.sub(r"^cp(125\d)$", r"windows-\1", re.sub(r"^iso8859-", "iso-8859-", spelled))


class _Utf8Stream(io.RawIOBase):
    """A stream of bytes in UTF-8, made of a stream in another character set.

    An undecodable byte becomes a byte sequence that is no UTF-8. So the row that holds it is rejected, and no other.
    """

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._file = file
        self._encoding = encoding
        self._decoder: codecs.IncrementalDecoder | None = None
        self._made = b""
        self._is_at_end = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._made and not self._is_at_end:
            data = cast("io.BufferedReader", self._file).read1(_PART_BYTES)
            self._is_at_end = not data
            if self._decoder is None:
                while 0 < len(data) < 4 and (more := self._file.read(1)):
                    data += more
                self._decoder = codecs.getincrementaldecoder(_with_order(self._encoding, data))(errors=_MARK)
            self._made = self._decoder.decode(data, self._is_at_end).encode("utf-8", "surrogatepass")
        data = self._made[: len(buffer)]
        self._made = self._made[len(data) :]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _with_order(encoding: str, start: bytes) -> str:
    """Returns the order of bytes, too, for UTF-16 and UTF-32 without a mark of it, which most programs write so."""
    if encoding not in ("utf-16", "utf-32") or any(start.startswith(mark) for mark, name in _BOMS if name == encoding):
        return encoding
    return f"{encoding}-le"


def _mark_undecodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


codecs.register_error(_MARK, _mark_undecodable)


def as_utf8(file: BinaryIO, encoding: str) -> BinaryIO:
    """Returns a stream of the same text in UTF-8. It cannot seek. Closing it closes ``file``.

    Args:
        file: buffered stream at its start
        encoding: name of the character set, as `checked_encoding` returns it
    """
    return file if encoding == UTF8 else io.BufferedReader(_Utf8Stream(file, encoding), 1 << 20)


def encoding_of(head: bytes) -> str:
    """Guesses the character set of a text.

    A byte order mark decides. Next come UTF-16 and UTF-32 without one, the escapes of ISO-2022, and UTF-8, also if a
    few of its bytes are damaged. Of the others, charset-normalizer names those in which the text is orderly. The one
    whose languages use most of the letters is taken, and windows-1252 if it is as good, because it is the most frequent
    one. So the answer for a text of a few words is a guess, and never an error.

    Args:
        head: beginning of the text; from 4 KB on, its end may cut a character in two

    Returns:
        A name that `checked_encoding` accepts; ``utf-8`` for a text in ASCII, and for bytes that are no text.
    """
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name
    if wide := _wide(head):
        return wide
    for escape, name in _ESCAPES:
        if escape.search(head) and _decodes(head, name):
            return name
    if _decodes(head, UTF8):
        return UTF8
    sample = _sample(head)
    num_bad = sample.decode(UTF8, "replace").count("\ufffd") - sample.count("\ufffd".encode())
    if num_bad * _GOOD_PER_BAD < sum(byte > 0x7F for byte in sample) - num_bad:
        return UTF8  # its few bad bytes are damage, and any other character set would change all the good ones
    return _likeliest(sample)


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(data, len(data) < _LEAST_CUT_BYTES)
    except UnicodeDecodeError:
        return False
    return True


def _wide(head: bytes) -> str | None:
    """Returns the kind of UTF-16 or UTF-32 in which the bytes, with no mark, are text. Most such texts have spaces."""
    head = head[: min(len(head), _SAMPLE_BYTES) // 4 * 4]
    if b"\0" not in head:
        return None
    for encoding in ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"):
        space, line = " ".encode(encoding), "\n".encode(encoding)
        units = [head[i : i + len(space)] for i in range(0, len(head), len(space))]
        has_spaces = 30 * sum(unit in (space, line) for unit in units) >= len(units)
        if has_spaces and _decodes(head, encoding) and "\0" not in head.decode(encoding, "ignore"):
            return encoding
    return None


def _sample(data: bytes) -> bytes:
    """Returns the bytes around the first one that is not ASCII."""
    first = next(re.finditer(rb"[\x80-\xff]", data)).start()
    start = data.rfind(b"\n", 0, max(0, first - _BEFORE_BYTES)) + 1 if first > _BEFORE_BYTES else 0
    return data[start : start + _SAMPLE_BYTES]


@lru_cache(maxsize=64)
def _likeliest(data: bytes) -> str:
    from charset_normalizer import from_bytes

    found = from_bytes(data, cp_isolation=[*_CANDIDATES], threshold=0.3, enable_fallback=False)
    names = {name: match for match in reversed(found) for name in match.could_be_from_charset if name in _CANDIDATES}
    names = {name: match for name, match in names.items() if _decodes(data, name)}
    if not names:
        return WESTERN
    least = min(match.chaos for match in names.values())
    fits = {name: _fit(str(names[name]), name) for name in _CANDIDATES if name in names}
    return _CANDIDATES[max(fits, key=lambda name: fits[name] - max(0, names[name].chaos - least - _CHAOS))][0]


def _fit(text: str, name: str) -> float:
    """Returns the share of the characters outside ASCII that are usual in the character set's languages, 0 to 1."""
    letters = [c for c in text if c > "\x7f" and c.isalpha()]
    num_others = sum(c > "\x7f" and not c.isalpha() and not c.isspace() and c not in _MARKS for c in text)
    num_others += sum(_is_odd(a, b) for a, b in pairwise(text))
    alphabets = _CANDIDATES[name][1]
    counted = Counter(letters)
    fitting: float
    if not alphabets:
        fitting = sum(n for c, n in counted.items() if _is_frequent(c, name))
    else:
        fitting = max(
            sum(n * (1 if c in known else 0.9) for c, n in counted.items() if c.lower() in known) for known in alphabets
        )
    num_marks = sum(c in _MARKS for c in text)
    return (fitting + num_marks) / max(1, len(letters) + num_marks + num_others)


def _is_odd(a: str, b: str) -> bool:
    """Checks if no word has these neighbours: a small letter before a capital one, or Latin beside another script."""
    if (a.isascii() and b.isascii()) or not (a.isalpha() and b.isalpha()):
        return False
    return (a.islower() and b.isupper()) or (a.isascii() and b > "\u024f") or (b.isascii() and a > "\u024f")


def _is_frequent(character: str, name: str) -> bool:
    """Checks that a character is one of the first plane of its national standard, or a kana."""
    if "\u3040" <= character <= "\u30ff":
        return name in ("cp932", "euc_jp")
    standard, (first, last) = _FIRST_PLANE[name]
    try:
        return first <= character.encode(standard)[0] <= last
    except UnicodeEncodeError:
        return False
