"""Uses of a parameter in a forward pass, which hold its per-example gradients in factored form.

A use gives the squared norms of the gradients, the gradients of a few examples (for checks, and for parameters that are
used in several ways), and its share of the weighted sum. It never holds more than the layer's inputs and the gradients
of its outputs.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Final, Protocol

import torch

from pipelines.dp.grams import (
    CACHE_ELEMENTS,
    along,
    dense_squares,
    gram_is_cheaper,
    gram_squares,
    rows_squares,
    term_magnitudes,
)


@dataclass(frozen=True, kw_only=True)
class MemoryBudget:
    """Memory that the engine may use in addition to the model. It changes results by rounding only.

    Attributes:
        working_bytes: memory for temporary values (instantiated gradients, logits of a chunk). One example always
            fits, however large.
        kept_bytes: memory for gradients of logits that a fused head keeps until the clip factors are known. Others are
            computed a second time. The engine keeps the memory between batches.
    """

    working_bytes: int = 32 * 2**20
    kept_bytes: int = 512 * 2**20

    @classmethod
    @functools.cache
    def of(cls, device: torch.device) -> MemoryBudget:
        """Returns the default for a device: on a GPU, where small products leave it idle, shares of its memory."""
        if device.type != "cuda":
            return cls()
        total = torch.cuda.get_device_properties(device).total_memory
        return cls(working_bytes=total // 64, kept_bytes=total // 16)

    def __post_init__(self) -> None:
        if self.working_bytes < 1 or self.kept_bytes < 0:
            raise ValueError("working_bytes must be at least 1 and kept_bytes at least 0")


@dataclass
class Squares:
    """Squared norms of a use.

    Attributes:
        norms: (B,) float64 squared norms.
        terms: (B,) float64 sums of the squared norms of the added terms. If they are much larger than ``norms``, digits
            were lost. None if none can be lost.
        magnitudes: (B,) float64, see `Use.magnitudes`. None if the weighted sum adds the very gradients of the norms.
    """

    norms: torch.Tensor
    terms: torch.Tensor | None = None
    magnitudes: torch.Tensor | None = None


class Scratch:
    """A reused buffer for scaled copies: fresh memory costs more than the scaling."""

    def __init__(self) -> None:
        self._buffer = torch.empty(0)

    def scaled(self, values: torch.Tensor, factors: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
        """Returns ``values`` (B, T, n) times ``factors`` (B,), in ``dtype``, valid until the next call."""
        if factors is None:
            return values.to(dtype)
        if self._buffer.dtype != dtype or self._buffer.device != values.device or len(self._buffer) < values.numel():
            self._buffer = torch.empty(values.numel(), dtype=dtype, device=values.device)
        out = self._buffer[: values.numel()].view(values.shape)
        return torch.mul(values, factors.to(dtype)[:, None, None], out=out)


class Room:
    """Reused memory for one large value of each batch: fresh memory costs more than filling it."""

    def __init__(self) -> None:
        self._buffer = torch.empty(0)
        self._is_taken = False

    def take(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Returns uninitialised values, valid until `give_back`."""
        if self._is_taken:
            return torch.empty(shape, dtype=dtype, device=device)
        self._is_taken = True
        size = math.prod(shape)
        if self._buffer.dtype != dtype or self._buffer.device != device or len(self._buffer) < size:
            self._buffer = torch.empty(0)  # frees the old memory first
            self._buffer = torch.empty(size, dtype=dtype, device=device)
        return self._buffer[:size].view(shape)

    def give_back(self) -> None:
        """Makes the memory available for the next batch."""
        self._is_taken = False


