"""Vocabularies: the control tokens that a model needs, and text encoded so that it cannot spell one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from tokenizers import AddedToken, Tokenizer

from pipelines.errors import ConfigError
from pipelines.mask import MASK
from pipelines.training.data.control import (
    CONVERSATION_END,
    CONVERSATION_START,
    EOS,
    OTHER_DOMAIN,
    OTHER_SPEAKER,
    USUAL_TOKENS,
    AddedTokens,
    ControlTokens,
    name_token,
)
from pipelines.training.data.tokenizer import byte_tokenizer, loadable, train_bpe, written

_NOISE_SHARE: Final = 0.1


def complete_tokenizer(tokenizer: Any, added: AddedTokens = USUAL_TOKENS) -> list[int]:
    """Adds the tokens that a tokenizer of ``transformers`` lacks, and returns the new ids.

    ``<MASK>`` is added once, unless the tokenizer has its own mask, which then stands for it. If a model ends texts but
    does not pad or begin them, its end token does that too: padding never enters a loss, so it needs no row.

    Args:
        tokenizer: fast tokenizer, changed in place.
        added: control tokens that it must have.

    Returns:
        The new ids, none of which has a trained embedding.

    Raises:
        ConfigError: the tokenizer is not a fast one.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError("model: its tokenizer has no fast form (tokenizer.json). Convert it with transformers first")
    before = set(tokenizer.get_vocab().values())
    if tokenizer.eos_token is None:
        end = tokenizer.sep_token  # the end of a text in the BERT family
        tokenizer.add_special_tokens({"eos_token": AddedToken(EOS, special=True) if end is None else end})
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.bos_token is None:
        tokenizer.bos_token = tokenizer.cls_token or tokenizer.eos_token
    if tokenizer.mask_token is None and MASK in added.masks:
        tokenizer.add_special_tokens({"mask_token": written([MASK], [MASK])[0]})
    known = {MASK, *tokenizer.get_vocab()}
    tokenizer.add_tokens(written([name for name in added.names() if name not in known], added.masks))
    return sorted(set(tokenizer.get_vocab().values()) - before)


def control_tokens_of(tokenizer: Any, added: AddedTokens = USUAL_TOKENS) -> ControlTokens:
    """Returns the control tokens of a completed tokenizer (`complete_tokenizer`)."""
    vocabulary = tokenizer.get_vocab()
    return ControlTokens(
        pad=tokenizer.pad_token_id,
        bos=tokenizer.bos_token_id,
        eos=tokenizer.eos_token_id,
        mask=tokenizer.mask_token_id if added.masks else None,
        speakers={name: vocabulary[name_token(name)] for name in added.speakers},
        other_speaker=vocabulary[OTHER_SPEAKER] if added.has_speakers else None,
        domains={name: vocabulary[name_token(name)] for name in added.domains},
        other_domain=vocabulary[OTHER_DOMAIN] if added.has_domains else None,
        conversation_start=vocabulary[CONVERSATION_START] if added.has_conversations else None,
        conversation_end=vocabulary[CONVERSATION_END] if added.has_conversations else None,
        typed_masks={text: vocabulary[text] for text in added.masks if text != MASK},
    )


def make_room(model: Any, new_ids: Sequence[int], seed: int) -> int:
    """Gives new tokens an embedding: the mean of the existing ones, with a little noise to distinguish them.

    Rows of small random numbers would get logits near zero, far above those of real tokens in many models, and every
    probability would shift. The mean row's probability is that of an average token.

    Args:
        model: model of ``transformers``. Its embedding is resized in place, tied to its output or not.
        new_ids: ids without a trained row.
        seed: public seed of the noise.

    Returns:
        Number of rows that the embedding grew by.
    """
    if not new_ids:
        return 0
    old: int = model.get_input_embeddings().num_embeddings
    grown = max(0, max(new_ids) + 1 - old)
    if grown:
        model.resize_token_embeddings(old + grown, mean_resizing=False)
    generator = torch.Generator().manual_seed(seed % 2**63)
    trained = torch.ones(old + grown, dtype=torch.bool)
    trained[list(new_ids)] = False
    output = model.get_output_embeddings()
    tables = [model.get_input_embeddings().weight]
    if output is not None and output.weight is not tables[0]:
        tables.append(output.weight)
    with torch.no_grad():
        for table in tables:
            rows = table[trained.to(table.device)].float()
            noise = torch.randn(len(new_ids), table.shape[1], generator=generator).to(table.device)
            spread = rows.std(dim=0) * _NOISE_SHARE
            table[list(new_ids)] = (rows.mean(dim=0) + spread * noise).to(table.dtype)
        bias = getattr(output, "bias", None)
        if bias is not None:
            bias[list(new_ids)] = bias[trained.to(bias.device)].mean()
    return grown


