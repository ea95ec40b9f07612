"""Finds of a model in rows that tell of nobody: a general statement, a laboratory report, a line of code.

A row tells of nobody if it has no "I", "my", "she", no word of somebody's life ("moved", "daughter"), no title and no
placeholder. In such a row a known thing, an abbreviation, a term, a year or a number without a cue identifies nobody.
A word that no list knows stays a find, because it may be a name.
"""

from __future__ import annotations

import functools
import re
from typing import Final, NamedTuple

from pipelines.policies.english import rows_of_code
from pipelines.policies.english.common_words import COMMON_WORDS, FUNCTION_WORDS, NUMBER_WORDS, UNITS
from pipelines.policies.english.cues import CUE_BEFORE
from pipelines.policies.english.everyday_numbers import STREETS, may_be_part
from pipelines.policies.english.known_words import WORDS, is_alone, is_word, without_index
from pipelines.policies.english.name_lists import has_name, names_somebody, personal_names
from pipelines.policies.english.rows_of_code import MONTHS
from pipelines.policies.english.word_lists import word_lists
from pipelines.policies.protocol import PLACEHOLDER

_LISTS: Final = word_lists("known")
_TERMS: Final = word_lists("ordinary")
_ROWS: Final = word_lists("rows")
_THINGS: Final = word_lists("known_things")["things"] | _LISTS["wholes"]
_PREMISES: Final = _LISTS["premises"] | word_lists("street_words")["strong"] | STREETS
_MEASURES: Final = UNITS | _TERMS["measures"]
_TECHNICAL: Final = (
    _TERMS["technical"] | _TERMS["abbreviations"] | _TERMS["programs"] | _TERMS["drugs"] | _TERMS["numbered"]
)
_TERMS_OF_FIELDS: Final = word_lists("known_things")["terms"]
_SINGLE: Final = _MEASURES | _TECHNICAL | _LISTS["products"] | _TERMS_OF_FIELDS
_KNOWN: Final = _SINGLE | _THINGS | _LISTS["titles"] | _LISTS["peoples"]
_IN_PHRASES: Final = WORDS | _KNOWN | word_lists("known_things")["titled"]
_LABORATORY: Final = _TECHNICAL | _TERMS["scores"]
_COUNTS: Final = NUMBER_WORDS | _TERMS["times"]
_SCALES: Final = _TERMS["scores"] | _TERMS["eponyms"]
_DATE_WORDS: Final = FUNCTION_WORDS | NUMBER_WORDS | _MEASURES | _TERMS["times"] | _TERMS["counts"]
_NAMES: Final = frozenset(
    {"PERSON", "ORG", "ORGANIZATION", "GPE", "LOC", "LOCATION", "PRODUCT", "WORK_OF_ART", "FAC", "EVENT", "LAW"}
    | {"NORP", "NRP", "LANGUAGE"}
)
_NUMBERS: Final = frozenset({"CARDINAL", "DATE", "DATE_TIME", "MONEY", "ORDINAL", "PERCENT", "QUANTITY", "TIME"})
_SOMEBODY: Final = _ROWS["person"] | _ROWS["somebody"] | {PLACEHOLDER.lower()}
_LIFE: Final = _LISTS["life"] | _SOMEBODY
_LIFE_PHRASE: Final = re.compile(
    r"(?<!\w)(?:(?:lives?|living|lived|been) (?:in|at|to|with|near|on|by|next)|ms(?=\. [A-Z])|(?:its?|it['’]s) an?)"
    r"(?!\w)",
    re.I,
)
_SOFT: Final = _ROWS["reader"] | _ROWS["group"]
"""Words of a group or of the reader. Such a row keeps amounts and large numbers."""

