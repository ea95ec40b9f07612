"""Processes that train together: who samples what, who draws the noise, and what is heard of them when they end.

What no process needs another for is tried in this process, one rank after the other.
"""

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from support.crt_trainings import gradients_handed_over, prepared, training_context
from support.forked_ranks import forked_ranks
from support.tiny import tiny_model

from pipelines.artifacts import Target
from pipelines.dp.ranks import Ranks
from pipelines.dp.sampling import PrivatePlan
from pipelines.errors import ConfigError, StageError
from pipelines.randomness import seeded
from pipelines.training import loop
from pipelines.training.machines import launch
from pipelines.training.programme import Segment

COUNT = 3


class Lonely(Ranks):
    """One of several processes, of which the others say nothing: a sum over all is its own part of it."""

    def add_up(self, tensors):
        pass

    def totals(self, values, device):
        return list(values)

    def follow_first(self, tensors):
        pass

    def check_agree(self, facts, device):
        pass


def train_as(rank, tmp_path, patch, training, noise):
    """Trains as one of `COUNT` processes, with its test seed; the rows that it read, step after step."""
    patch(loop.Ranks, "here", classmethod(lambda cls: Lonely(rank, COUNT)))
    steps = []

    def watched(part, kind):
        collate = type(part).collate

        class Watched(type(part)):
            def collate(self, rows):
                steps.append((kind, rows.tolist()))
                return collate(self, rows)

        part = replace(part)
        object.__setattr__(part, "__class__", Watched)
        return part

    training = replace(
        training,
        nonprivate_examples=watched(training.nonprivate_examples, "nonprivate"),
        private_examples=watched(training.private_examples, "private"),
    )
    folder = tmp_path / str(rank)
    folder.mkdir()
    for check in ("check_isolation", "check_again"):  # they read records that were not sampled
        patch(loop, check, lambda *_: (), read_by=loop)
    training.train(tiny_model(), noise, training_context(folder, randomness=seeded(1, rank), microbatch_size=1_000))
    return steps


@pytest.mark.slow
def test_each_private_record_is_sampled_by_one_process_with_the_planned_rate(tmp_path, patch):
    rows, rate, num_steps = [f"{i}" for i in range(40)], 0.3, 60
    plan = PrivatePlan(sample_rate=rate, expected_batch_size=12.0, steps_per_epoch=num_steps, num_steps=num_steps)
    step = Segment(kind="private", num_steps=num_steps, ends_epoch=True)
    training = replace(prepared([], rows, epochs=1), plan=plan, programme=[step])
    counts = np.zeros((COUNT, len(rows)), dtype=int)
    for rank in range(COUNT):
        steps = train_as(rank, tmp_path, patch, training, 0.0)
        for _, drawn in steps:
            assert len(set(drawn)) == len(drawn)
            counts[rank, drawn] += 1
    owners = counts > 0
    assert (owners.sum(axis=0) == 1).all()
    assert (owners.argmax(axis=0) == np.arange(len(rows)) % COUNT).all()  # by its place alone
    total, tries = int(counts.sum()), len(rows) * num_steps
    assert stats.binomtest(total, tries, rate).pvalue > 1e-3
    for wrong in (rate / COUNT, rate * 1.3, 1 - (1 - rate) ** COUNT):
        assert stats.binomtest(total, tries, wrong).pvalue < 1e-6
    # Within a record, too: no record is drawn too often and another never.
    assert stats.chisquare(counts.sum(axis=0)).pvalue > 1e-4


