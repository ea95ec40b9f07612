"""A policy for tokens with digits: the secrets of WikiText-2 in Confidentially Redacted Training, section 4."""

from __future__ import annotations

from pipelines.policies.protocol import NamedPolicy, Sentence, Span


class DigitsPolicy(NamedPolicy):
    """Masks every token with a character that is a digit in Unicode, including superscripts."""

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns one span per token with a digit."""
        return [
            Span(i, i + 1, "DIGITS", self._name)
            for i, token in enumerate(sentence.tokens())
            if any(c.isdigit() for c in token)
        ]
