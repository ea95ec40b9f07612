"""The rule for ``torch.nn.MultiheadAttention``. Only its projections have parameters, so only they leave uses."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from pipelines.dp.errors import UnsupportedLayerError
from pipelines.dp.layers import Site
from pipelines.dp.parameters import expanded
from pipelines.dp.uses import DenseUse, OuterUse, compute_dtype


class _Projections(torch.autograd.Function):
    """Linear maps to queries, keys and values, with one weight (3E, E) for all or one weight each."""

    @staticmethod
    def forward(
        ctx: Any,
        site: Site,
        is_one: bool,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        bias: torch.Tensor | None,
        *weights: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        each = weights[0].chunk(3) if len(weights) == 1 else weights
        biases = (None, None, None) if bias is None else bias.chunk(3)
        inputs = (query, key, value)
        outs = tuple(functional.linear(x, w, b) for x, w, b in zip(inputs, each, biases, strict=True))
        ctx.site, ctx.is_one = site, is_one
        ctx.save_for_backward(*(x.to(outs[0].dtype) for x in inputs), *weights)
        return outs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        *inputs, first = ctx.saved_tensors[:4]
        weights = ctx.saved_tensors[3:]
        site: Site = ctx.site
        for gradient in gradients:
            site.tape.check_examples(site.name, gradient)
        if len(weights) == 1:
            parameter = site.parameter("in_proj_weight")
            if parameter is not None:
                site.tape.add(site.name, parameter, _packed(gradients, inputs, ctx.is_one))
            weights = first.chunk(3)
        else:
            for name, gradient, x in zip("qkv", gradients, inputs, strict=True):
                parameter = site.parameter(f"{name}_proj_weight")
                if parameter is not None:
                    site.tape.add(site.name, parameter, OuterUse(gradient, x.detach()))
        bias = site.parameter("in_proj_bias")
        if bias is not None:
            summed = [gradient.sum(dim=1, dtype=compute_dtype(gradient)) for gradient in gradients]
            site.tape.add(site.name, bias, DenseUse(torch.cat(summed, dim=1)))
        back = [
            gradient @ weight.to(gradient.dtype) if needed else None
            for gradient, weight, needed in zip(gradients, weights, ctx.needs_input_grad[2:5], strict=True)
        ]
        return None, None, *back, None, *([None] * (len(ctx.saved_tensors) - 3))


def _packed(gradients: tuple[torch.Tensor, ...], inputs: list[torch.Tensor], is_one: bool) -> OuterUse:
    """Returns the use of the packed weight. A position uses a third of its rows, or all if the inputs are one."""
    if is_one:
        return OuterUse(torch.cat(gradients, dim=2), inputs[0].detach())
    width = gradients[0].shape[2]
    rows = [functional.pad(g, (at * width, (2 - at) * width)) for at, g in enumerate(gradients)]
    return OuterUse(torch.cat(rows, dim=1), torch.cat([x.detach() for x in inputs], dim=1))


def attention(
    site: Site,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    key_padding_mask: torch.Tensor | None = None,
    need_weights: bool = True,
    attn_mask: torch.Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Runs ``torch.nn.MultiheadAttention``, example axis first. Its output projection is a separate layer.

    Raises:
        UnsupportedLayerError: an input without example axis, or a causal hint without a mask.
    """
    module = site.module
    if query.dim() != 3:
        raise UnsupportedLayerError(
            f"MultiheadAttention {site.name!r}: give it (examples, positions, width), with the axis of examples"
        )
    if is_causal and attn_mask is None:
        raise UnsupportedLayerError(f"MultiheadAttention {site.name!r}: is_causal is a hint; give attn_mask as well")
    site.enter(query)
    names = ["in_proj_weight"] if module._qkv_same_embed_dim else ["q_proj_weight", "k_proj_weight", "v_proj_weight"]
    weights = [getattr(module, name) for name in names]
    is_one = query is key and key is value
    q, k, v = _Projections.apply(site, is_one, query, key, value, module.in_proj_bias, *weights)  # type: ignore[no-untyped-call]
    size, _, width = q.shape
    extra = 0
    if module.bias_k is not None:
        k = torch.cat([k, expanded(site, "bias_k", size).flatten(1, 2).to(k.dtype)], dim=1)
        v = torch.cat([v, expanded(site, "bias_v", size).flatten(1, 2).to(v.dtype)], dim=1)
        extra += 1
    if module.add_zero_attn:
        k, v = (functional.pad(x, (0, 0, 0, 1)) for x in (k, v))
        extra += 1
    heads = module.num_heads
    q, k, v = (x.unflatten(2, (heads, width // heads)).transpose(1, 2) for x in (q, k, v))  # (B, H, T, d)
    mask = _mask(attn_mask, key_padding_mask, q, extra)
    dropout = module.dropout if module.training else 0.0
    if not need_weights:
        out = functional.scaled_dot_product_attention(q, k, v, mask, dropout)
        return module.out_proj(out.transpose(1, 2).flatten(2)), None
    scores = (q / math.sqrt(q.shape[3])) @ k.transpose(2, 3)
    shares = torch.softmax(scores if mask is None else scores + mask, dim=3)
    shares = functional.dropout(shares, dropout)
    out = module.out_proj((shares @ v).transpose(1, 2).flatten(2))
    return out, shares.mean(dim=1) if average_attn_weights else shares


def _mask(
    attn_mask: torch.Tensor | None, padding: torch.Tensor | None, q: torch.Tensor, extra: int
) -> torch.Tensor | None:
    """Returns the mask added to scores (B, H, T, S): -inf for hidden keys. Keys added by the layer are visible."""
    found = None
    if attn_mask is not None:
        found = _added(attn_mask, q)
        found = found.reshape(*q.shape[:2], *found.shape[1:]) if found.dim() == 3 else found[None, None]
    if padding is not None:
        hidden = _added(padding, q)[:, None, None]
        found = hidden if found is None else found + hidden
    return found if found is None or not extra else functional.pad(found, (0, extra))


def _added(mask: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=like.dtype, device=mask.device).masked_fill(mask, -math.inf)
    return mask.to(like.dtype)
