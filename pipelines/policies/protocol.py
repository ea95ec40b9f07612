"""The protocol of redaction policies: text and tokens in, token spans out.

A policy sees one sentence at a time and nothing else, so its spans depend on that sentence alone. A policy that is
fitted on other rows, or carries finds over from other rows of a document, couples records, and the guarantee says so.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, runtime_checkable

from pipelines.policies.options import LABEL_PATTERN, PolicyOptions

if TYPE_CHECKING:
    from pydantic import BaseModel
    from spacy.tokens import Doc


PLACEHOLDER: Final = "John"
"""The word that replaces a masked run in a reading. docs/policies.md, "Stable redaction", gives the reason for it."""


class Span(NamedTuple):
    """A half-open run of tokens that a policy wants masked.

    Attributes:
        start_token, end_token: token positions in the sentence, ``start_token < end_token``.
        label: kind of the find, matching `LABEL_PATTERN`.
        policy: name of the policy that found it, as in the settings.
        score: confidence of the policy in [0, 1], or 1.0 if the detector gives none.
    """

    start_token: int
    end_token: int
    label: str
    policy: str
    score: float = 1.0


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as in the sentences table.

    Attributes:
        text: original text.
        starts, ends: character offsets of the tokens, half-open, increasing, not overlapping.
        doc: spaCy Doc over exactly these tokens, for policies whose ``needs`` is not empty. None for other policies.
            Token i is ``doc[i]``. Its character offsets may differ if the text has unusual white space.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    doc: Doc | None = None

    @property
    def num_tokens(self) -> int:
        """The number of tokens."""
        return len(self.starts)

    def tokens(self) -> list[str]:
        """Returns the text of every token."""
        return [self.text[start:end] for start, end in zip(self.starts, self.ends, strict=True)]

    def widen(self, start: int, end: int) -> tuple[int, int] | None:
        """Returns the smallest run of whole tokens that covers characters ``[start, end)``, or None without a token."""
        first = bisect_right(self.ends, start)
        last = bisect_left(self.starts, end)
        return (first, last) if start < end and first < last else None

    def spans(self, finds: Iterable[tuple[int, int, str]], policy: str, score: float = 1.0) -> list[Span]:
        """Converts character finds ``(start, end, label)`` to token spans. Drops a find that touches no token."""
        widened = ((self.widen(start, end), label) for start, end, label in finds)
        return [Span(*tokens, label, policy, score) for tokens, label in widened if tokens is not None]


@dataclass(frozen=True, kw_only=True)
class PolicySpec:
    """The description of a policy for settings, keys, claims, the report and the documentation.

    Attributes:
        name: name in the settings.
        description: phrase that says which text the policy masks.
        reference: ``module:Class`` of a built-in policy.
        components: spaCy components whose annotation the policy reads, as in `Policy.needs`.
        reads_documents: flag that the policy reads whole documents, so that it couples their rows (`DocumentPolicy`).
        reads_speakers: flag that the policy is told the names of a document's speakers (`SpeakerPolicy`).
        is_fitted: flag that the policy was fitted on text, so that it couples rows if that text is the corpus.
        reads_context: flag that its finds depend on the words around them. It holds for every policy with
            ``components``.
        is_stable: flag that the policy masks the same tokens if other tokens of their kind replace them. Claims rely on
            this for built-in policies only.
        packages: distributions whose version is part of keys.
        options: model of its settings: fields of ``[redact]`` for a built-in policy, ``[redact.options.NAME]`` for a
            plug-in. A method ``references()`` of the model returns the modules and files that the settings select.
            They count by content.
        requires: fields of ``options`` of which the policy needs one. They are refused without the policy.
        labels: labels of its finds. None if they are known only after the policy is made.
        review_labels: label of reviews (`pipelines.policies.labels.REVIEW_LABELS`) by label of the policy. A label that
            is missing here maps by its name if that is a common one, else to OTHER.
    """

    name: str
    description: str
    reference: str = ""
    components: frozenset[str] = frozenset()
    reads_documents: bool = False
    reads_speakers: bool = False
    is_fitted: bool = False
    reads_context: bool = False
    is_stable: bool = False
    packages: tuple[str, ...] = ()
    options: type[BaseModel] | None = None
    requires: tuple[str, ...] = ()
    labels: frozenset[str] | None = None
    review_labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def extends_finds(self) -> bool:
        """True if the policy masks only what other policies found elsewhere in a document."""
        return self.reads_documents and not self.reads_speakers

    @property
    def couples_rows(self) -> bool:
        """True if a mask may depend on other rows than its own."""
        return self.reads_documents or self.is_fitted


@runtime_checkable
class Policy(Protocol):
    """A redaction policy, made as ``Class(options)``.

    ``find`` must be a pure function of the sentence. If it raises an exception or returns a malformed span, the whole
    row is masked. A conservative policy has the same protocol. For it, only the presence of a find counts.

    A policy may also have a method ``wants(sentence) -> frozenset[str]``, for annotation that few sentences need. It
    runs after the components in ``needs``. It returns further components that must annotate the sentence before
    ``find``.

    Another optional method, ``prepare(sentences) -> None``, gets the next sentences of ``find``, so that a model on a
    GPU can read them at once. It changes no find: ``find`` returns the same without it.

    Another optional method, ``complete(sentence, finds) -> Sequence[Span]``, gets the finds of all policies in a
    sentence, and returns more spans, such as the rest of a number that a find covers in part. It must be a pure
    function.

    With ``redact.stabilise``, ``find`` reads a sentence several times, with a placeholder in place of each find
    (`pipelines.policies.judging.stabilise`). Policies without ``needs`` run first. If the finds of such a policy depend
    on the words around them, as those of a model do, set an attribute ``reads_context = True``, or set it in the spec.
    The policy then runs with the others.

    A policy of another package may describe itself by an attribute ``spec`` of its class, a `PolicySpec`.
    """

    needs: frozenset[str]
    """Names of the spaCy components whose annotation ``find`` reads. Empty if it needs no Doc."""

    def find(self, sentence: Sentence) -> Sequence[Span]:
        """Returns the spans to mask. They may overlap and come in any order."""
        ...


@runtime_checkable
class FieldNames(Protocol):
    """A policy that knows which characters only name a field, so that no policy masks them."""

    def names_in(self, text: str) -> Sequence[tuple[int, int]]:
        """Returns the sorted half-open ranges of the names of fields, with the marks behind them."""
        ...


class NamedPolicy:
    """A policy that keeps its name. Its spans need the name, and it reads no annotation."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, options: PolicyOptions) -> None:
        self._name = options.name


