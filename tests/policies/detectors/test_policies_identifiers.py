"""Table tests of `identifiers`: text -> exact finds, near misses, small letters, and input made to be slow."""

import random

import pytest
from faker import Faker
from hypothesis import given
from hypothesis import strategies as st

from pipelines.policies.detectors.identifiers.codes import passes_luhn
from pipelines.policies.detectors.identifiers.persons import _NO_SEED
from pipelines.policies.detectors.identifiers.policy import find_identifiers
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.judging.stabilise import PLACEHOLDER


def found(text):
    return [(label, text[start:end]) for start, end, label in find_identifiers(text)]


KEY = "AbCdEf0123456789GhIjKl"
EXACT = [
    # codes
    ("order 4471-AB-99 came", [("CODE", "4471-AB-99")]),
    ("it is BK7Q2M", [("CODE", "BK7Q2M")]),
    ("a 4 g 4 f 3", [("CODE", "a 4 g 4 f 3")]),
    ("fab 276586786 and ght 568", [("CODE", "fab 276586786"), ("CODE", "ght 568")]),
    ("it is u 67 h 68", [("CODE", "u 67 h 68")]),
    ("order no. 4471 is late", [("CODE", "4471")]),
    ("my reservation code is H4KQZP", [("CODE", "H4KQZP")]),
    ("booking code XKJDPL please", [("CODE", "XKJDPL")]),
    ("take LKLRDU then", [("CODE", "LKLRDU")]),
    ("it ends in double two one", [("CODE", "double two one")]),
    ("4879", [("CODE", "4879")]),
    ("id 550e8400-e29b-41d4-a716-446655440000", [("CODE", "550e8400-e29b-41d4-a716-446655440000")]),
    # numbers
    ("call (415) 555-0199 now", [("PHONE_NUMBER", "(415) 555-0199")]),
    ("call (294)822-3178x27406 now", [("PHONE_NUMBER", "(294)822-3178x27406")]),
    ("call +44 20 7946 0958 now", [("PHONE_NUMBER", "+44 20 7946 0958")]),
    ("or 06 12 34 56 78 then", [("PHONE_NUMBER", "06 12 34 56 78")]),
    ("or 28-64-66-98 then", [("PHONE_NUMBER", "28-64-66-98")]),
    ("use 4111 1111 1111 1111 for it", [("CREDIT_CARD", "4111 1111 1111 1111")]),
    ("use 4111-111111-11111-1 for it", [("CREDIT_CARD", "4111-111111-11111-1")]),
    ("it says 78701 on it", [("ID_NUMBER", "78701")]),
    # accounts of banks
    ("to DE89 3704 0044 0532 0130 00 please", [("IBAN_CODE", "DE89 3704 0044 0532 0130 00")]),
    ("to gb82 west 1234 5698 7654 32 please", [("IBAN_CODE", "gb82 west 1234 5698 7654 32")]),
    ("to DE89 3704 0044 0532 0130 0 please", [("IBAN_CODE", "DE89 3704 0044 0532 0130 0")]),
    ("to DE89-3704-0044-0532-0130-99 now", [("IBAN_CODE", "DE89-3704-0044-0532-0130-99")]),
    # announced in other languages
    ("mi teléfono es 612 345 678", [("PHONE_NUMBER", "612 345 678")]),
    ("a matrícula é AA-00-BB", [("LICENSE_PLATE", "AA-00-BB")]),
    ("mijn kenteken is AB-12-CD", [("LICENSE_PLATE", "AB-12-CD")]),
    ("numéro de sécurité sociale : 1 85 05 78 006 084 36", [("ID_NUMBER", "1 85 05 78 006 084 36")]),
    ("mijn naam is jan de vries", [("PERSON", "jan de vries")]),
    ("mijn naam is Sanne van der Meer", [("PERSON", "Sanne van der Meer")]),
    # who
    ("my username is kowalski_84", [("USERNAME", "kowalski_84")]),
    ("user id: jsmith", [("USERNAME", "jsmith")]),
    ("my login is jsmith", [("USERNAME", "jsmith")]),
    ("that was skater99", [("USERNAME", "skater99")]),
    ("ask @jane_doe then", [("USERNAME", "@jane_doe")]),
    ("seen at @jane.doe/ today", [("USERNAME", "@jane.doe")]),
    ("follow luv.kitty on insta", [("USERNAME", "luv.kitty")]),
    ("see u/quiet-fox for it", [("USERNAME", "u/quiet-fox")]),
    ("see github.com/quietfox for it", [("USERNAME", "github.com/quietfox")]),
    ("dr. kowalczyk and mr smith", [("PERSON", "dr. kowalczyk"), ("PERSON", "mr smith")]),
    ("was it nicole peterson", [("PERSON", "nicole peterson")]),
    ("From: Crystal <x>", [("PERSON", "Crystal")]),
    ("hi jasmine, how are you", [("PERSON", "jasmine")]),
    ("it was Heather Johnson", [("PERSON", "Heather Johnson")]),
    ("my name is maruthu", [("PERSON", "maruthu")]),
    ("he met Jacob there", [("PERSON", "Jacob")]),
    ("i was born on 12 May 1987", [("DATE_OF_BIRTH", "12 May 1987")]),
    # passwords and keys
    ("password: hunter2", [("PASSWORD", "hunter2")]),
    ("the password is sunshine", [("PASSWORD", "sunshine")]),
    ("pwd: correct horse battery staple", [("PASSWORD", "correct horse battery staple")]),
    ("hunter2 is my password", [("PASSWORD", "hunter2")]),
    ("use letmein to log in", [("PASSWORD", "letmein")]),
    ('password is "blue horse"', [("PASSWORD", "blue horse")]),
    ("my password is (TCUZil&1n] and it", [("PASSWORD", "(TCUZil&1n]")]),
    ("Mein Passwort lautet Blau77!", [("PASSWORD", "Blau77!")]),
    ("pin 4821", [("PASSWORD", "4821")]),
    ("my pin is four zeros", [("PASSWORD", "four zeros")]),
    ("AKIAIOSFODNN7EXAMPLE", [("SECRET_KEY", "AKIAIOSFODNN7EXAMPLE")]),
    (f"ghp_{KEY}", [("SECRET_KEY", f"ghp_{KEY}")]),
    (f"sk_live_{KEY}", [("SECRET_KEY", f"sk_live_{KEY}")]),
    ("xoxb-1234-5678-abcdefgh", [("SECRET_KEY", "xoxb-1234-5678-abcdefgh")]),
    (f"AIza{KEY}", [("SECRET_KEY", f"AIza{KEY}")]),
    ("eyJhbGciOiJI.eyJzdWIiOi.SflKxwRJ", [("SECRET_KEY", "eyJhbGciOiJI.eyJzdWIiOi.SflKxwRJ")]),
    ("Authorization: Bearer abc.def123.ghi456", [("SECRET_KEY", "abc.def123.ghi456")]),
    ("-----BEGIN KEY-----\nAA99\n-----END KEY-----", [("SECRET_KEY", "-----BEGIN KEY-----\nAA99\n-----END KEY-----")]),
    # machines
    ("from 192.168.0.1 today", [("IP_ADDRESS", "192.168.0.1")]),
    ("from fe80::1ff:fe23:4567:890a today", [("IP_ADDRESS", "fe80::1ff:fe23:4567:890a")]),
    ("on 00:1A:2B:3C:4D:5E today", [("MAC_ADDRESS", "00:1A:2B:3C:4D:5E")]),
    ("on 001a.2b3c.4d5e today", [("MAC_ADDRESS", "001a.2b3c.4d5e")]),
    # mail
    ("to qx.wv@example.org now", [("EMAIL_ADDRESS", "qx.wv@example.org")]),
    ("to qx dot wv at gmail dot com now", [("EMAIL_ADDRESS", "qx dot wv at gmail dot com")]),
    ("to qxwv (at) example (dot) org now", [("EMAIL_ADDRESS", "qxwv (at) example (dot) org")]),
    ("qxwv 56 gmailcom", [("EMAIL_ADDRESS", "qxwv 56 gmailcom")]),
    # handles after a mark and a space
    ("RT @ qxwv : @ zeta_q hello", [("USERNAME", "@ qxwv : @ zeta_q")]),
    ("@ qxwv you are late", [("USERNAME", "@ qxwv")]),
    ("seen with @ QxWv there", [("USERNAME", "@ QxWv")]),
    # plates
    ("it was AB12 CDE there", [("LICENSE_PLATE", "AB12 CDE")]),
    ("it was M-AB 1234 there", [("LICENSE_PLATE", "M-AB 1234")]),
]


