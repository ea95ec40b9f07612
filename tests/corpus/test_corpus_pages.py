"""Dumps of Stack Exchange and Wikipedia, HTML and Markdown."""

from __future__ import annotations

import gzip
import importlib.util
import random
from html import escape
from importlib import metadata

import pytest
from corpus_files import documents, dump, peak_of, read, rejections
from format_examples_pages import COMMENTS, EXAMPLES, POSTS, WIKI, example
from hypothesis import given
from hypothesis import strategies as st

from pipelines.corpus.dialogues import LeftOut
from pipelines.corpus.formats import compression_of, suffix_of
from pipelines.corpus.items import BadRow, Document, Rejected
from pipelines.corpus.pages import decoded, markdown_text, read_html
from pipelines.errors import ConfigError
from pipelines.settings.corpus import CorpusConfig

has_wiki = pytest.mark.skipif(
    importlib.util.find_spec("mwparserfromhell") is None, reason="mwparserfromhell is not installed"
)


def read_as(folder, format, data, name=None, **fields):
    return read(dump("", name or EXAMPLES[format].file_name, data, folder), format, **fields)


def left_out(items):
    return [item.kind for item in items if isinstance(item, LeftOut)]


def texts(items):
    return [item.text for item in documents(items)]


# --- Stack Exchange ---------------------------------------------------------------------------------------------


def test_questions_and_answers_are_documents_with_their_ids(tmp_path):
    items = read_as(tmp_path, "stackexchange", POSTS)
    assert [(d.source_id, d.text, d.left_out) for d in documents(items)] == [
        ("1", "Who knows?\n\nAsk Ann Example, she uses map & more.\n\nThanks!", (("block of code", 1),)),
        ("2", "Ann does.\n\none\ntwo", ()),
    ]
    assert left_out(items) == ["post without text"]
    assert not rejections(items)


def test_comments_are_plain_text(tmp_path):
    items = read_as(tmp_path, "stackexchange", COMMENTS, "Comments.xml")
    assert texts(items) == ["@Ann is 3 < 4? See [here](http://x.example)."]


def test_partitions_of_any_size_give_the_same_posts(tmp_path):
    rows = "".join(f'  <row Id="{n}" PostTypeId="2" Body="&lt;p&gt;text {n}&lt;/p&gt;" />\n' for n in range(50))
    path = tmp_path / "Posts.xml.gz"
    path.write_bytes(gzip.compress(f"<?xml version='1.0'?>\n<posts>\n{rows}</posts>\n".encode()))
    whole = read(path, "stackexchange")
    assert texts(whole) == [f"text {n}" for n in range(50)]
    for size in (1, 7, 51):
        assert read(path, "stackexchange", rows=size) == whole


def test_several_posts_in_a_line_and_a_post_in_several_lines(tmp_path):
    data = '<posts><row Id="1" Body="one"/><row\n Id="2"\n Body="two"\n/><row Id="3" Body="three"></row></posts>'
    assert texts(read_as(tmp_path, "stackexchange", data)) == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('<row Id="2" Body="cut off', "bad_markup"),
        ('<row Id="2" Body="&undefined;" />', "bad_markup"),
        ('<row Id="2" Body="a" Body="b" />', "bad_markup"),
        ('<row Id="2" DisplayName="Ann" AboutMe="x" />', "missing_text"),
        ('<row Id="2" PostId="3" PostHistoryTypeId="2" Text="x" />', "missing_text"),
        ('<row Id="2" Body="&#0;" />', "bad_markup"),
        ('<row Id="2" Body="' + "&lt;div&gt;" * 3000 + 'x" />', "bad_markup"),
    ],
)
def test_a_bad_post_takes_no_other_with_it(tmp_path, row, reason):
    data = f'<posts>\n<row Id="1" Body="one" />\n{row}\n<row Id="3" Body="three" />\n</posts>\n'
    items = read_as(tmp_path, "stackexchange", data)
    assert texts(items) == ["one", "three"]
    assert rejections(items) == [(3, reason)]


def test_a_post_of_any_length_takes_no_memory_and_no_other_with_it(tmp_path):
    long = '<row Id="2" Body="' + "x" * 30_000_000 + '" />'
    path = tmp_path / "Posts.xml"
    path.write_text(f'<posts>\n<row Id="1" Body="one" />\n{long}\n<row Id="3" Body="three" />\n</posts>\n')
    items, peak = peak_of(lambda: read(path, "stackexchange"))
    assert texts(items) == ["one", "three"]
    assert rejections(items) == [(3, "over_long")]
    assert peak < 40 << 20


