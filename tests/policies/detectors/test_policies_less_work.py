"""What the rules for everyday finds skip changes no find."""

from __future__ import annotations

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.policies.english import everyday_numbers, ordinary, wholes
from pipelines.policies.english.ordinary import is_ordinary, without_ordinary
from pipelines.policies.protocol import PLACEHOLDER, Sentence, Span


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from([
            "in 1999", "Netflix", "the", "5 mm", "Obiageli", "Tuesday", "two", "paracetamol", "said", "IBAN", "London",
            "3-1", "my sister", "v2.1.3", "12 shirts", ".", "won", "Great Wall of China", PLACEHOLDER, "ISO 9001",
        ]),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["PERSON", "DATE", "ORG", "CODE", "CARDINAL"])), max_size=5),
)  # fmt: skip
@example(["In", "1999", "Netflix", "won", "the", "final", "here", "."], [(2, "ORG")])
@example(["In", "1999", "Netflix", "won", "the", "final", "here", "."], [(2, "ORG"), (1, "DATE")])
@example(["In", "1999", "Netflix", "won", "of", PLACEHOLDER, "here", "."], [(2, "ORG")])
@example(["In", "1999", "Netflix", "won", "of", "Obiageli", "here", "."], [(2, "ORG"), (5, "PERSON")])
def test_weak_finds_stay_beside_a_find_that_stays_or_a_placeholder(pieces, finds) -> None:
    text = " ".join([*pieces, "hunter22"])
    words = list(re.finditer(r"\S+", text))
    sentence = Sentence(text, [word.start() for word in words], [word.end() for word in words])
    sure = Span(len(words) - 1, len(words), "PASSWORD", "p")
    spans = [Span(at, at + 1, label, "p") for at, label in finds if at < len(words) - 1]

    def is_strong(span: Span) -> bool:
        start, end = words[span.start_token].span()
        label = "CARDINAL" if span.label in ("DATE", "CARDINAL") else "CODE" if span.label == "CODE" else "PERSON"
        return not is_ordinary(text[start:end], label, text[max(0, start - 40) : start], text[end : end + 40]) and not (
            ordinary._is_weak_in(text, start, end, span.label, by_model=True)
        )

    def left(*some: Span) -> list[Span]:
        return without_ordinary(some, sentence, "careful", by_model=True)

    possible = [span for span in spans if span in left(span, sure)]
    stays = PLACEHOLDER in pieces or any(map(is_strong, possible))
    assert left(*spans) == (possible if stays else [])


@given(
    st.sampled_from(["", "the ", "The ", "by ", "password: ", "5 ", "Mr. ", "a John "]),
    st.sampled_from(["", "'s", "’s law", " test", " signed-rank test", " score 5", " 5", "(", " = 3", " second law"]),
    st.sampled_from(["careful", "identifying"]),
)
def test_a_placeholder_is_judged_as_a_word_of_no_list(before, after, mode) -> None:
    answers = {is_ordinary(word, "PERSON", before, after, mode) for word in (PLACEHOLDER, "Johm")}
    assert len(answers) == 1


@given(
    st.text("aA 5.,:-John\n", max_size=5),
    st.sampled_from(["meet me at ", "flight lands around ", "my appt is for ", "June 5th, ", "John, ", "a x5 ", "A"]),
    st.text("aA 5.,:-John\n", max_size=5),
)
@example("", "June 5th, ", "x A \n")
def test_the_end_of_what_stands_before_a_number_is_enough(first, middle, last) -> None:
    before = first + middle + last
    for pattern in (everyday_numbers._TOUCHES, everyday_numbers._MODEL):
        assert bool(pattern.search(before)) == bool(pattern.search(before[-everyday_numbers._TOUCHING :]))
    if everyday_numbers._APPOINTMENT.search(before):
        assert before.rstrip("\n").lower().endswith(everyday_numbers._BEFORE_TIMES)


@given(st.lists(st.sampled_from(["two", "12", "Ten", "to", "OR", "three", "tablets", "x", "to-day"]), max_size=7))
def test_a_span_of_numbers_has_the_part_that_is_looked_for_first(words) -> None:
    text = " ".join(words)
    if wholes._SPAN.search(text):
        assert wholes._TO_NUMBER.search(text)
