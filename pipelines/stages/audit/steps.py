"""Audit: the games on the noised steps of the run's own method, and on those of its first phase."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pipelines.accounting.events import Event, PoissonSampled, SelfComposed, from_json
from pipelines.attacks.attack_training import play_training
from pipelines.attacks.training_game import PlayedTraining, TrainingGame
from pipelines.context import StageContext
from pipelines.methods.registry import METHODS
from pipelines.settings.audit import records_of_person
from pipelines.stages.train.ranks import on_ranks
from pipelines.training.models.shape import num_states

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pipelines.settings.train import TrainConfig

LEAST_PEOPLE: Final = 20
"""Fewest people of a game, however few trials the settings ask for."""
NOT_PLAYED: Final = (
    "the method is of another package and could not be planned on canaries ({}): the steps that it takes were not "
    "attacked"
)


def played_games(ctx: StageContext) -> tuple[list[tuple[TrainingGame, PlayedTraining]], str | None]:
    """Returns a game for each kind of noised step of the run's method, and the reason if one was not played.

    The games have records of their own, so their claim is finite whatever else the training did, and whatever a canary
    of the audit's model is. They run in as many processes of this machine as the training.

    If the settings ask for people, each kind is played twice: on single records, and on people with several.

    Raises:
        PrivacyGateError: a training took other steps than it planned.
    """
    games, played = list(_games(ctx)), []
    for game in games:
        ctx.run.progress(0, None, f"playing against {game.name}")
        try:
            played.append((game, _played(ctx, game)))
        except Exception as error:
            if is_ours(game.method):
                raise
            return played, NOT_PLAYED.format(type(error).__name__)
    return played, None


def is_ours(method: str) -> bool:
    """Checks that a method is one of this package."""
    return method in METHODS


def _games(ctx: StageContext) -> Iterator[TrainingGame]:
    """Yields the games on records, and then those on people."""
    games = list(_of_records(ctx))
    yield from games
    each = records_of_person(ctx.configs)
    if each is not None:
        num = max(LEAST_PEOPLE, ctx.configs["audit"].num_trials // each)
        yield from (replace(game, person_records=each, num_canaries=num) for game in games if not game.takes_spans)


def _of_records(ctx: StageContext) -> Iterator[TrainingGame]:
    events, figures = (ctx.input("audit_model").json(name) for name in ("events.json", "figures.json"))
    config: TrainConfig = ctx.configs["train"]
    own: dict[str, Any] = {
        "method": config.method,
        "own": config.of_method(),
        "num_canaries": ctx.configs["audit"].num_trials,
        "max_grad_norm": events["max_grad_norm"],
        "device": ctx.runtime.device,
        "num_states": num_states(config.architecture()),
    }
    noise, rate = (figures.get(name) for name in ("noise_multiplier", "sample_rate"))
    if noise and rate:
        yield TrainingGame(**own, noise_multiplier=noise, sample_rate=rate)
    if config.method_spec().first_phase is not None and events.get("phases"):
        first = _sampled(from_json(events["phases"][0]["event"]))
        if first is not None and first.event.noise_multiplier:
            yield TrainingGame(
                **own, is_first_phase=True, noise_multiplier=first.event.noise_multiplier, sample_rate=first.sample_rate
            )


def _sampled(event: Event) -> PoissonSampled | None:
    """Returns the noised step of a phase; None for a phase without noise."""
    step = event.event if isinstance(event, SelfComposed) else None
    return step if isinstance(step, PoissonSampled) else None


def _played(ctx: StageContext, game: TrainingGame) -> PlayedTraining:
    config: TrainConfig = ctx.configs["train"]
    # Each night has fresh coins; otherwise the evidence of several nights would count one coin twice.
    seed = ctx.seed if config.insecure_test_seed else secrets.randbits(63)
    count = ctx.runtime.num_processes if config.method_spec().shares_steps else 1
    here = replace(ctx, runtime=replace(ctx.runtime, num_processes=count, num_machines=1))
    played: PlayedTraining = on_ranks(here, play, game, seed, ctx.out.scratch.fresh("game").folder)["played"]
    return played


def play(ctx: StageContext, game: TrainingGame, seed: int, folder: Path) -> dict[str, Any]:
    """Plays a game in this process, or in each process that trains together; ``folder`` holds checkpoints."""
    del ctx
    return {"played": play_training(game, seed, folder)}
