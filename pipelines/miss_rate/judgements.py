"""Review of the sample against the judgements of people, or of a proxy policy, on each sampled sentence.

Each sentence is judged by its own text, and each marked span is a separate secret. Gold labels differ: they may join
pieces of one secret across sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.context import Progress, silent
from pipelines.miss_rate.learnt import Learnt
from pipelines.miss_rate.review import ReviewTable, SecretSpan, judge_row, read_verdicts
from pipelines.miss_rate.review_items import open_characters
from pipelines.miss_rate.review_log import Ballot, Judgement, Secret, asks_again, sentence_key
from pipelines.miss_rate.sampling import Partition, joined, read_sample, sampled_partitions
from pipelines.miss_rate.weights import Weights
from pipelines.policies.labels import ReviewLabels
from pipelines.policies.redact import redact_text, token_mask
from pipelines.tables import Table

Found = tuple[SecretSpan, ...]
JudgeRows = Callable[[Sequence[dict[str, Any]]], Sequence[Found | None]]
"""Function that returns the secrets of each sentence; None for a sentence that nobody has judged."""


@dataclass
class HumanJudge:
    """The decisions of reviewers, sentence by sentence.

    Attributes:
        secret: secret of the store.
        ballots: decisions in force, by key.
        labels: current names of the reviews' labels; reviews may be older than the list.
        num_disputed, num_trusted: numbers of sentences that reviewers judge differently, and of secrets that only a
            mask supports.
    """

    secret: bytes
    ballots: Mapping[str, Ballot]
    labels: ReviewLabels = field(default_factory=ReviewLabels)
    num_disputed: int = 0
    num_trusted: int = 0

    def judgement(self, row: Mapping[str, Any]) -> Judgement | None:
        """Returns the judgement on a sentence, or None."""
        ballot = self.ballots.get(sentence_key(self.secret, row["text"]))
        return ballot.judgement() if ballot else None

    def __call__(self, rows: Sequence[dict[str, Any]]) -> list[Found | None]:
        """Returns secrets as token ranges. Trusted ones that a new policy unmasks stay secrets until asked again."""
        found: list[Found | None] = []
        for row in rows:
            judgement = self.judgement(row)
            if judgement is None:
                found.append(None)
                continue
            self.num_disputed += judgement.is_disputed
            self.num_trusted += len(judgement.trusted)
            spans = spans_of(judgement, row["token_starts"], row["token_ends"])
            found.append(tuple(span._replace(label=self.labels.of(span.label)) for span in spans))
        return found


def spans_of(judgement: Judgement, starts: Sequence[int], ends: Sequence[int]) -> Iterator[SecretSpan]:
    """Yields the secrets as ranges of the tokens that they touch. One without tokens is not in the training text."""
    for secret in judgement.secrets:
        tokens = tokens_of(secret, starts, ends)
        if tokens is not None:
            yield SecretSpan(*tokens, secret.label)


def tokens_of(secret: Secret, starts: Sequence[int], ends: Sequence[int]) -> tuple[int, int] | None:
    """Returns the range of the tokens that a secret touches; None if it touches none."""
    inside = [i for i in range(len(starts)) if starts[i] < secret.end and ends[i] > secret.start]
    return (inside[0], inside[-1] + 1) if inside else None


def review_judged(
    sample: Table,
    partitions: Sequence[Partition],
    judge: JudgeRows,
    num_replicates: int,
    weights: Weights,
    learnt: Learnt,
    progress: Progress = silent,
) -> tuple[ReviewTable, int]:
    """Returns the sample as a judge reviews it, and the number of sampled sentences that nobody judged.

    Args:
        sample: ``sample`` table.
        partitions: tables of each partition, in corpus order.
        judge: function that returns the secrets of each sentence.
        num_replicates: number of replicates of the sample.
        weights: weights of the sentences.
        learnt: sentences that policies learnt from, which are left out.
        progress: function called after every partition.

    Raises:
        StageError: a sampled sentence was not redacted, or a span does not fit its sentence.
    """
    table = ReviewTable(num_replicates)
    num_unreviewed = 0
    for partition, wanted in sampled_partitions(sample, partitions, progress):
        verdicts = read_verdicts(partition.stability)
        table.has_stability = table.has_stability or verdicts is not None
        wanted = weights.kept(learnt.without(partition, wanted))
        for batch in joined(partition, wanted):
            for row, secrets in zip(batch, judge(batch), strict=True):
                if row["is_duplicate"]:
                    secrets = ()  # masked whole, so its secrets are not counted (see `pipelines.miss_rate.review`)
                if secrets is None:
                    num_unreviewed += 1
                    continue
                identity = row["doc_id"], row["sentence_index"]
                table.add(judge_row(row, secrets, verdicts), wanted[identity], **weights.of(row))
    return table, num_unreviewed


_CARRIED = ("speaker", "label", "redacted_text")


def screened_rows(screening: Table, partitions: Sequence[Partition], judge: HumanJudge) -> Iterator[dict[str, Any]]:
    """Yields JFT's manual-screening set (section 6.2): sentences in which every secret that a reviewer saw is masked.

    Masks of the policies stay, even those that a reviewer called wrong. A sentence is in the set only if a reviewer
    judged it, no part of it is disputed, and every trusted mask is still there.

    Yields:
        Rows of a ``shard`` table, in corpus order.
    """
    sampled = read_sample(screening)
    for partition in partitions:
        for batch in joined(partition, sampled.get(partition.name, {}), _CARRIED):
            for row in batch:
                starts, ends = row["token_starts"], row["token_ends"]
                judgement = judge.judgement(row)
                if row["is_duplicate"] or row["failed_closed"]:
                    masked, text = token_mask(len(starts), [(0, len(starts))]), row["redacted_text"]
                else:
                    if judgement is None or judgement.is_disputed:
                        continue
                    if asks_again(judgement, open_characters(starts, ends, row["spans"])):
                        continue
                    spans = [(s["start_token"], s["end_token"]) for s in row["spans"]]
                    spans += [(s.start_token, s.end_token) for s in spans_of(judgement, starts, ends)]
                    masked = token_mask(len(starts), spans)
                    text = redact_text(row["text"], starts, ends, masked)
                yield {
                    "doc_id": row["doc_id"],
                    "sentence_index": row["sentence_index"],
                    "redacted_text": text,
                    "num_tokens": len(starts),
                    "num_masked_tokens": sum(masked),
                    "speaker": row["speaker"],
                    "domain": row["domain"],
                    "label": row["label"],
                }
