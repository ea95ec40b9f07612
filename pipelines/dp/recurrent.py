"""Common parts of recurrent layers: stacked layers, directions, and dropout between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from pipelines.dp.errors import UnsupportedLayerError
from pipelines.dp.layers import Site
from pipelines.dp.uses import DenseUse, OuterUse, compute_dtype

Recurrence = Callable[..., tuple[torch.Tensor, ...]]
"""A layer in one direction: ``(site, suffix, x, *first states, *weights, *biases)`` gives the outputs (B, T, H), and
the last states other than the hidden one."""


def run_layers(
    site: Site, x: torch.Tensor, states: Sequence[torch.Tensor] | None, num_states: int, recurrence: Recurrence
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """Runs a recurrent layer of torch with the example axis first: any number of layers, both directions.

    Under autocast the recurrence runs in the dtype of the weights.

    Args:
        site: the layer.
        x: (B, T, I) inputs.
        states: first states, (layers times directions, B, H) each; None: zeros.
        num_states: number of states.
        recurrence: computation of one layer in one direction.

    Returns:
        (B, T, H times directions) outputs, and the last states, with the shapes of the first.

    Raises:
        UnsupportedLayerError: a packed sequence, or an input without example axis.
    """
    module: Any = site.module
    if not isinstance(x, torch.Tensor) or x.dim() != 3:
        raise UnsupportedLayerError(
            f"{type(module).__name__} {site.name!r}: give it a padded tensor (examples, positions, width), not a "
            "packed sequence, and leave padding out of the loss by its label"
        )
    site.enter(x)
    num_directions = 2 if module.bidirectional else 1
    dtype: torch.dtype = module.get_parameter("weight_hh_l0").dtype
    x = x.to(dtype)
    if states is None:
        zeros = x.new_zeros(module.num_layers * num_directions, len(x), module.hidden_size)
        states = [zeros] * num_states
    last: list[list[torch.Tensor]] = [[] for _ in states]
    with torch.autocast(x.device.type, enabled=False):
        for layer in range(module.num_layers):
            outputs = []
            for direction in range(num_directions):
                suffix = f"l{layer}" + ("_reverse" if direction else "")
                at = layer * num_directions + direction
                weights = [getattr(module, f"{kind}_{suffix}") for kind in ("weight_ih", "weight_hh")]
                biases = [getattr(module, f"{kind}_{suffix}", None) for kind in ("bias_ih", "bias_hh")]
                source = x.flip(1) if direction else x
                out, *others = recurrence(site, suffix, source, *(state[at] for state in states), *weights, *biases)
                for kept, value in zip(last, (out[:, -1], *others), strict=True):
                    kept.append(value)
                outputs.append(out.flip(1) if direction else out)
            x = outputs[0] if num_directions == 1 else torch.cat(outputs, dim=2)
            if module.dropout and layer < module.num_layers - 1:
                x = functional.dropout(x, module.dropout, module.training)
    return x, tuple(torch.stack(kept) for kept in last)


def add_uses(
    site: Site, suffix: str, of_inputs: torch.Tensor, of_hidden: torch.Tensor, x: torch.Tensor, hidden: torch.Tensor
) -> None:
    """Hands the uses of one layer's parameters to the tape.

    Args:
        site: the layer.
        suffix: suffix of the names of its parameters.
        of_inputs: (B, T, gates) gradients of what inputs and their bias add to the gates.
        of_hidden: (B, T, gates) gradients of what hidden states and their bias add; the same tensor if they are equal.
        x: (B, T, I) inputs.
        hidden: (B, T, H) hidden states before each step.
    """
    for name, rows, columns in (("ih", of_inputs, x.detach()), ("hh", of_hidden, hidden)):
        parameter = site.parameter(f"weight_{name}_{suffix}")
        if parameter is not None:
            site.tape.add(site.name, parameter, OuterUse(rows, columns.contiguous()))
    summed = of_inputs.sum(dim=1, dtype=compute_dtype(of_inputs))
    for name, rows in (("ih", of_inputs), ("hh", of_hidden)):
        parameter = site.parameter(f"bias_{name}_{suffix}")
        if parameter is not None:
            total = summed if rows is of_inputs else rows.sum(dim=1, dtype=compute_dtype(rows))
            site.tape.add(site.name, parameter, DenseUse(total))
