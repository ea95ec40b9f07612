"""Audit, extraction: a search for masked secrets of training rows in the text that the released model writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from pipelines.attacks import extraction
from pipelines.attacks.prompting import EMPTY, Decoding, fitted
from pipelines.context import StageContext
from pipelines.corpus.tables import SENTENCES
from pipelines.policies.tables import REDACTED
from pipelines.settings.audit import AuditConfig
from pipelines.stages.audit.opening import open_audited, reason_not_to_open
from pipelines.stages.audit.records import HELD_OUT, left_out_rows
from pipelines.tables import schema, side_by_side

EXTRACTED: Final = schema("extracted", "label: string, string: string, match: string")
"""Extracted secrets, in the form in which strings are compared. Private."""
_LIKELIEST: Final = ("greedy", "beams")
_MOST_TAGS: Final = 32


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``extraction.json`` (counts by label) and ``extracted.parquet`` (extracted secrets). Both are private."""
    config: AuditConfig = ctx.configs["audit"]
    with ctx.out.table(EXTRACTED) as writer:
        if (reason := reason_not_to_open(ctx, writes=True)) is not None:
            ctx.out.json("extraction.json", {"not_attacked": reason})
            return {}
        choice = ctx.configs["gate"].choice()
        rng = np.random.default_rng(ctx.seed)
        model, reference = open_audited(ctx, "train"), open_audited(ctx, "audit_model")
        ctx.run.progress(0, None, "choosing prompts")
        left_out = left_out_rows(ctx)
        # The reference model did not read these rows, so only their secrets show what the model learnt from them.
        targets = extraction.targets(_rows_at(ctx, left_out), choice, config.num_prompts, rng)
        room = config.max_new_tokens
        prompts = [fitted(target.prompt, room, model, reference) for target in targets]
        tags = extraction.tag_prompts((row["speaker"], row["domain"]) for row in rows_with_spans(ctx, "train"))
        prompts += [EMPTY, *tags[:_MOST_TAGS]]
        decodings = [
            Decoding(kind="sampling", num=config.num_generations, max_new_tokens=room),
            *(Decoding(kind=kind, max_new_tokens=room) for kind in _LIKELIEST),
        ]
        texts: list[list[list[str]]] = [[[] for _ in prompts], [[] for _ in prompts]]
        for decoding in decodings:
            if decoding.suits(model, reference):
                for number, one in enumerate((model, reference)):
                    ctx.run.progress(0, None, f"generating ({decoding.kind})")
                    for into, found in zip(texts[number], decoding.write(one, prompts, rng), strict=True):
                        into += found
        ctx.run.progress(0, None, "looking for secrets")
        mine, theirs = ([text for of in side for text in of] for side in texts)
        common: dict[str, Any] = {"written": mine, "written_by_reference": theirs, "choice": choice}
        common["confidence"] = config.confidence
        decoys = list(_secrets(rows_with_spans(ctx, *HELD_OUT)))
        unseen = extraction.search(_secrets(_rows_at(ctx, left_out)), decoys=decoys, **common)
        everything = extraction.search(
            _secrets(rows_with_spans(ctx, "train")),
            decoys=decoys,
            **common,
            report=lambda found: writer.append(**vars(found)),
        )
        asked = extraction.targeted(
            targets,
            written=texts[0][: len(targets)],
            written_by_reference=texts[1][: len(targets)],
            choice=choice,
            confidence=config.confidence,
        )
    ctx.out.json(
        "extraction.json",
        {
            "num_prompts": len(prompts),
            "num_texts": len(mine),
            "targeted": {label: found.document() for label, found in asked.items()},
            "not_read_by_reference": unseen.document(),
            "all_rows": everything.document(),
        },
    )
    return {"num_prompts": len(prompts), "num_texts": len(mine)}


def rows_with_spans(ctx: StageContext, *folds: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of some folds with their masked spans, and true if the row is a copy of another one."""
    columns = ("doc_id", "sentence_index")
    for sentences, redacted in zip(ctx.inputs["split"], ctx.inputs["redact"], strict=True):
        wanted = (*columns, "text", "speaker", "domain", "fold")
        tables = sentences.table(SENTENCES), wanted, redacted.table(REDACTED), (*columns, "spans", "is_duplicate")
        for left, right in side_by_side(*tables, made_by="redact"):
            for row, found in zip(left.to_pylist(), right.to_pylist(), strict=True):
                if row["fold"] in folds:
                    yield {**row, "spans": found["spans"], "is_duplicate": found["is_duplicate"]}


def _rows_at(ctx: StageContext, places: frozenset[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    """Yields the rows of the training fold at some places."""
    return (row for row in rows_with_spans(ctx, "train") if (row["doc_id"], row["sentence_index"]) in places)


def _secrets(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yields label and string of each masked span."""
    for row in rows:
        yield from ((span["label"], row["text"][span["start"] : span["end"]]) for span in row["spans"])
