"""Mails: headers, parts, character sets, quotes and signatures; damaged ones are rejected by file and number."""

from __future__ import annotations

import base64
import mailbox
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path

import corpus_files
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.corpus.items import Document, Rejected
from pipelines.corpus.listing import list_files

BODY = "The parcel is late.\nPlease look into it.\n"


def read(folder: Path, data: bytes, name: str = "a.eml", rows: int = 1000, **fields) -> list[Document | Rejected]:
    return corpus_files.read(corpus_files.dump("", name, data, folder), "auto", rows, **fields)


def one(folder: Path, data: bytes, **fields) -> Document:
    (item,) = read(folder, data, **fields)
    assert isinstance(item, Document), item
    return item


def mail(body: str = BODY, **headers: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Ann Lee <ann.lee@example.org>"
    message["To"] = "Bob Ray <bob@example.org>"
    message["Subject"] = "Parcel for Zoë"
    message["Message-ID"] = "<7@example.org>"
    message["Date"] = format_datetime(datetime(2026, 1, 5, tzinfo=UTC))
    for name, value in headers.items():
        message[name] = value
    message.set_content(body)
    return message


def test_the_subject_is_text_and_other_headers_are_left_out(tmp_path):
    made = one(tmp_path, bytes(mail()))
    assert made.text == "Subject: Parcel for Zoë\n\nThe parcel is late.\nPlease look into it."
    assert (made.source_id, made.domain, made.label, made.fold) == ("7@example.org", None, None, None)
    assert one(tmp_path, bytes(mail()), mail_headers=()).text == BODY.strip()
    everything = one(tmp_path, bytes(mail()), mail_headers=("From", "Subject", "Cc")).text
    assert everything.startswith("From: Ann Lee <ann.lee@example.org>\nSubject: Parcel for Zoë\n\n")


def test_line_ends_and_encodings_change_nothing(tmp_path):
    expected = one(tmp_path, bytes(mail("Zoë: café\n"))).text
    assert "Zoë: café" in expected
    assert one(tmp_path, bytes(mail("Zoë: café\n")).replace(b"\n", b"\r\n")).text == expected
    latin = mail()
    latin.set_content("Zoë: café\n", charset="iso-8859-1", cte="quoted-printable")
    assert one(tmp_path, bytes(latin)).text == expected
    coded = mail()
    coded.set_content("Zoë: café\n", cte="base64")
    assert one(tmp_path, bytes(coded)).text == expected
    plain = b"Subject: =?utf-8?q?Parcel_for_Zo=C3=AB?=\n\n" + "Zoë: café\n".encode()  # names no character set
    assert one(tmp_path, plain).text == expected
    assert one(tmp_path, b"\xef\xbb\xbf" + plain).text == expected


def test_parts(tmp_path):
    message = mail()
    message.add_alternative("<html><body><p>As <b>HTML</b></p></body></html>", subtype="html")
    message.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="ann lee.png")
    message.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="bill.pdf")
    message.add_attachment("a,b\n", subtype="csv", filename="rows.csv")
    message.add_attachment(mail("An attached mail."))
    made = one(tmp_path, bytes(message))
    assert made.text.endswith("\n\nThe parcel is late.\nPlease look into it.")
    assert dict(made.left_out) == {
        "attachment (application)": 1,
        "attachment (image)": 1,
        "attachment (message)": 1,
        "attachment (text)": 1,
    }


def test_a_mail_of_html_alone(tmp_path):
    message = mail()
    page = "<html><head><style>p {}</style></head><body><p>Hello &amp; bye,<br>Ann<script>x</script></p><div>More</div>"
    message.set_content(page + "<blockquote>An older mail</blockquote></body></html>", subtype="html")
    assert one(tmp_path, bytes(message), mail_headers=()).text == "Hello & bye,\nAnn\nMore"
    assert "> An older mail" in one(tmp_path, bytes(message), mail_quotes="keep").text


REPLY = (
    "Thank you, that works.\n\nOn Mon, 5 Jan 2026 at 10:00, Ann Lee <ann@example.org>\nwrote:\n\n"
    "> The parcel is late.\n> > Older.\n\nBest\n-- \nBob Ray\nSales\n"
)


def test_quotes_and_signatures(tmp_path):
    def text(**fields: object) -> str:
        return one(tmp_path, bytes(mail(REPLY)), mail_headers=(), **fields).text

    assert text() == "Thank you, that works.\n\n\nBest"
    assert dict(one(tmp_path, bytes(mail(REPLY))).left_out) == {"quoted line": 4, "signature line": 3}
    assert text(mail_quotes="keep", mail_signatures="keep") == REPLY.strip()
    assert "Bob Ray" in text(mail_signatures="keep")
    assert "Ann Lee" in text(mail_quotes="keep")


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("Yes.\n-----Original Message-----\nFrom: Ann\nSecret.\n", "Yes."),
        ("Ja.\n\nVon: Ann Lee\nGesendet: Montag\nBetreff: x\n\nAlt.\n", "Ja."),
        ("Yes.\n\nSent from my iPhone\n", "Yes."),
        ("Am Montag schrieb Ann Lee <a@b.c>:\n> Alt.\nNeu.\n", "Neu."),
        ("Le lundi, Ann Lee a écrit :\n\n> Ancien.\n", None),
        ("From: here on it is fine.\n", "From: here on it is fine."),
        ("She wrote:\nall is well.\n", "She wrote:\nall is well."),
        ("a > b\n", "a > b"),
    ],
)
def test_what_another_mail_said(tmp_path, body, kept):
    (item,) = read(tmp_path, bytes(mail(body)), mail_headers=())
    assert (item.text if isinstance(item, Document) else None) == kept
    if kept is None:
        assert item.reason == "empty"


