"""Removes documents from a store: artifacts with their rows, reviews, unfinished work, caches and names.

An artifact is content-keyed and never edited. So artifacts with a row of a document are removed as a whole, and the
next run makes them again without the document. Models stay and are reported, because what they learnt cannot be
removed. Text that they wrote is removed, because it may repeat the document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pipelines.corpus.tables import DOCUMENTS, SENTENCES
from pipelines.errors import StoreError
from pipelines.files import read_json, write_json
from pipelines.graph import GRAPH
from pipelines.miss_rate.review_log import read_decisions, remove_decisions, sentence_key
from pipelines.stage import ROOTS, SOURCE
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects import runs
from pipelines.store.objects.anchors import remember_release
from pipelines.store.objects.forgotten import NO_PATHS, Subject, add_forgotten, file_name, read_forgotten
from pipelines.store.objects.overlays import overlays_dir
from pipelines.store.objects.publish import remove_artifact
from pipelines.store.objects.reviews import reviews_path
from pipelines.store.place.disk import remove_tree
from pipelines.store.place.locks import exclusive_store_lock
from pipelines.store.place.roots import REBUILDABLE, SAMPLE_EXAMPLES, Roots
from pipelines.store.place.seals import SEAL, write_sealed
from pipelines.store.place.statcache import StatCache
from pipelines.store.upkeep.maintenance import existing, remove_dead_views
from pipelines.store.upkeep.report_view import forget_examples
from pipelines.store.upkeep.views import drop_dangling

MODELS: Final = ("train_phase1", "train")
"""Stages whose artifacts are a run's models, which stay."""
_KEPT: Final = frozenset({*MODELS, "train_utility", "guarantee", "audit", "report"})
"""The stages of `MODELS`, and stages whose artifacts hold figures of the whole corpus and no row."""
_REFERRING: Final = frozenset({"dedup_mask"})
"""Stages whose artifacts name rows of other partitions, such as the sentence that a duplicate repeats."""
Ref = tuple[str, str]
"""The stage and key of an artifact."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The traces of some subjects in a store.

    Attributes:
        artifacts: artifacts to remove, in order: an artifact goes before those by which it was found.
        models: artifacts of `MODELS` that were trained on the subjects, or with them in the corpus.
        num_sentences: number of the subjects' sentences, in all versions that the store holds.
        review_keys: names, in the log of reviews, of sentences that stand in no other document.
    """

    artifacts: tuple[Ref, ...]
    models: tuple[Ref, ...]
    num_sentences: int
    review_keys: frozenset[str]


def known_files(roots: Roots) -> set[str]:
    """Returns the names of all files that recorded runs have read."""
    return {piece["name"] for _, spec in _specs(roots) for piece in _pieces(spec) if piece["path"]}


def documents_called(roots: Roots, name: str) -> Iterator[tuple[str, str | None]]:
    """Finds the documents with a given own id or ``doc_id``, and yields file and own id of each."""
    for key in _split(roots):
        source = roots.private_files("split", key)
        for row in source.table(DOCUMENTS).rows(["doc_id", "source_file", "source_id"]):
            if name in (row["doc_id"], row["source_id"]):
                yield row["source_file"], row["source_id"]


def find(roots: Roots, subjects: Collection[Subject]) -> Found:
    """Finds all traces of some documents in a store."""
    loaded = {ref: manifests.load(roots, *ref) for ref in existing(roots)}
    lineages = {ref: manifest.lineage for ref, manifest in loaded.items() if manifest is not None}
    seeds = _seeds(roots, subjects, lineages)
    removed = _holding(lineages, seeds)
    models = tuple(sorted(ref for ref in removed if ref[0] in MODELS))
    rows = {row for sentences in _doc_ids(roots, subjects).values() for row in sentences}
    return Found(
        artifacts=tuple(_downstream_first(ref for ref in removed if ref in loaded and ref[0] not in _KEPT)),
        models=tuple(ref for ref in models if ref in loaded),
        num_sentences=len(rows),
        review_keys=_review_keys(roots, rows),
    )


