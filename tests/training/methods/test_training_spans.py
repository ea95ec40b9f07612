"""Spans of a record, the LSTM or GRU that reads them, and what Selective-DPSGD accounts for."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from marked_texts import TEXTS, marked_records, small_model, weights

from pipelines.accounting.accountants import epsilon, gdp_epsilon, pld_epsilon
from pipelines.accounting.events import Gaussian, NeighboringRelation, NoEvent, SelfComposed, dp_sgd
from pipelines.errors import ConfigError
from pipelines.methods.registry import RULES
from pipelines.training.data.span_plan import calibrate, event, plan, sample
from pipelines.training.data.spans import SpanPair, span_pairs, spanned
from pipelines.training.methods import redaction_schedule, sdpsgd_lstm
from pipelines.training.models.recurrent import build_recurrent, load_recurrent, save_recurrent
from pipelines.training.models.shape import RECURRENT


@settings(max_examples=300, deadline=None)
@given(marks=st.lists(st.booleans(), min_size=2, max_size=25), most=st.integers(1, 5))
def test_spans_alternate_and_cover_every_position_once(marks, most):
    marks = np.asarray(marks)
    pairs = span_pairs(marks, most)
    flat = [edge for pair in pairs for edge in pair]
    assert flat[0] == 0
    assert flat[-1] == len(marks) - 1
    assert flat == sorted(flat)
    assert all(a.stop == b.public_start for a, b in itertools.pairwise(pairs))
    assert all(pair.public_start < pair.private_start for pair in pairs[1:])  # only the first public span may be empty
    assert all(pair.private_start < pair.stop for pair in pairs[:-1])
    assert sum(pair.private_start < pair.stop for pair in pairs) <= most
    for pair in pairs:  # no private token is read, and none is a target, in a public span
        for t in range(pair.public_start, pair.private_start):
            assert not marks[t]
            assert not marks[t + 1]
    needed = marks[:-1] | marks[1:]
    if len(np.flatnonzero(np.diff(needed, prepend=False, append=False))) // 2 <= most:  # nothing more than needed
        assert [t for p in pairs for t in range(p.private_start, p.stop)] == np.flatnonzero(needed).tolist()


def test_a_private_span_takes_the_token_before_it_and_a_lone_public_one_between():
    #        0  1  2  3  4  5  6  7
    marks = [0, 0, 1, 0, 1, 0, 0, 0]
    # Token 2 is private, so are positions 1 (it predicts it) and 2; token 3 stands alone between two private ones.
    assert span_pairs(np.asarray(marks, bool), 9) == [SpanPair(0, 1, 5), SpanPair(5, 7, 7)]
    assert span_pairs(np.asarray([0, 1, 0, 0, 0, 1, 0], bool), 9) == [SpanPair(0, 0, 2), SpanPair(2, 4, 6)]


def test_from_the_last_private_span_on_everything_is_private():
    marks = np.asarray([0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0], bool)
    assert [p.stop for p in span_pairs(marks, 9)] == [2, 5, 8, 10]
    assert span_pairs(marks, 2) == [SpanPair(0, 0, 2), SpanPair(2, 3, 10)]


def test_records_without_marks_are_refused():
    with pytest.raises(ValueError, match="marked"):
        spanned(dataclasses.replace(marked_records(TEXTS), is_private=None), np.arange(2), 3)


def test_the_model_of_the_paper_has_one_layer_of_200():
    model = build_recurrent(500, seed=0)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert shapes["embedding.weight"] == shapes["decoder.weight"] == (500, 200)
    assert shapes["lstm.weight_ih_l0"] == shapes["lstm.weight_hh_l0"] == (800, 200)
    gru = build_recurrent(500, seed=0, kind="gru")
    assert tuple(gru.get_parameter("gru.weight_hh_l0").shape) == (600, 200)
    assert (len(model.zero_state(3)), len(gru.zero_state(3))) == (2, 1)
    tied = build_recurrent(500, seed=0, is_tied=True)
    assert sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in tied.parameters()) == 500 * 200
    with pytest.raises(ConfigError, match="equal sizes"):
        build_recurrent(500, 0, 10, 12, is_tied=True)


@pytest.mark.parametrize("kind", RECURRENT)
def test_reading_in_parts_with_padding_equals_reading_at_once(kind):
    model = small_model(kind=kind).double()
    ids = torch.randint(0, 200, (3, 9), generator=torch.Generator().manual_seed(0))
    whole = model(ids)
    first = model(ids[:, :4], lengths=torch.tensor([4, 4, 4]))
    padded = torch.cat([ids[:, 4:], torch.zeros(3, 3, dtype=torch.long)], dim=1)
    second = model(padded, first.state, torch.tensor([5, 2, 5]))
    assert torch.allclose(second.logits[0, :5], whole.logits[0, 4:])
    assert torch.allclose(second.logits[1, :2], whole.logits[1, 4:6])
    assert torch.allclose(second.state[-1][1], model(ids[:, :6]).state[-1][1])  # the last state where the example ends
    assert torch.allclose(second.state[0][2], whole.state[0][2])


@pytest.mark.parametrize("kind", RECURRENT)
@pytest.mark.parametrize("is_tied", [False, True])
def test_a_saved_model_comes_back(tmp_path, is_tied, kind):
    model = build_recurrent(50, 3, 8, 8, kind=kind, is_tied=is_tied)
    save_recurrent(model, tmp_path / "model")
    loaded = load_recurrent(tmp_path / "model")
    assert loaded.kind == kind
    assert torch.equal(weights(loaded), weights(model))
    assert (loaded.decoder.weight is loaded.embedding.weight) == is_tied
    (tmp_path / "model" / "config.json").write_text('{"architecture": "gpt2"}')
    with pytest.raises(ConfigError, match="reticent-lstm"):
        load_recurrent(tmp_path / "model")


@pytest.mark.parametrize(("queries", "expected"), [(1, 2.84), (2, 5.62), (4, 15.2), (8, 45.3)])
def test_k_queries_in_one_sampled_step_cost_what_the_oracle_says(queries, expected):
    found = dp_sgd(noise_multiplier=1 / math.sqrt(queries), sample_rate=0.01, num_steps=1_000)
    relation, grid = NeighboringRelation.REPLACE_ONE, 1e-3  # fine enough for three digits
    assert pld_epsilon(found, 1e-5, relation, grid) == pytest.approx(expected, rel=4e-3)
    if queries == 2:  # K independent samples, as the paper's code has it, would look far cheaper
        wrong = dp_sgd(noise_multiplier=1.0, sample_rate=0.01, num_steps=2_000)
        assert pld_epsilon(wrong, 1e-5, relation, grid) < 0.8 * expected


@pytest.mark.slow
def test_the_event_is_that_of_the_record_sampled_most_often_without_amplification():
    made = plan(200, 20, epochs=10, max_private_spans=4, seed=3)
    times = np.zeros(200, int)
    for step in range(made.num_steps):
        times[sample(made, step)] += 1
    assert made.max_participations == times.max() > 10
    assert made.queries_per_step == 12
    assert plan(200, 20, 10, 4, 3, num_states=1).queries_per_step == 8
    found = event(made, 6.0)
    assert found == SelfComposed(count=int(times.max()), event=Gaussian(noise_multiplier=6.0 / math.sqrt(12)))
    # Gaussians compose exactly: n * K queries of sensitivity 2 (one record is replaced).
    mu = 2 * math.sqrt(12 * times.max()) / 6.0
    assert epsilon(found, 1e-5) == pytest.approx(gdp_epsilon(mu, 1e-5), rel=1e-3)
    # As in the paper, where samples stay secret.
    amplified = dp_sgd(noise_multiplier=6.0 / math.sqrt(12), sample_rate=made.sample_rate, num_steps=made.num_steps)
    assert epsilon(found, 1e-5) > 1.3 * epsilon(amplified, 1e-5)


def test_what_was_spent_until_an_epoch_ends():
    made = plan(200, 20, epochs=6, max_private_spans=2, seed=3)
    for epoch in range(made.num_epochs + 1):
        times = np.zeros(200, int)
        for step in range(epoch * made.steps_per_epoch):
            times[sample(made, step)] += 1
        found = event(made, 3.0, epoch)
        assert (found.count if epoch else found) == (times.max() if epoch else NoEvent())
    assert event(made, 3.0, made.num_epochs) == event(made, 3.0)


def test_methods_name_what_their_claims_ask_for():
    for module in (sdpsgd_lstm, redaction_schedule):
        assert set(module.PRECONDITIONS) == set(RULES[module.__name__.rpartition(".")[2]].requires)


@pytest.mark.slow
def test_noise_is_calibrated_for_all_queries():
    made = plan(100, 10, epochs=2, max_private_spans=2, seed=3)
    noise = calibrate(made, 4.0, 1e-5)
    assert 3.99 < epsilon(event(made, noise), 1e-5) <= 4.0
    assert event(plan(0, 10, 2, 2, 3), 1.0) == NoEvent()
