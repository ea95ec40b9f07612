"""Masks every token that holds a digit: the secrets of WikiText-2 in the confidentiality paper, section 4."""

from __future__ import annotations

from typing import ClassVar

from pipelines.policies.detectors.specs import SPECS
from pipelines.policies.protocol import NamedPolicy, Sentence, Span


class DigitsPolicy(NamedPolicy):
    """A token is masked when any of its characters is a digit in Unicode's sense (superscripts included)."""

    needs: ClassVar[frozenset[str]] = SPECS["digits"].components

    def find(self, sentence: Sentence) -> list[Span]:
        """One span a token."""
        return [
            Span(i, i + 1, "DIGITS", self._name)
            for i, token in enumerate(sentence.tokens())
            if any(c.isdigit() for c in token)
        ]
