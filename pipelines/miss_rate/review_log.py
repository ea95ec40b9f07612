"""What reviewers decided: an append-only log in the private root, one JSON line a decision.

A sentence is named by an HMAC of its text under the store's secret, so the log quotes nothing and one decision serves
every copy of a sentence. It keeps which characters are *sensitive*, never which were masked, and so outlives a change
of policy; only what a reviewer took on trust because it was masked, and a new policy leaves open, is asked again.

A line counts once it ends in a newline and was flushed to the disk. What a crash left of the last line was never
confirmed to anybody: readers ignore it, and the next writer removes it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pipelines.context import pseudonym
from pipelines.errors import DamagedFileError, StoreError
from pipelines.files import append_lines, open_to_read, remove_lines

Kind = Literal["judge", "skip", "undo"]
Role = Literal["reviewer", "adjudicator"]
Range = tuple[int, int]
_VERSION: Final = 1
_KINDS: Final = ("judge", "skip", "undo")
_ROLES: Final = ("reviewer", "adjudicator")


class Secret(NamedTuple):
    """A sensitive run of characters, half-open, and what it is."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One act of one reviewer on one sentence.

    Attributes:
        id: unique; the same id twice is one decision (a retry after a lost answer).
        at: when, ISO 8601 in UTC.
        reviewer: who.
        role: an adjudicator's word is final where reviewers disagree.
        key: HMAC of the sentence's text.
        kind: judged, put off, or taken back (``undoes`` names the decision).
        secrets: everything sensitive in the sentence, masked or not.
        wrong: character ranges that were masked and are not sensitive.
        trusted: the secrets among ``secrets`` that are there only because a policy masked them and nobody objected.
        undoes: id of the decision that is taken back.
    """

    id: str
    at: str
    reviewer: str
    key: str
    kind: Kind = "judge"
    role: Role = "reviewer"
    secrets: tuple[Secret, ...] = ()
    wrong: tuple[Range, ...] = ()
    trusted: tuple[Range, ...] = ()
    undoes: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As one line of the log."""
        return {
            "v": _VERSION,
            "id": self.id,
            "at": self.at,
            "reviewer": self.reviewer,
            "role": self.role,
            "key": self.key,
            "kind": self.kind,
            "secrets": [list(secret) for secret in self.secrets],
            "wrong": [list(pair) for pair in self.wrong],
            "trusted": [list(pair) for pair in self.trusted],
            "undoes": self.undoes,
        }

    @classmethod
    def from_json(cls, document: Any) -> Decision:
        """The inverse of `to_json`.

        Raises:
            ValueError: it is no decision of this version.
        """
        if not isinstance(document, dict) or document.get("v") != _VERSION:
            raise ValueError("no decision of this version")
        texts = {name: document.get(name) for name in ("id", "at", "reviewer", "key")}
        if not all(isinstance(text, str) and text for text in texts.values()):
            raise ValueError("id, at, reviewer and key must be texts")
        kind, role, undoes = document.get("kind"), document.get("role"), document.get("undoes")
        if kind not in _KINDS or role not in _ROLES or not isinstance(undoes, str | None):
            raise ValueError("unknown kind or role")
        secrets = tuple(Secret(*_range(row[:2]), _label(row[2])) for row in _rows(document, "secrets", 3))
        return cls(
            id=str(texts["id"]),
            at=str(texts["at"]),
            reviewer=str(texts["reviewer"]),
            key=str(texts["key"]),
            kind=kind,
            role=role,
            secrets=secrets,
            wrong=tuple(_range(row) for row in _rows(document, "wrong", 2)),
            trusted=tuple(_range(row) for row in _rows(document, "trusted", 2)),
            undoes=undoes,
        )


def _rows(document: Mapping[str, Any], name: str, width: int) -> list[list[Any]]:
    rows = document.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == width for row in rows):
        raise ValueError(f"{name} must be a list of lists of {width}")
    return rows


def _range(pair: list[Any]) -> Range:
    start, end = pair
    if type(start) is not int or type(end) is not int or not 0 <= start < end:
        raise ValueError("a range must be two whole numbers, the second one larger")
    return start, end


def _label(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 64:
        raise ValueError("a label must be a text of 1 to 64 characters")
    return value


def sentence_key(secret: bytes, text: str) -> str:
    """What the log calls a sentence: it cannot be guessed from the text without the store's secret."""
    return pseudonym(secret, "review", text)


def read_decisions(path: Path, num_bytes: int | None = None) -> list[Decision]:
    """The decisions in the log, oldest first.

    Args:
        path: of the log; a missing one is empty.
        num_bytes: read only so much of it: the log as it was when it had that length.

    Raises:
        StoreError: a whole line is damaged, or all of a sealed log. Its number is told, its content is not.
    """
    try:
        with open_to_read(path) as file:
            data = file.read() if num_bytes is None else file.read(num_bytes)
    except FileNotFoundError:
        return []
    except DamagedFileError:
        raise StoreError(f"{path} is damaged; restore it from a backup") from None
    found: dict[str, Decision] = {}
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):  # what follows the last newline is no line
        if not line.strip():
            continue
        try:
            decision = Decision.from_json(json.loads(line))
        except ValueError:
            raise StoreError(
                f"line {number} of {path} is damaged; the other lines are whole, so move that one out of the file"
            ) from None
        found.setdefault(decision.id, decision)
    return list(found.values())


