"""Mails as programs store them: From lines, Apple Mail, Maildir, wrong character sets, and parts that are no text."""

from __future__ import annotations

import random
from collections import Counter
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.corpus.items import Document, Rejected
from pipelines.corpus.mail_html import lines_of_page
from pipelines.corpus.options import ReadOptions, SourceOptions
from pipelines.corpus.readers import read_documents
from pipelines.corpus.recognise_mail import RECOGNISERS
from pipelines.corpus.recognition import Reading
from pipelines.corpus.scan import scan
from tests.corpus.corpus_files import documents, read, readings_of
from tests.corpus.format_examples_mail import MAIL, MBOX

FULL = {"mail_text": "full", "mail_headers": ()}
PLAIN = b"From: ann@example.org\nSubject: parcel\n\nThe parcel did not come.\n"
FROM = b"From ann@example.org  Thu Aug 22 13:17:22 2002\n"


def one(folder: Path, data: bytes, **fields: object) -> Document | Rejected:
    (folder / "a.eml").write_bytes(data)
    (item,) = read(folder / "a.eml", **{**FULL, **fields})
    return item


def text(folder: Path, data: bytes, **fields: object) -> str:
    item = one(folder, data, **fields)
    assert isinstance(item, Document), item
    return item.text


@pytest.mark.parametrize("mail_text", ["basic", "full"])
@pytest.mark.parametrize(
    "start",
    [
        FROM,
        FROM.replace(b"\n", b"\r\n"),
        b"\n" + FROM + b">From x@y Thu Aug 22 13:17:22 2002\n",
        b"\xef\xbb\xbf" + FROM,
        b"%d\n" % len(PLAIN),
        b"%d       \r\n" % len(PLAIN),
    ],
)
def test_what_stands_before_the_headers_is_no_text(tmp_path, start, mail_text):
    end = b'<?xml version="1.0"?>\n<plist><dict/></plist>\n' if start[:1].isdigit() else b""
    assert text(tmp_path, start + PLAIN + end, mail_text=mail_text) == "The parcel did not come."


def test_a_from_line_says_that_the_mail_was_escaped_in_a_mailbox(tmp_path):
    body = b"Subject: x\n\n>From here on it is fine.\n"
    assert text(tmp_path, FROM + body) == "From here on it is fine."
    assert one(tmp_path, body).reason == "empty"  # a quote
    assert text(tmp_path, b"From : ann@x.y\nSubject: x\n\nText.\n") == "Text."


def test_a_mailbox_that_is_read_as_one_mail_is_refused(tmp_path):
    item = one(tmp_path, MBOX)
    assert (item.reason, "mbox" in item.detail) == ("bad_mail", True)


@pytest.mark.parametrize(
    "name", ["cur/1700000000.M1P2.host:2,S", "new/1700000000.M1P2.host", "inbox/1.", "Sent/17", "x.emlx"]
)
def test_folders_of_mail_programs(tmp_path, name):
    path = tmp_path / "mail" / name
    path.parent.mkdir(parents=True)
    path.write_bytes((b"%d\n" % len(PLAIN) if name.endswith("x") else b"") + PLAIN)
    options = ReadOptions(mail_headers=(), sources=(SourceOptions(pattern="*", format="mail"),))
    parts = scan(["mail"], base_dir=tmp_path, options=options, secret=b"k")
    (item,) = [d for part in parts for piece in part.pieces for d in read_documents(piece, options)]
    assert item.text == "The parcel did not come."


# --- character sets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", [None, "us-ascii", "utf-8", "no-such", "x-unknown", "utf-7x", "iso-2022-jp"])
@pytest.mark.parametrize("encoding", ["utf-8", "windows-1252", "koi8-r", "gb18030", "shift_jis"])
@pytest.mark.parametrize(
    "coding", [None, *(pytest.param(name, marks=pytest.mark.slow) for name in ("quoted-printable", "base64"))]
)
def test_a_body_in_a_character_set_that_it_does_not_declare(tmp_path, declared, encoding, coding):
    words = {
        "koi8-r": "Посылка ещё не пришла, проверьте.",
        "gb18030": "包裹还没有到，谢谢您。",
        "shift_jis": "荷物がまだ届きません。",
    }
    body = words.get(encoding, "Das Paket für Zoë fehlt, schöne Grüße.")
    message = EmailMessage()
    message["Subject"] = "x"
    message.set_content(body.encode(encoding), "text", "plain", cte=coding or "8bit", disposition=None)
    del message["Content-Type"]
    if declared:
        message["Content-Type"] = f"text/plain; charset={declared}"
    assert text(tmp_path, bytes(message)) == body