@pytest.mark.parametrize(("text", "expected"), EXACT)
def test_finds_exactly(text, expected):
    assert found(text) == expected


LEFT = """
In the 1990s an F-16 and a B-52 flew over, and WW2 was long ago: 1939-1945.
COVID-19, mp3 and H1N1 in post-1945 20th-century prose by a 16-year-old.
It is 10km, 5ft11in, 4x100m or 1h30m on Windows95, and the A380 is route66.
Paid $12345 or 12345 dollars, 1,234,567 people, 1 200 000 votes, 3.14159 and 85 %.
Won by 6-4 6-3 6-2 in 2003-04, on 12/05/1999, at 12:30:45, in 2003 and 2004.
The password is wrong, so reset my password.
Your username and password are required.
In order to win, the case of 1999 was closed and the order of 1832 stands.
twitter is toxic and the login is broken
count 1 2 3 4 5 6 7 and stop
a 1 star hotel
we met @ the gym and later @ home
thank you Spotify, thanks Monday
look at the dot there
The U.S.A. and D.I.C.E. are here.
i miss you, and the professor of law
the king of the hill, a church in may
how-to-bake-a-very-good-cake-in-twenty-minutes
NASCAR and UNESCO agree
""".strip().splitlines()


@pytest.mark.parametrize("text", LEFT)
def test_leaves_plain_text(text):
    assert found(text) == []


