"""Finds sentence boundaries with a spaCy model, over given tokens."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import spacy
from spacy.tokens import Doc

from pipelines.errors import ConfigError
from pipelines.language import how_to_install, model_module

if TYPE_CHECKING:
    from spacy.language import Language

MAX_TOKENS = 20_000
"""Largest block for the model, whose memory grows with the block. Rules handle longer blocks."""

_BATCH_BLOCKS = 128


def load_model(model: str, component: Literal["senter", "parser"]) -> Language:
    """Loads a spaCy model with only the components that find sentences.

    Raises:
        ConfigError: the model is not installed, or lacks the component.
    """
    module = model_module(model)
    if importlib.util.find_spec(module) is None:
        raise ConfigError(f"split.model: spaCy model '{model}' is not installed; run '{how_to_install(model)}'")
    nlp = spacy.load(module)
    if component not in nlp.component_names:
        raise ConfigError(f"split.model: '{model}' has no component {component}; set split.mode to another one")
    nlp.enable_pipe(component)
    vectors = [name for name in nlp.component_names if name in ("tok2vec", "transformer")]
    nlp.select_pipes(enable=[*vectors, component])
    return nlp


def model_boundaries(nlp: Language, blocks: Iterable[tuple[Sequence[str], Sequence[bool]]]) -> Iterator[list[int]]:
    """Yields the exclusive token indices at which the sentences of each block end.

    Args:
        nlp: model of `load_model`
        blocks: words of each block, at least one, with a flag for white space after each word
    """
    docs = (Doc(nlp.vocab, words=list(words), spaces=list(spaces)) for words, spaces in blocks)
    for doc in nlp.pipe(docs, batch_size=_BATCH_BLOCKS):
        yield [*(token.i for token in doc if token.i and token.is_sent_start), len(doc)]
