"""Reads the text of mails (RFC 5322, MIME), without parts that repeat other mails or hold no text.

Public and non-public: headers name people, so none becomes metadata. Headers in ``corpus.mail_headers`` become lines of
the text and are redacted with it. The others are left out. The message's own id names the document, as a pseudonym.
Parts that are left out are counted by kind, never by name, because names of attachments are private.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from email import errors
from email.message import Message
from email.parser import BytesParser
from email.policy import Policy, compat32
from typing import Final

from pipelines.corpus.items import BadRow, Document, as_bad_row
from pipelines.corpus.mail_decoding import addresses, decoded, header
from pipelines.corpus.mail_html import basic_text, lines_of_page
from pipelines.corpus.mail_lines import lines_of, unflowed, unwrapped, without_armour, without_quotes, without_signature
from pipelines.corpus.options import ReadOptions
from pipelines.corpus.records import Source, document

_DAMAGED = (
    errors.InvalidBase64CharactersDefect,
    errors.InvalidBase64LengthDefect,
    errors.NoBoundaryInMultipartDefect,
    errors.StartBoundaryNotFoundDefect,
)
_MAX_DEPTH = 20
_MAX_PARTS = 10_000
_MAX_TYPE_CHARS = 1 << 16
_KINDS = frozenset({"application", "audio", "font", "image", "message", "model", "multipart", "text", "video"})
_ESCAPED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_FROM = re.compile(rb"(?:>?From (?![ \t]*:)[^\n]*\n[\r\n]*)+")
_NEXT_MAIL = re.compile(rb"\n\r?\nFrom \S[^\n]{0,200}?[0-9]:[0-9]{2}[^\n]{0,100}\n[!-9;-~]{1,100}[ \t]*:")
_HEADER = re.compile(rb"[!-9;-~]+[ \t]*:")
_EMLX = re.compile(rb"([0-9]{1,12})[ \t]*\r?\n")

_ENCRYPTED: Final = "encrypted part"
_OPAQUE: Final = "signed part (S/MIME)"
_NAMED_KINDS: Final = {
    "application/ms-tnef": "winmail.dat (TNEF)",
    "application/vnd.ms-tnef": "winmail.dat (TNEF)",
    "text/calendar": "calendar",
    "application/ics": "calendar",
    "text/vcard": "vCard",
    "text/x-vcard": "vCard",
    "text/directory": "vCard",
    "application/pgp-signature": "signature (PGP)",
    "application/pgp-keys": "key (PGP)",
    "application/pkcs7-signature": "signature (S/MIME)",
    "application/x-pkcs7-signature": "signature (S/MIME)",
    "application/pkcs7-mime": _ENCRYPTED,
    "application/x-pkcs7-mime": _ENCRYPTED,
}
_NAMED_SUFFIXES: Final = ((".ics", "calendar"), (".vcf", "vCard"), ("winmail.dat", "winmail.dat (TNEF)"))


def mail(source: Source, data: bytes) -> list[Document]:
    """Reads the document of one message.

    Args:
        source: place of the message
        data: bytes of the message; in a mailbox with its line ``From ``, and with that word escaped in the text. In a
            file of its own, that line may be there too, or the number of bytes with which Apple Mail's files start.

    Raises:
        BadRow: the message is damaged, encrypted, has no text, or is in an unknown character set.
    """
    data = _message_of(data, is_mailbox=source.format == "mbox")
    if not _HEADER.match(data):
        raise BadRow("bad_mail", "does not begin with a header (Name: value): not a mail, or a damaged one.")
    reading = _Reading(source.options)
    try:
        message = _parsed(data)
        text = reading.text(message, 0)
        source_id = header(message, "Message-ID").strip("<> ") or None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        # The library raises various errors for odd headers, and its messages may quote them.
        raise BadRow("bad_mail", f"cannot be parsed ({type(error).__name__}): a damaged mail.") from None
    left_out = reading.left_out
    if not reading.has_body and (left_out[_ENCRYPTED] or left_out[_OPAQUE]) and (reading.is_full or not text):
        how = "encrypted" if left_out[_ENCRYPTED] else "signed in a form that hides its text (S/MIME)"
        raise BadRow("bad_mail", f"is {how}. Export it decrypted from the mail program, or remove it.")
    if not text:
        raise BadRow("empty", "holds no text except attachments, quotes and signature.")
    made = document(source, text, {}, source_id=source_id)
    owners = _senders(message) if source.options.owner_from == "sender" else made.owners
    return [replace(made, left_out=tuple(sorted((name, n) for name, n in left_out.items() if n)), owners=owners)]


def _senders(message: Message) -> tuple[str, ...]:
    """Returns the addresses in From. Of several authors, the one who sent the mail counts, if it is named (Sender)."""
    authors, sender = addresses(message, "From"), addresses(message, "Sender")
    return sender if len(authors) != 1 and len(sender) == 1 else authors


def _message_of(data: bytes, *, is_mailbox: bool) -> bytes:
    """Returns the bytes of the message alone, from its first header on."""
    if is_mailbox:
        return _ESCAPED_FROM.sub(rb"\1", data.partition(b"\n")[2]).lstrip(b"\r\n")
    data = data.lstrip(b"\r\n")
    if size := _EMLX.match(data):  # Apple Mail: the length, the message, and a property list
        data = data[size.end() :][: int(size[1])]
    start = _FROM.match(data)
    if start is None:
        return data
    if _NEXT_MAIL.search(data):
        raise BadRow("bad_mail", 'holds several mails. Set corpus.format = "mbox" for this file.')
    return _ESCAPED_FROM.sub(rb"\1", data[start.end() :])


def _parsed(data: bytes) -> Message:
    num_parts = 0

    def part(policy: Policy = compat32) -> Message:
        nonlocal num_parts
        num_parts += 1
        if num_parts > _MAX_PARTS:
            raise BadRow("bad_mail", f"has more than {_MAX_PARTS} parts.")
        return Message(policy)

    return BytesParser(part, policy=compat32).parsebytes(data)


class _Reading:
    """Reads the texts of one message, and counts what it leaves out.

    Attributes:
        left_out: numbers of the parts and lines that are left out, by kind
        has_body: true if a part of the message has text
        is_full: true for ``corpus.mail_text = "full"``
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._inner: list[Message] = []  # mails in the mail that is being read
        self._digest: list[Message] = []  # those of a digest, which is made of them
        self.left_out: Counter[str] = Counter()
        self.has_body = False
        self.is_full = options.mail_text == "full"

    def text(self, message: Message, depth: int) -> str:
        """Returns the chosen headers and the text of a message. Raises `BadRow`."""
        names = self._options.mail_headers
        headers = [f"{name}: {value}" for name in names for value in [header(message, name)] if value]
        self._inner, self._digest = [], []
        lines = [line for part in self._texts(message, depth) if any(map(str.strip, part)) for line in part]
        inner, digest = self._inner, self._digest
        if self.is_full:
            lines = without_armour(lines, self.left_out)
        if self._options.mail_quotes == "drop":
            lines = without_quotes(lines, self.left_out)
        if self._options.mail_signatures == "drop":
            lines = without_signature(lines, self.left_out)
        body = unwrapped(lines)
        if any(map(str.strip, body)):
            self.has_body = True
        elif self.is_full:  # a mail that only forwards others
            digest, inner = [*digest, *inner], []
        self.left_out["attachment (message)"] += len(inner)
        text = "\n".join([*headers, *([""] if headers else []), *body]).strip()
        return "\n\n".join(part for part in (text, *(self.text(one, depth + 1) for one in digest)) if part)

    def _texts(self, part: Message, depth: int) -> Iterator[list[str]]:
        """Yields the lines of a part and of its inner parts, and counts attachments."""
        if depth > _MAX_DEPTH:
            raise BadRow("bad_mail", f"parts are nested more than {_MAX_DEPTH} deep.")
        if len(str(part.get("Content-Type", ""))) > _MAX_TYPE_CHARS:  # the library's time grows with the square
            raise BadRow("bad_mail", "a header of it is too long.")
        kind = part.get_content_type()
        if kind.startswith("multipart/"):
            _check(part)
            if not part.is_multipart():
                raise BadRow("bad_mail", "the border between its parts is missing.")
            inside = [p for p in part.get_payload() if isinstance(p, Message)]
            if kind == "multipart/encrypted":
                self.left_out[_ENCRYPTED] += 1
                inside = [p for p in inside if p.get_content_maintype() in ("text", "multipart")]
            if kind == "multipart/alternative":
                yield from self._best_of(inside, depth)
            else:
                for one in inside:
                    is_digest = kind == "multipart/digest" and self.is_full
                    if is_digest and one.get_content_type() == "message/rfc822" and one.is_multipart():
                        self._digest += [p for p in one.get_payload() if isinstance(p, Message)]
                    else:
                        yield from self._texts(one, depth + 1)
        elif kind == "message/rfc822" and part.is_multipart() and part.get_payload():
            self._inner += [p for p in part.get_payload() if isinstance(p, Message)]
        elif (
            kind not in ("text/plain", "text/html")
            or part.get_content_disposition() == "attachment"
            or part.get_filename()
        ):
            self.left_out[_kind_of(part)] += 1
        else:
            yield self._lines(part, is_page=kind == "text/html")

    def _best_of(self, parts: Sequence[Message], depth: int) -> Iterator[list[str]]:
        """Yields the plain form of a text with several forms, if it has text. Only calendars count as left out."""
        self.left_out["calendar"] += sum(part.get_content_type() == "text/calendar" for part in parts)
        for wanted in ("text/plain", "", "text/html"):
            for part in parts:
                kind = part.get_content_type()
                if kind == wanted or (not wanted and kind.startswith("multipart/")):
                    texts = [lines for lines in self._texts(part, depth + 1) if any(map(str.strip, lines))]
                    if texts:
                        yield from texts
                        return

    def _lines(self, part: Message, *, is_page: bool) -> list[str]:
        _check(part)
        data = part.get_payload(decode=True)
        _check(part)  # defects of base64 are known only after decoding
        if not isinstance(data, bytes):
            raise BadRow("bad_mail", "a part of it has no content.")
        text = decoded(data, part.get_content_charset(), is_page=is_page, is_strict=self.is_full)
        if is_page and self.is_full:
            with as_bad_row("bad_mail", "the parser of its page fails ({}). Leave the mail out."):
                return lines_of_page(text, self._options.mail_signatures, self.left_out)
        if is_page:
            text = basic_text(text)
        elif str(part.get_param("format") or "").lower() == "flowed":
            keeps_blank = str(part.get_param("delsp") or "").lower() != "yes"
            text = unflowed(text, keeps_blank=keeps_blank, joins_quotes=self.is_full)
        return lines_of(text.strip("\n"))


def _check(part: Message) -> None:
    if any(isinstance(defect, _DAMAGED) for defect in part.defects):
        raise BadRow("bad_mail", "a part of it is damaged: its border is missing, or its encoding is broken.")


def _kind_of(part: Message) -> str:
    """Returns the kind under which a left-out part is counted."""
    kind = part.get_content_type()
    if kind.endswith("pkcs7-mime") and str(part.get_param("smime-type") or "").lower() == "signed-data":
        return _OPAQUE
    name = str(part.get_filename() or "").lower()
    by_name = next((named for suffix, named in _NAMED_SUFFIXES if name.endswith(suffix)), None)
    main = part.get_content_maintype()
    return _NAMED_KINDS.get(kind) or by_name or f"attachment ({main if main in _KINDS else 'other'})"
