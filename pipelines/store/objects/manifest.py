"""Manifests. The joint manifest makes an artifact exist, and gives digests over the files that it lists."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pipelines.errors import DamagedFileError, StageError, StoreError
from pipelines.files import canonical_json, read_json, write_json
from pipelines.graph import GRAPH
from pipelines.stage import Root
from pipelines.store.place import versions
from pipelines.store.place.disk import DAMAGED, data_files, digest_file, fsync_below, sha256_file, size_of
from pipelines.store.place.roots import Roots
from pipelines.store.place.seals import fingerprint

MANIFEST = "manifest.json"
PURPOSE = "purpose"
"""The field of lineage that holds the `context.Purpose` of the child run that made an unpublished artifact."""
_KEPT = 8  # manifests in memory; at a time, few of the whole corpus are read, and one of each partition
UNPUBLISHED = "unpublished"
"""The folder in an artifact's private folder for files that a release would have put into the public root."""


@dataclass(frozen=True)
class Manifest:
    """The files of an artifact, its origin, and how it was made.

    Attributes:
        files: ``root/relative path`` to ``{"size", "sha256"}``.
        stats: counts of the stage, for people.
        lineage: the ingredients of the key and the keys of the inputs; ``built_with``, the code and packages that are
            no ingredients; ``adopted_from`` if adopted; `PURPOSE` if a child run made it and did not publish it.
        seconds: duration of the build. Never part of a digest.
    """

    stage: str
    key: str
    files: Mapping[str, Mapping[str, Any]]
    stats: Mapping[str, Any]
    lineage: Mapping[str, Any]
    seconds: float

    @property
    def roots(self) -> tuple[Root, ...]:
        """The roots that hold its files."""
        return GRAPH[self.stage].roots if PURPOSE not in self.lineage else ("private",)

    def public_dir(self, roots: Roots) -> Path:
        """Returns the folder of the files that are public, or that a release would publish."""
        if "public" in self.roots:
            return roots.object_dir("public", self.stage, self.key)
        return roots.object_dir("private", self.stage, self.key) / UNPUBLISHED

    def output_digest(self, names: tuple[str, ...] = ()) -> str:
        """Computes a digest over sorted (relative path, sha256) of all data files or the named ones, published or not.

        Raises:
            LookupError: the artifact has no file of that name.
        """
        if not names:
            listed: list[Any] = sorted(self._digests.items())
        else:
            # Only contents, in the given order, so that partitions with equal content share later artifacts.
            if not self._by_name.keys() >= set(names):
                raise LookupError(f"{self.stage} has no file of the expected name")
            listed = [self._by_name[name] for name in names]
        return hashlib.sha256(canonical_json(listed)).hexdigest()

    @functools.cached_property
    def _digests(self) -> dict[str, str]:
        unpublished = f"private/{UNPUBLISHED}/"
        return {
            "public/" + path.removeprefix(unpublished) if path.startswith(unpublished) else path: entry["sha256"]
            for path, entry in self.files.items()
        }

    @functools.cached_property
    def _by_name(self) -> dict[str, str]:
        return {path.partition("/")[2]: digest for path, digest in self._digests.items()}

    @property
    def made_by(self) -> dict[str, Any] | None:
        """The ingredients of the key, with code and environment even if these are not in the key; None if unknown."""
        if "ingredients" not in self.lineage:
            return None
        return {**self.lineage["ingredients"], **self.lineage.get("built_with", {})}

    @property
    def recipe(self) -> dict[str, int]:
        """The declared versions of the computation; empty if none were recorded."""
        return dict(self.lineage.get("ingredients", {}).get("recipe", {}))

    def to_json(self) -> dict[str, Any]:
        """Returns the joint manifest document."""
        return {
            "schema_version": versions.MANIFEST,
            "stage": self.stage,
            "key": self.key,
            "output_digest": self.output_digest(),
            "files": self.files,
            "stats": self.stats,
            "lineage": self.lineage,
            "seconds": self.seconds,
        }


CHECKSUM = "checksum"
"""The field for a checksum of the joint manifest's other fields, because settings, lineage and counts are reported."""
SECRET = "secret"  # noqa: S105  (the name of a field)
"""The field of the joint manifest for the fingerprint of the store's secret."""


def joint_document(manifest: Manifest, secret: bytes) -> dict[str, Any]:
    """Returns the joint manifest with the secret's fingerprint and a checksum."""
    document = {**manifest.to_json(), SECRET: fingerprint(secret)}
    return {**document, CHECKSUM: _checksum(document)}


def is_changed(document: Mapping[str, Any]) -> bool:
    """Returns True if a joint manifest was changed. Earlier manifests have no checksum, and are always accepted."""
    plain = {name: value for name, value in document.items() if name != CHECKSUM}
    stated = document.get(CHECKSUM)
    # The names of the fields are compared, or a manifest whose checksum was renamed would pass as an earlier one.
    known = {"schema_version", "stage", "key", "output_digest", "files", "stats", "lineage", "seconds", SECRET}
    return (stated is not None and stated != _checksum(plain)) or not known >= plain.keys()


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(document)).hexdigest()


