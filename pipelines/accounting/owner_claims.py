"""The claim about a person: everything that one person wrote is one record of private steps.

The claim covers text as far back as no step lets one person change the private records of another. Steps that may do so
are `CorpusFacts.couples_people`, and the gate, if it holds public rows. If there is none, the claim is about corpora
before deduplication and redaction. Otherwise it is about private sets after both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pipelines.accounting.assumptions import IN_EVERY_RELEASE, OTHERS_ROWS
from pipelines.accounting.claim_builder import Builder, Claim, ClaimBuilder
from pipelines.accounting.events import NeighboringRelation
from pipelines.methods.rule import ClaimName

_NOT_PUBLISHED: Final = ". How many records each of them has is not public, and is not published"
_OWN: Final = (
    "documents without an id count as one person each (corpus.owner_missing = own). Somebody who wrote several of them "
    "counts as a group of people, and is protected less"
)


def owner_dp(b: ClaimBuilder) -> Claim:
    """Makes the claim of differential privacy of a person."""
    coupled = _couplings(b)
    each = b.training.owner_records or 1
    rows = IN_EVERY_RELEASE if b.corpus.foreign_public_rows else "in private rows"
    text = "everything that one person wrote" + (f" {rows}" if b.uses_delta2 else "")
    claim = b.claim(
        "owner_dp",
        f"{b.tells} "
        f"{'what deduplication and redaction left of ' if coupled else ''}{text} was replaced by what somebody else "
        f"might have written. A person brings {'one record' if each == 1 else f'at most {each} records'} to a step.",
        "Differential privacy of DP-SGD on Poisson-sampled people, accounted with privacy loss distributions",
        extra=(_neighbours(b, coupled), *_about_people(b)),
        corpus="private_set" if coupled else "raw",
        as_in_paper={"relation": NeighboringRelation.ADD_OR_REMOVE_ONE.value, **b.add_or_remove.as_json()},
    )
    return b.issue(claim, b.loss.epsilon, b.loss.delta)


def _couplings(b: ClaimBuilder) -> tuple[str, ...]:
    """Returns how the text of one person may change the private records of another, in words."""
    if b.corpus.reads_redacted and b.corpus.has_public_rows and b.corpus.holds_rows:
        held = "the gate holds a person's sentence for a string that is masked in another's (gate.on_hit = hold)"
        return (*b.corpus.couples_people, held)
    return b.corpus.couples_people


def _neighbours(b: ClaimBuilder, coupled: Sequence[str]) -> str:
    """Returns the two worlds that the claim compares, in words."""
    if coupled:
        found = (
            "the neighbours are private sets after deduplication and redaction. What a person wrote may change what "
            "these two steps leave of the text of others. What this reveals about the person is not covered, because "
            f"{'; '.join(coupled)}"
        )
    elif b.corpus.reads_redacted:
        found = (
            "the neighbours are corpora after splitting, before deduplication and redaction. Deduplication compares a "
            "person's text with their own text only (dedup.scope = owner). Redaction reads one document at a time, and "
            "a document has one owner. No two people's sentences share a 128-bit key, and another corpus in "
            "dedup.against stays as it is"
        )
    else:
        found = "the neighbours are corpora after splitting, duplicates and secrets included"
    found += ". Both hold the same people, and all that others wrote is the same"
    if b.publication.publishes_rows and not b.rule.has_public_set:
        found += ". Neither what the person wrote nor its replacement stands in the published table"
    return found


def _about_people(b: ClaimBuilder) -> list[str]:
    """Returns the assumptions about people, and about what is not theirs."""
    found = [
        "a person is an id in the corpus (corpus.owner_from). Somebody with two ids counts as two people",
        "what others wrote about a person is their text, and is not covered",
        "agents, and others who speak in a person's documents without being their owner, are not units of privacy",
        "all releases on the same people are composed with this one, whatever their files. People of another space "
        "with a name (corpus.owner_space) are other people",
        "the number of people is public. The same people have at least one document that is read in both worlds"
        + ("" if b.publication.publishes_counts else _NOT_PUBLISHED),
    ]
    if b.training.owner_missing == "own":
        found.append(_OWN)
    if b.corpus.foreign_public_rows:
        found.append(OTHERS_ROWS)
    elif b.uses_delta2:
        found.append("only private rows are covered. Public rows, also of the same person, are the same in both worlds")
    if b.corpus.reads_redacted and b.corpus.fitted:
        found.append(
            f"these policies were fitted on text: {', '.join(b.corpus.fitted)}. The claim supposes that none of it is "
            "text of these people"
        )
    return found


BUILDERS: Final[Mapping[ClaimName, Builder]] = {"owner": lambda b, _: [owner_dp(b)]}
