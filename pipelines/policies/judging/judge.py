"""Judges a chunk of sentences by several policies: one spaCy pass for all of them, failing closed row by row."""

from __future__ import annotations

import gc
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pipelines.errors import ConfigError
from pipelines.language import Annotator, load_pipeline, make_doc
from pipelines.policies.detectors.phrases import pieces
from pipelines.policies.judging.stabilise import PLACEHOLDER, Stabiliser, Tokens
from pipelines.policies.protocol import DocumentPolicy, Policy, Sentence, Span, check_spans
from pipelines.policies.redact import LITERAL_POLICY, literal_mask_spans, token_mask

if TYPE_CHECKING:
    from spacy.tokens import Doc

FAILED_LABEL: Final = "FAILED_CLOSED"


class Request(NamedTuple):
    """One row to judge. ``redact`` is false for a row that is masked whole anyway: then only the flag is wanted."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    redact: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the policies say about one sentence.

    Attributes:
        spans: to be masked, sorted; one span over the whole row when a policy failed on it.
        failed_closed: a policy failed on this row.
        flagged: the conservative policy found something, or failed, or there is none.
        conservative_failed: the conservative policy failed on this row.
        observed: for each policy that is only watched, how many tokens it would mask; all of them where it failed.
    """

    spans: tuple[Span, ...]
    failed_closed: bool
    flagged: bool
    conservative_failed: bool
    observed: tuple[tuple[str, int], ...] = ()


class Exclusions:
    """What is left unmasked although a policy found it.

    Args:
        phrases: a find with just these words is dropped, in any case; one that holds more words is not.
        labels: finds with these labels are dropped.
    """

    def __init__(self, phrases: Iterable[str] = (), labels: Iterable[str] = ()) -> None:
        self._phrases = frozenset(pieces(phrase) for phrase in phrases) - {()}
        self._labels = frozenset(labels)

    def kept(self, spans: Iterable[Span], sentence: Sentence) -> list[Span]:
        """The spans that no exclusion covers. A row that failed, and a mask in the original text, stay masked."""
        return [
            s for s in spans if s.label == FAILED_LABEL or s.policy == LITERAL_POLICY or not self._drops(s, sentence)
        ]

    def _drops(self, span: Span, sentence: Sentence) -> bool:
        if span.label in self._labels:
            return True
        if not self._phrases:
            return False
        text = sentence.text[sentence.starts[span.start_token] : sentence.ends[span.end_token - 1]]
        return pieces(text) in self._phrases


def without_separator(spans: Iterable[Span], sentence: Sentence, separator: str) -> list[Span]:
    """The spans without the token between the two texts of a row: one that reaches over it becomes two.

    The separator is the form of such rows and says nothing of any of them. A model that reads entities takes a name at
    the end of one text and a name at the begin of the next for a single one, and without a border there is no pair.
    Only the first occurrence is one, as for whoever reads the row.
    """
    at = sentence.text.find(separator)
    if at < 0:
        return list(spans)
    low = bisect_right(sentence.ends, at)
    high = bisect_left(sentence.starts, at + len(separator))
    return [
        part
        for span in spans
        for part in (
            span._replace(end_token=min(span.end_token, low)),
            span._replace(start_token=max(span.start_token, high)),
        )
        if part.start_token < part.end_token
    ]


