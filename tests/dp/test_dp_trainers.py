"""Every kind of loop takes exactly the planned noisy steps, and the engine says so if it did not."""

import itertools
import json
import operator
import warnings
import weakref

import numpy as np
import pytest
import torch
from support.patches import patching
from torch.optim import lr_scheduler
from trainer_loops import (
    BATCH,
    EPOCHS,
    LOOPS,
    PLANNED,
    RECORDS,
    Classifier,
    Parts,
    Records,
    flat,
    losses_of,
    plain,
    short_of,
    trainer,
    trainer_of,
)  # fmt: skip
from transformers import Trainer, TrainingArguments

from pipelines.dp import privacy
from pipelines.dp.callback import PrivacyCallback
from pipelines.dp.privacy import PrivacyEngine
from pipelines.dp.trainer import PrivateTrainer
from pipelines.errors import ConfigError, PrivacyGateError

pytest.importorskip("accelerate", reason="pip install reticent[lora]")

STOP = 5  # within the second epoch
SHORT = f"of the {PLANNED} planned noisy steps were taken"


@pytest.fixture(autouse=True)
def _light():
    """Takes out the accounting, which costs a second, and undoes accelerate's globals. Half an epsilon is a step."""
    from accelerate.state import AcceleratorState, GradientState

    def spent(event, *_):
        return 0.5 * sum(part.count for part in event.events)

    with patching() as patch:
        patch("pipelines.accounting.calibration", "calibrate_noise_multiplier", lambda **_: 1.0, read_by=privacy)
        patch("pipelines.accounting.accountants", "epsilon", spent, read_by=privacy)
        yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def configurations():
    for kind, limit, accumulation, stops, evaluates in itertools.product(
        LOOPS, (None, 2), (False, True), (None, STOP), (False, True)
    ):
        quick = limit and accumulation and stops and evaluates
        words = [kind, limit and "physical", accumulation and "accumulation", stops and "resume", evaluates and "eval"]
        yield pytest.param(
            kind, limit, accumulation, stops, evaluates, id="-".join(w for w in words if w),
            marks=() if quick else pytest.mark.slow,
        )  # fmt: skip


@pytest.mark.parametrize(("kind", "limit", "accumulation", "stops", "evaluates"), configurations())
def test_exactly_the_planned_steps_are_taken(kind, limit, accumulation, stops, evaluates, tmp_path):
    """And a resumed run has the same count, event and weights as one that was not stopped."""
    loop, settings = LOOPS[kind], {"accumulation": accumulation, "evaluates": evaluates}
    taken = []
    if stops:
        parts = Parts(limit)
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            loop(parts, tmp_path, stop_at=stops, **settings)
        assert parts.engine.num_steps == stops
        taken = parts.taken
        tmp_path = tmp_path / f"checkpoint-{stops}" if kind == "Trainer" else tmp_path
    parts = Parts(limit)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loop(parts, tmp_path, resumes=str(tmp_path) if kind == "Trainer" and stops else bool(stops), **settings)
        assert parts.engine.get_epsilon(1e-3) == 8.0 / 16 * PLANNED
    assert not short_of(caught)
    assert parts.engine.num_steps == parts.engine.num_planned_steps == PLANNED == len(taken + parts.taken)
    whole = Parts(limit)
    plain(whole, tmp_path, accumulation=False, evaluates=False)
    assert parts.engine.event == whole.engine.event
    if kind != "Trainer":  # whose schedule is linear
        assert np.allclose(flat(parts.model), flat(whole.model), atol=1e-6)


