"""Runs policies over many sentences: over every distinct sentence once, in this process or in several.

Each worker process has its own model and returns integer offsets. The parent keeps the order, so the results are the
same for any number of workers.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from pipelines.errors import ConfigError, StageError
from pipelines.policies import registry
from pipelines.policies.judging.by_language import LanguageJudge
from pipelines.policies.judging.judge import Exclusions, Judge, Request, Verdict
from pipelines.policies.judging.stabilise import digest_of
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Policy, check_offsets
from pipelines.processes import die_with_parent, worker_pool

CHUNK_SENTENCES: Final = 1_024
CHUNK_TOKENS: Final = 16_384
"""A chunk has fewer sentences if they are long: annotated tokens take most of the memory, and token vectors are
remembered from the first reading of a chunk to the last (`pipelines.thinc_layers.MAX_ROWS`)."""

WORKER_CHUNK_TOKENS: Final = 4_096
"""So few that no worker waits long for another at the end. Smaller chunks take longer per token."""

_SMALLEST_CHUNK: Final = 1_024
_CHUNKS_PER_WORKER: Final = 4

MAX_REMEMBERED: Final = 500_000
_MANY_LANGUAGES: Final = "xx"
"""spaCy's code for models of many languages."""

_PRELOAD: Final = ["spacy", "pipelines.policies.judging.judge"]


@dataclass(frozen=True, kw_only=True)
class RedactorSpec:
    """The arguments of a redactor, from which a worker process makes its own.

    Attributes:
        policies, conservative, observed: names of policies, as in the settings.
        options: options of all policies.
        own: options of single policies, by policy name (`PolicyOptions.own`).
        exclude, exclude_labels: arguments of `Exclusions`.
        separator, stabilise, reads_original: arguments of `Judge`.
        models: spaCy model of each further language, if each document is judged in its language. None if all text
            counts as in one language.
    """

    policies: tuple[str, ...]
    conservative: str | None = None
    observed: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    exclude_labels: tuple[str, ...] = ()
    separator: str | None = None
    stabilise: bool = False
    reads_original: bool = False
    models: Mapping[str, str] | None = None

    @property
    def language(self) -> str:
        """The language of the text, or the main one of several."""
        return str(self.options.get("language", PolicyOptions.model_fields["language"].default))

    def make(self) -> Judge | LanguageJudge:
        """Makes the policies and loads the model; those of further languages when their first document comes.

        Raises:
            ConfigError: a policy or the model cannot be loaded, or the model is for another language.
        """
        model = self.options.get("model", PolicyOptions.model_fields["model"].default)
        if self.models is None:
            return self._make(self.language, model)
        models = {self.language: model, **self.models}
        return LanguageJudge(models, lambda language: self._make(language, models[language]))

    def check(self) -> None:
        """Makes the policies and loads the models of all languages. Raises the errors of `make`."""
        judge = self.make()
        if isinstance(judge, LanguageJudge):
            judge.make_all()

    def _make(self, language: str, model: str) -> Judge:
        options = {**self.options, "language": language, "model": model}

        def make_policy(name: str, setting: str) -> Policy:
            return registry.make_policy(PolicyOptions(name=name, own=self.own.get(name), **options), setting)

        judge = Judge(
            {name: make_policy(name, "redact.policies") for name in self.policies},
            make_policy(self.conservative, "redact.conservative") if self.conservative is not None else None,
            model,
            observed={name: make_policy(name, "redact.also_levels") for name in self.observed},
            exclusions=Exclusions(self.exclude, self.exclude_labels),
            separator=self.separator,
            stabilise=self.stabilise,
            reads_original=self.reads_original,
        )
        if judge.language not in (None, language, _MANY_LANGUAGES):
            raise ConfigError(
                f"redact.model: '{model}' is for '{judge.language}', but redact.language is '{language}'; name a model "
                "for that language"
            )
        return judge


_judge: Judge | LanguageJudge | None = None
"""The judge of a worker process."""


def _start_worker(spec: RedactorSpec) -> None:
    global _judge
    die_with_parent()
    _judge = spec.make()
    gc.freeze()  # the collector never looks at the model again


def _judge_in_worker(requests: list[Request]) -> list[Verdict]:
    assert _judge is not None  # noqa: S101 - the initialiser has made it
    return _judge.judge(requests)


