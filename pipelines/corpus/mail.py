"""Reads the text of mails (RFC 5322, MIME), without parts that repeat other mails or hold no text.

Public and non-public: headers name people, so none becomes metadata. Headers in ``corpus.mail_headers`` become lines of
the text and are redacted with it. The others are left out. The message's own id names the document, as a pseudonym.
Parts that are left out are counted by kind, never by name, because names of attachments are private.
"""

from __future__ import annotations

import email
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from email import errors
from email.header import decode_header
from email.message import Message
from email.policy import compat32
from html.parser import HTMLParser

from pipelines.corpus.items import BadRow, Document
from pipelines.corpus.records import Source, document

_DAMAGED = (
    errors.InvalidBase64CharactersDefect,
    errors.InvalidBase64LengthDefect,
    errors.NoBoundaryInMultipartDefect,
    errors.StartBoundaryNotFoundDefect,
)
_MAX_DEPTH = 20
_KINDS = frozenset({"application", "audio", "font", "image", "message", "model", "multipart", "text", "video"})
_ESCAPED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_HEADER = re.compile(rb"[!-9;-~]+[ \t]*:")
_SPACES = re.compile(r"\s+")

_QUOTED = re.compile(r"\s{0,3}>")
_ATTRIBUTION = re.compile(
    r"(?:On|Am|Le|El|Il|Op|Em|Den|W dniu)\b.{4,300}(?:wrote|schrieb.{0,80}|a écrit|escribió|ha scritto|schreef.{0,80}"
    r"|escreveu|skrev.{0,80}|napisał\S*)\s*:",
    re.IGNORECASE,
)
_ORIGINAL = re.compile(
    r"\s*-{2,}\s*(?:Original Message|Original Appointment|Ursprüngliche Nachricht|Message d'origine|Mensaje original"
    r"|Messaggio originale|Oorspronkelijk bericht)\s*-{2,}\s*",
    re.IGNORECASE,
)
_REPLY_HEADER = re.compile(r"(?:From|Von|De|Da|Van)\s*:\s*\S", re.IGNORECASE)
_SENT_HEADER = re.compile(r"(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado|Inviato|Verzonden)\s*:\s*\S", re.IGNORECASE)
_SIGNATURE = re.compile(r"-- ?")
_SENT_FROM = re.compile(r"(?:Sent from my|Get Outlook for|Von meinem|Envoyé de mon|Enviado desde mi)\b.{0,80}")
_ITEM = re.compile(r"\s|[-*•–+>]|\(?[0-9a-zA-Z][.)]\s|[-_=*]{3,}")
_WRAPPED_CHARS = 55
"""Least length of a line in a paragraph that was broken to fit about 72 columns."""

_BLOCKS = frozenset({"p", "div", "br", "tr", "li", "h1", "h2", "h3", "h4", "h5", "h6", "table", "ul", "ol", "hr"})
_UNSEEN = frozenset({"script", "style", "head", "title"})


def mail(source: Source, data: bytes) -> list[Document]:
    """Reads the document of one message.

    Args:
        source: place of the message
        data: bytes of the message; in a mailbox with its line ``From ``, and with that word escaped in the text

    Raises:
        BadRow: the message is damaged, has no text, or is in a character set that it does not name.
    """
    options = source.options
    if source.format == "mbox":
        data = _ESCAPED_FROM.sub(rb"\1", data.partition(b"\n")[2])
    if not _HEADER.match(data.lstrip(b"\r\n")):
        raise BadRow("bad_mail", "does not begin with a header (Name: value): not a mail, or a damaged one.")
    try:
        message = email.message_from_bytes(data.lstrip(b"\r\n"), policy=compat32)
        headers = [f"{name}: {value}" for name in options.mail_headers for value in [_header(message, name)] if value]
        left_out: Counter[str] = Counter()
        body = "\n".join(part.strip("\n") for part in _texts(message, left_out, 0) if part.strip())
        source_id = _header(message, "Message-ID").strip("<> ") or None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        # The library raises various errors for odd headers, and its messages may quote them.
        raise BadRow("bad_mail", f"cannot be parsed ({type(error).__name__}): a damaged mail.") from None
    lines = _lines(body)
    if options.mail_quotes == "drop":
        lines = _without_quotes(lines, left_out)
    if options.mail_signatures == "drop":
        lines = _without_signature(lines, left_out)
    text = "\n".join([*headers, *([""] if headers else []), *_unwrapped(lines)]).strip()
    if not text:
        raise BadRow("empty", "holds no text except attachments, quotes and signature.")
    made = document(source, text, {}, source_id=source_id)
    return [replace(made, left_out=tuple(sorted((name, n) for name, n in left_out.items() if n)))]