def test_a_private_loader_has_no_length_and_says_what_to_write():
    """Guards loops that count batches, and the number of physical batches, which is private."""
    parts = Parts(2)
    with pytest.raises(TypeError, match=r"private.*loader\.steps_per_epoch.*loader\.by_step\(\).*PrivateTrainer"):
        len(parts.loader)
    assert operator.length_hint(parts.loader, -1) == -1  # progress bars go without a total
    assert parts.loader.steps_per_epoch == RECORDS // BATCH
    assert (len(parts.loader.by_step()), len(parts.loader.by_step(3))) == (RECORDS // BATCH, 3 * RECORDS // BATCH)


@pytest.mark.parametrize("batch_size", [1, BATCH])
def test_a_loop_that_counts_items_takes_every_step(batch_size):
    """Empty samples too: with one record expected, a third of the samples are empty."""
    parts = Parts(2, batch_size=batch_size)
    view = parts.loader.by_step()
    for _ in range(EPOCHS):
        items = iter(view)
        for _ in range(len(view)):
            for batch in next(items):
                parts.optimizer.backward(losses_of(parts.model, batch))
            parts.optimizer.step()
    assert parts.engine.num_steps == parts.engine.num_planned_steps == len(parts.taken) == len(view) * EPOCHS
    whole = Parts(2, batch_size=batch_size)
    plain(whole, None, accumulation=False, evaluates=False)
    assert np.allclose(flat(parts.model), flat(whole.model), atol=1e-6)


def test_steps_cannot_be_left_out_of_a_loop_by_step():
    parts = Parts(2)
    with pytest.raises(PrivacyGateError, match="read ahead"):
        list(parts.loader.by_step())
    for sample in parts.loader.by_step():
        assert "labels" not in sample
        batches = iter(sample)
        parts.optimizer.backward(losses_of(parts.model, next(batches)))
        with pytest.raises(PrivacyGateError, match="a batch was left out"):
            next(batches) and next(batches)
        break

    def without_step():
        for sample in parts.loader.by_step():
            for batch in sample:
                parts.optimizer.backward(losses_of(parts.model, batch))

    with pytest.raises(PrivacyGateError, match=r"call optimizer\.step\(\)"):
        without_step()
    assert parts.engine.num_steps == 0


@pytest.mark.parametrize("by_step", [False, True])
def test_schedules_that_count_batches_anneal(by_step):
    parts = Parts(2)
    schedule = lr_scheduler.OneCycleLR(
        parts.optimizer, max_lr=0.3, epochs=EPOCHS, steps_per_epoch=parts.loader.steps_per_epoch
    )
    if by_step:
        for _ in range(EPOCHS):
            for sample in parts.loader.by_step():
                for batch in sample:
                    parts.optimizer.backward(losses_of(parts.model, batch))
                parts.optimizer.step()
                schedule.step()
    else:
        parts.optimizer.schedule(schedule)
        plain(parts, None, accumulation=False, evaluates=False)
    assert max(parts.taken) > 0.2
    assert parts.taken[-1] == pytest.approx(0.3 / 25 / 1e4)


def left_at(parts, step):
    for batch in parts.loader:
        parts.optimizer.backward(losses_of(parts.model, batch))
        parts.optimizer.step()
        if parts.engine.num_steps == step:
            break


def test_a_loop_that_is_left_is_named_with_steps_and_epsilon():
    parts = Parts(2)
    left_at(parts, 3)
    with pytest.warns(UserWarning, match=rf"3 {SHORT}: epsilon 1\.5 of 8 is spent \(delta 0\.001\)"):
        assert parts.engine.get_epsilon(1e-3) == 1.5


def test_a_loop_that_goes_on_is_not_warned_of():
    parts = Parts(2)
    left_at(parts, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", "insecure_test_seed")
        parts.engine.get_epsilon(1e-3)  # an epoch is over, and others follow
        for batch in parts.loader:
            parts.optimizer.backward(losses_of(parts.model, batch))
            parts.optimizer.step()
            parts.engine.get_epsilon(1e-3)  # in the middle of a loop
        parts.engine.get_epsilon(1e-3)
        parts.engine.warn_if_steps_are_left()


def test_the_last_of_the_planned_epochs_says_what_is_missing():
    """Guards loops whose epochs are cut short, as by a trainer that counts batches."""
    parts = Parts(2)
    left_at(parts, 1)
    with pytest.warns(UserWarning, match=f"2 {SHORT}"):
        left_at(parts, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        parts.engine.warn_if_steps_are_left()  # once


def test_the_end_of_the_program_says_what_is_missing():
    parts = Parts(2)
    left_at(parts, 4)
    with pytest.warns(UserWarning, match=f"4 {SHORT}"):
        privacy._say_at_exit(weakref.ref(parts.engine))
    privacy._say_at_exit(weakref.ref(Records()))  # gone


def test_early_stop_is_named_at_the_end_of_training(tmp_path):
    """Even after a whole epoch, which a loop might go on from."""
    parts = Parts(2)
    made = trainer_of(parts, tmp_path, max_epsilon=2.0)
    with pytest.warns(UserWarning, match=f"4 {SHORT}"):
        made.train()
    assert parts.engine.num_steps == made.state.global_step == 4


def test_checkpoints_and_logs_of_a_trainer_do_not_depend_on_samples(tmp_path):
    """Guards the sizes of samples and the losses, which no epsilon covers."""
    found = []
    for seed, limit in ((1, None), (2, 2)):
        place = tmp_path / str(seed)
        parts = Parts(limit, seed=seed)
        made = trainer_of(parts, place, save_strategy="epoch", logging_strategy="steps", logging_steps=1)
        result = made.train()
        assert np.isnan(result.training_loss)
        assert sorted(folder.name for folder in place.iterdir()) == ["checkpoint-4", "checkpoint-8"]
        state = json.loads((place / "checkpoint-8" / "trainer_state.json").read_text())
        found.append([state["log_history"], state["global_step"], state["max_steps"], state["total_flos"]])
        assert set(result.metrics) >= {"train_runtime", "epsilon"}
        assert not {"loss", "train_loss", "grad_norm"} & {name for entry in made.state.log_history for name in entry}
    assert found[0] == found[1]


def test_a_plain_trainer_is_refused(tmp_path):
    parts = Parts(2)

    class Plain(Trainer):
        def get_train_dataloader(self):
            return parts.loader

        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            return parts.optimizer.backward(losses_of(model, inputs))

    def made(*callbacks):
        return Plain(
            model=parts.model, optimizers=(parts.optimizer, parts.optimizer.schedule(
                lr_scheduler.ConstantLR(parts.optimizer, 1.0))), callbacks=list(callbacks),
            args=TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[], max_steps=PLANNED),
        )  # fmt: skip

    with pytest.raises(ConfigError, match=r"counts physical batches.*reticent\.dp\.PrivateTrainer\(model=model"):
        made(PrivacyCallback(parts.engine))
    with pytest.raises(PrivacyGateError, match=r"reticent\.dp\.PrivateTrainer"):
        made().train()
    assert parts.engine.num_steps == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_train_epochs": 3}, r"take 12 steps, and the noise was chosen for 8: .*num_train_epochs=2"),
        ({"max_steps": 9}, "take 9 steps"),
        ({"gradient_accumulation_steps": 4}, r"=4 of per_device_train_batch_size=8.*the 6 records.*batch_size=32"),
        ({"auto_find_batch_size": True}, "max_physical_batch_size"),
    ],
)
def test_arguments_of_a_trainer_that_do_not_fit_are_refused(settings, message, tmp_path):
    parts = Parts()
    with pytest.raises(ConfigError, match=message):
        trainer_of(parts, tmp_path, **settings).train()
    assert parts.engine.num_steps == 0


