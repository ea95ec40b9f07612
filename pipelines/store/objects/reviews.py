"""The log of reviews, and the part of it that a run reads.

Reviewers may go on during a run. The log only grows, so its length at the start of a run names a state that stays
readable. The run's keys hold the digest of those bytes, and its stages read no more than them.
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
    """The first ``num_bytes`` bytes of the log of reviews, and their SHA-256 ``digest``."""

    num_bytes: int
    digest: str


def reviews_path(roots: Roots) -> Path:
    """Returns the path of the log of reviews, which `gc` never removes."""
    return roots.private / "reviews" / "decisions.jsonl"


def review_state(roots: Roots) -> ReviewState | None:
    """Reads the present state of the log, up to its last whole line; None if nobody has reviewed.

    Raises:
        StoreError: the log is sealed, and was changed.
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
    """Returns the path and number of bytes for `Outside.reviews`; None without reviews."""
    return None if state is None else (reviews_path(roots), state.num_bytes)
