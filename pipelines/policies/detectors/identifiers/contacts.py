"""Finds mail addresses and handles, also in words ("jo dot bloggs at example dot com") or with their marks missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.finds import Find, find_all
from pipelines.policies.detectors.first_pass import holds, kind
from pipelines.policies.detectors.identifiers.beside import is_unknown
from pipelines.policies.detectors.identifiers.forms import TEAMS
from pipelines.policies.detectors.identifiers.places import CAPITAL, WORD_NAMES, is_listed
from pipelines.policies.english.common_words import COMMON_WORDS, FUNCTION_WORDS, NUMBER_WORDS

_PROVIDER: Final = (
    r"(?:g[ -]?mail|googlemail|yahoo(?:mail)?|ymail|hot[ -]?mail|outlook|aol|icloud|proton(?:mail)?|gmx|live|msn"
    r"|rediff(?:mail)?|comcast|verizon|att|mail|inbox|yandex|zoho|fastmail|rocketmail|me)"
)
_TLD: Final = (
    r"(?:com|net|org|edu|gov|mil|info|biz|io|co|uk|de|fr|es|it|nl|eu|us|in|ca|au|ch|at|be|se|no|dk|fi|pl|pt|ru|br"
    r"|mx|me)"
)
_MAIL: Final = re.compile(
    r"(?<![^\s<>()\[\],;:\"'])[^\s<>()\[\],;:\"'@＠]{1,128}(?:[@＠][^\s<>()\[\],;:\"'@＠]{1,253})+"
)
_SPACED_MAIL: Final = re.compile(
    rf"(?<![\w.+-])[\w.+-]{{1,64}} ?[@＠] ?[\w-]{{1,63}}(?: ?\. ?[\w-]{{1,63}}){{0,3}} ?\. ?{_TLD}(?!\w)", re.I
)
_AT: Final = r"(?:\(at\)|\[at\]|\{at\}|<at>|\bat\b|@)"
_DOT: Final = r"(?:\(dot\)|\[dot\]|\{dot\}|<dot>|\bdot\b|\.)"
_SPELLED: Final = re.compile(
    rf"(?<!\w)((?:[\w.+-]{{1,64}} ?(?:\(dot\)|\[dot\]|\b(?:dot|underscore|dash|hyphen)\b) ?){{0,3}}[\w.+-]{{1,64}}) ?"
    rf"{_AT} ?((?:[\w-]{{1,63}} ?{_DOT} ?){{1,3}}){_TLD}(?!\w)",
    re.I,
)
_AT_PROVIDER: Final = re.compile(rf"(?<!\w)([\w.+-]{{1,64}}) ?{_AT} ?{_PROVIDER}(?:[ .]?{_TLD})?(?!\w)", re.I)
_MERGED: Final = re.compile(rf"(?<![\w@.])[\w.]{{0,64}}?{_PROVIDER}[ .]?(?:dot ?)?com(?!\w)", re.I)
_MARK: Final = r"(?:dot|point|underscore|dash|hyphen|minus)"
_WORDED: Final = re.compile(
    rf"(?<!\w)[\w'-]{{1,30}} {_MARK} (?:[\w'-]{{1,30}} ){{1,3}}(?:{_MARK} (?:[\w'-]{{1,30}} ){{1,3}})?at [\w-]{{1,40}}"
    rf"(?: (?:dot|point) [\w-]{{1,20}}| {_TLD}){{0,3}}(?!\w)"
    rf"|(?<!\w)[\w.+'-]{{1,64}} at (?:[\w-]{{1,40}} ){{1,3}}(?:dot|point) {_TLD}(?!\w)",
    re.I,
)
_VERB: Final = re.compile(r" (?:point|dash) (?:a|an|the|this|that|my|your|our|his|her|its|their|it) ", re.I)
"""A mark that is a verb: "point the base URL at"."""

_MAIL_CUE: Final = re.compile(r"e-?mail|\bmail|write (?:to|me)|reach me|forward|send|contact|\bcc\b|\bto:|from:", re.I)
_LOST_MARKS: Final = re.compile(r"(?<![\w@.])[a-z0-9]{7,60}com(?!\w)")
"""A form that no English word has: a long word that ends in "com"."""

_PIECE: Final = re.compile(r"\S+")
_REACH: Final = 60
_MAX_PIECES: Final = 4
_HANDLE: Final = re.compile(
    r"(?<![\w@＠.])[@＠][A-Za-z0-9_][\w.]{0,38}(?<!\.)(?:(?:-[A-Za-z0-9]{1,20}){1,3}(?![\w/-]))?"
    r"|(?<![\w/])/?u/[A-Za-z0-9][\w-]{2,20}(?!\w)"
)
_MENTION: Final = re.compile(r"<@[!&]?((?:[UW][A-Z0-9]{6,14}|\d{15,21})(?:\|[^<>|\n]{1,64})?)>")
"""A mention as Slack and Discord store it, with a name or without."""

_MAIL_IN_ANGLES: Final = re.compile(r"<[^<>\s@]{1,128}@[^<>\s@]{1,253}>")
_MAIL_NAME: Final = re.compile(
    r"(?:\"([^\"\n<>(]{2,60})(?:\([^\"\n<>]{0,40})?\"|(?<!\w)'([^\"\n<>(]{2,60})'"
    rf"|(?<![\w'’-])({CAPITAL}[\w'’.-]{{1,30}}(?:,?[ ]{CAPITAL}[\w'’.-]{{0,30}}){{0,3}}))[ ]?\Z"
)
_NAME_REACH: Final = 110
_SPACED_HANDLE: Final = re.compile(
    r"(?:(?<!\w)RT |\A[“\"]?|(?<=\S )(?=[@＠] \w{0,38}(?:_|[a-z][A-Z]|[a-z]\d)))[@＠] [A-Za-z_]\w{2,38}"
    r"(?:[ :]{1,3}[@＠] ?[A-Za-z_]\w{2,38}){0,20}(?!\w)"
)
"""A handle after a mark and a space, at the start of a post, or in the form of a handle, and those that follow it."""

_HANDLE_PAGE: Final = re.compile(
    r"(?<![\w.])(?:https?://)?(?:www\.)?(?:twitter|x|facebook|fb|instagram|github|gitlab|linkedin|tiktok|twitch|youtube|reddit"
    r"|snapchat|pinterest|medium|patreon|paypal|venmo|t|wa)\.(?:com|me|tv)/[^\s<>\"')]{2,128}",
    re.I,
)
_BARE_PROVIDER: Final = re.compile(rf"{_PROVIDER}[ .]?(?:dot ?)?com", re.I)
_PLAIN: Final = COMMON_WORDS | FUNCTION_WORDS | NUMBER_WORDS
_CUES: Final = frozenset({"email", "emil", "mail", "id", "is", "e-mail", "add", "address", "ssn"})


_AT_WORD: Final = kind("at".__eq__)
_DOT_WORD: Final = kind("dot".__eq__)
_DOT_MARK: Final = re.compile(rf"\. ?{_TLD}(?!\w)", re.I)
_MARK_WORD: Final = kind(frozenset(["dot", "point", "underscore", "dash", "hyphen", "minus"]))
_PROVIDER_WORD: Final = kind(lambda word: re.fullmatch(rf"{_PROVIDER}{_TLD}?", word) is not None)
_COM_WORD: Final = kind(lambda word: word.endswith("com"))


def find_contacts(text: str) -> Iterator[Find]:
    """Yields mail addresses and handles that have their mark."""
    for match in _MAIL.finditer(text):
        end = match.start() + len(match[0].rstrip(".!?"))
        if any(map(str.isalnum, text[match.start() : end].split("@")[0])):
            yield match.start(), end, "EMAIL_ADDRESS"
    yield from find_all(text, "EMAIL_ADDRESS", _SPACED_MAIL)
    if "<@" in text:
        yield from find_all(text, "USERNAME", _MENTION, group=1)
    for match in _MAIL_IN_ANGLES.finditer(text) if "<" in text else ():
        name = _MAIL_NAME.search(text, max(0, match.start() - _NAME_REACH), match.start())
        if name is not None and _is_persons(name[name.lastindex or 0]):
            yield *name.span(name.lastindex or 0), "PERSON"
    yield from find_all(text, "USERNAME", _HANDLE)
    for match in _SPACED_HANDLE.finditer(text) if "@ " in text or "＠ " in text else ():
        start = match.start() + match[0].index(" ") + 1 if match[0].startswith("RT") else match.start()
        if match[0][match[0].index(" ") + 1 :].lower() not in _PLAIN:
            yield start, match.end(), "USERNAME"


def _is_persons(name: str) -> bool:
    """Returns true if the name beside a mail address has a word that may be a name, and none for a team."""
    words = re.findall(r"[^\W\d_]+", name.lower())
    return TEAMS.isdisjoint(words) and any(word in WORD_NAMES or is_listed(word) or is_unknown(word) for word in words)


def find_pages(text: str) -> Iterator[Find]:
    """Yields addresses of accounts on known sites."""
    yield from find_all(text, "USERNAME", _HANDLE_PAGE)


def find_spelled_mail(text: str) -> Iterator[Find]:
    """Yields mail addresses in words, or run together: "jo at gmail dot com", "jo 56 gmailcom"."""
    has_at = "@" in text or holds(text, _AT_WORD)
    has_dot = holds(text, _DOT_WORD) or _DOT_MARK.search(text) is not None
    for match in _SPELLED.finditer(text) if has_at and has_dot else ():
        has_dot_in_words = "dot" in match[2].lower()
        if has_dot_in_words or not text[match.end(1) : match.end(1) + 4].lstrip().lower().startswith("at "):
            yield _local_start(text, match.start()), match.end(), "EMAIL_ADDRESS"
    for match in _WORDED.finditer(text) if has_at and holds(text, _MARK_WORD) else ():
        if _VERB.search(match[0]) is not None:
            continue
        yield _local_start(text, match.start()), match.end(), "EMAIL_ADDRESS"
    for match in _AT_PROVIDER.finditer(text) if has_at and holds(text, _PROVIDER_WORD) else ():
        says_mail = _MAIL_CUE.search(text) is not None
        local = match[1].lower()
        is_spelled = re.search(r"[@(\[{<]", match[0]) is not None
        if is_spelled or (local not in _PLAIN and (says_mail or re.search(r"com$|mail$", match[0].lower()))):
            yield _local_start(text, match.start()), match.end(), "EMAIL_ADDRESS"
    if holds(text, _COM_WORD):
        yield from _merged(text)
        yield from find_all(text, "EMAIL_ADDRESS", _LOST_MARKS)


def _merged(text: str) -> Iterator[Find]:
    """Yields addresses without their marks, with the pieces of the local part before them."""
    for match in _MERGED.finditer(text):
        start = _local_start(text, match.start())
        if start < match.start() or _BARE_PROVIDER.fullmatch(match[0]) is None:
            yield start, match.end(), "EMAIL_ADDRESS"


def _local_start(text: str, start: int) -> int:
    """Returns the start of the local part before a find. Its pieces are no plain words."""
    for piece in reversed(list(_PIECE.finditer(text, max(0, start - _REACH), start))[-_MAX_PIECES:]):
        if piece[0].lower() in _PLAIN or piece[0].lower() in _CUES or not piece[0].isalnum():
            break
        start = piece.start()
    return start
