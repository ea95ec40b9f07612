"""Gates by words leave out no find: with all gates open, the finds are the same."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.patches import patching

from pipelines.policies.detectors import first_pass
from pipelines.policies.detectors.addresses import _may_hold_address, find_addresses
from pipelines.policies.detectors.fields.policy import find_in_fields
from pipelines.policies.detectors.identifiers.policy import find_identifiers

PIECES = (
    "12 Main Street", "apt 4b", "#5", "p.o. box 7", "pobox 9", "rr 2 box 3", "R.R. 4", "unit 3", "corner of",
    "Elm and 5", "rue de la Paix 12", "Hauptstrasse 3", "c/ Mayor 4", "PSC 12 Box 3", "fooAPO AE 09012",
    "USNS Mercy", "NY 10001", "sw1a 1aa", "k1a 0b1", "five two", "oh one", "double seven", "a 1 b 2",
    "k as in kite", "9 1 2 3 4 5", "fab 2765", "jo at gmail dot com", "jo dot x at y", "jo@x.com",
    "at googlemailcom", "jo 56 gmailcom", "underscore", "1.2.3.4", "fe80::1", "00:1a:2b:3c:4d:5e",
    "001a.2b3c.4d5e", "deadbeef12", "0x1f2e", "12345678-1234-1234-1234-123456789012", "my name is", "name:",
    "nicknamed", "call me", "Ask Mark", "priya called", "Dear Anna,", "anna_keller", "anna.keller",
    "ich heisse Uwe", "klient: Jan", "me llamo", "password is", "clientSecret", "secret_2", "mot de passe est",
    "PIN was", "hunter2", "is", "to", "x1", "AB12 CDE", "\n", "\t", ".", ":", "-", " ", "_", "ſecret", "İ", "K",
    "failed password for root", "invalid user bob", "session opened for user ann", "TODO(anna)", "O’Neil", "McDuff",
    "security question: dog? answer: rex", "password -> hunter22", "token → abc123", "login bob pass hunter2",
    "AB 12 34 56 C", "12.3456, -7.8910", "Did rajesh reply", "Anna is my sister", "teléfono", "telefono 600123456",
    "Telefonnr. 0301234", "matrícula 1234 BCD", "kfz-kennzeichen B AB 12", "contraseña es abc123",
    "la contrasen\u0303a es",
    "hasło to kot12", "curl -u bob:secret1", "mysql -psecret1", "identified by 'abc12'", "password 'abc12'", "lot 5",
    "rural route 3", "RR12", "Elmstraße 12", "elmring 12", "x@y.de", "dot com", ". com", "naïve", "–", "“", "’", "…",
    "\u00ad", "\u0301", "\u200b", "µ", "ß", "²", "é", "the",
    "thanks Priya", "shout out to Tunde", "love u Sofia", "AnnaKeller", "AB-123-CD", "AB12 34 56 A", "7 Elm 5",
    "follow bob99 on telegram", "message bob99 on telegram", "find x on instagram",
    "bob99 is my login", "log in as", "signed up with", "name",
    "Regards, Obiageliaku", "Thank you, Obiageliaku", "see them! - Obiageliaku", "so\n-- Obiageliaku",
    "rgds, Obiageliaku", "Cheers, Obiageliaku", "Thanks, Obiageliaku", "thx, Obiageliaku", "Best, Obiageliaku",
    "Love, Obiageliaku", "Ta, Obiageliaku", "Yours truly, Obiageliaku", "ask for Obiageliaku",
    "apple river stone cloud green house table window garden flower orange silver",
)  # fmt: skip
FINDERS = {
    "addresses": lambda text: find_addresses(text) if _may_hold_address(text) else [],
    "fields": find_in_fields,
    "identifiers": find_identifiers,
}


@pytest.mark.parametrize("name", FINDERS)
@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=8), st.sampled_from([" ", "", ", "]), st.booleans())
@example(["Please come to the corner of Elm and 5 Main"], " ", False)
def test_open_gates_give_the_same_finds(name, pieces, joint, upper):
    text = joint.join(pieces)
    _check_open_gates(name, text.upper() if upper else text)


@pytest.mark.parametrize("name", FINDERS)
def test_open_gates_give_the_same_finds_in_each_piece(name):
    for piece in PIECES:
        _check_open_gates(name, piece)


def _check_open_gates(name, text):
    gated = FINDERS[name](text)
    with patching() as patch:
        patch(first_pass, "_words_of", lambda text: (first_pass.EVERY, None))
        assert first_pass.holds("no number", first_pass.NUMERIC)  # every gate is open
        assert first_pass.may_hold_capital("no capital")
        assert FINDERS[name](text) == gated


def test_a_text_without_capitals_is_known():
    assert not first_pass.may_hold_capital("no capital, 12")
    assert all(map(first_pass.may_hold_capital, ("a Capital", "Éa", "é", "ж")))


def test_words_are_counted_by_kind():
    text = "Call 12 and x3, call ME 1"
    assert first_pass.count(text, first_pass.NUMERIC) == 3
    assert first_pass.holds(text, first_pass.NUMERIC)
    assert not first_pass.holds("no number", first_pass.NUMERIC)
    assert not first_pass.holds("café – no “number”", first_pass.NUMERIC)
    for unsafe in ("ж", "ſ", "İ", "²", "a\u0301", "a\u00adb", "a\u200bb"):  # nothing is left out
        assert first_pass.holds(f"no {unsafe}", first_pass.NUMERIC)
    names = first_pass.kind(frozenset({"senor"}))
    assert first_pass.holds("Señor", names)  # some searches read words without accents
    assert first_pass.holds_run("senor senor, SENOR x senor", names, 3)
    assert not first_pass.holds_run("senor senor, SENOR x senor", names, 4)
    assert first_pass.holds_run("a\u00adb", names, 4)
    assert first_pass.last_runs(frozenset({"c/", "Cul-de-Sac", "."})) == {"c", "sac"}
    assert re.search(r"\d", text)
