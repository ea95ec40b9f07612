"""Schedules of learning rates go by noisy steps, however many physical batches a sample takes."""

import warnings

import pytest
import torch
from private_loops import PrivateLoop, cross_entropies
from torch.optim import lr_scheduler
from torch.optim.swa_utils import SWALR

from pipelines.errors import ConfigError, PrivacyGateError

EPOCHS = 3  # of three steps: 24 records in samples of 8

SCHEDULERS = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda step: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2, gamma=0.5),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 5], gamma=0.5),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.5, total_iters=4),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.1, total_iters=6),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.8),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 9, power=2),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 9),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.3, total_steps=10),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3),
    "SWALR": lambda o: SWALR(o, 0.01, anneal_epochs=5),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=3), lr_scheduler.ExponentialLR(o, 0.8)], [3]
    ),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.5, total_iters=2), lr_scheduler.ExponentialLR(o, 0.8)], optimizer=o
    ),
}


def expected_rates(name, steps):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.5)
    scheduler = SCHEDULERS[name](optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def _calls():
    """Whether a loop calls its schedule is nothing to torch's classes, so that a few of them show it."""
    for name in SCHEDULERS:
        yield pytest.param(True, name, id=f"called after every batch-{name}")
        marks = () if name in ("LambdaLR", "OneCycleLR", "SequentialLR") else pytest.mark.slow
        yield pytest.param(False, name, id=f"never called-{name}", marks=marks)


@pytest.mark.parametrize(("called", "name"), _calls())
def test_schedules_go_by_noisy_steps(name, called):
    """The rates are those of an ordinary optimizer, with samples of several batches."""
    loop = PrivateLoop(limit=2, momentum=0.5)
    rates = []
    loop.optimizer._inner.register_step_pre_hook(lambda inner, *_: rates.append(inner.param_groups[0]["lr"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule = loop.optimizer.schedule(SCHEDULERS[name](loop.optimizer))
        num_batches = 0
        for _ in range(EPOCHS):
            for batch in loop.loader:
                loop.optimizer.backward(cross_entropies(loop.model, batch))
                loop.optimizer.step()
                num_batches += 1
                if called:
                    schedule.step()
    assert rates == expected_rates(name, len(rates))
    assert len(rates) == loop.engine.num_steps
    assert num_batches > 2 * len(rates)
    assert schedule.get_last_lr() == [loop.optimizer.param_groups[0]["lr"]]


def test_empty_samples_take_a_step_of_the_schedule_too():
    loop = PrivateLoop(batch_size=1)
    schedule = loop.optimizer.schedule(lr_scheduler.ExponentialLR(loop.optimizer, 0.9))
    loop.run()
    assert loop.loader.steps_per_epoch == 24
    assert len(loop.handed) == 24
    assert schedule.get_last_lr() == pytest.approx([0.1 * 0.9**24])
    state = schedule.state_dict()
    assert state["last_epoch"] == 24
    again = PrivateLoop()
    resumed = again.optimizer.schedule(lr_scheduler.ExponentialLR(again.optimizer, 0.9))
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state


def test_a_schedule_that_goes_by_physical_batches_is_refused():
    loop = PrivateLoop(limit=2)
    scheduler = lr_scheduler.LambdaLR(loop.optimizer, lambda step: 0.9**step)

    def run():
        for batch in loop.loader:
            loop.optimizer.backward(cross_entropies(loop.model, batch))
            loop.optimizer.step()
            scheduler.step()

    with pytest.raises(PrivacyGateError, match=r"optimizer\.schedule\(scheduler\)"):
        run()
    assert loop.took_nothing()


def test_a_rate_by_hand_may_go_by_the_engine_s_steps():
    loop = PrivateLoop(limit=2)
    for batch in loop.loader:
        loop.optimizer.param_groups[0]["lr"] = 0.1 / (1 + loop.engine.num_steps)
        loop.optimizer.backward(cross_entropies(loop.model, batch))
        loop.optimizer.step()
    assert loop.optimizer.param_groups[0]["lr"] == 0.1 / loop.engine.num_steps


def test_hooks_run_after_each_noisy_step():
    loop, counts = PrivateLoop(limit=2), []
    handle = loop.optimizer.register_step_post_hook(lambda optimizer, *_: counts.append(optimizer.num_steps))
    loop.run()
    assert counts == [1, 2, 3]
    handle.remove()
    loop.run()
    assert counts == [1, 2, 3]


def test_schedulers_that_go_by_a_metric_are_stepped_by_hand():
    loop = PrivateLoop(limit=2)
    plateau = lr_scheduler.ReduceLROnPlateau(loop.optimizer, patience=0, factor=0.5)
    with pytest.raises(ConfigError, match="public records"):
        loop.optimizer.schedule(plateau)
    with pytest.raises(ConfigError, match="register_step_post_hook"):
        loop.optimizer.schedule(lambda: None)
    for _ in range(2):
        loop.run()
        plateau.step(1.0)
    assert loop.optimizer.param_groups[0]["lr"] == 0.05