def test_headers_in_a_character_set_that_they_do_not_declare(tmp_path):
    for encoding in ("utf-8", "windows-1252"):
        data = "Subject: Café für Zoë\n\nGrüße\n".encode(encoding)
        assert text(tmp_path, data, mail_headers=("Subject",)) == "Subject: Café für Zoë\n\nGrüße"
    mixed = "Subject: Café =?utf-8?q?f=C3=BCr?= =?utf-8?q?_Zo=C3=AB?=\n\nText\n".encode("cp1252")
    assert text(tmp_path, mixed, mail_headers=("Subject",)).startswith("Subject: Café für Zoë")
    wrong = b"Subject: =?no-such?q?Caf=E9?=\n\nText\n"
    assert text(tmp_path, wrong, mail_headers=("Subject",)).startswith("Subject: Café")


def test_character_sets_under_the_name_of_a_smaller_one(tmp_path):
    for declared, real, body in (
        ("gb2312", "gb18030", "包裹喆"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
        ("shift_jis", "cp932", "①荷物"),
        ("iso-8859-8-i", "iso-8859-8", "שלום"),
        ("iso-8859-1", "windows-1252", "It’s “fine” – 5 €"),
    ):
        data = f"Content-Type: text/plain; charset={declared}\n\n".encode() + body.encode(real)
        assert text(tmp_path, data) == body
    page = b'Content-Type: text/html\n\n<meta charset="koi8-r"><p>' + "Да".encode("koi8-r")
    assert text(tmp_path, page) == "Да"


# --- parts ------------------------------------------------------------------------------------------------------------


def _parts(*kinds: tuple[str, str], multipart: str = "mixed") -> bytes:
    parts = "".join(f"--b\nContent-Type: {kind}\n\n{body}\n" for kind, body in kinds)
    return f"Subject: x\nContent-Type: multipart/{multipart}; boundary=b\n\n{parts}--b--\n".encode()


def test_kinds_of_what_is_left_out(tmp_path):
    item = one(
        tmp_path,
        _parts(
            ("text/plain", "Hello."),
            ("application/ms-tnef; name=winmail.dat", "x"),
            ("application/octet-stream; name=WINMAIL.DAT", "x"),
            ("text/calendar", "BEGIN:VCALENDAR"),
            ("application/octet-stream; name=invite.ics", "x"),
            ("text/x-vcard; name=ann_lee.vcf", "BEGIN:VCARD"),
            ("application/pgp-signature", "x"),
            ("application/pkcs7-signature; name=smime.p7s", "x"),
            ("application/pkcs7-mime; smime-type=signed-data", "x"),
            ("application/pdf; name=bill.pdf", "x"),
        ),
    )
    assert isinstance(item, Document)
    assert item.text == "Hello."
    assert dict(item.left_out) == {
        "attachment (application)": 1,
        "calendar": 2,
        "signature (PGP)": 1,
        "signature (S/MIME)": 1,
        "signed part (S/MIME)": 1,
        "vCard": 1,
        "winmail.dat (TNEF)": 2,
    }
    invitation = _parts(("text/plain", "Let us meet."), ("text/calendar", "BEGIN:VCALENDAR"), multipart="alternative")
    assert dict(one(tmp_path, invitation).left_out) == {"calendar": 1}


def test_encrypted_mails_are_rejected_by_reason(tmp_path):
    inline = b"Subject: x\n\n-----BEGIN PGP MESSAGE-----\n\nhQEMA\n=abcd\n-----END PGP MESSAGE-----\n"
    for data, headers in (
        (
            _parts(
                ("application/pgp-encrypted", "Version: 1"), ("application/octet-stream", "x"), multipart="encrypted"
            ),
            (),
        ),
        (b"Subject: x\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data\n\nMIIB\n", ("Subject",)),
        (inline, ("Subject",)),
    ):
        item = one(tmp_path, data, mail_headers=headers)
        assert (item.reason, "encrypted" in item.detail) == ("bad_mail", True)
    opaque = one(tmp_path, b"Subject: x\nContent-Type: application/pkcs7-mime; smime-type=signed-data\n\nMIIB\n")
    assert "signed" in opaque.detail
    assert text(tmp_path, inline + b"\nThe rest is text.\n") == "The rest is text."


def test_a_text_that_pgp_signed(tmp_path):
    data = (
        b"Subject: x\n\n-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nThe parcel is late.\n"
        b"-----BEGIN PGP SIGNATURE-----\n\niQIz\n=abcd\n-----END PGP SIGNATURE-----\n"
    )
    item = one(tmp_path, data)
    assert (item.text, dict(item.left_out)) == ("The parcel is late.", {"signature (PGP)": 1})


def test_forwarded_mails_and_digests(tmp_path):
    inner = "From: bob@x.y\nSubject: old\n\nThe older mail."
    with_note = _parts(("text/plain", "See below."), ("message/rfc822", inner))
    item = one(tmp_path, with_note)
    assert (item.text, dict(item.left_out)) == ("See below.", {"attachment (message)": 1})
    alone = one(tmp_path, _parts(("message/rfc822", inner)), mail_headers=("Subject",))
    assert (alone.text, alone.left_out) == ("Subject: x\n\nSubject: old\n\nThe older mail.", ())
    digest = _parts(
        ("message/rfc822", inner), ("message/rfc822", "Subject: new\n\nThe newer.\n> quote"), multipart="digest"
    )
    assert text(tmp_path, digest) == "The older mail.\n\nThe newer."
    assert one(tmp_path, _parts(("message/rfc822", inner)), mail_text="basic").reason == "empty"


def test_parts_are_bounded(tmp_path):
    item = one(tmp_path, b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\n" * 20_000)
    assert (item.reason, "parts" in item.detail) == ("bad_mail", True)
    inner = b"Subject: x\n\ntext\n"
    for _ in range(40):
        inner = b"Content-Type: message/rfc822\n\n" + inner
    assert one(tmp_path, inner).reason == "bad_mail"


# --- format=flowed ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "body", "kept"),
    [
        ("", "A line \nthat flows. \nOn.\n", "A line that flows. On."),
        ("; delsp=yes", "A long wo \nrd.\n", "A long word."),
        ("", "> quoted \n> and on\n>> deeper \n>> too\nMine.\n", "> quoted and on\n>> deeper too\nMine."),
        ("", "> quoted \nMine.\n", "> quoted \nMine."),
        ("", "One.\n  indented\n", "One.\n indented"),
        ("", "Text \n-- \nAnn\n", "Text \n-- \nAnn"),
    ],
)
def test_flowed_lines(tmp_path, parameter, body, kept):
    data = f"Content-Type: text/plain; format=flowed{parameter}\n\n{body}".encode()
    assert text(tmp_path, data, mail_quotes="keep", mail_signatures="keep") == kept


# --- recognition ------------------------------------------------------------------------------------------------------


def readings(name: str, data: bytes) -> list[Reading]:
    return readings_of(RECOGNISERS, name, data)


@pytest.mark.parametrize(
    ("name", "data", "format"),
    [
        ("1.eml", MAIL, "mail"),
        ("1.", MAIL, "mail"),
        ("00001.7c53336b", MAIL, "mail"),
        ("cur/17:2,S", MAIL.replace(b"\n", b"\r\n"), "mail"),
        ("a.eml", FROM + MAIL, "mail"),
        ("a.emlx", b"%d\n" % len(MAIL) + MAIL, "mail"),
        ("all.mbox", MBOX, "mbox"),
        ("all", MBOX, "mbox"),
        ("one.mbox", FROM + MAIL, "mbox"),
        ("a.pst", b"!BDN" + bytes(100), None),
        ("a.msg", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), None),
        ("a.ics", b"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n", None),
        ("a.vcf", b"BEGIN:VCARD\r\n", None),
        ("winmail.dat", b"\x78\x9f\x3e\x22" + bytes(9), None),
        ("dovecot.index.log", b"\1\2", None),
    ],
)
def test_recognition(name, data, format):
    best = readings(name, data)[0]
    assert best.format == format
    assert best.score >= 0.9


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", b"Ann: hello\nBob: hi, how are you?\n\nAnn: fine\n"),
        ("a.txt", b"From here on it is fine.\n\nReally.\n"),
        ("a.csv", b"from,to,text\na,b,c\n"),
        ("a.yaml", b"from: python\ndate: 2024\nsteps:\n  - run\n"),
        ("a.json", b'{"from": "a", "subject": "b"}'),
        ("a.txt", b""),
        ("a.txt", b"\0\1\2"),
        ("a.py", b"import os\n\nx = 1\n"),
    ],
)
def test_other_files_are_no_mail(name, data):
    assert all(reading.score < 0.5 for reading in readings(name, data))