_WORD: Final = re.compile(r"[^\W\d_]+")
_ARTICLE: Final = re.compile(r"^(?:the|a|an) ", re.I)
_PIECE: Final = re.compile(r"[^\s,;:/()+&\"“”-]+")
_MEDICAL: Final = re.compile(
    r"[a-z]{2,14}(?:olog(?:y|ist|ic|ical)|itis|ectomy|osis|otic|emia|aemia|emic|uria|scop(?:y|ic)|plasty|path(?:y"
    r"|ic)|oma"
    r"|o[sth]tomy|algia|plegia|ectasis|megaly|rrh(?:ea|oea|age|agic)|iatr(?:y|ic|ics)|graphy|gram|trophy|ebrile"
    r"|thorax|cardi[ac]l?"
    r"|pnea|pnoea|cytosis|sclerosis|stenosis|lysis|sepsis|toxin|cillin|illary|aureus|coccus|bacter|ella|otomy|opsy"
    r"|therapy)",
)
"""Ends of medical words."""

_NAMED: Final = re.compile(
    r"(?:[@#_-]\Z|@\s|(?<!\w)(?:named|called|call|name|user|handle|nickname|account|login|dear|hi|hello|hey|truly,"
    r"|regards,|sincerely,|best,|love,"
    r"|cheers,?|thanks,?|by|author|owner|ask|tell|told)[:=]?)\s?$",
    re.I,
)
_POSSESSION: Final = re.compile(r"['’]s [A-Z]")
"""What stands behind the first word of "Cobbler's Row"."""

_CUE: Final = re.compile(
    rf"(?<!\w)(?:{'|'.join(sorted(_TERMS['cues_before']))}|token|key|code|password|secret|pin)"
    r"[:=#]?\s(?:is |was |no |number )?$",
    re.I,
)
_PLACED: Final = re.compile(r"(?<!\w)(?:at|from|with|to|via) (?:the )?$", re.I)
_ROMAN: Final = re.compile(r"[IVX]{2,5}")
_TREATY: Final = re.compile(
    r"(?:[Tt]he )?(?:Treaty|Battle|Siege|Declaration|Edict|Peace|Convention|Council|Congress|Law|Laws) of [A-Z][a-z]+"
)
_OF_INITIALS: Final = re.compile(r".{0,2}(?<!\w)(?:An? [A-Z]{2,5} [a-z]|[Tt]he [A-Z]{2,5} [0-9])", re.S)
"""An abbreviation that a sentence explains ("An IBAN has"), or that has a size ("the VESA 400x400 bracket")."""

_RATIO: Final = re.compile(r"(?:1[3-9]|[2-9]\d|\d{3})/(?:1[3-9]|[2-9]\d|\d{3})")
"""A fraction that is no date."""

_REFERENCE: Final = re.compile(r"(?<!\w)(?:clos(?:es|ed)|fix(?:es|ed)|resolves?|issues?|pr|bug|see|\() ?#$", re.I)
_MONTH: Final = re.compile(rf"(?<!\w)(?:{'|'.join(_TERMS['months'])})[a-z]{{0,6}}(?!\w)", re.I)
_ORDINAL: Final = re.compile(r"(?:first|second|third|th)(?!\w)", re.I)
_PART_OF_YEAR: Final = re.compile(r"(?:week|half|quarter|decade) of", re.I)
_LONG_AGO: Final = re.compile(r"(?<!\d)1[0-7]\d\d(?!\d)")
_YEAR: Final = re.compile(r"(?<!\d)(?:1[89]|20)\d\d(?!\d|s)")
_YEARS: Final = re.compile(r"(?:between|from) (?:1[0-9]|20)\d\d (?:and|to) (?:1[0-9]|20)\d\d")
_OF_YEAR: Final = re.compile(r"(?<!\w)(?:in|since|by|until|during|before|after|around|for) $")
_STANDARD: Final = re.compile(r"(?<!\w)(?:iso|rfc|pep|ieee|din|ansi|en) ?$", re.I)
_MONEY: Final = re.compile(r"[A-Z]{3} ?[0-9]{1,3}(?:[.,][0-9]{3})*(?:[.,][0-9]{2})?")
_DIGIT: Final = re.compile(r"\d")
_DIGITS: Final = re.compile(r"[0-9]+")
_BARE: Final = re.compile(r"\d{4,}")
_AMOUNT: Final = re.compile(r" ?(?:ms|[kmgt]i?b|[a-z]{3,}s)(?!\w)", re.I)
_OF_A_PLAN: Final = re.compile(r"\d ?[mgt]b(?:ps)?(?!\w)", re.I)
"""A size of data, which may be what somebody ordered."""

