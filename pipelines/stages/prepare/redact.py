"""Redact: mask what the policies find, and flag the sentences that the conservative policy does not accept.

Confidentially Redacted Training, Algorithm 1, lines 2 and 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pipelines.context import StageContext
from pipelines.corpus.speakers import names_by_document
from pipelines.corpus.tables import SENTENCES, SPEAKERS
from pipelines.dedup.tables import MASKED
from pipelines.errors import StageError
from pipelines.policies.judging.apply import Redactor
from pipelines.policies.judging.judge import Request
from pipelines.policies.judging.tables import RedactionFigures, check_language, lockstep, redacted_row
from pipelines.policies.replacement import replacement_writer
from pipelines.policies.tables import REDACTED, SURROGATES
from pipelines.settings.redact import RedactConfig

if TYPE_CHECKING:
    from pipelines.policies.surrogates import Replaced
    from pipelines.tables import TableWriter

_BATCH_ROWS = 4_096
_ROWS_WORTH_A_PROCESS = 5_000
"""Rows that take as long as starting a process and loading a model in it."""


def run(ctx: StageContext) -> Mapping[str, Any]:
    """Writes ``redacted.parquet``, ``figures.json`` and the originals of surrogates to the private root.

    Raises:
        ConfigError: a policy or the model cannot be loaded, or the text is in another language.
        StageError: the sentences and the dedup decisions are not the same rows, or token offsets do not fit.
    """
    config: RedactConfig = ctx.configs["redact"]
    sentences = ctx.input("split").table(SENTENCES)
    decisions = ctx.input("dedup_mask").table(MASKED)
    names = names_by_document(ctx.input("split").table(SPEAKERS)) if config.reads_speakers() else {}
    figures = RedactionFigures(
        policies=config.policies,
        conservative=config.conservative,
        also_levels=config.also_levels,
        descriptions=config.plugin_descriptions(),
        rows_without_model=Counter() if config.language_of == "document" else None,
    )
    if config.check_language and config.language_of == "corpus":
        check_language(sentences, config.language)
    workers = max(1, min(ctx.run.processes, sentences.num_rows // _ROWS_WORTH_A_PROCESS))
    with ExitStack() as stack:
        redactor = stack.enter_context(
            Redactor.from_spec(config.redactor_spec(ctx.configs["corpus"].separator()), workers)
        )
        writer = stack.enter_context(ctx.out.table(REDACTED))
        note = None
        if config.replacement == "surrogate":
            note = _noting(stack.enter_context(ctx.out.table(SURROGATES)))
        replace = replacement_writer(
            config.replacement, config.surrogate_scope, config.policies, ctx.run.secret, note, config.linking()
        )
        whole_documents = redactor.looks_at_documents
        for rows, total in lockstep(sentences, decisions, _BATCH_ROWS, whole_documents=whole_documents):
            requests = [
                # A find in a duplicate is carried over to the rest of its document, though the duplicate is masked.
                Request(
                    row["text"],
                    row["token_starts"],
                    row["token_ends"],
                    redact=redactor.carries_finds or not row["is_duplicate"],
                    names=names.get(row["doc_id"], ()),
                )
                for row in rows
            ]
            try:
                verdicts = redactor.judge(requests, [row["doc_id"] for row in rows])
            except ValueError as error:
                raise StageError(f"sentences.parquet: {error}; run again with --force split") from None
            for row, verdict in zip(rows, verdicts, strict=True):
                out = redacted_row(row, verdict, collapse=config.collapse, replace=replace)
                figures.add(out, verdict)
                writer.append(**out)
            ctx.run.progress(writer.num_rows, total, "sentences redacted")
    ctx.out.json("figures.json", figures.document())
    return figures.counts()


def _noting(writer: TableWriter) -> Callable[[Mapping[str, Any], Sequence[Replaced]], None]:
    def note(row: Mapping[str, Any], replaced: Sequence[Replaced]) -> None:
        for one in replaced:
            writer.append(doc_id=row["doc_id"], sentence_index=row["sentence_index"], **one._asdict())

    return note
