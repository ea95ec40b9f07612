"""A callback for `PrivateTrainer` that logs epsilon, saves the accounting in checkpoints and stops in time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from pipelines.dp.privacy import PrivacyEngine
from pipelines.errors import ConfigError, PrivacyGateError

STATE_FILE = "privacy_engine.json"


class PrivacyCallback(TrainerCallback):  # type: ignore[misc]
    """A callback of `PrivateTrainer`, which adds one by itself if it is given none.

    Args:
        engine: engine that counts the steps.
        target_delta: delta of the epsilon in the logs; unset: that of ``make_private_with_epsilon``.
        max_epsilon: epsilon after which training stops, at the end of the step that reaches it; None never stops.

    Raises:
        ConfigError: there is no delta.
    """

    def __init__(
        self, engine: PrivacyEngine, *, target_delta: float | None = None, max_epsilon: float | None = None
    ) -> None:
        delta = engine.target_delta if target_delta is None else target_delta
        if delta is None:
            raise ConfigError("there is no delta: write callbacks=[PrivacyCallback(engine, target_delta=...)]")
        self._engine = engine
        self._target_delta = delta
        self._max_epsilon = max_epsilon
        self._counts_steps = False

    def begin(self, engine: PrivacyEngine) -> None:
        """Notes that a trainer counts noisy steps. `PrivateTrainer` calls it.

        Raises:
            ConfigError: the trainer has another engine.
        """
        if engine is not self._engine:
            raise ConfigError("the PrivacyCallback has another engine than the trainer: give both the same")
        self._counts_steps = True

    def on_init_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Checks the trainer.

        Raises:
            ConfigError: it counts physical batches.
        """
        if not self._counts_steps:
            raise ConfigError(
                "a plain Trainer counts physical batches: it stops before the planned noisy steps are taken, and "
                "writes the sizes of samples into its logs. Write reticent.dp.PrivateTrainer(model=model, args=args, "
                "engine=engine, losses=losses) in its place"
            )

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Checks that trainer and engine have counted the same steps.

        Raises:
            PrivacyGateError: they have not.
        """
        if state.global_step != self._engine.num_steps:
            raise PrivacyGateError(
                f"the trainer begins after {state.global_step} steps, and the engine has counted "
                f"{self._engine.num_steps}. To go on, make an engine and a trainer in a new program and call "
                "trainer.train(resume_from_checkpoint=...)"
            )

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Adds epsilon and the number of noisy steps to the logs."""
        if logs is not None:
            logs["epsilon"] = self._engine.get_epsilon(self._target_delta)
            logs["num_private_steps"] = self._engine.num_steps

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stops the training if epsilon has reached the limit."""
        if self._max_epsilon is not None and self._engine.get_epsilon(self._target_delta) >= self._max_epsilon:
            control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Writes the accounting into the checkpoint's folder."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STATE_FILE).write_text(json.dumps(self._engine.state_dict()) + "\n", encoding="utf-8")

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Warns if fewer steps were taken than planned."""
        self._engine.warn_if_steps_are_left()


def restore(engine: PrivacyEngine, checkpoint: Path) -> None:
    """Restores the accounting from a checkpoint.

    Raises:
        PrivacyGateError: the checkpoint has none: its steps could not be counted.
    """
    file = checkpoint / STATE_FILE
    if not file.is_file():
        raise PrivacyGateError(
            f"{file} is missing, so that the steps of this checkpoint cannot be counted. Resume from another one, or "
            "begin anew"
        )
    engine.load_state_dict(json.loads(file.read_text(encoding="utf-8")))
