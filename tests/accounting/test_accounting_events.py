"""Events survive JSON, and what is not known is refused."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.accounting.events import (
    Composed,
    Gaussian,
    NoEvent,
    NonPrivate,
    PoissonSampled,
    SelfComposed,
    UnsupportedEventError,
    adds_no_noise,
    dp_sgd,
    from_json,
    is_silent,
    leaves,
    to_json,
)

gaussians = st.builds(Gaussian, noise_multiplier=st.floats(0, 1e6))
sampled = st.builds(PoissonSampled, sample_rate=st.floats(0, 1), event=gaussians)
any_event = st.recursive(
    st.one_of(st.just(NoEvent()), st.just(NonPrivate()), gaussians, sampled),
    lambda inner: st.one_of(
        st.builds(SelfComposed, count=st.integers(0, 10**6), event=inner),
        st.builds(Composed, events=st.lists(inner, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=150)
@given(any_event)
def test_events_survive_a_round_trip_through_json(event):
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


@settings(deadline=None, max_examples=100)
@given(any_event)
def test_counts_multiply_down_to_the_leaves(event):
    once = sum(count for count, _ in leaves(event))
    assert sum(count for count, _ in leaves(SelfComposed(count=7, event=event))) == 7 * once


def test_the_documented_form_of_a_crt_run_is_read():
    document = {
        "type": "self_composed",
        "count": 1000,
        "event": {
            "type": "poisson_sampled",
            "sample_rate": 0.01,
            "event": {"type": "gaussian", "noise_multiplier": 1},
        },
    }
    assert from_json(document) == dp_sgd(noise_multiplier=1.0, sample_rate=0.01, num_steps=1000)


@pytest.mark.parametrize(
    "document",
    [
        {"type": "laplace", "noise_multiplier": 1.0},
        {"type": "gaussian"},
        {"type": "gaussian", "noise_multiplier": 1.0, "sample_rate": 0.5},
        {"type": "gaussian", "noise_multiplier": "1"},
        {"type": "gaussian", "noise_multiplier": True},
        {"type": "gaussian", "noise_multiplier": -1.0},
        {"type": "gaussian", "noise_multiplier": math.nan},
        {"type": "poisson_sampled", "sample_rate": 1.5, "event": {"type": "gaussian", "noise_multiplier": 1.0}},
        {"type": "poisson_sampled", "sample_rate": 0.5, "event": {"type": "none"}},
        {"type": "self_composed", "count": 1.5, "event": {"type": "none"}},
        {"type": "self_composed", "count": -1, "event": {"type": "none"}},
        {"type": "composed", "events": [{"type": "unheard_of"}]},
        {"type": ["none"]},
        {},
        [],
    ],
)
def test_unknown_or_malformed_events_are_refused(document):
    with pytest.raises(UnsupportedEventError):
        from_json(document)


def test_an_object_that_is_no_event_is_refused():
    with pytest.raises(UnsupportedEventError):
        to_json("gaussian")
    with pytest.raises(UnsupportedEventError):
        list(leaves(object()))


def test_silence_and_lack_of_noise_are_told_apart():
    assert is_silent(NoEvent())
    assert is_silent(SelfComposed(count=0, event=Gaussian(noise_multiplier=0.0)))
    assert is_silent(PoissonSampled(sample_rate=0.0, event=Gaussian(noise_multiplier=0.0)))
    assert not is_silent(NonPrivate())
    assert adds_no_noise(NonPrivate())
    assert adds_no_noise(Composed(events=(Gaussian(noise_multiplier=1.0), Gaussian(noise_multiplier=0.0))))
    assert not adds_no_noise(PoissonSampled(sample_rate=0.0, event=Gaussian(noise_multiplier=0.0)))
    assert dp_sgd(noise_multiplier=1.0, sample_rate=0.0, num_steps=10) == NoEvent()
    assert dp_sgd(noise_multiplier=1.0, sample_rate=0.5, num_steps=0) == NoEvent()
