"""How sums of private records crossed between machines: written down before the first one does, told in the claims."""

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
"""What a claim supposes then. Trainings of version 0.2 alone sent encrypted sums."""
_FILE: Final = "crossings.json"


def record_network_exchange(scratch: Target, way: NetworkExchange) -> None:
    """Writes down that sums will cross, for good: a training that is killed and goes on otherwise has still done so."""
    write_json(scratch.blob(_FILE), sorted({*network_exchanges_in(scratch), way}))


def network_exchanges_in(scratch: Folder, earlier: Iterable[NetworkExchange] = ()) -> tuple[NetworkExchange, ...]:
    """How sums crossed so far, and in an earlier phase. A file that is damaged counts as all ways there are."""
    path = scratch.blob(_FILE)
    every: tuple[NetworkExchange, ...] = get_args(NetworkExchange)
    found = read_json(path) if path.exists() else []
    ways = found if isinstance(found, list) and set(found) <= set(every) else every
    return tuple(sorted({*earlier, *ways}))
