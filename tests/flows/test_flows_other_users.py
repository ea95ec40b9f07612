"""Looking at a store: another user's is refused in so many words, one's own is left as it is, none is made."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.project import reticent, small_project, warm_commands
from support.warm_cli import READING, WRITING

from pipelines.store.place.roots import open_roots

ANNE, BEN = 54_321, 54_322
CONFIG = "reticent.toml"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two other users")


class Users:
    """A project of Anne's, and a way to run commands as anybody."""

    def __init__(self, folder: Path, commands: Path) -> None:
        folder.chmod(0o755)  # pytest's own folders are closed to others
        self.warm = small_project(folder / "warm", dialogues=2)
        self.project = small_project(folder / "project", dialogues=2).parent
        self.private = self.project / "reticent-store/private"
        open_roots(self.private, self.project / "reticent-store/public")
        self._commands = warm_commands().warmed_up(self.warm, commands)
        self.close = self._commands.close

    def give_to(self, user: int) -> None:
        for path in (self.project, *self.project.rglob("*")):
            os.chown(path, user, user, follow_symlinks=False)

    def run(self, user: int, *arguments: str) -> tuple[int, str, str]:
        done = self._commands.run(self.project, arguments, dict(os.environ), user)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    folder = Path(tempfile.mkdtemp())
    made = Users(folder, tmp_path_factory.mktemp("commands"))
    made.give_to(ANNE)
    yield made
    made.close()
    shutil.rmtree(folder)


def _state(folder: Path) -> dict[str, tuple[int, int, int, int]]:
    """What a write would change, by path. The cache is there to be written; to read a folder changes nothing here."""
    found = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        status = path.lstat()
        if "cache" not in path.relative_to(folder).parts and not path.relative_to(folder).match(".prefect/*"):
            found[str(path)] = (status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns)
    return found


@as_root
@pytest.mark.parametrize("user", [BEN, 0], ids=["ben", "root"])
@pytest.mark.parametrize(
    "command",
    [
        command if at % 4 == 0 else pytest.param(command, marks=pytest.mark.slow)
        for at, command in enumerate([*READING, *WRITING])
    ],
    ids=" ".join,
)
def test_another_users_store_is_refused(users: Users, command: tuple[str, ...], user: int) -> None:
    """Ben was told that the store "cannot be written"; root looked, and left files that Anne could not change."""
    before = _state(users.project)
    code, _, error = users.run(user, *command, CONFIG)
    assert code == 4, error
    assert f"{users.private} belongs to another user" in error
    assert str(ANNE) in error
    assert "Traceback" not in error
    assert _state(users.project) == before


@as_root
def test_the_owner_is_not_refused(users: Users) -> None:
    """Or the test above would show nothing."""
    code, out, error = users.run(ANNE, "runs", CONFIG)
    assert (code, error) == (0, "")
    assert "no run yet" in out


@as_root
def test_a_user_without_a_name_has_a_reviewers_name(users: Users) -> None:
    """As in a container that runs under a number: to ask for the login name raised KeyError."""
    (users.project / "corpus").chmod(0o000)
    try:
        code, _, error = users.run(ANNE, "review", "--status", CONFIG)
        assert code == 3
        assert "corpus.inputs" in error
    finally:
        (users.project / "corpus").chmod(0o755)


@as_root
def test_a_store_in_a_closed_folder_is_refused(users: Users) -> None:
    """Where not even the owner can be seen."""
    closed = users.private.parent
    closed.chmod(0o700)
    try:
        for command in (("status",), ("run",)):
            code, _, error = users.run(BEN, *command, CONFIG)
            assert code == 4, error
            assert "is closed to this user" in error
    finally:
        closed.chmod(0o755)


@as_root
def test_settings_of_another_user_that_are_closed_say_so(users: Users) -> None:
    settings = users.project / CONFIG
    settings.chmod(0o600)
    try:
        code, _, error = users.run(BEN, "status", CONFIG)
        assert code == 2
        assert "'reticent.toml' is not readable" in error
    finally:
        settings.chmod(0o644)


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        (("status",), 0, "last run           none"),
        (("runs",), 0, "no run yet"),
        (("ledger",), 0, ""),
        (("verify",), 0, "0 artifacts checked"),
        (("report",), 2, "no run has finished yet"),
        (("inspect", "redact", "--config"), 2, "not built yet"),
        (("show", "redacted", "--config"), 2, "not built yet"),
        (("diff", "latest", "previous", "--config"), 2, "there is no latest run"),
        (("dedup-stats",), 2, ""),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_looking_makes_no_store(tmp_path: Path, command: tuple[str, ...], code: int, told: str) -> None:
    """A store with a secret of its own was made by whoever looked first, also where there was none to look at."""
    config = small_project(tmp_path, dialogues=2)
    shutil.rmtree(tmp_path / "reticent-store")
    done = reticent(*command, config, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert told in done.stdout + done.stderr
    assert not (tmp_path / "reticent-store").exists()


@pytest.mark.slow
def test_looking_changes_nothing(tmp_path: Path) -> None:
    """But for the cache of digests, which saves the next command the reading."""
    config = small_project(tmp_path, dialogues=40)
    assert reticent("run", config, cwd=tmp_path).returncode == 0
    before = _state(tmp_path / "reticent-store")
    for command in READING:
        done = reticent(*command, config, cwd=tmp_path)
        assert done.returncode == (2 if command[0] == "diff" else 0), done.stderr
        assert _state(tmp_path / "reticent-store") == before, command
