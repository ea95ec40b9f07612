from collections import Counter

import numpy as np
import pytest

from pipelines.attacks import canaries as c
from pipelines.attacks.patterns import Pattern, Slot, words_pattern
from pipelines.errors import ConfigError

ID = Pattern.parse("My ID is {digits:6}.")


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("text", "size", "some"),
    [
        ("My ID is {6 digits}.", 10**6, {0: "My ID is 000000.", 341_752: "My ID is 341752."}),
        ("{letters:4}", 26**4, {0: "aaaa", 26**4 - 1: "zzzz"}),
        ("It is {choice:red|green|blue}, {{so}}", 3, {1: "It is green, {so}"}),
        ("{digits:1}{letters:1}", 260, {27: "1b"}),
        ("I am {name}", 181 * 186, {1: "I am Aaron Alexander", 186: "I am Abigail Adams"}),
    ],
)
def test_candidates_are_numbered(text, size, some):
    pattern = Pattern.parse(text)
    assert pattern.size == size
    assert {index: pattern.text(index) for index in some} == some
    chosen = [0, size - 1, *map(int, rng().integers(size, size=50))]
    assert [pattern.index(pattern.text(index)) for index in chosen] == chosen
    holes = {"".join(pattern.text(i)[start:end] for start, end in pattern.holes(i)) for i in set(chosen)}
    assert len(holes) == len(set(chosen))


@pytest.mark.parametrize("bounds", [(0, 40), (99_990, 100_020), (777_777, 777_780), (999_999, 1_000_000)])
def test_a_run_of_texts_is_each_of_them(bounds):
    assert list(ID.texts(*bounds)) == [ID.text(index) for index in range(*bounds)]


def test_all_candidates_differ_where_options_are_of_several_lengths():
    pattern = Pattern.parse("{choice:a|aa|b} {choice:c|cc}{digits:1}".replace("}{", "} {"))
    texts = list(pattern.texts(0, pattern.size))
    assert len(set(texts)) == pattern.size == 60
    assert list(map(pattern.index, texts)) == list(range(60))


NO_PATTERNS = (
    *("no hole", "{digits}", "{digits:0}", "{what:3}", "{", "a } b {digits:2}"),
    *("{choice:a|aa}{choice:a|aa}", "{choice:a|a}", "{choice:a|ab}b{digits:1}", "{choice:a|}"),
)


@pytest.mark.parametrize("text", NO_PATTERNS)
def test_patterns_that_say_nothing_are_refused(text):
    with pytest.raises(ConfigError):
        Pattern.parse(text)


@pytest.mark.parametrize("text", ["My ID is 12345.", "My ID is 123456", "My ID is 12345a.", "my ID is 123456.", ""])
def test_other_texts_have_no_number(text):
    with pytest.raises(ValueError, match="no candidate") as caught:
        ID.index(text)
    assert "ID" not in str(caught.value)


def test_canaries_are_different_and_uniform():
    small = Pattern.parse("{digits:1}")
    counts = Counter()
    for seed in range(400):
        drawn = c.draw_canaries(rng(seed), small, 3, variant="missed", taken={7})
        assert len({canary.index for canary in drawn}) == 3
        counts.update(canary.index for canary in drawn)
    assert counts[7] == 0
    # Each of the nine others is drawn with probability 1/3: 133 of 400, standard deviation 9.4.
    assert all(95 < counts[index] < 172 for index in set(range(10)) - {7})
    with pytest.raises(ConfigError, match="are left"):
        c.draw_canaries(rng(), small, 10, variant="missed", taken={7})


def test_an_identifier_says_nothing_of_the_text_nor_of_the_place():
    (canary,) = c.draw_canaries(rng(1), ID, 1, variant="missed")
    again = c.draw_canaries(rng(2), ID, 2, variant="missed")
    assert canary.id not in {other.id for other in again}
    shown = repr(canary) + str(canary.document())
    assert canary.text not in shown
    assert str(canary.index) not in shown


@pytest.mark.parametrize("num_copies", [1, 10, 20, 100])
@pytest.mark.parametrize("in_distinct_sentences", [False, True])
def test_copies_are_equal_or_distinct(num_copies, in_distinct_sentences):
    drawn = c.draw_canaries(rng(), ID, 2, variant="missed", num_copies=num_copies)
    rows = c.overlay_rows(drawn, in_distinct_sentences=in_distinct_sentences)
    told = {c.document_of(canary.id, copy): canary for canary in drawn for copy in range(num_copies)}
    assert Counter(row.document for row in rows) == dict.fromkeys(told, 1)
    for row in rows:
        assert row.text.endswith(told[row.document].text)
    texts = {row.text for row in rows if told[row.document] is drawn[0]}
    assert len(texts) == (num_copies if in_distinct_sentences else 1)


def test_the_detected_variant_masks_the_hole_and_the_missed_one_nothing():
    for variant in ("detected", "missed"):
        (canary,) = c.draw_canaries(rng(), ID, 1, variant=variant, num_copies=2)
        for row in c.overlay_rows([canary], in_distinct_sentences=True):
            hidden = [row.text[start:end] for start, end in row.masked]
            assert hidden == ([f"{canary.index:06d}"] if variant == "detected" else [])
            assert row.is_flagged == (variant == "detected")
    (canary,) = c.draw_canaries(rng(), ID, 1, variant="missed", is_flagged=True)
    assert c.overlay_rows([canary], in_distinct_sentences=False)[0].is_flagged


def test_the_public_variant_is_masked_nowhere_and_flagged_nowhere():
    (canary,) = c.draw_canaries(rng(), ID, 1, variant="public", num_copies=2)
    for row in c.overlay_rows([canary], in_distinct_sentences=False):
        assert (row.masked, row.is_flagged) == ((), False)
    with pytest.raises(ConfigError, match="not among the public rows"):
        c.draw_canaries(rng(), ID, 1, variant="public", is_flagged=True)


def test_coins_are_fair_and_joined_by_identifier():
    drawn = c.draw_canaries(rng(), ID, 1_000, variant="missed")
    coins = c.flip_coins(rng(1), drawn)
    assert 440 < sum(coins.values()) < 560  # 500, standard deviation 16
    rows = c.overlay_rows(reversed(drawn), in_distinct_sentences=False, included=coins)
    assert {row.document for row in rows} == {c.document_of(name, 0) for name, is_in in coins.items() if is_in}
    with pytest.raises(ConfigError, match="no coin"):
        c.overlay_rows(drawn, in_distinct_sentences=False, included={})
    with pytest.raises(ConfigError, match="one identifier"):
        c.overlay_rows([drawn[0], drawn[0]], in_distinct_sentences=False)


def test_too_many_distinct_sentences_are_refused():
    with pytest.raises(ConfigError, match="distinct sentences"):
        c.carriers(101)
    assert len(set(c.carriers(100))) == 100


def test_text_canaries_begin_as_public_text_and_end_at_random():
    words = [f"word{number}" for number in range(50)]
    drawn = c.draw_text_canaries(rng(), ["The order ", "Thanks for"], words, num_words=3)
    assert [canary.text.startswith(begin) for canary, begin in zip(drawn, ("The order ", "Thanks for "), strict=True)]
    assert drawn[0].pattern.size == 50**3
    assert all(set(canary.text.split()[2:]) <= set(words) for canary in drawn)
    assert words_pattern("a ", words, 2).index("a word1 word0") == 50


def test_characters_of_new_tokens_are_many():
    assert Pattern.parse("My code is {rare:1}").size == 1_165


def test_a_slot_needs_different_options():
    with pytest.raises(ConfigError):
        Slot(("a", "a"))
