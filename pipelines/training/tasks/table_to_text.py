"""Table-to-text generation: E2E (Novikova et al. 2017) and DART (Nan et al. 2020), as Li et al. (2022) use them.

A row holds a table and one description (``corpus.format = "e2e"`` or ``"dart"``). The table is written out as one line
of ``key : value`` pairs joined by ``|``, which is the form of Li et al.'s table 11, and the model learns to continue it
with the description.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import torch

from pipelines.errors import InputError
from pipelines.training.control import ControlTokens
from pipelines.training.held_out import HeldOut
from pipelines.training.models.vocabulary import TextEncoder
from pipelines.training.row_store import RecordRows
from pipelines.training.tasks.base import LanguageTask, Progress, TaskModel, TaskOptions, is_all_mask, two_texts
from pipelines.training.tasks.examples import Example
from pipelines.training.tasks.prompts import prompt_ids, prompted_example

Table = tuple[tuple[str, str], ...]
"""(key, value) pairs."""

_FIELD: Final = re.compile(r"\s*([^\[\],]+)\[([^\]]*)\]\s*(?:,|$)")
# The names that Li et al.'s table 11 shows.
_E2E_KEYS: Final[Mapping[str, str]] = {
    "eatType": "Type",
    "priceRange": "price",
    "familyFriendly": "family friendly",
}


def parse_e2e(meaning: str) -> Table | None:
    """The pairs of an E2E meaning representation, ``name[The Mill], area[riverside]``; None where it is none."""
    pairs, at = [], 0
    while at < len(meaning.rstrip()):
        field = _FIELD.match(meaning, at)
        if field is None:
            return None
        key = field[1].strip()
        pairs.append((_E2E_KEYS.get(key, key), field[2].strip()))
        at = field.end()
    return tuple(pairs) or None


def linearise(table: str) -> str:
    """One line: ``name : The Mill | Type : pub``. What is no meaning representation, or no longer one, stays as it is.

    A DART row has this form already; a mask may have taken a bracket of an E2E row away.
    """
    pairs = parse_e2e(table)
    return table if pairs is None else " | ".join(" : ".join(pair) for pair in pairs)


def table_example(
    table: str, description: str, encoder: TextEncoder, control: ControlTokens, context_length: int
) -> Example:
    """An example whose loss is on the description only."""
    prompt, answer = encoder.ids([linearise(table), description])
    return prompted_example(prompt, answer, control, context_length)


def table_prompt(
    table: str, encoder: TextEncoder, control: ControlTokens, context_length: int, max_new_tokens: int
) -> list[int]:
    """What the model continues; it leaves room for ``max_new_tokens``."""
    return prompt_ids(encoder.ids([linearise(table)])[0], control, context_length - max_new_tokens)


class TableToText(LanguageTask):
    """Descriptions are asked for, and generated to be scored."""

    def example(self, record: RecordRows) -> Example:
        """One table with one description.

        Raises:
            InputError: the row holds one text.
        """
        (text,) = record.texts
        table, description = two_texts(text)
        if description is None:
            if not is_all_mask(text):
                raise InputError(
                    "train: table_to_text needs a table and a description in each row, and a row holds one text; set "
                    "corpus.format to e2e or dart"
                )
            description = text
        vocabulary = self.vocabulary
        return table_example(table, description, vocabulary.encoder, vocabulary.control, self.context_length)

    def scores(self, model: torch.nn.Module, held_out: HeldOut, progress: Progress) -> dict[str, Any]:
        """BLEU and the others, of one description of each table against all that people wrote."""
        references: dict[str, list[str]] = {}
        for record in held_out.rows:
            table, description = two_texts(record.texts[0])
            references.setdefault(table, []).append(description or "")
        vocabulary, length = self.vocabulary, self.options.max_new_tokens
        prompts = [
            (table_prompt(table, vocabulary.encoder, vocabulary.control, self.context_length, length), descriptions)
            for table, descriptions in references.items()
        ]
        return self._generated(model, prompts, progress)


def make_task(model: TaskModel, options: TaskOptions) -> TableToText:
    """The task for that model."""
    return TableToText(model, options)
