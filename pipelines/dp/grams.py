"""Squared norms of per-example matrices that are sums of outer products.

An example's gradient of a linear layer is G = sum_t r_t c_t^T, with r (T, R) and c (T, C). Its squared norm is
sum_{s,t} <r_s, r_t> <c_s, c_t> (Li et al. 2022, section 4.2, equation 2): T^2 (R + C) products instead of T R C.
"""

from __future__ import annotations

from typing import Final

import torch

CACHE_ELEMENTS: Final = 2**18
"""Numbers that a pass over memory on a CPU takes at a time."""

_BLOCK: Final = 32
_MAX_BLOCKS: Final = 4
_LONGEST: Final = 768
_PART: Final = 256
"""Longest sums of squares that torch makes, and the length of the parts of longer ones. If all squares are equal, their
roundings on a CPU have one sign, and a norm is off by 7e-7 at 768 numbers, 3e-7 at 256, and 3e-5 at 50,000."""

_SHORT: Final = 16
"""Longest examples whose Gram matrices are computed in float64. BLAS adds up products of so few rows in one chain: a
product of 50,257 equal numbers was off by 2e-4 (8 rows), and with 12 rows or more by 3e-6."""

_FLOOR: Final = 2.0**-90
"""Number added to squares for each coordinate. Underflow in float32 then takes less than 2**-36 of the squared
magnitude from a squared norm."""


def gram_squares(rows: torch.Tensor, columns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the squared norms of sum_t rows_t columns_t^T.

    Gram matrices are symmetric: only blocks on and below the diagonal are computed.

    Args:
        rows: (B, T, R).
        columns: (B, T, C), of the same dtype.

    Returns:
        (B,) float64 squared norms, (B,) float64 sums of |r_t|^2 |c_t|^2, and (B,) float64 `term_magnitudes`. If the
        first is much smaller than the second, terms have cancelled and the first has lost digits.
    """
    num_examples, length = rows.shape[0], rows.shape[1]
    if is_short(length) and rows.dtype != torch.float64:
        step = max(1, CACHE_ELEMENTS // (max(1, length) * (rows.shape[2] + columns.shape[2])))
        parts = [
            gram_squares(rows[at : at + step].double(), columns[at : at + step].double())
            for at in range(0, max(1, num_examples), step)
        ]
        first, second, third = (torch.cat(found) for found in zip(*parts, strict=True))
        return first, second, third
    squares = torch.zeros(num_examples, dtype=torch.float64, device=rows.device)
    diagonal, magnitudes = torch.zeros_like(squares), torch.zeros_like(squares)
    # On a GPU one large product takes less time than several small ones.
    num_blocks = 1 if rows.is_cuda else max(1, min(_MAX_BLOCKS, length // _BLOCK))
    for block in range(num_blocks):
        start, stop = length * block // num_blocks, length * (block + 1) // num_blocks
        products = torch.bmm(rows[:, start:stop], rows[:, :stop].transpose(1, 2))
        row_squares = products[:, :, start:].diagonal(dim1=1, dim2=2).to(torch.float64, copy=True)
        column_products = torch.bmm(columns[:, start:stop], columns[:, :stop].transpose(1, 2))
        column_squares = column_products[:, :, start:].diagonal(dim1=1, dim2=2).double()
        products *= column_products
        # products: (B, stop - start, stop). Entries below the diagonal block count twice, for their mirror images.
        if start:
            squares += 2 * products[:, :, :start].sum(dim=2).double().sum(dim=1)
        squares += products[:, :, start:].sum(dim=2).double().sum(dim=1)
        diagonal += (row_squares * column_squares).sum(dim=1)
        magnitudes += term_magnitudes(row_squares, column_squares, rows.shape[2], columns.shape[2])
    return squares, diagonal, magnitudes


def is_short(length: int) -> bool:
    """Returns true if products of examples with so few positions are computed in float64."""
    return length <= _SHORT


def term_magnitudes(
    row_squares: torch.Tensor, column_squares: torch.Tensor, num_rows: int, num_columns: int
) -> torch.Tensor:
    """Returns (B,) float64, at least the sums of |r_t| |c_t|, even if squares in float32 underflowed.

    Args:
        row_squares: (B, T) squared norms of r_t.
        column_squares: (B, T) squared norms of c_t.
        num_rows: number of coordinates of r_t.
        num_columns: number of coordinates of c_t.
    """
    row_norms = row_squares.double().add(num_rows * _FLOOR).sqrt_()
    return row_norms.mul_(column_squares.double().add(num_columns * _FLOOR).sqrt_()).sum(dim=1)


def dense_squares(gradients: torch.Tensor) -> torch.Tensor:
    """Returns (B,) float64 squared norms of gradients (B, ...). Long sums are joined in float64."""
    width = gradients.shape[1:].numel() if gradients.dim() < 3 else gradients.shape[-1]
    is_long = width > _LONGEST and gradients.dtype == torch.float32 and gradients.device.type == "cpu"
    if gradients.dim() < 3 and not is_long:  # one sum: the few operations that it takes are most of its cost
        whole: torch.Tensor = torch.linalg.vector_norm(gradients.reshape(gradients.shape[0], width), dim=1)
        return whole.double().square_()
    rows = gradients.flatten(1)[:, None] if gradients.dim() < 3 else gradients.flatten(1, -2)
    cut = width - width % _PART if is_long else 0
    norms: torch.Tensor = torch.linalg.vector_norm(rows[:, :, cut:], dim=2)
    squares = norms.double().square_().sum(dim=1)
    if cut:
        parts: torch.Tensor = torch.linalg.vector_norm(
            rows[:, :, :cut].view(*rows.shape[:2], cut // _PART, _PART), dim=3
        )
        squares += parts.double().square_().sum(dim=(1, 2))
    return squares


def rows_squares(ids: torch.Tensor, gradients: torch.Tensor, num_rows: int) -> torch.Tensor:
    """Returns the squared norms of gradients that positions add to rows, where positions may share a row.

    Args:
        ids: (B, T) row of each position.
        gradients: (B, T, D) gradient of each position.
        num_rows: number of rows.

    Returns:
        (B,) float64.
    """
    flat = gradients.flatten(0, 1)
    examples = torch.arange(len(ids), device=ids.device)[:, None]
    # Numbers the rows as torch.unique would, which waits for a GPU to count them. The last sums stay zero instead.
    keys, order = (examples * num_rows + ids).flatten().sort(stable=True)
    number = torch.zeros_like(keys)
    number[1:] = (keys[1:] != keys[:-1]).cumsum(0)
    summed = torch.zeros_like(flat).index_add_(0, torch.empty_like(keys).scatter_(0, order, number), flat)
    squares = torch.zeros(len(ids), dtype=torch.float64, device=flat.device)
    owners = torch.zeros_like(keys).scatter_(0, number, keys // num_rows)
    return squares.index_add_(0, owners, dense_squares(summed))


def gram_is_cheaper(length: int, num_rows: int, num_columns: int) -> bool:
    """Returns true if the Gram form costs less than the gradient itself.

    Counts products. 5/8 of a Gram matrix are computed (four blocks). A gradient is also written and read once.
    """
    return 0.7 * length * length * (num_rows + num_columns) < (length + 8) * num_rows * num_columns


def along(directions: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Returns (K, ...) inner products of (K, n) directions with ``values`` (..., n)."""
    flat = values.reshape(-1, values.shape[-1]).to(directions.dtype)
    return torch.mm(directions, flat.t()).view(len(directions), *values.shape[:-1])  # in this order: 4 times as fast
