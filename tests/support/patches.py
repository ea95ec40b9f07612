"""Replaces parts of the code for the length of a test, and fails a test whose replacement was never used.

All deliberate faults go through this file. A replacement that nothing calls proves nothing: when a function moves, the
test that broke it goes on with the correct one. Each form therefore asserts that the name existed, and then one thing:

* ``patch(module, "name", function)``: that the function was called, in this process or in one forked from it;
* ``patch(module, "name", function, never_called=True)``: that it was not called, even if its error was caught;
* ``patch.constant(module, "NAME", value)``: that a function of the module reads the name, since a value has no calls;
* ``patch.item(mapping, key, value)``: that the mapping had the key, and that a function was called;
* ``patch.missing_module(name)``: that something tried to import the module.

Programs of other processes use `SOURCE`, or `patch_for_process` if they import this file.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import mmap
import sys
import types
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class PatchError(AssertionError):
    """A replacement that was not used as the test says."""


class Uses:
    """Whether a replacement was called, here or in a process forked from this one."""

    def __init__(self, name: str, never_called: bool) -> None:
        self.name, self.never_called = name, never_called
        self._shared = mmap.mmap(-1, 1)

    def seen(self) -> None:
        """Notes a call."""
        self._shared[0] = 1

    def check(self) -> None:
        """Raises if the replacement was called and should not have been, or the other way round."""
        was_called = bool(self._shared[0])
        if was_called and self.never_called:
            raise PatchError(f"{self.name} was called, and the test says that nothing calls it")
        if not was_called and not self.never_called:
            raise PatchError(f"the replacement of {self.name} was never called: the test proves nothing")


class Patch:
    """Replacements that are undone, and looked at, together."""

    def __init__(self) -> None:
        import pytest  # not where a benchmark measures memory

        self._undo = pytest.MonkeyPatch()
        self._uses: list[Uses] = []

    def __call__(
        self,
        target: Any,
        name: str,
        replacement: Callable[..., Any],
        *,
        never_called: bool = False,
        read_by: Any = None,
    ) -> None:
        """Replaces a function or a class, which must be called before the replacement ends.

        With ``read_by``, for a fixture of many tests of which not each calls it, a function of that module must read
        the name instead.
        """
        target = _named(target)
        if read_by is not None:
            _check_is_read(target, name, read_by)
            self._undo.setattr(target, name, replacement)
            return
        uses = Uses(f"{_title(target)}.{name}", never_called)
        self._undo.setattr(target, name, _counted(replacement, uses, target))
        self._uses.append(uses)

    def constant(self, target: Any, name: str, value: Any, *, read_by: Any = None) -> None:
        """Replaces a value that a function of the target's module, or of ``read_by``, reads by this name."""
        target = _named(target)
        _check_is_value(target, name, value)
        _check_is_read(target, name, read_by)
        self._undo.setattr(target, name, value)

    def item(self, mapping: MutableMapping[Any, Any], key: Any, value: Any) -> None:
        """Replaces an entry of a mapping, which must have it. A function must be called, as above."""
        if key not in mapping:
            raise PatchError(f"there is no entry {key!r} to replace")
        if callable(value):
            self._uses.append(Uses(f"the entry {key!r}", never_called=False))
            value = _counted(value, self._uses[-1], None)
        self._undo.setitem(mapping, key, value)

    def missing_module(self, name: str) -> None:
        """Makes an import of a module fail as if it were not installed. Something must try."""
        uses = Uses(f"the module {name}", never_called=False)

        class Missing:
            @staticmethod
            def find_spec(fullname: str, path: Any = None, target: Any = None) -> None:
                if fullname == name:
                    uses.seen()
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        self._undo.delitem(sys.modules, name, raising=False)
        self._undo.setattr(sys, "meta_path", [Missing, *sys.meta_path])
        self._uses.append(uses)

    def undo(self) -> None:
        """Puts everything back, then fails if a replacement was not used as the test says."""
        used, self._uses = self._uses, []
        self._undo.undo()
        for uses in used:
            uses.check()

    def put_back(self) -> None:
        """Puts everything back without looking at it, after an error that says more."""
        self._uses.clear()
        self._undo.undo()


@contextmanager
def patching() -> Iterator[Patch]:
    """Replacements for the length of a block."""
    patch = Patch()
    try:
        yield patch
    except BaseException:
        patch.put_back()
        raise
    patch.undo()


