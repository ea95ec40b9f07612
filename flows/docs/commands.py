"""Generates the reference of all commands from the command line's own help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from flows.arguments import app


def leaves(group: Any | None = None, path: str = "reticent") -> Iterator[tuple[str, Any]]:
    """Yields every command with its full name, in the order of the help."""
    top: Any = group or typer.main.get_command(app)
    for name, command in top.commands.items():
        if getattr(command, "commands", None):
            yield from leaves(command, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}", command


def usage(name: str, command: Any) -> str:
    """Returns the command and its arguments in one line."""
    return " ".join([name, *command.collect_usage_pieces(_context(command, name))])


def parameters(name: str, command: Any) -> list[str]:
    """Returns a table row for each argument and option, with names, default and meaning."""
    rows = []
    for parameter in command.params:
        names, _ = parameter.get_help_record(_context(command, name)) or (", ".join(parameter.opts), "")
        default = parameter.default
        if parameter.required:
            shown = "required"
        elif default is None or default is False or callable(default) or default in ("", (), []):
            shown = ""
        else:
            shown = "yes" if default is True else f"`{default}`"
        names = re.sub(r" <[^>]*>", "", names)  # the value's type
        rows.append(f"| `{names}` | {shown} | {_cell(parameter.help or '')} |")
    return rows


def _context(command: Any, name: str) -> Any:
    return command.context_class(command, info_name=name)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def commands() -> str:
    """Returns a section for each command, with its description, usage, arguments and options."""
    lines = []
    for name, command in leaves():
        about = " ".join((command.help or "").split("\n\n")[0].split())
        lines += ["", f"### {name}", "", about.replace("<", "&lt;"), "", "```text", usage(name, command), "```"]
        if rows := parameters(name, command):
            lines += ["", "| argument | default | meaning |", "|---|---|---|", *rows]
    return "\n".join([*lines, ""])