@dataclass(frozen=True)
class EncodedText:
    """Ids of a text, and the characters that each id came from.

    Attributes:
        ids: (T,) token ids. A redaction mask is the control token ``mask``.
        spans: (T,) (start, end) characters of each token.
    """

    ids: list[int]
    spans: list[tuple[int, int]]


class TextEncoder:
    """Encodes text that may hold redaction masks.

    ``<MASK>``, and every other mask of the vocabulary, becomes its token, together with the blank before it. Every
    other control token that a text spells, such as ``</s>`` or ``<|endoftext|>``, is plain characters: a text cannot
    end its own record or speak for somebody else.

    Args:
        tokenizer: tokenizer, which is not changed.
        control: control tokens.
        unknown: id of text that the tokenizer cannot spell. None if it can spell everything.
    """

    def __init__(self, tokenizer: Tokenizer, control: ControlTokens, unknown: int | None = None) -> None:
        self.unknown = unknown
        self._tokenizer = Tokenizer.from_str(tokenizer.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        self._masks = control.masks
        written = "|".join(map(re.escape, self._masks)) or "(?!)"  # a pattern that never matches
        self._mask_and_blank = re.compile(rf"\s*({written})")

    def ids(self, texts: Iterable[str]) -> list[list[int]]:
        """Returns the ids of each text, without begin and end."""
        pieces = [self._mask_and_blank.split(text) for text in texts]  # alternating text and masks
        flat = [piece for row in pieces for piece in row[::2] if piece]
        encoded = iter(self._tokenizer.encode_batch_fast(flat, add_special_tokens=False))
        rows = []
        for row in pieces:
            ids: list[int] = []
            for number, piece in enumerate(row):
                if number % 2:
                    ids.append(self._masks[piece])
                elif piece:
                    ids.extend(next(encoded).ids)
            rows.append(ids)
        return rows

    def with_spans(self, text: str) -> EncodedText:
        """Returns the ids of one text, and the characters of each."""
        ids: list[int] = []
        spans: list[tuple[int, int]] = []

        def add(piece: str, offset: int) -> None:
            if piece:
                encoding = self._tokenizer.encode(piece, add_special_tokens=False)
                ids.extend(encoding.ids)
                spans.extend((start + offset, end + offset) for start, end in encoding.offsets)

        at = 0
        for mask in self._mask_and_blank.finditer(text):
            add(text[at : mask.start()], at)
            ids.append(self._masks[mask[1]])
            spans.append(mask.span(1))
            at = mask.end()
        add(text[at:], at)
        return EncodedText(ids, spans)


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """A complete tokenizer, and the origin of the text that it was learnt from.

    Attributes:
        tokenizer: tokenizer of ``transformers``, which is saved beside the weights.
        control: ids of the control tokens.
        encoder: encoder of text.
        kind: ``bpe_public``, ``bytes``, or ``pretrained``.
        trained_on: origin of the text that it was learnt from: ``public`` rows, ``none``, or text from ``elsewhere``.
    """

    tokenizer: Any
    control: ControlTokens
    encoder: TextEncoder
    kind: str
    trained_on: str

    @property
    def backend(self) -> Tokenizer:
        """The tokenizer of the ``tokenizers`` library."""
        backend: Tokenizer = self.tokenizer.backend_tokenizer
        return backend


def vocabulary_of(tokenizer: Any, added: AddedTokens, *, kind: str, trained_on: str) -> Vocabulary:
    """Returns the vocabulary of a tokenizer that has these control tokens."""
    control = control_tokens_of(tokenizer, added)
    return Vocabulary(
        tokenizer=tokenizer,
        control=control,
        encoder=TextEncoder(tokenizer.backend_tokenizer, control, tokenizer.unk_token_id),
        kind=kind,
        trained_on=trained_on,
    )


def learn_vocabulary(
    kind: str, vocab_size: int, public_texts: Iterable[str] | None, added: AddedTokens = USUAL_TOKENS
) -> Vocabulary:
    """Learns a vocabulary for a new model.

    Args:
        kind: ``bytes``, or ``bpe_public``, which becomes ``bytes`` if there is no public text.
        vocab_size: largest number of tokens of a BPE vocabulary.
        public_texts: texts of public rows, and nothing else. None if there are none.
        added: control tokens of the vocabulary.
    """
    if kind == "bytes" or public_texts is None:
        return vocabulary_of(loadable(byte_tokenizer(added)), added, kind="bytes", trained_on="none")
    return vocabulary_of(loadable(train_bpe(public_texts, vocab_size, added)), added, kind=kind, trained_on="public")
