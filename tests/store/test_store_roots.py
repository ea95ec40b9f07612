"""The store's two folders: what is refused at the door, and who may read what."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.toy import Toy, drive

from pipelines.errors import PrivacyGateError, StoreError
from pipelines.files import write_first
from pipelines.store.objects.publish import quarantine
from pipelines.store.place.disk import made_whole
from pipelines.store.place.roots import Roots, open_roots
from pipelines.store.upkeep.views import publish_views


def _open(folder: Path) -> Roots:
    return open_roots(folder / "private", folder / "public")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"7",
        b'"schema_version"',
        b"[" * 100_000,
        b'{"schema_version": 1',
        b"{}\n{}",
    ],
    ids=["empty", "cut", "binary", "list", "null", "number", "string", "deep", "half", "two"],
)
def test_a_damaged_store_json_is_refused_and_left_as_it_is(tmp_path: Path, text: bytes) -> None:
    """It was written anew, as if the store were one of this version, whatever it had said before."""
    _open(tmp_path)
    layout = tmp_path / "private/store.json"
    layout.write_bytes(text)
    with pytest.raises(StoreError, match=r"store\.json is damaged") as caught:
        _open(tmp_path)
    assert caught.value.exit_code == 5
    assert str(layout) in str(caught.value)
    assert "backup" in str(caught.value)
    assert layout.read_bytes() == text


def test_a_store_of_another_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    _open(tmp_path)
    layout = tmp_path / "private/store.json"
    for text in ('{"schema_version": 3}', "{}", '{"schema_version": "1"}', '{"schema_version": null}'):
        layout.write_text(text)
        with pytest.raises(StoreError, match="layout"):
            _open(tmp_path)
        assert layout.read_text() == text


def test_a_store_json_that_is_a_folder_or_leads_nowhere_is_refused(tmp_path: Path) -> None:
    _open(tmp_path)
    layout = tmp_path / "private/store.json"
    layout.unlink()
    layout.mkdir()
    with pytest.raises(StoreError):
        _open(tmp_path)
    layout.rmdir()
    layout.symlink_to(tmp_path / "gone.json")
    with pytest.raises(StoreError):
        _open(tmp_path)
    assert layout.is_symlink()


def test_looking_at_a_store_makes_nothing_and_wants_its_secret(tmp_path: Path) -> None:
    """A store without its secret got another one from whoever looked at it."""
    found = open_roots(tmp_path / "private", tmp_path / "public", create=False)
    assert not list(tmp_path.iterdir())
    assert found.secret == open_roots(tmp_path / "private", tmp_path / "public", create=False).secret
    secret = _open(tmp_path).secret
    assert open_roots(tmp_path / "private", tmp_path / "public", create=False).secret == secret != found.secret
    (tmp_path / "private/secret").unlink()
    with pytest.raises(PrivacyGateError, match=r"secret .* is missing"):
        open_roots(tmp_path / "private", tmp_path / "public", create=False)
    assert not (tmp_path / "private/secret").exists()


# --- who may read what --------------------------------------------------------------------------------------------

NOBODY = 65_534


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _run(toy: Toy) -> Roots:
    session = toy.session()
    publish_views(session, drive(session))
    return session.roots


@pytest.mark.parametrize("mask", [0o077, 0o027, 0o022, 0o000])
def test_the_public_root_is_readable_by_all_under_any_umask(toy: Toy, mask: int) -> None:
    """The folders of the stages were 0700 even under umask 022, and under 077 everything above them as well."""
    toy.folder = toy.folder / "not yet" / "there"
    with _umask(mask):
        roots = _run(toy)
    closed = {roots.public / "work"}
    for path in (roots.public, *roots.public.rglob("*")):
        if not path.is_symlink():
            assert _mode(path) == (0o644 if path.is_file() else 0o700 if path in closed else 0o755), path
    for folder in (toy.folder, toy.folder.parent):  # made for it
        assert _mode(folder) & 0o755 == 0o755
    assert list((roots.public / "latest/shown").iterdir())
    for path in (roots.private, *roots.private.rglob("*")):
        if not path.is_symlink():
            assert _mode(path) & 0o077 == 0 or (path.is_dir() and path != roots.private), path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read as another user")
def test_another_user_reads_the_public_root_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kernel's word: every file that ``latest/`` shows, and not one below the private root."""
    from support.toy import use_toy_graph

    with tempfile.TemporaryDirectory() as name, _umask(0o077):
        Path(name).chmod(0o755)  # pytest's own folders are closed to others
        toy = use_toy_graph(monkeypatch, Path(name) / "project")
        toy.folder.chmod(0o755)  # the settings' folder is the user's to open
        toy.write("a.txt", "alpha text")
        roots = _run(toy)

        def read(folder: Path) -> subprocess.CompletedProcess[str]:
            command = ["find", "-L", str(folder), "-type", "f", "-exec", "cat", "{}", "+"]
            return subprocess.run(command, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True)

        for folder in ("latest", "objects"):
            done = read(roots.public / folder)
            assert (done.returncode, done.stderr) == (0, "")
            assert "ET AHPLA" in done.stdout
        assert read(roots.private).stdout == ""
        assert "Permission denied" in read(roots.private).stderr


