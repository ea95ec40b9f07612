"""Where the log of reviews is, and how much of it a run reads.

Reviews go on while a run is under way. As the log only grows, its length at the start of a run names a state that stays
readable: the run's keys hold the digest of those bytes, and its stages read no more than them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import DamagedFileError, StoreError
from pipelines.files import read_file
from pipelines.store.place.roots import Roots


@dataclass(frozen=True)
class ReviewState:
    """The log of reviews up to some length: ``digest`` is the SHA-256 of its first ``num_bytes`` bytes."""

    num_bytes: int
    digest: str


def reviews_path(roots: Roots) -> Path:
    """The log of reviews; `gc` leaves it alone."""
    return roots.private / "reviews" / "decisions.jsonl"


def review_state(roots: Roots) -> ReviewState | None:
    """The log as it is now, up to its last whole line; None where nobody has reviewed.

    Raises:
        StoreError: it is sealed, and not as it was written.
    """
    try:
        data = read_file(reviews_path(roots))
    except FileNotFoundError:
        return None
    except DamagedFileError:
        raise StoreError(f"the log of reviews {reviews_path(roots)} is damaged; restore it from a backup") from None
    whole = data[: data.rfind(b"\n") + 1]
    return ReviewState(len(whole), hashlib.sha256(whole).hexdigest()) if whole else None


def reviews_of(roots: Roots, state: ReviewState | None) -> tuple[Path, int] | None:
    """What `StageContext.reviews` holds."""
    return None if state is None else (reviews_path(roots), state.num_bytes)
