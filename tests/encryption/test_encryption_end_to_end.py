"""The built-in job in an encrypted store, through Prefect, killed on the way: nothing of the text is on the disk.

Every file of the private root, of the temporary folder and of Prefect's home is searched for every line of the corpus.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from support.project import SECRET, prefect_home, reticent, small_project
from support.waiting import start, wait_for

import reticent as api
from pipelines.encryption.ring import FILE
from pipelines.encryption.sealed import HEADER_BYTES, MAGIC
from pipelines.store.objects.manifest import MANIFEST

KEY, OTHER = "9f3a" * 16, "77" * 32
_WINDOW = 24
_NOT_EVERY_TIME = {"claims.json", "report.html", "report.json"}
"""They name the release, whose identifier is drawn."""

pytestmark = pytest.mark.slow


def make_project(folder: Path) -> Path:
    config = small_project(folder, 60)
    shutil.rmtree(folder / "reticent-store")
    (folder / "secret").write_text(SECRET)
    (folder / "key").write_text(KEY + "\n")
    (folder / "tmp").mkdir()
    settings = config.read_text().replace("[train]", "[train]\ninsecure_test_seed = true")
    config.write_text(f'[store]\nsecret_file = "secret"\n{settings}')
    return config


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {"TMPDIR": str(folder / "tmp"), "PREFECT_HOME": str(prefect_home(folder / ".prefect")), **more}


def killed_once(config: Path, is_time: Callable[[], bool], **more: str) -> None:
    """Starts a run, and ends all of its processes at some moment, without a word."""
    run = start("run", config, cwd=config.parent, **environment(config.parent, **more))
    try:
        wait_for("the moment", is_time, 180, process=run, pause=0.02)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def entropy(data: bytes) -> float:
    """Bits a byte."""
    return -sum(n / len(data) * math.log2(n / len(data)) for n in Counter(data).values())


class Search:
    """Looks for the corpus on the disk: every window of characters that a line begins with, or has in its middle."""

    def __init__(self, corpus: Path) -> None:
        rows = [json.loads(row) for path in corpus.rglob("*.jsonl") for row in path.read_text("utf-8").splitlines()]
        texts = [turn.partition(": ")[2] or turn for row in rows for turn in row["text"].splitlines()]
        windows = (window.encode() for text in texts for window in (text[:_WINDOW], text[9 : 9 + _WINDOW]))
        self.known = {window for window in windows if len(window) == _WINDOW}
        assert len(self.known) > 300

    def finds(self, folder: Path) -> list[str]:
        found = []
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
            raw = path.read_bytes()
            windows = {raw[at : at + _WINDOW] for at in range(len(raw) - _WINDOW + 1)}
            if windows & self.known or KEY.encode() in raw or bytes.fromhex(KEY) in raw:
                found.append(path.relative_to(folder).as_posix())
        return found


def unsealed(private: Path) -> list[str]:
    """Files with content that are not sealed, or whose bytes are not those of a cipher."""
    found = []
    for path in sorted(p for p in private.rglob("*") if p.is_file() and not p.is_symlink() and p.stat().st_size):
        raw = path.read_bytes()
        body = raw[HEADER_BYTES:]
        # n random bytes fall short of 8 bits by about 255 / (2 n ln 2): 0.02 here. Text has 4 to 5, Parquet up to 7.9.
        is_random = len(body) < 8_192 or entropy(body) > 7.95
        if path.relative_to(private).as_posix() != FILE and not (raw.startswith(MAGIC) and is_random):
            found.append(path.relative_to(private).as_posix())
    return found


def plaintexts(config: Path, root: str) -> dict[str, list[bytes]]:
    """What the data files say, by stage and name."""
    from pipelines.files import read_file

    api.open_store(config)
    found: dict[str, list[bytes]] = {}
    for path in sorted((config.parent / "reticent-store" / root / "objects").glob("*/*/**/*")):
        if path.is_file() and path.name != MANIFEST:
            stage, _, *rest = path.relative_to(config.parent / "reticent-store" / root / "objects").parts
            found.setdefault("/".join([stage, *rest]), []).append(read_file(path))
    return {name: sorted(texts) for name, texts in found.items()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = make_project(tmp_path_factory.mktemp("plain"))
    done = reticent("run", config, cwd=config.parent, **environment(config.parent))
    assert done.returncode == 0, done.stderr
    return config


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without a kill."""
    config = make_project(tmp_path_factory.mktemp("sealed"))
    config.write_text(config.read_text().replace("[store]", '[store]\nkey_file = "key"'))
    done = reticent("run", config, cwd=config.parent, **environment(config.parent))
    assert done.returncode == 0, done.stderr
    assert KEY not in done.stdout + done.stderr
    return config


def test_the_search_would_find_a_plain_store(plain: Path) -> None:
    private = plain.parent / "reticent-store/private"
    found = Search(plain.parent / "corpus").finds(private)
    assert any("sentences.parquet" in name or name.startswith("objects/") for name in found)
    assert len(unsealed(private)) > 100


