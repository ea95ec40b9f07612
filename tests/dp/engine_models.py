"""Small models for the tests of the engine, each with a batch and a loss for each example."""

import contextlib
import copy
from dataclasses import dataclass

import torch
from oracles import dp_gradients
from torch import nn
from torch.nn import functional

from pipelines.dp.gradients import GradientEngine
from pipelines.dp.head import fused_losses
from pipelines.dp.uses import MemoryBudget


class Mean(nn.Module):
    """Puts a network over float inputs; its loss is a smooth function of every output."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        out = self.network(x)
        return out[0] if isinstance(out, tuple) else out


def smooth_losses(model, x):
    out = model(x)
    out = out.float() if out.dtype == torch.bfloat16 else out
    weights = torch.linspace(-1, 1, out[0].numel(), dtype=out.dtype, device=out.device).reshape(out.shape[1:])
    return (torch.tanh(out) * weights + 0.1 * out**2).flatten(1).sum(1)


def per_token(logits, labels):
    """Mean cross-entropy inside each example over labels other than -100."""
    token = functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none", ignore_index=-100)
    return token.sum(1) / (labels != -100).sum(1).clamp(min=1)


class Backward(torch.autograd.Function):
    """The identity, with any backward pass: ``Backward.apply(h, change)``, a function of the gradient."""

    @staticmethod
    def forward(ctx, h, change):
        ctx.change = change
        return h.clone()

    @staticmethod
    def backward(ctx, gradient):
        return ctx.change(gradient), None


class TinyLM(nn.Module):
    """Embedding, an LSTM, a head; tied or not."""

    def __init__(self, vocab=11, width=6, layers=1, tied=False, **lstm):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, **lstm)
        self.head = nn.Linear(width * (2 if lstm.get("bidirectional") else 1), vocab, bias=not tied)
        if tied:
            self.head.weight = self.embedding.weight

    def hidden(self, ids):
        return self.lstm(self.embedding(ids))[0]

    def forward(self, ids):
        return self.head(self.hidden(ids))


def gpt2(vocab=19, width=8, layers=2, heads=2, positions=16, attention="sdpa", tied=True, **config):
    from transformers import GPT2Config, GPT2LMHeadModel

    settings = GPT2Config(
        vocab_size=vocab, n_positions=positions, n_embd=width, n_layer=layers, n_head=heads, tie_word_embeddings=tied,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, **config,
    )  # fmt: skip
    settings._attn_implementation = attention
    return roughen(GPT2LMHeadModel(settings).train())


def llama(vocab=19, width=8, layers=2, heads=2, tied=False, **config):
    from transformers import LlamaConfig, LlamaForCausalLM

    settings = LlamaConfig(
        vocab_size=vocab, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=1, max_position_embeddings=32, tie_word_embeddings=tied,
        pad_token_id=None, bos_token_id=0, eos_token_id=0, **config,
    )  # fmt: skip
    return roughen(LlamaForCausalLM(settings).train())


def encoder(kind, head, vocab=19, width=8):
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        vocab_size=vocab, hidden_size=width, num_hidden_layers=2, num_attention_heads=2, intermediate_size=2 * width,
        max_position_embeddings=24, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=3,
        pad_token_id=1, type_vocab_size=2,
    )  # fmt: skip
    return roughen(getattr(transformers, f"{kind}For{head}")(config).train())


def roughen(model):
    """Moves every parameter away from its initial value: zeros and ones would hide mistakes."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


def engine_sums(model, losses_of, batches, max_grad_norm, **settings):
    """The engine's clipped sums over batches, and all norms. ``losses_of(model, batch)`` gives (B,) losses."""
    engine = GradientEngine(model, max_grad_norm=max_grad_norm, **settings)
    norms = []
    try:
        for batch in batches:
            with engine.recording():
                losses = losses_of(model, batch)
            norms += engine.backward(losses).norms.tolist()
        return engine.take_sums(), norms
    finally:
        engine.detach()


@dataclass(frozen=True)
class Comparison:
    """How far the engine is from one example at a time in float64.

    Attributes:
        error: relative, of the clipped sum.
        norm_error: the largest relative one of a norm.
        tolerance: of both.
        excess: the largest share of the sum that one example has at a bound that clips it, over the bound, less 1.
        slack: of that.
        norms: as the engine found them.
        wrong_bound_error: what ``error`` would be at nine tenths of the bound, where the comparison has to fail.
    """

    error: float
    norm_error: float
    tolerance: float
    excess: float
    slack: float
    norms: list[float]
    wrong_bound_error: float

    @property
    def is_exact(self):
        return self.error <= self.tolerance and self.norm_error <= self.tolerance and self.excess <= self.slack


