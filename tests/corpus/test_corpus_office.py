"""PDF and Word files."""

from __future__ import annotations

import io
import random
import zipfile

import pypdf
import pytest
from corpus_files import documents, dump, peak_of, read, rejections
from format_examples_pages import PDF_PAGE, docx, example, pdf
from hypothesis import given
from hypothesis import strategies as st

from pipelines.corpus.dialogues import LeftOut
from pipelines.corpus.items import BadRow
from pipelines.corpus.office import MAX_BYTES, Docx, Pdf, joined_lines
from pipelines.corpus.options import ReadOptions

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
TEXT = (
    "Report on Ann Example\nAnn Example opened a new and large restaurant in Berlin, and all of her old friends came "
    "to the party on Monday.\n- first item of the list\nThe end."
)


def read_as(folder, format, data):
    return read(dump("", f"a.{format}", data, folder), format)


def items(reader, data):
    return [item for _, item in reader(ReadOptions()).read(io.BytesIO(data))]


def reasons(found):
    return [item.reason for item in found if isinstance(item, BadRow)]


def changed(data, **parts):
    """The same zip file with other contents of some parts."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            name = info.filename.rsplit("/")[-1].removesuffix(".xml")
            new.writestr(info.filename, parts.get(name, old.read(info.filename)))
    return out.getvalue()


def word(body):
    return changed(
        docx("x"), document=f'<?xml version="1.0"?><w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'
    )


# --- PDF --------------------------------------------------------------------------------------------------------


def test_pages_are_documents_with_their_numbers(tmp_path):
    found = read_as(tmp_path, "pdf", example("pdf"))
    assert [(d.row, d.source_id, d.text) for d in documents(found)] == [
        (1, "page 1", TEXT),
        (3, "page 3", "Second page of the report."),
    ]
    assert [item for item in found if isinstance(item, LeftOut)] == [LeftOut("page without text")]
    assert not rejections(found)


def test_many_files_share_a_partition(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.pdf").write_bytes(pdf(f"file {number}", "x"))
    found = documents(read(tmp_path, "pdf"))
    assert [(d.name, d.row) for d in found] == [(f"{n}.pdf", row) for n in range(5) for row in (1, 2)]


def test_scans_and_other_files_are_rejected_with_the_reason(tmp_path):
    assert rejections(read_as(tmp_path, "pdf", pdf("", ""))) == [(3, "empty")]
    (item,) = items(Pdf, pdf(""))[1:]
    assert "OCR" in item.detail
    assert reasons(items(Pdf, pdf(b"BT /F1 12 Tf (x) Tj ET").replace(b"/FlateDecode", b"/NoSuchThing"))) == ["bad_file"]
    for data in (b"", b"hello", b"%PDF-1.4\n", b"%PDF-1.7 " + bytes(1000)):
        assert reasons(items(Pdf, data)) == ["bad_file"] or reasons(items(Pdf, data)) == ["empty"]


@pytest.mark.parametrize(("password", "is_read"), [("hunter2", False), ("", True)])
def test_a_password_is_needed_or_not(password, is_read):
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("Ann Example")))
    writer.encrypt(password, owner_password="owner", algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    found = items(Pdf, out.getvalue())
    if is_read:
        assert [item["text"] for item in found] == ["Ann Example"]
    else:
        (bad,) = found
        assert "password" in bad.detail


def test_a_damaged_page_takes_no_other_with_it():
    data = pdf("page one", "page two", "page three")
    at = data.index(b"7 0 obj") + len(b"7 0 obj\n<< /Length ")
    broken = data[:at] + data[at:].replace(b"/FlateDecode", b"/NoSuchThing", 1)
    found = items(Pdf, broken)
    assert [item["text"] for item in found if not isinstance(item, (BadRow, LeftOut))] == ["page one", "page three"]
    assert len(found) == 3


def test_pages_that_unpack_without_end_are_bounded():
    data = pdf("page one", b"0 0 m " * 20_000_000, "page three")
    found, peak = peak_of(lambda: items(Pdf, data))
    assert [item.reason if isinstance(item, BadRow) else item["text"] for item in found] == [
        "page one", "bad_file", "page three"
    ]  # fmt: skip
    assert peak < 300 << 20


def test_a_circle_of_pages_ends():
    data = pdf("page one").replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]")
    assert reasons(items(Pdf, data))


def test_a_file_above_the_limit_is_rejected():
    class Long(io.RawIOBase):
        def read(self, size=-1):
            assert size == MAX_BYTES + 1
            return bytes(size)

    for reader in (Pdf, Docx):
        ((_, bad),) = reader(ReadOptions()).read(Long())
        assert (bad.reason, "64 MiB" in bad.detail) == ("over_long", True)


def test_truncated_and_random_files_never_stop_the_reader():
    rng = random.Random(34)
    for reader, data in ((Pdf, pdf(PDF_PAGE, "two")), (Docx, docx("one", "two"))):
        for step in range(150):
            end = rng.randrange(len(data))
            broken = bytearray(data[:end] if step % 2 else data)
            for _ in range(step % 5):
                if broken:
                    broken[rng.randrange(len(broken))] = rng.randrange(256)
            for item in items(reader, bytes(broken)):
                assert isinstance(item, (BadRow, LeftOut)) or item["text"]


# --- the lines of a page ----------------------------------------------------------------------------------------


def test_lines_of_a_paragraph_are_joined_and_cut_words_mended():
    assert joined_lines(PDF_PAGE.split("\n")) == TEXT
    assert joined_lines(["a soft\xad hyphen", "", "after a blank line"]) == "a soft hyphen\n\nafter a blank line"
    assert (
        joined_lines(["he met Mary Anne Smith-", "Jones in the old town"])
        == "he met Mary Anne Smith- Jones in the old town"
    )
    assert joined_lines(["the years from 1990-", "1995 were the best"]) == "the years from 1990- 1995 were the best"
    assert joined_lines(["a long line that fills the column", "of the vis-", "itor."])[-11:] == "the visitor."[-11:]
    assert joined_lines(["the o\ufb03ce   in  \ufb01ve"]) == "the office in five"
    assert joined_lines(["", " "]) == ""


@given(st.lists(st.text(alphabet="ab -1.", max_size=20), max_size=12))
def test_joining_keeps_every_word_in_order(lines):
    squeezed = "".join(joined_lines(lines).split()).replace("-", "")
    assert squeezed == "".join("".join(lines).split()).replace("-", "")


# --- Word -------------------------------------------------------------------------------------------------------


def test_paragraphs_and_tables_without_headers(tmp_path):
    (item,) = documents(read_as(tmp_path, "docx", example("docx")))
    assert item.text == "Dear Ann Example,\nsee you on Monday.\nyear | song"


def test_insertions_text_boxes_and_fields_are_kept_deletions_are_not():
    mc = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    box = "<w:txbxContent><w:p><w:r><w:t>in a box</w:t></w:r></w:p></w:txbxContent>"
    body = (
        "<w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/></w:r><w:ins><w:r><w:t>new</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText>old</w:delText></w:r></w:del>"
        "<w:hyperlink><w:r><w:t> link</w:t></w:r></w:hyperlink></w:p>"
        f"<w:p {mc}><w:r><mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
        "</mc:AlternateContent></w:r></w:p>"
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>a field</w:t></w:r></w:p></w:sdtContent></w:sdt>"
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>1</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>inner</w:t></w:r></w:p>"
        "</w:tc></w:tr></w:tbl></w:tc><w:tc><w:p><w:r><w:t>2</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    )
    (item,) = items(Docx, word(body))
    assert item["text"] == "a\tb\nnew link\nin a box\na field\n1 inner | 2"


def test_files_that_are_no_word_files_are_rejected():
    for data, hint in [
        (b"", "damaged"),
        (b"PK\x03\x04", "damaged"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "password"),
        (docx("x")[:-300], "damaged"),
        (changed(docx("x"), document="<a>"), "damaged"),
    ]:
        (bad,) = items(Docx, data)
        assert (bad.reason, hint in bad.detail) == ("bad_file", True)
    assert reasons(items(Docx, word("<w:p/>"))) == ["empty"]


def test_bombs_are_not_unpacked():
    (bad,) = items(Docx, changed(docx("x"), styles=b" " * (80 << 20)))
    assert bad.reason == "over_long"
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 9))
    body = f'<w:document xmlns:w="{W}"><w:body><w:p><w:r><w:t>x&a8;</w:t></w:r></w:p></w:body></w:document>'
    for entity in ("a8", "file"):
        document = f'<!DOCTYPE x [<!ENTITY a0 "lol">{entities}<!ENTITY file SYSTEM "/etc/hostname">]>{body}'
        (found,) = items(Docx, changed(docx("x"), document=document.replace("a8;</w", f"{entity};</w")))
        assert isinstance(found, BadRow) or found["text"] == "x"
    deep = "<w:sdt>" * 100_000 + "</w:sdt>" * 100_000
    assert reasons(items(Docx, word(deep))) == ["bad_file"]