def covered(text, secret):
    low = text.index(secret)
    return any(start <= low and low + len(secret) <= end for start, end, _ in find_identifiers(text))


def test_what_faker_makes_is_found_in_small_letters_too():
    fake = Faker("en_US")
    fake.seed_instance(3)
    rng = random.Random(3)
    makers = (
        fake.iban, fake.credit_card_number, fake.ipv4, fake.ipv6, fake.mac_address, fake.uuid4, fake.email,
        lambda: fake.bothify("??-####-??").upper(), lambda: fake.bothify("ORD-######"), lambda: fake.sha1(),
        lambda: " ".join(fake.iban()[i : i + 4] for i in range(0, 22, 4)), lambda: fake.numerify("###-###-####"),
    )  # fmt: skip
    left = []
    for _ in range(60):
        for make in makers:
            secret = make()
            text = rng.choice(["it is {}", "{} please", "Thanks, {} it was."]).format(secret)
            left += [s for t, s in ((text, secret), (text.lower(), secret.lower())) if not covered(t, s)]
    assert left == []


@pytest.mark.parametrize(
    ("digits", "passes"), [("4111111111111111", True), ("4111111111111112", False), ("0000", False)]
)
def test_the_check_of_card_numbers(digits, passes):
    assert passes_luhn(digits) == passes


ALPHABET = "aAé1 0.-_@:/#(\"'+=\n"
UNITS = [
    "a",
    "1",
    "a1",
    "1 ",
    "a ",
    "a 1 ",
    "1-",
    "1.",
    "a.",
    "a@",
    "@a",
    "a-",
    "_a",
    ":",
    "ab:",
    "DE89 ",
    "de89",
    "0x",
    "(1",
    "A.B ",
    "password ",
    "password: ",
    "password is ",
    "user id ",
    "at ",
    "dot ",
    "@ aB",
    "RT @ a_b ",
    "thanks Qxwvz and ",
    "a dot ",
    "gmail",
    "gmailcom ",
    "one ",
    "Dr. ",
    "Anna ",
    "anna-",
    "-----BEGIN A-----",
    "-",
    "eyJ",
    "a_",
    "http://a:",
    "key=",
    "bearer ",
    "is ",
    "for my a ",
    "A1",
    "١",
    "“",
    "é",
]


@pytest.mark.parametrize("unit", UNITS)
def test_no_text_takes_more_than_linear_time(unit):
    """Forty thousand characters of what patterns begin with. Time that grew with the square would be minutes here."""
    for end in ("", "!", "\x00", "@"):
        find_identifiers(unit * (10_000 // len(unit)) + end)


@given(st.text(ALPHABET, max_size=60))
def test_finds_lie_in_the_text_and_say_what_the_spec_says(text):
    finds = find_identifiers(text)
    assert finds == sorted(finds, key=lambda find: find[0])
    assert all(0 <= start < end <= len(text) and label in SPECS["identifiers"].labels for start, end, label in finds)


def test_the_placeholder_of_readings_is_no_name_to_go_on_from():
    assert PLACEHOLDER.lower() in _NO_SEED
    assert found(f"{PLACEHOLDER} Harbour") == []
