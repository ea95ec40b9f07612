"""Making one item while another is used changes neither the items nor their order."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.dedup.prefetch import prefetch


@given(st.lists(st.integers() | st.none()))
def test_items_come_in_order(items):
    assert list(prefetch(iter(items))) == items


def test_another_thread_makes_them_one_at_a_time_and_not_far_ahead():
    made, here = [], threading.get_ident()

    def items():
        for number in range(100):
            made.append(threading.get_ident())
            yield number

    used = prefetch(items())
    assert [next(used), next(used)] == [0, 1]
    used.close()
    assert len(made) <= 4
    assert len(set(made)) == 1
    assert here not in made


def test_what_making_raises_is_raised_where_the_item_was_due():
    def items():
        yield 1
        raise ValueError("broken")

    used = prefetch(items())
    assert next(used) == 1
    with pytest.raises(ValueError, match="broken"):
        next(used)
