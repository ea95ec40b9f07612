"""Judges a chunk of sentences by several policies in one spaCy pass. A row is masked whole if a policy fails on it."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from pipelines.errors import ConfigError
from pipelines.language import Annotator, load_pipeline, make_doc
from pipelines.policies.judging.exclusions import Exclusions as Exclusions
from pipelines.policies.judging.exclusions import without_separator
from pipelines.policies.judging.failing import FAILED_LABEL as FAILED_LABEL
from pipelines.policies.judging.failing import complete, coverage, find_names, whole
from pipelines.policies.judging.stabilise import PLACEHOLDER, Stabiliser, Tokens
from pipelines.policies.protocol import DocumentPolicy, FieldNames, Policy, Sentence, Span, SpeakerPolicy, check_spans
from pipelines.policies.redact import literal_mask_spans

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from pipelines.policies.judging.document_language import Languages


class Request(NamedTuple):
    """A row to judge.

    Attributes:
        text: original text.
        starts, ends: character offsets of the tokens.
        redact: false for a row that is masked whole anyway and needs only the flag.
        names: names of the speakers of the row's document. Rows of one document share one tuple.
        given: spans that are masked from the start (`Judge.with_names`).
        languages: languages of the row's document (`LanguageJudge.with_languages`).
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    redact: bool = True
    names: tuple[str, ...] = ()
    given: tuple[Span, ...] = ()
    languages: Languages | None = None

    def sentence(self, doc: Doc | None = None) -> Sentence:
        """Returns the row as policies read it."""
        return Sentence(self.text, self.starts, self.ends, doc)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the policies for one sentence.

    Attributes:
        spans: sorted spans to mask. One span covers the whole row if a policy failed on it.
        failed_closed: flag that a policy failed on this row.
        flagged: flag that the conservative policy found something, or failed, or that there is none.
        conservative_failed: flag that the conservative policy failed on this row.
        observed: number of tokens that each observed policy would mask. A policy that failed counts all tokens.
        other_language: language of the row's document if there is no model for it, so that the row is masked whole.
    """

    spans: tuple[Span, ...]
    failed_closed: bool
    flagged: bool
    conservative_failed: bool
    observed: tuple[tuple[str, int], ...] = ()
    other_language: str | None = None


class Judge:
    """Judges sentences by a union of policies and, separately, by a conservative policy.

    A verdict depends on the sentence alone, and not on the batch or on the other policies that run.

    Args:
        policies: policies of the union, by name.
        conservative: policy that decides only whether a row is private or public. None flags every row.
        model: spaCy model. It is loaded only if a policy needs it, with the components that the policies need.
        observed: policies whose coverage is measured but which mask nothing.
        exclusions: finds to leave unmasked.
        separator: text between the two texts of a row, which is never masked. None if a row is one text.
        stabilise: true if policies read placeholders in place of finds (`pipelines.policies.judging.stabilise`).
        reads_original: true if, besides, all policies read the original text.
        placeholder: word that replaces finds.

    Raises:
        ConfigError: the conservative policy looks at whole documents, so it would pass every single sentence; or the
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
        reads_original: bool = False,
        placeholder: str = PLACEHOLDER,
    ) -> None:
        self._policies = dict(sorted(policies.items()))
        self._conservative = conservative
        self._observed = dict(sorted((observed or {}).items()))
        names_in = next((p.names_in for p in self._policies.values() if isinstance(p, FieldNames)), None)
        models = [name for name, policy in self._policies.items() if policy.needs]
        self._exclusions = (exclusions or Exclusions()).with_names(names_in, models)
        self._separator = separator
        if isinstance(conservative, DocumentPolicy):
            raise ConfigError("redact.conservative: a policy for whole documents cannot vouch for single sentences")
        self._document_policies = {n: p for n, p in self._policies.items() if isinstance(p, DocumentPolicy)}
        self._speaker_policies = {n: p for n, p in self._policies.items() if isinstance(p, SpeakerPolicy)}
        self._completing = {n: p for n, p in self._policies.items() if hasattr(p, "complete")}
        self._nonmasking = [*self._observed.values(), *([conservative] if conservative else [])]
        used = [*self._policies.values(), *self._nonmasking]
        # Policies that read the original text. Without placeholders, these are all policies.
        self._readers = self._nonmasking if stabilise else used
        self._annotator: Annotator | None = None
        if needs := _needs(used):
            on_demand = frozenset({"tagger", "attribute_ruler", "lemmatizer"}) if _with_wants(used) else frozenset()
            self._annotator = Annotator(load_pipeline(model, needs, on_demand))
        self._stabiliser: Stabiliser | None = None
        # Finds of policies in the readings of this chunk, so that none reads the original twice.
        self._finds: dict[Tokens, dict[str, list[Span]]] = {}
        if stabilise:
            groups = [
                {n: p for n, p in self._policies.items() if _reads_context(p) == reads} for reads in (False, True)
            ]
            finders = [partial(self._find_in, group) for group in groups if group]
            original = partial(self._find_in, self._policies) if reads_original else None
            self._stabiliser = Stabiliser(finders, placeholder, original)

    @property
    def language(self) -> str | None:
        """The language of the spaCy model. None if no policy needs one."""
        return self._annotator.nlp.lang if self._annotator is not None else None

    @property
    def observed(self) -> tuple[str, ...]:
        """Names of the policies whose coverage is measured."""
        return tuple(self._observed)

    @property
    def looks_at_documents(self) -> bool:
        """True if a policy reads whole documents."""
        return bool(self._document_policies)

    @property
    def carries_finds(self) -> bool:
        """True if finds in a row may mask text in other rows, so that duplicates are read too."""
        return bool(self._document_policies)

    @property
    def reads_speakers(self) -> bool:
        """True if a policy is told the names of speakers."""
        return bool(self._speaker_policies)

    def with_names(self, requests: Sequence[Request]) -> list[Request]:
        """Returns the requests with the finds of the policies that are told the names of speakers."""
        if not self._speaker_policies:
            return list(requests)
        found: list[Request] = []
        for names, group in groupby(requests, key=lambda request: request.names):
            rows = list(group)
            given = find_names(self._speaker_policies, [row.sentence() for row in rows], names)
            found += [
                row._replace(names=(), given=tuple(self._kept(spans, row.sentence())))
                for row, spans in zip(rows, given, strict=True)
            ]
        return found

    def judge(self, requests: Sequence[Request]) -> list[Verdict]:
        """Returns one verdict per request, in order. Policies for whole documents take no part."""
        with _paused_collector():
            return self._judge(requests)

    def _judge(self, requests: Sequence[Request]) -> list[Verdict]:
        sentences = [request.sentence() for request in requests]
        unions: list[set[Span] | str | None] = [None] * len(requests)
        self._finds.clear()
        if self._stabiliser is not None:
            redacted = [i for i, request in enumerate(requests) if request.redact]
            marked = [
                (s.text, s.starts, s.ends, [*self._literal(s), *requests[i].given])
                for i, s in ((i, sentences[i]) for i in redacted)
            ]
            for i, union in zip(redacted, self._stabiliser.find_all(marked), strict=True):
                unions[i] = union
        reads_all = bool(_needs(self._nonmasking))
        read = [i for i, request in enumerate(requests) if request.redact or reads_all]
        with self._annotated([requests[i] for i in read], self._readers) as docs:
            for i, doc in zip(read, docs, strict=True):
                sentences[i] = requests[i].sentence(doc)
            _prepare(self._readers, [sentences[i] for i in read])
            return [
                self._judge_one(sentence, request, union)
                for sentence, request, union in zip(sentences, requests, unions, strict=True)
            ]

    def _literal(self, sentence: Sentence) -> list[Span]:
        return self._kept(literal_mask_spans(sentence), sentence)

    def _find_in(self, policies: Mapping[str, Policy], readings: Sequence[Tokens]) -> list[list[Span] | str]:
        """Returns the finds of some policies in each text, or the name of the policy that failed on it."""
        requests = [Request(*reading) for reading in readings]
        with self._annotated(requests, policies.values()) as docs:
            sentences = [request.sentence(doc) for request, doc in zip(requests, docs, strict=True)]
            _prepare(policies.values(), sentences)
            unions = []
            for reading, sentence in zip(readings, sentences, strict=True):
                found = self._finds.get(reading, {})
                unions.append(self._find_union(policies, sentence, found))
                if any(found.values()):
                    self._finds[reading] = found
            return unions

    def _find_union(
        self, policies: Mapping[str, Policy], sentence: Sentence, found: dict[str, list[Span]]
    ) -> list[Span] | str:
        """Returns the finds of policies, or the name of the policy that failed.

        Args:
            policies: policies by name.
            sentence: text to read.
            found: finds that are known, by policy. Those of the other policies are added.
        """
        spans: list[Span] = []
        for name, policy in policies.items():
            if name not in found:
                finds = _find(policy, sentence)
                if finds is None:
                    return name
                found[name] = self._kept(finds, sentence) if finds else finds
            spans += found[name]
        more = complete(self._completing, sentence, spans)
        return more if isinstance(more, str) else [*spans, *self._kept(more, sentence)]

    @contextmanager
    def _annotated(self, requests: Sequence[Request], policies: Collection[Policy]) -> Iterator[Sequence[Doc | None]]:
        """Yields one Doc per request with the annotation that these policies read.

        A Doc is None if no policy needs one, or if spaCy failed on the request.
        """
        if self._annotator is None or not _needs(policies):
            yield [None] * len(requests)
            return
        self._annotator.remember(request.text for request in requests)
        # The memory zone frees the strings of this chunk: memory does not grow with the corpus.
        with self._annotator.nlp.memory_zone():
            try:
                docs: Sequence[Doc | None] = self._annotate(self._annotator, requests, policies)
            except MemoryError:
                raise
            except Exception:  # one request at a time, so that one that spaCy cannot read fails no other row
                docs = [self._annotate_one(self._annotator, request, policies) for request in requests]
            yield docs

    def judge_document(self, requests: Sequence[Request], verdicts: Sequence[Verdict]) -> list[Verdict]:
        """Adds the finds of the policies for whole documents to the verdicts on all sentences of one document.

        Every row of the document is masked if such a policy fails.
        """
        sentences = [request.sentence() for request in requests]
        spans_before = [verdict.spans for verdict in verdicts]
        added: list[list[Span]] = [[] for _ in requests]
        for name, policy in self._document_policies.items():
            try:
                answers = policy.find_in_document(sentences, spans_before)
                for more, spans, sentence in zip(added, answers, sentences, strict=True):
                    more += self._kept(check_spans(spans, sentence.num_tokens), sentence)
            except MemoryError:
                raise
            except (Exception, SystemExit):
                return [
                    replace(verdict, spans=whole(len(request.starts), name), failed_closed=True)
                    for request, verdict in zip(requests, verdicts, strict=True)
                ]
        return [
            verdict
            if verdict.failed_closed or not more or not request.redact
            else replace(verdict, spans=tuple(sorted({*verdict.spans, *more})))
            for request, verdict, more in zip(requests, verdicts, added, strict=True)
        ]

    def _annotate_one(self, annotator: Annotator, request: Request, policies: Collection[Policy]) -> Doc | None:
        try:
            return self._annotate(annotator, [request], policies)[0]
        except MemoryError:
            raise
        except Exception:
            return None

    def _annotate(self, annotator: Annotator, requests: Sequence[Request], policies: Collection[Policy]) -> list[Doc]:
        docs = [make_doc(annotator.nlp, r.text, r.starts, r.ends) for r in requests]
        annotator.annotate(docs, _needs(policies))
        with_wants = _with_wants(policies)
        by_components: dict[frozenset[str], list[Doc]] = {}
        for request, doc in zip(requests, docs, strict=True):
            sentence = request.sentence(doc)
            wanted = frozenset().union(*(policy.wants(sentence) for policy in with_wants))
            if wanted:
                by_components.setdefault(wanted, []).append(doc)
        for wanted, group in sorted(by_components.items(), key=lambda item: sorted(item[0])):
            annotator.annotate(group, wanted)
        return docs

    def _kept(self, spans: Iterable[Span], sentence: Sentence) -> list[Span]:
        kept = self._exclusions.kept(spans, sentence)
        return kept if self._separator is None else without_separator(kept, sentence, self._separator)

    def _judge_one(self, sentence: Sentence, request: Request, union: Collection[Span] | str | None) -> Verdict:
        """Returns the verdict on one row.

        Args:
            sentence: row to judge.
            request: the same row, with the spans that are given.
            union: finds of the stabiliser, or the name of the policy that failed. None if policies read the original.
        """
        num_tokens = sentence.num_tokens
        spans: Iterable[Span] = ()
        failed = False
        if request.redact:
            union = self._find_union(self._policies, sentence, {}) if union is None else union
            union = next((span.policy for span in request.given if span.label == FAILED_LABEL), union)
            failed = isinstance(union, str)
            spans = (
                whole(num_tokens, union)
                if isinstance(union, str)
                else {*union, *self._literal(sentence), *request.given}
            )
        flagged, conservative_failed = True, False
        if self._conservative is not None:
            reasons = _find(self._conservative, sentence)
            flagged, conservative_failed = reasons is None or bool(reasons), reasons is None
        return Verdict(
            tuple(sorted(spans)),
            failed,
            flagged,
            conservative_failed,
            tuple((name, coverage(_find(policy, sentence), num_tokens)) for name, policy in self._observed.items()),
        )


