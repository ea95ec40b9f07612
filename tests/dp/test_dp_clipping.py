"""Per-layer and adaptive clipping: sums against one example at a time, and what they cost."""

import math

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting import rdp
from engine_models import SMALL_BUDGETS, engine_sums, fused, per_token, seeded
from engine_models import TinyLM as LM
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import dp_gradients
from private_loops import INSECURE, PrivateLoop
from support.patches import patching
from torch import nn

from pipelines.dp import cancellation
from pipelines.dp.clipping import AdaptiveClipping
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.noisy_steps import noisy_step
from pipelines.dp.privacy import PrivacyEngine
from pipelines.errors import ConfigError, PrivacyGateError


def clipped_by_layer(gradients, bound):
    """Each parameter's gradient of each example clipped to bound / sqrt(L), added up; one example at a time."""
    each = bound / math.sqrt(len(gradients[0]))
    totals = [torch.zeros_like(g) for g in gradients[0]]
    for example in gradients:
        for total, gradient in zip(totals, example, strict=True):
            norm = float(gradient.norm())
            total += gradient * min(1.0, each / norm if norm else 1.0)
    return totals


@settings(max_examples=10, deadline=None)
@given(
    size=st.integers(1, 4), length=st.integers(1, 7), tied=st.booleans(), is_fused=st.booleans(), apart=st.booleans(),
    budget=st.sampled_from(SMALL_BUDGETS), mode=st.sampled_from(["book_keeping", "two_pass"]), seed=st.integers(0, 99),
    bound=st.sampled_from([0.05, 0.5, 5.0]),
)  # fmt: skip
def test_per_layer_clipping_is_exact(size, length, tied, is_fused, apart, budget, mode, seed, bound):
    with seeded(seed):
        model = LM(tied=tied).double()
        ids = torch.randint(0, 11, (size, length))

    def losses(net, batch):
        return fused(net, batch) if is_fused else per_token(net(batch["ids"]), batch["labels"])

    batch = {"ids": ids, "labels": ids.roll(-1, 1)}
    gradients = dp_gradients.example_gradients(
        model, lambda net, i: losses(net, {k: v[i : i + 1] for k, v in batch.items()})[0], size
    )
    with patching() as patch:
        if apart:  # every example is added by itself, as one whose terms cancel
            patch.constant(cancellation, "MOST_MAGNITUDE", {torch.float64: -1.0})
        sums, norms = engine_sums(model, losses, [batch], bound, clipping="per_layer", mode=mode, budget=budget)
        one, _ = engine_sums(
            model, losses, [{k: v[:1] for k, v in batch.items()}], bound, clipping="per_layer", mode=mode
        )
    assert dp_gradients.relative_error(sums, clipped_by_layer(gradients, bound)) < 1e-10
    assert norms == pytest.approx([dp_gradients.norm(g) for g in gradients], rel=1e-10)
    assert dp_gradients.norm(one) <= bound * (1 + 1e-12)


def test_per_layer_clipping_in_a_private_loop():
    loop = PrivateLoop(noise=0.0, limit=3, clipping="per_layer", max_grad_norm=0.01)
    loop.run()
    num_layers = len(list(loop.model.parameters()))
    for update in loop.handed:
        sizes = [part.norm() * 8 for part in update.split([p.numel() for p in loop.model.parameters()])]
        assert all(size > 0 for size in sizes)
        assert all(size <= 24 * 0.01 / math.sqrt(num_layers) * (1 + 1e-6) for size in sizes)


@pytest.mark.parametrize(("noise", "count_noise"), [(0.5, 1.5), (2.0, 8.0)])
def test_adaptive_clipping_costs_what_a_fixed_norm_does(noise, count_noise):
    """Oracle: another library composes both Gaussian releases of one Poisson sample, against one of multiplier z."""
    clipping = AdaptiveClipping(count_noise=count_noise)
    gradients = clipping.noise_on_gradients(noise, 100.0)
    assert gradients > noise
    both = [gradients, count_noise / 0.5]  # a bit less one half moves the count by one half

    def cost(event):
        accountant = rdp.RdpAccountant()
        accountant.compose(dp_accounting.PoissonSampledDpEvent(0.1, event), 10)
        return accountant.get_epsilon(1e-5)

    found = cost(dp_accounting.ComposedDpEvent([dp_accounting.GaussianDpEvent(z) for z in both]))
    assert found == pytest.approx(cost(dp_accounting.GaussianDpEvent(noise)), rel=1e-12)
    noisier = [dp_accounting.GaussianDpEvent(z) for z in (noise, count_noise / 0.5)]
    assert cost(dp_accounting.ComposedDpEvent(noisier)) > found * (1 + 1e-4)  # the count is not free


