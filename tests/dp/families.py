"""Sixteen families of models of ``transformers``: tiny random weights, a batch, and losses of its examples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import peft
import torch
import transformers
from engine_models import compare, per_token, roughen, seeded
from token_batches import token_batch
from torch import nn

from pipelines.dp.errors import IsolationError, UnsupportedLayerError
from pipelines.dp.one_by_one import SlowGradientWarning

_VOCAB, _WIDTH = 19, 16


class Family(NamedTuple):
    """A family.

    Attributes:
        model: class of the model, and its configuration.
        losses: (model, batch) -> (B,) losses.
        batch: makes a batch of so many examples.
        lora: names of the layers that get adapters.
    """

    model: Callable[[], Any]
    losses: Callable[[Any, dict[str, torch.Tensor]], torch.Tensor]
    batch: Callable[[], dict[str, torch.Tensor]]
    lora: list[str]


def _tokens() -> dict[str, torch.Tensor]:
    return token_batch(3, 6, vocab=_VOCAB)


def _lm_losses(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    logits = model(input_ids=batch["ids"], attention_mask=batch["mask"], use_cache=False).logits
    return per_token(
        logits[:, :-1].float() if logits.dtype == torch.bfloat16 else logits[:, :-1], batch["labels"][:, 1:]
    )


def _masked_losses(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    logits = model(input_ids=batch["ids"], attention_mask=batch["mask"]).logits
    return per_token(logits, batch["labels"])


def _translation_losses(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    logits = model(
        input_ids=batch["ids"], attention_mask=batch["mask"], decoder_input_ids=batch["ids"][:, :4], use_cache=False
    ).logits
    return per_token(logits, batch["labels"][:, 1:5])


def _image_losses(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return nn.functional.cross_entropy(model(pixel_values=batch["x"]).logits, batch["y"], reduction="none")


def _images() -> dict[str, torch.Tensor]:
    with seeded(1):
        return {"x": torch.randn(3, 3, 8, 8), "y": torch.tensor([0, 2, 1])}


def _made(kind: str, **changes: Any) -> Callable[[], Any]:
    """Makes a model of width 16 with two layers and two heads, whatever its configuration calls them."""
    usual = {
        "vocab_size": _VOCAB, "hidden_size": _WIDTH, "intermediate_size": 2 * _WIDTH, "num_hidden_layers": 2,
        "num_attention_heads": 2, "max_position_embeddings": 32, "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 1, "use_cache": False,
    }  # fmt: skip

    def make() -> Any:
        name = kind.partition("For")[0].removesuffix("LMHeadModel")
        config = getattr(transformers, ("Gemma3Text" if name == "Gemma3" else name) + "Config")
        settings = config(**{**usual, **changes})
        settings._attn_implementation = settings._experts_implementation = "eager"  # the others have no float64
        with seeded(7):
            model = getattr(transformers, kind)(settings).train()
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        return roughen(model)

    return make


def _lm(kind: str, lora: list[str], **changes: Any) -> Family:
    return Family(_made(kind, **changes), _lm_losses, _tokens, lora)


_GROUPED = {"num_key_value_heads": 1, "head_dim": 8}
_QV = ["q_proj", "v_proj"]
FAMILIES: dict[str, Family] = {
    "GPT-2": _lm("GPT2LMHeadModel", ["c_attn"], resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
    "GPT-NeoX": _lm("GPTNeoXForCausalLM", ["query_key_value"]),
    "OPT": _lm("OPTForCausalLM", _QV, ffn_dim=32, word_embed_proj_dim=_WIDTH, dropout=0.0, attention_dropout=0.0),
    "Bloom": _lm("BloomForCausalLM", ["query_key_value"]),
    "Phi": _lm("PhiForCausalLM", _QV),
    "Llama": _lm("LlamaForCausalLM", _QV, **_GROUPED),
    "Mistral": _lm("MistralForCausalLM", _QV, sliding_window=4, **_GROUPED),
    "Qwen 3": _lm("Qwen3ForCausalLM", _QV, **_GROUPED),
    "Gemma": _lm("GemmaForCausalLM", _QV, **_GROUPED),
    "Gemma 2": _lm("Gemma2ForCausalLM", _QV, sliding_window=4, query_pre_attn_scalar=8, **_GROUPED),
    "Gemma 3": _lm("Gemma3ForCausalLM", _QV, sliding_window=4, query_pre_attn_scalar=8, **_GROUPED),
    "Mixtral": _lm("MixtralForCausalLM", _QV, num_local_experts=4, num_experts_per_tok=2, **_GROUPED),
    "Mamba": _lm("MambaForCausalLM", ["in_proj", "x_proj"], state_size=4, time_step_rank=4),
    "BERT": Family(
        _made("BertForMaskedLM", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
        _masked_losses, _tokens, ["query", "value"],
    ),
    "T5": Family(
        _made(
            "T5ForConditionalGeneration", d_model=_WIDTH, d_kv=8, d_ff=32, num_layers=2, num_heads=2, dropout_rate=0.0,
            decoder_start_token_id=0,
        ),
        _translation_losses, _tokens, ["q", "v"],
    ),
    "ViT": Family(
        _made(
            "ViTForImageClassification", image_size=8, patch_size=4, num_labels=3, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        ),
        _image_losses, _images, ["q_proj", "v_proj"],
    ),
}  # fmt: skip


MODES = ("full", "LoRA", "checkpointing", "bf16 autocast", "torch.compile")


def outcome(name: str, mode: str) -> str:
    """Returns the cell of the table: how the engine's clipped sum compares with one example at a time."""
    family = FAMILIES[name]
    model = family.model()
    options: dict[str, Any] = {}
    if mode == "LoRA":
        settings = peft.LoraConfig(r=2, target_modules=family.lora, init_lora_weights=False)
        settings.fan_in_fan_out = name == "GPT-2"
        with seeded(5):
            model = peft.get_peft_model(model, settings)
    elif mode == "checkpointing":
        model.gradient_checkpointing_enable()
    elif mode == "bf16 autocast":
        options = {"dtype": torch.float32, "autocast": torch.bfloat16}
    elif mode == "torch.compile":
        torch._dynamo.reset()
        model = torch.compile(model, backend="aot_eager")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = compare(model, family.losses, family.batch(), **options)
    except (IsolationError, UnsupportedLayerError) as error:
        return f"refused: {error}"
    path = "slow path" if any(issubclass(w.category, SlowGradientWarning) for w in caught) else "exact"
    if found.is_exact:
        return path
    is_rounding = not options and found.error < 1e-5 and found.norm_error < 1e-5 and found.excess <= found.slack
    return f"{path}, float32" if is_rounding else f"wrong: {found}"


def table(modes: Sequence[str] = MODES) -> str:
    """Returns the table of docs/engine.md."""
    rows = [f"| family | {' | '.join(modes)} |", f"|---{'|---' * len(modes)}|"]
    rows += [f"| {name} | {' | '.join(outcome(name, mode) for mode in modes)} |" for name in FAMILIES]
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
