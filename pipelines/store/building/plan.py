"""Predicts what a run would do and why, from manifests and digests. Loads no stage, torch, spaCy or orchestrator."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from pipelines.errors import ConfigError
from pipelines.graph import GRAPH, config_references
from pipelines.settings.synthesize import check_writes_rows
from pipelines.settings.tables import config_class
from pipelines.settings.train_checks import check_people, check_replacement
from pipelines.stage import LEFT_OUT, OVERLAY, RELEASES, REVIEWS, SOURCE, Input, Keyed, Stage, Step
from pipelines.stages.audit.domain_choice import check_domain_audit
from pipelines.store.building.lookup import (
    DATA_FILE,
    compute_key,
    find_published,
    must_build,
    recipe_unlike_the_release,
    resolve_key,
    reuse_from_earlier_run,
)
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects.keys import built_with, own_ingredients, selecting
from pipelines.store.objects.session import Session
from pipelines.store.place.outcome import PartitionKeys
from pipelines.training.recipes import recipe_changes
from pipelines.walks import walk

Action = Literal["hit", "stale", "run", "maybe"]
FileNames = Callable[[], Sequence[str]]
"""Returns the names of a stage's data files. It is called only if some of them changed."""
_MOST_NAMES: Final = 8
"""The number of files that one reason names at most."""
_MEASURES: Final = "pipelines/training/scoring/"
"""Code that measures a model and does not make it. If it changes, the stage `evaluate` runs and no model is stale."""


