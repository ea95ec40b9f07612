"""Choice of the weights to train: all, low-rank additions, a prefix, or the last two blocks.

These are the ways of Li et al. (2022), section 5.2 and tables 5 and 6: full, LoRA, prefix, top2 and retrain (here
``scratch``). Frozen weights require no gradient, so they are not clipped, noised, or counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from torch import nn

from pipelines.errors import ConfigError

AdaptationKind = Literal["full", "lora", "prefix", "top2", "scratch"]
_HEAD_MODULES: Final = frozenset({"classifier", "score", "pre_classifier", "pooler"})


def belongs_to_head(name: str) -> bool:
    """Returns true if a module or weight of that name is part of a classification head.

    A language model has no such head, so the head's weights start at random and are always trained.
    """
    return not _HEAD_MODULES.isdisjoint(name.split("."))


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """Choice of the weights to train. A classification head starts at random and is therefore always trained.

    Attributes:
        kind: ``full``: all. ``lora``: low-rank additions to the attention projections (Hu et al. 2021). ``prefix``:
            keys and values before the text (Li and Liang 2021), causal models only. ``top2``: the last two blocks, with
            embeddings and everything below frozen. ``scratch``: all, from random weights.
        lora_rank: rank of the additions.
        lora_alpha: scale of the additions times their rank.
        prefix_length: number of positions of the prefix, which reduce the context.
        prefix_hidden: width of the hidden layer of an MLP that makes the prefix from trained embeddings (Li and Liang
            2021, 512). None trains the keys and values themselves. The saved model holds the prefix and not the MLP.
    """

    kind: AdaptationKind = "full"
    lora_rank: int = 4
    lora_alpha: int = 32
    prefix_length: int = 10
    prefix_hidden: int | None = None

    def __post_init__(self) -> None:
        hidden = 1 if self.prefix_hidden is None else self.prefix_hidden
        if min(self.lora_rank, self.lora_alpha, self.prefix_length, hidden) < 1:
            raise ConfigError("adaptation: lora_rank, lora_alpha, prefix_length and prefix_hidden must be positive")


def adapt(model: Any, adaptation: Adaptation, kind: str) -> Any:
    """Freezes the weights that are not trained, and adds those of an adaptation.

    Random numbers come from torch's own generator, which the caller seeds.

    Returns:
        The model, or the ``peft`` model around it.

    Raises:
        ConfigError: ``peft`` is not installed, or the model takes no prefix.
    """
    if adaptation.kind in ("full", "scratch"):
        model.requires_grad_(True)
        return model
    if adaptation.kind == "top2":
        model.requires_grad_(False)
        for block in blocks_of(model)[-2:]:
            block.requires_grad_(True)
        for name, module in model.named_modules():
            if kind == "classification" and belongs_to_head(name):
                module.requires_grad_(True)
        return model
    try:
        import peft
    except ImportError:
        raise ConfigError(
            f"adaptation: {adaptation.kind} needs peft. Install it with: pip install 'reticent[lora]'"
        ) from None
    if adaptation.kind == "prefix":
        if kind != "causal":
            raise ConfigError("adaptation: prefix needs a causal language model. Choose full, lora or top2")
        settings = prefix_settings(adaptation)
    else:
        known = model.config.model_type in peft.utils.TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
        settings = peft.LoraConfig(
            task_type={"causal": "CAUSAL_LM", "classification": "SEQ_CLS"}.get(kind),
            r=adaptation.lora_rank,
            lora_alpha=adaptation.lora_alpha,
            lora_dropout=0.0,
            target_modules=None if known else "all-linear",
            fan_in_fan_out=model.config.model_type == "gpt2",
        )
    return peft.get_peft_model(model, settings)


def prefix_settings(adaptation: Adaptation) -> Any:
    """Returns the settings of a prefix, of ``peft``, which must be installed."""
    import peft

    return peft.PrefixTuningConfig(
        task_type="CAUSAL_LM",
        num_virtual_tokens=adaptation.prefix_length,
        prefix_projection=adaptation.prefix_hidden is not None,
        encoder_hidden_size=adaptation.prefix_hidden,
    )


def blocks_of(model: nn.Module) -> nn.ModuleList:
    """Returns the transformer blocks of a model, from the first to the last.

    Raises:
        ConfigError: no list of modules has as many entries as the config has layers.
    """
    config: Any = model.config
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == config.num_hidden_layers:
            return module
    raise ConfigError(f"adaptation: top2 does not know the blocks of a {config.model_type}. Choose full or lora")


def count_parameters(model: nn.Module) -> tuple[int, int]:
    """Returns (trained, all) numbers of parameters. A shared parameter counts once."""
    sizes = [(p.numel(), p.requires_grad) for p in model.parameters()]
    return sum(n for n, is_trained in sizes if is_trained), sum(n for n, _ in sizes)
