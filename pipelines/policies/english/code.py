"""Names of variables, functions and attributes in a line of code, which are no names of persons.

`documented_ranges` finds what documentation and commands write for everybody: addresses of one's own machine and of
example.com, placeholders, limits of dates in SQL, and branches.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final

import tldextract

from pipelines.policies.english.common_words import COMMON_WORDS
from pipelines.policies.english.name_lists import has_name, names_somebody
from pipelines.policies.english.nobody import row_of
from pipelines.policies.english.public_entries import published
from pipelines.policies.english.technical import technical_ranges
from pipelines.policies.english.word_lists import word_lists

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

_NETWORKS: Final = frozenset({"local", "internal", "lan", "corp", "intranet", "home", "localdomain"})
_RAISED: Final = re.compile(r"(?:[a-z]\w{0,40}\.){1,5}[A-Z]\w{0,60}(?:Error|Exception)")
_FILE: Final = re.compile(
    r"[./\w-]{1,80}\.(?:sh|py|rs|md|pl|so|cc|ps|js|ts|go|java|rb|php|tf|zip|cpp|hpp|css|json|ya?ml|ini|cfg|conf|toml)"
)
_CALLED: Final = re.compile(r"\(| ?(?:=(?!=)|\+=)")
_OPERATOR: Final = re.compile(r"(?:[-+*/%<>=&|(\[]|return)\s?$")
_LIMIT: Final = re.compile(r"max_|_max")
"""A part of the name of a variable that is also a name."""

_TOO_SHORT: Final = 2
_LISTS: Final = word_lists("ordinary")
_PUBLIC: Final = (
    COMMON_WORDS
    | word_lists("ordinary_words")["words"]
    | _LISTS["technical"]
    | _LISTS["programs"]
    | _LISTS["addresses"]
)
_ADDRESS: Final = re.compile(
    r"(?<![\w.@/-])(?:[a-z][a-z0-9+]{1,12}://)?(?:user(?:name)?(?::pass(?:word)?)?@)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0"
    r"|\[?::1?\](?=:)|((?:[a-z][a-z-]{0,20}\.){0,2})example\.(?:com|org|net))(?::[0-9]{1,5}){0,2}(?![\w@-]|\.\w)"
    r"((?:/[\w.{}<>$:-]{0,40}){0,8}(?:\?[\w=&%.{}<>$-]{0,80})?)(?![\w@/])|(?<![\w:.])::1(?![\w:.])",
    re.I,
)
"""An address of one's own machine, or of example.com. Groups: the names before it, and the path behind it."""

_NET_MASK: Final = re.compile(
    r"(?<![\w.])255(?:\.(?:255|254|252|248|240|224|192|128|0)){3}(?!\w|\.\w)"
    r"|(?<![\w.])(?:10\.0\.0\.0/8|172\.16\.0\.0/12|192\.168\.0\.0/16|169\.254\.0\.0/16|127\.0\.0\.0/8|100\.64\.0\.0/10)(?!\w)"
)
"""A mask, and the networks that belong to nobody (RFC 1918 and 6890)."""

_ONE_OF: Final = "|".join(sorted(_LISTS["placeholders"]))
STAND_IN: Final = re.compile(rf"<?(?:your|insert|enter|replace)(?:[_-](?:{_ONE_OF})){{1,6}}>?", re.I)
"""A value that documentation writes in place of one's own: ``YOUR_API_KEY``."""

CALL_BEHIND: Final = re.compile(r"[ ][A-Za-z_][\w.]{0,60}\(")
"""A call after a keyword: ``user = await load(id)``."""

_STAND_IN: Final = re.compile(
    rf"(?<![\w-]){STAND_IN.pattern}(?![\w-])|\$\{{[a-z_][\w.]{{0,40}}(?::?\?[^}}\n]{{0,60}})?\}}"
    r"|\{\{ ?[a-z_][\w.]{0,40}(?::[\w./:-]{1,100})? ?\}\}|%[a-z]{2,20}(?:_[a-z]{1,20}){1,4}%",
    re.I,
)
_REFERENCE: Final = re.compile(
    r"(?<![\w.])(?:process\.env|import\.meta\.env)(?:\.[A-Za-z_]\w{0,60}|\[[\"']\w{1,60}[\"']\])"
    r"|(?<![\w.])(?:os\.getenv|os\.environ\.get|System\.getenv|Deno\.env\.get|env)\([\"']\w{1,60}[\"']\)"
    r"|(?<![\w.])(?:os\.environ|ENV)\[[\"']\w{1,60}[\"']\]|\$env:[A-Za-z_]\w{0,60}|\$[A-Z_]{2,40}(?:/[\w.-]{1,40}){0,4}(?!\w)"
    r"|(?<![\w:/-])(?:vault|ssm(?:-secure)?|secretsmanager|keyvault|op|sm|awssm|gcpsm):/{0,2}"
    r"(?:[\w-]{1,40}/){1,6}[\w-]{1,60}(?:#[\w-]{1,40})?(?![\w/@-])",
)
"""The place of a value: a variable of the environment, or a path in a store of secrets."""

