"""What people bring from ordinary loops, and from Opacus: the error names the call to use."""

import pytest
import torch
from private_loops import PrivateLoop, cross_entropies, network, rows
from torch import nn
from torch.utils.data import DataLoader

from pipelines.accounting import accountants
from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.accounting.events import NeighboringRelation, dp_sgd
from pipelines.dp.errors import LossError, UnsupportedLayerError
from pipelines.dp.privacy import PrivacyEngine
from pipelines.errors import ConfigError, PrivacyGateError

CALL = r"optimizer\.backward\(losses\)"


def first(loop):
    batch = next(iter(loop.loader))
    return batch, cross_entropies(loop.model, batch)


def test_the_backward_of_an_ordinary_loop_names_the_call():
    loop = PrivateLoop()
    for batch in loop.loader:
        with pytest.raises(LossError, match=CALL):
            cross_entropies(loop.model, batch).mean().backward()
        break
    assert loop.took_nothing()


def test_a_loss_of_the_batch_names_the_call():
    loop = PrivateLoop()
    for x, y in loop.loader:
        with pytest.raises(LossError, match=CALL + ".*reduction='none'"):
            loop.optimizer.backward(nn.functional.cross_entropy(loop.model(x), y))
        break


def test_a_step_without_backward_names_the_call():
    loop = PrivateLoop()
    for batch in loop.loader:
        cross_entropies(loop.model, batch)
        with pytest.raises(PrivacyGateError, match=CALL):
            loop.optimizer.step()
        break
    with pytest.raises(PrivacyGateError, match=CALL):  # not even a step
        for _ in loop.loader:
            pass
    assert loop.took_nothing()


@pytest.mark.parametrize("relation", ["add_remove", "replace", "", None])
def test_a_wrong_relation_names_the_right_ones(relation):
    event = dp_sgd(noise_multiplier=1.0, sample_rate=0.1, num_steps=2)
    calls = [
        lambda: PrivacyEngine(relation=relation),
        lambda: accountants.epsilon(event, 1e-5, relation),
        lambda: calibrate_noise_multiplier(
            target_epsilon=1.0, target_delta=1e-5, sample_rate=0.1, num_steps=2, relation=relation
        ),
        lambda: NeighboringRelation(relation),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match=r"relation='replace_one'.*relation='add_or_remove_one'"):
            call()
    with pytest.raises(ValueError, match="unknown relation"):
        NeighboringRelation(relation)


def test_the_default_relation_is_one_and_the_same():
    """That of the library; the commands of papers' figures (`reticent privacy`) say theirs."""
    event = dp_sgd(noise_multiplier=1.0, sample_rate=0.1, num_steps=2)
    assert accountants.epsilon(event, 1e-5) == accountants.epsilon(event, 1e-5, "replace_one")
    engine = PrivacyEngine()
    assert engine._relation is NeighboringRelation.REPLACE_ONE


def test_assigning_the_noise_names_make_private():
    loop = PrivateLoop(noise=1.5)
    with pytest.raises(ConfigError, match="noise_multiplier is set in make_private"):
        loop.optimizer.noise_multiplier = 0.0
    assert loop.optimizer.noise_multiplier == 1.5


def test_an_optimizer_that_needs_a_closure_is_refused_with_others_to_take():
    model = network()
    loader = DataLoader(rows(), batch_size=8)
    optimizer = torch.optim.LBFGS(model.parameters())
    with pytest.raises(ConfigError, match=r"LBFGS .*closure.*SGD, Adam, AdamW"):
        PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
        )


@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_on_parameters_are_refused_whenever_they_come(kind):
    seen = []
    model = network()
    handle = getattr(model[0].weight, kind)(seen.append)
    with pytest.raises(ConfigError, match=r"'0.weight' has a hook.*handle\.remove.*step_pre_hook"):
        PrivateLoop(model=model)
    handle.remove()
    loop = PrivateLoop(model=network()).run()
    seen.clear()
    getattr(loop.model[0].weight, kind)(seen.append)
    with pytest.raises(ConfigError, match=r"'0\.weight' has a hook"):
        loop.run()
    assert seen == []  # no gradient of a record reached it
    with pytest.raises(ConfigError, match="register_step_post_hook"):
        loop.optimizer.register_step_pre_hook(seen.append)


def test_what_is_unfrozen_later_says_when_to_do_it():
    model = network()
    model[0].requires_grad_(False)
    loop = PrivateLoop(model=model).run()
    model[0].requires_grad_(True)
    with pytest.raises(ConfigError, match=r"'0.weight' became trainable after make_private.*requires_grad_\(True\)"):
        loop.run()
    loop.optimizer.abandon()
    model[0].requires_grad_(False)
    assert loop.run().engine.num_steps == 6


def test_what_has_no_rule_and_is_unfrozen_later_says_so():
    model = network(nn.PReLU(4).requires_grad_(False))
    loop = PrivateLoop(model=model).run()
    model[1].requires_grad_(True)
    loop.optimizer.param_groups[0]["params"].append(model[1].weight)
    with pytest.raises(UnsupportedLayerError, match=r"'1\.weight' became trainable after make_private, and is used"):
        loop.run()
    assert loop.engine.num_steps == 3


def test_what_the_optimizer_holds_may_be_unfrozen_and_is_trained():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[0].requires_grad_(False)
    loader = DataLoader(rows(), batch_size=8)
    _, private, loader = PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0
    )
    before = model[0].weight.detach().clone()
    for is_frozen in (True, False):
        model[0].requires_grad_(not is_frozen)
        for batch in loader:
            private.backward(cross_entropies(model, batch))
            private.step()
        assert torch.equal(before, model[0].weight) is is_frozen
