import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.corpus.customersim import write_customersim
from pipelines.corpus.formats import draws_folds
from pipelines.corpus.items import Document, Rejected
from pipelines.corpus.listing import left_out_text, list_files
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import FileIndex, PieceIndex, group, index_file, scan
from pipelines.errors import InputError
from pipelines.store.objects.keys import source_digest

SECRET = b"s" * 32


def write(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


# --- list_files -------------------------------------------------------------------------------------------------


def test_a_folder_is_searched_in_full_in_name_order_and_the_rest_is_counted(tmp_path):
    for name in (
        "c/b.txt",
        "c/a.TXT",
        "z.jsonl",
        "c/.hidden.txt",
        ".git/x.txt",
        "c/pic.png",
        "README.txt",
        "c/LICENSE.txt",
    ):
        write(tmp_path / "in" / name, "x")
    files = list_files(["in"], tmp_path)
    assert [(f.name, f.format) for f in files] == [("c/a.TXT", "txt"), ("c/b.txt", "txt"), ("z.jsonl", "jsonl")]
    assert files.left_out == {".png": 1, "hidden": 1, "hidden folder": 1, "readme or licence": 2}
    assert all(f.given == "in" for f in files)
    assert [f.name for f in list_files(["in"], tmp_path, "jsonl")] == ["z.jsonl"]


def test_the_readme_of_the_built_in_corpus_is_not_counted(tmp_path):
    write_customersim(tmp_path / "in", 2, seed=1)
    assert (tmp_path / "in" / "README.txt").exists()
    assert list_files(["in"], tmp_path).left_out == {}
    write(tmp_path / "in" / "b" / "README.txt", "Another one")
    assert list_files(["in"], tmp_path).left_out == {"readme or licence": 1}


def test_what_is_left_out_is_counted_by_suffix_unless_that_may_be_a_part_of_a_name(tmp_path):
    for name in ("a.txt", "b.csv", "C.CSV.gz", "notes", "letter.to ann lee", "letter.tojohnsmithesquire", "d.7z"):
        write(tmp_path / "in" / name, "x")
    files = list_files(["in"], tmp_path)
    assert files.left_out == {".csv": 2, "no suffix": 1, "other suffix": 2, ".7z": 1}
    assert left_out_text(files.left_out) == "2 .csv, 2 other suffix, 1 .7z, 1 no suffix"
    assert left_out_text({f".{i}": 1 for i in range(10)}).endswith(", 1 .7, 2 others")
    (tmp_path / "in" / "a.txt").unlink()
    with pytest.raises(InputError, match=r"left out: 2 \.csv, 2 other suffix"):
        list_files(["in"], tmp_path)


# --- folds of names ---------------------------------------------------------------------------------------------


def folds_of(folder: Path, names: tuple[str, ...], format: str, name_folds: str) -> list[str | None]:
    for name in names:
        write(folder / "in" / name, "USR: Hi.\nSYS: Hello.\n")
    files = list_files(["in"], folder, format)
    indexed = [(f.name, f.path, f.format, index_file(f.path, f.name, f.format, ReadOptions(), 9)) for f in files]
    draws = draws_folds([(f.name, f.format) for f in files], name_folds)
    parts = group(indexed, partition_documents=9, secret=SECRET, draws=draws)
    pieces = sorted((p for part in parts for p in part.pieces), key=lambda piece: piece.name)
    return [item.fold for piece in pieces for item in read_documents(piece, ReadOptions())]


@pytest.mark.parametrize(
    ("names", "name_folds", "folds"),
    [
        (("test.txt",), "auto", [None]),
        (("dev.txt", "more/val.txt"), "auto", [None, None]),
        (("train.txt",), "auto", ["train"]),
        (("test.txt", "train.txt"), "auto", ["test", "train"]),
        (("calls.txt", "test.txt"), "auto", [None, "test"]),
        (("test.txt", "train.txt"), "never", [None, None]),
        (("test.txt", "valid.txt"), "never", [None, None]),
    ],
)
def test_files_that_are_all_named_for_one_held_out_fold_are_drawn(tmp_path, names, name_folds, folds):
    assert folds_of(tmp_path, names, "dialogue", name_folds=name_folds) == folds


@pytest.mark.parametrize(("names", "name_folds"), [(("test.txt", "dev.txt"), "auto"), (("test.txt",), "always")])
def test_a_corpus_with_no_file_to_train_on_is_refused_before_anything_is_read(tmp_path, names, name_folds):
    with pytest.raises(InputError, match=r"say held-out text \(.*test.*\).*name_folds"):
        folds_of(tmp_path, names, "dialogue", name_folds=name_folds)


def test_drawn_folds_are_part_of_what_a_partition_is_keyed_by(tmp_path):
    write(tmp_path / "test.txt", "USR: Hi.\n")
    index = index_file(tmp_path / "test.txt", "test.txt", "dialogue", ReadOptions(), 9)
    said, drawn = (
        group([("test.txt", "test.txt", "dialogue", index)], partition_documents=9, secret=SECRET, draws=draws)[0]
        for draws in (False, True)
    )
    assert source_digest(SECRET, drawn.pieces) != source_digest(SECRET, said.pieces)
    assert [len(row) for row in source_digest(SECRET, said.pieces)] == [5]  # as before there were such


def test_a_name_says_no_fold_in_a_format_of_plain_text(tmp_path):
    assert folds_of(tmp_path, ("test.txt", "dev.txt"), "txt", name_folds="auto") == [None, None]


def test_a_file_named_outright_is_taken_whatever_it_is_called(tmp_path):
    write(tmp_path / "README.txt", "x")
    write(tmp_path / "wiki.raw", "x")
    assert [f.name for f in list_files(["README.txt"], tmp_path)] == ["README.txt"]
    assert [(f.name, f.format) for f in list_files(["wiki.raw"], tmp_path, "txt")] == [("wiki.raw", "txt")]
    with pytest.raises(InputError, match=r"wiki\.raw.*corpus\.format"):
        list_files(["wiki.raw"], tmp_path)


def test_patterns_name_files_relative_to_their_fixed_part(tmp_path):
    for name in ("d/x/1.txt", "d/y/2.txt", "d/y/3.raw"):
        write(tmp_path / name, "x")
    files = list_files(["d/**/*"], tmp_path)
    assert [f.name for f in files] == ["x/1.txt", "y/2.txt"]
    assert files.left_out.total() == 1
    assert [f.name for f in list_files(["d/y/*"], tmp_path, "txt")] == ["2.txt", "3.raw"]


def test_a_file_reached_twice_counts_once_and_equal_names_are_told_apart(tmp_path):
    write(tmp_path / "a" / "data.txt", "1")
    write(tmp_path / "b" / "data.txt", "2")
    (tmp_path / "b" / "link.txt").symlink_to(tmp_path / "a" / "data.txt")
    files = list_files(["a", "b", "a/data.txt", str(tmp_path / "b" / "*.txt")], tmp_path)
    assert [(f.name, f.path.read_text()) for f in files] == [("b/data.txt", "2"), ("data.txt", "1")]


def test_a_link_back_to_a_folder_above_does_not_loop(tmp_path):
    write(tmp_path / "in" / "sub" / "a.txt", "x")
    (tmp_path / "in" / "sub" / "up").symlink_to(tmp_path / "in")
    assert [f.name for f in list_files(["in"], tmp_path)] == ["sub/a.txt"]


@pytest.mark.parametrize("given", ["in", "in/*.txt", "in/gone.txt"])
def test_a_link_to_no_file_is_refused_not_left_out(tmp_path, given):
    write(tmp_path / "in" / "a.txt", "x")
    (tmp_path / "in" / "gone.txt").symlink_to(tmp_path / "nowhere.txt")
    with pytest.raises(InputError, match=r"points to no file|no file or folder"):
        list_files([given], tmp_path)
    (tmp_path / "in" / "gone.txt").rename(tmp_path / "in" / ".gone.txt")
    assert [f.name for f in list_files(["in"], tmp_path)] == ["a.txt"]


def test_a_name_that_is_not_utf8_is_usable(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt")).write_text("x")
    (part,) = scan(["in"], base_dir=tmp_path, secret=SECRET)
    assert part.pieces[0].name == "caf\\xe9.txt"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("nowhere", "no file or folder nowhere"),
        ("no/*.txt", "no file matches no/"),
        ("folder.jsonl", "is a folder"),
        ("a.txt/", "is a file"),
        ("pipe", "neither a file nor a folder"),
        ("empty", "nothing to read"),
        ("bad\0name", "no file or folder"),
    ],
)
def test_unusable_inputs_are_named(tmp_path, given, words):
    write(tmp_path / "a.txt", "x")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=words) as caught:
        list_files([given], tmp_path)
    assert caught.value.exit_code == 3


