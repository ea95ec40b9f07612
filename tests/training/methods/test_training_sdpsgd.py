"""Selective-DPSGD: spans as in the paper, no way around the noise, and every query counted."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from marked_texts import TEXTS, marked_records, small_model, weights
from scipy import stats
from support.tiny import TOKENIZER
from torch.nn import functional

from pipelines.errors import ConfigError, StageError
from pipelines.randomness import seeded, unpredictable
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.data.span_plan import check_queries, plan, sample
from pipelines.training.loop import TrainingContext
from pipelines.training.methods import sdpsgd_lstm
from pipelines.training.methods.sdpsgd_lstm import SpanStepSettings, clip_rows, train
from pipelines.training.models.recurrent import build_recurrent
from pipelines.training.models.shape import RECURRENT
from pipelines.training.scoring.evaluation import Evaluation

RECIPE = SpanStepSettings(
    public_learning_rate=0.5, private_learning_rate=0.05, max_grad_norm=0.1, max_state_norm=0.3, noise_multiplier=1.0
)
NOTHING = Evaluation(
    perplexity=None, perplexity_per_word=None, loss=None, loss_standard_error=None, next_token_accuracy=None,
    num_sentences=0, num_tokens=0, reason="not evaluated",
)  # fmt: skip


def run(
    folder, records, model=None, recipe=RECIPE, epochs=3, batch=3, max_private_spans=2, randomness=None,
    num_states=None, **changes,
):  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    model = model or small_model()
    num_states = num_states or len(model.zero_state(1))
    made = plan(len(records), batch, epochs, max_private_spans, seed=5, num_states=num_states)
    options = {
        "randomness": randomness or seeded(9),
        "checkpoints": Checkpoints(folder / "c.ckpt", "r"),
        "losses": None,
        "evaluate": lambda m: NOTHING,
        "microbatch_size": 2,
        "progress": lambda done, total, message: None,
        **changes,
    }
    context = TrainingContext(**options)
    return model, made, train(model, records, recipe, made, context, epsilon_so_far=lambda num_steps: 0.5 * num_steps)


SECRETS = [
    ["Ann Lee", "Bo", "12 Elm St", "555", "777", "999", "Ann", "all of it"],
    ["Zo", "Hieronymus the Elder", "9", "1", "22 22", "3", "\N{SNOWMAN}", "nothing but this"],
]


def _with_secrets(secrets):
    left = iter(secrets)
    return ["".join(p if i % 2 == 0 else "{" + next(left) + "}" for i, p in enumerate(_split(t))) for t in TEXTS]


def _split(text):
    return text.replace("}", "{").split("{")


def _outputs(tmp_path, patch, release, kind="lstm"):
    """The weights after training on two corpora that differ in what is private only."""
    patch(sdpsgd_lstm, "release", release)
    found = []
    for number, secrets in enumerate(SECRETS):
        records = marked_records(_with_secrets(secrets), context_length=200)
        found.append(weights(run(tmp_path / str(number), records, small_model(kind=kind), max_private_spans=3)[0]))
    return found


def _swallowed(values, deviation, rng):
    """Noise so large that nothing of the value is left, while gradients would still flow through it."""
    return 0.05 + values - values.detach() if values.requires_grad else torch.full_like(values, 0.05)


@pytest.mark.parametrize("kind", RECURRENT)
def test_private_text_reaches_the_weights_through_release_alone(tmp_path, patch, kind):
    one, other = _outputs(tmp_path, patch, _swallowed, kind)
    assert torch.equal(one, other)
    # The check has power: with released values let through, the weights differ.
    one, other = _outputs(tmp_path / "b", patch, lambda values, deviation, rng: values.detach().clone(), kind)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("kind", RECURRENT)
def test_states_alone_would_tell_without_noise(tmp_path, patch, kind):
    # Gradients swallowed, states let through: so states do need their noise, and the test above sees them.
    def states_only(values, deviation, rng):
        is_state = values.dim() == 2 and values.shape[1] == 10 and values.shape[0] <= 6
        return values.detach().clone() if is_state else _swallowed(values, deviation, rng)

    one, other = _outputs(tmp_path, patch, states_only, kind)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_public_gradient_stops_at_the_state_before_it(tmp_path, patch, kind):
    """The gradient of every public span equals that of the span alone, its state a constant."""
    seen = []
    original = sdpsgd_lstm._SpanRun._regular_update

    def spied(self, batch, spans, state):
        start = [s.clone() for s in state]
        before = weights(self.model).clone()
        model = small_model(kind=kind).double()
        model.load_state_dict(self.model.state_dict())
        original(self, batch, spans, state)
        assert not any(s.requires_grad for s in state)
        if not spans:
            return
        losses = []
        for at, (a, b) in spans.items():
            record = batch[at]
            ids = torch.from_numpy(record.ids)
            logits = model(ids[None, a:b], tuple(s[at][None].detach() for s in start)).logits[0]
            wanted = torch.from_numpy(record.targets[a + 1 : b + 1].copy())
            if wanted.any():
                losses.append(functional.cross_entropy(logits[wanted], ids[a + 1 : b + 1][wanted]))
            assert not np.asarray(self.records.is_private[record.row])[a : b + 1].any()
        expected = torch.autograd.grad(sum(losses) / len(spans), list(model.parameters())) if losses else None
        moved = (before - weights(self.model)) / self.settings.public_learning_rate
        if expected is not None:
            assert torch.allclose(moved, torch.cat([g.flatten() for g in expected]), atol=1e-10)
            seen.append(len(losses))

    patch(sdpsgd_lstm._SpanRun, "_regular_update", spied)
    run(tmp_path, marked_records(TEXTS), small_model(kind=kind).double())
    assert len(seen) > 10


@pytest.mark.parametrize(("kind", "num_states"), [("lstm", 2), ("gru", 1)])
def test_a_private_update_is_the_clipped_noised_mean_of_single_examples(tmp_path, patch, kind, num_states):
    """Against one example at a time: gradients from the state before it; states from the same weights; all clipped."""
    noise = []

    def known(values, deviation, rng):
        noise.append(
            (torch.randn(values.shape, generator=torch.Generator().manual_seed(len(noise)))).double() * deviation
        )
        return values.detach() + noise[-1]

    patch(sdpsgd_lstm, "release", known)
    checked = []
    original = sdpsgd_lstm._SpanRun._private_update

    def spied(self, batch, spans, i, state, rng):
        start = [s.clone() for s in state]
        model = small_model(kind=kind).double()
        model.load_state_dict(self.model.state_dict())
        before, first = weights(self.model).clone(), len(noise)
        original(self, batch, spans, i, state, rng)
        if not spans:
            return
        total, ends = 0, {}
        for at, (a, b) in spans.items():
            record, ids = batch[at], torch.from_numpy(batch[at].ids)
            out = model(ids[None, a:b], tuple(s[at][None] for s in start))
            ends[at] = out.state
            wanted = torch.from_numpy(record.targets[a + 1 : b + 1].copy())
            loss = functional.cross_entropy(out.logits[0][wanted], ids[a + 1 : b + 1][wanted])
            gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
            total = total + gradient * min(1.0, self.settings.max_grad_norm / float(gradient.norm()))
        parameters = len(list(model.parameters()))
        total = total + torch.cat([n.flatten() for n in noise[first : first + parameters]])
        moved = (before - weights(self.model)) / self.settings.private_learning_rate
        assert torch.allclose(moved, total / len(spans), atol=1e-9)
        followed = [at for at in spans if i + 1 < len(batch[at].pairs)]
        assert len(noise) == first + parameters + (num_states if followed else 0)
        for which in range(num_states if followed else 0):
            for place, at in enumerate(followed):
                value = ends[at][which][0].detach()
                value = value * min(1.0, self.settings.max_state_norm / float(value.norm()))
                assert torch.allclose(state[which][at], value + noise[first + parameters + which][place], atol=1e-9)
        checked.append(len(spans))

    patch(sdpsgd_lstm._SpanRun, "_private_update", spied)
    run(tmp_path, marked_records(TEXTS), small_model(kind=kind).double())
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


@pytest.mark.parametrize(("kind", "each"), [("lstm", [3, 6, 0, 4, 1, 1]), ("gru", [2, 4, 0, 3, 1, 1])])
def test_every_query_is_counted_over_the_whole_run(tmp_path, kind, each):
    records = marked_records(TEXTS)
    _, made, outcome = run(tmp_path, records, small_model(kind=kind))
    # By hand: a gradient for each private span, and the states where a public span follows; the cap merges the third.
    each = np.asarray(each)
    times = np.zeros(6, int)
    for step in range(made.num_steps):
        times[sample(made, step)] += 1
    assert outcome.num_queries == (times * each).sum()
    assert outcome.most_queries == (times * each).max() <= made.queries_per_step * made.max_participations
    assert outcome.num_steps == made.num_steps


def test_a_counter_that_starts_anew_in_each_batch_stops_the_run(tmp_path, patch):
    original = sdpsgd_lstm._SpanRun.step

    def forgetful(self):
        self.num_queries[:] = 0  # what the paper's code does
        original(self)

    patch(sdpsgd_lstm._SpanRun, "step", forgetful)
    with pytest.raises(StageError, match="noisy queries"):
        run(tmp_path, marked_records(TEXTS))


@pytest.mark.parametrize(("kind", "num_states"), [("lstm", 1), ("gru", 2)])
def test_a_plan_for_another_number_of_states_is_refused_before_the_first_step(tmp_path, kind, num_states):
    model = small_model(kind=kind)
    before = weights(model)
    with pytest.raises(ConfigError, match="another number"):
        run(tmp_path, marked_records(TEXTS), model, num_states=num_states)
    assert torch.equal(weights(model), before)


def test_more_queries_than_are_accounted_for_stop_the_run():
    records = marked_records(TEXTS)
    made = plan(6, 3, 3, 2, seed=5)
    counted = np.zeros(6, int)
    with pytest.raises(StageError, match="noisy queries"):
        check_queries(counted, records, made)


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
    model = build_recurrent(TOKENIZER.get_vocab_size(), 0, 32, 32, is_tied=is_tied)
    recipe = SpanStepSettings(
        public_learning_rate=1.0, private_learning_rate=0.5, max_grad_norm=1.0, max_state_norm=1.0,
        noise_multiplier=0.01,
    )  # fmt: skip
    _, _, outcome = run(tmp_path, marked_records(texts), model, recipe, epochs=12, batch=8, microbatch_size=32)
    for kind in ("public_loss", "private_loss"):
        losses = [epoch[kind] for epoch in outcome.curve]
        assert losses[-1] < 0.8 * losses[0], kind