def test_a_trainer_of_other_parts_is_refused(tmp_path):
    parts = Parts()
    args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[])
    with pytest.raises(ConfigError, match="make_private"):
        PrivateTrainer(engine=PrivacyEngine(), model=parts.model, args=args)
    with pytest.raises(ConfigError, match="another engine"):
        PrivateTrainer(engine=parts.engine, model=parts.model, args=args, callbacks=[PrivacyCallback(Parts().engine)])
    with pytest.raises(ConfigError, match="another model"):
        PrivateTrainer(engine=parts.engine, model=Classifier(), args=args)
    with pytest.raises(ConfigError, match=r"optimizers=\(None, schedule\)"):
        PrivateTrainer(
            engine=parts.engine, model=parts.model, args=args,
            optimizers=(torch.optim.SGD(parts.model.parameters()), None),
        )  # fmt: skip


def test_a_resume_that_cannot_be_counted_is_refused(tmp_path):
    parts = Parts()
    with pytest.warns(UserWarning, match=SHORT):
        trainer(parts, tmp_path, accumulation=False, evaluates=False, stop_at=STOP)
    checkpoint = tmp_path / f"checkpoint-{STOP}"
    with pytest.raises(PrivacyGateError, match="before the first step"):  # steps that were taken stay counted
        trainer_of(parts, tmp_path).train(resume_from_checkpoint=True)
    with pytest.raises(PrivacyGateError, match="begins after 0 steps, and the engine has counted 5"):
        trainer_of(parts, tmp_path).train()
    (checkpoint / "privacy_engine.json").unlink()
    with pytest.raises(PrivacyGateError, match=r"privacy_engine\.json is missing"):
        trainer_of(Parts(), tmp_path).train(resume_from_checkpoint=str(checkpoint))