def test_processes_draw_apart_under_a_test_seed(tmp_path, patch):
    training = prepared([], [f"row {i}" for i in range(30)], epochs=2, expected_batch_size=10)
    drawn = []
    for rank in range(COUNT):
        steps = train_as(rank, tmp_path, patch, training, 0.0)
        drawn.append([[row // COUNT for row in rows] for _, rows in steps])
    assert drawn[0] != drawn[1]
    assert drawn[1] != drawn[2]
    assert seeded(5, 0)(1).random() == seeded(5)(1).random()


def test_only_the_first_process_draws_noise(tmp_path, patch):
    # Wholly masked records have no gradient, so what the optimizer is handed is the noise.
    training = prepared([], [("<MASK>", "USR")] * 12, epochs=1, expected_batch_size=6)
    for rank in range(COUNT):
        with gradients_handed_over() as handed:
            train_as(rank, tmp_path, patch, training, 1.3)
        values = torch.cat(handed).numpy()
        if rank == 0:
            assert stats.kstest(values, stats.norm(scale=1.3 * 0.5 / 6).cdf).pvalue > 1e-3
        else:
            assert not values.any()


def test_the_shares_of_a_plain_minibatch_make_it_up(tmp_path, patch):
    training = prepared([f"row {i}" for i in range(10)], [], epochs=2)
    found = [train_as(rank, tmp_path, patch, training, 0.0) for rank in range(COUNT)]
    by_rank = [[rows for _, rows in steps] for steps in found]
    # Minibatches of 4, 4 and 2: the third process has no part in the last one, and takes its step all the same.
    assert [len(rows) for rows in by_rank[0]] == [2, 2, 1] * 2
    assert [len(rows) for rows in by_rank[2]] == [1, 1] * 2
    every = sorted(row for ranks in by_rank for rows in ranks for row in rows)
    assert every == sorted([*range(10)] * 2)


def work(order, progress):
    """Run by the launched processes."""
    ranks = Ranks.here()
    progress(ranks.rank, 2, "at work")
    match order:
        case "add":
            tensor = torch.ones(3) * (ranks.rank + 1)
            ranks.add_up([tensor])
            ranks.check_agree("the same", tensor.device)
            shown = [Path(f"/proc/{os.getpid()}/{name}").read_bytes() for name in ("cmdline", "environ")]
            return tensor.tolist(), any(b"Zebulon" in text for text in shown)
        case "disagree":
            ranks.check_agree(f"rank {ranks.rank}", torch.device("cpu"))
        case "refuse" if ranks.rank == 1:
            raise ConfigError("lower it")
        case "fail" if ranks.rank == 1:
            raise ValueError("Zebulon")
        case "die" if ranks.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    ranks.add_up([torch.ones(1)])  # waits for a partner who will never come
    return None


def launched(tmp_path, order):
    said = []
    try:
        found = launch.launch(
            work, (order,), count=2, device="cpu", progress=lambda *told: said.append(told),
            failures=Target(folder=tmp_path / "failures"),
        )  # fmt: skip
    finally:
        assert said == [(0, 2, "at work")]  # of the first process alone
        assert not list(tmp_path.glob("rendezvous-*"))
    return found


@pytest.mark.slow
def test_launched_processes(tmp_path, capfd):
    assert launched(tmp_path, "add") == ([3.0] * 3, False)
    with forked_ranks():
        with pytest.raises(StageError, match="read different corpora"):
            launched(tmp_path, "disagree")
        with pytest.raises(ConfigError, match=r"training process 1 \(of 2, from 0\): lower it"):
            launched(tmp_path, "refuse")
        with pytest.raises(StageError, match=r"training process 1 .*SIGKILL"):
            launched(tmp_path, "die")
    assert not (tmp_path / "failures").exists()
    with pytest.raises(StageError, match=r"training process 1 .*ValueError") as error:
        launched(tmp_path, "fail")
    assert "Zebulon" not in str(error.value)
    assert "Zebulon" in (tmp_path / "failures/rank-1.txt").read_text()
    printed = "".join(capfd.readouterr())
    assert "Zebulon" not in printed
    assert "Traceback" not in printed


def test_a_worker_that_may_have_no_children_is_told(tmp_path, patch):
    patch(launch.multiprocessing, "current_process", lambda: type("Dask", (), {"daemon": True}))
    folder = Target(folder=tmp_path)
    with pytest.raises(ConfigError, match="Set it to 1"):
        launch.launch(work, (), count=2, device="cpu", progress=print, failures=folder)
