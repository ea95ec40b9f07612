"""Sampling of people: the law of the sample, what one person can do to a step, and training on it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support.crt_trainings import PRIVATE, gradients_handed_over, prepared, train, training_context
from support.tiny import records_of, tiny_model

from pipelines.dp.errors import LossError
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.owners import Owners, OwnerSampler
from pipelines.dp.ranks import Ranks
from pipelines.randomness import seeded
from pipelines.training.models.losses import example_losses


def owners_of(*numbers, count=None, each=1):
    numbers = np.asarray(numbers)
    return Owners(of_records=numbers, count=int(numbers.max()) + 1 if count is None else count, records_each=each)


def test_each_person_is_drawn_with_the_planned_rate_whatever_their_number_of_records():
    owners = owners_of(*[0] * 20, 1, 1, 1, 2, count=5)  # 3 and 4 have no record
    sampler, rng, rate, steps = OwnerSampler(owners), np.random.default_rng(1), 0.3, 4000
    drawn = [sampler.draw(rate, rng) for _ in range(steps)]
    records = np.bincount([row for step in drawn for own in step for row in own], minlength=24)
    assert all(len(own) == 1 for step in drawn for own in step)
    people = [records[:20].sum(), records[20:23].sum(), records[23]]
    for found in people:
        assert stats.binomtest(int(found), steps, rate).pvalue > 1e-3
        assert stats.binomtest(int(found), steps, 1.15 * rate).pvalue < 1e-3  # another rate is told apart
    assert stats.chisquare(records[:20]).pvalue > 1e-3  # each of a person's records alike
    together = sum({0, 1} <= {int(owners.of_records[own[0]]) for own in step} for step in drawn)
    assert stats.binomtest(together, steps, rate**2).pvalue > 1e-3


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 4), st.integers(1, 3), st.integers(0, 99))
def test_a_drawn_person_brings_as_many_records_as_there_are_up_to_the_limit(numbers, each, num_ranks, seed):
    owners = Owners(of_records=np.asarray(numbers, dtype=int), count=6, records_each=each)
    seen = []
    for rank in range(num_ranks):
        drawn = OwnerSampler(owners, Ranks(rank, num_ranks)).draw(1.0, np.random.default_rng(seed))
        seen += [int(owners.of_records[own[0]]) for own in drawn]
        for own in drawn:
            person = owners.of_records[own]
            assert len(set(person)) == 1
            assert len(set(own)) == len(own) == min(each, numbers.count(int(person[0])))
    assert sorted(seen) == sorted(set(numbers))  # each person belongs to one process


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 5), st.sampled_from([1, 3]), st.integers(0, 50))
def test_one_person_moves_a_sum_by_the_clipping_norm_at_most(number, each, seed):
    """Everything of one person is replaced by text with huge gradients; the same people and records are drawn."""
    mine = [(f"I am number {i} of many", "USR") for i in range(number)]
    others = [(f"and {word} is here", "USR") for word in ("she", "he", "it", "they")]
    numbers = [0] * number + [1, 1, 2, 3]
    found = []
    for scale in (1.0, -1e6):
        model = tiny_model()
        engine = GradientEngine(model, max_grad_norm=0.5)
        records = records_of([*mine, *others])
        sampler = OwnerSampler(owners_of(*numbers, each=each))
        for own in sampler.draw(0.8, np.random.default_rng(seed)):
            factor = scale if numbers[own[0]] == 0 else 1.0
            engine.add_together((example_losses(model, records.collate(own)) * factor for _ in "a"), len(own))
        found.append(torch.cat([part.flatten() for part in engine.take_sums()]))
    assert float((found[0] - found[1]).norm()) <= 2 * 0.5 * (1 + 1e-5)


def test_several_records_of_a_person_are_clipped_as_one_and_parts_do_not_matter():
    model, records = tiny_model(), records_of(PRIVATE)
    engine = GradientEngine(model, max_grad_norm=1e3)
    parts = [np.array([0, 1]), np.array([2])]
    mean = engine.add_together((example_losses(model, records.collate(part)) for part in parts), 3)
    found = torch.cat([part.flatten() for part in engine.take_sums()])
    loss = example_losses(model, records.collate(np.array([0, 1, 2]))).mean()
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert torch.allclose(found, expected, atol=1e-6)
    assert mean == pytest.approx(loss.item(), rel=1e-5)
    engine.max_grad_norm = 0.01
    engine.add_together([example_losses(model, records.collate(np.array([0, 1, 2])))], 3)
    assert float(torch.cat([s.flatten() for s in engine.take_sums()]).norm()) == pytest.approx(0.01, rel=1e-4)


def test_a_missing_loss_adds_nothing():
    model, records = tiny_model(), records_of(PRIVATE)
    engine = GradientEngine(model, max_grad_norm=1.0)
    with pytest.raises(LossError, match="2 losses for 3 examples"):
        engine.add_together([example_losses(model, records.collate(np.array([0, 1])))], 3)
    assert not any(part.any() for part in engine.take_sums())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("each", [1, 4])
def test_training_on_people_learns_and_divides_by_the_expected_number_of_people(tmp_path, each):
    owners = owners_of(*[i % 8 for i in range(len(PRIVATE))], count=10, each=each)
    training = prepared([], PRIVATE, owners, expected_batch_size=5)
    assert (training.sample_rate, training.plan.expected_batch_size) == (0.5, 5.0)
    outcome = train(
        tmp_path, tiny_model(), public=[], batch=5, owners=owners, changes={"epochs": 12, "noise_multiplier": 0.05}
    )
    assert outcome.num_steps == 12 * 2
    assert outcome.curve[-1]["private_loss"] < outcome.curve[0]["private_loss"] - 0.3


def test_a_step_on_people_adds_the_noise_of_one_step(tmp_path):
    private = [("<MASK>", "USR")] * 12  # no gradient, so what the optimizer is handed is the noise
    owners = owners_of(*[i % 4 for i in range(12)], count=4, each=3)
    once = {"epochs": 1, "noise_multiplier": 1.3}
    with gradients_handed_over() as steps:
        train(tmp_path, tiny_model(), public=[], private=private, batch=2, owners=owners, changes=once)
    assert stats.kstest(steps[-1].numpy(), stats.norm(scale=1.3 * 0.5 / 2).cdf).pvalue > 1e-3
    assert stats.kstest(steps[-1].numpy(), stats.norm(scale=1.3 * 0.5 / 6).cdf).pvalue < 1e-9


def test_a_killed_training_on_people_goes_on(tmp_path):
    owners = owners_of(*[i % 8 for i in range(len(PRIVATE))], count=8)
    training = prepared([], PRIVATE, owners, expected_batch_size=4)

    def stop(done, total, message):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.train(tiny_model(), 0.3, training_context(tmp_path, progress=stop))
    outcome = training.train(tiny_model(), 0.3, training_context(tmp_path, randomness=seeded(6)))
    assert outcome.was_resumed
    assert outcome.num_steps == training.num_steps
