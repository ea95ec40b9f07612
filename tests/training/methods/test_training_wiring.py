"""What the train stage does to private records, seen from outside, is what its events.json says.

The stage runs as a whole; all that is watched is what each optimizer is handed. With learning rates too small to move
a weight, every private step is the same linear experiment: (clipped gradients of the records drawn + noise) / expected
batch size. Wholly masked records have no gradient, which leaves the noise alone; records of known gradients show, by
least squares, who was drawn and with what weight.
"""

import json
import random
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from oracles import dp_gradients
from scipy import stats
from support.contexts import stage_context
from support.tiny import write_sentences, write_shard
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_pre_hook

from pipelines.context import Runtime, Spent
from pipelines.randomness import unpredictable
from pipelines.settings.train import TrainConfig
from pipelines.stages.train.train import run

CONTEXT_LENGTH = 24
FROZEN = {"public_learning_rate": 2e-30, "private_learning_rate": 1e-30}  # below half a unit in the last place
SMALL = {
    "num_layers": 1,
    "num_heads": 2,
    "embedding_size": 8,
    "context_length": CONTEXT_LENGTH,
    "tokenizer": "bytes",
    "speakers": ("SYS", "USR"),
    "public_batch_size": 4,
    **FROZEN,
}
PUBLIC = [(f"{ask} {what}", "SYS") for ask in ("may I", "can you", "I will") for what in ("wait", "see it", "go on")]
MASKED = ("<MASK>", "USR")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
DISTINCT = [f"{first}{LETTERS[3 * at % 36]} <MASK> {first * (at % 4)}{at}" for at, first in enumerate(LETTERS)]
TEXTS = [
    *((text, "USR") for text in DISTINCT),
    ("nobody knows this speaker", "<stranger>"),
    ("no speaker <MASK>", None),
    ("a text that is far longer than the model can see at once", "SYS"),
    ("<MASK>" * (CONTEXT_LENGTH - 3) + "x", "USR"),  # cut: the last text token stays, the end token does not
]
BAND = 1e-3
"""Chance that a test rejects a right program. The seed of the tests is fixed, so this was drawn once and for all."""
WIDE_BAND = 1e-9
"""The same where the randomness is the operating system's, and each run of the tests draws anew."""


class RecordingLedger:
    """Notes when the stage speaks to the ledger, between the steps of the optimizers."""

    def __init__(self, steps):
        self.steps = steps
        self.said = []

    def reserve(self, event, delta, *, facts, is_public, insecure_test_seed=False):
        assert is_public
        assert [phase["event"] for phase in facts["phases"]] == [event]
        self.said.append(("reserve", len(self.steps), event, delta, insecure_test_seed))
        return Spent()

    def commit(self):
        self.said.append(("commit", len(self.steps)))


@dataclass
class Seen:
    """What a run of the stage showed: (steps, coordinates) gradients handed to each optimizer, and its files."""

    public: np.ndarray
    private: np.ndarray
    sizes: list[int]
    events: dict
    ledger: list
    model_folder: object

    @property
    def step(self):
        return self.events["event"]["event"]

    @property
    def expected_batch_size(self):
        return self.step["sample_rate"] * self.events["num_private_records"]

    @property
    def deviation(self):
        """Of the noise in the sum, as events.json claims it."""
        return self.step["event"]["noise_multiplier"] * self.events["max_grad_norm"]

    @property
    def noisy_sums(self):
        """(steps, coordinates) the private sums before division."""
        return self.private * self.expected_batch_size


