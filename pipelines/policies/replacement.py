"""Writers of the text that stands in the place of masked tokens: labels, or surrogates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pipelines.context import derived_key
from pipelines.mask import Replacement
from pipelines.policies import registry
from pipelines.policies.labels import ReviewLabels
from pipelines.policies.linked_surrogates import LinkedSurrogates
from pipelines.policies.protocol import Span
from pipelines.policies.surrogates import Replace, Replaced, Surrogates, typed_text

Note = Callable[[Mapping[str, Any], Sequence[Replaced]], None]


def make_surrogates(key: bytes, names: ReviewLabels, scope: str, linking: Mapping[str, Any] | None) -> Surrogates:
    """Makes the writer of surrogates that settings ask for (`replacement_writer`)."""
    return Surrogates(key, names, scope) if linking is None else LinkedSurrogates(key, names, scope, **linking)


def replacement_writer(
    replacement: Replacement,
    scope: Literal["document", "corpus"],
    policies: Sequence[str],
    secret: bytes,
    note: Note | None = None,
    linking: Mapping[str, Any] | None = None,
) -> Replace | None:
    """Returns the function that writes the redacted text of a row without masks; None if the text has masks.

    Labels are those of reviews by default: what ``[estimate]`` says of labels changes no text.

    Args:
        replacement: kind of text in the place of masked tokens (``redact.replacement``).
        scope: text in which a secret keeps its surrogate (``redact.surrogate_scope``).
        policies: names of the policies that mask.
        secret: secret of the store, from which surrogates are drawn.
        note: function that receives each row and the surrogates in its text.
        linking: arguments of `LinkedSurrogates` about persons and dates; None if every mention has its own surrogate.
    """
    if replacement == "mask":
        return None
    names = registry.review_labels(policies)
    if replacement == "label":
        return lambda row, spans: typed_text(row["text"], row["token_starts"], row["token_ends"], spans, names)
    maker = make_surrogates(derived_key(secret, "surrogates"), names, scope, linking)

    def replace(row: Mapping[str, Any], spans: Sequence[Span]) -> str:
        text, replaced = maker.text(row["doc_id"], row["text"], row["token_starts"], row["token_ends"], spans)
        if note is not None:
            note(row, replaced)
        return text

    return replace
