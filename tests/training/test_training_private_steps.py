"""The private step: clipping is exact, contributions are bounded, samples and noise have the right distribution."""

import math

import dp_reference
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tiny import examples_of, records_of, tiny_model

from pipelines.errors import StageError
from pipelines.training.private_steps import PerExampleClipper, add_noise, plan_private_steps, poisson_sample
from pipelines.training.randomness import seeded, unpredictable

TEXTS = ["a", "Hello you", "<MASK>", "I am <MASK>, 42", "no", "what can I do for you?", "<MASK> is my name", ""]
MODEL = tiny_model(seed=3).double()


def all_rows(records):
    return np.arange(len(records))


def flat(gradients):
    return torch.cat([g.flatten() for g in gradients])


@settings(max_examples=12, deadline=None)
@given(
    texts=st.lists(st.sampled_from(TEXTS), max_size=6),
    max_grad_norm=st.sampled_from([1e-3, 0.7, 3.0, 1e6]),
    microbatch_size=st.integers(1, 4),
)
def test_the_clipped_sum_equals_one_example_at_a_time(texts, max_grad_norm, microbatch_size):
    records = records_of(texts)
    found = PerExampleClipper(MODEL, max_grad_norm, microbatch_size)(records, all_rows(records))
    expected = flat(dp_reference.clipped_sum(MODEL, examples_of(records), max_grad_norm))
    assert torch.allclose(flat(found.gradients), expected, rtol=1e-9, atol=1e-12 * max_grad_norm)


@settings(max_examples=15, deadline=None)
@given(text=st.sampled_from(TEXTS), seed=st.integers(0, 5), max_grad_norm=st.sampled_from([1e-4, 0.1, 1.0]))
def test_no_record_contributes_more_than_the_norm(text, seed, max_grad_norm):
    records = records_of([text])
    model = tiny_model(seed)  # float32, as in training
    found = PerExampleClipper(model, max_grad_norm, 4)(records, all_rows(records))
    assert dp_reference.norm(found.gradients) <= max_grad_norm * (1 + 1e-6)
    for size in found.norms:  # what is below the norm is left alone
        assert dp_reference.norm(found.gradients) == pytest.approx(min(max_grad_norm, float(size)), rel=1e-5)


def test_losses_and_norms_are_those_of_the_examples_with_targets():
    records = records_of(TEXTS)
    found = PerExampleClipper(MODEL, 1.0, 3)(records, all_rows(records))
    norms = [dp_reference.norm(dp_reference.example_gradient(MODEL, *e)) for e in examples_of(records)]
    assert sorted(found.norms.tolist()) == pytest.approx(sorted(n for n in norms if n > 0))
    assert len(found.losses) == sum(n > 0 for n in norms)


def test_a_wholly_masked_record_contributes_exactly_nothing():
    with_masks = records_of(["<MASK>", "hello", ("<MASK>", "USR")])
    without = records_of(["hello"])
    clipper = PerExampleClipper(MODEL, 0.5, 8)
    assert torch.equal(
        flat(clipper(with_masks, all_rows(with_masks)).gradients), flat(clipper(without, all_rows(without)).gradients)
    )
    only = clipper(with_masks, np.asarray([0, 2]))
    assert not flat(only.gradients).any()
    assert len(only.losses) == len(only.norms) == 0


def test_lengthening_a_record_moves_its_own_contribution_only():
    short = ["one record", "my id is 7", "another"]
    long = ["one record", "my id is 7, 8 and some more 9", "another"]
    clipper = PerExampleClipper(MODEL, 0.3, 8)
    sums = [flat(clipper(r, all_rows(r)).gradients) for r in (records_of(short), records_of(long))]
    own = [flat(clipper(r, all_rows(r)).gradients) for r in (records_of([short[1]]), records_of([long[1]]))]
    assert torch.allclose(sums[1] - sums[0], own[1] - own[0], rtol=0, atol=1e-12)
    assert (own[1] - own[0]).norm() > 1e-3


def test_a_gradient_that_is_not_finite_is_refused():
    model = tiny_model()
    with torch.no_grad():
        next(model.parameters())[:] = math.nan
    records = records_of(["hello"])
    with pytest.raises(StageError, match="learning_rate"):
        PerExampleClipper(model, 1.0, 4)(records, all_rows(records))


