"""The game on the steps that trainings take: correct ones pass, and a fault in the code that ships raises the alarm."""

import dataclasses
import inspect
import itertools

import numpy as np
import pytest
import torch
from audit_faults import CORRECT, FAULTS, LOOP, SPANS, replaced

from pipelines import randomness
from pipelines.artifacts import Target
from pipelines.attacks.attack_training import play_training
from pipelines.attacks.loop_game import Canaries, canary_losses
from pipelines.attacks.sequential_test import SequentialTest
from pipelines.attacks.training_canaries import KILLED_AFTER, NUM_SPARE, CanaryWeights
from pipelines.attacks.training_game import TrainingGame
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.isolation import check_isolation
from pipelines.errors import PrivacyGateError
from pipelines.methods import registry
from pipelines.training import loop
from pipelines.training.machines.launch import launch
from pipelines.training.methods import sdpsgd_lstm
from pipelines.training.methods.base import LoopTraining

OF_KIND = {LOOP: "dpsgd", SPANS: "sdpsgd_lstm"}
NOISED = sorted(name for name in registry.METHODS if name not in ("redacted", "anonymized", "no_dp"))
SLOW = {"jft": pytest.mark.slow, "sdpsgd_lstm": pytest.mark.slow}


def game(method="dpsgd", **changed):
    own = registry.method(method).settings(method=method)
    given = {"num_canaries": 200, "noise_multiplier": 1.0, "sample_rate": 0.1, "max_grad_norm": 0.5, **changed}
    return TrainingGame(method=method, own=own, **given)


def raises_alarm(played):
    return SequentialTest().after("first", played.p_value(np.random.default_rng(0))).is_alarm


def worst(played):
    return min(played.conformance, key=played.conformance.__getitem__)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "first"),
    [
        *(pytest.param(name, False, marks=SLOW.get(name, ())) for name in NOISED),
        pytest.param("jft", True, marks=SLOW["jft"]),
    ],
)
def test_a_method_that_is_correct_passes(method, first):
    of_method = game(method, is_first_phase=first)
    played = play_training(of_method, seed=1)
    assert min(played.conformance.values()) > 1e-7, played.conformance
    assert played.claimed(1e-5) > 0
    assert len(played.trials) == 200
    names = " ".join(played.conformance)
    assert ("hidden state" in names) == (method == "sdpsgd_lstm") == ("sizes of samples" not in names)
    for kind in ("between steps", "between tensors", "between runs", "after a resume"):
        assert f"fresh noise {kind}" in names
    code = of_method.path
    assert code.startswith(
        "pipelines.training.methods.sdpsgd_lstm" if method == "sdpsgd_lstm" else "pipelines.training.loop"
    )
    assert ("jft_phase_one" in code) == first


@pytest.mark.slow
def test_of_a_gru_its_one_state_is_attacked():
    played = play_training(game("sdpsgd_lstm", num_states=1), seed=1)
    assert min(played.conformance.values()) > 1e-7, played.conformance
    names = " ".join(played.conformance)
    assert "hidden state" in names
    assert "cell state" not in names


def test_every_method_with_noised_steps_is_in_these_tests():
    assert NOISED == ["crt", "dpsgd", "jft", "redaction_schedule", "sdpsgd_lstm"]


@pytest.mark.slow
def test_scores_are_those_of_the_training_that_went_on():
    """What was lost with the kill is in no weight, so that the claim is about the planned steps."""
    quiet = game(noise_multiplier=0.05, sample_rate=0.2)
    played = play_training(quiet, seed=3)
    assert played.event.count == 5 == KILLED_AFTER + 1
    # With next to no noise who took part is seen, and nobody else is.
    assert (played.trials.scores[~played.trials.included] < 0).all()
    seen = (played.trials.in_scores > 10).mean()
    assert 0.4 < seen < 0.9  # 1 - 0.8 ** 5 = 0.67


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LOOP, SPANS])
def test_no_noise_where_the_training_takes_it_raises_the_alarm(kind):
    """Sigma forced to 0 inside the loop; the release of S-DPSGD without noise."""
    where = {
        LOOP: (loop, "noisy_step", lambda step: lambda *a, **named: step(*a, **{**named, "noise_multiplier": 0.0})),
        SPANS: (sdpsgd_lstm, "release", lambda _: lambda values, *_: values.detach().clone()),
    }
    with replaced(*where[kind]):
        played = play_training(game(OF_KIND[kind]), seed=2)
    assert raises_alarm(played)


INSIDE = [
    ("the same noise in each block", "noise repeated inside a tensor"),
    ("the second half of each tensor's noise repeats the first", "noise repeated inside a tensor"),
    ("each second coordinate's noise repeats its neighbour's", "noise repeated inside a tensor"),
    ("uniform noise of the right variance", "shape of the noise"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "test"), INSIDE)
