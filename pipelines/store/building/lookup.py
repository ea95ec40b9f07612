"""Finds the stored artifact of a stage. A model may be an older one, so that an upgrade never retrains.

Training again is a second release, which costs epsilon once more. So an upgrade of Reticent must not start one. The key
of a stage with a recipe (`pipelines.stage.Stage.has_recipe`) holds declared versions in place of code. If no artifact
has that key, the store uses one of these instead:

* an artifact made from the same inputs, settings and seed, by any code and recipe;
* the artifact of the newest earlier run whose inputs differ only because of code, packages or new settings. Raw text,
  seed, and the settings that existed then, are the same. Settings files may share a store, so that run need not be the
  last one.

Such a model is *stale*. `plan` says so and gives the reasons, and with `--force train` the user consents to a new one.
The guarantee decides what may be claimed of a stale model (`releases_for`).

Models of the audit are found in the same way. Each stands for the run's release (`pipelines.stage.Stage.stands_for`),
so there is one more condition. A model of the first kind must have the recipe of that release. One of the second kind
must come from a run that used the same release. If there is none, the model is trained by the present recipe. `plan`
and the audit then say where the recipe of the release differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pipelines.context import Releases
from pipelines.graph import GRAPH, config_references
from pipelines.settings.tables import config_class
from pipelines.stage import OUTSIDE, RELEASES, REVIEWS, SOURCE, Stage
from pipelines.store.ledger.releases import digest_of, releases_on_files
from pipelines.store.objects import manifest as manifests
from pipelines.store.objects import runs
from pipelines.store.objects.ingredients import ingredients_of
from pipelines.store.objects.keys import code_of_others, make_key, own_ingredients, source_digest
from pipelines.store.objects.manifest import Manifest
from pipelines.store.objects.publish import joint_manifest_damage
from pipelines.store.objects.session import Session
from pipelines.store.place.ledger_file import LedgerError
from pipelines.store.place.outcome import PartitionKeys
from pipelines.store.place.roots import Roots
from pipelines.store.place.seals import SealError
from pipelines.training.recipes import recipe_changes
from pipelines.walks import upstream

DATA_FILE: Final = "data file"
"""Prefix that tells the digests of data files from those of code."""


def input_digests(
    session: Session, stage: str, partition: str | None, inputs: Mapping[str, PartitionKeys]
) -> dict[str, object]:
    """Returns the digests of those inputs that the stage's edges and settings say it reads.

    Raises:
        LookupError: the given inputs are not those that the graph declares.
        StoreError: an input's artifact is gone.
    """
    declared = {edge.stage for edge in GRAPH[stage].inputs} - OUTSIDE
    edges = (edge for edge in GRAPH[stage].edges_read(session.configs) if edge.stage not in OUTSIDE)
    read = [edge for edge in edges if edge.stage in inputs or not edge.optional]
    if not {edge.stage for edge in read} <= inputs.keys() <= declared:
        raise LookupError(f"stage {stage} reads {sorted(declared)}, was given {sorted(inputs)}")
    digests: dict[str, object] = {}
    for edge in (edge for edge in read if edge.in_key):
        name = edge.stage
        files = tuple(f.format(partition=partition) for f in edge.files)
        found = [[p, manifests.of_input(session.roots, name, key).output_digest(files)] for p, key in inputs[name]]
        if edge.partitions == "all":
            digests[name] = found
        else:
            if len(found) != 1:
                raise LookupError(f"stage {stage} reads one {name}, was given {len(found)}")
            digests[name] = found[0][1]
    return digests


def compute_key(
    session: Session, stage: str, partition: str | None, inputs: Mapping[str, PartitionKeys]
) -> tuple[str, dict[str, Any]]:
    """Computes the key, and its ingredients, of the output that the stage would make now from these inputs."""
    ingredients = ingredients_of(session, stage, partition, input_digests(session, stage, partition, inputs))
    if GRAPH[stage].reads(RELEASES):
        ingredients["inputs"][RELEASES] = _releases_digest(session, stage, partition, inputs)
    return make_key(session, ingredients), ingredients


def resolve_key(
    session: Session, stage: str, partition: str | None, inputs: Mapping[str, PartitionKeys]
) -> tuple[str, dict[str, Any]]:
    """Returns the key of the artifact to use, and its ingredients: the computed key, or that of a stale model."""
    key, ingredients = compute_key(session, stage, partition, inputs)
    if not GRAPH[stage].has_recipe or must_build(session, stage, partition) or find_any_build(session, stage, key):
        return key, ingredients
    model = _reuse_for_upgrade(session, GRAPH[stage], ingredients, inputs)
    return (key, ingredients) if model is None else (model.key, dict(model.lineage["ingredients"]))


def find_published(session: Session, stage: str, key: str) -> Manifest | None:
    """Returns a verified artifact, or None. A release run ignores what a child run built and did not publish.

    Takes no lock and repairs nothing.
    """
    manifest = find_any_build(session, stage, key)
    is_private = session.spec.purpose == "release" and manifest is not None and manifests.PURPOSE in manifest.lineage
    return None if is_private else manifest


def find_any_build(session: Session, stage: str, key: str) -> Manifest | None:
    """Returns a verified artifact, even if a child run made it and did not publish it; None if there is none."""
    manifest = manifests.load(session.roots, stage, key)
    if manifest is None:
        return None
    if (stage, key) not in session.verified:
        full = session.spec.runtime.verify == "full"
        if full and joint_manifest_damage(session.roots, manifest):
            return None
        if manifests.damage(session.roots, manifest, full=full):
            return None
        session.verified.add((stage, key))
    return manifest


def must_build(session: Session, stage: str, partition: str | None) -> bool:
    """Returns True if the run was asked to rebuild this stage and has not done so yet."""
    return stage in session.spec.forced and (stage, partition) not in session.built


def _reuse_for_upgrade(
    session: Session, stage: Stage, ingredients: Mapping[str, Any], inputs: Mapping[str, PartitionKeys]
) -> Manifest | None:
    """Finds an older artifact to use in place of one that only an upgrade would make anew."""
    if (model := reuse_from_earlier_run(session, stage, inputs)) is not None:
        return model
    # Published artifacts come first: using one that a comparison made would publish it, though nothing is built.
    for manifest in sorted(_newest_first(session.roots, stage.name), key=lambda m: manifests.PURPOSE in m.lineage):
        made_of = manifest.lineage["ingredients"]
        if (
            made_of["inputs"] == ingredients["inputs"]
            and _has_same_settings(made_of, ingredients)
            and not recipe_unlike_the_release(session, stage, inputs, made_of.get("recipe", {}))
            and (model := find_any_build(session, stage.name, manifest.key)) is not None
        ):
            return model
    return None


def recipe_unlike_the_release(
    session: Session, stage: Stage, inputs: Mapping[str, PartitionKeys], recipe: Mapping[str, int]
) -> list[str]:
    """Lists where a recipe differs from that of the release that a stage's model stands for, if it stands for one."""
    if stage.stands_for is None:
        return []
    ((_, key),) = inputs[stage.stands_for]
    released = manifests.of_input(session.roots, stage.stands_for, key).recipe
    return recipe_changes(own_ingredients(session, stage.stands_for)["recipe"], released, recipe)


