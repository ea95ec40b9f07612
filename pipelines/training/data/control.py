"""Control tokens: their names, their spelling, and their places in a record. Imports no torch.

The names of speakers and domains become control tokens only if public rows (or the settings) name them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from pipelines.mask import MASK

PAD: Final = "<PAD>"
BOS: Final = "<BOS>"
EOS: Final = "<EOS>"
OTHER_SPEAKER: Final = "<SPEAKER>"
OTHER_DOMAIN: Final = "<DOMAIN>"
CONVERSATION_START: Final = "<_soc_>"  # as Kabra and Elenberg (2023), appendix C, write it
CONVERSATION_END: Final = "<_eoc_>"
RESERVED: Final = (PAD, BOS, EOS, MASK, OTHER_SPEAKER, OTHER_DOMAIN, CONVERSATION_START, CONVERSATION_END)
EVERY: Final = (PAD, BOS, EOS)
MAX_NAMES: Final = 64
"""Largest number of speakers, and of domains, with their own token."""


@dataclass(frozen=True, kw_only=True)
class AddedTokens:
    """Control tokens of a vocabulary besides begin, end and padding. Settings decide their kinds, never text.

    Attributes:
        masks: spelling of the masks. Empty for a model that will never read one.
        has_speakers: true if speakers have tokens. Otherwise the model does not see who speaks.
        has_domains: true if domains have tokens.
        has_conversations: true if tokens begin and end conversations.
        speakers, domains: names with their own token. All other names share one. See `named`.
    """

    masks: tuple[str, ...] = (MASK,)
    has_speakers: bool = True
    has_domains: bool = False
    has_conversations: bool = False
    speakers: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def named(self, speakers: Sequence[str], domains: Sequence[str]) -> AddedTokens:
        """Returns the tokens with names from the settings or public rows, if names of that kind have tokens."""
        return replace(
            self,
            speakers=tuple(speakers) if self.has_speakers else (),
            domains=tuple(domains) if self.has_domains else (),
        )

    def names(self) -> list[str]:
        """Returns the spelling of the tokens."""
        return [
            *self.masks,
            *([CONVERSATION_START, CONVERSATION_END] if self.has_conversations else []),
            *([OTHER_SPEAKER] if self.has_speakers else []),
            *([OTHER_DOMAIN] if self.has_domains else []),
            *map(name_token, (*self.speakers, *self.domains)),
        ]

    @property
    def min_vocab_size(self) -> int:
        """Smallest size of a learnt vocabulary that holds every byte and these tokens, for any names."""
        unnamed = len(EVERY) + len(self.named((), ()).names())
        return 256 + unnamed + MAX_NAMES * (self.has_speakers + self.has_domains)


@dataclass(frozen=True, kw_only=True)
class ControlTokens:
    """Ids of the tokens that are not text.

    A pretrained model may use one id for several of them: GPT-2 begins, ends and pads with the same id.

    Attributes:
        pad, bos, eos, mask: ids of these tokens. A vocabulary may have no mask.
        speakers, domains: id of each known speaker's, or domain's, control token, by name.
        other_speaker, other_domain: ids of all other speakers, or domains. None if they have no tokens at all.
        conversation_start, conversation_end: ids of these tokens. None if conversations have no tokens.
        asks_for_mask: true if masks are targets, as any word is (the masking baseline).
        typed_masks: ids of masks that name the kind of the masked text, by their spelling.
    """

    pad: int
    bos: int
    eos: int
    mask: int | None
    speakers: Mapping[str, int]
    other_speaker: int | None
    domains: Mapping[str, int] = field(default_factory=dict)
    other_domain: int | None = None
    conversation_start: int | None = None
    conversation_end: int | None = None
    asks_for_mask: bool = False
    typed_masks: Mapping[str, int] = field(default_factory=dict)

    @property
    def masks(self) -> dict[str, int]:
        """Id of every mask, by its spelling."""
        return {**({} if self.mask is None else {MASK: self.mask}), **self.typed_masks}

    def before_turn(self, speaker: str | None, domain: str | None) -> list[int]:
        """Returns the tokens before a turn: its domain and its speaker, if any.

        Names that no public row bears share a token.

        The order, and the repetition before every turn, are those of Kabra and Elenberg (2023), appendix C.
        """
        given = ((domain, self.domains, self.other_domain), (speaker, self.speakers, self.other_speaker))
        tokens = [None if name is None else known.get(name, other) for name, known, other in given]
        return [token for token in tokens if token is not None]

    def around(self, *, starts: bool, ends: bool) -> tuple[list[int], list[int]]:
        """Returns the tokens before and after all turns of a record that starts, or ends, its conversation."""
        before = [] if self.conversation_start is None or not starts else [self.conversation_start]
        after = [] if self.conversation_end is None or not ends else [self.conversation_end]
        return [self.bos, *before], [*after, self.eos]

    @property
    def turn_marks(self) -> frozenset[int]:
        """Ids that `before_turn` may return."""
        others = (self.other_speaker, self.other_domain)
        common = [token for token in others if token is not None]
        return frozenset([*self.speakers.values(), *self.domains.values(), *common])

    @property
    def ends(self) -> frozenset[int]:
        """Ids that end something. After text they are targets."""
        return frozenset([self.eos] if self.conversation_end is None else [self.eos, self.conversation_end])

    @property
    def never_predicted(self) -> npt.NDArray[np.int64]:
        """Ids that are inputs, never targets of the loss."""
        ids = {self.pad, self.bos, *self.turn_marks}
        if self.conversation_start is not None:
            ids.add(self.conversation_start)
        if not self.asks_for_mask:
            ids |= set(self.masks.values())
        ids.discard(self.eos)  # if padding and end share an id, position distinguishes padding
        return np.asarray(sorted(ids), dtype=np.int64)

    @property
    def never_text(self) -> npt.NDArray[np.int64]:
        """Ids of all control tokens."""
        ids = {*self.never_predicted.tolist(), *self.masks.values(), *self.ends}
        return np.asarray(sorted(ids), dtype=np.int64)


USUAL_TOKENS: Final = AddedTokens()


def common_names(
    num_public_rows: Mapping[str, int], min_rows: int, taken: Collection[str] = RESERVED
) -> tuple[str, ...]:
    """Returns the speakers, or domains, that get their own control token, sorted by name.

    Rare names are left out, because a person's name in such a field would be published with the vocabulary.

    Args:
        num_public_rows: number of rows of the *public* shard by name.
        min_rows: least number of rows that a name needs.
        taken: tokens of another meaning. A name that would be spelt like one of them gets no token.
    """
    frequent = [name for name, rows in num_public_rows.items() if rows >= min_rows and name.strip()]
    frequent = [name for name in frequent if name_token(name) not in taken]
    frequent.sort(key=lambda name: (-num_public_rows[name], name))
    return tuple(sorted(frequent[:MAX_NAMES]))


def name_token(name: str) -> str:
    """Returns the control token of a speaker or a domain, such as ``<USR>``."""
    return f"<{name}>"
