"""A signed folder: whatever is changed in it is noticed, without the store and its secret."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from flows.arguments import app
from pipelines.errors import ConfigError
from pipelines.release_folder import MANIFEST, PUBLIC_KEY, SIGNATURE, sign_folder, verify_folder
from pipelines.signatures import own_fingerprint, public_pem, read_public_key, signing_key

SECRET, OTHER = b"s" * 32, b"o" * 32
FILES = ("README.md", "config.json", "weights.safetensors", "public/part-00000.parquet", "public/part-00001.parquet")
ABOUT = {"kind": "model", "released": "2026-11-23", "made_with": "reticent"}


def signed_release(tmp_path: Path) -> Path:
    made = tmp_path / "release"
    (made / "public").mkdir(parents=True)
    for name in FILES:
        (made / name).write_text(f"what {name} says")
    sign_folder(made, ABOUT, signing_key(SECRET))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return signed_release(tmp_path)


def differs(folder: Path) -> tuple[list[str], list[str], list[str], bool]:
    found = verify_folder(folder)
    assert not found["is_whole"]
    assert found["refused"] == {}
    return found["missing"], found["added"], found["changed"], found["signed_by"] is not None


def test_a_whole_folder_verifies_wherever_it_lies(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "elsewhere")
    (copy / ".git").mkdir()
    (copy / ".git" / "HEAD").write_text("of git")
    (copy / ".gitattributes").write_text("of the hub")
    found = verify_folder(copy)
    assert found["is_whole"]
    assert (found["missing"], found["added"], found["changed"], found["problem"]) == ([], [], [], None)
    assert found["signed_by"] == own_fingerprint(SECRET)
    assert (found["num_files"], found["about"]["kind"]) == (len(FILES), "model")


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_changed_removed_or_renamed_is_named(folder: Path, name: str) -> None:
    path = folder / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"!")
    assert differs(folder) == ([], [], [name], True)
    path.write_bytes(content + b"!")
    assert differs(folder) == ([], [], [name], True)
    path.unlink()
    assert differs(folder) == ([name], [], [], True)
    (folder / "public" / "new name").write_bytes(content)
    assert differs(folder) == ([name], ["public/new name"], [], True)


def test_files_that_were_added_or_swapped_are_named(folder: Path) -> None:
    first, second = (folder / name for name in FILES[-2:])
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    assert differs(folder) == ([], [], list(FILES[-2:]), True)
    first.write_bytes(one)
    second.write_bytes(two)
    (folder / "custom").mkdir()
    (folder / "custom" / "modeling.py").write_text("import os")
    (folder / ".cachet").write_text("")
    assert differs(folder) == ([], [".cachet", "custom/modeling.py"], [], True)


def _edit_manifest(folder: Path) -> None:
    (folder / "README.md").write_text("another text")
    document = json.loads((folder / MANIFEST).read_text())
    other = folder.parent / "other"
    other.mkdir()
    (other / "README.md").write_text("another text")
    sign_folder(other, ABOUT, signing_key(OTHER))
    document["files"]["README.md"] = json.loads((other / MANIFEST).read_text())["files"]["README.md"]
    (folder / MANIFEST).write_text(json.dumps(document, sort_keys=True, indent=1) + "\n")


def _replace(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def _change(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def _sign_by_another(folder: Path) -> None:
    (folder / SIGNATURE).write_bytes(signing_key(OTHER).sign((folder / MANIFEST).read_bytes()))
    (folder / PUBLIC_KEY).write_bytes(public_pem(signing_key(OTHER)))


TAMPERED: dict[str, Callable[[Path], object]] = {
    "the manifest is edited to fit a changed file": _edit_manifest,
    "a byte of the manifest": _change(MANIFEST, lambda data: data.replace(b"model", b"mode1")),
    "white space in the manifest": _change(MANIFEST, lambda data: data + b"\n"),
    "no manifest": _replace(MANIFEST, b"[]"),
    "a bit of the signature": _change(SIGNATURE, lambda data: bytes([data[0] ^ 1, *data[1:]])),
    "a short signature": _replace(SIGNATURE, b"short"),
    "no signature": lambda folder: (folder / SIGNATURE).unlink(),
    "another key": _replace(PUBLIC_KEY, public_pem(signing_key(OTHER))),
    "a damaged key": _replace(PUBLIC_KEY, b"-----BEGIN PUBLIC KEY-----"),
    "no key": lambda folder: (folder / PUBLIC_KEY).unlink(),
    "another's signature and key": _sign_by_another,
}


@pytest.mark.parametrize("how", TAMPERED)
def test_without_a_signature_that_fits_nobody_is_named(folder: Path, how: str) -> None:
    TAMPERED[how](folder)
    found = verify_folder(folder)
    assert not found["is_whole"]
    assert found["signed_by"] is None
    assert found["problem"]


def test_a_folder_that_another_key_signed_anew_is_told_by_its_fingerprint(folder: Path) -> None:
    (folder / "README.md").write_text("another text")
    sign_folder(folder, ABOUT, signing_key(OTHER))
    assert verify_folder(folder)["is_whole"]  # it is whole, and somebody else's
    assert called(folder).exit_code == 0
    expected = called(folder, "--key", own_fingerprint(SECRET))
    assert expected.exit_code == 5
    assert "NOT the key that you expect" in expected.stdout
    assert "NOT VERIFIED" in expected.stdout


def test_what_another_wrote_into_a_folder_does_not_steer_the_terminal(folder: Path) -> None:
    (folder / "\x1b[2J").write_text("")
    sign_folder(folder, {"kind": "\x1b[8m", "released": "\x9b8m\nVERIFIED\r"}, signing_key(OTHER))
    for name in ("whole", "changed"):
        found = called(folder, "--key", own_fingerprint(SECRET))
        assert found.exit_code == 5, name
        assert found.stdout.replace("\n", "").isprintable()
        assert "VERIFIED" not in found.stdout.splitlines()
        (folder / "\x1b[2J").write_text("changed")
    sign_folder(folder, {"schema_version": "\x1b[8m"}, signing_key(OTHER))
    assert "\x1b" not in called(folder).stderr


def called(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["verify-release", str(folder), *options])


def test_the_command_says_what_differs_and_whose_key_it_cannot_know(folder: Path) -> None:
    grouped = own_fingerprint(SECRET).upper()
    known = called(folder, "--key", " ".join(grouped[at : at + 4] for at in range(0, 32, 4)))
    assert known.exit_code == 0
    assert known.stdout.splitlines()[-1] == "VERIFIED"
    unknown = called(folder)
    assert unknown.exit_code == 0
    assert "a signature cannot say whose key that is" in unknown.stdout
    (folder / "escape \x1b[2J").write_text("")
    (folder / "config.json").unlink()
    damaged = called(folder, "--json")
    assert damaged.exit_code == 5
    document = json.loads(damaged.stdout)
    assert (document["missing"], document["is_verified"]) == (["config.json"], False)
    shown = called(folder).stdout
    assert "\x1b" not in shown
    assert "missing  'config.json'" in shown


def test_what_is_no_release_is_a_wrong_argument(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments in ((tmp_path / "none",), (tmp_path / "empty",), (folder, "--key", "d00f")):
        assert isinstance(called(*arguments).exception, ConfigError)
    document = json.loads((folder / MANIFEST).read_text()) | {"schema_version": 2}
    data = json.dumps(document).encode()
    (folder / MANIFEST).write_bytes(data)
    (folder / SIGNATURE).write_bytes(signing_key(SECRET).sign(data))
    with pytest.raises(ConfigError, match="version 2"):
        verify_folder(folder)


def test_the_key_follows_from_the_secret_and_tells_nothing_of_it() -> None:
    pem = public_pem(signing_key(SECRET))
    assert pem == public_pem(signing_key(SECRET))
    assert own_fingerprint(SECRET) != own_fingerprint(OTHER)
    assert SECRET not in pem
    with pytest.raises(ValueError, match="secret"):
        signing_key(b"")
    with pytest.raises(ValueError):
        read_public_key(b"no key")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_other_tools_check_the_signature_too(folder: Path) -> None:
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", PUBLIC_KEY, "-rawin"]
    command += ["-in", MANIFEST, "-sigfile", SIGNATURE]
    assert subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0
    (folder / MANIFEST).write_bytes(b"{}")
    assert subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode != 0
