"""Checks that an optimizer steps only on gradients that the engine clips and noises."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import torch

from pipelines.errors import ConfigError


def check_holds(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.nn.Parameter]) -> None:
    """Checks that an optimizer holds exactly the trainable parameters.

    Raises:
        ConfigError: the optimizer holds other parameters, lacks some, or needs a closure.
    """
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ConfigError(
            f"{type(optimizer).__name__} evaluates the loss several times within a step, through a closure, and each "
            "time would need noise of its own. Give make_private SGD, Adam, AdamW or another optimizer that steps "
            "without a closure"
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
                "clipped and noised, and changes nothing of the step. Remove it (handle.remove()). What it does to "
                "finished gradients goes into a step_pre_hook of the optimizer that make_private is given"
            )
        if parameter not in held:
            raise ConfigError(
                f"parameter {name!r} became trainable after make_private, and the optimizer does not hold it: it would "
                "take a share of each record's gradient and never move. Call requires_grad_(True) before the "
                "optimizer is built and make_private is called, or requires_grad_(False) now"
            )
