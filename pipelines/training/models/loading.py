"""Loads a causal or masked language model, or a classifier, ready to be trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
import transformers
from transformers.models.auto import modeling_auto

from pipelines.errors import ConfigError
from pipelines.pretrained import first_position
from pipelines.quiet import quiet_transformers
from pipelines.training.data.control import USUAL_TOKENS, AddedTokens, ControlTokens
from pipelines.training.data.records import Padding
from pipelines.training.data.vocabulary import Vocabulary, complete_tokenizer, make_room, vocabulary_of
from pipelines.training.models.adaptation import Adaptation, adapt, belongs_to_head
from pipelines.training.models.converted import converted, read_model, without_quantisation
from pipelines.training.models.shape import MIN_CONTEXT_LENGTH
from pipelines.training.models.sources import ModelSource, find_model, shown

ModelKind = Literal["causal", "masked", "classification"]

MODEL_CLASSES: Final = {
    "causal": transformers.AutoModelForCausalLM,
    "masked": transformers.AutoModelForMaskedLM,
    "classification": transformers.AutoModelForSequenceClassification,
}
"""Classes of ``transformers`` that load a model, by kind of its output."""
_NAMES: Final = {
    "causal": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "masked": modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "classification": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
}
_WORDS: Final = {
    "causal": "a causal language model",
    "masked": "a masked language model",
    "classification": "a classifier",
}


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model with its vocabulary, ready to be trained.

    Attributes:
        model: network on the CPU, without dropout. The weights to train are those that require a gradient.
        vocabulary: vocabulary of the model.
        kind: kind of the model's output.
        context_length: largest number of tokens that it reads.
        num_new_tokens: number of added tokens, which have no pretrained embedding.
    """

    model: Any
    vocabulary: Vocabulary
    kind: ModelKind
    context_length: int
    num_new_tokens: int


@dataclass(frozen=True, kw_only=True)
class OpenedModel:
    """A model whose files were read and checked. No text has been seen, and its vocabulary may lack tokens.

    Attributes:
        source: place of the model.
        kind: kind of the model's output.
        adaptation: choice of the weights to train.
        config: config of the model, without dropout.
        tokenizer: original tokenizer of the model, of ``transformers``. None if another one will be used.
        model: network with its pretrained weights, on the CPU. None if all weights start at random.
        context_length: largest number of tokens that it reads.
        attention: attention of ``transformers``.
        num_labels: number of classes of a classifier.
    """

    source: ModelSource
    kind: ModelKind
    adaptation: Adaptation
    config: Any
    tokenizer: Any
    model: Any
    context_length: int
    attention: str
    num_labels: int | None


