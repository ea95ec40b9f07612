"""Table-to-text generation: E2E (Novikova et al. 2017) and DART (Nan et al. 2020), as Li et al. (2022) use them.

A row holds a table and one description (``corpus.format = "e2e"`` or ``"dart"``). Reading the corpus turned the table
into one line of ``key : value`` pairs joined by ``|``. The model learns to continue it with the description.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from pipelines.artifacts import Target
from pipelines.context import Progress
from pipelines.errors import InputError
from pipelines.training.data.control import ControlTokens
from pipelines.training.data.held_out import HeldOut
from pipelines.training.data.records import IntArray
from pipelines.training.data.row_store import RecordRows, StoredRecords
from pipelines.training.data.task_examples import Example
from pipelines.training.data.vocabulary import TextEncoder
from pipelines.training.tasks.base import GeneratingTask, TaskModel, TaskScores, is_all_mask, two_texts
from pipelines.training.tasks.prompts import prompt_ids, prompted_example
from pipelines.training.tasks.spec import TaskSettings


def table_example(
    table: str, description: str, encoder: TextEncoder, control: ControlTokens, context_length: int
) -> Example:
    """Returns an example whose loss is on the description only."""
    prompt, answer = encoder.ids([table, description])
    return prompted_example(prompt, answer, control, context_length)


def table_prompt(
    table: str, encoder: TextEncoder, control: ControlTokens, context_length: int, max_new_tokens: int
) -> list[int]:
    """Returns the prompt for a table, which leaves room for ``max_new_tokens``."""
    return prompt_ids(encoder.ids([table])[0], control, context_length - max_new_tokens)


class TableToText(GeneratingTask):
    """Tables whose descriptions are targets, with scores of generated descriptions."""

    def example(self, record: RecordRows) -> Example:
        """Returns the example of one table with one description.

        Raises:
            InputError: the row holds one text.
        """
        (text,) = record.texts
        table, description = two_texts(text)
        if description is None:
            if not is_all_mask(text):
                raise InputError(
                    "train: table_to_text needs a table and a description in each row, and a row holds one text. Set "
                    "corpus.format to e2e or dart, and split.max_sentence_tokens above the longest row"
                )
            description = text
        vocabulary = self.vocabulary
        return table_example(table, description, vocabulary.encoder, vocabulary.control, self.context_length)

    def encode_held_out(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, *, marked: bool = False
    ) -> HeldOut:
        """Encodes held-out rows. All descriptions of a table in the fold become its references."""
        held_out = super().encode_held_out(stored, chosen, scratch, marked=marked)
        references: dict[str, list[str]] = {two_texts(row.texts[0])[0]: [] for row in held_out.rows}
        for number in range(len(stored)):
            table, description = two_texts(stored[number].texts[0])
            if table in references and description is not None:
                references[table].append(description)
        return replace(held_out, references=references)

    def scores(self, model: torch.nn.Module, held_out: HeldOut, progress: Progress) -> TaskScores:
        """Returns BLEU and other scores of one description of each table against all of people's."""
        vocabulary, length = self.vocabulary, self.settings.max_new_tokens
        prompts = [
            (table_prompt(table, vocabulary.encoder, vocabulary.control, self.context_length, length), descriptions)
            for table, descriptions in held_out.references.items()
        ]
        return self._generated(model, prompts, progress)


def make_task(model: TaskModel, settings: TaskSettings) -> TableToText:
    """Makes the task for a model."""
    return TableToText(model, settings)
