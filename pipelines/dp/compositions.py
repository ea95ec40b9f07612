"""Batches of the same records in different compositions, which show if one record depends on another.

Public versus private: the choice of records depends on their number, and on the shapes and digests of their collated
batches. The results are only compared (`pipelines.dp.isolation`), and go nowhere else.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from pipelines.dp.random_states import kept_random_states, random_states_digest

IntArray = npt.NDArray[np.int64]

Shape = tuple[tuple[str, str, tuple[int, ...]], ...]
"""Path, type and shape of everything in a batch."""

NUM_CANDIDATES: Final = 64
"""Number of candidates spread over the whole data set, in addition to its first records."""

_DEPTH: Final = 8


@dataclass(frozen=True)
class Composition:
    """A batch, and the records that it shares with an earlier batch.

    Attributes:
        batch: output of the collate function.
        reference: number of the composition to compare with, at the positions that both have; None: no comparison.
        kept: flag of each position: true if it holds the reference's record.
        shape: shape of the batch.
        content: digest of its content.
        drawn: digest of the random states after the collate function, which always starts from the same states.
        is_reshaped: true if it differs from the reference in size and padded length on purpose.
        is_random: true if the collate function drew random numbers.
        elsewhere: composition that holds the same records at other places (its number, which may be this one's, and
            the place there of the record at each position here); None if there is no such composition.
    """

    batch: Any
    reference: int | None
    kept: tuple[bool, ...]
    shape: Shape
    content: bytes
    drawn: bytes
    is_reshaped: bool = False
    is_random: bool = False
    elsewhere: tuple[int, tuple[int, ...]] | None = None


def candidates(rows: IntArray, num_first: int) -> list[int]:
    """Returns the records to choose from: the first (neighbours may share a length), and others from everywhere.

    Args:
        rows: numbers of all records.
        num_first: number of first records to include, or all if there are fewer.
    """
    spread = np.linspace(0, len(rows) - 1, min(len(rows), NUM_CANDIDATES)).astype(np.int64)
    first = np.arange(min(len(rows), num_first))
    chosen: list[int] = rows[np.unique(np.concatenate([first, spread]))].tolist()
    return chosen


def num_compositions(size: int) -> int:
    """Returns the number of batches that `compose` makes of ``size`` positions."""
    return 0 if size < 1 else 2 if size == 1 else 5 + len(separating_sets(size))


def compose(items: Sequence[Any], size: int, full_size: int, collate: Callable[[list[Any]], Any]) -> list[Composition]:
    """Makes batches of ``size`` records, and one of ``full_size``.

    1. A batch, and the same batch again. They differ if something keeps state, or draws randomness of its own.
    2. The batch with some records replaced, by `separating_sets`, so that every record is kept while every other one
       is replaced. If possible, all records are collated to one shape. Then the computation is the same to the last
       bit, and random numbers fall on the same places.
    3. The records of the first batch, each at the next place. They differ if a record's place affects the loss.
    4. Copies of the shortest record alone, in half a batch, and together with copies of the longest record, in a batch
       of full size where the two alternate. They differ if the number of records or the padded length affects the loss.

    Args:
        items: records to choose from, at least one.
        size: number of records in a batch, at least 1.
        full_size: number of records in the largest usual batches.
        collate: function that makes a batch of a list of items; also called with one item, to see its shape.
    """
    with kept_random_states() as restart:
        first_states = random_states_digest()

        def made(chosen: list[Any], reference: int | None = None, kept: Sequence[bool] = ()) -> Composition:
            restart()
            return _made(collate, chosen, first_states, reference, kept)

        singles = [made([item]) for item in items]
        own, other = _choose(singles, size)
        originals = [items[at] for at in own]
        found = [made(originals), made(originals, 0, [True] * size)]
        if size == 1:
            return found
        for replaced in separating_sets(size).tolist():
            mixed = [items[other[at]] if replaced[at] else originals[at] for at in range(size)]
            found.append(made(mixed, 0, [not r for r in replaced]))
        before = (size - 1, *range(size - 1))
        found.append(replace(made([originals[place] for place in before]), elsewhere=(0, before)))
        by_size = sorted(range(len(items)), key=lambda at: _num_values(singles[at].shape))
        shortest, longest = items[by_size[0]], items[by_size[-1]]
        is_short = [at % 2 == 0 for at in range(max(size, full_size))]
        alternating = [shortest if short else longest for short in is_short]
        found.append(made([shortest] * ((size + 1) // 2)))
        places = tuple(at % 2 for at in range(len(alternating)))
        full = made(alternating, len(found) - 1, is_short)
        found.append(replace(full, is_reshaped=True, elsewhere=(len(found), places)))
        return found


def recompose(
    items: Sequence[Any], size: int, collate: Callable[[list[Any]], Any], rng: np.random.Generator
) -> list[Composition]:
    """Makes a batch of ``size`` records, and a smaller batch of half of them and other records, at other places.

    Args:
        items: records of the batch, at least two, followed by other records.
        size: records in the batch.
        collate: function that makes a batch of a list of items.
        rng: generator that chooses the kept records and their places.
    """
    places = rng.choice(size, (size + 1) // 2, replace=False).tolist()
    mixed = [(items[place], place) for place in places] + [(item, None) for item in items[size : size + size // 4]]
    mixed = [mixed[at] for at in rng.permutation(len(mixed))]
    kept = tuple(place is not None for _, place in mixed)
    with kept_random_states() as restart:
        first_states = random_states_digest()
        base = _made(collate, list(items[:size]), first_states)
        restart()
        other = _made(collate, [item for item, _ in mixed], first_states, None, kept)
    return [base, replace(other, elsewhere=(0, tuple(place or 0 for _, place in mixed)))]


def _made(
    collate: Callable[[list[Any]], Any],
    chosen: list[Any],
    first_states: bytes,
    reference: int | None = None,
    kept: Sequence[bool] = (),
) -> Composition:
    batch = collate(chosen)
    drawn = random_states_digest()
    kept = tuple(kept) or (False,) * len(chosen)
    is_random = drawn != first_states
    return Composition(batch, reference, kept, shape_of(batch), content_of(batch), drawn, is_random=is_random)


def _choose(singles: list[Composition], size: int) -> tuple[list[int], list[int]]:
    """Chooses a record for each position and a different one to replace it, all of one shape if possible."""
    groups: dict[Shape, dict[bytes, int]] = {}
    for at, single in enumerate(singles):
        groups.setdefault(single.shape, {}).setdefault(single.content, at)
    best = list(max(groups.values(), key=len).values())
    own = best[0::2]
    # Two disjoint sets: if the same records only changed places, a sum over them could stay the same.
    other = best[1::2] or [at for at, s in enumerate(singles) if s.content != singles[own[0]].content] or own
    return [own[at % len(own)] for at in range(size)], [other[at % len(other)] for at in range(size)]


def _leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    children: Any = None
    if isinstance(value, Mapping):
        children = value.items()
    elif isinstance(value, list | tuple):
        children = enumerate(value)
    elif not isinstance(value, torch.Tensor | np.ndarray) and hasattr(value, "__dict__"):
        children = vars(value).items()
    elif dataclasses.is_dataclass(value):  # with slots
        children = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    if children is None or depth == _DEPTH:
        yield path, value
        return
    for name, child in children:
        yield from _leaves(child, f"{path}/{name}", depth + 1)


def shape_of(batch: Any) -> Shape:
    """Returns the structure of a batch, without its content."""
    found = []
    for path, value in _leaves(batch):
        kind = str(value.dtype) if isinstance(value, torch.Tensor | np.ndarray) else type(value).__name__
        size = tuple(value.shape) if hasattr(value, "shape") else (len(value),) if hasattr(value, "__len__") else ()
        found.append((path, kind, size))
    return tuple(found)


def content_of(batch: Any) -> bytes:
    """Returns a digest of a batch's content. Values of unknown kinds are left out."""
    digest = hashlib.sha256()
    for path, value in _leaves(batch):
        digest.update(path.encode())
        if isinstance(value, torch.Tensor):
            dense = value.detach().to_dense() if value.layout != torch.strided else value.detach()
            flat = dense.cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
        elif isinstance(value, np.ndarray):
            digest.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, str | bytes | int | float | bool | None):
            digest.update(repr(value).encode())
    return digest.digest()


