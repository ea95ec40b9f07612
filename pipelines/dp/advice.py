"""The line of code to write in place of a layer that cannot be trained privately."""

from __future__ import annotations

import math
from typing import Any

import torch


def expression(path: str) -> str:
    """Returns the code that reads a module: ``model.features[1].norm`` for ``features.1.norm``."""
    parts = path.split(".") if path else []
    return "model" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in parts)


def change(path: str, module: Any) -> str:
    """Returns the line of code that replaces a layer, or freezes it if there is no replacement."""
    where = expression(path)
    if isinstance(module, torch.nn.utils.parametrize.ParametrizationList):
        owner, name = path.split(".parametrizations.")
        return f'torch.nn.utils.parametrize.remove_parametrizations({expression(owner)}, "{name}")'
    if any(isinstance(p, torch.nn.parameter.UninitializedParameter) for p in module._parameters.values()):
        return "model(batch)"
    found = _in_its_place(module)
    if found is not None:
        return f"{where} = {found}"
    if torch.nn.utils.parametrize.is_parametrized(module):
        name = next(iter(module.parametrizations))
        return f'torch.nn.utils.parametrize.remove_parametrizations({where}, "{name}")'
    own = module._parameters
    for ending, undo in (("_g", "remove_weight_norm({}{})"), ("_orig", "prune.remove({}{})")):
        suffixed = next((n for n in own if n.endswith(ending)), None)
        if suffixed is not None and module._forward_pre_hooks:
            if ending == "_orig" and not any("prun" in type(h).__module__ for h in module._forward_pre_hooks.values()):
                undo = "remove_spectral_norm({}{})"
            argument = suffixed.removesuffix(ending)
            return "torch.nn.utils." + undo.format(where, f', "{argument}"')
    if isinstance(module, torch.nn.ParameterList | torch.nn.ParameterDict):
        return f"{where} = torch.nn.ModuleList([reticent.dp.ExampleParameter(p) for p in parameters])"
    return f"{where}.requires_grad_(False)"


def _in_its_place(module: Any) -> str | None:
    if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
        channels = module.num_features
        affine = "" if module.affine else ", affine=False"
        if not channels:  # a lazy one
            return None
        return f"torch.nn.GroupNorm({math.gcd(32, channels)}, {channels}{affine})"
    if isinstance(module, torch.nn.modules.instancenorm._InstanceNorm):
        affine = ", affine=True" if module.affine else ""
        return f"torch.nn.{type(module).__name__}({module.num_features}{affine})"
    if isinstance(module, torch.nn.RNNBase):
        kind = "LSTM" if isinstance(module, torch.nn.LSTM) else "GRU"
        rest = "".join(
            f", {name}={value}"
            for name, value, usual in (
                ("num_layers", module.num_layers, 1), ("bias", module.bias, True), ("dropout", module.dropout, 0.0),
                ("bidirectional", module.bidirectional, False),
            )
            if value != usual
        )  # fmt: skip
        return f"torch.nn.{kind}({module.input_size}, {module.hidden_size}{rest}, batch_first=True)"
    if isinstance(module, torch.nn.MultiheadAttention):
        return f"torch.nn.MultiheadAttention({module.embed_dim}, {module.num_heads}, batch_first=True)"
    if isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag):
        padding = "" if module.padding_idx is None else f", padding_idx={module.padding_idx}"
        return f"torch.nn.Embedding({module.num_embeddings}, {module.embedding_dim}{padding})"
    return None
