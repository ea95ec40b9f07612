"""Every layer rule against one example at a time, over drawn shapes."""

import pytest
import torch
from engine_layers import LAYERS
from engine_models import SMALL_BUDGETS, Mean, TinyLM, check, engine_sums, fused, per_token, seeded, smooth_losses
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import dp_gradients
from torch import nn
from transformers.pytorch_utils import Conv1D

from pipelines.dp.gradients import GradientEngine
from pipelines.dp.grams import gram_squares
from pipelines.dp.uses import MemoryBudget, OuterUse, RowsUse, Scratch, Sums

shapes = st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(1, 6))


def drawn(layer, shape, seed, axes=3):
    with seeded(seed):
        model = Mean(LAYERS[layer](shape[2]))
        for parameter in model.parameters():
            nn.init.normal_(parameter)
        x = torch.randn(shape if axes == 3 else (shape[0], shape[2]) if axes == 2 else (*shape[:2], 2, shape[2]))
    return model, {"x": x}


def losses_of(model, batch):
    return smooth_losses(model, batch["x"])


@pytest.mark.parametrize("layer", LAYERS)
@settings(max_examples=8, deadline=None)
@given(shape=shapes, seed=st.integers(0, 50), budget=st.sampled_from(SMALL_BUDGETS), mode=st.booleans())
def test_layers_are_exact(layer, shape, seed, budget, mode):
    model, batch = drawn(layer, shape, seed)
    # Norms over one number divide by almost zero: what one example at a time gives is rounding noise as well.
    if "norm" in layer and shape[2] == 1:
        return
    dtype = torch.float32 if layer == "rms norm of llama" else torch.float64
    if dtype == torch.float32:
        check_llama_norm(model, batch)
    else:
        check(model, losses_of, batch, dtype=dtype, budget=budget, mode="two_pass" if mode else "book_keeping")


def check_llama_norm(model, batch):
    """In float64 the layer itself rounds to float32, so it is compared there."""
    size = len(batch["x"])
    gradients = dp_gradients.example_gradients(
        model, lambda net, i: losses_of(net, {"x": batch["x"][i : i + 1]})[0], size
    )
    sums, norms = engine_sums(model, losses_of, [batch], 0.5)
    assert norms == pytest.approx([dp_gradients.norm(g) for g in gradients], rel=1e-5)
    expected = dp_gradients.clipped_sum(gradients, dp_gradients.limit(0.5))
    assert dp_gradients.relative_error(sums, expected) < 1e-5


@pytest.mark.parametrize("layer", ["linear", "conv1d", "layer norm", "rms norm", "lstm"])
@settings(max_examples=6, deadline=None)
@given(shape=st.tuples(st.integers(1, 4), st.integers(1, 150), st.integers(2, 9)), seed=st.integers(0, 50))
def test_layers_are_exact_in_single_precision(layer, shape, seed):
    model, batch = drawn(layer, shape, seed)
    check(model, losses_of, batch, dtype=torch.float32)


@pytest.mark.parametrize("layer", ["linear", "layer norm", "rms norm", "linear without bias"])
@pytest.mark.parametrize("axes", [2, 4])
def test_layers_take_any_number_of_axes(layer, axes):
    model, batch = drawn(layer, (3, 4, 5), 1, axes)
    check(model, losses_of, batch)


@settings(max_examples=15, deadline=None)
@given(
    size=st.integers(1, 5), length=st.integers(1, 9), seed=st.integers(0, 99), budget=st.sampled_from(SMALL_BUDGETS),
    tied=st.booleans(), is_fused=st.booleans(), mode=st.sampled_from(["book_keeping", "two_pass"]),
    clipping=st.sampled_from(["flat", "automatic"]), ignored=st.floats(0, 1),
)  # fmt: skip
def test_embedding_lstm_and_head_are_exact(size, length, seed, budget, tied, is_fused, mode, clipping, ignored):
    with seeded(seed):
        model = TinyLM(tied=tied)
        for parameter in model.parameters():
            nn.init.normal_(parameter)
        ids = torch.randint(0, 11, (size, length))
        labels = torch.randint(0, 11, (size, length))
        labels[torch.rand(size, length) < ignored] = -100  # padding, masks; some examples have no target at all

    def losses(net, batch):
        return fused(net, batch) if is_fused else per_token(net(batch["ids"]), batch["labels"])

    batch = {"ids": ids, "labels": labels}
    check(model, losses, batch, budget=budget, mode=mode, clipping=clipping)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("is_fused", [True, False])
