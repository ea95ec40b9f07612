"""Masks rows whole if a policy fails on them, and asks the policies that are told the names of speakers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipelines.policies.protocol import Sentence, Span, SpeakerPolicy, check_spans
from pipelines.policies.redact import token_mask

FAILED_LABEL: Final = "FAILED_CLOSED"


def whole(num_tokens: int, policy: str) -> tuple[Span, ...]:
    """Returns the span over a whole row on which a policy failed."""
    return (Span(0, num_tokens, FAILED_LABEL, policy),) if num_tokens else ()


def find_names(
    policies: Mapping[str, SpeakerPolicy], sentences: Sequence[Sentence], names: Sequence[str]
) -> Sequence[Sequence[Span]]:
    """Returns the finds of policies in the sentences of one document. If one fails, every sentence is masked whole.

    Args:
        policies: policies that are told names, by name.
        sentences: sentences of the document.
        names: names of its speakers. Without names there are no finds.

    Raises:
        MemoryError: memory ran out.
    """
    found: list[list[Span]] = [[] for _ in sentences]
    for name, policy in policies.items() if names else ():
        try:
            answers = policy.find_names(sentences, names)
            for more, spans, sentence in zip(found, answers, sentences, strict=True):
                more += check_spans(spans, sentence.num_tokens)
        except MemoryError:
            raise
        except (Exception, SystemExit):
            return [whole(sentence.num_tokens, name) for sentence in sentences]
    return found


def complete(policies: Mapping[str, Any], sentence: Sentence, finds: Sequence[Span]) -> list[Span] | str:
    """Returns what policies, which all have a method ``complete``, add to finds. Or the name of the one that failed.

    Raises:
        MemoryError: memory ran out.
    """
    more: list[Span] = []
    for name, policy in policies.items() if finds else ():
        try:
            more += check_spans(policy.complete(sentence, finds), sentence.num_tokens)
        except MemoryError:
            raise
        except (Exception, SystemExit):
            return name
    return more


def coverage(finds: Sequence[Span] | None, num_tokens: int) -> int:
    """Returns the number of tokens that a policy would mask. A policy that failed counts all tokens."""
    return num_tokens if finds is None else sum(token_mask(num_tokens, finds))