class Sums:
    """The clipped sum of each parameter, float32 or float64."""

    def __init__(self) -> None:
        self._tensors: dict[torch.nn.Parameter, torch.Tensor] = {}

    @property
    def is_begun(self) -> bool:
        """True if anything was added."""
        return bool(self._tensors)

    def add_product(self, parameter: torch.nn.Parameter, left: torch.Tensor, right: torch.Tensor) -> None:
        """Adds ``left @ right``, as large as the parameter. The first is written directly, not added to zeros."""
        if parameter in self._tensors:
            self._tensors[parameter].view(left.shape[0], -1).addmm_(left, right)
        else:
            self._tensors[parameter] = torch.mm(left, right).view(parameter.shape)

    def of(self, parameter: torch.nn.Parameter) -> torch.Tensor:
        """Returns the sum so far, to be added to in place."""
        if parameter not in self._tensors:
            self._tensors[parameter] = torch.zeros(
                parameter.shape, dtype=compute_dtype(parameter), device=parameter.device
            )
        return self._tensors[parameter]


@dataclass(frozen=True)
class Direction:
    """K directions ``left_k right_k^T`` for the gradients of one parameter, of rank one to save memory.

    Attributes:
        left: (K, shape[0]) factors.
        right: (K, the rest of the shape, multiplied) factors.
    """

    left: torch.Tensor
    right: torch.Tensor


