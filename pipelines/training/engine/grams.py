"""Squared norms of per-example matrices that are sums of outer products.

An example's gradient of a linear layer is G = sum_t r_t c_t^T, with r (T, R) and c (T, C). Its squared norm is
sum_{s,t} <r_s, r_t> <c_s, c_t> (Li et al. 2022, section 4.2, equation 2): T^2 (R + C) products instead of T R C.
"""

from __future__ import annotations

from typing import Final

import torch

_BLOCK: Final = 32
_MAX_BLOCKS: Final = 4


def gram_squares(rows: torch.Tensor, columns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The squared norms of sum_t rows_t columns_t^T.

    Gram matrices are symmetric, so only blocks on and below the diagonal are computed.

    Args:
        rows: (B, T, R).
        columns: (B, T, C), of the same dtype.

    Returns:
        (B,) float64 squared norms, and (B,) float64 sums of |r_t|^2 |c_t|^2. Where the first is much smaller than
        the second, terms have cancelled and the first has lost digits.
    """
    num_examples, length = rows.shape[0], rows.shape[1]
    squares = torch.zeros(num_examples, dtype=torch.float64, device=rows.device)
    diagonal = torch.zeros_like(squares)
    num_blocks = max(1, min(_MAX_BLOCKS, length // _BLOCK))
    for block in range(num_blocks):
        start, stop = length * block // num_blocks, length * (block + 1) // num_blocks
        products = torch.bmm(rows[:, start:stop], rows[:, :stop].transpose(1, 2))
        products *= torch.bmm(columns[:, start:stop], columns[:, :stop].transpose(1, 2))
        # products: (B, stop - start, stop). What lies below the diagonal block stands for its mirror image too.
        if start:
            squares += 2 * products[:, :, :start].sum(dim=2).double().sum(dim=1)
        squares += products[:, :, start:].sum(dim=2).double().sum(dim=1)
        diagonal += products[:, :, start:].diagonal(dim1=1, dim2=2).double().sum(dim=1)
    return squares, diagonal


def dense_squares(gradients: torch.Tensor) -> torch.Tensor:
    """(B,) float64 squared norms of gradients (B, ...). Long sums are joined in float64."""
    if gradients.dim() < 3:
        gradients = gradients.reshape(len(gradients), 1, -1)
    norms: torch.Tensor = torch.linalg.vector_norm(gradients.flatten(1, -2), dim=2)
    return norms.double().square().sum(dim=1)


def gram_is_cheaper(length: int, num_rows: int, num_columns: int) -> bool:
    """Whether the Gram form costs less than the gradient itself.

    Products are counted; of a Gram matrix 5/8 are computed (four blocks). A gradient is also written and read once.
    """
    return 0.7 * length * length * (num_rows + num_columns) < (length + 8) * num_rows * num_columns