_BIG: Final = re.compile(r"(?<!\w)(?:hundred|thousand|million|billion)s?(?!\w)", re.I)
_SCORED: Final = re.compile(
    r"(?<!\w)(?:won|wins?|lost|lose|beat|scored?|final|draw|drew|result|lead|led|finished|ended|game|match|set)\W"
    r"(?:\d{1,2}[-–])?$",
    re.I,
)
_SCORE: Final = re.compile(r"\d{1,2}(?:[-–]\d{1,2})?(?![\w-])")
_SPOKEN: Final = re.compile(r" (?:at|dot|dash|underscore|hyphen)(?!\w)", re.I)
_ABBREVIATION: Final = re.compile(r"(?<![^\W_])[A-Z]{2,5}, $")
_CAPITALS: Final = re.compile(r"(?<![^\W_])[A-Z]{2,5}(?![^\W_])")
_LETTER: Final = re.compile(r"(?<!\w)[A-Za-z] $")
_SPECIES: Final = re.compile(r"\([A-Z][a-z]{3,} [a-z]{3,}\)")
_STAMP: Final = re.compile(
    rf"(?:{MONTHS})(?: {{1,2}}\d{{1,2}})?|\d{{1,2}}|"
    r"(?:\d{4}-(?:0[1-9]|1[0-2])(?:-\d\d)?)?[T ]?"
    r"(?:\d\d:\d\d:\d\d(?:[.,]\d{1,6})?(?:Z|[+-]\d\d:?\d\d)?)?(?:[ \t]{1,3}[A-Z]{4,8})?"
)
_VALUE: Final = re.compile(r"(?<!\w)([A-Za-z][A-Za-z0-9]{0,11})[: ]{1,2}(?=[0-9]{1,3}(?:[./][0-9]{1,3})?(?![0-9-]))")
"""A laboratory value without its number."""

_QUANTITY: Final = r"(?:[A-Z][A-Za-z0-9]{0,5}|[0-9]{1,3}(?:[./][0-9]{1,3})?)"
_MEASUREMENT: Final = re.compile(rf"{_QUANTITY}(?:[,; ]{{1,2}}{_QUANTITY}){{0,5}}")
_PROGRAM: Final = re.compile(
    r"[\w.~:`]*(?:[a-z\d`:~]_|_[a-z\d]|[a-z]\.[A-Za-z_]"
    r"|(?<![A-Z])(?<!\bMa)[a-z][A-Z])[\w.]*(?:\([\w,= ]*\)?)?`*"
)
_INITIAL: Final = re.compile("[A-Z]{2}[a-z]{3,20}")
_OF_PROGRAMS: Final = _ROWS["tools"] | _ROWS["programs"]
_LIMITS: Final = frozenset({"max", "min"})
_LONGEST: Final = 200
"""Characters of a find above which it stays."""

_SEVERAL: Final = 3
_PART_NUMBER: Final = 12
"""Characters of the longest number of a part."""

_MIXED: Final = re.compile(r"(?=.{0,10}[0-9])(?=.{0,10}[A-Z]|0)[A-Z0-9x-]+")
_CODES: Final = frozenset({"CODE", "ADDRESS", "LICENSE_PLATE", "US_DRIVER_LICENSE", "CARDINAL"})
_TINY: Final = 2
_LOUDEST: Final = 4
_ENOUGH: Final = 5
_PORTS: Final = 8
_LAST: Final = re.compile(r"([^\W\d_]+) $")
_NEXT: Final = re.compile(r" ([^\W\d_]+)")
_BEGINNING: Final = re.compile(r"(?:\A|[.!?:]\s)\Z")
_FEW: Final = 5
"""Words of a row below which it may be an answer or a line of an address."""


