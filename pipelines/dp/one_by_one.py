"""Gradients of parameters that are used in a way that no rule knows: one backward pass for each example.

A weight may be read outside its layer, be used once for the whole batch (the relative positions of T5), or be used on
rows that belong to no known example (packed tokens, experts). No rule sees which example a gradient belongs to. A
backward pass of one example's loss does: it is the example's gradient, however the parameter is used, if the loss
depends on that example only. That condition is checked as for all others: where the graph passes layers with a rule,
inputs of such modules included, by tracing, and by values (`pipelines.dp.isolation`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from pipelines.dp.errors import NoRuleError, UnsupportedLayerError
from pipelines.dp.layers import Site, applied, embedding, linear
from pipelines.dp.random_states import random_states, random_states_digest, set_random_states
from pipelines.dp.rows import by_rows, stand_together
from pipelines.dp.tape import Phase, Tape

_BY_ROWS = by_rows(linear)


class SlowGradientWarning(UserWarning):
    """Some parameters need one backward pass for each example."""


class OneByOne:
    """The gradients of some parameters, example by example. They are kept for a second sweep if they fit.

    Args:
        named: parameters of the model, with their names.
        losses: (B,) losses, whose graph is retained.
        tape: tape of the batch, with the slow parameters.
        kept_bytes: memory for gradients that are kept. One example always fits.
    """

    def __init__(
        self, named: Sequence[tuple[str, torch.nn.Parameter]], losses: torch.Tensor, tape: Tape, kept_bytes: int
    ) -> None:
        self._losses = losses
        self._tape = tape
        self._named = [
            (name, parameter) for name, parameter in named if parameter in tape.slow and parameter.requires_grad
        ]
        self._parameters = [parameter for _, parameter in self._named]
        size = len(losses) * sum(p.numel() * p.element_size() for p in self._parameters)
        self._kept: list[dict[torch.nn.Parameter, torch.Tensor]] | None = [] if size <= kept_bytes else None

    def __iter__(self) -> Iterator[tuple[int, dict[torch.nn.Parameter, torch.Tensor]]]:
        """Yields the number of each example, and its gradients."""
        for index in range(len(self._losses)):
            if self._kept is None:
                yield index, self._of(index)
                continue
            if index == len(self._kept):
                self._kept.append(self._of(index))
            yield index, self._kept[index]

    def _of(self, index: int) -> dict[torch.nn.Parameter, torch.Tensor]:
        phase, self._tape.phase = self._tape.phase, Phase.TRACE  # layers hand over nothing
        with torch.enable_grad():
            loss = self._losses[index]
        # torch.autograd.grad does not run through checkpoints of the reentrant kind.
        loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
        found = {p: torch.zeros_like(p) if p.grad is None else p.grad.detach() for p in self._parameters}
        for parameter in self._parameters:
            parameter.grad = None
        check_unchanged(self._named, set(self._parameters))
        self._tape.phase = phase
        return found


def settle(
    named: Sequence[tuple[str, torch.nn.Parameter]],
    tape: Tape,
    before: Mapping[torch.nn.Parameter, str],
    losses: torch.Tensor,
) -> dict[torch.nn.Parameter, str]:
    """Prepares the gradients of a batch's slow parameters, and warns about those that are not in ``before``.

    Args:
        named: parameters of the model, with their names.
        tape: tape of the batch.
        before: slow parameters of earlier batches.
        losses: (B,) losses of the batch.

    Returns:
        The slow parameters, with the reason of each.
    """
    if any(parameter.requires_grad for parameter in tape.slow):  # frozen ones stay slow, for when they are not
        tape.one_by_one = OneByOne(named, losses, tape, tape.budget.kept_bytes)
    new = {p: why for p, why in tape.slow.items() if p not in before}
    listed = "; ".join(f"{name} ({new[p]})" for name, p in named if p in new) if new else ""
    if listed:
        warnings.warn(
            f"no rule knows these uses of parameters: {listed}. Their gradients are exact, but take one backward pass "
            f"over the physical batch for each of its examples, now {len(losses)}. The cost grows with the square of "
            "the physical batch: lower max_physical_batch_size, call the layer that holds the parameter with the "
            "examples on its first axis, or freeze the parameter",
            SlowGradientWarning,
            stacklevel=2,
        )
    return dict(tape.slow)


def check_settled(tape: Tape, before: Mapping[torch.nn.Parameter, str]) -> None:
    """Checks that a backward pass found no slow parameter that `settle` does not know.

    Raises:
        UnsupportedLayerError: it did: a checkpoint ran a layer in another way than the forward pass had.
    """
    if tape.slow.keys() != before.keys():
        why = next(why for parameter, why in tape.slow.items() if parameter not in before)
        tape.slow = dict(before)
        raise UnsupportedLayerError(
            f"a layer ran in the backward pass in a way that no rule knows, and had not in the forward pass ({why}). "
            "Make the checkpoint around it do the same each time, or freeze the layer"
        )


def check_unchanged(named: Iterable[tuple[str, torch.nn.Parameter]], trained: Container[torch.nn.Parameter]) -> None:
    """Checks that a backward pass froze and unfroze no parameter.

    Raises:
        UnsupportedLayerError: it did: the next pass over the batch would have other gradients.
    """
    for name, parameter in named:
        if parameter.requires_grad != (parameter in trained):
            raise UnsupportedLayerError(
                f"parameter {name!r} was frozen or unfrozen during a backward pass, as by a hook. Then the norms would "
                "not bound the sum. Call requires_grad_ between batches"
            )


def uncaught(name: str, *, is_new: bool, has_run: bool) -> UnsupportedLayerError:
    """Makes the error for a parameter that unexpectedly gets a gradient.

    Args:
        name: name of the parameter.
        is_new: true if it was frozen when the engine was attached.
        has_run: true if any layer ran by the engine's rules.
    """
    if not has_run:
        return UnsupportedLayerError(
            f"no layer of the model ran by a rule of the engine, so nothing shows whether examples depend on each "
            f"other: either the model ran outside the loop over the private loader, or every weight is read directly, "
            f"as {name!r} is. Call at least one layer itself: layer(x), in place of linear(x, layer.weight)"
        )
    if is_new:
        return UnsupportedLayerError(
            f"parameter {name!r} became trainable after make_private, and is used in a way that no rule knows, which "
            "the engine prepares for in make_private only. Call requires_grad_(True) before make_private, and "
            "requires_grad_(False) after it for as long as the parameter is to be frozen"
        )
    return UnsupportedLayerError(
        f"parameter {name!r} is used outside the layer that holds it (its weight is read directly, or a penalty on it "
        "is in the loss), and was not in the first batches, so its gradients for single examples are not known. Run "
        "the model inside `recording`, call the layer itself, or freeze the parameter"
    )


class _Watched(torch.autograd.Function):
    """The identity, whose backward pass checks that the rows are those of the examples."""

    @staticmethod
    def forward(ctx: Any, site: Site, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.site = site
        return x.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        ctx.site.tape.check_examples(ctx.site.name, gradient)
        return None, gradient if ctx.needs_input_grad[1] else None, None


class _Reads(TorchFunctionMode):
    """Runs products and lookups of a module's own weight by their rules, and everything else as it is."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self._site = site
        self._weight, self._bias = (site.module._parameters.get(name) for name in ("weight", "bias"))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if len(args) >= 2 and args[1] is self._weight and self._is_known:
            try:
                if func is functional.embedding and self._is_plain(args, kwargs):
                    return embedding(self._site, args[0])
                bias = args[2] if len(args) > 2 else kwargs.get("bias")
                if func is functional.linear and bias is self._bias:  # the rule adds the module's own
                    return _BY_ROWS(self._site, args[0])
            except NoRuleError as error:
                self._site.mark(error)
        return func(*args, **kwargs)

    @property
    def _is_known(self) -> bool:
        # As at the start of the batch: a checkpoint runs a module again, and has to do the same.
        return self._weight is not None and self._weight not in self._site.tape.slow_before

    def _is_plain(self, args: Any, kwargs: Any) -> bool:
        """Returns true for a lookup without ``max_norm`` and ``scale_grad_by_freq``, which the rule does not know."""
        others = {name for name, value in kwargs.items() if value and name not in ("padding_idx", "norm_type")}
        padding = getattr(self._site.module, "padding_idx", None)
        return len(args) == 2 and not others and kwargs.get("padding_idx") == padding


