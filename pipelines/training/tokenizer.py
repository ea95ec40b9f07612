"""Tokenizers that cannot leak private text: byte-level BPE trained on public rows, or plain bytes.

A vocabulary learnt on private text holds pieces of it in the clear, so `train_bpe` is only ever handed public rows,
and the names of speakers become control tokens only when public rows (or the settings) name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from pipelines.policies.mask import MASK

PAD: Final = "<PAD>"
BOS: Final = "<BOS>"
EOS: Final = "<EOS>"
OTHER_SPEAKER: Final = "<SPEAKER>"
RESERVED: Final = (PAD, BOS, EOS, MASK, OTHER_SPEAKER)
MAX_SPEAKERS: Final = 64
MIN_VOCAB_SIZE: Final = 256 + len(RESERVED) + MAX_SPEAKERS


@dataclass(frozen=True, kw_only=True)
class AddedTokens:
    """Which control tokens a vocabulary has beside begin, end and padding. Settings decide it, no text.

    Attributes:
        masks: how masks are written; none for a model that will never read one.
        has_speakers: whether speakers have tokens; without, a model is not told who speaks.
    """

    masks: tuple[str, ...] = (MASK,)
    has_speakers: bool = True


@dataclass(frozen=True, kw_only=True)
class ControlTokens:
    """The ids of the tokens that are not text.

    Attributes:
        pad, bos, eos, mask: their ids; a vocabulary may have no mask.
        speakers: the id of each known speaker's control token, by speaker name.
        other_speaker: the id that stands for every other speaker; None where speakers have no tokens at all.
        asks_for_mask: whether the model is asked for masks, as for any word (the masking baseline).
        typed_masks: the ids of masks that tell what was masked, by how they are written.

    A model of others may use one id for several of them: GPT-2 begins, ends and pads with the same one.
    """

    pad: int
    bos: int
    eos: int
    mask: int | None
    speakers: Mapping[str, int]
    other_speaker: int | None
    asks_for_mask: bool = False
    typed_masks: Mapping[str, int] = field(default_factory=dict)

    @property
    def masks(self) -> dict[str, int]:
        """The id of every mask, by how it is written."""
        return {**({} if self.mask is None else {MASK: self.mask}), **self.typed_masks}

    def speaker(self, name: str | None) -> list[int]:
        """The control token of a speaker, if any; names that no public row bears share one token."""
        if name is None:
            return []
        token = self.speakers.get(name, self.other_speaker)
        return [] if token is None else [token]

    @property
    def never_predicted(self) -> npt.NDArray[np.int64]:
        """Ids that are given, never asked of the model: they are no targets of the loss."""
        ids = {self.pad, self.bos, *self.speakers.values()}
        if self.other_speaker is not None:
            ids.add(self.other_speaker)
        if not self.asks_for_mask:
            ids |= set(self.masks.values())
        ids.discard(self.eos)  # where padding and end share an id, padding is told apart by its position
        return np.asarray(sorted(ids), dtype=np.int64)


USUAL_TOKENS: Final = AddedTokens()


def speaker_names(num_public_rows: Mapping[str, int], min_rows: int) -> tuple[str, ...]:
    """The speakers that get a control token of their own, sorted by name.

    Rare names are left out because a person's name in the speaker field would be published with the vocabulary.

    Args:
        num_public_rows: rows of the *public* shard by speaker name.
        min_rows: the fewest rows that a speaker needs.
    """
    frequent = [name for name, rows in num_public_rows.items() if rows >= min_rows and name.strip()]
    frequent = [name for name in frequent if speaker_token(name) not in RESERVED]
    frequent.sort(key=lambda name: (-num_public_rows[name], name))
    return tuple(sorted(frequent[:MAX_SPEAKERS]))


def speaker_token(name: str) -> str:
    """The control token of a speaker, such as ``<USR>``."""
    return f"<{name}>"


def _control_tokens(speakers: Sequence[str], added: AddedTokens) -> list[AddedToken]:
    names = (PAD, BOS, EOS, *added.masks, *([OTHER_SPEAKER] if added.has_speakers else []))
    # A mask swallows the blank before it, so that no lone blank is left over as a token to predict.
    reserved = [AddedToken(t, special=True, normalized=False, lstrip=t in added.masks) for t in names]
    return reserved + [AddedToken(speaker_token(s), special=True, normalized=False) for s in speakers]


def _byte_level(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def train_bpe(
    public_texts: Iterable[str], speakers: Sequence[str], vocab_size: int, added: AddedTokens = USUAL_TOKENS
) -> Tokenizer:
    """Byte-level BPE learnt on public texts; the same texts in the same order give the same tokenizer.

    Args:
        public_texts: texts of the public shard, and nothing else.
        speakers: names that get a control token.
        vocab_size: the most tokens, control tokens included; small corpora give fewer.
        added: the other control tokens.
    """
    tokenizer = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,  # a piece seen once is a memory of one row, not a regularity
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=_control_tokens(speakers, added),
        show_progress=False,
    )
    tokenizer.train_from_iterator(public_texts, trainer)
    return tokenizer


def byte_tokenizer(speakers: Sequence[str], added: AddedTokens = USUAL_TOKENS) -> Tokenizer:
    """One token a byte: it depends on no data at all."""
    control = _control_tokens(speakers, added)
    names = [token.content for token in control] + sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = _byte_level(models.BPE(vocab={name: index for index, name in enumerate(names)}, merges=[]))
    tokenizer.add_special_tokens(control)
    return tokenizer


def loadable(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """The tokenizer in the form that ``transformers`` saves and loads."""
    has_mask = tokenizer.token_to_id(MASK) is not None
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        mask_token=AddedToken(MASK, special=True, normalized=False, lstrip=True) if has_mask else None,
        clean_up_tokenization_spaces=False,
    )