def test_the_language_model_is_exact_in_single_precision(tied, is_fused):
    with seeded(2):
        model = TinyLM(vocab=70, width=20, tied=tied)
        ids = torch.randint(0, 70, (4, 100))

    def losses(net, batch):
        return fused(net, batch) if is_fused else per_token(net(batch["ids"]), batch["labels"])

    check(model, losses, {"ids": ids, "labels": ids.roll(-1, 1)}, dtype=torch.float32)


def test_dropping_the_cross_term_would_be_seen():
    with seeded(0):
        model = TinyLM(tied=True).double()
        ids = torch.randint(0, 11, (3, 6))
    batch = {"ids": ids, "labels": ids.roll(-1, 1)}
    gradients = dp_gradients.example_gradients(
        model, lambda net, i: fused(net, {k: v[i : i + 1] for k, v in batch.items()})[0], 3
    )
    _, norms = engine_sums(model, fused, [batch], 1.0)
    assert norms == pytest.approx([dp_gradients.norm(g) for g in gradients], rel=1e-12)
    untied = TinyLM(tied=False).double()  # the same values, but two parameters: norms without the cross term
    untied.load_state_dict({**model.state_dict(), "head.bias": torch.zeros(11, dtype=torch.float64)})
    untied.head.bias = None
    _, without = engine_sums(untied, fused, [batch], 1.0)
    assert max(abs(a / b - 1) for a, b in zip(norms, without, strict=True)) > 1e-3


def test_a_layer_that_runs_twice_is_one_gradient():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 5)
            self.norm = nn.LayerNorm(5)
            self.embedding = nn.Embedding(7, 5)

        def forward(self, ids):
            x = self.embedding(ids) + self.embedding((ids + 1) % 7)
            return self.norm(self.layer(torch.tanh(self.norm(self.layer(x)))))

    with seeded(1):
        model, ids = Twice(), torch.randint(0, 7, (4, 3))
    for mode in ("book_keeping", "two_pass"):
        check(model, lambda net, batch: smooth_losses(net, batch["ids"]), {"ids": ids}, mode=mode)


def test_one_parameter_in_layers_of_different_kinds():
    class Mixed(nn.Module):
        """An embedding, a linear layer and a fused head on one weight, used twice over: nothing has a closed form."""

        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(6, 6)
            self.linear = nn.Linear(6, 6, bias=False)
            self.conv = Conv1D(6, 6)
            self.head = nn.Linear(6, 6, bias=False)
            self.head.weight = self.linear.weight = self.conv.weight = self.embedding.weight

        def hidden(self, ids):
            return torch.tanh(self.conv(torch.tanh(self.linear(self.embedding(ids)))))

    with seeded(1):
        model, ids = Mixed(), torch.randint(0, 6, (4, 3))
    for mode in ("book_keeping", "two_pass"):
        for budget in SMALL_BUDGETS:
            check(model, fused, {"ids": ids, "labels": ids.roll(-1, 1)}, mode=mode, budget=budget)


@pytest.mark.parametrize("mode", ["book_keeping", "two_pass"])
def test_a_parameter_under_two_names_of_one_layer(mode):
    """Guards exactness: two passes stopped at a recurrent layer that shares weights between its own layers."""
    with seeded(1):
        model, ids = TinyLM(layers=2), torch.randint(0, 11, (4, 5))
        model.lstm.weight_ih_l1 = model.lstm.weight_hh_l0
        model.lstm.bias_hh_l0 = model.lstm.bias_ih_l1
    for budget in SMALL_BUDGETS:
        check(model, fused, {"ids": ids, "labels": ids.roll(-1, 1)}, mode=mode, budget=budget)


def test_frozen_parameters_and_padding_rows():
    with seeded(4):
        model = TinyLM()
        model.embedding = nn.Embedding(11, 6, padding_idx=0)
        ids = torch.randint(0, 11, (4, 8))
    ids[1, 3:] = 0
    batch = {"ids": ids, "labels": ids.roll(-1, 1)}
    check(model, fused, batch)
    for frozen in ("embedding.weight", "head.weight", "lstm.weight_hh_l0", "head.bias"):
        model.get_parameter(frozen).requires_grad_(False)
        check(model, fused, batch)
        check(model, lambda net, b: per_token(net(b["ids"]), b["labels"]), batch)


