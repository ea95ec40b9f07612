"""Rules for convolutions and GroupNorm, on inputs (examples, channels, places).

A convolution is a linear layer on patches: its gradient for an example is the sum over places of the outer products of
output gradients and patches (Bu et al. 2022, "Scalable and efficient training of large convolutional neural networks
with differential privacy", section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from pipelines.dp.errors import UnsupportedLayerError
from pipelines.dp.layers import Site, applied
from pipelines.dp.uses import DenseUse, OuterUse, compute_dtype

_FUNCTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


@dataclass(frozen=True)
class _Geometry:
    """The geometry of a convolution: one number for each axis of places."""

    kernel: Sequence[int]
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int

    def patches(self, x: torch.Tensor) -> torch.Tensor:
        """Returns (B, C, *places) as (B, L, C, K): the inputs that each of the L output places sees."""
        axes = len(self.kernel)
        x = functional.pad(x, [side for size in reversed(self.padding) for side in (size, size)])
        for axis, (kernel, stride, dilation) in enumerate(zip(self.kernel, self.stride, self.dilation, strict=True)):
            x = x.unfold(axis + 2, dilation * (kernel - 1) + 1, stride)[..., ::dilation]
        x = x.movedim(1, axes + 1)  # (B, *places of the output, C, *kernel)
        return x.flatten(axes + 2).flatten(1, axes)

    def use(self, x: torch.Tensor, gradient: torch.Tensor) -> OuterUse | DenseUse:
        """Returns the gradients of the weight, (B, outputs, C / groups * K), from (B, C, *) and (B, outputs, *)."""
        patches = self.patches(x)
        size, length, channels, places = patches.shape
        gradient = gradient.flatten(2)
        if self.groups == 1:
            return OuterUse(gradient.transpose(1, 2).contiguous(), patches.reshape(size, length, channels * places))
        dtype, outputs = compute_dtype(gradient), gradient.shape[1]
        width = channels // self.groups * places
        seen = patches.reshape(size, length, self.groups, width).transpose(1, 2).to(dtype)  # (B, G, L, width)
        given = gradient.reshape(size, self.groups, outputs // self.groups, length).to(dtype)
        return DenseUse((given @ seen).reshape(size, outputs, width))


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, site: Site, geometry: _Geometry, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        out: torch.Tensor = _FUNCTIONS[len(geometry.kernel)](
            x, weight, bias, geometry.stride, geometry.padding, geometry.dilation, geometry.groups
        )
        ctx.site, ctx.geometry = site, geometry
        ctx.save_for_backward(x.to(out.dtype), weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        site: Site = ctx.site
        geometry: _Geometry = ctx.geometry
        site.tape.check_examples(site.name, gradient)
        parameter = site.parameter("weight")
        if parameter is not None:
            site.tape.add(site.name, parameter, geometry.use(x.detach(), gradient))
        site.add_elementwise("bias", gradient.movedim(1, -1), None)
        if not ctx.needs_input_grad[2]:
            return None, None, None, None, None
        found = torch.ops.aten.convolution_backward(
            gradient, x, weight.to(gradient.dtype), None, geometry.stride, geometry.padding, geometry.dilation, False,
            [0], geometry.groups, [True, False, False],
        )  # fmt: skip
        return None, None, found[0], None, None


def convolution(site: Site, x: torch.Tensor) -> torch.Tensor:
    """Runs ``torch.nn.Conv1d``, ``Conv2d`` or ``Conv3d``, with any stride, padding, dilation and groups.

    Raises:
        UnsupportedLayerError: an input without example axis.
    """
    module = site.module
    if x.dim() != len(module.kernel_size) + 2:
        raise UnsupportedLayerError(
            f"{type(module).__name__} {site.name!r}: give it (examples, channels, ...), with the axis of examples"
        )
    site.enter(x)
    padding = module.padding
    if module.padding_mode != "zeros" or isinstance(padding, str):
        mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
        x = functional.pad(x, module._reversed_padding_repeated_twice, mode=mode)
        padding = (0,) * len(module.kernel_size)
    geometry = _Geometry(module.kernel_size, module.stride, padding, module.dilation, module.groups)
    return applied(_Convolution, site, geometry, x, module.weight, module.bias)


class _GroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, site: Site, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None
    ) -> torch.Tensor:
        dtype = weight.dtype if weight is not None else x.dtype
        size, channels, groups = len(x), x.shape[1], site.module.num_groups
        length = x[0, 0].numel() if size else 0
        with torch.autocast(x.device.type, enabled=False):  # as ordinary training does, in the dtype of the weights
            out, mean, scale = torch.native_group_norm(
                x.to(dtype).contiguous(), weight, bias, size, channels, length, groups, site.module.eps
            )
        ctx.site, ctx.dtype, ctx.shape = site, dtype, (size, channels, length, groups)
        ctx.save_for_backward(x, mean, scale, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, mean, scale, weight = ctx.saved_tensors
        site: Site = ctx.site
        x = x.to(ctx.dtype).contiguous()
        gradient = gradient.contiguous()
        site.tape.check_examples(site.name, gradient)
        if site.parameter("weight") is not None:
            groups = x.reshape(*mean.shape, -1)
            normalised = ((groups - mean[:, :, None]) * scale[:, :, None]).reshape(x.shape)
            site.add_elementwise("weight", gradient.movedim(1, -1), normalised.movedim(1, -1))
        site.add_elementwise("bias", gradient.movedim(1, -1), None)
        if not ctx.needs_input_grad[1]:
            return None, None, None, None
        found = torch.ops.aten.native_group_norm_backward(
            gradient, x, mean, scale, weight, *ctx.shape, [True, False, False]
        )
        return None, found[0], None, None


def group_norm(site: Site, x: torch.Tensor) -> torch.Tensor:
    """Runs ``torch.nn.GroupNorm``."""
    site.enter(x)
    return applied(_GroupNorm, site, x, site.module.weight, site.module.bias)
