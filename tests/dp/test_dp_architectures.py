"""Whole models against one example at a time, and what the engine refuses."""

import copy

import peft
import pytest
import torch
from engine_models import (
    TinyLM,
    check,
    encoder,
    engine_sums,
    fused,
    gpt2,
    llama,
    per_token,
    seeded,
    smooth_losses,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import dp_gradients
from token_batches import lm_losses, token_batch
from torch import nn

from pipelines.dp.errors import LossError
from pipelines.dp.gradients import GradientEngine


def unfused_losses(model, batch):
    logits = model(input_ids=batch["ids"], attention_mask=batch["mask"], use_cache=False).logits
    return per_token(logits[:, :-1], batch["labels"][:, 1:])


@settings(max_examples=8, deadline=None)
@given(
    size=st.integers(1, 4), length=st.integers(1, 9), tied=st.booleans(), is_fused=st.booleans(),
    seed=st.integers(0, 9),
    mode=st.sampled_from(["book_keeping", "two_pass"]), attention=st.sampled_from(["sdpa", "eager"]),
)  # fmt: skip
def test_gpt2(size, length, tied, is_fused, seed, mode, attention):
    model = gpt2(tied=tied, attention=attention)
    check(model, lm_losses if is_fused else unfused_losses, token_batch(size, length, seed=seed), mode=mode)


@pytest.mark.parametrize("tied", [True, False])
def test_gpt2_in_single_precision(tied):
    model = gpt2(vocab=60, width=32, positions=80, tied=tied)
    check(model, lm_losses, token_batch(4, 70, vocab=60), dtype=torch.float32)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("losses_of", [lm_losses, unfused_losses])
def test_llama(tied, losses_of):
    check(llama(tied=tied), losses_of, token_batch(), dtype=torch.float32)
    model = llama(tied=tied)  # its norms round to float32; torch's own do not
    for parent in [m for m in model.modules() if any("norm" in name for name, _ in m.named_children())]:
        for name, child in list(parent.named_children()):
            if "norm" in name:
                norm = nn.RMSNorm(8, eps=1e-6)
                norm.weight = child.weight
                setattr(parent, name, norm)
    check(model, losses_of, token_batch())


@pytest.mark.parametrize("kind", ["Roberta", "Bert"])
@pytest.mark.parametrize("head", ["SequenceClassification", "MaskedLM", "TokenClassification"])
def test_encoders(kind, head):
    batch = token_batch(vocab=19)
    if head == "SequenceClassification":
        batch["labels"] = torch.tensor([0, 2, 1])

    def losses(model, b):
        logits = model(input_ids=b["ids"], attention_mask=b["mask"]).logits
        if logits.dim() == 2:
            return nn.functional.cross_entropy(logits, b["labels"], reduction="none")
        return per_token(logits, (b["labels"] % logits.shape[2]).masked_fill(b["labels"] == -100, -100))

    model = encoder(kind, head)
    unused = [n for n, p in model.named_parameters() if "pooler" in n and head != "SequenceClassification"]
    assert not unused
    check(model, losses, batch)


@pytest.mark.parametrize("build", [gpt2, llama])
@pytest.mark.parametrize("train_head", [True, False])
def test_lora(build, train_head):
    targets = ["c_attn", "c_proj"] if build is gpt2 else ["q_proj", "v_proj", "down_proj"]
    with seeded(5):
        model = peft.get_peft_model(
            build(),
            peft.LoraConfig(
                r=2, target_modules=targets, lora_alpha=3, init_lora_weights=False, fan_in_fan_out=build is gpt2,
                modules_to_save=["lm_head"] if train_head else None, task_type="CAUSAL_LM",
            ),
        )  # fmt: skip
    trainable = [n for n, p in model.named_parameters() if p.requires_grad]
    assert all("lora" in n or "lm_head" in n for n in trainable)
    for mode in ("book_keeping", "two_pass"):
        check(model, unfused_losses, token_batch(), mode=mode, dtype=torch.float32 if build is llama else torch.float64)
    check(model, lm_losses, token_batch(), dtype=torch.float32)


@pytest.mark.parametrize("build", [gpt2, llama])
@pytest.mark.parametrize("hidden", [None, 6])
def test_a_prefix_with_and_without_an_mlp(build, hidden):
    """peft repeats the prefix for each example, so that embedding and MLP see one row of it an example."""
    with seeded(5):
        config = peft.PrefixTuningConfig(
            task_type="CAUSAL_LM",
            num_virtual_tokens=3,
            prefix_projection=hidden is not None,
            encoder_hidden_size=hidden,
        )
        model = peft.get_peft_model(build(), config)
    trained = [name for name, p in model.named_parameters() if p.requires_grad]
    assert len(trained) == (1 if hidden is None else 5)
    assert all("prompt_encoder" in name for name in trained)
    for mode in ("book_keeping", "two_pass"):
        check(model, unfused_losses, token_batch(), mode=mode, dtype=torch.float32)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("mode", ["book_keeping", "two_pass"])
def test_gradient_checkpointing(reentrant, mode):
    batch = token_batch(4, 8)
    model = gpt2(layers=3).double()
    plain, norms = engine_sums(model, lm_losses, [batch], 0.7, mode=mode)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    found, checkpointed = engine_sums(model, lm_losses, [batch], 0.7, mode=mode)
    assert dp_gradients.relative_error(found, plain) < 1e-12
    assert checkpointed == pytest.approx(norms, rel=1e-12)


@pytest.mark.parametrize("mode", ["book_keeping", "two_pass"])
def test_a_layer_shared_by_checkpointed_blocks(mode):
    from torch.utils.checkpoint import checkpoint

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            x = self.first(x)
            for _ in range(3):
                x = checkpoint(lambda y: torch.tanh(self.layer(y)), x, use_reentrant=True)
            return x

    with seeded(0):
        model, x = Shared(), torch.randn(3, 5, 4)
    check(model, lambda net, b: smooth_losses(net, b["x"]), {"x": x}, mode=mode)


def test_several_physical_batches_add_up():
    model = gpt2().double()
    whole = token_batch(6, 8)
    parts = [{k: v[a:b] for k, v in whole.items()} for a, b in ((0, 1), (1, 4), (4, 6))]
    one, norms = engine_sums(model, lm_losses, [whole], 0.9)
    several, norms_of_parts = engine_sums(model, lm_losses, parts, 0.9)
    assert dp_gradients.relative_error(several, one) < 1e-13
    assert norms_of_parts == pytest.approx(norms, rel=1e-13)


def test_no_examples_add_nothing_and_one_without_targets_adds_nothing():
    model = gpt2()
    engine = GradientEngine(model, max_grad_norm=1.0)
    assert engine.backward(torch.zeros(0)).norms.shape == (0,)
    assert not any(s.any() for s in engine.take_sums())
    batch = token_batch(2, 6, padding=False)
    batch["labels"][:] = -100
    with engine.recording():
        losses = lm_losses(model, batch)
    assert engine.backward(losses).norms.tolist() == [0, 0]
    assert not any(s.any() for s in engine.take_sums())


def test_reduced_precision_bounds_what_an_example_does():
    model = gpt2(vocab=40, width=16)
    batch = token_batch(3, 12, vocab=40)
    precise, norms = engine_sums(copy.deepcopy(model), lm_losses, [batch], 0.5)

    def lowered(net, b):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return lm_losses(net, b)

    for mode in ("book_keeping", "two_pass"):
        found, low_norms = engine_sums(model, lowered, [batch], 0.5, mode=mode)
        assert all(s.dtype == torch.float32 for s in found)
        assert low_norms == pytest.approx(norms, rel=0.1)
        assert dp_gradients.relative_error(found, precise) < 0.1
        for row in range(3):
            one = {k: v[row : row + 1] for k, v in batch.items()}
            share, own = engine_sums(model, lowered, [one], 0.01, mode=mode)
            assert own[0] > 0.1
            assert dp_gradients.norm(share) <= 0.01 * (1 + 1e-6)


def test_a_model_in_bfloat16():
    model = gpt2(vocab=40, width=16)
    batch = token_batch(3, 12, vocab=40)
    precise, _ = engine_sums(copy.deepcopy(model), lm_losses, [batch], 0.5)
    found, _ = engine_sums(model.to(torch.bfloat16), lm_losses, [batch], 0.5)
    assert dp_gradients.relative_error(found, precise) < 0.15
    share, _ = engine_sums(model, lm_losses, [{k: v[:1] for k, v in batch.items()}], 0.01)
    assert dp_gradients.norm(share) <= 0.01 * (1 + 1e-6)


def test_outside_recording_a_model_trains_as_ever():
    model = gpt2()
    batch = token_batch()
    lm_losses(model, batch).mean().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    engine = GradientEngine(model, max_grad_norm=1.0)
    lm_losses(model, batch).mean().backward()
    assert all(torch.equal(p.grad, e) for p, e in zip(model.parameters(), expected, strict=True))
    with engine.recording():
        losses = lm_losses(model, batch)
    engine.backward(losses)
    assert all(torch.equal(p.grad, e) for p, e in zip(model.parameters(), expected, strict=True))
    engine.detach()
    assert not any("forward" in m.__dict__ for m in model.modules())


@pytest.mark.parametrize("weighted", [True, False])
def test_the_fused_loss_is_the_ordinary_one_with_its_gradients(weighted):
    with seeded(0):
        model = TinyLM(tied=False).double()
        ids = torch.randint(0, 11, (4, 6))
        each = torch.rand(4).double() if weighted else torch.full((4,), 0.25, dtype=torch.float64)
    batch = {"ids": ids, "labels": ids.roll(-1, 1).clone()}
    batch["labels"][1, 2:] = -100
    expected = per_token(model(ids), batch["labels"])
    (expected * each).sum().backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    found = fused(model, batch)
    assert torch.allclose(found, expected, rtol=1e-12)
    (found * each).sum().backward()
    assert all(
        torch.allclose(p.grad, g, rtol=1e-10, atol=1e-14) for p, g in zip(model.parameters(), gradients, strict=True)
    )


@pytest.mark.parametrize("mode", ["book_keeping", "two_pass"])
def test_a_head_that_runs_twice_in_a_batch_keeps_both_runs(mode):
    def both(model, batch):
        return lm_losses(model, batch) + 0.5 * lm_losses(model, {**batch, "labels": batch["labels"].flip(1)})

    check(gpt2(), both, token_batch(padding=False), mode=mode)


def test_memory_of_a_batch_serves_the_next_one_and_losses_of_an_earlier_batch_are_refused():
    model, batches = gpt2(), [token_batch(seed=seed) for seed in (1, 2, 3)]
    whole, _ = engine_sums(copy.deepcopy(model), lm_losses, batches, 0.1)
    parts = [engine_sums(copy.deepcopy(model), lm_losses, [batch], 0.1)[0] for batch in batches]
    assert dp_gradients.relative_error(whole, [sum(values) for values in zip(*parts, strict=True)]) < 1e-6
    engine = GradientEngine(model, max_grad_norm=0.1)
    with engine.recording():
        earlier = lm_losses(model, batches[0])
    with engine.recording():
        later = lm_losses(model, batches[1])
    with pytest.raises(LossError, match="earlier batch"):
        engine.backward(earlier)
    assert not any(total.any() for total in engine.take_sums())
    with pytest.raises(LossError, match="earlier batch"):  # its memory went back with the failure
        engine.backward(later)
