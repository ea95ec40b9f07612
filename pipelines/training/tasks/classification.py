"""Classification of texts or pairs of texts: by text infilling (`infilling`) or by a head (`head`).

A row holds one text or two, and a label (``corpus.format = "glue"``). A label is the name of a class. It may be the
number of a class, as in GLUE's files, if no class is named by a number.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pipelines.artifacts import Target
from pipelines.errors import InputError
from pipelines.training.data.held_out import HeldOut
from pipelines.training.data.records import ExampleBatch, Examples, IntArray
from pipelines.training.data.row_store import RecordRows, StoredRecords
from pipelines.training.data.task_examples import Example, TaskRecords, write_examples
from pipelines.training.scoring.evaluation import Evaluation, evaluate_classes
from pipelines.training.tasks.base import Task, TaskModel, is_all_mask, two_texts
from pipelines.training.tasks.head import HeadClassification
from pipelines.training.tasks.infilling import Infilling
from pipelines.training.tasks.spec import ClassificationSettings, TaskSettings
from pipelines.training.tasks.templates import choose_template


def class_number(classes: Sequence[str], label: str) -> int:
    """Returns the number of a class.

    Raises:
        InputError: the label is none of the classes.
    """
    if label in classes:
        return classes.index(label)
    if label.isdecimal() and int(label) < len(classes) and not any(name.isdecimal() for name in classes):
        return int(label)
    raise InputError(
        f"train: a row has a label that is none of {', '.join(classes)}. Correct the data, or name it in train.classes"
    )


class Classification(Task):
    """Task of classification.

    Args:
        classifier: model-specific encoding and scoring of classes.
    """

    def __init__(self, classifier: Infilling | HeadClassification) -> None:
        self.classifier = classifier

    def example(self, record: RecordRows, *, is_held_out: bool) -> Example:
        """Returns the example of one row.

        A wholly masked row teaches nothing. Scores leave out a held-out row without a label.

        Raises:
            InputError: the label is unknown or missing in training, or the row has one text and the template takes two.
        """
        (text,), (label,) = record.texts, record.labels
        pairs = self.classifier.takes_pairs
        first, second = (text, None) if pairs is False else two_texts(text)
        if is_all_mask(text):
            return self.classifier.example(text, text if pairs else None, None)
        if pairs and second is None:
            raise InputError(
                "train: the template takes two texts, and a row holds one. Choose another template, set corpus.format "
                "to glue, or split.max_sentence_tokens above the longest row"
            )
        if label is None and not is_held_out:
            raise InputError("train: a row to train on has no label. Name its column in corpus.label_field")
        number = None if label is None else class_number(self.classifier.classes, label)
        return self.classifier.example(first, second, number)

    def _write(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, name: str, *, is_held_out: bool
    ) -> TaskRecords:
        examples = (self.example(stored[int(record)], is_held_out=is_held_out) for record in chosen)
        return write_examples(examples, self.classifier.padding, scratch, name, by_class=True)

    def encode(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, name: str, *, marked: bool = False
    ) -> Examples:
        """Implements `Encoder.encode`. Only Selective-DP marks tokens, and it has no such task."""
        assert not marked  # noqa: S101
        return self._write(stored, chosen, scratch, name, is_held_out=False)

    def encode_held_out(
        self, stored: StoredRecords, chosen: IntArray, scratch: Target, *, marked: bool = False
    ) -> HeldOut:
        """Implements `Encoder.encode_held_out`."""
        assert not marked  # noqa: S101
        return HeldOut(
            records=self._write(stored, chosen, scratch, "held_out", is_held_out=True),
            documents=stored.document_numbers[chosen],
            num_available=len(stored),
        )

    def example_losses(self, model: torch.nn.Module, batch: ExampleBatch) -> torch.Tensor:
        """Returns (B,) the cross-entropy among the classes. 0 if the class is unknown."""
        assert batch.classes is not None  # noqa: S101  # they are examples of this task
        scores = self.classifier.class_logits(model, batch)
        losses: torch.Tensor = torch.nn.functional.cross_entropy(
            scores, batch.classes, reduction="none", ignore_index=-1
        )
        return losses

    def evaluate(self, model: torch.nn.Module, held_out: HeldOut) -> Evaluation:
        """Returns accuracy, and the cross-entropy among the classes as the loss."""
        assert isinstance(held_out.records, TaskRecords)  # noqa: S101  # `encode_held_out` made them
        return evaluate_classes(model, self.classifier, held_out.records)


def make_task(model: TaskModel, settings: TaskSettings) -> Classification:
    """Makes the task for a model."""
    assert isinstance(settings, ClassificationSettings)  # noqa: S101  # the task's spec says so
    assert model.loaded is not None  # noqa: S101  # the task needs a pretrained model
    template = choose_template(settings.template, settings.classes, settings.label_words)
    if template is not None:
        return Classification(Infilling(template, model.loaded))
    return Classification(HeadClassification(settings.classes, model.loaded))
