"""Finds names that words of kinship, a role or the layout of a message introduce, also names of no list.

A name with a capital counts if each of its words is of no dictionary, or is listed, or is a name that is also a word. A
name in small letters must be of no dictionary, between a strong cue and a verb.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.finds import Find, any_of
from pipelines.policies.detectors.first_pass import NUMERIC, kind, kinds_of, may_hold_capital
from pipelines.policies.detectors.identifiers.beside import is_unknown
from pipelines.policies.detectors.identifiers.places import CAPITAL, WORD_NAMES, is_listed
from pipelines.policies.english.known_words import WORDS
from pipelines.policies.english.word_lists import word_lists

_LISTS: Final = word_lists("places")
_RELATIVES: Final = _LISTS["kin"] | _LISTS["family"] | _LISTS["relatives"]
NAME_WORD: Final = rf"{CAPITAL}[^\W\d_]{{1,20}}(?:['’-][^\W\d_]{{2,20}})?"
"""A pattern of a word of a name, with a capital."""

_NAME: Final = rf"{NAME_WORD}(?:[ ]{NAME_WORD}){{0,2}}"
_RELATIVE: Final = re.compile(
    rf"(?<!\w)(?:(?:my|his|her|our|your|their|late)[ ]|['’]s[ ])(?:[a-z]{{2,12}}[ ])?{any_of(_RELATIVES)}"
    rf"(?:[ ](?:here|again))?(?:,[ ]|[ ]\(|[ ])(?:({_NAME})"
    r"|(?-i:([a-zß-öø-ÿ]{3,20})(?=[ ](?:is|was|has|had|will|who|wants|needs|said|says)(?!\w))))"
    rf"|(?<!\w){any_of(_RELATIVES)}[ ](?:to|of)[ ](?:the[ ]late[ ])?({_NAME})",
    re.I,
)
_OF_FAMILY: Final = re.compile(rf"(?<![\w'’-])({NAME_WORD})['’]s[ ]{any_of(_LISTS['family'])}(?!\w)", re.I)
_TITLED: Final = re.compile(rf"(?<!\w){any_of(_LISTS['called'])}[ ]({NAME_WORD})", re.I)
_TITLED_SMALL: Final = re.compile(rf"(?<!\w){any_of(_LISTS['called'])}[ ]([a-zß-öø-ÿ]{{3,20}})(?!\w)")
_IT_IS: Final = r"(?:it['’]?s|tis|this[ ]is)(?:[ ]me)?[ ]([^\W\d_]{2,12})"
_NEWS: Final = re.compile(
    rf"(?<!\w)(?:{_IT_IS}(?=[ ,.!]{{1,3}}(?:btw[ ]|(?:i[ ])?(?:got|have)[ ])?"
    r"(?:(?:a|my)[ ])?(?:new|old|lost|changed|here|save[ ]my)(?!\w))"
    r"|([^\W\d_]{2,12})[ ]here(?=[ ,.!]{1,3}(?:(?:a|my|got|on)[ ]){0,2}new[ ])"
    r"|(?:new[ ](?:number|phone|nr|sim)|(?:text|call|ring|hit|msg)[ ]me(?:[ ](?:back|up))?)[^\n]{0,20}?"
    rf"[ ]{_IT_IS}(?=[ ](?:lol|btw|x+|xo)(?!\w)|[ .!]{{0,3}}(?:\n|\Z)))",
    re.I,
)
"""Somebody who writes from a new phone: "its dre new number"."""

_SURNAME: Final = r"(?:(?:VAN|DE|DER|VON|EL|AL)[ ]){0,2}[A-Z][A-Z'’-]{2,24}"
_PAID: Final = re.compile(
    rf"(?<!\w)(?:{'|'.join(sorted(_LISTS['payments']))})"
    r"(?:[ ](?:PAYMENTS?|CREDIT|TRANSFER|PAID|RECEIVED|SENT|IN|OUT)){0,2}(?:[ ](?:FROM|TO|BY))?"
    rf"[ ](?:(?:MR|MRS|MS|MISS|DR)[ ])?((?:[A-Z][ ]){{1,3}}{_SURNAME}"
    rf"|{_SURNAME}(?:[ ][A-Z](?!\w)(?:[ ]&(?=[ ][A-Z](?!\w)))?){{1,4}})(?!\w)"
)
"""A surname with initials on a bank statement in capitals: "FASTER PAYMENT FROM E BLENKINSOP"."""

_CALLING: Final = re.compile(
    rf"(?<!\w)(?:this[ ]is|it['’]?s|i['’]?m|i[ ]am)[ ]({_NAME})(?=[ ](?:again|here|speaking|calling)(?!\w))"
    r"|(?<!\w)(?:hi|hiya|hello|hey|morning|afternoon|evening)[ ,]{1,2}(?:there[ ,]{1,2})?"
    r"(?:this[ ]is|it['’]?s|i['’]?m|i[ ]am)[ ]"
    r"([^\W\d_]{4,20})(?=[ ](?:again|here|speaking|calling|from)(?!\w))",
    re.I,
)
_GREETED: Final = re.compile(
    rf"(?:^|\n)[ \t>]{{0,4}}(?:hi|hiya|hello|hey|dear|good[ ](?:morning|afternoon|evening))[ ]({_NAME})"
    r"(?:[ ](?:and|&)[ ]("
    rf"{NAME_WORD}))?[ \t]{{0,4}}[,!.:]?[ \t]{{0,4}}(?=\n)",
    re.I,
)
_NUMBERED_OF: Final = re.compile(
    rf"(?<!\w)(?:account|acct|policy|order|booking|reservation|ref|reference|customer|member|membership|card|claim|case"
    rf"|invoice|ticket|contract|subscription)[ ](?:(?:no\.?|number|id|ref)[ ])?#?"
    rf"(?=[\w/-]{{0,20}}\d)[\w/-]{{2,24}}(?:[ ]\d{{1,8}}){{0,5}}"
    rf"[ ]?\(({_NAME})\)",
    re.I,
)
"""The holder of an account, in brackets behind its number."""

_TO_HANDS: Final = re.compile(
    rf"(?<!\w)(?:attn|fao|for[ ]the[ ]attention[ ]of|attention(?=:))[.:]?[ ]{{1,2}}({_NAME})", re.I
)
_RIDE: Final = re.compile(
    rf"(?<!\w)(?:pick(?:ed|ing)?[ ]up|collect(?:ed|ing)?|drop(?:ped|ping)?(?:[ ]off)?|fetch(?:ed|ing)?"
    rf"|transport(?:ed|ing)?|escort(?:ed|ing)?)[ ]({NAME_WORD}[ ]{NAME_WORD})(?=[ ](?:from|at|for|to|outside)(?!\w))",
    re.I,
)
"""Somebody whom a driver takes along."""

_CALLERS: Final = frozenset(
    {"caller", "customer", "cust", "client", "patient", "pt", "tenant", "guest", "passenger", "student", "user"}
    | {"resident", "applicant", "claimant"}
)
_CALLER: Final = re.compile(
    rf"(?<!\w)(?i:{any_of(_CALLERS)})[ ]"
    r"([a-zß-öø-ÿ]{3,20})[ ]([a-zß-öø-ÿ]{3,20}(?:['’-][a-zß-öø-ÿ]{2,20})?)(?=[ ,.;(]|\Z)"
)
_TRADERS: Final = frozenset(
    {"seller", "buyer", "bidder", "renter", "streamer", "uploader", "reviewer", "lister", "poster"}
)
_TRADER: Final = re.compile(
    rf"(?<!\w){any_of(_TRADERS)}[ ]"
    r"((?=[\w.-]{0,40}[\d._])[A-Za-z][\w.-]{2,40}\w)(?![\w.@/-])",
    re.I,
)
_BACK_OF_CARD: Final = re.compile(
    r"(?<!\w)(?:(?:digits?|numbers?|code|3|three|cv[vc])(?:[ ][a-z]{2,8}){0,2}[ ](?:on|at|from)[ ](?:the[ ])?back"
    r"(?:[ ]of[ ](?:it|(?:the|my|her|his)[ ]card))?"
    r"|cv[vc]2?|(?:(?:security|verification)[ ](?:code|number|digits))(?=[ ](?:is|was|are)(?!\w)|[ ]?[:=–-]))"
    r"(?:[ ](?:is|are|was|were|says|reads|number|code))?[ :=–-]{1,3}(?:(?:is|are|says|reads)[ :]{1,2})?"
    r"(\d{3,4})(?![\w.,]\d|\w)",
    re.I,
)
"""The digits that check a card."""

_CODE_OF_LOCK: Final = re.compile(
    r"(?<!\w)(?:key[ -]?safe|lock[ -]?box|alarm|gate|door|entry|garage|padlock)(?!\w)[^\n.!?]{0,40}"
    r"(?<!\w)(?:code|pin)(?:[ ]is)?[ :]{1,2}(\d{4,8}#?)(?!\w)",
    re.I,
)
_ATTENDED: Final = re.compile(
    rf"(?<![\w/])(?:(pts?|patient)\.?|{any_of(_LISTS['attended'])})[ ]([^\W\d_]{{3,20}}(?:['’-][^\W\d_]{{2,20}})?)"
    rf"(?=[ ](?:c/o|{'|'.join(sorted(_LISTS['attends']))})(?!\w)|,?[ ]\(?\d{{1,3}}[ ]?(?:[FMyY\)]|(?i:years))"
    r"|[ ](?:and|w/|with|at|home)(?!\w))",
    re.I,
)
"""Who is served or treated, a name, and what such a person does, or the person's age."""