def check_alone(site: Site, args: Any, kwargs: Any) -> None:
    """Checks that a module computes for a batch what it computes for each example alone, before it first runs.

    Raises:
        UnsupportedLayerError: an output differs.
    """
    leaves, spec = tree_flatten((args, kwargs))
    size = site.tape.batch_size or 1
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim()]
    lengths = {size, *(len(t) for t in tensors if len(t) % size == 0 and stand_together(t.grad_fn, size, len(t)))}

    def run(part: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
        set_random_states(states)
        given = [part(leaf) if any(leaf is t for t in tensors) and len(leaf) in lengths else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(given, spec)
        found = tree_flatten(type(site.module).forward(site.module, *args, **kwargs))[0]
        return [value for value in found if isinstance(value, torch.Tensor)]

    states, before = random_states(), random_states_digest()
    if not any(len(t) in lengths for t in tensors):
        return
    try:
        with torch.no_grad():
            whole = run(torch.clone)
            if random_states_digest() != before:
                return
            alone = [run(lambda value, at=at: value.chunk(size)[at].clone()) for at in range(size)]  # type: ignore[misc]
    finally:
        set_random_states(states)
    for found, parts in zip(whole, zip(*alone, strict=True), strict=True):
        expected = torch.cat(parts) if found.dim() else found
        tolerance = 16 * (torch.finfo(found.dtype).eps if found.is_floating_point() else 0) ** 0.75
        if found.shape == expected.shape and not found.numel():
            continue
        first, second = (
            value.to(torch.complex128 if value.is_complex() else torch.float64) for value in (found, expected)
        )
        if found.shape != expected.shape or bool((first - second).abs().max() > tolerance * first.abs().max()):
            raise UnsupportedLayerError(
                f"module {site.name!r} ({type(site.module).__name__}) has trainable parameters and no rule, and its "
                "outputs for a batch are not those for each example alone: something in it looks at several examples. "
                "Take that out, or freeze its parameters"
            )


def run_watched(site: Site, args: Any, kwargs: Any) -> Any:
    """Runs a module without its rule. What it reads by known operations still goes by their rules."""
    weight = next(p for p in site.parameters.values() if p.requires_grad)

    def watched(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not value.dim():
            return value
        return applied(_Watched, site, value, weight) if len(value) == site.tape.batch_size else value

    args, kwargs = tree_map(watched, (args, kwargs))
    return by_reads(site, *args, **kwargs)


def by_reads(site: Site, *args: Any, **kwargs: Any) -> Any:
    """Runs a module whose weight is read by known operations, as subclasses of ``torch.nn.Embedding`` do."""
    with _Reads(site):
        return type(site.module).forward(site.module, *args, **kwargs)
