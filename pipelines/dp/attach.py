"""Attaches the engine's rules to the layers of a model, and refuses trainable layers without a rule."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from pipelines.dp import layers
from pipelines.dp.advice import change
from pipelines.dp.attention import attention
from pipelines.dp.by_autograd import MOST_PARAMETERS, by_autograd
from pipelines.dp.convolutions import convolution, group_norm
from pipelines.dp.errors import NoRuleError, UnsupportedLayerError
from pipelines.dp.gru import gru
from pipelines.dp.layers import Site
from pipelines.dp.lstm import lstm
from pipelines.dp.one_by_one import by_reads, check_alone, run_watched
from pipelines.dp.parameters import example_parameter
from pipelines.dp.rows import by_rows
from pipelines.dp.rules import LayerRule, Rule, installed_rules, layer_name
from pipelines.dp.tape import Tape

_AVERAGED: Final = (
    "layer {!r} runs inside DistributedDataParallel, which averages gradients over processes before they are clipped. "
    "If the model was wrapped after make_private, as accelerator.prepare(model) does in several processes, leave that "
    "out: the optimizer adds up over processes. Write optimizer = accelerator.prepare(optimizer), and "
    "model.to(accelerator.device) before make_private"
)
RULES: Final[Mapping[str, Rule]] = {
    "torch.nn.modules.linear.Linear": by_rows(layers.linear),
    "torch.nn.modules.linear.NonDynamicallyQuantizableLinear": by_rows(layers.linear),
    "transformers.pytorch_utils.Conv1D": by_rows(layers.conv1d),
    "torch.nn.modules.sparse.Embedding": layers.embedding,
    "torch.nn.modules.normalization.LayerNorm": by_rows(layers.layer_norm),
    "torch.nn.modules.normalization.RMSNorm": by_rows(layers.rms_norm),
    "torch.nn.modules.rnn.LSTM": lstm,
    "torch.nn.modules.rnn.GRU": gru,
    "torch.nn.modules.conv.Conv1d": convolution,
    "torch.nn.modules.conv.Conv2d": convolution,
    "torch.nn.modules.conv.Conv3d": convolution,
    "torch.nn.modules.normalization.GroupNorm": group_norm,
    "torch.nn.modules.activation.MultiheadAttention": attention,
    "pipelines.dp.parameters.ExampleParameter": example_parameter,
}
"""Rules by exact class name: a subclass may compute something else."""

_REPLACED: Final = (
    torch.nn.RNNBase, torch.nn.EmbeddingBag, torch.nn.ParameterList, torch.nn.ParameterDict,
    torch.nn.utils.parametrize.ParametrizationList,
)  # fmt: skip
"""Modules that one line replaces by one with a rule."""
_sites: weakref.WeakKeyDictionary[torch.nn.Module, Site] = weakref.WeakKeyDictionary()


def site_of(module: torch.nn.Module) -> Site | None:
    """Returns the site of a layer, or None if no engine is attached to it."""
    return _sites.get(module)


def attach(model: torch.nn.Module, tape: Tape) -> Callable[[], None]:
    """Gives every layer with trainable parameters its rule.

    Args:
        model: the model. Its trainable parameters may change later, but only to parameters that have a rule.
        tape: tape that collects the uses.

    Returns:
        A function that takes the rules off again.

    Raises:
        UnsupportedLayerError: a trainable parameter without a rule, or an engine is attached already.
    """
    found, problems = layers_of(model)
    if problems:
        raise UnsupportedLayerError(
            "the engine cannot take the gradients of single examples for these trainable parameters: "
            + "; ".join(map(str, problems))
            + ". Freeze them (requires_grad_(False)), build the model of layers with a rule (docs/engine.md), or "
            "install a rule (docs/extending.md)"
        )
    sites = {module: (Site(layer.name, module, tape, layer.parameters), layer.rule) for module, layer in found.items()}
    is_compiled = any(hasattr(m, "_orig_mod") or m._compiled_call_impl is not None for m in model.modules())
    if is_compiled:  # the first batches run backward several times
        torch._functorch.config.donated_buffer = False
    for site, function in sites.values():
        _replace_forward(site, function)
        if is_compiled:
            site.module.forward = torch.compiler.disable(site.module.forward)  # type: ignore[no-untyped-call]
        _sites[site.module] = site

    def detach() -> None:
        for module in sites:
            module.__dict__.pop("forward", None)
            _sites.pop(module, None)

    return detach


@dataclass(frozen=True)
class _Layer:
    """A module that a rule runs, with its parameters. Without a rule of its own, also those of the modules below."""

    name: str
    rule: Rule
    parameters: Mapping[str, torch.nn.Parameter]


@dataclass(frozen=True)
class Problem:
    """A reason why a module cannot be trained privately.

    Attributes:
        name: name of the module in the model.
        kind: class of the module.
        why: description of the problem.
        change: line of code that solves it, for a model that is called ``model``.
    """

    name: str
    kind: str
    why: str
    change: str

    def __str__(self) -> str:
        return f"{self.name or 'the model'} ({self.kind}): {self.why}. Write {self.change}"


def layers_of(model: torch.nn.Module) -> tuple[dict[torch.nn.Module, _Layer], list[Problem]]:
    """Returns the modules of a model that rules run, and the problems of the other trainable modules."""
    found: dict[torch.nn.Module, _Layer] = {}
    without: list[tuple[str, torch.nn.Module, str | None]] = []
    for name, module in model.named_modules():
        parameters = dict(module.named_parameters(recurse=False, remove_duplicate=False))
        if not parameters:
            continue
        rule = rule_for(module)
        problem = None if rule is None else _unsupported(module, rule.parameters)
        if rule is not None and problem is None:
            if "forward" in module.__dict__:
                problem = "its forward method is replaced already (by another engine?)"
            else:
                found[module] = _Layer(name, rule.rule, parameters)
                continue
        without.append((name, module, problem))
    # RoBERTa's head, for example, holds the bias of its decoder a second time.
    covered = {parameter for layer in found.values() for parameter in layer.parameters.values()}
    problems: list[Problem] = []
    inside: set[torch.nn.Module] = set()
    for name, module, problem in without:
        own = {p: value for p, value in module.named_parameters(recurse=False) if value.requires_grad}
        if covered.issuperset(own.values()) or module in inside:
            continue
        why = problem or _unusable(module)
        if why is None:
            if not _runs_alone(module):
                continue
            inside.update(module.modules())
            below = dict(module.named_parameters(remove_duplicate=False))
            found[module] = _Layer(name, by_autograd, below)
        else:
            listed = ", ".join(f"{name}.{p}" if name else p for p in own)
            problems.append(Problem(name, type(module).__name__, f"{listed}: {why}", change(name, module)))
    kept = {m: layer for m, layer in found.items() if m not in inside or layer.rule is by_autograd}
    return kept, problems


def _unusable(module: torch.nn.Module) -> str | None:
    """Returns why the gradients of a module without a rule are not to be had by autograd either, or None."""
    if isinstance(module, _REPLACED):
        return "no rule for this kind of layer"
    for below in module.modules():
        if below._forward_pre_hooks or torch.nn.utils.parametrize.is_parametrized(below):
            return "no rule for this kind of layer, and its weights may be computed from others, in a hook"
        if "forward" in below.__dict__:
            return "its forward method is replaced already (by another engine?)"
    trained = [p for p in module.parameters() if p.requires_grad]
    if any(isinstance(p, torch.nn.parameter.UninitializedParameter) for p in trained):
        return "it is lazy, and has no shape yet: run a batch through the model first"
    return None


def _runs_alone(module: torch.nn.Module) -> bool:
    """Returns true if ``torch.func`` may run a module on single examples. Otherwise its layers keep their rules."""
    count = sum(p.numel() for p in module.parameters() if p.requires_grad)
    return type(module).forward is not torch.nn.Module.forward and count <= MOST_PARAMETERS


def rule_for(module: torch.nn.Module) -> LayerRule | None:
    """Returns the engine's rule for a layer, or else the rule of an installed package.

    Raises:
        UnsupportedLayerError: see `pipelines.dp.rules.installed_rules`.
    """
    name = layer_name(module)
    rule = RULES.get(name)
    if rule is None and name in installed_rules():
        return installed_rules()[name]
    if rule is None and isinstance(module, torch.nn.Embedding):
        rule = by_reads
    if rule is None and (norm := layers.rms_norm_like(module)) is not None:
        rule = by_rows(norm)
    return None if rule is None else LayerRule(layer=name, rule=rule, parameters=_parameters_of(module))


def foreign_rules(model: torch.nn.Module) -> tuple[str, ...]:
    """Returns the classes of a model's trainable layers whose rule comes from another package, sorted."""
    own = [m for m in model.modules() if any(p.requires_grad for p in m.parameters(recurse=False))]
    return tuple(sorted({layer_name(m) for m in own if layer_name(m) in installed_rules()} - RULES.keys()))


