"""Side files of exports: their content counts, and a change of it is noticed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from corpus.corpus_files import documents

from pipelines.corpus.options import ReadOptions, SourceOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import scan
from pipelines.corpus.side_files import of_file, side_digest, side_files
from pipelines.errors import InputError
from pipelines.store.objects.inputs import CorpusRequest, corpus_state
from pipelines.store.place.statcache import StatCache

DAY = [{"type": "message", "user": "U1", "ts": "1", "text": "hello"}]


def export(folder: Path, name: str | None = "Ann", days: int = 2) -> Path:
    channel = folder / "general"
    channel.mkdir(parents=True, exist_ok=True)
    for day in range(days):
        (channel / f"2026-01-0{day + 1}.json").write_text(json.dumps(DAY))
    rename(folder, name)
    return folder


def rename(folder: Path, name: str | None) -> None:
    if name is not None:
        (folder / "users.json").write_text(json.dumps([{"id": "U1", "real_name": name}]))


def pieces(folder: Path):
    options = ReadOptions(sources=(SourceOptions(pattern="users.json", format="skip"),))
    found = scan(["."], base_dir=folder, format="slack", options=options, secret=b"k")
    return [piece for part in found for piece in part.pieces]


def speakers(folder: Path) -> list[str | None]:
    items = [item for piece in pieces(folder) for item in read_documents(piece, ReadOptions())]
    return [item.turns[0].speaker for item in documents(items) if item.turns]


def test_a_new_name_changes_the_digest_of_every_file(tmp_path):
    old = pieces(export(tmp_path))
    assert speakers(tmp_path) == ["Ann"] * 2
    rename(tmp_path, "Eva")
    new = pieces(tmp_path)
    assert speakers(tmp_path) == ["Eva"] * 2
    assert not {p.digest for p in old} & {p.digest for p in new}
    with pytest.raises(InputError, match="changed while"):
        list(read_documents(old[0], ReadOptions()))
    (tmp_path / "users.json").unlink()
    assert speakers(tmp_path) == ["U1"] * 2
    assert not {p.digest for p in (*old, *new)} & {p.digest for p in pieces(tmp_path)}
    rename(tmp_path, "Ann")
    assert [p.digest for p in pieces(tmp_path)] == [p.digest for p in old]


def test_a_name_that_changes_while_a_file_is_read_is_noticed(tmp_path):
    piece = pieces(export(tmp_path))[0]
    reading = read_documents(piece, ReadOptions())
    next(reading)
    rename(tmp_path, "Eva")
    with pytest.raises(InputError, match="changed while"):
        next(reading)


def test_the_store_reads_files_again_after_a_new_name(tmp_path):
    folder = export(tmp_path / "in")
    options = ReadOptions(sources=(SourceOptions(pattern="users.json", format="skip"),))
    request = CorpusRequest(inputs=["."], base_dir=folder, format="slack", options=options, partition_documents=10)
    old = os.stat(folder).st_mtime - 100
    for path in (folder / "users.json", *(folder / "general").iterdir()):
        os.utime(path, (old, old))

    def state(read: bool):
        return corpus_state(request, b"k", StatCache(tmp_path / "cache"), read=read)

    first = state(read=True)
    assert first.partitions is not None
    rename(folder, "Eva")
    assert state(read=False).num_unread == 2
    second = state(read=True).partitions
    assert second is not None
    assert not {p.digest for x in first.partitions for p in x.pieces} & {p.digest for x in second for p in x.pieces}


@pytest.mark.parametrize("data", [b"", b"{", b'[{"id": "U1"', b"[1, null]", b"\xff\xfe", b"[" * 9999])
def test_a_damaged_list_leaves_the_ids(tmp_path, data):
    export(tmp_path, None)
    (tmp_path / "users.json").write_bytes(data)
    assert speakers(tmp_path) == ["U1"] * 2


def test_names_before_the_damage_count(tmp_path):
    export(tmp_path, None)
    (tmp_path / "users.json").write_bytes(b'[{"id": "U1", "name": "ann"}, {"id": "U2", "na')
    assert speakers(tmp_path) == ["ann"] * 2


def test_other_formats_have_no_side_files(tmp_path):
    path = export(tmp_path) / "general" / "2026-01-01.json"
    assert side_files(path, "general/2026-01-01.json", "json") == ()
    assert side_digest(path, "general/2026-01-01.json", "json") == ""
    assert side_files(path, "general/2026-01-01.json", "slack") == (tmp_path / "users.json",)


def test_a_folder_outside_the_inputs_is_not_read(tmp_path):
    folder = export(tmp_path / "in")
    for inputs, name in ((["in/general"], "U1"), (["in/general/*.json"], "U1"), (["in/*/*.json"], "Ann")):
        parts = scan(inputs, base_dir=tmp_path, format="slack", secret=b"k")
        found = [item for part in parts for piece in part.pieces for item in read_documents(piece, ReadOptions())]
        assert {item.turns[0].speaker for item in documents(found) if item.turns} == {name}
    (folder / "general" / "users.json").write_text(json.dumps([{"id": "U1", "real_name": "Eva"}]))
    assert side_files(folder / "general" / "2026-01-01.json", "2026-01-01.json", "slack")


def test_an_unreadable_list_is_an_error(tmp_path, patch):
    path = export(tmp_path) / "general" / "2026-01-01.json"

    def refuse(file, *_):
        raise PermissionError(13, "no", str(file))

    patch("pipelines.corpus.side_files", "open_ordinary", refuse)
    with pytest.raises(InputError, match=r"list of names .* cannot be read") as error:
        side_digest(path, "general/2026-01-01.json", "slack")
    assert "users" not in str(error.value)


def test_values_of_old_files_are_remembered_until_they_change(tmp_path):
    path = tmp_path / "a"
    path.write_text("one")
    asked: list[str] = []

    def compute(file: Path) -> str:
        asked.append(file.read_text())
        return asked[-1]

    old = os.stat(path).st_mtime - 100
    os.utime(path, (old, old))
    os.rename(path, tmp_path / "b")
    (tmp_path / "b").rename(path)
    import time

    time.sleep(0.06)
    assert [of_file(path, compute) for _ in range(3)] == ["one"] * 3
    assert len(asked) == 1
    path.write_text("two")
    assert [of_file(path, compute) for _ in range(2)] == ["two"] * 2
