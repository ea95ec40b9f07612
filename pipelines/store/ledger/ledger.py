"""The privacy ledger of a store: ``ledger/releases.jsonl`` in the private root, only appended to and never rewritten.

A release is entered before training starts, and marked as published before the artifact is published. So a kill can
leave a cost without a model, but never a model without its cost. A mark in the artifact's scratch folder names the
entry of a training. An interrupted training goes on under the same entry. A forced training has a new scratch folder,
so it is a second release.

Lines are chained and sealed (`pipelines.store.place.ledger_file`). They are compared with other records of releases:
manifests, events of models, and their own recomputed epsilon.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.accounting.events import from_json as event_from_json
from pipelines.accounting.events import to_json as event_to_json
from pipelines.accounting.facts import ReleaseFacts, parse_training
from pipelines.accounting.ledger import Budget, DocumentSet, Release, State, epsilon_alone, project, refusal
from pipelines.context import Spent
from pipelines.errors import PrivacyGateError, StoreError
from pipelines.files import finite
from pipelines.store.ledger.check import check_releases
from pipelines.store.ledger.documents import compare_documents, split_keys_of, with_data, write_documents
from pipelines.store.ledger.release_facts import data_tokens, preparation_facts, private_data
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects.anchors import events_of, release_stages, removed_releases
from pipelines.store.objects.ledger_lines import append, ledger_dir, locked, read_documents
from pipelines.store.objects.session import Session
from pipelines.store.place import ledger_file, versions
from pipelines.store.place.ledger_file import COPIED, DOCUMENTS, FILE, Anchor
from pipelines.store.place.location import require_valid_location
from pipelines.store.place.locks import is_held
from pipelines.store.place.roots import Roots
from pipelines.store.place.seals import SealError, read_sealed, write_sealed

_MARK = "release.json"


def releases_of(roots: Roots, documents: Sequence[Mapping[str, Any]], own_key: str | None = None) -> list[Release]:
    """Returns the entries, each with its state.

    Args:
        documents: lines of the ledger.
        own_key: key that the caller is building. Other unpublished entries with this key have ended.
    """
    published = {d["release_id"] for d in documents if d["type"] == "published"}
    later = {d["release_id"]: d for d in documents if d["type"] == DOCUMENTS}
    releases = []
    for document in documents:
        if document["type"] == "release":
            state: State = "abandoned"
            if document["release_id"] in published:
                state = "published"
            elif document["key"] != own_key and is_held(roots.locks, document["key"]):
                state = "in_training"
            release = release_of(document)
            if (read := later.get(release.release_id)) is not None:
                release = with_line(release, read)
            releases.append(replace(release, state=state))
    return releases


def release_of(document: Mapping[str, Any]) -> Release:
    """Reads a release from its line.

    Raises:
        UnsupportedEventError: the event has an unknown kind.
    """
    facts = document.get("facts")
    return Release(
        release_id=document["release_id"],
        run_id=document["run_id"],
        key=document["key"],
        event=event_from_json(document["event"]),
        delta=document["delta"],
        epsilon=document["epsilon"],
        insecure_test_seed=document["insecure_test_seed"],
        data=document["data"],
        tokens=None if document["tokens"] is None else frozenset(document["tokens"]),
        overlaps=tuple(document["overlaps"]),
        documents=_document_set(document),
        num_partitions=document["num_partitions"],
        facts=None if facts is None else ReleaseFacts.from_json(facts),
        is_public=bool(document.get("is_public", True)),
        purpose=document.get("purpose", "release"),
    )


def _document_set(line: Mapping[str, Any]) -> DocumentSet | None:
    fields = line.get("documents")
    return None if fields is None else DocumentSet(**fields)


def with_line(release: Release, line: Mapping[str, Any]) -> Release:
    """Adds to a release of an earlier version what a later line says about its documents."""
    overlaps = tuple(dict.fromkeys((*release.overlaps, *line["overlaps"])))
    return replace(release, documents=_document_set(line), overlaps=overlaps)


def document_of(release: Release) -> dict[str, Any]:
    """Returns the line of a release, which `release_of` reads."""
    return {
        "type": "release",
        "release_id": release.release_id,
        "run_id": release.run_id,
        "key": release.key,
        "event": event_to_json(release.event),
        "relation": "replace_one",
        "delta": release.delta,
        "epsilon": release.epsilon,
        "insecure_test_seed": release.insecure_test_seed,
        "data": release.data,
        "tokens": None if release.tokens is None else sorted(release.tokens),
        "overlaps": list(release.overlaps),
        "num_partitions": release.num_partitions,
        "facts": None if release.facts is None else release.facts.to_json(),
        "is_public": release.is_public,
        **({} if release.purpose == "release" else {"purpose": release.purpose}),
        **({} if release.documents is None else {"documents": asdict(release.documents)}),
    }


def published(release_id: str) -> dict[str, Any]:
    """Returns the line that marks a release as published."""
    return {"type": "published", "release_id": release_id}


def untracked(roots: Roots, known: Sequence[Release]) -> list[Release]:
    """Finds published models that the ledger does not know, made before there was a ledger or after it was deleted.

    Their data are unknown, so they overlap with every release.
    """
    keys = {release.key for release in known}
    found: dict[str, Release] = {}
    for name in release_stages():
        for path in sorted((roots.private / "manifests" / name).glob("*.json")):
            manifest = None if path.stem in keys else manifests.load(roots, name, path.stem)
            # An adopted model has the same weights under a new key.
            if manifest is None or manifest.lineage.get("adopted_from"):
                continue
            events = events_of(roots, name, path.stem)
            if events is not None:
                found[path.stem] = _untracked(path.stem, events)
    for _, document in removed_releases(roots):
        if document["key"] not in keys | found.keys() and document["events"] is not None:
            found[document["key"]] = _untracked(document["key"], document["events"])
    return list(found.values())


def _untracked(key: str, events: Mapping[str, Any]) -> Release:
    facts = parse_training(events)
    release = Release(
        release_id=f"untracked-{key[:16]}",
        key=key,
        event=facts.event,
        delta=facts.target_delta,
        insecure_test_seed=facts.insecure_test_seed,
    )
    return replace(release, epsilon=finite(epsilon_alone(release)))


def read_ledger(roots: Roots) -> list[Release]:
    """Reads every release of a store, oldest first. Writes nothing.

    Raises:
        LedgerError: the ledger was changed or damaged.
    """
    listed = releases_of(roots, read_documents(roots, ledger_dir(roots) / FILE))
    return [*listed, *untracked(roots, listed)]


def copies_of(roots: Roots) -> list[dict[str, Any]]:
    """Returns the acknowledged copies of the store that may spend too, as ``reason`` and ``at``, oldest first.

    Raises:
        LedgerError: the ledger was changed or damaged.
    """
    documents = read_documents(roots, ledger_dir(roots) / FILE)
    return [{name: d[name] for name in ("reason", "at")} for d in documents if d["type"] == COPIED]


def budget_of(session: Session) -> Budget | None:
    """Returns the run's privacy budget, if it has one."""
    settings: Any = session.configs.get("guarantee")
    if settings is None or getattr(settings, "budget_epsilon", None) is None:
        return None
    return Budget(
        epsilon=settings.budget_epsilon,
        delta=settings.budget_delta,
        scope=settings.budget_scope,
        unit=settings.budget_unit,
    )