def test_a_corpus_of_empty_files_is_refused(tmp_path):
    write(tmp_path / "a.jsonl", "")
    with pytest.raises(InputError, match="every file is empty"):
        scan(["a.jsonl"], base_dir=tmp_path, secret=SECRET)


def test_a_file_that_cannot_be_read_is_reported_by_what_the_user_gave(tmp_path):
    with pytest.raises(InputError, match="a file of corpus cannot be read") as caught:
        index_file(tmp_path / "john_smith.txt", "john_smith.txt", "txt", ReadOptions(), 10, given="corpus")
    assert "john_smith" not in str(caught.value)


# --- index_file -------------------------------------------------------------------------------------------------

LINES = st.lists(
    st.sampled_from([b"", b"a", b" ", b"\t\r", b"words here", b"x" * 70_000, b"\xef\xbb\xbf"]), max_size=12
)


def naive_paragraphs(data: bytes) -> list[bytes]:
    """The slow, obvious reference: split at lines of white space only."""
    found: list[list[bytes]] = [[]]
    for number, line in enumerate(data.split(b"\n")):
        visible = line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line
        if visible.strip():
            found[-1].append(line)
        else:
            found.append([])
    return [b"\n".join(lines) for lines in found if lines]


@settings(deadline=None, max_examples=60)
@given(lines=LINES, final=st.booleans(), rows=st.integers(1, 4))
def test_pieces_hold_every_row_once_and_agree_with_the_reader(tmp_path_factory, lines, final, rows):
    data = b"\n".join(lines) + (b"\n" if final else b"")
    path = write(tmp_path_factory.mktemp("index") / "f.txt", data)
    expected_lines = data.removesuffix(b"\n").split(b"\n") if data else []
    for kind, expected in (("line", expected_lines), ("paragraph", naive_paragraphs(data))):
        index = index_file(path, path.name, "txt", ReadOptions(txt_document=kind), rows)
        assert index.size == len(data)
        assert index.num_rows == len(expected)
        assert [p.num_rows for p in index.pieces[:-1]] == [rows] * (len(index.pieces) - 1)
        assert [p.first_row for p in index.pieces] == list(range(1, len(expected) + 1, rows))
        for p in index.pieces:
            assert hashlib.sha256(data[p.start_byte : p.end_byte]).hexdigest() == p.digest
        assert FileIndex.from_json(json.loads(json.dumps(index.to_json()))) == index
        if index.pieces:
            read = [
                item
                for part in group([("f", path, "txt", index)], partition_documents=rows, secret=SECRET)
                for piece in part.pieces
                for item in read_documents(piece, ReadOptions(txt_document=kind, max_document_chars=10**6))
            ]
            assert not [item for item in read if isinstance(item, Rejected)]
            texts = [row.removeprefix(b"\xef\xbb\xbf") if n == 0 else row for n, row in enumerate(expected)]
            kept = [(n + 1, text) for n, text in enumerate(texts) if text.strip()]
            assert [(d.row, d.text.rstrip("\r")) for d in read] == [(n, t.decode().rstrip("\r")) for n, t in kept]


