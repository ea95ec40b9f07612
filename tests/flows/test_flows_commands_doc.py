"""Every command is documented, and every command line that the documentation shows is one that there is."""

from __future__ import annotations

import re
import shlex

import pytest
import typer
from support import REPOSITORY

from flows.arguments import app
from flows.docs import site
from flows.docs.commands import leaves

TABLE = (REPOSITORY / "docs/commands.md").read_text("utf-8").split("## Every argument")[0]
COMMAND = typer.main.get_command(app)
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.S | re.M)
_REST = re.compile(r"\s#.*|[|>&;].*")


def shown():
    """Command lines in the code blocks of all pages: the page, and the words after ``reticent``."""
    for name, page in site.sources().items():
        if page.suffix != ".md" or name in ("changelog.md", "commands.md"):
            continue
        blocks = _BLOCK.findall(page.read_text("utf-8"))
        for block in (text for language, text in blocks if language in ("", "sh", "bash", "console")):
            for line in block.replace("\\\n", " ").splitlines():
                found = re.match(r"\s*(?:[A-Z_]+=\S* )*(?:\S*bin/)?reticent ([a-z].*)", line)
                if found:
                    yield name, shlex.split(_REST.sub("", found[1].replace("'", "")))


def problem(words):
    """What the command line finds wrong with the words, or None."""
    command = COMMAND
    words = list(words)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands"):
        return "no such command"
    try:
        command.make_context("reticent", words)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def test_every_command_has_a_line():
    missing = [name for name, _ in leaves() if not re.search(rf"\b{name.split()[1]}\b", TABLE)]
    assert missing == [], "add a row to the table of docs/commands.md"


def test_command_lines_of_the_documentation_are_taken():
    lines = list(shown())
    assert len(lines) > 40
    assert [(page, words, found) for page, words in lines if (found := problem(words))] == []


@pytest.mark.parametrize("words", [["rnu"], ["run", "--frm", "train"], ["privacy"], ["gc", "--keep-runs", "many"]])
def test_a_wrong_command_line_is_found(words):
    assert problem(words)


def test_targets_of_make_that_pages_name_exist():
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text("utf-8"), re.M))
    pages = [*site.sources().values(), REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "SECURITY.md"]
    text = "\n".join(page.read_text("utf-8") for page in pages if page.suffix == ".md")
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.M))
    assert {"run", "test", "site"} <= named
    assert named <= targets
