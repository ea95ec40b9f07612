"""The input and output rows of the redact stage, and its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipelines.mask import MASK
from pipelines.policies.english.wrong_language import check_text
from pipelines.policies.redact import redact_text, token_mask
from pipelines.tables import Table, side_by_side

if TYPE_CHECKING:
    from pipelines.policies.judging.judge import Verdict
    from pipelines.policies.surrogates import Replace

_SENTENCE_COLUMNS = (
    "doc_id",
    "sentence_index",
    "text",
    "token_starts",
    "token_ends",
    "speaker",
    "domain",
    "fold",
    "label",
)
_DECISION_COLUMNS = ("doc_id", "sentence_index", "is_duplicate")
LANGUAGE_SAMPLE_ROWS = 2_000
_CARRIED = ("doc_id", "sentence_index", "speaker", "domain", "fold", "label")


def lockstep(
    sentences: Table, decisions: Table, batch_rows: int, *, whole_documents: bool = False
) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """Reads both tables in parallel, in batches.

    Args:
        sentences: sentences table.
        decisions: table of the sentences that dedup masks, with the same rows in the same order.
        batch_rows: maximum number of rows in memory.
        whole_documents: true if no batch may split a document. Memory then holds up to one document more.

    Yields:
        The rows of a batch (sentence columns and ``is_duplicate``), and the total number of rows.

    Raises:
        StageError: the two tables do not hold the same rows in the same order.
    """
    total = sentences.num_rows
    held: list[dict[str, Any]] = []
    for left_batch, right_batch in side_by_side(
        sentences, _SENTENCE_COLUMNS, decisions, _DECISION_COLUMNS, batch_rows, made_by="dedup"
    ):
        rows: list[dict[str, Any]] = left_batch.to_pylist()
        for row, is_duplicate in zip(rows, right_batch.column("is_duplicate").to_pylist(), strict=True):
            row["is_duplicate"] = is_duplicate
        if whole_documents:
            held += rows
            cut = len(held)
            while cut > 0 and held[cut - 1]["doc_id"] == held[-1]["doc_id"]:
                cut -= 1  # the last document may continue in the next batch
            rows, held = held[:cut], held[cut:]
        if rows:
            yield rows, total
    if held:
        yield held, total


def check_language(sentences: Table, language: str) -> None:
    """Checks the language of the first sentences of a table.

    Raises:
        ConfigError: the sentences are clearly in another language.
    """
    first = next(iter(sentences.batches(("text",), LANGUAGE_SAMPLE_ROWS)), None)
    if first is not None:
        check_text(first.column("text").to_pylist(), language)


def redacted(
    text: str, starts: Sequence[int], ends: Sequence[int], verdict: Verdict, *, collapse: bool
) -> tuple[str, int]:
    """Returns the text and the number of masked tokens of a row that is no duplicate.

    A row on which a policy failed becomes one mask in any case.
    """
    if verdict.failed_closed:
        return MASK, len(starts)
    mask = token_mask(len(starts), verdict.spans)
    return redact_text(text, starts, ends, mask, collapse=collapse), sum(mask)


def redacted_row(
    row: Mapping[str, Any], verdict: Verdict, *, collapse: bool, replace: Replace | None = None
) -> dict[str, Any]:
    """Returns one row of the redacted table.

    A duplicate, and a row on which a policy failed, become one mask token for any ``collapse`` and ``replace``, so that
    their length does not distinguish them from any other fully masked row. The finds in a duplicate are dropped.

    Args:
        row: row of the sentences table, with ``is_duplicate``.
        verdict: verdict on the row.
        collapse: true if a run of masked tokens becomes one mask.
        replace: function that writes other text than masks.
    """
    starts, ends = row["token_starts"], row["token_ends"]
    spans = () if row["is_duplicate"] else verdict.spans
    text, num_masked = MASK, len(starts)
    if not row["is_duplicate"]:
        text, num_masked = redacted(row["text"], starts, ends, verdict, collapse=collapse)
        if replace is not None and not verdict.failed_closed:
            text = replace(row, spans)
    return {
        **{name: row[name] for name in _CARRIED},
        "redacted_text": text,
        "spans": [{**s._asdict(), "start": starts[s.start_token], "end": ends[s.end_token - 1]} for s in spans],
        "flagged_by_conservative": verdict.flagged,
        "num_tokens": len(starts),
        "num_masked_tokens": num_masked,
        "is_duplicate": row["is_duplicate"],
        "failed_closed": verdict.failed_closed,
    }


def text_with_masks(row: Mapping[str, Any]) -> str:
    """Returns the redacted text of a row with collapsed masks, for any ``redact.replacement``.

    Args:
        row: columns of the sentences table and of the redacted table together.
    """
    if row["is_duplicate"] or row["failed_closed"]:
        return MASK
    mask = token_mask(len(row["token_starts"]), [(span["start_token"], span["end_token"]) for span in row["spans"]])
    return redact_text(row["text"], row["token_starts"], row["token_ends"], mask)


@dataclass(kw_only=True)
class RedactionFigures:
    """The counts over one partition, without text. Token counts are taken before collapsing.

    Masked tokens are those that the policies mask on rows that are no duplicates. A token under two labels counts once
    for each label and once in the total. Observed tokens are those that each policy of ``also_levels`` would have
    masked on the same rows. ``descriptions`` holds the descriptions in the specs of plug-ins, by name.
    ``rows_without_model`` counts rows that are masked whole because of their document's language, by language; None if
    all text counts as in one language. Rows on which a policy failed are counted apart.
    """

    policies: tuple[str, ...]
    conservative: str | None
    also_levels: tuple[str, ...] = ()
    descriptions: Mapping[str, str] = field(default_factory=dict)
    rows_without_model: Counter[str] | None = None
    num_sentences: int = 0
    num_tokens: int = 0
    num_duplicates: int = 0
    num_duplicate_tokens: int = 0
    num_masked_tokens: int = 0
    num_flagged_by_conservative: int = 0
    num_conservative_failed: int = 0
    num_failed_closed: int = 0
    masked_tokens_by_label: Counter[str] = field(default_factory=Counter)
    masked_tokens_by_policy: Counter[str] = field(default_factory=Counter)
    spans_by_label: Counter[str] = field(default_factory=Counter)
    observed_tokens_by_policy: Counter[str] = field(default_factory=Counter)
    masked_tokens_by_domain: Counter[str] = field(default_factory=Counter)
    tokens_by_domain: Counter[str] = field(default_factory=Counter)

    def add(self, out: Mapping[str, Any], verdict: Verdict) -> None:
        """Counts one row of the redacted table and the verdict that made it."""
        num_tokens = out["num_tokens"]
        self.num_sentences += 1
        self.num_tokens += num_tokens
        self.num_flagged_by_conservative += out["flagged_by_conservative"]
        self.num_conservative_failed += verdict.conservative_failed
        if out["is_duplicate"]:
            self.num_duplicates += 1
            self.num_duplicate_tokens += num_tokens
            return
        self.num_masked_tokens += out["num_masked_tokens"]
        if out["domain"] is not None:
            self.tokens_by_domain[out["domain"]] += num_tokens
            self.masked_tokens_by_domain[out["domain"]] += out["num_masked_tokens"]
        for name, count in verdict.observed:
            self.observed_tokens_by_policy[name] += count
        if verdict.other_language is not None and self.rows_without_model is not None:
            self.rows_without_model[verdict.other_language] += 1
        else:
            self.num_failed_closed += out["failed_closed"]
        by_label: dict[str, list[Any]] = {}
        by_policy: dict[str, list[Any]] = {}
        for span in verdict.spans:
            self.spans_by_label[span.label] += 1
            by_label.setdefault(span.label, []).append(span)
            by_policy.setdefault(span.policy, []).append(span)
        for counter, groups in ((self.masked_tokens_by_label, by_label), (self.masked_tokens_by_policy, by_policy)):
            for name, spans in groups.items():
                counter[name] += sum(token_mask(num_tokens, spans))

    def document(self) -> dict[str, Any]:
        """Returns all counts for the figures of the stage."""
        left_out = {"rows_without_model"} if self.rows_without_model is None else set()
        return {name: value for name, value in vars(self).items() if name not in left_out}

    def counts(self) -> dict[str, int]:
        """Returns the counts that are single numbers, for display."""
        return {name: value for name, value in vars(self).items() if isinstance(value, int)}
