"""Audit: what the game on people shows, beside the epsilons that it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pipelines.accounting.events import USELESS
from pipelines.attacks.training_game import PlayedTraining, TrainingGame

if TYPE_CHECKING:
    from pipelines.settings.train import TrainConfig

_SPANS: Final = (
    "the queries of {} are not played with people: its samples are public, and a person with k records has a k-th of "
    "the noise in each query"
)
_NO_NOISE: Final = "the training took no step with noise"


def why_no_people(config: TrainConfig) -> str:
    """Returns why no game was played on people, for a training without one."""
    return _SPANS.format(config.method) if config.method_spec().needs_lstm else _NO_NOISE


def person_document(
    game: TrainingGame, played: PlayedTraining, lower: Mapping[str, Any], delta: float
) -> dict[str, Any]:
    """Returns the lower bound of a game on people, with each epsilon that it is compared with.

    Args:
        game, played: settings and result of the game.
        lower: document of the bound that is compared, for the difference of one person.
        delta: delta of the bound and of the epsilons.

    Returns:
        JSON values: ``game``, ``unit`` (what the steps sample: person or record), ``num_people``, ``num_records`` of a
        person, ``lower``, and ``claims``, each with ``whose``, ``epsilon`` (None above `USELESS`), ``is_exceeded`` by
        the bound, and ``is_of_person``: true if it is an epsilon of a person, which no bound should exceed. For a
        record it is expected: the epsilon of a record does not cover a person.
    """
    num = game.person_records or 1
    person = "a person" if game.by_owner else f"a person with {num:,} record{'s' * (num > 1)}"
    sizes = {person: game.group_size} if game.group_size == 1 else {"a record": 1, person: game.group_size}
    claims = [(whose, size, played.claimed_of(size, delta)) for whose, size in sizes.items()]
    return {
        "game": game.name,
        "unit": "person" if game.by_owner else "record",
        "num_people": game.num_canaries,
        "num_records": num,
        "lower": dict(lower),
        "claims": [
            {
                "whose": whose,
                "epsilon": epsilon if epsilon <= USELESS else None,
                "is_exceeded": lower["value"] > epsilon,
                "is_of_person": whose == person,
            }
            for whose, size, epsilon in claims
        ],
    }
