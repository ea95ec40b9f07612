"""Recognition of pages, dumps, annotated columns and office files by their beginning."""

from __future__ import annotations

import bz2
import random
import zipfile
from io import BytesIO

import pytest
from corpus_files import readings_of
from format_examples_pages import COMMENTS, CONLL_2003, EXAMPLES, WIKI, example
from hypothesis import given
from hypothesis import strategies as st

from pipelines.corpus.format_list_web import FORMATS_OF_PAGES
from pipelines.corpus.recognise_pages import RECOGNISERS


def readings(name, data):
    return readings_of(RECOGNISERS, name, data)


def best(name, data):
    """(format, score) of the most certain reading."""
    found = next(iter(readings(name, data)), None)
    return found and (found.format, found.score)


def test_every_format_has_an_example():
    assert EXAMPLES.keys() == {spec.name for spec in FORMATS_OF_PAGES}


def packed(*names):
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name in names:
            file.writestr(name, "application/epub+zip" if name == "mimetype" else "x")
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "format"),
    [
        ("Comments.xml", COMMENTS.encode(), "stackexchange"),
        ("Users.xml", b'<?xml version="1.0"?>\n<users>\n  <row Id="1" DisplayName="Ann" />', None),
        ("PostHistory.xml", b'<posthistory><row Id="1" PostHistoryTypeId="2" Text="x" />', None),
        ("x.xml", WIKI.encode(), "mediawiki"),
        ("feed.xml", b'<?xml version="1.0"?><rss><channel/></rss>', None),
        ("page", b"\xef\xbb\xbf<!-- saved -->\n<HTML lang=en><body>x", "html"),
        ("page.xhtml", b'<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "x">\n<html>', "html"),
        ("part.htm", b"<p>one</p>", "html"),
        ("x.md", b"text", "markdown"),
        ("ner.txt", b"\xef\xbb\xbf" + CONLL_2003.encode(), "conll_documents"),
        ("x.conll", b"#begin document (a); part 000\n", "conll_documents"),
        ("x.iob2", b"# text = Ann runs\n1\tAnn\tB-PER\t-\n2\truns\tO\t-\n\n", "conll_documents"),
        ("a.txt", example("conllu"), "conllu"),
        ("a", example("pdf"), "pdf"),
        ("a.docx", example("docx"), "docx"),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", None),
        ("a.xlsx", packed("[Content_Types].xml", "xl/workbook.xml"), None),
        ("a.epub", packed("mimetype"), None),
        ("a.zip", packed("a.txt"), None),
        ("a.rtf", b"{\\rtf1 text}", None),
        ("Posts.7z", b"7z\xbc\xaf\x27\x1c", None),
    ],
)
def test_certain_files(name, data, format):
    found, score = best(name, data)
    assert (found, score >= 0.6) == (format, True)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", b"Ann said: <b>yes</b> </p>"),
        ("a.txt", b"1 one\n2 two\n"),
        ("a.tsv", b"1\tAnn\tyes\n2\tBob\tno\n"),
        ("a.conll", b"Ann\tB-PER\nruns\tO\n"),
        ("a.txt", b"- a list\n# a heading\n"),
        ("a.py", b"# a comment\nprint('<html>')\n"),
        ("a.json", b'[{"text": "<html>"}]'),
        ("a.eml", b"Subject: x\nContent-Type: text/html\n\n<html><body>x</body></html>"),
        ("a.csv", b"id,text\n1,<p>x</p>\n"),
        ("empty", b""),
    ],
)
def test_other_files_are_not_claimed(name, data):
    assert readings(name, data) == []


@given(st.binary(max_size=300), st.sampled_from(["a", "a.xml", "a.html", "a.conllu", "a.md"]))
def test_any_bytes_are_looked_at(data, name):
    for reading in readings(name, data):
        assert 0 < reading.score <= 1


def test_cut_examples_are_never_taken_for_another_format():
    rng = random.Random(34)
    for name, one in EXAMPLES.items():
        data = bz2.decompress(one.data) if one.file_name.endswith(".bz2") else one.data
        for _ in range(40):
            end = rng.randrange(len(data))
            certain = {reading.format for reading in readings(one.file_name, data[:end]) if reading.score >= 0.9}
            assert certain <= {name, None}
