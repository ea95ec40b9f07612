"""Table tests of the policies that need no model: text -> exact finds, and near misses."""

import random
import re

import pytest
from faker import Faker

from pipelines.errors import ConfigError
from pipelines.policies.detectors.customersim import CustomerSimPolicy
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence
from pipelines.policies.redact import token_mask
from pipelines.policies.registry import make_policy

DIGITS = [
    ("In 1999, 20th-century art.", ["1999", "20th"]),
    ("It weighs 3½ kg or x² so.", ["3½", "x²"]),
    ("No number here, roman IV apart.", []),
    ("", []),
]


@pytest.mark.parametrize(("text", "expected"), DIGITS)
def test_digits_are_found(find, text, expected):
    assert [found for _, found in find("digits", text)] == sorted(expected)


CUSTOMERSIM = [
    ("Patrick Schug", [("NAME", "Patrick Schug")]),
    ("Mary Ann O'Neill.", [("NAME", "Mary Ann O'Neill")]),
    ("patrick schug", [("NAME", "patrick schug")]),
    ("My name's Pamela Sanner.", [("NAME", "Pamela Sanner")]),
    ("my name is pamela", [("NAME", "pamela")]),
    ("Yep - I'm Curtis Thompson.", [("NAME", "Curtis Thompson")]),
    ("This is Mary Rowan speaking.", [("NAME", "Mary Rowan")]),
    ("Sure, Will Burton.", [("NAME", "Will Burton")]),
    ("I am Major Wood.", [("NAME", "Major Wood")]),
    ("Gail May.", [("NAME", "Gail May")]),
    ("Dr. Ines van der Berg called.", [("NAME", "Ines van der Berg")]),
    ("957-664-6063. Teresa Mraz", [("NAME", "Teresa Mraz"), ("PHONE", "957-664-6063")]),
    ("It's 843-58572-7002.", [("ORDER", "843-58572-7002")]),
    ("The tracking number is VVTPHDB6VK.", [("TRACKING", "VVTPHDB6VK")]),
    ("the code KXSJQIVXVL works", [("TRACKING", "KXSJQIVXVL")]),
    ("My tracking code is 1z-999-aa1.", [("TRACKING", "1z-999-aa1")]),
    ("980.322.8737 is my number.", [("PHONE", "980.322.8737")]),
    ("Call (434)394-0968x12345 now", [("PHONE", "(434)394-0968x12345")]),
    ("Call 001-434-394-0968 now", [("PHONE", "001-434-394-0968")]),
    ("Call +49 30 901820 now", [("PHONE", "+49 30 901820")]),
    ("Ok, it is 322 Khan Mews Allisonville, ME 20072.", [("ADDRESS", "322 Khan Mews Allisonville, ME 20072")]),
    ("441 Patricia Mission Apt.", [("ADDRESS", "441 Patricia Mission Apt.")]),
    ("881 Port Jenniferstad, MA 19420", [("ADDRESS", "881 Port Jenniferstad, MA 19420")]),
    (
        "it is 12 main street",
        [("ADDRESS", "12 main street")],
    ),  # "main" is an everyday word: the price of sparing "2 hours on the road"
    ("send it to 4411 oakhurst avenue apt. 12", [("ADDRESS", "4411 oakhurst avenue apt. 12")]),
    ("Yea sure, USNS Gill FPO AA 66746.", [("ADDRESS", "USNS Gill FPO AA 66746")]),
    ("PSC 5121, Box 7935 APO AE 62081", [("ADDRESS", "PSC 5121, Box 7935 APO AE 62081")]),
    ("Unit 9999 Box 9999 DPO AP 99999.", [("ADDRESS", "Unit 9999 Box 9999 DPO AP 99999")]),
    # near misses
    ("Hello, I am the customer support bot. What can I do for you?", []),
    ("Hi. I ordered a floor lamp several days ago but I can't track it.", []),
    ("May I have your full name?", []),
    ("My name is on the invoice.", []),
    ("Thank you, have a nice day! Bye.", []),
    ("That's it. Thanks! See you.", []),
    ("I waited 2 hours on the road for 15 minutes of drive.", []),
    ("It costs 12345 dollars in 2021.", []),
    ("EVERYTHING is fine.", []),
    ("GOVERNMENT works", [("TRACKING", "GOVERNMENT")]),  # ten capitals that are no everyday word look like a code
]


@pytest.mark.parametrize(("text", "expected"), CUSTOMERSIM)
def test_customersim_finds_exactly(find, text, expected):
    assert find("customersim", text) == expected


