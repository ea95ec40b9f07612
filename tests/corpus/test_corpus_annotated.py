"""CoNLL-U, CoNLL-2003 and CoNLL-2012: text, documents and entities."""

from __future__ import annotations

import random

import pytest
from corpus_files import documents, dump, read, rejections
from format_examples_pages import CONLL_2003, CONLLU
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.corpus.annotated import Conll, Conllu
from pipelines.corpus.items import BadRow
from pipelines.corpus.options import ReadOptions


def read_as(folder, format, data, **fields):
    return read(dump("", "a.conllu" if format == "conllu" else "a.conll", data, folder), format, **fields)


def marked(document):
    return [(document.text[span.start : span.end], span.label) for span in document.gold or ()]


def words(*rows):
    """Lines of ten columns from pairs of form and MISC."""
    return "".join(f"{n}\t{form}\t_\t_\t_\t_\t_\t_\t_\t{misc}\n" for n, (form, misc) in enumerate(rows, start=1)) + "\n"


def test_documents_text_and_entities_of_conllu(tmp_path):
    first, second = documents(read_as(tmp_path, "conllu", CONLLU))
    assert (first.source_id, first.text) == ("d1", "Ann Example doesn't sing.\n(Berlin)")
    assert marked(first) == [("Ann Example", "person"), ("Berlin", "place")]
    assert (second.source_id, second.text, second.gold) == ("d2", "Bye.", ())


def test_paragraphs_are_documents_if_no_document_is_marked(tmp_path):
    data = "# newpar id = p1\n" + words(("one", "_")) + words(("two", "_")) + "# newpar\n" + words(("three", "_"))
    found = documents(read_as(tmp_path, "conllu", data))
    assert [(d.source_id, d.text, d.gold) for d in found] == [("p1", "one\ntwo", None), (None, "three", None)]


def test_sentences_are_documents_if_nothing_is_marked(tmp_path):
    data = "# sent_id = s1\n" + words(("one", "_")) + "\n\n# sent_id = s2\n" + words(("two", "_"))
    found = documents(read_as(tmp_path, "conllu", data))
    assert [(d.source_id, d.text) for d in found] == [("s1", "one"), ("s2", "two")]


def test_without_a_line_of_text_words_are_joined_by_spaceafter(tmp_path):
    data = words(
        ("(", "SpaceAfter=No"), ("Ann", "X=1|SpaceAfter=No"), (")", "_"), ("sang", "SpaceAfter=No"), (".", "_")
    )
    (found,) = documents(read_as(tmp_path, "conllu", data))
    assert found.text == "(Ann) sang."


def test_words_that_the_line_of_text_lacks_replace_it(tmp_path):
    data = "# text = Something else\n" + words(("Ann", "NER=B-PER"), ("Example", "NER=I-PER"), ("sang", "NER=O"))
    (found,) = documents(read_as(tmp_path, "conllu", data))
    assert (found.text, marked(found)) == ("Ann Example sang", [("Ann Example", "PER")])


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            [("Ann", "NER=B-PER"), ("Example", "NER=I-PER"), ("B.", "NER=B-PER")],
            [("Ann Example", "PER"), ("B.", "PER")],
        ),
        ([("Ann", "ner=S-PER"), ("in", "ner=O"), ("Bonn", "ner=B-LOC")], [("Ann", "PER"), ("Bonn", "LOC")]),
        ([("Ann", "ner=B-PER"), ("Lee", "ner=L-PER"), ("Bonn", "ner=U-LOC")], [("Ann Lee", "PER"), ("Bonn", "LOC")]),
        ([("Ann", "NER=PERSON"), ("ran", "NER=_")], [("Ann", "PERSON")]),
        ([("a", "Entity=(e1-person-1(e2-place-1)"), ("b", "Entity=e1)")], [("a", "place"), ("a b", "person")]),
        ([("a", "Entity=(person-1"), ("b", "Entity=(place-2)person-1)")], [("b", "place"), ("a b", "person")]),
        ([("a", "Entity=(e1--1)")], [("a", "ENTITY")]),
        ([("a", "Entity=(2-abstract-giv:act-ss-cf1*-1-coref)")], [("a", "abstract")]),
    ],
)
def test_notations_of_entities(tmp_path, rows, expected):
    (found,) = documents(read_as(tmp_path, "conllu", words(*rows)))
    assert sorted(marked(found)) == sorted(expected)


def test_a_column_of_tags_behind_the_ten_counts(tmp_path):
    data = "1\tAnn\t_\t_\t_\t_\t_\t_\t_\t_\tB-PER\n2\truns\t_\t_\t_\t_\t_\t_\t_\t_\tO\n"
    (found,) = documents(read_as(tmp_path, "conllu", data))
    assert marked(found) == [("Ann", "PER")]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"1\tx\n\n", "bad_columns"),
        (b"one\t" + b"_\t" * 9 + b"_\n\n", "bad_columns"),
        (b"1\t\xff\t" + b"_\t" * 7 + b"_\n\n", "undecodable"),
        (words(("a", "Entity=(e1-person")).encode(), "bad_spans"),
        (words(("a", "Entity=e1)")).encode(), "bad_spans"),
        (words(("_", "_")).encode(), "missing_text"),
        (b"1\t" + b"x" * 3_000_000 + b"\n\n", "over_long"),
    ],
)
def test_a_bad_document_takes_no_other_with_it(tmp_path, bad, reason):
    good = words(("good", "_")).encode()
    data = b"# newdoc\n" + good + b"# newdoc\n" + bad + b"# newdoc\n" + good
    items = read_as(tmp_path, "conllu", data, max_document_chars=1000)
    assert [d.text for d in documents(items)] == ["good", "good"]
    assert rejections(items) == [(2, reason)]