class Redactor:
    """Judges any number of sentences, and each distinct sentence once.

    Use it as a context manager if there are worker processes.

    Args:
        judge: judge of this process. It always judges whole documents.
        spec: arguments from which worker processes make their own judges. Required for more than one worker.
        workers: number of processes that judge. With 1, this process judges.
    """

    def __init__(self, judge: Judge | LanguageJudge, spec: RedactorSpec | None = None, workers: int = 1) -> None:
        self._judge = judge
        self._seen: dict[bytes, Verdict] = {}
        self._pool: ProcessPoolExecutor | None = None
        if workers > 1:
            if spec is None:
                raise ValueError("several workers need a spec")
            self._pool = worker_pool(workers, _PRELOAD, _start_worker, (spec,))
        self._workers = workers

    @classmethod
    def from_spec(cls, spec: RedactorSpec, workers: int = 1) -> Redactor:
        """Makes a redactor with policies by name. Raises the errors of `RedactorSpec.make`."""
        return cls(spec.make(), spec, workers)

    @property
    def looks_at_documents(self) -> bool:
        """True if `judge` needs whole documents."""
        return self._judge.looks_at_documents

    @property
    def carries_finds(self) -> bool:
        """True if finds in a row may mask text in other rows."""
        return self._judge.carries_finds

    @property
    def reads_speakers(self) -> bool:
        """True if `judge` needs the names of speakers (`Request.names`)."""
        return self._judge.reads_speakers

    def judge(self, requests: Sequence[Request], documents: Sequence[str] | None = None) -> list[Verdict]:
        """Returns one verdict per request, in order.

        Args:
            requests: rows to judge.
            documents: document of each row. The rows of one document are adjacent, and one call gets all of them. With
                None, every row is its own document.

        Raises:
            ValueError: a request's token offsets do not fit its text (see `protocol.check_offsets`).
            StageError: a worker process died.
            MemoryError: memory ran out. This never counts as a failed policy, because a rerun would give other bytes.
        """
        numbers = documents if documents is not None else list(map(str, range(len(requests))))
        requests = self._judge.with_names(requests)
        if isinstance(self._judge, LanguageJudge):
            requests = self._judge.with_languages(requests, numbers)
        verdicts = self._judge_rows(requests)
        if not self.looks_at_documents:
            return verdicts
        whole: list[Verdict] = []
        for _, group in groupby(range(len(requests)), key=numbers.__getitem__):
            rows = list(group)
            whole += self._judge.judge_document([requests[i] for i in rows], [verdicts[i] for i in rows])
        return whole

    def _judge_rows(self, requests: Sequence[Request]) -> list[Verdict]:
        verdicts: dict[bytes, Verdict] = {}
        todo: dict[bytes, Request] = {}
        keys = [_identity(request) for request in requests]
        for key, request in zip(keys, requests, strict=True):
            known = self._seen.get(key)
            if known is not None:
                verdicts[key] = known
            elif key not in todo:
                check_offsets(request.text, request.starts, request.ends)
                todo[key] = request
        chunks = list(_chunks(todo.items(), self._chunk_tokens(todo.values())))
        for chunk, judged in zip(chunks, self._judge_chunks(chunks), strict=True):
            for (key, _), verdict in zip(chunk, judged, strict=True):
                verdicts[key] = verdict
                if len(self._seen) < MAX_REMEMBERED:
                    self._seen[key] = verdict
        return [verdicts[key] for key in keys]

    def _chunk_tokens(self, requests: Iterable[Request]) -> int:
        """Returns the largest number of tokens of a chunk. A call with little text has some chunks for each worker."""
        if self._pool is None:
            return CHUNK_TOKENS
        share = sum(len(request.starts) for request in requests) // (_CHUNKS_PER_WORKER * self._workers)
        return min(max(share, _SMALLEST_CHUNK), WORKER_CHUNK_TOKENS)

    def _judge_chunks(self, chunks: Iterable[list[tuple[bytes, Request]]]) -> Iterator[list[Verdict]]:
        if self._pool is None:
            for chunk in chunks:
                yield self._judge.judge([request for _, request in chunk])
            return
        try:
            pending: list[Future[list[Verdict]]] = []
            for chunk in chunks:
                if len(pending) >= 2 * self._workers:
                    yield pending.pop(0).result()
                pending.append(self._pool.submit(_judge_in_worker, [request for _, request in chunk]))
            for future in pending:
                yield future.result()
        except BrokenProcessPool:
            raise StageError("a worker process died; it may have run out of memory: use fewer workers") from None

    def __enter__(self) -> Redactor:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def _chunks(pending: Iterable[tuple[bytes, Request]], max_tokens: int) -> Iterator[list[tuple[bytes, Request]]]:
    """Yields requests in order, in chunks of bounded numbers of sentences and tokens.

    A single request with too many tokens is a chunk of its own.
    """
    chunk: list[tuple[bytes, Request]] = []
    num_tokens = 0
    for key, request in pending:
        num_tokens += len(request.starts)
        if chunk and (len(chunk) == CHUNK_SENTENCES or num_tokens > max_tokens):
            yield chunk
            chunk, num_tokens = [], len(request.starts)
        chunk.append((key, request))
    if chunk:
        yield chunk


def _identity(request: Request) -> bytes:
    """Returns bytes that identify all that a verdict depends on: text, offsets, ``redact``, given spans, languages."""
    given = repr(request.given).encode() if request.given else b""
    languages = repr(request.languages).encode() if request.languages is not None else b""
    return digest_of((request.text, request.starts, request.ends), request.redact) + given + languages
