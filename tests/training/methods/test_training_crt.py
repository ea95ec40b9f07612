"""CRT end to end on a very small model: the step count, the noise, resuming, the order of things."""

import importlib
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy import stats
from support.crt_trainings import (
    NOTHING,
    PRIVATE,
    PUBLIC,
    gradients_handed_over,
    prepared,
    train,
    training_context,
    weights,
)
from support.tiny import CONTROL, all_ids, examples_of, records_of, tiny_model

from pipelines.accounting.events import NoEvent
from pipelines.dp.sampling import PrivatePlan
from pipelines.errors import StageError
from pipelines.methods.registry import METHODS
from pipelines.randomness import seeded, unpredictable
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.data.corpus import HeldOut
from pipelines.training.methods.base import Account
from pipelines.training.programme import Segment
from pipelines.training.scoring.evaluation import evaluate


@pytest.mark.slow
def test_training_lowers_the_loss_on_both_shards(tmp_path):
    outcome = train(tmp_path, tiny_model(), changes={"epochs": 6, "noise_multiplier": 0.1})
    assert outcome.curve[-1]["public_loss"] < outcome.curve[0]["public_loss"] - 0.5
    assert outcome.curve[-1]["private_loss"] < outcome.curve[0]["private_loss"] - 0.5
    assert [row["epoch"] for row in outcome.curve] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_private_steps_alone_lower_the_loss(tmp_path):
    outcome = train(tmp_path, tiny_model(), public=[], changes={"epochs": 8, "noise_multiplier": 0.1})
    assert outcome.num_steps == 8 * 4
    assert outcome.curve[0]["public_loss"] is None
    assert outcome.curve[-1]["private_loss"] < outcome.curve[0]["private_loss"] - 0.5


def test_without_private_rows_nothing_is_noised(tmp_path):
    outcome = train(tmp_path, tiny_model(), private=[])
    assert outcome.num_steps == 0
    assert prepared(PUBLIC, []).account(None) == Account(event=NoEvent())
    assert outcome.curve[-1]["public_loss"] < outcome.curve[0]["public_loss"]


@pytest.mark.parametrize("private", [[("<MASK>", "USR")] * 10, [("<MASK>", "USR")] * 40])
def test_each_step_adds_noise_once_and_divides_by_the_expected_size(tmp_path, private):
    # Wholly masked records have no gradient, so what the optimizer is handed is the noise.
    model = tiny_model()
    with gradients_handed_over() as steps:
        train(tmp_path, model, public=[], private=private, batch=10, changes={"epochs": 1, "noise_multiplier": 1.3})
    handed = steps[-1].numpy()
    deviation = 1.3 * 0.5 / 10
    assert stats.kstest(handed, stats.norm(scale=deviation).cdf).pvalue > 1e-3
    for wrong in (deviation * 2 / 3, deviation * 1.5):
        assert stats.kstest(handed, stats.norm(scale=wrong).cdf).pvalue < 1e-9


def test_the_microbatch_size_does_not_change_the_noise(tmp_path):
    # Noise for each microbatch, instead of once a step, would show as a larger deviation.
    handed = []
    for size in (2, 64):
        model = tiny_model()
        folder = tmp_path / str(size)
        folder.mkdir()
        with gradients_handed_over() as steps:
            train(folder, model, public=[], batch=32, changes={"epochs": 1}, microbatch_size=size)
        handed.append(steps[-1])
    assert torch.allclose(handed[0], handed[1], atol=1e-5)


def test_an_empty_sample_is_still_a_noisy_step(tmp_path):
    model = tiny_model()
    before = weights(model)
    plan = PrivatePlan(sample_rate=1e-12, expected_batch_size=1.0, steps_per_epoch=1, num_steps=1)
    training = prepared([], PRIVATE, epochs=1)
    step = Segment(kind="private", num_steps=1, ends_epoch=True)
    outcome = replace(training, plan=plan, programme=[step]).train(
        model, 0.3, training_context(tmp_path, randomness=seeded(1))
    )
    assert outcome.num_steps == 1
    assert (weights(model) != before).all()


class Killed(BaseException):
    """Stands for SIGKILL: no handler of the code under test runs for long after it."""


