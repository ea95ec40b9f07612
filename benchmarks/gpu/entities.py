"""spaCy on a GPU: its entities against those on the CPU, and the time of both."""

from __future__ import annotations

import importlib
import importlib.util
import time
from pathlib import Path
from typing import Any, Final

import spacy

from pipelines.language import model_module

from .cells import Place
from .texts import paragraphs

MODELS: Final = ("en_core_web_trf", "en_core_web_sm")
"""Models, of which the first installed one is taken; the project itself uses a GPU for transformers alone."""

AGREEMENT: Final = 0.995
"""Least share of entities that both devices find: float32 sums in another order change labels of close scores."""


def compare(place: Place) -> dict[str, Any]:
    """Compares entities of the same paragraphs on both devices."""
    module = next((found for name in MODELS if importlib.util.find_spec(found := model_module(name))), None)
    if module is None:
        raise ModuleNotFoundError(f"no spaCy model: {' or '.join(MODELS)}", name=MODELS[-1])
    texts = paragraphs(place.data_dir)[: 20 if place.tiny else 2_000]
    found, seconds = {}, {}
    for device in ("cpu", place.device):
        if device == "cuda":
            spacy.require_gpu()
        else:
            spacy.require_cpu()
        nlp = spacy.load(_path(module), exclude=["parser", "lemmatizer", "tagger", "attribute_ruler"])
        list(nlp.pipe(texts[:10]))
        start = time.perf_counter()
        found[device] = {
            (number, entity.start_char, entity.end_char, entity.label_)
            for number, doc in enumerate(nlp.pipe(texts, batch_size=128))
            for entity in doc.ents
        }
        seconds[device] = round(time.perf_counter() - start, 2)
    here, there = found["cpu"], found[place.device]
    share = len(here & there) / max(1, len(here | there))
    return {
        "passed": share >= AGREEMENT,
        "model": module,
        "paragraphs": len(texts),
        "entities": len(here),
        "share_found_by_both": share,
        "seconds": seconds,
    }


def _path(module: str) -> str:
    found = importlib.import_module(module)
    folder = Path(str(found.__file__)).parent
    inner = [path.parent for path in folder.glob("*/config.cfg")]
    return str(inner[0] if inner else folder)