_ADJECTIVE: Final = ("nt", "ed", "ing", "ic", "ile", "al", "ous", "ive", "ble", "oid", "ary", "ly", "s")
_NUMBERED: Final = re.compile(
    rf"(?<!\w){any_of(_LISTS['numbered'])}[ ](?:no\.?[ ]?|#)?\d{{1,4}}(?:,[ ]|[ ]\(|:[ ]|[ ][-–][ ])({_NAME})", re.I
)
_ROLE: Final = re.compile(rf"(?<![\w-]){any_of(_LISTS['roles'])}[ ]({_NAME})", re.I)
_MEANT_FOR: Final = re.compile(rf"(?<![\w-]){any_of(_LISTS['meant_for'])}[ ]for[ ]({_NAME})", re.I)
_ASK_FOR: Final = re.compile(
    rf"(?:^|[.!?;,(\n-][ ]{{0,2}}|\b(?:and|or|then|please)[ ])ask[ ]for[ ](?:(?:old|big|young|little)[ ])?({NAME_WORD})"
    r"(?=[ ]?(?:[.,!?;)\n]|\Z|(?:at|on|in|when|if)(?!\w)))",
    re.I,
)
_SIGNED: Final = re.compile(
    rf"(?:(?:\n|[.!?)\]])[ \t\n]{{0,4}}[-–—~]{{1,2}}[ ]?|(?<!\w)(?i:regards|rgds|cheers|thanks|thx|thank[ ]you|best"
    rf"|love|ta|yours)(?:[ ](?:again|sincerely|truly|faithfully))?,[ \n]{{1,3}})((?:{CAPITAL}\.?[ ]){{0,2}}{_NAME})"
    rf"(?:[ ](?:&|and|\+)[ ]({NAME_WORD}))?(?:,?[ ](?:[A-Z]{{2,5}}|x{{1,3}}))?[ \t.\n]{{0,8}}\Z"
)
_INITIALED: Final = re.compile(rf"^[ \t>]{{0,8}}((?:{CAPITAL}\.[ ]?){{1,3}}{NAME_WORD})[ \t]{{0,4}}$", re.M)
"""Initials and a surname on a line of their own, as below a letter."""

