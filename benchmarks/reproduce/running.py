"""The run of one cell with one seed: a run of the pipeline, an audit, or a calculation."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from flows.commands.compare import Variant, run_variant, without_idle
from flows.running.fetching import fetch
from pipelines.settings.loading import ENV_PREFIX, load_settings

from . import base, computed, corpora, recorded, results
from .cache import DONE, cached, content_key
from .cells import Audit, Cell, Compute, Impossible, Recorded, Scale, Secrets, Train, settings_of
from .papers import CELLS

CANDIDATES: Final = 10_000


class Clock(NamedTuple):
    """A pair of times in seconds: of the wall, and of processors, with finished children."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Clock:
        used = os.times()
        return cls(time.monotonic(), used.user + used.system + used.children_user + used.children_system)


class NotReadyError(Exception):
    """An error: the starting point is not complete."""


class FailedError(Exception):
    """An error of a run of the pipeline; the message is its reason."""


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """The folders and models of cells.

    Attributes:
        data_dir: folder of data sets.
        work: folder of artifacts and stores.
        results: folder of finished results.
        minutes: time that the starting point may take in this call.
        models: folders, by the name on the hub of the model that lies there; ``made`` stands for the starting point
            of this benchmark.
    """

    data_dir: Path
    work: Path
    results: Path = results.RESULTS
    minutes: float = 60.0
    models: Mapping[str, str] = field(default_factory=dict)


def run_cell(cell: Cell, scale: Scale, seed: int, place: Workplace, *, again: bool = False) -> Path:
    """Runs a cell and writes its result.

    Raises:
        NotReadyError, FailedError: nothing was written.
        FileExistsError: a result exists, and ``again`` is not set.
    """
    if results.read(place.results, cell, scale, seed) is not None and not again:
        raise FileExistsError(f"{cell.identity}, seed {seed}: there is a result; --again makes it anew")
    started, about, same = Clock.now(), None, None
    if isinstance(cell.run, Train):
        settings = settings_of(cell.run, scale)
        same = None if again else of_same_run(cell, scale, seed, place)
        if same is not None:
            about, figures = same["starting_point"], same["figures"]
        else:
            name = cell.run.model_at(scale)
            folder = model_of(name, scale, place)
            about, figures = starting_point_of(name, folder), trained(cell.run, scale, seed, place, folder)
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
        seconds=same["wall_seconds"] if same else Clock.now().wall - started.wall,
        cpu_seconds=same.get("cpu_seconds") if same else Clock.now().cpu - started.cpu,
        base=about,
        same_run_as=same["cell"] if same else None,
        again=again,
    )


def of_same_run(cell: Cell, scale: Scale, seed: int, place: Workplace) -> dict[str, Any] | None:
    """Finds a finished result of another cell that is another figure of the same run; no model has to be there."""
    run = cell.run
    assert isinstance(run, Train)

    def decided(settings: Mapping[str, Any]) -> dict[str, Any]:
        return {**corpora.DEFAULTS, **settings}

    settings = decided(settings_of(run, scale))
    for other in CELLS:
        if (
            other.identity == cell.identity
            or type(other.run) is not type(run)
            or decided(settings_of(other.run, scale)) != settings
        ):
            continue
        found = results.read(place.results, other, scale, seed)
        if (
            found is not None
            and decided(found["settings"]) == settings
            and _began_alike(found["starting_point"], run.model_at(scale), scale, place)
            and found["figures"].get(cell.measure) is not None
        ):
            return found
    return None


def _began_alike(about: Mapping[str, Any] | None, name: str, scale: Scale, place: Workplace) -> bool:
    """Tells if a result began with the model that a cell of that model would begin with now."""
    recipe = _recipe_of(name, scale, place)
    if recipe is not None:
        return about is not None and about.get("key") == base.key_of(place.data_dir, recipe)
    given = place.models.get(name)
    return about == starting_point_of(name, Path(given) if given is not None else None)


def _recipe_of(name: str, scale: Scale, place: Workplace) -> base.Recipe | None:
    """Returns the recipe of a model that is pre-trained here; None for other models."""
    if name == "half":
        return base.HALF
    return base.RECIPES[scale] if name == "base" or place.models.get(name) == "made" else None


def model_of(name: str, scale: Scale, place: Workplace) -> Path | None:
    """Returns the folder of a model; None if the pipeline knows the model by name."""
    recipe, given = _recipe_of(name, scale, place), place.models.get(name)
    if recipe is not None:
        folder = base.starting_point(place.data_dir, place.work, recipe, place.minutes)
        if folder is None:
            raise NotReadyError("the starting point is not complete; the same command goes on with it")
        return folder
    if name == "masked":
        from task_scores import masked_model

        def make(folder: Path) -> dict[str, Any]:
            masked_model(place.data_dir, folder)
            return {"name": "MiniLM with a masked head learnt on WikiText-2"}

        return cached(place.work / "masked", content_key({"version": 1}), make)
    return Path(given).absolute() if given is not None else None


def starting_point_of(name: str, folder: Path | None) -> dict[str, Any] | None:
    """Describes the initial model for a result; None for a model of a package."""
    if folder is not None and (folder / DONE).exists():
        known = base.written(folder)
        if "perplexity_a_word_of_sentences" not in known:
            return None
        return {"key": folder.name, "perplexity_a_word": round(known["perplexity_a_word_of_sentences"], 1)}
    return {"name": name} if "/" in name else None