def _kill_at(step):
    seen = []

    def progress(done, total, message):
        seen.append(done)
        if len(seen) == step:
            raise Killed

    return progress


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", [1, 4, 9])
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(tmp_path, kill_at):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole, killed, resumed = tiny_model(), tiny_model(), tiny_model()
    expected = train(tmp_path / "a", whole)
    with pytest.raises(Killed):
        train(tmp_path / "b", killed, progress=_kill_at(kill_at))
    outcome = train(tmp_path / "b", resumed)
    assert outcome.was_resumed
    assert not expected.was_resumed
    assert outcome.num_steps == expected.num_steps == 3 * 4
    assert outcome.curve == expected.curve
    assert torch.equal(weights(resumed), weights(whole))  # predictable randomness: the very same run


def test_a_resumed_run_redoes_only_what_the_checkpoint_lacks_with_fresh_randomness(tmp_path):
    drawn = []

    def randomness(step):
        drawn.append(step)
        return unpredictable(step)

    checkpoints = {"checkpoints": Checkpoints(tmp_path / "c.ckpt", "recipe", interval_seconds=1e9)}
    with pytest.raises(Killed):  # 4 public batches, then 2 private steps of the first epoch, which no checkpoint holds
        train(tmp_path, tiny_model(), randomness=randomness, progress=_kill_at(6), **checkpoints)
    assert drawn == [0, 1]
    outcome = train(tmp_path, tiny_model(), randomness=randomness, **checkpoints)
    assert drawn == [0, 1, *range(12)]
    assert outcome.num_steps == 12


@pytest.mark.slow
def test_a_damaged_checkpoint_starts_the_run_again(tmp_path):
    with pytest.raises(Killed):
        train(tmp_path, tiny_model(), progress=_kill_at(7))
    path = tmp_path / "c.ckpt"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(bytes(raw))
    said = []
    outcome = train(tmp_path, tiny_model(), progress=lambda done, total, message: said.append(message))
    assert "damaged" in said[0]
    assert not outcome.was_resumed
    assert outcome.num_steps == 12


def test_public_minibatches_cover_every_row_once_in_an_order_of_their_own(tmp_path):
    rows = [f"row {i}" for i in range(10)]
    public = records_of(rows)
    seen = []

    class Watched(type(public.ids)):
        def __getitem__(self, row):
            seen.append(row)
            return super().__getitem__(row)

    public.ids.__class__ = Watched
    training = replace(prepared(rows, [], epochs=2), nonprivate_examples=public)
    training.train(tiny_model(), 0.0, training_context(tmp_path, randomness=unpredictable))
    epochs = seen[:10], seen[10:]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_divergence_says_what_to_do(tmp_path):
    model = tiny_model()
    with torch.no_grad():
        next(model.parameters())[:] = math.inf
    with pytest.raises(StageError, match="public_learning_rate"):
        train(tmp_path, model)


def test_methods_are_found_by_name():
    for spec in METHODS.values():
        assert callable(importlib.import_module(spec.module).prepare)


def test_checkpoints_of_another_recipe_are_ignored(tmp_path):
    Checkpoints(tmp_path / "c", "one").save({"x": torch.ones(2), "n": 3})
    assert Checkpoints(tmp_path / "c", "other").load() is None
    state = Checkpoints(tmp_path / "c", "one").load()
    assert state["n"] == 3
    assert torch.equal(state["x"], torch.ones(2))
    assert Checkpoints(tmp_path / "none", "one").load() is None


