"""A policy for the caller's regular expressions, ``redact.patterns = {LABEL = "..."}``."""

from __future__ import annotations

from pipelines.errors import ConfigError
from pipelines.policies.detectors.patterns import compile_patterns
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import NamedPolicy, Sentence, Span


class RegexPolicy(NamedPolicy):
    """Masks every token that a match touches.

    A pattern that takes longer than ``redact.pattern_seconds`` on one sentence fails, so the row is masked whole.
    """

    def __init__(self, options: PolicyOptions) -> None:
        super().__init__(options)
        self._seconds = options.pattern_seconds
        try:
            self._patterns = compile_patterns(options.patterns)
        except ValueError as error:
            raise ConfigError(f"redact.patterns: {error}") from None

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns all matches of all patterns.

        Raises:
            TimeoutError: a pattern took too long.
        """
        finds = (
            (*match.span(), label)
            for label, pattern in self._patterns.items()
            for match in pattern.finditer(sentence.text, timeout=self._seconds)
        )
        return sentence.spans(finds, self._name)
