"""A callback for ``transformers.Trainer`` that logs epsilon, saves the accounting in checkpoints and stops in time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from pipelines.dp.privacy import PrivacyEngine

STATE_FILE = "privacy_engine.json"


class PrivacyCallback(TrainerCallback):  # type: ignore[misc]
    """A callback for a Trainer whose ``compute_loss`` returns ``PrivateOptimizer.backward(losses)``.

    Args:
        engine: engine that counts the steps.
        target_delta: delta of the epsilon in the logs.
        max_epsilon: epsilon after which training stops, at the end of the step that reaches it; None never stops.
    """

    def __init__(self, engine: PrivacyEngine, *, target_delta: float, max_epsilon: float | None = None) -> None:
        self._engine = engine
        self._target_delta = target_delta
        self._max_epsilon = max_epsilon

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


def restore(engine: PrivacyEngine, checkpoint: Path) -> None:
    """Restores the accounting from a checkpoint, before ``Trainer.train(resume_from_checkpoint=...)``."""
    engine.load_state_dict(json.loads((checkpoint / STATE_FILE).read_text(encoding="utf-8")))
