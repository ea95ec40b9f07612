"""A replacement that replaces nothing fails its test, and no test replaces anything in another way."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support import REPOSITORY, patches
from support.patches import Patch, PatchError, patch_for_process, patching

ELSEWHERE = {
    "tests/support/patches.py": "the helper",
    "tests/faults/inject.py": "counts the changes of files that it sees, and fails if there were none",
    "benchmarks/growth_copies.py": "has a test of its own: tests/benchmarks/test_benchmarks_growth_copies.py",
    "benchmarks/dp_contenders.py": "changes another library, in an environment of its own without our tests",
    "tests/test_patches.py": "shows what is found",
}
"""Files that replace code in another way, and why."""
NO_FAULTS = {
    ("tests/conftest.py", "providers._get_local_constants"): "CI draws the same examples each time",
    ("tests/conftest.py", "code.scan_source"): "remembers what our own files say, for speed",
    ("tests/conftest.py", "typer.main.get_command"): "made once, for speed",
    ("tests/support/loaded.py", "code.scan_source"): "remembers what our own files say, for speed",
    ("tests/support/warm_cli.py", "typer.main.get_command"): "made once, for speed",
    ("tests/dp/test_dp_waits.py", "patch.setattr"): "counts what asks for values; each test plants one to see that",
    ("tests/leaks/test_leaks_messages.py", "warnings.showwarning"): "what libraries say, kept to look at",
    ("tests/corpus/test_corpus_reader_cache.py", "columnar._READERS._reach"): "a field of an object the test put there",
    ("tests/store/test_store_recipes_of_audits.py", "monkeypatch.setitem"): "one more stage in the toy's graph",
    ("tests/miss_rate/test_miss_rate_rates.py", "Delta2.zero('test').upper"): "must raise",
}
"""Assignments that break nothing, by file and target."""
LIBRARIES = ("sys.", "torch.", "mp.", "SubElement(")
"""Settings of the interpreter and of libraries may be assigned."""
TOY = "tests/support/toy.py"
"""Puts another graph in the place of ours: all that its tests do reads it."""


class Raw(NamedTuple):
    """A replacement past the helper."""

    line: int
    code: str


def raw_replacements(tree: ast.Module) -> Iterator[Raw]:
    """Every replacement of code in a file, and in the programs that it holds as text."""
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {(name.asname or name.name).partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {name.asname or name.name for name in node.names}
            if node.module == "unittest.mock" or any(name.name == "mock" for name in node.names):
                yield Raw(node.lineno, "unittest.mock")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _by_call(node, imported)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in (part for whole in targets for part in _parts(whole)):
                code = ast.unparse(target) if isinstance(target, ast.Attribute) else ""
                if code and _root(target) in imported and not code.startswith(LIBRARIES):
                    yield Raw(node.lineno, code)
        elif "import " in (text := _text(node)):
            try:
                program = ast.parse(text)
            except SyntaxError:
                continue
            yield from (Raw(node.lineno, raw.code) for raw in raw_replacements(program))


def _by_call(node: ast.Call, imported: set[str]) -> Iterator[Raw]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if isinstance(node.func, ast.Attribute) and name in ("setattr", "delattr", "setitem"):
        yield Raw(node.lineno, ast.unparse(node.func))
    if isinstance(node.func, ast.Name) and name in ("setattr", "delattr") and _root(node.args[0]) in imported:
        yield Raw(node.lineno, ast.unparse(node))


def _text(node: ast.AST) -> str:
    """A string; of one with holes, with a name in each."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "hole" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        yield from (part for element in target.elts for part in _parts(element))
    else:
        yield target


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def found_in_the_tree() -> list[tuple[str, Raw]]:
    files = [path for folder in ("tests", "benchmarks") for path in sorted((REPOSITORY / folder).rglob("*.py"))]
    return [
        (str(path.relative_to(REPOSITORY)), raw)
        for path in files
        for raw in raw_replacements(ast.parse(path.read_text("utf-8")))
    ]


