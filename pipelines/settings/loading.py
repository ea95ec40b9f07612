"""The loader of a settings file: one TOML table per stage, and overrides by ``RETICENT__TABLE__FIELD``."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from pipelines.config import StageConfig
from pipelines.context import Runtime
from pipelines.encryption.sources import KeySource
from pipelines.errors import ConfigError, InputError
from pipelines.files import decoded_name, is_utf8
from pipelines.methods.registry import PROTECTIONS
from pipelines.settings.general import GENERAL_TABLES, WITHDRAWN, RunConfig, RuntimeConfig, StoreConfig, SweepConfig
from pipelines.settings.tables import STAGE_TABLES, config_class

ENV_PREFIX = "RETICENT__"


def tables() -> dict[str, type[StageConfig]]:
    """Returns every TOML table with the class that validates it."""
    return {**GENERAL_TABLES, **{table: config_class(reference) for table, reference in STAGE_TABLES.items()}}


@dataclass(frozen=True)
class ProjectSettings:
    """The validated settings of a project.

    Attributes:
        path: path of the settings file.
        run, store, runtime, sweep: tables that belong to no stage.
        stages: tables of stages, by name.
        warnings: warnings about settings that have no effect.
    """

    path: Path
    run: RunConfig
    store: StoreConfig
    runtime: RuntimeConfig
    sweep: SweepConfig
    stages: Mapping[str, StageConfig]
    warnings: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder of the settings file, at which relative paths start."""
        return self.path.parent

    def roots(self) -> tuple[Path, Path, Path | None]:
        """Returns the private root, the public root, and the file of the shared secret if one is set.

        Raises:
            ConfigError: the path of a root is not UTF-8.
        """
        base = self.folder / self.store.root
        private = self.folder / self.store.private_root if self.store.private_root else base / "private"
        public = self.folder / self.store.public_root if self.store.public_root else base / "public"
        secret = self.folder / self.store.secret_file if self.store.secret_file else None
        for root in (private, public):
            if not is_utf8(root):
                raise ConfigError(
                    f"the store's folder {decoded_name(root)} has a name that is not UTF-8, which Parquet and Prefect "
                    "refuse; rename it, or choose another with store.root"
                )
        return private, public, secret

    def store_key(self) -> KeySource | None:
        """Returns the source of the store key; None for a store without encryption."""
        store = self.store
        if store.key_file is not None:
            return KeySource(file=str(self.folder / store.key_file))
        if store.key_command is None and store.key_env is None:
            return None
        return KeySource(command=store.key_command, env=store.key_env)

    def runtime_values(self) -> Runtime:
        """Returns the runtime table in the form that stages take."""
        return Runtime(**self.runtime.model_dump())


