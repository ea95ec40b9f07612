"""Generates the page "Formats": a table of all formats, and a short real file of each one."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pipelines.corpus.formats import FORMATS

_ROOT: Final = Path(__file__).parents[2]
_EXAMPLES: Final = _ROOT / "tests" / "corpus"
PAGE: Final = _ROOT / "docs" / "formats.md"
_LINES: Final = 24
_CHARS: Final = 1_500
_WIDTH: Final = 150
_BINARY: Final = ("pdf", "docx", "parquet", "huggingface")

_INTRODUCTION: Final = """# Formats

`reticent init DIR --input FOLDER` finds the format of each file, and writes it into your settings. It reads the files
as a run would, so its counts of documents and rows are those of a run. If several readings are plausible, it shows the
first rows of the best two in the terminal, and asks. Without a terminal, add `--yes`: it then takes the best reading,
and says so. With `--json`, it ends with one line for programs, which quotes the first texts.

In `reticent.toml` you can give a format in `corpus.format`, or for files of one pattern in `[[corpus.source]]`. The
format `skip` leaves files out. [Your own text](corpora.md) describes fields, mails, languages and sentences.
[Settings](settings.md#corpus) lists all settings.

`make docs` makes this page from the code that reads the files. A test reads every example.
"""


def formats_page() -> str:
    """Returns the page as Markdown."""
    examples: dict[str, Any] = {}
    for name, example in all_examples():
        examples.setdefault(name, example)
    parts = [_INTRODUCTION, *_table(), ""]
    for name, spec in FORMATS.items():
        files = ", ".join(f"`{suffix}`" for suffix in spec.kinds)
        settings = ", ".join(f"`{field}`" for field in spec.settings)
        about = f"A document is {spec.document}. Files: {files}." + f" Settings: {settings}." * bool(settings)
        parts += [f"## {name}", "", about, ""]
        if name in examples:
            parts += _example(name, examples[name], spec.example)
    return "\n".join(parts).rstrip() + "\n"


def all_examples() -> list[tuple[str, Any]]:
    """Returns pairs of a format's name and an example, the first one of a format being the one of the page."""
    return [pair for module in _modules() for pair in _pairs(module)]


def _pairs(module: ModuleType) -> Iterator[tuple[str, Any]]:
    formats = getattr(module, "FORMATS", {})
    for name, example in module.EXAMPLES.items():
        yield formats.get(name, name), example
    yield from getattr(module, "MORE", ())


def _modules() -> Iterator[ModuleType]:
    """Imports the modules of examples, which belong to the tests."""
    for folder in (_ROOT, _ROOT / "tests", _EXAMPLES):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    for path in sorted(_EXAMPLES.glob("format_examples_*.py")):
        name = path.stem
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, path)
            if spec is None or spec.loader is None:
                raise ImportError(name)
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        yield sys.modules[name]


def _table() -> list[str]:
    lines = ["| `format` | Files | A document is | Known secrets |", "|" + "---|" * 4]
    for name, spec in FORMATS.items():
        files = ", ".join(f"`{suffix}`" for suffix in spec.kinds)
        lines.append(f"| [`{name}`](#{name}) | {files} | {spec.document} | {'yes' if spec.has_gold else '–'} |")
    return lines


def _example(name: str, example: Any, short: str) -> list[str]:
    documents = _number(example.documents, "document")
    speakers = f", {_number(example.speakers, 'speaker')}" if example.speakers else ""
    title = f"`{example.file_name}`: {documents}, {_number(example.rows, 'row')}{speakers}."
    if name in _BINARY or b"\0" in example.data:
        return [f"{title} The file is binary{'' if example.file_name in short else f': {short}'}.", ""]
    try:
        text = example.data.decode("utf-8")
    except UnicodeDecodeError:
        text = example.data.decode("windows-1252", "replace")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.isprintable() and any(ord(c) < 32 and c not in "\n\t" for c in text):
        text = "".join(c if c.isprintable() or c in "\n\t" else "·" for c in text)
    lines = [line.rstrip()[:_WIDTH] + ("…" if len(line) > _WIDTH else "") for line in text.splitlines()]
    shown, size = [], 0
    for line in lines[:_LINES]:
        size += len(line)
        if size > _CHARS:
            break
        shown.append(line)
    shown += ["…"] * (len(shown) < len(lines))
    fence = "~~~~" if "```" in text else "```"
    return [title, "", f"{fence}text", *shown, fence, ""]


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


if __name__ == "__main__":
    PAGE.write_text(formats_page(), "utf-8")
