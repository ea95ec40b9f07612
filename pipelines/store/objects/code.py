"""Digests of the code that an artifact depends on. They ignore comments, docstrings and layout.

The digests cover a stage's module, the modules that its settings select, and all modules of Reticent that these import,
directly or not. Data files beside those modules count by content. A user's plug-in counts by its file's content, with
the files beside it that it imports.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pipelines
from pipelines.store.place.disk import sha256_file
from pipelines.store.place.statcache import StatCache

_PACKAGE = "pipelines"
_FRONT = "reticent"
"""The package of public names, which plug-ins import. The modules behind the names count, and this package does not."""
_ROOT = Path(pipelines.__file__).parent.parent
_NOT_DATA = {".py", ".pyc", ".pyi", ".typed"}


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yields the module and its statements. No statement is inside an expression, and most nodes are expressions.

    A node comes before the nodes of its body.
    """
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            pending.extend(getattr(node, field, ()))


def _strip_docstrings(tree: ast.Module) -> None:
    for node in _statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]


def _imports(tree: ast.Module, module: str, is_package: bool) -> set[str]:
    found: set[str] = set()
    package = module if is_package else module.rpartition(".")[0]
    is_ours = (
        module.split(".")[0] == _PACKAGE
    )  # the keys of models hold digests of other packages, which must not change
    for node in _statements(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" and is_ours:
            node.body = []  # no run executes it
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            source = ".".join(p for p in (base, node.module or "") if p)
            found.add(source)
            found.update(f"{source}.{alias.name}" for alias in node.names)  # a submodule, or just a name
    return found


def scan_source(path: Path, module: str) -> dict[str, Any]:
    """Returns the digest of one Python file's syntax tree, and the names of the modules that it may import."""
    tree = ast.parse(path.read_bytes(), filename=path.name)
    _strip_docstrings(tree)
    digest = hashlib.sha256(ast.dump(tree, include_attributes=False).encode()).hexdigest()
    imports = _imports(tree, module, path.name == "__init__.py")
    return {"digest": digest, "imports": sorted(imports)}


@functools.cache
def _locate(module: str, root: Path) -> Path | None:
    path = root.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


class CodeDigests:
    """Computes code digests, remembering each file's scan in a `StatCache`."""

    def __init__(self, cache: StatCache) -> None:
        self._cache = cache
        self._known: dict[tuple[Path, str], tuple[dict[str, str], list[str]]] = {}

    def of(self, references: Iterable[str]) -> dict[str, str]:
        """Returns every file that the references reach, with its digest.

        Args:
            references: names of Reticent's or a plug-in's modules, or paths of files.

        Returns:
            Relative path (Reticent) or reference (plug-ins) to digest. A plug-in that cannot be found gets a value that
            never repeats, so that artifacts that depend on it are never taken from the store.
        """
        digests: dict[str, str] = {}
        for reference in references:
            if reference.split(".")[0] == _PACKAGE and _locate(reference, _ROOT) is not None:
                self._follow(reference, _ROOT, digests)
            elif Path(reference).is_file():
                digests[f"file:{Path(reference).name}"] = sha256_file(Path(reference))
            else:
                self._plug_in(reference, digests)
        return dict(sorted(digests.items()))

    def of_others(self, references: Iterable[str]) -> dict[str, str]:
        """Returns the same as `of`, without Reticent's own files, for which a declared version stands."""
        return {name: digest for name, digest in self.of(references).items() if not name.startswith(f"{_PACKAGE}/")}

    def of_data(self, files: Iterable[str]) -> dict[str, str]:
        """Returns the digests of data files by their number, because their names may be secrets.

        A missing file counts as ``missing``. The stage that reads it reports it.
        """
        paths = map(Path, files)
        return {
            f"data file {number}": self._cache.get(path, "data", sha256_file) if path.is_file() else "missing"
            for number, path in enumerate(paths, start=1)
        }

    def _plug_in(self, reference: str, digests: dict[str, str]) -> None:
        top = reference.split(".")[0]
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            spec = None
        if spec is None or spec.origin is None or not Path(spec.origin).is_file():
            digests[f"unresolved:{reference}"] = secrets.token_hex(16)
            return
        origin = Path(spec.origin)
        root = origin.parent.parent if origin.name == "__init__.py" else origin.parent
        if _locate(reference, root) is None:
            digests[f"unresolved:{reference}"] = secrets.token_hex(16)
        else:
            self._follow(reference, root, digests)

    def _follow(self, module: str, root: Path, digests: dict[str, str]) -> None:
        pending = _with_parents(module)
        seen: set[str] = set()
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            home = _ROOT if name.split(".")[0] in (_PACKAGE, _FRONT) else root  # a plug-in may import our modules
            if (home, name) not in self._known:
                self._known[(home, name)] = self._scan(name, home)
            found, imported = self._known[(home, name)]
            digests.update(found)
            pending.extend(imported)

    def _scan(self, name: str, root: Path) -> tuple[dict[str, str], list[str]]:
        """Returns the digests of one module and of the data beside it, and our modules that it imports."""
        path = _locate(name, root)
        if path is None:
            return {}, []  # a name inside a module, or a package that is not ours
        scan = self._cache.get(path, f"run code:{name}", functools.partial(scan_source, module=name))
        if name.split(".")[0] == _FRONT:
            behind = (i for i in scan["imports"] if i.split(".")[0] == _PACKAGE and path.name != "__init__.py")
            return {}, [parent for i in behind for parent in _with_parents(i)]
        digests = {path.relative_to(root).as_posix(): scan["digest"]}
        if root == _ROOT:
            for file in _data_beside(path.parent):
                digests[file.relative_to(root).as_posix()] = self._cache.get(file, "data", sha256_file)
        ours = (i for i in scan["imports"] if root != _ROOT or i.split(".")[0] == _PACKAGE)
        return digests, [parent for i in ours for parent in _with_parents(i)]


@functools.cache
def _data_beside(folder: Path) -> tuple[Path, ...]:
    return tuple(
        f for f in sorted(folder.iterdir()) if f.suffix not in _NOT_DATA and not f.name.startswith(".") and f.is_file()
    )
