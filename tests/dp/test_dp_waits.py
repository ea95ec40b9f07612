"""How often a training step asks a tensor for a number: on a GPU the processor then waits for all work before it."""

import gc
from collections import Counter
from contextlib import contextmanager

import pytest
import torch
from engine_models import TinyLM, fused, gpt2, seeded
from torch.utils._python_dispatch import TorchDispatchMode

from pipelines.dp import gradients, tape, uses
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.language import causal_lm_losses
from pipelines.dp.noisy_steps import noisy_step
from pipelines.randomness import seeded as randomness

ASKING = {
    "_local_scalar_dense", "nonzero", "nonzero_numpy", "_unique", "_unique2", "unique_dim", "unique_consecutive",
    "masked_select", "equal", "is_nonzero", "repeat_interleave", "bincount",
}  # fmt: skip
READING = ("tolist", "numpy", "cpu")
"""Methods that read values without an operation of their own on a CPU."""


class Asked(TorchDispatchMode):
    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, operation, types, arguments=(), named=None):
        name = operation.overloadpacket.__name__
        indices = arguments[1] if name.startswith("index") and len(arguments) > 1 else ()
        by_mask = isinstance(indices, list | tuple) and any(
            isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8) for index in indices
        )
        if name in ASKING or by_mask:
            self.seen[name] += 1
        return operation(*arguments, **(named or {}))


@contextmanager
def asked(monkeypatch):
    """Counts what asks for values, in backward passes too."""
    seen = Counter()

    def counting(name, method):
        def read(tensor, *arguments, **named):
            seen[name] += 1
            return method(tensor, *arguments, **named)

        return read

    with monkeypatch.context() as patch, Asked(seen):
        for name in READING:  # each is counted, and the tests below plant one to see that
            patch.setattr(torch.Tensor, name, counting(name, getattr(torch.Tensor, name)))
        yield seen


def model_and_losses(kind):
    with seeded(3):
        ids = torch.randint(1, 11, (4, 6))
    if kind == "gpt2":
        return gpt2(vocab=11, width=8), lambda model: causal_lm_losses(model, ids, ids)
    batch = {"ids": ids, "labels": ids.roll(-1, 1)}
    if kind == "classifier":
        network = torch.nn.Sequential(
            torch.nn.Embedding(11, 6), torch.nn.LayerNorm(6), torch.nn.Flatten(), torch.nn.Linear(36, 3)
        )
        return network, lambda model: torch.nn.functional.cross_entropy(model(ids), ids[:, 0] % 3, reduction="none")
    return TinyLM(tied=kind == "tied"), lambda model: fused(model, batch)


def waits(monkeypatch, kind, mode="book_keeping", num_batches=3):
    """Returns what a step of so many batches asks for, after a first one, which is traced."""
    model, losses_of = model_and_losses(kind)
    engine = GradientEngine(model, max_grad_norm=1.0, mode=mode)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        for _ in range(num_batches):
            with engine.recording(4):
                losses = losses_of(model)
            engine.backward(losses)
        noisy_step(
            optimizer, engine, noise_multiplier=1.0, expected_batch_size=4, rng=randomness(3)(0),
        )  # fmt: skip

    step()
    with asked(monkeypatch) as seen:
        step()
    return seen


@pytest.mark.parametrize(
    ("kind", "each"),
    [
        # The answers about norms and losses, read together; and the length to which a fused head packs its targets.
        ("classifier", {"tolist": 1}),
        ("untied", {"tolist": 1, "_local_scalar_dense": 1}),
        ("tied", {"tolist": 1, "_local_scalar_dense": 1}),
        ("gpt2", {"tolist": 1, "_local_scalar_dense": 2}),  # one by transformers, which looks at its mask
    ],
)
def test_a_batch_waits_once_for_its_norms_and_once_for_its_targets(monkeypatch, kind, each):
    assert waits(monkeypatch, kind) == {name: 3 * count for name, count in each.items()}
    assert waits(monkeypatch, kind, num_batches=1) == each  # and the noisy step not at all


@pytest.mark.parametrize("plant", [bool, lambda x: x.tolist(), lambda x: x.nonzero(), lambda x: x[x > 0], torch.unique])
def test_a_wait_that_is_added_is_counted(monkeypatch, patch, plant):
    before = waits(monkeypatch, "untied")

    def planted(values, *arguments):
        plant(values.sum()[None])
        return cancelling(values, *arguments)

    cancelling = gradients.cancelling
    patch(gradients, "cancelling", planted)
    assert waits(monkeypatch, "untied") != before


def test_a_wait_within_a_backward_pass_is_counted(monkeypatch, patch):
    before = waits(monkeypatch, "classifier")

    def planted(use):
        use.rows.sum().item()
        return use

    patch(tape, "on_tensor_cores", planted)
    assert waits(monkeypatch, "classifier") != before


def test_kept_values_are_freed_while_the_sums_are_made(patch):
    model, losses_of = model_and_losses("untied")
    engine, left = GradientEngine(model, max_grad_norm=1.0), []

    def watched(used, *arguments):
        add_weighted(used, *arguments)
        left.append([held for held in gc.get_objects() if type(held) in (uses.OuterUse, uses.RowsUse, uses.DenseUse)])

    add_weighted = tape.Tape.add_weighted
    patch(tape.Tape, "add_weighted", watched)
    with engine.recording(4):
        losses = losses_of(model)
    engine.backward(losses)
    assert left == [[]]
