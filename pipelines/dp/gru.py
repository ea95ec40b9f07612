"""The rule for ``torch.nn.GRU``: one function for the whole recurrence, as for the LSTM."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from pipelines.dp.layers import Site, applied
from pipelines.dp.recurrent import add_uses, run_layers


class _Recurrence(torch.autograd.Function):
    """A layer in one direction. Gates are in PyTorch's order: reset, update, new.

    r = s(a_r + b_r), z = s(a_z + b_z), n = tanh(a_n + r b_n), h' = (1 - z) n + z h. The inputs add a, and the hidden
    state before the step adds b, biases included.
    """

    @staticmethod
    def forward(
        ctx: Any,
        site: Site,
        suffix: str,
        x: torch.Tensor,
        first_hidden: torch.Tensor,
        weight_ih: torch.Tensor,
        weight_hh: torch.Tensor,
        bias_ih: torch.Tensor | None,
        bias_hh: torch.Tensor | None,
    ) -> torch.Tensor:
        # x: (B, T, I). Computes with the time axis first, so that a step is contiguous.
        size, length, _ = x.shape
        width = weight_hh.shape[1]
        gates = functional.linear(x.transpose(0, 1), weight_ih, bias_ih)  # (T, B, 3H)
        hidden = x.new_empty(length + 1, size, width)
        from_hidden = x.new_empty(length, size, width)  # b_n
        hidden[0] = first_hidden
        for step in range(length):
            gate, before = gates[step], hidden[step]
            added = functional.linear(before, weight_hh, bias_hh)
            gate[:, : 2 * width].add_(added[:, : 2 * width]).sigmoid_()
            from_hidden[step] = added[:, 2 * width :]
            gate[:, 2 * width :].addcmul_(gate[:, :width], from_hidden[step]).tanh_()
            update, new = gate[:, width : 2 * width], gate[:, 2 * width :]
            torch.lerp(new, before, update, out=hidden[step + 1])
        ctx.site, ctx.suffix = site, suffix
        ctx.save_for_backward(x, gates, hidden, from_hidden, weight_ih, weight_hh)
        return hidden[1:].transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, gates, hidden, from_hidden, weight_ih, weight_hh = ctx.saved_tensors
        length, size, width = from_hidden.shape
        reset, update, new = gates.view(length, size, 3, width).unbind(2)
        to_new = (1 - update) * (1 - new * new)
        to_update = (hidden[:length] - new) * update * (1 - update)
        to_reset = from_hidden * reset * (1 - reset)
        outputs = gradient.transpose(0, 1)  # (T, B, H)
        of_inputs, of_hidden = torch.empty_like(gates), torch.empty_like(gates)
        hidden_gradient = torch.zeros_like(from_hidden[0]) if length else gradient.new_zeros(size, width)
        for step in range(length - 1, -1, -1):
            hidden_gradient = hidden_gradient + outputs[step]
            row = of_inputs[step].view(size, 3, width)
            torch.mul(hidden_gradient, to_new[step], out=row[:, 2])
            torch.mul(hidden_gradient, to_update[step], out=row[:, 1])
            torch.mul(row[:, 2], to_reset[step], out=row[:, 0])
            other = of_hidden[step].view(size, 3, width)
            other[:, :2] = row[:, :2]
            torch.mul(row[:, 2], reset[step], out=other[:, 2])
            hidden_gradient = (hidden_gradient * update[step]).addmm_(of_hidden[step], weight_hh)
        of_inputs, of_hidden = (rows.transpose(0, 1).contiguous() for rows in (of_inputs, of_hidden))  # (B, T, 3H)
        site: Site = ctx.site
        site.tape.check_examples(site.name, of_inputs)
        add_uses(site, ctx.suffix, of_inputs, of_hidden, x, hidden[:length].transpose(0, 1))
        to_x = of_inputs @ weight_ih if ctx.needs_input_grad[2] else None
        return None, None, to_x, hidden_gradient, None, None, None, None


def gru(site: Site, x: torch.Tensor, hx: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs ``torch.nn.GRU`` with the example axis first.

    Raises:
        UnsupportedLayerError: a packed sequence, or an input without example axis.
    """
    states = None if hx is None else [hx]
    out, (last,) = run_layers(site, x, states, 1, lambda *given: (applied(_Recurrence, *given),))
    return out, last