class Judge:
    """Judges sentences by a union of policies and, separately, by a conservative policy.

    A verdict depends on the sentence alone: not on the batch it came in, nor on which other policies run.

    Args:
        policies: the union, by name.
        conservative: decides private or public only; None flags every row.
        model: the spaCy model, loaded only when a policy needs it and then with what is needed.
        observed: policies whose coverage is wanted but which mask nothing.
        exclusions: what is left unmasked.
        separator: what stands between the two texts of a row and is never masked; None where a row is one text.
        stabilise: whether policies read placeholders in place of finds (`pipelines.policies.judging.stabilise`).

    Raises:
        ConfigError: the conservative policy looks at whole documents, so it would vouch for every sentence; or the
            model is not installed or lacks a component.
    """

    def __init__(
        self,
        policies: Mapping[str, Policy],
        conservative: Policy | None,
        model: str,
        *,
        observed: Mapping[str, Policy] | None = None,
        exclusions: Exclusions | None = None,
        separator: str | None = None,
        stabilise: bool = False,
        placeholder: str = PLACEHOLDER,
    ) -> None:
        self._policies = dict(sorted(policies.items()))
        self._conservative = conservative
        self._observed = dict(sorted((observed or {}).items()))
        self._exclusions = exclusions or Exclusions()
        self._separator = separator
        if isinstance(conservative, DocumentPolicy):
            raise ConfigError("redact.conservative: a policy for whole documents cannot vouch for single sentences")
        self._document_policies = {n: p for n, p in self._policies.items() if isinstance(p, DocumentPolicy)}
        self._asked = [*self._observed.values(), *([conservative] if conservative else [])]
        used = [*self._policies.values(), *self._asked]
        # What reads the original text: without placeholders, every policy.
        self._readers = self._asked if stabilise else used
        self._annotator: Annotator | None = None
        if needs := _needs(used):
            on_demand = frozenset({"tagger", "attribute_ruler", "lemmatizer"}) if _wanting(used) else frozenset()
            self._annotator = Annotator(load_pipeline(model, needs | on_demand))
        self._stabiliser: Stabiliser | None = None
        if stabilise:
            groups = [
                {n: p for n, p in self._policies.items() if _reads_context(p) == reads} for reads in (False, True)
            ]
            self._stabiliser = Stabiliser([partial(self._find_in, group) for group in groups if group], placeholder)

    @property
    def language(self) -> str | None:
        """The language of the spaCy model; None where no policy needs one."""
        return self._annotator.nlp.lang if self._annotator is not None else None

    @property
    def looks_at_documents(self) -> bool:
        """Whether a policy wants to see whole documents."""
        return bool(self._document_policies)

    def judge(self, requests: Sequence[Request]) -> list[Verdict]:
        """One verdict a request, in order, by all policies but those for whole documents."""
        is_always_read = bool(_needs(self._asked))
        read = [request for request in requests if request.redact or is_always_read]
        found: dict[int, set[Span] | str] = {}
        if self._stabiliser is not None:
            wanted = [request for request in requests if request.redact]
            marked = [(r.text, r.starts, r.ends, self._literal(r)) for r in wanted]
            found = dict(zip(map(id, wanted), self._stabiliser.find_all(marked), strict=True))
        with self._annotated(read, self._readers) as docs:
            of = dict(zip(map(id, read), docs, strict=True))
            _prepare(self._readers, [Sentence(r.text, r.starts, r.ends, of.get(id(r))) for r in read])
            return [self._judge_one(request, of.get(id(request)), found.get(id(request))) for request in requests]

    def _literal(self, request: Request) -> list[Span]:
        sentence = Sentence(request.text, request.starts, request.ends)
        return self._kept(literal_mask_spans(sentence), sentence)

    def _find_in(self, policies: Mapping[str, Policy], readings: Sequence[Tokens]) -> list[list[Span] | str]:
        """What some of the policies find in each text; the name of the policy that failed on it."""
        requests = [Request(*reading) for reading in readings]
        with self._annotated(requests, policies.values()) as docs:
            sentences = [Sentence(r.text, r.starts, r.ends, doc) for r, doc in zip(requests, docs, strict=True)]
            _prepare(policies.values(), sentences)
            return [self._find_union(policies, sentence) for sentence in sentences]

    def _find_union(self, policies: Mapping[str, Policy], sentence: Sentence) -> list[Span] | str:
        spans: list[Span] = []
        for name, policy in policies.items():
            found = _find(policy, sentence)
            if found is None:
                return name
            spans += self._kept(found, sentence)
        return spans

    @contextmanager
    def _annotated(self, requests: Sequence[Request], policies: Collection[Policy]) -> Iterator[Sequence[Doc | None]]:
        """Docs with what these policies read, one a request; None where none is needed, or spaCy failed."""
        if self._annotator is None or not _needs(policies):
            yield [None] * len(requests)
            return
        # The memory zone frees the strings of this chunk: memory does not grow with the corpus.
        with _paused_collector(), self._annotator.nlp.memory_zone():
            yield self._annotate(self._annotator, requests, policies)

    def judge_document(self, requests: Sequence[Request], verdicts: Sequence[Verdict]) -> list[Verdict]:
        """The verdicts on all sentences of one document, with what the policies for documents add.

        If one of those fails, every row of the document is masked.
        """
        sentences = [Sentence(request.text, request.starts, request.ends) for request in requests]
        found = [verdict.spans for verdict in verdicts]
        more: list[list[Span]] = [[] for _ in requests]
        for name, policy in self._document_policies.items():
            try:
                answers = policy.find_in_document(sentences, found)
                for add, spans, sentence in zip(more, answers, sentences, strict=True):
                    add += self._kept(check_spans(spans, sentence.num_tokens), sentence)
            except MemoryError:
                raise
            except (Exception, SystemExit):
                return [
                    Verdict(_whole(len(r.starts), name), True, v.flagged, v.conservative_failed, v.observed)
                    for r, v in zip(requests, verdicts, strict=True)
                ]
        return [
            verdict
            if verdict.failed_closed or not add or not request.redact
            else Verdict(
                tuple(sorted({*verdict.spans, *add})),
                False,
                verdict.flagged,
                verdict.conservative_failed,
                verdict.observed,
            )
            for request, verdict, add in zip(requests, verdicts, more, strict=True)
        ]

    def _annotate(
        self, annotator: Annotator, requests: Sequence[Request], policies: Collection[Policy]
    ) -> list[Doc | None]:
        """Annotated Docs; None where spaCy failed, which every policy that needs one then takes for a failure."""
        try:
            return list(self._annotate_all(annotator, requests, policies))
        except MemoryError:
            raise
        except Exception:  # one sentence at a time, so that one that spaCy cannot digest costs no other row anything
            return [self._annotate_one(annotator, request, policies) for request in requests]

    def _annotate_one(self, annotator: Annotator, request: Request, policies: Collection[Policy]) -> Doc | None:
        try:
            return self._annotate_all(annotator, [request], policies)[0]
        except MemoryError:
            raise
        except Exception:
            return None

    def _annotate_all(
        self, annotator: Annotator, requests: Sequence[Request], policies: Collection[Policy]
    ) -> list[Doc]:
        docs = [make_doc(annotator.nlp, r.text, r.starts, r.ends) for r in requests]
        annotator.annotate(docs, _needs(policies))
        wanting = _wanting(policies)
        by_want: dict[frozenset[str], list[Doc]] = {}
        for request, doc in zip(requests, docs, strict=True):
            sentence = Sentence(request.text, request.starts, request.ends, doc)
            wanted = frozenset().union(*(policy.wants(sentence) for policy in wanting))
            if wanted:
                by_want.setdefault(wanted, []).append(doc)
        for wanted, group in sorted(by_want.items(), key=lambda item: sorted(item[0])):
            annotator.annotate(group, wanted)
        return docs

    def _kept(self, spans: Iterable[Span], sentence: Sentence) -> list[Span]:
        kept = self._exclusions.kept(spans, sentence)
        return kept if self._separator is None else without_separator(kept, sentence, self._separator)

    def _judge_one(self, request: Request, doc: Doc | None, found: set[Span] | str | None) -> Verdict:
        """The verdict on one row; ``found`` is what was found already, where policies read placeholders."""
        sentence = Sentence(request.text, request.starts, request.ends, doc)
        num_tokens = sentence.num_tokens
        spans: set[Span] = set()
        failed = None
        if request.redact:
            union = self._find_union(self._policies, sentence) if found is None else found
            if isinstance(union, str):
                failed, spans = union, set(_whole(num_tokens, union))
            else:
                spans = {*union, *self._literal(request)}
        flagged, conservative_failed = True, False
        if self._conservative is not None:
            reasons = _find(self._conservative, sentence)
            flagged, conservative_failed = reasons is None or bool(reasons), reasons is None
        return Verdict(
            tuple(sorted(spans)),
            failed is not None,
            flagged,
            conservative_failed,
            tuple((name, _coverage(_find(policy, sentence), num_tokens)) for name, policy in self._observed.items()),
        )


