"""A policy for lists of keywords by domain (Domain Private Transformers, section 5.1): ``redact.keywords``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pipelines.errors import ConfigError
from pipelines.policies.detectors.phrases import PhraseTable, pieces
from pipelines.policies.options import LABEL_PATTERN, PolicyOptions
from pipelines.policies.protocol import NamedPolicy, Sentence, Span

MAX_WORDS: Final = 3


def label_of(domain: str) -> str:
    """Returns the label of a domain's keywords: ``AIRLINE`` for ``airline``."""
    return re.sub(r"[^A-Z0-9]+", "_", domain.upper()).strip("_")


def check_keywords(keywords: Mapping[str, Sequence[str]]) -> None:
    """Checks the lists without making the policy.

    Raises:
        ValueError: a domain has no usable name or no keywords, or a keyword has no word or more than three words.
    """
    for domain, listed in keywords.items():
        if LABEL_PATTERN.fullmatch(label_of(domain)) is None:
            raise ValueError(f"domain '{domain}' needs a name that begins with a letter")
        if not listed:
            raise ValueError(f"domain '{domain}' has no keywords")
        for number, keyword in enumerate(listed, 1):
            if not 1 <= len(pieces(keyword)) <= MAX_WORDS:
                raise ValueError(f"keyword {number} of domain '{domain}' must have 1 to {MAX_WORDS} words")


class KeywordsPolicy(NamedPolicy):
    """Masks every listed 1- to 3-gram of every domain. The domain is the label, so coverage is known by domain."""

    def __init__(self, options: PolicyOptions) -> None:
        super().__init__(options)
        try:
            check_keywords(options.keywords)
        except ValueError as error:
            raise ConfigError(f"redact.keywords: {error}") from None
        if not options.keywords:
            raise ConfigError("policy 'keywords' needs lists: set redact.keywords = {DOMAIN = [...]}")
        # One table per domain, so that a word of two domains counts for both.
        self._tables = [
            PhraseTable((keyword, label_of(domain)) for keyword in listed)
            for domain, listed in sorted(options.keywords.items())
        ]

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns all listed keywords."""
        return [span for table in self._tables for span in sentence.spans(table.find(sentence.text), self._name)]