def test_a_long_document_is_rejected_in_bounded_memory(tmp_path):
    data = "# newdoc\n" + words(("word", "_")) * 40_000 + "# newdoc\n" + words(("good", "_"))
    items = read_as(tmp_path, "conllu", data, max_document_chars=100)
    assert [d.text for d in documents(items)] == ["good"]
    assert rejections(items) == [(1, "over_long")]


def test_documents_of_conll_2003(tmp_path):
    first, second = documents(read_as(tmp_path, "conll_documents", CONLL_2003))
    assert first.text == "EU rejects Peter Blackburn\n#"
    assert marked(first) == [("EU", "ORG"), ("Peter Blackburn", "PER")]
    assert (second.text, second.gold) == ("Bye", ())


def test_documents_of_conll_2012(tmp_path):
    columns = "bc/x 0 {} {} NN * - - - Ann {} * -\n"
    rows = [("Peter", "(PERSON*"), ("Black", "*)"), ("saw", "*"), ("Bonn", "(GPE)")]
    sentence = "".join(columns.format(n, word, tag) for n, (word, tag) in enumerate(rows))
    data = f"#begin document (bc/x); part 000\n{sentence}\n{sentence}\n#end document\n"
    (found,) = documents(read_as(tmp_path, "conll_documents", data + data.replace("000", "001")))[:1]
    assert (found.source_id, found.text) == ("(bc/x); part 000", "Peter Black saw Bonn\nPeter Black saw Bonn")
    assert marked(found)[:2] == [("Peter Black", "PERSON"), ("Bonn", "GPE")]


def test_numbered_tokens_with_comments(tmp_path):
    data = (
        "#\thttp://x.example\t[2009]\n1\tAnn\tB-PER\tO\n2\truns\tO\tO\n\n"  # two columns of tags: the outer one counts
        "# sent_id = 7\n# text = in Bonn\n1\tin\tO\tO\n2\tBonn\tB-LOC\tO\n"
    )
    found = documents(read_as(tmp_path, "conll_documents", data))
    assert [(d.text, marked(d)) for d in found] == [("Ann runs", [("Ann", "PER")]), ("in Bonn", [("Bonn", "LOC")])]


def test_columns_without_tags_have_no_known_secrets(tmp_path):
    (found,) = documents(read_as(tmp_path, "conll_documents", "Ann NNP\nruns VBZ\n"))
    assert (found.text, found.gold) == ("Ann runs", None)


class Stream:
    """A stream that counts the bytes that a reader holds."""

    def __init__(self, data):
        self.lines = iter(data.splitlines(keepends=True))

    def readline(self, size):
        return next(self.lines, b"")


WORD = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=6).filter(lambda w: w != "_")


@given(
    st.lists(st.lists(st.tuples(WORD, st.booleans(), st.sampled_from(["O", "B-PER", "I-PER"])), min_size=1), min_size=1)
)
def test_text_and_entities_fit_any_words(sentences):
    data = "# newdoc\n" + "".join(
        words(*((word, f"NER={tag}" + "|SpaceAfter=No" * tight) for word, tight, tag in rows)) for rows in sentences
    )
    ((number, record),) = Conllu(ReadOptions()).read(Stream(data.encode()))
    expected = ["".join(word + " " * (not tight) for word, tight, _ in rows).strip() for rows in sentences]
    assert (number, record["text"]) == (1, "\n".join(expected))
    num_entities = sum(
        tag != "O" and not (tag == "I-PER" and before != "O")
        for rows in sentences
        for before, tag in zip(["O", *(t for *_, t in rows)], (t for *_, t in rows), strict=False)
    )
    assert len(record["spans"]) == num_entities


@pytest.mark.parametrize(("reader", "data"), [(Conllu, CONLLU), (Conll, CONLL_2003)])
def test_every_truncation_keeps_the_documents_before(reader, data):
    raw = data.encode()
    second = raw.rindex(b"# newdoc" if reader is Conllu else b"-DOCSTART-")
    ((_, first), _) = reader(ReadOptions()).read(Stream(raw))
    for end in range(len(raw)):
        items = list(reader(ReadOptions()).read(Stream(raw[:end])))
        assert len(items) <= 2
        if end == second or end > second + len("-DOCSTART-"):
            assert items[0] == (1, first)
        elif end > second and items[0] != (1, first):  # the cut line looks like a token
            assert items[0][1].reason == "bad_columns"


def test_random_lines_never_stop_the_reader(tmp_path):
    rng = random.Random(34)
    parts = [
        b"1", b"2-3", b"2.1", b"\t", b"_", b"Ann", b"NER=B-PER", b"Entity=(e1", b"e1)", b"\n", b"\n\n", b"# text = Ann",
        b"# newdoc", b"-DOCSTART-", b"#begin document", b"\xff", b"\x00", b"O", b" ", b"B-PER", b"(", b")", b"|", b"=",
    ]  # fmt: skip
    for reader in (Conllu, Conll):
        for _ in range(1500):
            data = b"".join(rng.choices(parts, k=rng.randrange(60)))
            for number, item in reader(ReadOptions()).read(Stream(data)):
                assert number > 0
                assert isinstance(item, BadRow) or item["text"]


def test_a_format_with_a_wrong_name_is_refused():
    from pipelines.settings.corpus import CorpusConfig

    with pytest.raises(ValidationError, match="conllu"):
        CorpusConfig(source=[{"pattern": "*.conllu", "format": "conlu"}])