def test_a_subclass_of_a_trainer_is_made_private_by_its_place(tmp_path):
    """As trl's trainers are: they override what a Trainer does."""

    class Other(Trainer):
        def __init__(self, *args, style, **settings):
            super().__init__(*args, **settings)
            self.style, self.logged = style, []

        def compute_loss(self, model, inputs, **settings):
            raise AssertionError("the loss of a batch")

        def log(self, logs, *args, **settings):
            self.logged.append(dict(logs))
            super().log(logs, *args, **settings)

    class Private(PrivateTrainer, Other):
        pass

    parts = Parts(2)
    made = trainer_of(
        parts, tmp_path, trainer_class=lambda **s: Private(style="x", **s), logging_strategy="steps", logging_steps=4
    )
    made.train()
    assert parts.engine.num_steps == PLANNED
    assert not any("loss" in logs for logs in made.logged)


@pytest.mark.parametrize(
    "change",
    [
        lambda parts, _: torch.nn.utils.clip_grad_norm_(parts.model.parameters(), 1.0),
        lambda parts, _: torch.nn.utils.clip_grad_value_(parts.model.parameters(), 1.0),
        lambda parts, accelerator: accelerator.clip_grad_norm_(parts.model.parameters(), 1.0),
        lambda parts, _: [p.grad.div_(2) for p in parts.model.parameters()],
        lambda parts, _: [p.grad.norm() for p in parts.model.parameters()],
    ],
    ids=["clip_grad_norm_", "clip_grad_value_", "accelerate", "scaled", "logged"],
)
def test_gradients_that_are_read_between_backward_and_step_are_refused(change):
    from accelerate import Accelerator

    parts, accelerator = Parts(2), Accelerator(cpu=True)
    for batch in parts.loader:
        parts.optimizer.backward(losses_of(parts.model, batch))
        with pytest.raises(PrivacyGateError, match=r"max_grad_norm of make_private.*Remove the line.*PrivateTrainer"):
            change(parts, accelerator)
        parts.optimizer.step()
        assert all(p.grad is None for p in parts.model.parameters())
    assert parts.engine.num_steps == PLANNED // EPOCHS


def test_batches_that_are_read_ahead_are_named():
    parts = Parts(2)
    for ahead in (list, lambda loader: list(itertools.islice(loader, 2))):
        with pytest.raises(PrivacyGateError, match=r"read ahead .*gradient_accumulation_steps.*`for batch in loader`"):
            ahead(parts.loader)
    assert parts.engine.num_steps == 0


def test_an_optimizer_that_went_through_accelerate_first_is_refused():
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    model = Classifier()
    optimizer = Accelerator(cpu=True).prepare(torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(ConfigError, match=r"accelerator\.prepare.*Call make_private first.*optimizer\.optimizer"):
        PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=DataLoader(Records(), batch_size=4), noise_multiplier=1.0,
            max_grad_norm=1.0,
        )  # fmt: skip


def test_a_schedule_that_accelerate_steps_by_batches_is_refused():
    from accelerate import Accelerator

    parts, accelerator = Parts(2), Accelerator(cpu=True)
    optimizer, scheduler = accelerator.prepare(
        parts.optimizer, lr_scheduler.LambdaLR(parts.optimizer, lambda step: 0.9**step)
    )

    def run():
        for batch in parts.loader:
            optimizer.backward(losses_of(parts.model, batch))
            optimizer.step()
            scheduler.step()

    with pytest.raises(PrivacyGateError, match=r"optimizer\.schedule\(scheduler\)"):
        run()