def test_what_is_being_built_and_what_is_damaged_stays_private(toy: Toy) -> None:
    """Until it is published, nobody else gets to it: a folder above it is closed."""
    toy.edit(
        "upper",
        "def run(ctx):",
        "def run(ctx):\n    (ctx.out.folder / 'at.txt').write_text(str(ctx.out.public_folder))",
    )
    toy.edit(
        "upper",
        "    return {}",
        "    modes = [f.stat().st_mode & 0o777 for f in ctx.out.public_folder.parents]\n"
        "    (ctx.out.folder / 'modes.txt').write_text(str(modes))\n    return {}",
    )
    with _umask(0o022):
        session = toy.session()
        outcomes = drive(session)
    (key, *_) = (o.key for o in outcomes if o.stage == "upper")
    assert key is not None
    found = session.roots.object_dir("private", "upper", key)
    inside = len(Path((found / "at.txt").read_text()).relative_to(session.roots.public).parts)
    modes = [int(mode) for mode in (found / "modes.txt").read_text().strip("[]").split(", ")]
    assert any(mode & 0o077 == 0 for mode in modes[: inside - 1])  # below the public root
    with _umask(0o022):
        quarantine(session.roots, "upper", key)
    assert _mode(session.roots.public / "quarantine") == 0o700


def test_a_public_root_that_its_owner_closed_stays_closed(tmp_path: Path) -> None:
    """The mode of the folder itself is set once: who wants to keep readers out changes it."""
    roots = _open(tmp_path)
    roots.public.chmod(0o750)
    assert _mode(_open(tmp_path).public) == 0o750


def test_folders_that_an_earlier_version_left_closed_are_opened(toy: Toy) -> None:
    roots = _run(toy)
    for name in ("objects", "objects/upper", "latest", "views"):
        (roots.public / name).chmod(0o700)
    (roots.public / "work").chmod(0o755)
    _run(toy)
    assert [_mode(roots.public / name) for name in ("objects", "objects/upper", "latest", "views")] == [0o755] * 4
    assert _mode(roots.public / "work") == 0o700


def test_outputs_of_a_store_that_moved_are_shown_where_it_is(tmp_path: Path) -> None:
    roots = open_roots(tmp_path / "new" / "private", tmp_path / "new" / "public")
    old = {"report": "/old/latest/private/latest/report/report.html", "model": "/old/public/latest/model", "x": "/a/b"}
    assert roots.shown_here(old) == {
        "report": str(roots.private / "latest/report/report.html"),
        "model": str(roots.public / "latest/model"),
        "x": "/a/b",
    }


def test_the_first_of_two_processes_makes_a_file_or_a_folder(tmp_path: Path) -> None:
    for data in (b"first", b"second"):
        write_first(tmp_path / "key", data)
    assert (tmp_path / "key").read_bytes() == b"first"
    with made_whole(tmp_path / "views") as second:
        (second / "second").touch()
        (tmp_path / "views").mkdir()
        (tmp_path / "views/first").touch()
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["first", "key", "views"]