@runtime_checkable
class DocumentPolicy(Policy, Protocol):
    """A policy that reads a whole document, after all other policies. It couples the document's rows."""

    def find_in_document(
        self, sentences: Sequence[Sentence], found: Sequence[Sequence[Span]]
    ) -> Sequence[Sequence[Span]]:
        """Returns more spans for each sentence of a document.

        Args:
            sentences: all sentences of one document, in order.
            found: spans of the other policies in each sentence.
        """
        ...


@runtime_checkable
class SpeakerPolicy(DocumentPolicy, Protocol):
    """A policy that is told the names of a document's speakers. It couples the document's rows.

    It runs before all other policies. With ``redact.stabilise`` they read placeholders in place of its finds.
    """

    def find_names(self, sentences: Sequence[Sentence], names: Sequence[str]) -> Sequence[Sequence[Span]]:
        """Returns the spans of the names in each sentence.

        Args:
            sentences: sentences of one document. The spans in a sentence must not depend on the other sentences.
            names: names of the document's speakers, as its file writes them, without roles.
        """
        ...


def check_offsets(text: str, starts: Sequence[int], ends: Sequence[int]) -> None:
    """Refuses token offsets that leave text outside all tokens, because no policy could mask such text.

    Raises:
        ValueError: offsets overlap, run past the text, are empty, or leave visible characters uncovered.
    """
    if len(starts) != len(ends):
        raise ValueError("token starts and ends differ in number")
    at = 0
    for start, end in zip(starts, ends, strict=True):
        if start < at or end <= start or end > len(text):
            raise ValueError("token offsets overlap, are empty, or run past the text")
        if start > at and not text[at:start].isspace():
            raise ValueError("visible text lies outside all tokens")
        at = end
    if at < len(text) and not text[at:].isspace():
        raise ValueError("visible text lies outside all tokens")


@functools.lru_cache(maxsize=1024)
def _is_label(label: str) -> bool:
    return LABEL_PATTERN.fullmatch(label) is not None


def check_spans(spans: Iterable[Any], num_tokens: int) -> list[Span]:
    """Returns the spans as `Span` values, sorted, without repeats.

    Raises:
        ValueError: a span is malformed, empty, out of range, or has a label or score that is not allowed.
    """
    checked: set[Span] = set()
    for start, end, label, policy, score in spans:
        if not 0 <= start < end <= num_tokens:
            raise ValueError("a span is empty or out of range")
        if not isinstance(label, str) or not _is_label(label) or not isinstance(policy, str):
            raise ValueError("a span's label must be capitals, digits and underscores")
        if not (math.isfinite(score) and 0.0 <= score <= 1.0):
            raise ValueError("a span's score must be between 0 and 1")
        checked.add(Span(int(start), int(end), label, policy, float(score)))
    return sorted(checked)