_OPENED: Final = re.compile(
    r"\s{0,8}(?:hi|hiya|hello|hey|dear|good[ ](?:morning|afternoon|evening))(?!\w)[^\n]{0,60}\n", re.I
)
_LONE: Final = re.compile(rf"\n[ \t]{{0,4}}({NAME_WORD}|{CAPITAL}[a-z])[ \t]{{0,4}}x{{0,3}}\s{{0,8}}\Z")
"""The last line of a message that opens with a greeting is a name."""

_CLOSINGS: Final = "|".join(sorted(_LISTS["closings"], key=len, reverse=True)).replace("_", " ")
_CLOSED: Final = re.compile(
    rf"(?:{_CLOSINGS})[,，.。、]?[ ]?\n[ \u3000]{{0,8}}"
    r"([^\W\d_]{2,20}(?:[ ・\u3000][^\W\d_]{1,20}){0,2})[ ]{0,4}(?=\n|\Z)",
    re.I,
)
"""The end of a letter in another language."""

_NOBODY: Final = re.compile(
    r"^(?:ihre?|euer|das|служба|команда)(?!\w)|(?:team|service|support|以上|一同|[部課局社店団])$|中心|公司|客服|센터",
    re.I,
)
_BULLET: Final = re.compile(r"^[ \t>]{0,8}[-–—~*•]", re.M)
_TIME: Final = r"\d{1,2}:\d{2}(?:[ \u202f]?[ap]\.?m\.?)?[ \t]{0,4}$"
_HEADER: Final = re.compile(
    rf"^[ \t>]{{0,4}}({_NAME})[ \t]{{1,4}}(?:(?:today|yesterday)[ ])?(?:at[ ])?{_TIME}\n"
    rf"(?![^\n]{{1,40}}[ \t]{_TIME})(?=[ \t]{{0,4}}\S)",
    re.I | re.M,
)
"""A name and a time above a message. A line of a timetable has another one below."""