def test_lines_that_were_broken_to_fit_are_one_sentence(tmp_path):
    body = (
        "I ordered a parcel some weeks ago, and nobody at your company\nhas told me where it is. Please ask Ann\nLee."
        "\n\n- one thing that is long enough to have been broken at a width\n- another\nshort\nlines\n"
    )
    made = one(tmp_path, bytes(mail(body)), mail_headers=()).text
    assert made.startswith("I ordered a parcel some weeks ago, and nobody at your company has told me where it is.")
    assert made.endswith("broken at a width\n- another\nshort\nlines")
    flowed = b"Content-Type: text/plain; format=flowed\n\nA line \nthat flows. \nOn.\n\n-- \nAnn\n"
    assert one(tmp_path, flowed).text == "A line that flows. On."


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"no header at all\n\ntext\n", "bad_mail"),
        (b"", "bad_mail"),
        (b"Subject: x\nContent-Type: multipart/mixed\n\nno border\n", "bad_mail"),
        (b"Content-Type: multipart/mixed; boundary=b\n\nborder never comes\n", "bad_mail"),
        (b"Content-Type: text/plain; charset=utf-8\n\n" + "Zoë, café. ".encode() * 9 + b"\xe9\n", "undecodable"),
        (b"Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\n!!!###a\n", "bad_mail"),
        (b"From: a@b.c\nContent-Type: image/png\n\nxx\n", "empty"),
        (b"Subject: a\0b\n\ntext\n", "nul"),
        (b"Subject: x\n\n" + b"word " * 300, "over_long"),
    ],
)
def test_a_damaged_mail_is_rejected_without_its_text(tmp_path, data, reason):
    (item,) = read(tmp_path, data, max_document_chars=1000)
    assert isinstance(item, Rejected)
    assert (item.reason, item.name, item.row) == (reason, "a.eml", 1)
    assert "caf" not in item.detail


def test_deep_parts_are_refused(tmp_path):
    inner = b"Content-Type: text/plain\n\nx\n"
    for level in range(40):
        border = b"b%d" % level
        inner = b"Content-Type: multipart/mixed; boundary=%s\n\n--%s\n%s\n--%s--\n" % (border, border, inner, border)
    (item,) = read(tmp_path, inner)
    assert (item.reason, "deep" in item.detail) == ("bad_mail", True)


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_a_mailbox_is_cut_as_the_library_wrote_it(tmp_path, rows):
    path = tmp_path / "box.mbox"
    box = mailbox.mbox(path)
    bodies = ["One.\n", "Two.\n\nFrom here on it is fine.\n", "Three.\n\n>From an older one.\n", "Four.\n"]
    for number, body in enumerate(bodies):
        message = mailbox.mboxMessage(mail(body))
        message.replace_header("Message-ID", f"<{number}@x>")
        message.set_from("ann@example.org", (2026, 1, 5, 10, 0, 0, 0, 5, 0))
        box.add(message)
    box.flush()
    broken = b"\nFrom ann@example.org Mon Jan  5 10:00:00 2026\n no header\n\n"
    items = read(tmp_path, path.read_bytes() + broken, "all.mbox", rows, mail_headers=(), mail_quotes="keep")
    assert [item.text for item in items if isinstance(item, Document)] == [
        "One.",
        "Two.\n\nFrom here on it is fine.",
        "Three.\n\nFrom an older one.",  # the format has no other word for it
        "Four.",
    ]
    assert [item.source_id for item in items if isinstance(item, Document)] == ["0@x", "1@x", "2@x", "3@x"]
    assert [(item.row, item.reason) for item in items if isinstance(item, Rejected)] == [(5, "bad_mail")]


def test_large_attachments_do_not_reject_the_mail(tmp_path):
    message = mail()
    message.add_attachment(b"x" * 3_000_000, maintype="application", subtype="zip", filename="a.zip")
    assert one(tmp_path, bytes(message), max_document_chars=10_000).text.endswith("look into it.")


def test_folders_are_searched_for_mail_only_where_it_is_named(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.eml").write_bytes(bytes(mail()))
    (tmp_path / "in" / "b.txt").write_text("x")
    assert [f.format for f in list_files(["in"], tmp_path)] == ["txt"]
    assert [f.format for f in list_files(["in"], tmp_path, "mail")] == ["mail"]
    assert [f.format for f in list_files(["in/*"], tmp_path)] == ["mail", "txt"]


@given(st.binary(max_size=300), st.sampled_from(["a.eml", "a.mbox"]))
@settings(deadline=None, max_examples=150)
def test_any_bytes_are_read_or_rejected(tmp_path_factory, data, name):
    heads = b"Subject: =?x?q?a?=\nContent-Type: multipart/mixed; boundary=b\n\n--b\n"
    for text in (data + b"x", heads + data, base64.b64encode(data) + b"x"):
        for item in read(tmp_path_factory.mktemp("m"), text, name):
            assert isinstance(item, Document | Rejected)
