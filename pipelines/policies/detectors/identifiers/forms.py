"""Finds secrets in fixed phrases: signatures, log lines, notes in code, "did rajesh reply", and numbers of one form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.finds import Find, any_of, find_all
from pipelines.policies.detectors.first_pass import NUMERIC, count, kind, kinds_of, may_hold_capital
from pipelines.policies.detectors.identifiers.places import CAPITAL, EVERYDAY, WORD_NAMES, is_listed
from pipelines.policies.english.common_words import BASE_VERBS, COMMON_WORDS, FUNCTION_WORDS, VERB_FORMS
from pipelines.policies.english.known_words import WORDS
from pipelines.policies.english.word_lists import word_lists

_SIGNED: Final = re.compile(
    r"(?:^|[\n.!?][ \t]{0,8})(?:(?:(?:best|kind|warm|many|with(?: (?:best|kind|warm))?)[ ])?(?:regards|wishes|thanks)"
    r"|thank you|thanks(?: again| a lot)?|cheers|best|sincerely|yours(?: (?:sincerely|truly|faithfully))?|love"
    r"|cordially|respectfully)[ ]?[,.!]?[ \t]{0,8}\n\s{0,8}(?:[-–—~][ ]?)?"
    rf"({CAPITAL}[\w'’-]{{1,20}}(?:[ ]{CAPITAL}[\w'’.-]{{0,20}}){{0,3}})[ \t]{{0,8}}(?=\n|,|\Z)",
    re.I,
)
_OPTION: Final = re.compile(
    r"(?<!\S)(?:-u|--user)[ =]([\w.@-]{2,64}):(?=\S)"
    r"|(?<!\w)mysql[a-z]{0,10}\b[^\n|;]{0,80}? (?:-u ?|--user[ =])([\w.@-]{2,64})"
)
_NOTE: Final = re.compile(r"(?<!\w)(?:TODO|FIXME|XXX|HACK|NOTE)\(@?([a-z][\w.-]{1,40})\)")
_RESET: Final = re.compile(
    r"(?:(?<!\w)(?:set|changed?|reset)[ ](?:(?:the|my|his|her|your|our|their)[ ])?(?:new[ ])?"
    r"(?:password|passcode|pw|pin)[ ]to[ ]"
    r"|(?<!\w)(?:pass\w{0,6}|pwd?|pin|login|account|locked[ ]out|credentials?|wi-?fi|vpn)(?!\w)[^\n]{0,50}?"
    r"(?<!\w)(?:reset|set|changed|updated)(?:[ ]it)?[ ]to[ ])[\"'“]?([^\s\"'”]{6,60}?)[\"'”]?"
    r"(?=[.,;)]?(?:\s{0,4}\Z|\n|[ ](?:pls|please|and|for|until|so|but|on|at)(?!\w)))",
    re.I,
)
"""A new password: "locked out, reset to Heron-31"."""

_CALENDAR: Final = re.compile(r"(?:ORGANIZER|ATTENDEE)[^:\n]{0,200}?;CN=([^\":;\n]{2,60})")
_IRISH: Final = re.compile(r"(?<!\w)(?:O['’][A-Z][a-z]{2,20}|Mc[A-Z][a-z]{2,20}|Fitz[A-Z]?[a-z]{3,20})(?!\w)")
_LOGIN: Final = re.compile(
    r"(?<!\w)(?:login|log in|user(?:name)?|usr)[ :=]{1,3}(\S{2,64})[ ,;/]{1,3}"
    r"(?:pass(?:word)?|pwd|pw)[ :=]{1,3}([^\s,;]{3,64})",
    re.I,
)
_ANSWER: Final = re.compile(
    r"security question[^\n]{0,120}?(?:answer|reply)(?:[ ]is|[ ]?[:=])[ ]{0,2}([^\n.;]{2,60})", re.I
)
_ARROW: Final = re.compile(
    r"(?<!\w)(?:secret|password|passwd|passphrase|token|api[ _-]?key|key|pin"
    r"|credential)s?[ ]?(?:→|->|⇒|–>)[ ]?([^\s,;]{4,80})",
    re.I,
)
_INSURANCE: Final = re.compile(r"(?<!\w)[A-Z]{2}[ ]?\d{2}[ ]?\d{2}[ ]?\d{2}[ ]?[A-D](?!\w)")
_LETTERS_FIRST: Final = re.compile(
    r"(?<!\w)(?:number|no\.?|nr\.?)(?:[ ]is)?[ :]{1,3}"
    r"(?-i:([A-Z]{1,5}[ -]?\d{2,9}(?:[ -]\d{2,9}){0,4}))(?![\w-]|[.,]\d)",
    re.I,
)
_PLACE: Final = re.compile(
    r"(?<![\w.])[-+]?\d{1,3}\.\d{3,12}°?[ ]?[NS]?[,;/ ][ ]?[-+]?\d{1,3}\.\d{3,12}°?(?![\w.]|[ ]?\d)"
)
_QUESTION: Final = re.compile(
    r"(?<!\w)(?:did|does|didn['’]?t|doesn['’]?t)[ ]([^\W\d_]{3,20})(?=[ ]([a-z]{2,14})(?!\w))", re.I
)
_RELATIVE: Final = (
    r"(?:friend|neighbou?r|boss|landlord|landlady|doctor|dentist|teacher|nurse|lawyer|colleague|cousin|brother|sister"
    r"|wife|husband|mother|father|mum|mom|dad|aunt|uncle|niece|nephew|son|daughter|partner|boyfriend|girlfriend"
    r"|roommate|flatmate|manager|supervisor|tenant|client|patient)"
)
_KIN: Final = re.compile(
    rf"(?:\A|[.!?\n][ ]{{0,2}})({CAPITAL}[^\W\d_]{{2,20}})[ ](?:is|was)[ ]"
    rf"(?:my|our|his|her|their)[ ](?:[a-z]{{2,12}}[ ])?{_RELATIVE}(?!\w)"
)
_PLACES: Final = word_lists("places")
_MASS: Final = _PLACES["mass"]
_WORD_NAME: Final = f"({any_of(WORD_NAMES)})"
_OPENING: Final = (
    r"(?:^[ \t>]{0,4}|[.!?;:,(\n-][ ]{1,2}|(?<!\w)(?:and|but|so|because|cos|coz|cuz|bc|when|if|since|that|omg|lol|then"
    r"|hey|yo|sorry|yeah|ok|idk|apparently|think|thought|hope|until|till|before|after|once|while|unless)[ ])"
)
_DOES: Final = rf"(?:{'|'.join(sorted(act.replace('_', '[ ]') for act in _PLACES['acts']))})(?!\w)"
_IS: Final = rf"(?:{'|'.join(sorted(state.replace('_', '[ ]') for state in _PLACES['states']))})(?!\w)"
_WORD_NAMED: Final = re.compile(
    rf"(?<!\w)(?:can|could|would|will|did|does|has|should)[ ]{_WORD_NAME}[ ]"
    rf"(?:(?:pls|please|just|even|ever|still)[ ])?{_DOES}"
    rf"|(?<!\w)(?:is|was|isnt|isn['’]t|are)[ ]{_WORD_NAME}[ ](?:still[ ]|even[ ])?{_IS}"
    rf"|{_OPENING}{_WORD_NAME}(?:['’]s|[ ](?:is|was|isnt|isn['’]t|wasnt))[ ](?:still[ ]|so[ ]|also[ ]|not[ ])?{_IS}"
    rf"|{_OPENING}{_WORD_NAME}[ ](?:cant|can['’]t|couldn['’]?t|didn['’]?t|won['’]?t|wont|doesn['’]?t|never|wants[ ]to"
    rf"|has[ ]to|needs[ ]to|just|always)[ ]{_DOES}"
    rf"|(?<!\w)but[ ]{_WORD_NAME}[ ](?:can|cant|can['’]t|did|didn['’]?t|does|doesn['’]?t)(?=[ ]?(?:[.,!?]|$))"
    rf"|(?<!\w)(?:at|to|from|near|round|in)[ ]{_WORD_NAME}['’]?s[ ](?:place|house|flat|gaff|crib|room"
    r"|apartment|apt|mums|moms|dads|parents|wedding|party|birthday|bday|funeral|garage|garden|car|desk)(?!\w)"
    rf"|(?<!\w)hear(?:d|ing)?[ ]from[ ]{_WORD_NAME}(?=[ ](?:yet|again|today|lately|since)(?!\w)|[ ]?(?:[?.!,]|$))",
    re.I | re.M,
)
"""A name that is also a word, where a person acts: "can rose pick up the kids"."""

_TITLE_NAME: Final = rf"({any_of(name.title() for name in WORD_NAMES - {'april', 'may', 'june', 'august'})})"
_ACTING: Final = (
    r"(?:got|gets|left|leaves|came|comes|went|goes|never|arrived|arrives|merges|finishes|said|says|told"
    r"|calls|called)"
)
_INSIDE: Final = re.compile(
    rf"(?<!\w)(?:before|when|after|until|once|if|because|since|while|unless|that|and|but)[ ]"
    rf"{_TITLE_NAME}[ ]{_ACTING}(?!\w)"
)
"""A name with a capital inside a sentence, and a verb of persons."""

_FIRST_OF_TWO: Final = re.compile(rf"\A{_TITLE_NAME}[ ](?:was|is|{_ACTING})(?!\w)")
_WITH: Final = re.compile(rf"(?<=[a-z][ ])(?:with|from|about)[ ]{_TITLE_NAME}(?=[ ]?(?:[.,!?;]|\Z))")

_OF_PERSONS: Final = frozenset(
    {"reply", "answer", "say", "tell", "text", "phone", "agree", "mention", "apologize", "apologise"}
)
TEAMS: Final = frozenset({
    "team", "support", "sales", "service", "customer", "office", "department", "staff", "group", "sent", "the",
    "please", "noreply", "info", "list", "bot", "notifications", "alerts", "newsletter", "via",
    "maintainers", "developers", "authors", "project", "foundation",
})  # fmt: skip
"""Words in a signature, or beside a mail address, of nobody."""

_CARET_PART: Final = r"(?:[A-Z]{2,24}(?:[ '’-][A-Z]{2,24}){0,3}|[^\W\d_]{2,24}(?:['’-][^\W\d_]{2,24})?)"
_CARETS: Final = re.compile(
    rf"(?<![\w^&$])(?!PN )({_CARET_PART}\^{_CARET_PART})(?:\^{{1,3}}[^\W\d_]{{1,24}}\.?){{0,3}}"
    r"(?:=[^\W\d_]{1,12}\^[^\W\d_]{1,12})?(?!\w)"
)
"""A name as DICOM and HL7 write it: "ACHESON^MORAG^J"."""

_CARET_CUE: Final = re.compile(r"(?:name|patient|physician|person|(?-i:PN|PID|NK1))(?!\w).{0,60}\Z|0010", re.I)
_LOGIN_PAIR: Final = re.compile(
    r"(?<!\w)(?:(?:log(?:ged)?|sign(?:ed)?)[ -]?(?:in|on)|login|creds|credentials?|account|user/pass)"
    r"(?:[ ][a-z]{2,14}){0,4}?(?:[ ](?:as|with|using|is|are|use)|:)[ ]([^\s/|,:]{2,64})"
    r"[ ]?(?:(?://?|\||:|,|and)[ ]?|,?[ ]?(?P<says>(?:with[ ](?:the[ ])?)?(?:password|pass|pw)[ :]{1,2}))"
    r"([^\s/|,]{3,64}?)(?=[.,;]?(?:\s|\Z))",
    re.I,
)
_FORMED: Final = re.compile(r"(?=\D*\d|[^!$#%&*~^+]*[!$#%&*~^+])(?=[^a-z]*[a-z]).", re.I)

# Words that a match of some patterns needs (`first_pass`).
_NOTE_WORD: Final = kind(frozenset({"todo", "fixme", "xxx", "hack", "note"}))
_RESET_WORD: Final = kind(frozenset({"reset", "set", "change", "changed", "updated"}))
_IRISH_WORD: Final = kind(lambda word: word == "o" or word.startswith(("mc", "fitz")))
_ANSWER_WORD: Final = kind(lambda word: word.startswith("question"))
_PASS_WORD: Final = kind(frozenset({"pass", "password", "pwd", "pw"}))
_PAIR_WORD: Final = kind(lambda word: word.startswith(("log", "sign", "cred", "account", "user")))
_QUESTION_WORD: Final = kind(frozenset({"did", "does", "didn", "didnt", "doesn", "doesnt"}))
_WILL_WORD: Final = kind(frozenset({"will"}))
_PRONOUN: Final = kind(frozenset({"i", "u", "you", "he", "she", "we", "me", "my", "his", "her"}))
_NAME_WORD: Final = kind(frozenset(name + end for name in WORD_NAMES - {"will", "may"} for end in ("", "s")))
_KIN_WORD: Final = kind(re.compile(_RELATIVE).fullmatch)
_NUMBER_WORD: Final = kind(frozenset({"number", "no", "nr"}))
_NEAR: Final = 80
_FEWEST_DIGITS: Final = 4
_RUNS_OF_PLACE: Final = 4


def find_forms(text: str) -> Iterator[Find]:
    """Yields secrets in fixed phrases."""
    kinds = kinds_of(text)
    if "\n" in text:
        for match in _SIGNED.finditer(text):
            words = match[1].lower().replace(".", " ").split()
            if TEAMS.isdisjoint(words) and any(word not in EVERYDAY or word in WORD_NAMES for word in words):
                yield *match.span(1), "PERSON"
    if "-u" in text:
        yield from ((*match.span(match.lastindex or 0), "USERNAME") for match in _OPTION.finditer(text))
    if "(" in text and kinds & _NOTE_WORD:
        yield from find_all(text, "USERNAME", _NOTE, group=1)
    for match in _RESET.finditer(text) if kinds & _RESET_WORD and kinds & NUMERIC else ():
        if _FORMED.match(match[1].lower()):
            yield *match.span(1), "PASSWORD"
    if ";CN=" in text:
        yield from find_all(text, "PERSON", _CALENDAR, group=1)
    if kinds & _IRISH_WORD:
        yield from find_all(text, "PERSON", _IRISH)
    if kinds & _ANSWER_WORD:
        yield from find_all(text, "PASSWORD", _ANSWER, group=1)
    if ">" in text or not text.isascii():
        yield from find_all(text, "PASSWORD", _ARROW, group=1)
    for match in _LOGIN.finditer(text) if kinds & _PASS_WORD else ():
        if FUNCTION_WORDS.isdisjoint((match[1].lower(), match[2].lower())):
            yield *match.span(2), "PASSWORD"
    for match in _LOGIN_PAIR.finditer(text) if kinds & _PAIR_WORD else ():
        secret = match[3].lower()
        if _FORMED.match(secret) or (match["says"] and secret not in FUNCTION_WORDS | COMMON_WORDS):
            yield *match.span(1), "USERNAME"
            yield *match.span(3), "PASSWORD"
    for match in _CARETS.finditer(text) if "^" in text else ():
        parts = re.findall(r"[^\W\d_]+", match[1].lower())
        may_be = [part not in WORDS or part in WORD_NAMES for part in parts]
        is_cued = _CARET_CUE.search(text, max(0, match.start() - _NEAR), match.start()) is not None
        if any(may_be) if is_cued else all(may_be) and any(map(is_listed, parts)):
            yield match.start(), match.end(), "PERSON"
    if kinds & NUMERIC:
        if may_hold_capital(text):
            yield from find_all(text, "ID_NUMBER", _INSURANCE)
            for match in _LETTERS_FIRST.finditer(text) if kinds & _NUMBER_WORD else ():
                if sum(map(str.isdigit, match[1])) > _FEWEST_DIGITS:
                    yield *match.span(1), "ID_NUMBER"
        if count(text, NUMERIC) >= _RUNS_OF_PLACE:
            yield from find_all(text, "ID_NUMBER", _PLACE)
    for match in _QUESTION.finditer(text) if kinds & _QUESTION_WORD else ():
        name = match[1].lower()
        is_name = is_listed(name) or (name in WORD_NAMES and match[1][0].isupper())
        if (is_name and match[2] in BASE_VERBS | VERB_FORMS) or (match[2] in _OF_PERSONS and name not in EVERYDAY):
            yield *match.span(1), "PERSON"
    for match in _WORD_NAMED.finditer(text) if kinds & _NAME_WORD else ():
        name = match[match.lastindex or 0]
        if name.lower() not in _MASS or (name[0].isupper() and match.start(match.lastindex or 0) > 0):
            yield *match.span(match.lastindex or 0), "PERSON"
    if may_hold_capital(text) and kinds & (_NAME_WORD | _WILL_WORD):
        inside = list(find_all(text, "PERSON", _INSIDE, group=1))
        if inside:
            yield from inside
            yield from find_all(text, "PERSON", _FIRST_OF_TWO, group=1)
        for match in _WITH.finditer(text):
            if match[1].lower() not in _MASS and kinds & _PRONOUN:
                yield *match.span(1), "PERSON"
    for match in _KIN.finditer(text) if kinds & _KIN_WORD else ():
        if is_listed(match[1].lower()) or match[1].lower() in WORD_NAMES:
            yield *match.span(1), "PERSON"