def test_noise_has_the_stated_deviation():
    noise = [torch.zeros(150, 100), torch.zeros(5000)]
    add_noise(noise, 1.7, np.random.default_rng(5))
    values = flat(noise).numpy()
    assert stats.kstest(values, stats.norm(scale=1.7).cdf).pvalue > 1e-3
    for wrong in (1.7 * 2 / 3, 1.7 * 1.5):
        assert stats.kstest(values, stats.norm(scale=wrong).cdf).pvalue < 1e-9


def test_noise_is_added_to_what_is_there_and_never_repeats():
    base = torch.arange(100.0)
    noised = [base.clone(), base.clone()]
    add_noise(noised, 1e-3, np.random.default_rng(1))
    assert all(torch.allclose(tensor, base, atol=1e-2) for tensor in noised)
    assert not torch.equal(noised[0], noised[1])


def _p_values(sizes, inclusions, num_records, rate):
    """Of sample sizes against the binomial law, and of inclusion counts of records against each other."""
    law = stats.binom(num_records, rate)
    edges = law.ppf([0.1, 0.25, 0.5, 0.75, 0.9])
    bins = np.concatenate([[-0.5], np.unique(edges) + 0.5, [num_records + 0.5]])
    observed, _ = np.histogram(sizes, bins)
    expected = len(sizes) * np.diff(law.cdf(np.floor(bins)))
    by_size = stats.chisquare(observed, expected * len(sizes) / expected.sum()).pvalue
    even = (((inclusions - inclusions.mean()) ** 2).sum()) / (len(sizes) * rate * (1 - rate))
    return by_size, stats.chi2(num_records - 1).sf(even)


def _draws(sample, num_records, num_draws=3000):
    rng = np.random.default_rng(11)
    sizes, inclusions = [], np.zeros(num_records)
    for _ in range(num_draws):
        rows = sample(rng)
        sizes.append(len(rows))
        inclusions[rows] += 1
    return np.asarray(sizes), inclusions


def test_samples_are_poisson():
    num_records, rate = 120, 0.08
    by_size, by_record = _p_values(
        *_draws(lambda rng: poisson_sample(num_records, rate, rng), num_records), num_records, rate
    )
    assert by_size > 1e-3
    assert by_record > 1e-3


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rng: rng.choice(120, 10, replace=False),  # batches of a fixed size
        lambda rng: poisson_sample(120, 0.08 * 1.1, rng),
        lambda rng: poisson_sample(108, 0.08 / 0.9, rng),  # the last records are never drawn
        lambda rng: np.arange(120)[slice(rng.integers(12), None, 12)],  # shuffled epochs
    ],
)
def test_the_poisson_test_rejects_other_samplers(wrong):
    assert min(_p_values(*_draws(wrong, 120), 120, 0.08)) < 1e-6


def test_sampling_at_the_edges():
    rng = np.random.default_rng(0)
    assert poisson_sample(5, 1.0, rng).tolist() == [0, 1, 2, 3, 4]
    assert poisson_sample(5, 0.0, rng).tolist() == []
    assert poisson_sample(0, 0.5, rng).tolist() == []


@settings(max_examples=100, deadline=None)
@given(num_records=st.integers(0, 10**6), batch=st.integers(1, 5000), epochs=st.integers(1, 50))
def test_the_plan_draws_an_expected_epoch(num_records, batch, epochs):
    plan = plan_private_steps(num_records, batch, epochs)
    assert plan.num_steps == plan.steps_per_epoch * epochs
    assert 0 <= plan.sample_rate <= 1
    assert plan.expected_batch_size == pytest.approx(min(batch, num_records))
    drawn = plan.steps_per_epoch * plan.expected_batch_size
    assert drawn == pytest.approx(num_records, abs=plan.expected_batch_size / 2 + 1e-6)


def test_unpredictable_randomness_never_repeats_and_seeded_does():
    first, second = (unpredictable(0).random(4).tolist() for _ in range(2))
    assert first != second
    assert seeded(3)(7).random(4).tolist() == seeded(3)(7).random(4).tolist()
    assert seeded(3)(7).random(4).tolist() != seeded(3)(8).random(4).tolist()
    assert seeded(3)(7).random(4).tolist() != seeded(4)(7).random(4).tolist()
