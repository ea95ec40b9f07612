"""Fields in many languages and layouts, credentials in commands and calls, names in logs and in small letters."""

from __future__ import annotations

import re
import time

import pytest

import reticent
from pipelines.policies.detectors.fields.keys import kinds_of
from pipelines.policies.detectors.fields.policy import find_in_fields
from pipelines.policies.detectors.identifiers.policy import find_identifiers
from pipelines.policies.english.name_lists import names_somebody

IN_FIELDS = {
    "other languages": (
        "ΕΠΩΝΥΜΟ: ⟦ΒΛΑΧΟΠΟΥΛΟΣ⟧ ΚΙΝΗΤΟ: ⟦6944000111⟧",
        "お名前（漢字）：⟦堀内 千夏⟧ / 状態: 済",
        "सेवा\nपासवर्ड: ⟦tota_mor⟧",
        "Soyadı: ⟦Yıldızoğlu⟧",
        "Keresztnév: ⟦Zsombor⟧ Jelszó: ⟦szilvalekvar⟧",
        "שם משפחה: ⟦אלקלעי⟧",
        "收货人：⟦司徒倩⟧，住址：⟦梧州市万秀区⟧",
        "Họ và tên: ⟦Đoàn Ngọc Ánh⟧",
        "Adres zamieszkania: ⟦ul. Sosnowa 3, Łódź⟧",
    ),
    "misread letters": ("Narne: ⟦Wi1ma Hjort⟧", "Te1: ⟦0151 496 0022⟧"),
    "labels": (
        "<dt>Vorname</dt><dd>⟦Gerlinde⟧</dd>",
        '<label>Full name</label> <span class="x">⟦Ren&eacute;e Dubosc&ndash;Hale⟧</span>',
    ),
    "lists": (
        "approvers: [⟦tvandijk⟧, ⟦hjort⟧]",
        "reviewers:\n  - ⟦tvandijk⟧\n  - ⟦hjort⟧\n",
    ),
    "called by what somebody does": (
        "Taxpayer: ⟦Delroy Pinnock⟧  Filing: single",
        "lessee: ⟦Zdenka Vrabec⟧, flat 4",
        '{"grantee": "⟦Delroy Pinnock⟧"}',
    ),
    "base64 behind a scheme": ("token: basic ⟦dmFuZGlqazpoZXJvbg==⟧",),
    "values behind names": (
        "- name: SMTP_PASSWORD\n  value: ⟦marmalade⟧",
        'variable "db_password" {\n  default = "⟦marmalade⟧"\n}',
        "define('SMTP_PASS', '⟦marmalade⟧');",
        "page.locator('#password').fill('⟦marmalade⟧')",
        "ENV SMTP_PASS ⟦marmalade⟧",
    ),
    "credentials": (
        "db7:5432:sales:⟦etl⟧:⟦marmalade⟧",
        "echo ⟦marmalade⟧ | docker login -u ci --password-stdin",
        "unzip -P ⟦marmalade⟧ a.zip",
        "snmp-server community ⟦marmalade⟧ RO",
        "gpg --batch --passphrase ⟦marmalade⟧ -d a",
        'session.auth = ("⟦tvandijk⟧", "⟦marmalade⟧")',
        "mvn -Dpassword=⟦marmalade⟧ deploy",
    ),
    "logs": (
        "Failed password for ⟦tvandijk⟧ from 203.0.113.4",
        "sudo: ⟦tvandijk⟧ : TTY=pts/1 ; USER=root",
        "CRON[71]: (⟦tvandijk⟧) CMD (x.sh)",
        "AD account ⟦tvandijk⟧ was disabled",
        "lease for ⟦tvandijk⟧-macbook ended",
        'find_user("⟦tvandijk⟧")',
    ),
}
IN_TEXT = {
    "small letters": (
        "is ⟦hazel⟧ in today? she took my badge",
        "let ⟦dale⟧ know the van is here",
        "gave ⟦pearl⟧ the form, she signed it",
        "did you hear from ⟦oyinkan⟧ yet",
        "table is under ⟦haldorsen⟧ at 8",
    ),
    "glued": ("Seen by:⟦VestergaardIngrid⟧MD typed", "From:⟦MartinaKovač⟧Subject:Rent"),
    "handles": ("thanks @⟦tove-k⟧ and @⟦bo-h⟧", "see ⟦tvandijk_notes⟧.py"),
    "couples": (
        "⟦Zuzka⟧ and ⟦Tibor⟧ got engaged!",
        "Pick up ⟦Gus Haldorsen⟧ from the dock",
        "ask the new clerk (⟦Min-seo Bak⟧) first",
        "caller ⟦oyinkan haldorsen⟧ cant log in",
        "seller ⟦old.maps.tromso⟧ never wrote back",
    ),
    "rare given names": ("⟦Cedric⟧ missed two of four goals.", "esp. ⟦Otis⟧ and ⟦Freya⟧ were loud"),
    "initials": ("Pt initials ⟦R.K.T.⟧, seen today", "patient (initials ⟦AB⟧) was seen"),
    "hyphens": ("scans/cv-⟦anna-keller⟧.pdf",),
    "away": ("⟦Haldorsen⟧ is on leave until May.",),
    "signatures": ("Hi all,\nthe keys are in the drawer.\n⟦Jo⟧", "お願いいたします。\n⟦堀内⟧"),
    "passwords": ("locked out of the portal, account reset to ⟦Marmalade-31⟧", "2fa seed ⟦KB3D 5XYZ 2QRS PL7M⟧"),
    "more passwords": (
        "she set the new password to ⟦Heron!1977⟧ but it fails",
        "exp 03/27 and the 3 digits on the back are ⟦582⟧",
    ),
    "calendars": ("ORGANIZER;CN=⟦Tove Vandijk⟧:MAILTO:x",),
}
CLEAN_FIELDS = (
    'fields = ["password", "nickname", "address"]',
    'add("password", "password")',
    't("password", "required")',
    'log_in("user", "password")',
    "tokens: [word, number]",
    "members:\n  alpha: 1",
    "<dt>Author</dt><dd>Unknown</dd>",
    "<label>Password</label> <span>Did you forget it?</span>",
    "main.py:12:5:E501",
    "echo done | docker load",
    "unzip -p a.zip readme",
    "useradd -m builder",
    "sudo: apt : command not found",
    "CRON[71]: (root) CMD (x.sh)",
    "the account type is disabled",
    "ENV TOKEN_TTL 60",
    "Имя: обязательно",
    "auth: basic",
    "Router: Zyxel Keenetic",
    "Developer: Naughty Dog",
)
CLEAN_TEXT = (
    "is spring here yet? she asked",
    "summer and winter are both long",
    "was hope lost in the end",
    "Uh-oh, the Wi-fi is down. Ping-pong later?",
    "the customer wants a refund, the user has none",
    "did you hear from support today",
    "me and hubby are home",
    "the order is under review",
    "Today is away from normal.",
    "the account was reset to default values",
    "Sunday is the last day at Acme.",
    "Sign with your initials here",
    "a built-in, easy-to-read, state-of-the-art page",
    "MIT freundlichen Grüßen\nIhr Serviceteam",
)