def load_settings(path: Path, environ: Mapping[str, str], *, refuses_idle: bool = True) -> ProjectSettings:
    """Reads and validates a settings file.

    Args:
        path: path of the TOML file.
        environ: environment variables. ``RETICENT__TRAIN__EPOCHS=3`` sets ``train.epochs``; an empty value unsets it.
        refuses_idle: true to refuse settings of noise and clipping that the method does not use. False if several
            methods run with one file.

    Raises:
        InputError: the file is missing or is a folder.
        ConfigError: the file is not TOML, a table or key is unknown, or a value has the wrong type or is out of range.
            The message lists every problem with its line, and the nearest name for a misspelt one.

    Messages name the path as it was given.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise InputError(
            f"settings file {path} does not exist: name your file, or let `reticent init DIR` write one"
        ) from None
    except IsADirectoryError:
        raise InputError(
            f"{path} is a folder; give the settings file inside it, e.g. {path / 'reticent.toml'}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"settings file {path} cannot be read as UTF-8 text ({type(error).__name__})") from None
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    sources = _Sources(str(path), text)
    problems: list[str] = []
    known = tables()
    document = _with_overrides(document, environ, sources)
    for name, values in document.items():
        if name not in known:
            problems.append(f"{sources.where(name)}: unknown table [{name}]{_nearest(name, known)}")
        elif not isinstance(values, dict):
            problems.append(f"{sources.where(name)}: {name} must be a table, [{name}]")
    validated: dict[str, StageConfig] = {}
    for name, model in known.items():
        values = document.get(name, {})
        if isinstance(values, dict):
            validated_or_problems = _validate(name, values, model, sources)
            if isinstance(validated_or_problems, list):
                problems += validated_or_problems
            else:
                validated[name] = validated_or_problems
    train = validated.get("train")
    idle = idle_settings(train) if train is not None else ()
    if refuses_idle:
        problems += [_idle_protection(sources, train, name) for name in idle if name in PROTECTIONS]
    if problems:
        raise ConfigError("\n".join(problems))
    warnings = tuple(f"{sources.where('train', name)}: train.{name} has no effect {_with(train)}" for name in idle)
    stages = {name: config for name, config in validated.items() if name not in GENERAL_TABLES}
    return ProjectSettings(
        path.absolute(),
        cast(RunConfig, validated["run"]),
        cast(StoreConfig, validated["store"]),
        cast(RuntimeConfig, validated["runtime"]),
        cast(SweepConfig, validated["sweep"]),
        stages,
        warnings,
    )


def idle_settings(train: Any) -> tuple[str, ...]:
    """Returns the given settings of ``[train]`` that have no effect, sorted."""
    return tuple(sorted(train.idle() & train.model_fields_set))


def _with(train: Any) -> str:
    variant = f" ({train.variant()})" if train.variant() else ""
    return f"with method = {train.method!r}{variant} and the other settings"


def _idle_protection(sources: _Sources, train: Any, name: str) -> str:
    """Returns the error for a setting of noise or clipping that has no effect, because its user relies on it."""
    if name == "unit" and (why := train.method_spec().no_people):
        return f"{sources.where('train', name)}: method {train.method!r} cannot sample people: {why}"
    variable = f"{ENV_PREFIX}TRAIN__{name.upper()}="
    return (
        f"{sources.where('train', name)}: train.{name} is set, and method {train.method!r} gives no such protection"
        + (f" ({train.method_spec().variant_setting} = {train.variant()!r})" if train.variant() else "")
        + f". Leave it out (for one run: {variable} in the environment, empty), or choose another method"
    )


class _Sources:
    """The places at which settings were given, for messages."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._lines: dict[tuple[str, str | None], int] = {}
        self._variables: dict[tuple[str, str | None], str] = {}
        table = ""
        for number, line in enumerate(text.splitlines(), 1):
            if header := re.match(r"\s*\[\s*([A-Za-z0-9_\-\"']+)", line):
                table = header[1].strip("\"'")
                self._lines.setdefault((table, None), number)
            elif key := re.match(r"\s*([A-Za-z0-9_\-\"']+)\s*(?:\.\s*([A-Za-z0-9_\-]+)\s*)?=", line):
                name = key[1].strip("\"'")
                self._lines.setdefault((table, name) if table else (name, key[2]), number)
                self._lines.setdefault((name, None) if not table else (table, name), number)

    def override(self, table: str, field: str, variable: str) -> None:
        self._variables[(table, field)] = variable

    def where(self, table: str, field: str | None = None) -> str:
        if (table, field) in self._variables:
            return f"environment variable {self._variables[(table, field)]}"
        line = self._lines.get((table, field)) or self._lines.get((table, None))
        return f"{self._file}, line {line}" if line else self._file


def _with_overrides(document: dict[str, Any], environ: Mapping[str, str], sources: _Sources) -> dict[str, Any]:
    merged = {name: dict(v) if isinstance(v, dict) else v for name, v in document.items()}
    for variable, table, field, value in _overrides(environ):
        target = merged.setdefault(table, {})
        if isinstance(target, dict):
            if value == "":  # an empty variable takes back what the file says
                target.pop(field, None)
                continue
            target[field] = value
            sources.override(table, field, variable)
    return merged


def _overrides(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str, Any]]:
    for variable, text in sorted(environ.items()):
        if not variable.startswith(ENV_PREFIX):
            continue
        parts = variable.removeprefix(ENV_PREFIX).lower().split("__")
        if len(parts) != 2 or not all(parts):
            raise ConfigError(
                f"environment variable {variable}: write {ENV_PREFIX}TABLE__FIELD, e.g. {ENV_PREFIX}TRAIN__EPOCHS"
            )
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text  # a bare string needs no quotes
        yield variable, parts[0], parts[1], value


def _validate(
    table: str, values: dict[str, Any], model: type[StageConfig], sources: _Sources
) -> StageConfig | list[str]:
    problems = [
        f"{sources.where(table, key)}: {table}.{key} {WITHDRAWN[table, key]}"
        if (table, key) in WITHDRAWN
        else f"{sources.where(table, key)}: unknown key {table}.{key}{_nearest(key, model.model_fields)}"
        for key in values
        if key not in model.model_fields
    ]
    known = {key: value for key, value in values.items() if key in model.model_fields}
    try:
        # Strict JSON mode: "3" is no number, but a TOML array may stand for a tuple.
        config = model.model_validate_json(json.dumps(known, default=str), strict=True)
    except ValidationError as error:
        for item in error.errors(include_url=False, include_input=False, include_context=False):
            field = str(item["loc"][0]) if item["loc"] else None
            inner = "".join(f"[{part}]" for part in item["loc"][1:])
            name = f"{table}.{field}{inner}" if field else f"[{table}]"
            message = item["msg"].removeprefix("Value error, ")
            problems.append(f"{sources.where(table, field)}: {name}: {message[:1].lower()}{message[1:]}")
        return problems
    return problems or config


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    import difflib  # slow to import, and needed only for an error

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(sorted(known))}"