class Row(NamedTuple):
    """Facts about a row.

    Attributes:
        is_of_nobody: flag that it tells of nobody.
        is_code: flag that it has several marks of code.
        is_soft: flag that it has a pronoun of a group or of the reader.
        is_log: flag that it begins with the time of a log.
        is_lab: flag that it has two laboratory values.
        is_of_programs: flag that it tells of a program.
        is_public: flag that it has a word of a date that holds for everybody.
        is_of_parts: flag that it has a word of parts of a machine.
        is_of_kinds: flag that it has a word such as "colours", and several of their kinds, which are also names.
        has_tools: flag that it names several languages and tools of programmers, of which some are also names.
    """

    is_of_nobody: bool = False
    is_code: bool = False
    is_soft: bool = False
    is_log: bool = False
    is_lab: bool = False
    is_of_programs: bool = False
    is_public: bool = False
    has_tools: bool = False
    is_of_parts: bool = False
    is_of_kinds: bool = False


@functools.lru_cache(maxsize=16)
def row_of(text: str) -> Row:
    """Returns what the rules must know about a whole row."""
    runs = without_index(text)
    has_digit = _DIGIT.search(text) is not None
    is_log = has_digit and rows_of_code.is_log(text)
    has_tools = len(_ROWS["tools"] & runs) >= _SEVERAL
    life = _SOMEBODY if has_tools else _LIFE
    if not life.isdisjoint(runs) or (not _ROWS["phrases"].isdisjoint(runs) and _LIFE_PHRASE.search(text) is not None):
        return Row(is_log=is_log)
    words = _WORD.findall(text)
    is_code = rows_of_code.is_code(text)
    is_lab = has_digit and rows_of_code.has_two(
        match for match in _VALUE.finditer(text) if match[1].lower() in _LABORATORY
    )
    has_small = any(len(word) > _TINY and word.islower() for word in words)
    is_of_programs = rows_of_code.tells_of_programs(text, runs)
    if not (is_lab or is_code or is_of_programs or (has_small and len(words) >= _FEW)):
        return Row(is_log=is_log)
    return Row(
        is_of_nobody=True,
        is_code=is_code,
        is_soft=not _SOFT.isdisjoint(runs),
        is_log=is_log,
        is_lab=is_lab,
        is_of_programs=is_of_programs,
        is_of_parts=not _ROWS["parts"].isdisjoint(runs),
        is_of_kinds=not _ROWS["kinds"].isdisjoint(runs) and len(_ROWS["sorts"] & runs) >= _SEVERAL,
        has_tools=has_tools,
        is_public=not _ROWS["public"].isdisjoint(runs) and _ROWS["reader"].isdisjoint(runs),
    )


def is_log_time(find: str, before: str, row: Row) -> bool:
    """Returns true for the date or time of a log. The name of a month counts at the start of a line."""
    return row.is_log and _STAMP.fullmatch(find) is not None and (not find[0].isalpha() or before[-1:] in ("", "\n"))


