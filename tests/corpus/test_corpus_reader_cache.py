"""Files that cannot be entered in the middle: each process reads a file once, and every piece is what it was."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_files import write_table

from pipelines.corpus import columnar, open_input, readers
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.reader_cache import ReaderCache
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import scan
from pipelines.errors import InputError

NUM_ROWS = 60
KINDS = ["csv.gz", "csv.zst", "jsonl.gz", "parquet", "arrow"]


@pytest.fixture
def opened(patch):
    """Files that were read from their start, or from that of a row group; none stands open before."""
    paths = []

    def open_bytes(path, *encoding):
        paths.append(path)
        return open_input.open_bytes(path, *encoding)

    def read_rows(path, *arguments):
        paths.append(path)
        return read_rows.original(path, *arguments)

    read_rows.original = columnar.read_rows
    patch(readers, "open_bytes", open_bytes, read_by=readers)
    patch.constant(readers, "_BYTES", ReaderCache(at_most=4, reach=1 << 62))
    patch(columnar, "read_rows", read_rows, read_by=columnar)
    patch.constant(columnar, "_READERS", ReaderCache(at_most=4, reach=50))
    return paths


def kept_readers():
    return {**readers._BYTES._readers, **columnar._READERS._readers}.values()


def text(row):
    return f'row {row}, "quoted"'


def corpus(tmp_path, kind, name="a"):
    """A file cut into pieces of seven rows."""
    path = tmp_path / f"{name}.{kind}"
    table = pa.table({"id": list(map(str, range(NUM_ROWS))), "text": list(map(text, range(NUM_ROWS)))})
    if kind in ("parquet", "arrow"):
        write_table(path, table)
    else:
        if kind.startswith("csv"):
            data = "id,text\n" + "".join(f'{n},"row {n}, ""quoted"""\n' for n in range(NUM_ROWS))
        else:
            data = "".join(f'{{"text": "row {n}, \\"quoted\\""}}\n' for n in range(NUM_ROWS))
        pack = gzip.compress if kind.endswith(".gz") else lambda data: pa.compress(data, codec="zstd", asbytes=True)
        path.write_bytes(pack(data.encode()))
    parts = scan([path], base_dir=tmp_path, partition_documents=7, secret=b"k")
    return path, [part.pieces[0] for part in parts]


def texts(piece):
    return [item.text for item in read_documents(piece, ReadOptions())]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("taken", "num_opened"),
    [(range(9), 1), (range(0, 9, 3), 1), (range(1, 9, 2), 1), (range(8, -1, -1), 9), ([0, 1, 5, 2, 3], 2)],
)
def test_a_file_is_read_once_for_pieces_in_order(tmp_path, opened, kind, taken, num_opened):
    path, pieces = corpus(tmp_path, kind)
    opened.clear()  # indexing
    for n in taken:
        assert texts(pieces[n]) == [text(row) for row in range(7 * n, min(NUM_ROWS, 7 * n + 7))]
    assert opened == [path] * num_opened


def test_rows_far_ahead_are_entered_at_their_row_group(tmp_path, opened):
    path, pieces = corpus(tmp_path, "parquet")
    opened.clear()
    assert texts(pieces[0])
    assert texts(pieces[8]) == [text(row) for row in range(56, 60)]  # 49 rows on: within reach
    assert texts(pieces[0])
    columnar._READERS._reach = 48
    assert texts(pieces[8]) == [text(row) for row in range(56, 60)]
    assert opened == [path] * 3


def test_options_that_read_otherwise_do_not_share_a_file(tmp_path, opened):
    _, pieces = corpus(tmp_path, "parquet")
    texts(pieces[0])
    opened.clear()
    other = ReadOptions(text_field="id")
    with pytest.raises(InputError, match="changed"):  # the digest is of other columns
        list(read_documents(pieces[1], other))
    assert len(opened) == 1


@pytest.mark.parametrize("kind", ["csv.gz", "parquet"])
def test_a_file_that_changes_between_pieces_is_noticed(tmp_path, opened, kind):
    path, pieces = corpus(tmp_path, kind)
    texts(pieces[0])
    if kind == "parquet":
        pq.write_table(pa.table({"id": list(map(str, range(NUM_ROWS))), "text": ["other"] * NUM_ROWS}), path)
    else:
        path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"row 8", b"row X")))
    with pytest.raises(InputError, match="changed"):
        texts(pieces[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_replaced_while_a_piece_is_read_is_opened_anew(tmp_path, opened, kind):
    path, pieces = corpus(tmp_path, kind)
    rows = read_documents(pieces[0], ReadOptions())
    next(rows)
    (tmp_path / "copy").write_bytes(path.read_bytes())
    (tmp_path / "copy").replace(path)
    assert len(list(rows)) == 6
    opened.clear()
    assert texts(pieces[1]) == [text(row) for row in range(7, 14)]
    assert opened == [path]


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_read_at_the_same_time_do_not_share_a_file(tmp_path, opened, kind):
    _, pieces = corpus(tmp_path, kind)
    opened.clear()
    texts(pieces[0])
    read = [iter(read_documents(piece, ReadOptions())) for piece in pieces[1:4]]
    rows = [[next(one).text for one in read] for _ in range(7)]
    assert rows == [[text(7 * n + row) for n in (1, 2, 3)] for row in range(7)]
    assert len(opened) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_few_files_stay_open_and_none_at_its_end(tmp_path, opened, kind):
    made = [corpus(tmp_path, kind, name)[1] for name in "abcdef"]
    for pieces in made:
        texts(pieces[0])
    assert len(kept_readers()) == 4
    for pieces in made:
        texts(pieces[-1])
    assert not kept_readers()


@pytest.mark.parametrize("kind", KINDS)
def test_a_piece_that_is_given_up_leaves_no_file_open(tmp_path, opened, kind):
    _, pieces = corpus(tmp_path, kind)
    rows = read_documents(pieces[0], ReadOptions())
    next(rows)
    rows.close()
    assert not kept_readers()


@pytest.mark.parametrize("kind", ["csv.gz", "jsonl.gz"])
def test_damage_behind_a_piece_does_not_harm_it(tmp_path, opened, kind):
    path, _ = corpus(tmp_path, kind)
    path.write_bytes(path.read_bytes()[:-8])  # without the checksum that ends it
    parts = scan([path], base_dir=tmp_path, partition_documents=7, secret=b"k")
    *good, damaged = [item for part in parts for item in read_documents(part.pieces[0], ReadOptions())]
    assert [item.text for item in good] == [text(row) for row in range(len(good))]
    assert damaged.reason == "damaged"
    assert not kept_readers()
