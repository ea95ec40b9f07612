"""A schedule of a run on many workers, simulated: partitions that take longer, and workers that are slow or lost.

    python benchmarks/schedule.py [--partitions 10000] [--seconds 600] [--workers 100] [--seed 0]

Stages follow each other: one begins when all partitions of the one before it are done, as the flow waits for them. A
stage hands its partitions out in order, each to the worker that is free first. A worker that is lost loses the
partition that it was at, which goes to the next free worker, and comes back after ``replacement_seconds``; what it
had finished is kept. A stage of the whole corpus runs in one process, which is not lost.

Without any of that a stage takes ceil(partitions / workers) times the seconds of a partition. A worker that is lost
at a rate of L a second and back after R finishes a partition of d seconds after (e^(L d) - 1) (1 / L + R) on average:
an attempt ends well with probability e^(-L d), so e^(L d) - 1 are lost, and each of these takes
1 / L - d / (e^(L d) - 1) + R (the mean of an exponential time, given that it is below d). Both are tests of this
simulation.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from common import command_line


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """The trouble of a run.

    Attributes:
        spread: standard deviation of the logarithm of a partition's seconds; their mean stays what it is.
        slow_share: share of the workers that are slow all the time, rounded up.
        slow_factor: factor by which these take longer.
        losses_per_hour: mean number of losses of one worker.
        replacement_seconds: seconds until a lost worker is back.
    """

    spread: float = 0.0
    slow_share: float = 0.0
    slow_factor: float = 1.0
    losses_per_hour: float = 0.0
    replacement_seconds: float = 60.0


@dataclass(frozen=True)
class Load:
    """A stage: its partitions, and the mean seconds of each on one worker. A single partition runs in one process."""

    partitions: int
    seconds: float


@dataclass
class Result:
    """The times of a simulated run.

    Attributes:
        seconds: time from beginning to end.
        busy_seconds: work of all workers together, lost work included.
        lost_seconds: work of partitions that had to begin again.
        num_lost: number of partitions that had to begin again.
    """

    seconds: float = 0.0
    busy_seconds: float = 0.0
    lost_seconds: float = 0.0
    num_lost: int = 0


def simulate(loads: Sequence[Load], workers: int, trouble: Trouble, seed: int) -> Result:
    """Simulates a run. The same seed gives the same result."""
    draw = random.Random(seed)
    slow = math.ceil(trouble.slow_share * workers)
    factors = [trouble.slow_factor if number < slow else 1.0 for number in range(workers)]
    result = Result()
    for load in loads:
        if load.partitions == 1:
            result.seconds += load.seconds
            result.busy_seconds += load.seconds
            continue
        _stage(load, factors, trouble, draw, result)
    return result


def _stage(load: Load, factors: Sequence[float], trouble: Trouble, draw: random.Random, result: Result) -> None:
    began = result.seconds
    loss_rate = trouble.losses_per_hour / 3600
    free = [(began, number) for number in range(len(factors))]  # when each worker is free
    waiting = [(began, n, load.seconds * _factor(trouble.spread, draw)) for n in range(load.partitions)]
    ended = began
    while waiting:
        since, number, seconds = heapq.heappop(waiting)
        at, worker = heapq.heappop(free)
        at = max(at, since)  # what is lost can be handed out again only then
        takes = seconds * factors[worker]
        lives = draw.expovariate(loss_rate) if loss_rate else math.inf
        if lives < takes:
            result.busy_seconds += lives
            result.lost_seconds += lives
            result.num_lost += 1
            heapq.heappush(waiting, (at + lives, number, seconds))
            heapq.heappush(free, (at + lives + trouble.replacement_seconds, worker))
            continue
        result.busy_seconds += takes
        ended = max(ended, at + takes)
        heapq.heappush(free, (at + takes, worker))
    result.seconds = ended


def _factor(spread: float, draw: random.Random) -> float:
    """Draws a factor of a partition's seconds: log-normal with mean 1."""
    return draw.lognormvariate(-(spread**2) / 2, spread) if spread else 1.0


CASES: dict[str, Trouble] = {
    "nothing goes wrong": Trouble(),
    "partitions differ (σ = 0.3)": Trouble(spread=0.3),
    "partitions differ much (σ = 1)": Trouble(spread=1.0),
    "2 % of the workers take 4 times as long": Trouble(spread=0.3, slow_share=0.02, slow_factor=4.0),
    "each worker is lost once a day, back after 2 min": Trouble(
        spread=0.3, losses_per_hour=1 / 24, replacement_seconds=120
    ),
    "each worker is lost once an hour, back after 10 min": Trouble(
        spread=0.3, losses_per_hour=1.0, replacement_seconds=600
    ),
    "all of it": Trouble(spread=0.3, slow_share=0.02, slow_factor=4.0, losses_per_hour=1.0, replacement_seconds=600),
}
"""Cases of the page `docs/scale.md`."""


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name, trouble in CASES.items():
        found = simulate([Load(given.partitions, given.seconds)], given.workers, trouble, given.seed)
        print(f"{name}: {found.seconds / 3600:.2f} h, {found.num_lost} partitions again")


if __name__ == "__main__":
    main()