def enter_older(roots: Roots) -> None:
    """Enters the documents of releases that an earlier version entered, if their sentences are still stored.

    If they are not, the release is entered as one that may share a document with every other release.

    Raises:
        LedgerError: the ledger was changed or damaged.
    """
    with locked(roots) as path:
        lines = read_documents(roots, path)
        entered = {d["release_id"] for d in lines if d["type"] == DOCUMENTS}
        for release in releases_of(roots, lines):
            is_older = release.documents is None and release.tokens is not None
            if not is_older or release.state != "published" or release.release_id in entered:
                continue
            others = {r.release_id: r for r in releases_of(roots, lines) if r.release_id != release.release_id}
            keys = split_keys_of(roots, release.key)
            documents, sharing, data = compare_documents(roots, keys, list(others.values()))
            # Documents of others that are not known yet get their own lines.
            overlaps = list(others) if documents is None else [o for o in sharing if others[o].documents]
            write_documents(roots, release.release_id, data)
            line = {"type": DOCUMENTS, "release_id": release.release_id, "overlaps": overlaps}
            append(roots, path, [{**line, "documents": None if documents is None else asdict(documents)}])
            lines = read_documents(roots, path)


@dataclass
class StoreLedger:
    """The ledger for a stage that releases a model: `pipelines.context.ReleaseLedger`.

    Attributes:
        session: the run.
        key: key of the artifact that is being built; the caller holds its lock.
        scratch_dir: scratch folder of the artifact, which is gone once the artifact is published.
        inputs: keys of the stage's inputs.
        split: keys of the sentences of all documents that the run reads.
        release_id: id of the entry; empty until there is one.
        anchor: length of the ledger when the release was marked as published.
    """

    session: Session
    key: str
    scratch_dir: Path
    inputs: Mapping[str, Sequence[tuple[str | None, str]]]
    split: Sequence[str]
    release_id: str = ""
    anchor: Anchor | None = None

    def reserve(
        self,
        event: Mapping[str, Any],
        delta: float,
        *,
        facts: Mapping[str, Any] | None = None,
        is_public: bool = True,
        insecure_test_seed: bool = False,
    ) -> Spent:
        """Enters the release, unless that would exceed the budget.

        Args:
            event: privacy event of the planned training.
            delta: delta at which epsilon is stated.
            facts: fields of `ReleaseFacts`, without those that follow from the settings of the preparation.
            is_public: true if the model may go to the public root. A model of an audit never does.
            insecure_test_seed: true if noise and samples can be repeated.

        Raises:
            PrivacyGateError: the release would exceed the budget, the ledger was changed or damaged, or the store is a
                copy or retired. Nothing was entered.
            StoreError: the ledger cannot be written.
            UnsupportedEventError: the event has an unknown kind.
        """
        roots, purpose = self.session.roots, self.session.spec.purpose
        is_public = is_public and purpose != "audit"
        with locked(roots) as path:
            require_valid_location(roots)
            documents = read_documents(roots, path)
            listed = releases_of(roots, documents, self.key)
            check_releases(roots, listed)
            release_id = self._marked(listed) or secrets.token_hex(8)
            lost = untracked(roots, listed)
            known = [r for r in [*listed, *lost] if r.release_id != release_id]
            data, num_partitions = private_data(self.session, self.inputs)
            new = Release(
                release_id=release_id,
                run_id=self.session.spec.run_id,
                key=self.key,
                event=event_from_json(event),
                delta=delta,
                insecure_test_seed=insecure_test_seed,
                data=data,
                num_partitions=num_partitions,
                facts=self._facts(facts),
                is_public=is_public,
                purpose=purpose,
                state="in_training",
            )
            new, names = with_data(roots, new, data_tokens(self.session), self.split, known)
            budget = budget_of(self.session)
            projection = project(known, new, budget)
            if budget is not None and is_public and projection.exceeds(budget):
                raise PrivacyGateError(refusal(projection, budget, release_id))
            if budget is not None and budget.unit == "owner":
                projection = project(known, new, replace(budget, unit="record"))
            if not any(r.release_id == release_id for r in listed):
                new = replace(new, epsilon=finite(epsilon_alone(new)))
                # The mark comes first, because an entry without its mark would be counted again when training goes on.
                mark = {"schema_version": versions.MARK, "release_id": release_id, "key": self.key}
                write_sealed(self.scratch_dir / _MARK, mark, "training", roots.secret)
                write_documents(roots, release_id, names)
                adopted = [line for r in lost for line in (document_of(r), published(r.release_id))]
                append(roots, path, [*adopted, document_of(new)])
        self.release_id = release_id
        return Spent(num_earlier=projection.num_earlier, epsilon=projection.together, delta=projection.delta)

    def _marked(self, listed: Sequence[Release]) -> str | None:
        """Returns the entry under which an interrupted training goes on; None if it gets a new entry."""
        try:
            secret = self.session.roots.secret
            mark = read_sealed(self.scratch_dir / _MARK, "training", secret, unsealed_versions=(None,))
        except SealError:
            return None  # nothing vouches for the mark, so the training is entered and counted anew
        if mark is None or mark.get("key", self.key) != self.key:
            return None
        release_id = str(mark["release_id"])
        entries = [r for r in listed if r.release_id == release_id]
        return release_id if not entries or entries[0].key == self.key else None

    def _facts(self, given: Mapping[str, Any] | None) -> Any:
        if given is None:
            return None
        return ReleaseFacts.from_json({**given, **preparation_facts(self.session, given, self.inputs)})

    def commit(self) -> None:
        """Marks the release as published. Call it before publishing, so that the cost cannot be lost.

        Raises:
            StoreError: no release was reserved.
            LedgerError: the ledger was changed or damaged.
        """
        if not self.release_id:
            raise StoreError("a release was to be published that the privacy ledger does not know")
        roots = self.session.roots
        with locked(roots) as path:
            documents = read_documents(roots, path)
            if any(d["type"] == "published" and d["release_id"] == self.release_id for d in documents):
                self.anchor = ledger_file.length(path)
            else:
                self.anchor = append(roots, path, [published(self.release_id)])
