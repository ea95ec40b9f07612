"""Addresses of a mail's sender, which become owners."""

from __future__ import annotations

from email.parser import BytesParser
from email.policy import compat32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.corpus.mail_decoding import addresses
from pipelines.corpus.owners import normalised, owner_pseudonym

SECRET = b"k" * 32


@given(st.text(st.characters(exclude_characters="\r\n"), max_size=80))
def test_any_sender_gives_addresses_that_can_be_stored(value: str) -> None:
    message = BytesParser(policy=compat32).parsebytes(
        f"From: {value}\nSubject: x\n\ny".encode("utf-8", "surrogatepass")
    )
    for address in addresses(message, "From"):
        assert address.strip() == address != ""
        owner_pseudonym(SECRET, "", normalised(address))
    assert addresses(message, "Sender") == ()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ('"a@b.c via List" <list@example.com>', ("list@example.com",)),
        ("MAILER-DAEMON", ("MAILER-DAEMON",)),
        ("</O=ORG/CN=RECIPIENTS/CN=ANN>", ("/O=ORG/CN=RECIPIENTS/CN=ANN",)),
        ("Ann <a@b.c>, Bob <d@e.f>", ("a@b.c", "d@e.f")),
        ("", ()),
    ],
)
def test_odd_senders(value: str, found: tuple[str, ...]) -> None:
    assert addresses(BytesParser(policy=compat32).parsebytes(f"From: {value}\n\ny".encode()), "From") == found