def _uncovered(text, secret):
    """The visible characters of ``secret`` in ``text`` that customersim leaves."""
    starts, ends = zip(*[m.span() for m in re.finditer(r"\w+|[^\w\s]", text)], strict=True)
    spans = CustomerSimPolicy(PolicyOptions(name="customersim")).find(Sentence(text, starts, ends))
    mask = token_mask(len(starts), spans)
    low = text.index(secret)
    return [
        text[a:b]
        for a, b, masked in zip(starts, ends, mask, strict=True)
        if a < low + len(secret) and b > low and not masked and text[a:b].isalnum()
    ]


@pytest.mark.slow
def test_customersim_covers_every_address_and_phone_format_of_faker():
    fake = Faker("en_US")
    fake.seed_instance(7)
    rng = random.Random(7)
    leads = ("", "My address is ", "Ok, it is ", "Please send it to ", "sure ")
    left = []
    for _ in range(1_500):
        address = fake.address().replace("\n", " ")
        left += _uncovered(f"{rng.choice(leads)}{address}.", address)
        phone = fake.phone_number()
        left += _uncovered(f"{rng.choice(leads)}{phone}.", phone)
    assert left == []


def test_customersim_covers_names_of_faker_in_new_sentences():
    fake = Faker("en_US")
    fake.seed_instance(8)
    frames = ("{}", "My full name is {}.", "Yes it's {}.", "Hello, this is {} and I need help.", "Hi {}!", "{} here.")
    left = [
        (name, frame)
        for _ in range(300)
        for name in [f"{fake.first_name()} {fake.last_name()}"]
        for frame in frames
        if _uncovered(frame.format(name), name)
    ]
    assert left == []


def test_regex_uses_the_callers_patterns(find):
    patterns = {"TICKET": r"T-\d+", "WORD": "secret"}
    assert find("regex", "my secrets: T-12, t-13", patterns) == [("TICKET", "T-12"), ("WORD", "secrets")]


@pytest.mark.parametrize("patterns", [{"A": "("}, {"lower": "x"}, {"A": "x*"}])
def test_regex_refuses_bad_patterns(patterns):
    with pytest.raises(ConfigError, match=r"redact\.patterns"):
        make_policy(PolicyOptions(name="regex", patterns=patterns))


PUBLIC = [
    "Hello, I am the customer support bot. What can I do for you?",
    "May I have your full name?",
    "Will it arrive on time?",
    "That's it. Thanks! See you.",
    "have a nice day",
    "Goodbye.",
    "i want to change my order",
    "I’m fine, thank you…",
    "I have one question.",
    "It's in the white box.",
]
FLAGGED = [
    ("Patrick Schug", "WORD"),
    ("patrick schug", "WORD"),
    ("hi drew", "WORD"),
    ("I am Mark.", "WORD"),
    ("Thanks, Rich.", "CAPITAL"),
    ("thanks rich", "NAME_WORD"),
    ("it's rich young", "NAME_WORD"),
    ("my name is price", "NAME_WORD"),
    ("Young is fine.", "NAME_WORD"),
    ("blue window", "BARE"),
    ("it is 12", "CHARACTER"),
    ("it is ½", "CHARACTER"),
    ("write to me@here", "CHARACTER"),
    ("and/or", "CHARACTER"),
    ("so <MASK> it is", "CHARACTER"),
    ("five five two is it", "NUMBER_WORDS"),
    ("it is j o h n", "WORD"),
    ("see you on Monday", "WORD"),
    ("see you on monday", "WORD"),
    ("i have cancer", "WORD"),
    ("she is in the Box", "CAPITAL"),
    ("HELLO", "CAPITAL"),
    ("naïve as it is", "WORD"),
    ("it's müller", "WORD"),
]


@pytest.mark.parametrize("text", PUBLIC)
def test_conservative_lets_ordinary_sentences_pass(find, text):
    assert find("conservative", text) == []


@pytest.mark.parametrize(("text", "label"), FLAGGED)
def test_conservative_flags(find, text, label):
    assert label in {found for found, _ in find("conservative", text)}


def test_conservative_flags_names_of_faker_in_lower_case_too(find):
    fake = Faker("en_US")
    fake.seed_instance(9)
    names = {f"{fake.first_name()} {fake.last_name()}" for _ in range(400)}
    for name in names:
        assert find("conservative", f"sure it's {name.lower()}"), "an everyday-looking name passed"
        assert find("conservative", f"I am {name}.")
