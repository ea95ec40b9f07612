"""Builds the wheel and the source distribution, twice, and writes the list of what an installation holds.

    python deploy/package.py --out dist

Both builds are of what git holds at HEAD, in folders of their own; they must be equal byte for byte. Times in archives
are those of the commit. ``sbom.json`` (CycloneDX 1.5) lists the packages of ``make setup`` with their hashes, and
``constraints.txt`` pins them for pip and pipx, which take no hashes beside a wheel of ours. Needs git and setuptools,
and no network.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
LOCKS = ("requirements.lock", "requirements-torch.lock", "requirements-models.lock")
_BUILD = """
import sys
from setuptools import build_meta
out = sys.argv[1]  # setuptools puts its own arguments in their place
build_meta.build_wheel(out)
build_meta.build_sdist(out)
"""


def build(out: Path, epoch: int) -> list[Path]:
    """The wheel and the source distribution of HEAD, in ``out``."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=REPOSITORY, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(source, filter="data")
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
        subprocess.run(
            [sys.executable, "-c", _BUILD, str(out.resolve())],
            cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL, umask=0o022,
        )  # fmt: skip
    for path in out.glob("*.tar.gz"):
        path.write_bytes(same_every_time(path.read_bytes(), epoch))
    return sorted(out.iterdir())


def same_every_time(archive: bytes, epoch: int) -> bytes:
    """A .tar.gz with its members in order, of nobody in particular, at one time."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(archive)) as old, tarfile.open(fileobj=plain, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=epoch) as file:
        file.write(plain.getvalue())
    return packed.getvalue()


def locked() -> str:
    """Returns the packages that ``make setup`` installs, with hashes."""
    return "".join((REPOSITORY / name).read_text("utf-8") for name in LOCKS)


def constraints(lock: str) -> str:
    """The versions of a lock file with their markers, and without hashes."""
    return "".join(f"{pin}\n" for pin in re.findall(r"^([A-Za-z0-9._-]+==.*?) *(?:\\|--hash=.*)?$", lock, re.M))


def sbom(lock: str, version: str) -> dict[str, Any]:
    """The packages of a lock file as a CycloneDX document."""
    components = []
    for name, number, rest in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)((?:.*\\\n)*.*)$", lock, re.M):
        hashes = [{"alg": "SHA-256", "content": digest} for digest in re.findall(r"sha256:([0-9a-f]{64})", rest)]
        purl = f"pkg:pypi/{name.lower()}@{number}"
        components.append(
            {"type": "library", "name": name, "version": number, "purl": purl, "bom-ref": purl, "hashes": hashes}
        )
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "reticent", "version": version}},
        "components": components,
    }


def main() -> None:
    """Builds twice and compares.

    Raises:
        SystemExit: the folder is not empty, or the builds differ.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("dist"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise SystemExit(f"{out} is not empty")
    log = ["git", "log", "-1", "--format=%ct"]
    epoch = int(subprocess.run(log, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout)
    with tempfile.TemporaryDirectory() as second:
        first_files, second_files = build(out, epoch), build(Path(second), epoch)
        for one, other in zip(first_files, second_files, strict=True):
            if one.name != other.name or one.read_bytes() != other.read_bytes():
                raise SystemExit(f"{one.name}: two builds of one commit differ")
    (wheel,) = out.glob("*.whl")
    version = wheel.name.split("-")[1]
    document = json.dumps(sbom(locked(), version), indent=1) + "\n"
    (out / "sbom.json").write_text(document, "utf-8")
    (out / "constraints.txt").write_text(constraints(locked()), "utf-8")
    for path in sorted(out.iterdir()):
        print(hashlib.sha256(path.read_bytes()).hexdigest(), path.name)


if __name__ == "__main__":
    main()
