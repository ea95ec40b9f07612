"""The group of all commands: its help lists them by panel, and every command takes the settings file as ``-c FILE``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from typer.core import TyperGroup

from pipelines.printable import first_sentence

PANELS: Final = {
    "Start": ("init", "demo", "doctor"),
    "Run": ("run", "plan", "status", "audit", "synthesize", "compare", "join", "deploy"),
    "Look": ("report", "open", "show", "inspect", "runs", "diff", "ledger", "dedup-stats", "metrics"),
    "Review": ("sample", "review", "estimate"),
    "Release": ("sign", "export", "verify-release", "mirror"),
    "Store": ("verify", "gc", "adopt", "forget", "retire", "rotate-key"),
    "Tools": (
        *("redact", "restore", "evaluate-policy", "train-policy", "train-detector", "dedup-filter"),
        *("privacy", "simulate", "schema"),
    ),
}
_OPTIONS: Final = ("-c", "--config")


class Commands(TyperGroup):
    """A group whose help shows the first sentence of each command's own help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes a section for each panel of the top group, and one for commands of no panel."""
        about = {n: " ".join((c.help or "").split()) for n, c in self.commands.items() if not c.hidden}
        width = max(map(len, about))
        panels: dict[str, Sequence[str]] = {} if ctx.parent else {**PANELS}
        others = [name for name in about if not any(name in names for names in panels.values())]
        for panel, names in {**panels, "Commands": others}.items():
            rows = [(name.ljust(width), first_sentence(about[name])) for name in names if name in about]
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds the command. One that takes the settings file as its first argument also takes it as an option."""
        name, command, rest = super().resolve_command(ctx, args)
        is_first = command is not None and any(
            p.name in ("config", "configs") and p.param_type_name == "argument" for p in command.params
        )
        return name, command, as_argument(rest) if is_first else rest


def as_argument(words: Sequence[str]) -> list[str]:
    """Turns ``-c FILE`` into ``FILE``. Words after ``--`` stay."""
    end = words.index("--") if "--" in words else len(words)
    found = []
    for number, word in enumerate(words[:end]):
        if word.startswith("--config="):
            found.append(word.partition("=")[2])
        elif word not in _OPTIONS or number + 1 == end:
            found.append(word)
    return [*found, *words[end:]]
