"""Publishes a finished build folder as an artifact that readers see whole or not at all.

Order (design, section 3): flush the files, write and flush each root's manifest, rename the private folder, rename
the public folder, and last write the joint manifest. A kill between any two steps leaves folders that no joint
manifest names; the next holder of the key's lock removes them and builds again.

Just before the joint manifest the scratch folder is renamed. A kill right after it then cannot pass off the finished
build's checkpoints (and its entry in the privacy ledger) as those of a later, forced build.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipelines.errors import StoreError
from pipelines.files import copy_file, fsync_path, read_json, write_json
from pipelines.graph import GRAPH
from pipelines.stage import ROOTS, Root
from pipelines.store.objects.anchors import remember_release
from pipelines.store.objects.manifest import (
    MANIFEST,
    PURPOSE,
    SECRET,
    UNPUBLISHED,
    Manifest,
    joint_document,
    measure,
    root_document,
    write_root_manifest,
)
from pipelines.store.place.disk import data_files, make_durable_dir, numbered, remove_tree
from pipelines.store.place.roots import Roots, make_closed, make_readable
from pipelines.store.place.seals import fingerprint

OUTPUT = "out"
SCRATCH = "scratch"
_FINISHED = "finished"
"""The scratch folder of a build whose joint manifest is about to be written."""


def build_dir(roots: Roots, root: Root, key: str) -> Path:
    """Returns the folder in which a stage writes the files of one root."""
    return roots.work_dir(root, key) / OUTPUT


def prepare_build(roots: Roots, stage: str, key: str, *, is_published: bool = True) -> dict[Root, Path]:
    """Empties the build folders and removes the remains of an interrupted publish. Scratch files stay.

    The caller holds the key's lock.

    Args:
        roots, stage, key: the artifact.
        is_published: true if the artifact goes to all of the stage's roots; otherwise only to the private one.
    """
    folders: dict[Root, Path] = {}
    built: tuple[Root, ...] = GRAPH[stage].roots if is_published else ("private",)
    exists = roots.manifest_path(stage, key).exists()
    for root in built:
        folders[root] = build_dir(roots, root, key)
        remove_tree(folders[root])
        if not exists:  # a forced rebuild keeps the old artifact until the new one is finished
            remove_tree(roots.object_dir(root, stage, key))
        folders[root].mkdir(parents=True)
    finished = scratch_dir(roots, key).with_name(_FINISHED)
    if finished.exists():
        if exists:
            remove_tree(finished)
        else:
            finished.rename(scratch_dir(roots, key))  # a kill came just before the artifact existed
    scratch_dir(roots, key).mkdir(parents=True, exist_ok=True)
    return folders


def scratch_dir(roots: Roots, key: str) -> Path:
    """Returns the private folder for scratch files, which survive kills."""
    return roots.work_dir("private", key) / SCRATCH


def publish(roots: Roots, manifest: Manifest) -> None:
    """Makes a built artifact exist.

    The caller holds the key's lock and filled the folders of `prepare_build`.

    Raises:
        OSError: the disk is full or read-only; the artifact then does not exist.
    """
    stage, key = manifest.stage, manifest.key
    for root in manifest.roots:
        if root == "public":
            _open_to_readers(build_dir(roots, root, key))
        write_root_manifest(build_dir(roots, root, key), root, manifest)
    if roots.manifest_path(stage, key).exists():
        quarantine(roots, stage, key)
    for root in manifest.roots:  # private first
        target = roots.object_dir(root, stage, key)
        make_durable_dir(target.parent)
        if root == "public":
            make_readable(target.parent)
        build_dir(roots, root, key).rename(target)
        fsync_path(target.parent)
    path = roots.manifest_path(stage, key)
    make_durable_dir(path.parent)
    scratch_dir(roots, key).rename(scratch_dir(roots, key).with_name(_FINISHED))
    fsync_path(roots.work_dir("private", key))
    write_json(path, joint_document(manifest, roots.secret))
    for root in manifest.roots:
        remove_tree(roots.work_dir(root, key))
    remove_tree(roots.work_dir("private", key))


def publish_earlier_build(roots: Roots, manifest: Manifest) -> None:
    """Puts what a comparison kept in the private root into the public one as well; nothing is made anew.

    The caller holds the key's lock and has checked the files. A kill leaves the artifact as it was, or published.

    Raises:
        OSError: the disk is full or read-only; the artifact is then not published.
        StoreError: a file is not as it was written.
    """
    stage, key = manifest.stage, manifest.key
    private, public = (roots.object_dir(root, stage, key) for root in GRAPH[stage].roots)
    built = build_dir(roots, "public", key)
    for left_by_a_kill in (built, public):
        remove_tree(left_by_a_kill)
    built.mkdir(parents=True)  # also where nothing is to be published
    for path in data_files(private / UNPUBLISHED):
        target = built / path.relative_to(private / UNPUBLISHED)
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_file(path, target)
    _open_to_readers(built)
    lineage = {name: value for name, value in manifest.lineage.items() if name != PURPOSE}
    files = measure(built, "public")
    if any(manifest.files.get(f"private/{UNPUBLISHED}/{n.partition('/')[2]}") != entry for n, entry in files.items()):
        raise StoreError(f"the artifact {key[:12]} of stage {stage} is damaged; `reticent verify --repair` removes it")
    lineage["published_from"] = manifest.lineage[PURPOSE]
    whole = replace(manifest, files={**manifest.files, **files}, lineage=lineage)
    write_root_manifest(built, "public", whole)
    make_durable_dir(public.parent)
    make_readable(public.parent)
    built.rename(public)
    fsync_path(public.parent)
    write_root_manifest(private, "private", whole)
    write_json(roots.manifest_path(stage, key), joint_document(whole, roots.secret))
    remove_tree(roots.work_dir("public", key))


def joint_manifest_damage(roots: Roots, manifest: Manifest) -> str | None:
    """Says why a manifest that `manifest.load` accepted is not this store's; None if it is."""
    document = read_json(roots.manifest_path(manifest.stage, manifest.key))
    if not isinstance(document, dict):
        return "its manifest is missing"
    if document.get(SECRET, fingerprint(roots.secret)) != fingerprint(roots.secret):
        return "its manifest was written under another secret"
    return None