@dataclass(frozen=True)
class Planned:
    """A line of a plan."""

    stage: str
    partition: str | None
    action: Action
    reasons: tuple[str, ...]
    key: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns the line as in the ``plan`` document."""
        stage = GRAPH[self.stage]
        return {
            "stage": stage.table,
            "step": stage.step,
            "partition": self.partition,
            "action": self.action,
            "reasons": list(self.reasons),
            "key": self.key,
        }


def make_plan(session: Session, previous: Mapping[str, Any] | None) -> list[Planned]:
    """Predicts a run.

    ``hit`` is taken from the store, and ``run`` will be built. ``maybe`` waits for the output of a stage that has to
    run. If that output has the same bytes as before, no later stage runs. ``stale`` is a model that stays because only
    an upgrade would make it anew, and the user was not asked (`pipelines.store.building.lookup`).

    Args:
        previous: record of the last run, to explain what changed since.
    """
    plan: list[Planned] = []
    before = {(s, p): k for s, p, k in (previous or {}).get("artifacts", [])}

    def predict(stage: Stage, steps: tuple[Step, ...]) -> list[str | None]:
        own = own_ingredients(session, stage.name)
        if stage.has_recipe:
            own = {**own, **built_with(session, stage.name)}
        names = functools.cache(functools.partial(_file_names, session, stage))
        planned = [_plan_one(session, stage, step, own, before, names) for step in steps]
        plan.extend(planned)
        return [p.key if p.action in ("hit", "stale") else None for p in planned]

    walk(session.partition_names, predict, edges_of=functools.partial(_edges_to_wait_for, session))
    session.stat_cache.save()
    return plan


def present_inputs(session: Session, stage: str, partition: str | None) -> Mapping[str, PartitionKeys]:
    """Returns the stored artifacts that a stage would read under the present settings and code.

    Raises:
        ConfigError: one of them is not stored.
    """
    known: dict[str, list[Keyed]] = {}
    for p in make_plan(session, None):
        if p.action == "hit" and p.key:
            known.setdefault(p.stage, []).append((p.partition, p.key))
    steps = GRAPH[stage].steps(session.partition_names, known, _edges_to_wait_for(session, GRAPH[stage]))
    step = next(step for step in steps if step.partition == partition)
    if step.missing is not None:
        name = GRAPH[step.missing].shown_name
        raise ConfigError(f"stage {name} is not cached under the present settings and code; run it first")
    return step.inputs


def _edges_to_wait_for(session: Session, stage: Stage) -> list[Input]:
    """Returns the edges that a stage reads; one to an optional stage is required if the run may build that stage."""
    return [
        replace(edge, optional=edge.optional and edge.stage not in session.spec.selected)
        for edge in stage.edges_read(session.configs)
    ]


def check_settings(session: Session, plan: Iterable[Planned]) -> None:
    """Checks the settings and input files of every stage that may be built, before any stage runs.

    Raises:
        InputError: input files cannot be read.
        ConfigError: see `pipelines.config.StageConfig.check`.
    """
    planned = {p.stage for p in plan if p.action in ("run", "maybe") and p.stage in session.spec.selected}
    for stage in GRAPH.values():
        if stage.name in planned:
            for table in stage.configs:
                session.configs[table].check(stage.name)
    corpus: Any = session.configs["corpus"]
    if "dedup_keys" in planned:
        dedup: Any = session.configs["dedup"]
        dedup.check_scope(has_owners=corpus.has_owners)
    if planned & {"train_phase1", "train"}:
        train: Any = session.configs["train"]
        redact: Any = session.configs["redact"]
        gate: Any = session.configs["gate"]
        check_replacement(train, redact.replacement)
        guarantee: Any = session.configs["guarantee"]
        holds = redact.conservative is not None and gate.holds
        check_people(train, has_owners=corpus.has_owners, holds=holds, owner_bound=guarantee.owner_bound)
    if "synthesize_rows" in planned:
        check_writes_rows(session.configs["train"])  # type: ignore[arg-type]
    if "audit_domain_models" in planned:
        check_domain_audit(session.configs, (piece for part in session.spec.partitions for piece in part.pieces))


def _plan_one(
    session: Session,
    stage: Stage,
    step: Step,
    own: Mapping[str, Any],
    before: Mapping[tuple[str, str | None], str],
    names: FileNames,
) -> Planned:
    partition, inputs = step.partition, step.inputs
    old = _old_ingredients(session, stage, partition, before)
    if step.missing is not None:
        if stage.has_recipe and not must_build(session, stage.name, partition):
            model = reuse_from_earlier_run(session, stage, inputs)
            if model is not None:  # the model stays, whatever the stages before it produce
                drift = explain(model.made_by, own, None, names)
                return Planned(stage.name, partition, "stale", tuple(drift), model.key)
        waits = f"waits for {GRAPH[step.missing].shown_name}"
        return Planned(stage.name, partition, "maybe", (waits, *explain(old, own, None, names)))
    key, ingredients = resolve_key(session, stage.name, partition, inputs)
    if must_build(session, stage.name, partition):
        return Planned(stage.name, partition, "run", ("forced",), key)
    if (found := find_published(session, stage.name, key)) is not None:
        drift = []
        if own.get("recipe"):
            fresh = compute_key(session, stage.name, partition, inputs)[1]["inputs"]
            drift = explain(found.made_by, own, fresh, names)
        return Planned(stage.name, partition, "stale" if drift else "hit", tuple(drift), key)
    if (kept := manifests.load(session.roots, stage.name, key)) and manifests.PURPOSE in kept.lineage:
        return Planned(stage.name, partition, "run", ("a child run made it: it is published, not made anew",), key)
    reasons = explain(old, own, ingredients["inputs"], names)
    if not reasons and old:
        reasons = ["its files are missing or damaged"]
    elif not reasons:
        source = ingredients["inputs"].get(SOURCE)
        reasons = [_explain_source([], source)] if before and source else ["never run"]
    changes = recipe_unlike_the_release(session, stage, inputs, own.get("recipe", {}))
    reasons += [f"another recipe than the released model's: {change}" for change in changes]
    return Planned(stage.name, partition, "run", tuple(reasons), key)


def _old_ingredients(
    session: Session, stage: Stage, partition: str | None, before: Mapping[tuple[str, str | None], str]
) -> Mapping[str, Any] | None:
    key = before.get((stage.name, partition))
    manifest = manifests.load(session.roots, stage.name, key) if key else None
    return manifest.made_by if manifest else None


def _file_names(session: Session, stage: Stage) -> list[str]:
    """Returns the names of a stage's data files, in the order of their numbers.

    Files of another corpus are named by their number, because their names may be secrets.
    """
    files = (
        (path, config is session.configs["dedup"])
        for config in selecting(session, stage)
        for path in config.data_files()
    )
    return [f"{DATA_FILE} {n}" if is_hidden else Path(path).name for n, (path, is_hidden) in enumerate(files, start=1)]


def explain(
    old: Mapping[str, Any] | None,
    own: Mapping[str, Any],
    inputs: Mapping[str, Any] | None,
    file_names: FileNames = tuple,
) -> list[str]:
    """Lists the differences between the last ingredients and today's, one line each. Quotes settings, never text."""
    if old is None:
        return []
    reasons: list[str] = []
    references = config_references()
    for table in sorted(own["config"].keys() | old["config"].keys()):
        then, now = old["config"].get(table, {}), own["config"].get(table, {})
        reasons += [
            f"config.{table}.{name} changed"
            if name in config_class(references[table]).SENSITIVE
            else f"config.{table}.{name}: {_short(then.get(name))} → {_short(now.get(name))}"
            for name in sorted(then.keys() | now.keys())
            if then.get(name) != now.get(name)
        ]
    if "recipe" in own:
        reasons += [
            f"recipe: {change}" for change in recipe_changes(own["recipe"], old.get("recipe", {}), own["recipe"])
        ]
    code = [name for name in _changed(old["code"], own["code"]) if not name.startswith(DATA_FILE)]
    reasons += [f"code: {name}" for name in code if not ("recipe" in own and name.startswith(_MEASURES))]
    reasons += _explain_files(old["code"], own["code"], file_names)
    then, now = old["environment"], own["environment"]
    reasons += [
        f"package: {name} {then['packages'].get(name, 'absent')} → {now['packages'].get(name, 'absent')}"
        for name in _changed(then["packages"], now["packages"])
    ]
    reasons += [f"{name}: {then[name]} → {now[name]}" for name in ("python", "machine") if then[name] != now[name]]
    if old["seed"] != own["seed"]:
        reasons.append("config.run.seed changed")
    if inputs is not None:
        for name in _changed(old["inputs"], inputs):
            if name == SOURCE:
                reasons.append(_explain_source(old["inputs"].get(name, []), inputs[name]))
            elif name == REVIEWS:
                reasons.append("new reviews")
            elif name == OVERLAY:
                reasons.append("other rows added or left out")
            elif name == LEFT_OUT:
                reasons.append("other files are left out of the corpus")
            elif name == RELEASES:
                reasons.append("other releases on these files, or another redaction")
            else:
                reasons.append(f"output of {GRAPH[name].shown_name} changed")
    return reasons


