"""Trains spaCy's entity recogniser from nothing: small, fast on a CPU, no pretrained weights."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from pipelines.language import make_doc
from pipelines.policies.learning.examples import Example, noisy, sentences_of


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
    """A pipeline with ``ner``. Arguments as `pipelines.policies.learning.encoder.train_encoder`."""
    import spacy
    from spacy.training import Example as Pair
    from spacy.util import fix_random_seed  # type: ignore[attr-defined]

    fix_random_seed(seed)
    nlp = spacy.blank(language)
    recogniser: Any = nlp.add_pipe("ner")
    for label in sorted({label for example in examples for *_, label in example.spans}):
        recogniser.add_label(label)

    def pairs(batch: Sequence[Example]) -> list[Any]:
        made = []
        for sentence, spans in sentences_of(batch, language):
            doc = make_doc(nlp, sentence.text, sentence.starts, sentence.ends)
            gold = doc.copy()
            gold.set_ents([spacy.tokens.Span(gold, *span[:2], label=span[2]) for span in spans], default="outside")
            made.append(Pair(doc, gold))
        return made

    optimizer = nlp.initialize(lambda: pairs(examples[:100]))
    order = random.Random(seed)  # noqa: S311 - no secret depends on it
    steps_of_epoch = -(-len(examples) // batch_size)
    for epoch in range(epochs):
        shuffled = order.sample(list(examples), len(examples))
        for step in range(steps_of_epoch):
            batch = shuffled[step * batch_size : (step + 1) * batch_size]
            if noise:
                batch = [noisy(example, order, names) for example in batch]
            nlp.update(pairs(batch), sgd=optimizer, drop=0.2)
            if progress is not None:
                progress(epoch * steps_of_epoch + step + 1, epochs * steps_of_epoch)
    return nlp


def lean_to_entities(nlp: Any, by: float) -> None:
    """Makes the recogniser find more: "outside", one of its actions, loses so much of its score (a logit).

    The scores of actions are a linear layer's, so that this is a bias, kept with the weights.
    """
    recogniser = nlp.get_pipe("ner")
    moves = [recogniser.moves.get_class_name(index) for index in range(recogniser.moves.n_moves)]
    upper = recogniser.model.get_ref("upper")
    bias = upper.get_param("b").copy()
    bias[moves.index("O")] -= by
    upper.set_param("b", bias)