_HIDDEN: Final = re.compile(r"(?<!\w)[\"'`]?(?:\*{3,40}|•{3,40}|[xX]{4,40})[\"'`]?(?![\w*])")
"""A value that is not shown."""

_SQL: Final = re.compile(
    r"(?<![\w.'\"])(?:SELECT(?= )[^;]{1,400}? FROM|INSERT INTO|UPDATE [\w.]{1,40} SET|DELETE FROM"
    r"|(?:CREATE|ALTER) TABLE)(?!\w)"
)
_KEYWORD: Final = re.compile(
    r"(?<![\w.'\"])(?:INTERVAL '[0-9]{1,4} [a-z]{3,8}'|(?:BY|LIMIT|OFFSET) [0-9]{1,6}(?!\w)"
    rf"|(?:{'|'.join(sorted(_LISTS['sql'], reverse=True)).upper()})(?![\w'\"]))|(?<=[<>=] )[0-9]{{1,6}}(?![\w.-])"
    r"|(?<![\w.@'\"])[a-z]{1,3}\.[a-z_]{2,30}(?![\w.@'\"])"
)
_QUOTED_DATE: Final = r"['\"][0-9]{4}-[0-9]{2}-[0-9]{2}[^'\"\n]{0,20}['\"]"
_LIMIT_OF_DATES: Final = re.compile(
    rf"(?<!\w)(?:(\w{{1,60}})[\"'\])]{{0,3}}(?: [<>] | ?[<>]= ?| BETWEEN )|DEFAULT )(?:DATE ?)?"
    rf"({_QUOTED_DATE}(?: AND {_QUOTED_DATE})?)",
    re.I,
)
_STAND_IN_ANGLES: Final = re.compile(
    rf"(?<=[=:\s\"'])<(?:change[_-]?me|(?:{_ONE_OF})(?:[ _-](?:{_ONE_OF})){{0,4}})>", re.I
)
_FORMAT: Final = re.compile(
    r"(?<![\w/.-])(?:Y{2,4}|y{2,4}|MM|mm|DD|dd|HH|hh|SS|ss)"
    r"(?:[-/.:, T](?:Y{2,4}|y{2,4}|MMM?|mm|DD|dd|HH|hh|SS|ss|[AZ])){1,6}(?![\w/-])"
)
"""A format of dates and times: ``YYYY-MM-DD``."""

_LICENCE: Final = re.compile(r"licen[cs]e[\"']?\s?[:=]\s?([\"'][A-Z][A-Za-z]{1,12}[\"'])")
"""The licence of a program: ``"license": "MIT"``."""

_FORMATS: Final = ("YY", "yy", "HH", "hh")
_ANNOUNCED: Final = re.compile("(?:your|insert|enter|replace)[_-]")
_PERSONAL: Final = re.compile(r"birth|dob|born|death|died|age(?![a-z])", re.I)
_BRANCH: Final = re.compile(
    r"(?<![\w/-])(?:feature|feat|bugfix|hotfix|fix|releases?|chore|docs|refactor|tests?|ci|perf|build)/[A-Za-z0-9][\w.#-]{1,60}"
    r"|(?<=cherry-pick )[0-9a-f]{7,40}(?!\w)|(?<=revert )[0-9a-f]{7,40}(?!\w)|(?<=checkout )[0-9a-f]{7,40}(?!\w)"
    r"|(?<=show )[0-9a-f]{7,40}(?!\w)"
)
"""A branch by its kind, and a commit after a command."""