def reuse_from_earlier_run(session: Session, stage: Stage, inputs: Mapping[str, PartitionKeys]) -> Manifest | None:
    """Finds the artifact of the newest run with the same settings and raw text. Its other inputs may differ now.

    Args:
        inputs: artifacts of the stages before it, as far as they are known. A model of the audit is not found without
            the release that it stands for.
    """
    release = stage.stands_for
    if session.spec.purpose != "release" or (release is not None and release not in inputs):
        return None
    own = own_ingredients(session, stage.name)
    for record in runs.records(session.roots):
        if runs.is_child(record) or record.get("trained_by"):
            continue  # the model was not made from this run's text
        made = {(s, p): key for s, p, key in record.get("artifacts", [])}
        if release is not None and (None, made.get((release, None))) not in inputs[release]:
            continue  # it stood for another release
        key = made.get((stage.name, None))
        model = manifests.load(session.roots, stage.name, key) if key else None
        if (
            model is not None
            and "ingredients" in model.lineage
            and _has_same_settings(model.lineage["ingredients"], own)
            and _only_code_changed(session, stage, made)
            and find_published(session, stage.name, model.key) is not None
        ):
            return model
    return None


def _newest_first(roots: Roots, stage: str) -> list[Manifest]:
    paths = (roots.private / "manifests" / stage).glob("*.json")
    newest_first = sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.stem), reverse=True)
    loaded = [manifests.load(roots, stage, path.stem) for path in newest_first]
    return [manifest for manifest in loaded if manifest is not None and "ingredients" in manifest.lineage]