def _num_values(shape: Shape) -> int:
    return sum(int(np.prod(size)) for _, _, size in shape)


def separate_losses(losses: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields `separating_sets`, (B,) bool, each with the weighted sum of the (B,) losses of its examples.

    Unequal weights: the effects of two examples on a third must not cancel, as they do in differences.
    """
    weights = 1 + torch.arange(len(losses), device=losses.device).mul(0.6180339887).frac()
    sets = separating_sets(len(losses)) if len(losses) > 1 else torch.ones(1, 1, dtype=torch.bool)
    for chosen in sets.to(losses.device):
        yield chosen, (losses * weights.to(losses.dtype))[chosen].sum()


def separating_sets(count: int) -> torch.Tensor:
    """Returns sets that separate every ordered pair of examples: some set holds the first and not the second.

    Each example is in half of the sets, and no two are in the same half (Sperner 1928: fewer sets cannot do it).

    Returns:
        (m, count) bool, True if the example is in the set; m is 0 for one example, 5 for 10, 8 for 64, 13 for 1,024.
    """
    num_sets = 0
    while math.comb(num_sets, num_sets // 2) < count:
        num_sets += 1
    sets = torch.zeros(num_sets, count, dtype=torch.bool)
    for example, chosen in enumerate(itertools.islice(itertools.combinations(range(num_sets), num_sets // 2), count)):
        sets[list(chosen), example] = True
    return sets
