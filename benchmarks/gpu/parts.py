"""Models in parts, for machines that accept no large file: cut here, joined where they are used.

    python -m benchmarks.gpu.parts FOLDER --out PARTS [--megabytes 45]

Every file of ``FOLDER`` becomes pieces ``NAME.part-000``, …, and ``parts.json`` says which files they make, with the
SHA-256 of each piece and of each file. Pieces may be brought one at a time; `join` says which are missing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

INDEX: Final = "parts.json"
MAX_MEGABYTES: Final = 50
_MEGABYTE: Final = 2**20


class PartsError(ValueError):
    """An error of missing or damaged pieces."""


def split(folder: Path, out: Path, megabytes: int = 45) -> Path:
    """Cuts the files of a folder, not those below it.

    Raises:
        PartsError: pieces larger than `MAX_MEGABYTES`, or a folder without files.
    """
    if not 1 <= megabytes <= MAX_MEGABYTES:
        raise PartsError(f"a part has between 1 and {MAX_MEGABYTES} MB, not {megabytes}")
    files = sorted(path for path in folder.iterdir() if path.is_file())
    if not files:
        raise PartsError("the folder has no files")
    out.mkdir(parents=True, exist_ok=True)
    index: dict[str, Any] = {}
    for file in files:
        whole, pieces = hashlib.sha256(), []
        with file.open("rb") as source:
            while (piece := source.read(megabytes * _MEGABYTE)) or not pieces:
                name = f"{file.name}.part-{len(pieces):03}"
                (out / name).write_bytes(piece)
                pieces.append({"name": name, "sha256": hashlib.sha256(piece).hexdigest(), "bytes": len(piece)})
                whole.update(piece)
        index[file.name] = {"sha256": whole.hexdigest(), "parts": pieces}
    (out / INDEX).write_text(json.dumps(index, indent=1) + "\n", "utf-8")
    return out / INDEX


def join(parts: Path, out: Path) -> Path:
    """Joins the parts of a folder; whole files that exist are not written again.

    Raises:
        PartsError: a piece is missing or is not the one that was cut, or the index names a place outside the folder.
    """
    index = json.loads((parts / INDEX).read_text("utf-8"))
    pieces = [piece for file in index.values() for piece in file["parts"]]
    names = [*index, *(piece["name"] for piece in pieces)]
    if any(Path(name).name != name for name in names):
        raise PartsError("the index names a place outside its folder")
    missing = [piece["name"] for piece in pieces if not (parts / piece["name"]).is_file()]
    if missing:
        raise PartsError(f"{len(missing)} of {len(pieces)} parts are missing: {', '.join(missing[:8])}")
    out.mkdir(parents=True, exist_ok=True)
    for name, file in index.items():
        target = out / name
        if target.is_file() and _digest(target) == file["sha256"]:
            continue
        new = out / f"{name}.new"
        with new.open("wb") as sink:
            for piece in file["parts"]:
                content = (parts / piece["name"]).read_bytes()
                if hashlib.sha256(content).hexdigest() != piece["sha256"]:
                    raise PartsError(f"{piece['name']} is damaged: bring it again")
                sink.write(content)
        if _digest(new) != file["sha256"]:
            raise PartsError(f"{name}: the parts are whole and make another file; cut it again")
        new.replace(target)
    return out


def models_in(folder: Path | None, joined: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Returns the models below a folder, by name, and the reasons why others are not ready.

    A folder with ``config.json`` is one as it is; one with ``parts.json`` is joined below ``joined``.
    """
    ready: dict[str, Path] = {}
    waiting: dict[str, str] = {}
    for path in sorted(folder.iterdir()) if folder is not None else []:
        if (path / "config.json").is_file():
            ready[path.name] = path.absolute()
        elif (path / INDEX).is_file():
            try:
                ready[path.name] = join(path, joined / path.name).absolute()
            except PartsError as error:
                waiting[path.name] = str(error)
    return ready, waiting


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.parts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--megabytes", type=int, default=45)
    given = parser.parse_args(arguments)
    try:
        print(split(given.folder, given.out, given.megabytes))
    except PartsError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
