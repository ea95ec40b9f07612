"""Checks that settings of ``[train]`` go together. They run before anything else, and load no torch."""

from __future__ import annotations

from pipelines.errors import ConfigError
from pipelines.mask import Replacement
from pipelines.settings.train_fields import TrainSettings
from pipelines.training.models.shape import RECURRENT
from pipelines.training.models.sources import origin_of
from pipelines.training.tasks.templates import choose_template


def check_together(config: TrainSettings) -> None:
    """Checks that task, model and control tokens go together.

    Raises:
        ConfigError: two settings contradict each other. The message names both, and what to do.
    """
    _check_task(config)
    if config.is_pretrained():
        _check_pretrained(config)
    else:
        _check_scratch(config)
    _check_tokens(config)


def check_replacement(config: TrainSettings, replacement: Replacement) -> None:
    """Checks that the method fits the text that replaces masked text.

    Raises:
        ConfigError: the method needs masks, and the text has none.
    """
    if replacement == "mask":
        return
    if config.method_spec().needs_masks:
        raise ConfigError(
            f"method {config.method} needs masks, and redact.replacement = {replacement!r} writes none: set "
            "redact.replacement = 'mask', or choose a method that takes redacted text as it is (crt, anonymized)"
        )
    if config.typed_masks and config.uses("typed_masks"):
        raise ConfigError(
            f"train.typed_masks writes masks, and redact.replacement = {replacement!r} writes other text: leave one of "
            "them out"
        )


def check_people(
    config: TrainSettings, *, has_owners: bool, holds: bool = False, owner_bound: int | None = None
) -> None:
    """Checks that people are known if settings count on them, and that the gate does not couple them.

    Args:
        config: settings of the training.
        has_owners: true if the corpus says whose text a document is.
        holds: true if the gate may make a public row private for a string that is masked elsewhere.
        owner_bound: setting ``guarantee.owner_bound``.

    Raises:
        ConfigError: nobody knows whose text a document is, one person's text can change another's private rows, or the
            method cannot keep the bound.
    """
    if owner_bound is not None:
        if why := config.method_spec().no_people:
            raise ConfigError(
                f"guarantee.owner_bound: method {config.method!r} cannot bound what a person brings: {why}"
            )
        if config.by_owner():
            raise ConfigError(
                "guarantee.owner_bound has no effect with train.unit = 'owner', which bounds what a person brings "
                "whatever the number of records: leave it out"
            )
        if not has_owners:
            raise ConfigError(
                "guarantee.owner_bound counts the records of a person, and corpus.owner_from = 'none': set "
                "corpus.owner_from to what names the person of a document (docs/corpora.md)"
            )
    if not config.by_owner():
        return
    if not has_owners:
        raise ConfigError(
            "train.unit = 'owner' samples people, and corpus.owner_from = 'none': set corpus.owner_from to what names "
            "the person of a document (docs/corpora.md)"
        )
    if holds and config.method_spec().trains_on_public_rows:
        raise ConfigError(
            "train.unit = 'owner' with public rows (redact.conservative): the gate would move a person's sentence to "
            "the private side, and mask a string there, because the string is masked in another person's text, so "
            "that one person changes the private rows of others. Set gate.on_hit = 'stop', or leave "
            "redact.conservative out"
        )


def _check_task(config: TrainSettings) -> None:
    task, method = config.task_spec(), config.method_spec()
    if config.record != task.record_of(config.record):
        raise ConfigError(
            f"a record of task = {config.task!r} is a {task.record}, not a {config.record}; leave record out"
        )
    if not task.takes_lstm and config.architecture() in RECURRENT:
        raise ConfigError(
            f"the {config.architecture().upper()} is a language model; task = {config.task!r} needs a transformer"
        )
    if task.needs_pretrained and not config.is_pretrained():
        raise ConfigError(f"task = {config.task!r} needs a pretrained model: smollm2, minilm, a folder or a hub name")
    if method.view.asks_for_masks and not task.writes_text:
        raise ConfigError(
            f"method {config.method} learns to write masks, and task = {config.task!r} writes no text; choose another "
            "method"
        )
    if config.head() != "causal":
        if config.adaptation == "prefix":
            raise ConfigError("adaptation = 'prefix' needs a causal language model; choose full, lora or top2")
        choose_template(config.template, config.classes, config.label_words)


def _check_pretrained(config: TrainSettings) -> None:
    if origin_of(config.model) != "hub" and config.model_revision is not None:
        raise ConfigError("model_revision needs a model on the hub; leave it out")
    if origin_of(config.model) == "folder" and not config.model_is_public:
        raise ConfigError(
            "train.model names a folder: set train.model_is_public = true if neither the model's weights nor its "
            "vocabulary were made from this corpus, because claims rest on that; or name a package or a hub model"
        )
    if config.method_spec().needs_lstm:
        raise ConfigError(
            f"method {config.method} trains an LSTM or a GRU from random weights; leave train.model out, or set "
            "train.model = 'gru'"
        )
    if config.tokenizer in ("bpe_public", "bytes") and config.adaptation != "scratch":
        raise ConfigError(
            f"tokenizer = {config.tokenizer!r} does not fit the weights of {config.model}; leave it out, or set "
            "adaptation = 'scratch'"
        )
    sizes = ("num_layers", "num_heads", "embedding_size")
    if set_sizes := [name for name in sizes if getattr(config, name) is not None]:
        raise ConfigError(f"{set_sizes[0]} is for a model from scratch; a pretrained model has its own sizes")


def _check_scratch(config: TrainSettings) -> None:
    config.shape()
    if config.adaptation not in ("full", "scratch"):
        raise ConfigError(f"adaptation = {config.adaptation!r} needs a pretrained model; {config.model} has no weights")
    if config.tokenizer == "pretrained" or config.model_revision is not None:
        raise ConfigError(f"tokenizer = 'pretrained' and model_revision need a pretrained model, not {config.model}")


def _check_tokens(config: TrainSettings) -> None:
    if not (config.typed_masks or config.conversation_tokens or config.domain_tokens):
        return
    from pipelines.training.data.control import RESERVED, name_token  # numpy is slow to import

    taken = {*RESERVED, *map(name_token, config.speakers)}
    for field, names in (("domains", config.domains), ("typed_masks", config.typed_masks)):
        if clash := [name for name in names if name_token(name) in taken]:
            raise ConfigError(f"{field}: <{clash[0]}> is already a token with another meaning; leave {clash[0]} out")
        taken.update(map(name_token, names))
    added = config.control_tokens()
    if not config.has_added_tokens() and (config.conversation_tokens or config.domain_tokens):
        raise ConfigError(
            "added_tokens = false leaves out every control token; leave it out, or conversation_tokens and "
            "domain_tokens"
        )
    if config.tokenizer_kind() == "bpe_public" and config.vocab_size < added.min_vocab_size:
        raise ConfigError(
            f"vocab_size must be at least {added.min_vocab_size} with these control tokens, not {config.vocab_size}"
        )
