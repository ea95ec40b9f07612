"""Compares what is sensitive in a sentence with what was masked, and adds sentences up column by column.

A *kept* sentence is one that deduplication left in place. Duplicates are masked whole, so they count as masked for m,
which is over all tokens of the training set. They hold no secret of their own for gamma and delta2, though: if copies
counted as caught, a missed secret that stands in ten equal sentences would look as if it were caught nine times.

A secret that was labelled over several sentences is one secret: it counts where its first kept piece stands, and it
is missed when any piece is, because that piece gives a part of it away.

A secret whose every token is masked is *caught*. A caught one is *unstable* where masking it by hand would change what
else is masked (`pipelines.miss_rate.stability`): it costs epsilon as a missed one does, and claims count it as missed.
m, recall and precision are about masks alone.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from pipelines.errors import StageError
from pipelines.miss_rate.sampling import SentenceId
from pipelines.tables import Table

Tokens = tuple[int, int]
"""A half-open range of a sentence's tokens."""

Reason = Literal["stable", "sentence", "document", "length"]
"""What masking the secret by hand changes: nothing; its own sentence; other sentences of its document; whether
deduplication looks at the sentence."""

REASONS: Final[tuple[Reason, ...]] = ("stable", "length", "sentence", "document")
"""From harmless to worst."""


class StabilityVerdict(NamedTuple):
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


def worse(first: StabilityVerdict, second: StabilityVerdict) -> StabilityVerdict:
    """What holds where both do: of two secrets on the same tokens, or of two pieces of one."""
    return StabilityVerdict(
        first.is_stable and second.is_stable,
        first.is_stable_together and second.is_stable_together,
        max(first.reason, second.reason, key=REASONS.index),
    )


def read_verdicts(table: Table | None) -> dict[SentenceId, dict[Tokens, StabilityVerdict]] | None:
    """The verdicts of a ``stability`` table: by row, and in it by the secret's tokens. None without a table."""
    if table is None:
        return None
    found: dict[SentenceId, dict[Tokens, StabilityVerdict]] = {}
    for row in table.rows():
        tokens = row["start_token"], row["end_token"]
        verdict = StabilityVerdict(row["is_stable"], row["is_stable_together"], row["reason"])
        found.setdefault((row["doc_id"], row["sentence_index"]), {})[tokens] = verdict
    return found


StabilityVerdicts = Mapping[SentenceId, Mapping[Tokens, StabilityVerdict]]


class SecretSpan(NamedTuple):
    """A labelled secret in one sentence, as a half-open range of its tokens."""

    start_token: int
    end_token: int
    label: str


class SentenceReview(NamedTuple):
    """What the review of one sentence found; counts are tokens unless they say otherwise.

    Attributes:
        num_tokens: of the sentence.
        num_sensitive: in any secret.
        num_missed: sensitive and not masked.
        num_masked: masked, for any reason.
        is_kept: not a duplicate.
        is_public: nothing in the row is masked and nothing flags it, so it is trained on without noise.
        secrets: (label, whether any token of it stays unmasked) for each secret.
        verdicts: for each secret, whether it is redacted stably; None where it is missed, or nobody measured it.
    """

    num_tokens: int
    num_sensitive: int
    num_missed: int
    num_masked: int
    is_kept: bool
    is_public: bool
    secrets: tuple[tuple[str, bool], ...]
    verdicts: tuple[StabilityVerdict | None, ...] = ()


def review_sentence(
    *,
    num_tokens: int,
    secrets: Sequence[SecretSpan],
    masked: Iterable[Tokens],
    is_duplicate: bool,
    failed_closed: bool,
    is_flagged: bool,
    verdicts: Mapping[Tokens, StabilityVerdict] | None = None,
) -> SentenceReview:
    """Judges one sentence.

    Args:
        num_tokens: tokens of the sentence, before masks collapse.
        secrets: its labelled secrets. They may overlap; one without tokens counts as caught only in a row that is
            masked whole, because nothing shows that it was.
        masked: half-open token ranges that the policies masked.
        is_duplicate: whether deduplication masked the whole row.
        failed_closed: whether a policy failed on the row, so that it was masked whole.
        is_flagged: whether the conservative policy sent the row to the private set.
        verdicts: whether its caught secrets are redacted stably, by their tokens; None where that was not measured.

    Raises:
        ValueError: a range that does not lie inside the sentence.
        LookupError: a caught secret of a kept sentence has no verdict, although stability was measured.
    """
    is_masked = bytearray(num_tokens)
    has_mask = False
    for start, end in masked:
        _check_range(start, end, num_tokens)
        is_masked[start:end] = b"\x01" * (end - start)
        has_mask = True
    is_whole = is_duplicate or failed_closed
    if is_whole:
        is_masked[:] = b"\x01" * num_tokens
    is_sensitive = bytearray(num_tokens)
    found = []
    judged: list[StabilityVerdict | None] = []
    for secret in secrets:
        start, end = secret.start_token, secret.end_token
        _check_range(start, end, num_tokens)
        is_sensitive[start:end] = b"\x01" * (end - start)
        is_missed = not all(is_masked[start:end]) if end > start else not is_whole
        found.append((secret.label, is_missed))
        is_judged = verdicts is not None and not is_missed and not is_duplicate
        judged.append(_verdict(verdicts or {}, start, end) if is_judged else None)
    return SentenceReview(
        num_tokens=num_tokens,
        num_sensitive=sum(is_sensitive),
        num_missed=sum(s and not m for s, m in zip(is_sensitive, is_masked, strict=True)),
        num_masked=sum(is_masked),
        is_kept=not is_duplicate,
        is_public=not (is_whole or has_mask or is_flagged),
        secrets=tuple(found),
        verdicts=tuple(judged),
    )


