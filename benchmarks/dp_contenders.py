"""The contenders of `dp_step`: the same step by ordinary training, by our engine, and by other engines."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import gpt2_config
from torch import nn
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DataLoader, TensorDataset
from transformers import GPT2LMHeadModel, RobertaConfig, RobertaForSequenceClassification
from transformers.pytorch_utils import Conv1D

from pipelines.dp.gradients import GradientEngine
from pipelines.dp.head import fused_losses as fused
from pipelines.dp.language import causal_lm_losses
from pipelines.dp.noisy_steps import noisy_step
from pipelines.randomness import unpredictable

PRIVATE = ("ours", "ours_two_pass", "opacus_hooks", "opacus_ghost", "fastdp")
JAX = ("jax_plain", "jax_privacy")
"""Contenders of `dp_jax`, which another Python runs."""
CONTENDERS = ("plain", "fused", *PRIVATE, *JAX)
EXACT = 2e-5
"""Relative error of a clipped sum in float32 at a small shape, above which nothing is measured. Ours is 1.14e-5 off by
intent, where all examples are clipped (docs/engine.md, "Precision")."""


@dataclass(frozen=True)
class Shape:
    """A model and a batch."""

    kind: str
    width: int
    layers: int
    heads: int
    vocab: int
    length: int
    batch: int


SHAPES = {
    "gpt2-toy": Shape("gpt2", 32, 2, 2, 97, 12, 3),  # whether it runs
    "gpt2-256-5000": Shape("gpt2", 256, 4, 4, 5_000, 128, 16),
    "gpt2-256-50257": Shape("gpt2", 256, 4, 4, 50_257, 128, 16),
    "gpt2-768-5000": Shape("gpt2", 768, 12, 12, 5_000, 128, 4),
    "gpt2-768-50257": Shape("gpt2", 768, 12, 12, 50_257, 128, 4),
    "lstm-200-50257": Shape("lstm", 200, 1, 1, 50_257, 128, 16),
    "gpt2-256-5000-64": Shape("gpt2", 256, 4, 4, 5_000, 64, 16),
    "gpt2-demo": Shape("gpt2", 64, 12, 4, 2_000, 64, 16),  # many tiny layers
    "gpt2-small-512": Shape("gpt2", 768, 12, 12, 50_257, 512, 16),
    "gpt2-small-1024": Shape("gpt2", 768, 12, 12, 50_257, 1_024, 8),
    "gpt2-medium-512": Shape("gpt2", 1_024, 24, 16, 50_257, 512, 8),
    "gpt2-medium-1024": Shape("gpt2", 1_024, 24, 16, 50_257, 1_024, 4),
    "gpt2-small-100": Shape("gpt2", 768, 12, 12, 50_257, 100, 64),  # E2E
    "gpt2-medium-100": Shape("gpt2", 1_024, 24, 16, 50_257, 100, 32),
    "roberta-base-256": Shape("roberta", 768, 12, 12, 50_265, 256, 32),  # SST-2 and its like
}
CPU_SHAPES = tuple(
    n for n in SHAPES if not n.startswith(("gpt2-toy", "gpt2-demo", "gpt2-small", "gpt2-medium", "roberta"))
)
CHECK_SHAPES = {
    "gpt2": Shape("gpt2", 32, 2, 2, 97, 12, 3),
    "lstm": Shape("lstm", 20, 1, 1, 97, 12, 3),
    "roberta": Shape("roberta", 32, 2, 2, 97, 12, 3),
}
NUM_CLASSES = 2
MAX_GRAD_NORM, NOISE, LEARNING_RATE = 0.1, 1.0, 1e-4


@dataclass(frozen=True)
class Terms:
    """The terms of a step, for every contender.

    Attributes:
        device: ``cpu`` or ``cuda``.
        dtype: ``fp32``, or ``bf16`` for a forward pass under autocast.
        physical_batches: number of batches of a step.
        untied: true if no contender ties weights.
    """

    device: str = "cpu"
    dtype: str = "fp32"
    physical_batches: int = 1
    untied: bool = False

    @property
    def foreach(self) -> bool | None:
        """The optimizer's setting of that name: torch's own choice on a GPU, one parameter at a time on a CPU."""
        return False if self.device == "cpu" else None

    def autocast(self) -> Any:
        """Returns the context of a forward pass: bfloat16 if asked for."""
        return torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.dtype == "bf16")


def build(shape: Shape, name: str, terms: Terms) -> Any:
    """Builds the model of a contender. Opacus ghost refuses tied weights, and its LSTM is a layer of its own."""
    torch.manual_seed(0)
    if shape.kind == "gpt2":
        config = gpt2_config(
            vocab=shape.vocab, length=shape.length, width=shape.width, layers=shape.layers, heads=shape.heads,
            tie_word_embeddings=not name.startswith(("opacus", "fastdp")) and not terms.untied,
        )  # fmt: skip
        return GPT2LMHeadModel(config).train().to(terms.device)

    if shape.kind == "roberta":
        roberta = RobertaConfig(
            vocab_size=shape.vocab, hidden_size=shape.width, num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads, intermediate_size=4 * shape.width, num_labels=NUM_CLASSES,
            max_position_embeddings=shape.length + 2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
            pad_token_id=1, type_vocab_size=1,
        )  # fmt: skip
        return RobertaForSequenceClassification(roberta).train().to(terms.device)

    class LstmLM(nn.Module):
        def __init__(self, lstm: Any) -> None:
            super().__init__()
            self.embedding = nn.Embedding(shape.vocab, shape.width)
            self.lstm = lstm(shape.width, shape.width, batch_first=True)
            self.lm_head = nn.Linear(shape.width, shape.vocab)

        def hidden(self, ids: Any) -> Any:
            return self.lstm(self.embedding(ids))[0]

        def forward(self, input_ids: Any) -> Any:
            return self.lm_head(self.hidden(input_ids))

    lstm: Any = nn.LSTM
    if name.startswith("opacus"):
        from opacus.layers import DPLSTM as lstm
    return LstmLM(lstm).train().to(terms.device)


def example_losses(model: Any, ids: Any, shape: Shape) -> Any:
    """Returns (B,) cross-entropies from the model's own logits: the mean over next tokens, or that of the class."""
    out = model(ids)
    if shape.kind == "roberta":
        return functional.cross_entropy(out.logits.float(), classes_of(ids), reduction="none")
    logits = out if shape.kind == "lstm" else out.logits
    token = functional.cross_entropy(logits[:, :-1].transpose(1, 2).float(), ids[:, 1:], reduction="none")
    return token.mean(dim=1)


