"""Split: input files to sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from pipelines.context import Piece, StageContext
from pipelines.corpus.dialogues import LeftOut
from pipelines.corpus.documents import DocumentNames, fold_of, map_gold
from pipelines.corpus.forgotten import is_forgotten
from pipelines.corpus.items import EMPTY, BadRow, Document, held_back, rejected_document
from pipelines.corpus.languages import other_language
from pipelines.corpus.owners import LEFT_OUT, NO_OWNER, owner_of, owner_pseudonym
from pipelines.corpus.readers import read_documents
from pipelines.corpus.split import Splitter
from pipelines.corpus.tables import DOCUMENTS, GOLD, REJECTED, SENTENCES, SPEAKERS
from pipelines.settings.corpus import CorpusConfig
from pipelines.settings.split import SplitConfig


def run(ctx: StageContext) -> Mapping[str, Any]:
    """Writes sentences, documents, rejected, gold, speakers and figures of one partition."""
    corpus: CorpusConfig = ctx.configs["corpus"]
    settings: SplitConfig = ctx.configs["split"]
    options = corpus.read_options()
    documents = DOCUMENTS.whole if corpus.has_owners else DOCUMENTS
    splitter = Splitter(
        settings.language, settings.mode, settings.max_sentence_tokens, settings.model, settings.cut_fields
    )
    expected = settings.languages or (settings.language,)
    others: Counter[str] = Counter()
    parts: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    folds: Counter[str] = Counter()

    with ExitStack() as stack:
        sentence_rows, document_rows, rejected_rows, gold_rows, speaker_rows = (
            stack.enter_context(ctx.out.table(schema)) for schema in (SENTENCES, documents, REJECTED, GOLD, SPEAKERS)
        )

        def owner(piece: Piece, document: Document) -> str | None:
            own = options.for_file(piece.name).owner_from
            names = (name for _, name in splitter.speakers(document.text, document.turns or document.layout))
            try:
                return owner_of(document, own, names)
            except BadRow as bad:
                if corpus.owner_missing != "own" or bad.reason != NO_OWNER:
                    raise
                counts.update(num_own_owners=1)
                return None

        def usable() -> Iterator[tuple[Piece, Document, str | None]]:
            for done, piece in enumerate(ctx.outside.pieces):
                ctx.run.progress(done, len(ctx.outside.pieces), "files read")
                for item in read_documents(piece, options):
                    if isinstance(item, Document):
                        if is_forgotten(ctx.run.secret, piece, item):
                            continue
                        language = other_language(item.text, expected)
                        if language is not None:
                            others[language] += 1
                            if settings.other_languages == "hold":
                                rejected_rows.append(**held_back(item, language).row_values())
                                continue
                        try:
                            owner_id = owner(piece, item) if corpus.has_owners else None
                        except BadRow as bad:
                            if corpus.owner_missing == "drop":
                                parts[LEFT_OUT[bad.reason]] += 1
                                continue
                            reasons[bad.reason] += 1
                            rejected_rows.append(**rejected_document(item, bad.reason, bad.detail).row_values())
                            continue
                        yield piece, item, owner_id
                    elif isinstance(item, LeftOut):
                        parts[item.kind] += 1
                    else:
                        reasons[item.reason] += 1
                        rejected_rows.append(**item.row_values())

        names = DocumentNames(ctx.run.secret)
        for (piece, document, owner_id), sentences in splitter.split_each(
            usable(), lambda item: (item[1].text, item[1].turns or item[1].layout)
        ):
            doc_id, base = names.name(document, piece.first_row)
            owned_by = owner_pseudonym(ctx.run.secret, corpus.owner_space, owner_id or base)
            # Another name of the set of people moves nobody to another fold, so nobody becomes public by it.
            drawn_by = base if owner_id is None else owner_pseudonym(ctx.run.secret, "", owner_id)
            fold = document.fold or fold_of(drawn_by, settings.valid_fraction, settings.test_fraction)
            num_tokens = sum(len(sentence.token_starts) for sentence in sentences)
            gold = map_gold(document.gold or (), sentences)
            for index, sentence in enumerate(sentences):
                sentence_rows.append(
                    doc_id=doc_id,
                    sentence_index=index,
                    text=sentence.text,
                    token_starts=sentence.token_starts,
                    token_ends=sentence.token_ends,
                    char_start=sentence.char_start,
                    is_overlong_piece=sentence.is_overlong_piece,
                    speaker=sentence.speaker,
                    domain=document.domain,
                    fold=fold,
                    label=document.label,
                )
            for tag, name in splitter.speakers(document.text, document.turns or document.layout):
                speaker_rows.append(doc_id=doc_id, tag=tag, name=name)
            for name in document.names:
                speaker_rows.append(doc_id=doc_id, tag=None, name=name)
            for row in gold:
                gold_rows.append(doc_id=doc_id, **row._asdict())
            document_rows.append(
                doc_id=doc_id,
                source_file=document.name,
                source_row=document.row,
                source_id=document.source_id,
                num_sentences=len(sentences),
                num_tokens=num_tokens,
                num_chars=len(document.text),
                fold=fold,
                has_gold=document.gold is not None,
                **({"owner": owned_by} if corpus.has_owners else {}),
            )
            folds[fold] += len(sentences)
            parts.update(dict(document.left_out))
            counts.update(
                num_documents=1,
                num_rows=document.num_rows,
                num_sentences=len(sentences),
                num_tokens=num_tokens,
                num_gold_spans=len({row.secret_id for row in gold}),
                num_documents_with_gold=int(document.gold is not None),
            )
        ctx.run.progress(len(ctx.outside.pieces), len(ctx.outside.pieces), "files read")

    num_empty = reasons.pop(EMPTY, 0)
    keys = ("num_documents", "num_rows", "num_sentences", "num_tokens", "num_gold_spans", "num_documents_with_gold")
    figures = {key: counts[key] for key in keys} | {
        "num_rejected": reasons.total(),
        "num_empty": num_empty,
        "rejected_by_reason": dict(reasons),
        "num_held_back": others.total() if settings.other_languages == "hold" else 0,
        "documents_by_other_language": dict(sorted(others.items())),
        "parts_left_out": dict(sorted(parts.items())),
        "num_sentences_by_fold": {fold: folds[fold] for fold in ("train", "valid", "test")},
    }
    if corpus.has_owners:
        figures["num_own_owners"] = counts["num_own_owners"]
    ctx.out.json("figures.json", figures)
    return {key: figures[key] for key in ("num_documents", "num_sentences", "num_tokens", "num_rejected")}
