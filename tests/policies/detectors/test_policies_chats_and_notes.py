"""Secrets as people write them in chats, mails, clinical notes, statements and logs, and texts that look alike."""

from __future__ import annotations

import re
import time

import pytest

from pipelines.policies.detectors.identifiers.policy import find_identifiers

FOUND = {
    "rows in capitals": (
        "CUSTOMER ⟦TOMOYA⟧ RANG ABOUT LATE REFUND",
        "CALLER ⟦BRONISLAV⟧ VERY UPSET, HUNG UP TWICE",
        "SPOKE TO ⟦IFEYINWA⟧ RE MISSING PARCEL",
        "LEFT MSG FOR ⟦HJORDIS⟧, NO ANSWER",
    ),
    "patients": (
        "Pt ⟦Caoimhin⟧ was seen in ED, sent home with inhaler.",
        "pt ⟦ruaraidh⟧ is nauseous",
        "Pt. ⟦Nokuthula⟧ denies fever",
        "Pt ⟦Sioned⟧, 44F, doing well",
        "PT ⟦IEUAN⟧ C/O SOB",
    ),
    "new phones": (
        "heyy its ⟦dre⟧, lost my phone",
        "⟦kez⟧ here new fone",
        "text me back its ⟦gaz⟧",
    ),
    "bank statements": (
        "FASTER PAYMENT FROM ⟦P ARKWRIGHT⟧ REF RENT",
        "STANDING ORDER ⟦FENWICK T & S⟧ MORTGAGE",
        "FPI ⟦E HATHERLEIGH⟧ FOR CHILD CARE",
    ),
}

CLEAN = {
    "rows in capitals": (
        "CUSTOMER CALLED AGAIN RE: DAMAGED SINK",
        "CLIENT MTLS HANDSHAKE FAILED",
        "Client nginx is restarted every night.",
        "CUSTOMER CHURN IS DOWN THIS QUARTER",
    ),
    "patients": (
        "Pt afebrile overnight, tolerating PO.",
        "pt hypotensive was given fluids",
        "Patient normotensive, euvolemic, reports no pain.",
    ),
    "new phones": (
        "its broken, new number needed",
        "this is lame from the start",
        "its a new number",
    ),
    "bank statements": (
        "PAYMENT TO A SAVINGS ACCOUNT",
        "TRANSFER FROM A CURRENT ACCOUNT",
        "COPY FROM X TABLE TO Y TABLE",
    ),
}


def _pairs(table: dict[str, tuple[str, ...]]) -> list[object]:
    return [pytest.param(text, id=f"{kind}-{number}") for kind in table for number, text in enumerate(table[kind])]


@pytest.mark.parametrize("marked", _pairs(FOUND))
def test_finds_the_whole_of_each_secret(marked: str) -> None:
    text, secrets, at = "", [], 0
    for match in re.finditer("⟦(.*?)⟧", marked, re.S):
        text += marked[at : match.start()]
        secrets.append((len(text), len(text) + len(match[1])))
        text += match[1]
        at = match.end()
    text += marked[at:]
    found = {at for start, end, _ in find_identifiers(text) for at in range(start, end)}
    assert secrets
    for start, end in secrets:
        assert {at for at in range(start, end) if text[at].isalnum()} <= found, text[start:end]


@pytest.mark.parametrize("text", _pairs(CLEAN))
def test_leaves_texts_that_look_alike(text: str) -> None:
    assert not find_identifiers(text)


@pytest.mark.parametrize("piece", ["pt ab ", "its ab new ", "FPO A ", "FPO AB A & ", "new number ab "])
def test_reads_a_hundred_kilobytes_of_its_worst_text_in_time(piece: str) -> None:
    began = time.process_time()
    find_identifiers(piece * (100_000 // len(piece)))
    assert time.process_time() - began < 5