def classes_of(ids: Any) -> Any:
    """Returns (B,) classes of the examples of a classifier."""
    return ids[:, 1] % NUM_CLASSES


def plain_loss(model: Any, ids: Any, shape: Shape) -> Any:
    """Returns the ordinary loss of a batch: for GPT-2, the model's own."""
    if shape.kind == "gpt2":
        return model(input_ids=ids, labels=ids, use_cache=False).loss
    if shape.kind == "roberta":
        return model(input_ids=ids, labels=classes_of(ids)).loss
    logits = model(ids)[:, :-1]
    return functional.cross_entropy(logits.reshape(-1, shape.vocab), ids[:, 1:].reshape(-1))


def fused_losses(model: Any, ids: Any, shape: Shape) -> Any:
    """Returns (B,) losses through our fused head; a classifier's head is small, and its losses are its own."""
    if shape.kind == "gpt2":
        return causal_lm_losses(model, ids, ids)
    if shape.kind == "roberta":
        return example_losses(model, ids, shape)
    labels = torch.cat([ids[:, 1:], ids.new_full((len(ids), 1), -100)], dim=1)
    return fused(model.hidden(ids), model.lm_head, labels)


Step = Callable[[], None]


def ordinary(model: Any, ids: Any, shape: Shape, terms: Terms, is_fused: bool) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, foreach=terms.foreach)

    def step() -> None:
        for _ in range(terms.physical_batches):
            with terms.autocast():
                loss = fused_losses(model, ids, shape).mean() if is_fused else plain_loss(model, ids, shape)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def ours(model: Any, ids: Any, shape: Shape, terms: Terms, mode: str, noise: float = NOISE) -> Step:
    """Returns a step of our engine and optimizer, as PrivacyEngine runs them."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, foreach=terms.foreach)
    engine = GradientEngine(model, max_grad_norm=MAX_GRAD_NORM, mode=mode)  # type: ignore[arg-type]

    def step() -> None:
        for _ in range(terms.physical_batches):
            with engine.recording(len(ids)), terms.autocast():
                losses = fused_losses(model, ids, shape)
            engine.backward(losses)
        noisy_step(optimizer, engine, noise_multiplier=noise, expected_batch_size=len(ids), rng=unpredictable(0))

    return step


def opacus(model: Any, ids: Any, shape: Shape, terms: Terms, mode: str, noise: float = NOISE) -> Step:
    """Returns a step of Opacus with per-sample gradients (hooks) or ghost clipping, by its own engine."""
    from opacus import PrivacyEngine

    if shape.kind == "gpt2":
        for parent in list(model.modules()):  # as its tutorials do: it has no ghost rule for Conv1D
            for name, child in list(parent.named_children()):
                if isinstance(child, Conv1D):
                    linear = torch.nn.Linear(*child.weight.shape)
                    linear.weight.data, linear.bias.data = child.weight.data.t().contiguous(), child.bias.data
                    setattr(parent, name, linear)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, foreach=terms.foreach)
    criterion = torch.nn.CrossEntropyLoss(reduction="mean")
    loader = DataLoader(TensorDataset(ids), batch_size=len(ids))
    settings: dict[str, Any] = {"grad_sample_mode": mode, "poisson_sampling": False}
    if mode == "ghost":
        settings["criterion"] = criterion
    made = PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=noise, max_grad_norm=MAX_GRAD_NORM,
        **settings,
    )  # fmt: skip
    private, private_optimizer = made[0], made[1]
    positions = torch.arange(shape.length, device=ids.device).repeat(len(ids), 1)

    def outputs() -> tuple[Any, Any, tuple[int, int]]:
        """Returns logits and targets without an example axis, and the former shape of the targets."""
        if shape.kind == "roberta":
            return private(ids).logits.float(), classes_of(ids), (len(ids), 1)
        out = private(ids) if shape.kind == "lstm" else private(ids, position_ids=positions).logits
        flat = out[:, :-1].reshape(-1, shape.vocab).float()
        return flat, ids[:, 1:].reshape(-1).contiguous(), (len(ids), shape.length - 1)

    def step() -> None:
        for number in range(terms.physical_batches):
            with terms.autocast():
                flat, targets, target_shape = outputs()
                if mode == "ghost":
                    loss = made[2](flat, targets, shape=target_shape)
                else:
                    loss = functional.cross_entropy(flat, targets)
            private_optimizer.signal_skip_step(do_skip=number < terms.physical_batches - 1)
            loss.backward()
            private_optimizer.step()
            private_optimizer.zero_grad()

    return step


def fastdp(model: Any, ids: Any, shape: Shape, terms: Terms, noise: float = NOISE) -> Step:
    """Returns a step of fast-differential-privacy's book-keeping engine with mixed ghost norms."""
    from fastDP import PrivacyEngine, transformers_support

    # Its own forward pass for GPT-2 is that of an old version; expanded position ids make it needless.
    transformers_support.forward_swapper = lambda module: None
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, foreach=terms.foreach)
    engine = PrivacyEngine(
        model, batch_size=len(ids), sample_size=1_000_000, noise_multiplier=noise, epochs=1, clipping_fn="Abadi",
        clipping_mode="MixOpt", max_grad_norm=MAX_GRAD_NORM, origin_params=None,
    )  # fmt: skip
    engine.attach(optimizer)
    positions = torch.arange(shape.length, device=ids.device).repeat(len(ids), 1)

    def step() -> None:
        with terms.autocast():
            out = model(ids) if shape.kind == "lstm" else model(ids, position_ids=positions).logits
            loss = torch.nn.functional.cross_entropy(
                out[:, :-1].reshape(-1, shape.vocab).float(), ids[:, 1:].reshape(-1)
            )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def make(name: str, model: Any, ids: Any, shape: Shape, terms: Terms, noise: float = NOISE) -> Step:
    if name in ("plain", "fused"):
        return ordinary(model, ids, shape, terms, name == "fused")
    if name.startswith("ours"):
        return ours(model, ids, shape, terms, "two_pass" if name == "ours_two_pass" else "book_keeping", noise)
    if name.startswith("opacus"):
        return opacus(model, ids, shape, terms, name.removeprefix("opacus_"), noise)
    return fastdp(model, ids, shape, terms, noise)


