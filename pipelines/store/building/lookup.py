"""Which artifact is the output of a stage: that of its key; or a model that only an upgrade would make anew.

Training again is a second release of epsilon, so no upgrade of ours may begin one. A stage with a recipe
(`pipelines.stage.Stage.has_recipe`) is keyed by declared versions; and where no artifact has that key, these stand
for it all the same:

* one that was made from the same inputs, settings and seed, by whatever code and recipe;
* that of the newest earlier run, of those whose inputs differ through code, packages or new settings alone: raw text,
  seed, and the settings that there were, are the same. That need not be the last run: settings files may share a store.

Such a model is *stale*: `plan` says so with the reasons, and `--force train` is the user's consent to another one.
What a claim may say of it is for the guarantee to find out (`releases_for`).
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
from pipelines.walks import upstream

DATA_FILE: Final = "data file"
"""What the digests of data files begin with, among those of code."""


def input_digests(
    session: Session, stage: str, partition: str | None, inputs: Mapping[str, PartitionKeys]
) -> dict[str, object]:
    """The digests of a stage's inputs, as far as its edges and its settings say that they matter.

    Raises:
        LookupError: the inputs given are not those that the graph declares.
        StoreError: an input's artifact is gone.
    """
    declared = {edge.stage for edge in GRAPH[stage].inputs} - OUTSIDE
    edges = (edge for edge in GRAPH[stage].edges_read(session.configs) if edge.stage not in OUTSIDE)
    read = [edge for edge in edges if edge.stage in inputs or not edge.optional]
    if not {edge.stage for edge in read} <= inputs.keys() <= declared:
        raise LookupError(f"stage {stage} reads {sorted(declared)}, was given {sorted(inputs)}")
    digests: dict[str, object] = {}
    for edge in read:
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


def fresh_key_of(
    session: Session, stage: str, partition: str | None, inputs: Mapping[str, PartitionKeys]
) -> tuple[str, dict[str, Any]]:
    """The key that a stage's output has when it is made now from given inputs, and its ingredients."""
    ingredients = ingredients_of(session, stage, partition, input_digests(session, stage, partition, inputs))
    if GRAPH[stage].reads(RELEASES):
        ingredients["inputs"][RELEASES] = _releases_digest(session, stage, partition, inputs)
    return make_key(session, ingredients), ingredients


def key_of(
    session: Session, stage: str, partition: str | None, inputs: Mapping[str, PartitionKeys]
) -> tuple[str, dict[str, Any]]:
    """The key of a stage's output for given inputs, and its ingredients; for a stale model, its own."""
    key, ingredients = fresh_key_of(session, stage, partition, inputs)
    if GRAPH[stage].has_recipe and not must_build(session, stage, partition) and not find_any(session, stage, key):
        kept = _kept(session, GRAPH[stage], ingredients)
        if kept is not None:
            return kept.key, dict(kept.lineage["ingredients"])
    return key, ingredients


def find(session: Session, stage: str, key: str) -> Manifest | None:
    """A verified hit, or None. Takes no lock and repairs nothing. What a child run kept is no hit for a release."""
    manifest = find_any(session, stage, key)
    is_kept_back = session.spec.purpose == "release" and manifest is not None and manifests.PURPOSE in manifest.lineage
    return None if is_kept_back else manifest


def find_any(session: Session, stage: str, key: str) -> Manifest | None:
    """As `find`, what a child run kept included."""
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
    """Whether the run was asked to rebuild this stage and has not done so yet."""
    return stage in session.spec.forced and (stage, partition) not in session.built


def _kept(session: Session, stage: Stage, ingredients: Mapping[str, Any]) -> Manifest | None:
    """The artifact that stands for one that nobody asked to be made anew; None where there is none."""
    if (model := kept_of_earlier_run(session, stage)) is not None:
        return model
    # What is published comes before what a comparison kept: that would be published, though nothing is made anew.
    for manifest in sorted(_newest_first(session.roots, stage.name), key=lambda m: manifests.PURPOSE in m.lineage):
        made_of = manifest.lineage["ingredients"]
        if (
            made_of["inputs"] == ingredients["inputs"]
            and _has_same_settings(made_of, ingredients)
            and (model := find_any(session, stage.name, manifest.key)) is not None
        ):
            return model
    return None


def kept_of_earlier_run(session: Session, stage: Stage) -> Manifest | None:
    """The artifact of the newest run with the same settings and raw text; what it would be made of now may differ."""
    if session.spec.purpose != "release":
        return None
    own = own_ingredients(session, stage.name)
    for record in runs.records(session.roots):
        if runs.is_child(record) or record.get("trained_by"):
            continue  # of another run, or a model that was not made of that run's text
        made = {(s, p): key for s, p, key in record.get("artifacts", [])}
        key = made.get((stage.name, None))
        model = manifests.load(session.roots, stage.name, key) if key else None
        if (
            model is not None
            and "ingredients" in model.lineage
            and _has_same_settings(model.lineage["ingredients"], own)
            and _only_code_changed(session, stage, made)
            and find(session, stage.name, model.key) is not None
        ):
            return model
    return None


