"""Checkpoint files that survive a kill and are never trusted if damaged.

A file holds a magic line, a SHA-256 of the rest, an outline in JSON, and the tensors as safetensors, so reading it runs
no code. A checkpoint lies in the scratch folder of the private side and is never published: besides the weights and
moments (post-processing of public gradients and noisy private sums) it holds training losses of private records,
without noise.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load, save

from pipelines.context import silent
from pipelines.errors import DamagedFileError
from pipelines.files import read_file, write_atomic

_MAGIC: Final = b"reticent-checkpoint-2\n"
_LENGTH_BYTES: Final = 8


def trained_weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns the trained weights by name, a shared weight once. Frozen weights belong to the base model."""
    return {name: weight.detach() for name, weight in model.named_parameters() if weight.requires_grad}


def load_trained(model: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Copies weights from `trained_weights` into a model, in place.

    Raises:
        KeyError: the weights are of another model.
    """
    with torch.no_grad():
        for name, weight in trained_weights(model).items():
            weight.copy_(weights[name])


class Checkpoints:
    """A checkpoint file, replaced atomically.

    Args:
        path: file of the checkpoint.
        recipe: identity of the run. A checkpoint with another identity is ignored.
        interval_seconds: least time between two checkpoints of `save_if_due`.
        clock: monotonic clock, in seconds.
        writes: true if this process saves. Of several processes that train together, one does.
    """

    def __init__(
        self,
        path: Path,
        recipe: str,
        interval_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        *,
        writes: bool = True,
    ) -> None:
        self._writes = writes
        self._path = path
        self._recipe = recipe
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._saved_at = clock()

    def save(self, state: dict[str, Any]) -> None:
        """Replaces the checkpoint. The new one survives a power cut."""
        if not self._writes:
            return
        body = _packed(self._recipe, state)
        write_atomic(self._path, _MAGIC + hashlib.sha256(body).digest(), body)
        self._saved_at = self._clock()

    def save_if_due(self, state: Callable[[], dict[str, Any]]) -> None:
        """Saves if the last checkpoint is older than the interval."""
        if self._writes and self._clock() - self._saved_at >= self._interval_seconds:
            self.save(state())

    def discard(self) -> None:
        """Removes the checkpoint, so that no run continues from it."""
        self._path.unlink(missing_ok=True)

    def load(self, progress: Callable[[int, int | None, str], None] = silent) -> dict[str, Any] | None:
        """Returns the last state, or None if there is no checkpoint, it is damaged, or it belongs to another run.

        Args:
            progress: callback that receives the reason why an existing checkpoint is not used.
        """
        if not self._path.exists():
            return None
        content = read_checkpoint(self._path)
        if content is None:
            progress(0, None, "the checkpoint is damaged: training starts again from its first step")
            return None
        recipe, state = content
        if recipe != self._recipe:
            progress(0, None, "the checkpoint is of another training: this one starts from its first step")
            return None
        return state


def read_checkpoint(path: Path) -> tuple[str, dict[str, Any]] | None:
    """Returns the recipe and the state of a checkpoint, or None if it is damaged."""
    try:
        raw = read_file(path)
    except DamagedFileError:
        return None
    header = len(_MAGIC) + 32
    body = raw[header:]
    if not raw.startswith(_MAGIC) or raw[len(_MAGIC) : header] != hashlib.sha256(body).digest():
        return None
    return _unpacked(body)


def _packed(recipe: str, state: dict[str, Any]) -> bytes:
    tensors: dict[str, torch.Tensor] = {}

    def outline(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            name = str(len(tensors))
            tensors[name] = value.detach().cpu().clone().contiguous()  # a tensor with two names is stored twice
            return {"tensor": name}
        if isinstance(value, dict):  # keys may be numbers, as in the state of an optimizer
            return {"dict": [[key, outline(inside)] for key, inside in value.items()]}
        if isinstance(value, list | tuple):
            return {"list": [outline(inside) for inside in value]}
        return value

    head = json.dumps({"recipe": recipe, "state": outline(state)}).encode()
    return len(head).to_bytes(_LENGTH_BYTES, "big") + head + save(tensors)


def _unpacked(body: bytes) -> tuple[str, dict[str, Any]]:
    start = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "big")
    content = json.loads(body[_LENGTH_BYTES:start])
    tensors = load(body[start:])

    def value(outline: Any) -> Any:
        match outline:
            case {"tensor": name}:
                return tensors[name]
            case {"dict": pairs}:
                return {key: value(inside) for key, inside in pairs}
            case {"list": inside}:
                return [value(one) for one in inside]
        return outline

    return content["recipe"], value(content["state"])
