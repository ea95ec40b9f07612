"""Artifact keys, computed from all that an output depends on and nothing else (design, section 3)."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
from collections.abc import Mapping
from typing import Any

from pipelines.config import StageConfig
from pipelines.context import Piece, pseudonym
from pipelines.graph import GRAPH
from pipelines.stage import Stage
from pipelines.store.objects.session import Session
from pipelines.store.place import versions
from pipelines.store.place.identity import key_of_ingredients

InputDigests = Mapping[str, Any]
"""One entry per input stage: a digest (``same``, ``whole``) or a list of [partition, digest] (``all``)."""


def stage_seed(run_seed: int, stage: str) -> int:
    """Returns the public seed of a stage: 63 bits derived from ``run.seed`` and the stage's name."""
    digest = hashlib.sha256(f"reticent/{run_seed}/{stage}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@functools.cache
def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _keyed_config(stage: Stage, configs: Mapping[str, StageConfig]) -> dict[str, Any]:
    keyed = {}
    for table in stage.configs:
        fields, wanted = configs[table].keyed(stage.name), stage.fields.get(table)
        if wanted is not None:
            fields = {name: fields[name] for name in wanted if name in fields}
            if wanted and configs[table].LATER.issuperset(wanted) and not fields:
                continue  # before these settings there were, the stage did not read the table
        keyed[table] = fields
    return keyed


def source_digest(secret: bytes, pieces: tuple[Piece, ...]) -> list[list[Any]]:
    """Describes a partition's input by pseudonyms of the file names, formats, rows, and content digests."""
    return [
        [
            *(pseudonym(secret, "file", p.name), p.format, p.first_row, p.end_byte - p.start_byte, p.digest),
            *(["fold drawn"] if p.draws_fold else []),
            *(["forgotten", *p.forgotten] if p.forgotten else []),
        ]
        for p in pieces
    ]


def own_ingredients(session: Session, stage_name: str) -> dict[str, Any]:
    """Returns the ingredients of a key that no input changes: settings, seed, and code with environment, or recipe.

    They are computed once.
    """
    if stage_name not in session.own:
        stage = GRAPH[stage_name]
        code = _recipe(session, stage) if stage.has_recipe else built_with(session, stage_name)
        session.own[stage_name] = {
            "schema_version": versions.KEY,
            "stage": stage_name,
            **code,
            "config": _keyed_config(stage, session.configs) if _used(session, stage) else {},
            "seed": stage_seed(session.spec.seed, stage_name),
        }
    return session.own[stage_name]


def _used(session: Session, stage: Stage) -> list[StageConfig]:
    return [session.configs[table] for table in stage.configs if stage.fields.get(table) != ()]


def _recipe(session: Session, stage: Stage) -> dict[str, Any]:
    """Returns the declared versions, and the files and packages that hold data such as a model's weights."""
    configs = [session.configs[table] for table in (stage.table, *stage.runs)]
    recipe = {part: version for config in configs for part, version in config.recipe(stage.name).items()}
    if not recipe:
        return {"recipe": {}, "data": {}}
    packages = sorted(name for config in configs for name in config.data_packages())
    files = session.code.of_data([file for config in configs for file in config.data_files()])
    # A declared version stands for our code. Code of other packages counts by content.
    plugins = session.code.of_others([module for config in configs for module in config.plugin_references()])
    found = {"recipe": recipe, "data": files | {name: _version(name) for name in packages}}
    return {**found, "plugins": plugins} if plugins else found


def selecting(session: Session, stage: Stage) -> list[StageConfig]:
    """Returns the settings that select a stage's code: its own table, and those that it declares in `Stage.runs`."""
    tables = (stage.table, *stage.runs)
    return [session.configs[t] for t in tables if t in stage.configs and stage.fields.get(t) != ()]


def code_of_others(session: Session, stage_name: str) -> dict[str, str]:
    """Returns digests of the code of other packages that a stage's settings name."""
    stage = GRAPH[stage_name]
    selected = [r for config in selecting(session, stage) for r in config.code_references(stage_name)]
    # What other packages declare about themselves counts wherever their settings are read, because claims rest on it.
    described = [r for table in stage.configs for r in session.configs[table].plugin_references()]
    return session.code.of_others([*selected, *described])


def built_with(session: Session, stage_name: str) -> dict[str, Any]:
    """Returns a stage's code, data files and environment. They enter its key or, with a recipe, its lineage."""
    stage = GRAPH[stage_name]
    own = selecting(session, stage)
    references = [stage.module, *(r for config in own for r in config.code_references(stage_name))]
    packages = {*stage.packages, *(p for config in own for p in config.package_references())}
    code = session.code.of(references) | code_of_others(session, stage_name)
    return {
        "code": code | session.code.of_data([f for config in own for f in config.data_files()]),
        "environment": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "packages": {name: _version(name) for name in sorted(packages)},
        },
    }


def make_key(session: Session, ingredients: Mapping[str, Any]) -> str:
    """Returns the HMAC-SHA256 of the ingredients under the store's secret, in 40 hexadecimal characters."""
    return key_of_ingredients(ingredients, session.roots.secret)
