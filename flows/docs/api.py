"""Generates the pages of the public API in ``docs/api/`` from its docstrings: ``python -m flows.docs.api``."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pipelines.printable import first_sentence

_PUBLIC: Final = "reticent"  # imported by name: no import of ours goes upwards
FOLDER: Final = Path(__file__).parents[2] / "docs" / "api"
_PAGES: Final = {
    **{name: (name,) for name in ("dp", "policies", "accounting", "miss_rate", "runs", "models")},
    "plugins": (
        "plugins",
        *(f"plugins.{kind}" for kind in ("policies", "readers", "methods", "tasks", "training", "layers")),
    ),
    "errors": ("errors",),
}
_MODULES: Final = tuple(name for names in _PAGES.values() for name in names)
_SECTION: Final = re.compile(r"(Args|Attributes|Returns|Raises|Yields):$")
_ENTRY: Final = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*): (.*)")
_REFERENCE: Final = re.compile(r"`((?:pipelines|flows)\.[\w.]+)`")
_QUALIFIED: Final = re.compile(r"\b(?:\w+\.)+(?=\w)")
_HEADING: Final = re.compile(r"^#(?=#+ )", re.MULTILINE)
_LINE: Final = 100

_POLICY: Final = """# The public API

`make docs` makes these pages from the docstrings, one for each module. Every example runs as a test.

```python
import reticent
```

loads nothing else. Each part loads its dependencies when you first use it. No part needs Prefect, and only
`reticent.dp` and trained models need torch.

**What is public.**

- the names on these pages, with their documented arguments, attributes, results and error types
- the command line, with its JSON and exit codes
- the [settings](../settings.md)
- the [tables and their columns](../inspecting.md)
- the [interfaces of plug-ins](../extending.md).

**What is not.** Every import of `pipelines`, `flows` or `tasks`, names that begin with `_`, the texts of messages and
reports, the layout inside a store, and the bytes of a model. They can change in any version.

**Versions** are semantic (`reticent.__version__`). A patch version changes no public name, and changes a promise only
to correct it. A minor version adds names. A major version may remove names. Before 1.0.0 a minor version may remove
what was deprecated. A *guarantee* that turns out wrong is corrected in any version, and the changelog lists it in a
section of its own. Nothing in a store depends on the version: an upgrade alone reruns no stage unless the stage's code
changed.

