"""CRT on a very small model, for the tests of everything that its loop must keep."""

import contextlib
from types import SimpleNamespace

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from pipelines.randomness import seeded
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.data.corpus import HeldOut
from pipelines.training.loop import TrainingContext
from pipelines.training.methods import crt
from pipelines.training.methods.base import TrainingSettings
from pipelines.training.models.losses import example_losses
from pipelines.training.scoring.evaluation import evaluate
from support.tiny import records_of

PUBLIC = [(f"hello, can I do {word}?", "SYS") for word in ("this", "that", "it", "all", "more")] * 3
PRIVATE = [(f"I am <MASK> and my {word} is lost", "USR") for word in ("hat", "cat", "bag")] * 8 + [
    ("<MASK>", "USR")
] * 8
NOTHING = HeldOut(records=records_of([]), num_words=np.zeros(0, int), documents=np.zeros(0, int), num_available=0)


def settings(**changes):
    values = {
        "epochs": 3,
        "public_learning_rate": 1e-2,
        "private_learning_rate": 1e-2,
        "public_batch_size": 4,
        "expected_batch_size": 8,
        "max_grad_norm": 0.5,
        "seed": 1,
    }
    return TrainingSettings(**{**values, **changes})


def prepared(public, private, owners=None, **changes):
    corpus = SimpleNamespace(
        nonprivate_examples=records_of(public),
        private_examples=records_of(private),
        num_private_without_noise=0,
        owners=owners,
    )
    return crt.prepare(corpus, settings(**changes))


def training_context(tmp_path, **changes):
    values = {
        "randomness": seeded(5),
        "checkpoints": Checkpoints(tmp_path / "c.ckpt", "recipe", interval_seconds=0),
        "losses": example_losses,
        "evaluate": lambda m: evaluate(m, NOTHING),
        "microbatch_size": 4,
        "progress": lambda done, total, message: None,
    }
    return TrainingContext(**{**values, **changes})


def train(tmp_path, model, public=PUBLIC, private=PRIVATE, batch=8, changes=None, owners=None, **arguments):
    changes = {"noise_multiplier": 0.3, **(changes or {})}
    noise = changes.pop("noise_multiplier")
    training = prepared(public, private, owners, expected_batch_size=batch, **changes)
    return training.train(model, noise, training_context(tmp_path, **arguments))


@contextlib.contextmanager
def gradients_handed_over():
    """What optimizers are handed, one flat tensor a step."""
    seen = []

    def hook(optimizer, args, kwargs):
        seen.append(torch.cat([p.grad.flatten() for group in optimizer.param_groups for p in group["params"]]))

    handle = register_optimizer_step_pre_hook(hook)
    try:
        yield seen
    finally:
        handle.remove()


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])
