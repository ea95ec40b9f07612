"""Readers of other packages: their rows are checked, numbered and partitioned as those of every format."""

import gzip

import pytest
from pydantic import BaseModel, Field, ValidationError

from pipelines import plugins
from pipelines.corpus.format_spec import FormatSpec
from pipelines.corpus.formats import FORMATS, PLUGIN_KINDS, check_name
from pipelines.corpus.items import BadRow, Document
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.scan import scan
from pipelines.errors import ConfigError, InputError
from pipelines.graph import GRAPH
from pipelines.settings.corpus import CorpusConfig


class Options(BaseModel):
    sign: str = Field(default="#", min_length=1)


class Blocks:
    """Blocks of text, each behind a line with a sign."""

    spec = FormatSpec(
        name="blocks", document="a block", kinds={".blk": "whole"}, options=Options, packages=("pydantic",)
    )

    def __init__(self, options):
        self.sign = options.sign.encode()

    def read(self, file):
        for number, block in enumerate(file.read().split(self.sign)[1:], start=1):
            if block.startswith(b"!"):
                yield number, BadRow("bad_columns", "the block is marked.")
            elif block.startswith(b"fail"):
                raise RuntimeError(f"cannot read {block}")
            else:
                yield number, {"text": block.decode().strip(), "id": f"b{number}"}


class Lines:
    spec = FormatSpec(name="lines", document="a line", kinds={".lns": "line"})

    def __init__(self, options):
        assert options is None

    def read(self, file):
        return ((at, {"text": line.decode().strip()}) for at, line in enumerate(file, start=1) if line.strip())


class Falls(Lines):
    spec = FormatSpec(name="falls", document="a line", kinds={".fls": "file"})

    def read(self, file):
        return iter([(2, {"text": "one"}), (1, {"text": "two"})])


class Columns(Lines):
    spec = FormatSpec(name="columns", document="a row", kinds={".col": "parquet"})


class Plain:
    pass


def path_of(reader):
    return f"{__name__}:{reader.__name__}"


def read(folder, reader, partition_documents=10, plugin="{}"):
    """(partition, row, text or reason) of every row."""
    options = ReadOptions(plugin=plugin)
    partitions = scan(
        [str(folder)],
        base_dir=folder,
        format=path_of(reader),
        options=options,
        partition_documents=partition_documents,
        secret=b"s",
    )
    names = {partition.name: at for at, partition in enumerate(partitions)}
    return [
        (names[partition.name], item.row, item.text if isinstance(item, Document) else item.reason)
        for partition in partitions
        for piece in partition.pieces
        for item in read_documents(piece, options)
    ]


def test_rows_of_a_whole_file_are_checked_and_each_file_is_a_partition(tmp_path):
    (tmp_path / "a.blk").write_bytes(b"#one#!two##three\0#" + b"four\n")
    (tmp_path / "b.blk.gz").write_bytes(gzip.compress(b"#five"))
    (tmp_path / "c.txt").write_bytes(b"#no")
    assert read(tmp_path, Blocks) == [
        (0, 1, "one"),
        (0, 2, "bad_columns"),
        (0, 3, "empty"),
        (0, 4, "nul"),
        (0, 5, "four"),
        (1, 1, "five"),
    ]
    assert [row[2] for row in read(tmp_path, Blocks, plugin='{"sign": "!"}')][:1] == ["nul"]


def test_a_reader_that_fails_rejects_what_follows_and_quotes_nothing(tmp_path):
    (tmp_path / "a.blk").write_bytes(b"#one#failure#three")
    assert read(tmp_path, Blocks) == [(0, 1, "one"), (0, 2, "reader_failed")]
    (tmp_path / "a.fls").write_bytes(b"x")
    assert read(tmp_path, Falls) == [(0, 2, "one"), (0, 3, "reader_failed")]
    options = ReadOptions()
    (partition,) = scan([str(tmp_path)], base_dir=tmp_path, format=path_of(Blocks), options=options, secret=b"s")
    *_, rejected = read_documents(partition.pieces[0], options)
    assert "failure" not in rejected.detail


def test_lines_are_partitions_of_so_many_and_numbered_through(tmp_path):
    (tmp_path / "a.lns").write_bytes(b"one\n\ntwo\nthree\nfour")
    found = read(tmp_path, Lines, partition_documents=2)
    assert found == [(0, 1, "one"), (1, 3, "two"), (1, 4, "three"), (2, 5, "four")]


def test_a_file_that_changes_is_noticed(tmp_path):
    path = tmp_path / "a.blk"
    path.write_bytes(b"#one")
    (partition,) = scan([str(tmp_path)], base_dir=tmp_path, format=path_of(Blocks), secret=b"s")
    path.write_bytes(b"#two")
    with pytest.raises(InputError, match="changed"):
        list(read_documents(partition.pieces[0], ReadOptions()))


def test_its_code_packages_and_options_count(patch):
    name = path_of(Blocks)
    config = CorpusConfig(format=name, options={"sign": "%"})
    assert config.code_references() == (__name__,)
    assert config.package_references() == ("pydantic",)
    assert config.keyed()["options"] == {"sign": "%"}
    assert config.read_options().plugin == '{"sign": "%"}'
    assert CorpusConfig().code_references() == CorpusConfig().package_references() == ()
    assert "corpus" in GRAPH["split"].runs
    patch(plugins, "installed", lambda group: {"blocks": name})
    assert CorpusConfig(format="blocks").code_references() == (__name__,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "jsnl"}, "unknown format 'jsnl'; did you mean 'jsonl'"),
        ({"format": "a b:C"}, "not an import path"),
        ({"format": "txt", "options": {"a": 1}}, "the format 'txt' takes none"),
        ({"format": path_of(Blocks), "options": {"sig": "a"}}, r"options\.sig: unknown option; did you mean 'sign'"),
        ({"format": path_of(Blocks), "options": {"sign": ""}}, r"options\.sign: String should have at least 1"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        CorpusConfig.model_validate(settings)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.such.module:Reader", "cannot be imported"),
        (path_of(Plain), "has no spec"),
        (path_of(Columns), "each one of whole, file, line, paragraph"),
    ],
)
def test_a_reader_that_cannot_be_used_is_a_config_error(tmp_path, name, message):
    (tmp_path / "a.x").write_bytes(b"x")
    with pytest.raises(ConfigError, match=message):
        scan([str(tmp_path)], base_dir=tmp_path, format=name, secret=b"s")


def test_every_format_is_described():
    for name, spec in FORMATS.items():
        check_name(name)
        assert spec.name == name
        assert spec.document
        assert spec.example
        assert set(spec.settings) <= set(CorpusConfig.model_fields)
        assert set(spec.auto) <= set(spec.kinds)
        assert not spec.holds_pairs or not spec.has_gold
        assert spec.reader or "whole" not in spec.kinds.values()
    assert "whole" in PLUGIN_KINDS
