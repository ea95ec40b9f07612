"""Surrogates: realistic replacements of masked text, which the trusted side can reverse.

An HMAC under a key selects a surrogate. Its input is the secret, its label and, if the surrogate is consistent only
within a document, the document. The generator gets the label and the HMAC's bytes and nothing else. So a surrogate
shows neither the length of the secret nor its letters, digits or language. Mail addresses, hosts and phone numbers are
reserved ones that belong to nobody (RFC 2606, RFC 5737, 555-01xx). First names are in use for all genders.

A surrogate reveals two things by design: the mentions of one secret, and its label. A masked secret is then not the
same text in the neighbouring worlds of the claims, so redaction gives no credit for text with surrogates.

The text of a row depends on this row, the key and the document's name, and on no other row. One changed sentence
changes one record. So a surrogate may also occur elsewhere, as a surrogate or as a person's name.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pipelines.mask import MASK
from pipelines.policies import labels
from pipelines.policies.labels import ReviewLabels
from pipelines.policies.protocol import Span
from pipelines.policies.redact import masked_runs, replace_ranges, token_mask


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_FIRST: Final = _words(
    "Alex Avery Bailey Blake Cameron Casey Charlie Dakota Drew Eden Elliot Emerson Finley Frankie Harley Harper "
    "Hayden Jamie Jesse Jordan Jules Kai Kendall Lee Logan Lou Marley Max Morgan Noel Parker Pat Peyton Phoenix "
    "Quinn Reese Remy Riley River Robin Rory Rowan Sage Sam Sasha Shay Sidney Skyler Taylor Toby"
)
"""First names in use for all genders."""
_LAST: Final = _words(
    "Abbot Ashford Barlow Bexley Brennick Calloway Carrow Cavendale Colby Corwin Dalloway Denholm Draycott Ellery "
    "Fairley Farrow Garrick Halden Harrowby Hartwell Holloway Ingram Kestrel Langley Larkin Lindholm Lockwood "
    "Lorimer Marlow Merrick Norwood Oakes Pemberly Penrose Quillon Radley Ravenhill Rookwood Sedgewick Selwyn "
    "Sinclair Stanhope Thornbury Tolliver Underhill Vance Wexley Whitlock Winslow Yardley"
)
_PLACES: Final = _words(
    "Ashbrook Brightwater Cedarholm Claymoor Dunmere Eastvale Elmstead Fairmoor Glenhaven Greywick Hazelford "
    "Highmere Kingsbarrow Lakemont Larchfield Millbrook Northam Oakhollow Pinecrest Redcliff Riverton Rosedale "
    "Silverton Stonegate Thornfield Westmarch Whitecombe Willowby Winterbourne Wolverley"
)
_MONTHS: Final = _words("January February March April May June July August September October November December")
_LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_ALPHABET: Final = _LETTERS + _LETTERS.lower() + "23456789"
ATTEMPTS: Final = 64
_UNNAMED: Final = frozenset({"FAILED_CLOSED", "LITERAL_MASK"})
"""Labels of text in which no policy found a secret. Such text stays a mask."""


class Draws:
    """An endless sequence of numbers from the HMAC's bytes.

    Args:
        digest: HMAC of the secret.
    """

    def __init__(self, digest: bytes) -> None:
        self._digest, self._number = digest, 0

    def below(self, limit: int) -> int:
        """Returns a number from 0 to ``limit`` - 1. Its bias is below 2^-50."""
        self._number += 1
        block = hashlib.sha256(self._digest + self._number.to_bytes(4, "big")).digest()
        return int.from_bytes(block[:8], "big") % limit

    def one(self, among: Sequence[str]) -> str:
        """Draws one of several strings."""
        return among[self.below(len(among))]

    def some(self, alphabet: str, number: int) -> str:
        """Draws a number of characters."""
        return "".join(self.one(alphabet) for _ in range(number))


Maker = Callable[[Draws], str]


def _digits(draws: Draws, number: int) -> str:
    return draws.some("0123456789", number)


def _mail(draws: Draws) -> str:
    return f"{draws.one(_FIRST)}.{draws.one(_LAST)}{_digits(draws, 3)}@example.com".lower()


BY_LABEL: Final[Mapping[str, Maker]] = {
    **dict.fromkeys(("EMAIL", "EMAIL_ADDRESS"), _mail),
    **dict.fromkeys(("PHONE", "PHONE_NUMBER"), lambda d: f"({200 + d.below(800)}) 555-01{_digits(d, 2)}"),
    "URL": lambda d: f"https://www.example.com/{d.some(_LETTERS.lower(), 8)}",
    "IP_ADDRESS": lambda d: f"{d.one(('192.0.2', '198.51.100', '203.0.113'))}.{1 + d.below(254)}",
    **dict.fromkeys(("USERNAME", "USER_NAME", "HANDLE"), lambda d: f"{d.one(_FIRST).lower()}_{_digits(d, 5)}"),
    "ADDRESS": lambda d: f"{1 + d.below(998)} {d.one(_LAST)} Street, {d.one(_PLACES)}",
}
"""Makers by the policy's own label, if that is more specific than the label of reviews."""

