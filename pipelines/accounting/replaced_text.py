"""Assumptions of claims if masks reveal something about a secret, or labels or surrogates replace them.

The world that a claim compares with has a mask in place of a secret. A label shows the kind of the secret, and a
surrogate is drawn from it, so a masked secret costs as much as a missed one. The text of a row depends on the row, the
key and the document's name, so one changed sentence still changes one record. A policy that reads whole documents is an
exception: it may give masked text in other sentences another label.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pipelines.accounting.facts import CorpusFacts

_STANDS: Final[Mapping[str, str]] = {
    "label": "redact.replacement is label: the kind of a secret is written in its place",
    "surrogate": "redact.replacement is surrogate: a text that is drawn from a secret is written in its place",
}
_OTHER_LABELS: Final = (
    "redact.replacement is {}, and these policies may look at whole documents: {}. With a secret masked by hand they "
    "may give what is masked in other sentences another label, so one secret may change the text of several records; "
    "leave them out of redact.policies, or set redact.replacement = 'mask'"
)
_SHOWS_LENGTHS: Final = (
    "redact.collapse is false: the number of masks shows how many tokens a secret has, so redaction gives no credit; "
    "set redact.collapse = true"
)
_OTHER_MASKS: Final = "what was trained on is not this redaction's output, so redaction gives no credit"
UNLIKE: Final = (
    "redact.replacement writes labels or surrogates, which differ from secret to secret: what is read without noise is "
    "not the same in both worlds; set redact.replacement = 'mask'"
)
"""Refusal for methods that read such text without noise."""


def about_replaced(corpus: CorpusFacts) -> str | None:
    """Returns the assumption about the cost of a masked secret; None if masks are written."""
    if corpus.replacement == "mask":
        return None
    return (
        f"{_STANDS[corpus.replacement]}. The other world has a mask there, so a masked secret costs as much as a "
        "missed one. The written text depends on the sentence and the name of its document, and on no other sentence"
    )


def no_credit(corpus: CorpusFacts) -> str | None:
    """Returns why redaction gives no credit; None if it gives some."""
    if corpus.gives_credit:
        return None
    if not corpus.reads_redacted:
        return _OTHER_MASKS
    if corpus.replacement == "mask":
        return _SHOWS_LENGTHS
    stands = _STANDS[corpus.replacement]
    return f"{stands}. The other world has a mask there, so redaction gives no credit; set redact.replacement = 'mask'"


def relabelling_refusal(corpus: CorpusFacts) -> str | None:
    """Returns why nothing is promised if a secret may change the text of other records; None if it cannot."""
    policies = (*corpus.reads_documents, *corpus.plugins)
    if corpus.replacement == "mask" or not corpus.reads_redacted or not policies:
        return None
    return _OTHER_LABELS.format(corpus.replacement, ", ".join(policies))