def test_the_norm_follows_the_quantile():
    """Without noise: the paper's update, step by step, and in the end the quantile of the norms."""
    with seeded(1):
        x = torch.rand(200, 1).double() + 0.5
    model = nn.Linear(1, 1, bias=False).double()
    engine = GradientEngine(model, max_grad_norm=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    clipping = AdaptiveClipping(quantile=0.3, learning_rate=0.5)
    expected = 0.01
    for _ in range(40):
        for part in x.split(120):  # the losses' gradients are the inputs
            with engine.recording():
                losses = model(part)[:, 0]
            engine.backward(losses)
        assert engine.num_within == pytest.approx(float((x <= expected).double().sub(0.5).sum()))
        with pytest.raises(PrivacyGateError, match="within a step"):
            engine.max_grad_norm = 1.0
        expected *= math.exp(-0.5 * (float((x <= expected).double().mean()) - 0.3))
        rng = np.random.default_rng(0)
        noisy_step(optimizer, engine, noise_multiplier=0.0, expected_batch_size=200, rng=rng, adaptive=clipping)
        assert engine.max_grad_norm == pytest.approx(expected)
        assert engine.num_within == 0
    assert float((x <= expected).double().mean()) == pytest.approx(0.3, abs=0.02)


def test_both_noises_are_as_large_as_they_have_to_be():
    model = nn.Linear(200, 1, bias=False).double()
    clipping = AdaptiveClipping(count_noise=3.0, learning_rate=0.1)
    counts, spreads = [], []
    engine = GradientEngine(model, max_grad_norm=2.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for seed in range(100):  # empty samples: noise alone
        engine.max_grad_norm = 2.0
        before = model.weight.detach().clone()
        rng = np.random.default_rng([7, seed])
        noisy_step(optimizer, engine, noise_multiplier=1.5, expected_batch_size=50.0, rng=rng, adaptive=clipping)
        share = 0.5 - math.log(engine.max_grad_norm / 2.0) / 0.1
        counts.append((share - 0.5) * 50)
        spreads.append(float((before - model.weight.detach()).std()) * 50)
    assert np.std(counts) == pytest.approx(3.0, rel=0.2)
    assert abs(np.mean(counts)) < 1.2
    wanted = 2.0 * (1.5**-2 - 6.0**-2) ** -0.5  # of the norm before the step
    assert np.mean(spreads) == pytest.approx(wanted, rel=0.02)


def test_adaptive_clipping_in_a_private_loop_and_after_a_resume():
    clipping = AdaptiveClipping(count_noise=2.0)
    loop = PrivateLoop(limit=3, adaptive_clipping=clipping)
    fixed = PrivateLoop(limit=3)
    assert loop.optimizer.max_grad_norm == 0.5
    loop.run()
    fixed.run()
    assert loop.optimizer.max_grad_norm != 0.5
    assert loop.engine.event == fixed.engine.event
    again = PrivateLoop(engine=PrivacyEngine(**INSECURE), adaptive_clipping=clipping)
    again.engine.load_state_dict(loop.engine.state_dict())
    assert again.optimizer.max_grad_norm == loop.optimizer.max_grad_norm
    plain = PrivateLoop(engine=PrivacyEngine(**INSECURE))
    plain.engine.load_state_dict(loop.engine.state_dict())
    assert plain.optimizer.max_grad_norm == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"adaptive_clipping": AdaptiveClipping(count_noise=0.5)}, "the count alone"),
        ({"adaptive_clipping": AdaptiveClipping()}, r"count_noise=\.\.\."),  # a twentieth of 8 records
        ({"adaptive_clipping": AdaptiveClipping(count_noise=5.0), "clipping": "automatic"}, "clipping='flat'"),
        ({"adaptive_clipping": AdaptiveClipping(count_noise=5.0), "clipping": "per_layer"}, "clipping='flat'"),
    ],
)
def test_what_does_not_add_up_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        PrivateLoop(noise=1.0, **options)


@pytest.mark.parametrize("options", [{"quantile": 0}, {"quantile": 1}, {"learning_rate": 0}, {"count_noise": 0}])
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(ConfigError):
        AdaptiveClipping(**options)
