"""``train.optimizer``: what it does to weights, keys, and what the model card says."""

import pytest
import test_stage_train_methods as by_method
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from pipelines.methods.registry import METHODS
from pipelines.settings.train import TrainConfig

RATES = {"public_learning_rate": 0.5, "private_learning_rate": 0.25}


@pytest.fixture
def moves():
    """By step size, how far each step is from plain SGD and from standing still."""
    found = {rate: [] for rate in RATES.values()}
    before = []

    def start(optimizer, args, kwargs):
        (group,) = optimizer.param_groups
        before[:] = [(p.detach().clone(), p.grad.clone()) for p in group["params"] if p.grad is not None]

    def end(optimizer, args, kwargs):
        (group,) = optimizer.param_groups
        after = [p.detach() for p in group["params"] if p.grad is not None]
        pairs = [(now - was, -group["lr"] * grad) for now, (was, grad) in zip(after, before, strict=True)]
        moved, meant = (torch.cat([pair[side].flatten() for pair in pairs]).double() for side in (0, 1))
        found[group["lr"]].append(float((moved - meant).norm() / meant.norm()))

    hooks = [register_optimizer_step_pre_hook(start), register_optimizer_step_post_hook(end)]
    yield found
    for hook in hooks:
        hook.remove()


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "is_sgd"), [("sgd", True), ("adamw", False)])
def test_a_step_of_sgd_is_the_gradient_times_the_step_size(tmp_path, moves, optimizer, is_sgd):
    ctx = by_method.run(
        tmp_path / "run", by_method.corpus(tmp_path / "corpus"), "crt", optimizer=optimizer, epochs=1, **RATES
    )
    for steps in moves.values():
        assert len(steps) > 1
        assert all((off < 1e-4) == is_sgd for off in steps)  # of rounding in float32
    card = " ".join((ctx.out.public_folder / "model" / "README.md").read_text().split())
    assert ("SGD on public text and DP-SGD on redacted private text" in card) == is_sgd
    assert ("AdamW on public text and DP-AdamW" in card) != is_sgd


@pytest.mark.parametrize("method", METHODS)
def test_a_model_from_before_the_setting_is_found_again(method):
    plain, chosen = TrainConfig(method=method), TrainConfig(method=method, optimizer="sgd")
    assert "optimizer" not in plain.keyed("train")
    takes_it = method != "sdpsgd_lstm"  # whose steps are of SGD whatever is set
    assert (chosen.keyed("train") == {**plain.keyed("train"), "optimizer": "sgd"}) == takes_it
    for config in (TrainConfig(method=method, optimizer="adamw"), chosen):
        assert ("optimizer" in config.idle()) != takes_it


def test_the_first_phase_of_jft_takes_it_too():
    first = TrainConfig(method="jft").keyed("train_phase1")
    assert TrainConfig(method="jft", optimizer="sgd").keyed("train_phase1") == {**first, "optimizer": "sgd"}
