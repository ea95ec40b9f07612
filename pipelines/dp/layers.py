"""Rules for linear layers, embeddings and norms, each an autograd function.

A function computes the same output as the layer. Its backward pass returns the gradient of the input, as usual. Instead
of a gradient of the weights, it gives the tape the layer's input and the gradient of its output. Weights are arguments
of the function only so that its output requires a gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from pipelines.dp.errors import NoRuleError, UnsupportedLayerError
from pipelines.dp.tape import Tape
from pipelines.dp.uses import DenseUse, OuterUse, RowsUse, compute_dtype


@dataclass(frozen=True)
class Site:
    """A layer with a rule.

    Attributes:
        name: name of the layer, for messages.
        module: the layer.
        tape: tape that collects its uses.
        parameters: parameters of the layer by name, at the time when the engine was attached. A site for a whole
            module also has those of the layers below.
    """

    name: str
    module: Any
    tape: Tape
    parameters: Mapping[str, torch.nn.Parameter]

    def parameter(self, name: str) -> torch.nn.Parameter | None:
        """Returns the layer's parameter of that name; None if there is none or it is frozen."""
        found = self.parameters.get(name)
        return found if found is not None and found.requires_grad else None

    def enter(self, inputs: torch.Tensor) -> None:
        """Notes that the layer runs on ``inputs``.

        Raises:
            UnsupportedLayerError: something else has replaced a parameter.
            NoRuleError: the first axis is not the examples'.
        """
        for path, parameter in self.parameters.items():
            module, name = self.module, path
            if "." in path:
                owner, _, name = path.rpartition(".")
                module = module.get_submodule(owner)
            # Hooks put a computed value into the instance's dictionary, functional_call into that of parameters.
            if module._parameters.get(name) is not parameter or name in module.__dict__:
                raise UnsupportedLayerError(
                    f"layer {self.name!r}: something else is in the place of its parameter {path!r} in the forward "
                    "pass (a value that a hook computes, functional_call, a parameter that was put there after "
                    "make_private), whose gradients are not known. Take it away, or freeze the layer"
                )
        num_rows = inputs.shape[0]
        if self.tape.first_rows is None:
            self.tape.first_rows = num_rows
        if self.tape.batch_size is None:
            self.tape.batch_size = num_rows
        if num_rows != self.tape.batch_size:
            raise NoRuleError(f"layer {self.name!r} sees {num_rows} rows in a batch of {self.tape.batch_size} examples")
        self.tape.called(self.called)

    @property
    def called(self) -> Iterable[torch.nn.Parameter | None]:
        """The parameters that a run uses. One with two names counts twice in a layer, once in a whole module."""
        if any("." in name for name in self.parameters):
            return dict.fromkeys(self.parameters.values())
        return list(self.module._parameters.values())

    def mark(self, why: NoRuleError) -> None:
        """Notes that the trainable parameters need one backward pass for each example."""
        for parameter in self.parameters.values():
            if parameter.requires_grad:
                self.tape.slow.setdefault(parameter, str(why))

    def add_elementwise(self, name: str, gradients: torch.Tensor, inputs: torch.Tensor | None) -> None:
        """Records the use of a parameter that is multiplied by ``inputs`` (or added, if None) at every position.

        Args:
            name: name of the parameter, of shape S.
            gradients: (B, ..., *S) gradients of the layer's output.
            inputs: (B, ..., *S) factors, or None.
        """
        parameter = self.parameter(name)
        if parameter is not None:
            values = gradients.to(compute_dtype(gradients))
            if inputs is not None:
                values = values * inputs
            summed = values.reshape(values.shape[0], -1, *parameter.shape).sum(dim=1)
            self.tape.add(self.name, parameter, DenseUse(summed))


def _positions(values: torch.Tensor) -> torch.Tensor:
    """Returns (B, ..., n) as (B, T, n)."""
    return values[:, None] if values.dim() == 2 else values.flatten(1, -2)


def applied(function: type[torch.autograd.Function], *arguments: Any) -> torch.Tensor:
    """Returns the output of an autograd function with one output."""
    out: torch.Tensor = function.apply(*arguments)  # type: ignore[no-untyped-call]
    return out