def _explain_files(old: Mapping[str, Any], own: Mapping[str, Any], names: FileNames) -> list[str]:
    """Names the changed data files. Compares contents, because an added file changes the numbers of the others."""
    then, now = ({n: d for n, d in code.items() if n.startswith(DATA_FILE)} for code in (old, own))
    if then == now:
        return []
    known, num_fewer = set(then.values()), len(then) - len(now)
    called = {f"{DATA_FILE} {number}": name for number, name in enumerate(names(), start=1)}
    others = sorted(called.get(name, name) for name, digest in now.items() if digest not in known)
    shown = [*others[:_MOST_NAMES], *([f"{len(others) - _MOST_NAMES} more"] if len(others) > _MOST_NAMES else [])]
    shown += [f"{num_fewer} fewer"] if num_fewer > 0 else []
    return [f"files: {', '.join(shown) or 'other order'}"]


def _explain_source(old: Iterable[list[Any]], new: Iterable[list[Any]]) -> str:
    then = {(row[0], row[2]): row for row in old}
    now = {(row[0], row[2]): row for row in new}
    parts = [
        (len(now.keys() - then.keys()), "new"),
        (len(then.keys() - now.keys()), "removed"),
        (sum(1 for k in now.keys() & then.keys() if now[k] != then[k]), "changed"),
    ]
    changes = [
        f"{count} {word} file{'s' if count > 1 else ''} or part{'s' if count > 1 else ''}"
        for count, word in parts
        if count
    ]
    return f"input: {', '.join(changes) or 'other order'}"


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