def test_nothing_is_replaced_past_the_helper() -> None:
    found = found_in_the_tree()
    left = [f"{name}:{raw.line}: {raw.code}" for name, raw in found if name not in ELSEWHERE and name != TOY]
    left = [line for line in left if not any(line.startswith(f"{n}:") and line.endswith(f" {c}") for n, c in NO_FAULTS)]
    assert left == [], "use the fixture `patch`, or `patching()`; in a program, `patches.SOURCE`"
    assert {(name, raw.code) for name, raw in found} >= set(NO_FAULTS), "take out what is gone"
    assert {name for name, _ in found} >= set(ELSEWHERE) - {"tests/support/patches.py"}, "take out what is gone"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def test(monkeypatch):\n    monkeypatch.setattr(module, 'name', f)", "monkeypatch.setattr"),
        ("from unittest import mock", "unittest.mock"),
        ("from unittest.mock import patch as other", "unittest.mock"),
        ("from pipelines.dp import clipping\nclipping.clip_factors = f", "clipping.clip_factors"),
        ("import pipelines.dp\na, pipelines.dp.b = 1, 2", "pipelines.dp.b"),
        ("from pipelines.dp import clipping\nsetattr(clipping, 'f', 1)", "setattr(clipping, 'f', 1)"),
        ("CODE = 'import flows.cli; flows.cli.main = lambda: None'", "flows.cli.main"),
        ("CODE = f'{start}\\nimport flows.cli\\nflows.cli.main = {fault}'", "flows.cli.main"),
        ("monkeypatch.setitem(sys.modules, 'torch', None)", "monkeypatch.setitem"),
        ("monkeypatch.setenv('A', 'b')\nimport sys\nsys.argv = []\nself.name = 1", None),
    ],
)
def test_each_way_to_replace_is_seen(code: str, found: str | None) -> None:
    assert [raw.code for raw in raw_replacements(ast.parse(code))] == ([found] if found else [])


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> types.ModuleType:
    """A module with a function, a class, a constant that is read, and one that is not."""
    name = f"patched_{tmp_path.name}"
    text = "READ, UNREAD = 1, 2\n\ndef f():\n    return READ\n\nclass C:\n    def g(self):\n        return f()\n"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return __import__(name)


def test_what_is_used_passes_and_is_put_back(module: types.ModuleType) -> None:
    with patching() as patch:
        patch(module, "f", lambda: 5)
        patch.constant(module, "READ", 6)
        assert module.C().g() == 5
    assert module.C().g() == 1
    with patching() as patch:
        patch(f"{module.__name__}.C", "g", lambda self: 7)
        assert module.C().g() == 7
    with patching() as patch:
        patch(module, "f", lambda: 8)
        if (child := os.fork()) == 0:
            os._exit(module.f())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8
    with patching() as patch:
        patch(module, "f", lambda: 9, read_by=module)  # of a fixture: this test may call it, or not
    with patching() as patch:
        patch.missing_module("json.tool")
        with pytest.raises(ModuleNotFoundError):
            __import__("json.tool")
    __import__("json.tool")


def test_what_is_not_used_fails(module: types.ModuleType) -> None:
    def unused(patch: Patch) -> None:
        patch(module, "f", lambda: 5)

    def called(patch: Patch) -> None:
        patch(module, "f", lambda: 5, never_called=True)
        module.f()

    def moved(patch: Patch) -> None:
        other = types.SimpleNamespace(f=module.f)
        patch(module, "f", lambda: 5)
        assert other.f() == 1

    for use, said in ((unused, "never called"), (called, "nothing calls it"), (moved, "never called")):
        made = Patch()
        use(made)
        with pytest.raises(PatchError, match=said):
            made.undo()
        assert module.f() == 1
    made = Patch()
    made.missing_module("json.tool")
    with pytest.raises(PatchError, match=r"json\.tool"):
        made.undo()
    with pytest.raises(PatchError, match="reads UNREAD"):
        made.constant(module, "UNREAD", 3)
    with pytest.raises(PatchError, match="reads UNREAD"):
        made(module, "UNREAD", lambda: 5, read_by=module)
    with pytest.raises(PatchError, match="which counts its calls"):
        made.constant(module, "f", lambda: 5)
    with pytest.raises(PatchError, match=r"use patch\.constant"):
        made(module, "READ", 3)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        made(module, "no_such_name", lambda: 5)
    with pytest.raises(PatchError, match="no entry"):
        made.item({}, "a", 1)


def test_an_error_of_the_test_is_what_is_told(module: types.ModuleType) -> None:
    def fails() -> None:
        with patching() as patch:
            patch(module, "f", lambda: 5)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert module.f() == 1


@pytest.mark.parametrize(("call", "code"), [("textwrap.dedent('')", 0), ("0", 97)])
def test_a_program_ends_with_an_error_if_nothing_called_its_replacement(call: str, code: int) -> None:
    program = f"{patches.SOURCE}\nimport textwrap\npatch_for_process(textwrap, 'dedent', lambda text: '')\n{call}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, "never called" in done.stderr) == (code, code == 97)


def test_a_call_leaves_a_mark(module: types.ModuleType, tmp_path: Path) -> None:
    patch_for_process(module, "f", lambda: 5, mark=str(tmp_path / "mark"))
    assert not (tmp_path / "mark").exists()
    assert module.f() == 5
    assert (tmp_path / "mark").exists()
