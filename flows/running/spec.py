"""From a settings file to the specification of a run. Imports no orchestrator."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.context import Progress, silent
from pipelines.errors import ConfigError
from pipelines.graph import GRAPH
from pipelines.settings.audit import OF_DOMAINS, OF_SECRETS
from pipelines.settings.loading import ProjectSettings, load_settings
from pipelines.store.ledger.ledger import enter_older
from pipelines.store.ledger.relocation import register_location
from pipelines.store.objects import runs
from pipelines.store.objects.forgotten import enter_list, read_forgotten
from pipelines.store.objects.inputs import CorpusRequest, CorpusState, corpus_state
from pipelines.store.objects.reviews import review_state
from pipelines.store.objects.session import RunSpec, make_session, save_spec
from pipelines.store.place.encrypted_fs import require_encrypted
from pipelines.store.place.file_system import require_usable
from pipelines.store.place.roots import Roots, open_roots
from pipelines.store.place.statcache import StatCache
from pipelines.store.upkeep.mirror import require_protocol
from pipelines.store.upkeep.training_schedule import Training, last_training, training_before_forgetting
from pipelines.walks import downstream, enabled_stages

EVERYTHING: tuple[str, ...] = tuple(GRAPH)
TRAINING: tuple[str, ...] = tuple(name for name in GRAPH if name in downstream({"train_phase1"}))
AUDIT: tuple[str, ...] = tuple(name for name, stage in GRAPH.items() if stage.optional and stage.table == "audit")
SYNTHESIS: tuple[str, ...] = tuple(name for name, stage in GRAPH.items() if stage.table == "synthesize")
PREPARATION: tuple[str, ...] = tuple(name for name in GRAPH if name not in TRAINING)
RELEASED: tuple[str, ...] = ("publish", *TRAINING)
"""The stages that a run skips if no training is due (`train.when`). They include all that publish."""


def stages_named(name: str) -> tuple[str, ...]:
    """Returns the graph's stages that a user names: ``dedup`` is four stages, ``dedup.keys`` is one.

    Raises:
        ConfigError: there is no such stage.
    """
    names = tuple(
        stage.name
        for stage in GRAPH.values()
        if name in (stage.table, stage.name, f"{stage.table}.{stage.step}" if stage.step else stage.name)
    )
    if not names:
        table = name.partition(".")[0]
        within = [stage.shown_name for stage in GRAPH.values() if stage.table == table]
        known = within or dict.fromkeys(stage.table for stage in GRAPH.values())
        raise ConfigError(
            f"there is no stage {name}; the stages{f' of {table}' if within else ''} are {', '.join(known)}"
        )
    return names


def open_store(settings: ProjectSettings, *, create: bool = True) -> Roots:
    """Opens the store that the settings name, and makes it if it is missing. Use ``create=False`` to only read.

    Raises:
        PrivacyGateError, StoreError: see `open_roots`. Or the private root must lie on an encrypted file system.
    """
    if settings.store.require_encrypted_fs:
        require_encrypted(settings.roots()[0])
    return open_roots(*settings.roots(), create=create, store_key=settings.store_key(), state=state_folder())


def state_folder() -> Path:
    """Returns the user's folder for the lengths of ledgers (in ``XDG_STATE_HOME`` or ``~/.local/state``)."""
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (base if base.is_absolute() else Path("~/.local/state").expanduser()) / "reticent"


def read_corpus(settings: ProjectSettings, roots: Roots, *, read: bool, progress: Progress = silent) -> CorpusState:
    """Reads the partitions of the settings' input files (see `corpus_state`)."""
    corpus: Any = settings.stages["corpus"]
    request = CorpusRequest(
        inputs=corpus.inputs,
        base_dir=settings.folder,
        format=corpus.format,
        options=corpus.read_options(),
        partition_documents=corpus.partition_documents,
        name_folds=corpus.name_folds,
    )
    cache = StatCache(roots.cache / "inputs.json", roots.secret)
    forgotten = read_forgotten(roots)
    return corpus_state(request, roots.secret, cache, read=read, progress=progress, forgotten=forgotten)


def make_spec(
    settings: ProjectSettings,
    corpus: CorpusState,
    *,
    selected: Sequence[str] = EVERYTHING,
    forced: Sequence[str] = (),
    verify: str | None = None,
) -> RunSpec:
    """Makes the specification of a new run.

    Raises:
        ConfigError: only stages that the settings leave out are selected, or one of them is forced.
    """
    return spec_and_wait(settings, corpus, selected=selected, forced=forced, verify=verify, create=True)[0]


