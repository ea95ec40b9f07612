"""A folder whose maker wants it to be read without end, or from elsewhere: each is refused, and soon."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.patches import Patch
from test_release_folder import ABOUT, SECRET, called, signed_release

from pipelines import release_folder
from pipelines.errors import ConfigError
from pipelines.release_folder import MANIFEST, PUBLIC_KEY, SIGNATURE, sign_folder, verify_folder
from pipelines.signatures import signing_key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return signed_release(tmp_path)


def _instead(make: Callable[[Path], object]) -> Callable[[Path], str]:
    """Puts something in the place of a file that was signed."""

    def change(folder: Path) -> str:
        path = folder / "config.json"
        path.rename(folder.parent / "same bytes")
        make(path)
        return "config.json"

    return change


def _added(make: Callable[[Path], object]) -> Callable[[Path], str]:
    """Adds something that was not signed."""

    def add(folder: Path) -> str:
        make(folder / "more")
        return "more"

    return add


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _link_out(path: Path) -> None:
    path.symlink_to("../same bytes")


def _folder_link(folder: Path) -> str:
    (folder / "public").rename(folder.parent / "public")
    (folder / "public").symlink_to("../public")
    return "public"


def _deep(folder: Path) -> str:
    at = os.open(folder, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    return "/".join("d" * 33)


HOSTILE: dict[str, Callable[[Path], str]] = {
    "a pipe": _instead(os.mkfifo),
    "a socket": _instead(_socket),
    "a link to a device without end": _instead(lambda path: path.symlink_to("/dev/zero")),
    "a link out of the folder, to the same bytes": _instead(_link_out),
    "a link to nothing": _instead(lambda path: path.symlink_to("nowhere")),
    "a link to itself": _instead(lambda path: path.symlink_to("config.json")),
    "a link to a folder out of it, with the same files": _folder_link,
    "an added pipe": _added(os.mkfifo),
    "an added link": _added(lambda path: path.symlink_to("public")),
    "folders without end": _deep,
}


def _verified(folder: Path) -> tuple[int, str]:
    """The command's exit code and output, which it has to give soon."""
    found: list[tuple[int, str]] = []
    thread = threading.Thread(target=lambda: found.append(_called(folder)), daemon=True)
    thread.start()
    thread.join(60)
    assert found, "it waits for something"
    return found[0]


def _called(folder: Path) -> tuple[int, str]:
    done = called(folder)
    if isinstance(done.exception, ConfigError):
        return done.exception.exit_code, str(done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.stdout


@pytest.mark.parametrize("how", HOSTILE)
def test_what_is_no_regular_file_is_refused_by_name(folder: Path, how: str) -> None:
    name = HOSTILE[how](folder)
    code, shown = _verified(folder)
    subprocess.run(["rm", "-rf", folder], check=True)  # deeper than Python's own removal gets
    assert code == 5
    assert f"refused  {name!a}: " in shown
    assert shown.splitlines()[-1] == "NOT VERIFIED"


@pytest.mark.parametrize("name", [MANIFEST, SIGNATURE, PUBLIC_KEY])
@pytest.mark.parametrize(
    "make",
    [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("nowhere"), Path.mkdir],
    ids=["pipe", "device", "dangling", "folder"],
)
def test_the_manifest_and_its_signature_are_files_too(folder: Path, name: str, make: Callable[[Path], object]) -> None:
    (folder / name).unlink()
    make(folder / name)
    code, shown = _verified(folder)
    assert code != 0
    assert name in shown


@pytest.mark.parametrize("name", [MANIFEST, SIGNATURE, PUBLIC_KEY])
def test_a_file_of_ours_without_end_is_not_read_whole(folder: Path, name: str) -> None:
    os.truncate(folder / name, 1 << 40)
    with pytest.raises(ConfigError, match="larger than"):
        verify_folder(folder)


def test_a_file_that_grew_is_not_read(folder: Path) -> None:
    os.truncate(folder / "config.json", 1 << 40)
    assert verify_folder(folder)["changed"] == ["config.json"]


def test_number_and_size_of_the_files_have_limits(folder: Path, patch: Patch) -> None:
    patch.constant(release_folder, "MOST_BYTES", 50)
    assert "larger than 50 bytes" in next(iter(verify_folder(folder)["refused"].values()))
    patch.constant(release_folder, "MOST_ENTRIES", 3)
    for number in range(5):
        (folder / f"empty-{number}").mkdir()
    code, shown = _verified(folder)
    assert code != 0
    assert "more than 3 files" in shown


def test_a_file_that_becomes_a_pipe_or_a_link_after_the_look_is_refused(folder: Path, patch: Patch) -> None:
    """Whoever writes to the folder meanwhile gains nothing: files are opened without following or waiting."""
    looked = release_folder._tree
    for make in (os.mkfifo, _link_out, lambda path: path.symlink_to("/dev/zero")):

        def swapped(root: int, make: Callable[[Path], object] = make) -> release_folder._Tree:
            tree = looked(root)
            (folder / "config.json").unlink()
            make(folder / "config.json")
            return tree

        patch(release_folder, "_tree", swapped)
        assert list(verify_folder(folder)["refused"]) == ["config.json"]


def test_a_folder_with_a_link_is_not_signed(folder: Path) -> None:
    (folder / "more").symlink_to("/etc/hostname")
    with pytest.raises(ConfigError, match="more of the folder to sign is refused"):
        sign_folder(folder, ABOUT, signing_key(SECRET))
