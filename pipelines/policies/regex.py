"""The caller's own regular expressions, ``redact.patterns = {LABEL = "..."}``."""

from __future__ import annotations

from typing import ClassVar

from pipelines.errors import ConfigError
from pipelines.policies.patterns import compile_patterns
from pipelines.policies.protocol import PolicyOptions, Sentence, Span


class RegexPolicy:
    """Masks every token that a match touches."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, options: PolicyOptions) -> None:
        self._name = options.name
        try:
            self._patterns = compile_patterns(options.patterns)
        except ValueError as error:
            raise ConfigError(f"redact.patterns: {error}") from None

    def find(self, sentence: Sentence) -> list[Span]:
        """All matches of all patterns."""
        found = (
            (match.start(), match.end(), label)
            for label, pattern in self._patterns.items()
            for match in pattern.finditer(sentence.text)
        )
        return sentence.spans(found, self._name)
