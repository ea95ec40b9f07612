"""The help: commands by panel, nothing cut off, and the settings file given in one way everywhere."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from flows.arguments import app
from flows.arguments.groups import PANELS, as_argument
from flows.docs.commands import leaves
from pipelines.printable import first_sentence

OTHERS = {
    "inspect": ["redact"],
    "diff": ["latest", "previous"],
    "adopt": ["train", "9f3a9f3a"],
    "forget": ["a"],
    "export": ["model", "--out", "x"],
    "rotate-key": ["--new-key-env", "KEY"],
    "dedup-filter": ["a", "--out", "x.bloom"],
}
"""Arguments that commands need besides the settings file."""


@pytest.mark.parametrize("width", [80, 120])
def test_help_lists_every_command_in_a_panel_and_cuts_nothing(width):
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": str(width)}).output
    lines = shown.splitlines()
    assert [line[:-1] for line in lines if line.endswith(":") and line[0] != " "] == ["Options", *PANELS]
    assert max(map(len, lines)) <= width
    assert "..." not in shown.replace("[ARGS]...", "")
    for name, command in leaves():
        first = name.split()[1]
        about = [line for line in lines if line.split()[:1] == [first]]
        assert len(about) == 1, first
        if name.count(" ") == 1:  # in one line, also at 80 columns
            assert about[0].endswith(first_sentence(" ".join(command.help.split()))), first


def test_the_help_of_a_group_is_wrapped():
    shown = CliRunner().invoke(app, ["privacy", "--help"], env={"COLUMNS": "80"}).output
    assert "Papernot and Steinke 2022, Theorem 2)." in " ".join(shown.split())
    assert "\nCommands:\n" in shown


def test_an_option_becomes_the_argument():
    assert as_argument(["-c", "a.toml", "--json"]) == ["a.toml", "--json"]
    assert as_argument(["--json", "--config=b.toml"]) == ["--json", "b.toml"]
    assert as_argument(["x", "--", "-c", "a.toml"]) == ["x", "--", "-c", "a.toml"]
    assert as_argument(["-c"]) == ["-c"]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name == "reticent dedup-filter" else [])  # it imports spaCy
        for name, c in leaves()
        if any(p.name == "config" for p in c.params)
    ],
)
def test_every_command_takes_the_settings_file_as_an_option_and_prints_what_was_given(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = command.split()[1:]
    done = CliRunner().invoke(app, [*words, *OTHERS.get(words[0], []), "-c", "no/such.toml"])
    said = f"{done.exception} {done.output}"
    assert "settings file no/such.toml does not exist" in said, said
    assert str(tmp_path) not in said or words == ["doctor"], said


def test_the_settings_file_is_given_once():
    done = CliRunner().invoke(app, ["plan", "a.toml", "-c", "b.toml"])
    assert done.exit_code == 2
    assert "unexpected extra argument" in done.output