_PART: Final = re.compile(r"[0-9]+|[^\W\d_]+")
_LIMITS_OF_DATES: Final = (" > ", " < ", ">=", "<=", "BETWEEN", "between", "DEFAULT", "default")
_STATEMENTS: Final = ("SELECT", "INSERT", "UPDATE", "DELETE", "TABLE")
_OF_ADDRESSES: Final = ("localhost", "127.0.0.1", "0.0.0.0", "::1", "example.")  # noqa: S104 - nothing is bound
_WITH_SECRET: Final = re.compile(r"key|token|sig|code|auth|pass|pwd|secret|session|sid", re.I)
_LONGEST_NUMBER: Final = 3


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
    if (
        (_LINE.search(line) is None and not row_of(text).is_code)
        or _SECRET.search(find)
        or _SITE.search(find)
        or _COMMENT.search(before)
    ):
        return False
    if not _QUOTES.isdisjoint((text[start - 1 : start], text[end : end + 1])):
        return False
    return not names_somebody(find)


def is_no_site(find: str) -> bool:
    """Returns true if a name with dots does not end as that of a site or of an own network: "np.linalg.norm"."""
    if "/" in find or ":" in find or "@" in find or find[:4].lower() == "www.":
        return False
    last = find.strip(".").rpartition(".")[2].lower()
    return "." not in find.strip(".") or not (last in _NETWORKS or last in _suffixes())


@functools.cache
def _suffixes() -> frozenset[str]:
    """Returns the last parts of names of sites."""
    return frozenset(suffix.rpartition(".")[2] for suffix in site_parser().tlds)


@functools.cache
def site_parser() -> tldextract.TLDExtract:
    """Returns the parser of names of sites. Without a cache folder and an address, it has only its package's list."""
    return tldextract.TLDExtract(cache_dir=None, suffix_list_urls=())


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


def is_stand_in(value: str) -> bool:
    """Returns true for a placeholder, the place of a value, and a value that is not shown."""
    return any(pattern.fullmatch(value) is not None for pattern in (_STAND_IN, _REFERENCE, _HIDDEN))


def documented_ranges(text: str) -> Iterator[tuple[int, int]]:
    """Yields ranges of addresses, placeholders, limits of dates and branches that tell of nobody."""
    lower = text.lower()
    for match in _ADDRESS.finditer(text) if any(mark in lower for mark in _OF_ADDRESSES) else ():
        rest = match[2] or ""
        if all(map(_is_public, _PART.findall((match[1] or "") + rest))) and not (
            "?" in rest and _WITH_SECRET.search(rest)
        ):
            yield match.span()
    for match in _NET_MASK.finditer(text) if "255.255." in text or ".0.0" in text else ():
        yield match.span()
    is_announced = ("_" in text or "-" in text) and _ANNOUNCED.search(lower) is not None
    for match in _STAND_IN.finditer(text) if "{" in text or "%" in text or is_announced else ():
        yield match.span()
    for match in _REFERENCE.finditer(text) if "env" in lower or "$" in text or (":" in text and "/" in text) else ():
        yield match.span()
    for match in _HIDDEN.finditer(text) if "***" in text or "•••" in text or "xxxx" in lower else ():
        yield match.span()
    for match in _STAND_IN_ANGLES.finditer(text) if "<" in text else ():
        yield match.span()
    for match in _LICENCE.finditer(text) if "license" in lower or "licence" in lower else ():
        yield match.span(1)
    for match in _FORMAT.finditer(text) if any(mark in text for mark in _FORMATS) else ():
        yield match.span()
    for match in _LIMIT_OF_DATES.finditer(text) if any(mark in text for mark in _LIMITS_OF_DATES) else ():
        if match[1] is None or _PERSONAL.search(match[1]) is None:
            yield match.span(2)
    if any(word in text for word in _STATEMENTS) and _SQL.search(text) is not None:
        yield from (match.span() for match in _KEYWORD.finditer(text))
    for match in _BRANCH.finditer(text) if "git " in text else ():
        if "/" not in match[0] or all(map(_is_public, _PART.findall(match[0]))):
            yield match.span()
    yield from technical_ranges(text)
    yield from published(text, lower)


def _is_public(part: str) -> bool:
    """Returns true for a short number, and a word of the dictionary or of programs, in an address."""
    if part.isdecimal():
        return len(part) <= _LONGEST_NUMBER
    lower = part.lower()
    return len(part) == 1 or lower in COMMON_WORDS or (lower in _PUBLIC and not has_name([lower]))