def run_stage(folder, private, public=PUBLIC, seed=11, insecure=True, microbatch_size=3, **settings):
    config = TrainConfig(**{**SMALL, "insecure_test_seed": insecure, **settings})
    assert config.public_learning_rate != config.private_learning_rate  # how the two optimizers are told apart
    for name in ("shard", "split"):
        (folder / name).mkdir(parents=True)
    write_shard(folder / "shard" / "private.parquet", private)
    write_shard(folder / "shard" / "public.parquet", public)
    write_sentences(folder / "split" / "sentences.parquet", [("held out", "USR", "train")])
    handed = []

    def watch(optimizer, args, kwargs):
        (group,) = optimizer.param_groups
        flat = torch.cat([p.grad.detach().flatten() for p in group["params"]]).double().numpy()
        handed.append((group["lr"], flat, [p.numel() for p in group["params"]]))

    ledger = RecordingLedger(handed)
    ctx = stage_context(
        "train",
        folder / "private",
        {"train": config},
        {"shard": folder / "shard", "split": folder / "split"},
        public_folder=folder / "public",
        seed=seed,
        runtime=Runtime(device="cpu", microbatch_size=microbatch_size),
        ledger=ledger,
    )
    handle = register_optimizer_step_pre_hook(watch)
    try:
        run(ctx)
    finally:
        handle.remove()
    rates = {"public": config.public_learning_rate, "private": config.private_learning_rate}
    assert {rate for rate, _, _ in handed} <= set(rates.values())
    width = sum(handed[0][2])
    rows = {
        kind: np.asarray([flat for used, flat, _ in handed if used == rate]).reshape(-1, width)
        for kind, rate in rates.items()
    }
    return Seen(
        **rows,
        sizes=handed[0][2],
        events=json.loads((folder / "private" / "events.json").read_text()),
        ledger=ledger.said,
        model_folder=folder / "public" / "model",
    )


def in_chi_square_band(values, deviation, chance, lost=0):
    """Whether independent normal values, less ``lost`` degrees of freedom, can have that standard deviation."""
    low, high = stats.chi2.ppf([chance / 2, 1 - chance / 2], values.size - lost)
    return low <= (values**2).sum() / deviation**2 <= high


def in_binomial_band(count, trials, rate, chance=BAND):
    low, high = stats.binom.ppf([chance / 2, 1 - chance / 2], trials, rate)
    return low <= count <= high


# The noise: every private record is wholly masked, so the noise is all that the optimizer is handed.


@pytest.mark.parametrize(
    ("max_grad_norm", "noise"),
    [
        (0.1, {"noise_multiplier": 1.3}),
        (2.0, {"noise_multiplier": 1.3}),
        (2.0, {"noise_multiplier": 0.4, "insecure": False}),
        pytest.param(0.1, {"target_epsilon": 3.0, "target_delta": 1e-3}, marks=pytest.mark.slow),
    ],
    ids=["small norm", "large norm", "unpredictable", "calibrated"],
)
def test_the_noise_is_the_one_in_events(tmp_path, max_grad_norm, noise):
    seen = run_stage(tmp_path, [MASKED] * 12, expected_batch_size=2, epochs=4, max_grad_norm=max_grad_norm, **noise)
    chance = BAND if noise.get("insecure", True) else WIDE_BAND
    assert seen.events["max_grad_norm"] == max_grad_norm
    assert noise.get("noise_multiplier") in (None, seen.step["event"]["noise_multiplier"])
    assert seen.expected_batch_size == pytest.approx(2)
    assert len(seen.private) == seen.events["event"]["count"] == 24
    assert in_chi_square_band(seen.noisy_sums, seen.deviation, chance)
    for wrong in (0.95, 1.05):  # the test can tell
        assert not in_chi_square_band(seen.noisy_sums, seen.deviation * wrong, chance)
    for step in seen.noisy_sums:  # some of the samples were empty; the noise knows nothing of it
        assert in_chi_square_band(step, seen.deviation, chance / 24)
    borders = np.cumsum(seen.sizes)[:-1]
    for parameter in np.split(seen.noisy_sums, borders, axis=1):  # and it is on every parameter
        assert in_chi_square_band(parameter, seen.deviation, chance / len(seen.sizes))
    likeness = np.corrcoef(seen.noisy_sums)[np.triu_indices(24, 1)]  # fresh in every step of every epoch
    assert abs(likeness).max() < stats.norm.isf(chance / 2 / likeness.size) / np.sqrt(seen.noisy_sums.shape[1])