def test_whole_files_are_one_row_even_when_empty(tmp_path):
    index = index_file(write(tmp_path / "a.txt", ""), "a.txt", "txt", ReadOptions(), 5)
    assert [(p.num_rows, p.end_byte) for p in index.pieces] == [(1, 0)]


def test_a_longer_secret_moves_no_border(tmp_path):
    def rows_of(secret: str) -> list[tuple[int, int]]:
        rows = [f'{{"text": "row {i} {secret if i == 3 else ""}"}}' for i in range(20)]
        index = index_file(write(tmp_path / "a.jsonl", "\n".join(rows)), "a.jsonl", "jsonl", ReadOptions(), 6)
        return [(p.first_row, p.num_rows) for p in index.pieces]

    assert rows_of("x") == rows_of("x" * 500_000) == [(1, 6), (7, 6), (13, 6), (19, 2)]


# --- group ------------------------------------------------------------------------------------------------------


def fake(name: str, rows: int, size: int) -> tuple[str, str, str, FileIndex]:
    pieces = tuple(
        PieceIndex(start_byte=s, end_byte=s + 1, first_row=s + 1, num_rows=min(size, rows - s), digest="0")
        for s in range(0, rows, size)
    )
    return name, f"/in/{name}", "txt", FileIndex(size=rows, pieces=pieces)


