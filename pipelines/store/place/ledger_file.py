"""The privacy ledger's file: chained and sealed lines that are only appended, and never rewritten.

Every line holds its number, the seal of the line before, and its own seal. They reveal a line that was changed,
removed, inserted or moved. Lines cut off at the end are noticed because the ledger's length is also written elsewhere:
in ``store.json`` after every line, in the private and public manifests of releases, and in the remains of a release
whose model was removed (`pipelines.store.objects.anchors`).

Lines of schema version 1 were neither chained nor sealed. The first line that is added after them says how many there
are, and seals their bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pipelines.errors import DamagedFileError, PrivacyGateError
from pipelines.files import append_lines, canonical_json, read_before_damage, read_file
from pipelines.store.place import versions
from pipelines.store.place.seals import SEAL, bears_seal, sealed

FILE: Final = "releases.jsonl"
OLDER: Final = "older_lines"
"""The type of the line that seals lines of schema version 1."""
ACKNOWLEDGED: Final = "acknowledged"
"""The type of the line that begins a ledger after damage was acknowledged."""
AUDITED: Final = "audited"
"""The type of the line that holds an audit's evidence about a model."""
AUDITS_SETTLED: Final = "audits_settled"
"""The type of the line after which audits count anew, because somebody looked into an alarm and cleared it."""
RETIRED: Final = "retired"
"""The type of the line after which the root that it names trains no more, because a copy takes over."""
MOVED: Final = "moved"
"""The type of the line with which a copy of a retired root takes over."""
COPIED: Final = "copied"
"""The type of the line that says, with a reason, that a copy of the store may spend budget too."""
SIGNED: Final = "signed"
"""The type of the line that says who signed a run (`pipelines.store.ledger.sign_offs`)."""
DOCUMENTS: Final = "documents"
"""The type of the line that lists the documents of a release that an earlier version entered."""
FORGOT: Final = "forgot"
"""The type of the line that holds the new digest of the list of forgotten documents."""
SIGNATURE_FIELDS: Final = ("name", "at", "run_id", "digest", "report")
"""The fields of such a line: person, time, run, SHA-256 of the signed page, key of its report."""
_TYPES: Final = frozenset(
    {"release", "published", OLDER, ACKNOWLEDGED, AUDITED, AUDITS_SETTLED, RETIRED, MOVED, COPIED, SIGNED}
    | {DOCUMENTS, FORGOT}
)

WAY_OUT: Final = (
    "Nothing is trained, and nothing is claimed, until that is settled. Restore the private root's ledger folder, "
    "secret and store.json from a backup; or, if there is none, `reticent ledger --acknowledge-damage REASON` enters "
    "what can still be known, and counts what cannot as a release without any noise"
)


class LedgerError(PrivacyGateError):
    """The ledger was changed or damaged, so what was spent is not known."""


@dataclass(frozen=True)
class Anchor:
    """The length of the ledger at some time: the number of its lines, and the seal of the last line."""

    count: int
    head: str

    def to_json(self) -> dict[str, Any]:
        """Returns the anchor as JSON values."""
        return {"count": self.count, "head": self.head}

    @classmethod
    def from_json(cls, document: Any) -> Anchor | None:
        """Reads an anchor from JSON values; None if they are not an anchor."""
        try:
            count, head = document["count"], document["head"]
        except (TypeError, KeyError):
            return None
        is_count = isinstance(count, int) and not isinstance(count, bool)
        return cls(count, head) if is_count and isinstance(head, str) else None


def whole_lines(path: Path) -> list[bytes]:
    """Reads the file's lines. A last line that a kill cut short is left out, because nothing relied on it yet.

    Raises:
        LedgerError: the file is sealed, and was changed.
    """
    try:
        data = read_file(path)
    except FileNotFoundError:
        return []
    except DamagedFileError:
        raise LedgerError(f"the privacy ledger {path} is damaged: it cannot be decrypted. {WAY_OUT}") from None
    return _lines_of(data)


def readable_lines(path: Path) -> list[bytes]:
    """Reads the file's lines like `whole_lines`, but of a damaged file those that can still be read."""
    try:
        return _lines_of(read_before_damage(path))
    except FileNotFoundError:
        return []


