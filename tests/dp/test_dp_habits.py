"""What people bring from ordinary loops, and from Opacus: the error names the call to use."""

import pytest
from private_loops import PrivateLoop, cross_entropies
from torch import nn

from pipelines.accounting import accountants
from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.accounting.events import NeighboringRelation, dp_sgd
from pipelines.dp.errors import LossError
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