def forget(roots: Roots, subjects: Collection[Subject], paths: Mapping[str, Path] = NO_PATHS) -> dict[str, Any]:
    """Removes documents from a store, and adds them to the list of documents that no run reads any more.

    After a kill, call the function again to finish.

    Args:
        paths: places of the input files that are still there, by their names in the corpus.

    Returns:
        ``found`` (`Found`), and counts: ``num_reviews``, ``num_runs`` (runs whose records no longer name the files).

    Raises:
        StoreError: a run is using the store, or a record of a run was changed.
    """
    with exclusive_store_lock(roots.private):
        if changed := runs.changed_documents(roots):
            raise StoreError(
                f"{changed[0][1]}; what that run read is not known, so nothing is forgotten. Restore the file, or "
                "remove its folder to forget the run (`reticent verify` lists all such files)"
            )
        found = find(roots, subjects)
        add_forgotten(roots, subjects, [key for stage, key in found.artifacts if stage == "split"], paths)
        num_reviews = remove_decisions(reviews_path(roots), found.review_keys) if found.review_keys else 0
        for folder in _unlisted(roots):
            remove_tree(folder) if folder.is_dir() and not folder.is_symlink() else folder.unlink()
        _forget_digests(roots, subjects)
        for stage, key in found.artifacts:
            remember_release(roots, stage, key)
            remove_artifact(roots, stage, key)
        forget_examples(roots)
        drop_dangling(roots)
        remove_dead_views(roots)
        num_runs = _rename_in_runs(roots, subjects)
    return {"found": found, "num_reviews": num_reviews, "num_runs": num_runs}


def _seeds(roots: Roots, subjects: Collection[Subject], lineages: Mapping[Ref, Mapping[str, Any]]) -> set[Ref]:
    """Finds artifacts of partitions that hold a subject, by split sentences and by the partitions that runs record."""
    whole = {file_name(roots.secret, s.file) for s in subjects if s.source_id is None}
    single = {file_name(roots.secret, s.file) for s in subjects if s.source_id is not None}
    listed = read_forgotten(roots)
    seeds = {("split", key) for s in subjects for key in listed.keys_of(roots.secret, s)}
    for ref, lineage in lineages.items():
        if ref[0] == "split":
            files = {row[0] for row in lineage.get("ingredients", {}).get("inputs", {}).get(SOURCE, ())}
            if files & whole or (files & single and _doc_ids(roots, subjects, [ref[1]])):
                seeds.add(ref)
    for folder, spec in _specs(roots):
        names = {
            partition["name"]
            for partition in spec["partitions"]
            if any(_is_of(roots, piece["name"], whole) for piece in partition["pieces"])
        }
        record = read_json(folder / "record.json") if names else None
        seeds |= {(stage, key) for stage, partition, key in (record or {}).get("artifacts", ()) if partition in names}
    return seeds


def _holding(lineages: Mapping[Ref, Mapping[str, Any]], seeds: set[Ref]) -> set[Ref]:
    """Finds every artifact that holds rows of the seeds, in their partitions and of the whole corpus."""
    reached, referring = set(seeds), set()
    for stage in GRAPH.values():  # declared in topological order
        for ref, lineage in lineages.items():
            if ref[0] != stage.name:
                continue
            inputs = lineage.get("inputs", {})
            read = {(e.stage, key): e.partitions for e in stage.inputs for _, key in inputs.get(e.stage, ())}
            hits = {partitions for source, partitions in read.items() if source in reached}
            reads_own_part = stage.partitioned and not stage.own_partitions  # of a whole-corpus artifact
            if hits and (hits != {"whole"} or not reads_own_part):
                reached.add(ref)
            elif hits and stage.name in _REFERRING:
                referring.add(ref)
    return reached | referring


def _split(roots: Roots) -> list[str]:
    return [key for stage, key in existing(roots) if stage == "split"]


def _downstream_first(refs: Iterable[Ref]) -> list[Ref]:
    order = {name: number for number, name in enumerate(GRAPH)}
    return sorted(refs, key=lambda ref: (-order[ref[0]], ref[1]))


def _doc_ids(
    roots: Roots, subjects: Collection[Subject], keys: Iterable[str] | None = None
) -> dict[str, set[tuple[str, int]]]:
    """Returns the sentences of the subjects, as (doc_id, number), by the key of their split artifact."""
    whole = {s.file for s in subjects if s.source_id is None}
    single = {(s.file, s.source_id) for s in subjects if s.source_id is not None}
    sentences: dict[str, set[tuple[str, int]]] = {}
    for key in _split(roots) if keys is None else keys:
        source = roots.private_files("split", key)
        for row in source.table(DOCUMENTS).rows(["doc_id", "source_file", "source_id", "num_sentences"]):
            if row["source_file"] in whole or (row["source_file"], row["source_id"]) in single:
                sentences.setdefault(key, set()).update((row["doc_id"], n) for n in range(row["num_sentences"]))
    return sentences


