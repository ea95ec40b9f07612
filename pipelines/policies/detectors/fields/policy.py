"""The policy ``fields``: masks values whole, by the name of their field, and leaves names and markup open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipelines.policies.detectors.fields.announced import find_announced
from pipelines.policies.detectors.fields.commands import find_in_commands
from pipelines.policies.detectors.fields.scan import Field, find_fields, find_names, find_rows
from pipelines.policies.detectors.fields.values import end_of_header, judge, judge_row
from pipelines.policies.detectors.finds import Find, Range
from pipelines.policies.english.wholes import is_of_wholes
from pipelines.policies.protocol import NamedPolicy, Sentence, Span

_FEW: Final = 2


class FieldsPolicy(NamedPolicy):
    """Masks the values of fields. All finds are by pattern, so every score is 1."""

    def find(self, sentence: Sentence) -> list[Span]:
        """Returns all finds, which may overlap. A version is no date."""
        text = sentence.text
        found = [find for find in find_in_fields(text) if find[2] != "DATE" or not is_of_wholes(text, *find)]
        return sentence.spans(found, self._name)

    def names_in(self, text: str) -> list[Range]:
        """Returns the ranges of known names of fields, with the marks around them."""
        return find_names(text)


def find_in_fields(text: str) -> list[Find]:
    """Returns the values to mask, sorted. They may overlap, but none lies inside another one."""
    kept: list[Find] = []
    for find in sorted(set(_all(text)), key=lambda find: (find[0], -find[1], find[2])):
        if not kept or find[1] > kept[-1][1]:
            kept.append(find)
    return kept


def _all(text: str) -> Iterator[Find]:
    done = 0
    for field in find_fields(text):
        if field.start >= done:
            yield from judge(text, field)
            if "cookie" in field.kinds:
                done = end_of_header(text, field)
    yield from find_announced(text)
    yield from find_in_commands(text)
    if text.count(",") >= _FEW or text.count(";") >= _FEW or "|" in text or "\t" in text or "<t" in text:
        for row in find_rows(text):
            yield from judge(text, row) if isinstance(row, Field) else judge_row(text, row)
