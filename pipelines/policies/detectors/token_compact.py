"""Small files for token classifiers of the BERT family: weights of 8 bits, word embeddings of low rank.

A matrix ``(rows, columns)`` is stored as integers of 8 bits and one scale per row. Word embeddings are stored as the
product of such a matrix ``(words, rank)`` and a matrix ``(rank, width)`` of 16 bits. All other weights have 16 bits.
Loading a file gives an ordinary model.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

from pipelines.policies.detectors.trained_folder import COMPACT

_VOCABULARY: Final = "vocab.txt"
_EMBEDDINGS: Final = "embeddings.word_embeddings.weight"


def low_rank(rank: int) -> Callable[[Any], None]:
    """Returns a function that reduces a model's word embeddings to this rank and to 8 bits, as `save_compact` does.

    Call the function before training.
    """

    def reduce(model: Any) -> None:
        embeddings = model.base_model.get_input_embeddings().weight
        with torch.no_grad():
            words, directions = _factors(embeddings.detach().double(), rank)
            numbers, scales = _rounded(words.float())
            embeddings.copy_((numbers.float() * scales) @ directions.half().float())

    return reduce


def save_compact(model: Any, tokenizer: Any, folder: Path, rank: int) -> None:
    """Writes a model whose embeddings `low_rank` has reduced.

    Args:
        model: a BERT token classifier.
        tokenizer: tokenizer of the model, with lower case and word pieces.
        folder: existing folder that the files are written into.
        rank: rank of the word embeddings.
    """
    stored: dict[str, Any] = {}
    for name, value in model.state_dict().items():
        if name.endswith(_EMBEDDINGS):
            words, directions = _factors(value.double(), rank)
            stored[f"{name}:numbers"], stored[f"{name}:scales"] = _rounded(words.float())
            stored[f"{name}:directions"] = directions.half()
        elif value.ndim == 2 and min(value.shape) > 16:
            stored[f"{name}:numbers"], stored[f"{name}:scales"] = _rounded(value.float())
        elif value.is_floating_point():
            stored[name] = value.half()
    save_file({name: value.contiguous() for name, value in stored.items()}, folder / COMPACT)
    (folder / "config.json").write_text(model.config.to_json_string(use_diff=True), encoding="utf-8")
    words = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    (folder / _VOCABULARY).write_text("".join(f"{word}\n" for word, _ in words), encoding="utf-8")


def load_compact(folder: Path) -> tuple[Any, Any]:
    """Loads the tokenizer and the model.

    Raises:
        OSError, ValueError, RuntimeError: the files do not fit together.
    """
    stored = load_file(folder / COMPACT)
    weights: dict[str, Any] = {}
    for name, value in stored.items():
        base, _, part = name.partition(":")
        if not part:
            weights[name] = value.float()
        elif part == "numbers":
            matrix = value.float() * stored[f"{base}:scales"].float()
            directions = stored.get(f"{base}:directions")
            weights[base] = matrix if directions is None else matrix @ directions.float()
    config = BertConfig.from_dict(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    with torch.random.fork_rng(devices=[]):
        model = BertForTokenClassification(config)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected or [name for name in missing if not name.endswith("position_ids")]:
        raise ValueError("the weights are those of another model")
    words = BertWordPieceTokenizer(str(folder / _VOCABULARY), lowercase=True)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words._tokenizer,
        unk_token="[UNK]",  # noqa: S106 - no password
        pad_token="[PAD]",  # noqa: S106
        cls_token="[CLS]",  # noqa: S106
        sep_token="[SEP]",  # noqa: S106
        model_max_length=config.max_position_embeddings,
    )
    return tokenizer, model.eval()


def _factors(matrix: Any, rank: int) -> tuple[Any, Any]:
    """Returns ``(rows, rank)`` and ``(rank, columns)`` whose product is nearest to a matrix of doubles."""
    _, vectors = torch.linalg.eigh(matrix.T @ matrix)
    directions = vectors[:, -rank:].T.half().double()
    return matrix @ torch.linalg.pinv(directions), directions.float()


def _rounded(matrix: Any) -> tuple[Any, Any]:
    scales = (matrix.abs().amax(dim=1, keepdim=True) / 127).clamp(min=1e-12)
    return torch.round(matrix / scales).to(torch.int8), scales.float()
