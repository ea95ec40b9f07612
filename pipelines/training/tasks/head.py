"""Classification by a head on top of a pretrained model (Devlin et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pipelines.errors import ConfigError
from pipelines.training.data.records import ExampleBatch
from pipelines.training.data.task_examples import IGNORED, Example
from pipelines.training.models.loading import LoadedModel, padding_of
from pipelines.training.models.losses import logits_of


class HeadClassification:
    """Classification of texts or pairs of texts by a head.

    Args:
        classes: names of the classes. Their order numbers them.
        loaded: model with a classification head of as many classes.
    """

    def __init__(self, classes: Sequence[str], loaded: LoadedModel) -> None:
        if loaded.kind != "classification" or loaded.model.config.num_labels != len(classes):
            raise ConfigError(f"classification: needs a model with a head of {len(classes)} classes")
        self.classes = tuple(classes)
        loaded.model.config.id2label = dict(enumerate(self.classes))
        loaded.model.config.label2id = {name: number for number, name in enumerate(self.classes)}
        self.padding = padding_of(loaded)
        self._loaded = loaded
        special = loaded.vocabulary.tokenizer.num_special_tokens_to_add
        self._num_between = max(1, special(pair=True) - special(pair=False))  # RoBERTa: 2

    @property
    def takes_pairs(self) -> bool | None:
        """Always None: an input may be one text or two."""
        return None

    def example(self, first: str, second: str | None, number: int | None) -> Example:
        """Encodes ``<BOS> first <EOS> [second <EOS>]``, with as many ends between two texts as the model is used to.

        If the input is too long, the longer text loses its end. ``number`` is the number of the class, or None if it is
        unknown.
        """
        control = self._loaded.vocabulary.control
        texts = self._loaded.vocabulary.encoder.ids([first] if second is None else [first, second])
        ends = [self._num_between] * (len(texts) - 1) + [1]
        over = 1 + sum(map(len, texts)) + sum(ends) - self._loaded.context_length
        for _ in range(over):
            max(texts, key=len).pop()
        ids, types = [control.bos], [0]
        for segment, text in enumerate(texts):
            ids += text + [control.eos] * ends[segment]
            types += [segment] * (len(text) + ends[segment])
        return Example(ids=ids, labels=[IGNORED] * len(ids), label=number, token_types=types, is_cut=over > 0)

    def class_logits(self, model: torch.nn.Module, batch: ExampleBatch) -> torch.Tensor:
        """Returns (B, C) the scores of the classes."""
        return logits_of(model, batch)
