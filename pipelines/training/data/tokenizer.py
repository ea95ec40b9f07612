"""Tokenizers that cannot leak private text: byte-level BPE trained on public rows, or plain bytes.

A vocabulary learnt on private text holds pieces of it in the clear, so `train_bpe` only ever receives public rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from pipelines.mask import MASK
from pipelines.training.data.control import BOS, EOS, EVERY, PAD, USUAL_TOKENS, AddedTokens


def written(names: Sequence[str], masks: Sequence[str]) -> list[AddedToken]:
    """Returns control tokens by name. A mask absorbs the blank before it, so that no lone blank is left to predict.

    Args:
        names: spelling of the tokens.
        masks: names that are masks.
    """
    return [AddedToken(name, special=True, normalized=False, lstrip=name in masks) for name in names]


def _control_tokens(added: AddedTokens) -> list[AddedToken]:
    return written([*EVERY, *added.names()], added.masks)


def _byte_level(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def train_bpe(public_texts: Iterable[str], vocab_size: int, added: AddedTokens = USUAL_TOKENS) -> Tokenizer:
    """Learns byte-level BPE on public texts. The same texts in the same order give the same tokenizer.

    Args:
        public_texts: texts of the public shard, and nothing else.
        vocab_size: largest number of tokens, control tokens included. Small corpora give fewer.
        added: control tokens of the tokenizer.
    """
    tokenizer = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,  # a piece seen once is a memory of one row, not a regularity
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=_control_tokens(added),
        show_progress=False,
    )
    tokenizer.train_from_iterator(public_texts, trainer)
    return tokenizer


def byte_tokenizer(added: AddedTokens = USUAL_TOKENS) -> Tokenizer:
    """Returns a tokenizer with one token per byte, which depends on no data."""
    control = _control_tokens(added)
    names = [token.content for token in control] + sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = _byte_level(models.BPE(vocab={name: index for index, name in enumerate(names)}, merges=[]))
    tokenizer.add_special_tokens(control)
    return tokenizer


def loadable(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """Converts the tokenizer to the form that ``transformers`` saves and loads."""
    has_mask = tokenizer.token_to_id(MASK) is not None
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        mask_token=AddedToken(MASK, special=True, normalized=False, lstrip=True) if has_mask else None,
        clean_up_tokenization_spaces=False,
    )
