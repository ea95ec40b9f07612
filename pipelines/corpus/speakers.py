"""Tags of speakers: a role stays as it is, and any other name becomes ``SPEAKER_n`` in every table but one.

The private table ``speakers`` keeps the names, so that the policy ``speakers`` can mask them in the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pipelines.tables import Table

ROLE: Final = re.compile(
    r"(?:SYS|SYSTEM|USR|USER|ACT|ACTION|AGENT|ASSISTANT|BOT|ROBOT|HUMAN|CUSTOMER|CLIENT|CALLER|OPERATOR|ADVISOR"
    r"|SUPPORT|STAFF|PERSONA|PARTNER_PERSONA|PARTNER|SELF|DOCTOR|NURSE|PATIENT|TEACHER|STUDENT|HOST|GUEST|INTERVIEWER"
    r"|PARTICIPANT|SPEAKER|Q|A)(?:[ _]?[0-9]{1,2})?",
    re.IGNORECASE,
)

MADE: Final = re.compile(r"SPEAKER_[0-9]+")
"""A tag of `Tags`. No speaker of a corpus has such a name in a table of sentences, except as a role."""

TAG: Final = re.compile(r"([A-Z][A-Za-z0-9_ ]{0,15}):(?=\s|$)")
"""The tag of a speaker at the start of a line."""

_OTHER_TAG: Final = re.compile(r"^[ \t]*([^\W\d_][^\s:]{0,31}(?: [^\s:]{1,31}){0,2}):(?=\s|$)", re.MULTILINE)


def is_name(speaker: str | None) -> bool:
    """Returns true if a speaker is named by something else than a role."""
    return speaker is not None and ROLE.fullmatch(speaker) is None


def other_names(text: str) -> Iterator[str]:
    """Yields names that begin at least two lines of a dialogue, but are not in the form of a tag (``José: hola``)."""
    counts = Counter(match[1] for match in _OTHER_TAG.finditer(text))
    yield from (name for name, number in counts.items() if number > 1 and is_name(name) and not TAG.match(f"{name}:"))


class Tags:
    """Gives each speaker of a document a tag: a role stays, any other name becomes ``SPEAKER_1``, ``SPEAKER_2`` …"""

    def __init__(self) -> None:
        self._others: dict[str, str] = {}

    def of(self, name: str | None) -> str | None:
        """Returns the tag of a name, or None without a name."""
        if name is None or not is_name(name):
            return name
        return self._others.setdefault(name, f"SPEAKER_{len(self._others) + 1}")

    def names(self) -> Iterator[tuple[str, str]]:
        """Yields each tag that replaces a name, with the name."""
        for name, tag in self._others.items():
            yield tag, name


def names_by_document(speakers: Table) -> dict[str, tuple[str, ...]]:
    """Reads the table ``speakers`` of one partition, and returns the names of each document that has any."""
    found: dict[str, list[str]] = {}
    for batch in speakers.batches(("doc_id", "name")):
        for doc_id, name in zip(batch.column("doc_id").to_pylist(), batch.column("name").to_pylist(), strict=True):
            found.setdefault(doc_id, []).append(name)
    return {doc_id: tuple(names) for doc_id, names in found.items()}
