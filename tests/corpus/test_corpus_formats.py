"""Every input format: what its rows become, plain and compressed, whole and in pieces."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from corpus_files import documents, dump, read, rejections, write_table
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.corpus.datasets import linearise, parse_e2e
from pipelines.corpus.hashed_stream import HashedStream
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.rows import BOM, iter_rows
from pipelines.corpus.scan import scan
from pipelines.corpus.split import Splitter
from pipelines.errors import InputError

WIKITEXT = """ \n = First @-@ Title = \n \n A text with 1 @,@ 000 words . \n \n = = Section = = \n \n More text . \n \
 \n \
= Second = \n \n The value \n = 1 rad / s and k = \n is in the text . \n"""

MULTIDOGO = (
    "conversationId\tturnNumber\tsentenceNumber\tutteranceId\tutterance\tslot-labels\tintent\n"
    "c-1\t0\t0\tu\thi there\tO O\tgreeting\n"
    "c-1\t2\t0\tu\tann lee of new york\tname name O city city\tcontent\n"
    'c-1\t4\t0\tu\t"broken\n'
    ' to the line"\tO O O\tcontent\n'
    "c-1\t6\t0\tu\t\tO\tcontent\n"
    "c-1\t8\t0\tu\tbye now\tO\tcontent\n"
    "c-2\t0\t0\tu\thello\tO\tgreeting\r\n"
)
UNANNOTATED = (
    "conversationId\tturnNumber\tutteranceId\tutterance\tauthorRole\nc\t0\tu\thi\tcustomer\nc\t1\tu\tyes?\tagent\n"
)
PERSONACHAT = (
    "1 your persona: i like tea.\n2 partner's persona: i ski.\n3 hi\thello you\t\tone|two\n4 __SILENCE__\tbye\n"
    "1 your persona: i sing.\nno number\n2 a\tb\n"
)
ABCD = (
    "SYS:Hello. How may I help?\n\nUSR: my name is Ann: yes\n\nACT:Account pulled.\n\n<|endoftext|>SYS:Hi\n\nUSR:Bye\n"
)
DART = [
    {"tripleset": [["A", "B", "C"], ["D", "E", "F"]], "annotations": [{"text": "One."}, {"text": 'Two { " .'}]},
    {"tripleset": [["x", "y", "z"]], "annotations": [{"source": "s", "text": "Three."}]},
    {"tripleset": "no"},
]
E2E = '"mr","ref"\n"name[A], area[b]","A ""quoted"" text,\nwith a break."\nname[B],B is there.\nonly one column\n'
MRPC = 'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tHe said "so.\tHe said so.\n0\t9\t9\tOne.\n'


CASES = {
    "csv": (
        "a.csv",
        "auto",
        'id,text,domain,label,fold\n1,"He said ""hi"", then\nleft",x,4,dev\n2,plain 5" pipe,,,\n'
        "3,,x,,\n4,too,many,,,,\n",
        [('He said "hi", then\nleft', "1", "x", "valid", "4"), ('plain 5" pipe', "2", None, None, None)],
        [(3, "empty"), (4, "bad_columns")],
    ),
    "tsv": (
        "a.tsv",
        "auto",
        'text\tid\n"quoted\t1\n\nsecond"\t2\r\nno column\n',
        [('"quoted', "1", None, None, None), ('second"', "2", None, None, None)],
        [(4 - 0, "bad_columns")],
    ),
    "jsonl": (
        "a.ndjson",
        "auto",
        '{"text": "a b", "id": 7, "fold": "test"}\n{"text": 3}\n',
        [("a b", "7", None, "test", None)],
        [(2, "wrong_type")],
    ),
    "json": (
        "a.json",
        "json",
        '[\n {"text": "a } \\" ]", "id": "x"},\n 5, {"no": 1}\n,{"text": "b\\\\"}]\n',
        [('a } " ]', "x", None, None, None), ("b\\", None, None, None, None)],
        [(2, "not_an_object"), (3, "missing_text")],
    ),
    "wikitext": (
        "wiki.train.raw",
        "wikitext",
        WIKITEXT,
        [
            (WIKITEXT[: WIKITEXT.index(" = Second")], None, None, "train", None),
            (WIKITEXT[WIKITEXT.index(" = Second") :], None, None, "train", None),
        ],
        [],
    ),
    "dialogue": (
        "abcd.txt",
        "dialogue",
        ABCD,
        [
            ("SYS: Hello. How may I help?\nUSR: my name is Ann: yes\nACT: Account pulled.", None, None, None, None),
            ("SYS: Hi\nUSR: Bye", None, None, None, None),
        ],
        [],
    ),
    "multidogo": (
        "dev.tsv",
        "multidogo",
        MULTIDOGO,
        [
            ("USR: hi there\nUSR: ann lee of new york", "c-1", None, "valid", None),
            ("USR: hello", "c-2", None, "valid", None),
        ],
        [(1, "bad_columns"), (1, "bad_columns"), (1, "empty"), (1, "bad_spans")],
    ),
    "multidogo, both speakers": (
        "x.tsv",
        "multidogo",
        UNANNOTATED,
        [("USR: hi\nSYS: yes?", "c", None, None, None)],
        [],
    ),
    "personachat": (
        "train_both.txt",
        "personachat",
        PERSONACHAT,
        [
            (
                "PERSONA: i like tea.\nPARTNER_PERSONA: i ski.\nPARTNER: hi\nSELF: hello you\nSELF: bye",
                None,
                None,
                "train",
                None,
            ),
            ("PERSONA: i sing.\nPARTNER: a\nSELF: b", None, None, "train", None),
        ],
        [(2, "bad_columns")],
    ),
    "e2e": (
        "testset.csv",
        "e2e",
        E2E,
        [
            ('name : A | area : b || A "quoted" text, with a break.', None, None, "test", None),
            ("name : B || B is there.", None, None, "test", None),
        ],
        [(3, "bad_columns")],
    ),
    "dart": (
        "dart-dev.json",
        "dart",
        json.dumps(DART, indent=1),
        [
            ("A : B : C | D : E : F || One.", "1.1", None, "valid", None),
            ('A : B : C | D : E : F || Two { " .', "1.2", None, "valid", None),
            ("x : y : z || Three.", "2.1", None, "valid", None),
        ],
        [(3, "missing_text")],
    ),
    "glue, a pair": (
        "train.tsv",
        "glue",
        MRPC,
        [('He said "so. || He said so.', None, None, "train", "1")],
        [(2, "bad_columns")],
    ),
    "glue, one": ("dev.tsv", "glue", "sentence\tlabel\nfine .\t1\n", [("fine .", None, None, "valid", "1")], []),
}


@pytest.mark.parametrize("compression", ["", ".gz", ".zst"])
@pytest.mark.parametrize("case", CASES)
def test_golden_rows_of_each_format(tmp_path, case, compression):
    name, format, content, expected, rejected = CASES[case]
    path = dump(compression, name, content, tmp_path)
    items = read(path, format)
    fields = [(d.text, d.source_id, d.domain or None, d.fold, d.label or None) for d in documents(items)]
    assert fields == expected
    assert rejections(items) == rejected
    # The rows are the same, whatever pieces the file is cut into.
    assert read(path, format, rows=1) == items
    assert read(path, format, rows=2) == items


def test_gold_spans_of_multidogo_slots(tmp_path):
    path = dump("", "airline/dev.tsv", MULTIDOGO, tmp_path)
    options = ReadOptions()
    (part,) = scan([tmp_path.name], base_dir=tmp_path.parent, format="multidogo", options=options, secret=b"k")
    first, *_ = documents(list(read_documents(part.pieces[0], options)))
    assert path.exists()
    assert [(first.text[g.start : g.end], g.label) for g in first.gold] == [("ann lee", "name"), ("new york", "city")]
    assert (first.domain, first.num_rows) == ("airline", 2)


def test_wikitext_joiners_are_undone_on_request(tmp_path):
    path = dump("", "wiki.raw", WIKITEXT, tmp_path)
    kept, undone = read(path, "wikitext")[0], read(path, "wikitext", wikitext_joiners="undo")[0]
    assert "First @-@ Title" in kept.text
    assert "1 @,@ 000" in kept.text
    assert "First-Title" in undone.text
    assert "1,000" in undone.text


def test_a_tokenised_reference_is_put_back_together(tmp_path):
    line = {
        "mr": "name[A], priceRange[£ 20 - 25]",
        "ref_tokenised": "A is n't family - friendly ( twice ) : yes ! It 's £ 5 .",
    }
    (row,) = read(dump("", "a.jsonl", json.dumps(line) + "\n", tmp_path), "e2e")
    assert row.text == "name : A | price : £20-25 || A isn't family-friendly (twice): yes! It's £5."


def test_e2e_meanings_are_written_out():
    meaning = "name[The Mill], eatType[pub], priceRange[more than £30], customer rating[3 out of 5], near[Café Rouge]"
    assert linearise(meaning) == (
        "name : The Mill | Type : pub | price : more than £30 | customer rating : 3 out of 5 | near : Café Rouge"
    )
    for other in ("", "Mars Hill College : JOINED : 1973", "name The Mill", "name[The Mill] pub", "name, a[b]"):
        assert linearise(other) == other


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["name", "food", "near"]),
            st.text(alphabet=st.characters(blacklist_characters="[]\r\n\x1c\x1d\x1e\x85\u2028\u2029"), max_size=8),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_any_meaning_comes_back(pairs):
    assert parse_e2e(", ".join(f"{k}[{v}]" for k, v in pairs)) == tuple((k, v.strip()) for k, v in pairs)


CONLL = (
    "-DOCSTART- -X- O\n\nRT\tO\n@\tB-PER\nann\tI-PER\nLee\tB-PER\nYork\tB-LOC\r\n!\tI-PER\n\n"
    "EU NNP I-NP S-ORG\nNew JJ O B-LOC\nYork NN O E-LOC\ncity NN O I-LOC\n\nno tag\n\nword\tB\n\n\tO\n"
)


def test_tags_of_entities_are_known_secrets(tmp_path):
    """A tag I without an entity of its label before it begins one; E and L end one, S and U are one."""
    items = read(dump("", "wnut_train.conll", CONLL, tmp_path), "conll", 2)
    found = [(d.text, [(d.text[g.start : g.end], g.label) for g in d.gold], d.fold) for d in documents(items)]
    assert found == [
        ("RT @ ann Lee York !", [("@ ann", "PER"), ("Lee", "PER"), ("York", "LOC"), ("!", "PER")], "train"),
        ("EU New York city", [("EU", "ORG"), ("New York", "LOC"), ("city", "LOC")], "train"),
    ]
    assert [reason for _, reason in rejections(items)] == ["bad_columns"] * 3


def test_layouts_reach_the_splitter(tmp_path):
    splitter = Splitter()
    (pair,) = read(dump("", "a.csv", "mr,ref\nname[A],One. Two.\n", tmp_path), "e2e")
    assert [s.text for s in next(splitter.split([pair.text], pair.layout))] == ["name : A || One. Two."]
    (talk, _) = read(dump("", "b.txt", ABCD, tmp_path), "dialogue")
    turns = next(splitter.split([talk.text], talk.layout))
    assert next((s.speaker, s.text) for s in turns) == ("SYS", "Hello. How may I help?")
    assert [s.speaker for s in turns] == ["SYS", "USR", "ACT"]


def test_the_mark_behind_the_last_dialogue_is_no_dialogue(tmp_path):
    items = read(dump("", "a.txt", "SYS: a\nUSR: b\n<|endoftext|>\nSYS: c\n<|endoftext|>\n \n", tmp_path), "dialogue")
    assert [item.text for item in items] == ["SYS: a\nUSR: b", "SYS: c"]


def test_multidogo_without_utterances_says_so(tmp_path):
    items = read(dump("", "a.tsv", "conversationId\tturn\ttext\nc-1\t0\thello\nc-1\t1\tyes\n", tmp_path), "multidogo")
    assert rejections(items) == [(1, "missing_text")]


def test_dialogue_without_turns_is_rejected(tmp_path):
    assert rejections(read(dump("", "a.txt", "just a text\n", tmp_path), "dialogue")) == [(1, "no_turns")]


def test_huggingface_folder(tmp_path):
    features = {
        "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
        "text": {"dtype": "string", "_type": "Value"},
    }
    schema = pa.schema([("text", pa.string()), ("label", pa.int64())])
    schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    for fold, texts in (("train", ["a", "b"]), ("validation", ["c"])):
        folder = tmp_path / "saved" / fold
        folder.mkdir(parents=True)
        (folder / "state.json").write_text("{}")
        for name in ("data-00000-of-00001.arrow", "cache-1234.arrow"):
            write_table(folder / name, pa.table({"text": texts, "label": [1] * len(texts)}, schema=schema))
    for format in ("auto", "huggingface"):
        items = read(tmp_path / "saved", format)
        assert [(d.text, d.fold, d.label) for d in items] == [
            ("a", "train", "pos"),
            ("b", "train", "pos"),
            ("c", "valid", "pos"),
        ]


@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_damaged_file_gives_the_rows_before_the_damage(tmp_path, compression):
    lines = "".join(f'{{"text": "row {n} {n * 7919 % 104729}"}}\n' for n in range(60_000))
    path = dump(compression, "a.jsonl", lines, tmp_path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    items = read(path, rows=5000)
    *good, bad = items
    assert len(good) > 1000
    assert [d.text.split()[1] for d in good] == [str(n) for n in range(len(good))]
    assert (bad.row, bad.reason) == (len(good) + 1, "damaged")


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.txt.gz", "a.jsonl.zst", "a.csv.gz"])
def test_file_of_other_bytes_is_one_rejected_row(tmp_path, name):
    (tmp_path / name).write_bytes(b"no such thing at all\n" * 5)
    assert rejections(read(tmp_path / name)) == [(1, "damaged")]


def test_file_that_changes_is_noticed(tmp_path):
    path = dump("", "a.csv", "text,id\na,1\nb,2\n", tmp_path)
    options = ReadOptions()
    first, second = (p.pieces[0] for p in scan([path], base_dir=tmp_path, partition_documents=1, secret=b"k"))
    path.write_text("Text,id\na,1\nb,2\n")  # only the header changed: the row means something else now
    for piece in (first, second):
        with pytest.raises(InputError, match="changed"):
            list(read_documents(piece, options))


def test_tables_in_a_folder_are_taken_on_request_only(tmp_path):
    dump("", "a.txt", "text", tmp_path)
    dump("", "b.csv", "x,y\n1,2\n", tmp_path)
    assert [d.name for d in read(tmp_path)] == ["a.txt"]
    assert {d.name for d in read(tmp_path, "csv")} == {"b.csv"}


# --- rows -------------------------------------------------------------------------------------------------------


class Chunks:
    """A binary file that gives at most so many bytes a line."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.at, self.size = data, 0, size

    def readline(self, size: int) -> bytes:
        end = self.data.find(b"\n", self.at) + 1 or len(self.data)
        end = min(end, self.at + min(size, self.size))
        self.at, part = end, self.data[self.at : end]
        return part