def test_killed_runs_leave_nothing_that_can_be_read(tmp_path: Path) -> None:
    config = make_project(tmp_path)
    private, search = tmp_path / "reticent-store/private", Search(tmp_path / "corpus")
    named = {"RETICENT__STORE__KEY_ENV": "KEY_OF_THIS_TEST", "KEY_OF_THIS_TEST": KEY}

    def assert_nothing_is_readable() -> None:
        assert unsealed(private) == []
        for folder in (private, tmp_path / "tmp", tmp_path / ".prefect"):
            assert search.finds(folder) == []

    def redacts() -> bool:
        return any((private / "objects").glob("dedup_mask/*")) and any((private / "work").glob("*/out/.*.tmp"))

    def sorts() -> bool:
        with suppress(FileNotFoundError):  # a folder may end while it is searched
            return any((private / "work").glob("*/scratch/**/*.bin"))
        return False

    killed_once(config, redacts, **named)
    assert not any((private / "objects").glob("shard/*"))
    assert_nothing_is_readable()
    killed_once(config, sorts, **named)
    assert any((private / "work").glob("*/scratch/**/*.bin"))
    assert not any((private / "objects").glob("train/*"))
    assert_nothing_is_readable()
    done = reticent("run", config, cwd=tmp_path, **environment(tmp_path, **named))
    assert done.returncode == 0, done.stderr
    assert_nothing_is_readable()
    assert KEY not in done.stdout + done.stderr


def test_what_is_inside_and_what_is_published_equal_a_plain_run(plain: Path, sealed: Path) -> None:
    assert unsealed(sealed.parent / "reticent-store/private") == []
    one, two = ({**plaintexts(config, "private"), **plaintexts(config, "public")} for config in (plain, sealed))
    assert one.keys() == two.keys()
    different = {name for name in one if one[name] != two[name]}
    assert {name.rpartition("/")[2] for name in different} <= _NOT_EVERY_TIME
    public = plaintexts(plain, "public")
    assert {name: public[name] for name in public if "model" in name} == {
        name: texts for name, texts in plaintexts(sealed, "public").items() if "model" in name
    }


def test_a_wrong_key_changes_nothing(sealed: Path) -> None:
    private = sealed.parent / "reticent-store/private"
    before = {path: path.read_bytes() for path in private.rglob("*") if path.is_file()}
    (sealed.parent / "other").write_text(OTHER)
    for command in ("run", "status", "verify", "ledger"):
        done = reticent(
            command, sealed, cwd=sealed.parent, **environment(sealed.parent, RETICENT__STORE__KEY_FILE="other")
        )
        assert done.returncode == 2, (command, done.stderr)
        assert "not the one that encrypts this store" in done.stderr
        assert OTHER not in done.stderr
    assert {path: path.read_bytes() for path in private.rglob("*") if path.is_file()} == before


def test_commands_read_and_export_what_is_sealed(plain: Path, sealed: Path, tmp_path: Path) -> None:
    shown = []
    for config in (plain, sealed):
        here = environment(config.parent)
        done = reticent("inspect", "redacted", "-c", config, "--json", cwd=config.parent, **here)
        assert done.returncode == 0, done.stderr
        (table,) = json.loads(done.stdout)["tables"]
        shown.append({name: table[name] for name in ("num_rows", "schema", "sample")})
        for name in ("redacted", "report"):
            out = tmp_path / config.parent.name / name
            out.parent.mkdir(exist_ok=True)
            assert reticent("export", name, "--out", out, "-c", config, cwd=config.parent, **here).returncode == 0
        assert reticent("verify", config, cwd=config.parent, **here).returncode == 0
    assert shown[0] == shown[1]
    assert "reticent.open(" in table["polars"]
    exported = [sorted((tmp_path / config.parent.name / "redacted").iterdir()) for config in (plain, sealed)]
    assert [path.read_bytes() for path in exported[0]] == [path.read_bytes() for path in exported[1]]
    assert (tmp_path / sealed.parent.name / "report/report.html").read_text().startswith("<!doctype html>")
    sentences = [api.open(config).table("sentences").collect() for config in (plain, sealed)]
    assert sentences[0].equals(sentences[1])
    assert isinstance(api.open(sealed).table("redacted"), pl.LazyFrame)
    done = reticent("show", "redacted", "-c", sealed, "--show-text", cwd=sealed.parent, **environment(sealed.parent))
    assert done.returncode == 0, done.stderr


def test_a_run_after_a_new_key_builds_nothing(sealed: Path) -> None:
    here = environment(sealed.parent)
    (sealed.parent / "new").write_text(OTHER)
    new = ("--new-key-file", sealed.parent / "new", "--reencrypt")
    done = reticent("rotate-key", sealed, *new, cwd=sealed.parent, **here)
    assert done.returncode == 0, done.stderr
    assert reticent("status", sealed, cwd=sealed.parent, **here).returncode == 2
    again = {**here, "RETICENT__STORE__KEY_FILE": "new"}
    done = reticent("run", sealed, "--json", cwd=sealed.parent, **again)
    assert done.returncode == 0, done.stderr
    assert {row["state"] for row in json.loads(done.stdout)["stages"]} == {"cached"}
    assert unsealed(sealed.parent / "reticent-store/private") == []
