"""Whether a caught secret is redacted stably, as `pipelines.miss_rate.stability` found it, and the table of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, NamedTuple

from pipelines.tables import iter_batches

Reason = Literal["stable", "sentence", "document", "length"]
"""What masking the secret by hand changes: nothing; its own sentence; other sentences of its document; whether
deduplication looks at the sentence."""

REASONS: Final[tuple[Reason, ...]] = ("stable", "length", "sentence", "document")
"""From harmless to worst."""

Row = tuple[str, int]
Tokens = tuple[int, int]


class Verdict(NamedTuple):
    """What is known of one caught secret.

    Attributes:
        is_stable: masked alone by hand, it changes nothing else.
        is_stable_together: nor does any set of its sentence's caught secrets that it is part of. False as well where
            they are too many to try every set.
        reason: what it changes alone.
    """

    is_stable: bool
    is_stable_together: bool
    reason: Reason


def worse(first: Verdict, second: Verdict) -> Verdict:
    """What holds where both do: of two secrets on the same tokens, or of two pieces of one."""
    return Verdict(
        first.is_stable and second.is_stable,
        first.is_stable_together and second.is_stable_together,
        max(first.reason, second.reason, key=REASONS.index),
    )


def read_verdicts(path: Path) -> dict[Row, dict[Tokens, Verdict]]:
    """The verdicts of a ``stability`` table: by row, and in it by the secret's tokens."""
    found: dict[Row, dict[Tokens, Verdict]] = {}
    for batch in iter_batches(path, "stability"):
        for row in batch.to_pylist():
            tokens = row["start_token"], row["end_token"]
            verdict = Verdict(row["is_stable"], row["is_stable_together"], row["reason"])
            found.setdefault((row["doc_id"], row["sentence_index"]), {})[tokens] = verdict
    return found
