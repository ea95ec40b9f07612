"""The one place that reads and writes the files of stages."""

import ast

import pyarrow as pa
import pytest
from support import REPOSITORY
from support.contexts import artifact, stage_context

from pipelines.artifacts import Source, Target
from pipelines.errors import StoreError
from pipelines.tables import ROW, fields, schema

WORDS = schema("words", f"{ROW}, word: string")
ROWS = {"doc_id": ["a", "b"], "sentence_index": [0, 1], "word": ["x", "y"]}
NAMES = ["", ".", "..", "../other.json", "a/../../other.json", "/etc/passwd"]


@pytest.fixture
def target(tmp_path):
    return Target(folder=tmp_path / "out")


def read(target):
    return Source(folder=target.folder)


def visible(target):
    return sorted(path.relative_to(target.folder).as_posix() for path in target.folder.rglob("*") if path.is_file())


def test_a_schema_is_made_from_a_text():
    made = schema("t", f"{ROW}, a: uint32[], b: string?, c: pair[]?", pair=pa.struct(fields("x: bool, y: double")))
    pair = pa.struct([pa.field("x", pa.bool_(), nullable=False), pa.field("y", pa.float64(), nullable=False)])
    head = [pa.field("doc_id", pa.string(), nullable=False), pa.field("sentence_index", pa.uint32(), nullable=False)]
    assert made.columns == pa.schema(
        [*head, pa.field("a", pa.list_(pa.uint32()), nullable=False), ("b", pa.string()), ("c", pa.list_(pair))]
    )
    for wrong in ("a", "a: uint33", "a: string; b: string"):
        with pytest.raises(ValueError):
            schema("t", wrong)


def test_what_is_written_is_read(target):
    with target.table(WORDS) as writer:
        writer.extend(ROWS)
    with target.table(WORDS, "others"):
        pass
    target.json("parts/figures.json", {"b": 1, "a": None})
    target.text("page.html", "\N{SNOWMAN}")
    assert visible(target) == ["others.parquet", "page.html", "parts/figures.json", "words.parquet"]
    source = read(target)
    assert source.table(WORDS).read().to_pydict() == ROWS
    assert (source.table(WORDS).num_rows, source.table(WORDS, "others").num_rows) == (2, 0)
    assert source.json("parts/figures.json") == {"a": None, "b": 1}
    assert source.blob("parts/figures.json").read_text() == '{\n "a": null,\n "b": 1\n}\n'
    assert source.blob("page.html").read_text("utf-8") == "\N{SNOWMAN}"


@pytest.mark.parametrize(
    "other",
    [
        schema("verbs", f"{ROW}, word: string"),
        schema("words", f"{ROW}, word: string?"),
        schema("words", f"{ROW}, word: string, count: uint32"),
    ],
    ids=["another table", "another type", "another column"],
)
def test_a_table_of_another_schema_is_refused_by_name_and_file(target, other):
    with target.table(other, "words") as writer:
        writer.extend({name: [] for name in other.names})
    table = read(target).table(WORDS)
    for look in (table.read, lambda: table.num_rows, lambda: list(table.batches(["word"]))):
        with pytest.raises(StoreError, match=f"a words table was expected, found {other.mark} in words.parquet"):
            look()


def test_an_earlier_version_of_a_schema_is_refused(target):
    with target.table(WORDS) as writer:
        writer.extend(ROWS)
    with pytest.raises(StoreError, match="found words/1"):
        read(target).table(type(WORDS)(WORDS.name, WORDS.columns, version=2)).read()


def test_nothing_half_written_is_visible(target):
    target.json("figures.json", {"is": "old"})

    def stop():
        with target.table(WORDS) as writer:
            writer.extend(ROWS)
            assert visible(target) == [".words.parquet.tmp", "figures.json"]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        stop()
    for value in (float("nan"), float("inf"), {1, 2}):
        with pytest.raises((ValueError, TypeError)):
            target.json("figures.json", {"value": value})
    with pytest.raises(UnicodeEncodeError):
        target.text("page.html", "\ud800")
    assert visible(target) == ["figures.json"]
    assert read(target).json("figures.json") == {"is": "old"}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_would_leave_the_folder_is_refused(tmp_path, target, name):
    (tmp_path / "other.json").write_text("1")
    source = read(target)
    for use in (
        source.json, source.blob, target.blob, target.below, lambda name: target.json(name, 1),
        lambda name: target.text(name, ""), lambda name: target.emptied(name).__enter__(),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="no name of a file below"):
            use(name)
    for use in (lambda: source.table(WORDS, "../words"), lambda: target.table(WORDS, "../words")):
        with pytest.raises(ValueError, match="no name of a file below"):
            use()
    assert (tmp_path / "other.json").read_text() == "1"
    assert not target.folder.exists()


def test_a_scratch_folder_is_empty_and_goes_with_its_use(target):
    left = target.below("spill").blob("left")
    left.write_text("by a killed attempt")
    with target.emptied("spill") as spill:
        assert not left.exists()
        spill.blob("new").write_text("x")
    with pytest.raises(RuntimeError), target.emptied("spill"):
        raise RuntimeError
    assert list(target.folder.iterdir()) == []


def test_only_stages_with_a_public_root_reach_it(tmp_path):
    ctx = stage_context("split", tmp_path / "out", {}, {"a": tmp_path / "a", "b": ()})
    with pytest.raises(LookupError, match="declares no public root"):
        _ = ctx.out.public
    assert ctx.input("a").public.folder == tmp_path / "a"
    with pytest.raises(LookupError, match="input b has 0 artifacts"):
        ctx.input("b")
    with pytest.raises(LookupError, match="stage a has no public output"):
        _ = type(ctx.input("a"))(stage="a", partition=None, key="k", folder=tmp_path).public
    two = stage_context("split", tmp_path / "out", {}, {"a": [artifact("a", tmp_path), artifact("a", tmp_path)]})
    with pytest.raises(LookupError, match="input a has 2 artifacts"):
        two.input("a")


HANDS_ON = {"read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "read_table", "Table", "TableWriter"}
MODULES = {"os", "shutil", "tempfile", "pyarrow.parquet", "pipelines.files"}


def test_stages_open_no_file_themselves():
    files = sorted((REPOSITORY / "pipelines/stages").rglob("*.py"))
    assert len(files) > 30
    for path in files:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found = MODULES & {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found = MODULES & {str(node.module)}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                found = (HANDS_ON | {"open"}) & {node.func.id}
            else:
                found = HANDS_ON & {node.attr} if isinstance(node, ast.Attribute) else set()
            assert not found, (path.name, node.lineno)