def _has_same_settings(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return (
        then.get("seed") == now["seed"]
        and then.get("purpose") == now.get("purpose")
        and _plugins_of(then, now.get("plugins", {})) == now.get("plugins", {})
        and _data_of(then, now["data"]) == now["data"]
        and same_values(then.get("config", {}), now["config"])
    )


def _data_of(ingredients: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Returns digests of a model's data other than the corpus. Reticent 0.1.0 stored them with code and packages."""
    if "data" in ingredients:
        return dict(ingredients["data"])
    files = {name: digest for name, digest in ingredients.get("code", {}).items() if name.startswith(DATA_FILE)}
    packages = ingredients.get("environment", {}).get("packages", {})
    return files | {name: packages.get(name) for name in names if not name.startswith(DATA_FILE)}


def _plugins_of(ingredients: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Returns digests of the code of other packages. Keys without a recipe hold them among those of Reticent's code."""
    if "recipe" in ingredients:
        return dict(ingredients.get("plugins", {}))
    return {name: ingredients.get("code", {}).get(name) for name in names}


def same_values(then: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> bool:
    """Compares settings. A setting that only one side has must be at its default: a version added or removed it."""
    references = config_references()
    for table in then.keys() | now.keys():
        defaults = _defaults(references[table]) if table in references else {}
        old, new = then.get(table, {}), now.get(table, {})
        for name in old.keys() | new.keys():
            if (name not in old and name not in defaults) or (name not in new and name not in defaults):
                return False
            if old.get(name, defaults.get(name)) != new.get(name, defaults.get(name)):
                return False
    return True


def _defaults(reference: str) -> dict[str, Any]:
    fields = config_class(reference).model_fields
    values = {n: field.get_default(call_default_factory=True) for n, field in fields.items() if not field.is_required()}
    as_in_manifest: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return as_in_manifest


def _only_code_changed(session: Session, stage: Stage, made: Mapping[tuple[str, str | None], str]) -> bool:
    """Checks that what a stage reads differs from an earlier run only because of code, packages or new settings."""
    for name in upstream([stage.name], session.configs) - OUTSIDE - {stage.name}:
        then = {partition: key for (s, partition), key in made.items() if s == name}
        if not then and name != "split":
            continue  # the stage is new
        if then.keys() != set(session.partition_names(name)) and not GRAPH[name].own_partitions:
            return False
        for partition, key in then.items():
            manifest = manifests.load(session.roots, name, key)
            if manifest is None or not _has_same_user_inputs(session, name, partition, manifest.lineage["ingredients"]):
                return False
    return True


def _has_same_user_inputs(session: Session, stage: str, partition: str | None, old: Mapping[str, Any]) -> bool:
    """Checks that a stage has the same seed, settings, input files and plug-in code as in the earlier run."""
    own = own_ingredients(session, stage)
    code = {**old.get("code", {}), **old.get("plugins", {})}
    return (
        old["seed"] == own["seed"]
        and _same_inputs_from_outside(session, stage, partition, old)
        and _may_come_of_an_upgrade(old["config"], own["config"])
        and _data_of(old, own.get("data", ())) == _data_of(own, ())
        and all(code.get(name) == digest for name, digest in code_of_others(session, stage).items())
    )


def _may_come_of_an_upgrade(then: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> bool:
    """Compares settings like `same_values`, but ignores settings that are gone, and tables that are new."""
    known = {table: {n: v for n, v in old.items() if n in now.get(table, {})} for table, old in then.items()}
    return same_values(known, {table: now.get(table, {}) for table in then})


def _same_inputs_from_outside(session: Session, stage: str, partition: str | None, then: Mapping[str, Any]) -> bool:
    old = then["inputs"]
    outside = {edge.stage for edge in GRAPH[stage].edges_read(session.configs)} & OUTSIDE
    if SOURCE in outside and partition is not None:
        return bool(old.get(SOURCE) == source_digest(session.roots.secret, session.pieces(partition)))
    reviews = session.spec.reviews
    if stage == "gate" and "on_hit" not in then["config"].get("gate", {}):
        return True  # the gate of that version read no reviews
    return REVIEWS not in outside or old.get(REVIEWS) == (reviews.digest if reviews else None)


def releases_for(
    session: Session, stage: str, partition: str | None, inputs: Mapping[str, PartitionKeys]
) -> Releases | None:
    """Returns the earlier releases and facts about the run's model. None for a stage that does not read `RELEASES`.

    Raises:
        LedgerError: the ledger is not as it was written.
    """
    if not GRAPH[stage].reads(RELEASES):
        return None
    ((_, key),) = inputs["train"]
    model = manifests.of_input(session.roots, "train", key)
    return replace(
        releases_on_files(session, dict(inputs["redact"])),
        is_current=_reads_present_text(session, model, input_digests(session, stage, partition, inputs)),
        recipe=dict(model.recipe),
    )


def _releases_digest(session: Session, stage: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> str:
    """Returns the part of a key that stands for the releases. A damaged ledger stops the stage when it is built."""
    try:
        releases = releases_for(session, stage, partition, inputs)
    except (LedgerError, SealError):
        return "damaged"
    return digest_of(releases) if releases else ""


def _reads_present_text(session: Session, model: Manifest, digests: Mapping[str, Any]) -> bool:
    """Checks that a model was trained on the present shards and masks. False also if that is no longer known."""
    read = dict(model.lineage["ingredients"]["inputs"])
    for _, key in model.lineage.get("inputs", {}).get("train_phase1", ()):
        phase = manifests.load(session.roots, "train_phase1", key)
        if phase is None:
            return False
        read |= {name: digest for name, digest in phase.lineage["ingredients"]["inputs"].items() if name == "shard"}
    return all(read[name] == digests[name] for name in ("shard", "redact") if name in read)