def remove_decisions(path: Path, keys: Collection[str]) -> int:
    """Takes every decision on some sentences out of the log, those that were undone too; gives how many.

    Args:
        path: of the log.
        keys: `sentence_key` of the sentences.
    """

    def is_removed(line: bytes) -> bool:
        try:
            document = json.loads(line)
        except ValueError:
            return False
        return isinstance(document, dict) and document.get("key") in keys

    return remove_lines(path, is_removed)


class DecisionLog:
    """Appends decisions; several processes may do so at once.

    Args:
        path: of the log; made, readable by its owner only, with the first decision.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def append(self, decisions: Iterable[Decision]) -> None:
        """Adds decisions, which are on the disk when this returns.

        Raises:
            StoreError: the disk did not take them; nothing that was confirmed before is lost.
        """
        lines = b"".join(
            json.dumps(d.to_json(), ensure_ascii=False, sort_keys=True).encode() + b"\n" for d in decisions
        )
        if not lines:
            return
        try:
            with self._lock:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                append_lines(self.path, lines)
        except DamagedFileError:
            raise StoreError(f"{self.path} is damaged; restore it from a backup") from None
        except OSError as error:
            raise StoreError(
                f"the decision could not be saved ({error.strerror}); free space or fix permissions, and try again"
            ) from None


@dataclass(frozen=True)
class Judgement:
    """What holds for one sentence, all decisions taken together.

    Attributes:
        secrets, trusted: see `Decision`.
        is_disputed: reviewers disagree on what is sensitive and nobody has adjudicated. Until then everything counts
            as sensitive that any of them marked, so that no rate looks better than the stricter reviewer says.
    """

    secrets: tuple[Secret, ...]
    trusted: tuple[Range, ...]
    is_disputed: bool


class Ballot:
    """The decisions on one sentence that still stand: the last one of each reviewer."""

    def __init__(self) -> None:
        self.by_reviewer: dict[str, Decision] = {}
        self.adjudicated: Decision | None = None

    def add(self, decision: Decision) -> None:
        """Takes the next decision into account."""
        if decision.role == "adjudicator":
            self.adjudicated = decision
        else:
            self.by_reviewer[decision.reviewer] = decision

    @property
    def judged(self) -> list[Decision]:
        """Of reviewers, in the order of their names; without those who put it off."""
        return [d for _, d in sorted(self.by_reviewer.items()) if d.kind == "judge"]

    @property
    def is_disputed(self) -> bool:
        """Whether reviewers see different characters as sensitive and no adjudicator has decided."""
        if self.adjudicated is not None and self.adjudicated.kind == "judge":
            return False
        return len({frozenset(covered(d.secrets)) for d in self.judged}) > 1

    def judgement(self) -> Judgement | None:
        """What holds; None where nobody has judged."""
        judged = self.judged
        if self.adjudicated is not None and self.adjudicated.kind == "judge":
            final = self.adjudicated
            return Judgement(final.secrets, final.trusted, False)
        if not judged:
            return None
        if not self.is_disputed:
            # Where one reviewer looked closely and the other trusted the mask, somebody has looked.
            trusted = set(judged[0].trusted).intersection(*(d.trusted for d in judged[1:]))
            return Judgement(judged[0].secrets, tuple(sorted(trusted)), False)
        secrets: list[Secret] = []
        for decision in judged:
            taken = covered(secrets)
            secrets += [s for s in decision.secrets if not taken.issuperset(range(s.start, s.end))]
        trusted = {pair for d in judged for pair in d.trusted}
        return Judgement(tuple(sorted(secrets)), tuple(sorted(trusted)), True)


def covered(ranges: Iterable[tuple[Any, ...]]) -> set[int]:
    """The characters in any of the ranges."""
    return {position for found in ranges for position in range(found[0], found[1])}


def ballots_of(decisions: Iterable[Decision]) -> dict[str, Ballot]:
    """The decisions in force of every sentence, by key; what was undone never was."""
    listed = list(decisions)
    undone = {d.undoes for d in listed if d.kind == "undo"}
    found: dict[str, Ballot] = {}
    for decision in listed:
        if decision.kind != "undo" and decision.id not in undone:
            found.setdefault(decision.key, Ballot()).add(decision)
    return found


def asks_again(judgement: Judgement, open_ranges: Iterable[Range]) -> list[Range]:
    """What nobody has looked at: taken on trust because it was masked, and left open by the policies of today.

    Args:
        judgement: of the sentence.
        open_ranges: characters of the tokens that are not masked now.
    """
    trusted = covered(judgement.trusted)
    return [pair for pair in open_ranges if trusted.intersection(range(*pair))]
