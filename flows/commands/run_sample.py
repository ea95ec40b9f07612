"""``reticent run --sample``: shows the effect of redaction on a few documents, in about a minute.

It prints counts. Examples, which quote the text, go to a file in the private root. It publishes and trains nothing,
and leaves the ledger and the store's artifacts unchanged.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.running.progress import Console
from flows.running.spec import open_store, read_corpus
from pipelines.context import pseudonym
from pipelines.corpus.documents import map_gold
from pipelines.corpus.forgotten import is_forgotten
from pipelines.corpus.items import EMPTY, Document, Rejected
from pipelines.corpus.languages import other_language
from pipelines.corpus.readers import read_documents
from pipelines.corpus.rejection import hint, rejections_text
from pipelines.corpus.split import Splitter
from pipelines.errors import ConfigError, InputError
from pipelines.files import write_atomic
from pipelines.intervals import clopper_pearson_upper
from pipelines.language import without_model_text
from pipelines.policies.english.wrong_language import check_text
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.judge import Request, Verdict
from pipelines.policies.judging.tables import RedactionFigures, redacted_row
from pipelines.policies.protocol import Span
from pipelines.policies.redact import token_mask
from pipelines.policies.replacement import replacement_writer
from pipelines.policies.sharding import is_private
from pipelines.settings.loading import ProjectSettings, load_settings
from pipelines.store.objects.inputs import CorpusState
from pipelines.store.place.roots import SAMPLE_EXAMPLES, Roots, private_umask
from pipelines.store.place.unlocking import in_plain, is_encrypted

_MIN_DOCUMENTS = 50
_MAX_TOKENS = 60_000
_MAX_READ = 200_000
_MAX_EXAMPLES = 200
_BATCH_TOKENS = 2_000
_READING_SECONDS = 20.0
_SECONDS = 45.0
_CONFIDENCE = 0.95
_PROXY = "conservative"
_NO_SUSPICION = frozenset({"WORD"})  # merely an uncommon word
_PIECE = "BARE"


def fraction_of(text: str) -> float:
    """Parses ``1%`` or ``0.01`` as a share.

    Raises:
        ConfigError: the share is not above 0 and at most 1.
    """
    number = re.fullmatch(r"\s*([0-9.]+)\s*(%?)\s*", text)
    try:
        value = float(number[1]) / (100 if number[2] else 1) if number else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise ConfigError(f"--sample {text}: give a share of the documents, such as 1% or 0.01")
    return value


def run_sample(config: Path, sample: str, *, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Redacts a sample like a run, without copies. Returns counts, and the path ``examples`` of a private file.

    Stops early if reading or redacting takes too long, for example with a slow model, and says so.

    Raises:
        ConfigError: a setting is wrong.
        InputError: no document can be used.
    """
    began = time.monotonic()
    console = Console()
    fraction = fraction_of(sample)
    settings = load_settings(config, os.environ if environ is None else environ)
    split: Any = settings.stages["split"]
    corpus: Any = settings.stages["corpus"]
    redact: Any = settings.stages["redact"]
    for table in (corpus, split, redact):
        for stage in ("split", "redact"):
            table.check(stage)
    roots = open_store(settings)
    state = read_corpus(settings, roots, read=True, progress=console.reading)
    reasons: Counter[str] = Counter()
    documents, num_read, is_read = _draw(settings, roots, state, fraction, reasons, began + _READING_SECONDS, console)
    if not documents:
        why = f"the rows were rejected: {rejections_text(reasons)}" if reasons else "there is no text"
        raise InputError(f"the sample of {', '.join(corpus.inputs)} holds no usable document ({why}).{hint(reasons)}")
    num_empty = reasons.pop(EMPTY, 0)
    others: Counter[str] = Counter()
    rows, gold, num_documents = _rows(settings, documents, others)
    found = _redacted(redact, corpus, rows, gold, began + _SECONDS, console)
    console.close()
    lines = found.pop("lines")
    with private_umask():
        folder = roots.private / SAMPLE_EXAMPLES
        folder.mkdir(exist_ok=True)
        path = folder / "examples.txt"
        write_atomic(path, ("\n".join(lines) + "\n").encode())
    return {
        "fraction": fraction,
        "num_documents": num_documents,
        "num_documents_read": num_read,
        "is_read_in_part": not is_read,
        "num_empty": num_empty,
        "rejected_by_reason": dict(reasons),
        "is_too_much_rejected": reasons.total() > corpus.max_rejected_fraction * (num_read + reasons.total()),
        "documents_by_other_language": dict(sorted(others.items())),
        "left_out_files": dict(state.left_out),
        "examples": str(path),
        "is_encrypted": is_encrypted(roots.private),
        **found,
    }


