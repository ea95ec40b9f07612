"""What the engine refuses: layers without a rule, weights read elsewhere, mixed examples, losses of another form."""

import pytest
import torch
from engine_models import (
    Mean,
    gpt2,
    smooth_losses,
)
from token_batches import lm_losses, token_batch
from torch import nn

from pipelines.dp.errors import IsolationError, LossError, UnsupportedLayerError
from pipelines.dp.gradients import GradientEngine

REFUSED = {
    "plain recurrence": lambda: nn.RNN(3, 3, batch_first=True),
    "time-first attention": lambda: nn.MultiheadAttention(3, 1),
    "time-first gru": lambda: nn.GRU(3, 3),
    "bag of embeddings": lambda: nn.EmbeddingBag(3, 3),
    "time-first lstm": lambda: nn.LSTM(3, 3),
    "projected lstm": lambda: nn.LSTM(3, 3, proj_size=2, batch_first=True),
    "embedding with a norm": lambda: nn.Embedding(3, 3, max_norm=1.0),
    "own parameter": lambda: nn.ParameterList([nn.Parameter(torch.ones(3))]),
}


@pytest.mark.parametrize("layer", REFUSED)
def test_layers_without_a_rule_are_refused_by_name(layer):
    model = nn.Sequential()
    model.add_module("good", nn.Linear(3, 3))
    model.add_module("odd", REFUSED[layer]())
    with pytest.raises(UnsupportedLayerError, match=r"odd\..*Freeze"):
        GradientEngine(model, max_grad_norm=1.0)
    model.odd.requires_grad_(False)
    if layer == "embedding with a norm":  # rewrites its weights, frozen or not
        return
    model.odd.eval()  # batch norm in training mode is refused, frozen or not
    GradientEngine(model, max_grad_norm=1.0).detach()


class Mixing(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.layer = nn.Linear(3, 3)
        self.table = nn.Linear(3, 3)

    def forward(self, x):
        out = self.layer(x)
        if self.kind == "centred":
            return out - out.mean(0)
        if self.kind == "running sum":
            return out.cumsum(0)
        if self.kind == "reversed running sum":
            return out.flip(0).cumsum(0)
        return out + self.table(torch.eye(3))[: x.shape[1]]  # a table as long as the batch, which fits by accident


@pytest.mark.parametrize("kind", ["centred", "running sum", "reversed running sum", "table"])
@pytest.mark.parametrize("mode", ["book_keeping", "two_pass"])
def test_examples_that_are_mixed_are_found(kind, mode):
    model = Mixing(kind)
    engine = GradientEngine(model, max_grad_norm=1.0, mode=mode)
    with engine.recording():
        losses = smooth_losses(model, torch.randn(3, 3, 3))
    with pytest.raises(IsolationError, match=r"layer|table"):
        engine.backward(losses)
    assert not any(s.any() for s in engine.take_sums())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda losses: losses.mean(), "loss of each example"),
        (lambda losses: losses[:, None], "one axis"),
        (lambda losses: losses[:2], "2 losses for a batch of 3"),
        (lambda losses: losses * float("nan"), "not a finite number"),
        (lambda losses: losses.detach(), "recording"),
    ],
)
def test_losses_that_cannot_be_used_say_what_to_do(spoil, message):
    model = gpt2()
    engine = GradientEngine(model, max_grad_norm=1.0)
    with engine.recording():
        losses = lm_losses(model, token_batch())
    with pytest.raises(LossError, match=message):
        engine.backward(spoil(losses))
    assert not any(s.any() for s in engine.take_sums())


@pytest.mark.parametrize("mode", ["book_keeping", "two_pass"])
def test_a_gradient_that_is_not_finite_adds_nothing(mode):
    model = nn.Linear(2, 1, bias=False)
    engine = GradientEngine(model, max_grad_norm=1.0, mode=mode)
    with engine.recording():
        losses = (model(torch.ones(2, 2)).flatten() * 0).clamp(min=0).sqrt()  # 0 with an infinite slope
    with pytest.raises(LossError, match="not a finite"):
        engine.backward(losses)
    assert not any(s.any() for s in engine.take_sums())


def test_a_batch_that_was_not_recorded_is_refused():
    model = nn.Linear(2, 1)
    engine = GradientEngine(model, max_grad_norm=1.0)
    losses = smooth_losses(Mean(model), torch.ones(2, 2))
    with pytest.raises(UnsupportedLayerError):
        engine.backward(losses)
    with engine.recording():
        losses = smooth_losses(Mean(model), torch.ones(2, 2))
    with pytest.raises(LossError, match=r"did not start.*optimizer\.backward\(losses\)"):
        losses.sum().backward()


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"max_grad_norm": 0}, "at least"), ({"max_grad_norm": float("inf")}, "finite"),
     ({"max_grad_norm": 1, "mode": "fast"}, "unknown mode"),
     ({"max_grad_norm": 1, "clipping": "x"}, "unknown clipping")],
)  # fmt: skip
def test_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        GradientEngine(nn.Linear(2, 2), **settings)
    with pytest.raises(UnsupportedLayerError, match="no trainable"):
        GradientEngine(nn.Linear(2, 2).requires_grad_(False), max_grad_norm=1.0)


def test_a_clipping_norm_that_is_not_a_number_is_refused() -> None:
    """Guards: with NaN, every clip factor would be 1, and nothing would be clipped."""
    engine = GradientEngine(torch.nn.Linear(2, 1), max_grad_norm=1.0)
    with pytest.raises(ValueError, match="NaN"):
        engine.max_grad_norm = float("nan")
    assert engine.max_grad_norm == 1.0