**Deprecations.** A deprecated name stays for at least one more minor version: deprecated in 0.3, it works in 0.3 and
0.4, and is removed in 0.5 at the earliest. Until then each use gives a `DeprecationWarning` that names the version of
its removal and the replacement, and the changelog lists it under "Deprecated".
"""


def pages() -> dict[str, str]:
    """Returns the pages by file name: an overview, and a page for each module. The parts of ``plugins`` share one."""
    made = {"README.md": "\n\n".join([_POLICY.strip("\n"), "\n".join(_top())])}
    for page, names in _PAGES.items():
        first, *others = ("\n\n".join(_module(name)) for name in names)
        made[f"{page}.md"] = "\n\n".join([_HEADING.sub("", first), *others])
    replaced = {
        name: _REFERENCE.sub(lambda found: f"`{_names().get(found[1], found[1])}`", text) for name, text in made.items()
    }
    return {name: text + "\n" for name, text in replaced.items()}


def _module(name: str) -> list[str]:
    """Returns the parts of a module: its docstring, and an entry for each public name."""
    module = importlib.import_module(f"{_PUBLIC}.{name}")
    parts = ["\n".join([f"## {module.__name__}", "", *_markdown(inspect.getdoc(module) or "")])]
    parts += ["\n".join(_entry(module, attribute)) for attribute in getattr(module, "__all__", ())]
    return [part.strip("\n") for part in parts]


def _top() -> list[str]:
    """Returns a table of the names in the package itself."""
    package = importlib.import_module(_PUBLIC)
    lines = ["## reticent", "", *_markdown(inspect.getdoc(package) or ""), "", "| name | is |", "|---|---|"]
    for name in package.__all__:
        found = getattr(package, name)
        if isinstance(found, ModuleType):
            lines.append(f"| [`reticent.{name}`]({name}.md) | {_first_line(found)} |")
        elif not name.startswith("__"):
            place = _names()[_place(found)]
            link = f"{place.split('.')[1]}.md#{place.replace('.', '').lower()}"
            lines.append(f"| `reticent.{name}` | [`{place}`]({link}): {_first_line(found)} |")
    return lines


def _first_line(found: Any) -> str:
    return _plain(first_sentence((inspect.getdoc(found) or "").split("\n\n")[0].replace("\n", " ")))


def _is_defined(found: Any) -> bool:
    """Checks if it is a class or a function, and not a constant or a type alias."""
    return inspect.isclass(found) or inspect.isfunction(inspect.unwrap(found))


def _place(found: Any) -> str:
    return f"{found.__module__}.{getattr(found, '__qualname__', '')}"


def _names() -> dict[str, str]:
    """Returns public names by the place of their definition. The first module that has a name counts."""
    names: dict[str, str] = {}
    for name in _MODULES:
        module = importlib.import_module(f"{_PUBLIC}.{name}")
        for attribute in getattr(module, "__all__", ()):
            found = getattr(module, attribute)
            if _is_defined(found):
                names.setdefault(_place(found), f"{module.__name__}.{attribute}")
    return names


def _entry(module: ModuleType, name: str) -> list[str]:
    """Returns the entry of one name: its signature, its docstring, and for a class its public members."""
    found, heading = getattr(module, name), [f"### {module.__name__}.{name}", ""]
    place = _names().get(_place(found)) if _is_defined(found) else None
    if place is not None and place != f"{module.__name__}.{name}":
        return [*heading, f"See `{place}`."]
    if inspect.isclass(found):
        return [*heading, *_class(found, name)]
    if _is_defined(found):
        return [*heading, *_signature(found, name), "", *_markdown(inspect.getdoc(found) or "")]
    return [*heading, *_constant(module, name, found)]


def _class(found: type, name: str) -> list[str]:
    lines: list[str] = []
    if is_dataclass(found) or "__init__" in vars(found) or hasattr(found, "_fields"):
        lines += [*_signature(found, name), ""]
    elif hasattr(found, "__total__"):  # a dictionary of options
        options = [f"    {option}: {_forward(kind)}," for option, kind in found.__annotations__.items()]
        lines += ["```python", "\n".join([f"{name}(", *options, ")"]), "```", ""]
    elif issubclass(found, Exception):
        code = getattr(found, "exit_code", 5)
        lines += [f"Base: `{found.__bases__[0].__name__}`. Exit code of the command line: {code}.", ""]
    lines += _markdown(inspect.getdoc(found) or "")
    if issubclass(found, enum.Enum):
        lines += ["", *(f"* `{member.name}` = `{member.value!r}`" for member in found)]
    for attribute, value in vars(found).items():
        if attribute.startswith("_") or issubclass(found, enum.Enum):
            continue
        if isinstance(value, property):
            annotation = inspect.signature(value.fget).return_annotation if value.fget else ""
            lines += ["", f"#### {name}.{attribute}: `{annotation}`", "", *_markdown(inspect.getdoc(value) or "")]
        elif isinstance(value, classmethod | staticmethod) or (inspect.isfunction(value) and inspect.getdoc(value)):
            shown = _signature(getattr(found, attribute), f"{name}.{attribute}")
            lines += ["", f"#### {name}.{attribute}", "", *shown, "", *_markdown(inspect.getdoc(value) or "")]
    return lines


def _constant(module: ModuleType, name: str, found: Any) -> list[str]:
    """Returns the entry of a constant or a type alias."""
    if isinstance(found, tuple):
        return [f"* {line}" for line in found]
    return [f"`{name} = {_QUALIFIED.sub('', str(found))}`"]


def _signature(found: Any, name: str) -> list[str]:
    signature = inspect.signature(found)
    parts: list[str] = []
    last = None
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and last not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            parts.append("*")
        star = "*" * ((parameter.kind is parameter.VAR_POSITIONAL) + 2 * (parameter.kind is parameter.VAR_KEYWORD))
        annotation = "" if parameter.annotation is parameter.empty else f": {_type(parameter.annotation)}"
        default = "" if parameter.default is parameter.empty else f"{' = ' if annotation else '='}{_default(parameter)}"
        parts.append(f"{star}{parameter.name}{annotation}{default}")
        last = parameter.kind
    returns = signature.return_annotation
    end = "" if returns is signature.empty or inspect.isclass(found) else f" -> {_type(returns)}"
    line = f"{name}({', '.join(parts)}){end}"
    if len(line) > _LINE:
        line = "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){end}"])
    return ["```python", line, "```"]


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _forward(annotation: Any) -> str:
    return annotation.__forward_arg__ if hasattr(annotation, "__forward_arg__") else _type(annotation)


def _default(parameter: inspect.Parameter) -> str:
    if isinstance(parameter.default, enum.Enum):
        return repr(parameter.default.value)
    return "..." if repr(parameter.default).startswith("<") else repr(parameter.default)


def _markdown(doc: str) -> list[str]:
    """Converts a Google docstring to Markdown: sections to lists, examples to code."""
    return list(_converted(doc.splitlines()))


def _converted(lines: list[str]) -> Iterator[str]:
    section, in_code = None, False
    for line in lines:
        stripped = line.strip()
        is_code = stripped.startswith((">>> ", "... ")) or stripped == "..." or (in_code and stripped != "")
        if is_code != in_code:
            yield "```pycon" if is_code else "```"
            in_code = is_code
        if is_code:
            yield line.removeprefix("    ")
        elif found := _SECTION.fullmatch(line):
            section = found[1]
            yield f"**{section}**"
            yield ""
        elif section and line.startswith("    ") and not line.startswith("     "):
            entry = _ENTRY.fullmatch(stripped)
            is_listed = entry is not None and section not in ("Returns", "Yields")
            yield f"* `{entry[1]}`: {_plain(entry[2])}" if entry and is_listed else f"{_plain(stripped)}"
        elif section and line.startswith("     "):
            yield f"  {_plain(stripped)}"
        else:
            section = section if not stripped else None
            yield _plain(line)
    if in_code:
        yield "```"


def _plain(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|") if "``" in text else text


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")
