"""Products of float32 numbers in float32, even if the process has asked torch for less precision; and of bfloat16
numbers with a float32 result."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import torch

_CUDNN: Final[Any] = torch.backends.cudnn
_KINDS: Final = tuple(
    getattr(backend, kind)
    for backend, kinds in (
        (torch.backends.cuda, ("matmul",)),
        (_CUDNN, ("conv", "rnn")),
        (torch.backends.mkldnn, ("matmul", "conv", "rnn")),
    )
    for kind in kinds
    if hasattr(getattr(backend, kind, None), "fp32_precision")
)
"""Kinds of products with a precision of their own, since torch 2.9. The older switches are set first: torch refuses to
compute if both were set and contradict each other."""


@contextlib.contextmanager
def full_products() -> Iterator[None]:
    """Runs the body with float32 products rounded as float32, and restores all settings afterwards.

    ``torch.set_float32_matmul_precision("high")``, and cuDNN's convolutions by default, round factors to TF32 or
    bfloat16 first, by up to 2**-9. A norm and the sum that it bounds are products of the same numbers in another order,
    so they would differ by as much.
    """
    matmul, allows_tf32 = _asked(torch.get_float32_matmul_precision), _asked(lambda: bool(_CUDNN.allow_tf32))
    if lowered := matmul not in (None, "highest"):
        torch.set_float32_matmul_precision("highest")
    if allows_tf32:
        _CUDNN.allow_tf32 = False
    changed = [(kind, kind.fp32_precision) for kind in _KINDS if kind.fp32_precision in ("tf32", "bf16")]
    for kind, _ in changed:
        kind.fp32_precision = "ieee"
    try:
        yield
    finally:
        for kind, precision in changed:
            kind.fp32_precision = precision
        if allows_tf32:
            _CUDNN.allow_tf32 = True
        if lowered:
            torch.set_float32_matmul_precision(matmul)


def _asked(switch: Any) -> Any:
    """Returns the value of an older switch, or None if newer switches have replaced it."""
    try:
        return switch()
    except RuntimeError:
        return None


def wide_mm(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Returns the float32 product of (M, K) and (K, N) bfloat16 matrices: on tensor cores if they are on a GPU."""
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32, out=out)
    return torch.mm(left.float(), right.float(), out=out)


def wide_bmm(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Returns the float32 products of (B, M, K) and (B, K, N) bfloat16 matrices; see `wide_mm`."""
    if left.is_cuda:
        return torch.bmm(left, right, out_dtype=torch.float32, out=out)
    return torch.bmm(left.float(), right.float(), out=out)


def add_wide_mm(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Adds the product of (M, K) and (K, N) bfloat16 matrices to a float32 one, in place; see `wide_mm`."""
    if left.is_cuda:
        torch.addmm(total, left, right, out_dtype=torch.float32, out=total)
    else:
        total.addmm_(left.float(), right.float())
