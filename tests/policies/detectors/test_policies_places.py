"""Names by their places and in other scripts, numbers as they look, and finds that are made whole."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.policies.detectors.addresses import find_addresses
from pipelines.policies.detectors.identifiers.policy import find_identifiers
from pipelines.policies.detectors.identifiers.whole import made_whole
from pipelines.policies.detectors.identifiers.written import as_it_looks, in_original
from pipelines.policies.judging.judge import Judge, Request
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence, Span
from pipelines.policies.registry import make_policy

NAMES = [
    "{Gwen} and {Matt} left, {Tunde} stayed",
    "Thank you {Quillon} for the lift",
    "{Qwerta Deshmukh} here, with a lamp",
    "could you ask {zoltan} to ring me",
    "i spoke with {lindiwe dlamini} about it",
    "please remind {Tendai} that it is due",
    "ask {mark} if he has it",
    "{Grace} called and {Chase} answered.",
    "{rose} and {jack} came too",
    "{may} said she will come",
    "[09:12] {Marisol}: ok",
    "12:44 <{xochitl}> brb",
    "{Hope}: where is my parcel",
    "Seen by {Okonjo, F.} today",
    'From: "{Becker, Jonas}" <x>',
    "assigned to {PriyaRaghavan} now",
    "Меня зовут {Олег Сидоров}, привет",
    "לקוח: {משה לוי}, שלום",
    "العميل: {فاطمة حسن}",
    "με λένε {Νίκος Παππάς}",
    "मेरा नाम {राहुल शर्मा} है",
    "姓名：{李小龙}",
    "{田中太郎}様",
    "이름: {김민수}",
    "ich heiße {Wiebke Ahlers}",
]
NUMBERS = [
    "call {07000123987}from work",
    "ring {+44\u00a0161\u00a0496\u00a00123} tonight",
    "tel {０９０－１２３４－５６７８}",
    "number {0\u00ad7700\u00ad900\u00ad123} please",
    "id {2\u0332190\u03329999}1",
    "tel&nbsp;{+1&nbsp;415&nbsp;555&nbsp;0123}",
    "To: =?UTF-8?Q?{J=C3=B6rg_M}?= <x>",
]
ADDRESSES = [
    "we live in {k1a 0b1} now",
    "postcode {sw1a 2aa}",
    "send it to {RR 2, Box 45} please",
    "{rural route 3 box 118}",
    "{14 ter, avenue de la République}",
]
CLEAN = [
    "Visit Nairobi and thank you Google",
    "how do i mark it as done, will it be sent",
    "you may bill me in june if you will",
    "ask the manager and tell me the price",
    "her hope was rich in joy and the amber light faded at dawn",
    "Note: the router must be reset. Order: pending",
    "can you ask support to send it, or tell customers to wait",
    "boats to ferry the troops, used to bury the dead",
    "it runs at m1 2nd gear, see rt 5 and mp3 3rd",
]


def marked(line: str) -> tuple[str, list[tuple[int, int]]]:
    """Returns a text without its braces, and what stood in them."""
    text, ranges = "", []
    for part in re.split("({[^}]*})", line):
        if part.startswith("{"):
            ranges.append((len(text), len(text) + len(part) - 2))
        text += part.strip("{}") if part.startswith("{") else part
    return text, ranges


@pytest.mark.parametrize("line", [*NAMES, *NUMBERS])
def test_names_and_numbers_are_found_whole(line: str) -> None:
    text, ranges = marked(line)
    covered = {at for start, end, _ in find_identifiers(text) for at in range(start, end)}
    for start, end in ranges:
        assert {at for at in range(start, end) if text[at].isalnum()} <= covered


@pytest.mark.parametrize("line", ADDRESSES)
def test_addresses_are_found_whole(line: str) -> None:
    text, ranges = marked(line)
    covered = {at for start, end in find_addresses(text) for at in range(start, end)}
    for start, end in ranges:
        assert {at for at in range(start, end) if text[at].isalnum()} <= covered


@pytest.mark.parametrize("text", CLEAN)
def test_words_that_may_be_names_stay_where_no_name_stands(text: str) -> None:
    assert not find_identifiers(text)
    assert not find_addresses(text)


def sentence_of(text: str) -> Sentence:
    tokens = list(re.finditer(r"\w+|[^\w\s]", text))
    return Sentence(text, [token.start() for token in tokens], [token.end() for token in tokens])


@pytest.mark.parametrize(
    ("text", "found", "whole"),
    [
        ("born 1990-02-11 there", "11", "1990-02-11"),
        ("call +44 20 7946 0958 now", "7946 0958", "+44 20 7946 0958"),
        ("n. 1 85 12 75 108 123 45.", "85 12 75 108", "1 85 12 75 108 123 45"),
        ("имя Иван Петров тут", "Петров", "Иван Петров"),
        ("room 12 45 of 1990", "45", "45"),
    ],
)
def test_a_find_in_a_part_grows_to_the_whole(text: str, found: str, whole: str) -> None:
    sentence = sentence_of(text)
    at = text.index(found)
    tokens = sentence.widen(at, at + len(found))
    assert tokens is not None
    spans = [Span(*tokens, "PERSON", "x")]
    spans += made_whole(sentence, spans, "x")
    start = min(sentence.starts[span.start_token] for span in spans)
    assert text[start : max(sentence.ends[span.end_token - 1] for span in spans)] == whole


@given(st.text(alphabet="12 -./:ab,\u00a0Ив", max_size=60), st.data())
def test_no_number_without_spaces_is_masked_in_part(text: str, data: st.DataObject) -> None:
    sentence = sentence_of(text)
    if not sentence.num_tokens:
        return
    first = data.draw(st.integers(0, sentence.num_tokens - 1))
    spans = [Span(first, data.draw(st.integers(first + 1, sentence.num_tokens)), "PERSON", "x")]
    spans += made_whole(sentence, spans, "x")
    masked = {token for span in spans for token in range(span.start_token, span.end_token)}
    for run in re.finditer(r"\d+(?:[-/.:,]\d+)*", text):
        tokens = sentence.widen(*run.span())
        assert tokens is not None
        assert len(masked & set(range(*tokens))) in (0, tokens[1] - tokens[0])
    assert not made_whole(sentence, spans, "x")


@given(st.text(alphabet="a1 \u00a0\u00ad０٣\u0332&nbsp;–𝟗", max_size=40))
def test_finds_in_text_as_it_looks_stand_in_the_original(text: str) -> None:
    looks = as_it_looks(text)
    if looks is None:
        return
    plain, offsets = looks
    assert len(offsets) == len(plain) + 1
    finds = in_original([(at, at + 1, "CODE") for at in range(len(plain))], offsets)
    assert all(0 <= start < end <= len(text) for start, end, _ in finds)
    assert [start for start, _, _ in finds] == offsets[:-1]


@given(st.text(alphabet="ab AB,.:'<>[]\n190-éи姓名：張李様नाם ", max_size=80))
def test_any_text_can_be_read(text: str) -> None:
    assert all(0 <= start < end <= len(text) for start, end, _ in find_identifiers(text))


def test_a_policy_that_completes_finds_completes_those_of_other_policies() -> None:
    """A stabilised judge and a plain one mask the whole number of which another policy finds a part."""
    own = make_policy(PolicyOptions(name="identifiers"))

    class Last:
        needs: frozenset[str] = frozenset()

        def find(self, sentence: Sentence) -> list[Span]:
            return [Span(i, i + 1, "X", "last") for i, token in enumerate(sentence.tokens()) if token == "07"]

    text = "it was 99-05-07 then"
    sentence = sentence_of(text)
    for stabilise in (False, True):
        judge = Judge({"identifiers": own, "last": Last()}, None, "", stabilise=stabilise)
        (verdict,) = judge.judge([Request(text, sentence.starts, sentence.ends)])
        masked = {token for span in verdict.spans for token in range(span.start_token, span.end_token)}
        assert {sentence.tokens()[token] for token in masked} == {"99", "-", "05", "07"}


@pytest.mark.parametrize(
    "unit",
    ["ask kwabena and ", "Mark and ", "Ab, ", "\nKwabena", "10:43 ",
     pytest.param("TendaiMoyo", marks=pytest.mark.slow), "maria_", "Иван ", "דוד ", "我叫",
     "=?UTF-8?Q?aa", "1 ", "1-", "rr 1 ", "e1 1", "&nbsp;", "a\u0301", "<a ", "a'b-", "mark said ", "नाम ",
     "Ab 🌸: a\n"],
)  # fmt: skip
def test_time_is_linear_in_the_worst_text(unit: str) -> None:
    from pipelines.policies.detectors.identifiers.places import find_placed
    from pipelines.policies.detectors.identifiers.policy import _WORD
    from pipelines.policies.detectors.identifiers.scripts import find_names_in_scripts
    from pipelines.policies.detectors.identifiers.written import find_encoded

    text = (unit * 100_000)[:100_000]
    start = time.process_time()
    words = list(_WORD.finditer(text))
    list(find_placed(text, words, [word[0].lower() for word in words]))
    list(find_names_in_scripts(text))
    list(find_encoded(text))
    as_it_looks(text)
    assert time.process_time() - start < 10
