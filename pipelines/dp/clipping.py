"""Clip factors: the share of each example's gradient that enters the sum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import torch

from pipelines.errors import ConfigError

ClippingName = Literal["flat", "automatic", "per_layer"]

AUTOMATIC_STABILITY: Final = 0.01
"""gamma of automatic clipping (Bu et al. 2023, "Automatic clipping", section 4.2)."""

LEAST_MAX_GRAD_NORM: Final = 1e-12
MOST_MAX_GRAD_NORM: Final = 1e12

_SLACK: Final = {torch.float32: 1.5 * 2.0**-17, torch.float64: 1.5 * 2.0**-47}
"""Taken off a clipped example's factor, so that rounding in norms and sums does not lift it above the bound. Roundings
of equal numbers all point the same way. A chain of n float32 additions is then off by at most n * 1.5e-8. The longest
chains of MKL have 192 or 384 numbers, as the processor has it: 5.7e-6 for a norm, and as much for a sum."""


def check_max_grad_norm(value: float) -> None:
    """Raises ValueError if a clipping norm is no finite number, or its square would underflow."""
    if not LEAST_MAX_GRAD_NORM <= value < math.inf:
        raise ValueError(
            f"max_grad_norm must be a finite number of at least {LEAST_MAX_GRAD_NORM:g}, not {value}: "
            "squares of smaller norms underflow"
        )


def within_limits(value: float) -> float:
    """Returns a clipping norm, moved to the nearer limit. Raises ValueError if it is not a number."""
    if math.isnan(value):
        raise ValueError("max_grad_norm must not be NaN")
    return min(max(value, LEAST_MAX_GRAD_NORM), MOST_MAX_GRAD_NORM)


def clip_factors(norms: torch.Tensor, max_grad_norm: float, clipping: ClippingName, dtype: torch.dtype) -> torch.Tensor:
    """Returns the clip factor of each example.

    Formal guarantee: factor * norm <= max_grad_norm, for either clipping.

        * ``flat`` (Abadi et al. 2016, Algorithm 1): min(1, C / norm). A norm of at most C, 0 included, has factor 1.
        * ``automatic`` (Bu et al. 2023, equation 4.2, AUTO-S, times C): C / (norm + 0.01). Every example is scaled.
          An example with a zero gradient still adds exactly 0.

    Args:
        norms: (B,) float64, finite.
        max_grad_norm: C, above 0.
        clipping: name of one of the two.
        dtype: dtype of the sums, float32 or float64.

    Returns:
        (B,) float64.
    """
    limit = max_grad_norm * (1 - _SLACK[dtype])
    if clipping == "flat":
        return torch.where(norms > limit, limit / norms.clamp(min=limit), 1.0)
    if clipping == "automatic":
        return limit / (norms + AUTOMATIC_STABILITY)
    raise ValueError(f"unknown clipping {clipping!r}; known are flat, automatic and per_layer")


@dataclass(frozen=True)
class Factors:
    """Factors that multiply the gradients of examples.

    Attributes:
        whole: (B,) float64; the least of `layers`, if set.
        layers: (B,) float64 for each parameter; None if all parameters share `whole`.
    """

    whole: torch.Tensor
    layers: Mapping[torch.nn.Parameter, torch.Tensor] | None = None

    def of(self, parameter: torch.nn.Parameter) -> torch.Tensor:
        """Returns the (B,) factors of one parameter; the least ones if no norm of it is known."""
        return self.whole if self.layers is None else self.layers.get(parameter, self.whole)

    def without(self, left_out: torch.Tensor) -> Factors:
        """Returns the factors with 0 for the examples in a (B,) mask."""
        layers = None if self.layers is None else {p: f.masked_fill(left_out, 0) for p, f in self.layers.items()}
        return Factors(self.whole.masked_fill(left_out, 0), layers)

    def magnitudes(self, whole: torch.Tensor, layers: Mapping[torch.nn.Parameter, torch.Tensor]) -> torch.Tensor:
        """Returns the (B,) magnitudes (`pipelines.dp.uses.Use.magnitudes`) of the terms that enter the sum."""
        if self.layers is None:
            return self.whole * whole
        squares = [(self.layers[p] * m).square() for p, m in layers.items()]
        return torch.stack([torch.zeros_like(whole), *squares]).sum(dim=0).sqrt()


def factors_of(
    norms: torch.Tensor,
    layer_norms: Mapping[torch.nn.Parameter, torch.Tensor],
    num_layers: int,
    max_grad_norm: float,
    clipping: ClippingName,
    dtype: torch.dtype,
) -> Factors:
    """Returns the factors of a batch.

    ``per_layer`` (McMahan et al. 2018, "Learning differentially private recurrent language models", section 3) clips
    the gradient of each of L parameters to C / sqrt(L). The squares of these bounds add up to C squared, so what an
    example adds to all sums has norm at most C, as with flat clipping, and noise and epsilon are the same.

    Args:
        norms: (B,) float64 norms of the whole gradients.
        layer_norms: (B,) float64 norms of each parameter's gradients.
        num_layers: L, the number of trainable parameters; a shared parameter counts once.
        max_grad_norm: C.
        clipping: kind of clipping.
        dtype: dtype of the sums.
    """
    if clipping != "per_layer":
        return Factors(clip_factors(norms, max_grad_norm, clipping, dtype))
    bound = max_grad_norm / math.sqrt(num_layers)
    layers = {p: clip_factors(found, bound, "flat", dtype) for p, found in layer_norms.items()}
    least = torch.stack([torch.ones_like(norms), *layers.values()]).amin(dim=0)
    return Factors(least, layers)


@dataclass(frozen=True, kw_only=True)
class AdaptiveClipping:
    """A clipping norm that follows a quantile of the gradient norms.

    Andrew et al. 2021, "Differentially private learning with adaptive clipping", Algorithm 1.

    Each step also counts, with noise, which examples were within the norm C, and sets C to
    C exp(-learning_rate (share - quantile)).

    Formal guarantee (their Theorem 1): with noise multiplier z and noise of standard deviation s on the sum of the
    examples' bits, each less 1/2, the sum of gradients has noise of (z**-2 - (2 s)**-2)**(-1/2) times C. An example
    then moves gradients and count, each over its noise, by a vector of norm at most 1 / z: a step is the Gaussian
    mechanism with multiplier z, and its epsilon is that of a fixed norm, for either relation. C follows from what was
    released.

    Attributes:
        quantile: target share of the examples within the norm.
        learning_rate: rate of change of the norm in each step, on a logarithmic scale.
        count_noise: s, the noise on the count, in examples; unset: a twentieth of the expected batch, as in the paper.
    """

    quantile: float = 0.5
    learning_rate: float = 0.2
    count_noise: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise ConfigError(f"quantile must be strictly between 0 and 1, not {self.quantile}")
        if not (0 < self.learning_rate < math.inf):
            raise ConfigError(f"learning_rate of the clipping norm must be above 0, not {self.learning_rate}")
        if self.count_noise is not None and not (0 < self.count_noise < math.inf):
            raise ConfigError(f"count_noise must be above 0, not {self.count_noise}")

    def noise_on_count(self, expected_batch_size: float) -> float:
        """Returns s, in examples."""
        return expected_batch_size / 20 if self.count_noise is None else self.count_noise

    def noise_on_gradients(self, noise_multiplier: float, expected_batch_size: float) -> float:
        """Returns the multiplier of the noise on the sum of gradients, larger than ``noise_multiplier``.

        Raises:
            ConfigError: the count alone would cost more than the whole step may.
        """
        if noise_multiplier == 0:
            return 0.0
        count_noise = self.noise_on_count(expected_batch_size)
        left = noise_multiplier**-2 - (2 * count_noise) ** -2
        if left <= 0:
            raise ConfigError(
                f"with noise of {count_noise:g} examples on the count, the count alone costs more than a step with "
                f"noise_multiplier {noise_multiplier:g} may. Set AdaptiveClipping(count_noise=...) well above "
                f"{noise_multiplier / 2:g}, or take larger batches"
            )
        return 1 / math.sqrt(left)

    def next_norm(self, max_grad_norm: float, noisy_count: float, expected_batch_size: float) -> float:
        """Returns the clipping norm after a step.

        Args:
            max_grad_norm: C.
            noisy_count: noisy sum of the examples' bits, each less 1/2.
            expected_batch_size: records in an average step.
        """
        share = min(1.0, max(0.0, noisy_count / expected_batch_size + 0.5))
        return max_grad_norm * math.exp(-self.learning_rate * (share - self.quantile))
