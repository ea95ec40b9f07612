"""Comparison of the secrets of a sentence with its masks, and a table that adds up sentences column by column.

A *kept* sentence is one that deduplication left in place. Duplicates are masked whole, so they count as masked for m,
which is over all tokens of the training set. But for gamma and delta2 they hold no secret: if copies counted as caught,
a missed secret in ten equal sentences would look as if it were caught nine times.

A secret that was labelled over several sentences is one secret. It counts in the sentence of its first kept piece. It
is missed if any piece is missed, because that piece reveals a part of it.

A secret is *caught* if every token of it is masked. A caught secret is *unstable* if masking it by hand would change
what else is masked (`pipelines.miss_rate.stability`). It costs epsilon as a missed one does, and claims count it as
missed. The rate m, recall and precision are about masks alone.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from pipelines.errors import StageError
from pipelines.miss_rate.sampling import SentenceId
from pipelines.policies.redact import token_mask
from pipelines.tables import Table

Tokens = tuple[int, int]
"""Half-open range of a sentence's tokens."""

Reason = Literal["stable", "sentence", "document", "length"]
"""Change if the secret is masked by hand: none; in its own sentence; in other sentences of its document; in its length,
so that deduplication treats the sentence differently."""

REASONS: Final[tuple[Reason, ...]] = ("stable", "length", "sentence", "document")
"""Reasons from harmless to worst."""


class StabilityVerdict(NamedTuple):
    """The verdict on the stability of one caught secret.

    Attributes:
        is_stable: true if masking it alone by hand changes nothing else.
        is_stable_together: true if also every set of its sentence's caught secrets with it changes nothing else. False
            if there are too many to try every set.
        reason: change that it causes alone.
    """

    is_stable: bool
    is_stable_together: bool
    reason: Reason


def worse(first: StabilityVerdict, second: StabilityVerdict) -> StabilityVerdict:
    """Returns the joint verdict on two secrets on the same tokens, or on two pieces of one secret."""
    return StabilityVerdict(
        first.is_stable and second.is_stable,
        first.is_stable_together and second.is_stable_together,
        max(first.reason, second.reason, key=REASONS.index),
    )


def read_verdicts(table: Table | None) -> dict[SentenceId, dict[Tokens, StabilityVerdict]] | None:
    """Reads the verdicts of a ``stability`` table, by row and by the secret's tokens. Returns None without a table."""
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
    """The review of one sentence, with counts of tokens.

    Attributes:
        num_tokens: number of tokens of the sentence.
        num_sensitive: number of tokens in any secret.
        num_missed: number of sensitive tokens that are not masked.
        num_masked: number of tokens masked for any reason.
        is_kept: true if it is not a duplicate.
        is_public: true if the row has no mask and no flag, so that it is trained on without noise.
        secrets: (label, true if any token stays unmasked) of each secret.
        verdicts: stability of each secret; None if it is missed, or was not measured.
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
    masked: Sequence[Tokens],
    is_duplicate: bool,
    failed_closed: bool,
    is_flagged: bool,
    verdicts: Mapping[Tokens, StabilityVerdict] | None = None,
) -> SentenceReview:
    """Judges one sentence.

    Args:
        num_tokens: number of tokens of the sentence, before masks collapse.
        secrets: labelled secrets, which may overlap. One without tokens counts as caught only in a row that is masked
            whole, because otherwise there is no evidence for it.
        masked: half-open token ranges that the policies masked.
        is_duplicate: true if deduplication masked the whole row.
        failed_closed: true if a policy failed on the row, so that it was masked whole.
        is_flagged: true if the conservative policy sent the row to the private set.
        verdicts: stability of its caught secrets, by their tokens; None if not measured.

    Raises:
        ValueError: a range does not lie inside the sentence.
        LookupError: a caught secret of a kept sentence has no verdict, although stability was measured.
    """
    sensitive = [secret[:2] for secret in secrets]
    if any(not 0 <= start <= end <= num_tokens for start, end in (*masked, *sensitive)):
        raise ValueError("a span does not lie inside its sentence")
    is_whole = is_duplicate or failed_closed
    is_masked = token_mask(num_tokens, [(0, num_tokens)] if is_whole else masked)
    is_sensitive = token_mask(num_tokens, sensitive)
    found = []
    judged: list[StabilityVerdict | None] = []
    for start, end, label in secrets:
        is_missed = not all(is_masked[start:end]) if end > start else not is_whole
        found.append((label, is_missed))
        is_judged = verdicts is not None and not is_missed and not is_duplicate
        judged.append(_verdict(verdicts or {}, start, end) if is_judged else None)
    return SentenceReview(
        num_tokens=num_tokens,
        num_sensitive=sum(is_sensitive),
        num_missed=sum(s and not m for s, m in zip(is_sensitive, is_masked, strict=True)),
        num_masked=sum(is_masked),
        is_kept=not is_duplicate,
        is_public=not (is_whole or masked or is_flagged),
        secrets=tuple(found),
        verdicts=tuple(judged),
    )


def _verdict(verdicts: Mapping[Tokens, StabilityVerdict], start: int, end: int) -> StabilityVerdict:
    if start == end:  # no token to mask by hand, so no evidence that it is stable
        return StabilityVerdict(False, False, "sentence")
    return verdicts[start, end]


def judge_row(
    row: Mapping[str, Any], secrets: Sequence[SecretSpan], verdicts: StabilityVerdicts | None = None
) -> SentenceReview:
    """Compares the secrets of a sentence with its row of the redacted table.

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
    """A whole secret: missed if any of its pieces is, and escaped if such a piece is in a public row.

    ``verdict`` is that of its worst piece; None if any piece is missed, or stability was not measured.
    """

    label: str
    is_missed: bool
    is_escaped: bool
    verdict: StabilityVerdict | None = None

    @property
    def is_unstable(self) -> bool:
        """True if it is caught, and masking it by hand changes something else."""
        return self.verdict is not None and not self.verdict.is_stable


