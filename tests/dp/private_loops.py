"""An ordinary private loop as users write it, for tests of what it refuses."""

import torch
from engine_models import per_token, seeded
from torch import nn
from torch.nn.utils import rnn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from pipelines.dp.privacy import PrivacyEngine

INSECURE = {"test_seed": 5, "insecure_test_seed": True}


def rows(size=24, width=3):
    with seeded(1):
        return TensorDataset(torch.randn(size, width), torch.randint(0, 2, (size,)))


def network(*layers):
    with seeded(2):
        return nn.Sequential(nn.Linear(3, 4), *layers, nn.Tanh(), nn.Linear(4, 2))


def cross_entropies(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


class Texts(Dataset):
    """Records of many lengths."""

    def __init__(self, shortest=3):
        with seeded(4):
            self.texts = [torch.randint(1, 11, (shortest + at % 7,)) for at in range(40)]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return self.texts[index]


def padded(texts):
    return rnn.pad_sequence(texts, batch_first=True)


def by_targets(model, ids):
    return per_token(model(ids)[:, :-1], ids[:, 1:].masked_fill(ids[:, 1:] == 0, -100))


class PrivateLoop:
    """What ``make_private`` gives, and a loop over it.

    ``losses_of(model, batch)`` gives the losses of a batch. ``handed`` holds the sums that the wrapped optimizer was
    handed, one a step.
    """

    def __init__(
        self, losses_of=cross_entropies, *, model=None, data=None, batch_size=8, engine=None, limit=None, noise=1.0,
        max_grad_norm=0.5, mode="book_keeping", momentum=0.0, clipping="flat", adaptive_clipping=None, **loader,
    ):  # fmt: skip
        self.losses_of = losses_of
        self.model = network() if model is None else model
        self.engine = engine or PrivacyEngine(**INSECURE)
        optimizer = torch.optim.SGD([p for p in self.model.parameters() if p.requires_grad], lr=0.1, momentum=momentum)
        self.handed = []
        optimizer.register_step_pre_hook(
            lambda inner, *_: self.handed.append(
                torch.cat([p.grad.flatten() for group in inner.param_groups for p in group["params"]]).clone()
            )
        )
        _, self.optimizer, self.loader = self.engine.make_private(
            module=self.model, optimizer=optimizer, max_grad_norm=max_grad_norm, max_physical_batch_size=limit,
            noise_multiplier=noise, mode=mode, clipping=clipping, adaptive_clipping=adaptive_clipping,
            data_loader=DataLoader(rows() if data is None else data, batch_size=batch_size, **loader),
        )  # fmt: skip

    def run(self, epochs=1):
        for _ in range(epochs):
            for batch in self.loader:
                self.optimizer.backward(self.losses_of(self.model, batch))
                self.optimizer.step()
        return self

    def took_nothing(self):
        """Whether no record has reached the wrapped optimizer or waits in a sum."""
        return not self.handed and not any(s.any() for s in self.optimizer._engine.take_sums())


class Watcher:
    """Stands for the optimizer: notes what the loader says."""

    def __init__(self):
        self.num_steps = 0
        self.said = []
        self.counts = []

    def begin_batch(self, rng, *, is_last, num_records):
        self.said.append("last" if is_last else "part")
        self.counts.append(num_records)
        self.num_steps += is_last

    def end_batch(self):
        pass

    def abandon(self):
        pass

    def begin_empty(self, rng):
        self.said.append("empty")

    def step(self):
        self.num_steps += 1
