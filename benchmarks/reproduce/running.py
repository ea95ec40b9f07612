"""Runs one cell with one seed: a run of the pipeline, an audit, or a calculation."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from flows.commands.compare import Variant, run_variant, without_idle
from flows.running.fetching import fetch
from flows.settings import ENV_PREFIX, load_settings

from . import base, computed, corpora, recorded, results
from .cache import cached, content_key
from .cells import Audit, Cell, Compute, Impossible, Recorded, Scale, Train, settings_of

CANDIDATES: Final = 10_000


class NotReadyError(Exception):
    """The starting point is not complete."""


class FailedError(Exception):
    """A run of the pipeline failed; the message is its reason."""


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """Where cells run.

    Attributes:
        data_dir: the folder of data sets.
        work: artifacts and stores.
        results: finished results.
        minutes: that the starting point may take in this call.
    """

    data_dir: Path
    work: Path
    results: Path = results.RESULTS
    minutes: float = 60.0


def run_cell(cell: Cell, scale: Scale, seed: int, place: Workplace, *, again: bool = False) -> Path:
    """Runs it and writes its result.

    Raises:
        NotReadyError, FailedError: nothing was written.
        FileExistsError: there is a result, and ``again`` is not set.
    """
    if results.read(place.results, cell, scale, seed) is not None and not again:
        raise FileExistsError(f"{cell.identity}, seed {seed}: there is a result; --again makes it anew")
    started, about = time.monotonic(), None
    if isinstance(cell.run, Train):
        folder = model_of(cell.run.model, scale, place)
        about = starting_point_of(folder) if folder is not None and cell.run.model == "base" else None
        figures = trained(cell.run, scale, seed, place, folder)
        settings = settings_of(cell.run, scale)
    elif isinstance(cell.run, Compute):
        figures = computed.FUNCTIONS[cell.run.function](**cell.run.arguments)
        settings = asdict(cell.run)
    elif isinstance(cell.run, Recorded):
        figures = recorded.FUNCTIONS[cell.run.function](**cell.run.arguments)
        settings = asdict(cell.run)
    else:
        raise ValueError(f"{cell.identity}: {cell.run.reason}")
    return results.write(
        place.results,
        cell,
        scale,
        seed,
        figures=figures,
        settings=settings,
        seconds=time.monotonic() - started,
        base=about,
        again=again,
    )


def model_of(name: str, scale: Scale, place: Workplace) -> Path | None:
    """The folder of a model that this benchmark makes; None where the pipeline knows it by name."""
    if name == "base":
        folder = base.starting_point(place.data_dir, place.work, base.RECIPES[scale], place.minutes)
        if folder is None:
            raise NotReadyError("the starting point is not complete; the same command goes on with it")
        return folder
    if name == "masked":
        from task_scores import masked_model

        def make(folder: Path) -> dict[str, Any]:
            masked_model(place.data_dir, folder)
            return {"name": "MiniLM with a masked head learnt on WikiText-2"}

        return cached(place.work / "masked", content_key({"version": 1}), make)
    return None


def starting_point_of(folder: Path) -> dict[str, Any]:
    """What a result says of the model that it began with."""
    known = base.written(folder)
    return {"key": folder.name, "perplexity_a_word": round(known["perplexity_a_word_of_sentences"], 1)}


def environment(run: Train, scale: Scale, folder: Path | None) -> dict[str, str]:
    """The settings of a run, by environment variable."""
    settings = {"train.model": str(folder) if folder is not None else run.model, **run.settings(scale)}
    if folder is not None:
        settings["train.model_is_public"] = "true"
        if settings.get("train.adaptation") == "scratch":
            settings["train.tokenizer"] = "pretrained"
    if isinstance(run, Audit):
        settings |= {
            "audit.enabled": "true",
            "audit.num_members": "100",
            "audit.copies": str(run.copies),
            "audit.candidates": str(CANDIDATES),
            "audit.num_canaries": str(run.canaries),
            "audit.num_detected_canaries": str(run.detected),
        }
    return {f"{ENV_PREFIX}{name.replace('.', '__').upper()}": value for name, value in settings.items()}


def variant_of(
    run: Train, scale: Scale, seed: int, config: Path, folder: Path | None, environ: Mapping[str, str]
) -> Variant:
    """A run as ``reticent compare`` has it.

    Raises:
        ConfigError: its settings are wrong.
    """
    variant = Variant(config, run.method, seed, environment(run, scale, folder))
    return without_idle(variant, environ)


def trained(run: Train, scale: Scale, seed: int, place: Workplace, folder: Path | None) -> dict[str, Any]:
    """The figures of a run, from the store where it ran before."""
    config = corpora.prepared(run.corpus, place.data_dir, place.work, scale)
    variant = variant_of(run, scale, seed, config, folder, os.environ)
    if isinstance(run, Audit):
        return audited(variant)
    row = run_variant(variant, os.environ)
    if row["state"] != "completed":
        raise FailedError(str(row.get("reason")))
    figures = {name: value for name, value in row.items() if isinstance(value, int | float)}
    if row.get("accuracy") is not None:
        figures["accuracy_percent"] = 100 * row["accuracy"]
    return figures


def audited(variant: Variant) -> dict[str, Any]:
    """What canaries and held-out text say of a run."""
    environ = {**os.environ, **variant.environment}
    session, keys = fetch(load_settings(variant.config, environ), "evaluate", "audit_canaries")

    def document(stage: str, name: str) -> dict[str, Any]:
        ((_, key),) = keys[stage]
        found: dict[str, Any] = session.roots.private_files(stage, key).json(name)
        return found

    exposure, evaluated = document("audit_canaries", "exposure.json"), document("evaluate", "figures.json")
    groups = {group["name"]: group for group in exposure["groups"]}
    figures: dict[str, Any] = {
        "bits_per_byte": evaluated["bits_per_byte"],
        "perplexity_per_word": evaluated["perplexity_per_word"],
        "ceiling": exposure["ceiling"],
        "groups": {name: {k: group[k] for k in ("num_canaries", "mean", "maximum")} for name, group in groups.items()},
        "exposure_missed": groups["missed, trained on"]["mean"],
    }
    found = next((group for name, group in groups.items() if name.startswith("detected, trained on")), None)
    if found is not None:
        figures["exposure_found"] = found["mean"]
    for point in exposure["by_miss_rate"].get("the policies", ()):
        for name in ("mean_exposure", "largest_of_ten", "auc", "auc_of_groups"):
            figures[f"{name}_at_{point['rate']:.1f}"] = point[name]
    return figures


def checked(cell: Cell, scale: Scale, config: Path, folder: Path) -> None:
    """Validates a cell's settings without running it.

    Raises:
        ConfigError, ReticentError: they are wrong.
        KeyError: it names no corpus or function.
    """
    if isinstance(cell.run, Compute | Recorded):
        functions = computed.FUNCTIONS if isinstance(cell.run, Compute) else recorded.FUNCTIONS
        functions[cell.run.function]
    elif isinstance(cell.run, Train):
        corpora.CORPORA[cell.run.corpus]
        made_here = cell.run.model in ("base", "masked")
        variant_of(cell.run, scale, 0, config, folder if made_here else None, {})
    elif not isinstance(cell.run, Impossible):
        raise TypeError(cell.identity)
