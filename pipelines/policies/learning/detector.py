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
from pipelines.policies.detectors.trained_folder import DESCRIPTION, detector_digest
from pipelines.policies.learning.examples import Example, check_examples, sentences_of
from pipelines.policies.learning.names import draw_name
from pipelines.policies.learning.recall import measure_finds

MIN_TEXTS = 20
_CARD = "README.md"


def train_detector(
    examples: Sequence[Example],
    out: Path,
    *,
    kind: Literal["spacy", "encoder"] = "encoder",
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
    progress: Callable[[int, int], None] | None = None,
    add_files: Callable[[Path], None] | None = None,
) -> dict[str, Any]:
    """Trains on most of the texts, and writes a folder that ``redact.token_classifier`` may name.

    Args:
        examples: labelled texts. A text without spans is an example of text without anything sensitive.
        out: folder to write. A detector in it is replaced as a whole, at the end.
        kind: ``encoder``, or ``spacy``, which is faster and weaker.
        base, layers: encoder and its layers (`pipelines.policies.learning.encoder.train_encoder`).
        language: language code of the texts.
        recall: share of the held-out tokens to find, of every label (spaCy: of all labels together).
        held_out: share of the texts on which thresholds are set and figures are measured.
        epochs: passes. The default is 3 for an encoder and 15 for spaCy.
        noise, names: flags that add noise to the training texts, and replace the names of some persons.
        seed: seed of everything random. The same seed on one machine gives the same weights.
        sources: sources of the texts, for the model card.
        progress: function that gets the number of steps done and of all steps.
        add_files: function that writes more files into the folder, before the folder appears.

    Returns:
        The counts and figures, without text.

    Raises:
        ConfigError: the folder holds something else, or the base cannot be loaded.
        InputError: there are too few texts, or none has a span.
    """
    _check_folder(out)
    if not 0 < recall < 1 or not 0 < held_out < 1:
        raise ConfigError("--recall and --held-out must be between 0 and 1")
    distinct = list({example.text: example for example in check_examples(examples, MIN_TEXTS)}.values())
    random.Random(seed).shuffle(distinct)  # noqa: S311 - no secret depends on it
    num_held_out = max(1, round(held_out * len(distinct)))
    training = check_examples(distinct[num_held_out:], MIN_TEXTS // 2)
    judged = list(sentences_of(distinct[:num_held_out], language))
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        folder = Path(scratch) / "detector"
        folder.mkdir()
        drawn = draw_name if names else None
        options: dict[str, Any] = {"noise": noise, "names": drawn, "seed": seed, "progress": progress}
        thresholds: dict[str, float] = {}
        # Only one of the two modules is imported: the first loads spaCy, the second torch.
        if kind == "spacy":
            from pipelines.policies.learning.spacy_ner import fit_spacy

            options |= {"language": language, "epochs": epochs or 15}
            finds = fit_spacy(training, folder, judged, recall, **options)
        else:
            from pipelines.policies.learning.encoder import fit_encoder

            options |= {"base": base, "layers": layers, "epochs": epochs or 3}
            thresholds, finds = fit_encoder(training, folder, judged, recall, **options)
        document = {
            "kind": "detector",
            "model": kind,
            "base": base if kind == "encoder" and not Path(base).is_absolute() else None,
            "language": language,
            "labels": sorted({label for example in training for *_, label in example.spans}),
            "thresholds": thresholds,
            "wanted_recall": recall,
            "num_training_texts": len(training),
            "held_out": measure_finds(finds, judged),
            "seed": seed,
            "weights_sha256": detector_digest(folder),
        }
        write_json(folder / DESCRIPTION, document)
        (folder / _CARD).write_text(_card(document, sources), encoding="utf-8")
        if add_files is not None:
            add_files(folder)
        _publish(folder, out)
    return document


def _check_folder(out: Path) -> None:
    if out.exists() and not (out.is_dir() and ((out / DESCRIPTION).exists() or not any(out.iterdir()))):
        raise ConfigError("--out holds something else than a detector; name another folder")


def _publish(folder: Path, out: Path) -> None:
    """Moves a finished folder to its location."""
    old = folder.with_name("old")
    if out.exists():
        out.rename(old)
    folder.rename(out)
    if old.exists():
        shutil.rmtree(old)


def _card(document: dict[str, Any], sources: Sequence[str]) -> str:
    held_out = document["held_out"]
    rows = "\n".join(
        f"| {label} | {document['thresholds'].get(label, 'none')} | {recall} | {held_out['tokens_by_label'][label]} |"
        for label, recall in held_out["recall_by_label"].items()
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

This model was trained on text that may be private, and it may reveal that text: do not publish it, and train no
released model from it. To measure what it misses, judge sentences that it was not trained on.
"""