@hypothesis_settings(max_examples=50, deadline=None)
@given(
    state=st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-(2**60), 2**60),
            st.floats(allow_nan=False),
            st.text(max_size=5),
            st.builds(
                lambda shape, dtype: torch.arange(math.prod(shape)).reshape(shape).to(dtype),
                st.lists(st.integers(0, 3), max_size=3),
                st.sampled_from([torch.float32, torch.bfloat16, torch.int64, torch.bool]),
            ),
        ),
        lambda inside: st.one_of(
            st.lists(inside, max_size=3),
            st.dictionaries(st.one_of(st.text(max_size=3), st.integers(0, 9)), inside, max_size=3),
        ),
        max_leaves=8,
    )
)
def test_checkpoints_give_back_what_was_saved(tmp_path_factory, state):
    def same(a, b):
        if isinstance(a, torch.Tensor):
            return a.dtype == b.dtype and torch.equal(a, b)
        if isinstance(a, dict):
            return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
        if isinstance(a, list):
            return len(a) == len(b) and all(map(same, a, b))
        return type(a) is type(b) and a == b

    path = tmp_path_factory.mktemp("c") / "c"
    Checkpoints(path, "one").save({"state": state})
    assert same({"state": state}, Checkpoints(path, "one").load())
    assert b"pickle" not in path.read_bytes()


@pytest.mark.parametrize("size", [0, 10, 40, 200])
def test_a_cut_checkpoint_is_ignored(tmp_path, size):
    Checkpoints(tmp_path / "c", "one").save({"x": torch.ones(200)})
    (tmp_path / "c").write_bytes((tmp_path / "c").read_bytes()[:size])
    assert Checkpoints(tmp_path / "c", "one").load() is None


def test_checkpoints_are_due_by_the_clock(tmp_path):
    now = [0.0]
    checkpoints = Checkpoints(tmp_path / "c", "r", interval_seconds=60, clock=lambda: now[0])
    for now[0], expected in ((59.0, None), (61.0, {"at": 61.0}), (100.0, {"at": 61.0}), (121.0, {"at": 121.0})):
        checkpoints.save_if_due(lambda: {"at": now[0]})
        assert checkpoints.load() == expected


def test_perplexity_is_that_of_one_sentence_at_a_time():
    rows = [("hello you there", "USR"), ("b", None), ("what is it that I can do for", "SYS"), ("", None)]
    records = records_of(rows)
    held_out = HeldOut(
        records=records,
        num_words=np.asarray([len(text.split()) + 1 for text, _ in rows]),
        documents=np.asarray([0, 0, 1, 1]),
        num_available=4,
    )
    model = tiny_model(seed=2)
    total = tokens = right = 0
    for ids, targets in examples_of(records):
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].log_softmax(-1)
        for t in range(1, len(ids)):
            if targets[t]:
                total -= logits[t - 1, ids[t]].item()
                right += int(logits[t - 1].argmax()) == ids[t]
                tokens += 1
    found = evaluate(model, held_out)
    assert found.perplexity == pytest.approx(math.exp(total / tokens), rel=1e-5)
    assert found.perplexity_per_word == pytest.approx(math.exp(total / (3 + 1 + 8 + 3)), rel=1e-5)
    assert found.next_token_accuracy == pytest.approx(right / tokens)
    assert (found.num_sentences, found.num_tokens) == (3, tokens)
    assert found.perplexity == pytest.approx(model.config.vocab_size, rel=0.1)  # it has learnt nothing


@pytest.mark.slow
def test_standard_error_matches_resampled_documents():
    rng = np.random.default_rng(4)
    texts = ["".join(rng.choice(list("abcdefgh"), rng.integers(1, 12))) for _ in range(80)]
    records = records_of(texts)
    model = tiny_model(seed=2)
    documents = np.arange(80) // 2

    def loss(which):
        rows = np.concatenate([[2 * d, 2 * d + 1] for d in which])
        part = records_of([texts[i] for i in rows])
        held = HeldOut(records=part, num_words=np.ones(len(rows), int), documents=rows // 2, num_available=len(rows))
        return evaluate(model, held).loss

    stated = evaluate(
        model, HeldOut(records=records, num_words=np.ones(80, int), documents=documents, num_available=80)
    ).loss_standard_error
    resampled = np.std([loss(rng.integers(0, 40, 40)) for _ in range(60)])
    assert stated == pytest.approx(resampled, rel=0.3)


def test_nothing_to_evaluate_is_no_crash():
    found = evaluate(tiny_model(), NOTHING)
    assert found.perplexity is None
    assert found.reason
    assert found.num_tokens == 0


def test_records_helper_agrees_with_the_control_tokens():
    assert all_ids(records_of([("a", "USR")]))[0][:2] == [CONTROL.bos, CONTROL.speakers["USR"]]
