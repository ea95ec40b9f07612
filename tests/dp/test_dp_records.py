"""One record is one example: every way in which a loop could give a record more than one clipped share."""

import numpy as np
import pytest
import torch
from private_loops import PrivateLoop, Watcher, cross_entropies, network, rows
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, default_collate

from pipelines.dp.errors import IsolationError
from pipelines.dp.privacy import ASSUMPTIONS
from pipelines.dp.ranks import Ranks
from pipelines.dp.sampling import PoissonLoader, plan_private_steps
from pipelines.errors import ConfigError, PrivacyGateError

ROWS = rows()


def windows(items, count=10):
    """Every record in ``count`` pieces, each an example of its own."""
    return default_collate([(x + 0.1 * at, y) for x, y in items for at in range(count)])


def first_windows(items):
    """Two windows of each record, as many of them as there are records: the number of losses is right."""
    return default_collate([(x + at, y) for x, y in items for at in range(2)][: len(items)])


def rounded_up(items):
    """A batch filled up to a multiple of 16 with its first records once more."""
    return default_collate([*items, *items[: -len(items) % 16]])


def without_class_0(items):
    return default_collate([item for item in items if item[1]] or items[:1])


class Generous(Dataset):
    """Gives more than it is asked for."""

    def __init__(self):
        self.rows = rows()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]

    def __getitems__(self, indices):
        return [self.rows[index] for index in indices for _ in range(2)]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("limit", [None, 1, 3])
def test_a_record_cut_into_windows_is_refused(workers, limit):
    """Guards the bound C: ten examples of one record, each clipped to C, move the sum by up to 10 C."""
    loop = PrivateLoop(collate_fn=windows, limit=limit, num_workers=workers)
    with pytest.raises(PrivacyGateError, match=r"losses for a batch of \d+ records"):
        loop.run()
    assert loop.took_nothing()
    assert loop.engine.num_steps == 0


@pytest.mark.parametrize("collate", [rounded_up, without_class_0])
def test_another_number_of_examples_than_records_is_refused(collate):
    """Guards against records that are repeated, or that are left out because of others."""
    loop = PrivateLoop(collate_fn=collate, batch_size=12)
    with pytest.raises(PrivacyGateError, match="records"):
        loop.run()
    assert loop.took_nothing()


@pytest.mark.parametrize("workers", [0, 1])
def test_windows_are_found_where_their_number_is_that_of_the_records(workers):
    """Guards what counting cannot see: a record that fills two rows of a batch whose length is right."""
    loop = PrivateLoop(collate_fn=first_windows, num_workers=workers)
    with pytest.raises(IsolationError, match="other examples"):
        loop.run()
    assert loop.took_nothing()