def _draw(
    settings: ProjectSettings,
    roots: Roots,
    state: CorpusState,
    fraction: float,
    reasons: Counter[str],
    deadline: float,
    console: Console,
) -> tuple[list[Document], int, bool]:
    """Draws documents by a keyed hash of their place, never of their text. Reads some partitions of a large corpus.

    Returns:
        The documents, the number of documents read, and false if reading stopped at the deadline.
    """
    corpus: Any = settings.stages["corpus"]
    options = corpus.read_options()
    partitions = sorted(state.partitions or (), key=lambda p: pseudonym(roots.secret, SAMPLE_EXAMPLES, p.name))
    most = len(partitions) * corpus.partition_documents
    if most > _MAX_READ:  # reads ten times the sample, so that it does not come from one partition
        kept = max(1, round(len(partitions) * min(1.0, max(10 * fraction, _MAX_READ / most))))
        fraction = min(1.0, fraction * len(partitions) / kept)
        partitions = partitions[:kept]
    drawn: list[tuple[float, int, Document]] = []
    fewest: list[tuple[float, int, Document]] = []  # a heap of those with the smallest numbers, largest first
    num_read = 0
    is_read = True
    for piece in (piece for partition in partitions for piece in partition.pieces):
        if not is_read:
            break
        for item in read_documents(piece, options):
            if fewest and time.monotonic() > deadline:
                is_read = False
                break
            console.reading(num_read, None, "documents read")
            if isinstance(item, Rejected):
                reasons[item.reason] += 1
            if not isinstance(item, Document):
                continue
            if is_forgotten(roots.secret, piece, item):
                continue
            num_read += 1
            digest = hashlib.sha256(
                f"{pseudonym(roots.secret, SAMPLE_EXAMPLES, item.name, str(item.row))}".encode()
            ).digest()
            place = int.from_bytes(digest[:8], "big") / 2**64
            if place < fraction:
                drawn.append((place, num_read, item))
            heapq.heappush(fewest, (-place, num_read, item))
            if len(fewest) > _MIN_DOCUMENTS:
                heapq.heappop(fewest)
    if len(drawn) < len(fewest):
        drawn = [(-place, number, item) for place, number, item in fewest]
    return [item for _, _, item in sorted(drawn, key=lambda entry: entry[:2])], num_read, is_read


def _rows(
    settings: ProjectSettings, documents: Sequence[Document], others: Counter[str]
) -> tuple[list[dict[str, Any]], dict[Any, Any], int]:
    """Returns the distinct rows of documents up to the limit, the known secrets in them, and the document count."""
    split: Any = settings.stages["split"]
    splitter = Splitter(split.language, split.mode, split.max_sentence_tokens, split.model, split.cut_fields)
    expected = split.languages or (split.language,)
    rows: list[dict[str, Any]] = []
    gold: dict[Any, Any] = {}
    seen: set[tuple[str | None, str]] = set()
    num_tokens = num_documents = 0

    def kept() -> Iterator[Document]:
        for item in documents:
            language = other_language(item.text, expected)
            if language is not None:
                others[language] += 1
            if language is None or split.other_languages == "name":
                yield item

    for item, sentences in splitter.split_each(kept(), lambda item: (item.text, item.turns or item.layout)):
        if num_tokens >= _MAX_TOKENS:
            break
        num_documents += 1
        labels = map_gold(item.gold or (), sentences)
        speakers = splitter.speakers(item.text, item.turns or item.layout)
        names = (*(name for _, name in speakers), *item.names)
        for index, sentence in enumerate(sentences):
            num_tokens += len(sentence.token_starts)
            if (sentence.speaker, sentence.text) in seen or num_tokens > 2 * _MAX_TOKENS:
                continue
            seen.add((sentence.speaker, sentence.text))
            gold[len(rows)] = [row for row in labels if row.sentence_index == index]
            rows.append(
                {
                    "doc_id": str(num_documents),
                    "sentence_index": index,
                    "text": sentence.text,
                    "token_starts": sentence.token_starts,
                    "token_ends": sentence.token_ends,
                    "speaker": sentence.speaker,
                    "domain": item.domain,
                    "fold": "train",
                    "label": item.label,
                    "is_duplicate": False,
                    "names": names,
                }
            )
    return rows, gold, num_documents