def open_model(
    name: str,
    kind: ModelKind,
    *,
    adaptation: Adaptation | None = None,
    num_labels: int | None = None,
    brings_tokenizer: bool = True,
    context_length: int | None = None,
    default_context_length: int | None = None,
    revision: str | None = None,
    attention: Literal["eager", "sdpa"] = "eager",
    cache: Path | None = None,
    seed: int = 0,
) -> OpenedModel:
    """Reads config, tokenizer and weights, without network access.

    Args:
        name: ``smollm2``, ``minilm``, the absolute path of a folder, or a name on the hub.
        kind: kind of the model's output.
        adaptation: choice of the weights to train. None trains all.
        num_labels: number of classes of a classifier.
        brings_tokenizer: true if the model's own tokenizer is used. Another one fits random weights only.
        context_length: longest record that is asked for. None for all that the model reads.
        default_context_length: upper limit if ``context_length`` is None.
        revision: revision of a hub model. None for ``main``.
        attention: ``eager``, or ``sdpa``, which is faster on a GPU (`pipelines.training.devices.attention_on`).
        cache: folder for models that have to be converted before they are read. None converts them each time.
        seed: public seed of weights that the model lacks, such as those of a new head.

    Raises:
        ConfigError: the model is missing, is of another kind, reads less than ``context_length``, or lacks what the
            task needs.
    """
    adaptation = Adaptation() if adaptation is None else adaptation
    from_scratch = adaptation.kind == "scratch"
    if not brings_tokenizer and not from_scratch:
        raise ConfigError(
            f"model: {shown(name)} was trained with its own tokenizer. Another one fits adaptation = 'scratch' only"
        )
    if kind == "classification" and (num_labels is None or num_labels < 2):
        raise ConfigError("model: a classifier needs num_labels of at least 2")
    source = find_model(name, revision)
    if cache is not None:
        source = converted(source, cache)
    with quiet_transformers(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        config = read_model(source, transformers.AutoConfig.from_pretrained)
        _check_kind(name, kind, config)
        tokenizer = None
        if brings_tokenizer:
            tokenizer = read_model(source, transformers.AutoTokenizer.from_pretrained)
            if kind == "masked" and tokenizer.mask_token is None:
                raise ConfigError(
                    f"model: the tokenizer of {shown(name)} has no mask token, which a masked language model needs"
                )
        available = context_of(config) - (adaptation.prefix_length if adaptation.kind == "prefix" else 0)
        if context_length is None and default_context_length is not None:
            context_length = min(available, default_context_length)
        length = check_context(name, context_length, available)
        _without_dropout(config)
        if num_labels is not None:
            config.num_labels = num_labels
        if kind == "causal":
            # The padding id is set on saving only. With it, the model would look for padding in every input, and its
            # embedding would drop the gradient of that id, which may be the end token.
            config.pad_token_id = None
        model = None if from_scratch else _pretrained(source, kind, config, attention)
    return OpenedModel(
        source=source,
        kind=kind,
        adaptation=adaptation,
        config=config,
        tokenizer=tokenizer,
        model=model,
        context_length=length,
        attention=attention,
        num_labels=num_labels,
    )


def complete_model(
    opened: OpenedModel, *, seed: int, added: AddedTokens = USUAL_TOKENS, learnt: Vocabulary | None = None
) -> LoadedModel:
    """Adds the tokens that an opened model lacks, and freezes the weights that are not trained. Consumes ``opened``.

    Args:
        opened: model from `open_model`, not to be used afterwards.
        seed: public seed of every weight that starts at random.
        added: control tokens of the model.
        learnt: vocabulary of a model without its own tokenizer, with these control tokens.
    """
    config, kind, model = opened.config, opened.kind, opened.model
    new_ids: list[int] = []
    if learnt is None:
        new_ids = complete_tokenizer(opened.tokenizer, added)
        vocabulary = vocabulary_of(opened.tokenizer, added, kind="pretrained", trained_on="elsewhere")
    else:
        vocabulary = learnt
    control = vocabulary.control
    with quiet_transformers(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        if model is None:
            _settle(config, control, kind)
            config.vocab_size = max(vocabulary.tokenizer.get_vocab().values()) + 1
            model = MODEL_CLASSES[kind].from_config(config, attn_implementation=opened.attention)
        else:
            _settle(model.config, control, kind)
            make_room(model, new_ids, seed)
        without_quantisation(model)
        model = adapt(model, opened.adaptation, kind)
    return LoadedModel(
        model=model, vocabulary=vocabulary, kind=kind, context_length=opened.context_length, num_new_tokens=len(new_ids)
    )


def context_of(config: Any) -> int:
    """Returns the largest number of tokens that a model of that config reads.

    The RoBERTa family counts positions from the padding id on, so that 514 rows are 512 positions.
    """
    rows = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if rows is None:
        raise ConfigError("model: its config states no longest input (max_position_embeddings). Set context_length")
    return int(rows) - first_position(config)


def padding_of(loaded: LoadedModel) -> Padding:
    """Returns the padding of batches for that model."""
    if loaded.kind == "causal":
        return Padding(pad=loaded.vocabulary.control.pad)
    config = loaded.model.config
    start = first_position(config)
    return Padding(
        pad=loaded.vocabulary.control.pad,
        first_position=start,
        pad_position=max(0, start - 1),
        with_attention_mask=True,
        with_token_types=getattr(config, "type_vocab_size", 0) > 1,
    )


def check_context(name: str, asked: int | None, available: int) -> int:
    """Returns the longest record, in tokens.

    Raises:
        ConfigError: more was asked for than the model reads, or too little is left for a record.
    """
    length = available if asked is None else asked
    if length > available:
        raise ConfigError(f"context_length is {length} tokens, but {shown(name)} reads at most {available}. Lower it")
    if length < MIN_CONTEXT_LENGTH:
        raise ConfigError(f"context_length is {length} tokens. A record needs at least {MIN_CONTEXT_LENGTH}")
    return length


def _check_kind(name: str, kind: ModelKind, config: Any) -> None:
    known = config.model_type in _NAMES[kind]
    if kind == "causal" and known:  # encoders have an untrained decoder form, too
        known = config.model_type not in _NAMES["masked"] or bool(getattr(config, "is_decoder", False))
    if not known:
        raise ConfigError(
            f"model: {shown(name)} (a {config.model_type}) is not {_WORDS[kind]}. Choose another model or task"
        )


def _without_dropout(config: Any) -> None:
    # Without dropout the loss of an example is a function of the example and the weights.
    for field in list(vars(config)):
        value = getattr(config, field)
        if isinstance(value, float) and (field.endswith("pdrop") or "dropout" in field):
            setattr(config, field, 0.0)


def _settle(config: Any, control: ControlTokens, kind: ModelKind) -> None:
    config.pad_token_id = None if kind == "causal" else control.pad
    config.bos_token_id, config.eos_token_id = control.bos, control.eos


def _pretrained(source: ModelSource, kind: ModelKind, config: Any, attention: str) -> Any:
    model, report = read_model(
        source,
        MODEL_CLASSES[kind].from_pretrained,
        config=config,
        dtype=torch.float32,
        attn_implementation=attention,
        output_loading_info=True,
    )
    missing = sorted(key for key in report["missing_keys"] if kind != "classification" or not belongs_to_head(key))
    if missing:
        raise ConfigError(
            f"model: {shown(source.name)} has no weights for {missing[0]} ({len(missing)} missing), so it is no "
            f"pretrained {_WORDS[kind][2:]}. Choose another model, or adaptation = 'scratch'"
        )
    return model
