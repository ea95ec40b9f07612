"""PrivacyEngine: an ordinary loop made private, its accounting, what it refuses."""

import copy
import json
import warnings

import numpy as np
import pytest
import torch
from engine_models import gpt2, per_token, seeded
from oracles import dp_gradients
from private_loops import INSECURE, cross_entropies, network, rows, weights
from scipy import stats
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

from pipelines.accounting.accountants import epsilon, rdp_epsilon
from pipelines.accounting.events import NeighboringRelation, dp_sgd
from pipelines.dp.errors import LossError
from pipelines.dp.language import causal_lm_losses
from pipelines.dp.privacy import PrivacyEngine
from pipelines.errors import ConfigError, InputError, PrivacyGateError

ADD_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE


def made(
    engine=None, *, size=24, batch_size=6, optimizer=torch.optim.SGD, lr=0.1, model=None, collate_fn=None, **settings
):  # fmt: skip
    engine = engine or PrivacyEngine(**INSECURE)
    model = model or network()
    settings = {"noise_multiplier": 1.0, "max_grad_norm": 0.5, **settings}
    call = engine.make_private_with_epsilon if "target_epsilon" in settings else engine.make_private
    if "target_epsilon" in settings:
        del settings["noise_multiplier"]
    module, private, loader = call(
        module=model,
        optimizer=optimizer([p for p in model.parameters() if p.requires_grad], lr=lr),
        data_loader=DataLoader(rows(size), batch_size=batch_size, shuffle=True, collate_fn=collate_fn),
        **settings,
    )
    return engine, module, private, loader


def run(module, private, loader, epochs=1):
    for _ in range(epochs):
        for batch in loader:
            private.backward(cross_entropies(module, batch))
            private.step()
            private.zero_grad()


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("limit", [None, 1, 4])
def test_a_private_loop_is_the_slow_one(optimizer, limit):
    engine, module, private, loader = made(optimizer=optimizer, noise_multiplier=0.0, max_physical_batch_size=limit)
    reference = copy.deepcopy(module)
    for layer in reference.modules():
        layer.__dict__.pop("forward", None)
    plain = optimizer(reference.parameters(), lr=0.1)
    drawn = loader._randomness  # the samples of the very same steps
    run(module, private, loader, epochs=2)
    data = rows()
    for step in range(8):
        sample = np.flatnonzero(drawn(step).random(24) < 0.25)
        gradients = [
            dp_gradients.example_gradients(reference, lambda m, _, i=i: cross_entropies(m, data[i : i + 1])[0], 1)[0]
            for i in sample
        ]
        total = (
            dp_gradients.clipped_sum(gradients, dp_gradients.limit(0.5))
            if gradients
            else [torch.zeros_like(p) for p in reference.parameters()]
        )
        for parameter, value in zip(reference.parameters(), total, strict=True):
            parameter.grad = (value / 6).float()
        plain.step()
    assert engine.num_steps == 8
    assert torch.allclose(weights(module), weights(reference), rtol=1e-5, atol=1e-6)


def test_physical_batches_change_nothing_but_memory():
    found = []
    for limit in (None, 1, 5):
        _, module, private, loader = made(max_physical_batch_size=limit)
        run(module, private, loader)
        found.append(weights(module))
    assert torch.allclose(found[0], found[1], atol=1e-6)
    assert torch.allclose(found[0], found[2], atol=1e-6)


def handed_over(private, module):
    """What the wrapped optimizer is handed at each step, as flat tensors."""
    seen = []
    private._inner.register_step_pre_hook(
        lambda *_: seen.append(torch.cat([p.grad.flatten() for p in module.parameters()]).clone())
    )
    return seen


