"""``reticent compare``: trains with several methods and repetitions on one corpus, and shows a table and a figure.

Each variant is a child run of the latest run, cached like any other, and publishes nothing. Each of its models still
counts as a release on the same data, because you may choose any of them by its figures: a run with its settings then
publishes the model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy.stats import t

from flows.commands.ledger import too_large
from flows.commands.run import child_run
from flows.running.progress import Console
from flows.running.spec import make_spec, open_store, read_corpus
from flows.running.spending import checked_releases, spent, trained_key, trusted_text
from pipelines.errors import ConfigError, ReticentError
from pipelines.files import finite, write_atomic, write_json
from pipelines.methods.registry import METHODS, PROTECTIONS, RULES, method
from pipelines.numbers import upper_bound
from pipelines.report.comparison import COMPARED, claims_zero, figures_shown, render_comparison
from pipelines.settings.loading import ENV_PREFIX, ProjectSettings, idle_settings, load_settings
from pipelines.store.objects import runs
from pipelines.store.objects.manifest import load
from pipelines.store.place.roots import Roots
from pipelines.store.place.unlocking import in_plain

if TYPE_CHECKING:
    from pipelines.report.comparison_charts import Figure

FIGURES = (
    *("perplexity_per_word", "bits_per_byte", "perplexity"),
    *("next_token_accuracy", "next_word_accuracy", "accuracy"),
)
SCORES = ("bleu", "rouge_1", "rouge_2", "rouge_l", "nist", "meteor", "cider", "f1", "hits_at_1", "bert_score")
"""Scores of generated text, if the task generates any."""
_MORE_FIGURES = (
    *("task", "perplexity_at_initialisation", "loss_per_token", "loss_per_token_standard_error"),
    *("accuracy_at_initialisation", "accuracy_standard_error", "accuracy_by_class", "num_eval_sentences"),
    *("num_steps", "noise_multiplier", "num_private_records", "num_public_records"),
)


CHOICE = (
    "a model that is chosen by these figures, which are on held-out text (taken to be public), is covered by the claim "
    "of all releases together, not by its own alone; chosen by scores on private text, by none: say so with "
    'guarantee.chosen_by = "private_scores"'
)


@dataclass(frozen=True)
class Variant:
    """A training of the comparison.

    Attributes:
        method: training method; ``jft/light_noise`` names a variant of a method
        repetition: value of `train.repetition`
        settings: further overrides, by environment variable
        dropped: settings that are left out because the method does not give their protection
    """

    config: Path
    method: str
    repetition: int
    settings: Mapping[str, str]
    dropped: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """The overrides as environment variables."""
        name, _, variant = self.method.partition("/")
        own = {"TRAIN__METHOD": name, "TRAIN__REPETITION": str(self.repetition)}
        if variant:
            own[f"TRAIN__{method(name).variant_setting}".upper()] = variant
        # An empty variable removes the file's value.
        own |= {name.replace(".", "__").upper(): "" for name in self.dropped}
        return {**self.settings, **{ENV_PREFIX + name: value for name, value in own.items()}}


def compare_document(
    configs: Sequence[Path],
    environ: Mapping[str, str],
    *,
    methods: Sequence[str],
    repetitions: int | None,
    overrides: Sequence[str],
) -> dict[str, Any]:
    """Runs every variant and compares their figures.

    A variant that fails is listed with the reason, and the others go on.

    Returns:
        A dictionary of ``variants`` (one object each), ``methods`` (means over repetitions with 95 % intervals),
        ``together`` (the ledger's sum) and ``outputs``.

    Raises:
        ConfigError, InputError: the settings or the input are wrong. Nothing ran.
    """
    variants = [
        without_idle(variant, environ)
        for variant in make_variants(configs, environ, methods=methods, repetitions=repetitions, overrides=overrides)
    ]
    called = labels(list(dict.fromkeys(variant.config for variant in variants)))
    rows = [{"config": called[variant.config], **run_variant(variant, environ)} for variant in variants]
    store = open_store(load_settings(configs[0], environ, refuses_idle=False))
    together = _together(configs, environ, {row["model"] for row in rows if row.get("model")})
    document: dict[str, Any] = {"variants": rows, "methods": _summary(rows), "together": together}
    folder = store.private / "comparisons" / runs.new_run_id()
    folder.mkdir(parents=True, mode=0o700)
    document["outputs"] = {"json": str(folder / "comparison.json"), "html": str(folder / "comparison.html")}
    write_json(folder / "comparison.json", document)

    write_atomic(folder / "comparison.html", render_comparison(document).encode())
    return document


def make_variants(
    configs: Sequence[Path],
    environ: Mapping[str, str],
    *,
    methods: Sequence[str],
    repetitions: int | None,
    overrides: Sequence[str],
) -> list[Variant]:
    """Returns the trainings of a comparison. The arguments are those of `compare_document`.

    A method that is named twice counts once, because two rows of one training would look like equal repetitions.

    Raises:
        ConfigError: a method or override is unknown, or there is only one training and nothing to compare it with.
    """
    extra = dict(_override(text) for text in overrides)
    variants = []
    for config in {config.resolve(): config for config in configs}.values():
        settings = _load(config, environ, extra)
        names = tuple(methods) or settings.sweep.methods or (_own_method(settings),)
        for name in names:
            _check_method(name)
        count = repetitions if repetitions is not None else settings.sweep.repetitions
        variants += [Variant(config, name, number, extra) for name in dict.fromkeys(names) for number in range(count)]
    if len(variants) < 2:
        raise ConfigError(
            "nothing to compare with: name methods (--methods crt,dpsgd, or [sweep] methods), more repetitions, "
            "or several settings files. One training alone is `reticent run`"
        )
    return variants


def _load(config: Path, environ: Mapping[str, str], extra: Mapping[str, str]) -> ProjectSettings:
    """Loads the settings with the overrides of ``--set``. Errors name the overrides in the form that the user gave."""
    try:
        return load_settings(config, {**environ, **extra}, refuses_idle=False)
    except ConfigError as error:
        text = str(error)
        for name in extra:
            given = name.removeprefix(ENV_PREFIX).replace("__", ".").lower()
            text = text.replace(f"environment variable {name}:", f"--set {given}:")
        raise ConfigError(text) from None


def labels(configs: Sequence[Path]) -> dict[Path, str | None]:
    """Returns each settings file's label: its name if that is unique, else its path; None for a single file."""
    if len(configs) < 2:
        return dict.fromkeys(configs)
    names = {config.name for config in configs}
    return {config: config.name if len(names) == len(configs) else str(config) for config in configs}


def without_idle(variant: Variant, environ: Mapping[str, str]) -> Variant:
    """Removes protections from the variant that its method does not give, because a run would refuse them.

    Raises:
        ConfigError: the settings are wrong for another reason.
    """
    settings = load_settings(variant.config, {**environ, **variant.environment}, refuses_idle=False)
    given = [name for name in idle_settings(settings.stages["train"]) if name in PROTECTIONS]
    found = replace(variant, dropped=tuple(f"train.{name}" for name in given))
    load_settings(found.config, {**environ, **found.environment})
    return found


def _override(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    table, dot, field = name.strip().partition(".")
    if not (equals and dot and table and field):
        raise ConfigError(f"--set {text}: write table.field=value, e.g. train.noise_multiplier=1.0")
    return f"{ENV_PREFIX}{table}__{field}".upper(), value.strip()


def _own_method(settings: ProjectSettings) -> str:
    train: Any = settings.stages["train"]
    return f"{train.method}/{train.variant()}" if train.variant() else str(train.method)


def _check_method(name: str) -> None:
    found, _, variant = name.partition("/")
    try:
        rules = method(found).rules
        is_known = not variant or variant in rules
    except ConfigError:
        is_known = False
    if not is_known:
        raise ConfigError(
            f"there is no training method {name}; known are {', '.join(dict.fromkeys((*METHODS, *RULES)))}"
        )


def run_variant(variant: Variant, environ: Mapping[str, str]) -> dict[str, Any]:
    """Runs one training with all stages before and after it, or finds it in the store, and returns its figures.

    Returns:
        A dictionary of figures, in which ``state`` is ``completed``, or ``failed`` with the ``reason``.
    """
    row: dict[str, Any] = {"method": variant.method, "repetition": variant.repetition, "dropped": list(variant.dropped)}
    try:
        settings = load_settings(variant.config, {**environ, **variant.environment})
        roots = open_store(settings)
        latest = runs.latest(roots)
        spec = make_spec(settings, read_corpus(settings, roots, read=True))
        parent = spec if latest is None else replace(spec, run_id=latest["run_id"])
        for warning in settings.warnings:
            Console().say(f"warning: {warning}")
        record = child_run(parent, purpose="comparison")
    except ReticentError as error:
        return {**row, "state": "failed", "reason": str(error)}
    return {**row, "state": "completed", "run_id": record["run_id"], **_figures(roots, record)}


def _figures(roots: Roots, record: Mapping[str, Any]) -> dict[str, Any]:
    def read(stage: str, file: str) -> dict[str, Any]:
        found: dict[str, Any] = roots.private_files(stage, str(runs.key_in(record, stage))).find_json(file) or {}
        return found

    figures = read("train", "figures.json") | read("evaluate", "figures.json")
    events, claims = read("train", "events.json"), read("guarantee", "claims.json")
    headline = claims["claims"][claims["headline"]] if claims.get("headline") is not None else None
    builds = [load(roots, name, key) for name, _, key in record["artifacts"] if name in ("train_phase1", "train")]
    return {
        **{name: figures.get(name) for name in (*FIGURES, *_MORE_FIGURES)},
        **{name: figures.get("scores", {}).get(name) for name in SCORES},
        "record": events["record"],
        "delta": events["target_delta"],
        "epsilon_unamplified": claims["claims"][0].get("epsilon_unamplified") if claims.get("claims") else None,
        "model": trained_key(roots, record),
        "headline": None
        if headline is None
        else {name: headline[name] for name in ("notion", "epsilon", "delta", "is_guarantee", "theorem")},
        # Duration of the build itself: a cached training took no time in this run.
        "train_seconds": round(sum(build.seconds for build in builds if build is not None), 1),
    }


def _together(configs: Sequence[Path], environ: Mapping[str, str], models: Collection[str]) -> dict[str, Any] | None:
    """Sums up the ledger's entries of the comparison's models and of earlier models on the same files.

    Args:
        configs: settings files; if they have several stores or groups, the group with the most releases is returned
        models: keys under which the models of the comparison were trained

    Returns:
        A dictionary of ``num_releases``, ``epsilon`` (None: no bound), ``delta`` (None without a release),
        ``num_trusted`` (models trained without noise, which stay on the trusted side) and ``not_guaranteed_because``;
        None if the ledger knows no model.
    """
    settings = [load_settings(config, environ, refuses_idle=False) for config in configs]
    groups = [group for one in settings for group in spent(one.stages["guarantee"], checked_releases(open_store(one)))]  # type: ignore[arg-type]
    ours = [group for group in groups if group.has_model(models)]
    if not ours:
        return None
    most = max(ours, key=lambda group: len(group.counted))
    return {
        "num_releases": len(most.counted),
        "epsilon": finite(most.epsilon),
        "delta": most.delta,
        "num_trusted": most.num_trusted,
        "not_guaranteed_because": too_large(most.counted, most.delta),
    }


def _summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, Any], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["state"] == "completed":
            groups.setdefault((row["config"], row["method"]), []).append(row)
    return [
        {
            "config": config,
            "method": method,
            "num_repetitions": len(found),
            "epsilon_unamplified": found[0]["epsilon_unamplified"],
            "headline": found[0]["headline"],
            "train_seconds": round(sum(row["train_seconds"] for row in found) / len(found), 1),
            **{name: _mean([row.get(name) for row in found], COMPARED[name]) for name in (*FIGURES, *SCORES)},
        }
        for (config, method), found in groups.items()
    ]


def _mean(values: Sequence[float | None], figure: Figure) -> dict[str, float | None]:
    """Returns mean and 95 % Student-t interval, cut to the figure's range. One value has no interval."""
    known = [value for value in values if value is not None]
    if not known:
        return {"mean": None, "low": None, "high": None}
    mean = math.fsum(known) / len(known)
    if len(known) == 1:
        return {"mean": mean, "low": None, "high": None}

    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1) / len(known))
    half = float(t.ppf(0.975, len(known) - 1)) * spread
    return {"mean": mean, "low": max(mean - half, figure.least), "high": min(mean + half, figure.most)}


