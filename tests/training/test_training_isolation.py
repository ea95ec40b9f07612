"""Our own loop keeps the engine's promise: one loss for each record, and none that depends on other records."""

import pytest
import torch
from support.crt_trainings import PRIVATE, gradients_handed_over, train, weights
from support.patches import patching
from support.tiny import tiny_model
from torch import nn

from pipelines.dp.errors import IsolationError
from pipelines.errors import StageError
from pipelines.training.models.losses import example_losses

TEXTS = [("my hat" + " is lost" * (at % 3), "USR") for at in range(24)]


def over_the_batch(model, batch):
    losses = example_losses(model, batch)
    return losses / losses.detach().mean()


def over_the_longest(model, batch):
    return example_losses(model, batch) / batch.inputs.shape[1]


@pytest.mark.parametrize("losses", [over_the_batch, over_the_longest])
def test_losses_that_depend_on_the_batch_stop_training_before_the_first_step(tmp_path, losses):
    """Guards the bound of a private step in every method that uses the loop."""
    model = tiny_model()
    before = weights(model)
    with gradients_handed_over() as steps, pytest.raises(IsolationError, match="other examples"):
        train(tmp_path, model, private=TEXTS, losses=losses)
    assert not steps
    assert torch.equal(weights(model), before)


def test_a_module_that_remembers_stops_training(tmp_path):
    """Guards what is published: buffers are saved with the weights."""

    class Remembering(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(()))

        def forward(self, x):
            self.mean.copy_(x.detach().mean())
            return x

    model = tiny_model()
    model.transformer.drop = Remembering()
    with gradients_handed_over() as steps, pytest.raises(IsolationError, match=r"transformer\.drop\.mean"):
        train(tmp_path, model)
    assert not steps


@pytest.mark.parametrize("num", [lambda losses: losses.repeat(2), lambda losses: losses[:-1]])
@pytest.mark.parametrize("first", [0, 20])
def test_another_number_of_losses_than_records_says_so(tmp_path, num, first):
    """Guards the count in every batch, and its message: it was told as a training that diverged."""
    calls = []

    def losses(model, batch):
        calls.append(None)
        found = example_losses(model, batch)
        return num(found) if len(calls) > first else found

    with pytest.raises(StageError, match=r"\d+ losses for a batch of \d+ examples"):
        train(tmp_path, tiny_model(), losses=losses)


@pytest.mark.slow
def test_the_comparison_leaves_no_trace(tmp_path):
    """Weights and random numbers are those of a training without it."""
    ends = []
    for without in (False, True):
        folder = tmp_path / str(without)
        folder.mkdir()
        torch.manual_seed(3)
        model = tiny_model()
        with patching() as patch:
            if without:
                patch("pipelines.training.loop", "check_isolation", lambda *_: ())
                patch("pipelines.training.loop", "check_again", lambda *_: ())
            train(folder, model, private=PRIVATE[:24], changes={"epochs": 8})
        ends.append((weights(model), torch.rand(3)))
    assert torch.equal(ends[0][0], ends[1][0])
    assert torch.equal(ends[0][1], ends[1][1])


def coupled_from(start):
    """Losses that are coupled from a step on, or in batches of more than ten records."""
    calls = []

    def losses(model, batch):
        calls.append(None)
        found = example_losses(model, batch)
        is_on = len(found) > 10 if start == "above ten records" else len(calls) > start
        return found / found.detach().sum() if is_on else found

    return losses


@pytest.mark.slow
@pytest.mark.parametrize(("start", "microbatch_size"), [(40, 4), ("above ten records", 16)])
def test_a_coupling_that_begins_later_stops_training(tmp_path, start, microbatch_size):
    """Guards steps after the first: the checkpoint that it may have marred is gone, so that no run goes on from it."""
    with gradients_handed_over() as steps, pytest.raises(IsolationError, match="not seen when training began"):
        train(tmp_path, tiny_model(), private=TEXTS * 2, losses=coupled_from(start), microbatch_size=microbatch_size,
              changes={"epochs": 8})  # fmt: skip
    assert steps
    assert not list(tmp_path.iterdir())


def test_a_hook_that_appears_after_the_last_step_but_one_stops_training(tmp_path):
    """Guards what is published: what is still there when training ends is found, however short it was."""
    model, steps = tiny_model(), []

    def progress(done, total, message):
        steps.append(done)
        if done == total - 1:
            model.transformer.h[0].register_forward_hook(lambda *seen: add_the_mean(seen[-1]))

    def add_the_mean(out):
        first = out[0] if isinstance(out, tuple) else out
        first = first + first.detach().mean(0)
        return (first, *out[1:]) if isinstance(out, tuple) else first

    with pytest.raises(IsolationError, match="not seen when training began"):
        train(tmp_path, model, public=[], private=TEXTS, progress=progress, changes={"epochs": 1})
    assert len(steps) == 3


@pytest.mark.slow
def test_how_often_examples_were_compared_is_told(tmp_path):
    """Guards the claim: nothing is a guarantee before examples were compared."""
    outcome = train(tmp_path, tiny_model(), private=TEXTS, changes={"epochs": 8})
    assert outcome.num_steps == 24
    assert outcome.num_comparisons in (3, 4)  # before, in steps 8 to 15, perhaps in 16 to 23, and after
    nothing = train(tmp_path, tiny_model(), private=[("<MASK>", "USR")] * 9)
    assert nothing.num_comparisons is None  # there is nothing to compare
