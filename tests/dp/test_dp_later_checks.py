"""Examples are compared again after the first step: what begins later, or in larger batches only, is found."""

import pytest
import torch
from private_loops import PrivateLoop, cross_entropies, network, rows, weights
from support.patches import patching

from pipelines.dp.errors import IsolationError
from pipelines.dp.privacy import PrivacyEngine
from pipelines.dp.sampling import largest_batch, next_check
from pipelines.errors import PrivacyGateError


def by_the_mean(losses):
    return losses / losses.detach().mean()


def steps_of(loop, most):
    """Runs the loop for so many steps, or until it is stopped."""

    def run():
        while loop.engine.num_steps < most:
            loop.run()

    with pytest.raises(IsolationError):
        run()
    return loop.engine.num_steps


def test_steps_of_later_checks_are_one_in_each_block_and_public():
    """Guards that no training goes on for 128 steps without a comparison, and that a short one has some."""
    starts = [8, 16, 32, *range(64, 1024, 64), 1024]
    for seed in range(20):
        step, found = 0, []
        while (step := next_check(step, seed)) < 1024:
            found.append(step)
        assert len(found) == len(starts) - 1
        assert all(low <= step < high for step, low, high in zip(found, starts[:-1], starts[1:], strict=True))
    assert len({next_check(8, seed) for seed in range(20)}) > 5


def test_nothing_is_a_guarantee_before_examples_were_compared():
    loop = PrivateLoop(engine=PrivacyEngine())
    seen = []
    assert not PrivacyEngine().is_guarantee
    for batch in loop.loader:
        seen.append((loop.optimizer.is_probing, loop.engine.is_guarantee))
        loop.optimizer.backward(cross_entropies(loop.model, batch))
        loop.optimizer.step()
    assert set(seen) == {(True, False), (False, True)}
    assert loop.engine.is_guarantee


@pytest.mark.parametrize("where", ["a hook", "the loop"])
def test_a_coupling_that_begins_after_the_first_checks_is_found(where):
    """Guards the assumption that batches are treated alike: a hook may be registered at any step."""

    def losses(model, batch):
        found = cross_entropies(model, batch)
        return found / found.detach().sum() if where == "the loop" and loop.optimizer.num_steps >= 3 else found

    loop = PrivateLoop(losses, engine=PrivacyEngine(), data=rows(64))
    loop.run()
    assert loop.engine.num_steps == 8
    assert loop.engine.is_guarantee
    if where == "a hook":
        loop.model[0].register_forward_hook(lambda module, args, out: out - out.detach().mean(0))
    assert steps_of(loop, 40) < 16
    assert not loop.engine.is_guarantee
    loop.losses_of = cross_entropies
    loop.model[0]._forward_hooks.popitem() if where == "a hook" else None
    with pytest.raises(PrivacyGateError, match="new engine"):  # what was taken stays taken
        loop.run()
    assert not loop.engine.is_guarantee


@pytest.mark.parametrize("kind", ["mean", "pair", "size", "place"])
def test_a_coupling_that_begins_above_ten_records_is_found(kind):
    """Guards batches of real size: the first ones that are compared hold ten records, or an average sample."""

    def losses(model, batch):
        found = cross_entropies(model, batch)
        if len(found) <= 10:
            return found
        return {
            "mean": by_the_mean,
            "pair": lambda x: x * (1 + x.detach().roll(1)),
            "size": lambda x: x / len(x),
            "place": lambda x: x * torch.where(torch.arange(len(x)) % 2 == 0, 1.0, 2.0),
        }[kind](found)

    assert steps_of(PrivateLoop(losses, data=rows(64)), 40) < 16


@pytest.mark.parametrize(("workers", "limit"), [(0, 5), pytest.param(2, None, marks=pytest.mark.slow)])
def test_later_checks_leave_no_trace_and_are_counted(workers, limit):
    """Guards samples, noise, dropout and weights: they are those of a run without later checks."""

    def final(is_compared):
        torch.manual_seed(3)
        with patching() as patch:
            if not is_compared:
                patch("pipelines.dp.sampling", "next_check", lambda *_: 10**9)
            loop = PrivateLoop(
                lambda model, batch: cross_entropies(model, batch) * (1 + torch.rand(())),
                model=network(torch.nn.Dropout(0.3)), data=rows(64), num_workers=workers, limit=limit,
            )  # fmt: skip
            probing = []
            loop.model.register_forward_hook(lambda *_: probing.append(loop.optimizer.is_probing))
            num_first = loop.loader._num_left_to_compare()
            loop.run(epochs=3)
        return weights(loop.model), torch.rand(2), sum(probing) - num_first, len(loop.handed)

    plain, random, num_plain, num_steps = final(False)
    compared, same_random, num_compared, same_steps = final(True)
    assert (num_plain, num_compared, num_steps, same_steps) == (0, 4, 24, 24)
    assert torch.equal(plain, compared)
    assert torch.equal(random, same_random)


def run_once(loop):
    for batch in loop.loader:
        loop.optimizer.backward(cross_entropies(loop.model, batch))
        loop.optimizer.step()
        yield batch


def test_a_later_check_that_is_left_is_not_gone_on_with():
    """A loop may be left between the two batches."""
    loop = PrivateLoop(data=rows(64))
    for _ in run_once(loop):
        if loop.optimizer.is_probing and loop.engine.num_steps:
            break
    while loop.engine.num_steps < 20:
        loop.run()
    assert loop.optimizer.is_compared


def test_largest_batches():
    assert largest_batch(8, 100, None) == 16
    assert largest_batch(8, 12, None) == 12
    assert largest_batch(256, 10_000, 64) == 64
    assert largest_batch(0, 0, None) == 0


def test_random_numbers_for_whole_batches_are_said_to_hide_later_couplings():
    """No false alarm: what differs may be the numbers."""
    loop = PrivateLoop(
        lambda model, batch: cross_entropies(model, batch) * (1 + torch.rand(len(batch[0]))), data=rows(64)
    )
    while loop.engine.num_steps < 20:
        loop.run()
    assert any("after the first step" in line for line in loop.engine.assumptions)