def is_of_nobody(find: str, label: str, before: str, after: str, row: Row, *, quoted: bool = False) -> bool:
    """Returns true if a find identifies nobody in a row that tells of nobody.

    Args:
        find: text of the find.
        label: its label.
        before, after: text next to it.
        row: facts about the row.
        quoted: flag that it stands in a string or a comment (`is_quoted`). It counts in code only.
    """
    if not row.is_of_nobody or len(find) > _LONGEST:
        return False
    if row.is_lab and _MEASUREMENT.fullmatch(find) and not _has_listed_name(find):
        return not _is_beside_name(before, after)
    if row.is_of_programs and _PROGRAM.fullmatch(find) and not (names_somebody(find) or _CUE.search(before)):
        return _NAMED.search(before.rstrip("`~:_")) is None and sum(map(str.isdigit, find)) <= _TINY
    listed = (_ROWS["tools"] if row.has_tools else frozenset()) | (_ROWS["sorts"] if row.is_of_kinds else frozenset())
    if listed and all(word in listed or word in FUNCTION_WORDS for word in _WORD.findall(find.lower())):
        return True
    has_form = len(find) <= _PART_NUMBER and (label in _CODES or _MIXED.fullmatch(find) is not None)
    is_of_part = row.is_of_parts and has_form and not CUE_BEFORE.search(before)
    if is_of_part or (label == "US_DRIVER_LICENSE" and row.is_of_programs and not CUE_BEFORE.search(before)):
        return True
    if label not in _NUMBERS and label not in _NAMES:
        return False
    if _SPECIES.fullmatch(before[-1:] + find + after[:1]):
        return True
    is_plain_code = row.is_code and not quoted
    is_named = _NAMED.search(before) is not None and not (
        _REFERENCE.search(before)
        or (is_plain_code and before.endswith(("#", "_", "-")))
        or (row.is_of_programs and before.endswith("#"))
    )
    if (is_named and _ARTICLE.match(find) is None) or (_CUE.search(before) and not (is_plain_code and find.isupper())):
        return False
    num_digits = sum(map(str.isdigit, find))
    if is_plain_code and not names_somebody(find):
        return num_digits <= (_PORTS if label in _NUMBERS else _ENOUGH)
    if not row.is_of_programs and _OF_A_PLAN.search(before[-_ENOUGH:] + find + after):
        return False
    if label in _NUMBERS or _MONEY.fullmatch(find):
        return _is_free_number(find, before, after, row)
    bare = _ARTICLE.sub("", find.strip(" .,!?^>/")).removesuffix("'s").removesuffix("’s")
    pieces = _PIECE.findall(bare)
    words = [piece for piece in pieces if piece[0].isalpha()]
    if not words or is_alone(before, after) or _is_beside_name(before, after) or _POSSESSION.match(after):
        return False
    key = bare.lower().replace("’", "'").replace(" ", "_")
    if key in _LISTS["wholes"] or (key in _THINGS and bare != find):
        return not bare.islower()
    if key in _MEASURES or _TREATY.fullmatch(find) or _OF_INITIALS.fullmatch(before[-4:] + find + after[:2]):
        return True
    if (
        len(words) == 1
        and not row.is_soft
        and (key in _TERMS_OF_FIELDS or _MEDICAL.fullmatch(key))
        and not bare.isupper()
    ):
        return True
    is_placed = _PLACED.search(before) is not None and not (row.is_of_programs and is_word(bare))
    if is_placed or any(word.lower() in _PREMISES and not word.isupper() for word in words):
        return False
    if key in _KNOWN and not bare.islower() and not (row.is_soft and key in _TERMS_OF_FIELDS):
        return not bare.isupper() or key in _TECHNICAL
    if len(words) > 1 and words[-1].lower() in _LISTS["heads"] and (bare[0].isupper() or bare != find):
        return all(piece.lower() in _IN_PHRASES for piece in words)
    if row.is_soft and not (bare.isupper() or row.is_of_programs):
        return False
    is_scale = any(map(str.isdigit, bare + after[:4]))
    return all((is_scale and piece.lower() in _SCALES) or _is_term(piece, label, row) for piece in pieces)


def _is_term(piece: str, label: str, row: Row) -> bool:
    """Returns true for a term, an abbreviation of a list, a short number, and as a person a word of the dictionary.

    Where a row tells of a program, all words of the dictionary, its forms of names and short abbreviations count.
    """
    bare = piece.strip(".'’^>/")
    lower = bare.lower()
    is_of_programs = row.is_of_programs or row.is_code or row.is_of_parts
    if is_of_programs and _PROGRAM.fullmatch(piece) and not names_somebody(piece):
        return True
    if row.is_of_parts and any(map(str.isdigit, bare)) and len(bare) <= _PART_NUMBER and not bare.isdecimal():
        return True
    if bare.isupper() and not bare.isdecimal():
        if (
            is_of_programs
            and (label != "PERSON" or is_word(bare))
            and (len(bare) <= _ENOUGH or "_" in bare)
            and not names_somebody(bare)
        ):
            return True
        return lower in _TECHNICAL or _ROMAN.fullmatch(bare) is not None
    if lower in personal_names() and lower not in COMMON_WORDS:
        return False
    if is_of_programs and (lower in _OF_PROGRAMS or (_INITIAL.fullmatch(bare) and is_word(bare[1:]))):
        return True
    if {lower, lower.removesuffix("s")} & _SINGLE or _MEDICAL.fullmatch(lower) is not None:
        return True
    is_guess = is_of_programs or label in ("PERSON", "NORP", "NRP")
    return (bare.isdecimal() and len(bare) <= _TINY) or (is_guess and is_word(bare))


