"""Large sentences: which they are, how many of them are drawn, and what they may hide unread."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.intervals import ClusteredCounts, clopper_pearson_upper, ratio_upper
from pipelines.miss_rate.large import Large, Unseen, classes_of_sizes, size_of, sizes
from pipelines.miss_rate.weights import Weights

LIST = "Ann Lee, Bo 12; Zoé Ürk|x@y.z"
ORDINARY = "nothing to see here"


def row(text, num_tokens):
    return {"text": text, "token_starts": list(range(num_tokens)), "domain": None}


def test_size_counts_tokens_and_marked_words_alike_in_batches_and_rows():
    rows = [row(LIST, 9), row(ORDINARY, 4), row("", 0)]
    batch = pa.RecordBatch.from_pylist(rows)
    assert [size_of(r) for r in rows] == sizes(batch).tolist() == [9 + 4 * 7, 4, 0]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=300), st.integers(0, 100))
def test_draws_fit_the_classes_and_every_large_sentence_has_one(values, wanted):
    array = np.array(values)
    large = classes_of_sizes(array, array).draw(wanted)
    is_large = array > 2 * array.mean()
    assert [large.class_of(v) >= 0 for v in values] == is_large.tolist()
    assert large.num_population == is_large.sum()
    assert large.num_drawn == min(wanted, is_large.sum())
    for number, c in enumerate(large.classes):
        assert 0 <= c.size <= c.num_population == sum(large.class_of(v) == number for v in values)
    assert Large.of_figures(large.figures()).figures() == large.figures()


def test_a_weight_is_one_over_the_probability_of_either_part():
    large = classes_of_sizes(np.array([4] * 98 + [37] * 2), np.array([4] * 98 + [9] * 2)).draw(1)
    weights = Weights([(None, 0.1)], 2, large)
    assert weights.of(row(ORDINARY, 4))["weight"] == pytest.approx(1 / (1 - 0.9**2))
    assert weights.of(row(LIST, 9)) == {
        "weight": pytest.approx(1 / (1 - 0.9**2 * 0.5)),
        "weight_in_replicate": 1.0,
        "domain": None,
        "is_large": True,
    }
    alone = Weights([(None, 0.1)], 2, large, with_large=False)
    assert alone.of(row(LIST, 9))["weight"] == 1
    assert alone.kept({("d", 0): [0, 2], ("d", 1): [2]}) == {("d", 0): [0, 2]}


def test_unread_large_sentences_may_hold_one_missed_secret_a_token():
    large = classes_of_sizes(np.array([4] * 95 + [37] * 5), np.array([4] * 95 + [9] * 5))
    known = {"large": large, "num_population": 100, "num_sentences": 50.0, "num_escaped": 0}
    nothing_seen = Unseen(num_seen=0, num_missed=0, **known)
    assert nothing_seen.most("missed", 0.95) == 45
    assert nothing_seen.added("missed", 50.0, 0.95) == pytest.approx(0.45)
    assert nothing_seen.added("missed", 0.0, 0.95) == 1
    seen = Unseen(num_seen=4, num_missed=0, **known)
    assert seen.most("missed", 0.95) == pytest.approx(clopper_pearson_upper(0, 4, 0.95) * 45)


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_the_bound_is_monotone_and_never_zero(data):
    units = data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=40))
    hits = [data.draw(st.integers(0, unit)) for unit in units]
    weights = [data.draw(st.sampled_from([0.1, 0.5, 1.0])) for _ in units]
    bound = ratio_upper(ClusteredCounts.of(hits, units, weights=weights), 0.95)
    assert 0 < bound <= 1
    if open_ones := [i for i, unit in enumerate(units) if hits[i] < unit]:
        hits[data.draw(st.sampled_from(open_ones))] += 1
        assert ratio_upper(ClusteredCounts.of(hits, units, weights=weights), 0.95) >= bound - 0.01
