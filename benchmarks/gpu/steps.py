"""A training step at the papers' shapes: tokens a second and peak memory, batch after batch, up to the largest."""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import replace
from typing import Any, Final

import torch
from dp_contenders import CHECK_SHAPES, EXACT, PRIVATE, SHAPES, Shape, Terms, build, make, update_error

from .cells import Place

ROUNDS: Final = 3
LARGEST: Final = 4_096
MAX_SECONDS: Final = 20.0
"""Time of a cell, after which no further batch is begun."""


def largest(place: Place, shape: str, contender: str, dtype: str) -> dict[str, Any]:
    """Doubles the batch until it no longer fits; a step is warmed up, then the median of three is taken.

    Raises:
        ValueError: our step is not the sum of clipped gradients.
    """
    chosen = SHAPES[shape]
    error = None
    if contender in PRIVATE:
        error = update_error(contender, CHECK_SHAPES[chosen.kind], Terms(device=place.device))
        if contender.startswith("ours") and error > EXACT:
            raise ValueError(f"{contender} is wrong by {error}: nothing is measured")
    terms = Terms(device=place.device, dtype=dtype)
    most = 2 if place.tiny else LARGEST
    chosen = replace(CHECK_SHAPES[chosen.kind], batch=1) if place.tiny else replace(chosen, batch=1)
    began, rows, end = time.monotonic(), [], "the largest that was tried"
    while chosen.batch <= most:
        try:
            rows.append(_measured(contender, chosen, terms))
        except torch.OutOfMemoryError:
            end = "out of memory"
            break
        if time.monotonic() - began > MAX_SECONDS:
            end = "time"
            break
        chosen = replace(chosen, batch=2 * chosen.batch)
    return {
        "relative_error_at_a_small_shape": error,
        "largest_batch": rows[-1]["batch"] if rows else 0,
        "ended_by": end,
        "batches": rows,
        "best_tokens_per_second": max((row["tokens_per_second"] for row in rows), default=0),
    }


def _measured(contender: str, shape: Shape, terms: Terms) -> dict[str, Any]:
    """Measures a batch on a model of its own, because an engine cannot release a model that it wrapped."""
    is_on_gpu = terms.device == "cuda"
    gc.collect()
    if is_on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    model = build(shape, contender, terms)
    ids = torch.randint(0, shape.vocab, (shape.batch, shape.length), device=terms.device)
    step = make(contender, model, ids, shape, terms)
    seconds = []
    for number in range(1 + ROUNDS):
        start = time.perf_counter()
        step()
        if is_on_gpu:
            torch.cuda.synchronize()
        if number:
            seconds.append(time.perf_counter() - start)
    took = statistics.median(seconds)
    return {
        "batch": shape.batch,
        "seconds": round(took, 5),
        "tokens_per_second": round(shape.batch * shape.length / took),
        "peak_megabytes": round(torch.cuda.max_memory_allocated() / 2**20) if is_on_gpu else None,
    }
