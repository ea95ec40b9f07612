"""Runs policies over many sentences: every distinct sentence once, in this process or in several.

Worker processes own a model each and return integer offsets; the parent keeps order, so the answer is the same for any
number of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from pipelines.errors import ConfigError, StageError
from pipelines.policies import registry
from pipelines.policies.judging.judge import Exclusions, Judge, Request, Verdict
from pipelines.policies.judging.stabilise import digest_of
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Policy, check_offsets
from pipelines.processes import die_with_parent, worker_pool

CHUNK_SENTENCES: Final = 1_024
WORKER_CHUNK_SENTENCES: Final = 128
"""Small, so that no worker waits long for another at the end."""

_TOKENS_PER_SENTENCE: Final = 64
"""Sentences longer than this on average make a chunk of fewer, since annotated tokens are what takes memory."""

MAX_REMEMBERED: Final = 500_000
_MANY_LANGUAGES: Final = "xx"
"""spaCy's code for models that are for no single language."""

_PRELOAD: Final = ["spacy", "pipelines.policies.judging.judge"]


@dataclass(frozen=True, kw_only=True)
class RedactorSpec:
    """Everything that a redactor is made from, so that a worker process can make its own.

    Attributes:
        policies, conservative, observed: names, as in the settings.
        options: what all policies are told.
        own: what single ones are told besides, by their name (`PolicyOptions.own`).
        exclude, exclude_labels: as `Exclusions`.
        separator, stabilise: as `Judge`.
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

    def make(self) -> Judge:
        """Makes the policies and loads the model.

        Raises:
            ConfigError: a policy or the model cannot be loaded, or the model is for another language; before any work.
        """

        def made(name: str, setting: str) -> Policy:
            return registry.make_policy(PolicyOptions(name=name, own=self.own.get(name), **self.options), setting)

        model = self.options.get("model", PolicyOptions.model_fields["model"].default)
        language = self.options.get("language", PolicyOptions.model_fields["language"].default)
        judge = Judge(
            {name: made(name, "redact.policies") for name in self.policies},
            made(self.conservative, "redact.conservative") if self.conservative is not None else None,
            model,
            observed={name: made(name, "redact.also_levels") for name in self.observed},
            exclusions=Exclusions(self.exclude, self.exclude_labels),
            separator=self.separator,
            stabilise=self.stabilise,
        )
        if judge.language not in (None, language, _MANY_LANGUAGES):
            raise ConfigError(
                f"redact.model: '{model}' is for '{judge.language}', but redact.language is '{language}'; name a model "
                "for that language"
            )
        return judge


_judge: Judge | None = None
"""The judge of a worker process."""


def _start_worker(spec: RedactorSpec) -> None:
    global _judge
    die_with_parent()
    _judge = spec.make()


def _judge_in_worker(requests: list[Request]) -> list[Verdict]:
    assert _judge is not None  # noqa: S101 - the initialiser has made it
    return _judge.judge(requests)


class Redactor:
    """Judges any number of sentences; what it saw before it does not judge again.

    Args:
        judge: judges in this process, and documents always.
        spec: what worker processes make their own judge from; needed for more than one.
        workers: processes that judge; with 1, this one does.

    Use as a context manager where there are worker processes.
    """

    def __init__(self, judge: Judge, spec: RedactorSpec | None = None, workers: int = 1) -> None:
        self._judge = judge
        self._seen: dict[bytes, Verdict] = {}
        self._pool: ProcessPoolExecutor | None = None
        if workers > 1:
            if spec is None:
                raise ValueError("several workers need a spec")
            self._pool = worker_pool(workers, _PRELOAD, _start_worker, (spec,))
        self._in_flight = 2 * workers

    @classmethod
    def from_spec(cls, spec: RedactorSpec, workers: int = 1) -> Redactor:
        """A redactor with policies by name. Raises as `RedactorSpec.make`."""
        return cls(spec.make(), spec, workers)

    @property
    def looks_at_documents(self) -> bool:
        """Whether `judge` has to be given whole documents."""
        return self._judge.looks_at_documents

    def judge(self, requests: Sequence[Request], documents: Sequence[str] | None = None) -> list[Verdict]:
        """One verdict a request, in order.

        Args:
            requests: the rows.
            documents: the document that each row is part of. Rows of one document stand together, and all of them are
                given in one call. None: every row is a document of its own.

        Raises:
            ValueError: a request's token offsets do not fit its text (see `protocol.check_offsets`).
            StageError: a worker process died.
            MemoryError: never taken for a failing policy, since a rerun would then give other bytes.
        """
        verdicts = self._judge_rows(requests)
        if not self.looks_at_documents:
            return verdicts
        numbers = documents if documents is not None else list(map(str, range(len(requests))))
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
        chunks = list(_chunks(todo.items(), CHUNK_SENTENCES if self._pool is None else WORKER_CHUNK_SENTENCES))
        for chunk, judged in zip(chunks, self._judge_chunks(chunks), strict=True):
            for (key, _), verdict in zip(chunk, judged, strict=True):
                verdicts[key] = verdict
                if len(self._seen) < MAX_REMEMBERED:
                    self._seen[key] = verdict
        return [verdicts[key] for key in keys]

    def _judge_chunks(self, chunks: Iterable[list[tuple[bytes, Request]]]) -> Iterator[list[Verdict]]:
        if self._pool is None:
            for chunk in chunks:
                yield self._judge.judge([request for _, request in chunk])
            return
        try:
            waiting: list[Future[list[Verdict]]] = []
            for chunk in chunks:
                if len(waiting) >= self._in_flight:
                    yield waiting.pop(0).result()
                waiting.append(self._pool.submit(_judge_in_worker, [request for _, request in chunk]))
            for future in waiting:
                yield future.result()
        except BrokenProcessPool:
            raise StageError("a worker process died; it may have run out of memory: use fewer workers") from None

    def __enter__(self) -> Redactor:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def _chunks(pending: Iterable[tuple[bytes, Request]], max_sentences: int) -> Iterator[list[tuple[bytes, Request]]]:
    """Requests in order, in chunks of bounded numbers of sentences and, but for a single one, of tokens."""
    chunk: list[tuple[bytes, Request]] = []
    num_tokens = 0
    for key, request in pending:
        num_tokens += len(request.starts)
        if chunk and (len(chunk) == max_sentences or num_tokens > max_sentences * _TOKENS_PER_SENTENCE):
            yield chunk
            chunk, num_tokens = [], len(request.starts)
        chunk.append((key, request))
    if chunk:
        yield chunk


def _identity(request: Request) -> bytes:
    """What a verdict depends on, as 16 bytes: text, offsets, and what is asked."""
    return digest_of((request.text, request.starts, request.ends), request.redact)