class _Linear(torch.autograd.Function):
    """x W^T + b, or x W + b if the weight is stored transposed."""

    @staticmethod
    def forward(
        ctx: Any, site: Site, is_transposed: bool, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        device = x.device.type
        if torch.is_autocast_enabled(device) and x.dtype != torch.float64:
            x = x.to(torch.get_autocast_dtype(device))  # as autocast does; once, because it is saved too
        out = functional.linear(x, weight.t() if is_transposed else weight, bias)
        if out._is_view():  # of the rows; torch refuses changes in place of a view that a function returns
            out = torch.ops.aten._unsafe_view(out, out.shape)
        ctx.site, ctx.is_transposed = site, is_transposed
        ctx.save_for_backward(x.to(out.dtype), weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        site: Site = ctx.site
        site.tape.check_examples(site.name, gradient)
        parameter = site.parameter("weight")
        if parameter is not None:
            inputs, outputs = _positions(x.detach()), _positions(gradient)
            use = OuterUse(inputs, outputs) if ctx.is_transposed else OuterUse(outputs, inputs)
            site.tape.add(site.name, parameter, use)
        site.add_elementwise("bias", gradient, None)
        if not ctx.needs_input_grad[2]:
            return None, None, None, None, None
        weight = weight.to(gradient.dtype)
        return None, None, gradient @ (weight.t() if ctx.is_transposed else weight), None, None


def linear(site: Site, x: torch.Tensor) -> torch.Tensor:
    """Runs ``torch.nn.Linear``."""
    site.enter(x)
    return applied(_Linear, site, False, x, site.module.weight, getattr(site.module, "bias", None))


def conv1d(site: Site, x: torch.Tensor) -> torch.Tensor:
    """Runs ``transformers.pytorch_utils.Conv1D``: a linear layer whose weight is stored as (inputs, outputs)."""
    site.enter(x)
    return applied(_Linear, site, True, x, site.module.weight, site.module.bias)


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, site: Site, ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.site = site
        ctx.save_for_backward(ids)
        return functional.embedding(ids, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[None, ...]:
        (ids,) = ctx.saved_tensors
        site: Site = ctx.site
        site.tape.check_examples(site.name, gradient)
        parameter = site.parameter("weight")
        if parameter is not None:
            flat = _positions(gradient)
            padding: int | None = getattr(site.module, "padding_idx", None)
            if padding is not None:  # the row of padding is never trained
                flat = flat.masked_fill((ids.flatten(1) == padding)[:, :, None], 0)
            site.tape.add(site.name, parameter, RowsUse(ids.flatten(1), flat, len(parameter)))
        return None, None, None


def embedding(site: Site, ids: torch.Tensor) -> torch.Tensor:
    """Runs ``torch.nn.Embedding``.

    Ids that all examples share, (1, T), are expanded, as GPT-2's position ids. Otherwise their gradient would be summed
    over examples.

    Raises:
        NoRuleError: ids without an example axis.
    """
    if ids.dim() < 2:
        raise NoRuleError(
            f"embedding {site.name!r} is given ids with {ids.dim()} axes; give it (examples, positions), so that it "
            "is known which ids belong to which example: ids[None] if all share them, ids[:, None] for one each"
        )
    # If a batch has more rows than records, `backward` says so. It must not show as a clash of shapes here.
    size = site.tape.first_rows or site.tape.batch_size
    if size is not None and len(ids) == 1 and size != 1:
        ids = ids.expand(size, *ids.shape[1:])
    site.enter(ids)
    return applied(_Embedding, site, ids, site.module.weight)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, site: Site, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None
    ) -> torch.Tensor:
        dtype = weight.dtype if weight is not None else x.dtype
        with torch.autocast(x.device.type, enabled=False):  # as ordinary training does, in the dtype of the weights
            out, mean, scale = torch.native_layer_norm(
                x.to(dtype), site.module.normalized_shape, weight, bias, site.module.eps
            )
        ctx.site, ctx.dtype = site, dtype
        ctx.save_for_backward(x, mean, scale, weight, bias)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, mean, scale, weight, bias = ctx.saved_tensors
        site: Site = ctx.site
        x = x.to(ctx.dtype)
        site.tape.check_examples(site.name, gradient)
        parameter = site.parameter("weight")
        if parameter is not None:
            # sum_t g (x - mean) scale, for each example
            normalised = x.sub(mean).mul_(scale)
            site.add_elementwise("weight", gradient, normalised)
        site.add_elementwise("bias", gradient, None)
        if not ctx.needs_input_grad[1]:
            return None, None, None, None
        found = torch.ops.aten.native_layer_norm_backward(
            gradient, x, site.module.normalized_shape, mean, scale, weight, bias, [True, False, False]
        )
        return None, found[0], None, None


def layer_norm(site: Site, x: torch.Tensor) -> torch.Tensor:
    """Runs ``torch.nn.LayerNorm``."""
    site.enter(x)
    return applied(_LayerNorm, site, x, site.module.weight, site.module.bias)


class _Scale(torch.autograd.Function):
    """x * (weight + offset), with the weight along the last axes."""

    @staticmethod
    def forward(ctx: Any, site: Site, x: torch.Tensor, weight: torch.Tensor, offset: int) -> torch.Tensor:
        scale = weight + offset if offset else weight
        ctx.site = site
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, scale = ctx.saved_tensors
        site: Site = ctx.site
        site.tape.check_examples(site.name, gradient)
        site.add_elementwise("weight", gradient, x)
        return None, gradient * scale if ctx.needs_input_grad[1] else None, None, None


def rms_norm(site: Site, x: torch.Tensor) -> torch.Tensor:
    """Runs ``torch.nn.RMSNorm``."""
    site.enter(x)
    normalised = functional.rms_norm(x, site.module.normalized_shape, None, site.module.eps)
    return applied(_Scale, site, normalised, site.module.weight, 0)


@dataclass(frozen=True)
class RmsNorm:
    """The rule of a module that computes x / sqrt(mean(x^2) + eps) * (weight + offset), over the last axis.

    Attributes:
        eps: added to the mean of squares.
        offset: 0 (Llama, Mistral, Qwen, T5) or 1 (Gemma).
    """

    eps: float
    offset: int

    def __call__(self, site: Site, x: torch.Tensor) -> torch.Tensor:
        """Runs the norm: normalised in float32, scaled in the input's dtype (Gemma: in float32 too)."""
        site.enter(x)
        normalised = self._normalised(x)
        if self.offset:
            return applied(_Scale, site, normalised, site.module.weight.to(normalised.dtype), self.offset).to(x.dtype)
        return applied(_Scale, site, normalised.to(x.dtype), site.module.weight, 0)

    def plain(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Returns what the norm computes."""
        return self._normalised(x) * (weight + self.offset)

    def _normalised(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + self.eps)


def rms_norm_like(module: torch.nn.Module) -> RmsNorm | None:
    """Returns the rule of a module that turns out to be an RMS norm by what it computes; None if it is none."""
    weight = module._parameters.get("weight")
    eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    if len(module._parameters) != 1 or weight is None or weight.dim() != 1 or not isinstance(eps, float):
        return None
    if any(True for _ in module.children()) or module._buffers or module._forward_pre_hooks:
        return None
    generator = torch.Generator().manual_seed(0)
    # Rows that are small against eps, and large ones. The given weight tells 1 + w from w.
    sizes = torch.logspace(-6, 4, 11)[:, None, None]
    x = (torch.randn(len(sizes), 3, len(weight), generator=generator) * sizes).to(weight.device)
    given = torch.randn(len(weight), generator=generator).to(weight.device)
    try:
        with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
            out = torch.func.functional_call(module, {"weight": given}, (x,))
    except Exception:  # another kind of module: it takes other arguments
        return None
    for offset in (0, 1):
        rule = RmsNorm(eps, offset)
        if (
            isinstance(out, torch.Tensor)
            and out.shape == x.shape
            and torch.allclose(out, rule.plain(x, given), 1e-5, 1e-6)
        ):
            return rule
    return None
