"""The number of training records that one changed sentence can change, after deduplication.

A *record* is what training reads of one training-fold sentence: (speaker, domain, label, text), the text being
``<MASK>`` for a duplicate; training sees the *multiset* of records. That holds only while nothing downstream reads
row order, document or row identity, and while redaction is a function of one sentence. Numbers are sound group
sizes for an accountant of the relation that they are named after:

* ``add_or_remove_one``: D' is D with one sentence inserted anywhere; the distance is the number of record additions
  and removals that lead from one multiset to the other. A record that turns into another counts twice.
* ``replace_one``: D' is D with one sentence replaced, or moved; the distance is the number of record substitutions.

Derivation. Write K for the class of sentences that share a key, f for a kept record, M_K for its masked record
(the key covers speaker, domain and label, so all of K share one M_K). A sentence that ``min_tokens`` leaves out of
scope is kept whatever the others are, and counts 1 in every case.

``mask_later``, ``normalise = none``. All of K are equal as records, so K of size c contributes {f_K, (c-1) M_K}
whatever the order. Growing K by one adds f_K (c = 0) or M_K: 1. A replacement shrinks one class and grows another:
one record leaves, one comes: 1.

``mask_later``, normalised text. Copies in K differ, and the first one is kept. Inserting r before the first copy f
gives {r, M_K} for {f}: f leaves, r and M_K come: 3 (f -> M_K, and r). Replacing the first copy of K, whose second is
g, by a new first copy s of L, whose first was h, turns {r, M_K, h} into {g, s, M_L}: 3 substitutions, all needed
when M_K and M_L differ in speaker, domain or label.

``mask_all``. A class of one is {f}, of two {M_K, M_K}. Growing from one to two: f leaves, two M_K come: 3. Replacing
one of a pair in K by a second copy of L turns {M_K, M_K, h} into {g, M_L, M_L}: 3 substitutions.

Places. If training also reads whether a sentence begins or ends its conversation, copies differ in that, which no key
covers. A replacement can change the records of three sentences: that one, the first copy left in its old class, and
the one that was first in its new class. An added sentence is one record more, and the copy that was first before it
turns into a mask. So 3 under both relations, whatever the mode.

Names of documents. The same holds if the replacement of a secret depends on the name of its document, as surrogates do:
copies in two documents are then two records. A copy that is not redacted reads the same everywhere, so no row becomes
public by it.

Public rows. All of the above counts records that the mechanism sees through noise. If a conservative policy makes some
rows public, these are trained on *without* noise, and no group size pays for a changed one. With
``normalise = none`` the other copies of a sentence with a secret have its text, so they hold the secret too and are
private, or flagged, like it. With normalised text a copy may differ from it in just what the policies look at
(capital letters, say): when the changed sentence hands "first copy" on to it, it moves between the masked, private
rows and the public ones. Hence no bound.

Another corpus (``against``). It is fixed: neighbours differ in this corpus only. Whether the other corpus holds a text
is then a function of that one sentence, even if a saved filter errs, and equal for all of a class, because equal keys
have equal normalised texts. A class that the other corpus holds is {c M_K}: growing the class by one adds M_K,
replacing one of its sentences is one substitution. All other classes are as above, so no distance grows. If the other
corpus is about the same people, the claim does not cover what that corpus says about them.

Policies that read documents (``propagate``). The masks of a sentence then depend on the other sentences of its
document: one changed sentence can change any number of them, and copies in two documents may be redacted differently,
so that the class of copies is no longer {f, (c-1) M}. No bound.

``unit = document``. One changed sentence makes its whole document differ from its copies, or equal to others: all
sentences of all of these change between text and mask. No bound that does not grow with the length of a document.

``verify = False``. The plain Bloom filter also masks false positives. One more key sets up to num_hashes more bits,
and any number of later sentences may become false positives by them: no bound that does not grow with the corpus.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipelines.dedup.keys import Normalise

Unit = Literal["sentence", "document"]
Mode = Literal["mask_later", "mask_all"]


@dataclass(frozen=True, kw_only=True)
class Stability:
    """Group sizes for a claim about the corpus before deduplication; None if no bound holds.

    Attributes:
        add_or_remove_one: record additions and removals caused by one added or removed sentence
        replace_one: record substitutions caused by one replaced sentence
        reason: explanation for people, with the assumptions
    """

    add_or_remove_one: int | None
    replace_one: int | None
    reason: str


_ASSUMPTIONS = (
    " This counts training records of one sentence each. With larger records (a dialogue, a block), each sentence of"
    " the changed record may have a copy in another record, which then changes too. The count supposes that training"
    " reads no row order and no document identity{}, that redaction depends on the sentence alone, that another corpus"
    " (dedup.against) stays as it is, and that no two different sentences share a 128-bit key. MurmurHash3 makes"
    " equal keys unlikely by chance, but an adversary can write sentences with equal keys."
)


def dedup_stability(
    mode: Mode,
    normalise: Normalise,
    verify: bool,
    *,
    unit: Unit = "sentence",
    has_public_set: bool = False,
    reads_places: bool = False,
    reads_documents: bool = False,
    reads_document_names: bool = False,
) -> Stability:
    """Returns the stability of deduplication under each neighbouring relation. The module's text derives it.

    Args:
        mode: copies that are masked
        normalise: normalisation under which two sentences count as copies
        verify: true if the Bloom filter's finds are checked exactly
        unit: unit of comparison
        has_public_set: true if a conservative policy makes some rows public, which are trained on without noise
        reads_places: true if training reads a sentence's place in its conversation
        reads_documents: true if a policy of redaction reads the whole document of a sentence
        reads_document_names: true if the replacement of a secret depends on the name of its document
    """
    if unit != "sentence":
        return _both(
            None,
            "unit = document: one changed sentence makes its whole document differ from its copies, and any"
            " number of sentences change between text and mask, so no claim about the corpus before deduplication"
            " holds.",
        )
    if reads_documents:
        return _both(
            None,
            "a policy reads whole documents: one changed sentence can change what is masked in all of its"
            " document, and copies of a sentence in two documents may be redacted in two ways, so no claim about the"
            " corpus before deduplication holds.",
        )
    if not verify:
        return _both(
            None,
            "verify = false: one inserted key can turn any number of later sentences into false positives of"
            " the Bloom filter, so no claim about the corpus before deduplication holds.",
        )
    if has_public_set and normalise != "none":
        return _both(
            None,
            f"normalise = {normalise} with a conservative policy: copies differ in text, so one changed"
            " sentence can move another copy between the private rows and the public ones, which are trained on"
            " without noise; no claim about the corpus before deduplication holds. Set dedup.normalise = none, or no"
            " redact.conservative.",
        )
    number = 3
    if mode == "mask_all":
        reason = (
            "mask_all: a second copy masks the first as well, so one added sentence removes a kept record and adds two"
            " masked ones."
        )
    elif normalise == "none" and reads_places:
        reason = (
            "mask_later on exact text, with tokens for conversations: copies differ in where they stand, so a"
            " new first copy is kept in the place of the old one, which becomes masked."
        )
    elif normalise == "none" and reads_document_names:
        reason = (
            "mask_later on exact text, with surrogates by document: copies in two documents have different surrogates,"
            " so a new first copy is kept in the place of the old one, which becomes masked."
        )
    elif normalise == "none":
        number = 1
        reason = (
            "mask_later on exact text: copies are equal in all that training reads, so training does not depend on"
            " which copy is kept."
        )
    else:
        reason = (
            f"mask_later with normalise = {normalise}: copies differ in text, so a new first copy is kept in the"
            " place of the old one, which becomes masked. This holds if every row is private. With a conservative"
            " policy there is no bound."
        )
    return _both(
        number, reason + _ASSUMPTIONS.format(" but what surrogates show of it" if reads_document_names else "")
    )


def _both(number: int | None, reason: str) -> Stability:
    """Returns a stability with one number for both relations."""
    return Stability(add_or_remove_one=number, replace_one=number, reason=reason)