# The samples and the clipping: records of known gradients.


@pytest.fixture(scope="module", params=[pytest.param(0.1, marks=pytest.mark.slow), 2.0])
def members(request, tmp_path_factory):
    """A run, the clipped gradients of its records, and the weight of each record in each step by least squares."""
    seen = run_stage(
        tmp_path_factory.mktemp("members"),
        [*TEXTS[:25], *[MASKED] * 20, *TEXTS[25:]],
        expected_batch_size=6,
        epochs=12,
        max_grad_norm=request.param,
        noise_multiplier=1e-3,
    )
    found = [dp_gradients.clipped_sum([one], request.param) for one in gradients_of_texts(seen.model_folder)]
    known = np.stack([torch.cat([g.flatten() for g in gradient]).numpy() for gradient in found], axis=1)
    weights, *_ = np.linalg.lstsq(known, seen.noisy_sums.T, rcond=None)
    return seen, known, weights.T  # (coordinates, records) and (steps, records)


def gradients_of_texts(model_folder):
    """Gradients of each text's mean loss over its own targets, by the published model, whose weights never moved."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(model_folder).double()
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    for text, speaker in TEXTS:
        name = "" if speaker is None else f"<{speaker}>" if speaker in SMALL["speakers"] else "<SPEAKER>"
        ids = tokenizer(f"<BOS>{name}{text}<EOS>", add_special_tokens=False)["input_ids"][:CONTEXT_LENGTH]
        tokens = tokenizer.convert_ids_to_tokens(ids)
        places = [at for at, token in enumerate(tokens) if at and token not in (name, "<MASK>")]

        def loss(model, _, ids=ids, places=places):
            logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
            return functional.cross_entropy(logits[[at - 1 for at in places]], torch.tensor(ids)[places])

        yield from dp_gradients.example_gradients(model, loss, 1)


def test_every_record_counts_wholly_or_not_at_all(members):
    seen, known, weights = members
    norms = np.linalg.norm(known, axis=0)
    assert norms.max() == pytest.approx(seen.events["max_grad_norm"])
    if seen.events["max_grad_norm"] == 2.0:
        assert norms.min() < 1.8  # records on both sides of the norm
    drawn = weights > 0.5
    error = np.linalg.norm(np.linalg.pinv(known), axis=1) * seen.deviation  # of each record's weight
    assert error.max() < 0.05
    z = (weights - drawn) / error
    assert abs(z).max() < stats.norm.isf(BAND / 2 / z.size)
    precision = np.where(drawn, error**-2, 0)
    mean = (weights * precision).sum() / precision.sum()
    assert mean == pytest.approx(1, abs=2e-3)  # a clipping norm or a divisor that is 1 % off shows


def test_noise_on_real_gradients_is_the_one_in_events(members):
    seen, known, weights = members
    rest = seen.noisy_sums - weights @ known.T
    lost = weights.size
    assert in_chi_square_band(rest, seen.deviation, BAND, lost)
    for wrong in (0.99, 1.01):
        assert not in_chi_square_band(rest, seen.deviation * wrong, BAND, lost)


def test_records_are_drawn_on_their_own_at_the_rate_in_events(members):
    seen, _, weights = members
    drawn = weights > 0.5
    num_steps, num_records = drawn.shape
    rate = seen.step["sample_rate"]
    assert seen.events["num_private_records"] == 60  # wholly masked records are drawn from, too
    assert rate == 6 / 60
    assert num_steps == seen.events["event"]["count"] == 120
    assert in_binomial_band(drawn.sum(), drawn.size, rate)
    for wrong in (rate * 0.75, rate * 1.33, rate * 2):
        assert not in_binomial_band(drawn.sum(), drawn.size, wrong)
    # Sizes of samples, and how often each record is drawn, scatter as independent draws do: no batches of a fixed
    # size, no shuffled epochs, no record left out.
    for counts, trials in ((drawn.sum(axis=1), num_records), (drawn.sum(axis=0), num_steps)):
        scatter = ((counts - trials * rate) ** 2).sum() / (trials * rate * (1 - rate))
        low, high = stats.chi2.ppf([BAND / 2, 1 - BAND / 2], counts.size)
        assert low < scatter < high
    assert all(in_binomial_band(count, num_steps, rate, BAND / num_records) for count in drawn.sum(axis=0))
    assert not in_binomial_band(0, num_steps, rate, BAND / num_records)
    # No sample follows from another: not from the last one, not from the same step of the last epoch.
    for lag in (1, 10):
        both = (drawn[lag:] & drawn[:-lag]).sum()
        assert in_binomial_band(both, drawn[lag:].size, rate**2)


def test_the_ledger_hears_the_event_before_any_step_and_is_closed_after_the_last(members):
    seen, _, _ = members
    num_steps = len(seen.public) + len(seen.private)
    assert seen.ledger == [
        ("reserve", 0, seen.events["event"], seen.events["target_delta"], True),
        ("commit", num_steps),
    ]


# The border between public and private: one private record is replaced.

CANARY = ("quixotry quixotry zebulon quixotry zebulon", "QUIXOTRY")
BORDER = {
    "tokenizer": "bpe_public",
    "vocab_size": 400,
    "speakers": (),
    "min_speaker_rows": 1,
    "public_learning_rate": 1e-2,
    "expected_batch_size": 5,
    "epochs": 3,
    "max_grad_norm": 0.5,
    "noise_multiplier": 1.0,
}
OTHERS = TEXTS[:9]


@pytest.mark.slow
def test_a_private_record_moves_private_steps_by_its_norm_and_public_steps_not_at_all(tmp_path):
    without = run_stage(tmp_path / "without", [MASKED, *OTHERS], **BORDER)
    planted = run_stage(tmp_path / "planted", [CANARY, *OTHERS], **BORDER)
    assert len(without.public) == len(planted.public) == 3 * 3
    assert np.array_equal(without.public, planted.public)
    moved = np.linalg.norm(planted.noisy_sums - without.noisy_sums, axis=1)  # same samples, same noise
    assert len(moved) == 6
    assert 0 < (moved > 0).sum() < 6
    assert moved[moved > 0] == pytest.approx(BORDER["max_grad_norm"], rel=1e-4)
    # Other and more private records: more private steps, and still the same public ones.
    other = run_stage(tmp_path / "other", [CANARY] * 20, **BORDER)
    assert len(other.private) == 3 * 4
    assert np.array_equal(without.public, other.public)


def test_a_public_record_does_move_public_steps(tmp_path):
    frozen = {**BORDER, "tokenizer": "bytes", "epochs": 1, "noise_multiplier": 0.0}
    one = run_stage(tmp_path / "one", [MASKED], **frozen)
    other = run_stage(tmp_path / "other", [MASKED], public=[*PUBLIC[:-1], (CANARY[0], "SYS")], **frozen)
    assert one.public.shape == other.public.shape
    assert not np.array_equal(one.public, other.public)
    assert not one.private.any()  # no noise was asked for, and a masked record gives nothing


# The generator of private steps.


def test_the_key_of_a_private_step_has_128_bits_of_its_own():
    keys = np.asarray([unpredictable(0).bit_generator.state["state"]["key"] for _ in range(64)], dtype=np.uint64)
    bits = np.unpackbits(keys.view(np.uint8), axis=1)
    assert bits.shape == (64, 128)
    assert bits.any(axis=0).all()
    assert not bits.all(axis=0).any()


def test_no_seed_that_anybody_sets_repeats_a_private_step():
    drawn = []
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        drawn.append(unpredictable(7).random(4).tolist())
    assert drawn[0] != drawn[1]
