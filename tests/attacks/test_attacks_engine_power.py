"""The game of an audit at its default size: every fault is caught, and what the report says of it was measured."""

import json

import numpy as np
import pytest
from broken_engines import BROKEN
from support import REPOSITORY

from pipelines.attacks import engine_power
from pipelines.attacks.epsilon_comparison import Power, claim_p_value
from pipelines.attacks.nights import Nights
from pipelines.attacks.white_box import ENGINE_PLANS, Game, play
from pipelines.stages.audit_config import AuditConfig

# The built-in job's training for epsilon 8 (replace-one, delta 1e-5): 9,099 records, 256 in a step, 8 epochs.
GAME = Game.of_training(
    AuditConfig().num_trials, noise_multiplier=0.7375372145323829, sample_rate=256 / 9099, max_grad_norm=0.5
)


def alarm(seed):
    played = play(GAME, np.random.default_rng(seed))
    p_value = claim_p_value(played.trials, GAME.claimed_profile(), rng=np.random.default_rng(seed), plans=ENGINE_PLANS)
    return Nights().after("first", p_value).is_alarm


def test_the_game_is_an_epoch_of_the_training_in_microbatches():
    assert GAME.epochs == 1
    assert GAME.plan.num_steps == 36
    assert GAME.plan.sample_rate == pytest.approx(256 / 9099, rel=0.01)
    assert GAME.max_physical_batch_size == 141
    assert Game.of_training(100, noise_multiplier=1.0, sample_rate=1e-6, max_grad_norm=1.0).plan.num_steps == 100


def test_what_the_report_says_was_measured():
    measured = json.loads((REPOSITORY / "benchmarks/results/audit_tightness.json").read_text())["stage"]
    told = engine_power.measured_power(AuditConfig().num_trials)
    assert told is not None
    assert engine_power.measured_power(engine_power.NUM_TRIALS - 1) is None
    found = {(row["engine"], row["target_epsilon"]): row["alarm_first_night"] for row in measured}
    assert len(found) == len(told["rows"])
    for row in told["rows"]:
        counted = found[row["engine"], row["epsilon"]]
        assert (row["num_flagged"], told["num_runs"]) == (counted["num_flagged"], counted["num_runs"])
        assert (row["low"], row["high"]) == pytest.approx((counted["low"], counted["high"]))
    assert {row["num_trials"] for row in measured} == {told["num_trials"]}


@pytest.mark.slow
@pytest.mark.parametrize("fault", [None, *BROKEN])
def test_an_audits_game_catches_broken_engines_in_the_first_night(monkeypatch, fault):
    if fault is not None:
        fault(monkeypatch, GAME)
    flags = [alarm(seed) for seed in range(3)]
    assert flags == [fault is not None] * 3, Power.of(flags)
