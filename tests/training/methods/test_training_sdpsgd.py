"""Selective-DPSGD: spans as in the paper, no way around the noise, and every query counted."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support.tiny import CONTROL, TOKENIZER, rows_of
from support.training_tables import parse
from torch.nn import functional

from pipelines.accounting.accountants import epsilon, gdp_epsilon, pld_epsilon
from pipelines.accounting.events import Gaussian, NeighboringRelation, NoEvent, SelfComposed, dp_sgd
from pipelines.errors import ConfigError, StageError
from pipelines.methods.registry import RULES
from pipelines.randomness import seeded, unpredictable
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.data.ragged import RaggedArray
from pipelines.training.data.records import Records, frame_of, target_positions
from pipelines.training.data.rows import split_private
from pipelines.training.data.span_plan import calibrate, check_queries, event, plan, sample
from pipelines.training.data.spans import SpanPair, span_pairs, spanned
from pipelines.training.methods import redaction_schedule, sdpsgd_lstm
from pipelines.training.methods.sdpsgd_lstm import Recipe, clip_rows, train
from pipelines.training.models.lstm import build_lstm, load_lstm, save_lstm
from pipelines.training.scoring.evaluation import Evaluation

RECIPE = Recipe(
    public_learning_rate=0.5, private_learning_rate=0.05, max_grad_norm=0.1, max_state_norm=0.3, noise_multiplier=1.0
)
TEXTS = [
    "My name is {Ann Lee}, thank you.",
    "{Bo} here. I live at {12 Elm St}.",
    "No secret.",
    "Call {555} and {777} or {999} now, please.",
    "It is {Ann}",
    "{all of it}",
]
NOTHING = Evaluation(
    perplexity=None, perplexity_per_word=None, loss=None, loss_standard_error=None, next_token_accuracy=None,
    num_sentences=0, num_tokens=0, reason="not evaluated",
)  # fmt: skip


def marked_records(texts, context_length=64):
    """Records of texts whose private parts stand in braces."""
    ids, marks = [], []
    for marked in texts:
        row, flags = [], [0]
        for piece, is_private in split_private(*parse(marked)):
            found = TOKENIZER.encode(piece, add_special_tokens=False).ids
            row += found
            flags += [int(is_private)] * len(found)
        record, _ = frame_of(rows_of([(None, marked)]), CONTROL).encode([row], context_length)
        ids.append(record)
        marks.append([*flags, 0][: len(record)])
    offsets = np.cumsum([0, *map(len, ids)])
    flat = lambda rows, dtype: np.asarray([x for row in rows for x in row], dtype=dtype)  # noqa: E731
    return Records(
        ids=RaggedArray(flat(ids, np.int32), offsets),
        num_targets=np.asarray([int(target_positions(np.asarray(row), CONTROL).sum()) for row in ids], dtype=int),
        num_truncated=0,
        control=CONTROL,
        is_private=RaggedArray(flat(marks, np.uint8), offsets),
    )


def small_model(seed=1, **changes):
    return build_lstm(TOKENIZER.get_vocab_size(), seed, 12, 10, **changes)


def run(folder, records, model=None, recipe=RECIPE, epochs=3, batch=3, max_private_spans=2, randomness=None, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    model = model or small_model()
    made = plan(len(records), batch, epochs, max_private_spans, seed=5)
    options = {
        "randomness": randomness or seeded(9),
        "checkpoints": Checkpoints(folder / "c.ckpt", "r"),
        "evaluate": lambda m: NOTHING,
        "epsilon_so_far": lambda num_steps: 0.5 * num_steps,
        "microbatch_size": 2,
        "progress": lambda done, total, message: None,
        **changes,
    }
    return model, made, train(model, records, recipe, made, **options)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


# Spans


@settings(max_examples=300, deadline=None)
@given(marks=st.lists(st.booleans(), min_size=2, max_size=25), most=st.integers(1, 5))
def test_spans_alternate_and_cover_every_position_once(marks, most):
    marks = np.asarray(marks)
    pairs = span_pairs(marks, most)
    flat = [edge for pair in pairs for edge in pair]
    assert flat[0] == 0
    assert flat[-1] == len(marks) - 1
    assert flat == sorted(flat)
    assert all(a.stop == b.public_start for a, b in itertools.pairwise(pairs))
    assert all(pair.public_start < pair.private_start for pair in pairs[1:])  # only the first public span may be empty
    assert all(pair.private_start < pair.stop for pair in pairs[:-1])
    assert sum(pair.private_start < pair.stop for pair in pairs) <= most
    for pair in pairs:  # no private token is read, and none is a target, in a public span
        for t in range(pair.public_start, pair.private_start):
            assert not marks[t]
            assert not marks[t + 1]
    needed = marks[:-1] | marks[1:]
    if len(np.flatnonzero(np.diff(needed, prepend=False, append=False))) // 2 <= most:  # nothing more than needed
        assert [t for p in pairs for t in range(p.private_start, p.stop)] == np.flatnonzero(needed).tolist()


def test_a_private_span_takes_the_token_before_it_and_a_lone_public_one_between():
    #        0  1  2  3  4  5  6  7
    marks = [0, 0, 1, 0, 1, 0, 0, 0]
    # Token 2 is private, so are positions 1 (it predicts it) and 2; token 3 stands alone between two private ones.
    assert span_pairs(np.asarray(marks, bool), 9) == [SpanPair(0, 1, 5), SpanPair(5, 7, 7)]
    assert span_pairs(np.asarray([0, 1, 0, 0, 0, 1, 0], bool), 9) == [SpanPair(0, 0, 2), SpanPair(2, 4, 6)]


def test_from_the_last_private_span_on_everything_is_private():
    marks = np.asarray([0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0], bool)
    assert [p.stop for p in span_pairs(marks, 9)] == [2, 5, 8, 10]
    assert span_pairs(marks, 2) == [SpanPair(0, 0, 2), SpanPair(2, 3, 10)]


def test_records_without_marks_are_refused():
    with pytest.raises(ValueError, match="marked"):
        spanned(dataclasses.replace(marked_records(TEXTS), is_private=None), np.arange(2), 3)


# The model


def test_the_model_of_the_paper_has_one_layer_of_200():
    model = build_lstm(500, seed=0)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert shapes["embedding.weight"] == shapes["decoder.weight"] == (500, 200)
    assert shapes["lstm.weight_ih_l0"] == shapes["lstm.weight_hh_l0"] == (800, 200)
    tied = build_lstm(500, seed=0, is_tied=True)
    assert sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in tied.parameters()) == 500 * 200
    with pytest.raises(ConfigError, match="equal sizes"):
        build_lstm(500, 0, 10, 12, is_tied=True)


def test_reading_in_parts_with_padding_equals_reading_at_once():
    model = small_model().double()
    ids = torch.randint(0, 200, (3, 9), generator=torch.Generator().manual_seed(0))
    whole = model(ids)
    first = model(ids[:, :4], lengths=torch.tensor([4, 4, 4]))
    padded = torch.cat([ids[:, 4:], torch.zeros(3, 3, dtype=torch.long)], dim=1)
    second = model(padded, first.state, torch.tensor([5, 2, 5]))
    assert torch.allclose(second.logits[0, :5], whole.logits[0, 4:])
    assert torch.allclose(second.logits[1, :2], whole.logits[1, 4:6])
    assert torch.allclose(second.state[1][1], model(ids[:, :6]).state[1][1])  # the cell where the example ends
    assert torch.allclose(second.state[0][2], whole.state[0][2])


@pytest.mark.parametrize("is_tied", [False, True])
def test_a_saved_model_comes_back(tmp_path, is_tied):
    model = build_lstm(50, 3, 8, 8, is_tied=is_tied)
    save_lstm(model, tmp_path / "model")
    loaded = load_lstm(tmp_path / "model")
    assert torch.equal(weights(loaded), weights(model))
    assert (loaded.decoder.weight is loaded.embedding.weight) == is_tied
    (tmp_path / "model" / "config.json").write_text('{"architecture": "gpt2"}')
    with pytest.raises(ConfigError, match="reticent-lstm"):
        load_lstm(tmp_path / "model")


# No way around the noise


SECRETS = [
    ["Ann Lee", "Bo", "12 Elm St", "555", "777", "999", "Ann", "all of it"],
    ["Zo", "Hieronymus the Elder", "9", "1", "22 22", "3", "\N{SNOWMAN}", "nothing but this"],
]


def _with_secrets(secrets):
    left = iter(secrets)
    return ["".join(p if i % 2 == 0 else "{" + next(left) + "}" for i, p in enumerate(_split(t))) for t in TEXTS]


def _split(text):
    return text.replace("}", "{").split("{")


def _outputs(tmp_path, monkeypatch, release):
    """The weights after training on two corpora that differ in what is private only."""
    monkeypatch.setattr(sdpsgd_lstm, "release", release)
    found = []
    for number, secrets in enumerate(SECRETS):
        records = marked_records(_with_secrets(secrets), context_length=200)
        found.append(weights(run(tmp_path / str(number), records, max_private_spans=3)[0]))
    return found


def _swallowed(values, deviation, rng):
    """Noise so large that nothing of the value is left, while gradients would still flow through it."""
    return 0.05 + values - values.detach() if values.requires_grad else torch.full_like(values, 0.05)


def test_private_text_reaches_the_weights_through_release_alone(tmp_path, monkeypatch):
    one, other = _outputs(tmp_path, monkeypatch, _swallowed)
    assert torch.equal(one, other)
    # The check has power: with released values let through, the weights differ.
    one, other = _outputs(tmp_path / "b", monkeypatch, lambda values, deviation, rng: values.detach().clone())
    assert not torch.equal(one, other)


def test_states_alone_would_tell_without_noise(tmp_path, monkeypatch):
    # Gradients swallowed, states let through: so states do need their noise, and the test above sees them.
    def states_only(values, deviation, rng):
        is_state = values.dim() == 2 and values.shape[1] == 10 and values.shape[0] <= 6
        return values.detach().clone() if is_state else _swallowed(values, deviation, rng)

    one, other = _outputs(tmp_path, monkeypatch, states_only)
    assert not torch.equal(one, other)


def test_a_public_gradient_stops_at_the_state_before_it(tmp_path, monkeypatch):
    """The gradient of every public span equals that of the span alone, its state a constant."""
    seen = []
    original = sdpsgd_lstm._Run._regular_update

    def spied(self, batch, spans, state):
        start = [s.clone() for s in state]
        before = weights(self.model).clone()
        model = build_lstm(TOKENIZER.get_vocab_size(), 0, 12, 10).double()
        model.load_state_dict(self.model.state_dict())
        original(self, batch, spans, state)
        assert not any(s.requires_grad for s in state)
        if not spans:
            return
        losses = []
        for at, (a, b) in spans.items():
            record = batch[at]
            ids = torch.from_numpy(record.ids)
            logits = model(ids[None, a:b], (start[0][at][None].detach(), start[1][at][None].detach())).logits[0]
            wanted = torch.from_numpy(record.targets[a + 1 : b + 1].copy())
            if wanted.any():
                losses.append(functional.cross_entropy(logits[wanted], ids[a + 1 : b + 1][wanted]))
            assert not np.asarray(self.records.is_private[record.row])[a : b + 1].any()
        expected = torch.autograd.grad(sum(losses) / len(spans), list(model.parameters())) if losses else None
        moved = (before - weights(self.model)) / self.recipe.public_learning_rate
        if expected is not None:
            assert torch.allclose(moved, torch.cat([g.flatten() for g in expected]), atol=1e-10)
            seen.append(len(losses))

    monkeypatch.setattr(sdpsgd_lstm._Run, "_regular_update", spied)
    run(tmp_path, marked_records(TEXTS), small_model().double())
    assert len(seen) > 10


def test_a_private_update_is_the_clipped_noised_mean_of_single_examples(tmp_path, monkeypatch):
    """Against one example at a time: gradients from the state before it; states from the same weights; all clipped."""
    noise = []

    def known(values, deviation, rng):
        noise.append(
            (torch.randn(values.shape, generator=torch.Generator().manual_seed(len(noise)))).double() * deviation
        )
        return values.detach() + noise[-1]

    monkeypatch.setattr(sdpsgd_lstm, "release", known)
    checked = []
    original = sdpsgd_lstm._Run._private_update

    def spied(self, batch, spans, i, state, rng):
        start = [s.clone() for s in state]
        model = build_lstm(TOKENIZER.get_vocab_size(), 0, 12, 10).double()
        model.load_state_dict(self.model.state_dict())
        before, first = weights(self.model).clone(), len(noise)
        original(self, batch, spans, i, state, rng)
        if not spans:
            return
        total, ends = 0, {}
        for at, (a, b) in spans.items():
            record, ids = batch[at], torch.from_numpy(batch[at].ids)
            out = model(ids[None, a:b], (start[0][at][None], start[1][at][None]))
            ends[at] = out.state
            wanted = torch.from_numpy(record.targets[a + 1 : b + 1].copy())
            loss = functional.cross_entropy(out.logits[0][wanted], ids[a + 1 : b + 1][wanted])
            gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
            total = total + gradient * min(1.0, self.recipe.max_grad_norm / float(gradient.norm()))
        parameters = len(list(model.parameters()))
        total = total + torch.cat([n.flatten() for n in noise[first : first + parameters]])
        moved = (before - weights(self.model)) / self.recipe.private_learning_rate
        assert torch.allclose(moved, total / len(spans), atol=1e-9)
        followed = [at for at in spans if i + 1 < len(batch[at].pairs)]
        assert len(noise) == first + parameters + (2 if followed else 0)
        for which in range(2 if followed else 0):
            for place, at in enumerate(followed):
                value = ends[at][which][0].detach()
                value = value * min(1.0, self.recipe.max_state_norm / float(value.norm()))
                assert torch.allclose(state[which][at], value + noise[first + parameters + which][place], atol=1e-9)
        checked.append(len(spans))

    monkeypatch.setattr(sdpsgd_lstm._Run, "_private_update", spied)
    run(tmp_path, marked_records(TEXTS), small_model().double())
    assert len(checked) > 6
    assert max(checked) > 1


def test_released_values_carry_the_stated_noise_and_no_history():
    values = torch.zeros(200, 100, requires_grad=True) + 0.0
    noisy = sdpsgd_lstm.release(values, 0.7, np.random.default_rng(1))
    assert not noisy.requires_grad
    assert stats.kstest(noisy.flatten().numpy(), stats.norm(scale=0.7).cdf).pvalue > 1e-3
    for wrong in (0.7 * 2 / 3, 0.7 * 1.5):
        assert stats.kstest(noisy.flatten().numpy(), stats.norm(scale=wrong).cdf).pvalue < 1e-9
    assert not values.any()  # what is released is a copy


@settings(max_examples=50, deadline=None)
@given(
    scale=st.sampled_from([0.0, 1e-6, 1.0, 1e6]), max_norm=st.sampled_from([1e-3, 0.3, 50.0]), seed=st.integers(0, 9)
)
def test_states_are_clipped_row_by_row(scale, max_norm, seed):
    values = torch.randn(4, 10, generator=torch.Generator().manual_seed(seed)) * scale
    values[0] = 0
    clipped = clip_rows(values, max_norm)
    norms = clipped.double().norm(dim=1)
    assert (norms <= max_norm * (1 + 1e-6)).all()
    short = values.norm(dim=1) <= max_norm
    assert torch.equal(clipped[short], values[short])


# Accounting


@pytest.mark.parametrize(("queries", "expected"), [(1, 2.84), (2, 5.62), (4, 15.2), (8, 45.3)])
def test_k_queries_in_one_sampled_step_cost_what_the_oracle_says(queries, expected):
    found = dp_sgd(noise_multiplier=1 / math.sqrt(queries), sample_rate=0.01, num_steps=1_000)
    relation, grid = NeighboringRelation.REPLACE_ONE, 1e-3  # fine enough for three digits
    assert pld_epsilon(found, 1e-5, relation, grid) == pytest.approx(expected, rel=4e-3)
    if queries == 2:  # K independent samples, as the paper's code has it, would look far cheaper
        wrong = dp_sgd(noise_multiplier=1.0, sample_rate=0.01, num_steps=2_000)
        assert pld_epsilon(wrong, 1e-5, relation, grid) < 0.8 * expected


@pytest.mark.slow
def test_the_event_is_that_of_the_record_sampled_most_often_without_amplification():
    made = plan(200, 20, epochs=10, max_private_spans=4, seed=3)
    times = np.zeros(200, int)
    for step in range(made.num_steps):
        times[sample(made, step)] += 1
    assert made.max_participations == times.max() > 10
    assert made.queries_per_step == 12
    found = event(made, 6.0)
    assert found == SelfComposed(count=int(times.max()), event=Gaussian(noise_multiplier=6.0 / math.sqrt(12)))
    # Gaussians compose exactly: n * K queries of sensitivity 2 (one record is replaced).
    mu = 2 * math.sqrt(12 * times.max()) / 6.0
    assert epsilon(found, 1e-5) == pytest.approx(gdp_epsilon(mu, 1e-5), rel=1e-3)
    # As in the paper, where samples stay secret.
    amplified = dp_sgd(noise_multiplier=6.0 / math.sqrt(12), sample_rate=made.sample_rate, num_steps=made.num_steps)
    assert epsilon(found, 1e-5) > 1.3 * epsilon(amplified, 1e-5)


def test_what_was_spent_until_an_epoch_ends():
    made = plan(200, 20, epochs=6, max_private_spans=2, seed=3)
    for epoch in range(made.num_epochs + 1):
        times = np.zeros(200, int)
        for step in range(epoch * made.steps_per_epoch):
            times[sample(made, step)] += 1
        found = event(made, 3.0, epoch)
        assert (found.count if epoch else found) == (times.max() if epoch else NoEvent())
    assert event(made, 3.0, made.num_epochs) == event(made, 3.0)


def test_methods_name_what_their_claims_ask_for():
    for module in (sdpsgd_lstm, redaction_schedule):
        assert set(module.PRECONDITIONS) == set(RULES[module.__name__.rpartition(".")[2]].requires)


def test_noise_is_calibrated_for_all_queries():
    made = plan(100, 10, epochs=2, max_private_spans=2, seed=3)
    noise = calibrate(made, 4.0, 1e-5)
    assert 3.99 < epsilon(event(made, noise), 1e-5) <= 4.0
    assert event(plan(0, 10, 2, 2, 3), 1.0) == NoEvent()


def test_why_samples_are_taken_for_public(tmp_path):
    """Whether a record was sampled shows in the weights, un-noised: the embedding of its own public token moves."""
    records = marked_records(["quiet {secret}", *["hello {secret}, hello"] * 5])
    token = TOKENIZER.encode("q", add_special_tokens=False).ids[0]
    model = small_model()
    before = model.embedding.weight[token].detach().clone()
    recipe = dataclasses.replace(RECIPE, private_learning_rate=1e-12)
    moved, drawn = [], []
    made = plan(6, 2, 4, 2, seed=5)
    for step in range(made.num_steps):
        drawn.append(0 in sample(made, step))

    def progress(done, total, message):
        now = model.embedding.weight[token].detach().clone()
        moved.append(bool((now - before).abs().max() > 1e-6))
        before.copy_(now)

    run(tmp_path, records, model, recipe, epochs=4, batch=2, progress=progress)
    assert moved == drawn
    assert any(drawn)
    assert not all(drawn)


def test_every_query_is_counted_over_the_whole_run(tmp_path):
    records = marked_records(TEXTS)
    _, made, outcome = run(tmp_path, records)
    # By hand: gradient per private span, two states where a public span follows; the cap of two merges the rest.
    each = np.asarray([1 + 2, 2 + 2 * 2, 0, 2 + 2, 1 + 2, 1 + 2])
    followed = [spanned(records, np.asarray([i]), 2)[0].pairs for i in range(6)]
    for at, pairs in enumerate(followed):
        private = [pair.private_start < pair.stop for pair in pairs]
        each[at] = sum(private) + 2 * sum(private[:-1])
    times = np.zeros(6, int)
    for step in range(made.num_steps):
        times[sample(made, step)] += 1
    assert outcome.num_queries == (times * each).sum()
    assert outcome.most_queries == (times * each).max() <= made.queries_per_step * made.max_participations
    assert outcome.num_steps == made.num_steps


def test_a_counter_that_starts_anew_in_each_batch_stops_the_run(tmp_path, monkeypatch):
    original = sdpsgd_lstm._Run.step

    def forgetful(self):
        self.num_queries[:] = 0  # what the paper's code does
        original(self)

    monkeypatch.setattr(sdpsgd_lstm._Run, "step", forgetful)
    with pytest.raises(StageError, match="noisy queries"):
        run(tmp_path, marked_records(TEXTS))


def test_more_queries_than_are_accounted_for_stop_the_run():
    records = marked_records(TEXTS)
    made = plan(6, 3, 3, 2, seed=5)
    counted = np.zeros(6, int)
    with pytest.raises(StageError, match="noisy queries"):
        check_queries(counted, records, made)


# Training


def test_a_killed_run_goes_on_to_the_same_number_of_steps_and_queries(tmp_path):
    records = marked_records(TEXTS)
    _, made, whole = run(tmp_path / "a", records)

    class Killed(Exception):
        pass

    def kill(done, total, message):
        if done == 4:
            raise Killed

    (tmp_path / "b").mkdir()
    often = lambda: Checkpoints(tmp_path / "b" / "c.ckpt", "r", interval_seconds=0.0)  # noqa: E731
    with pytest.raises(Killed):
        run(tmp_path / "b", records, progress=kill, checkpoints=often())
    _, _, resumed = run(tmp_path / "b", records, small_model(seed=2), checkpoints=often(), randomness=unpredictable)
    assert resumed.was_resumed
    assert not whole.was_resumed
    assert (resumed.num_steps, resumed.num_queries, resumed.most_queries) == (
        whole.num_steps,
        whole.num_queries,
        whole.most_queries,
    )
    assert len(resumed.curve) == len(whole.curve) == made.num_steps // made.steps_per_epoch


@pytest.mark.parametrize("microbatch_size", [1, 3, 50])
def test_microbatches_change_nothing(tmp_path, microbatch_size):
    records = marked_records(TEXTS)
    model, _, _ = run(tmp_path / "a", records, small_model().double())
    other, _, _ = run(tmp_path / "b", records, small_model().double(), microbatch_size=microbatch_size)
    assert torch.allclose(weights(model), weights(other), atol=1e-9)


def test_a_loss_that_is_not_finite_is_refused(tmp_path):
    model = small_model()
    with torch.no_grad():
        model.decoder.bias[:] = math.nan
    with pytest.raises(StageError, match="learning_rate"):
        run(tmp_path, marked_records(TEXTS), model)


@pytest.mark.parametrize("texts", [["nothing private", "at all"], ["{all}", "{of it}"]])
def test_corpora_of_one_kind_train(tmp_path, texts):
    _, made, outcome = run(tmp_path, marked_records(texts * 3))
    assert outcome.num_steps == made.num_steps
    assert (outcome.num_queries == 0) == ("{" not in texts[0])


@pytest.mark.slow
@pytest.mark.parametrize("is_tied", [False, True])
def test_public_and_private_loss_fall(tmp_path, is_tied):
    names = ["Ann Lee", "Bo Ray", "Cy Fox", "Di Kim"]
    asks = ["track my package", "cancel my order", "change my address", "return my hat"]
    texts = [f"I am {{{names[i % 4]}}}, I want to {asks[i % 4]}." for i in range(64)]
    model = build_lstm(TOKENIZER.get_vocab_size(), 0, 32, 32, is_tied=is_tied)
    recipe = Recipe(
        public_learning_rate=1.0, private_learning_rate=0.5, max_grad_norm=1.0, max_state_norm=1.0,
        noise_multiplier=0.01,
    )  # fmt: skip
    _, _, outcome = run(tmp_path, marked_records(texts), model, recipe, epochs=12, batch=8, microbatch_size=32)
    for kind in ("public_loss", "private_loss"):
        losses = [epoch[kind] for epoch in outcome.curve]
        assert losses[-1] < 0.8 * losses[0], kind
