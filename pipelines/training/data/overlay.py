"""Overlays: rows that a training reads in addition to the corpus, and rows of the corpus that it does not read.

They serve canaries, and records that a model must not have seen. An overlay is a folder in the private root with the
tables that preparation makes of a partition (sentences, redacted, private, public, documents) for the added rows, and
the table `EXCLUDED`. It is applied when a method's text is read, after deduplication and redaction: nothing that is
prepared changes, and equal added rows are no duplicates of each other or of the corpus. Added rows belong to the fold
``train``, so the evaluation stays the same. Nobody has screened them, so manual screening reads none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pipelines.artifacts import Target
from pipelines.context import pseudonym
from pipelines.corpus.tables import DOCUMENTS, SENTENCES
from pipelines.errors import ConfigError, StageError
from pipelines.policies.replacement import replacement_writer
from pipelines.policies.sharding import SHARD, is_private
from pipelines.policies.tables import REDACTED
from pipelines.tables import Table, schema
from pipelines.training.data.rows import Range, TrainingRow

if TYPE_CHECKING:
    from pipelines.policies.judging.apply import Redactor
    from pipelines.policies.judging.judge import Verdict
    from pipelines.policies.surrogates import Replace

EXCLUDED: Final = schema("excluded", "doc_id: string, sentence_index: uint32?")
"""Rows of the training fold that are left out. A row without an index stands for all rows of its document."""

_LABEL, _POLICY = "ADDED", "overlay"

Place = tuple[str, int | None]
"""A document and the index of a sentence in it. None stands for every sentence of the document."""


@dataclass(frozen=True, kw_only=True)
class AddedRow:
    """A row to train on.

    Attributes:
        document: name of a document that is not in the corpus. Rows with the same name are one document.
        sentence_index: index of the row in its document.
        text: one sentence, as people wrote it.
        masked: half-open ranges of characters. The tokens that they touch are masked, and no others: ``()`` is a row of
            which redaction missed everything. None masks what the run's policies find.
        is_flagged: true if the conservative policy flags the row, for a row with ``masked``. Without such a policy
            every row is private, as in a run.
        speaker, domain, label: metadata of the row.
        owner: name of the person whose row it is, for trainings that sample people; None: its document is a person.
    """

    document: str
    sentence_index: int = 0
    text: str
    masked: tuple[Range, ...] | None = None
    is_flagged: bool = False
    speaker: str | None = None
    domain: str | None = None
    label: str | None = None
    owner: str | None = None


class Exclusion:
    """Leaves rows out, and tracks which of them it has not met."""

    def __init__(self, excluded: Iterable[Place]) -> None:
        self._excluded = frozenset(excluded)
        self._unseen = set(self._excluded)

    @classmethod
    def of(cls, tables: Iterable[Table]) -> Exclusion:
        """Makes an exclusion from tables `EXCLUDED`."""
        columns = (b.to_pydict() for table in tables for b in table.batches())
        return cls(place for c in columns for place in zip(c["doc_id"], c["sentence_index"], strict=True))

    def kept(self, rows: Iterable[TrainingRow]) -> Iterator[TrainingRow]:
        """Returns the rows that are not left out, in order."""
        return self._filtered(rows) if self._excluded else iter(rows)

    def _filtered(self, rows: Iterable[TrainingRow]) -> Iterator[TrainingRow]:
        for row in rows:
            places = self._excluded & {(row.doc_id, None), (row.doc_id, row.sentence_index)}
            self._unseen -= places
            if not places:
                yield row

    def check(self) -> None:
        """Checks that every excluded place was met. What is not in the corpus cannot be held out of it.

        Raises:
            StageError: a place was not met.
        """
        if self._unseen:
            raise StageError(
                f"{len(self._unseen)} of the {len(self._excluded)} places that the overlay leaves out hold no row of "
                "the fold train. Take doc_id and sentence_index from the sentences table"
            )


def write_overlay_of_run(
    out: Target,
    rows: Sequence[AddedRow],
    excluded: Iterable[Place],
    *,
    configs: Mapping[str, Any],
    secret: bytes,
    redactor: Redactor | None,
) -> None:
    """Writes an overlay whose rows are tokenised and redacted as the run's text is.

    Raises:
        ConfigError: `write_overlay` refuses the rows, or a policy cannot be made.
    """
    from pipelines.corpus.split import Splitter

    split, redact = configs["split"], configs["redact"]
    by_owner = configs["train"].by_owner()
    is_bound = "guarantee" in configs and configs["guarantee"].owner_bound is not None
    write_overlay(
        out,
        rows if by_owner else [replace(row, owner=None) for row in rows],  # no bound leaves out copies of a canary
        excluded,
        doc_id=lambda name: pseudonym(secret, "added document", name),
        owner=(lambda name: pseudonym(secret, "added owner", name)) if by_owner or is_bound else None,
        tokens=Splitter(split.language, split.mode, split.max_sentence_tokens, split.model, split.cut_fields).tokens,
        redactor=redactor,
        has_conservative=redact.conservative is not None,
        collapse=redact.collapse,
        replace=replacement_writer(
            redact.replacement, redact.surrogate_scope, redact.policies, secret, linking=redact.linking()
        ),
    )


def write_overlay(
    out: Target,
    rows: Sequence[AddedRow],
    excluded: Iterable[Place],
    *,
    doc_id: Callable[[str], str],
    tokens: Callable[[str], tuple[list[int], list[int]]],
    redactor: Redactor | None,
    has_conservative: bool,
    collapse: bool,
    replace: Replace | None = None,
    owner: Callable[[str], str] | None = None,
) -> None:
    """Writes the tables of an overlay. Their bytes depend only on the arguments.

    Args:
        out: empty folder in the private root.
        rows: rows to add.
        excluded: places to leave out.
        doc_id: function that returns the id of an added document for its name.
        tokens: function that returns the offsets of a text's tokens, as split does.
        redactor: policies of the run. Not needed if every row says what is masked in it.
        has_conservative: true if one of the policies is the conservative policy.
        collapse: true if a run of masked tokens becomes one mask.
        replace: function that writes replacements in place of masks.
        owner: function that returns the id of a person for its name; None for a training on records.

    Raises:
        ConfigError: two rows are at one place, or a row holds no text or is masked outside of it.
        ValueError: a row has no ranges, and there is no redactor.
    """
    from pipelines.policies.judging.judge import Request
    from pipelines.policies.judging.tables import redacted_row

    _check(rows)
    ordered = sorted(rows, key=lambda row: (doc_id(row.document), row.sentence_index))
    sentences = [_sentence(row, doc_id(row.document), *tokens(row.text)) for row in ordered]
    judged: Sequence[Verdict | None] = [None] * len(ordered)
    if any(row.masked is None for row in ordered):
        if redactor is None:
            raise ValueError("rows without ranges need a redactor")
        # The redactor judges all rows, because a policy may read whole documents.
        requests = [Request(s["text"], s["token_starts"], s["token_ends"]) for s in sentences]
        judged = redactor.judge(requests, [s["doc_id"] for s in sentences])
    verdicts = [
        verdict if row.masked is None and verdict is not None else _given(row, sentence, has_conservative)
        for row, sentence, verdict in zip(ordered, sentences, judged, strict=True)
    ]
    redacted = [
        redacted_row({**sentence, "is_duplicate": False}, verdict, collapse=collapse, replace=replace)
        for sentence, verdict in zip(sentences, verdicts, strict=True)
    ]
    people = {doc_id(row.document): owner(row.owner or row.document) for row in rows} if owner else {}
    for name, table, content in (
        ("sentences", SENTENCES, sentences),
        ("redacted", REDACTED, redacted),
        ("private", SHARD, [row for row in redacted if is_private(row)]),
        ("public", SHARD, [row for row in redacted if not is_private(row)]),
        ("documents", DOCUMENTS if owner is None else DOCUMENTS.whole, _documents(sentences, people)),
        ("excluded", EXCLUDED, _sorted_places(excluded)),
    ):
        with out.table(table, name) as writer:
            for row in content:
                writer.append(**{column: row[column] for column in table.names})


def _check(rows: Sequence[AddedRow]) -> None:
    if any(count > 1 for count in Counter((row.document, row.sentence_index) for row in rows).values()):
        raise ConfigError("two rows of the overlay have the same document and sentence_index")
    for number, row in enumerate(rows):
        if not row.text.strip() or row.text != row.text.strip():
            raise ConfigError(f"row {number} of the overlay is empty, or begins or ends with white space")
        if any(not 0 <= start < end <= len(row.text) for start, end in row.masked or ()):
            raise ConfigError(f"row {number} of the overlay is masked outside of its text")


def _sentence(row: AddedRow, doc_id: str, starts: list[int], ends: list[int]) -> dict[str, Any]:
    return {
        "doc_id": doc_id,
        "sentence_index": row.sentence_index,
        "text": row.text,
        "token_starts": starts,
        "token_ends": ends,
        "char_start": 0,
        "is_overlong_piece": False,
        "speaker": row.speaker,
        "domain": row.domain,
        "fold": "train",
        "label": row.label,
    }


def _given(row: AddedRow, sentence: dict[str, Any], has_conservative: bool) -> Verdict:
    from pipelines.policies.judging.judge import Verdict
    from pipelines.policies.protocol import Sentence

    read = Sentence(row.text, sentence["token_starts"], sentence["token_ends"])
    spans = read.spans(((start, end, _LABEL) for start, end in row.masked or ()), _POLICY)
    flagged = row.is_flagged or not has_conservative
    return Verdict(spans=tuple(sorted(spans)), failed_closed=False, flagged=flagged, conservative_failed=False)


def _documents(sentences: Sequence[dict[str, Any]], people: Mapping[str, str]) -> list[dict[str, Any]]:
    lengths: dict[str, list[dict[str, Any]]] = {}
    for sentence in sentences:
        lengths.setdefault(sentence["doc_id"], []).append(sentence)
    return [
        {
            "doc_id": doc_id,
            "source_file": "",
            "source_row": 0,
            "source_id": None,
            "num_sentences": max(s["sentence_index"] for s in rows) + 1,
            "num_tokens": sum(len(s["token_starts"]) for s in rows),
            "num_chars": sum(len(s["text"]) for s in rows),
            "fold": "train",
            "has_gold": False,
            "owner": people.get(doc_id),
        }
        for doc_id, rows in lengths.items()
    ]


def _sorted_places(excluded: Iterable[Place]) -> list[dict[str, Any]]:
    places = sorted(set(excluded), key=lambda place: (place[0], -1 if place[1] is None else place[1]))
    return [{"doc_id": doc_id, "sentence_index": index} for doc_id, index in places]
