"""Keys: what counts as the same sentence."""

import unicodedata

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.dedup.keys import NORMALISERS, KeyMaker, encode_sentence
from pipelines.settings.dedup import DedupConfig

SEED = 17
GOLDEN = (0x816BA19C9CE97B1D, 0x7BD8506F97B0872C)
FIELD = st.none() | st.text(max_size=3)
SENTENCE = st.tuples(st.text(max_size=4), FIELD, FIELD, FIELD)


def test_key_is_the_documented_hash_of_the_documented_bytes():
    message = b"\x00" + b"\x01" + (3).to_bytes(8, "big") + b"dom" + b"\x01" + bytes(8) + "Grüße".encode()
    assert encode_sentence("Grüße", None, "dom", "") == message
    whole = mmh3.hash128(message, seed=SEED, x64arch=True, signed=False)
    assert KeyMaker("none", SEED).key("Grüße", None, "dom", "") == (whole >> 64, whole & (2**64 - 1))


def test_key_golden():
    # Guards the value itself: a change of these bytes silently separates new keys from stored ones.
    assert KeyMaker("none", 0x52455449).key("Hello.", "agent", None, None) == GOLDEN


@settings(deadline=None, max_examples=300)
@given(SENTENCE, SENTENCE)
@example(("x", "ab", "c", None), ("x", "a", "bc", None))
@example(("x", None, None, None), ("x", "", None, None))
@example(("x", None, "a", None), ("x", "a", None, None))
@example(("x", None, None, "a"), ("x", None, "a", None))
@example(("ax", None, None, ""), ("x", None, None, "a"))
@example(("x", None, None, "0"), ("x", None, None, "1"))
def test_encoding_is_injective(one, other):
    assert (encode_sentence(*one) == encode_sentence(*other)) == (one == other)


@pytest.mark.parametrize("normalise", ["none", "whitespace", "casefold"])
@settings(deadline=None, max_examples=200)
@given(text=st.text(max_size=12))
def test_normalisation_is_idempotent(normalise, text):
    once = NORMALISERS[normalise](text)
    assert NORMALISERS[normalise](once) == once


@settings(deadline=None, max_examples=200)
@given(text=st.text(max_size=12))
def test_casefold_forgets_case_and_composition(text):
    fold = NORMALISERS["casefold"]
    for other in (text.casefold(), *(unicodedata.normalize(f, text) for f in ("NFC", "NFD", "NFKC", "NFKD"))):
        assert fold(other) == fold(text)


@pytest.mark.parametrize(
    ("normalise", "one", "other", "same"),
    [
        ("none", "a b", "a  b", False),
        ("none", "a", "A", False),
        ("none", "\u00e9", "e\u0301", False),
        ("whitespace", " a\t\u00a0b\n", "a b", True),
        ("whitespace", "ab", "a b", False),
        ("whitespace", "a", "A", False),
        ("casefold", "STRASSE", "straße", True),
        ("casefold", "\uff28\uff49", "hi", True),
        ("casefold", "ﬁne", "FINE", True),
        ("casefold", "a\u3000B", " A b", True),
        ("casefold", "résumé", "resume", False),
    ],
)
def test_what_each_normalisation_takes_for_equal(normalise, one, other, same):
    maker = KeyMaker(normalise, SEED)
    assert (maker.key(one, None, None, None) == maker.key(other, None, None, None)) is same


def test_normalisation_leaves_speaker_domain_and_label_alone():
    maker = KeyMaker("casefold", SEED)
    for at in range(3):
        lower, upper = [None] * 3, [None] * 3
        lower[at], upper[at] = "a", "A"
        assert maker.key("x", *lower) != maker.key("x", *upper)


def test_rows_out_of_scope_have_no_key():
    maker = KeyMaker("none", SEED)
    rows = [("a", None, None, None), ("b", "s", None, None)]
    texts, *fields = (pa.array(column, pa.string()) for column in zip(*rows, strict=True))
    high, low = maker.key_arrays(texts, fields, np.array([True, False]))
    assert (high[0], low[0]) == maker.key(*rows[0])
    assert (high[1], low[1]) == (0, 0)


def test_keys_with_an_owner_agree_for_one_owner_only_and_many_names_are_told_apart():
    def key(*owners):
        nothing = pa.nulls(len(owners), pa.string())
        texts = pa.array(["x"] * len(owners), pa.string())
        fields = [nothing, nothing, nothing, pa.array(owners, pa.string())]
        high, low = KeyMaker("none", SEED).key_arrays(texts, fields, np.ones(len(owners), dtype=bool))
        return list(zip(high.tolist(), low.tolist(), strict=True))

    one, same, other = key("a", "a", "b")
    assert one == same != other
    assert one == KeyMaker("none", SEED).key("x", None, None, None, "a")
    names = [str(at) for at in range(300)]
    fields = [pa.array(names, pa.string())] * 9  # more combinations than an int64 counts
    high, low = KeyMaker("none", SEED).key_arrays(pa.array(["x"] * 300), fields, np.ones(300, dtype=bool))
    expected = [KeyMaker("none", SEED).key("x", *[name] * 9) for name in names]
    assert list(zip(high.tolist(), low.tolist(), strict=True)) == expected


def test_the_scope_enters_a_key_only_if_it_is_set_and_needs_exact_comparison():
    assert "scope" not in DedupConfig().keyed("dedup_keys")
    assert DedupConfig(scope="owner").keyed("dedup_keys")["scope"] == "owner"
    with pytest.raises(ValidationError, match="scope owner needs verify = true"):
        DedupConfig(scope="owner", verify=False)