def _review_keys(roots: Roots, rows: set[tuple[str, int]]) -> frozenset[str]:
    """Returns the names, in the log of reviews, of the rows' sentences that stand in no other document."""
    reviewed = {decision.key for decision in read_decisions(reviews_path(roots))} if rows else set()
    if not reviewed:
        return frozenset()
    own: set[str] = set()
    others: set[str] = set()
    doc_ids = {doc_id for doc_id, _ in rows}
    for split in _split(roots):
        for row in roots.private_files("split", split).table(SENTENCES).rows(["doc_id", "text"]):
            key = sentence_key(roots.secret, row["text"])
            if key in reviewed:
                (own if row["doc_id"] in doc_ids else others).add(key)
    return frozenset(own - others)


def _unlisted(roots: Roots) -> Iterator[Path]:
    """Finds files other than artifacts that may quote a document: work, tracebacks, examples, rebuildable files."""
    for root in ROOTS:
        yield from (roots.of(root) / "work").glob("*")
        yield from (roots.of(root) / "quarantine").glob("*")
        for folder in (roots.of(root) / "objects").glob("*/*"):
            if not roots.manifest_path(folder.parent.name, folder.name).exists():  # the remains of a kill
                yield folder
    for folder in (roots.private / "failures", roots.private / SAMPLE_EXAMPLES, roots.cache / REBUILDABLE):
        yield from folder.glob("*")
    yield from overlays_dir(roots).glob("*")


def _forget_digests(roots: Roots, subjects: Collection[Subject]) -> None:
    """Removes the subjects' files from the cache of input files, which names them by their paths."""
    if names := tuple(subject.file for subject in subjects if subject.source_id is None):
        StatCache(roots.cache / "inputs.json", roots.secret).forget(names)


def _rename_in_runs(roots: Roots, subjects: Collection[Subject]) -> int:
    """Removes names of whole files from the specifications of runs, and marks records. Returns the number of runs."""
    whole = {file_name(roots.secret, s.file) for s in subjects if s.source_id is None}
    single = {file_name(roots.secret, s.file) for s in subjects if s.source_id is not None}
    count = 0
    for folder, spec in _specs(roots):
        pieces = list(_pieces(spec))
        if not any(_is_of(roots, piece["name"], whole | single) for piece in pieces):
            continue
        for piece in pieces:
            if piece["path"] and _is_of(roots, piece["name"], whole):
                piece |= {"path": "", "name": f"{runs.FORGOTTEN}/{file_name(roots.secret, piece['name'])}"}
        record = read_json(folder / "record.json")
        if record is not None and runs.FORGOTTEN not in record:
            _write_again(roots, folder / "record.json", {**record, runs.FORGOTTEN: True})
        _write_again(roots, folder / "spec.json", spec)
        count += 1
    return count


def _write_again(roots: Roots, path: Path, document: dict[str, Any]) -> None:
    """Writes a document of a run with changed fields, sealed if it was sealed before."""
    if SEAL in document:
        write_sealed(path, {name: v for name, v in document.items() if name != SEAL}, "run", roots.secret)
    else:
        write_json(path, document)


def _specs(roots: Roots) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yields the folder and the stored specification of every run."""
    for folder in sorted(roots.runs.glob("*")):
        spec = read_json(folder / "spec.json")
        if isinstance(spec, dict):
            yield folder, spec


def _pieces(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    return (piece for partition in spec["partitions"] for piece in partition["pieces"])


def _is_of(roots: Roots, name: str, files: Collection[str]) -> bool:
    """Returns True if a piece's name, or its pseudonym since it was forgotten, belongs to one of these files."""
    return name.removeprefix(f"{runs.FORGOTTEN}/") in files or file_name(roots.secret, name) in files


def counts(found: Found) -> dict[str, int]:
    """Counts the artifacts to remove by stage."""
    return dict(Counter(GRAPH[stage].shown_name for stage, _ in found.artifacts))