_BY_REVIEW_LABEL: Final[Mapping[str, Maker]] = {
    labels.PERSON: lambda d: f"{d.one(_FIRST)} {d.one(_LAST)}",
    labels.CREDENTIAL: lambda d: d.some(_ALPHABET, 14),
    labels.CONTACT: _mail,
    labels.ID: lambda d: f"{d.some(_LETTERS, 2)}-{_digits(d, 8)}",
    labels.LOCATION: lambda d: f"{d.one(_PLACES)}",
    labels.ORGANISATION: lambda d: f"{d.one(_LAST)} and {d.one(_LAST)} Ltd",
    labels.DATE: lambda d: f"{1 + d.below(28)} {d.one(_MONTHS)} {1950 + d.below(80)}",
    labels.NUMBER: lambda d: f"{1 + d.below(9)}{_digits(d, 5)}",
    labels.OTHER: lambda d: f"item {d.some(_LETTERS, 3)}{_digits(d, 4)}",
}


Replace = Callable[[Mapping[str, Any], Sequence[Span]], str]
"""A function that returns the redacted text of a row of the sentences table, given its spans."""


class Replaced(NamedTuple):
    """A surrogate and the text that it replaces."""

    surrogate: str
    original: str
    label: str


def review_label_of(spans: Iterable[Span], names: ReviewLabels) -> tuple[str, str]:
    """Returns the label of reviews of a masked run, and the policy's label that it comes from."""
    mapped = [(names.of(span.label, span.policy), span.label) for span in spans]
    first = names.first((span.label, span.policy) for span in spans)
    return first, min((own for label, own in mapped if label == first), default=first)


def typed_text(
    text: str, starts: Sequence[int], ends: Sequence[int], spans: Sequence[Span], names: ReviewLabels
) -> str:
    """Returns the text with ``<LABEL>`` of reviews for every masked run, and ``<MASK>`` for a run without a label."""
    pieces = [
        (start, end, MASK if is_unnamed else f"<{review_label_of(inside, names)[0]}>")
        for start, end, inside, is_unnamed in runs_of(text, starts, ends, spans)
    ]
    return replace_ranges(text, pieces)


