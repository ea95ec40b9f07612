"""The mirror of the public root on object storage: complete, no more than that, and never half of one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import polars as pl
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support.patches import patching
from support.project import reticent

from flows.commands.mirror import mirror_document
from flows.running.spec import open_store
from pipelines.errors import ConfigError, StoreError
from pipelines.settings.loading import load_settings
from pipelines.store.place.roots import Roots
from pipelines.store.upkeep.mirror import LATEST, mirror, require_protocol

URL = "memory://bucket/folder"


class NeedsAnAccount(MemoryFileSystem):
    """As adlfs without one."""

    def __init__(self, *_: object, **__: object) -> None:
        raise ValueError("no account, and key=hunter2 alone is of no use")


fsspec.register_implementation("needy", NeedsAnAccount, clobber=True)


@pytest.fixture
def roots(project: Path) -> Iterator[Roots]:
    yield open_store(load_settings(project, {}))
    MemoryFileSystem.store.clear()


def there() -> dict[str, bytes]:
    """Every object of the mirror, by its path in it."""
    system = fsspec.filesystem("memory")
    return {path.removeprefix("/bucket/folder/"): system.cat_file(path) for path in system.find("/bucket/folder")}


def here(roots: Roots) -> dict[str, bytes]:
    files = (path for path in (roots.public / "objects").rglob("*") if path.is_file())
    return {path.relative_to(roots.public).as_posix(): path.read_bytes() for path in files}


def artifacts(roots: Roots) -> int:
    return len(list((roots.public / "objects").glob("*/*")))


def test_it_holds_what_is_published_and_nothing_else(roots: Roots) -> None:
    done = mirror(roots, URL)
    found = there()
    latest = json.loads(found.pop(LATEST))
    assert found == here(roots)
    assert (done.num_copied, done.num_removed) == (artifacts(roots), 0)
    assert done.num_bytes == sum(map(len, found.values()))
    assert latest["files"].keys() == {path for path in found if not path.endswith("manifest.json")}
    assert latest["views"].keys() == {"model", "public", "public_report"}
    system = fsspec.filesystem("memory")
    read = [pl.read_parquet(system.open(f"/bucket/folder/{path}")) for path in latest["views"]["public"]]
    assert pl.concat(read).equals(pl.read_parquet(roots.public / "latest/public/*.parquet"))
    assert mirror(roots, URL).num_copied == 0


def test_what_is_not_published_any_more_goes_but_models_stay(roots: Roots) -> None:
    mirror(roots, URL)
    before, gone = there(), 0
    for stage in ("publish", "train"):
        for folder in (roots.public / "objects" / stage).iterdir():
            shutil.rmtree(folder)
            gone += stage == "publish"
    assert mirror(roots, URL).num_removed == gone
    after = there()
    assert {path.split("/")[1] for path in before.keys() - after.keys()} == {"publish"}
    latest = json.loads(after[LATEST])
    assert latest["views"].keys() == {"public_report"}
    assert not any("/publish/" in path or "/train/" in path for path in latest["files"])


def test_a_file_that_is_missing_or_of_another_size_there_is_copied_again_although_its_manifest_fits(
    roots: Roots,
) -> None:
    mirror(roots, URL)
    system, whole = fsspec.filesystem("memory"), there()
    path = max((p for p in whole if p.endswith(".parquet")), key=lambda p: len(whole[p]))
    manifest = path.rpartition("/")[0] + "/manifest.json"
    for damage in (lambda at: system.rm(at), lambda at: system.pipe_file(at, b"half")):
        damage(f"/bucket/folder/{path}")
        done = mirror(roots, URL)
        assert (done.num_copied, done.num_bytes) == (1, len(whole[path]) + len(whole[manifest]))
        assert there() == whole


def test_a_link_that_leads_out_of_the_public_root_shows_nothing(roots: Roots) -> None:
    (roots.public / "latest" / "elsewhere").symlink_to(roots.private)
    mirror(roots, URL)
    assert json.loads(there()[LATEST])["views"].keys() == {"model", "public", "public_report"}


def test_what_was_never_finished_is_not_copied(roots: Roots) -> None:
    left = roots.public / "objects" / "publish" / ("0" * 40)
    left.mkdir()
    (left / "public.parquet").write_bytes(b"half")
    (left / "manifest.json").write_text("{}")
    (roots.public / "work" / "half").write_bytes(b"half")
    mirror(roots, URL)
    assert not {b"half", b"{}"} & set(there().values())


@pytest.mark.parametrize("last", [0, 2, 5])
def test_a_copy_that_was_cut_off_shows_nothing_and_goes_on(roots: Roots, last: int) -> None:
    put, count = MemoryFileSystem.put_file, 0

    def fails(self: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal count
        if count == last:
            raise OSError("signature AKIA-SECRET does not match")
        count += 1
        return put(self, *arguments, **options)

    with patching() as patched:
        patched(MemoryFileSystem, "put_file", fails)
        with pytest.raises(StoreError, match="OSError") as told:
            mirror(roots, URL)
    assert "AKIA" not in str(told.value)
    assert LATEST not in there()
    mirror(roots, URL)
    assert {path: data for path, data in there().items() if path != LATEST} == here(roots)


def test_another_stores_mirror_is_left_alone(roots: Roots) -> None:
    system = fsspec.filesystem("memory")
    for other in (b'{"store": "another"}', b"[]", b"not json"):
        system.pipe_file(f"/bucket/folder/{LATEST}", other)
        with pytest.raises(StoreError, match="not of this store"):
            mirror(roots, URL)
        assert there() == {LATEST: other}


def test_a_damaged_file_is_not_copied(roots: Roots) -> None:
    (report,) = (roots.public / "objects" / "report").glob("*/report.html")
    report.write_bytes(report.read_bytes()[:-1] + b"?")
    with pytest.raises(StoreError, match="damaged"):
        mirror(roots, URL)
    assert LATEST not in there()
    assert not any(path.endswith("report.html") for path in there())


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("bucket/folder", "URL such as"),
        ("s3://", "URL such as"),
        ("s3://key:hunter2@bucket/folder", "no password"),
        ("gs://bucket/folder?token=hunter2", "no password"),
        ("nosuch://bucket/folder", "no protocol nosuch://"),
        ("dropbox://bucket/folder", "needs a package"),
        ("needy://bucket/folder", "needy:// lacks something .* such as an account"),
    ],
)
def test_urls_that_cannot_be_used_are_refused_before_a_run(project: Path, url: str, problem: str) -> None:
    def refused() -> None:
        settings = load_settings(project, {"RETICENT__STORE__MIRROR_URL": url})
        require_protocol(str(settings.store.mirror_url))

    with pytest.raises(ConfigError, match=problem) as told:
        refused()
    assert "hunter2" not in str(told.value)


def test_a_run_ends_with_it_and_says_what_failed(project: Path, tmp_path: Path) -> None:
    place = tmp_path / "mirror"
    done = reticent("run", project, "--json", cwd=project.parent, RETICENT__STORE__MIRROR_URL=f"file://{place}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mirror"]["num_copied"] == artifacts(open_store(load_settings(project, {})))
    assert (place / LATEST).is_file()
    done = reticent(
        "run", project, "--json", cwd=project.parent, RETICENT__STORE__MIRROR_URL="file:///proc/self/mirror"
    )
    assert done.returncode == 5
    assert json.loads(done.stdout)["state"] == "completed"
    assert "`reticent mirror` goes on" in done.stderr
    done = reticent("run", project, "--json", cwd=project.parent, RETICENT__STORE__MIRROR_URL="nosuch://folder")
    assert done.returncode == 2
    with pytest.raises(ConfigError, match="mirror_url is not set"):
        mirror_document(project, {})
    environ = {"RETICENT__STORE__MIRROR_URL": f"file://{place}"}
    assert mirror_document(project, environ) == {"num_copied": 0, "num_removed": 0, "num_bytes": 0}