def _header(message: Message, name: str) -> str:
    """Returns a header's value as text on one line. A wrongly encoded value stays as it is."""
    value = message.get(name)
    if value is None:
        return ""
    parts: list[str] = []
    try:
        for part, charset in decode_header(str(value)):
            parts.append(part if isinstance(part, str) else part.decode(charset or "utf-8"))
        text = "".join(parts)
    except (ValueError, LookupError):
        text = str(value)
    return _SPACES.sub(" ", text.encode("utf-8", "replace").decode("utf-8")).strip()


def _texts(part: Message, left_out: Counter[str], depth: int) -> Iterator[str]:
    """Yields the texts of a part and of its inner parts, and counts attachments."""
    if depth > _MAX_DEPTH:
        raise BadRow("bad_mail", f"parts are nested more than {_MAX_DEPTH} deep.")
    kind = part.get_content_type()
    if kind.startswith("multipart/"):
        _check(part)
        if not part.is_multipart():
            raise BadRow("bad_mail", "the border between its parts is missing.")
        inside = [p for p in part.get_payload() if isinstance(p, Message)]
        if kind == "multipart/alternative":
            yield from _best_of(inside, left_out, depth)
        else:
            for one in inside:
                yield from _texts(one, left_out, depth + 1)
    elif (
        kind not in ("text/plain", "text/html") or part.get_content_disposition() == "attachment" or part.get_filename()
    ):
        main = part.get_content_maintype()
        left_out[f"attachment ({main if main in _KINDS else 'other'})"] += 1
    else:
        _check(part)
        text = _decoded(part)
        yield _of_html(text) if kind == "text/html" else _unflowed(part, text)


def _best_of(parts: Sequence[Message], left_out: Counter[str], depth: int) -> Iterator[str]:
    """Yields the plain form of a text with several forms, if it has text. Other forms do not count as attachments."""
    for wanted in ("text/plain", "", "text/html"):
        for part in parts:
            kind = part.get_content_type()
            if kind == wanted or (not wanted and kind.startswith("multipart/")):
                texts = [text for text in _texts(part, left_out, depth + 1) if text.strip()]
                if texts:
                    yield from texts
                    return


def _check(part: Message) -> None:
    if any(isinstance(defect, _DAMAGED) for defect in part.defects):
        raise BadRow("bad_mail", "a part of it is damaged: its border is missing, or its encoding is broken.")


def _decoded(part: Message) -> str:
    data = part.get_payload(decode=True)
    _check(part)  # defects of base64 are known only after decoding
    if not isinstance(data, bytes):
        raise BadRow("bad_mail", "a part of it has no content.")
    charset = part.get_content_charset() or "utf-8"
    if charset in ("us-ascii", "ascii", "unknown-8bit", "default"):
        charset = "utf-8"  # includes ASCII; many mails that name no character set use it
    try:
        return data.decode(charset)
    except (LookupError, UnicodeError):
        raise BadRow(
            "undecodable", "its text is not in the character set that it names, or that character set is unknown."
        ) from None


