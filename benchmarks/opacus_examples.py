"""Opacus's own kinds of examples under both engines: equal sums first, then accuracy, epsilon and time of a step.

    python benchmarks/opacus_examples.py --write benchmarks/results/opacus_examples.md

Needs ``opacus`` and ``scikit-learn`` (for its digits) beside the project. Two examples, after those of Opacus's
repository: a convolutional network on images of digits (28 x 28, here scikit-learn's 1,797, enlarged), and a
classifier of words by their letters with an LSTM (here words of four random languages, each a chain of letters).

* Equal first: from the same weights, on the same batch, without noise, each engine's step is compared with one
  example at a time. Nothing is timed where that differs by more than 1e-4.
* Accuracy: both train from the same weights with Poisson samples of the same rate, the same noise, bound, learning
  rate and number of steps, for several seeds of the initial weights. Samples and noise are each engine's own.
* Epsilon: of the very steps that were taken, for the relation of Opacus (add or remove one), and for ours (replace
  one).
* Time: the contenders take turns on one batch; medians of the processor's seconds of a step, and of the ratio to
  ordinary training in the same round.
"""

from __future__ import annotations

import copy
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import command_line, heading
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from pipelines.accounting.accountants import epsilon
from pipelines.dp.gradients import GradientEngine
from pipelines.dp.noisy_steps import noisy_step
from pipelines.dp.privacy import PrivacyEngine
from pipelines.randomness import unpredictable

DELTA = 1e-5
CONTENDERS = ("plain", "ours", "opacus_hooks", "opacus_ghost")


class Images(nn.Module):
    """A network: that of Opacus's MNIST example."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 8, 2, padding=3)
        self.conv2 = nn.Conv2d(16, 32, 4, 2)
        self.fc1 = nn.Linear(32 * 4 * 4, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2, 1)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2, 1)
        return self.fc2(functional.relu(self.fc1(x.flatten(1))))


class Letters(nn.Module):
    """A network: that of Opacus's example of names, the last state of an LSTM over letters."""

    def __init__(self, lstm: Any = nn.LSTM) -> None:
        super().__init__()
        self.embedding = nn.Embedding(27, 64)
        self.lstm = lstm(64, 128, batch_first=True)
        self.out = nn.Linear(128, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.embedding(x))[0][:, -1])


@dataclass(frozen=True)
class Example:
    """An example: data and settings close to those of Opacus's script."""

    build: Callable[..., nn.Module]
    train: TensorDataset
    test: TensorDataset
    batch_size: int
    epochs: int
    noise_multiplier: float
    max_grad_norm: float
    lr: float


def images() -> Example:
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = functional.interpolate(torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16, size=28, mode="bilinear")
    y = torch.tensor(digits.target)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    train, test = (TensorDataset(x[part], y[part]) for part in (order[:1408], order[1408:]))
    return Example(Images, train, test, 64, 15, 1.0, 1.0, 0.1)


def letters() -> Example:
    rng = np.random.default_rng(0)
    chains = rng.dirichlet(np.full(26, 0.3), size=(4, 26))
    words, labels = np.zeros((4000, 12), dtype=np.int64), np.arange(4000) % 4
    for word, label in zip(words, labels, strict=True):
        letter = rng.integers(26)
        for at in range(12 - rng.integers(6, 13), 12):  # padded on the left with 0
            letter = rng.choice(26, p=chains[label, letter])
            word[at] = letter + 1
    x, y = torch.tensor(words), torch.tensor(labels)
    return Example(Letters, TensorDataset(x[:3200], y[:3200]), TensorDataset(x[3200:], y[3200:]), 128, 8, 1.0, 1.5, 1.0)


EXAMPLES = {"images": images, "letters": letters}


def build(example: Example, contender: str, seed: int) -> nn.Module:
    """Builds the model of a contender, from the same weights for all."""
    torch.manual_seed(seed)
    model = example.build()
    if example.build is Letters and contender.startswith("opacus"):
        from opacus.layers import DPLSTM

        other = Letters(DPLSTM)
        for name, layer in model.named_children():  # its LSTM takes torch's names by itself, and not inside another
            getattr(other, name).load_state_dict(layer.state_dict())
        return other.train()
    return model.train()


