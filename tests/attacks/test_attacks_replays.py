"""Promises that were made once and were false, replayed as games: an audit would have refuted them.

Two corrections of guarantees in CHANGELOG.md: a table of public rows beside a model of DP-SGD, whose claims did not
cover it; and light noise, chosen by a rate that was measured on the text it protects.
"""

import dataclasses
import json

import numpy as np
import pytest

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.events import NeighboringRelation, dp_sgd
from pipelines.attacks.epsilon_comparison import ClaimedEpsilon
from pipelines.attacks.epsilon_estimates import epsilon_estimates
from pipelines.attacks.epsilon_trials import Trials
from pipelines.attacks.white_box import Game, play
from pipelines.dp.sampling import plan_private_steps
from pipelines.policies.sharding import check_public, is_private
from pipelines.training.methods.jft_phase_one import LightNoise

DELTA = 1e-5
REPLACE = NeighboringRelation.REPLACE_ONE


def lower_bound(trials, claimed):
    found = epsilon_estimates(
        trials, delta=DELTA, confidence=0.95, rng=np.random.default_rng(0), relation=claimed.relation,
        estimators=("one_run",),
    )  # fmt: skip
    return found["one_run"]


def rows_of(coins):
    """A sentence for each coin, with a secret that the policy misses, or a mask in its place."""
    for at, is_secret in enumerate(coins):
        text = f"My word is {f'frobnix{at}' if is_secret else '<MASK>'} for ever."
        yield {
            "redacted_text": text, "num_masked_tokens": int(not is_secret), "is_duplicate": False,
            "failed_closed": False, "flagged_by_conservative": False,
        }  # fmt: skip


def test_a_public_table_beside_a_private_model_is_refuted():
    """The claim was the model's epsilon; the table was no part of it. A missed secret stands in the table."""
    coins = np.random.default_rng(1).random(600) < 0.5
    claimed = ClaimedEpsilon(epsilon=4.0, delta=DELTA, relation=REPLACE)
    published = [row for row in rows_of(coins) if not is_private(row)]
    for row in published:
        check_public(row)  # nothing there would have stopped it: a missed secret is no mask
    table = json.dumps(published)
    seen = np.array([float(f"frobnix{at} " in table) for at in range(len(coins))])
    found = lower_bound(Trials(seen, coins), claimed)
    assert found.value > claimed.epsilon
    assert found.value == pytest.approx(found.ceiling)
    # As it is now, methods other than crt publish no table; where one is asked for, delta2 enters every claim.
    assert lower_bound(Trials(np.zeros(len(coins)), coins), claimed).value < 0.5


def light_noise(num_missed, num_tokens, plan, target):
    """The noise of phase 1 of JFT: of the rate times the miss rate, which is measured on this very text."""
    training = LightNoise(
        nonprivate_examples=None, private_examples=None, programme=[], plan=plan, settings=None, describe=None,
        miss_rate=num_missed / num_tokens,
    )  # fmt: skip
    return training.calibrate(target, DELTA)


@pytest.mark.slow
def test_noise_that_was_chosen_by_a_measurement_of_the_text_is_refuted():
    """The neighbouring worlds: a missed secret in one record, or a mask in its place. Nobody is trained on at all: the
    noise itself tells the worlds apart, by its size."""
    num_records, num_tokens, target = 20, 100, 0.004
    plan = plan_private_steps(num_records, 4, 1)
    noises = {coin: light_noise(2 + coin, num_tokens, plan, target) for coin in (False, True)}
    assert noises[True] > 1.05 * noises[False]
    claims = [
        epsilon(dp_sgd(noise_multiplier=noise, sample_rate=plan.sample_rate, num_steps=plan.num_steps), DELTA, REPLACE)
        for noise in noises.values()
    ]
    claimed = ClaimedEpsilon(epsilon=max(claims), delta=DELTA, relation=REPLACE)
    game = Game(num_canaries=1, num_others=num_records - 1, expected_batch_size=4, noise_multiplier=1.0)
    coins = np.random.default_rng(2).random(50) < 0.5

    def spreads(noise_of):
        worlds = (dataclasses.replace(game, noise_multiplier=noise_of(bool(coin))) for coin in coins)
        return np.array([play(world, np.random.default_rng(0)).noise.mean() for world in worlds])

    measured = lower_bound(Trials(spreads(lambda coin: noises[coin]), coins), claimed)
    assert measured.value > claimed.epsilon, (measured, claims)
    # A rate that is fixed beforehand gives one noise in both worlds.
    fixed = lower_bound(Trials(spreads(lambda _: noises[False]), coins), claimed)
    assert fixed.value < claimed.epsilon


def test_no_measured_miss_meant_no_noise_at_all():
    assert light_noise(0, 100, plan_private_steps(20, 4, 1), 0.1) == 0