class Gradients(Protocol):
    """The gradients of one parameter for a batch of B examples."""

    @property
    def num_examples(self) -> int:
        """B."""

    def instantiate(self, start: int, stop: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Returns (stop - start, *shape) gradients of some examples, in ``dtype``; unset: float32 or float64."""


class Use(Gradients, Protocol):
    """A use of a parameter by a batch of B examples."""

    def squares(self, budget: MemoryBudget) -> Squares:
        """Returns the squared norms of the examples' gradients."""

    def project(self, direction: Direction) -> torch.Tensor:
        """Returns (B, K) float64, left_k^T gradient right_k of each example."""

    def magnitudes(self) -> torch.Tensor:
        """Returns (B,) float64, at least the sum of the norms of an example's terms in the weighted sum."""

    def add_weighted(
        self, sums: Sums, parameter: torch.nn.Parameter, factors: torch.Tensor | None, scratch: Scratch
    ) -> None:
        """Adds sum_i factors_i gradient_i to the parameter's sum, or without factors the plain sum."""


def compute_dtype(tensor: torch.Tensor) -> torch.dtype:
    """Returns the dtype of norms and sums: float64 for a float64 tensor, else float32."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def instantiated_squares(gradients: Gradients, num_elements: int, budget: MemoryBudget) -> torch.Tensor:
    """Returns (B,) float64 squared norms of instantiated gradients, as many examples at once as the budget allows."""
    step = max(1, budget.working_bytes // max(1, 8 * num_elements))
    parts = [
        dense_squares(gradients.instantiate(start, min(start + step, gradients.num_examples)))
        for start in range(0, gradients.num_examples, step)
    ]
    return torch.cat(parts)


_DENSE_OVER_FACTORS: Final = 1.7
"""Largest memory of kept gradients, as a share of the memory of their factors. The backward pass frees about as much
from the layers between."""


@dataclass
class OuterUse:
    """A use with gradient sum_t rows_t columns_t^T: weights of linear layers.

    Attributes:
        rows: (B, T, R).
        columns: (B, T, C).
    """

    rows: torch.Tensor
    columns: torch.Tensor

    @property
    def num_examples(self) -> int:
        """B."""
        return len(self.rows)

    def squares(self, budget: MemoryBudget) -> Squares:
        """Computes the squares by Gram matrices or by the gradients themselves, whichever is cheaper."""
        length, num_rows, num_columns = self.rows.shape[1], self.rows.shape[2], self.columns.shape[2]
        if not gram_is_cheaper(length, num_rows, num_columns):
            squares = instantiated_squares(self, num_rows * num_columns, budget)
            return Squares(squares, magnitudes=self.magnitudes())
        dtype = compute_dtype(self.rows)
        bytes_each = 8 * length * length + (0 if self.rows.dtype == dtype else 4 * length * (num_rows + num_columns))
        step = max(1, budget.working_bytes // bytes_each)
        parts = [
            gram_squares(self.rows[at : at + step].to(dtype), self.columns[at : at + step].to(dtype))
            for at in range(0, self.num_examples, step)
        ]
        return Squares(*(torch.cat(values) for values in zip(*parts, strict=True)))

    def magnitudes(self) -> torch.Tensor:
        """Returns sum_t |rows_t| |columns_t|."""
        dtype = compute_dtype(self.rows)
        squares = [torch.linalg.vector_norm(v, dim=2, dtype=dtype).double().square() for v in (self.rows, self.columns)]
        return term_magnitudes(squares[0], squares[1], self.rows.shape[2], self.columns.shape[2])

    def project(self, direction: Direction) -> torch.Tensor:
        """Returns sum_t <left_k, rows_t> <columns_t, right_k>."""
        found = along(direction.left, self.rows) * along(direction.right, self.columns)
        return found.sum(dim=2, dtype=torch.float64).t()

    def as_dense(self, budget: MemoryBudget) -> tuple[DenseUse, Squares] | None:
        """Returns the gradients themselves and their squared norms, or None if they take much more memory than factors.

        Their weighted sum reads them once, instead of a product over all positions. The product is only done earlier,
        and the norms are almost free.
        """
        num_examples, length, num_rows = self.rows.shape
        num_columns, dtype = self.columns.shape[2], compute_dtype(self.rows)
        factors = self.rows.element_size() * length * (num_rows + num_columns)
        if dtype.itemsize * num_rows * num_columns > _DENSE_OVER_FACTORS * factors:
            return None
        gradients = torch.empty(num_examples, num_rows, num_columns, dtype=dtype, device=self.rows.device)
        norms = torch.empty(num_examples, dtype=torch.float64, device=self.rows.device)
        if self.rows.device.type == "cpu":  # the norm is taken while the gradient is in the cache
            step = max(1, CACHE_ELEMENTS // max(1, num_rows * num_columns))
        else:
            step = max(1, budget.working_bytes // max(1, dtype.itemsize * length * (num_rows + num_columns)))
        for at in range(0, num_examples, step):
            part = self.instantiate(at, at + step, out=gradients[at : at + step])
            norms[at : at + step] = dense_squares(part)
        return DenseUse(gradients), Squares(norms)

    def instantiate(
        self, start: int, stop: int, *, dtype: torch.dtype | None = None, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns the (n, R, C) gradients, written to ``out`` if it is given."""
        dtype = dtype or compute_dtype(self.rows)
        rows, columns = self.rows[start:stop].to(dtype), self.columns[start:stop].to(dtype)
        return torch.bmm(rows.transpose(1, 2), columns, out=out)

    def add_weighted(
        self, sums: Sums, parameter: torch.nn.Parameter, factors: torch.Tensor | None, scratch: Scratch
    ) -> None:
        """Adds the weighted sum as one matrix product over all positions of all examples."""
        rows, columns, dtype = self.rows, self.columns, compute_dtype(parameter)
        if columns.shape[2] <= rows.shape[2]:  # the smaller side is scaled
            rows, columns = rows.to(dtype), scratch.scaled(columns, factors, dtype)
        else:
            rows, columns = scratch.scaled(rows, factors, dtype), columns.to(dtype)
        sums.add_product(parameter, rows.flatten(0, 1).t(), columns.flatten(0, 1))


@dataclass
class RowsUse:
    """A use with a gradient that is zero except in some rows: embeddings.

    Attributes:
        ids: (B, T) int64 row of each position.
        gradients: (B, T, D) gradient that each position adds to its row.
        num_rows: number of rows of the parameter.
    """

    ids: torch.Tensor
    gradients: torch.Tensor
    num_rows: int

    @property
    def num_examples(self) -> int:
        """B."""
        return len(self.ids)

    def squares(self, budget: MemoryBudget) -> Squares:
        """Computes the squares, after adding up rows that occur more than once in an example."""
        del budget
        gradients = self.gradients.to(compute_dtype(self.gradients))
        return Squares(rows_squares(self.ids, gradients, self.num_rows), magnitudes=self.magnitudes())

    def magnitudes(self) -> torch.Tensor:
        """Returns the sums of the norms of the positions' gradients."""
        dtype = compute_dtype(self.gradients)
        norms: torch.Tensor = torch.linalg.vector_norm(self.gradients, dim=2, dtype=dtype)
        return norms.double().sum(dim=1)

    def project(self, direction: Direction) -> torch.Tensor:
        """Returns sum_t left_k[id_t] <g_t, right_k>."""
        found = along(direction.right, self.gradients) * direction.left[:, self.ids]
        return found.sum(dim=2, dtype=torch.float64).t()

    def instantiate(self, start: int, stop: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Returns the (n, num_rows, D) gradients."""
        count, width = stop - start, self.gradients.shape[2]
        dtype = dtype or compute_dtype(self.gradients)
        flat = torch.zeros(count * self.num_rows, width, dtype=dtype, device=self.ids.device)
        examples = torch.arange(count, device=self.ids.device)[:, None] * self.num_rows
        flat.index_add_(
            0, (examples + self.ids[start:stop]).flatten(), self.gradients[start:stop].to(dtype).flatten(0, 1)
        )
        return flat.view(count, self.num_rows, width)

    def add_weighted(
        self, sums: Sums, parameter: torch.nn.Parameter, factors: torch.Tensor | None, scratch: Scratch
    ) -> None:
        """Adds each position's gradient to its row."""
        into = sums.of(parameter)
        gradients = scratch.scaled(self.gradients, factors, into.dtype)
        into.index_add_(0, self.ids.flatten(), gradients.flatten(0, 1))


@dataclass
class DenseUse:
    """A use that holds the gradients themselves, for small parameters: biases and the weights of norms.

    Attributes:
        gradients: (B, *shape) gradients.
    """

    gradients: torch.Tensor

    @property
    def num_examples(self) -> int:
        """B."""
        return len(self.gradients)

    def squares(self, budget: MemoryBudget) -> Squares:
        """Returns the squared norms of the gradients."""
        del budget
        return Squares(dense_squares(self.gradients.to(compute_dtype(self.gradients))))

    def project(self, direction: Direction) -> torch.Tensor:
        """Returns the projections of the gradients."""
        if direction.right.shape[1] == 1:
            return along(direction.left, self.gradients.flatten(1)).t().double()
        found = along(direction.right, self.gradients.reshape(self.num_examples, direction.left.shape[1], -1))
        return found.mul_(direction.left[:, None]).sum(dim=2, dtype=torch.float64).t()

    def magnitudes(self) -> torch.Tensor:
        """Returns the norms: each gradient is one term."""
        return dense_squares(self.gradients.to(compute_dtype(self.gradients))).sqrt()

    def instantiate(self, start: int, stop: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Returns the (n, *shape) gradients."""
        return self.gradients[start:stop].to(dtype or compute_dtype(self.gradients))

    def add_weighted(
        self, sums: Sums, parameter: torch.nn.Parameter, factors: torch.Tensor | None, scratch: Scratch
    ) -> None:
        """Adds the weighted sum over examples."""
        del scratch
        gradients = self.gradients.to(compute_dtype(parameter)).flatten(1)
        weights = gradients.new_ones(1, len(gradients)) if factors is None else factors.to(gradients.dtype)[None]
        sums.add_product(parameter, weights, gradients)


def dense_use(gradients: torch.Tensor) -> DenseUse:
    """Makes a `DenseUse` of (B, *shape), with all axes except the parameter's first as one, as in other uses."""
    if gradients.dim() == 1:  # a parameter that is one number
        return DenseUse(gradients[:, None])
    return DenseUse(gradients.flatten(2) if gradients.dim() > 3 else gradients)