_FLYING: Final = re.compile(
    r"(?<![\w/])([A-Z]{2,24}/[A-Z]{2,24}(?:[ ][A-Z]{2,24}){0,2}?)[ ]?(?:MR|MRS|MS|MISS|MSTR|CHD|INF|DR)(?!\w)"
)
_PIECE: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_NEAR: Final = 400
"""Characters before a signature in which a line with a bullet tells that it is the last one of a list."""

_SHORTEST: Final = 3
_RIDES: Final = 13
_END: Final = 100
"""Characters at the end of a text in which a signature lies."""

_RELATIVE_WORD: Final = kind(_RELATIVES)
_FAMILY_WORD: Final = kind(_LISTS["family"])
_TITLED_WORD: Final = kind(_LISTS["called"])
_CALLING_WORD: Final = kind(frozenset({"again", "here", "speaking", "calling"}))
_NUMBERED_WORD: Final = kind(_LISTS["numbered"])
_ATTENDED_WORD: Final = kind(_LISTS["attended"] | {"pt", "pts", "patient"})
_NEW_WORD: Final = kind(
    frozenset({"new", "old", "lost", "changed", "text", "call", "ring", "hit", "msg", "here", "save"})
)
_NEWS_WORD: Final = kind(frozenset({"its", "it", "this", "tis", "here"}))
_PAID_WORD: Final = kind(frozenset(payment.split()[-1].lower() for payment in _LISTS["payments"]))
_RIDE_WORD: Final = kind(
    lambda word: word.startswith(("pick", "collect", "drop", "fetch", "transport", "escort")) and len(word) < _RIDES
)
_ROLE_WORD: Final = kind(_LISTS["roles"])
_MEANT_WORD: Final = kind(_LISTS["meant_for"])
_ASK_WORD: Final = kind(frozenset({"ask"}))
_GREETING_WORD: Final = kind(frozenset({"hi", "hiya", "hello", "hey", "dear", "good"}))
_CODE_WORD: Final = kind(frozenset({"code", "pin"}))
_CARD_WORD: Final = kind(frozenset({"back", "cvv", "cvc", "cvv2", "cvc2", "security", "verification"}))
_CALLER_WORD: Final = kind(_CALLERS)
_TRADER_WORD: Final = kind(_TRADERS)
_TITLE_OF_FLIGHT: Final = kind(lambda word: word.endswith(("mr", "mrs", "ms", "miss", "mstr", "chd", "inf", "dr")))
_CLOSING_WORD: Final = kind(
    frozenset({"regards", "rgds", "cheers", "thanks", "thx", "you", "best", "love", "ta", "yours"})
)
_DASH: Final = re.compile(r"[\n.!?)\]][ \t\n]{0,4}[-–—~]")
"""A signature has such a dash before it, or a word of the kind above."""

_PATTERNS: Final = (
    (_RELATIVE, _RELATIVE_WORD),
    (_OF_FAMILY, _FAMILY_WORD),
    (_TITLED, _TITLED_WORD),
    (_CALLING, _CALLING_WORD | _GREETING_WORD),
    (_NUMBERED, _NUMBERED_WORD),
    (_ROLE, _ROLE_WORD),
    (_MEANT_FOR, _MEANT_WORD),
    (_ASK_FOR, _ASK_WORD),
    (_GREETED, _GREETING_WORD),
    (_NUMBERED_OF, NUMERIC),
    (_TO_HANDS, kind(frozenset({"attn", "fao", "attention"}))),
)
_ANY_WORD: Final = functools.reduce(int.__or__, (word for _, word in _PATTERNS))


