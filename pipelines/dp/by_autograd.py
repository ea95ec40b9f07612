"""Per-example gradients by ``torch.func``, for a module without a rule and the modules below it.

A module that holds trainable parameters itself (a learnt scale, positions, a custom layer) runs on each example alone,
mapped over the batch. The gradients are instantiated, which takes memory for examples times parameters. Before its
first batch the module is compared with autograd, as rules of other packages are. The gradients are exact if the module
computes one tensor from tensors whose first axis is the examples', without random numbers. Any other module is refused.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.autograd.function import once_differentiable
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from pipelines.dp.errors import NoRuleError, UnsupportedLayerError
from pipelines.dp.layers import Site, applied
from pipelines.dp.rules import LayerRule, compare, layer_name, without_saved_hooks
from pipelines.dp.uses import dense_use

MOST_PARAMETERS: Final = 4_000_000
"""Most trainable numbers of such a module: its gradients take B times the memory of its parameters."""

_PLAIN: Final = (type(None), bool, int, float, str, torch.dtype, torch.device)
_compared: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()


class _Direct(torch.nn.Module):
    """Calls the original forward method of a module, not the engine's."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return type(self.inner).forward(self.inner, *args, **kwargs)


class _Call:
    """A call of a module, with arguments other than tensors fixed."""

    def __init__(self, site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves, self._spec = tree_flatten((args, kwargs))
        self._site = site
        self._others = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self._places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [leaves[at] for at in self._places]
        strange = next((leaf for leaf in self._others if not isinstance(leaf, _PLAIN)), None)
        if strange is not None:
            raise NoRuleError(f"module {site.name!r} is given a {type(strange).__name__}, which may hold parameters")
        if not self.tensors or len({len(tensor) if tensor.dim() else -1 for tensor in self.tensors}) != 1:
            raise NoRuleError(f"the first axes of the inputs of module {site.name!r} are not all the examples'")
        self._direct = _Direct(site.module)

    def arguments(self, tensors: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the call's arguments with these tensors."""
        leaves = list(self._others)
        for at, tensor in zip(self._places, tensors, strict=True):
            leaves[at] = tensor
        spec: TreeSpec = self._spec
        args, kwargs = tree_unflatten(leaves, spec)
        return args, kwargs

    def plain(self, module: torch.nn.Module, *tensors: torch.Tensor) -> Any:
        """Runs the module's original forward method."""
        args, kwargs = self.arguments(tensors)
        return type(module).forward(module, *args, **kwargs)

    def alone(self, parameters: dict[str, torch.Tensor], tensors: Any) -> torch.Tensor:
        """Returns the output of one example, from tensors without the axis of examples."""
        args, kwargs = self.arguments([tensor[None] for tensor in tensors])
        named = {f"inner.{name}": value for name, value in parameters.items()}
        out: torch.Tensor = torch.func.functional_call(self._direct, named, args, kwargs)
        return out[0]


class _ByAutograd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, site: Site, call: _Call, out: torch.Tensor, *tensors: torch.Tensor) -> torch.Tensor:
        ctx.site, ctx.call, ctx.num_inputs = site, call, len(call.tensors)
        ctx.num_trained = len(tensors) - ctx.num_inputs  # as of now: some may be frozen before the backward pass
        ctx.autocast = torch.is_autocast_enabled(out.device.type), torch.get_autocast_dtype(out.device.type)
        ctx.save_for_backward(*tensors[: ctx.num_inputs])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        site: Site = ctx.site
        call: _Call = ctx.call
        site.tape.check_examples(site.name, gradient)
        inputs = [tensor.detach() for tensor in ctx.saved_tensors]
        real = [at for at, tensor in enumerate(inputs) if tensor.is_floating_point()]
        trained = _trained(site)

        def one(tensors: list[torch.Tensor], direction: torch.Tensor) -> tuple[Any, ...]:
            def run(parameters: dict[str, torch.Tensor], floats: list[torch.Tensor]) -> torch.Tensor:
                given = list(tensors)
                for at, value in zip(real, floats, strict=True):
                    given[at] = value
                return call.alone(parameters, given)

            values = {name: parameter.detach() for name, parameter in trained.items()}
            pull = torch.func.vjp(run, values, [tensors[at] for at in real])[1]
            found: tuple[Any, ...] = pull(direction)
            return found

        try:
            with torch.enable_grad(), torch.autocast(gradient.device.type, ctx.autocast[1], enabled=ctx.autocast[0]):
                of_parameters, of_inputs = torch.func.vmap(one, randomness="error")(inputs, gradient)
        except RuntimeError as error:  # torch.func names an operation in its message, and quotes no values
            raise NoRuleError(f"torch.func cannot run module {site.name!r} on single examples") from error
        for name, parameter in trained.items():
            site.tape.add(site.name, parameter, dense_use(of_parameters[name]))
        back: list[torch.Tensor | None] = [None] * ctx.num_inputs
        for at, value in zip(real, of_inputs, strict=True):
            back[at] = value
        return None, None, None, *back, *([None] * ctx.num_trained)


def by_autograd(site: Site, *args: Any, **kwargs: Any) -> Any:
    """Runs any module that computes one tensor, example by example.

    Raises:
        UnsupportedLayerError: the module takes or returns something else, draws random numbers, uses parameters of
            other modules, or its gradients differ from those of one example at a time.
    """
    call = _Call(site, args, kwargs)
    if not len(call.tensors[0]):
        return call.plain(site.module, *call.tensors)

    def rule(at: Site, *tensors: torch.Tensor) -> torch.Tensor:
        at.enter(tensors[0])
        out = _run(at, call, tensors)
        return applied(_ByAutograd, at, call, out, *tensors, *_trained(at).values())

    if site.module not in _compared:
        described = LayerRule(layer=layer_name(site.module), rule=rule, parameters=tuple(site.parameters))
        try:
            compare(described, site, call.tensors, call.plain, lambda _, at, why: refused(at, why))
        except RuntimeError as error:  # of torch: a reentrant checkpoint in the module
            raise NoRuleError(f"module {site.name!r} cannot be run by itself, outside the model's graph") from error
        _compared.add(site.module)
    return rule(site, *call.tensors)


def _run(site: Site, call: _Call, tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Returns the output for the batch, after a check of the parameters that it comes from."""
    inputs = [t.detach().requires_grad_(t.is_floating_point()) for t in tensors]
    states = [torch.get_rng_state()]
    if inputs[0].is_cuda:
        states.append(torch.cuda.get_rng_state(inputs[0].device))
    with without_saved_hooks():
        out = call.plain(site.module, *inputs)
    if not torch.equal(states[0], torch.get_rng_state()) or (
        inputs[0].is_cuda and not torch.equal(states[1], torch.cuda.get_rng_state(inputs[0].device))
    ):
        torch.set_rng_state(states[0])
        if inputs[0].is_cuda:
            torch.cuda.set_rng_state(states[1], inputs[0].device)
        raise NoRuleError(f"module {site.name!r} draws random numbers; put dropout into a separate module")
    if not isinstance(out, torch.Tensor) or len(out) != len(inputs[0]):
        raise NoRuleError(f"module {site.name!r} does not give back one tensor whose first axis is the examples'")
    own = {id(value) for value in (*inputs, *site.parameters.values())}
    if any(id(leaf) not in own for leaf in _leaves(out)):
        raise NoRuleError(f"module {site.name!r} uses parameters, or values with a gradient, of other modules")
    return out.detach()


def _leaves(out: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields the leaf tensors of the graph of a value."""
    todo, seen = [out.grad_fn], set()
    while todo:
        node: Any = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        todo += [following for following, _ in node.next_functions]


def _trained(site: Site) -> dict[str, torch.nn.Parameter]:
    """Returns the trainable parameters of the module and the modules below it, each under one of its names."""
    found: dict[torch.nn.Parameter, str] = {}
    for name, parameter in site.parameters.items():
        if parameter.requires_grad:
            found.setdefault(parameter, name)
    return {name: parameter for parameter, name in found.items()}


def refused(site: Site, why: str) -> UnsupportedLayerError:
    """Makes the error for a module whose gradients ``torch.func`` cannot take."""
    return UnsupportedLayerError(
        f"module {site.name!r} ({type(site.module).__name__}) has trainable parameters and no rule, and its gradients "
        f"cannot be taken by torch.func either: {why}. Put its parameters into layers with a rule (one that is added, "
        "multiplied or joined: reticent.dp.ExampleParameter), install a rule (docs/extending.md), or freeze them"
    )
