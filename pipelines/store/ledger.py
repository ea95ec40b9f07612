"""The privacy ledger of a store: ``ledger/releases.jsonl`` in the private root, appended to and never rewritten.

A release is entered before training starts and marked as published before the artifact is: a kill at any point can
leave a cost that bought nothing, never a model whose cost is not known. The mark of one training is kept in the
artifact's scratch folder, so that an interrupted training goes on under the same entry, and a forced one, whose
scratch folder is new, is a second release.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.context import pseudonym
from pipelines.errors import PrivacyGateError, StoreError
from pipelines.graph import GRAPH
from pipelines.store import manifest as manifests
from pipelines.store.files import canonical_json, fsync_path, read_json, write_json
from pipelines.store.roots import SCHEMA_VERSION, Roots
from pipelines.store.session import Session

if TYPE_CHECKING:
    from pipelines.accounting.ledger import Budget, Release

FILE = "releases.jsonl"
_MARK = "release.json"


def ledger_dir(roots: Roots) -> Path:
    """The ledger's folder, in the private root."""
    return roots.private / "ledger"


@contextmanager
def _locked(roots: Roots) -> Iterator[Path]:
    """Holds the ledger; the kernel frees it when the holder dies."""
    folder = ledger_dir(roots)
    created = not folder.is_dir()
    folder.mkdir(mode=0o700, exist_ok=True)
    if created:
        fsync_path(folder.parent)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder / FILE
    finally:
        os.close(descriptor)


def _append(path: Path, documents: Sequence[Mapping[str, Any]]) -> None:
    """Adds whole lines and flushes them. The caller holds the ledger."""
    data = path.read_bytes() if path.exists() else b""
    whole = data.rfind(b"\n") + 1
    created = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        file.truncate(whole)  # a line that a kill cut short was never acknowledged: what it announced did not start
        file.seek(whole)
        file.write(b"".join(canonical_json({"schema_version": SCHEMA_VERSION, **d}) + b"\n" for d in documents))
        file.flush()
        os.fsync(file.fileno())
    if created:
        fsync_path(path.parent)


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    found = []
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        try:
            document = json.loads(line)
            if document["schema_version"] != SCHEMA_VERSION or document["type"] not in ("release", "published"):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                f"line {number} of the privacy ledger {path} is damaged, so what was spent is not known; restore the "
                "file from a backup. Nothing is trained until then"
            ) from None
        found.append(document)
    return found


