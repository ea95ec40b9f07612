"""What is published: built twice with the same bytes, complete, with a list of what an installation holds."""

import gzip
import io
import json
import subprocess
import sys
import tarfile
import time
import zipfile

import pytest
from support import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "deploy"))
import package


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
    lock = (REPOSITORY / "requirements.lock").read_text("utf-8")
    document = package.sbom(lock, "1.0")
    names = [one["name"] for one in document["components"]]
    assert names == [line.split("==")[0] for line in lock.splitlines() if "==" in line and line[0].isalnum()]
    assert {"prefect", "polars", "cryptography"} <= set(names)
    for one in document["components"]:
        assert one["hashes"], one["name"]
        assert one["purl"] == f"pkg:pypi/{one['name'].lower()}@{one['version']}"
        assert " " not in one["version"]
    assert document["bomFormat"] == "CycloneDX"


@pytest.mark.slow
def test_two_builds_are_equal_and_hold_the_same_files(tmp_path):
    script = [sys.executable, str(REPOSITORY / "deploy/package.py"), "--out"]
    for name in ("one", "two"):
        subprocess.run([*script, str(tmp_path / name)], check=True, capture_output=True, timeout=300)
        time.sleep(1.1)  # times in archives are of seconds
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == 3
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