def _parameters_of(module: torch.nn.Module) -> tuple[str, ...]:
    if isinstance(module, torch.nn.RNNBase):
        return tuple(module._flat_weights_names)
    if isinstance(module, torch.nn.MultiheadAttention):
        return ("in_proj_weight", "in_proj_bias", *(f"{x}_proj_weight" for x in "qkv"), "bias_k", "bias_v")
    return ("weight", "bias")


def _unsupported(module: torch.nn.Module, known: Sequence[str]) -> str | None:
    """Returns why a layer of a known kind is unsupported: a setting or a parameter without a rule."""
    for name, parameter in module.named_parameters(recurse=False):
        # weight_norm, spectral_norm and pruning replace the weight by other parameters and compute it in a hook.
        if parameter.requires_grad and (name not in known or name in module.__dict__):
            return f"parameter {name!r} is not one of this kind of layer's own; are its weights computed from others?"
    if isinstance(module, torch.nn.Embedding):
        for setting in ("max_norm", "scale_grad_by_freq", "sparse"):
            if getattr(module, setting):
                return f"{setting} is set"
    if isinstance(module, torch.nn.RNNBase | torch.nn.MultiheadAttention) and not module.batch_first:
        return "batch_first must be True"
    if isinstance(module, torch.nn.LSTM) and module.proj_size:
        return "proj_size must be 0"
    return None


