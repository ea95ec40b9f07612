"""Names that are not text, links that lead nowhere, and files that never end: named, and the rest is read."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from corpus_files import write_table

from pipelines.corpus.items import Document, Rejected
from pipelines.corpus.listing import list_files
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import scan
from pipelines.errors import InputError

SECRET = b"s" * 32
TEXTS = ["The first text.", "The second text."]
OPTIONS = ReadOptions(txt_document="line")


@pytest.fixture(autouse=True)
def _no_test_hangs() -> Iterator[None]:
    def fail(*_: object) -> None:
        raise AssertionError("it waits for a file that gives nothing")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _table(path: Path) -> None:
    write_table(path, pa.table({"text": TEXTS}))


def _arrow_file(path: Path) -> None:
    table = pa.table({"text": TEXTS})
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


LINES = "\n".join(TEXTS) + "\n"
ROWS = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
WRITERS: dict[str, Callable[[Path], object]] = {
    "a.txt": lambda path: path.write_text(LINES),
    "a.jsonl": lambda path: path.write_text(ROWS),
    "a.jsonl.gz": lambda path: path.write_bytes(gzip.compress(ROWS.encode())),
    "a.jsonl.zst": lambda path: path.write_bytes(pa.compress(ROWS.encode(), "zstd", asbytes=True)),
    "a.parquet": _table,
    "a.arrow": _table,
    "file.arrow": _arrow_file,
}


def _read(inputs: list[str], folder: Path) -> list[Document | Rejected]:
    partitions = scan(inputs, base_dir=folder, options=OPTIONS, partition_documents=1, secret=SECRET)
    return [item for part in partitions for piece in part.pieces for item in read_documents(piece, OPTIONS)]


@pytest.mark.parametrize("below", [False, True], ids=["file", "folder"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_name_that_is_not_utf8_is_read_in_every_format(tmp_path: Path, name: str, below: bool) -> None:
    """Arrow takes no such name: a run with one such Parquet file ended in a traceback."""
    plain = tmp_path / name
    WRITERS[name](plain)
    folder = tmp_path / "in"
    folder.mkdir()
    odd = os.fsdecode(b"caf\xe9")
    if below:
        (folder / odd).mkdir()
    plain.rename(folder / odd / name if below else folder / f"{odd}-{name}")
    found = _read(["in"], tmp_path)
    assert [item.text for item in found if isinstance(item, Document)] == TEXTS
    assert {item.name for item in found} == {f"caf\\xe9/{name}" if below else f"caf\\xe9-{name}"}
    assert found[0].name.encode()


@pytest.mark.parametrize("given", ["in", "in/*", "in/loop.txt"])
def test_a_link_to_itself_is_refused_like_one_to_nothing(tmp_path: Path, given: str) -> None:
    """It was an unexpected error; a part of the corpus that is missing is not one to leave out."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("The text.")
    (tmp_path / "in/loop.txt").symlink_to("loop.txt")
    with pytest.raises(InputError, match=r"points to no file|leads to itself") as caught:
        list_files([given], tmp_path)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("name", [".loop.txt", "loop", "loop.png"])
def test_a_link_to_itself_that_nobody_asked_for_is_ignored(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("The text.")
    (tmp_path / "in" / name).symlink_to(name)
    (tmp_path / "in/two").symlink_to("three")
    (tmp_path / "in/three").symlink_to("two")
    files = list_files(["in"], tmp_path)
    assert [file.name for file in files] == ["a.txt"]
    assert files.left_out.total() == 3


def _pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _link_to_pipe(path: Path, outside: Path) -> None:
    os.mkfifo(outside / "pipe")
    path.symlink_to(outside / "pipe")


def _link_to_socket(path: Path, outside: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(outside / "socket"))
    path.symlink_to(outside / "socket")


def _link_to_device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


def _link_to_kernel_log(path: Path, _: Path) -> None:
    """A regular file, says the kernel, and waits for its next message."""
    if path.suffix != ".txt" or os.geteuid() != 0 or not Path("/proc/kmsg").exists():
        pytest.skip("once is enough; only root can read the kernel's log, and a container may not have it")
    path.symlink_to("/proc/kmsg")


ENDLESS = [_pipe, _link_to_pipe, _link_to_socket, _link_to_device, _link_to_kernel_log]


@pytest.mark.parametrize("suffix", ["txt", "jsonl.gz", "jsonl.zst", "parquet", "arrow"])
@pytest.mark.parametrize("make", ENDLESS)
@pytest.mark.parametrize("given", ["in", "in/*"])
def test_what_is_no_file_is_a_rejected_row_and_the_rest_is_read(
    tmp_path: Path, given: str, make: Callable[[Path, Path], None], suffix: str
) -> None:
    """One was left out without a word, or the run waited for it until somebody ended it."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in/a.txt").write_text(LINES)
    make(tmp_path / f"in/b.{suffix}", tmp_path / "out")
    (tmp_path / "in/c.txt").write_text(LINES)
    found = _read([given], tmp_path)
    assert [item.text for item in found if isinstance(item, Document)] == TEXTS * 2
    (bad,) = (item for item in found if isinstance(item, Rejected))
    assert (bad.name, bad.row, bad.reason) == (f"b.{suffix}", 1, "not_a_file")
    assert "remove" in bad.detail.lower()


@pytest.mark.parametrize("make", [_pipe, _link_to_pipe, _link_to_socket, _link_to_device])
def test_named_outright_it_is_refused(tmp_path: Path, make: Callable[[Path, Path], None]) -> None:
    make(tmp_path / "b.txt", tmp_path)
    with pytest.raises(InputError, match=r"b\.txt is neither a file nor a folder"):
        list_files(["b.txt"], tmp_path)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl.gz", "a.parquet", "a.arrow"])
def test_a_file_that_becomes_a_pipe_between_scan_and_reading_stops_the_run(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    (part, *_) = scan([name], base_dir=tmp_path, options=OPTIONS, secret=SECRET)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="changed while it was being read"):
        list(read_documents(part.pieces[0], OPTIONS))