def _is_free_number(find: str, before: str, after: str, row: Row) -> bool:
    """Returns true for a number of up to three digits, an amount, and a year long ago. A date is none."""
    words = [word.lower() for word in _WORD.findall(find)]
    if row.is_soft and _BIG.search(find):
        return False
    if _SCORED.search(before) and _SCORE.match(find + after):
        return True
    is_long_ago = _LONG_AGO.search(find) and (_MONTH.search(find) or _OF_YEAR.search(before))
    if is_long_ago or _YEARS.fullmatch(find):
        return True
    is_numbered = _STANDARD.search(before) or _REFERENCE.search(before) or (row.is_of_programs and before[-1:] == "#")
    if find.isdecimal() and len(find) <= _ENOUGH and is_numbered:
        return True
    if not all(
        word in _DATE_WORDS or word in _KNOWN or word in WORDS or word in _SCALES or _MONTH.fullmatch(word)
        for word in words
    ):
        return False
    if find.islower() and _COUNTS.isdisjoint(words) and not any(map(str.isdigit, find)) and not _MONTH.search(find):
        return True
    if _MONTH.search(find) or _YEAR.search(find):
        if "," in before[-2:] + after[:2] or _is_beside_name(before, after):
            return False
        if _YEAR.search(find):
            return _OF_YEAR.search(before) is not None and len(_DIGITS.findall(find)) == 1
        is_of_day = any(map(str.isdigit, find)) or (_ORDINAL.search(find) and not _PART_OF_YEAR.search(find))
        return row.is_public or not (is_of_day or any(word in NUMBER_WORDS for word in words))
    if sum(word in NUMBER_WORDS for word in words) > 1 or _SPOKEN.match(after) or _LETTER.search(before):
        return False
    last = _LAST.search(before)
    if _is_beside_name(before, after) or (last is not None and _may_be_name(last[1], before[: last.start()])):
        return False
    following = _NEXT.match(after)
    if following is not None and find[-1].isalnum() and following[1].istitle() and following[1].lower() not in _SINGLE:
        return False
    if _RATIO.fullmatch(find):
        return True
    bare = _BARE.search(find)
    if bare is not None and _AMOUNT.match((find + after)[bare.end() :]) is None:
        return False
    return not may_be_part(find, _ABBREVIATION.sub("x, ", before), _CAPITALS.sub("x", after))


def _may_be_name(word: str, before: str) -> bool:
    """Returns true for a word of no list, and for a word with a capital inside a sentence that is no term."""
    lower = word.lower()
    if word.islower():
        return len(word) > _TINY and lower not in _DATE_WORDS and lower not in WORDS and lower not in _KNOWN
    return lower not in _KNOWN and lower not in _SCALES and _BEGINNING.search(before) is None


def _is_beside_name(before: str, after: str) -> bool:
    first, last = _LAST.search(before), _NEXT.match(after)
    return any(
        w is not None
        and (w[1].istitle() or (w[1].isupper() and len(w[1]) > _LOUDEST))
        and w[1].lower() not in _KNOWN
        and w[1].lower() not in WORDS
        for w in (first, last)
    )


def _has_listed_name(find: str) -> bool:
    return has_name(word.lower() for word in _WORD.findall(find) if word not in _LIMITS)
