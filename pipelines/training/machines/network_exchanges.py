"""Records how sums of private records crossed the network between machines. The claims of the training state it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_args

from pipelines.artifacts import Folder, Target
from pipelines.files import read_json, write_json

NetworkExchange = Literal["encrypted", "private_interface"]
EXCHANGE_NOTES: Final[Mapping[NetworkExchange, str]] = {
    "encrypted": "several machines trained together, and what crossed between them was encrypted (TLS 1.3, under keys "
    "of this training alone): whoever watches their network sees when they take steps, and how long, which epsilon "
    "does not cover",
    "private_interface": "several machines trained together, and sums over private records crossed between them as "
    "they are, partly without noise, on a network that the settings declare private (runtime.private_interface): "
    "nobody but the trusted side reads it, nor changes what crosses it",
}
"""Assumptions of a claim, by kind of exchange. Only trainings of version 0.2 sent encrypted sums."""
_FILE: Final = "crossings.json"


def record_network_exchange(scratch: Target, exchange: NetworkExchange) -> None:
    """Records, before the first sum crosses, how sums will cross. The record stays if a killed training is resumed."""
    write_json(scratch.blob(_FILE), sorted({*network_exchanges_in(scratch), exchange}))


def network_exchanges_in(scratch: Folder, earlier: Iterable[NetworkExchange] = ()) -> tuple[NetworkExchange, ...]:
    """Returns how sums crossed so far, and in an earlier phase. A damaged file counts as every kind of exchange."""
    path = scratch.blob(_FILE)
    every: tuple[NetworkExchange, ...] = get_args(NetworkExchange)
    recorded = read_json(path) if path.exists() else []
    exchanges = recorded if isinstance(recorded, list) and set(recorded) <= set(every) else every
    return tuple(sorted({*earlier, *exchanges}))