def root_manifest_damage(roots: Roots, manifest: Manifest) -> str | None:
    """Says why a manifest beside the files does not agree with the joint manifest; None if all do."""
    for root in manifest.roots:
        found = read_json(roots.object_dir(root, manifest.stage, manifest.key) / MANIFEST)
        if found != root_document(manifest, root):
            return f"the manifest in the {root} folder is missing or damaged"
    return None


def _open_to_readers(folder: Path) -> None:
    """Lets everyone read public files, which stages write under a private umask."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def quarantine(roots: Roots, stage: str, key: str) -> None:
    """Moves a damaged artifact to the quarantine, where it can be inspected. The caller holds the key's lock."""
    remember_release(roots, stage, key)
    roots.manifest_path(stage, key).unlink(missing_ok=True)
    for root in GRAPH[stage].roots:
        source = roots.object_dir(root, stage, key)
        if source.exists():
            folder = roots.quarantine if root == "private" else roots.public / "quarantine"
            make_closed(folder)
            source.rename(numbered(folder, f"{stage}-{key[:16]}-{{}}"))


def remove_artifact(roots: Roots, stage: str, key: str) -> None:
    """Removes an artifact: first its manifest, which ends its existence, then its folders.

    A kill in between leaves the work folder, by which `reticent verify` knows that no manifest is missing. The caller
    holds the store's exclusive lock.
    """
    mark = roots.work_dir("private", key)
    is_ours = not mark.exists()
    make_closed(mark)
    roots.manifest_path(stage, key).unlink(missing_ok=True)
    for root in ROOTS:
        remove_tree(roots.object_dir(root, stage, key))
    if is_ours:
        mark.rmdir()


def is_left_over(roots: Roots, key: str) -> bool:
    """Returns True if the work folder of an existing artifact is the remains of a kill, and can be removed.

    An interrupted forced build of the same key has a scratch folder. Its work folder is kept.
    """
    return not scratch_dir(roots, key).exists()
