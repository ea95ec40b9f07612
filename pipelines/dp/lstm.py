"""The rule for ``torch.nn.LSTM``: the whole recurrence as one function, which keeps the gradients of its gates.

Fused recurrent kernels give no gradient of the gates at single steps, which per-example norms need. Here a step is one
matrix product and a few passes over the gates; everything that does not depend on the step before is done for all
steps at once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from pipelines.dp.errors import UnsupportedLayerError
from pipelines.dp.layers import Site
from pipelines.dp.uses import DenseUse, OuterUse, compute_dtype


class _Recurrence(torch.autograd.Function):
    """One layer in one direction. Gates are in PyTorch's order: input, forget, cell, output."""

    @staticmethod
    def forward(
        ctx: Any,
        site: Site,
        suffix: str,
        x: torch.Tensor,
        first_hidden: torch.Tensor,
        first_cell: torch.Tensor,
        weight_ih: torch.Tensor,
        weight_hh: torch.Tensor,
        bias_ih: torch.Tensor | None,
        bias_hh: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # x: (B, T, I). Work is done with time first, so that a step is contiguous.
        size, length, _ = x.shape
        width = weight_hh.shape[1]
        bias = None if bias_ih is None or bias_hh is None else bias_ih + bias_hh
        gates = functional.linear(x.transpose(0, 1), weight_ih, bias)  # (T, B, 4H)
        hidden = x.new_empty(length + 1, size, width)
        cells = x.new_empty(length + 1, size, width)
        tanh_cells = x.new_empty(length, size, width)
        hidden[0], cells[0] = first_hidden, first_cell
        transposed = weight_hh.t()
        for step in range(length):
            gate = gates[step].addmm_(hidden[step], transposed)
            gate[:, : 2 * width].sigmoid_()
            gate[:, 2 * width : 3 * width].tanh_()
            gate[:, 3 * width :].sigmoid_()
            i, f, g, o = gate.view(size, 4, width).unbind(1)
            cell = torch.mul(f, cells[step], out=cells[step + 1])
            cell.addcmul_(i, g)
            torch.tanh(cell, out=tanh_cells[step])
            torch.mul(o, tanh_cells[step], out=hidden[step + 1])
        ctx.site, ctx.suffix = site, suffix
        ctx.save_for_backward(x, gates, hidden, cells, tanh_cells, weight_ih, weight_hh)
        return hidden[1:].transpose(0, 1), cells[length].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, last_cell_gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, gates, hidden, cells, tanh_cells, weight_ih, weight_hh = ctx.saved_tensors
        length, size, width = tanh_cells.shape
        i, f, g, o = gates.view(length, size, 4, width).unbind(2)
        # d gate = d cell * factor for input, forget and cell gates, d hidden * factor for the output gate.
        factors = torch.stack([g * i * (1 - i), cells[:length] * f * (1 - f), i * (1 - g * g)], dim=2)
        out_factor = tanh_cells * o * (1 - o)
        to_cell = o * (1 - tanh_cells * tanh_cells)
        outputs = gradient.transpose(0, 1)  # (T, B, H)
        gate_gradients = torch.empty_like(gates)
        cell_gradient = last_cell_gradient.clone()
        hidden_gradient = torch.zeros_like(cell_gradient)
        for step in range(length - 1, -1, -1):
            hidden_gradient += outputs[step]
            cell_gradient.addcmul_(hidden_gradient, to_cell[step])
            row = gate_gradients[step].view(size, 4, width)
            torch.mul(factors[step], cell_gradient[:, None], out=row[:, :3])
            torch.mul(out_factor[step], hidden_gradient, out=row[:, 3])
            hidden_gradient = gate_gradients[step] @ weight_hh
            cell_gradient.mul_(f[step])
        rows = gate_gradients.transpose(0, 1).contiguous()  # (B, T, 4H)
        site: Site = ctx.site
        site.tape.check_examples(site.name, rows)
        _add(site, ctx.suffix, rows, x, hidden[:length].transpose(0, 1))
        to_x = rows @ weight_ih if ctx.needs_input_grad[2] else None
        return None, None, to_x, hidden_gradient, cell_gradient, None, None, None, None


def _add(site: Site, suffix: str, rows: torch.Tensor, x: torch.Tensor, hidden: torch.Tensor) -> None:
    for name, columns in ((f"weight_ih_{suffix}", x.detach()), (f"weight_hh_{suffix}", hidden)):
        parameter = site.parameter(name)
        if parameter is not None:
            site.tape.add(site.name, parameter, OuterUse(rows, columns.contiguous()))
    summed = rows.sum(dim=1, dtype=compute_dtype(rows))
    for name in (f"bias_ih_{suffix}", f"bias_hh_{suffix}"):
        parameter = site.parameter(name)
        if parameter is not None:
            site.tape.add(site.name, parameter, DenseUse(summed))


def lstm(
    site: Site, x: torch.Tensor, hx: tuple[torch.Tensor, torch.Tensor] | None = None
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """``torch.nn.LSTM`` with the example axis first: any number of layers, both directions, dropout between layers.

    Under autocast the recurrence runs in the dtype of the weights.

    Raises:
        UnsupportedLayerError: a packed sequence, or an input without example axis.
    """
    if not isinstance(x, torch.Tensor) or x.dim() != 3:
        raise UnsupportedLayerError(
            f"LSTM {site.name!r}: give it a padded tensor (examples, positions, width), not a packed sequence, and "
            "leave padding out of the loss by its label"
        )
    site.enter(x)
    module: torch.nn.LSTM = site.module
    num_directions = 2 if module.bidirectional else 1
    dtype: torch.dtype = module.get_parameter("weight_hh_l0").dtype
    x = x.to(dtype)
    if hx is None:
        zeros = x.new_zeros(module.num_layers * num_directions, len(x), module.hidden_size)
        hx = (zeros, zeros)
    last_hidden, last_cells = [], []
    with torch.autocast(x.device.type, enabled=False):
        for layer in range(module.num_layers):
            outputs = []
            for direction in range(num_directions):
                suffix = f"l{layer}" + ("_reverse" if direction else "")
                at = layer * num_directions + direction
                weights = [getattr(module, f"{kind}_{suffix}") for kind in ("weight_ih", "weight_hh")]
                biases = [getattr(module, f"{kind}_{suffix}", None) for kind in ("bias_ih", "bias_hh")]
                source = x.flip(1) if direction else x
                out, cell = _Recurrence.apply(site, suffix, source, hx[0][at], hx[1][at], *weights, *biases)  # type: ignore[no-untyped-call]
                last_hidden.append(out[:, -1])
                last_cells.append(cell)
                outputs.append(out.flip(1) if direction else out)
            x = outputs[0] if num_directions == 1 else torch.cat(outputs, dim=2)
            if module.dropout and layer < module.num_layers - 1:
                x = functional.dropout(x, module.dropout, module.training)
    return x, (torch.stack(last_hidden), torch.stack(last_cells))