def _is_held(roots: Roots, key: str) -> bool:
    """Whether some process is building the key at this moment."""
    try:
        descriptor = os.open(roots.locks / f"{key}.lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _releases(roots: Roots, path: Path, own_key: str | None = None) -> list[Release]:
    """The entries, each with its state.

    Args:
        own_key: a key that the caller is building: other unpublished entries of it have ended.
    """
    from pipelines.accounting.events import from_json
    from pipelines.accounting.ledger import Release

    lines = _lines(path)
    published = {line["release_id"] for line in lines if line["type"] == "published"}
    found = []
    for line in lines:
        if line["type"] != "release":
            continue
        live = line["key"] != own_key and _is_held(roots, line["key"])
        is_published = line["release_id"] in published
        found.append(
            Release(
                release_id=line["release_id"],
                run_id=line["run_id"],
                key=line["key"],
                event=from_json(line["event"]),
                delta=line["delta"],
                epsilon=line["epsilon"],
                insecure_test_seed=line["insecure_test_seed"],
                data=line["data"],
                tokens=None if line["tokens"] is None else frozenset(line["tokens"]),
                overlaps=tuple(line["overlaps"]),
                num_partitions=line["num_partitions"],
                state="published" if is_published else "in_training" if live else "abandoned",
            )
        )
    return found


def _document(release: Release) -> dict[str, Any]:
    from pipelines.accounting.events import to_json

    return {
        "type": "release",
        "release_id": release.release_id,
        "run_id": release.run_id,
        "key": release.key,
        "event": to_json(release.event),
        "relation": "replace_one",
        "delta": release.delta,
        "epsilon": release.epsilon,
        "insecure_test_seed": release.insecure_test_seed,
        "data": release.data,
        "tokens": None if release.tokens is None else sorted(release.tokens),
        "overlaps": list(release.overlaps),
        "num_partitions": release.num_partitions,
    }


def _untracked(roots: Roots, known: Sequence[Release]) -> list[Release]:
    """Published models that the ledger does not know: made before there was one, or after it was deleted.

    Nothing is known of their data, so they overlap with every release.
    """
    from pipelines.accounting.ledger import Release, composed_epsilon
    from pipelines.accounting.run_facts import parse_training

    keys = {release.key for release in known}
    found = []
    for name in sorted(stage.name for stage in GRAPH.values() if stage.is_release):
        for path in sorted((roots.private / "manifests" / name).glob("*.json")):
            manifest = None if path.stem in keys else manifests.load(roots, name, path.stem)
            if manifest is None or manifest.lineage.get("adopted_from"):  # adopted: the same weights under a new key
                continue
            events = read_json(roots.object_dir("private", name, path.stem) / "events.json")
            if events is None:
                continue
            facts = parse_training(events)
            release = Release(
                release_id=f"untracked-{path.stem[:16]}",
                key=path.stem,
                event=facts.event,
                delta=facts.target_delta,
                insecure_test_seed=facts.insecure_test_seed,
            )
            found.append(replace(release, epsilon=_finite(composed_epsilon([release], release.delta))))
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def read_ledger(roots: Roots) -> list[Release]:
    """Every release of a store, oldest first; nothing is written.

    Raises:
        StoreError: the ledger is damaged.
    """
    found = _releases(roots, ledger_dir(roots) / FILE)
    return [*found, *_untracked(roots, found)]


def budget_of(session: Session) -> Budget | None:
    """The run's privacy budget, if it has one."""
    settings: Any = session.configs.get("guarantee")
    if settings is None or getattr(settings, "budget_epsilon", None) is None:
        return None
    from pipelines.accounting.ledger import Budget

    return Budget(epsilon=settings.budget_epsilon, delta=settings.budget_delta, scope=settings.budget_scope)


def data_tokens(session: Session) -> frozenset[str]:
    """Pseudonyms of every input file's name and of every piece's content."""
    secret = session.roots.secret
    return frozenset(
        token[:16]
        for partition in session.spec.partitions
        for piece in partition.pieces
        for token in (pseudonym(secret, "file", piece.name), pseudonym(secret, "content", piece.digest))
    )


def private_data(session: Session, inputs: Mapping[str, Sequence[tuple[str | None, str]]]) -> tuple[str, int]:
    """Digest of the private half of the inputs that have a public half too, and the number of their partitions."""
    digests = []
    for name, pairs in inputs.items():
        for _, key in pairs if "public" in GRAPH[name].roots else ():
            manifest = manifests.load(session.roots, name, key)
            files = manifest.files if manifest else {}
            digests.append(
                sorted(
                    str(e["sha256"]) for path, e in files.items() if path.startswith("private/") and ".parquet" in path
                )
            )
    return hashlib.sha256(canonical_json(sorted(digests))).hexdigest()[:16], len(digests)


@dataclass
class StoreLedger:
    """The ledger as a stage that releases something sees it: `pipelines.context.ReleaseLedger`.

    Attributes:
        session: the run.
        key: the artifact that is being built; the caller holds its lock.
        scratch_dir: the artifact's scratch folder, which is gone once it is published.
        inputs: keys of the stage's inputs.
    """

    session: Session
    key: str
    scratch_dir: Path
    inputs: Mapping[str, Sequence[tuple[str | None, str]]]
    release_id: str = ""

    def reserve(self, event: Mapping[str, Any], delta: float, *, insecure_test_seed: bool = False) -> None:
        """Enters the release, unless that would exceed the budget.

        Raises:
            PrivacyGateError: it would; nothing was entered.
            StoreError: the ledger is damaged or cannot be written.
            UnsupportedEventError: an event of no known kind.
        """
        from pipelines.accounting.events import from_json
        from pipelines.accounting.ledger import Release, composed_epsilon, project, refusal

        roots = self.session.roots
        mark = read_json(self.scratch_dir / _MARK)
        release_id = str(mark["release_id"]) if isinstance(mark, dict) else secrets.token_hex(8)
        with _locked(roots) as path:
            listed = _releases(roots, path, self.key)
            untracked = _untracked(roots, listed)
            known = [r for r in [*listed, *untracked] if r.release_id != release_id]
            tokens, overlaps = self._overlap(known)
            data, num_partitions = private_data(self.session, self.inputs)
            new = Release(
                release_id=release_id,
                run_id=self.session.spec.run_id,
                key=self.key,
                event=from_json(event),
                delta=delta,
                insecure_test_seed=insecure_test_seed,
                data=data,
                tokens=tokens,
                overlaps=overlaps,
                num_partitions=num_partitions,
                state="in_training",
            )
            budget = budget_of(self.session)
            if budget is not None and (projection := project(known, new, budget)).exceeds(budget):
                raise PrivacyGateError(refusal(projection, budget))
            if not any(r.release_id == release_id for r in listed):
                new = replace(new, epsilon=_finite(composed_epsilon([new], delta)))
                # The mark comes first: an entry without its mark would be counted again when training goes on.
                write_json(self.scratch_dir / _MARK, {"release_id": release_id})
                adopted = [line for r in untracked for line in (_document(r), _published(r.release_id))]
                _append(path, [*adopted, _document(new)])
        self.release_id = release_id

    def _overlap(self, known: Sequence[Release]) -> tuple[frozenset[str], tuple[str, ...]]:
        """Tokens that are new to the ledger, and the earlier releases that hold the others."""
        tokens = data_tokens(self.session)
        overlaps = tuple(r.release_id for r in known if r.tokens and tokens & r.tokens)
        return tokens.difference(*(r.tokens for r in known if r.tokens)), overlaps

    def commit(self) -> None:
        """Marks the release as published. Called before it is, so that its cost cannot be forgotten.

        Raises:
            StoreError: nothing was reserved.
        """
        if not self.release_id:
            raise StoreError("a release was to be published that the privacy ledger does not know")
        with _locked(self.session.roots) as path:
            if not any(d["type"] == "published" and d["release_id"] == self.release_id for d in _lines(path)):
                _append(path, [_published(self.release_id)])


def _published(release_id: str) -> dict[str, Any]:
    return {"type": "published", "release_id": release_id}