KINDS = ["line", "paragraph", "record", "article", "conversation", "episode", "dialogue", "element"]
pieces_of_text = st.sampled_from(
    [b"a", b'"', b",", b"\n", b"\n\n", b" = T = \n", b"\t", b"id-1\t", b"\t\t\t", b"1 ", b"<|endoftext|>", b"{", b"}",
     b"\\", b"[", b"]", b" ", b"\r\n", BOM, b"\xff", b"\0", b'{"text": "x"},', b" \n"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(pieces_of_text, max_size=30), st.sampled_from(KINDS), st.integers(3, 7))
def test_rows_lose_no_byte_and_do_not_depend_on_segments(parts, kind, size):
    data = b"".join(parts)

    def rows(segment: int):
        stream = HashedStream(Chunks(data, segment))
        ends = []
        found = []
        for row in iter_rows(stream, kind, limit_bytes=1000, quoted_after=b","):
            found.append(row)
            ends.append(stream.position)
        return found, ends, stream.position

    whole, ends, position = rows(1 << 16)
    assert rows(size)[:2] == (whole, ends) or kind in ("article", "conversation", "episode", "dialogue")
    assert position == len(data)
    assert [row.number for row in whole] == list(range(1, len(whole) + 1))
    if kind != "paragraph":
        assert b"".join(row.data for row in whole) == data[: ends[-1] if ends else 0]
    for first, last in zip([0, *ends], ends, strict=False):
        part = HashedStream(Chunks(data[first:last], 1 << 16), first, last - first)
        (again,) = iter_rows(part, kind, limit_bytes=1000, quoted_after=b",")
        assert again.data == whole[ends.index(last)].data
