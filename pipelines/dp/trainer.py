"""A ``transformers.Trainer`` that counts noisy steps: one of its steps is one step of the engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer
from transformers.trainer_utils import get_last_checkpoint

from pipelines.dp.by_step import Sample, StepLoader
from pipelines.dp.callback import PrivacyCallback, restore
from pipelines.dp.language import causal_lm_losses
from pipelines.dp.privacy import PrivacyEngine
from pipelines.errors import ConfigError

_UNSOUND_LOGS = ("loss", "train_loss", "grad_norm")


def _language_losses(model: torch.nn.Module, inputs: Any) -> torch.Tensor:
    return causal_lm_losses(model, inputs["input_ids"], inputs["labels"], attention_mask=inputs.get("attention_mask"))


class PrivateTrainer(Trainer):  # type: ignore[misc]
    """A Trainer over what `PrivacyEngine.make_private` or ``make_private_with_epsilon`` has made private.

    Steps of the arguments, of schedules, of logs and of checkpoints are noisy steps, so that nothing there depends on
    the sizes of samples. Losses of training are neither logged nor stored, because they are private and without noise:
    evaluate on public records, or on held-out ones that the claim leaves out. ``args.max_grad_norm`` has no effect.

    For a subclass of Trainer write ``class PrivateSFTTrainer(PrivateTrainer, SFTTrainer)``: this class comes first.

    Args:
        engine: engine that has made the model, an optimizer and a loader private.
        losses: function of the model and a batch that returns the loss of each record; unset: `causal_lm_losses` of
            ``input_ids``, ``labels`` and, if there is one, ``attention_mask``.
        args, settings: arguments of the Trainer. ``optimizers`` may have a schedule: ``(None, schedule)``. The training
            data come from the engine's loader.

    Raises:
        ConfigError: the engine has made nothing private, or the arguments do not fit to it.
    """

    def __init__(
        self,
        *args: Any,
        engine: PrivacyEngine,
        losses: Callable[[torch.nn.Module, Any], torch.Tensor] = _language_losses,
        **settings: Any,
    ) -> None:
        self._privacy = engine
        self._losses = losses
        self._private, self._loader = engine.made
        optimizer, schedule = settings.pop("optimizers", (None, None))
        if optimizer not in (None, self._private):
            raise ConfigError("optimizers has another optimizer than the engine's: write optimizers=(None, schedule)")
        callbacks = list(settings.pop("callbacks", None) or [])
        if not any(isinstance(callback, PrivacyCallback) for callback in callbacks):
            callbacks.append(PrivacyCallback(engine))
        for callback in callbacks:
            if isinstance(callback, PrivacyCallback):
                callback.begin(engine)
        super().__init__(*args, callbacks=callbacks, optimizers=(self._private, schedule), **settings)
        if self.model is not self._private.model:
            raise ConfigError(
                "the trainer has another model than the engine: write model=model with the model of make_private"
            )

    def train(self, resume_from_checkpoint: str | Path | bool | None = None, *args: Any, **settings: Any) -> Any:
        """Trains, and resumes the engine's accounting with a checkpoint.

        Args:
            resume_from_checkpoint: folder of a checkpoint, or True for the last one.
            args, settings: further arguments of ``Trainer.train``.

        Returns:
            The result of the Trainer, with NaN as the training loss.

        Raises:
            ConfigError: the arguments plan other steps than the engine.
            PrivacyGateError: the engine has taken steps that the checkpoint does not count.
        """
        self._check_arguments()
        if resume_from_checkpoint is True:
            resume_from_checkpoint = get_last_checkpoint(self.args.output_dir) or True
        if isinstance(resume_from_checkpoint, str | Path):
            restore(self._privacy, Path(resume_from_checkpoint))
        self.args.ignore_data_skip = True  # the loader goes on by itself where the epoch was left
        return super().train(resume_from_checkpoint, *args, **settings)._replace(training_loss=math.nan)

    def get_train_dataloader(self) -> StepLoader:
        """Returns the private loader, with one item for each noisy step."""
        return self._loader.by_step(self.args.gradient_accumulation_steps)

    def training_step(self, model: torch.nn.Module, inputs: Sample, num_items_in_batch: Any = None) -> torch.Tensor:
        """Adds up the clipped gradients of a sample. The step that follows adds the noise.

        Returns:
            Zero: the loss is private.
        """
        model.train()
        for batch in inputs:
            with self.compute_loss_context_manager():
                losses = self._losses(model, self._prepare_inputs(batch))
            self._private.backward(losses)
        self._private.zero_grad()  # the Trainer clips what it takes for gradients
        return torch.zeros((), device=self.args.device)

    def log(self, logs: dict[str, float], *args: Any, **settings: Any) -> None:
        """Logs without what training knows of losses and gradients."""
        for name in _UNSOUND_LOGS:
            logs.pop(name, None)
        super().log(logs, *args, **settings)

    def floating_point_ops(self, inputs: Any) -> int:
        """Returns 0: the number of tokens is private."""
        return 0

    def _check_arguments(self) -> None:
        args, planned = self.args, self._privacy.num_planned_steps
        if args.world_size > 1 or args.n_gpu > 1:
            raise ConfigError(
                "PrivateTrainer runs in one process on one device. For several, write a loop over the loader of the "
                "engine and start it with torchrun; to hide GPUs, set CUDA_VISIBLE_DEVICES=0"
            )
        if args.auto_find_batch_size:
            raise ConfigError("auto_find_batch_size begins anew after steps: give make_private max_physical_batch_size")
        count = args.gradient_accumulation_steps
        if count > 1 and count * args.per_device_train_batch_size != round(self._private.expected_batch_size):
            raise ConfigError(
                f"gradient_accumulation_steps={count} of per_device_train_batch_size={args.per_device_train_batch_size}"
                f" are not the {self._private.expected_batch_size:g} records of the engine's steps. Write "
                f"DataLoader(..., batch_size={count * args.per_device_train_batch_size}) and "
                f"max_physical_batch_size={args.per_device_train_batch_size} for make_private, or leave "
                "gradient_accumulation_steps at 1"
            )
        steps = args.max_steps
        if steps <= 0:
            steps = math.ceil(args.num_train_epochs * self._loader.steps_per_epoch)
        if planned is not None and steps > planned:
            raise ConfigError(
                f"the trainer is to take {steps} steps, and the noise was chosen for {planned}: write "
                f"TrainingArguments(num_train_epochs={planned // self._loader.steps_per_epoch}), or plan more epochs "
                "in make_private_with_epsilon"
            )
