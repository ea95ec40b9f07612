"""``reticent forget``: removes documents from a store, names models that trained on them, and lists what is left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.running.spec import open_store
from pipelines.corpus.listing import list_files
from pipelines.errors import ConfigError, InputError
from pipelines.numbers import upper_bound
from pipelines.settings.loading import ProjectSettings, load_settings
from pipelines.store.ledger.ledger import read_ledger
from pipelines.store.ledger.releases import adopted_models
from pipelines.store.objects import runs
from pipelines.store.objects.forgotten import Subject, read_forgotten
from pipelines.store.place.roots import Roots
from pipelines.store.upkeep.forgetting import Found, Ref, counts, documents_called, find, forget, known_files

if TYPE_CHECKING:
    from pipelines.accounting.ledger import Release

_LEFT: tuple[str, ...] = (
    "models: they keep what they learnt, and so does every copy that others took",
    "synthetic text that others took: it may repeat what the model learnt",
    "back-ups of the store and of the input: run `reticent forget` again after you restore one",
    "a mirror of the public root, until it is mirrored again",
    "files outside of the store: exported reviews, redacted files, detectors trained on it, saved filters",
    "the ledger: it keeps HMACs of the names and contents of files, so that later trainings compose",
)


def forget_document(config: Path, environ: Mapping[str, str], names: Sequence[str], *, dry_run: bool) -> dict[str, Any]:
    """Forgets documents, or counts what would be removed.

    Args:
        names: names of files in the corpus; ``FILE:ID``, for the document of that file with that id; or ids alone
        dry_run: true to remove nothing

    Returns:
        A dictionary of ``dry_run``, ``num_files`` and ``num_documents`` (named), ``num_sentences``, ``artifacts``
        (removed, by stage), ``num_reviews``, ``num_runs``, ``models`` (``stage``, ``key``, ``runs``, ``is_public``,
        ``epsilon``, ``delta``, ``says``), ``is_in_input`` (true if a file is still among the input) and ``left``
        (places that still hold the documents).

    Raises:
        ConfigError: a name fits no file and no document, or several.
        StoreError: a run is using the store.
        LedgerError: the ledger is damaged, so the models are unknown. Nothing was removed.
    """
    settings = load_settings(config, environ)
    roots = open_store(settings, create=not dry_run)
    listed = _listed(settings)
    subjects = [_subject(roots, name, listed.keys() | known_files(roots)) for name in names]
    # Read first, so that a damaged ledger stops the command before it removes anything.
    releases = {release.key: release for release in read_ledger(roots)}
    found: Found
    num_reviews = num_runs = None
    if dry_run:
        found = find(roots, subjects)
    else:
        done = forget(roots, subjects, listed)
        found, num_reviews, num_runs = done["found"], done["num_reviews"], done["num_runs"]
    return {
        "dry_run": dry_run,
        "num_files": sum(s.source_id is None for s in subjects),
        "num_documents": sum(s.source_id is not None for s in subjects),
        "num_sentences": found.num_sentences,
        "artifacts": counts(found),
        "num_reviews": len(found.review_keys) if num_reviews is None else num_reviews,
        "num_runs": num_runs,
        "models": _models(roots, found, releases),
        "is_in_input": any(subject.file in listed for subject in subjects),
        "left": list(_LEFT),
    }


def _listed(settings: ProjectSettings) -> dict[str, Path]:
    corpus: Any = settings.stages["corpus"]
    try:
        files = list_files(corpus.inputs, settings.folder, corpus.format, corpus.read_options().sources)
    except InputError:
        return {}  # it was deleted already
    return {file.name: file.path for file in files}


def _subject(roots: Roots, name: str, files: set[str]) -> Subject:
    """Returns the file or document that the user's word stands for. Errors do not repeat it, as it may be a name."""
    known = read_forgotten(roots)
    if name in files or known.holds(roots.secret, Subject(name)):
        return Subject(name)
    for at in (n for n, character in enumerate(name) if character == ":"):
        one = Subject(name[:at], name[at + 1 :])
        if one.file in files or known.holds(roots.secret, one):
            if known.holds(roots.secret, one) or set(documents_called(roots, name[at + 1 :])) & {one}:
                return one
            raise ConfigError("that file has no document of this id in the store; run `reticent plan` after edits")
    found = set(documents_called(roots, name))
    found |= {Subject(file, name) for file in files if known.holds(roots.secret, Subject(file, name))}
    if not found:
        raise ConfigError(
            "no file of the corpus has this name, and no document of the store has this id. The column source_file of "
            "`reticent inspect documents --show-text` lists the names of files"
        )
    if len(found) > 1:
        raise ConfigError(f"{len(found)} documents have this id; name one of them as FILE:ID")
    ((file, source_id),) = found
    if source_id is None:
        raise ConfigError(
            "that document has no id of its own, so Reticent cannot leave it out of its file. Delete it from the file, "
            "run, and remove earlier artifacts with `reticent gc --keep-runs 1`; or forget the whole file"
        )
    return Subject(file, source_id)


