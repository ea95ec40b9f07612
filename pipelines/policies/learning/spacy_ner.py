"""Trains spaCy's entity recogniser from random weights: a small model that is fast on a CPU."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import spacy
from spacy.training import Example as Pair
from spacy.util import fix_random_seed  # type: ignore[attr-defined]

from pipelines.language import make_doc
from pipelines.policies.detectors.token_spacy import SpacyReader
from pipelines.policies.learning.examples import Example, add_noise, sentences_of
from pipelines.policies.learning.recall import HeldOut, measure_finds

_SCORE_REDUCTIONS: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Reductions of the score of "outside" (a logit), which are tried in turn."""


def fit_spacy(examples: Sequence[Example], folder: Path, held_out: HeldOut, recall: float, **options: Any) -> list[Any]:
    """Trains a pipeline, raises its recall on held-out texts to the wanted one if possible, and writes it.

    Args:
        examples: texts with spans.
        folder: folder to write into.
        held_out: held-out sentences and their spans.
        recall: wanted token recall of all labels together.
        options: arguments of `train_spacy`.

    Returns:
        The finds in every held-out sentence.
    """
    nlp = train_spacy(examples, **options)
    finds: list[Any] = []
    for before, reduction in zip((0.0, *_SCORE_REDUCTIONS), _SCORE_REDUCTIONS, strict=False):
        favour_entities(nlp, reduction - before)
        nlp.to_disk(folder)
        reader = SpacyReader(folder, {})
        finds = [reader.find(sentence) for sentence, _ in held_out]
        if (measure_finds(finds, held_out)["token_recall"] or 0.0) >= recall:
            break
    return finds


def train_spacy(
    examples: Sequence[Example],
    *,
    language: str = "en",
    epochs: int = 15,
    batch_size: int = 64,
    noise: bool = True,
    names: Callable[[random.Random], str] | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """Trains a pipeline with ``ner``. Takes the arguments of `pipelines.policies.learning.encoder.train_encoder`."""
    fix_random_seed(seed)
    nlp = spacy.blank(language)
    recogniser: Any = nlp.add_pipe("ner")
    for label in sorted({label for example in examples for *_, label in example.spans}):
        recogniser.add_label(label)

    def pairs(batch: Sequence[Example]) -> list[Any]:
        labelled = []
        for sentence, spans in sentences_of(batch, language):
            doc = make_doc(nlp, sentence.text, sentence.starts, sentence.ends)
            gold = doc.copy()
            gold.set_ents([spacy.tokens.Span(gold, *span[:2], label=span[2]) for span in spans], default="outside")
            labelled.append(Pair(doc, gold))
        return labelled

    optimizer = nlp.initialize(lambda: pairs(examples[:100]))
    order = random.Random(seed)  # noqa: S311 - no secret depends on it
    steps_of_epoch = -(-len(examples) // batch_size)
    for epoch in range(epochs):
        shuffled = order.sample(list(examples), len(examples))
        for step in range(steps_of_epoch):
            batch = shuffled[step * batch_size : (step + 1) * batch_size]
            if noise:
                batch = [add_noise(example, order, names) for example in batch]
            nlp.update(pairs(batch), sgd=optimizer, drop=0.2)
            if progress is not None:
                progress(epoch * steps_of_epoch + step + 1, epochs * steps_of_epoch)
    return nlp


def favour_entities(nlp: Any, by: float) -> None:
    """Makes the recogniser find more: lowers the score (a logit) of its action "outside".

    A linear layer computes the scores of actions. So the change is one of its bias, which is stored with the weights.
    """
    recogniser = nlp.get_pipe("ner")
    moves = [recogniser.moves.get_class_name(index) for index in range(recogniser.moves.n_moves)]
    upper = recogniser.model.get_ref("upper")
    bias = upper.get_param("b").copy()
    bias[moves.index("O")] -= by
    upper.set_param("b", bias)
