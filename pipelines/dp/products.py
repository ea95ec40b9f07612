"""Products of float32 numbers in float32, even if the process has asked torch for less precision."""

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
