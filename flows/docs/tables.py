"""Generates parts of pages: policies, the reference of commands, and the README's figures of the built-in job."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from flows.docs import demo
from flows.docs.commands import commands
from pipelines.policies.detectors.specs import SPECS

_DOCS: Final = Path(__file__).parents[2] / "docs"
PAGES: Final = {
    "policies": _DOCS / "policies.md",
    "commands": _DOCS / "commands.md",
    "demo": _DOCS.parent / "README.md",
}


def policies() -> str:
    """Returns a table with one row per policy."""
    lines = ["| name | masks | reads | settings |", "|---|---|---|---|"]
    for name, spec in SPECS.items():
        reads = [f"`{component}`" for component in sorted(spec.components)] or ["text"]
        coupling = ["whole documents"] * spec.reads_documents
        coupling += ["names of speakers"] * spec.reads_speakers + ["what it was fitted on"] * spec.is_fitted
        coupling += ["couples rows"] * spec.couples_rows
        settings = [f"`{field}`" for field in (spec.options.model_fields if spec.options else ())]
        lines.append(f"| `{name}` | {spec.description} | {', '.join(reads + coupling)} | {', '.join(settings)} |")
    return "\n".join(lines)


def page(text: str, name: str, table: str, maker: str = "make docs") -> str:
    """Replaces the table between a page's marks, which name the command that makes it.

    Raises:
        ValueError: the marks are missing.
    """
    begin, end = f"<!-- {name}: made by `{maker}` -->", "<!-- end -->"
    before, mark, rest = text.partition(begin)
    _, closing, after = rest.partition(end)
    if not (mark and closing):
        raise ValueError(f"no marks for {name}")
    return f"{before}{begin}\n{table}\n{end}{after}"


def pages() -> dict[Path, str]:
    """Returns every page with its table brought up to date."""
    tables = {"policies": policies(), "commands": commands(), "demo": demo.table()}
    return {path: page(path.read_text("utf-8"), name, tables[name]) for name, path in PAGES.items()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, "utf-8")
