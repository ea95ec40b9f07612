"""Nothing that a command prints steers the terminal: `tests/flows/test_flows_every_command.py` tries all of them."""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from pathlib import Path

import pytest
from support.patches import Patch
from support.project import reticent
from support.steering import NAME, ODD, SEQUENCES, is_escaped, steering

from flows.printing import _protected, steer
from flows.running import progress
from flows.running.progress import Console
from pipelines.printable import printable

EVERY = "".join(c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) != "Cs")


@pytest.mark.parametrize("sequence", SEQUENCES, ids=ascii)
def test_what_steers_is_escaped_and_json_keeps_its_values(sequence: str) -> None:
    assert steering(f"a{sequence}b") != []
    assert steering(printable(f"a{sequence}b")) == []
    document = json.dumps({f"key {sequence}": sequence}, ensure_ascii=False)
    assert json.loads(printable(document)) == {f"key {sequence}": sequence}


def test_visible_text_stays() -> None:
    text = "Zoë, 王小明, مرحبا ١٢٣, नमस्ते, 👍🏽, …\tλ\n"
    assert printable(text) == text
    assert json.loads(printable(json.dumps(EVERY, ensure_ascii=False))) == EVERY
    assert printable("caf\udce9.txt") == "caf\\udce9.txt"  # a file name that is no UTF-8


def test_errors_that_name_files_or_arguments_steer_nothing(tmp_path: Path) -> None:
    for words in (
        ("plan", f"missing {NAME}.toml"),
        ("redact", "--policy", "digits", f"missing {NAME}.jsonl"),
        ("verify-release", f"missing {NAME}"),
        ("show", f"table {NAME}"),
        ("run", f"missing {NAME}.toml"),
        (f"command {NAME}",),
        ("plan", f"--option{NAME}"),
    ):
        done = reticent(*words, cwd=tmp_path)
        assert done.returncode != 0
        assert steering(done.stdout + done.stderr) == [], words
        assert is_escaped(done.stderr), words


def test_redacted_lines_keep_their_values(tmp_path: Path) -> None:
    (tmp_path / "mail.jsonl").write_text(json.dumps({"id": NAME, "text": f"call 5550100 {ODD}"}) + "\n")
    done = reticent("redact", "--policy", "digits", "--no-stabilise", "--any-language", "mail.jsonl", cwd=tmp_path)
    assert steering(done.stdout) == []
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["id"] == NAME


def test_settings_that_init_writes_hold_none(tmp_path: Path) -> None:
    rows = ({"text": f"a letter number {n} {ODD}", f"note{NAME}": ODD} for n in range(30))
    (tmp_path / f"mail{NAME}\x7f.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = reticent("init", f"new{NAME}", "--input", f"mail{NAME}\x7f.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert steering(done.stdout + done.stderr) == []
    assert steering((tmp_path / f"new{NAME}" / "reticent.toml").read_text()) == []
    assert reticent("plan", f"new{NAME}/reticent.toml", cwd=tmp_path).returncode == 0


def test_our_own_line_moves_on_a_terminal_and_quotes_nothing_that_does(patch: Patch) -> None:
    raw = io.BytesIO()
    stream = _protected(io.TextIOWrapper(raw, encoding="utf-8"))
    patch.constant(sys, "stderr", stream, read_by=progress)
    console = Console()
    console._tty = True
    console.say(f"reading {NAME}")
    steer(stream, "\x1b[0m")
    stream.flush()
    shown = raw.getvalue().decode()
    assert shown.startswith("\r")
    assert steering(shown.removeprefix("\r").removesuffix("\x1b[0m")) == []
    assert is_escaped(shown)
