"""Below an encrypted root: what any of our readers and writers leaves on the disk is sealed, and read back the same."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import transformers
from support import REPOSITORY

from pipelines import memory_files
from pipelines.artifacts import Source, Target
from pipelines.encryption import places
from pipelines.encryption.places import Place
from pipelines.encryption.ring import new_ring
from pipelines.encryption.sealed import MAGIC
from pipelines.errors import DamagedFileError, StageError
from pipelines.files import (
    append_lines,
    copy_file,
    read_before_damage,
    read_file,
    read_json,
    remove_lines,
    write_atomic,
    write_json,
)
from pipelines.frames import scan
from pipelines.store.place.disk import DAMAGED, digest_file, sha256_file, size_of
from pipelines.tables import ROW, schema
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.data.ragged import RaggedWriter

WORDS = schema("words", f"{ROW}, word: string")
SECRET = "Mrs. Halloway of 12 Birch Lane"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "private"
    made.mkdir()
    places.enter(made, Place(new_ring(), b"digest key"))
    yield made
    places.leave(made)
    for path in made.rglob("*"):
        if path.is_file() and path.stat().st_size:
            raw = path.read_bytes()
            assert raw.startswith(MAGIC), path
            assert SECRET.encode() not in raw, path
            assert not path.name.endswith(".tmp"), path


def rows(number: int) -> dict[str, list[Any]]:
    return {
        "doc_id": [f"d{n // 7}" for n in range(number)],
        "sentence_index": [n % 7 for n in range(number)],
        "word": [f"{SECRET} {n}" for n in range(number)],
    }


def test_documents_and_texts(root: Path, tmp_path: Path) -> None:
    target = Target(folder=root / "out")
    target.json("figures.json", {"who": SECRET})
    target.text("deep/page.html", SECRET)
    with target.lines("lines.jsonl") as file:
        file.write(f"{SECRET}\n".encode() * 3)
    source = Source(folder=root / "out")
    assert source.json("figures.json") == {"who": SECRET} == source.find_json("figures.json")
    assert list(source.lines("lines.jsonl")) == [SECRET.encode()] * 3
    assert read_file(root / "out/deep/page.html") == SECRET.encode()
    target.copy("copy.json", root / "out/figures.json")
    assert source.json("copy.json") == {"who": SECRET}
    Target(folder=root).take_over("all", source)
    assert read_file(root / "all/deep/page.html") == SECRET.encode()
    copy_file(root / "out/figures.json", tmp_path / "plain.json")
    assert read_json(tmp_path / "plain.json") == {"who": SECRET}
    copy_file(tmp_path / "plain.json", root / "back.json")
    assert read_json(root / "back.json") == {"who": SECRET}


def test_by_whatever_way_the_root_is_named(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(root)
    (root / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    write_json(Path("private/one.json"), {"who": SECRET})
    write_json(root / "sub/../two.json", {"who": SECRET})
    (root / "view").symlink_to("one.json")
    assert read_json(root / "view") == read_json(root / "two.json") == {"who": SECRET}
    write_json(tmp_path / "private-not.json", {})
    assert (tmp_path / "private-not.json").read_bytes() == b"{}\n"


@pytest.mark.parametrize("number", [0, 5, 40_000])
def test_tables_are_the_same_bytes_inside(root: Path, tmp_path: Path, number: int) -> None:
    for folder in (root, tmp_path):
        with Target(folder=folder).table(WORDS) as writer:
            writer.extend(rows(number))
    assert read_file(root / "words.parquet") == (tmp_path / "words.parquet").read_bytes()
    table = Source(folder=root).table(WORDS)
    assert (table.num_rows, table.read().to_pydict()) == (number, rows(number))
    assert [r["word"] for r in table.rows(["word"])] == rows(number)["word"]
    dictionary = list(table.batches(["doc_id"], as_dictionary=["doc_id"]))
    assert sum(map(len, dictionary)) == number


def test_frames_are_lazy_and_the_same(root: Path, tmp_path: Path) -> None:
    for folder in (root, tmp_path):
        for part in ("a", "b"):
            with Target(folder=folder).table(WORDS, part) as writer:
                writer.extend(rows(20_000))
    sealed, plain = (scan([folder / "a.parquet", folder / "b.parquet"]) for folder in (root, tmp_path))
    assert sealed.collect_schema() == plain.collect_schema()
    is_first = pl.col("sentence_index") == 0
    for asked in (
        lambda f: f.select(pl.len()), lambda f: f.head(3), lambda f: f.filter(is_first).select("word"),
        lambda f: f.filter(is_first).head(25_00), lambda f: f.group_by("doc_id").len().sort("doc_id"),
        lambda f: f.tail(2), lambda f: f.slice(19_990, 20),
    ):  # fmt: skip
        assert asked(sealed).collect().equals(asked(plain).collect())


def test_an_interrupted_table_leaves_nothing(root: Path) -> None:
    def stop() -> None:
        with Target(folder=root).table(WORDS) as writer:
            writer.extend(rows(30_000))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        stop()
    assert list(root.iterdir()) == []


def test_lines_are_appended_after_what_a_kill_left(root: Path) -> None:
    log = root / "log.jsonl"
    append_lines(log, f"{SECRET} one\n".encode())
    append_lines(log, f"{SECRET} two\n".encode())
    whole = log.read_bytes()
    append_lines(log, b"three\n" * 500)
    for cut in (len(whole) + 1, len(whole) + 9, log.stat().st_size - 1):
        os.truncate(log, cut)
        assert read_file(log).endswith(b"two\n")
        append_lines(log, b"three\n" * 500)
        assert read_file(log) == f"{SECRET} one\n{SECRET} two\n".encode() + b"three\n" * 500
    raw = bytearray(log.read_bytes())
    raw[len(whole) + 40] ^= 1
    log.write_bytes(raw)
    with pytest.raises(DamagedFileError):
        read_file(log)
    assert read_before_damage(log).endswith(b"two\n")
    write_json(root / "no log", {})
    with pytest.raises(DamagedFileError):
        append_lines(root / "no log", b"x\n")
    assert read_json(root / "no log") == {}


def test_a_log_that_was_killed_while_it_was_made_begins_anew(root: Path) -> None:
    log = root / "log.jsonl"
    for left in (b"", MAGIC, MAGIC + bytes(20)):
        log.write_bytes(left)
        append_lines(log, b"one\n")
        assert read_file(log) == b"one\n"


def test_lines_are_taken_out_of_a_log(root: Path) -> None:
    log = root / "log.jsonl"
    for name in (b"one", b"two", b"three"):
        append_lines(log, name + b"\n")
    assert remove_lines(log, lambda line: line.startswith(b"two")) == 1
    append_lines(log, f"{SECRET}\n".encode())
    assert read_file(log) == f"one\nthree\n{SECRET}\n".encode()


def test_digests_are_keyed_and_sizes_are_those_of_the_text(root: Path, tmp_path: Path) -> None:
    for folder in (root, tmp_path):
        write_atomic(folder / "short", b"yes")
    assert sha256_file(root / "short") == sha256_file(tmp_path / "short") == digest_file(tmp_path / "short")
    assert digest_file(root / "short") != digest_file(tmp_path / "short")
    before = digest_file(root / "short")
    write_atomic(root / "short", b"yes")
    assert digest_file(root / "short") == before
    assert size_of(root / "short") == size_of(tmp_path / "short") == 3
    raw = (root / "short").read_bytes()
    for damaged in (raw[:-1], raw[:-1] + bytes([raw[-1] ^ 1]), b"yes"):
        (root / "damaged").write_bytes(damaged)
        assert digest_file(root / "damaged") == DAMAGED
    assert size_of(root / "damaged") == -1
    (root / "damaged").unlink()


def test_flat_arrays_are_read_row_by_row(root: Path) -> None:
    lists = [list(range(n * 1000)) for n in (1, 0, 30, 2, 70)]
    with RaggedWriter(Target(folder=root), "ids", np.int32) as writer:
        for row in lists:
            writer.append(row)
    array = writer.open()
    for row in (4, 0, 1, 3, 2, 4):
        assert array[row].tolist() == lists[row]


def test_a_damaged_checkpoint_counts_as_none(root: Path) -> None:
    checkpoints = Checkpoints(root / "train.ckpt", "recipe")
    checkpoints.save({"weight": torch.arange(5), "text": SECRET})
    assert checkpoints.load()["text"] == SECRET  # type: ignore[index]
    raw = bytearray((root / "train.ckpt").read_bytes())
    raw[-1] ^= 1
    (root / "train.ckpt").write_bytes(raw)
    assert checkpoints.load() is None


def test_models_are_written_and_read_through_memory(root: Path, tmp_path: Path) -> None:
    from pipelines.training.models.recurrent import build_recurrent, load_recurrent, save_recurrent

    network = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=99, bos_token_id=1, eos_token_id=1)
    )
    for folder in (root / "model", tmp_path / "model"):
        with memory_files.writable(folder) as lent:
            network.save_pretrained(lent)
        with memory_files.writable(folder / "lstm") as lent:
            save_recurrent(build_recurrent(9, 1, 4, 4), lent)
    names = sorted(p.relative_to(tmp_path).as_posix() for p in (tmp_path / "model").rglob("*") if p.is_file())
    assert names == sorted(p.relative_to(root).as_posix() for p in (root / "model").rglob("*") if p.is_file())
    for name in names:
        assert read_file(root / name) == (tmp_path / name).read_bytes(), name
    with memory_files.readable(root / "model") as lent:
        read = transformers.AutoModelForCausalLM.from_pretrained(lent, local_files_only=True)
        assert load_recurrent(lent / "lstm").hidden_size == 4
    assert not lent.exists()
    assert torch.equal(read.transformer.wte.weight, network.transformer.wte.weight)


def test_a_file_that_has_no_place_in_memory_is_refused(root: Path) -> None:
    def save() -> Path:
        with memory_files.writable(root / "model") as lent:
            (lent / "config.json").write_text(SECRET)
            (lent / "unknown.bin").write_text(SECRET)
        return lent

    with pytest.raises(StageError, match=r"unknown\.bin, which an encrypted store has no place"):
        save()
    assert list((root / "model").iterdir()) == []


BY_HAND = {
    "open", "read_text", "read_bytes", "write_text", "write_bytes", "OSFile", "memory_map", "memmap", "ParquetFile",
    "ParquetWriter", "read_table", "write_table", "scan_parquet", "read_parquet", "sink_parquet", "save_file",
    "load_file", "save_pretrained", "from_pretrained", "copyfile", "copy2", "copytree", "mkdtemp", "NamedTemporaryFile",
    "TemporaryDirectory", "to_disk", "tofile",
}  # fmt: skip
"""What opens a file by its path, or makes one."""
NOT_PRIVATE = {
    "pipelines/corpus/": "input files, which the user owns",
    "pipelines/policies/": "models and lists of policies, which the user names, and data of the package",
    "pipelines/report/": "data of the package",
    "pipelines/filled_in.py": "source of the package",
    "pipelines/dedup/filters.py": "a filter that the user names",
    "pipelines/miss_rate/learnt.py": "lists beside a policy's model",
    "pipelines/miss_rate/reidentification.py": "a table that the user names",
    "pipelines/dp/callback.py": "checkpoints of somebody else's training loop",
    "pipelines/training/models/converted.py": "models from elsewhere; an encrypted store keeps none converted",
    "pipelines/attacks/attack_training.py": "made-up records only; no text of anybody",
    "pipelines/training/models/saving.py": "a folder lent by memory_files",
    "pipelines/training/models/network.py": "a folder lent by memory_files",
    "pipelines/training/models/recurrent.py": "a folder lent by memory_files",
    "pipelines/training/scoring/text_metrics.py": "an encoder of the hub in the local cache, for BERTScore",
    "pipelines/training/model_folder.py": "a folder lent by memory_files",
    "pipelines/training/description.py": "a folder lent by memory_files",
    "pipelines/training/outputs.py": "a folder lent by memory_files",
    "pipelines/stages/train/train.py": "a folder lent by memory_files",
    "pipelines/training/machines/process_group.py": "where processes of one machine meet; it holds addresses",
    "pipelines/training/machines/": "locks, which are empty, and where machines meet; it holds addresses",
    "pipelines/training/peers.py": "asks the system",
    "pipelines/settings/loading.py": "the settings file",
    "pipelines/training/data/ragged.py": "maps plain files only",
    "pipelines/training/data/": "methods of those names, of RaggedWriter and of tables",
    "pipelines/tables.py": "what pipelines.files gives, for plain files only by path",
    "pipelines/frames.py": "likewise",
    "pipelines/gate/files.py": "likewise",
    "pipelines/dedup/buckets.py": "Arrow's own writer into what pipelines.tables opened",
    "pipelines/stages/": "methods of those names (tests/test_artifacts.py)",
    "pipelines/files.py": "the one place that opens files",
    "pipelines/settings/as_installed.py": "files of installed packages",
    "pipelines/memory_files.py": "links to files in memory",
    "pipelines/encryption/": "reads the store key; seals",
    "pipelines/store/upkeep/mirror.py": "what is published",
    "pipelines/release_folder.py": "what is published, in a folder outside of the store",
    "pipelines/training/plain_loading.py": "likewise",
    "pipelines/store/place/locks.py": "locks, which are empty",
    "pipelines/store/objects/code.py": "source code",
    "pipelines/store/place/file_system.py": "tries the disk with files of one byte",
    "pipelines/store/place/encrypted_fs.py": "asks the system",
    "pipelines/store/objects/overlays.py": "a folder in the private root, filled by artifacts",
    "pipelines/store/upkeep/maintenance.py": "copies sealed files as they are, inside one root",
    "pipelines/store/place/rotation.py": "seals sealed files anew",
    "pipelines/store/place/unlocking.py": "looks whether a file is sealed",
}
"""Who else opens files, and why none of them lies in the private root in plain."""


def test_nobody_opens_private_files_by_hand() -> None:
    """A new way to a file goes through `pipelines.files`, or says here why it need not."""
    used: set[str] = set()
    for path in sorted((REPOSITORY / "pipelines").rglob("*.py")):
        name = path.relative_to(REPOSITORY).as_posix()
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if BY_HAND & set(re.findall(r"\w+", text)) else ():
            called = node.func if isinstance(node, ast.Call) else None
            word = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
            if word in BY_HAND:
                reasons = [known for known in NOT_PRIVATE if name.startswith(known)]
                assert reasons, f"{name}:{node.lineno} opens a file by hand ({word})"
                used.update(reasons)
    assert used == set(NOT_PRIVATE)
