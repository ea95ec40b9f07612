"""Few sets of examples that tell all of them apart."""

from __future__ import annotations

import itertools
import math

import torch


def separating_sets(count: int) -> torch.Tensor:
    """Sets such that, for any two examples, one holds the first and not the second, and one the other way round.

    Each example is in half of the sets, no two in the same half (Sperner 1928: no smaller number of sets can do it).

    Args:
        count: examples.

    Returns:
        (m, count) bool, True where the example is in the set; m is 0 for one example, 5 for 10, 8 for 64, 13 for 1,024.
    """
    num_sets = 0
    while math.comb(num_sets, num_sets // 2) < count:
        num_sets += 1
    sets = torch.zeros(num_sets, count, dtype=torch.bool)
    for example, chosen in enumerate(itertools.islice(itertools.combinations(range(num_sets), num_sets // 2), count)):
        sets[list(chosen), example] = True
    return sets