def test_a_data_set_that_gives_more_than_it_is_asked_for_is_refused():
    """Guards `__getitems__`, which the loader calls with all numbers of a batch at once."""
    loop = PrivateLoop(data=Generous())
    with pytest.raises(PrivacyGateError, match=r"\d+ records, but \d+ were asked for"):
        loop.run()
    # Also where the collate function hides it.
    loop = PrivateLoop(data=Generous(), collate_fn=lambda items: default_collate(items[: len(items) // 2]))
    with pytest.raises(PrivacyGateError, match=r"\d+ records, but \d+ were asked for"):
        loop.run()
    assert loop.took_nothing()


def test_records_are_counted_in_every_batch():
    """Guards against a data set that is generous later on."""

    class Later(Generous):
        is_generous = False

        def __getitems__(self, indices):
            return super().__getitems__(indices)[:: 1 if self.is_generous else 2]

    data = Later()
    loop = PrivateLoop(
        data=data, collate_fn=lambda items: default_collate(items[:: 2 if data.is_generous else 1])
    ).run()
    data.is_generous = True
    with pytest.raises(PrivacyGateError, match=r"\d+ records, but \d+ were asked for"):
        loop.run()
    assert len(loop.handed) == 3


class Together(Generous):
    """Looks at the records that are asked for at once; ``noise`` makes each answer another one."""

    def __init__(self, noise=0.0, mixes=True):
        super().__init__()
        self.noise, self.mixes = noise, mixes

    def __getitems__(self, indices):
        items = [self.rows[index] for index in indices]
        mean = torch.stack([x for x, _ in items]).mean(0) if self.mixes and len(items) > 1 else 0.0
        return [(x - mean + self.noise * torch.randn(3), y) for x, y in items]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_set_that_mixes_what_is_asked_for_at_once_is_refused(workers):
    """Guards what happens before the collate function."""
    loop = PrivateLoop(data=Together(), num_workers=workers)
    with pytest.raises(IsolationError, match="at once"):
        loop.run()
    assert loop.took_nothing()
    assert PrivateLoop(data=Together(mixes=False), num_workers=workers).run().engine.num_steps == 3
    loop = PrivateLoop(data=Together(noise=0.1), num_workers=workers).run()  # cannot be told: said in words
    assert "mixes records" in loop.engine.assumptions[-1]


def test_a_data_set_whose_length_changes_is_refused():
    """Guards the sampling rate and the divisor, which are fixed by the number of records."""
    data = rows()
    loop = PrivateLoop(data=data).run()
    data.tensors = tuple(torch.cat([t, t]) for t in data.tensors)
    with pytest.raises(PrivacyGateError, match="24 records"):
        loop.run()
    assert len(loop.handed) == loop.engine.num_steps == 3


@pytest.mark.parametrize("steps", [True, False])
def test_a_batch_that_is_left_out_is_refused(steps):
    """Guards against a loop that skips a batch because of one record, and with it the share of every other."""
    loop = PrivateLoop(batch_size=24, limit=3)  # eight batches a step, so that most are not a sample's last

    def skipping():
        for batch in loop.loader:
            if loop.optimizer.is_probing:
                loop.optimizer.backward(cross_entropies(loop.model, batch))
                loop.optimizer.step()
            elif steps:
                loop.optimizer.step()

    with pytest.raises(PrivacyGateError, match="left out"):
        skipping()
    assert loop.took_nothing()


def test_batches_that_are_joined_are_refused():
    """Guards a loop that gathers batches itself: their records are counted one batch at a time."""
    loop = PrivateLoop(limit=4)

    def joined():
        kept = []
        for batch in loop.loader:
            kept.append(batch)
            if len(kept) == 2:
                both = [torch.cat(parts) for parts in zip(*kept, strict=True)]
                loop.optimizer.backward(cross_entropies(loop.model, both))
                loop.optimizer.step()
                kept = []

    with pytest.raises(PrivacyGateError):
        joined()
    assert loop.took_nothing()


def test_losses_of_other_data_than_the_batch_are_refused():
    """Guards sampling: losses that do not come from the sampled records have no sampling rate."""
    own = default_collate([rows()[i] for i in range(24)])
    loop = PrivateLoop(lambda model, batch: cross_entropies(model, [part[: len(batch[0])] for part in own]))
    with pytest.raises(IsolationError, match="other data than the batch"):
        loop.run()
    assert loop.took_nothing()


def test_a_batch_in_another_order_is_refused():
    """Losses must stand in the order of the records, or nothing can be said about whose loss is whose."""
    loop = PrivateLoop(lambda model, batch: cross_entropies(model, [part.flip(0) for part in batch]))
    with pytest.raises(IsolationError, match="order"):
        loop.run()
    assert loop.took_nothing()


def test_processes_count_their_own_records():
    """Guards several processes: each compares with its own share of a sample."""

    data, found = rows(10), []
    for rank in range(3):
        watcher = Watcher()
        loader = PoissonLoader(
            DataLoader(data, batch_size=10), plan_private_steps(10, 10, 1), watcher,
            lambda step: np.random.default_rng(step), ranks=Ranks(rank, 3),
        )  # fmt: skip
        assert [len(x) for x, _ in loader] == watcher.counts
        found.append(watcher.counts)
    assert found == [[4], [3], [3]]


def test_one_record_moves_the_sum_by_at_most_the_bound():
    """Guards the promise itself: with and without a record, the sums that the optimizer is handed differ by C."""

    def handed(without):
        data = rows()
        data.tensors = tuple(torch.cat([t[:without], t[without + 1 :]]) for t in data.tensors)
        found = PrivateLoop(data=data, batch_size=len(data), noise=0.0, max_grad_norm=0.01).run().handed
        return found[0] * len(data)

    whole = PrivateLoop(batch_size=24, noise=0.0, max_grad_norm=0.01).run().handed[0] * 24
    moves = [float((whole - handed(record)).norm()) for record in (0, 11, 23)]
    assert max(moves) <= 0.01 * (1 + 1e-4)
    assert min(moves) > 0.009  # the bound is reached: every example is clipped here


def test_one_record_under_many_numbers_is_an_assumption_in_words():
    """The engine counts numbers of the data set, and says so."""
    assert any("with several numbers" in line for line in ASSUMPTIONS)


@pytest.mark.parametrize("fresh", [True, False])
def test_a_loop_may_end_in_the_middle_of_the_comparison(fresh):
    """Guards short loops, and a new iterator for every batch: the comparison goes on, and training begins after it."""
    model = network(nn.Dropout(0.5))
    loop = PrivateLoop(model=model)
    state, pending = torch.get_rng_state(), loop.loader._num_left_to_compare()
    for left in range(pending, 0, -1 if fresh else -2):
        assert loop.loader._num_left_to_compare() == left
        for number, batch in enumerate(loop.loader):
            assert model[1].p == 0 or not loop.optimizer.is_probing
            if fresh and number:  # left before its losses: it comes again
                break
            assert loop.optimizer.is_probing
            loop.optimizer.backward(cross_entropies(model, batch))
            loop.optimizer.step()
            if number or left == 1:
                break
        assert model[1].p == 0.5
        assert torch.equal(torch.get_rng_state(), state)
        assert not loop.optimizer.is_probing
        assert loop.took_nothing()
    assert loop.loader._num_left_to_compare() == 0
    assert loop.run().engine.num_steps == 3


def test_a_loop_that_was_refused_begins_the_comparison_again():
    """Guards against passing by halves: what was found stays found until it is mended."""
    kinds = ["coupled"]

    def losses(model, batch):
        found = cross_entropies(model, batch)
        return found / found.detach().mean() if kinds == ["coupled"] else found

    loop = PrivateLoop(losses)
    for _ in range(3):
        with pytest.raises(IsolationError):
            loop.run()
    kinds.clear()
    assert loop.run().engine.num_steps == 3


def test_two_loops_at_once_are_refused():
    loop = PrivateLoop()

    def both():
        for first, _ in zip(loop.loader, loop.loader, strict=False):
            loop.optimizer.backward(cross_entropies(loop.model, first))
            loop.optimizer.step()

    with pytest.raises(PrivacyGateError, match="one at a time"):
        both()
    assert loop.took_nothing()


@pytest.mark.parametrize(
    "data",
    [
        lambda: Subset(rows(), [0, 1, 2, 2]),
        lambda: ConcatDataset([rows()] * 2),
        lambda: Subset(ConcatDataset([Subset(rows(), [1, 1]), rows()]), [0, 1, 2]),
        lambda: (lambda all_rows: ConcatDataset([all_rows, Subset(all_rows, [3])]))(rows()),
        lambda: (lambda all_rows: ConcatDataset([Subset(all_rows, [0, 3]), Subset(all_rows, [3, 4])]))(rows()),
        lambda: (lambda all_rows: ConcatDataset([ConcatDataset([all_rows]), all_rows]))(rows()),
        lambda: Subset(rows(), [3, -21]),
        lambda: Subset(Subset(rows(), range(5, 15)), torch.tensor([2, -8])),
        lambda: Subset(ConcatDataset([rows(), rows()]), np.array([30, -18])),
        lambda: ConcatDataset([TensorDataset(*ROWS.tensors), TensorDataset(*ROWS.tensors)]),
    ],
)
def test_records_under_several_numbers_are_refused_where_torch_knows_them(data):
    """Guards against oversampling a class, by which one record enters a step several times (3.7 C were measured)."""
    with pytest.raises(ConfigError, match="several numbers"):
        PrivateLoop(data=data())


def test_records_that_stand_once_are_no_repeats():
    """Guards against false alarms: splits, wrappers in wrappers, the same tensor in different records."""
    whole = rows()
    PrivateLoop(data=ConcatDataset([Subset(rows(), [0, 2]), rows()]))
    PrivateLoop(data=ConcatDataset([Subset(whole, [0, -1]), Subset(Subset(whole, range(4, 20)), [0, 1, -1])]))
    PrivateLoop(data=ConcatDataset([Subset(whole, np.arange(12)), Subset(whole, torch.arange(12, 24))]))
    PrivateLoop(data=ConcatDataset([TensorDataset(whole.tensors[0][:12], whole.tensors[1][:12]),
                                    TensorDataset(whole.tensors[0][12:], whole.tensors[1][12:])]))  # fmt: skip
