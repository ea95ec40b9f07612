"""Judges each document with the model of its language, and masks documents in a language without a model whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from pipelines.language import find_model
from pipelines.policies.judging.document_language import languages_in
from pipelines.policies.judging.failing import whole
from pipelines.policies.judging.judge import Judge, Request, Verdict

NO_MODEL: Final = "no_model"
"""Name of the policy in the spans of documents in a language without a model."""


class LanguageJudge:
    """Judges rows as `Judge` does, each by the judges of its document's languages.

    Args:
        models: spaCy model by language code, that of the main language first.
        make: function that makes the judge of a language. It is called when the first document of the language comes.

    Raises:
        ConfigError: a model is not installed, or the main judge cannot be made.
    """

    def __init__(self, models: Mapping[str, str], make: Callable[[str], Judge]) -> None:
        for model in models.values():
            find_model(model)
        self._known = tuple(models)
        self._make = make
        self._judges = {self._known[0]: make(self._known[0])}

    @property
    def looks_at_documents(self) -> bool:
        """True, because the language of a document needs all of its rows."""
        return True

    @property
    def carries_finds(self) -> bool:
        """True if a policy reads whole documents."""
        return self._main.carries_finds

    @property
    def _main(self) -> Judge:
        return self._judges[self._known[0]]

    @property
    def reads_speakers(self) -> bool:
        """True if a policy is told the names of speakers."""
        return self._main.reads_speakers

    def make_all(self) -> None:
        """Makes the judges of all languages. Raises ConfigError if a policy or a model cannot be used."""
        for language in self._known:
            self._of(language)

    def _of(self, language: str) -> Judge:
        if language not in self._judges:
            self._judges[language] = self._make(language)
        return self._judges[language]

    def with_languages(self, requests: Sequence[Request], documents: Sequence[str]) -> list[Request]:
        """Returns the requests with the languages of their documents. The rows of a document are adjacent."""
        found: list[Request] = []
        for _, group in groupby(range(len(requests)), key=documents.__getitem__):
            rows = [requests[i] for i in group]
            languages = languages_in("\n".join(row.text for row in rows), self._known)
            found += [row._replace(languages=languages) for row in rows]
        return found

    def with_names(self, requests: Sequence[Request]) -> list[Request]:
        """Returns the requests with the finds of the policies that are told the names of speakers."""
        return self._main.with_names(requests)

    def judge(self, requests: Sequence[Request]) -> list[Verdict]:
        """Returns one verdict per request, in order: the union over the languages of its document."""
        verdicts: list[Verdict | None] = [None] * len(requests)
        for language in self._known:
            rows = [
                i for i, request in enumerate(requests) if request.languages and language in request.languages.known
            ]
            if not rows:
                continue
            for i, verdict in zip(rows, self._of(language).judge([requests[i] for i in rows]), strict=True):
                before = verdicts[i]
                verdicts[i] = verdict if before is None else _union(before, verdict)
        return [
            self._without_model(request) if verdict is None else verdict
            for request, verdict in zip(requests, verdicts, strict=True)
        ]

    def _without_model(self, request: Request) -> Verdict:
        num_tokens = len(request.starts)
        spans = whole(num_tokens, NO_MODEL) if request.redact else ()
        observed = tuple((name, num_tokens) for name in self._main.observed)
        other = request.languages.other if request.languages is not None else None
        return Verdict(spans, request.redact, True, False, observed, other_language=other or "unknown")

    def judge_document(self, requests: Sequence[Request], verdicts: Sequence[Verdict]) -> list[Verdict]:
        """Adds the finds of the policies for whole documents, which read no language."""
        return self._main.judge_document(requests, verdicts)


def _union(one: Verdict, other: Verdict) -> Verdict:
    failed = one.failed_closed or other.failed_closed
    spans = next((v.spans for v in (one, other) if v.failed_closed), tuple(sorted({*one.spans, *other.spans})))
    return replace(
        one,
        spans=spans,
        failed_closed=failed,
        flagged=one.flagged or other.flagged,
        conservative_failed=one.conservative_failed or other.conservative_failed,
        observed=tuple((n, max(a, b)) for (n, a), (_, b) in zip(one.observed, other.observed, strict=True)),
    )
