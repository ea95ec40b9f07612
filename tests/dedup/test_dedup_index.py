"""The exact index against a Python dictionary."""

from hypothesis import given, settings
from hypothesis import strategies as st
from support.keys import as_arrays

from pipelines.dedup.index import KeyIndex

# Few values, so that high and low halves repeat in every combination, and the ends of the range occur.
WORD = st.sampled_from([0, 1, 2, 3, 2**63, 2**64 - 2, 2**64 - 1])
KEYS = st.lists(st.tuples(WORD, WORD), max_size=50)


@settings(deadline=None, max_examples=300)
@given(KEYS, KEYS)
def test_find_agrees_with_a_dictionary(members, asked):
    index = KeyIndex(*as_arrays(members))
    slot_of = {key: slot for slot, key in enumerate(sorted(set(members)))}
    assert len(index) == len(slot_of)
    assert index.find(*as_arrays(asked)).tolist() == [slot_of.get(key, -1) for key in asked]
    assert index.find(*as_arrays(members)).tolist() == [slot_of[key] for key in members]