def test_a_fault_inside_the_noise_of_a_tensor_raises_the_alarm(name, test):
    (fault,) = (one for one in FAULTS if one.name == name)
    with fault.put_into(LOOP):
        played = play_training(game(), seed=2)
    assert played.conformance[test] < 1e-12, played.conformance
    assert raises_alarm(played)


@pytest.mark.slow
def test_states_that_are_not_clipped_raise_the_alarm():
    with replaced(sdpsgd_lstm, "clip_rows", lambda _: lambda values, _: values):
        played = play_training(game("sdpsgd_lstm"), seed=2)
    assert worst(played) in ("largest move of a record, hidden state", "largest move of a record, cell state")
    assert raises_alarm(played)


@pytest.mark.slow
def test_a_training_that_takes_other_steps_is_no_subject_of_a_claim():
    def one_less(train):
        def run(self, model, noise, context):
            outcome = train(self, model, noise, context)
            return dataclasses.replace(outcome, num_steps=outcome.num_steps - 1)

        return run

    with replaced(LoopTraining, "train", one_less), pytest.raises(PrivacyGateError):
        play_training(game(), seed=0)


def test_a_fault_that_patches_nothing_fails():
    with pytest.raises(AssertionError, match="never called"), replaced(loop, "noisy_step", lambda step: step):
        pass


def test_the_game_copies_no_step_of_a_training():
    """It hands canaries to the method's own code: it neither clips nor draws, nor adds noise."""
    from pipelines.attacks import loop_game, span_game, training_canaries, training_game

    for module in (loop_game, span_game, training_canaries, training_game):
        text = inspect.getsource(module)
        for name in ("noisy_step", "add_noise", "poisson_sample", "clip_", "GradientEngine"):
            assert name not in text, (module, name)


def on_ranks(seed, folder, is_broken, progress):
    """Run by each of several processes; broken ones all draw the same randomness."""
    del progress
    if not is_broken:
        return play_training(game(), seed, folder)
    shared = secrets_of(seed)
    with replaced(randomness, "unpredictable", lambda _: lambda step: next(shared)):
        return play_training(game(), seed, folder)


def secrets_of(seed):
    """Other generators in each step, and the same in all processes."""
    return (np.random.default_rng([seed, at]) for at in itertools.count())


@pytest.mark.slow
@pytest.mark.parametrize("is_broken", [False, True])
def test_processes_that_train_together_are_played_together(tmp_path, is_broken):
    place = Target(folder=tmp_path)
    played = launch(
        on_ranks, (7, tmp_path, is_broken), count=2, device="cpu", progress=lambda *_: None, failures=place
    )  # fmt: skip
    assert raises_alarm(played) == is_broken, played.conformance
    if is_broken:  # neighbours are of different processes: each enters with the other
        assert played.conformance["pairs sampled together"] < 1e-10


CASES = [(fault, kind) for fault in (CORRECT, *FAULTS) for kind in fault.patches]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "kind"), CASES, ids=lambda value: getattr(value, "name", value))
def test_every_fault_raises_the_alarm_on_the_first_night(fault, kind):
    with fault.put_into(kind):
        played = play_training(game(OF_KIND[kind], num_canaries=2_000, noise_multiplier=3.0), seed=4)
    assert raises_alarm(played) == (fault is not CORRECT), played.conformance


@pytest.mark.slow
@pytest.mark.parametrize("method", ["crt", "jft", "redaction_schedule"])
def test_a_fault_of_the_loop_is_seen_through_every_method(method):
    for fault in FAULTS[:3]:
        with fault.put_into(LOOP):
            assert raises_alarm(play_training(game(method), seed=5)), fault.name


@pytest.mark.slow
def test_forty_correct_trainings_raise_no_alarm():
    p_values = [play_training(game(), seed).p_value(np.random.default_rng(seed)) for seed in range(40)]
    state = SequentialTest()
    for night, p_value in enumerate(p_values):
        state = state.after(str(night), p_value)
    assert not state.is_alarm
    assert np.mean(np.array(p_values) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 40)


@pytest.mark.slow
def test_canaries_whose_coordinates_cancel_are_not_taken_for_coupled():
    """The sum of a canary's coordinates may be tiny by chance, and rounds like them: one game of 600 stopped for it."""
    torch.manual_seed(0)
    model = CanaryWeights(1_000 + NUM_SPARE)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
        model.embedding.weight.zero_()
        numbers = torch.arange(model.num_weights).split(7)
        model.embedding.weight.copy_(-torch.cat([model(part) for part in numbers])[:, None] / model.share)
    canaries = Canaries(np.ones(model.num_weights), lambda _: None)

    def collate(rows):
        return canaries.collate(np.asarray(rows)).to(torch.device("cpu"), torch.float32)

    engine = GradientEngine(model, max_grad_norm=1.0)
    for first in range(0, 1_000, 50):  # the shapes of some products round the first canary alike
        rows = list(range(first, first + 40))
        assert check_isolation(engine, rows, 10, 25, collate, lambda batch: canary_losses(model, batch)) == ()
