"""A step of jax_privacy, and of ordinary training in JAX, for `dp_step`. Runs in a Python of its own, without torch.

    python benchmarks/dp_jax.py check jax_privacy FILE.npz   # relative error of the clipped sum
    python benchmarks/dp_jax.py serve jax_privacy FILE.npz   # a step for each line on standard input

The file has the weights of a GPT-2 of ``transformers`` by name, a batch, and for ``check`` the sum that is expected.
Per-example gradients come from ``jax_privacy.clipping.clipped_grad``, the noise from its ``gaussian_privatizer``.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax_privacy.clipping import clipped_grad
from jax_privacy.noise_addition import gaussian_privatizer

MAX_GRAD_NORM, NOISE, LEARNING_RATE, WEIGHT_DECAY = 0.1, 1.0, 1e-4, 1e-2
"""Those of `dp_contenders`, and the weight decay of torch's AdamW."""

Weights = dict[str, Any]


def normalised(w: Weights, name: str, x: Any) -> Any:
    """Returns x (..., D) after the layer norm of that name."""
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = jax.lax.rsqrt(jnp.square(centred).mean(axis=-1, keepdims=True) + 1e-5)
    return centred * scale * w[name + ".weight"] + w[name + ".bias"]


def affine(w: Weights, name: str, x: Any) -> Any:
    """Returns x W + b, with W stored as (inputs, outputs), as GPT-2 does."""
    return x @ w[name + ".weight"] + w[name + ".bias"]


def mean_loss(w: Weights, ids: Any, *, num_layers: int, num_heads: int) -> Any:
    """Returns the mean cross-entropy of the next tokens of ids (B, T), over all of them."""
    size, length = ids.shape
    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][:length]
    width = x.shape[-1] // num_heads
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))
    for layer in range(num_layers):
        name = f"transformer.h.{layer}."
        parts = jnp.split(affine(w, name + "attn.c_attn", normalised(w, name + "ln_1", x)), 3, axis=-1)
        q, k, v = (part.reshape(size, length, num_heads, width).transpose(0, 2, 1, 3) for part in parts)
        scores = jnp.where(causal, q @ k.transpose(0, 1, 3, 2) / np.sqrt(width), -jnp.inf)
        mixed = (jax.nn.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = x + affine(w, name + "attn.c_proj", mixed)
        inner = jax.nn.gelu(affine(w, name + "mlp.c_fc", normalised(w, name + "ln_2", x)), approximate=True)
        x = x + affine(w, name + "mlp.c_proj", inner)
    logits = normalised(w, "transformer.ln_f", x)[:, :-1] @ w["transformer.wte.weight"].T
    return optax.softmax_cross_entropy_with_integer_labels(logits, ids[:, 1:]).mean()


def load(path: str) -> tuple[Weights, Any, dict[str, int], Weights]:
    """Returns weights, ids (B, T), arguments of the loss, and expected sums by name."""
    held = np.load(path)
    shape = {"num_layers": int(held["num_layers"]), "num_heads": int(held["num_heads"])}
    weights = {name[2:]: jnp.asarray(held[name]) for name in held.files if name.startswith("w.")}
    return weights, jnp.asarray(held["ids"]), shape, {n[2:]: held[n] for n in held.files if n.startswith("s.")}


def error(path: str) -> float:
    """Returns the relative error of the clipped sum."""
    weights, ids, shape, expected = load(path)
    found = clipped_grad(lambda w, batch: mean_loss(w, batch, **shape), l2_clip_norm=MAX_GRAD_NORM)(weights, ids)
    off = sum(float(np.square(np.asarray(found[name], dtype=np.float64) - expected[name]).sum()) for name in expected)
    return float(np.sqrt(off / sum(float(np.square(value).sum()) for value in expected.values())))


def serve(name: str, path: str) -> None:
    """Takes a step for each line on standard input and answers with its seconds; on ``end``, with peak memory."""
    answers, sys.stdout = sys.stdout, sys.stderr
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    weights, ids, shape, _ = load(path)
    optimizer = optax.adamw(LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    noise = gaussian_privatizer(stddev=NOISE * MAX_GRAD_NORM, prng_key=jax.random.key(0))
    sums = clipped_grad(lambda w, batch: mean_loss(w, batch, **shape), l2_clip_norm=MAX_GRAD_NORM)

    def step(w: Weights, state: Any, noisy: Any) -> tuple[Weights, Any, Any]:
        if name == "jax_plain":
            gradient = jax.grad(lambda w: mean_loss(w, ids, **shape))(w)
        else:
            gradient, noisy = noise.update(sums(w, ids), noisy)
            gradient = jax.tree.map(lambda g: g / len(ids), gradient)
        moves, state = optimizer.update(gradient, state, w)
        return optax.apply_updates(w, moves), state, noisy

    taken = jax.jit(step, donate_argnums=(0, 1, 2))
    held = weights, optimizer.init(weights), noise.init(weights)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        if line.strip() == "end":
            break
        start = time.process_time()
        held = jax.block_until_ready(taken(*held))
        print(time.process_time() - start, file=answers, flush=True)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, file=answers, flush=True)


if __name__ == "__main__":
    role, contender, file = sys.argv[1:4]
    if role == "serve":
        serve(contender, file)
    else:
        print(error(file))
