"""The training game on the steps of any method: see `pipelines.attacks.training_game`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from pipelines.attacks.loop_game import play_loop
from pipelines.attacks.span_game import play_spans
from pipelines.attacks.training_game import PlayedTraining, TrainingGame
from pipelines.training.devices import cpu_threads_for


def play_training(game: TrainingGame, seed: int | None = None, folder: Path | None = None) -> PlayedTraining:
    """Plays a game. All processes of a training call it with the same arguments.

    Args:
        game: settings of the game.
        seed: seed of the coins; the training's own samples and noise are secret. Unset: secret coins.
        folder: folder for checkpoints, which all processes share. Unset: a temporary one.

    Raises:
        PrivacyGateError: the training took other steps than it planned, so there is no claim about it.
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            return play_training(game, seed, Path(made))
    with cpu_threads_for(0):
        return (play_spans if game.takes_spans else play_loop)(game, np.random.default_rng(seed), folder)
