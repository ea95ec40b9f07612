"""Stability: a measurement of which caught secrets of the sample are redacted stably (`pipelines.miss_rate.stability`).

``stability.parquet`` has one row for each run of tokens of a reviewed sentence that is a caught secret, or a piece of
one: ``is_stable``, ``is_stable_together``, ``reason``. The table is empty, and nothing is measured, if no guarantee may
rest on the source of secrets (``estimate.source`` is proxy or none).

The policies run once more on these sentences. So this is a step of its own, and works by partition: a killed run keeps
its finished partitions, and a change of one partition measures no other partition again.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pipelines.context import StageContext
from pipelines.corpus.speakers import names_by_document
from pipelines.corpus.tables import SPEAKERS
from pipelines.miss_rate.judgements import HumanJudge, tokens_of
from pipelines.miss_rate.review import StabilityVerdict, worse
from pipelines.miss_rate.review_log import ballots_of, read_decisions
from pipelines.miss_rate.sampling import Partition, SentenceId
from pipelines.miss_rate.stability import Mark, Scope, gold_marks, judge_all, scopes
from pipelines.miss_rate.tables import CHOSEN, STABILITY
from pipelines.policies.judging.apply import Redactor
from pipelines.policies.judging.tables import redacted, text_with_masks

if TYPE_CHECKING:
    from pipelines.policies.judging.judge import Request

_SENTENCES_WORTH_A_PROCESS = 5_000
"""The same number as in `pipelines.stages.prepare.redact`."""


def run(ctx: StageContext) -> Mapping[str, Any]:
    """Writes ``stability.parquet`` to the private root.

    Raises:
        ConfigError: a policy or the model cannot be loaded.
        StageError: a sampled sentence is missing from the tables.
    """
    reasons: Counter[str] = Counter()
    num_secrets = num_unstable_together = 0
    with ExitStack() as stack, ctx.out.table(STABILITY) as writer:
        for scope, verdicts in _judged(ctx, stack):
            by_place: dict[tuple[int, int, int], StabilityVerdict] = {}
            for pieces, verdict in zip(scope.secrets, verdicts, strict=True):
                num_secrets += 1
                reasons[verdict.reason] += 1
                num_unstable_together += verdict.is_stable and not verdict.is_stable_together
                for piece in pieces:
                    place = piece.row, piece.start_token, piece.end_token
                    by_place[place] = worse(by_place[place], verdict) if place in by_place else verdict
            for (row, start_token, end_token), verdict in sorted(by_place.items()):
                writer.append(
                    doc_id=scope.rows[row]["doc_id"],
                    sentence_index=scope.rows[row]["sentence_index"],
                    start_token=start_token,
                    end_token=end_token,
                    **verdict._asdict(),
                )
            ctx.run.progress(num_secrets, None, "secrets masked by hand")
    return {
        "num_caught_secrets": num_secrets,
        "num_unstable_secrets": num_secrets - reasons["stable"],
        "num_unstable_together": num_unstable_together,
    }


def _judged(ctx: StageContext, stack: ExitStack) -> Iterable[tuple[Scope, list[StabilityVerdict]]]:
    """Yields the caught secrets of the partition with their verdicts. Loads policies only if there are such secrets."""
    from pipelines.corpus.split import Splitter  # spaCy is slow to import

    source, redact, split = ctx.configs["estimate"].source, ctx.configs["redact"], ctx.configs["split"]
    if source in ("none", "proxy"):
        return ()
    partition = Partition(ctx.partition or "", ctx.input("split"), ctx.input("redact"))
    table = ctx.input("sample").table(CHOSEN, ctx.partition).read()
    chosen: set[SentenceId] = set(zip(table["doc_id"].to_pylist(), table["sentence_index"].to_pylist(), strict=True))
    gold: dict[SentenceId, list[Mark]] = {}
    if source != "human":
        gold = gold_marks(partition.gold, partition.documents, chosen)
    policies = _Policies(ctx, stack, num_sentences=len(chosen))
    judged_scopes = scopes(
        partition,
        chosen,
        gold,
        _Reviewers(ctx) if source != "gold" else lambda row: (),
        whole_documents=redact.may_look_at_documents() and policies.look_at_documents(),
    )
    if redact.reads_speakers():
        judged_scopes = map(partial(_with_names, names_by_document(ctx.input("split").table(SPEAKERS))), judged_scopes)
    if redact.replacement != "mask":
        judged_scopes = map(_with_masks, judged_scopes)
    tokenise = Splitter(language=split.language, mode=split.mode, model=split.model, cut_fields=split.cut_fields).tokens
    return judge_all(judged_scopes, policies, tokenise, min_tokens=ctx.configs["dedup"].min_tokens)


def _with_names(names: Mapping[str, tuple[str, ...]], scope: Scope) -> Scope:
    """Returns the scope with the names of the speakers of its documents."""
    return dataclasses.replace(scope, rows=[{**row, "names": names.get(row["doc_id"], ())} for row in scope.rows])


def _with_masks(scope: Scope) -> Scope:
    """Returns the scope with masks in place of labels or surrogates, because stability is a property of masks.

    Labels and surrogates are another text in every world, and claims give no credit for them.
    """
    return dataclasses.replace(scope, rows=[{**row, "redacted_text": text_with_masks(row)} for row in scope.rows])


class _Reviewers:
    """The secrets of a sentence that people see."""

    def __init__(self, ctx: StageContext) -> None:
        self._judge = HumanJudge(
            ctx.run.secret, ballots_of(read_decisions(*ctx.outside.reviews)) if ctx.outside.reviews else {}
        )

    def __call__(self, row: Mapping[str, Any]) -> Iterable[Mark]:
        judgement = self._judge.judgement(row) if self._judge.ballots else None
        for number, secret in enumerate(judgement.secrets if judgement else ()):
            tokens = tokens_of(secret, row["token_starts"], row["token_ends"])
            if tokens is not None:
                yield Mark((f"seen in {row['sentence_index']}", number), secret.start, secret.end, *tokens)


class _Policies:
    """The policies of ``[redact]`` as the redact stage runs them. They are loaded at the first call.

    The conservative policy and ``also_levels`` mask nothing, and are left out.
    """

    def __init__(self, ctx: StageContext, stack: ExitStack, *, num_sentences: int) -> None:
        self._redact, self._separator = ctx.configs["redact"], ctx.configs["corpus"].separator()
        self._workers = max(1, min(ctx.run.processes, num_sentences // _SENTENCES_WORTH_A_PROCESS))
        self._stack = stack

    @cached_property
    def _redactor(self) -> Redactor:
        spec = dataclasses.replace(self._redact.redactor_spec(self._separator), conservative=None, observed=())
        return self._stack.enter_context(Redactor.from_spec(spec, self._workers))

    def look_at_documents(self) -> bool:
        """Checks that a policy looks at whole documents."""
        return self._redactor.looks_at_documents

    def __call__(self, documents: Sequence[Sequence[Request]]) -> list[list[str]]:
        requests = [request for rows in documents for request in rows]
        names = [str(number) for number, rows in enumerate(documents) for _ in rows]
        verdicts = iter(self._redactor.judge(requests, names))
        collapse = self._redact.collapse
        return [
            [redacted(row.text, row.starts, row.ends, next(verdicts), collapse=collapse)[0] for row in rows]
            for rows in documents
        ]
