"""Which text a training method reads, and as what (design, section 4, "Method × input").

*Original* is the sentences table, training fold, as split left it: duplicates are still there. Every copy of a sentence
is a record of its own, with its own text, and counts towards N; only the redacted text of a later copy is one mask. So
with duplicates, a guarantee for one record is one for one copy: who said the same twice is two records, and a claim for
the corpus *before* deduplication has nothing to gain from it here.

*Tokens marked*: what `redacted.spans` covers is private. A later copy, and a row on which a policy failed, have no
spans of their own and are private as a whole. The conservative policy marks nothing: it flags sentences, and the
selective method protects what the policies find, token by token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class View:
    """The text that a method trains on.

    Attributes:
        nonprivate: records that steps without noise go through.
        private: records that DP steps sample.
        marks_tokens: flag that the tokens of original text are marked as private or public.
        asks_for_masks: flag that masks are targets of the loss.
        learns_words: flag that the public rows may shape the vocabulary and name its speakers. Only if they are public
            for the method's claims too: otherwise every row is a record to protect, and a vocabulary has no noise.
    """

    nonprivate: Literal["public_shard", "redacted", "typed", "screened", "original", "none"]
    private: Literal["private_shard", "original", "none"]
    marks_tokens: bool = False
    asks_for_masks: bool = False
    learns_words: bool = False

    @property
    def reads_shards(self) -> bool:
        """Tells if records come from the shards."""
        return self.nonprivate in ("public_shard", "redacted") or self.private == "private_shard"

    @property
    def reads_masks(self) -> bool:
        """Tells if masks come from the redacted tables, beside the shards."""
        return self.marks_tokens or self.nonprivate == "typed"

    @property
    def reads_original(self) -> bool:
        """Tells if records come from the sentences."""
        return "original" in (self.nonprivate, self.private)


def with_typed_masks(view: View) -> View:
    """Returns the view with masks that tell what was masked, if it reads redacted text of all rows."""
    return replace(view, nonprivate="typed") if view.nonprivate == "redacted" else view


def unread_stages(view: View, *, tokenizer_reads_public_rows: bool) -> frozenset[str]:
    """Returns the stages, of ``shard`` and ``redact``, whose output such a training does not read.

    What is not read may change without a new training: another policy then leaves `dpsgd` alone. A vocabulary that is
    learnt on public rows reads the shards whatever the method is.
    """
    unread = {"shard", "redact"}
    if view.reads_shards or tokenizer_reads_public_rows:
        unread.discard("shard")
    if view.reads_masks:
        unread.discard("redact")
    return frozenset(unread)
