"""Finds names in chats where only a person fits, most in small letters: "is rose in? she has my charger".

A name that is also a word needs a place for a person, and in the weaker places a word such as "she" behind it. A word
of no dictionary needs a place in which no thing stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.finds import Find, any_of
from pipelines.policies.detectors.first_pass import kind, kinds_of, may_hold_capital
from pipelines.policies.detectors.identifiers.beside import is_unknown
from pipelines.policies.detectors.identifiers.places import WORD_NAMES
from pipelines.policies.english.known_words import WORDS
from pipelines.policies.english.word_lists import word_lists

_LISTS: Final = word_lists("places")
_MASS: Final = _LISTS["mass"]
_NAME: Final = f"({any_of(WORD_NAMES)})"
_HIS: Final = r"(?<!\w)(?:s?he(?:['’]?(?:s|ll|d))?|his|hers?|him)(?!\w)"
_ONE_SYLLABLE: Final = "[bcdfghjklmnpqrstwxyz]{0,3}[aeiou]{1,3}(?:ng|[nklmprht])?"
_SYLLABLES: Final = re.compile(f"{_ONE_SYLLABLE}-{_ONE_SYLLABLE}")
_BEGINS: Final = r"(?:^|[.!?,;:\n>][ ]{0,2}|(?<!\w)(?:hey|ok|so|and|but|btw|omg|lol|yo|also|because|cos|cuz)[ ])"
_DOES: Final = (
    r"(?:in|out|back|off|on|here|there|still|ok|okay|home|around|coming|going|joining|ready|awake|asleep|working|up|at|with"
    r"|left|gone|dropp?(?:ed)?|picked|bring|brought|call|text|say|said|tell|told|get|got|want|need|know|come|go|paid|finished"
    r"|supposed|meant|not|just|never|wants|needs|isnt|isn['’]t|wasnt|wasn['’]t|also)"
)
_OF_PERSONS: Final = re.compile(
    rf"{_BEGINS}(?:is|was|has|did|does|can|wheres|where['’]s|where[ ]is|where[ ]was)[ ]{_NAME}"
    rf"(?:[ ]{_DOES}(?!\w)|(?=\?))[^\n]{{0,50}}?{_HIS}"
    rf"|{_BEGINS}{_NAME}[ ](?:forgot|lost|left|broke|said|says|wants|needs|got|had|has|took|brought|called|texted"
    rf"|hates|loves)"
    rf"[ ]{_HIS}"
    rf"|(?<!\w)(?:gave|give|lent|lend|owe|sent|send|showed|sold|handed|paid)[ ]{_NAME}[ ](?:the|my|a|an|back|our"
    rf"|your|some)"
    rf"[ ][^\n]{{0,50}}?{_HIS}"
    rf"|(?<!\w)(?:i|we|u|you|they)[ ](?:just[ ])?(?:saw|met|seen|miss|bumped[ ]into)[ ]{_NAME}"
    rf"(?:[ ](?:with|and|at|in|on|yesterday|today))?[ ,]{{1,2}}(?:[^\W\d_]{{2,10}}[ ]){{0,3}}{_HIS}"
    rf"|(?<!\w)(?:call|text|message|email|letter|card|note|voicemail|msg)[ ]from[ ]{_NAME}[ ]?[,.;][ ]{_HIS}"
    rf"|(?<!\w)(?:you|me|him|her|u)[ ](?:or|and|n|&)[ ]{_NAME}(?=[ ]?[?!.]|[ ](?:are|were|r|have|went|will)[ ])",
    re.I | re.M,
)
"""Places for a person, and in most of them a pronoun of one person."""

_TOGETHER: Final = re.compile(
    rf"{_BEGINS}{_NAME}[ ](?:and|n|&)[ ]{_NAME}[ ](?:(?P<broke>broke|split)|said|went|came|left|want|need"
    r"|(?:are|were|r)[ ](?:picking|coming|here|driving|going|late|bringing|getting|having|moving|married|engaged|back"
    r"|out|off|asleep|fighting))(?!\w)",
    re.I | re.M,
)
_LET: Final = re.compile(rf"(?<!\w)(?:let|lets)[ ]{_NAME}[ ]know(?!\w)", re.I)
_NO_WORD: Final = re.compile(
    r"(?<!\w)hear(?:d|ing)?[ ]from[ ]([a-z]{4,20})(?=[ ]?[?.!,]|$|[ ](?:yet|since|again|today|lately)(?!\w))"
    r"|(?<!\w)(?:me|you|him)[ ](?:and|n|&)[ ]([a-z]{4,20})(?=[ ](?:are|were|r|have|went|will|got|came)(?!\w))"
    r"|^([a-z]{4,20})[ ](?:is[ ]|was[ ])?(?:not|isnt|wasnt|wont[ ]be|is|off)[ ](?:in|coming[ ]in|at[ ]work|here"
    r"|sick)[ ]?"
    r"(?:today|tomorrow|tonight)(?!\w)"
    r"|(?<!\w)(?:book(?:ed|ing)?|table|order|reserved|reservation"
    r"|room)(?!\w)[^.!?\n]{0,30}?[ ]under[ ](?:the[ ]name[ ])?"
    r"([a-z]{3,20})(?!\w)"
    r"|(?<!\w)(?:got|have|know|need|lost)[ ]([a-z]{3,20})['’]?s[ ](?:number|addy|address|snap|insta|email|keys?"
    r"|bday)(?!\w)"
    r"|(?<!\w)(?:crash|crashed|crashing|sleep|stay|stayed|staying)(?:[ ]over)?[ ]at[ ]([a-z]{4,20}['’]?s)"
    r"(?=[ ]?[,.!?]|$|[ ](?:tonight|tomorrow|yesterday|again|for|til|until)(?!\w))",
    re.M,
)
"""Places in which no thing stands, and a word of no dictionary."""

_HYPHENED: Final = re.compile(r"(?<![\w-])(([A-Z][a-z]{1,5})-([a-z]{2,6})(?:[ ][A-Z][a-z]{1,9})?)(?![\w-])")
"""A given name in two syllables: "Min-seo"."""

_AWAY: Final = re.compile(
    r"(?:\A|[.!?\n][ ]{0,2})([A-Z][^\W\d_]{3,20})[ ](?:is|was|will[ ]be)[ ](?:on[ ](?:leave|holiday|vacation"
    r"|annual|maternity|sick"
    r"|parental|nights|lates|earlies)|away|off[ ](?:today|sick|until|tomorrow)|out[ ](?:of[ ](?:the[ ])?office"
    r"|today|until|sick)"
    r"|in[ ]a[ ]meeting|working[ ]from[ ]home|wfh|running[ ]late)(?!\w)"
)
"""Somebody who is not at work."""


_CAPITAL_NAME: Final = f"({any_of(frozenset(name.title() for name in WORD_NAMES))})"
_ACTS: Final = re.compile(
    rf"(?:^|[.!?,;\n][ ]{{0,2}}|(?<!\w)(?:and|or|if|when|while|because|that|until)[ ]){_CAPITAL_NAME}[ ]"
    r"(?:(?P<weak>(?:will|would|can|could|might)[ ](?:do|cook|drive|collect|pick|visit|review|reassess|ring|babysit"
    r"|cover|mind|watch|feed|walk)(?!\w))"
    r"|(?:walked|transferred|mobili[sz]ed|ambulated|slept|voided|babysits|babysat|phoned|cooked|drove)(?!\w)"
    r"|(?:stays|stayed|sits|is|was|plays)[ ](?:at[ ]home[ ])?with[ ](?:the|my|our|his|her|their)[ ]"
    r"(?:kids|children|twins|baby|boys|girls|dogs?|cats?|grandparents)(?!\w)"
    r"|from[ ](?:physio(?:therapy)?|OT|pharmacy|dietetics|HR|IT|accounts|payroll|reception|sales|finance|marketing"
    r"|legal|procurement|nursing|social[ ]work|the[ ](?:office|ward|agency|council|school|nursery))(?!\w))"
)
"""A name that is also a word, with a capital, and what only a person does, or where somebody works."""

_CAPITAL_WORD: Final = r"[A-ZÀ-ÖØ-Þ][^\W\d_]{1,20}(?:['’-][^\W\d_]{2,20})?"
_BOTH: Final = re.compile(
    rf"(?<![\w-])({_CAPITAL_WORD}(?:[ ]{_CAPITAL_WORD})?)[ ](?:and|&|n)[ ]"
    rf"((?:Ó[ ])?{_CAPITAL_WORD}(?:[ ]{_CAPITAL_WORD})?)[ ]"
    r"(?:(?:just[ ]|finally[ ])?got[ ](?:engaged|married|divorced|hitched|together)|(?:broke|split)[ ]up"
    r"|(?:are|were)[ ](?:engaged|getting[ ]married|expecting|having[ ]a[ ]baby)"
    r"|(?:had|welcomed)[ ](?:(?:a|the|their)[ ](?:baby|boy|girl)|their[ ](?:first|second|third))|moved[ ]in[ ]together"
    r"|will[ ](?:both[ ])?(?:present|chair|moderate|speak)|chaired|presented[ ]the)(?!\w)"
)
"""Two persons who marry, or speak at a meeting."""

_DEAD: Final = re.compile(
    rf"(?:^|[.!?\n][ ]{{0,2}})({_CAPITAL_WORD}(?:[ ]{_CAPITAL_WORD}){{1,3}})"
    r"(?:,[ ](?:who|aged|of|formerly|\d{1,3})(?!\w)[^\n.]{0,120},)?[ ](?:died|passed(?:[ ]away)?)[ ](?:very[ ])?"
    r"(?:peacefully|suddenly|unexpectedly|quietly|at[ ]home|in[ ](?:his|her)[ ]sleep|surrounded[ ]by)(?!\w)",
)
"""Somebody in a notice of a death."""

_NAME_WORD: Final = kind(WORD_NAMES)
_ACT_WORD: Final = kind(
    frozenset(
        {"do", "cook", "drive", "collect", "pick", "visit", "review", "reassess", "ring", "babysit", "cover", "mind"}
    )
    | {"watch", "feed", "walk", "walked", "transferred", "mobilised", "mobilized", "ambulated", "slept", "voided"}
    | {"babysits", "babysat", "phoned", "cooked", "drove", "kids", "children", "twins", "baby", "boys", "girls", "dog"}
    | {"dogs", "cat", "cats", "grandparents", "physio", "physiotherapy", "ot", "pharmacy", "dietetics", "hr", "it"}
    | {"accounts", "payroll", "reception", "sales", "finance", "marketing", "legal", "procurement", "nursing", "social"}
    | {"office", "ward", "agency", "council", "school", "nursery"}
)
_DEATH_WORD: Final = kind(frozenset({"died", "passed"}))
_HIS_WORD: Final = kind(_LISTS["small_his"])
_BOTH_WORD: Final = kind(frozenset({"and", "n", "or"}))
_KNOW_WORD: Final = kind(frozenset({"know"}))
_TOGETHER_WORD: Final = kind(_LISTS["small_couples"])
_AWAY_WORD: Final = kind(_LISTS["small_away"])
_PLACE_WORD: Final = kind(_LISTS["small_places"])


def find_small_names(text: str) -> Iterator[Find]:
    """Yields names that are also words, and words of no dictionary, in places for a person."""
    kinds = kinds_of(text)
    if kinds & _NAME_WORD:
        patterns = [_OF_PERSONS] if kinds & (_HIS_WORD | _BOTH_WORD) else []
        patterns += [_TOGETHER] if kinds & _BOTH_WORD else []
        for match in _ACTS.finditer(text) if kinds & _ACT_WORD and may_hold_capital(text) else ():
            if not match["weak"] or match[1].lower() not in _MASS - {"will"}:
                yield *match.span(1), "PERSON"
        patterns += [_LET] if kinds & _KNOW_WORD else []
        for pattern in patterns:
            for match in pattern.finditer(text):
                names = [group for group in range(1, pattern.groups + 1) if match[group] is not None]
                if pattern is _TOGETHER and names[2:] == [] and all(match[group].lower() in _MASS for group in names):
                    continue
                yield from ((*match.span(group), "PERSON") for group in names[:2])
    for match in _HYPHENED.finditer(text) if "-" in text else ():
        first, second = match[2].lower(), match[3]
        name = f"{first}-{second}"
        if WORDS.isdisjoint((first, second)) and name not in _LISTS["no_syllables"] and _SYLLABLES.fullmatch(name):
            yield *match.span(1), "PERSON"
    for match in _AWAY.finditer(text) if kinds & _AWAY_WORD and may_hold_capital(text) else ():
        if is_unknown(match[1].lower()):
            yield *match.span(1), "PERSON"
    for match in _BOTH.finditer(text) if kinds & _TOGETHER_WORD and may_hold_capital(text) else ():
        words = f"{match[1]} {match[2]}".split()
        if all(word.istitle() and (word.lower() not in WORDS or word.lower() in WORD_NAMES) for word in words):
            yield from ((*match.span(group), "PERSON") for group in (1, 2))
    for match in _DEAD.finditer(text) if kinds & _DEATH_WORD and may_hold_capital(text) else ():
        if any(map(is_unknown, match[1].lower().split())):
            yield *match.span(1), "PERSON"
    for match in _NO_WORD.finditer(text) if kinds & _PLACE_WORD else ():
        group = match.lastindex or 0
        if is_unknown(match[group].removesuffix("s").rstrip("'’") if group == _NO_WORD.groups else match[group]):
            yield *match.span(group), "PERSON"
