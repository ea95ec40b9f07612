"""Comparisons of the engine on a device with one example at a time: those of the tests, at sizes of a GPU.

Tolerances (`engine_models.compare`): 1e-10 in float64. Below, the engine has to come as near to float64 as plain
backpropagation of one example at a time in the same precision does, up to a factor of 2, for both round the same
products in another order; and never nearer than the precision's own floor: 1e-5 in float32, twice the unit roundoff
under TF32 (2**-10) and bfloat16 (2**-8), where one rounding of a gradient alone makes as much. An example's share may
exceed its bound by 1e-6 in every precision but float64 (1e-12): norm and sum are float32 products of the same numbers.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any, Final

import torch
from common import gpt2_config
from engine_layers import IMAGE_LAYERS, LAYERS, drawn_layer
from engine_models import SMALL_BUDGETS, Comparison, Mean, TinyLM, compare, fused, seeded, smooth_losses
from torch import nn

from pipelines.dp.language import causal_lm_losses
from pipelines.dp.noise import add_noise

from .cells import Place

DTYPES: Final = {"float64": torch.float64, "float32": torch.float32, "tf32": torch.float32, "bfloat16": torch.float32}
TF32_ROUNDOFF: Final = 2.0**-10
MODES: Final = ("book_keeping", "two_pass")


def layers(place: Place, precision: str) -> dict[str, Any]:
    """Compares every layer with a rule, in both modes, with room for temporary values and without."""
    size, length, width = (3, 5, 4) if place.tiny else (6, 140, 24)
    found: dict[str, Comparison] = {}
    ways = [(mode, budget) for mode in MODES for budget in SMALL_BUDGETS[:2]]
    for number, name in enumerate((*LAYERS, *IMAGE_LAYERS)):
        # Its float64 is float32 inside: nothing to compare with.
        if name == "rms norm of llama" and precision == "float64":
            continue
        for way in [number % len(ways)] if place.tiny else range(len(ways)):
            mode, budget = ways[way]
            with seeded(1):
                layer, x = drawn_layer(name, size, length, width)
            found[f"{name}, {mode}, way {way}"] = _compared(
                place, Mean(layer), smooth_losses_of_x, {"x": x}, precision, mode=mode, budget=budget
            )
    for clipping, tied in (("flat", True), ("automatic", False), ("flat", False), ("automatic", True))[
        : 2 if place.tiny else 4
    ]:
        with seeded(2):
            model, ids = TinyLM(vocab=97, width=16, tied=tied), torch.randint(0, 97, (size, length))
        batch = {"ids": ids, "labels": ids.roll(-1, 1)}
        found[f"fused head, tied {tied}, {clipping}"] = _compared(
            place, model, fused, batch, precision, clipping=clipping
        )
    return _figures(found)


def models(place: Place, precision: str) -> dict[str, Any]:
    """Compares two blocks of the papers' models at their width and length; initial weights, one example padded."""
    found: dict[str, Comparison] = {}
    for name, model, length in _models(tiny=place.tiny):
        with seeded(3):
            ids = torch.randint(2, model.config.vocab_size, (3, length))
        labels = ids.clone()
        labels[1, length // 2 :] = -100
        for mode in MODES[:1] if place.tiny else MODES:
            found[f"{name}, {mode}"] = _compared(
                place, model, _losses_of(model), {"ids": ids, "labels": labels}, precision, mode=mode
            )
    return _figures(found)


def _models(*, tiny: bool) -> Iterator[tuple[str, Any, int]]:
    from transformers import (
        GPT2LMHeadModel,
        LlamaConfig,
        LlamaForCausalLM,
        RobertaConfig,
        RobertaForSequenceClassification,
    )

    width, heads, vocab, length = (16, 2, 61, 12) if tiny else (768, 12, 50_257, 512)
    for tied in (True, False):
        with seeded(1):
            sizes = {"vocab": vocab, "length": length, "width": width, "layers": 2, "heads": heads}
            config = gpt2_config(**sizes, tie_word_embeddings=tied)
            yield f"GPT-2, {'tied' if tied else 'untied'}", GPT2LMHeadModel(config).train(), length
    with seeded(1):
        llama = LlamaConfig(
            vocab_size=vocab, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=2,
            num_attention_heads=heads, num_key_value_heads=heads // 2, max_position_embeddings=length,
            tie_word_embeddings=True, pad_token_id=None, bos_token_id=0, eos_token_id=0,
        )  # fmt: skip
        yield "Llama", LlamaForCausalLM(llama).train(), length
    with seeded(1):
        roberta = RobertaConfig(
            vocab_size=vocab, hidden_size=width, num_hidden_layers=2, num_attention_heads=heads,
            intermediate_size=4 * width, max_position_embeddings=length + 2, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, num_labels=3, pad_token_id=1, type_vocab_size=1,
        )  # fmt: skip
        yield "RoBERTa, classifier", RobertaForSequenceClassification(roberta).train(), length // 2


def _losses_of(model: Any) -> Any:
    def causal(net: Any, batch: Any) -> torch.Tensor:
        return causal_lm_losses(net, batch["ids"], batch["labels"])

    def classes(net: Any, batch: Any) -> torch.Tensor:
        logits = net(input_ids=batch["ids"], attention_mask=(batch["labels"] != -100).long()).logits
        dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
        return nn.functional.cross_entropy(logits.to(dtype), batch["ids"][:, 0] % 3, reduction="none")

    return classes if "Classification" in type(model).__name__ else causal


def smooth_losses_of_x(model: Any, batch: Any) -> torch.Tensor:
    """Returns (B,) losses that depend on every output."""
    return smooth_losses(model, batch["x"])


def _compared(place: Place, model: Any, losses: Any, batch: Any, precision: str, **settings: Any) -> Comparison:
    with _precision(precision):
        return compare(
            model.to(place.device),
            losses,
            {name: rows.to(place.device) for name, rows in batch.items()},
            dtype=DTYPES[precision],
            autocast=torch.bfloat16 if precision == "bfloat16" else None,
            floor=TF32_ROUNDOFF if precision == "tf32" else None,
            **settings,
        )


@contextlib.contextmanager
def _precision(name: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = name == "tf32"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def _figures(found: dict[str, Comparison]) -> dict[str, Any]:
    def worst(value: Any) -> float:
        return max(value(one) for one in found.values())

    return {
        "passed": all(one.is_exact for one in found.values()),
        "comparisons": len(found),
        "not_exact": [name for name, one in found.items() if not one.is_exact],
        "error_over_tolerance": worst(lambda one: one.error / one.tolerance),
        "norm_error_over_tolerance": worst(lambda one: one.norm_error / one.tolerance),
        "error": worst(lambda one: one.error),
        "norm_error": worst(lambda one: one.norm_error),
        "tolerance": worst(lambda one: one.tolerance),
        "share_over_bound_less_1": worst(lambda one: one.excess),
        # A bound that is off by a tenth has to be seen, or the comparison says nothing.
        "would_see_a_wrong_bound": sum(one.wrong_bound_error > one.tolerance for one in found.values()),
    }


def noise(place: Place) -> dict[str, Any]:
    """Tests the noise of `add_noise` on the device: Kolmogorov and Smirnov's distance, and correlations of two draws.

    The limit on the distance is that of 1 in 10^6 for so many numbers; noise of 1.01 times the deviation is beyond the
    limit at the size of a GPU, so that the comparison could fail.
    """
    import numpy as np

    count = 200_000 if place.tiny else 8_000_000
    rng = np.random.Generator(np.random.Philox(key=7))

    def drawn() -> torch.Tensor:
        tensors = [torch.zeros(count // 2, device=place.device), torch.zeros(count - count // 2, device=place.device)]
        add_noise(tensors, 2.0, rng, divisor=4.0)
        return torch.cat(tensors).double() * 2

    def distance(values: torch.Tensor) -> float:
        ordered = torch.special.ndtr(values.sort().values)
        steps = torch.arange(count + 1, device=values.device, dtype=torch.float64) / count
        return float(torch.maximum((ordered - steps[:-1]).abs(), (steps[1:] - ordered).abs()).max())

    first, second = drawn(), drawn()
    limit = math.sqrt(math.log(2e6) / (2 * count))  # Massart 1990: P(D > d) <= 2 exp(-2 n d^2)
    correlations = {
        "of_two_steps": float((first * second).mean()),
        "of_two_tensors": float((first[: count // 2] * first[count - count // 2 :]).mean()),
        "of_neighbours": float((first[1:] * first[:-1]).mean()),
    }
    largest = max(abs(value) for value in correlations.values())
    found, wider = distance(first), distance(first * 1.01)
    return {
        "passed": found <= limit and distance(second) <= limit and largest <= 5 / math.sqrt(count // 2),
        "numbers": count,
        "distance": found,
        "limit": limit,
        "distance_of_noise_1_percent_wider": wider,
        "would_see_1_percent": wider > limit,
        "correlations": correlations,
        "largest_number": float(first.abs().max()),
    }
