"""Claims of every method, issued and refused, as the public report states them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from flows.own_words.cases import Case, cases
from pipelines.accounting.claim_documents import withheld
from pipelines.accounting.claims import build_claims
from pipelines.gate.files import json_units
from pipelines.gate.own import HOLE
from pipelines.report.claims import can_be_claimed, cannot_be_claimed, not_together, numbers_of
from pipelines.report.figures import Sources, build
from pipelines.report.public import public_version

_GROUPS: Final = (2, 10, 100_000)
"""The last is so large that nothing can be said of it."""


def texts() -> Iterator[str]:
    """What the public report says of the claims of all cases."""
    full = build(Sources(), title=HOLE)
    for case in cases():
        for document in documents(case):
            for warnings in {(), case.training.notes[-1:]}:
                public = public_version({**full, "warnings": warnings}, document)
                yield from (unit.text for part in ("claims", "accountants") for unit in json_units(public[part]))
                yield from _sentences(public["claims"])


def documents(case: Case) -> Iterator[dict[str, Any]]:
    """What the guarantee stage may write of a case for the public."""
    found = build_claims(case.training, case.corpus, case.review, _GROUPS, case.publication, case.others)
    yield found
    if case.training.is_noise_from_private_text:
        yield withheld(found)


def _sentences(claims: list[dict[str, Any]]) -> Iterator[str]:
    """What the page makes of the claims: of all together, and of each as if it were the one to be shown first."""
    yield from (can_be_claimed(claims), cannot_be_claimed(claims))
    for claim in claims:
        first = [{**claim, "is_headline": True}]
        yield from (can_be_claimed(first), cannot_be_claimed(first), "; ".join(claim["beside"]))
        if claim["status"] != "refused":
            yield from (numbers_of(claim), not_together(claim) or "")
