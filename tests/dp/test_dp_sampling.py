"""Samples and noise have the right distribution, and the wrong ones are told apart."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from private_loops import Watcher
from scipy import stats
from torch.utils.data import DataLoader

from pipelines.dp.noise import BLOCK, Normals, add_noise, keystream
from pipelines.dp.ranks import Ranks
from pipelines.dp.sampling import PoissonLoader, physical_batches, plan_private_steps, poisson_sample
from pipelines.randomness import seeded, unpredictable


def flat(tensors):
    return torch.cat([t.flatten() for t in tensors])


def test_noise_has_the_stated_deviation():
    noise = [torch.zeros(150, 100), torch.zeros(5000)]
    add_noise(noise, 1.7, np.random.default_rng(5))
    values = flat(noise).numpy()
    assert stats.kstest(values, stats.norm(scale=1.7).cdf).pvalue > 1e-3
    for wrong in (1.7 * 2 / 3, 1.7 * 1.5):
        assert stats.kstest(values, stats.norm(scale=wrong).cdf).pvalue < 1e-9


def test_noise_is_added_to_what_is_there_and_never_repeats():
    base = torch.arange(100.0)
    noised = [base.clone(), base.clone()]
    add_noise(noised, 1e-3, np.random.default_rng(1))
    assert all(torch.allclose(tensor, base, atol=1e-2) for tensor in noised)
    assert not torch.equal(noised[0], noised[1])


def _p_values(sizes, inclusions, num_records, rate):
    """Of sample sizes against the binomial law, and of inclusion counts of records against each other."""
    law = stats.binom(num_records, rate)
    edges = law.ppf([0.1, 0.25, 0.5, 0.75, 0.9])
    bins = np.concatenate([[-0.5], np.unique(edges) + 0.5, [num_records + 0.5]])
    observed, _ = np.histogram(sizes, bins)
    expected = len(sizes) * np.diff(law.cdf(np.floor(bins)))
    by_size = stats.chisquare(observed, expected * len(sizes) / expected.sum()).pvalue
    even = (((inclusions - inclusions.mean()) ** 2).sum()) / (len(sizes) * rate * (1 - rate))
    return by_size, stats.chi2(num_records - 1).sf(even)


def _draws(sample, num_records):
    rng = np.random.default_rng(11)
    sizes, inclusions = [], np.zeros(num_records)
    for _ in range(3000):
        rows = sample(rng)
        sizes.append(len(rows))
        inclusions[rows] += 1
    return np.asarray(sizes), inclusions


def test_samples_are_poisson():
    num_records, rate = 120, 0.08
    by_size, by_record = _p_values(
        *_draws(lambda rng: poisson_sample(num_records, rate, rng), num_records), num_records, rate
    )
    assert by_size > 1e-3
    assert by_record > 1e-3


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rng: rng.choice(120, 10, replace=False),  # batches of a fixed size
        lambda rng: poisson_sample(120, 0.08 * 1.1, rng),
        lambda rng: poisson_sample(108, 0.08 / 0.9, rng),  # the last records are never drawn
        lambda rng: np.arange(120)[slice(rng.integers(12), None, 12)],  # shuffled epochs
    ],
)
def test_the_poisson_test_rejects_other_samplers(wrong):
    assert min(_p_values(*_draws(wrong, 120), 120, 0.08)) < 1e-6


def test_sampling_at_the_edges():
    rng = np.random.default_rng(0)
    assert poisson_sample(5, 1.0, rng).tolist() == [0, 1, 2, 3, 4]
    assert poisson_sample(5, 0.0, rng).tolist() == []
    assert poisson_sample(0, 0.5, rng).tolist() == []


@settings(max_examples=100, deadline=None)
@given(num_records=st.integers(0, 10**6), batch=st.integers(1, 5000), epochs=st.integers(1, 50))
def test_the_plan_draws_an_expected_epoch(num_records, batch, epochs):
    plan = plan_private_steps(num_records, batch, epochs)
    assert plan.num_steps == plan.steps_per_epoch * epochs
    assert 0 <= plan.sample_rate <= 1
    assert plan.expected_batch_size == pytest.approx(min(batch, num_records))
    drawn = plan.steps_per_epoch * plan.expected_batch_size
    assert drawn == pytest.approx(num_records, abs=plan.expected_batch_size / 2 + 1e-6)


def test_unpredictable_randomness_never_repeats_and_seeded_does():
    first, second = (unpredictable(0).random(4).tolist() for _ in range(2))
    assert first != second
    assert seeded(3)(7).random(4).tolist() == seeded(3)(7).random(4).tolist()
    assert seeded(3)(7).random(4).tolist() != seeded(3)(8).random(4).tolist()
    assert seeded(3)(7).random(4).tolist() != seeded(4)(7).random(4).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_over_many_blocks_is_gaussian_white_and_free_of_threads(dtype):
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        noise = [torch.zeros(300_001, dtype=dtype), torch.zeros(3, 100_000, dtype=dtype)]
        add_noise(noise, 0.5, np.random.default_rng(8))
        found.append(flat(noise))
    assert torch.equal(*found)
    values = found[0].numpy()
    assert stats.kstest(values, stats.norm(scale=0.5).cdf).pvalue > 1e-3
    assert stats.kstest(values, stats.norm(scale=0.5 * 1.01).cdf).pvalue < 1e-3
    step = BLOCK  # no block repeats another
    assert abs(np.corrcoef(values[: step - 100], values[step : 2 * step - 100])[0, 1]) < 0.02
    assert len(np.unique(values)) > 0.95 * len(values)


def test_no_noise_is_added_at_zero_but_a_key_is_drawn():
    rng, other = np.random.default_rng(1), np.random.default_rng(1)
    tensor = torch.ones(4)
    add_noise([tensor], 0.0, rng)
    add_noise([torch.ones(4)], 1.0, other)
    assert torch.equal(tensor, torch.ones(4))
    assert rng.random() == other.random()


@given(size=st.integers(0, 200), limit=st.integers(1, 50) | st.none())
def test_samples_are_cut_within_the_limit_and_lose_nothing(size, limit):
    parts = physical_batches(np.arange(size), limit)
    assert np.concatenate([*parts, []]).tolist() == list(range(size))
    assert all(1 <= len(part) <= (limit or size) for part in parts)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_loader_takes_every_step_of_an_epoch_once(workers):
    data = torch.arange(12.0)[:, None]
    watcher = Watcher()
    loader = PoissonLoader(
        DataLoader(torch.utils.data.TensorDataset(data), batch_size=1, num_workers=workers),
        plan_private_steps(12, 1, 1),
        watcher,
        seeded(3),
        max_physical_batch_size=1,
    )
    samples = [np.flatnonzero(seeded(3)(step).random(12) < 1 / 12).tolist() for step in range(24)]
    for epoch in range(2):
        assert loader.steps_per_epoch == 12
        seen = [int(v) for (batch,) in loader for v in batch[:, 0]]
        assert seen == [i for sample in samples[12 * epoch : 12 * epoch + 12] for i in sample]
    assert watcher.num_steps == 24
    assert watcher.said.count("empty") == sum(not s for s in samples) > 0
    assert watcher.said.count("part") == sum(max(len(s) - 1, 0) for s in samples) > 0


@pytest.mark.slow
def test_workers_start_as_the_loader_that_was_handed_in_says():
    """Forked workers fail in a process that ran a Prefect flow."""
    data = torch.utils.data.TensorDataset(torch.arange(12.0)[:, None])
    outer = DataLoader(data, batch_size=12, num_workers=2, multiprocessing_context="forkserver", prefetch_factor=1)
    loader = PoissonLoader(outer, plan_private_steps(12, 12, 1), Watcher(), seeded(3))
    assert [batch.flatten().tolist() for (batch,) in loader] == [list(range(12))]
    assert loader._inner.multiprocessing_context.get_start_method() == "forkserver"
    assert loader._inner.prefetch_factor == 1


def test_processes_draw_from_shards_that_cover_the_records_once():
    data = torch.utils.data.TensorDataset(torch.arange(10)[:, None])
    plan = plan_private_steps(10, 10, 1)  # everybody, each step
    seen = [
        sorted(int(v) for (batch,) in PoissonLoader(
            DataLoader(data, batch_size=10), plan, Watcher(), unpredictable, ranks=Ranks(rank, 3)
        ) for v in batch[:, 0])
        for rank in range(3)
    ]  # fmt: skip
    assert seen == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]


def test_noise_is_divided_with_the_sums():
    whole, divided = [torch.ones(3, 5), torch.ones(7)], [torch.ones(3, 5), torch.ones(7)]
    add_noise(whole, 0.5, np.random.default_rng(1))
    add_noise(divided, 0.5, np.random.default_rng(1), 16.0)
    assert torch.allclose(flat(whole) / 16, flat(divided), rtol=1e-6)
    add_noise(divided, 0.0, np.random.default_rng(1), 2.0)
    assert torch.allclose(flat(whole) / 32, flat(divided), rtol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([0, 1, 2, 3, 500, BLOCK - 1, BLOCK, BLOCK + 1]), max_size=6),
    doubles=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_noise_reaches_every_number_whatever_the_tensors(sizes, doubles):
    sums = [torch.zeros(n, dtype=torch.float64 if d else torch.float32) for n, d in zip(sizes, doubles, strict=False)]
    add_noise(sums, 1.0, np.random.default_rng(3))
    values = flat([s.double() for s in sums]) if sums else torch.zeros(0)
    assert (values != 0).all()
    assert len(values.unique()) >= 0.95 * len(values)  # and none of it twice


def normals(count, key=bytes(16)):
    drawn = Normals(torch.float32)
    blocks = [
        drawn.draw(min(BLOCK, count - at), keystream(key, at)).numpy().astype(np.float64)
        for at in range(0, count, BLOCK)
    ]
    return np.concatenate(blocks)


@pytest.mark.slow
def test_normals_are_normal_in_the_middle_and_in_the_tails():
    values = normals(4_000_001)
    assert stats.kstest(values, "norm").pvalue > 1e-3
    assert stats.kstest(values * 1.006, "norm").pvalue < 1e-3
    edges = stats.norm.isf([1e-3, 1e-4, 1e-5])
    for edge in edges:
        expected = len(values) * 2 * stats.norm.sf(edge)
        assert stats.poisson.cdf(np.sum(np.abs(values) > edge), expected) > 1e-4
        assert stats.poisson.sf(np.sum(np.abs(values) > edge) - 1, expected) > 1e-4
    half = BLOCK // 2  # halves of a pair
    pairs = values[: len(values) // BLOCK * BLOCK].reshape(-1, 2, half)
    assert abs(np.corrcoef(pairs[:, 0].ravel(), pairs[:, 1].ravel())[0, 1]) < 0.004


def test_streams_are_those_of_the_cipher_and_keys_and_numbers_tell_them_apart():
    # AES-128 of a zero block under a zero key (FIPS 197's reference implementation gives it everywhere).
    first = np.zeros(4, dtype=np.uint32)
    keystream(bytes(16), 0)(first)
    assert first.tobytes().hex() == "66e94bd4ef8a2c3b884cfa59ca342b2e"
    others = [normals(1000, key)[:1000] for key in (bytes(16), b"\1" + bytes(15))]
    assert not np.isin(others[0], others[1]).any()
    blocks = normals(3 * BLOCK).reshape(3, BLOCK)
    assert np.abs(np.corrcoef(blocks) - np.eye(3)).max() < 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_tail_goes_on_beyond_the_bits_of_a_radius(dtype):
    # In a stream of zeros all radii are the outermost one.
    outermost = Normals(dtype).draw(4, lambda words: words.fill(0)).abs().max()
    assert 10.5 < outermost < 11.5
