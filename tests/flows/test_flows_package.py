"""What is published: built twice with the same bytes, complete, with a list of what an installation holds."""

import gzip
import io
import json
import re
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "deploy"))
import package

PACKAGES = {"reticent", "flows", "tasks", "pipelines"}
IMPORT = re.compile(r"^ *(?:from|import) ([a-z_]\w*)(?:[\w.]* import |[\w.]*(?: as \w+)?(?: *#.*)?$)", re.M)
"""By lines: a parser takes ten times as long."""


def names_of(lock):
    return [line.split("==")[0] for line in lock.splitlines() if "==" in line and line[0].isalnum()]


def packed(names, mtime, uid):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as files:
        for name in names:
            member = tarfile.TarInfo(name)
            member.mtime, member.uid, member.size = mtime, uid, len(name)
            files.addfile(member, io.BytesIO(name.encode()))
    return gzip.compress(plain.getvalue(), mtime=mtime)


def test_source_archives_are_the_same_every_time():
    first, second = packed(["b", "a"], 5, 1000), packed(["a", "b"], 7, 0)
    assert first != second
    assert package.same_every_time(first, 9) == package.same_every_time(second, 9)
    assert package.same_every_time(first, 9) != package.same_every_time(packed(["a", "c"], 5, 0), 9)
    with tarfile.open(fileobj=io.BytesIO(package.same_every_time(first, 9))) as files:
        assert files.extractfile("b").read() == b"b"


def test_the_list_of_packages_is_that_of_the_lock():
    lock = package.locked()
    document = package.sbom(lock, "1.0")
    names = [one["name"] for one in document["components"]]
    assert names == names_of(lock)
    assert {"prefect", "polars", "cryptography", "peft", "torch"} <= set(names)
    for one in document["components"]:
        assert one["hashes"] or one["name"] == "torch", one["name"]
        assert one["purl"] == f"pkg:pypi/{one['name'].lower()}@{one['version']}"
        assert " " not in one["version"]
    assert document["bomFormat"] == "CycloneDX"


def test_constraints_pin_what_the_locks_do_without_hashes():
    """With hashes, pip asks for one of every package, our own wheel included."""
    pins = package.constraints(package.locked()).splitlines()
    assert sorted({Requirement(pin).name for pin in pins}) == sorted(set(names_of(package.locked())))
    assert "numpy==2.4.6 ; python_full_version < '3.12'" in package.constraints(
        "numpy==2.4.6 ; python_full_version < '3.12' \\\n    --hash=sha256:00\n"
    )
    assert package.constraints("peft==1.0 --hash=sha256:00\n") == "peft==1.0\n"


def test_every_package_that_the_code_imports_is_declared():
    """One that another package happened to bring was imported for months: its next release may bring it no more."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    declared = {canonicalize_name(Requirement(text).name) for text in texts}
    imported = {
        name: path
        for package_name in PACKAGES
        for path in (REPOSITORY / package_name).rglob("*.py")
        for name in IMPORT.findall(path.read_text("utf-8"))
    }
    others = {name: path for name, path in imported.items() if name not in sys.stdlib_module_names | PACKAGES}
    assert {"huggingface_hub", "torch", "ray"} <= set(others)
    names = {"docx": "python-docx", "markdown_it": "markdown-it-py"}  # imported under another name
    assert {
        name: path for name, path in others.items() if canonicalize_name(names.get(name, name)) not in declared
    } == {}


def test_what_is_declared_is_locked():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    pins = {canonicalize_name(name) for name in names_of(package.locked())}
    assert {canonicalize_name(Requirement(text).name) for text in project["dependencies"]} <= pins


def test_an_audit_asks_about_every_lock_and_fails_where_it_is_not_answered(tmp_path):
    """Without --strict, pip-audit skips what the service does not know, and ends well."""
    auditor = tmp_path / ".venv-audit/bin/pip-audit"
    auditor.parent.mkdir(parents=True)
    auditor.write_text('#!/bin/sh\necho "asked $*"\ncase "$*" in *slow.lock*) exit 1;; esac\n')
    auditor.chmod(0o755)
    make = ["make", "--file", str(REPOSITORY / "Makefile"), "--old-file", "setup", "audit"]
    done = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True)
    asked = [line.split() for line in done.stdout.splitlines() if line.startswith("asked ")]
    assert [words[-1] for words in asked] == [*package.LOCKS, "requirements-slow.lock"]
    assert all("--strict" in words for words in asked)
    assert done.returncode != 0
    assert "could not be looked up" in done.stdout
    auditor.write_text('#!/bin/sh\necho "asked $*"\n')
    done = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True, check=True)
    asked = {line.split()[-1] for line in done.stdout.splitlines() if line.startswith("asked ")}
    assert asked == {*(path.name for path in REPOSITORY.glob("*.lock"))}


@pytest.mark.slow
def test_two_builds_are_equal_and_hold_the_same_files(tmp_path):
    script = [sys.executable, str(REPOSITORY / "deploy/package.py"), "--out"]
    for name in ("one", "two"):
        subprocess.run([*script, str(tmp_path / name)], check=True, capture_output=True, timeout=300)
        time.sleep(1.1)  # times in archives are of seconds
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == 4
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    (wheel,) = (tmp_path / "one").glob("*.whl")
    (source,) = (tmp_path / "one").glob("*.tar.gz")
    in_wheel = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    with tarfile.open(source) as archive:
        in_source = {name.partition("/")[2] for name in archive.getnames()}
    assert in_wheel <= in_source
    assert {"flows/commands/reticent.schema.json", "flows/commands/starter.toml"} <= in_wheel
    assert json.loads((tmp_path / "one/sbom.json").read_text("utf-8"))["components"]
