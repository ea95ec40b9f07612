"""Reads tickets of Zendesk and conversations of Intercom, from JSON or JSON lines. Each one is a dialogue.

Speakers have roles: ``CUSTOMER`` for the requester, ``BOT``, and ``AGENT`` for the others, with a number from the
second one on. Their names become names of the document. Internal notes are left out and counted.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from pipelines.corpus.dialogues import Dialogue, Message, turns_of, unusable
from pipelines.corpus.exports.parts import inside, json_or_lines, name_of, objects, seconds, text_in, text_of_html
from pipelines.corpus.items import BadRow
from pipelines.corpus.options import ReadOptions

CUSTOMER, AGENT, BOT = "CUSTOMER", "AGENT", "BOT"
_MOST_AGENTS = 99


class _Ticket:
    """A ticket that is being read: its turns, its speakers, and what is left out of it and of those without text."""

    def __init__(self, row: int, left_out: Counter[str]) -> None:
        self.row = row
        self.left_out = left_out
        self.messages: list[Message] = []
        self.names: dict[str, None] = {}
        self.problem: BadRow | None = None
        self._speakers: dict[str, dict[str | None, int]] = {}

    def speaker(self, role: str, key: str | None, name: str | None) -> str:
        """Returns a role, with a number for the second person who has it, and notes the person's name."""
        if name is not None:
            self.names[name] = None
        known = self._speakers.setdefault(role, {})
        number = min(known.setdefault(key, len(known) + 1), _MOST_AGENTS)
        return role if number == 1 else f"{role} {number}"

    def add(self, speaker: str, text: str, time: float | None) -> None:
        """Adds a turn. One that cannot be used becomes the ticket's problem."""
        if not text.strip():
            self.left_out["empty"] += 1
            return
        problem = unusable(speaker, text)
        if problem is None:
            self.messages.append(Message(self.row, speaker, text, time))
        else:
            self.problem = problem

    def results(self, source_id: str | None) -> Iterator[tuple[int, Dialogue | BadRow]]:
        """Yields the problem and the dialogue."""
        if self.problem is not None:
            yield self.row, self.problem
        if self.messages:
            left_out = tuple(sorted(self.left_out.items()))
            customers = tuple(key for key in self._speakers.get(CUSTOMER, {}) if key is not None)
            turns, names = turns_of(self.messages), tuple(self.names)
            yield self.row, Dialogue(self.row, turns, source_id, left_out, names=names, owners=customers)
            self.left_out.clear()
        elif self.problem is None and not self.left_out:
            yield self.row, BadRow("missing_text", "the ticket holds no text of anybody. Export comments too.")


class TicketExport:
    """Reader of tickets.

    Attributes:
        tickets: places of tickets
        own: fields of a file that holds a single ticket
    """

    tickets: frozenset[str]
    own: frozenset[str]

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._left_out: Counter[str] = Counter()

    def read(self, file: BinaryIO) -> Iterator[tuple[int, Dialogue | BadRow]]:
        """Yields the dialogues and unusable tickets of a file."""
        row = 0
        single: dict[str, Any] = {}
        places = self.tickets | self.own
        for line, place, value in json_or_lines(file, places.__contains__, self.options, self.tickets):
            if place in self.own:
                single[place] = value
                continue
            row = row + 1 if line is None else line
            yield from self._checked(row, value)
        if single and self.is_ticket(single):
            yield from self._checked(row + 1, single)
        elif not row:
            yield 1, BadRow("missing_text", "holds no tickets of this tool. Set corpus.format for the file.")

    def _checked(self, row: int, value: Any) -> Iterator[tuple[int, Dialogue | BadRow]]:
        try:
            for part in (value, *(value.values() if isinstance(value, dict) else ())):
                if isinstance(part, BadRow):
                    raise part
            if not isinstance(value, dict) or not self.is_ticket(value):
                raise BadRow("not_an_object", "is no ticket of this tool. Leave the file out, or set corpus.format.")
            ticket = _Ticket(row, self._left_out)
            self.fill(ticket, value)
            yield from ticket.results(name_of(value.get("id"), value.get("ticket_id")))
        except BadRow as bad:
            yield row, bad

    def is_ticket(self, value: dict[str, Any]) -> bool:
        """Checks if a JSON object is a ticket."""
        raise NotImplementedError

    def fill(self, ticket: _Ticket, value: dict[str, Any]) -> None:
        """Adds the turns of a ticket. Raises `BadRow`."""
        raise NotImplementedError

    def turn(self, ticket: _Ticket, speaker: str, value: dict[str, Any], title: str, *keys: str) -> None:
        """Adds one turn with its text in one of some fields; a text that is no string becomes the ticket's problem."""
        ticket.left_out.update(["media"] * len(objects(value.get("attachments"))))
        try:
            text = _text(value, *keys)
        except BadRow as bad:
            ticket.problem = bad
            return
        if title and not text.casefold().startswith(title.rstrip(".… ").casefold()):
            text = f"{title}\n{text}"
        if text.strip() or not objects(value.get("attachments")):
            ticket.add(speaker, text, seconds(value.get("created_at")))