def _batches(rows: Sequence[Mapping[str, Any]], by_document: bool) -> Iterator[list[Mapping[str, Any]]]:
    """Yields rows in order, in batches of some `_BATCH_TOKENS` tokens, which hold whole documents if asked to."""
    batch: list[Mapping[str, Any]] = []
    num_tokens = 0
    for row in rows:
        if num_tokens >= _BATCH_TOKENS and not (by_document and row["doc_id"] == batch[-1]["doc_id"]):
            yield batch
            batch, num_tokens = [], 0
        batch.append(row)
        num_tokens += len(row["token_starts"])
    if batch:
        yield batch


def _redacted(
    redact: Any,
    corpus: Any,
    rows: Sequence[Mapping[str, Any]],
    gold: Mapping[int, Any],
    deadline: float,
    console: Console,
) -> dict[str, Any]:
    key = secrets.token_bytes(32)  # not the surrogates of a run: a sample needs no store
    scope, linking = redact.surrogate_scope, redact.linking()
    replace = replacement_writer(redact.replacement, scope, redact.policies, key, linking=linking)
    warnings: list[str] = []
    if redact.check_language and redact.language_of == "corpus":
        try:
            check_text([row["text"] for row in rows], redact.language)
        except ConfigError as error:
            warnings.append(str(error))
    without_model: Counter[str] = Counter()
    figures = RedactionFigures(
        policies=redact.policies, conservative=redact.conservative, rows_without_model=without_model
    )
    console.say(f"redacting {len(rows):,} rows; loading the models first")
    verdicts: list[Verdict] = []
    suspicions: list[Verdict] = []
    spec, proxy_spec = redact.redactor_spec(corpus.separator()), RedactorSpec(policies=(_PROXY,), stabilise=False)
    with Redactor.from_spec(spec) as redactor, Redactor.from_spec(proxy_spec) as proxy:
        for batch in _batches(rows, redactor.looks_at_documents):
            if verdicts and time.monotonic() > deadline:
                break
            requests = [
                Request(row["text"], row["token_starts"], row["token_ends"], names=row["names"]) for row in batch
            ]
            verdicts += redactor.judge(requests, [row["doc_id"] for row in batch])
            suspicions += proxy.judge(requests)
            console.progress("redact", len(verdicts), len(rows), "rows")
    num_left = len(rows) - len(verdicts)
    rows = rows[: len(verdicts)]
    lines: list[str] = []
    num_public = num_suspected_rows = num_suspected = num_known = num_missed = 0
    for number, (row, verdict, suspicion) in enumerate(zip(rows, verdicts, suspicions, strict=True)):
        out = redacted_row(row, verdict, collapse=redact.collapse, replace=replace)
        figures.add(out, verdict)
        mask = [True] * out["num_tokens"] if verdict.failed_closed else token_mask(out["num_tokens"], verdict.spans)
        open_tokens = num_open(suspicion.spans, mask)
        num_suspected += open_tokens
        num_suspected_rows += open_tokens > 0
        num_public += not is_private(out)
        num_known += len(gold[number])
        num_missed += sum(not all(mask[g.start_token : g.end_token]) for g in gold[number])
        if len(lines) < 4 * _MAX_EXAMPLES:
            labels = ", ".join(sorted({span.label for span in verdict.spans})) or "nothing"
            lines += [f"masked: {labels}", f"  original: {row['text']}", f"  redacted: {out['redacted_text']}", ""]
    if without_model:
        warnings.append(without_model_text(without_model))
    return {
        "num_rows": len(rows),
        "num_rows_left": num_left,
        "num_tokens": figures.num_tokens,
        "num_masked_tokens": figures.num_masked_tokens,
        "masked_share": figures.num_masked_tokens / max(1, figures.num_tokens),
        "masked_tokens_by_label": dict(figures.masked_tokens_by_label.most_common()),
        "num_public_rows": num_public,
        "num_failed_closed": figures.num_failed_closed,
        "suspected": {
            "is_proxy": True,
            "policy": _PROXY,
            "num_tokens": num_suspected,
            "num_rows": num_suspected_rows,
            "rows_upper": clopper_pearson_upper(num_suspected_rows, max(1, len(rows)), _CONFIDENCE),
            "confidence": _CONFIDENCE,
        },
        "known_secrets": {"num": num_known, "num_missed": num_missed} if num_known else None,
        "warnings": warnings,
        "lines": lines,
    }