def marked(kinds):
    return [
        pytest.param(text, id=f"{kind} {number}") for kind, texts in kinds.items() for number, text in enumerate(texts)
    ]


def is_open(find, text):
    """Returns the marked secrets of which a letter or digit is in no find."""
    plain = re.sub("[⟦⟧]", "", text)
    hidden = {at for start, end, _ in find(plain) for at in range(start, end)}
    spans = [(m.start(1) - 2 * n - 1, m.end(1) - 2 * n - 1) for n, m in enumerate(re.finditer("⟦(.*?)⟧", text))]
    return [plain[a:b] for a, b in spans if any(plain[at].isalnum() and at not in hidden for at in range(a, b))]


@pytest.mark.parametrize("text", marked(IN_FIELDS))
def test_values_of_fields_are_found(text: str) -> None:
    assert is_open(find_in_fields, text) == []


@pytest.mark.parametrize("text", marked(IN_TEXT))
def test_names_and_passwords_in_text_are_found(text: str) -> None:
    assert is_open(find_identifiers, text) == []


@pytest.mark.parametrize("text", CLEAN_FIELDS)
def test_nothing_is_found_in_fields_that_look_alike(text: str) -> None:
    assert find_in_fields(text) == []


@pytest.mark.parametrize("text", CLEAN_TEXT)
def test_nothing_is_found_in_text_that_looks_alike(text: str) -> None:
    assert find_identifiers(text) == []


def test_a_handle_in_the_name_of_a_file_stays_masked() -> None:
    assert names_somebody("tvandijk_notes.py")
    assert not names_somebody("release_notes.py")
    (found,) = reticent.redact(["open tvandijk_notes.py and fix it"], policies=["identifiers"])
    assert "tvandijk" not in found.text


def test_a_misread_name_of_a_field_has_the_kinds_of_the_name() -> None:
    assert kinds_of("D0B") == kinds_of("dob")
    assert kinds_of("Surnarne") == kinds_of("surname")
    assert kinds_of("b4") == kinds_of("12345") == frozenset()


PIECES = (
    "is rose in ",
    "rose and will ",
    "echo a ",
    "name（",
    'f("a", "b", ',
    "x:1:",
    "users:\n - a",
    "<dt>a</dt>",
    "AAAA 2222 ",
)


@pytest.mark.parametrize("piece", PIECES)
def test_time_is_linear(piece: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * length)[:length]
        begin = time.process_time()
        find_in_fields(text)
        find_identifiers(text)
        return time.process_time() - begin

    seconds(1_000)  # reads the lists
    assert seconds(50_000) < 25 * seconds(5_000) + 0.5
