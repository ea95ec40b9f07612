"""Classification as filling in a missing word (Li et al. 2022, section 3.2 and appendix N, table 10).

A masked language model reads a template with one mask, and scores one word per class at that mask. The loss is the
cross-entropy among those words. The template's mask is known by its recorded index. A redaction mask is often the same
token: the model reads it, and its output is neither a target nor compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pipelines.errors import ConfigError, InputError
from pipelines.training.data.records import ExampleBatch
from pipelines.training.data.task_examples import IGNORED, Example
from pipelines.training.models.loading import LoadedModel, padding_of
from pipelines.training.models.losses import logits_of
from pipelines.training.tasks.templates import BLANK, FIRST, SECOND, Template


class Infilling:
    """Text-infilling classification with one model.

    Args:
        template: template and label words.
        loaded: masked language model.

    Raises:
        ConfigError: the model is no masked language model, or a label word is not one token for it.
    """

    def __init__(self, template: Template, loaded: LoadedModel) -> None:
        if loaded.kind != "masked":
            raise ConfigError("infilling: needs a masked language model, such as roberta-base")
        self.template = template
        self.classes = tuple(template.label_words)
        self._encoder = loaded.vocabulary.encoder
        self._context_length = loaded.context_length
        if loaded.vocabulary.control.mask is None:
            raise ConfigError("infilling: the model has no mask token")
        self._mask = loaded.vocabulary.control.mask
        self._begin, self._end = loaded.vocabulary.control.bos, loaded.vocabulary.control.eos
        self.padding = padding_of(loaded)
        self.label_ids = [self._one_token(word) for word in template.label_words.values()]
        if len(set(self.label_ids)) != len(self.label_ids):
            raise ConfigError("infilling: two label words are one token for this model. Choose others")

    def _one_token(self, word: str) -> int:
        # The word follows a blank in the template. " great" and "great" are two tokens in RoBERTa's vocabulary.
        ids = self._encoder.ids([f" {word}"])[0]
        unknown = self._encoder.unknown
        if len(ids) != 1 or ids[0] == unknown:
            raise ConfigError(f"infilling: the label word {word!r} is not one token for this model. Choose another")
        return ids[0]

    @property
    def takes_pairs(self) -> bool | None:
        """True if an input is two texts."""
        return self.template.takes_pairs

    def example(self, first: str, second: str | None, number: int | None) -> Example:
        """Fills the template.

        A text that is too long loses its own end (the longer of two first), and the template around it stays complete.

        Args:
            first: text, which may hold redaction masks.
            second: other text of a pair.
            number: number of the class. None if the class is to be predicted.

        Raises:
            InputError: the second text is missing or needless.
        """
        if (second is not None) != self.template.takes_pairs:
            raise InputError("infilling: the template and a row have different numbers of texts")
        # `first` and `second` are inserted as ids, so no part of their text can pass for a part of the template.
        pieces = _split(self.template.pattern)
        given = {FIRST: first, SECOND: second or "", BLANK: ""}
        before = {name: " " if number else "" for number, name in enumerate(pieces) if name in (FIRST, SECOND)}
        texts = self._encoder.ids(before.get(piece, "") + given.get(piece, piece) for piece in pieces)
        filled = dict(zip(pieces, texts, strict=True)) | {BLANK: [self._mask]}
        cut = _cut([FIRST, SECOND] if second is not None else [FIRST], filled, self._context_length - 2)
        ids, blank = [self._begin], -1
        for piece in pieces:
            if piece == BLANK:
                blank = len(ids)
            ids += filled[piece]
        ids.append(self._end)
        labels = [IGNORED] * len(ids)
        # The blank's label marks its index; unlabelled examples are marked with the first class's word, unused.
        labels[blank] = self.label_ids[0 if number is None else number]
        return Example(ids=ids, labels=labels, label=number, is_cut=cut)

    def class_logits(self, model: torch.nn.Module, batch: ExampleBatch) -> torch.Tensor:
        """Returns (B, C) the scores of the label words at each example's blank."""
        scores = logits_of(model, batch)  # (B, T, V)
        at_blank = (scores * batch.weights[..., None].to(scores.dtype)).sum(dim=1)  # each row has one weight of 1
        return at_blank[:, self.label_ids]


def _split(pattern: str) -> list[str]:
    pieces, rest = [], pattern
    while rest:
        places = sorted((rest.index(name), name) for name in (FIRST, SECOND, BLANK) if name in rest)
        if not places:
            pieces.append(rest)
            break
        start, name = places[0]
        before = rest[:start].rstrip()  # a blank belongs to the token after it, and a mask absorbs it
        pieces += [before, name] if before else [name]
        rest = rest[start + len(name) :]
    return pieces


def _cut(names: Sequence[str], filled: dict[str, list[int]], limit: int) -> bool:
    over = sum(map(len, filled.values())) - limit
    is_cut = over > 0
    if is_cut and over > sum(len(filled[name]) for name in names):
        raise ConfigError("infilling: the template alone is longer than the model's context")
    while over > 0:
        longest = max(names, key=lambda name: len(filled[name]))
        filled[longest].pop()
        over -= 1
    return is_cut