NAMES = st.text("abcdef", min_size=1, max_size=4)
CORPUS = st.dictionaries(NAMES, st.one_of(st.just(1), st.integers(0, 25)), min_size=1, max_size=60)


@settings(deadline=None, max_examples=300)
@given(corpus=CORPUS, name=NAMES, rows=st.integers(1, 25))
def test_one_file_changes_only_the_groups_around_it(corpus, name, rows):
    limit = 10
    without = {k: v for k, v in corpus.items() if k != name}
    if not any(without.values()):
        return
    before, after = (
        group([fake(k, v, limit) for k, v in files.items()], partition_documents=limit, secret=SECRET)
        for files in (without, {**without, name: rows})
    )
    for parts in (before, after):
        assert len({p.name for p in parts}) == len(parts)
        order = [(piece.name, piece.first_row) for part in parts for piece in part.pieces]
        assert order == sorted(order)
    sizes = {**without, name: rows}
    for part in after:
        if len(part.pieces) > 1:
            assert sum(sizes[piece.name] for piece in part.pieces) <= limit
    lost, new = set(before) - set(after), set(after) - set(before)
    # What changes is next to the file, and no more than two partitions full.
    for changed in (lost, new):
        touched = {piece.name for part in changed for piece in part.pieces} - {name}
        assert sum(sizes[n] for n in touched) <= 2 * limit
        between = {n for n in without if without[n] and min(touched | {name}) < n < max(touched | {name})}
        assert between <= touched
    # Partitions of large files never change, whatever comes before them.
    assert not [p for p in lost if sizes[p.pieces[0].name] > limit]


def test_groups_are_reasonably_full_and_borders_depend_on_the_secret():
    files = [fake(f"doc_{i:05d}.txt", 1, 100) for i in range(5000)]
    parts = group(files, partition_documents=100, secret=SECRET)
    assert 50 < len(parts) < 160
    assert max(len(p.pieces) for p in parts) <= 100
    other = group(files, partition_documents=100, secret=b"t" * 32)
    assert [len(p.pieces) for p in parts] != [len(p.pieces) for p in other]
    assert not {p.name for p in parts} & {p.name for p in other}


def test_partition_names_reveal_nothing(tmp_path):
    write(tmp_path / "john_smith.txt", "hello")
    (part,) = scan(["john_smith.txt"], base_dir=tmp_path, secret=SECRET)
    assert len(part.name) == 16
    assert int(part.name, 16) >= 0


def test_appending_rows_keeps_the_earlier_partitions(tmp_path):
    rows = [json.dumps({"text": f"row {i}"}) + "\n" for i in range(25)]
    path = write(tmp_path / "a.jsonl", "".join(rows[:22]))
    before = scan(["a.jsonl"], base_dir=tmp_path, partition_documents=10, secret=SECRET)
    write(path, "".join(rows))
    after = scan(["a.jsonl"], base_dir=tmp_path, partition_documents=10, secret=SECRET)
    assert after[:2] == before[:2]
    assert [p.name for p in after] == [p.name for p in before]
    assert after[2] != before[2]
    documents = [d for p in after for piece in p.pieces for d in read_documents(piece, ReadOptions())]
    assert [d.text for d in documents if isinstance(d, Document)] == [f"row {i}" for i in range(25)]