def _verdict(verdicts: Mapping[Tokens, StabilityVerdict], start: int, end: int) -> StabilityVerdict:
    if start == end:  # nothing to mask by hand, so nothing shows that it is stable
        return StabilityVerdict(False, False, "sentence")
    return verdicts[start, end]


def _check_range(start: int, end: int, num_tokens: int) -> None:
    if not 0 <= start <= end <= num_tokens:
        raise ValueError("a span does not lie inside its sentence")


def judge_row(
    row: Mapping[str, Any], secrets: Sequence[SecretSpan], verdicts: StabilityVerdicts | None = None
) -> SentenceReview:
    """Compares the secrets of a sentence with its row of the redacted table.

    Args:
        row: of the redacted table.
        secrets: of the sentence.
        verdicts: of the partition; None where stability was not measured.

    Raises:
        StageError: a span does not lie inside the sentence, or a caught secret has no verdict.
    """
    of_row = None if verdicts is None else verdicts.get((row["doc_id"], row["sentence_index"]), {})
    try:
        return review_sentence(
            num_tokens=row["num_tokens"],
            secrets=secrets,
            masked=[(span["start_token"], span["end_token"]) for span in row["spans"]],
            is_duplicate=row["is_duplicate"],
            failed_closed=row["failed_closed"],
            is_flagged=row["flagged_by_conservative"],
            verdicts=of_row,
        )
    except LookupError:
        raise StageError(
            "a caught secret of the sample was not masked by hand; run again with --force estimate"
        ) from None
    except ValueError:
        raise StageError("a labelled or redacted span does not lie inside its sentence; rerun from split") from None


class JudgedSecret(NamedTuple):
    """One whole secret: missed in any of its pieces, escaped if such a piece stands in a public row.

    ``verdict`` is that on the worst of its pieces; it is None where any is missed, or nobody measured.
    """

    label: str
    is_missed: bool
    is_escaped: bool
    verdict: StabilityVerdict | None = None

    @property
    def is_unstable(self) -> bool:
        """Caught, and masking it by hand changes something else."""
        return self.verdict is not None and not self.verdict.is_stable


def _column() -> array[int]:
    return array("Q")


def _weights() -> array[float]:
    return array("d")


@dataclass
class LabelCount:
    """Secrets of one label in kept sentences: one entry in each column for a sentence that holds any."""

    secrets: array[int] = field(default_factory=_column)
    missed: array[int] = field(default_factory=_column)
    unstable: array[int] = field(default_factory=_column)
    escaped: array[int] = field(default_factory=_column)
    weights: array[float] = field(default_factory=_weights)

    @property
    def num_secrets(self) -> int:
        """Secrets of this label."""
        return sum(self.secrets)

    @property
    def num_missed(self) -> int:
        """Those with a token that stays unmasked."""
        return sum(self.missed)

    @property
    def num_unstable(self) -> int:
        """Those that are caught and not redacted stably."""
        return sum(self.unstable)