def opacus_made(example: Example, model: nn.Module, contender: str, data: Any, size: int, **settings: Any) -> Any:
    """Returns Opacus's engine with its private model, optimizer, criterion and loader."""
    from opacus import PrivacyEngine as Theirs

    mode = contender.removeprefix("opacus_")
    criterion = nn.CrossEntropyLoss()
    engine = Theirs()
    options = {"grad_sample_mode": mode, "max_grad_norm": example.max_grad_norm, **settings}
    if mode == "ghost":
        options["criterion"] = criterion
    optimizer, loader = torch.optim.SGD(model.parameters(), lr=example.lr), DataLoader(data, batch_size=size)
    made = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, **options)
    model, optimizer, *rest, loader = made
    return engine, model, optimizer, *(rest or [criterion]), loader


def step_on(example: Example, contender: str, model: nn.Module, x: Any, y: Any, noise: float) -> Callable[[], None]:
    """Returns a function that takes a step on one batch."""
    if contender == "ours":
        optimizer = torch.optim.SGD(model.parameters(), lr=example.lr)
        engine = GradientEngine(model, max_grad_norm=example.max_grad_norm)

        def ours() -> None:
            with engine.recording(len(x)):
                losses = functional.cross_entropy(model(x), y, reduction="none")
            engine.backward(losses)
            noisy_step(optimizer, engine, noise_multiplier=noise, expected_batch_size=len(x), rng=unpredictable(0))

        return ours
    if contender == "plain":
        plain_optimizer = torch.optim.SGD(model.parameters(), lr=example.lr)

        def plain() -> None:
            functional.cross_entropy(model(x), y).backward()
            plain_optimizer.step()
            plain_optimizer.zero_grad()

        return plain
    _, private, private_optimizer, criterion, _ = opacus_made(
        example, model, contender, TensorDataset(x, y), len(x), noise_multiplier=noise, poisson_sampling=False
    )

    def theirs() -> None:
        private_optimizer.zero_grad()
        criterion(private(x), y).backward()
        private_optimizer.step()

    return theirs


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """Returns the weights by torch's names, in double precision."""
    layers = ((child, layer.state_dict()) for child, layer in model.named_children())
    return {f"{child}.{name}": value.double().clone() for child, state in layers for name, value in state.items()}


def error_of_a_step(example: Example, contender: str) -> float:
    """Returns the relative error of a noiseless step, against one example at a time."""
    model = build(example, contender, 0)
    x, y = (tensor[:24] for tensor in example.train.tensors)
    expected = [torch.zeros_like(p, dtype=torch.float64) for p in build(example, "plain", 0).parameters()]
    reference = copy.deepcopy(build(example, "plain", 0)).double()
    names = [name for name, _ in reference.named_parameters()]
    for one, label in zip(x, y, strict=True):
        one = one[None] if one.dtype == torch.int64 else one[None].double()
        loss = functional.cross_entropy(reference(one), label[None])
        gradients = torch.autograd.grad(loss, list(reference.parameters()))
        norm = torch.cat([g.flatten() for g in gradients]).norm()
        for total, gradient in zip(expected, gradients, strict=True):
            total += gradient * min(1.0, example.max_grad_norm / float(norm))
    before = weights_of(model)
    step_on(example, contender, model, x, y, 0.0)()
    after = weights_of(model)
    moved = torch.cat([((before[n] - after[n]) * len(x) / example.lr).flatten() for n in names])
    wanted = torch.cat([total.flatten() for total in expected])
    return float((moved - wanted).norm() / wanted.norm())


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    x, y = data.tensors
    with torch.no_grad():
        return float((model.eval()(x).argmax(1) == y).float().mean())


