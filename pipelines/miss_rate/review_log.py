"""The log of reviewers' decisions: append-only, in the private root, one JSON line for each decision.

The name of a sentence is an HMAC of its text under the store's secret, so the log quotes no text, and one decision
serves every copy of a sentence. The log keeps which characters are *sensitive*, never which were masked, so it outlives
a change of policy. Only a mask that a reviewer trusted, and that a new policy does not set, is asked again.

A line counts once it ends in a newline and was flushed to the disk. A part of a line that a crash left was never
confirmed: readers ignore it, and the next writer removes it.
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
    """A sensitive half-open range of characters, with its label."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A decision of a reviewer on a sentence.

    Attributes:
        id: unique identifier; the same id twice is one decision (a retry after a lost answer).
        at: time, ISO 8601 in UTC.
        reviewer: name of the reviewer.
        role: role of the reviewer; an adjudicator's decision is final if reviewers disagree.
        key: HMAC of the sentence's text.
        kind: ``judge``, ``skip`` (postponed), or ``undo`` (``undoes`` names the decision).
        secrets: all secrets in the sentence, masked or not.
        wrong: character ranges that were masked and are not sensitive.
        trusted: secrets among ``secrets`` that are there only because a policy masked them and nobody objected.
        undoes: id of the undone decision.
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
        """Returns the decision as JSON values of one line of the log."""
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
        """Reads a decision written by `to_json`.

        Raises:
            ValueError: the document is not a decision of this version.
        """
        if not isinstance(document, dict) or document.get("v") != _VERSION:
            raise ValueError("no decision of this version")
        texts: dict[str, Any] = {name: document.get(name) for name in ("id", "at", "reviewer", "key")}
        if not all(isinstance(text, str) and text for text in texts.values()):
            raise ValueError("id, at, reviewer and key must be texts")
        kind, role, undoes = document.get("kind"), document.get("role"), document.get("undoes")
        if kind not in _KINDS or role not in _ROLES or not isinstance(undoes, str | None):
            raise ValueError("unknown kind or role")
        secrets = tuple(Secret(*_range(row[:2]), _label(row[2])) for row in _rows(document, "secrets", 3))
        return cls(
            **texts,
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
    """Returns the log's name of a sentence, which cannot be guessed from the text without the store's secret."""
    return pseudonym(secret, "review", text)


def read_decisions(path: Path, num_bytes: int | None = None) -> list[Decision]:
    """Reads the decisions in the log, oldest first.

    Args:
        path: path of the log; a missing log is empty.
        num_bytes: number of bytes to read: the log at the time when it had that length. None: all.

    Raises:
        StoreError: a whole line is damaged, or all of a sealed log. The message holds its number, not its content.
    """
    try:
        with open_to_read(path) as file:
            data = file.read() if num_bytes is None else file.read(num_bytes)
    except FileNotFoundError:
        return []
    except DamagedFileError:
        raise StoreError(f"{path} is damaged; restore it from a backup") from None
    found: dict[str, Decision] = {}
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):  # text after the last newline is not a line
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
    """Removes every decision on some sentences from the log, undone ones too. Returns their number."""

    def is_removed(line: bytes) -> bool:
        try:
            document = json.loads(line)
        except ValueError:
            return False
        return isinstance(document, dict) and document.get("key") in keys

    return remove_lines(path, is_removed)


class DecisionLog:
    """A writer that appends decisions. Several processes may write at once.

    Args:
        path: path of the log. The first decision creates it, readable by its owner only.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def append(self, decisions: Iterable[Decision]) -> None:
        """Adds decisions, which are on the disk when this function returns.

        Raises:
            StoreError: the decisions could not be written; no confirmed decision is lost.
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
    """The joint judgement of all decisions on one sentence.

    Attributes:
        secrets, trusted: see `Decision`.
        is_disputed: true if reviewers disagree on what is sensitive and nobody has adjudicated. Until then everything
            that any of them marked counts as sensitive, so that no rate looks better than the stricter reviewer says.
    """

    secrets: tuple[Secret, ...]
    trusted: tuple[Range, ...]
    is_disputed: bool


class Ballot:
    """The decisions in force on one sentence: the last one of each reviewer."""

    def __init__(self) -> None:
        self.by_reviewer: dict[str, Decision] = {}
        self.adjudicated: Decision | None = None

    def add(self, decision: Decision) -> None:
        """Adds the next decision."""
        if decision.role == "adjudicator":
            self.adjudicated = decision
        else:
            self.by_reviewer[decision.reviewer] = decision

    @property
    def judged(self) -> list[Decision]:
        """The judgements of reviewers, in the order of their names, without postponed ones."""
        return [d for _, d in sorted(self.by_reviewer.items()) if d.kind == "judge"]

    @property
    def is_disputed(self) -> bool:
        """True if reviewers see different characters as sensitive and no adjudicator has decided."""
        if self.adjudicated is not None and self.adjudicated.kind == "judge":
            return False
        return len({frozenset(covered(d.secrets)) for d in self.judged}) > 1

    def judgement(self) -> Judgement | None:
        """Returns the joint judgement; None if nobody has judged."""
        judged = self.judged
        if self.adjudicated is not None and self.adjudicated.kind == "judge":
            final = self.adjudicated
            return Judgement(final.secrets, final.trusted, False)
        if not judged:
            return None
        if not self.is_disputed:
            # If one reviewer looked closely and the other trusted the mask, somebody has looked.
            trusted = set(judged[0].trusted).intersection(*(d.trusted for d in judged[1:]))
            return Judgement(judged[0].secrets, tuple(sorted(trusted)), False)
        secrets: list[Secret] = []
        for decision in judged:
            taken = covered(secrets)
            secrets += [s for s in decision.secrets if not taken.issuperset(range(s.start, s.end))]
        trusted = {pair for d in judged for pair in d.trusted}
        return Judgement(tuple(sorted(secrets)), tuple(sorted(trusted)), True)


def covered(ranges: Iterable[tuple[Any, ...]]) -> set[int]:
    """Returns the characters in any of the ranges."""
    return {position for found in ranges for position in range(found[0], found[1])}


def ballots_of(decisions: Iterable[Decision]) -> dict[str, Ballot]:
    """Returns the decisions in force on every sentence, by key, without undone ones."""
    listed = list(decisions)
    undone = {d.undoes for d in listed if d.kind == "undo"}
    found: dict[str, Ballot] = {}
    for decision in listed:
        if decision.kind != "undo" and decision.id not in undone:
            found.setdefault(decision.key, Ballot()).add(decision)
    return found


def asks_again(judgement: Judgement, open_ranges: Iterable[Range]) -> list[Range]:
    """Returns the ranges to ask again: trusted because they were masked, and not masked by the current policies."""
    trusted = covered(judgement.trusted)
    return [pair for pair in open_ranges if trusted.intersection(range(*pair))]
