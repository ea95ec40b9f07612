"""Keeps the lines of a mail's text that its writer wrote: no quotes, no signature, and no breaks that fit a width."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_QUOTED = re.compile(r"\s{0,3}>")
_ATTRIBUTION = re.compile(
    r"(?:On|Am|Le|El|Il|Op|Em|Den|W dniu)\b.{4,300}(?:wrote|schrieb.{0,80}|a écrit|escribió|ha scritto|schreef.{0,80}"
    r"|escreveu|skrev.{0,80}|napisał\S*)\s*:",
    re.IGNORECASE,
)
_ORIGINAL = re.compile(
    r"\s*-{2,}\s*(?:Original Message|Original Appointment|Ursprüngliche Nachricht|Message d'origine|Mensaje original"
    r"|Messaggio originale|Oorspronkelijk bericht)\s*-{2,}\s*",
    re.IGNORECASE,
)
_REPLY_HEADER = re.compile(r"(?:From|Von|De|Da|Van)\s*:\s*\S", re.IGNORECASE)
_SENT_HEADER = re.compile(r"(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado|Inviato|Verzonden)\s*:\s*\S", re.IGNORECASE)
_SIGNATURE = re.compile(r"-- ?")
_SENT_FROM = re.compile(r"(?:Sent from my|Get Outlook for|Von meinem|Envoyé de mon|Enviado desde mi)\b.{0,80}")
_ITEM = re.compile(r"\s|[-*•–+>]|\(?[0-9a-zA-Z][.)]\s|[-_=*]{3,}")
_WRAPPED_CHARS = 55
"""Least length of a line in a paragraph that was broken to fit about 72 columns."""

_ARMOUR = re.compile(r"-----BEGIN PGP (MESSAGE|SIGNED MESSAGE|SIGNATURE|PUBLIC KEY BLOCK)-----\s*")
_ARMOUR_END = re.compile(r"-----END PGP [A-Z ]+-----\s*")
_ARMOURS = {"MESSAGE": "encrypted part", "SIGNATURE": "signature (PGP)", "PUBLIC KEY BLOCK": "key (PGP)"}


class PageLine(str):
    """A line of a page in HTML, which its writer ended there."""

    __slots__ = ()


def lines_of(text: str) -> list[str]:
    """Splits a text into lines. Other controls of pages and lines become spaces."""
    return [line.rstrip("\r") for line in text.replace("\x0b", " ").replace("\x0c", " ").split("\n")]


def unflowed(text: str, *, keeps_blank: bool, joins_quotes: bool) -> str:
    """Joins lines that ``format=flowed`` broke (RFC 3676), except a signature's mark.

    Args:
        text: text of the part
        keeps_blank: false for ``DelSp=yes``, where the space that marks a break is no part of the text
        joins_quotes: true to join quoted lines of the same depth too
    """
    joined: list[str] = []
    depth = 0
    flows = False
    for whole in text.split("\n"):
        line = whole.removesuffix("\r")
        marks = len(line) - len(line.lstrip(">"))
        words = line[marks:]
        words = words[1:] if words.startswith(" ") else words
        if not joins_quotes and (marks or words.startswith(">")):
            joined.append(line if marks else words)
            flows = False
            continue
        if flows and marks == depth and words != "-- ":
            joined[-1] += words
        else:
            joined.append(f"{'>' * marks} {words}" if marks else words)
        depth = marks
        flows = words.endswith(" ") and words != "-- "
        if flows and not keeps_blank:
            joined[-1] = joined[-1][:-1]
    return "\n".join(joined)


def without_armour(lines: Sequence[str], left_out: Counter[str]) -> list[str]:
    """Removes the marks of a text that PGP signed, its signature, encrypted texts and keys."""
    kept: list[str] = []
    kind = ""
    for line in lines:
        if begin := _ARMOUR.fullmatch(line):
            kind = begin[1]
            if kind in _ARMOURS:
                left_out[_ARMOURS[kind]] += 1
        elif kind == "SIGNED MESSAGE":  # its headers end with a blank line, and its text starts
            kind = "" if not line.strip() else kind
        elif kind:
            kind = "" if _ARMOUR_END.fullmatch(line) else kind
        else:
            kept.append(line)
    return kept


def without_quotes(lines: Sequence[str], left_out: Counter[str]) -> list[str]:
    """Removes the lines of other mails: lines after ``>``, their attribution, and everything below an original."""
    end = next((i for i, _ in enumerate(lines) if _begins_original(lines, i)), len(lines))
    kept: list[str] = []
    for line in lines[:end]:
        if _QUOTED.match(line):
            _drop_attribution(kept)
        else:
            kept.append(line)
    left_out["quoted line"] += sum(bool(line.strip()) for line in lines) - sum(bool(line.strip()) for line in kept)
    return kept


def _begins_original(lines: Sequence[str], at: int) -> bool:
    if _ORIGINAL.fullmatch(lines[at]):
        return True
    # Outlook's header above the answered mail has no word Original, so its lines identify it.
    return bool(_REPLY_HEADER.match(lines[at])) and any(_SENT_HEADER.match(line) for line in lines[at + 1 : at + 3])


def _drop_attribution(kept: list[str]) -> None:
    """Removes a final "On … wrote:", on one line or two, which names the person whom the mail answers."""
    last = len(kept)
    while last and not kept[last - 1].strip():
        last -= 1
    for first in (last - 1, last - 2):
        if first >= 0 and _ATTRIBUTION.fullmatch(" ".join(line.strip() for line in kept[first:last])):
            del kept[first:]
            return


def without_signature(lines: Sequence[str], left_out: Counter[str]) -> list[str]:
    """Returns the lines above the last mark of a signature (RFC 3676), without a final "Sent from my phone"."""
    marks = [i for i, line in enumerate(lines) if _SIGNATURE.fullmatch(line)]
    kept = list(lines[: marks[-1]] if marks else lines)
    while kept and (not kept[-1].strip() or _SENT_FROM.fullmatch(kept[-1].strip())):
        kept.pop()
    left_out["signature line"] += sum(bool(line.strip()) for line in lines) - sum(bool(line.strip()) for line in kept)
    return kept


def unwrapped(lines: Sequence[str]) -> list[str]:
    """Joins the lines of a paragraph that was broken to fit a width, because a line break ends a sentence."""
    joined: list[str] = []
    before = ""
    for line in lines:
        is_wrapped = len(before) >= _WRAPPED_CHARS and not isinstance(before, PageLine)
        if is_wrapped and line.strip() and not _ITEM.match(line) and not before.endswith(":"):
            joined[-1] = f"{joined[-1].rstrip()} {line}"
        else:
            joined.append(line)
        before = line
    return joined