@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("limit", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_noise_enters_once_a_step_and_is_divided_by_the_expected_size(batch_size, limit):
    # At a learning rate of 0 and a tiny bound, what is handed over is noise: nearly every sample has several parts,
    # and with one record expected a third of the samples are empty.
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.mul_(0).add_(1e3)  # the loss is flat there: no gradient at all
    engine, module, private, loader = made(
        model=model,
        batch_size=batch_size,
        lr=0.0,
        noise_multiplier=1.7,
        max_grad_norm=1e-3,
        max_physical_batch_size=limit,
    )
    seen = handed_over(private, module)
    for _ in range(120 * batch_size // 24 + 1):
        for batch in loader:
            private.backward(cross_entropies(module, batch) * 1e-12)
            private.step()
    values = torch.cat(seen).numpy()
    deviation = 1.7e-3 / batch_size
    assert len(seen) == engine.num_steps
    assert stats.kstest(values, stats.norm(scale=deviation).cdf).pvalue > 1e-3
    for wrong in (deviation * 2 / 3, deviation * 1.5):
        assert stats.kstest(values, stats.norm(scale=wrong).cdf).pvalue < 1e-6


def test_unpredictable_runs_differ_and_test_seeds_repeat():
    def final(engine):
        _, module, private, loader = made(engine)
        run(module, private, loader)
        return weights(module)

    assert not torch.equal(final(PrivacyEngine()), final(PrivacyEngine()))
    assert torch.equal(final(PrivacyEngine(**INSECURE)), final(PrivacyEngine(**INSECURE)))


@pytest.mark.slow
def test_epsilon_is_that_of_the_steps_taken():
    engine = PrivacyEngine(relation="add_or_remove_one")
    assert engine.get_epsilon(1e-3) == 0
    _, module, private, loader = made(engine)
    run(module, private, loader, epochs=2)
    event = dp_sgd(noise_multiplier=1.0, sample_rate=0.25, num_steps=8)
    assert engine.num_steps == 8
    assert engine.get_epsilon(1e-3) == pytest.approx(epsilon(event, 1e-3, ADD_REMOVE), rel=1e-9)
    assert engine.is_guarantee
    by_rdp = PrivacyEngine(accountant="rdp", relation="add_or_remove_one")
    _, module, private, loader = made(by_rdp)
    run(module, private, loader, epochs=2)
    assert by_rdp.get_epsilon(1e-3) == pytest.approx(rdp_epsilon(event, 1e-3, ADD_REMOVE), rel=1e-9)
    replaced = PrivacyEngine(accountant="rdp")
    replaced.load_state_dict(by_rdp.state_dict())
    with pytest.raises(ConfigError, match="pld"):
        replaced.get_epsilon(1e-3)


def test_a_target_is_met_and_never_exceeded():
    engine, module, private, loader = made(PrivacyEngine(), target_epsilon=0.5, target_delta=1e-3, epochs=2)
    run(module, private, loader, epochs=2)
    assert 0.49 < engine.get_epsilon(1e-3) <= 0.5
    with pytest.raises(PrivacyGateError, match="used up"):
        run(module, private, loader)
    assert engine.num_steps == 8
    assert engine.get_epsilon(1e-3) <= 0.5


def test_a_resumed_run_goes_on_counting():
    whole, module, private, loader = made(target_epsilon=0.5, target_delta=1e-3, epochs=3)
    run(module, private, loader)
    saved = json.loads(json.dumps(whole.state_dict())), module.state_dict(), private.state_dict()
    engine, resumed, private2, loader2 = made(target_epsilon=0.5, target_delta=1e-3, epochs=3)
    with pytest.raises(PrivacyGateError, match="more steps"):
        engine.load_state_dict({**saved[0], "history": [[1.0, 0.25, 13]]})
    engine.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    private2.load_state_dict(saved[2])
    run(module, private, loader, epochs=2)
    run(resumed, private2, loader2, epochs=2)
    assert engine.num_steps == whole.num_steps == 12
    assert torch.equal(weights(module), weights(resumed))  # a test seed: the same samples and noise, step by step
    with pytest.raises(PrivacyGateError, match="used up"):
        run(resumed, private2, loader2)
    with pytest.raises(PrivacyGateError, match="before the first step"):
        engine.load_state_dict(saved[0])
    with pytest.raises(ConfigError, match="state"):
        PrivacyEngine().load_state_dict({"version": 99})


@pytest.mark.slow
def test_a_test_seed_needs_consent_and_voids_the_guarantee_for_good():
    for wrong in ({"test_seed": 1}, {"insecure_test_seed": True}):
        with pytest.raises(ConfigError, match="insecure_test_seed"):
            PrivacyEngine(**wrong)
    engine, module, private, loader = made()
    run(module, private, loader)
    assert not engine.is_guarantee
    with pytest.warns(UserWarning, match="no guarantee"):
        engine.get_epsilon(1e-3)
    clean, *others = made(PrivacyEngine())
    clean.load_state_dict(engine.state_dict())
    run(*others)
    assert not clean.is_guarantee


def test_a_large_delta_is_warned_about():
    engine, *_ = made(PrivacyEngine())
    with pytest.warns(UserWarning, match="1/24"):
        engine.get_epsilon(1 / 24)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.get_epsilon(1 / 25)


def test_arguments_that_mean_nothing_here_are_refused():
    for name in ("target_delta", "batch_first", "loss_reduction", "error_rate"):
        with pytest.raises(TypeError, match=name):
            made(PrivacyEngine(), **{name: 1})
    with pytest.raises(TypeError, match="secure_mode"):
        PrivacyEngine(secure_mode=True)
    with pytest.raises(ConfigError, match="no upper bound"):
        PrivacyEngine(accountant="gdp_clt")
    for settings, message in (
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"noise_multiplier": float("nan")}, "noise_multiplier"),
        ({"max_physical_batch_size": 0}, "at least 1"),
        ({"target_epsilon": 1.0, "target_delta": 1e-3, "epochs": 0}, "epochs"),
        ({"target_epsilon": 0.0, "target_delta": 1e-3, "epochs": 1}, "target_epsilon"),
    ):
        with pytest.raises(ConfigError, match=message):
            made(PrivacyEngine(), **settings)