def _models(roots: Roots, found: Found, releases: Mapping[str, Release]) -> list[dict[str, Any]]:
    adopted = adopted_models(roots)
    used: dict[Ref, list[str]] = {}
    for record in runs.records(roots):
        for stage, _, key in record.get("artifacts", ()):
            used.setdefault((stage, key), []).append(str(record["run_id"]))
    rows = []
    for stage, key in found.models:
        trained_as = key
        while trained_as in adopted:
            trained_as = adopted[trained_as]
        release = releases.get(trained_as)
        rows.append(
            {
                "stage": stage,
                "key": key,
                "runs": used.get((stage, key), []),
                "is_public": release is not None and release.is_public,
                "epsilon": None if release is None else release.epsilon,
                "delta": None if release is None else release.delta,
                "says": _says(release, found.num_sentences),
            }
        )
    return rows


def _says(release: Release | None, num_sentences: int) -> str:
    """Returns what a model's guarantee says for a document of this many sentences."""
    if release is None:
        return "the first phase of a model, kept on the trusted side; nothing is claimed of it alone"
    if release.epsilon is None or release.withdrawals:
        return "nothing: no bound on what it tells of any record"
    record = "record" if release.facts is None else release.facts.record
    bound = f"epsilon {upper_bound(release.epsilon)}, delta {upper_bound(release.delta)}"
    text = f"{bound}, unamplified, for one {record} of it"
    if record == "sentence" and num_sentences > 1:
        from pipelines.accounting.groups import group_epsilon  # dp-accounting is slow to import

        whole = group_epsilon(release.charged_event, release.delta, num_sentences)
        text += f"; for all {num_sentences} sentences of it together " + (
            f"epsilon {upper_bound(whole)}, delta {upper_bound(release.delta)}" if math.isfinite(whole) else "no bound"
        )
    if release.facts is None or release.facts.trains_on_public_rows:
        text += "; no bound for sentences of it that were on the public side, which are trained on without noise"
    return text


def forget_text(document: Mapping[str, Any]) -> str:
    """Formats the document for people."""
    verb = "would remove" if document["dry_run"] else "removed"
    artifacts = ", ".join(f"{number} {stage}" for stage, number in sorted(document["artifacts"].items()))
    lines = [
        f"{verb} {sum(document['artifacts'].values())} artifacts that hold rows of it ({artifacts or 'none'}), "
        f"{document['num_reviews']} reviews, unfinished work, tracebacks, caches and examples"
    ]
    models = document["models"]
    if models:
        lines.append(f"{len(models)} model{'s' if len(models) > 1 else ''} trained on it, or with it in the corpus:")
    for model in models:
        place = "published" if model["is_public"] else "on the trusted side"
        of = f", of run {model['runs'][-1]}" if model["runs"] else ""
        lines += [f"  {model['stage']} {model['key'][:12]} ({place}{of})", f"    its guarantee says: {model['says']}"]
    if models:
        lines.append(
            "  `reticent run` prepares the text again and leaves these models as they are. `reticent run --force "
            "train` trains another model without it, which is a second release"
        )
    if document["is_in_input"]:
        lines.append("it is still among the input files: no run reads it, and you should delete it yourself")
    lines += [
        "these still hold it, and Reticent cannot remove it there:",
        *(f"  - {text}" for text in document["left"]),
    ]
    return "\n".join(lines)