def _newest_first(roots: Roots, stage: str) -> list[Manifest]:
    paths = (roots.private / "manifests" / stage).glob("*.json")
    newest_first = sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.stem), reverse=True)
    found = [manifests.load(roots, stage, path.stem) for path in newest_first]
    return [manifest for manifest in found if manifest is not None and "ingredients" in manifest.lineage]


def _has_same_settings(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return (
        then.get("seed") == now["seed"]
        and then.get("purpose") == now.get("purpose")
        and then.get("plugins") == now.get("plugins")
        and _data_of(then, now["data"]) == now["data"]
        and same_values(then.get("config", {}), now["config"])
    )


def _data_of(ingredients: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """What a model was made of beside the corpus; the first version kept it among code and packages."""
    if "data" in ingredients:
        return dict(ingredients["data"])
    files = {name: digest for name, digest in ingredients.get("code", {}).items() if name.startswith(DATA_FILE)}
    packages = ingredients.get("environment", {}).get("packages", {})
    return files | {name: packages.get(name) for name in names if not name.startswith(DATA_FILE)}


def same_values(then: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether settings are the same; one that only one side knows must have its default, for it came or went since."""
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
    found = {n: field.get_default(call_default_factory=True) for n, field in fields.items() if not field.is_required()}
    plain: dict[str, Any] = json.loads(json.dumps(found, default=str))  # as in a manifest
    return plain


def _only_code_changed(session: Session, stage: Stage, made: Mapping[tuple[str, str | None], str]) -> bool:
    """Whether what a stage reads differs from what it read in a run through code, packages or new settings alone.

    Args:
        made: the artifacts of the run.
    """
    for name in upstream([stage.name], session.configs) - OUTSIDE - {stage.name}:
        then = {partition: key for (s, partition), key in made.items() if s == name}
        if not then and name != "split":
            continue  # the stage is new
        if then.keys() != set(session.partition_names(name)) and not GRAPH[name].own_partitions:
            return False
        for partition, key in then.items():
            manifest = manifests.load(session.roots, name, key)
            if manifest is None or not _is_told_the_same(session, name, partition, manifest.lineage["ingredients"]):
                return False
    return True


def _is_told_the_same(session: Session, stage: str, partition: str | None, old: Mapping[str, Any]) -> bool:
    """Whether the user hands a stage what it was handed before: seed, settings, files, code of other packages."""
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
    """As `same_values`, where a setting that is gone, or that is new and has its default, may change what is made."""
    known = {table: {n: v for n, v in old.items() if n in now.get(table, {})} for table, old in then.items()}
    return same_values(known, {table: now.get(table, {}) for table in then})


def _same_inputs_from_outside(session: Session, stage: str, partition: str | None, then: Mapping[str, Any]) -> bool:
    old = then["inputs"]
    outside = {edge.stage for edge in GRAPH[stage].edges_read(session.configs)} & OUTSIDE
    if SOURCE in outside and partition is not None:
        return bool(old.get(SOURCE) == source_digest(session.roots.secret, session.pieces(partition)))
    reviews = session.spec.reviews
    if stage == "gate" and "on_hit" not in then["config"].get("gate", {}):
        return True  # made by a version whose gate read no reviews
    return REVIEWS not in outside or old.get(REVIEWS) == (reviews.digest if reviews else None)


def releases_for(
    session: Session, stage: str, partition: str | None, inputs: Mapping[str, PartitionKeys]
) -> Releases | None:
    """What a stage that reads `RELEASES` is told of them and of the run's model; None for another stage.

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
        recipe=dict(model.lineage.get("ingredients", {}).get("recipe", {})),
    )


def _releases_digest(session: Session, stage: str, partition: str | None, inputs: Mapping[str, PartitionKeys]) -> str:
    """What of the releases enters a key. A damaged ledger stops the stage when it is built."""
    try:
        releases = releases_for(session, stage, partition, inputs)
    except (LedgerError, SealError):
        return "damaged"
    return digest_of(releases) if releases else ""


def _reads_present_text(session: Session, model: Manifest, digests: Mapping[str, Any]) -> bool:
    """Whether a model was trained on shards and masks as they are now; False also where that is not known any more.

    Args:
        digests: of the present shards and masks, as `input_digests` gives them.
    """
    read = dict(model.lineage["ingredients"]["inputs"])
    for _, key in model.lineage.get("inputs", {}).get("train_phase1", ()):
        phase = manifests.load(session.roots, "train_phase1", key)
        if phase is None:
            return False
        read |= {name: digest for name, digest in phase.lineage["ingredients"]["inputs"].items() if name == "shard"}
    return all(read[name] == digests[name] for name in ("shard", "redact") if name in read)
