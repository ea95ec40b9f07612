"""Puts the rules onto a model, and refuses what has none."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from pipelines.dp import layers
from pipelines.dp.errors import UnsupportedLayerError
from pipelines.dp.layers import Site
from pipelines.dp.lstm import lstm
from pipelines.dp.rules import LayerRule, Rule, installed_rules, layer_name
from pipelines.dp.tape import Tape

_HF: Final = "transformers.models"
RULES: Final[Mapping[str, Rule]] = {
    "torch.nn.modules.linear.Linear": layers.linear,
    "torch.nn.modules.linear.NonDynamicallyQuantizableLinear": layers.linear,
    "transformers.pytorch_utils.Conv1D": layers.conv1d,
    "torch.nn.modules.sparse.Embedding": layers.embedding,
    "torch.nn.modules.normalization.LayerNorm": layers.layer_norm,
    "torch.nn.modules.normalization.RMSNorm": layers.rms_norm,
    f"{_HF}.llama.modeling_llama.LlamaRMSNorm": layers.rms_norm_hf,
    f"{_HF}.mistral.modeling_mistral.MistralRMSNorm": layers.rms_norm_hf,
    f"{_HF}.qwen2.modeling_qwen2.Qwen2RMSNorm": layers.rms_norm_hf,
    f"{_HF}.qwen3.modeling_qwen3.Qwen3RMSNorm": layers.rms_norm_hf,
    "torch.nn.modules.rnn.LSTM": lstm,
}
"""Exact classes, by name: a subclass may compute something else."""

_sites: weakref.WeakKeyDictionary[torch.nn.Module, Site] = weakref.WeakKeyDictionary()


def site_of(module: torch.nn.Module) -> Site | None:
    """The site of a layer that an engine is attached to."""
    return _sites.get(module)


def attach(model: torch.nn.Module, tape: Tape) -> Callable[[], None]:
    """Gives every layer with trainable parameters its rule.

    Args:
        model: the model; which of its parameters are trainable may change later, but not to ones without a rule.
        tape: where uses go.

    Returns:
        A function that takes the rules off again.

    Raises:
        UnsupportedLayerError: a trainable parameter without a rule, or an engine is attached already.
    """
    sites: dict[torch.nn.Module, tuple[Site, Rule]] = {}
    problems: list[tuple[str, torch.nn.Module, str]] = []
    for name, module in model.named_modules():
        parameters = dict(module.named_parameters(recurse=False, remove_duplicate=False))
        if not parameters:
            continue
        rule = rule_for(module)
        problem = "no rule for this kind of layer" if rule is None else _unsupported(module, rule.parameters)
        if problem is None and rule is not None:
            if "forward" in module.__dict__:
                problem = "its forward method is replaced already (by another engine?)"
            else:
                sites[module] = (Site(name, module, tape, parameters), rule.rule)
        if problem is not None:
            problems.append((name, module, problem))
    # RoBERTa's head, for one, holds the bias of its decoder a second time.
    covered = {parameter for module in sites for parameter in module.parameters(recurse=False)}
    refused = []
    for name, module, problem in problems:
        own = {p: value for p, value in module.named_parameters(recurse=False) if value.requires_grad}
        if not covered.issuperset(own.values()):
            listed = ", ".join(f"{name}.{p}" if name else p for p in own)
            refused.append(f"{listed} ({type(module).__name__}: {problem})")
    if refused:
        raise UnsupportedLayerError(
            "the engine cannot take the gradients of single examples for these trainable parameters: "
            + "; ".join(refused)
            + ". Freeze them (requires_grad_(False)), or build the model of Linear, Conv1D, Embedding, LayerNorm, "
            "RMSNorm and batch-first LSTM layers, or install a rule (docs/extending.md)"
        )
    for site, function in sites.values():
        _replace_forward(site, function)
        _sites[site.module] = site

    def detach() -> None:
        for module in sites:
            module.__dict__.pop("forward", None)
            _sites.pop(module, None)

    return detach


def rule_for(module: torch.nn.Module) -> LayerRule | None:
    """The rule for a layer: ours, or else one that an installed package offers.

    Raises:
        UnsupportedLayerError: see `pipelines.dp.rules.installed_rules`.
    """
    name = layer_name(module)
    rule = RULES.get(name)
    if rule is None:
        return installed_rules().get(name)
    return LayerRule(layer=name, rule=rule, parameters=_parameters_of(module))


def foreign_rules(model: torch.nn.Module) -> tuple[str, ...]:
    """The kinds of trainable layers of a model whose rule is another package's, sorted."""
    own = [m for m in model.modules() if any(p.requires_grad for p in m.parameters(recurse=False))]
    return tuple(sorted({layer_name(m) for m in own if layer_name(m) not in RULES and rule_for(m) is not None}))


def _parameters_of(module: torch.nn.Module) -> tuple[str, ...]:
    return tuple(module._flat_weights_names) if isinstance(module, torch.nn.LSTM) else ("weight", "bias")


def _unsupported(module: torch.nn.Module, known: Sequence[str]) -> str | None:
    """Why a layer of a known kind has settings or parameters without a rule."""
    for name, parameter in module.named_parameters(recurse=False):
        # weight_norm, spectral_norm and pruning put others in the weight's place, and compute it from them in a hook.
        if parameter.requires_grad and (name not in known or name in module.__dict__):
            return f"parameter {name!r} is not one of this kind of layer's own; are its weights computed from others?"
    if isinstance(module, torch.nn.Embedding):
        for setting in ("max_norm", "scale_grad_by_freq", "sparse"):
            if getattr(module, setting):
                return f"{setting} is set"
    if isinstance(module, torch.nn.LSTM):
        if not module.batch_first:
            return "batch_first must be True"
        if module.proj_size:
            return "proj_size must be 0"
    return None


def _replace_forward(site: Site, rule: Rule) -> None:
    original = type(site.module).forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if site.tape.is_recording and not torch.is_grad_enabled():  # a first, unrecorded run of a checkpointed layer
            site.tape.called(site.module._parameters.values())
        if not (site.tape.is_recording and torch.is_grad_enabled()):
            return original(site.module, *args, **kwargs)
        if not any(p.requires_grad for p in site.module.parameters(recurse=False)):
            return original(site.module, *args, **kwargs)
        return rule(site, *args, **kwargs)

    site.module.forward = forward
