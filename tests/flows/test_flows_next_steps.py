"""Errors of the command line name what was given, and say what to do next."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import REPOSITORY

from flows.commands.conclusion import next_commands
from flows.commands.redact import redactor_spec, settings_options
from pipelines.errors import ConfigError, InputError, PrivacyGateError, StoreError
from pipelines.store.place.roots import open_roots


def test_options_of_redact_are_answered_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"e\.g\. --policy regex,names"):
        redactor_spec([" , "], {})
    with pytest.raises(ConfigError, match=r"e.g. --pattern TICKET=T-"):
        settings_options(["T-1"], None, None)
    (tmp_path / "k.json").write_text("{")
    with pytest.raises(InputError, match=r'k.json cannot be read as JSON .*; it must hold {"DOMAIN"'):
        settings_options([], tmp_path / "k.json", None)


def test_a_store_says_which_folders_to_choose_and_where_its_secret_is_to_come_from(tmp_path: Path) -> None:
    with pytest.raises(PrivacyGateError, match=r"choose two folders .* store.private_root and store.public_root"):
        open_roots(tmp_path / "s", tmp_path / "s" / "public")
    open_roots(tmp_path / "private", tmp_path / "public")
    (tmp_path / "private" / "secret").chmod(0o600)
    for text in ("ab", "no digits"):
        (tmp_path / "private" / "secret").write_text(text)
        with pytest.raises(StoreError, match=r"secret.*; restore it from a backup"):
            open_roots(tmp_path / "private", tmp_path / "public")


def test_the_readme_shows_the_last_lines_of_the_built_in_job():
    record = {
        "outputs": {"report": "/somewhere/private/latest/report/report.html"},
        "metrics": {"false_negative_rate_upper": 0.001},
        "stages": [],
    }
    shown = "".join(f"# {line}\n" for line in next_commands(record, Path("reticent-demo/reticent.toml")))
    assert f"# next:\n{shown}" in (REPOSITORY / "README.md").read_text("utf-8")
