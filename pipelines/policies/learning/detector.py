"""Trains a detector, sets its thresholds on a held-out part, and writes a folder for `token_classifier`."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from pipelines.errors import ConfigError
from pipelines.files import write_json
from pipelines.policies.detectors.token_classifier import DESCRIPTION, weights_digest
from pipelines.policies.learning.examples import Example, checked, sentences_of
from pipelines.policies.learning.recall import by_label, measured, thresholds_for

Kind = Literal["spacy", "encoder"]
Progress = Callable[[int, int], None]

LEAST_TEXTS = 20
_CARD = "README.md"
_LEANINGS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)


def train_detector(
    examples: Sequence[Example],
    out: Path,
    *,
    kind: Kind = "encoder",
    base: str = "minilm",
    language: str = "en",
    layers: int | None = None,
    recall: float = 0.9,
    held_out: float = 0.2,
    epochs: int | None = None,
    noise: bool = True,
    names: bool = True,
    seed: int = 0,
    sources: Sequence[str] = (),
    progress: Progress | None = None,
    beside: Callable[[Path], None] | None = None,
) -> dict[str, Any]:
    """Trains on most of the texts, and writes a folder that ``redact.token_classifier`` may name.

    Args:
        examples: labelled texts; a text without spans says that nothing in it is sensitive.
        out: the folder; one that a detector stands in is replaced, as a whole and at the end.
        kind: ``encoder``, or ``spacy``: faster and weaker.
        base, layers: of an encoder (`pipelines.policies.learning.encoder.train_encoder`).
        language: code of the text.
        recall: the share of tokens to be found on the held-out part, of every label (spaCy: of all labels together).
        held_out: share of the texts that thresholds are set, and figures measured on.
        epochs: passes; by default 3 for an encoder and 15 for spaCy.
        noise, names: whether texts are learnt with noise, and with other names in place of some persons.
        seed: of everything random; the same on one machine gives the same weights.
        sources: where the texts are from, for the model card.
        progress: called with steps done and in all.
        beside: called with the folder before it appears, to write more into it.

    Returns:
        Counts and figures; no text.

    Raises:
        ConfigError: the folder holds something else, or the base cannot be loaded.
        InputError: too few texts, or none with a span.
    """
    _check_folder(out)
    if not 0 < recall < 1 or not 0 < held_out < 1:
        raise ConfigError("--recall and --held-out must be between 0 and 1")
    distinct = list({example.text: example for example in checked(examples, LEAST_TEXTS)}.values())
    random.Random(seed).shuffle(distinct)  # noqa: S311 - no secret depends on it
    parts = max(1, round(held_out * len(distinct)))
    aside, learnt = distinct[:parts], checked(distinct[parts:], LEAST_TEXTS // 2)
    judged = list(sentences_of(aside, language))
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        folder = Path(scratch) / "detector"
        folder.mkdir()
        from pipelines.policies.learning.names import name_of

        told: dict[str, Any] = {"noise": noise, "names": name_of if names else None, "seed": seed, "progress": progress}
        if kind == "spacy":
            thresholds, finds = _spacy(learnt, folder, judged, recall, language, epochs or 15, told)
        else:
            more = {"base": base, "layers": layers, "epochs": epochs or 3}
            thresholds, finds = _encoder(learnt, folder, judged, recall, {**told, **more})
        figures = measured(finds, judged)
        document = {
            "kind": "detector",
            "model": kind,
            "base": base if kind == "encoder" and not Path(base).is_absolute() else None,
            "language": language,
            "labels": sorted({label for example in learnt for *_, label in example.spans}),
            "thresholds": thresholds,
            "wanted_recall": recall,
            "num_training_texts": len(learnt),
            "held_out": figures,
            "seed": seed,
            "weights_sha256": weights_digest(folder),
        }
        write_json(folder / DESCRIPTION, document)
        (folder / _CARD).write_text(_card(document, sources), encoding="utf-8")
        if beside is not None:
            beside(folder)
        _publish(folder, out)
    return document


def _encoder(
    learnt: Sequence[Example], folder: Path, judged: Any, recall: float, told: dict[str, Any]
) -> tuple[dict[str, float], list[Any]]:
    from pipelines.policies.detectors.token_encoder import EncoderReader
    from pipelines.policies.learning.encoder import train_encoder
    from pipelines.quiet import quiet_transformers

    model, tokenizer = train_encoder(learnt, **told)
    with quiet_transformers():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    reader = EncoderReader(str(folder), None, labels={}, threshold=None, thresholds={}, described={}, device="auto")
    reader.thresholds = thresholds_for(reader, judged, recall)
    return reader.thresholds, [reader.find(sentence) for sentence, _ in judged]


def _spacy(
    learnt: Sequence[Example],
    folder: Path,
    judged: Any,
    recall: float,
    language: str,
    epochs: int,
    told: dict[str, Any],
) -> tuple[dict[str, float], list[Any]]:
    from pipelines.policies.detectors.token_spacy import SpacyReader
    from pipelines.policies.learning.spacy_ner import lean_to_entities, train_spacy

    nlp = train_spacy(learnt, language=language, epochs=epochs, **told)
    finds: list[Any] = []
    for before, leaning in zip((0.0, *_LEANINGS), _LEANINGS, strict=False):
        lean_to_entities(nlp, leaning - before)
        nlp.to_disk(folder)
        reader = SpacyReader(folder, {})
        finds = [reader.find(sentence) for sentence, _ in judged]
        if (measured(finds, judged)["token_recall"] or 0.0) >= recall:
            break
    return {}, finds


def _check_folder(out: Path) -> None:
    if out.exists() and not (out.is_dir() and ((out / DESCRIPTION).exists() or not any(out.iterdir()))):
        raise ConfigError("--out holds something else than a detector; name another folder")


def _publish(folder: Path, out: Path) -> None:
    """Puts a finished folder in its place: readers see the old one or the new one, and nothing between."""
    old = folder.with_name("old")
    if out.exists():
        out.rename(old)
    folder.rename(out)
    if old.exists():
        shutil.rmtree(old)


def _card(document: dict[str, Any], sources: Sequence[str]) -> str:
    held_out = document["held_out"]
    rows = "\n".join(
        f"| {label} | {document['thresholds'].get(label, 'none')} | {recall} | {number} |"
        for label, recall, number in by_label(held_out)
    )
    what = "spaCy's entity recogniser" if document["model"] == "spacy" else f"an encoder ({document['base'] or 'own'})"
    return f"""# A detector of `reticent train-detector`

{what}, language `{document["language"]}`, seed {document["seed"]}; trained on {document["num_training_texts"]:,} texts.
From: {", ".join(sources) or "not said"}.

| label | threshold | token recall | held-out tokens |
|---|---|---|---|
{rows}

On {held_out["num_texts"]:,} held-out texts: token recall {held_out["token_recall"]}, token precision
{held_out["token_precision"]}, masked share {held_out["masked_share"]}. Thresholds were set on these texts for a recall
of {document["wanted_recall"]}, so the recall looks better than it is; other text has other figures.

This model was trained on text that may be private. It may tell of it: do not publish it, and train no released model
from it. Sentences that it learnt from say nothing about what it misses: judge others.
"""
