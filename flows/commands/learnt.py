"""Which sentences of a project a model learns from: noted while it is trained, and written beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Noted = dict[bytes, set[str]]
"""Keys of the sentences that are learnt from, by the secret of their store (`pipelines.miss_rate.learnt`)."""


def note_texts(texts: Sequence[str], project: Path, environ: Mapping[str, str], noted: Noted) -> None:
    """Notes texts of files, and the sentences and turns in them, as the project's corpus would have them.

    Nobody knows whether a text is a document, a sentence or a turn, so each is cut in every way that a reader may ask
    for: a key that no sentence of the corpus has leaves nothing out.

    Args:
        texts: what is learnt from.
        project: settings of the project whose corpus they are from; its store is made where there is none yet.
        environ: the environment.
        noted: is added to.

    Raises:
        ConfigError, StoreError: the settings or the store cannot be used.
    """
    from flows.running.spec import open_store
    from pipelines.corpus.split import Splitter
    from pipelines.miss_rate.review_log import sentence_key
    from pipelines.settings.loading import load_settings

    settings = load_settings(project, environ)
    split: Any = settings.stages["split"]
    secret = open_store(settings).secret
    splitter = Splitter(split.language, split.mode, split.max_sentence_tokens, split.model)
    known = noted.setdefault(secret, set())
    for layout in (None, "turns", "whole"):
        for sentences in splitter.split(texts, layout):
            known.update(sentence_key(secret, sentence.text) for sentence in sentences)


def write_noted(folder: Path, noted: Noted) -> None:
    """Writes the list into a model's folder, in place of one that an earlier model left there."""
    from pipelines.miss_rate.learnt import LEARNT, write_learnt

    (folder / LEARNT).unlink(missing_ok=True)
    for secret, keys in noted.items():
        write_learnt(folder, secret, keys)
