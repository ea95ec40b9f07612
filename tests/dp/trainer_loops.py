"""Loops over one tiny private model: plain, by step, accelerate and `PrivateTrainer`, which stop, save and go on."""

import numpy as np
import torch
from engine_models import seeded
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import TrainerCallback, TrainingArguments

from pipelines.dp.callback import PrivacyCallback
from pipelines.dp.privacy import PrivacyEngine
from pipelines.dp.trainer import PrivateTrainer

RECORDS, BATCH, EPOCHS = 24, 6, 2
PLANNED = RECORDS // BATCH * EPOCHS
TARGET = {"target_epsilon": 8.0, "target_delta": 1e-3, "epochs": EPOCHS}


class Records(Dataset):
    def __init__(self):
        with seeded(1):
            self.x, self.labels = torch.randn(RECORDS, 3), torch.randint(0, 2, (RECORDS,))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"x": self.x[index], "labels": self.labels[index]}


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        with seeded(2):
            self.layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))

    def forward(self, x, labels=None):
        logits = self.layers(x)
        loss = {} if labels is None else {"loss": nn.functional.cross_entropy(logits, labels)}
        return {**loss, "logits": logits}


def losses_of(model, batch):
    return nn.functional.cross_entropy(model(batch["x"])["logits"], batch["labels"], reduction="none")


class Parts:
    """A model, made private. ``taken`` holds the learning rate of each step that the wrapped optimizer took."""

    def __init__(self, limit=None, seed=5, batch_size=BATCH):
        self.engine = PrivacyEngine(test_seed=seed, insecure_test_seed=True)
        model = Classifier()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        self.taken = []
        optimizer.register_step_pre_hook(lambda inner, *_: self.taken.append(inner.param_groups[0]["lr"]))
        self.model, self.optimizer, self.loader = self.engine.make_private_with_epsilon(
            module=model, optimizer=optimizer, data_loader=DataLoader(Records(), batch_size=batch_size),
            max_grad_norm=0.5, max_physical_batch_size=limit, **TARGET,
        )  # fmt: skip

    def epochs(self):
        return range(self.engine.num_steps // self.loader.steps_per_epoch, EPOCHS)

    def evaluate(self):
        self.model.eval()
        with torch.no_grad():
            losses_of(self.model, {"x": Records().x, "labels": Records().labels})
        self.model.train()


def plain(parts, place, *, accumulation, evaluates, stop_at=None, resumes=False):
    """``accumulation`` changes nothing: ``step()`` after every batch adds up the physical batches of a sample."""
    if resumes:
        load(parts, place)
    for _ in parts.epochs():
        for batch in parts.loader:
            parts.optimizer.backward(losses_of(parts.model, batch))
            parts.optimizer.step()
            parts.optimizer.zero_grad()
            if evaluates:
                parts.evaluate()
            if parts.engine.num_steps == stop_at:
                return save(parts, place)
    return None


def by_step(parts, place, *, accumulation, evaluates, stop_at=None, resumes=False):
    """A loop that counts items, as trainers do."""
    if resumes:
        load(parts, place)
    per_step = 3 if accumulation else 1
    for _ in parts.epochs():
        for number, sample in enumerate(parts.loader.by_step(per_step), start=1):
            for batch in sample:
                parts.optimizer.backward(losses_of(parts.model, batch))
            if number % per_step == 0:
                parts.optimizer.step()
                parts.optimizer.zero_grad()
                if evaluates:
                    parts.evaluate()
                if parts.engine.num_steps == stop_at:
                    return save(parts, place)
    return None


def accelerated(parts, place, *, accumulation, evaluates, stop_at=None, resumes=False):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=3 if accumulation else 1)
    model, optimizer, loader = accelerator.prepare(parts.model, parts.optimizer, parts.loader)
    assert optimizer is parts.optimizer
    accelerator.register_for_checkpointing(parts.engine)
    if resumes:
        accelerator.load_state(place)
    for _ in parts.epochs():
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(optimizer.backward(losses_of(model, batch)))
                optimizer.step()
                optimizer.zero_grad()
            if evaluates:
                parts.evaluate()
            if parts.engine.num_steps == stop_at:
                return accelerator.save_state(place)
    return None


class StopsAt(TrainerCallback):
    """Early stopping, at a step that is fixed."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **_):
        control.should_save = control.should_training_stop = state.global_step == self.step


def trainer_of(parts, place, *, trainer_class=PrivateTrainer, callbacks=(), max_epsilon=None, **settings):
    settings = {"num_train_epochs": EPOCHS, "save_strategy": "no", "logging_strategy": "no", **settings}
    return trainer_class(
        model=parts.model, engine=parts.engine, losses=losses_of, eval_dataset=Records(),
        callbacks=[PrivacyCallback(parts.engine, max_epsilon=max_epsilon), *callbacks],
        args=TrainingArguments(output_dir=str(place), use_cpu=True, report_to=[], disable_tqdm=True, **settings),
    )  # fmt: skip


def trainer(parts, place, *, accumulation, evaluates, stop_at=None, resumes=False):
    settings = {"eval_strategy": "steps", "eval_steps": 1} if evaluates else {}
    if accumulation:
        settings.update(gradient_accumulation_steps=3, per_device_train_batch_size=BATCH // 3)
    made = trainer_of(parts, place, callbacks=[StopsAt(stop_at)], **settings)
    made.train(resume_from_checkpoint=resumes)
    assert made.state.global_step == parts.engine.num_steps


def save(parts, place):
    torch.save([parts.engine.state_dict(), parts.model.state_dict(), parts.optimizer.state_dict()], place / "state.pt")


def load(parts, place):
    for part, state in zip((parts.engine, parts.model, parts.optimizer), torch.load(place / "state.pt"), strict=True):
        part.load_state_dict(state)


LOOPS = {"plain": plain, "by step": by_step, "accelerate": accelerated, "Trainer": trainer}


def flat(model):
    return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])


def short_of(caught):
    """The warnings that planned steps were left."""
    return [str(w.message) for w in caught if "planned noisy steps" in str(w.message)]
