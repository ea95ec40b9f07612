"""Notes the sentences of a project that a model learns from, and writes them into the model's folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.running.spec import open_store
from pipelines.corpus.split import Splitter
from pipelines.miss_rate.learnt import LEARNT, write_learnt
from pipelines.miss_rate.review_log import sentence_key
from pipelines.settings.loading import load_settings

Noted = dict[bytes, set[str]]
"""Keys of learnt sentences, by the secret of their store (`pipelines.miss_rate.learnt`)."""


def note_texts(texts: Sequence[str], project: Path, environ: Mapping[str, str], noted: Noted) -> None:
    """Notes texts, and the sentences and turns in them, in the form of the project's corpus.

    A text may be a document, a sentence or a turn, so it is split in every way that a reader may ask for. Keys that no
    sentence of the corpus has do no harm.

    Args:
        texts: texts that the model learns from
        project: settings of the project whose corpus the texts come from; its store is created if missing
        noted: dictionary to add the keys to

    Raises:
        ConfigError, StoreError: the settings or the store cannot be used.
    """
    settings = load_settings(project, environ)
    split: Any = settings.stages["split"]
    secret = open_store(settings).secret
    splitter = Splitter(split.language, split.mode, split.max_sentence_tokens, split.model, split.cut_fields)
    known = noted.setdefault(secret, set())
    for layout in (None, "turns", "whole"):
        for sentences in splitter.split(texts, layout):
            known.update(sentence_key(secret, sentence.text) for sentence in sentences)


def write_noted(folder: Path, noted: Noted) -> None:
    """Writes the list into a model's folder, replacing an earlier model's list."""
    (folder / LEARNT).unlink(missing_ok=True)
    for secret, keys in noted.items():
        write_learnt(folder, secret, keys)
