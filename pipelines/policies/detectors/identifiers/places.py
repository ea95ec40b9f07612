"""Finds names of persons by the places where they stand: after "ask", before "said", as speakers, "Surname, Given".

A listed name counts in each of these places. A name that is also a word ("Mark", "may") counts where few other words
stand, and a word of no list counts after verbs that need a person. All steps are linear in the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pipelines.corpus.speakers import ROLE
from pipelines.policies.detectors.finds import Find
from pipelines.policies.detectors.first_pass import holds, kind, may_hold_capital
from pipelines.policies.english.common_words import COMMON_WORDS, FUNCTION_WORDS, NUMBER_WORDS
from pipelines.policies.english.known_words import WORDS
from pipelines.policies.english.name_lists import all_names
from pipelines.policies.english.word_lists import word_lists
from pipelines.policies.english.world_names import world_names
from pipelines.policies.protocol import PLACEHOLDER

_LISTS: Final = word_lists("places")
WORD_NAMES: Final = _LISTS["word_names"]
EVERYDAY: Final = (
    COMMON_WORDS
    | NUMBER_WORDS
    | FUNCTION_WORDS
    | WORD_NAMES
    | _LISTS["no_names"]
    | _LISTS["no_speakers"]
    | _LISTS["asks"]
    | _LISTS["says"]
    | word_lists("identifiers")["words_too"]
    | word_lists("identifiers")["no_value"]
    | word_lists("everyday_use").get("nouns", frozenset())
)
_MODALS: Final = frozenset({"will", "may"})
_PRONOUNS: Final = frozenset({"he", "she", "it", "they", "i", "we", "you", "his", "her", "the", "or", "be", "not"})
_GREETINGS: Final = frozenset({"thanks", "cheers", "hi", "hey", "hello", "dear"})
_NOUNS: Final = _LISTS["asks_nouns"]
_KIN: Final = _LISTS["kin"]
_COMING: Final = frozenset({"came", "comes", "left", "helped", "stayed", "moved", "arrived", "lived", "lives", "broke"})
"""Verbs of seasons, months and things, too."""

_PARTICLES: Final = _LISTS["particles"]
_JOINS: Final = re.compile(r" (?:and|or|&) |, (?:and )?")
_ENDS: Final = re.compile(r"['’]s\b|[ ]?(?:[,.!?;:)\"\n]|\Z)")
_CLAUSE: Final = re.compile(r"(?:^|[.!?;:,\"(>\n-])[ ]{0,2}\Z")
_MAX_CHAIN: Final = 6
_MAX_MORE: Final = 3
_SHORTEST: Final = 3
_PLACEHOLDER: Final = PLACEHOLDER.casefold()
"""The placeholder of finds (`judging.stabilise`). It shows nothing about the words beside it."""

_NAME: Final = r"[^\W\d_][\w'’.-]{0,30}(?:[ ][^\W\d_][\w'’.-]{0,30}){0,2}"
_TAG: Final = re.compile(
    r"^[ \t>*]{0,4}(?P<time>[\[(]?(?:\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4},?[ T]{1,2})?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?"
    r"(?:[ ]?[ap]\.?m\.?)?[\])]?[ ]?[-–,|]?[ ]?)?"
    rf"(?:<[@+ ]?(?P<inside>{_NAME})>(?=[ ])|(?P<name>{_NAME})(?:[ ]?[^\w\s\x00-\u00ff]{{1,4}})?[ ]?:(?=[ ]+\S))",
    re.M | re.I,
)
_SPOKEN: Final = re.compile(
    r":[ ]+(?:hi|hello|hey|hiya|yo|good|i|i['’]?m|im|i['’]?ve|my|we|you|ur|can|could|would|will|please|pls|plz|thanks"
    r"|thank|thx|yes|yeah|yep|no|nope|ok|okay|sure|np|lol|haha|sorry|where|what|when|why|how|who|is|are|do|did|does|has|have"
    r"|it['’]?s|that['’]?s|there|let|not|oh|great|nice|cool|brb|well|so|but|and)\b",
    re.I,
)
_CHATTED: Final = re.compile(
    r">[ ](?:hi|hello|hey|hiya|yo|good|i|i['’]?m|im|i['’]?ve|my|we|you|u|ur|any(?:one)?|thanks|thank|thx|ty|yes"
    r"|yeah|yep|yup|no|nope|ok|okay|k|sure|np|lol|haha|sorry|what|why|how|who|where|oh|great|nice|cool|brb|afk|morning|night"
    r"|gn|wb|bye|it['’]?s|that['’]?s|\w{2,20}:|@\w{2,20})(?!\w)",
    re.I,
)
_TAGS: Final = _LISTS["tags"] | word_lists("ordinary")["technical"]
_EVENT: Final = re.compile(
    r"(?:^|(?P<mark>-!-|\*\*\*|-->|<--|[→←]|^[ ]?\*)[ ]|(?<=[\])\d][ ]))(?P<nick>[^\W\d_][\w|`-]{1,30})"
    r"[ ](?:[\[(][^\s\])]{1,80}[\])][ ])?(?:has[ ])?(?:joined|left|quit|parted"
    r"|is[ ]now[ ]known[ ]as[ ](?P<new>[\w|`-]{2,31})|set[ ]the[ ](?:channel[ ])?(?:topic|purpose|description)"
    r"|was[ ]kicked)"
    r"(?P<room>[ ](?:the[ ])?(?:channel|room|server|group|chat|call|meeting|[#&(])|[ ]to:)?",
    re.M | re.I,
)
"""Somebody who enters or leaves a room of a chat."""

_EVENT_WORD: Final = kind(frozenset({"joined", "left", "quit", "parted", "known", "topic", "purpose", "kicked"}))
CAPITAL: Final = r"(?-i:[^\W\d_a-zß-öø-ÿ])"
"""A pattern of a letter that is not small, in other scripts any letter."""

_SURNAME_FIRST: Final = re.compile(
    rf"(?<![\w,'’-])({CAPITAL}(?:[^\W\d_]{{1,30}}(?:['’-][^\W\d_]{{1,30}})?|['’][^\W\d_]{{2,30}})), "
    rf"({CAPITAL}(?:[^\W\d_]{{1,30}}(?:[-][^\W\d_]{{1,30}})?|\.))(?!\w)((?:[ ]{CAPITAL}\.?(?!\w)){{0,2}})"
)
_LISTING: Final = re.compile(
    r"(?:^|[\n:;\"'“|(]|\b(?:with|by|from|to|for|and|of|seen|patient|client|name))[ ]{0,2}\Z", re.I
)
_PERSON_AFTER: Final = re.compile(
    r"[ ](?:was seen|was referred|presented|saw|called|wrote|is an? \d|M\.?D\b|\(?DOB|\(?MRN)"
)
_THANKED: Final = re.compile(
    r"(?<!\w)(?:thank (?:you|u)|thanks|thx|love (?:you|u)|much love|miss (?:you|u)|congrat(?:s|ulations)"
    r"|happy b(?:irth)?day|hbd|well done|good luck|shout ?out to|salute to)[ ,]{1,2}([^\W\d_]{3,20})"
    r"(?:(?: and | & |, )([^\W\d_]{3,20}))?(?!\w)",
    re.I,
)
_THANKS_WORD: Final = kind(word_lists("rows")["thanks"])
_NO_NAMES: Final = WORDS | EVERYDAY | frozenset().union(*word_lists("known").values())
_UPPER: Final = "A-ZÀ-ÞŁŚŹŻŠŽČĆĐŞİ"
_HUMP: Final = re.compile(rf"[{_UPPER}][^\W\d_{_UPPER}]{{2,15}}")
_CAMEL: Final = re.compile(
    rf"(?:(?<![\w.])|(?<=[DM][rs]\.)){_HUMP.pattern}(?:{_HUMP.pattern}){{1,2}}?"
    r"(?=(?:MD|DO|RN|NP|PharmD|PhD|DDS|Esq)?(?![\w(])|[A-Z][A-Za-z]{1,12}:)"
)
"""A name in one word. What follows it may be glued to it: "SolbergIngridMD"."""

_JOINED: Final = re.compile(r"(?<![\w./@-])[^\W\d_]{3,15}[._][^\W\d_]{3,15}(?![\w(/@-]|\.\w)")
_INNER_DOT: Final = re.compile(r"\.[^\W\d_]{3}")
_REACH: Final = 24


class _Unit(NamedTuple):
    """A name of one person.

    Attributes:
        first, last: numbers of its words.
        kind: ``listed``, ``word`` for a name that is also a word, or ``unlisted``.
    """

    first: int
    last: int
    kind: str


def find_placed(text: str, words: Sequence[re.Match[str]], lower: Sequence[str]) -> Iterator[Find]:
    """Yields names in the places for names.

    Args:
        text: text to read.
        words: words of the text.
        lower: the same words in small letters.
    """
    accepted_verb = -1
    after = 0
    for at in [number for number, word in enumerate(lower) if _is_opening(word)]:
        if at < after:
            continue
        if lower[at] in _STARTS and (units := _after(text, words, lower, at, accepted_verb == at)):
            yield from ((words[unit.first].start(), words[unit.last].end(), "PERSON") for unit in units)
        if (lower[at] in WORD_NAMES or is_listed(lower[at])) and _begins_clause(text, words, lower, at):
            chain = _chain(text, words, lower, at)
            verb = chain[-1].last + 1
            if _is_followed(text, words, lower, chain):
                yield from ((words[unit.first].start(), words[unit.last].end(), "PERSON") for unit in chain)
                accepted_verb = after = verb
    if ":" in text or "<" in text:
        yield from _speakers(text)
    for match in _EVENT.finditer(text) if holds(text, _EVENT_WORD) else ():
        is_marked = match["mark"] is not None and (match["mark"].strip() != "*" or "quit" in match[0])  # no bullet
        if (is_marked or match["room"] or match["new"]) and match["nick"].lower() not in EVERYDAY:
            yield *match.span("nick"), "USERNAME"
            if match["new"]:
                yield *match.span("new"), "USERNAME"
    if ", " in text:
        yield from _surnames_first(text)
    for match in _THANKED.finditer(text) if holds(text, _THANKS_WORD) else ():
        for group in (1, 2):
            name = match[group] or ""
            if (name.istitle() or is_listed(name)) and name.lower() not in _NO_NAMES:
                yield *match.span(group), "PERSON"
    for match in _CAMEL.finditer(text) if may_hold_capital(text) else ():
        parts = [part.lower() for part in _HUMP.findall(match[0])]
        if any(map(is_listed, (parts[0], parts[-1]))) and all(part not in EVERYDAY for part in parts):
            yield match.start(), match.end(), "USERNAME"
    for match in _JOINED.finditer(text) if "_" in text or _INNER_DOT.search(text) else ():
        parts = re.split("[._]", match[0].lower())
        if is_listed(parts[0]) and parts[1] not in EVERYDAY:
            yield match.start(), match.end(), "USERNAME"


_STARTS: Final = _LISTS["asks"] | _LISTS["asks_named"] | _LISTS["asks_join"] | _LISTS["says"]


@functools.lru_cache(maxsize=65_536)
def _is_opening(lower: str) -> bool:
    """Returns true if a name may follow a word, or begin with it."""
    return lower in _STARTS or lower in WORD_NAMES or is_listed(lower)


def is_listed(lower: str) -> bool:
    """Returns true for a listed name, in lower case, that is no ordinary word."""
    return len(lower) >= _SHORTEST and (lower in world_names() or lower in all_names()) and lower not in EVERYDAY


def _gap(text: str, words: Sequence[re.Match[str]], at: int) -> str:
    """Returns the text between a word and the next one. A mark if there is no next one."""
    return text[words[at].end() : words[at + 1].start()] if at + 1 < len(words) else "."


def _unit(text: str, words: Sequence[re.Match[str]], lower: Sequence[str], at: int) -> _Unit | None:
    """Returns the name that begins at a word, with the words after it that belong to it."""
    first = words[at][0]
    if is_listed(lower[at]):
        kind = "listed"
    elif lower[at] in WORD_NAMES:
        kind = "word"
    elif len(lower[at]) > _SHORTEST and lower[at] not in EVERYDAY and "'" not in first and "’" not in first:
        kind = "unlisted"
    else:
        return None
    last = at
    while (
        lower[at] != _PLACEHOLDER and last - at < _MAX_MORE and last + 1 < len(words) and _gap(text, words, last) == " "
    ):
        following = last + 1
        if lower[following] in _PARTICLES and _gap(text, words, following) in (" ", "-") and following + 1 < len(words):
            following += 1
        word = lower[following]
        is_part = is_listed(word) or (
            word not in EVERYDAY
            and len(word) > _SHORTEST
            and (kind != "word" or words[following][0][0].isupper())
            and words[following][0][0].isupper() == first[0].isupper()
        )
        if not is_part:
            break
        last = following
    return _Unit(at, last, kind if last == at or kind != "word" else "listed")


def _chain(text: str, words: Sequence[re.Match[str]], lower: Sequence[str], at: int) -> list[_Unit]:
    """Returns the names from a word on that "and", "or" and commas join."""
    chain: list[_Unit] = []
    while at < len(words) and len(chain) < _MAX_CHAIN:
        unit = _unit(text, words, lower, at)
        if unit is None or (chain and unit.kind == "unlisted" and not words[unit.first][0][0].isupper()):
            break
        chain.append(unit)
        following = unit.last + 1
        if following >= len(words):
            break
        if _gap(text, words, unit.last) == " " and lower[following] in ("and", "or"):
            if _gap(text, words, following) != " ":
                break
            at = following + 1
        elif _JOINS.fullmatch(_gap(text, words, unit.last)):
            at = following + (lower[following] == "and")
        else:
            break
    return chain


def _after(
    text: str, words: Sequence[re.Match[str]], lower: Sequence[str], at: int, after_subject: bool
) -> list[_Unit]:
    """Returns the names after a word that a name may follow."""
    gap = _gap(text, words, at)
    if at + 1 >= len(words) or not (gap == " " or (gap == ", " and lower[at] in _GREETINGS)):
        return []
    cue = lower[at]
    joins = cue in _LISTS["asks_join"] and at > 0 and lower[at - 1] in _LISTS["asks_with"]
    takes_words = after_subject or joins or cue in _LISTS["asks"]
    takes_unlisted = joins or (cue in _LISTS["asks"] and cue not in _GREETINGS | _NOUNS | _KIN)
    if not takes_words and cue not in _LISTS["asks_named"]:
        return []
    kept: list[_Unit] = []
    for unit in _chain(text, words, lower, at + 1):
        is_certain = unit.kind == "listed"
        if is_certain and not takes_words and unit.first == unit.last and words[unit.first][0][0].islower():
            is_certain = _ends(text, words, lower, unit, strict=True)  # but "to ferry the troops"
        if unit.kind == "word" and takes_words and not (cue in _KIN and lower[unit.first] in _MODALS):
            is_inside = words[unit.first][0][0].isupper() and not text.isupper() and cue not in _GREETINGS
            is_certain = is_inside or _ends(text, words, lower, unit)
        elif unit.kind == "unlisted" and takes_unlisted:
            is_certain = _ends(text, words, lower, unit)
        if not is_certain:
            break
        kept.append(unit)
    return kept


def _ends(
    text: str, words: Sequence[re.Match[str]], lower: Sequence[str], unit: _Unit, *, strict: bool = False
) -> bool:
    """Returns true if no noun or verb follows a name, so that it is no part of a longer phrase.

    A strict answer is false if a pronoun or an article follows, so that it may be a verb.
    """
    strict = strict or lower[unit.first] in _MODALS
    if _ENDS.match(text, words[unit.last].end()):
        return True
    if _gap(text, words, unit.last) != " " or unit.last + 1 >= len(words):
        return False
    following = lower[unit.last + 1]
    return following in _LISTS["after_name"] and not (strict and following in _PRONOUNS)


def _begins_clause(text: str, words: Sequence[re.Match[str]], lower: Sequence[str], at: int) -> bool:
    start = words[at].start()
    if at and lower[at - 1] in _LISTS["clause"] and _gap(text, words, at - 1) in (" ", ", "):
        return True
    return _CLAUSE.search(text, max(0, start - 3), start) is not None and (start < 3 or not text[start - 1].isalnum())


def _is_followed(text: str, words: Sequence[re.Match[str]], lower: Sequence[str], chain: Sequence[_Unit]) -> bool:
    """Returns true if a verb of persons follows a chain of names."""
    verb = chain[-1].last + 1
    if verb >= len(words) or _gap(text, words, verb - 1) != " " or lower[verb] not in _LISTS["says"]:
        return False
    if any(unit.kind == "unlisted" for unit in chain):
        return False
    return len(chain) > 1 or chain[0].kind == "listed" or lower[verb] not in _COMING


def _speakers(text: str) -> Iterator[Find]:
    for match in _TAG.finditer(text):
        group = "name" if match["name"] is not None else "inside"
        name = match[group]
        parts = name.lower().replace(".", " ").split()
        if not parts or ROLE.fullmatch(name) or parts[0] in _LISTS["no_speakers"]:
            continue
        is_known = is_listed(parts[0]) or is_listed(parts[-1])
        is_new = all(part not in EVERYDAY or part in WORD_NAMES for part in parts) and not (
            name.isupper() and not is_known
        )
        if match["time"] is not None:
            is_name = is_known or is_new
        elif group == "inside":
            is_name = is_new and name.lower() not in _TAGS and "</" not in text and _CHATTED.search(text) is not None
        else:
            is_spoken = _SPOKEN.match(text, match.end() - 1) is not None
            is_name = (is_known and all(part not in EVERYDAY for part in parts)) or (is_new and is_spoken)
        if is_name:
            yield *match.span(group), "PERSON" if group == "name" else "USERNAME"


def _surnames_first(text: str) -> Iterator[Find]:
    """Yields "Surname, Given" and "Surname, G.". In a list of such lines, one listed name is enough for all."""
    lines: list[Find] = []
    is_list = False
    for match in _SURNAME_FIRST.finditer(text):
        surname, given = match[1].lower(), match[2].lower()
        if (surname in EVERYDAY and surname not in WORD_NAMES) or _PLACEHOLDER in (surname, given):
            continue
        is_initial = given.endswith(".")
        if not is_initial and (len(given) < _SHORTEST or (given in EVERYDAY and given not in WORD_NAMES)):
            continue
        is_known = is_listed(surname) or is_listed(given)
        is_place = _LISTING.search(text, max(0, match.start() - _REACH), match.start()) is not None
        if text[max(0, match.start() - 2) : match.start()].endswith(("\n", "; ", ": ")):
            lines.append((match.start(), match.end(), "PERSON"))
            is_list |= is_known
        if is_place and (is_known or is_initial or _PERSON_AFTER.match(text, match.end())):
            yield match.start(), match.end(), "PERSON"
    if is_list and len(lines) >= _SHORTEST:
        yield from lines
