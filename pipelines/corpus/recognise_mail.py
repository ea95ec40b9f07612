"""Recognises mails, mailboxes and the files that mail programs keep beside them."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from pipelines.corpus.recognition import Head, Reading, Recogniser

_HEADER = re.compile(rb"([!-9;-~]+)[ \t]*:")
_FROM = re.compile(rb">?From \S[^\n]{0,200}?[0-9]:[0-9]{2}[^\n]{0,100}\n")
_FROM_WITH_HEADER = re.compile(_FROM.pattern + rb"(?:>?From [^\n]{0,300}\n){0,3}[!-9;-~]{1,100}[ \t]*:")
_NEXT_MAIL = re.compile(rb"\n\r?\n" + _FROM_WITH_HEADER.pattern)
_EMLX = re.compile(rb"[0-9]{1,12}[ \t]*\r?\n(?=[!-9;-~]+[ \t]*:)")
_BOM: Final = b"\xef\xbb\xbf"
_SUBJECT: Final = frozenset({b"subject", b"to", b"cc", b"reply-to", b"content-type"})
_TRANSPORT: Final = frozenset(
    {b"message-id", b"received", b"return-path", b"delivered-to", b"mime-version", b"date", b"x-mailer", b"sender"}
)
_MAILBOXES: Final = (".mbox", ".mbx")
_FULL: Final = (("mail_text", "full"),)
_NOT_READ: Final = (
    (b"!BDN", "an Outlook data file (PST, OST), which is not read: readpst -e turns it into mails"),
    (b"\xcf\xad\x12\xfe", "a folder of Outlook Express (DBX), which is not read: export it as mbox or .eml"),
    (b"\x78\x9f\x3e\x22", "attachments of Outlook (winmail.dat, TNEF), which are not read"),
    (b"BEGIN:VCALENDAR", "a calendar, which is not read"),
    (b"BEGIN:VCARD", "contacts (vCard), which are not read"),
    (b"-----BEGIN PGP ", "a message, signature or key of PGP, which is not read"),
    (b"// <!-- <mdb:mork:z", "an index of Thunderbird, which holds no mails"),
)
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MSG_NAMES: Final = "__substg1.0_".encode("utf-16-le")
_SIDE_FILES: Final = re.compile(r"dovecot[-.].*|maildirfolder|subscriptions|courierimap.*|\.?mh_sequences|cyrus\..*")


def single_mail(head: Head) -> Reading | None:
    """Recognises a file with one mail, with or without a line ``From`` or Apple Mail's length before it."""
    data = _text(head)
    is_emlx = _EMLX.match(data)
    data = data[is_emlx.end() :] if is_emlx else data
    has_from = _FROM_WITH_HEADER.match(data)
    if has_from and _NEXT_MAIL.search(data):
        return None
    score = _score(_FROM.sub(b"", data, count=1) if has_from else data, head.is_whole)
    if has_from and head.suffix in _MAILBOXES:
        score = min(score, 0.5)
    elif score and head.suffix in (".eml", ".emlx"):
        score = max(score, 0.95)
    elif has_from and not head.is_whole:
        score = min(score, 0.6)
    what = "mails of Apple Mail, one per file" if is_emlx else "mails, one per file"
    return Reading("mail", score, what, _FULL) if score else None


def mailbox(head: Head) -> Reading | None:
    """Recognises a mailbox of several mails (mbox)."""
    data = _text(head)
    start = _FROM_WITH_HEADER.match(data)
    if not start:
        return None
    is_certain = head.suffix in _MAILBOXES or _NEXT_MAIL.search(data)
    return Reading("mbox", 0.97 if is_certain else 0.9 if not head.is_whole else 0.6, "a mailbox of mails", _FULL)


def other_file(head: Head) -> Reading | None:
    """Recognises files of mail programs that are not read."""
    data = _text(head)
    for start, what in _NOT_READ:
        if data.startswith(start):
            return Reading(None, 1.0, what)
    if data.startswith(_OLE) and (head.suffix == ".msg" or _MSG_NAMES in data):
        return Reading(None, 1.0, "a message of Outlook (.msg), which is not read: save it as .eml")
    if _SIDE_FILES.fullmatch(PurePosixPath(head.name).name):
        return Reading(None, 0.9, "a list that a mail server keeps beside its mails")
    return None


def _text(head: Head) -> bytes:
    return head.data.removeprefix(_BOM).lstrip(b"\r\n")


def _score(data: bytes, is_whole: bool) -> float:
    """Returns the confidence that the text starts with the headers of a mail, 0 for none."""
    block, border, _ = data[: 1 << 18].replace(b"\r\n", b"\n").partition(b"\n\n")
    if not border and not is_whole:
        return 0
    names: set[bytes] = set()
    for line in block.split(b"\n"):
        name = _HEADER.match(line)
        if name:
            names.add(name[1].lower())
        elif not names or line[:1] not in (b" ", b"\t"):
            return 0
    has_sender = b"from" in names or b"sender" in names or b"received" in names
    if not has_sender:
        return 0.4 if len(names & (_TRANSPORT | _SUBJECT)) > 1 else 0
    if len(names & _TRANSPORT) > 1 or b"message-id" in names:
        return 0.97
    return 0.92 if names & (_TRANSPORT | _SUBJECT) else 0


RECOGNISERS: Final[tuple[Recogniser, ...]] = (single_mail, mailbox, other_file)