def test_declared_entities_and_external_files_are_not_used(tmp_path):
    (tmp_path / "secret.txt").write_text("hunter2")
    bomb = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">\n' for n in range(1, 9))
    head = f'<!DOCTYPE posts [\n<!ENTITY a0 "lol">\n{bomb}<!ENTITY x SYSTEM "secret.txt">]>\n'
    data = f'{head}<posts>\n<row Id="1" Body="&a8;" />\n<row Id="2" Body="&x;" />\n<row Id="3" Body="good" />\n</posts>'
    items = read_as(tmp_path, "stackexchange", data)
    assert texts(items) == ["good"]
    assert [reason for _, reason in rejections(items)] == ["bad_markup"] * 3


def test_another_file_is_rejected(tmp_path):
    items = read_as(tmp_path, "stackexchange", "<html><p>hello</p></html>")
    assert rejections(items) == [(1, "bad_markup")]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=60))
def test_any_text_of_a_post_comes_back(text):
    from pipelines.corpus.options import ReadOptions
    from pipelines.corpus.records import Source
    from pipelines.corpus.xml_dumps import posts

    if not text.strip() or set(text) & set("\ufffe\uffff"):
        return
    row = f'<row Id="1" PostId="1" Text="{escape(text)}" />'
    (made,) = posts(Source("Comments.xml", "stackexchange", 1, ReadOptions()), row)
    assert made.text == text.strip()


# --- Wikipedia --------------------------------------------------------------------------------------------------

ANN = "Ann Example\n\nAnn Example (born 1950) is a singer from Berlin.\n\nLife\nShe sings at home & away."


@has_wiki
@pytest.mark.parametrize("name", ["pages-articles.xml.bz2", "enwiki-pages-articles1.xml-p1p41242.bz2", "a.xml"])
def test_articles_are_documents_without_markup(tmp_path, name):
    data = example("mediawiki") if name.endswith(".bz2") else WIKI
    items = read_as(tmp_path, "mediawiki", data, name)
    assert [(d.source_id, d.text) for d in documents(items)] == [("12", ANN), ("15", "Berlin\n\nBerlin is a city.")]
    assert left_out(items) == ["redirect", "page that is no article"]
    assert not rejections(items)
    assert [i for n in (1, 2) for i in [read(tmp_path / name, "mediawiki", rows=n)]] == [items, items]


@has_wiki
def test_a_truncated_dump_keeps_the_articles_before(tmp_path):
    at = WIKI.index("is a city")
    items = read_as(tmp_path, "mediawiki", WIKI[:at], "a.xml")
    assert texts(items) == [ANN]
    assert rejections(items) == [(5, "bad_markup")]


@has_wiki
def test_a_truncated_archive_is_rejected(tmp_path):
    items = read_as(tmp_path, "mediawiki", example("mediawiki")[:-20])
    assert [reason for _, reason in rejections(items)][-1] == "damaged"


@has_wiki
def test_a_page_that_would_take_minutes_is_rejected(tmp_path):
    page = "<page><title>x</title><ns>0</ns><revision><text>{}</text></revision></page>\n"
    data = f"<mediawiki>\n{page.format('&lt;b>' * 30_000)}{page.format('[http://a ' * 9_000)}{page.format('good')}"
    items = read_as(tmp_path, "mediawiki", data, "a.xml")
    assert texts(items) == ["x\n\ngood"]
    assert [reason for _, reason in rejections(items)] == ["bad_markup", "bad_markup"]


def test_a_missing_library_is_named(tmp_path, patch):
    patch.missing_module("mwparserfromhell")
    with pytest.raises(ConfigError, match=r"pip install 'reticent\[documents\]'"):
        read_as(tmp_path, "mediawiki", WIKI, "a.xml")