def find_introduced(text: str) -> Iterator[Find]:
    """Yields names after words of kinship and roles, in signatures, headers of chats, and lists of passengers."""
    kinds = kinds_of(text)
    for pattern, word in _PATTERNS if kinds & _ANY_WORD else ():
        for match in pattern.finditer(text) if kinds & word else ():
            yield from _names(match)
    for match in _TITLED_SMALL.finditer(text) if kinds & _TITLED_WORD else ():
        if is_listed(match[1]):
            yield *match.span(1), "PERSON"
    for match in _ATTENDED.finditer(text) if kinds & _ATTENDED_WORD else ():
        if _is_attended(match, text):
            yield *match.span(2), "PERSON"
    for match in _NEWS.finditer(text) if kinds & _NEW_WORD and kinds & _NEWS_WORD else ():
        name = match[match.lastindex or 0].lower()
        if name not in WORDS and name not in _LISTS["no_names"] and (is_listed(name) or not name.endswith(_ADJECTIVE)):
            yield *match.span(match.lastindex or 0), "PERSON"
    for match in _PAID.finditer(text) if may_hold_capital(text) and kinds & _PAID_WORD else ():
        if any(len(word) > 1 and word not in WORDS for word in match[1].lower().split()):
            yield *match.span(1), "PERSON"
    for match in _CODE_OF_LOCK.finditer(text) if kinds & _CODE_WORD and kinds & NUMERIC else ():
        yield *match.span(1), "CODE"
    for match in _BACK_OF_CARD.finditer(text) if kinds & _CARD_WORD and kinds & NUMERIC else ():
        yield *match.span(1), "PASSWORD"
    for match in _RIDE.finditer(text) if kinds & _RIDE_WORD else ():
        if any(map(is_unknown, match[1].lower().split())):
            yield *match.span(1), "PERSON"
    for match in _CALLER.finditer(text) if kinds & _CALLER_WORD else ():
        if all(_is_small(word) for word in match.groups()) and is_unknown(match[2]):
            yield match.start(1), match.end(2), "PERSON"
    for match in _TRADER.finditer(text) if kinds & _TRADER_WORD else ():
        yield *match.span(1), "USERNAME"
    last, end = text.rstrip()[-1:], max(0, len(text) - _END)
    if (last.isalpha() or last == ".") and (kinds & _CLOSING_WORD or _DASH.search(text, end) is not None):
        signed = _SIGNED.search(text, end)
        if signed is not None and _BULLET.search(text, max(0, signed.start() - _NEAR), signed.start()) is None:
            yield from _names(signed)
    if (
        "\n" in text
        and kinds & _GREETING_WORD
        and (lone := _LONE.search(text, end)) is not None
        and _OPENED.match(text)
    ):
        is_short = len(lone[1]) < _SHORTEST and lone[1].lower() not in WORDS
        yield from [(*lone.span(1), "PERSON")] if is_short else _names(lone)
    if "\n" in text and not text.isascii():
        for match in _CLOSED.finditer(text, end):
            if _NOBODY.search(match[1]) is None and not match[1].islower():
                yield *match.span(1), "PERSON"
    if "\n" in text and "." in text:
        for match in _INITIALED.finditer(text):
            yield from _names(match)
    if "\n" in text and ":" in text and kinds & NUMERIC:
        for match in _HEADER.finditer(text):
            yield from _names(match)
    for match in _FLYING.finditer(text) if "/" in text and kinds & _TITLE_OF_FLIGHT else ():
        if any(word not in WORDS for word in re.split("[/ ]", match[1].lower())):
            yield match.start(), match.end(), "PERSON"


def _is_small(word: str) -> bool:
    """Returns true for a word in small letters that may be a part of a name."""
    return is_listed(word) or word in WORD_NAMES or (is_unknown(word) and not word.endswith(_ADJECTIVE))


def _is_attended(match: re.Match[str], text: str) -> bool:
    """Returns true for a name after a role. In small letters it is no adjective, and stands after "pt"."""
    name = match[2].lower()
    if is_listed(name):
        return True
    if not is_unknown(name) or (not match[1] and match[2].islower()):
        return False
    return match[2].istitle() or (not name.endswith(_ADJECTIVE) and (match[2].islower() or text.isupper()))


def _names(match: re.Match[str]) -> Iterator[Find]:
    """Yields the name in each group that took part in a match, up to the first word that is no part of it."""
    for group in range(1, match.re.groups + 1):
        written, start = match[group], match.start(group)
        if written is None:
            continue
        if written.islower():
            if is_unknown(written) and not written.endswith(("nt", "ed", "ing")):
                yield *match.span(group), "PERSON"
            continue
        end = start
        words = list(_PIECE.finditer(written))
        for word in words:
            lower = word[0].lower()
            is_initial = len(lower) == 1 and word is not words[-1]
            if not (is_initial or is_unknown(lower) or lower in WORD_NAMES or is_listed(lower)):
                break
            end = start + word.end()
        if end > start:
            yield start, end, "PERSON"
