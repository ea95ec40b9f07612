"""Entries of public lists, and set phrases: numbers of goods, codes of illnesses, eponyms, and ends of letters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipelines.policies.english.known_words import facts_of, runs_of
from pipelines.policies.english.name_lists import has_name, names_somebody
from pipelines.policies.english.word_lists import word_lists

_OF_METHODS: Final = word_lists("ordinary")["of_methods"]
_NOUNS: Final = word_lists("ordinary")["after_eponym"] | _OF_METHODS
_REGIMEN: Final = re.compile(
    r"(?<![\w.,:/-])[0-3½](?:-[0-3½]){2,3}(?![\w/:-]|[.,][0-9])|(?<![\w-])(?:q[0-9]{1,2}h|x ?[0-9]{1,2} ?(?:d|days?"
    r"|wks?))(?![\w-])"
)
"""When a drug is taken: "1-0-1", "q8h", "x7d"."""

_AMOUNT: Final = re.compile("[0-9½]")

_CLOSING: Final = re.compile(
    r"(?<!\w)(?:(?:mit )?(?:freundlichen?|besten?|herzlichen?|vielen?|lieben?|schönen?) (?:gr(?:ü|ue)(?:ß|ss)en?|dank)"
    r"|sehr geehrte damen und herren|guten tag|(?:bien )?cordialement|sincères salutations|(?:cordiali|distinti) saluti"
    r"|(?:un )?(?:cordial )?saludos?(?: cordiales)?|atentamente|atenciosamente|(?:met )?vriendelijke groet(?:en)?"
    r"|(?:med )?(?:vänlig hälsning|vänliga hälsningar|venlig hilsen|vennlig hilsen)|z poważaniem|s pozdravem"
    r"|saygılarımla"
    r"|ystävällisin terveisin|üdvözlettel)(?!\w)",
    re.I,
)
"""How letters begin and end in other languages, without the name."""

_CLOSES: Final = frozenset(
    {"grüßen", "grüße", "gruß", "grüssen", "gruessen", "dank", "herren", "tag", "cordialement", "salutations", "saluti"}
    | {"saludos", "saludo", "atentamente", "atenciosamente", "groet", "groeten", "hälsning", "hälsningar", "hilsen"}
    | {"poważaniem", "pozdravem", "saygılarımla", "terveisin", "üdvözlettel"}
)
_PART: Final = re.compile(
    r"(?<![^\W_])(?i:parts?|model|cat(?:alog(?:ue)?)?|product|item|article|sku|ean|gtin|upc|isbn|asin|mpn|barcode)"
    r"(?i:[ _-]?(?:ids?|nos?\.?|nrs?\.?|numbers?|codes?))?[\"']?(?:[: =#]{1,2}[\"']?)(?=[A-Z-]{0,8}[0-9])[A-Z0-9]{1,14}"
    r"(?:-[A-Z0-9]{1,8}){0,4}(?![\w/-])|(?<![\w.-])[0-9]{1,2}W-[0-9]{2}(?![\w-])"
)
"""The number of a part, an article or a model, and a grade of oil."""

_TRADED: Final = re.compile(r"(?<![\w.-])[0-9]{12,13}(?![\w-]|\.[0-9])")
_LISTED: Final = re.compile(
    r"(?<!\w)(?:LOINC|SNOMED(?:[ -]CT)?|ICD(?:-?(?:9|10|11))?(?:-(?:CM|PCS|O))?|CPT|ATC|HCPCS|NDC|RxNorm|OPS|OPCS"
    r"|MeSH|DRG"
    r"|CAS|EC|HS|NAICS|NACE|SIC|ISCO|UNSPSC|CPV|NOC)(?: (?:codes?|nos?\.?|numbers?))?[: ]{1,2}"
    r"(?=[A-Z]{0,2}[0-9])[A-Z0-9]{2,9}(?:[.-][A-Z0-9]{1,5}){0,3}(?![\w/-])"
)
"""An entry of a public list of illnesses, substances, goods or trades."""

_STAMPED: Final = re.compile(r"^[ \t]{0,4}[\[(]?(?:[01]?[0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?[\])](?= )", re.M)
"""The time of a message."""

_GOODS: Final = re.compile(
    r"(?<![^\W_])(?:ean|gtin|upc|isbn|barcode)(?:-?1[0-4])?[\"']?[: =#]{1,3}[\"']?([0-9](?:-?[0-9]){11,12})(?![\w-])",
    re.I,
)
"""A number of goods after its name."""

_GIVEN: Final = (
    r"(?!(?:Dr|M[rs]|Mrs|Miss|Prof|Sir)(?!\w))[A-Z][A-Za-zà-öø-ÿ]{1,20}(?:[-–][A-Z][A-Za-zà-öø-ÿ]{1,20}){0,3}"
)
_EPONYM: Final = re.compile(
    rf"(?<![\w@.'’-])(?<!M[rs] )(?<!Mrs )(?<!Dr )(?<!(?:Mr|Ms|Dr)\. )(?<!Mrs\. ){_GIVEN}(( {_GIVEN}){{1,3}}|(?:(?:,"
    rf"|,? (?:and|or|&)) {_GIVEN}){{0,2}})(?:['’]s?)?"
    rf"(?: (?:first|second|third|little|last)(?= (?:laws?|theorems?)(?!\w))"
    rf"| [a-z]{{3,12}}-[a-z]{{3,12}})? ({'|'.join(sorted(_NOUNS))})(?!\w)"
)
"""A thing with the name of a person: "the Wilcoxon signed-rank test", "Fick's second law"."""


_COPYRIGHT: Final = re.compile(
    r"(?:copyright|©)(?: ?(?:\(c\)|©))?[ :]{1,2}((?:19|20)[0-9]{2}(?:[-–, ]{1,3}(?:(?:19|20)[0-9]{2}|present"
    r"|now)){0,4}(?!\w)"
    r"(?:,?(?: by)? (?:the )?[\w.&-]{2,24}(?:,?[ ][\w.&-]{2,24}){0,7}?[ ](?:teams?|authors|contributors|developers"
    r"|foundation|project)"
    r"(?!\w))?)",
    re.I,
)
"""The years of copyright, and who holds it if that is a group."""

_RELEASED: Final = re.compile(
    r"^[#=* ]{0,5}(?:version |release |v)?\[?v?[0-9]{1,4}\.[0-9]{1,4}(?:\.\w{1,8}){0,3}\]?[ ]{0,2}(?:[-–—:(]"
    r"|released)[ (]{0,2}"
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}|[A-Z][a-z]{2,8}\.? [0-9]{1,2}(?:st|nd|rd|th)?,? [0-9]{4}"
    r"|[0-9]{1,2} [A-Z][a-z]{2,8} [0-9]{4})",
    re.M,
)
"""The day of a version in a list of changes."""

_WORD: Final = re.compile(r"[^\W\d_]+")
_OF_GOODS: Final = ("ean", "gtin", "upc", "isbn", "barcode")


def published(text: str, lower: str) -> Iterator[tuple[int, int]]:
    """Yields numbers of goods with the check digit of GS1 after their name, years of copyright, and days of versions.

    Args:
        text: text to read.
        lower: the same in small letters.
    """
    for match in _GOODS.finditer(text) if any(word in lower for word in _OF_GOODS) else ():
        if _is_checked(match[1].replace("-", "")):
            yield match.span()
    for match in _COPYRIGHT.finditer(text) if "copyright" in lower or "©" in text else ():
        if not any(map(names_somebody, _WORD.findall(match[1]))):
            yield match.span(1)
    yield from (match.span(1) for match in _RELEASED.finditer(text))


def _is_checked(digits: str) -> bool:
    """Computes the check of numbers of goods (GS1, ISO 15420)."""
    return (sum(map(int, digits[-2::-2])) * 3 + sum(map(int, digits[-1::-2]))) % 10 == 0


def set_phrases(text: str) -> Iterator[tuple[int, int]]:
    """Yields ends of letters in other languages, when a drug is taken, and things with the name of a person."""
    runs = runs_of(text)
    if not _CLOSES.isdisjoint(runs):
        yield from (match.span() for match in _CLOSING.finditer(text))
    if ("-" in text or " q" in text or " x" in text) and _AMOUNT.search(text):
        yield from (match.span() for match in _REGIMEN.finditer(text))
    if not _NOUNS.isdisjoint(runs):
        is_personal = facts_of(text).is_personal
        for match in _EPONYM.finditer(text):
            if is_personal and (match[3] in _OF_METHODS or (match[1] and match[2] is None)):
                continue
            is_full_name = match[2] is not None and has_name(match[0].lower().split())  # "Mary Jones number"
            yield match.start(2) if is_full_name else match.start(), match.end()


def entries(text: str) -> Iterator[tuple[int, int]]:
    """Yields numbers of articles and of public lists, and times of messages.

    If there is the number of an article, a number with the check digit of goods is one, too.
    """
    found = [match.span() for match in _PART.finditer(text)]
    yield from found
    for match in _TRADED.finditer(text) if found else ():
        if _is_checked(match[0]):
            yield match.span()
    yield from (match.span() for match in _LISTED.finditer(text))
    if ":" in text:
        yield from (match.span() for match in _STAMPED.finditer(text))