BF16_ROUNDOFF = 2.0**-8
"""Twice the unit roundoff of bfloat16: what one rounding of a gradient alone may make of its norm, up to a factor."""


def compare(
    model, losses_of, batch, *, max_grad_norm=None, dtype=torch.float64, share=0.5, autocast=None, floor=None, **options
):
    """The engine against one example at a time: the sum, the norms, each example's share.

    ``batch`` is a dict of tensors whose first axis is the examples'. Without ``max_grad_norm``, about half of the
    examples are clipped. ``autocast`` is a dtype that the engine's forward pass runs in; ``floor`` is the tolerance
    that a precision the process asked torch for makes enough.

    In float32 and below, the engine has to be as near as plain backpropagation of one example at a time in that
    precision comes, up to a factor of 2: both round the same products in another order. Where products are rounded to
    less than float32, that is the worst plain gradient of an example, for a mean over a batch is smoother.
    """
    model = model.to(dtype)
    batch = {k: v.to(dtype) if v.is_floating_point() else v for k, v in batch.items()}
    wide = {k: v.double() if v.is_floating_point() else v for k, v in batch.items()}
    size = len(next(iter(batch.values())))
    clipping = options.get("clipping", "flat")

    def lowered(net, given):
        kind = next(net.parameters()).device.type
        with torch.autocast(kind, dtype=autocast) if autocast else contextlib.nullcontext():
            return losses_of(net, given)

    def alone(net, index):
        return lowered(net, {k: v[index : index + 1] for k, v in batch.items()})[0]

    def alone_wide(net, index):
        return losses_of(net, {k: v[index : index + 1] for k, v in wide.items()})[0]

    eager = copy.deepcopy(getattr(model, "_orig_mod", model)).double()  # compiling it too would take longest
    gradients = dp_gradients.example_gradients(eager, alone_wide, size)
    sizes = [dp_gradients.norm(g) for g in gradients]
    bound = max_grad_norm or float(torch.tensor(sizes).quantile(share)) or 1.0
    sums, norms = engine_sums(model, lowered, [batch], bound, **options)
    limit = dp_gradients.limit(bound, dtype)
    expected = dp_gradients.clipped_sum(gradients, limit, clipping)
    tolerance = 1e-10
    if dtype != torch.float64:
        plain = dp_gradients.example_gradients(model, alone, size)
        errors = [dp_gradients.relative_error(dp_gradients.clipped_sum(plain, limit, clipping), expected)]
        if autocast or floor:
            errors += [dp_gradients.relative_error(a, b) for a, b in zip(plain, gradients, strict=True)]
        tolerance = max(floor or (BF16_ROUNDOFF if autocast else 1e-5), 2 * max(errors))
    shares = []
    for index in range(size):  # one example's share, alone, at a bound that clips it
        one = {k: v[index : index + 1] for k, v in batch.items()}
        low = max(sizes[index] * 0.3, 1e-12)
        share_sums, _ = engine_sums(model, lowered, [one], low, **options)
        shares.append(dp_gradients.norm(share_sums) / low)
    apart = [max(0.0, abs(a - b) - 1e-12) for a, b in zip(norms, sizes, strict=True)]
    return Comparison(
        error=dp_gradients.relative_error(sums, expected),
        norm_error=max((d / b if b else d for d, b in zip(apart, sizes, strict=True)), default=0.0),
        tolerance=tolerance,
        excess=max(shares, default=1.0) - 1,
        slack=1e-12 if dtype == torch.float64 else 1e-6,
        norms=norms,
        wrong_bound_error=dp_gradients.relative_error(
            dp_gradients.clipped_sum(gradients, 0.9 * bound, clipping), expected
        ),
    )


def check(model, losses_of, batch, **settings):
    """Asserts what `compare` finds; returns the norms."""
    found = compare(model, losses_of, batch, **settings)
    assert found.is_exact, found
    return found.norms


SMALL_BUDGETS = [MemoryBudget(), MemoryBudget(working_bytes=1, kept_bytes=0), MemoryBudget(kept_bytes=2000)]


@contextlib.contextmanager
def seeded(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def fused(model, batch, weights=None):
    """For a model with ``hidden`` and ``head``."""
    return fused_losses(model.hidden(batch["ids"]), model.head, batch["labels"], weights)