def test_a_missing_library_is_named_before_anything_is_read(patch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    patch(metadata, "version", missing)
    for config in ({"format": "pdf"}, {"source": [{"pattern": "*.pdf", "format": "pdf"}]}):
        with pytest.raises(ConfigError, match=r"pypdf.*pip install 'reticent\[documents\]'"):
            CorpusConfig(**config).check("split")
    CorpusConfig().check("split")


def test_only_xml_in_bzip2_is_read():
    assert [suffix_of(name) for name in ("a.xml.bz2", "b.xml-p1p2.BZ2", "c.txt.bz2")] == [".xml", ".xml", ".bz2"]
    assert [compression_of(name) for name in ("d/a.xml.bz2", "c.txt.bz2")] == [".bz2", None]


# --- HTML -------------------------------------------------------------------------------------------------------


def test_a_page_is_its_visible_text(tmp_path):
    (item,) = read_as(tmp_path, "html", example("html"))
    assert item.text == "Ann’s café\n\nOpening & hours\n\nAnn Example opens\nat nine."


@pytest.mark.parametrize(
    ("charset", "name"),
    [("utf-8", "utf-8"), ("cp1252", "iso-8859-1"), ("cp1251", "windows-1251"), ("cp932", "Shift_JIS"),
     ("gb18030", "gb2312"), ("iso8859-2", "iso-8859-2"), ("koi8-r", "KOI8-R")],
)  # fmt: skip
@pytest.mark.parametrize(
    "form", ['<meta charset="{}">', "<META content='text/html; charset={}' http-equiv=Content-Type>"]
)
def test_the_declared_character_set_counts(charset, name, form):
    word = {"cp1251": "Привет", "koi8-r": "Привет", "cp932": "東京", "gb18030": "北京", "iso8859-2": "Łódź"}
    page = f"<html><head>{form.format(name)}</head><p>{word.get(charset, 'café')}</p>"
    assert decoded(page.encode(charset)) == page


@pytest.mark.parametrize("charset", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_counts_before_the_declaration(charset):
    page = '<meta charset="koi8-r"><p>café</p>'
    assert decoded(page.encode(charset)) == page


def test_a_wrong_declaration_does_not_spoil_the_text():
    assert "café" in decoded('<meta charset="us-ascii-or-so"><p>café</p>'.encode())
    text = "<p>Der Käufer möchte die Größe ändern und über den Preis für zwölf Stühle sprechen.</p>" * 5
    assert decoded(f'<meta charset="utf-8">{text}'.encode("cp1252")) == f'<meta charset="utf-8">{text}'


def test_binary_data_and_deep_or_huge_pages_are_rejected(tmp_path):
    for number, (data, reason) in enumerate(
        [
            (b"\x00\x01\x02<p>x</p>", "nul"),
            ("<p>x</p>".encode("utf-16-le"), "nul"),
            (b"<div>" * 5000 + b"deep", "bad_markup"),
            (b"<b>" * 1_100_000, "bad_markup"),
            (b" " * ((16 << 20) + 1), "over_long"),
            (b"", "empty"),
            (b"<!-- only a comment -->", "empty"),
            (b"<script>x</script>", "empty"),
        ]
    ):
        (item,) = read_as(tmp_path, "html", data, f"{number}.html")
        assert isinstance(item, Rejected)
        assert item.reason == reason, data[:40]


def test_html_in_depth_that_real_pages_have_keeps_its_end():
    assert read_html("<div>" * 1500 + "deep" + "</div>" * 1500 + "<p>after")[0] == "deep\n\nafter"


def test_code_is_dropped_and_counted_once_if_nested():
    assert read_html("<p>a</p><pre>x<pre>y</pre></pre>b<pre>z</pre>", drop_code=True) == ("a\n\nb", 2)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_page_or_are_rejected(data):
    try:
        read_html(decoded(data))
    except BadRow as bad:
        assert bad.reason in ("undecodable", "nul", "bad_markup")


# --- Markdown ---------------------------------------------------------------------------------------------------


def test_markdown_loses_its_marks_and_its_front_matter(tmp_path):
    items = read_as(tmp_path, "markdown", example("markdown"))
    assert texts(items) == [
        "Ann Example\n\nAnn Example is a singer from Berlin & more.\none\ntwo\nyear | song\n1970 | One\n\nx = 1"
    ]
    assert left_out(items) == ["front matter"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\na line\n---\nmore\n", "a line\n\nmore"),  # rules, no front matter
        ("+++\ntitle = 1\n+++\ntext", "text"),
        ("---\n# a comment\ntitle: x\n...\ntext", "text"),
        ("---\r\ntitle: x\r\n---\r\ntext\r\n", "text"),
        ("---\ntitle: never ends\n\ntext", "title: never ends\n\ntext"),
    ],
)
def test_front_matter(tmp_path, text, expected):
    assert texts(read_as(tmp_path, "markdown", text)) == [expected]


def test_readme_files_in_folders_stay_out(tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "README.md").write_text("about")
    (tmp_path / "pages" / "a.md").write_text("text")
    assert texts(read(tmp_path / "pages", "markdown")) == ["text"]


@given(st.lists(st.text(st.characters(categories=["Lu", "Ll"]), min_size=1, max_size=9), min_size=1, max_size=9))
def test_words_of_markdown_stay_in_order(words):
    assert markdown_text("\n".join(words)) == " ".join(words)


@given(st.text(alphabet="#*_`[]()!<>&|-+1.\\ \n\ta:", max_size=200))
def test_any_marks_are_read(text):
    markdown_text(text)


# --- damage of any kind -----------------------------------------------------------------------------------------

PARTS = [
    b"<row ", b"<row\n", b'Id="1" ', b'Body="', b'Text="x" ', b'PostId="1"', b'"', b"/>", b">", b"<", b"</row>",
    b"<page>", b"</page>", b"<title>", b"</title>", b"<ns>0</ns>", b"<revision>", b"<text>", b"</text>", b"</revision>",
    b"&lt;p&gt;", b"&#0;", b"&x;", b"<![CDATA[", b"]]>", b"<!--", b"-->", b"\n", b"\n\n", b"\x00", b"\xff", b"<?xml?>",
    b"{{", b"[[", b"]]",
]  # fmt: skip


@pytest.mark.parametrize("format", ["stackexchange", pytest.param("mediawiki", marks=has_wiki)])
def test_rows_between_junk_are_kept(tmp_path, format):
    rng = random.Random(34)
    rows = {
        "stackexchange": '<row Id="{}" Body="good {}" />',
        "mediawiki": "<page><ns>0</ns><id>{}</id><revision><text>good {}</text></revision></page>",
    }
    lines = []
    for number in range(60):
        lines += [b"".join(rng.choices(PARTS, k=rng.randrange(15))) for _ in range(3)]
        lines.append(rows[format].format(number, number).encode())
    found = texts(read_as(tmp_path, format, b"\n".join(lines), "a.xml"))
    assert {f"good {number}" for number in range(60)} <= set(found)


LAST_WORDS = {
    "stackexchange": (b'CC BY-SA 4.0" />', b'"bob77" />'),
    "mediawiki": (b"<sha1>x</sha1>\n    </revision>\n  </page>", b"city.</text></revision>\n  </page>"),
}


@pytest.mark.parametrize("format", ["stackexchange", pytest.param("mediawiki", marks=has_wiki)])
def test_every_truncation_keeps_the_rows_before(tmp_path, format):
    data = (POSTS if format == "stackexchange" else WIKI).encode()
    whole = documents(read_as(tmp_path, format, data, "a.xml"))
    for end in range(17, len(data), 17):
        found = documents(read_as(tmp_path, format, data[:end], "a.xml"))
        assert found == whole[: len(found)]
        assert len(found) == sum(data[:end].count(text) for text in LAST_WORDS[format])


def test_code_and_libraries_of_a_reader_count_only_if_its_format_is_named():
    config = CorpusConfig(source=[{"pattern": "*.pdf", "format": "pdf"}, {"pattern": "*.md", "format": "markdown"}])
    assert config.code_references() == ("pipelines.corpus.office", "pipelines.corpus.pages")
    assert config.package_references() == ("charset-normalizer", "markdown-it-py", "pypdf")
    for format in ("auto", "txt", "mail", "conll"):
        assert (CorpusConfig(format=format).code_references(), CorpusConfig(format=format).package_references()) == (
            (),
            (),
        )


def test_two_posts_in_a_line_and_one_behind_it_have_three_names(tmp_path):
    data = '<posts>\n<row Body="Ann" /><row Body="Bob" />\n<row Body="Cid" />\n</posts>\n'
    items = read_as(tmp_path, "stackexchange", data, "Posts.xml")
    found = [(item.row, item.source_id) for item in items if isinstance(item, Document)]
    assert len(set(found)) == len(found) == 3
