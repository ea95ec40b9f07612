"""Checks that an optimizer steps only on gradients that the engine clips and noises."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Never

import torch

from pipelines.errors import ConfigError, PrivacyGateError


class StandIns:
    """Stand-ins for gradients between ``backward`` and ``step``: whatever reads one gets an error with the way to go.

    Without them ``clip_grad_norm_`` finds no gradient there, and returns 0 as if it had clipped. They take no memory.
    """

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        self._parameters = parameters
        self._kinds: list[Any] = []
        self._made: list[torch.Tensor] = []
        self._is_put = False

    def put(self) -> None:
        """Puts a stand-in in the place of each gradient."""
        self._is_put = True
        kinds = [(p.dtype, p.device) for p in self._parameters]
        if kinds != self._kinds:  # at first, and after model.to(...)
            self._kinds = kinds
            self._made = [
                torch.zeros((), dtype=p.dtype, device=p.device).expand(p.shape).as_subclass(_NoGradient)
                for p in self._parameters
            ]
        for parameter, stand_in in zip(self._parameters, self._made, strict=True):
            parameter.grad = stand_in

    def remove(self) -> None:
        """Removes them."""
        if self._is_put:
            for parameter, stand_in in zip(self._parameters, self._made, strict=True):
                if parameter.grad is stand_in:
                    parameter.grad = None
        self._is_put = False


class _NoGradient(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *_: Any) -> Never:
        raise PrivacyGateError(
            "there is no gradient to clip, scale, log or change between optimizer.backward(losses) and "
            "optimizer.step(): records are clipped one by one to the max_grad_norm of make_private, and noise comes in "
            "step(). Remove the line (clip_grad_norm_, unscale_, ...). What is to see the noisy gradients goes into "
            "register_step_pre_hook of the optimizer that make_private is given. With transformers.Trainer, which "
            "clips by itself, write reticent.dp.PrivateTrainer"
        )


def check_holds(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.nn.Parameter]) -> None:
    """Checks that an optimizer holds exactly the trainable parameters.

    Raises:
        ConfigError: the optimizer holds other parameters, lacks some, needs a closure, or comes from accelerate.
    """
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ConfigError(
            f"{type(optimizer).__name__} evaluates the loss several times within a step, through a closure, and each "
            "time would need noise of its own. Give make_private SGD, Adam, AdamW or another optimizer that steps "
            "without a closure: optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)"
        )
    if any(base.__name__ == "AcceleratedOptimizer" for base in type(optimizer).__mro__):
        raise ConfigError(
            "the optimizer has gone through accelerator.prepare, and accelerate leaves out calls of step(), so that "
            "noisy steps would be lost. Call make_private first, with the optimizer of torch (here: "
            "optimizer.optimizer), and then optimizer = accelerator.prepare(optimizer): it leaves the private "
            "optimizer as it is"
        )
    held = {p for group in optimizer.param_groups for p in group["params"]}
    missing = [p for p in parameters if p not in held]
    foreign = [p for p in held if p.requires_grad and p not in set(parameters)]
    if missing or foreign:
        raise ConfigError(
            f"the optimizer lacks {len(missing)} of the model's trainable parameters and holds {len(foreign)} that are "
            "not the model's; build it from [p for p in model.parameters() if p.requires_grad]"
        )


def check_trained(optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> None:
    """Checks that no hook changes gradients, and that an optimizer holds all trainable parameters.

    Raises:
        ConfigError: a trainable parameter has a hook, or the optimizer does not hold it.
    """
    held = {p for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise ConfigError(
                f"parameter {name!r} has a hook on its gradient, which sees the gradients of records before they are "
                "clipped and noised, and changes nothing of the step. Write handle.remove(). What it does to finished "
                "gradients goes into optimizer.register_step_pre_hook of the optimizer that make_private is given"
            )
        if parameter not in held:
            raise ConfigError(
                f"parameter {name!r} became trainable after make_private, and the optimizer does not hold it: it would "
                "take a share of each record's gradient and never move. Call requires_grad_(True) before the "
                "optimizer is built and make_private is called, or requires_grad_(False) now"
            )