@settings(max_examples=25, deadline=None)
@given(
    size=st.integers(0, 4), length=st.integers(1, 140), rows=st.integers(1, 9), columns=st.integers(1, 9),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_gram_squares_equal_those_of_the_gradient(size, length, rows, columns, seed):
    with seeded(seed):
        left, right = torch.randn(size, length, rows).double(), torch.randn(size, length, columns).double()
    squares, terms, magnitudes = gram_squares(left, right)
    assert torch.allclose(squares, torch.einsum("btr,btc->brc", left, right).square().sum((1, 2)), rtol=1e-11)
    assert torch.allclose(terms, (left.square().sum(2) * right.square().sum(2)).sum(1))
    assert torch.allclose(magnitudes, (left.norm(dim=2) * right.norm(dim=2)).sum(1))


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(0, 3), length=st.integers(1, 40), rows=st.integers(1, 60), columns=st.integers(1, 60),
    budget=st.sampled_from(SMALL_BUDGETS), dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)  # fmt: skip
def test_gradients_are_kept_only_where_they_take_hardly_more_memory(size, length, rows, columns, budget, dtype):
    with seeded(length):
        use = OuterUse(torch.randn(size, length, rows).to(dtype), torch.randn(size, length, columns).to(dtype))
    dense = use.as_dense(budget)
    factors = (rows + columns) * length * use.rows.element_size()
    assert (dense is not None) == (4 * rows * columns <= 1.7 * factors)
    if dense is not None:
        gradients, squares = dense
        expected = torch.einsum("btr,btc->brc", use.rows.double(), use.columns.double())
        assert torch.allclose(gradients.gradients.double(), expected, atol=1e-4)
        rounding = 1e-6 * float(use.magnitudes().square().sum())  # of terms that cancel
        assert torch.allclose(squares.norms, expected.square().sum((1, 2)), rtol=1e-5, atol=rounding)
        assert squares.terms is None


def test_norms_that_cancel_are_computed_again():
    # Terms of size 1e4 that add up to 1e-3: their Gram sum has no correct digit in float32.
    class Cancelling(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(600, 600, bias=False)  # so wide that its gradients are not kept

        def forward(self, x):
            return self.layer(x)

    with seeded(0):
        model = Cancelling()
        direction, x = torch.randn(600), torch.randn(64, 600)
        x = torch.cat([x, x * (1 + 1e-6)])[None]
    signs = torch.cat([torch.ones(64), -torch.ones(64)])[None, :, None]

    def losses(net, batch):
        return (net(batch["x"]) * signs * direction.to(batch["x"].dtype)).flatten(1).sum(1)

    for mode in ("book_keeping", "two_pass"):
        sums, norms = engine_sums(model, losses, [{"x": x}], 1e9, mode=mode)
        assert norms[0] == pytest.approx(dp_gradients.norm(sums), rel=1e-5)
    assert OuterUse(torch.zeros(1, 128, 600), x).as_dense(MemoryBudget()) is None
    use = OuterUse((signs * direction).expand(1, -1, -1).contiguous(), x)
    raw, terms, _ = gram_squares(use.rows, use.columns)
    assert float(raw) < 0.05 * float(terms)
    assert abs(float(raw.clamp(min=0).sqrt()) / norms[0] - 1) > 1e-3


@settings(max_examples=20, deadline=None)
@given(size=st.integers(1, 4), length=st.integers(1, 12), rows=st.integers(1, 5), seed=st.integers(0, 99))
def test_repeated_tokens_are_added_up_before_the_norm(size, length, rows, seed):
    with seeded(seed):
        use = RowsUse(torch.randint(0, rows, (size, length)), torch.randn(size, length, 3).double(), rows)
    whole = use.instantiate(0, size)
    assert torch.allclose(use.squares(MemoryBudget()).norms, whole.square().sum((1, 2)), rtol=1e-12)
    sums, parameter = Sums(), nn.Parameter(torch.zeros(rows, 3, dtype=torch.float64))
    factors = torch.rand(size, dtype=torch.float64)
    use.add_weighted(sums, parameter, factors, Scratch())
    assert torch.allclose(sums.of(parameter), torch.tensordot(factors, whole, dims=1))


def test_dropout_between_lstm_layers_is_applied():
    with seeded(1):
        model = TinyLM(layers=2, dropout=0.5)
        ids = torch.randint(0, 11, (3, 5))
    engine = GradientEngine(model, max_grad_norm=1.0)
    with engine.recording():
        first, second = model(ids), model(ids)
    assert not torch.equal(first, second)
    engine.detach()


def test_the_lstm_rule_computes_what_the_layer_computes():
    with seeded(1):
        layer = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)
        x, state = torch.randn(2, 5, 3), (torch.randn(4, 2, 4), torch.randn(4, 2, 4))
    for hx in (None, state):
        expected = layer(x, hx)
        engine = GradientEngine(layer, max_grad_norm=1.0)
        with engine.recording():
            found = layer(x, hx)
        engine.detach()
        assert torch.allclose(found[0], expected[0], atol=1e-6)
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found[1], expected[1], strict=True))
