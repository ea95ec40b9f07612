"""Checks of the values that a model keeps of its batches: buffers are published with the weights, without noise.

Modules of torch that mix a batch, or keep statistics of it, are known by class. Other modules are found if one of their
buffers changes between the start of a forward pass and its backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

from pipelines.dp.advice import change
from pipelines.dp.errors import IsolationError

_DISCARD: Final = "What it holds now comes from private records: do not publish this model"
_WATCHED: Final = (
    torch.nn.modules.batchnorm._BatchNorm,
    torch.nn.modules.instancenorm._InstanceNorm,
    torch.nn.Embedding,
    torch.nn.EmbeddingBag,
)
_INTEGERS: Final = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class StateGuard:
    """A guard of the buffers of a model, and on request of its parameters.

    What it does not see: values outside buffers and parameters (attributes of modules, globals, files), and, in an
    ordinary batch, a buffer that is written through ``.data``. Probe batches compare contents, and see that too.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        """Raises IsolationError if a module that mixes or remembers examples is in training mode."""
        self._model = model
        self._list()
        self._buffers: dict[tuple[int, str], tuple[torch.Tensor, int]] = {}
        self._contents: dict[str, int] | None = None
        self.check_modes()

    def check_modes(self) -> None:
        """Checks that no known module mixes or remembers examples in its current mode.

        Raises:
            IsolationError: a module mixes or remembers examples.
        """
        for name, module in self._watched:
            problem = mode_problem(module)
            if problem is not None:
                raise IsolationError(
                    f"layer {name!r} ({type(module).__name__}) {problem}. Write {change(name, module)}"
                )

    def start(self, *, contents: bool = False) -> None:
        """Records the state of the buffers before a forward pass.

        Args:
            contents: true to record the values of buffers and parameters too, at the cost of a pass over them.
        """
        if contents:
            self._list()  # layers may have been added
        self._buffers = dict(self._held())
        self._contents = self._read() if contents else None

    @property
    def contents(self) -> dict[str, int] | None:
        """A number for the values of each parameter and buffer at `start`; None if they were not recorded."""
        return self._contents

    def check(self) -> None:
        """Checks that nothing has changed since `start`.

        Raises:
            IsolationError: a buffer has changed, or (if contents are compared) a parameter, or `check_modes` fails.
        """
        self.check_modes()
        for key, (tensor, version) in self._held():
            before = self._buffers.get(key)
            if before is None or before[0] is not tensor or before[1] != version:
                name = f"{self._modules[key[0]][0]}.{key[1]}".lstrip(".")
                raise IsolationError(
                    f"the forward pass changed buffer {name!r}, which is saved with the model and may hold values of "
                    "private records without noise. Put its layer into eval mode (after model.train()), or take it out "
                    f"of the model. {_DISCARD}"
                )
        if self._contents is None:
            return
        for name, total in self._read().items():
            if self._contents.get(name) != total:
                raise IsolationError(
                    f"the forward pass changed {name!r}, a parameter or buffer: weights may be changed by "
                    f"optimizer.step() only, which adds the noise. Take the change out of the forward pass. {_DISCARD}"
                )

    def _list(self) -> None:
        self._modules = list(self._model.named_modules())
        self._watched = [(name, module) for name, module in self._modules if isinstance(module, _WATCHED)]

    def _held(self) -> Iterator[tuple[tuple[int, str], tuple[torch.Tensor, int]]]:
        for number, (_, module) in enumerate(self._modules):
            for name, tensor in module._buffers.items():
                if tensor is not None:
                    yield (number, name), (tensor, 0 if tensor.is_inference() else tensor._version)

    def _read(self) -> dict[str, int]:
        named = {**dict(self._model.named_parameters()), **dict(self._model.named_buffers())}
        totals = {name: _total(tensor) for name, tensor in named.items()}
        return {name: int(total) for name, total in totals.items()}


def _total(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the sum of the bits as integers: other values almost surely have another sum."""
    values = tensor.detach()
    if values.is_complex():
        values = torch.view_as_real(values)
    if values.is_floating_point():
        values = values.view(_INTEGERS[values.element_size()])
    return values.sum(dtype=torch.int64)


def mode_problem(module: Any) -> str | None:
    """Returns why a module mixes or remembers examples in its current mode; None if it is not known to."""
    if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
        if module.training or module.running_mean is None:
            return (
                "normalises with the mean of the batch, so that each example depends on all others, and publishes "
                "running statistics without noise. Replace it by GroupNorm, or keep fixed statistics: eval() on this "
                "layer, after model.train()"
            )
    elif isinstance(module, torch.nn.modules.instancenorm._InstanceNorm):
        if module.training and module.track_running_stats:
            return (
                "publishes running statistics without noise. Build it with track_running_stats=False, or call eval() "
                "on this layer, after model.train()"
            )
    elif isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag) and module.max_norm is not None:
        return "has max_norm set: it rewrites the rows of the tokens that it is asked for. Leave max_norm out"
    return None