def _text(value: dict[str, Any], *keys: str) -> str:
    for key in keys:
        text = text_in(value, key)
        if text and key == "plain_body":
            return html.unescape(text).replace("\xa0", " ")
        if text:
            return text_of_html(text) if key in _HTML else text
    return ""


_HTML = ("html_body", "body_html")


class ZendeskReader(TicketExport):
    """Reader of Zendesk tickets with their comments, as lines, a list, an answer of the API, or a single ticket."""

    tickets = frozenset({"item", "tickets.item", "ticket", "results.item"})
    own = frozenset(("id", "ticket_id", "subject", "description", "created_at", "comments", "audits", "users")) | {
        "requester_id",
        "requester",
        "submitter",
        "assignee",
    }

    def is_ticket(self, value: dict[str, Any]) -> bool:
        """Checks for comments, or for a description of a problem."""
        return bool({"comments", "audits"} & value.keys()) or (
            {"description", "id"} <= value.keys() and bool({"subject", "requester_id", "requester"} & value.keys())
        )

    def fill(self, ticket: _Ticket, value: dict[str, Any]) -> None:
        """Adds the comments, or the description of a ticket without them. The subject begins the first turn."""
        people = {name_of(p.get("id")): p for p in objects(value.get("users"))}
        for field in ("submitter", "assignee", "requester"):
            person = value.get(field)
            if isinstance(person, dict):
                people[name_of(person.get("id"))] = person
        requester = name_of(value.get("requester_id"), inside(value, "requester", "id"))
        title = text_in(value, "subject", "raw_subject")
        comments = _comments(value)
        for comment in comments:
            if comment.get("public") is False:
                ticket.left_out["note"] += 1
                continue
            author = comment.get("author")
            key = name_of(comment.get("author_id"), inside(author, "id"))
            requester = requester or key
            if key == "-1":
                ticket.left_out["system"] += 1
                continue
            person = author if isinstance(author, dict) else people.get(key) or {}
            is_customer = key == requester or inside(person, "role") in ("end-user", "end_user")
            role = ticket.speaker(CUSTOMER if is_customer else AGENT, key, name_of(person.get("name")))
            self.turn(ticket, role, comment, title, "plain_body", "body", *_HTML)
            title = title if not ticket.messages else ""
        if not comments and (title or value.get("description")):
            person = people.get(requester, {})
            role = ticket.speaker(CUSTOMER, requester, name_of(person.get("name")))
            self.turn(ticket, role, value, title, "description")


def _comments(value: dict[str, Any]) -> list[dict[str, Any]]:
    given = value.get("comments")
    if isinstance(given, dict):
        given = given.get("comments", given.get("comment"))
    if given is not None:
        return objects(given)
    found = []
    for audit in objects(value.get("audits")):
        at = {"created_at": audit.get("created_at"), "author_id": audit.get("author_id")}
        found += [{**at, **event} for event in objects(audit.get("events")) if event.get("type") == "Comment"]
    return found


class IntercomReader(TicketExport):
    """Reader of Intercom conversations with their parts, as lines, a list, an answer of the API, or a single one."""

    tickets = frozenset({"item", "conversations.item", "data.item"})
    own = frozenset(("id", "source", "conversation_message", "conversation_parts", "created_at"))

    def is_ticket(self, value: dict[str, Any]) -> bool:
        """Checks for a first message, or for further parts."""
        return bool({"source", "conversation_message", "conversation_parts"} & value.keys())

    def fill(self, ticket: _Ticket, value: dict[str, Any]) -> None:
        """Adds the first message and the parts. Parts without text, such as assignments, are dropped and counted."""
        first = value.get("source", value.get("conversation_message"))
        parts = value.get("conversation_parts")
        if isinstance(parts, dict):
            parts = parts.get("conversation_parts")
        if isinstance(first, dict):
            try:
                title = text_of_html(text_in(first, "subject"))
            except BadRow:
                title = ""
            self._add(ticket, {"created_at": value.get("created_at"), **first}, title)
        for part in objects(parts):
            if part.get("part_type") == "note":
                ticket.left_out["note"] += 1
            elif part.get("redacted") is True:
                ticket.left_out["deleted"] += 1
            elif not part.get("body") and not part.get("attachments"):
                ticket.left_out["system"] += 1
            else:
                self._add(ticket, part, "")

    def _add(self, ticket: _Ticket, part: dict[str, Any], title: str) -> None:
        author = part.get("author")
        kind = inside(author, "type")
        role = BOT if kind == "bot" else AGENT if kind in ("admin", "team") else CUSTOMER
        name = None if kind == "bot" else name_of(inside(author, "name"))
        tag = ticket.speaker(role, name_of(inside(author, "id")), name)
        body = {**part, "body_html": part.get("body")}
        self.turn(ticket, tag, body, title, "body_html")
