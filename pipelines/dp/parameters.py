"""Parameters that no layer multiplies: learnt positions, a class token, a scale."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from pipelines.dp.layers import Site, applied
from pipelines.dp.uses import dense_use


class ExampleParameter(torch.nn.Module):
    """A parameter that is copied for every example, so that the engine sees the gradient of each.

    Instead of ``self.positions = nn.Parameter(values)`` and ``x + self.positions``, write:

        self.positions = ExampleParameter(values)
        x + self.positions(x)

    Attributes:
        weight: the parameter.
    """

    def __init__(self, values: torch.Tensor) -> None:
        """Takes the initial values, of any shape S."""
        super().__init__()
        self.weight = torch.nn.Parameter(values.detach().clone())

    def forward(self, like: torch.Tensor) -> torch.Tensor:
        """Returns (B, *S): the parameter, once for each of the B examples of ``like`` (B, ...)."""
        return self.weight.expand(len(like), *self.weight.shape)


class _Expanded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, site: Site, name: str, size: int, parameter: torch.Tensor) -> torch.Tensor:
        ctx.site, ctx.name = site, name
        return parameter.expand(size, *parameter.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, ...]:
        site: Site = ctx.site
        site.tape.check_examples(site.name, gradient)
        parameter = site.parameter(ctx.name)
        if parameter is not None:
            site.tape.add(site.name, parameter, dense_use(gradient))
        return None, None, None, None


def expanded(site: Site, name: str, size: int) -> torch.Tensor:
    """Returns (size, *S): a parameter of the layer, once for each example."""
    return applied(_Expanded, site, name, size, getattr(site.module, name))


def example_parameter(site: Site, like: torch.Tensor) -> torch.Tensor:
    """Runs an `ExampleParameter`."""
    site.enter(like)
    return expanded(site, "weight", len(like))