# --- fuzz -------------------------------------------------------------------------------------------------------------


def test_a_truncated_mailbox_keeps_the_mails_before(tmp_path):
    for size in range(0, len(MBOX), 7):
        (tmp_path / "a.mbox").write_bytes(MBOX[:size] or b"x")
        texts = [d.text for d in documents(read(tmp_path / "a.mbox", **FULL))]
        if size > MBOX.index(b"From 1578"):
            assert texts[0].startswith("The parcel did not come.")


def test_mails_of_mixed_parts_never_fail(tmp_path):
    draw = random.Random(5)
    bodies = [
        MAIL,
        b"<p>x<blockquote>y",
        b"> a \n> b\n",
        b"-----BEGIN PGP MESSAGE-----\n",
        b"caf\xe9",
        b"\0",
        b"=C3=A9=",
        b"!!",
    ]
    kinds = [
        "text/plain",
        "text/html",
        "text/plain; format=flowed; delsp=yes",
        "message/rfc822",
        "text/html; charset=utf-16",
    ]
    seen: Counter[str] = Counter()
    for number in range(300):
        data = b"Subject: x\nContent-Type: multipart/" + draw.choice(
            [b"mixed", b"digest", b"alternative", b"signed", b"x"]
        )
        data += b"; boundary=b\n\n"
        for _ in range(draw.randrange(1, 5)):
            coding = draw.choice(["7bit", "base64", "quoted-printable", "8bit", "x-no"])
            data += f"--b\nContent-Type: {draw.choice(kinds)}\nContent-Transfer-Encoding: {coding}\n\n".encode()
            data += draw.choice(bodies) + b"\n"
        changed = bytearray(data)
        for _ in range(number % 4):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        for mode in ("basic", "full"):
            item = one(tmp_path, bytes(changed[: draw.randrange(len(changed))] or b"x"), mail_text=mode)
            seen[type(item).__name__] += 1
    assert min(seen["Document"], seen["Rejected"]) > 20


@given(
    st.lists(
        st.sampled_from(
            [
                "<p>",
                "</p>",
                "<blockquote>",
                "</blockquote>",
                "<pre>a\nb",
                "<div class=gmail_quote>",
                "x",
                "&#xe000;",
                "\ue001",
                "<td>",
                "<!--",
                "-->",
                "<![if x]>",
                "<script>",
                "<b>",
                "<div id=divRplyFwdMsg>",
                "<",
                "&",
                " ",
                "<svg>",
                "<?x",
                "<div class=gmail_signature>",
                "<p style='display:none'>",
                "\x0c",
                "<html>",
                "<body>",
            ]
        )
    )
)
@settings(deadline=None, max_examples=300)
def test_any_page_gives_lines(tags):
    for line in lines_of_page("".join(tags), "drop", Counter()):
        assert "\n" not in line
        assert not {"\ue000", "\ue001", "\ue004"} & set(line) or "&#xe000;" in tags
