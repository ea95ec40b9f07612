"""The file with the password of a Prefect server, and Prefect's home: for their owner only."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.project import reticent

from flows.server.credentials import close_home, init_auth
from pipelines.errors import ConfigError, PrivacyGateError

PASSWORDS = {"PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING"}


def _as_a_shell_reads(file: Path) -> dict[str, str]:
    script = 'set -a; . "$0"; env'
    done = subprocess.run(["sh", "-c", script, file], env={}, capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_the_file_is_its_owners_only_and_the_password_is_told_nowhere(tmp_path: Path) -> None:
    """Guards: a password that others can read, or that is in a log or on a command line, is none."""
    file = tmp_path / "prefect.env"
    before = os.umask(0)
    try:
        done = reticent("deploy", "--init-auth", file, cwd=tmp_path)
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.glob(".prefect.env*")) == []  # no half-written one is left
    read = _as_a_shell_reads(file)
    assert len({read[name] for name in PASSWORDS}) == 1
    password = read["PREFECT_API_AUTH_STRING"].removeprefix("reticent:")
    assert len(password) >= 40
    assert password not in done.stdout + done.stderr
    assert str(file) in done.stdout


def test_the_file_says_the_same_to_a_shell_and_to_systemd_and_narrows_origins(tmp_path: Path) -> None:
    """Guards: quotes or blanks would be read differently; without a list, Prefect allows every origin."""
    file = tmp_path / "prefect.env"
    init_auth(file, {"PREFECT_API_URL": "https://reticent.example.org/api"})
    lines = dict(line.split("=", 1) for line in file.read_text().splitlines())
    read = _as_a_shell_reads(file)
    assert {name: read[name] for name in lines} == lines
    assert lines["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"] == "https://reticent.example.org"
    assert lines["PREFECT_SERVER_CSRF_PROTECTION_ENABLED"] == "true"
    assert (lines["PREFECT_SERVER_API_HOST"], lines["PREFECT_SERVER_API_PORT"]) == ("127.0.0.1", "4200")


def test_every_file_has_a_password_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for file in (one, two):
        assert set(init_auth(file, {})["added"]) > PASSWORDS
    before = one.read_text()
    assert init_auth(one, {})["added"] == []
    assert one.read_text() == before
    assert _as_a_shell_reads(one)["PREFECT_API_AUTH_STRING"] != _as_a_shell_reads(two)["PREFECT_API_AUTH_STRING"]


def test_what_a_file_says_already_is_kept_and_an_empty_password_is_none(tmp_path: Path) -> None:
    """Guards: with an empty password Prefect's WebSockets serve everybody, and nobody can use the rest."""
    file = tmp_path / "reticent.env"
    file.write_text("# ours\nPREFECT_HOME=/var/lib/reticent/prefect\nPREFECT_API_AUTH_STRING=\nDO_NOT_TRACK=0\n")
    file.chmod(0o640)
    assert set(init_auth(file, {})["added"]) > PASSWORDS
    read = _as_a_shell_reads(file)
    assert (read["PREFECT_HOME"], read["DO_NOT_TRACK"]) == ("/var/lib/reticent/prefect", "0")
    assert read["PREFECT_API_AUTH_STRING"] == read["PREFECT_SERVER_API_AUTH_STRING"] != ""
    assert file.stat().st_mode & 0o777 == 0o640  # as for systemd: owner root, group reticent


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o602], ids=oct)
def test_a_file_that_others_can_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "prefect.env"
    file.write_text("PREFECT_API_AUTH_STRING=reticent:known\nPREFECT_SERVER_API_AUTH_STRING=reticent:known\n")
    file.chmod(mode)
    with pytest.raises(ConfigError, match="can be read or changed by others"):
        init_auth(file, {})


def test_half_a_password_a_link_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    half = tmp_path / "half"
    half.touch(0o600)
    half.write_text("PREFECT_API_AUTH_STRING=reticent:known\n")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for file, told in ((half, "PREFECT_SERVER_API_AUTH_STRING"), (link, "ELOOP"), (tmp_path / "no/folder", "ENOENT")):
        with pytest.raises(ConfigError, match=told):
            init_auth(file, {})
    (tmp_path / "binary").touch(0o600)
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not text"):
        init_auth(tmp_path / "binary", {})
    for address in ("localhost:4200", "http://me:secret@host/api", "http://host/api; id", "http://host/$(id)"):
        with pytest.raises(ConfigError, match="PREFECT_API_URL is no address"):
            init_auth(tmp_path / "new", {"PREFECT_API_URL": address})
        assert not (tmp_path / "new").exists()


def test_prefects_home_is_closed_or_refused(tmp_path: Path) -> None:
    """Guards: SQLite makes Prefect's database readable by all; only its folder keeps others out."""
    own, shared, others = tmp_path / "own", tmp_path / "shared", tmp_path / "others"
    for folder, mode in ((own, 0o755), (shared, 0o1777), (others, 0o755)):
        folder.mkdir()
        folder.chmod(mode)
    close_home(own)
    assert own.stat().st_mode & 0o777 == 0o700
    close_home(tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    with pytest.raises(ConfigError, match="all users share"):
        close_home(shared)
    assert shared.stat().st_mode & 0o7777 == 0o1777
    if os.geteuid() == 0:
        os.chown(others, 12_345, 12_345)
        with pytest.raises(PrivacyGateError, match="0700"):
            close_home(others)