class Stream(IterableDataset):
    def __iter__(self):
        return iter([])


@pytest.mark.parametrize(
    ("loader", "error", "message"),
    [
        (lambda: DataLoader(Stream(), batch_size=2), ConfigError, "length"),
        (lambda: DataLoader(rows(), batch_size=None), ConfigError, "batch_size"),
        (
            lambda: DataLoader(rows(), batch_size=2, sampler=WeightedRandomSampler([1.0] * 24, 4)),
            ConfigError,
            "sampler",
        ),
        (lambda: DataLoader(rows(0), batch_size=2), InputError, "empty"),
    ],
)
def test_loaders_that_cannot_be_sampled_are_refused(loader, error, message):
    model = nn.Linear(3, 2)
    with pytest.raises(error, match=message):
        PrivacyEngine().make_private(
            module=model, optimizer=torch.optim.SGD(model.parameters()), data_loader=loader(), noise_multiplier=1.0,
            max_grad_norm=1.0,
        )  # fmt: skip


def test_an_optimizer_of_other_parameters_is_refused():
    model, other = nn.Linear(3, 2), nn.Linear(3, 2)
    for parameters in ([model.weight], [*model.parameters(), *other.parameters()]):
        with pytest.raises(ConfigError, match="requires_grad"):
            PrivacyEngine().make_private(
                module=model, optimizer=torch.optim.SGD(parameters), data_loader=DataLoader(rows(), batch_size=2),
                noise_multiplier=1.0, max_grad_norm=1.0,
            )  # fmt: skip
        model = nn.Linear(3, 2)


def test_misuse_of_a_loop_is_refused():
    _, module, private, loader = made()
    with pytest.raises(PrivacyGateError, match="private loader"):
        private.step()
    with pytest.raises(PrivacyGateError, match="once for each batch"):
        private.backward(torch.zeros(1))
    for batch in loader:
        private.backward(cross_entropies(module, batch))
        with pytest.raises(PrivacyGateError, match="once"):  # the same records a second time
            private.backward(cross_entropies(module, batch))
        private.step()
        with pytest.raises(PrivacyGateError, match="once each"):
            private.step()
        with pytest.raises(ConfigError, match="closure"):
            private.step(lambda: 0.0)

    def loop(factor):
        for batch in loader:
            private.backward(cross_entropies(module, batch) * factor)

    with pytest.raises(PrivacyGateError, match="after every batch"):
        loop(1)
    with pytest.raises(LossError, match="finite"):
        loop(float("nan"))
    with pytest.raises(ConfigError, match="before make_private"):
        private.add_param_group({"params": []})


def test_a_loop_that_is_left_leaves_nothing_behind():
    _, module, private, loader = made(noise_multiplier=0.0, max_physical_batch_size=1)
    for batch in loader:
        private.backward(cross_entropies(module, batch))
        break
    assert not any(s.any() for s in private._engine.take_sums())
    cross_entropies(module, rows()[:4]).mean().backward()  # and the model trains as ever
    assert module[0].weight.grad.any()


@pytest.mark.slow
def test_a_language_model_learns_privately():
    with seeded(0):
        ids = (torch.arange(9)[None] + torch.randint(0, 12, (96, 1))) % 12  # counting upwards
    model = gpt2(vocab=12, width=16)
    engine = PrivacyEngine(**INSECURE)
    module, private, loader = engine.make_private(
        module=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.02), noise_multiplier=0.3,
        data_loader=DataLoader(TensorDataset(ids), batch_size=32), max_grad_norm=0.3, max_physical_batch_size=16,
    )  # fmt: skip

    def loss():
        with torch.no_grad():
            return float(per_token(model(ids).logits[:, :-1], ids[:, 1:]).mean())

    before = loss()
    for _ in range(12):
        for (batch,) in loader:
            private.backward(causal_lm_losses(module, batch, batch))
            private.step()
    assert loss() < before / 2