def available(names: list[str]) -> list[str]:
    """Returns the contenders whose package is installed."""
    package = {"opacus_hooks": "opacus", "opacus_ghost": "opacus", "fastdp": "fastDP"}
    return [n for n in names if n not in package or importlib.util.find_spec(package[n]) is not None]


def clipped_sum(model: Any, ids: Any, shape: Shape) -> dict[str, Any]:
    """Returns the float64 clipped sum of each parameter, one example at a time."""
    total = {n: torch.zeros_like(p, dtype=torch.float64) for n, p in model.named_parameters()}
    for row in range(shape.batch):
        model.zero_grad()
        example_losses(model, ids[row : row + 1], shape)[0].backward()
        grads = {n: p.grad.double() for n, p in model.named_parameters()}
        norm = torch.stack([g.square().sum() for g in grads.values()]).sum().sqrt()
        for n, g in grads.items():
            total[n] += g * min(1.0, MAX_GRAD_NORM / float(norm))
    model.zero_grad()
    return total


def save_for_jax(path: Path, shape: Shape, terms: Terms) -> None:
    """Writes the weights of a GPT-2 by name, a batch, and for a small shape its clipped sum, for `dp_jax`."""
    model = build(shape, "plain", terms)
    torch.manual_seed(1)
    ids = torch.randint(0, shape.vocab, (shape.batch, shape.length))
    held = {f"w.{name}": p.detach().numpy() for name, p in model.named_parameters()}
    if shape in CHECK_SHAPES.values():
        held |= {f"s.{name}": total.numpy() for name, total in clipped_sum(model, ids, shape).items()}
    np.savez(path, ids=ids.numpy(), num_layers=shape.layers, num_heads=shape.heads, **held)  # type: ignore[arg-type]


def update_error(name: str, shape: Shape, terms: Terms) -> float:
    """Returns the relative error of a contender's noiseless update, against one example at a time."""
    torch.manual_seed(1)
    model = build(shape, name, terms)
    ids = torch.randint(0, shape.vocab, (shape.batch, shape.length), device=terms.device)
    total = clipped_sum(model, ids, shape)
    handed: list[Any] = []
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: handed.extend(p.grad.clone() for g in optimizer.param_groups for p in g["params"])
    )
    make(name, model, ids, shape, terms, noise=0.0)()
    hook.remove()
    expected = torch.cat([t.flatten() for t in total.values()])
    found = torch.cat([g.flatten().double() for g in handed]) * shape.batch
    # Layers may have been replaced by transposed ones: sorted values do not care.
    return float((found.sort().values - expected.sort().values).norm() / expected.norm())