def _needs(policies: Iterable[Policy]) -> frozenset[str]:
    return frozenset().union(*(policy.needs for policy in policies))


def _prepare(policies: Iterable[Policy], sentences: Sequence[Sentence]) -> None:
    """Shows sentences to the policies that read several at once. A failure here recurs later, on its row alone."""
    for policy in policies:
        if hasattr(policy, "prepare"):
            with suppress(Exception):
                policy.prepare(sentences)


def _with_wants(policies: Iterable[Policy]) -> list[Any]:
    return [policy for policy in policies if hasattr(policy, "wants")]


def _reads_context(policy: Policy) -> bool:
    """Returns true if a policy's finds depend on the words around them, so that patterns should run before it."""
    spec = getattr(policy, "spec", None)
    return bool(policy.needs or getattr(policy, "reads_context", False) or getattr(spec, "reads_context", False))


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Pauses the garbage collector, because a chunk makes very many objects and no cycles.

    Else it would look at all objects of the model again and again, which takes up to a third of the time on chats.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _find(policy: Policy, sentence: Sentence) -> list[Span] | None:
    """Returns a policy's checked spans, or None if it or its Doc failed. Drops the error, which may quote the text."""
    if policy.needs and sentence.doc is None:
        return None
    try:
        return check_spans(policy.find(sentence), sentence.num_tokens)
    except MemoryError:
        raise
    except (Exception, SystemExit):  # some libraries exit on unusual text
        return None
