"""The language model of Shi et al. 2022, section 5: one LSTM layer, embedding and hidden size 200, from scratch.

The paper describes its method for RNNs in general. The layer can be a GRU in place of the LSTM.

The tokenizer comes from `pipelines.training.data.tokenizer`: it is learnt on public rows only, or has plain bytes. (The
paper learns a BPE vocabulary on all of its text, which may hold pieces of a secret.) There is no dropout: an example's
loss is then a function of the example and the weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import torch
from safetensors.torch import load_file, save_file
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from pipelines.errors import ConfigError
from pipelines.files import encode_json
from pipelines.training.models.shape import RECURRENT, RecurrentKind, num_states

EMBEDDING_SIZE: Final = 200
HIDDEN_SIZE: Final = 200
_INITIAL_RANGE: Final = 0.1
_ARCHITECTURE: Final = "reticent-{}-1"
_LAYERS: Final = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}

State = tuple[torch.Tensor, ...]
"""Hidden state, and the cell state of an LSTM, (B, H) each."""


class RecurrentOutput(NamedTuple):
    """Output of a forward pass.

    Attributes:
        logits: (B, T, V) logits. At padding they mean nothing.
        state: state after the last token of each example.
    """

    logits: torch.Tensor
    state: State


class RecurrentLanguageModel(torch.nn.Module):
    """Embedding, one LSTM or GRU layer, and a linear decoder with a bias.

    Args:
        vocab_size: number of tokens V.
        embedding_size: width of the embeddings.
        hidden_size: width H of a state.
        kind: kind of the layer.
        is_tied: true if the decoder's weight is the embedding's. The paper does not say, and its code offers both.

    Raises:
        ConfigError: the weights are tied, and the two sizes differ.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int = EMBEDDING_SIZE,
        hidden_size: int = HIDDEN_SIZE,
        *,
        kind: RecurrentKind = "lstm",
        is_tied: bool = False,
    ) -> None:
        if is_tied and embedding_size != hidden_size:
            raise ConfigError(f"tied embeddings need equal sizes, not {embedding_size} and {hidden_size}")
        super().__init__()
        self.kind, self.is_tied = kind, is_tied
        self.hidden_size = hidden_size
        self.embedding = torch.nn.Embedding(vocab_size, embedding_size)
        # Weights are saved under the name of the layer's kind.
        self.add_module(kind, _LAYERS[kind](embedding_size, hidden_size, batch_first=True))
        self.decoder = torch.nn.Linear(hidden_size, vocab_size)
        if is_tied:
            self.decoder.weight = self.embedding.weight
        torch.nn.init.uniform_(self.embedding.weight, -_INITIAL_RANGE, _INITIAL_RANGE)
        torch.nn.init.uniform_(self.decoder.weight, -_INITIAL_RANGE, _INITIAL_RANGE)
        torch.nn.init.zeros_(self.decoder.bias)

    def zero_state(self, size: int) -> State:
        """Returns the state before the first token (Algorithm 1, line 5)."""
        return tuple(self.decoder.weight.new_zeros(size, self.hidden_size) for _ in range(num_states(self.kind)))

    def forward(
        self,
        input_ids: torch.Tensor,
        state: State | None = None,
        lengths: torch.Tensor | None = None,
        use_cache: bool = False,
    ) -> RecurrentOutput:
        """Reads tokens from a state.

        Args:
            input_ids: (B, T) int64 ids, padded at the end.
            state: initial state of each example. Zero if unset.
            lengths: (B,) number of tokens of each example, at least 1. If unset, all T are read, padding included: the
                logits are the same, but the state is that after the padding.
            use_cache: ignored. It is here for the signature's sake.
        """
        del use_cache
        begin = tuple(values[None] for values in (state if state is not None else self.zero_state(len(input_ids))))
        x: Any = self.embedding(input_ids)
        if lengths is not None:
            x = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        # torch's GRU takes and returns its one state without a tuple.
        out, ends = self.get_submodule(self.kind)(x, begin if self.kind == "lstm" else begin[0])
        if lengths is not None:
            out, _ = pad_packed_sequence(out, batch_first=True, total_length=input_ids.shape[1])
        return RecurrentOutput(self.decoder(out), tuple(end[0] for end in (ends if self.kind == "lstm" else (ends,))))


def build_recurrent(
    vocab_size: int,
    seed: int,
    embedding_size: int = EMBEDDING_SIZE,
    hidden_size: int = HIDDEN_SIZE,
    *,
    kind: RecurrentKind = "lstm",
    is_tied: bool = False,
) -> RecurrentLanguageModel:
    """Builds a model with random weights that depend on kind, sizes and seed only."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        return RecurrentLanguageModel(vocab_size, embedding_size, hidden_size, kind=kind, is_tied=is_tied)


def save_recurrent(model: RecurrentLanguageModel, folder: Path) -> None:
    """Writes ``model.safetensors`` and ``config.json`` for `load_recurrent`."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    if model.is_tied:
        del weights["decoder.weight"]
    save_file(weights, folder / "model.safetensors")
    config = {
        "architecture": _ARCHITECTURE.format(model.kind),
        "vocab_size": model.embedding.num_embeddings,
        "embedding_size": model.embedding.embedding_dim,
        "hidden_size": model.hidden_size,
        "is_tied": model.is_tied,
    }
    (folder / "config.json").write_bytes(encode_json(config))


def load_recurrent(folder: Path) -> RecurrentLanguageModel:
    """Reads a folder that `save_recurrent` wrote.

    Raises:
        ConfigError: the folder holds another kind of model.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kinds = {_ARCHITECTURE.format(kind): kind for kind in RECURRENT}
    kind = kinds.get(config.pop("architecture", None))
    if kind is None:
        raise ConfigError(f"the model in {folder} is no {' or '.join(kinds)}")
    model = RecurrentLanguageModel(**config, kind=cast(RecurrentKind, kind))
    weights = load_file(folder / "model.safetensors")
    if model.is_tied:
        weights["decoder.weight"] = weights["embedding.weight"]
    model.load_state_dict(weights)
    return model
