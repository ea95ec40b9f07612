"""Decides whether a row is code, a log, or tells of a program."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from itertools import islice
from typing import Final

from pipelines.policies.english.word_lists import word_lists

_PROGRAMS: Final = word_lists("rows")["programs"]
MONTHS: Final = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_LOG: Final = re.compile(
    r"(?:\A|\n)[\[(]?(?:(?:level=)?(?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL)\W{1,4})?"
    rf"(?:(?:{MONTHS}) [ \d]\d \d\d:\d\d:\d\d|"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|\d\d:\d\d:\d\d(?:[.,]\d{1,6})?Z?[ \t]{1,3}[\[(|]?"
    r"(?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL|NOTICE|CRITICAL)(?!\w))"
)
_SYNTAX: Final = re.compile(
    r"\w\(|\);|[{}]|[=!<>]=|=>|->|::|&&|\|\||\w = |\w=[\w\"'\[{]|;\s*$"
    r"|</?\w+[ >/]|(?:^|\s)--?[a-z][a-z-]{0,30}(?=[ =]|\Z)|^\$ \w"
    r"|\w\.\w{1,40}\(|ERR!|\w_\w{1,40} ?[:=]|[a-z](?:Error|Exception)(?!\w)"
    r"|(?<!\w)(?:def|import|const|public|static|void|SELECT|FROM|CREATE|TABLE|INSERT|PRIMARY|return|docker|git|npm|pip"
    r"|sudo|kubectl|Traceback|File) |, line \d|at \w{1,40}\.\w{1,40}:\d",
    re.M,
)
_LINE_OF_CODE: Final = re.compile(
    r"^[ \t]*(?:from [.\w]{1,60} import |import [\w.]{1,60}(?: as \w{1,30})?(?:;|,|$)|#include [<\"]|use [\w:]{1,60};"
    r"|(?:async )?def \w{1,60}\(|class \w{1,60}[(:{]|elif .{1,200}:|(?:assert|raise|return|await|yield) \w{1,60}[(.\[]"
    r"|(?:const|let|var|val|fn|func|function) \w{1,60}[ (:=])",
    re.M,
)
"""A line that is code for certain."""

_FORM: Final = re.compile(
    r"(?<![\w@/])(?:[A-Z]{2,20}_[A-Z_]{2,40}|--[a-z][a-z-]{2,30}|[A-Za-z_]\w{1,40}\(\)|[a-z]{2,20}[A-Z]\w{1,40}\()(?!\w)"
    r"|(?<=[,(\"'`=.\[])[A-Za-z]\w{0,40}_\w{1,40}|(?<![\w@])[A-Za-z]\w{0,40}_\w{1,40}(?=[,()\"'`=.\[\]])"
)
"""A form of names in programs. A row with two tells of a program."""

_COMMENT: Final = re.compile(r"\s{0,40}(?:# [a-z]|// |/\*|>>> |\$ [a-z]|-- [a-z]|\[ {0,8}[0-9]{1,8}\.[0-9]{6}\] )")
"""How a comment, an example or a message of a kernel begins. A heading begins with a capital."""

_MARK: Final = re.compile(r"[(){}=<>&|;$!_:-]")
_KEYWORDS: Final = (
    *("def ", "import ", "const ", "public ", "static ", "void ", "SELECT ", "FROM ", "CREATE ", "TABLE ", "INSERT "),
    *("PRIMARY ", "return ", "docker ", "git ", "npm ", "pip ", "sudo ", "kubectl ", "Traceback ", "File ", ", line "),
    *("Error", "Exception"),
)
"""A text without such a mark or word has no match of the pattern above."""

_QUOTED: Final = re.compile(
    r"\"[^\"\n]{0,200}\"?|(?<!\w)'[^'\n]{0,200}'?|`[^`\n]{0,200}`?|[“‘][^”’\n]{0,200}"
    r"|(?:(?<!:)//|(?<!\S)#(?=\s)|/\*|(?<!\S)--\s|TODO|FIXME|(?:author|owner|by|name|user)\W{1,3})[^\n]{0,200}",
    re.I,
)
"""Strings and comments."""


def is_code(text: str) -> bool:
    """Returns true for a text with two marks of code, or a line that is code for certain."""
    may_be_code = _MARK.search(text) is not None or any(word in text for word in _KEYWORDS)
    return (may_be_code and has_two(_SYNTAX.finditer(text))) or _LINE_OF_CODE.search(text) is not None


def is_log(text: str) -> bool:
    """Returns true for a text with a line that begins with the time of a log."""
    return _LOG.search(text) is not None


def tells_of_programs(text: str, runs: frozenset[str]) -> bool:
    """Returns true for a text with a word of programs, or two forms of their names, and for a comment.

    Args:
        text: text of the row.
        runs: its runs of letters and digits in small letters.
    """
    return (
        "`" in text
        or not _PROGRAMS.isdisjoint(runs)
        or has_two(_FORM.finditer(text))
        or _COMMENT.match(text) is not None
    )


def is_quoted(text: str, start: int, end: int) -> bool:
    """Returns true if a character of a find stands in a string or a comment of a line of code."""
    return any(_quoted(text)[start:end])


@functools.lru_cache(maxsize=16)
def _quoted(text: str) -> bytearray:
    """Returns one byte per character, 1 in the strings and comments of code."""
    quoted = bytearray(len(text))
    for match in _QUOTED.finditer(text):
        quoted[slice(*match.span())] = b"\x01" * len(match[0])
    return quoted


def has_two(matches: Iterable[re.Match[str]]) -> bool:
    """Returns true if there are two matches."""
    return len(list(islice(matches, 2))) > 1