def _replace_forward(site: Site, rule: Rule) -> None:
    original = type(site.module).forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        ddp = torch.nn.parallel.DistributedDataParallel
        if site.tape.is_recording and getattr(ddp, "_active_ddp_module", None) is not None:
            raise UnsupportedLayerError(_AVERAGED.format(site.name))
        if site.tape.is_recording and not torch.is_grad_enabled():  # a first, unrecorded run of a checkpointed layer
            site.tape.called(site.called)
        if not (site.tape.is_recording and torch.is_grad_enabled()):
            return original(site.module, *args, **kwargs)
        if not any(p.requires_grad for p in site.parameters.values()):
            return original(site.module, *args, **kwargs)
        if site.module not in site.tape.unruled:
            try:
                return rule(site, *args, **kwargs)
            except NoRuleError as error:
                site.tape.newly_unruled.add(site.module)
                if rule is by_autograd:
                    site.tape.unchecked.add(site.module)
                if not (rule is by_autograd and {"weight", "bias"}.issuperset(site.parameters)):
                    site.mark(error)
        site.tape.called(site.called)
        if rule is not by_autograd:
            return original(site.module, *args, **kwargs)
        if site.module in site.tape.unchecked and site.tape.batch_size != 1:
            check_alone(site, args, kwargs)
            site.tape.unchecked.discard(site.module)
        return run_watched(site, args, kwargs)

    site.module.forward = forward