def load(roots: Roots, stage: str, key: str) -> Manifest | None:
    """Reads the joint manifest of an artifact; None if the artifact does not exist or its manifest is damaged."""
    document = read_json(roots.manifest_path(stage, key))
    if not isinstance(document, dict) or document.get("schema_version") != versions.MANIFEST:
        return None
    try:
        manifest = Manifest(**{field.name: document[field.name] for field in fields(Manifest)})
        if manifest.key != key or manifest.output_digest() != document["output_digest"]:
            return None
        if is_changed(document):
            return None
    except (KeyError, TypeError, AttributeError):
        return None
    return manifest


@functools.lru_cache(maxsize=_KEPT)
def _loaded(roots: Roots, stage: str, key: str, version: tuple[int, ...]) -> Manifest | None:
    """Loads a manifest once per version of its file, because every partition asks for the same whole-corpus artifacts.

    A manifest that lists a file for each partition would otherwise be read once per partition, which takes the square
    of their number.
    """
    del version
    return load(roots, stage, key)


def of_input(roots: Roots, stage: str, key: str) -> Manifest:
    """Reads the joint manifest of an artifact that was found before.

    Raises:
        StoreError: the artifact is gone.
    """
    try:
        found = roots.manifest_path(stage, key).stat()
    except OSError:
        manifest = None
    else:
        manifest = _loaded(roots, stage, key, (found.st_ino, found.st_mtime_ns, found.st_size))
    if manifest is None:
        raise StoreError(f"the artifact {key[:12]} of stage {stage} vanished during the run; run again")
    return manifest


def measure(folder: Path, root: Root) -> dict[str, dict[str, Any]]:
    """Measures size and digest of the plaintext of every data file below a build folder (see `digest_file`).

    Raises:
        StageError: a file was written in plain into an encrypted root. It is removed.
    """
    names = {path.relative_to(folder).as_posix(): path for path in data_files(folder)}
    names.pop(MANIFEST, None)
    found = {f"{root}/{name}": {"size": size_of(path), "sha256": _digest(path, name)} for name, path in names.items()}
    if plain := [name for name, entry in found.items() if entry["sha256"] == DAMAGED]:
        for name in plain:
            names[name.partition("/")[2]].unlink()
        raise StageError(
            f"a stage wrote {plain[0]} in plain into an encrypted store, so it was removed and nothing was published; "
            "code of stages writes by ctx.out (docs/encryption.md)"
        )
    return found


def _digest(path: Path, name: str) -> str:
    """Computes a file's digest: SHA-256 if a release would publish the file, so that publishing keeps the digest."""
    if not name.startswith(f"{UNPUBLISHED}/"):
        return digest_file(path)
    try:
        return sha256_file(path)
    except DamagedFileError:
        return DAMAGED


def root_document(manifest: Manifest, root: Root) -> dict[str, Any]:
    """Returns the manifest that lies beside the files of one root.

    The public manifest says nothing about settings, inputs or timings. For a release it holds the length of the privacy
    ledger, so that the public root reveals a private root that was replaced by an older copy.
    """
    files = {path.partition("/")[2]: entry for path, entry in manifest.files.items() if path.startswith(f"{root}/")}
    document: dict[str, Any] = {"schema_version": versions.MANIFEST, "stage": manifest.stage, "files": files}
    if root == "private":
        return document | {"key": manifest.key, "stats": manifest.stats, "lineage": manifest.lineage}
    anchor = manifest.lineage.get("ledger")
    return document if anchor is None else document | {"ledger": anchor}


def write_root_manifest(folder: Path, root: Root, manifest: Manifest) -> None:
    """Flushes a folder's files, each once, and writes the manifest of one root's files beside them."""
    fsync_below(folder)
    write_json(folder / MANIFEST, root_document(manifest, root), 0o644 if root == "public" else 0o600)


def damage(roots: Roots, manifest: Manifest, *, full: bool) -> str | None:
    """Says why an artifact's files do not match its manifest; None if they do.

    Args:
        full: true to compare the digest of every file; otherwise only sizes are compared.
    """
    expected: dict[Root, set[str]] = {root: set() for root in manifest.roots}
    for path, entry in manifest.files.items():
        root: Root = "private" if path.startswith("private/") else "public"
        name = path.partition("/")[2]
        file = roots.object_dir(root, manifest.stage, manifest.key) / name
        expected.setdefault(root, set()).add(name)
        if not file.is_file():
            return f"{path} is missing"
        if size_of(file) != entry["size"]:
            return f"{path} has another size"
        if full and _digest(file, name) != entry["sha256"]:
            return f"{path} has other content"
    for root, names in expected.items():
        folder = roots.object_dir(root, manifest.stage, manifest.key)
        if not folder.is_dir():
            return f"the {root} folder is missing"
        if full and (extra := _names(folder) - names):
            return f"{len(extra)} unexpected files in the {root} folder"
    return None


def _names(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in data_files(folder)} - {MANIFEST}