def _needs(policies: Iterable[Policy]) -> frozenset[str]:
    return frozenset().union(*(policy.needs for policy in policies))


def _prepare(policies: Iterable[Policy], sentences: Sequence[Sentence]) -> None:
    """Shows sentences to the policies that read several at once. What fails here fails again, on its row alone."""
    for policy in policies:
        if hasattr(policy, "prepare"):
            with suppress(Exception):
                policy.prepare(sentences)


def _wanting(policies: Iterable[Policy]) -> list[Any]:
    return [policy for policy in policies if hasattr(policy, "wants")]


def _reads_context(policy: Policy) -> bool:
    """Whether what a policy finds depends on what stands around it, so that patterns had better go first."""
    spec = getattr(policy, "spec", None)
    return bool(policy.needs or getattr(policy, "reads_context", False) or getattr(spec, "reads_context", False))


@contextmanager
def _paused_collector() -> Iterator[None]:
    """No search for cyclic garbage inside: a chunk makes very many objects, and no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _whole(num_tokens: int, policy: str) -> tuple[Span, ...]:
    """The span over a whole row on which a policy failed."""
    return (Span(0, num_tokens, FAILED_LABEL, policy),) if num_tokens else ()


def _coverage(found: list[Span] | None, num_tokens: int) -> int:
    return num_tokens if found is None else sum(token_mask(num_tokens, found))


def _find(policy: Policy, sentence: Sentence) -> list[Span] | None:
    """A policy's checked spans, or None if it or its Doc failed. What went wrong is dropped: it may quote the text."""
    if policy.needs and sentence.doc is None:
        return None
    try:
        return check_spans(policy.find(sentence), sentence.num_tokens)
    except MemoryError:
        raise
    except (Exception, SystemExit):  # a library that "exits" on odd text has failed on it
        return None
