"""The caller's own regular expressions, ``redact.patterns = {LABEL = "..."}``."""

from __future__ import annotations

from typing import ClassVar

from pipelines.errors import ConfigError
from pipelines.policies.detectors.patterns import compile_patterns
from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence, Span


class RegexPolicy:
    """Masks every token that a match touches.

    A pattern that takes longer than ``redact.pattern_seconds`` on one sentence has failed on it, so its row is masked.
    """

    needs: ClassVar[frozenset[str]] = SPECS["regex"].components

    def __init__(self, options: PolicyOptions) -> None:
        self._name = options.name
        self._seconds = options.pattern_seconds
        try:
            self._patterns = compile_patterns(options.patterns)
        except ValueError as error:
            raise ConfigError(f"redact.patterns: {error}") from None

    def find(self, sentence: Sentence) -> list[Span]:
        """All matches of all patterns.

        Raises:
            TimeoutError: a pattern took too long.
        """
        found = (
            (match.start(), match.end(), label)
            for label, pattern in self._patterns.items()
            for match in pattern.finditer(sentence.text, timeout=self._seconds)
        )
        return sentence.spans(found, self._name)
