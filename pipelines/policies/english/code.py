"""Names of variables, functions and attributes in a line of code, which are no names of persons."""

from __future__ import annotations

import re
from typing import Final

from pipelines.policies.english.common_words import COMMON_WORDS
from pipelines.policies.english.name_lists import has_name

_LABELS: Final = frozenset(
    {"USERNAME", "URL", "PERSON", "ORG", "ORGANIZATION", "GPE", "LOCATION", "PRODUCT", "WORK_OF_ART", "NORP", "NRP"}
)
_LINE: Final = re.compile(
    r"^\s*(?:def|class|import|from [\w.]+ import|return|elif|raise|assert|except|while|with|yield|lambda|const|let|var"
    r"|public|private|static|function|func|void|int|if|for)\b.*[\w)\]\"']\s*[:;{(,]?$|[A-Za-z_]\w*\(|\w\[|[=!<>]=|[-=]>|::"
    r"| = |\+=|&&|\|\||self\.|;\s*$|^[a-z_]\w* ?[:=] ?[\d\"'\[{]"
)
_IDENTIFIER: Final = re.compile(r"[\w.()\[\],*~-]{1,120}")
_WRITTEN: Final = re.compile(r"[a-z]\w*_|_|[a-z][A-Z]|\w\.\w|\w\(|[a-z]\d|^[a-z]{2,}$")
_SITE: Final = re.compile(r"\.(?:com|org|net|edu|gov|io|info|biz|local|[a-z]{2})(?![\w.])", re.I)
_SECRET: Final = re.compile(r"\d{3}|@|TODO|FIXME|XXX|HACK|NOTE")
_WORD: Final = re.compile(r"[^\W\d_]+")
_NEAR: Final = 300
"""Characters of the line before and after a find that are read."""

_SHORT: Final = 20
_ANNOTATION: Final = re.compile(
    r"@[A-Z][A-Za-z]{2,40}(?:\(|\s{1,8}(?:public|private|protected|static|class|def|func|void|final)\s)"
)
_QUOTES: Final = frozenset("\"'`“”")
_COMMENT: Final = re.compile(
    r"#|(?<!:)//|/\*|--\s|(?:user|login|owner|author|name|by|assignee|password|secret|token)\W{0,3}$", re.I
)
ATTRIBUTE: Final = re.compile(r"[a-z_]\w{0,60}(?:\.[a-z_]\w{0,60}){1,4}")
"""A name of an attribute, with what it belongs to."""

SITE: Final = re.compile(r".*\.(?:com|org|net|edu|gov|io|info|biz|[a-z]{2})", re.I | re.S)
"""A name of a site."""

_RAISED: Final = re.compile(r"(?:[a-z]\w{0,40}\.){1,5}[A-Z]\w{0,60}(?:Error|Exception)")
_FILE: Final = re.compile(
    r"[./\w-]{1,80}\.(?:sh|py|rs|md|pl|so|cc|ps|js|ts|go|java|rb|php|tf|zip|cpp|hpp|css|json|ya?ml)"
)
_CALLED: Final = re.compile(r"\(| ?(?:=(?!=)|\+=)")
_OPERATOR: Final = re.compile(r"(?:[-+*/%<>=&|(\[]|return)\s?$")
_LIMIT: Final = re.compile(r"max_|_max")
"""A part of the name of a variable that is also a name."""

_TOO_SHORT: Final = 2


def is_identifier_of_code(text: str, start: int, end: int, label: str) -> bool:
    """Returns true for a variable, function or attribute in code. Strings, comments and listed names are none.

    Args:
        text: text of the row.
        start, end: characters of the find.
        label: label of the find.
    """
    find = text[start:end]
    if label == "USERNAME" and _ANNOTATION.match(text[start : end + _SHORT]):
        return True
    if label not in _LABELS or _IDENTIFIER.fullmatch(find) is None or _WRITTEN.search(find) is None:
        return False
    before = text[max(0, start - _NEAR) : start]
    before = before[before.rfind("\n") + 1 :]
    line = before + find + text[end : end + _NEAR].partition("\n")[0]
    if _LINE.search(line) is None or _SECRET.search(find) or _SITE.search(find) or _COMMENT.search(before):
        return False
    if not _QUOTES.isdisjoint((text[start - 1 : start], text[end : end + 1])):
        return False
    words = [word.lower() for word in _WORD.findall(re.sub(r"([a-z])([A-Z])", r"\1 \2", find)) if len(word) > 2]
    return not has_name(words)


def has_listed_name(find: str) -> bool:
    """Returns true if a word of a find is a listed name, and no other word."""
    words = (word.lower() for word in _WORD.findall(_LIMIT.sub("", find)) if len(word) > _TOO_SHORT)
    return has_name(words)


def is_attribute(find: str, before: str, after: str) -> bool:
    """Returns true for a file or an attribute in code: ``os.system(``, ``+ b.price``, ``./build.sh``. A name stays."""
    if has_listed_name(find) and not all(
        word in COMMON_WORDS for word in _WORD.findall(find) if len(word) > _TOO_SHORT
    ):
        return False
    if _FILE.fullmatch(find.strip("\"'")) or _RAISED.fullmatch(find):
        return True
    if ATTRIBUTE.fullmatch(find.rstrip("(")) is None or SITE.fullmatch(find):
        return False
    return find.endswith("(") or _CALLED.match(after) is not None or _OPERATOR.search(before) is not None
