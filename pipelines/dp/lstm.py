"""The rule for ``torch.nn.LSTM``: one function for the whole recurrence, which keeps the gradients of its gates.

Per-example norms need the gradients of the gates at single steps, which fused recurrent kernels do not give. Here a
step is one matrix product and a few passes over the gates. Everything that does not depend on the step before is
computed for all steps at once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from pipelines.dp.layers import Site
from pipelines.dp.recurrent import add_uses, run_layers


class _Recurrence(torch.autograd.Function):
    """A layer in one direction. Gates are in PyTorch's order: input, forget, cell, output."""

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
        # x: (B, T, I). Computes with the time axis first, so that a step is contiguous.
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
        add_uses(site, ctx.suffix, rows, rows, x, hidden[:length].transpose(0, 1))
        to_x = rows @ weight_ih if ctx.needs_input_grad[2] else None
        return None, None, to_x, hidden_gradient, cell_gradient, None, None, None, None


def lstm(
    site: Site, x: torch.Tensor, hx: tuple[torch.Tensor, torch.Tensor] | None = None
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Runs ``torch.nn.LSTM`` with the example axis first.

    Raises:
        UnsupportedLayerError: a packed sequence, or an input without example axis.
    """
    out, (hidden, cells) = run_layers(site, x, hx, 2, _Recurrence.apply)
    return out, (hidden, cells)