def compare_text(document: Mapping[str, Any]) -> str:
    """Formats the table for a terminal."""
    main, *more = figures_shown(document["methods"])
    titles = [COMPARED[name].title for name in more]
    head = ("method", COMPARED[main].title, "95 % interval", *titles, "epsilon*", "claim", "seconds")
    lines: list[tuple[str, ...]] = [head]
    for row in document["methods"]:
        figure = row[main]
        low, high = figure["low"], figure["high"]
        claim = row["headline"]
        lines.append(
            (
                " ".join(part for part in (row["config"], row["method"]) if part),
                _short(figure["mean"]),
                f"{_short(low)} - {_short(high)}" if low is not None else f"{row['num_repetitions']} repetition",
                *(_short(row[name]["mean"]) for name in more),
                upper_bound(row["epsilon_unamplified"]) if row["epsilon_unamplified"] is not None else "none",
                f"{claim['notion']} {upper_bound(claim['epsilon'])}" if claim else "none",
                f"{row['train_seconds']:.0f}",
            )
        )
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    is_left = [title in ("method", "95 % interval", "claim") for title in head]
    table = [
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, is_left, strict=True)
        ).rstrip()
        for line in lines
    ]
    shown = [*_cost(document["together"]), *table]
    dropped = dict.fromkeys((row["method"], *row["dropped"]) for row in document["variants"] if row["dropped"])
    shown += [f"{method} gives no such protection, so left out: {', '.join(names)}" for method, *names in dropped]
    failed = [row for row in document["variants"] if row["state"] == "failed"]
    shown += [f"failed: {row['method']}, repetition {row['repetition']}: {row['reason']}" for row in failed]
    shown.append("* of the training as a whole, replace-one, no credit for redaction; none: a part of it has no noise")
    if any(map(claims_zero, document["methods"])):
        shown.append("a claim of 0 is about masked secrets only: it says nothing about secrets that redaction missed")
    shown.append(CHOICE)
    page = document["outputs"]["html"]
    return "\n".join([*shown, f"page: {page}", *in_plain(Path(page))])


def _cost(whole: Mapping[str, Any] | None) -> list[str]:
    """Formats the joint cost of the comparison's models and of earlier models on the same files."""
    if whole is None:
        return []
    num, trusted = whole["num_releases"], whole["num_trusted"]
    bound = "no bound"
    if whole["epsilon"] is not None:
        bound = f"epsilon {upper_bound(whole['epsilon'])}, delta {upper_bound(whole['delta'])}"
    lines = [f"{num} release{'s on these files together' if num > 1 else ''}: {bound} (reticent ledger)"] if num else []
    lines += [f"no guarantee: {because}"] if (because := whole["not_guaranteed_because"]) else []
    lines += [trusted_text(trusted)] if trusted else []
    return [*lines, "below, each model alone"]


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}"
