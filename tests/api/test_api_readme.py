"""The library's part of the README runs as it stands, in a folder where a project was run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import REPOSITORY


def test_the_library_part_runs(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = (REPOSITORY / "README.md").read_text("utf-8").split("## As a library")[1].split("\n## ")[0]
    (example,) = re.findall(r"```python\n(.*?)```", section, re.S)
    shutil.copytree(project.parent, tmp_path / "reticent-demo", symlinks=True)
    (tmp_path / "reticent-demo/crt.toml").rename(tmp_path / "reticent-demo/reticent.toml")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert capsys.readouterr().out == "<MASK> called <MASK>\n"
    assert {"NAME", "ORDER"} <= set(names["redacted"]["spans"].explode().struct.field("label"))
