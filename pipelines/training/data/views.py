"""Which text each training method reads, and as what (design, section 4, "Method × input"). Imports no torch.

    ==================  ======================================  =============================
    method              trained on without noise (``plain``)    DP steps only (``noised``)
    ==================  ======================================  =============================
    crt                 rows of the public shard                redacted text, private shard
    redacted            redacted text of both shards            nothing
    anonymized          redacted text of both shards            nothing
    jft_phase_one       redacted text of both shards            nothing (light noise: the same, with noise)
    jft_screened        redacted text that people screened      nothing
    jft                 nothing                                 original text
    redaction_schedule  redacted text of both shards            original text
    dpsgd               nothing                                 original text
    no_dp               original text                           nothing
    sdpsgd_lstm         nothing                                 original text, tokens marked
    ==================  ======================================  =============================

*Original* is the sentences table, training fold, as split left it: duplicates are still there. Every copy of a sentence
is a record of its own, with its own text, and counts towards N; only the redacted text of a later copy is one mask. So
with duplicates, a guarantee for one record is one for one copy: who said the same twice is two records, and a claim for
the corpus *before* deduplication has nothing to gain from it here.

*Tokens marked*: what `redacted.spans` covers is private. A later copy, and a row on which a policy failed, have no
spans of their own and are private as a whole. The conservative policy marks nothing: it flags sentences, and the
selective method protects what the policies find, token by token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from pipelines.errors import ConfigError

Kind = Literal["sentence", "dialogue", "block"]


@dataclass(frozen=True, kw_only=True)
class View:
    """What a method trains on.

    Attributes:
        plain: the records that steps without noise go through.
        noised: the records that DP steps sample.
        marks_tokens: whether the tokens of original text are marked as private or public.
        asks_for_masks: whether masks are targets of the loss.
        learns_words: whether the public rows may shape the vocabulary and name its speakers. Only where they are public
            for the method's claims too: elsewhere every row is a record to protect, and a vocabulary has no noise.
    """

    plain: Literal["public_shard", "redacted", "typed", "screened", "original", "none"]
    noised: Literal["private_shard", "original", "none"]
    marks_tokens: bool = False
    asks_for_masks: bool = False
    learns_words: bool = False

    @property
    def reads_shards(self) -> bool:
        """Whether records come from the shards."""
        return self.plain in ("public_shard", "redacted") or self.noised == "private_shard"

    @property
    def reads_original(self) -> bool:
        """Whether records come from the sentences."""
        return "original" in (self.plain, self.noised)


def with_typed_masks(view: View) -> View:
    """The same with masks that tell what was masked, where it reads redacted text of all rows."""
    return replace(view, plain="typed") if view.plain == "redacted" else view


_REDACTED: Final = View(plain="redacted", noised="none")
_REDACTED_THEN_ORIGINAL: Final = View(plain="redacted", noised="original")

VIEWS: Final[Mapping[str, View]] = {
    "crt": View(plain="public_shard", noised="private_shard", learns_words=True),
    "redacted": _REDACTED,
    "anonymized": View(plain="redacted", noised="none", asks_for_masks=True),
    "jft": View(plain="none", noised="original"),
    "jft_phase_one": _REDACTED,
    "jft_screened": View(plain="screened", noised="none"),
    "redaction_schedule": _REDACTED_THEN_ORIGINAL,
    "dpsgd": View(plain="none", noised="original"),
    "no_dp": View(plain="original", noised="none", learns_words=True),
    "sdpsgd_lstm": View(plain="none", noised="original", marks_tokens=True),
}
"""By method."""


def unread_stages(view: View, *, tokenizer_reads_public_rows: bool) -> frozenset[str]:
    """The stages, of ``shard`` and ``redact``, whose output such a training does not read.

    What is not read may change without a new training: another policy then leaves `dpsgd` alone. A vocabulary that is
    learnt on public rows reads the shards whatever the method is.
    """
    unread = {"shard", "redact"}
    if view.reads_shards or tokenizer_reads_public_rows:
        unread.discard("shard")
    if view.marks_tokens or view.plain == "typed":
        unread.discard("redact")
    return frozenset(unread)


@dataclass(frozen=True, kw_only=True)
class RecordUnit:
    """What one record is: the unit of privacy, named in every claim.

    ``sentence``: one row. ``dialogue``: all rows of a document. ``block``: ``sentences_per_block`` consecutive rows of
    a document, whole sentences, counted by sentence index from the document's start. Which rows share a record follows
    from document and sentence index alone, never from lengths, so one longer secret changes one record; what is too
    long for the context loses its own end. The last block of a document may be short; batches are padded.

    This holds as far as sentence indices do: a change that gives a document more sentences (a full stop, or so many
    words that split has to cut) moves the borders of that document's later blocks, and of no other document's.

    Raises:
        ConfigError: a block without a size, or a size for another kind.
    """

    kind: Kind = "sentence"
    sentences_per_block: int | None = None

    def __post_init__(self) -> None:
        if (self.kind == "block") != (self.sentences_per_block is not None):
            raise ConfigError("train: sentences_per_block belongs to records of the kind block, and to those only")
        if self.sentences_per_block is not None and self.sentences_per_block < 1:
            raise ConfigError(f"train: sentences_per_block must be at least 1, not {self.sentences_per_block}")

    @property
    def num_sentences(self) -> int:
        """Sentence indices that one record spans."""
        if self.kind == "dialogue":
            return 2**32
        return self.sentences_per_block or 1