class Surrogates:
    """Writes surrogates for masked text.

    Args:
        key: secret key. Whoever has it can check a guess of a secret.
        names: labels of reviews.
        consistent: ``document`` if a secret has one surrogate per document. ``corpus`` if it has one in the whole
            corpus, so that its mentions can be linked across documents.
    """

    def __init__(self, key: bytes, names: ReviewLabels, consistent: str = "document") -> None:
        if len(key) < 16:
            raise ValueError("a key has at least 16 bytes")
        self._key, self._names, self._consistent = key, names, consistent

    def text(
        self, document: str, text: str, starts: Sequence[int], ends: Sequence[int], spans: Sequence[Span]
    ) -> tuple[str, list[Replaced]]:
        """Returns the text with surrogates, and the text that each one replaces.

        `restored` returns the original text, and this method checks that. If a surrogate also occurs in the text, or
        merges with its neighbours, it draws another one. Runs without a label stay masks. If no draw can be reversed,
        all runs stay masks.

        Args:
            document: name of the document. It is an input of the draw, unless surrogates are consistent in the corpus.
            text: original text.
            starts, ends: character offsets of its tokens.
            spans: spans that policies found.
        """
        runs = list(runs_of(text, starts, ends, spans))
        for attempt in range(ATTEMPTS):
            table: dict[str, Replaced] = {}
            pieces = []
            for start, end, inside, is_unnamed in runs:
                if is_unnamed:
                    pieces.append((start, end, MASK))
                    continue
                label, own = review_label_of(inside, self._names)
                original = text[start:end]
                surrogate = self._draw(document, label, own, original, attempt)
                pieces.append((start, end, surrogate))
                table[surrogate] = Replaced(surrogate, original, label)
            written = replace_ranges(text, pieces)
            wanted = replace_ranges(text, [piece for piece in pieces if piece[2] == MASK])
            if restored(written, table.values()) == wanted:
                return written, list(table.values())
        return replace_ranges(text, [(start, end, MASK) for start, end, *_ in runs]), []

    def _draw(self, document: str, label: str, own: str, original: str, attempt: int) -> str:
        scope = document if self._consistent == "document" else None
        message = json.dumps([scope, label, own if own in BY_LABEL else "", original, attempt])
        draws = Draws(hmac.digest(self._key, message.encode(), "sha256"))
        return make_surrogate(label, own, draws)


def make_surrogate(label: str, own: str, draws: Draws) -> str:
    """Makes a surrogate for a label of reviews, and of the policy, from the numbers of a draw."""
    return (BY_LABEL.get(own) or _BY_REVIEW_LABEL.get(label) or _BY_REVIEW_LABEL[labels.OTHER])(draws)


def restored(text: str, table: Iterable[Replaced], *, any_case: bool = False) -> str:
    """Returns the text with the original for every surrogate. If two begin at one place, the longer one counts.

    Args:
        text: text with surrogates. It may be edited, or written by a model.
        table: surrogates of the document.
        any_case: true if a surrogate counts in any case, as a whole word. Its original is written in that case if it
            is of letters alone. With false, only a surrogate of which the text has no exact copy counts in any case.
    """
    known = {row.surrogate: row.original for row in table}
    if not known:
        return text
    folded: dict[str, str] = {}
    for surrogate in sorted(known, key=lambda name: (not name.istitle(), name)):
        if any_case or surrogate not in text:
            folded.setdefault(surrogate.casefold(), known[surrogate])
    longest_first = sorted(known, key=lambda surrogate: (-len(surrogate), surrogate))

    def original(match: re.Match[str]) -> str:
        found = match[0]
        if found in known:
            return known[found]
        other = folded.get(found.casefold())
        return found if other is None else _in_case(other, found)

    if not any_case:
        text = re.sub("|".join(map(re.escape, longest_first)), lambda match: known[match[0]], text)
        longest_first = [name for name in longest_first if name.casefold() in folded]
        if not longest_first:
            return text
    return re.sub("|".join(map(_whole, longest_first)), original, text, flags=re.I)


def _whole(surrogate: str) -> str:
    before, after = ("(?<!\\w)" * surrogate[:1].isalnum(), "(?!\\w)" * surrogate[-1:].isalnum())
    return f"{before}{re.escape(surrogate)}{after}"


def _in_case(original: str, like: str) -> str:
    """Returns the original in the case of its surrogate. Codes and the like keep theirs."""
    if not all(char.isalpha() or char in " .'’,-" for char in original):
        return original
    if like.isupper():
        return original.upper()
    if like.islower():
        return original.lower()
    return original.title() if original.isupper() or original.islower() else original


def runs_of(
    text: str, starts: Sequence[int], ends: Sequence[int], spans: Sequence[Span]
) -> Iterable[tuple[int, int, list[Span], bool]]:
    """Yields masked runs: their characters, the spans in them, and true if no policy labelled them."""
    for first, last in masked_runs(text, starts, ends, token_mask(len(starts), spans)):
        inside = [span for span in spans if span.start_token < last and span.end_token > first]
        is_unnamed = any(span.label in _UNNAMED for span in inside)
        yield starts[first], ends[last - 1], inside, is_unnamed