def environment(run: Train, scale: Scale, folder: Path | None) -> dict[str, str]:
    settings = {"train.model": str(folder) if folder is not None else run.model_at(scale), **run.settings(scale)}
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
    elif isinstance(run, Secrets):
        settings |= {"audit.enabled": "true", "audit.num_secrets": str(run.secrets)}
    return {f"{ENV_PREFIX}{name.replace('.', '__').upper()}": value for name, value in settings.items()}


def variant_of(
    run: Train, scale: Scale, seed: int, config: Path, folder: Path | None, environ: Mapping[str, str]
) -> Variant:
    """Returns a run as ``reticent compare`` has it.

    Raises:
        ConfigError: the settings are wrong.
    """
    variant = Variant(config, run.method, seed, environment(run, scale, folder))
    return without_idle(variant, environ)


def trained(run: Train, scale: Scale, seed: int, place: Workplace, folder: Path | None) -> dict[str, Any]:
    """Returns the figures of a run; the store has them if it ran before."""
    config = corpora.prepared(run.corpus, place.data_dir, place.work, scale)
    variant = variant_of(run, scale, seed, config, folder, os.environ)
    if isinstance(run, Audit):
        return audited(variant)
    if isinstance(run, Secrets):
        return asked_about_secrets(variant)
    if run.method == "jft/manual_screening":
        from methods_table import screen

        screen(run.corpus, config, {**os.environ, **variant.environment})
    row = run_variant(variant, os.environ)
    if row["state"] != "completed":
        raise FailedError(str(row.get("reason")))
    figures = {name: value for name, value in row.items() if isinstance(value, int | float)}
    if row.get("accuracy") is not None:
        figures["accuracy_percent"] = 100 * row["accuracy"]
    return figures | more_figures(variant)


def documents(variant: Variant, *stages: str) -> Callable[[str, str], dict[str, Any]]:
    """Returns a reader of JSON files by stage and name; missing stages are built first."""
    session, keys = fetch(load_settings(variant.config, {**os.environ, **variant.environment}), *stages)

    def document(stage: str, name: str) -> dict[str, Any]:
        ((_, key),) = keys[stage]
        found: dict[str, Any] = session.roots.private_files(stage, key).json(name)
        return found

    return document


def more_figures(variant: Variant) -> dict[str, float]:
    """Returns perplexities of the policies' finds in held-out text and of the rest; for jft, also around phase 1."""
    is_jft = variant.method.startswith("jft")
    document = documents(variant, "train_utility", *(("train_phase1",) if is_jft else ()))
    groups = document("train_utility", "figures.json")["groups"]
    found = {
        "private_perplexity": groups["private"].get("perplexity"),
        "perplexity_per_word_but_secrets": groups["public"].get("perplexity_per_word"),
    }
    if is_jft:
        phase = document("train_phase1", "phase.json")
        after = phase["curve"][-1]["evaluation"] if phase["curve"] else phase["before"]
        for when, scored in (("before", phase["before"]), ("after", after)):
            found[f"perplexity_per_word_{when}_phase_1"] = scored["perplexity_per_word"]
    return {name: value for name, value in found.items() if value is not None}


def audited(variant: Variant) -> dict[str, Any]:
    """Runs an audit, and returns the figures of canaries and held-out text."""
    document = documents(variant, "evaluate", "audit_canaries")
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


def asked_about_secrets(variant: Variant) -> dict[str, Any]:
    """Asks the released model about single secrets, and returns figures by measure, label and way of asking."""
    document = documents(variant, "evaluate", "audit_secrets")
    figures = {"perplexity_per_word": document("evaluate", "figures.json")["perplexity_per_word"]}
    for attack in document("audit_secrets", "secrets.json").get("attacks", ()):
        of = f"{attack['label']}, {attack['kind']}"
        figures[f"accuracy of {of}"] = 100 * attack["accuracy"]
        figures[f"surest of {of}"] = 100 * attack["refined_accuracy"]
        figures[f"AUC of {of}"] = attack["auc"]
        figures[f"above texts of {of}"] = attack["auc"] - max(0.5, attack["blind_auc"])
        if attack["group_auc"] is not None:
            figures[f"groups of {of}"] = attack["group_auc"]
            figures[f"groups by texts of {of}"] = attack["group_blind_auc"]
    return figures


def checked(cell: Cell, scale: Scale, config: Path, folder: Path) -> None:
    """Validates a cell's settings without running it.

    Raises:
        ConfigError, ReticentError: the settings are wrong.
        KeyError: the cell names no corpus or function.
    """
    if isinstance(cell.run, Compute | Recorded):
        functions = computed.FUNCTIONS if isinstance(cell.run, Compute) else recorded.FUNCTIONS
        functions[cell.run.function]
    elif isinstance(cell.run, Train):
        corpora.CORPORA[cell.run.corpus]
        made_here = cell.run.model_at(scale) in ("base", "half", "masked")
        variant_of(cell.run, scale, 0, config, folder if made_here else None, {})
    elif not isinstance(cell.run, Impossible):
        raise TypeError(cell.identity)