def num_open(suspicions: Sequence[Span], mask: Sequence[bool] | bytearray) -> int:
    """Counts the unmasked tokens that the proxy suspects.

    The proxy suspects a bare piece ("Dear Ann,") as a whole. If a part of the piece is masked, its first word alone
    ("Dear") is no reason for suspicion.

    Args:
        suspicions: finds of the proxy in a row.
        mask: true for each masked token of the row.
    """
    found: set[int] = set()
    for span in suspicions:
        if span.label not in _NO_SUSPICION:
            is_greeting = span.label == _PIECE and any(mask[span.start_token : span.end_token])
            found.update(range(span.start_token + is_greeting, span.end_token))
    return sum(not mask[token] for token in found)


def sample_text(found: Mapping[str, Any], config: Path) -> str:
    """Formats the counts for people, without text of the corpus."""
    by_label = list(found["masked_tokens_by_label"].items())
    shown = ", ".join(f"{label} {number:,}" for label, number in by_label[:12]) or "nothing"
    suspected, num_rows = found["suspected"], max(1, found["num_rows"])
    at_most = f"at most {suspected['rows_upper']:.1%} of all rows, 95 %"
    lines = [
        f"a first look at {found['num_documents']:,} documents: {found['num_rows']:,} distinct rows, "
        f"{found['num_tokens']:,} tokens",
        f"  masked tokens        {found['num_masked_tokens']:,} ({found['masked_share']:.1%})",
        f"  by label             {shown}",
        f"  would be public      {found['num_public_rows']:,} rows ({found['num_public_rows'] / num_rows:.1%})",
        f"  suspicious           {suspected['num_rows']:,} rows ({at_most}): a stricter policy, used as a "
        "proxy, sees an unmasked number, sign or name. Most of these are not secrets, and it misses others. `reticent "
        "review` measures the real rate",
    ]
    if found["is_read_in_part"]:
        lines.append(f"  stopped reading      after {_READING_SECONDS:.0f} s: the other documents could not be drawn")
    if left := found["num_rows_left"]:
        lines.append(f"  stopped redacting    after {_SECONDS:.0f} s: {left:,} more rows were drawn")
    if known := found["known_secrets"]:
        lines.append(f"  known secrets        {known['num_missed']:,} of {known['num']:,} have an unmasked token")
    if found["num_failed_closed"]:
        lines.append(f"  policies failed on   {found['num_failed_closed']:,} rows, which are masked completely")
    if reasons := found["rejected_by_reason"]:
        listed = ", ".join(f"{number:,} {reason}" for reason, number in sorted(reasons.items()))
        stops = ": too many (corpus.max_rejected_fraction), a run would stop" if found["is_too_much_rejected"] else ""
        lines.append(f"  rejected rows        {listed}{stops}")
    if found["num_empty"]:
        lines.append(f"  empty rows           {found['num_empty']:,}")
    if others := found["documents_by_other_language"]:
        listed = ", ".join(f"{number:,} {language}" for language, number in others.items())
        lines.append(f"  other languages      {listed} (split.other_languages)")
    lines += [f"  warning: {text}" for text in found["warnings"]]
    lines.append(f"  examples             {found['examples']}  (private: the file quotes your text)")
    lines += in_plain(Path(found["examples"]))
    lines.append(f"nothing was published, trained or entered in the ledger. For the whole job: reticent run {config}")
    return "\n".join(lines)
