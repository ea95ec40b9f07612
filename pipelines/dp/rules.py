"""Rules for layers of other packages, found by entry point and compared with autograd.

The engine's other checks see that examples do not mix. They do not see a rule with the gradients of another function,
nor a rule whose norms differ from those of the gradients that it adds up. So a layer with such a rule is compared
before its first batch. The rule runs on a few examples, and autograd runs on each of them alone: outputs, gradients of
inputs and of parameters, norms, and weighted sums must be the same.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from pipelines.dp.clipping import Factors
from pipelines.dp.errors import NoRuleError, UnsupportedLayerError
from pipelines.dp.joining import SumOfUses
from pipelines.dp.layers import Site
from pipelines.dp.random_states import random_states, set_random_states
from pipelines.dp.tape import Phase, Tape
from pipelines.dp.uses import Sums
from pipelines.plugins import LAYER_RULES, installed, load

FOREIGN_RULES: Final = (
    "the gradients of these layers follow rules of other packages, which were compared with autograd on a few examples "
    "and no further: {}"
)
"""Assumption of a guarantee for a model with such layers."""

Rule = Callable[..., Any]
Refused = Callable[["LayerRule", Site, str], UnsupportedLayerError]
_EXAMPLES: Final = 4
_TOLERANCES: Final = {torch.float64: 1e-9, torch.float32: 1e-4}
_COARSE: Final = 3e-2
"""Tolerance for bfloat16 and float16."""


@dataclass(frozen=True, kw_only=True)
class LayerRule:
    """A rule by which the engine takes the gradients of single examples of a layer.

    Attributes:
        layer: exact class, ``package.module.Class``; a subclass may compute something else.
        rule: function with the same output as the layer, ``rule(site, *inputs)``. In its backward pass it gives the
            uses of its parameters to ``site.tape``, as the rules of `pipelines.dp.layers` do.
        parameters: names of the layer's parameters that the rule knows.
    """

    layer: str
    rule: Rule
    parameters: tuple[str, ...] = ("weight", "bias")


def layer_name(module: torch.nn.Module) -> str:
    """Returns the class name of a layer, as rules write it."""
    return f"{type(module).__module__}.{type(module).__qualname__}"


@functools.cache
def installed_rules() -> Mapping[str, LayerRule]:
    """Returns the rules of other packages by layer.

    Raises:
        UnsupportedLayerError: a rule cannot be imported or is no `LayerRule`, or two rules are for one layer.
    """
    found: dict[str, LayerRule] = {}
    for name, reference in sorted(installed(LAYER_RULES).items()):
        try:
            rule = load(reference)
        except Exception as error:
            raise UnsupportedLayerError(
                f"the layer rule {name!r} of another package cannot be imported ({type(error).__name__}: {error})"
            ) from error
        if not isinstance(rule, LayerRule):
            raise UnsupportedLayerError(f"the layer rule {name!r} must be a pipelines.dp.rules.LayerRule")
        if rule.layer in found:
            raise UnsupportedLayerError(f"two installed packages have a rule for {rule.layer}; remove one")
        found[rule.layer] = replace(rule, rule=_checked(rule))
    return found


def _checked(rule: LayerRule) -> Rule:
    compared: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()

    def apply(site: Site, *inputs: Any, **others: Any) -> Any:
        if site.module not in compared:
            tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
            if others or len(tensors) != len(inputs) or not tensors or len({len(value) for value in tensors}) != 1:
                raise _refused(
                    rule, site, "a layer with a rule of another package takes tensors with an example axis alone"
                )
            if compare(rule, site, tensors, type(site.module).forward, _refused):
                compared.add(site.module)
        return rule.rule(site, *inputs, **others)

    return apply


@contextmanager
def without_saved_hooks() -> Iterator[None]:
    """Sets hooks on saved tensors aside, as those of a checkpoint.

    A checkpoint counts the tensors that are saved, also those of a graph that is not part of the model's, and
    ``torch.func`` does not run under such hooks.
    """
    hooks, taken = torch._C._autograd, []
    while (top := hooks._top_saved_tensors_default_hooks(True)) is not None:
        taken.append(top)
        hooks._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pair in reversed(taken):
            hooks._push_saved_tensors_default_hooks(*pair)


def compare(
    rule: LayerRule, site: Site, tensors: Sequence[torch.Tensor], forward: Callable[..., Any], refused: Refused
) -> bool:
    """Compares a rule with autograd on the first examples of a batch. Returns False if there are none.

    Raises:
        UnsupportedLayerError: the rule differs from autograd, or the layer's output cannot be compared.
    """
    first = [value.detach()[:_EXAMPLES].clone() for value in tensors]
    if not len(first[0]):
        return False
    states = random_states()
    held = {p: p.grad for p in site.parameters.values()}
    device = first[0].device.type
    if torch.is_autocast_enabled(device):  # both sides would round, each in its own way
        wide = next((p.dtype for p in held if p.is_floating_point()), torch.float32)
        first = [value.to(wide) if value.is_floating_point() else value for value in first]
    try:
        with torch.enable_grad(), torch.autocast(device, enabled=False), without_saved_hooks():
            for parameter in held:
                parameter.grad = None
            expected = _by_autograd(site, forward, first, states)
            found = _by_rule(rule, site, first, expected, states, refused)
    finally:
        set_random_states(states)
        for parameter, gradient in held.items():
            parameter.grad = gradient
    types = [p.dtype for p in held] + [value.dtype for value in (*first, expected.outputs) if value.is_floating_point()]
    tolerance = max(_TOLERANCES.get(dtype, _COARSE) for dtype in types)
    for what, ours, theirs in found:
        scale = max(float(theirs.abs().max()) if theirs.numel() else 0.0, 1e-6)
        if ours.shape != theirs.shape or not float((ours - theirs).abs().max() if ours.numel() else 0.0) <= (
            tolerance * scale
        ):
            raise refused(rule, site, f"{what} are not those of autograd, one example at a time")
    return True


@dataclass
class _Expected:
    """Results of autograd, one example at a time: values of the batch, and (B, ...) gradients of each parameter."""

    outputs: torch.Tensor
    directions: torch.Tensor
    inputs: list[torch.Tensor]
    parameters: dict[torch.nn.Parameter, torch.Tensor]


def _by_autograd(site: Site, forward: Callable[..., Any], first: Sequence[torch.Tensor], states: Any) -> _Expected:
    trained = list(dict.fromkeys(p for p in site.parameters.values() if p.requires_grad))
    outputs, directions, of_inputs, of_parameters = [], [], [], []
    generator = torch.Generator().manual_seed(0)
    for example in range(len(first[0])):
        given = _leaves([value[example : example + 1] for value in first])
        set_random_states(states)
        out = forward(site.module, *given)
        if not isinstance(out, torch.Tensor) or len(out) != 1:
            raise NoRuleError(f"layer {site.name!r} does not give back one tensor with an example axis")
        direction = torch.randn(out.shape, generator=generator).to(out)
        differentiable = [value for value in given if value.requires_grad]
        gradients = torch.autograd.grad((out * direction).sum(), [*differentiable, *trained], allow_unused=True)
        wanted = [*differentiable, *trained]
        found = [torch.zeros_like(v) if g is None else g for v, g in zip(wanted, gradients, strict=True)]
        outputs.append(out.detach())
        directions.append(direction)
        of_inputs.append(found[: len(differentiable)])
        of_parameters.append(found[len(differentiable) :])
    return _Expected(
        outputs=torch.cat(outputs),
        directions=torch.cat(directions),
        inputs=[torch.cat(parts) for parts in zip(*of_inputs, strict=True)],
        parameters={p: torch.stack([part[i] for part in of_parameters]) for i, p in enumerate(trained)},
    )


def _by_rule(
    rule: LayerRule, site: Site, first: Sequence[torch.Tensor], expected: _Expected, states: Any, refused: Refused
) -> list[tuple[str, torch.Tensor, torch.Tensor]]:
    """Returns each result of the rule with its name and the expected value."""
    tape = Tape(site.tape.budget)
    tape.batch_size = len(first[0])
    tape.phase = Phase.FORWARD
    given = _leaves(first)
    set_random_states(states)
    out = rule.rule(replace(site, tape=tape), *given)
    if not isinstance(out, torch.Tensor) or not out.requires_grad:
        raise refused(rule, site, "its output is no tensor with a gradient")
    if not tape.was_called:
        raise refused(rule, site, "it does not call site.enter first")
    tape.phase = Phase.KEEP
    (out * expected.directions).sum().backward()  # type: ignore[no-untyped-call]
    if any(p.grad is not None for p in expected.parameters):
        raise refused(rule, site, "a parameter got a gradient that the rule did not catch")
    found = [("outputs", out.detach(), expected.outputs)]
    inputs = [torch.zeros_like(v) if v.grad is None else v.grad for v in given if v.requires_grad]
    found += [("gradients of inputs", ours, theirs) for ours, theirs in zip(inputs, expected.inputs, strict=True)]
    squares = torch.zeros(len(out), dtype=torch.float64, device=out.device)
    for parameter, theirs in expected.parameters.items():
        uses = tape.uses_of(parameter)
        if not uses:
            raise refused(rule, site, "it hands over no gradient of a trainable parameter")
        ours = SumOfUses(uses).instantiate(0, len(out), dtype=torch.float64).reshape(theirs.shape)
        found.append(("gradients of parameters", ours, theirs.double()))
        squares += theirs.double().reshape(len(theirs), -1).square().sum(dim=1)
    with torch.no_grad():
        found.append(("norms", tape.norms(len(out), out.device), squares.sqrt()))
        weights = torch.linspace(0.5, 1.0, len(out), device=out.device, dtype=torch.float32)
        sums = Sums()
        tape.add_weighted(sums, Factors(weights))
    for parameter, theirs in expected.parameters.items():
        whole = torch.einsum("b...,b->...", theirs.double(), weights.double())
        found.append(("weighted sums", sums.of(parameter).double(), whole))
    return found


def _leaves(values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [value.detach().clone().requires_grad_(value.is_floating_point()) for value in values]


def _refused(rule: LayerRule, site: Site, why: str) -> UnsupportedLayerError:
    return UnsupportedLayerError(
        f"layer {site.name!r}: the rule that another package has for {rule.layer} is refused: {why}. Correct the rule, "
        "or freeze the layer"
    )