def _lines_of(data: bytes) -> list[bytes]:
    return data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]


def read_lines(path: Path, secret: bytes, anchors: Iterable[tuple[str, Anchor]] = ()) -> list[dict[str, Any]]:
    """Reads and checks the documents of all lines.

    Args:
        path: file of the ledger.
        secret: secret of the store.
        anchors: lengths of the ledger that were written elsewhere, each with the name of the place.

    Raises:
        LedgerError: a line was changed, or the file is shorter than it was.
    """
    documents: list[dict[str, Any]] = []
    raw = whole_lines(path)
    is_sealed = False
    for number, line in enumerate(raw, 1):
        document = _parsed(line)
        if document is None:
            raise _damaged(path, number, "it is no entry")
        is_older = document.get("schema_version") == 1 and SEAL not in document
        if is_older and is_sealed:
            raise _damaged(path, number, "it has no seal")
        if not is_older:
            problem = _problem(document, number, documents, raw[: number - 1], secret)
            if problem:
                raise _damaged(path, number, problem)
            is_sealed = True
        documents.append(document)
    accepted = {tuple(pair) for d in documents for pair in d.get("voids", ()) if d["type"] == ACKNOWLEDGED}
    for where, anchor in anchors:
        if (anchor.count, anchor.head) in accepted or anchor.count == 0:
            continue
        if len(documents) < anchor.count:
            raise LedgerError(
                f"the privacy ledger {path} has {len(documents)} lines, and {where} says that it had {anchor.count}: "
                f"it was cut, replaced by an older copy, or removed. {WAY_OUT}"
            )
        if documents[anchor.count - 1].get(SEAL, "") != anchor.head:
            raise LedgerError(
                f"line {anchor.count} of the privacy ledger {path} is not the one that {where} names: the ledger is "
                f"that of another store or time. {WAY_OUT}"
            )
    return documents


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("type") not in _TYPES:
        return None
    return document if document.get("schema_version") in (1, versions.LEDGER) else None


def _problem(
    document: Mapping[str, Any], number: int, before: Sequence[Mapping[str, Any]], raw: Sequence[bytes], secret: bytes
) -> str | None:
    """Says why a sealed line cannot be the line that was written here; None if it can."""
    if not bears_seal(document, "ledger line", secret):
        return "its seal does not fit"
    if document.get("number") != number:
        return "it stands in another place than it was written at"
    if document["type"] == OLDER:
        return None if document["digest"] == _digest(raw) else "the lines before it are not those that it seals"
    previous = before[-1].get(SEAL, "") if before else ""
    if before and not previous:
        return "the lines before it are not sealed"
    return None if document.get("previous") == previous else "the line before it is another one"


def _digest(raw: Sequence[bytes]) -> str:
    return hashlib.sha256(b"".join(line + b"\n" for line in raw)).hexdigest()


def _damaged(path: Path, number: int, why: str) -> LedgerError:
    return LedgerError(f"line {number} of the privacy ledger {path} is damaged: {why}. {WAY_OUT}")


def append(path: Path, secret: bytes, documents: Sequence[Mapping[str, Any]]) -> Anchor:
    """Adds whole lines, sealed and chained, and flushes them. The caller holds the lock and has read the ledger.

    Returns:
        The new length of the ledger.
    """
    raw = whole_lines(path)
    last = json.loads(raw[-1]) if raw else {}
    previous = str(last.get(SEAL, ""))
    number = len(raw)
    lines = []
    entries = list(documents)
    if raw and not previous:
        entries.insert(0, {"type": OLDER, "num_lines": len(raw), "digest": _digest(raw)})
    for entry in entries:
        number += 1
        line = sealed(
            {**entry, "schema_version": versions.LEDGER, "number": number, "previous": previous}, "ledger line", secret
        )
        previous = str(line[SEAL])
        lines.append(canonical_json(line) + b"\n")
    append_lines(path, b"".join(lines))  # a line that a kill cuts short had no effect yet
    return Anchor(number, previous)


def length(path: Path) -> Anchor:
    """Returns the ledger's present length."""
    raw = whole_lines(path)
    return Anchor(len(raw), str(json.loads(raw[-1]).get(SEAL, "")) if raw else "")