def _unflowed(part: Message, text: str) -> str:
    """Joins lines that ``format=flowed`` broke (RFC 3676), except a signature's mark."""
    if str(part.get_param("format") or "").lower() != "flowed":
        return text
    keeps_blank = str(part.get_param("delsp") or "").lower() != "yes"
    joined: list[str] = []
    flows = False
    for line in text.split("\n"):
        line = line.removesuffix("\r")
        line = line[1:] if line.startswith(" ") else line
        is_quoted = line.startswith(">")
        if flows and not is_quoted and line != "-- ":
            joined[-1] += line
        else:
            joined.append(line)
        flows = line.endswith(" ") and line != "-- " and not is_quoted
        if flows and not keeps_blank:
            joined[-1] = joined[-1][:-1]
    return "\n".join(joined)


class _Visible(HTMLParser):
    """Collects the visible text of a page, with line breaks around blocks and ``>`` before quoted mails."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._unseen = 0
        self._quotes = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in _UNSEEN
        self._quotes += tag == "blockquote"
        if tag in _BLOCKS or tag == "blockquote":
            self._break()

    def handle_endtag(self, tag: str) -> None:
        self._unseen = max(0, self._unseen - (tag in _UNSEEN))
        self._quotes = max(0, self._quotes - (tag == "blockquote"))
        if tag in _BLOCKS or tag == "blockquote":
            self._break()

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.parts.append(_SPACES.sub(" ", data))

    def _break(self) -> None:
        self.parts.append("\n" + "> " * bool(self._quotes))


def _of_html(text: str) -> str:
    page = _Visible()
    page.feed(text)
    page.close()
    lines = (line.strip() for line in "".join(page.parts).split("\n"))
    return "\n".join(line for line in lines if line not in ("", ">"))


def _lines(text: str) -> list[str]:
    return [line.rstrip("\r") for line in text.replace("\x0b", " ").replace("\x0c", " ").split("\n")]


def _without_quotes(lines: Sequence[str], left_out: Counter[str]) -> list[str]:
    """Removes the lines of other mails: lines after ``>``, their attribution, and everything below an original."""
    end = next((i for i, _ in enumerate(lines) if _begins_original(lines, i)), len(lines))
    kept: list[str] = []
    for line in lines[:end]:
        if _QUOTED.match(line):
            _drop_attribution(kept)
        else:
            kept.append(line)
    left_out["quoted line"] += sum(bool(line.strip()) for line in lines) - sum(bool(line.strip()) for line in kept)
    return kept


def _begins_original(lines: Sequence[str], at: int) -> bool:
    if _ORIGINAL.fullmatch(lines[at]):
        return True
    # Outlook's header above the answered mail has no word Original, so its lines identify it.
    return bool(_REPLY_HEADER.match(lines[at])) and any(_SENT_HEADER.match(line) for line in lines[at + 1 : at + 3])


def _drop_attribution(kept: list[str]) -> None:
    """Removes a final "On … wrote:", on one line or two, which names the person whom the mail answers."""
    last = len(kept)
    while last and not kept[last - 1].strip():
        last -= 1
    for first in (last - 1, last - 2):
        if first >= 0 and _ATTRIBUTION.fullmatch(" ".join(line.strip() for line in kept[first:last])):
            del kept[first:]
            return


def _without_signature(lines: Sequence[str], left_out: Counter[str]) -> list[str]:
    """Returns the lines above the last mark of a signature (RFC 3676), without a final "Sent from my phone"."""
    marks = [i for i, line in enumerate(lines) if _SIGNATURE.fullmatch(line)]
    kept = list(lines[: marks[-1]] if marks else lines)
    while kept and (not kept[-1].strip() or _SENT_FROM.fullmatch(kept[-1].strip())):
        kept.pop()
    left_out["signature line"] += sum(bool(line.strip()) for line in lines) - sum(bool(line.strip()) for line in kept)
    return kept


def _unwrapped(lines: Sequence[str]) -> list[str]:
    """Joins the lines of a paragraph that was broken to fit a width, because a line break ends a sentence."""
    joined: list[str] = []
    before = ""
    for line in lines:
        if len(before) >= _WRAPPED_CHARS and line.strip() and not _ITEM.match(line) and not before.endswith(":"):
            joined[-1] = f"{joined[-1].rstrip()} {line}"
        else:
            joined.append(line)
        before = line
    return joined
