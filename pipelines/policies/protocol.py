"""What a redaction policy is: text and tokens in, token spans out.

A policy sees one sentence at a time and nothing else, so its spans depend on that sentence alone. What is fitted on
other rows, or carried over from them within a document, couples records, and the guarantee says so.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from pipelines.policies.options import LABEL_PATTERN, PolicyOptions

if TYPE_CHECKING:
    from pydantic import BaseModel
    from spacy.tokens import Doc


class Span(NamedTuple):
    """A half-open run of tokens that a policy wants masked.

    Attributes:
        start_token, end_token: token positions in the sentence, ``start_token < end_token``.
        label: what was found, matching `LABEL_PATTERN`.
        policy: which policy found it, as named in the settings.
        score: the policy's confidence in [0, 1]; 1.0 where the detector gives none.
    """

    start_token: int
    end_token: int
    label: str
    policy: str
    score: float = 1.0


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence as the sentences table holds it.

    Attributes:
        text: the original text.
        starts, ends: character offsets of the tokens, half-open, increasing, not overlapping.
        doc: a spaCy Doc over exactly these tokens (token i is ``doc[i]``; its character offsets may differ where the
            text holds unusual white space), for policies whose ``needs`` is not empty; None for the others.
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
        """The text of every token."""
        return [self.text[start:end] for start, end in zip(self.starts, self.ends, strict=True)]

    def widen(self, start: int, end: int) -> tuple[int, int] | None:
        """The smallest run of whole tokens that covers characters ``[start, end)``; None if it touches no token."""
        first = bisect_right(self.ends, start)
        last = bisect_left(self.starts, end)
        return (first, last) if start < end and first < last else None

    def spans(self, found: Iterable[tuple[int, int, str]], policy: str, score: float = 1.0) -> list[Span]:
        """Character finds ``(start, end, label)`` as token spans; a find that touches no token is dropped."""
        widened = ((self.widen(start, end), label) for start, end, label in found)
        return [Span(*tokens, label, policy, score) for tokens, label in widened if tokens is not None]


@dataclass(frozen=True, kw_only=True)
class PolicySpec:
    """What a policy is, as settings, keys, claims, the report and the documentation say it.

    Attributes:
        name: in the settings.
        description: what it masks, in a sentence without its full stop.
        reference: ``module:Class`` of a built-in policy.
        components: spaCy components whose annotation it reads, as `Policy.needs`.
        reads_documents: it looks at whole documents, so that it couples their rows (`DocumentPolicy`).
        is_fitted: it was fitted on text, so that it couples rows where that text is the corpus.
        reads_context: its finds hang on what surrounds them; a policy with ``components`` always counts as one.
        is_stable: it masks the same tokens when those that it masks are replaced by others of their kind. Claims
            believe that of built-in policies only.
        packages: distributions whose version enters keys.
        options: its settings: fields of ``[redact]`` for a built-in policy, ``[redact.options.NAME]`` for a plug-in. A
            method ``references()`` of the model names the modules and files that they select, which count by content.
        requires: fields of ``options`` of which it needs one, and which are refused without it.
        labels: what it may call its finds; None where that is known only when it is made.
        review_labels: which label of reviews (`pipelines.policies.labels.REVIEW_LABELS`) each of its labels counts as;
            what is not named here counts by its name where that is a common one, else as OTHER.
    """

    name: str
    description: str
    reference: str = ""
    components: frozenset[str] = frozenset()
    reads_documents: bool = False
    is_fitted: bool = False
    reads_context: bool = False
    is_stable: bool = False
    packages: tuple[str, ...] = ()
    options: type[BaseModel] | None = None
    requires: tuple[str, ...] = ()
    labels: frozenset[str] | None = None
    review_labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def couples_rows(self) -> bool:
        """Whether a mask may depend on other rows than its own."""
        return self.reads_documents or self.is_fitted


@runtime_checkable
class Policy(Protocol):
    """A redaction policy, made as ``Class(options)``.

    ``find`` must be a pure function of the sentence. An exception or a malformed span fails closed: the whole row is
    masked. A conservative policy is the same thing; only whether it finds anything at all counts.

    A policy may also have a method ``wants(sentence) -> frozenset[str]``. It is called once ``needs`` is annotated and
    names what the sentence must be annotated with besides before ``find`` is called, for annotation that few need.

    Another one, ``prepare(sentences) -> None``, is shown what ``find`` will be called on next, so that a model on a GPU
    may read it at once. It changes no find: ``find`` answers the same without it.

    With ``redact.stabilise`` a policy is asked several times about a sentence, with a placeholder in place of what was
    found (`pipelines.policies.judging.stabilise`). Policies without ``needs`` go first; one of them whose finds hang on
    their surroundings, as those of a model do, says so by an attribute ``reads_context = True``, or in its spec, and
    goes with the others.

    A policy of another package may say what it is by an attribute ``spec`` of its class, a `PolicySpec`.
    """

    needs: frozenset[str]
    """Names of the spaCy pipeline components whose annotation ``find`` reads; empty when it needs no Doc."""

    def find(self, sentence: Sentence) -> Sequence[Span]:
        """The spans to mask; they may overlap and come in any order."""
        ...


class NamedPolicy:
    """A policy that needs to be told its name alone."""

    def __init__(self, options: PolicyOptions) -> None:
        self._name = options.name


@runtime_checkable
class DocumentPolicy(Policy, Protocol):
    """A policy that looks at a whole document, after all others. It ties the document's rows together."""

    def find_in_document(
        self, sentences: Sequence[Sentence], found: Sequence[Sequence[Span]]
    ) -> Sequence[Sequence[Span]]:
        """More spans for each sentence of a document.

        Args:
            sentences: all sentences of one document, in order.
            found: what the other policies found in each.
        """
        ...


def check_offsets(text: str, starts: Sequence[int], ends: Sequence[int]) -> None:
    """Refuses token offsets that leave text outside all tokens, because no policy could ever mask it.

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


def check_spans(spans: Iterable[Any], num_tokens: int) -> list[Span]:
    """The spans as `Span` values, sorted, repeats removed.

    Raises:
        ValueError: a span is malformed, empty, out of range, or its label or score is not allowed.
    """
    checked: set[Span] = set()
    for start, end, label, policy, score in spans:
        if not 0 <= start < end <= num_tokens:
            raise ValueError("a span is empty or out of range")
        if not isinstance(label, str) or LABEL_PATTERN.fullmatch(label) is None or not isinstance(policy, str):
            raise ValueError("a span's label must be capitals, digits and underscores")
        if not (math.isfinite(score) and 0.0 <= score <= 1.0):
            raise ValueError("a span's score must be between 0 and 1")
        checked.add(Span(int(start), int(end), label, policy, float(score)))
    return sorted(checked)