@contextmanager
def killed_at(target: Any, name: str) -> Iterator[None]:
    """A block that ends, as by Ctrl-C, where it calls a function."""
    import pytest

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with patching() as patch:
        patch(target, name, killed)
        with pytest.raises(KeyboardInterrupt):
            yield


def patch_for_process(target: Any, name: str, replacement: Callable[..., Any], mark: str | None = None) -> None:
    """Replaces a function for the rest of this process, which ends with 97 if nothing called it.

    A process that is killed, or whose children call the function, has a file ``mark`` made by each call instead.
    """
    import atexit
    import functools
    import importlib
    import os
    import sys

    if isinstance(target, str):
        target = importlib.import_module(target)
    getattr(target, name)
    calls = []

    @functools.wraps(replacement, updated=())
    def counted(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if mark is not None:
            os.close(os.open(mark, os.O_CREAT))
        return replacement(*arguments, **named)

    def end() -> None:
        if not calls:
            print(f"the replacement of {name} was never called: the test proves nothing", file=sys.stderr, flush=True)
            sys.stdout.flush()
            os._exit(97)

    setattr(target, name, counted)
    if mark is None:
        atexit.register(end)


def set_for_process(target: Any, name: str, value: Any) -> None:
    """Replaces a constant for the rest of this process, as `Patch.constant` does for a test."""
    target = _named(target)
    _check_is_value(target, name, value)
    _check_is_read(target, name, None)
    getattr(target, name)
    setattr(target, name, value)


SOURCE = f"from collections.abc import Callable\nfrom typing import Any\n\n\n{inspect.getsource(patch_for_process)}\n"
"""`patch_for_process` as text, to stand at the start of a program that another process runs."""


def _named(target: Any) -> Any:
    """A module or class, given itself or by its dotted name."""
    if not isinstance(target, str):
        return target
    module, name = target, []
    while True:
        try:
            found = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            name.insert(0, last)
            if not module:
                raise
    return functools.reduce(getattr, name, found)


def _check_is_value(target: Any, name: str, value: Any) -> None:
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType):
        raise PatchError(f"{_title(target)}.{name} is a function: use patch(...), which counts its calls")


def _check_is_read(target: Any, name: str, read_by: Any) -> None:
    if not any(name in _reads(module) for module in _modules(_named(read_by) if read_by else target)):
        raise PatchError(f"no function beside {_title(target)} reads {name}: the test proves nothing")


def _title(target: Any) -> str:
    return getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or type(target).__qualname__


def _counted(replacement: Any, uses: Uses, target: Any) -> Any:
    """The replacement, which notes its calls."""
    if isinstance(replacement, classmethod | staticmethod):
        return type(replacement)(_counted(replacement.__func__, uses, None))
    if isinstance(replacement, type):

        def new(cls: type, *arguments: Any, **named: Any) -> Any:
            uses.seen()
            make = replacement.__new__
            return make(cls) if make is object.__new__ else make(cls, *arguments, **named)

        return types.new_class(replacement.__name__, (replacement,), exec_body=lambda body: body.update(__new__=new))
    if not callable(replacement):
        raise PatchError(f"{uses.name} is no function: use patch.constant")

    def counted(*arguments: Any, **named: Any) -> Any:
        uses.seen()
        return replacement(*arguments, **named)

    if isinstance(replacement, types.FunctionType):
        return functools.wraps(replacement)(counted)
    return staticmethod(counted) if isinstance(target, type) else counted


def _modules(target: Any) -> Iterator[types.ModuleType]:
    """The modules whose functions may read an attribute of the target."""
    if isinstance(target, types.ModuleType):
        yield target
        return
    for cls in (target if isinstance(target, type) else type(target)).__mro__:
        if (module := sys.modules.get(cls.__module__)) is not None and getattr(module, "__file__", None):
            yield module


@functools.cache
def _reads(module: types.ModuleType) -> frozenset[str]:
    """Names, and attributes, that code inside the functions of a module reads."""
    assert module.__file__ is not None
    functions = [
        node
        for node in ast.walk(ast.parse(Path(module.__file__).read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    bodies = [f.body if isinstance(f.body, list) else [f.body] for f in functions]
    inside = [node for body in bodies for statement in body for node in ast.walk(statement)]
    return frozenset(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in inside
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    )