def train(example: Example, contender: str, seed: int) -> tuple[float, float, float]:
    """Returns the accuracy on held-out records, and epsilon for either relation (NaN if an engine has none)."""
    model = build(example, contender, seed)
    if contender == "ours":
        engine = PrivacyEngine(relation="add_or_remove_one")
        model, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=example.lr),
            data_loader=DataLoader(example.train, batch_size=example.batch_size),
            noise_multiplier=example.noise_multiplier,
            max_grad_norm=example.max_grad_norm,
        )
        for _ in range(example.epochs):
            for x, y in loader:
                optimizer.backward(functional.cross_entropy(model(x), y, reduction="none"))
                optimizer.step()
        return accuracy(model, example.test), engine.get_epsilon(DELTA), epsilon(engine.event, DELTA, "replace_one")
    if contender == "plain":
        plain_optimizer = torch.optim.SGD(model.parameters(), lr=example.lr)
        for _ in range(example.epochs):
            for x, y in DataLoader(example.train, batch_size=example.batch_size, shuffle=True):
                plain_optimizer.zero_grad()
                functional.cross_entropy(model(x), y).backward()
                plain_optimizer.step()
        return accuracy(model, example.test), float("inf"), float("inf")
    theirs, private, optimizer, criterion, loader = opacus_made(
        example, model, contender, example.train, example.batch_size, noise_multiplier=example.noise_multiplier
    )
    for _ in range(example.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(private(x), y).backward()
            optimizer.step()
    return accuracy(private, example.test), theirs.get_epsilon(DELTA), float("nan")


def times(example: Example, rounds: int) -> dict[str, list[float]]:
    """Measures milliseconds of processor time of each contender's steps, round by round."""
    x, y = (tensor[: example.batch_size] for tensor in example.train.tensors)
    steps = {name: step_on(example, name, build(example, name, 0), x, y, 1.0) for name in CONTENDERS}
    found: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for number in range(rounds + 3):
        for name, step in steps.items():
            start = time.process_time()
            step()
            if number >= 3:
                found[name].append(1e3 * (time.process_time() - start))
    return found


def rows(name: str, seeds: int, rounds: int) -> list[str]:
    example = EXAMPLES[name]()
    errors = {c: error_of_a_step(example, c) for c in CONTENDERS if c != "plain"}
    if max(errors.values()) > 1e-4:
        raise SystemExit(f"{name}: a step differs from one example at a time: {errors}")
    spent = times(example, rounds)
    lines = []
    for contender in CONTENDERS:
        results = [train(example, contender, seed) for seed in range(seeds)]
        reached = [100 * result[0] for result in results]
        ratio = statistics.median(a / b for a, b in zip(spent[contender], spent["plain"], strict=True))
        eps = [f"{value:.3f}" if np.isfinite(value) else "–" for value in results[0][1:]]
        error = f"{errors[contender]:.0e}" if contender in errors else "–"
        lines.append(
            f"| {name} | {contender} | {error} | {statistics.mean(reached):.1f} ({min(reached):.1f} to "
            f"{max(reached):.1f}) | {eps[0]} | {eps[1]} | {statistics.median(spent[contender]):.1f} | {ratio:.2f} |"
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--examples", nargs="*", choices=EXAMPLES, default=list(EXAMPLES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--write", type=Path, help="a file for the table")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    import opacus

    head = [
        "# Opacus's examples under both engines",
        "",
        "    python benchmarks/opacus_examples.py"
        f" --examples {' '.join(arguments.examples)} --seeds {arguments.seeds} --rounds {arguments.rounds}",
        "",
        f"Opacus {opacus.__version__}, torch {torch.__version__}, one thread. Accuracy: mean, least and most over "
        f"{arguments.seeds} seeds, in percent. Epsilon at delta {DELTA:g}.",
        "",
        *heading(
            "example",
            "engine",
            "error of a step",
            "accuracy",
            "epsilon, add or remove one",
            "epsilon, replace one",
            "ms a step",
            "over plain",
        ),
    ]
    print("\n".join(head), flush=True)
    table = [line for name in arguments.examples for line in rows(name, arguments.seeds, arguments.rounds)]
    if arguments.write:
        arguments.write.write_text("\n".join([*head, *table]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