def spec_and_wait(
    settings: ProjectSettings,
    corpus: CorpusState,
    *,
    selected: Sequence[str],
    forced: Sequence[str],
    verify: str | None,
    create: bool,
) -> tuple[RunSpec, Training | None]:
    """Makes a specification like `make_spec`, and returns the last training if no other is due (`waits_for`)."""
    chosen = enabled_stages(selected, settings.stages)
    if left_out := [name for name in (*forced, *(() if chosen else selected)) if name not in chosen]:
        stage = GRAPH[left_out[0]]
        asked = {**dict.fromkeys(OF_DOMAINS, "domains = true"), **dict.fromkeys(OF_SECRETS, "num_secrets is not 0")}
        condition = f", where audit.{asked[stage.name]}" if stage.name in asked else ""
        raise ConfigError(
            f"stage {stage.shown_name} is left out of runs unless {stage.table}.enabled = true; "
            f"`reticent {stage.table}` switches it on{condition}"
        )
    roots = open_store(settings, create=create)
    waits = waits_for(settings, roots, corpus, selected=selected, forced=forced)
    if waits is not None:
        chosen = tuple(name for name in chosen if name not in RELEASED)
    private, public, secret = settings.roots()
    runtime = settings.runtime_values()
    spec = RunSpec(
        run_id=runs.new_run_id(),
        private_root=str(private),
        public_root=str(public),
        secret_file=str(secret) if secret else None,
        config_dir=str(settings.folder),
        settings=_json_values(settings),
        seed=settings.run.seed,
        runtime=dataclasses.replace(runtime, verify=verify or runtime.verify),
        partitions=corpus.partitions or (),
        left_out=corpus.left_out,
        reviews=review_state(roots),
        selected=chosen,
        forced=tuple(forced),
        trained_by=None if waits is None else waits.run_id,
        store_key=settings.store_key(),
        state=str(state_folder()),
    )
    return spec, waits


def waits_for(
    settings: ProjectSettings, roots: Roots, corpus: CorpusState, *, selected: Sequence[str], forced: Sequence[str]
) -> Training | None:
    """Returns the last training if no other training is due; None if this run may train.

    `train.when` decides if a training is due. Without it, none is due if only forgotten text has changed (`reticent
    forget`). Runs of chosen stages, and runs that must rebuild a stage of training, always train.
    """
    when = settings.stages["train"].when  # type: ignore[attr-defined]
    is_requested = set(selected) != set(EVERYTHING) or bool(set(forced) & set(TRAINING))
    if is_requested or corpus.partitions is None:
        return None
    if when is None:
        return training_before_forgetting(roots, _json_values(settings), settings.run.seed, corpus.partitions)
    last = last_training(roots, when, corpus.partitions)
    return None if last is None or last.is_due else last


def _json_values(settings: ProjectSettings) -> dict[str, dict[str, Any]]:
    return {name: config.model_dump(mode="json") for name, config in settings.stages.items()}


def begin(
    config: Path,
    environ: Mapping[str, str],
    *,
    selected: Sequence[str] = EVERYTHING,
    forced: Sequence[str] = (),
    verify: str | None = None,
    progress: Progress = silent,
) -> str:
    """Validates the settings, reads the input's digests, and returns the path of the run's specification.

    Raises:
        ConfigError, InputError, PrivacyGateError, StoreError: the run cannot begin. No stage has run.
    """
    settings = load_settings(config, environ)
    roots = open_store(settings)
    for root in (roots.private, roots.public):
        require_usable(root / "work")
    if settings.store.mirror_url:
        require_protocol(settings.store.mirror_url)
    register_location(roots)
    enter_older(roots)
    enter_list(roots)
    corpus = read_corpus(settings, roots, read=True, progress=progress)
    spec = make_spec(settings, corpus, selected=selected, forced=forced, verify=verify)
    return str(save_spec(make_session(spec)))


def selection(from_stage: str | None, only: str | None) -> tuple[str, ...]:
    """Returns the stages that may run.

    Raises:
        ConfigError: both were given, or there is no such stage.
    """
    if from_stage and only:
        raise ConfigError("give --from or --only, not both")
    if only:
        return stages_named(only)
    if from_stage:
        reached = downstream(set(stages_named(from_stage)))
        return tuple(name for name in GRAPH if name in reached)
    return EVERYTHING