def _column() -> array[int]:
    return array("Q")


def _weights() -> array[float]:
    return array("d")


@dataclass
class LabelCount:
    """The secrets of one label in kept sentences, with an entry in each column for a sentence that holds any."""

    secrets: array[int] = field(default_factory=_column)
    missed: array[int] = field(default_factory=_column)
    unstable: array[int] = field(default_factory=_column)
    escaped: array[int] = field(default_factory=_column)
    weights: array[float] = field(default_factory=_weights)

    @property
    def num_secrets(self) -> int:
        """The number of secrets of this label."""
        return sum(self.secrets)

    @property
    def num_missed(self) -> int:
        """The number of secrets with a token that stays unmasked."""
        return sum(self.missed)

    @property
    def num_unstable(self) -> int:
        """The number of secrets that are caught and not redacted stably."""
        return sum(self.unstable)


@dataclass
class ReviewTable:
    """The distinct sampled sentences, one entry in each column; some 60 bytes a sentence.

    Attributes:
        tokens, sensitive, missed: numbers of tokens, over all sentences.
        secrets, missed_secrets, escaped_secrets: numbers of secrets of kept sentences (0 for duplicates). Escaped:
            missed in a public row.
        unstable_secrets: number of caught secrets that are not redacted stably.
        has_stability: true if stability was measured.
        num_unstable_together: number of caught secrets that are stable, and not known to be stable together with
            others of their sentence.
        num_unstable_elsewhere: number of caught secrets that change other sentences if they are masked by hand.
        policy_masked, policy_found, policy_missed: weighted numbers of tokens of kept sentences: masked; masked and
            sensitive; sensitive and not masked.
        weights: 1 / inclusion probability of each sentence, up to a common factor.
        large: flag of each sentence: true if it is large (`pipelines.miss_rate.large`).
        domains: domain of each sentence, as a position in ``domain_names``.
        labels: secrets of kept sentences by label; a label that is not in the sample has empty columns.
        replicate_tokens, replicate_missed: weighted numbers of tokens of each replicate.
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
        """The number of distinct sampled sentences so far."""
        return len(self.tokens)

    def add_label(self, label: str) -> None:
        """Adds a label of existing secrets, even if the sample holds none of them."""
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
            review: review of the sentence.
            replicates: replicates that hold it; the large part of the sample, after them, is not a replicate.
            weight: 1 / the probability that any replicate holds it, up to a factor common to all sentences.
            weight_in_replicate: 1 / the probability that one replicate holds it, up to such a factor.
            domain: domain of the sentence.
            is_large: true if it is large.
            secrets: whole secrets that count here; None if each of the sentence's secrets lies inside it.
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
