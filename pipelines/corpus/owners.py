"""The owner of a document: the person whose text it is.

Ids of people are secrets. An id is normalised and becomes an HMAC under the store's secret, which the private table
``documents`` keeps. No other table, message, log or key holds it. Version 1 takes one owner for each document.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from pipelines.context import pseudonym
from pipelines.corpus.items import BadRow, Document
from pipelines.corpus.options import OwnerFrom
from pipelines.errors import InputError

OwnerMissing = Literal["stop", "drop", "own"]

NO_OWNER: Final = "no_owner"
SEVERAL: Final = "several_owners"
LEFT_OUT: Final[Mapping[str, str]] = {NO_OWNER: "document without an owner", SEVERAL: "document of several owners"}
"""Kinds under which documents are counted that ``corpus.owner_missing = "drop"`` leaves out, by reason."""
_WHOLE: Final = re.compile(r"(-?[0-9]+)\.0+\Z", re.ASCII)
"""A whole number as programs write it whose column has empty cells."""
_HOW: Final[Mapping[str, str]] = {
    "field": "the field corpus.owner_field is missing or empty",
    "folder": "the file lies in no folder below the input",
    "sender": "it names no sender, or only roles such as USER",
}
_ADVICE: Final = (
    'Correct the row, or set corpus.owner_missing: "drop" leaves such documents out, "own" takes each for a person.'
)


def normalised(owner: str) -> str:
    """Returns an id in the form that is compared: NFKC, lower case, single spaces, ``7`` for ``7.0``.

    So one person is rarely two. Two people whose ids differ only in this become one, which weakens no guarantee.
    """
    return _WHOLE.sub(r"\1", " ".join(unicodedata.normalize("NFKC", owner).casefold().split()))


def owner_of(document: Document, owner_from: OwnerFrom, speakers: Iterable[str]) -> str | None:
    """Returns the normalised id of a document's owner, which is a secret; None if the document is its own owner.

    Args:
        document: document.
        owner_from: setting ``corpus.owner_from``, other than "none".
        speakers: names of its speakers that are no roles, which are only read if the format tells no sender.

    Raises:
        BadRow: the document has no owner, or several.
    """
    if owner_from == "document":
        return None
    if owner_from == "file":
        found: Iterable[str] = [document.name]
    elif owner_from == "folder":
        found = document.name.split("/")[:-1][:1]
    elif owner_from == "field" or document.owners is not None:
        found = document.owners or ()
    else:
        found = speakers
    ids = {name for name in map(normalised, found) if name}
    if len(ids) > 1:
        raise BadRow(
            SEVERAL,
            "several people speak in it, and a document has one owner. Name the customer by corpus.owner_field with "
            'corpus.owner_from = "field", or leave such documents out with corpus.owner_missing = "drop".',
        )
    if not ids:
        raise BadRow(NO_OWNER, f"{_HOW.get(owner_from, 'it has no owner')}. {_ADVICE}")
    return ids.pop()


def owner_pseudonym(secret: bytes, space: str, owner: str) -> str:
    """Returns the HMAC of an owner's normalised id.

    Args:
        secret: secret of the store.
        space: public name of the set of people (``corpus.owner_space``).
        owner: id; the pseudonym of the document if it is its own owner.
    """
    return pseudonym(secret, "owner", space, owner)


def check_owners(figures: Iterable[Mapping[str, Any]], missing: OwnerMissing) -> None:
    """Refuses a corpus with documents that have no owner, unless the settings say what becomes of them.

    Raises:
        InputError: a document has no owner, or several. The message names counts.
    """
    reasons: dict[str, int] = dict.fromkeys(LEFT_OUT, 0)
    for part in figures:
        for reason in reasons:
            reasons[reason] += part["rejected_by_reason"].get(reason, 0)
    if missing == "drop" or not any(reasons.values()):
        return
    counted = " and ".join(
        f"{number} document{'' if number == 1 else 's'} {'has' if number == 1 else 'have'} {what}"
        for number, what in ((reasons[NO_OWNER], "no owner"), (reasons[SEVERAL], "several owners"))
        if number
    )
    raise InputError(
        f'{counted} (corpus.owner_from), and corpus.owner_missing = "{missing}" allows none. rejected.parquet of the '
        "split stage lists each with its file, row and what to do."
    )


def check_folds(owners: Iterable[tuple[str, str]]) -> None:
    """Refuses a corpus whose own folds divide the text of one person, who would be half public.

    Raises:
        InputError: an owner has documents in several folds. The message names counts.
    """
    folds: dict[str, str] = {}
    several: set[str] = set()
    for owner, fold in owners:
        if folds.setdefault(owner, fold) != fold:
            several.add(owner)
    if several:
        number = f"{len(several)} of {len(folds)} owners {'has' if len(several) == 1 else 'have'}"
        raise InputError(
            f"{number} documents in several folds, because the corpus brings its own folds: these people would be half "
            "public. Put all documents of an owner into one fold, or let the folds be drawn by owner: remove the field "
            'corpus.fold_field (or set it to "-"), and set corpus.name_folds = "never".'
        )
