"""Rows of a layer's input that are positions of examples, (B * T, n), as rows of (B, T, n).

Some models flatten the positions of a batch before a layer (OPT, mixtures of experts). A view of these rows as
(B, T, n) is right only if the rows of one example stand together. The graph of the input tells: the rows come from a
tensor whose first axis has B entries, by a reshape, followed by operations that keep each row in its place. Anything
else (a transposition, an index, a mask that packs tokens) is no proof, and the layer is then not run by its rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from pipelines.dp.errors import NoRuleError
from pipelines.dp.layers import Site

_RESHAPES: Final = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0")
_ROW_BY_ROW: Final = frozenset(
    f"{name}Backward0"
    for name in (
        "Relu", "Gelu", "Silu", "Tanh", "Sigmoid", "Mul", "Add", "Sub", "Div", "Neg", "Pow", "NativeDropout",
        "ToCopy", "Clone",
    )
)  # fmt: skip
"""Operations that keep rows in place, in all of their inputs."""
_ROWS_OF: Final = {"AddmmBackward0": 1, "MmBackward0": 0}
"""Products, by the number of the input whose rows they keep."""


def by_rows(rule: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Makes a rule for (B, ..., n) take (B * T, ..., n) too.

    Raises:
        NoRuleError: the first axis is another, or nothing shows that the rows of an example stand together.
    """

    def run(site: Site, x: torch.Tensor) -> torch.Tensor:
        size = site.tape.batch_size
        if x.dim() < 2:
            raise NoRuleError(f"layer {site.name!r} is given one vector for all examples")
        if not size or len(x) == size or len(x) % size or not stand_together(x.grad_fn, size, len(x)):
            return rule(site, x)
        out = rule(site, x.reshape(size, -1, *x.shape[1:]))
        return out.reshape(len(x), *out.shape[2:])

    return run


def stand_together(node: Any, size: int, num_rows: int) -> bool:
    """Returns true if the graph of a value with ``num_rows`` rows shows that each example's rows stand together."""
    if size == 1:
        return True
    todo, seen = [node], set()
    while todo:
        node = todo.pop()
        if node is None:
            return False
        if node in seen:
            continue
        seen.add(node)
        name = node.name()
        before = [following for following, _ in node.next_functions]
        if name in _RESHAPES:
            if node._saved_self_sym_sizes[0] == size and not _is_turned(before):
                continue
            if node._saved_self_sym_sizes[0] != num_rows:
                return False
            todo += before
        elif name in _ROW_BY_ROW:
            known = [following for following in before if following is not None]
            if not known:
                return False
            todo += known
        elif name in _ROWS_OF:
            todo.append(before[_ROWS_OF[name]])
        else:
            return False
    return True


def _is_turned(nodes: list[Any]) -> bool:
    """Returns true for a value from a turn of axes: its first axis may be that of as many positions."""
    seen = set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        name = node.name()
        if name in ("TransposeBackward0", "PermuteBackward0", "TBackward0", "NumpyTBackward0"):
            return True
        if name in _ROW_BY_ROW:
            nodes = [*nodes, *(following for following, _ in node.next_functions)]
    return False
