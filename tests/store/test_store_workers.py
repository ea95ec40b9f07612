"""A stage's partitions: what the store has is found, the rest goes to the executor, and nothing is given up early."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.toy import Toy, use_toy_graph

from pipelines.errors import StageError
from pipelines.store.building.execute import execute
from pipelines.store.building.workers import PARTITIONS, Answer, Builder, Request
from pipelines.store.objects.session import make_session, open_session, save_spec
from pipelines.store.place.outcome import Outcome


class Backwards:
    """An executor that answers from the last to the first, and fails where it is told to."""

    def __init__(self, failing: Sequence[str] = ()) -> None:
        self.failing = failing
        self.asked: list[str | None] = []

    def build(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        self.asked += [request.partition for request in requests]
        for number, request in reversed(list(enumerate(requests))):
            if request.partition in self.failing:
                yield number, StageError(f"no {request.partition}")
            else:
                yield number, execute(open_session(request.run), request.stage, request.partition, request.inputs)

    def close(self) -> None:
        self.asked.append("closed")


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    made = use_toy_graph(monkeypatch, tmp_path)
    for name in "abcd":
        made.write(f"{name}.txt", f"text of {name}")
    return made


def begun(toy: Toy) -> str:
    return str(save_spec(make_session(toy.spec())))


def test_only_what_the_store_lacks_is_handed_out_and_outcomes_keep_their_order(toy: Toy) -> None:
    with Builder(begun(toy), Backwards()) as first:
        before = first.build_stage("letters", {})
    assert [outcome.partition for outcome in before] == ["p-a", "p-b", "p-c", "p-d"]
    toy.write("c.txt", "another text")
    executor, told = Backwards(), []
    with Builder(begun(toy), executor) as second:
        after = second.build_stage("letters", {}, lambda *report: told.append(report))
    assert executor.asked == ["p-c", "closed"]
    assert [outcome.state for outcome in after] == ["cached", "cached", "completed", "cached"]
    assert [a.key == b.key for a, b in zip(before, after, strict=True)] == [True, True, False, True]
    assert told == [(4, 4, PARTITIONS)]


def test_a_partition_that_fails_does_not_stop_the_others_and_the_first_error_in_order_is_raised(toy: Toy) -> None:
    executor = Backwards(failing=["p-b", "p-d"])
    with Builder(begun(toy), executor) as builder, pytest.raises(StageError, match="no p-b"):
        builder.build_stage("letters", {})
    executor.asked.clear()
    with Builder(begun(toy), executor) as builder, pytest.raises(StageError, match="no p-b"):
        builder.build_stage("letters", {})
    assert executor.asked == ["p-b", "p-d", "closed"]  # the others were finished and kept


@pytest.mark.parametrize("executor", [None, Backwards()])
def test_a_stage_of_the_whole_corpus_is_built_in_this_process(toy: Toy, executor: Backwards | None) -> None:
    with Builder(begun(toy), executor) as builder:
        letters = builder.build_stage("letters", {})
        keys = {"letters": tuple((o.partition, o.key or "") for o in letters)}
        (count,) = builder.build_stage("count", keys)
    assert isinstance(count, Outcome)
    assert (count.partition, count.state) == (None, "completed")
    if executor is not None:
        assert executor.asked == ["p-a", "p-b", "p-c", "p-d", "closed"]