@dataclass
class ReviewTable:
    """The distinct sampled sentences, one entry in each column; some 60 bytes a sentence.

    Attributes:
        tokens, sensitive, missed: tokens, over all sentences.
        secrets, missed_secrets, escaped_secrets: secrets of kept sentences (0 for duplicates). Escaped: missed in a
            public row.
        unstable_secrets: caught ones that are not redacted stably.
        has_stability: whether that was measured.
        num_unstable_together: caught secrets that are stable, and not known to be stable together with others of
            their sentence.
        num_unstable_elsewhere: caught secrets that change other sentences when they are masked by hand.
        policy_masked, policy_found, policy_missed: tokens of kept sentences, summed with weights: masked;
            masked and sensitive; sensitive and not masked.
        weights: 1 / inclusion probability of each sentence, up to a common factor.
        large: whether each sentence is a large one (`pipelines.miss_rate.large`).
        domains: of each sentence, as a position in ``domain_names``.
        labels: secrets of kept sentences by label; a label that the sample did not meet has empty columns.
        replicate_tokens, replicate_missed: tokens of each replicate, with weights.
    """

    num_replicates: int
    tokens: array[int] = field(default_factory=_column)
    sensitive: array[int] = field(default_factory=_column)
    missed: array[int] = field(default_factory=_column)
    secrets: array[int] = field(default_factory=_column)
    missed_secrets: array[int] = field(default_factory=_column)
    unstable_secrets: array[int] = field(default_factory=_column)
    escaped_secrets: array[int] = field(default_factory=_column)
    has_stability: bool = False
    num_unstable_together: int = 0
    num_unstable_elsewhere: int = 0
    weights: array[float] = field(default_factory=_weights)
    large: array[int] = field(default_factory=_column)
    domains: array[int] = field(default_factory=_column)
    domain_names: list[str] = field(default_factory=list)
    num_kept: int = 0
    policy_masked: float = 0
    policy_found: float = 0
    policy_missed: float = 0
    labels: dict[str, LabelCount] = field(default_factory=dict)
    replicate_tokens: list[float] = field(default_factory=list)
    replicate_missed: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.replicate_tokens = [0] * self.num_replicates
        self.replicate_missed = [0] * self.num_replicates

    @property
    def num_sentences(self) -> int:
        """Distinct sampled sentences so far."""
        return len(self.tokens)

    def add_label(self, label: str) -> None:
        """Says that secrets of this label exist, whether the sample meets one or not."""
        self.labels.setdefault(label, LabelCount())

    def add(
        self,
        review: SentenceReview,
        replicates: Iterable[int],
        secrets: Sequence[JudgedSecret] | None = None,
        *,
        weight: float = 1.0,
        weight_in_replicate: float = 1.0,
        domain: str | None = None,
        is_large: bool = False,
    ) -> None:
        """Adds one distinct sentence.

        Args:
            review: what was found in it.
            replicates: those that it stands in; the large part of the sample, behind them, is none.
            weight: 1 / the probability that it stands in any replicate, up to a factor common to all sentences.
            weight_in_replicate: likewise, in one replicate.
            domain: of the sentence.
            is_large: whether it is a large one.
            secrets: the whole secrets that count here; None where each of the sentence's secrets lies inside it.
        """
        if secrets is None:
            own = review.secrets if review.is_kept else ()
            verdicts = review.verdicts or [None] * len(own)
            secrets = [
                JudgedSecret(label, is_missed, is_missed and review.is_public, verdict)
                for (label, is_missed), verdict in zip(own, verdicts, strict=False)
            ]
        self.tokens.append(review.num_tokens)
        self.sensitive.append(review.num_sensitive)
        self.missed.append(review.num_missed)
        self.weights.append(weight)
        self.large.append(is_large)
        name = domain or ""
        if name not in self.domain_names:
            self.domain_names.append(name)
        self.domains.append(self.domain_names.index(name))
        self.secrets.append(len(secrets))
        self.missed_secrets.append(sum(secret.is_missed for secret in secrets))
        self.unstable_secrets.append(sum(secret.is_unstable for secret in secrets))
        self.escaped_secrets.append(sum(secret.is_escaped for secret in secrets))
        verdicts_here = [secret.verdict for secret in secrets if secret.verdict is not None]
        self.num_unstable_together += sum(v.is_stable and not v.is_stable_together for v in verdicts_here)
        self.num_unstable_elsewhere += sum(v.reason == "document" for v in verdicts_here)
        for label, number in Counter(secret.label for secret in secrets).items():
            count = self.labels.setdefault(label, LabelCount())
            count.secrets.append(number)
            count.missed.append(sum(s.is_missed for s in secrets if s.label == label))
            count.unstable.append(sum(s.is_unstable for s in secrets if s.label == label))
            count.escaped.append(sum(s.is_escaped for s in secrets if s.label == label))
            count.weights.append(weight)
        if review.is_kept:
            found = review.num_sensitive - review.num_missed
            self.num_kept += 1
            self.policy_masked += weight * review.num_masked
            self.policy_found += weight * found
            self.policy_missed += weight * review.num_missed
        for replicate in (r for r in replicates if r < self.num_replicates):
            self.replicate_tokens[replicate] += weight_in_replicate * review.num_tokens
            self.replicate_missed[replicate] += weight_in_replicate * review.num_missed
