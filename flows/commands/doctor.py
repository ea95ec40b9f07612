"""``reticent doctor``: finds problems of an installation or a store that would stop a run or weaken a promise."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from packaging.requirements import Requirement

from flows.running.installation import check_installation
from flows.running.spec import open_store, read_corpus
from flows.server.credentials import check_password_is_needed
from flows.server.guard import check_heartbeat
from pipelines.corpus.listing import left_out_text
from pipelines.errors import ReticentError
from pipelines.graph import GRAPH
from pipelines.settings.loading import ProjectSettings, load_settings
from pipelines.store.ledger.ledger import read_ledger
from pipelines.store.objects import runs
from pipelines.store.place.encrypted_fs import encryption_of
from pipelines.store.place.file_system import mount_of, nearest, require_usable
from pipelines.store.place.location import location_problem
from pipelines.walks import enabled_stages

State = Literal["ok", "warning", "failed"]
_GIB: Final = 2**30
_WORKER_GIB: Final = 1.0
"""Memory of a worker with spaCy's model, rounded up."""


class Finding(NamedTuple):
    """The result of a check: its name, its state, and a text that says what to do."""

    name: str
    state: State
    text: str


def doctor_document(config: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Runs all checks, even if one fails. Trains nothing and changes nothing.

    Returns:
        A dictionary of ``checks`` (name, state, text) and ``num_failed``.

    Raises:
        InputError, ConfigError: the settings file cannot be used.
    """
    settings = load_settings(config, environ)
    checks: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("python", _python),
        ("packages", _packages),
        ("settings", lambda: _settings(settings)),
        ("input", lambda: _input(settings)),
        ("store", lambda: _store(settings)),
        ("disk", lambda: _disk(settings)),
        ("memory", lambda: _memory(settings)),
        ("device", lambda: _device(settings)),
        ("server", lambda: _server(environ)),
    )
    found = [finding for name, check in checks for finding in _guarded(name, check)]
    rows = [finding._asdict() for finding in found]
    return {"checks": rows, "num_failed": sum(finding.state == "failed" for finding in found)}


def doctor_text(document: Mapping[str, Any]) -> str:
    """Formats the checks for people, one per line."""
    lines = [f"{row['state']:<8} {row['name']:<12} {row['text']}" for row in document["checks"]]
    failed = document["num_failed"]
    return "\n".join([*lines, f"{failed} failed" if failed else "no problem that would stop a run"])


def _guarded(name: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except ReticentError as error:
        yield Finding(name, "failed", str(error))
    except Exception as error:
        # The message is left out, because it may quote a file.
        yield Finding(name, "failed", f"the check itself failed ({type(error).__name__})")


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", "ok", f"{version}, {sys.executable}")


def _packages() -> Iterator[Finding]:
    """Checks the core's requirements, as the distribution declares them, and that no other package hides ours."""
    check_installation()
    wrong = []
    required = [Requirement(text) for text in metadata.requires("reticent") or ()]
    core = [r for r in required if r.marker is None or r.marker.evaluate({"extra": ""})]
    for requirement in core:
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{requirement.name} is missing")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement.name} is {version}, but {requirement.specifier} is needed")
    if wrong:
        yield Finding("packages", "failed", f"{'; '.join(wrong)}. Install from the lock file again")
    else:
        yield Finding("packages", "ok", f"reticent {metadata.version('reticent')}, {len(core)} requirements met")


def _settings(settings: ProjectSettings) -> Iterator[Finding]:
    """Finds plug-ins, models and folders that a later stage would refuse (`StageConfig.check`)."""
    for warning in settings.warnings:
        yield Finding("settings", "warning", warning)
    enabled = enabled_stages(GRAPH, settings.stages)
    checks = [partial(settings.stages[table].check, name) for name in enabled for table in GRAPH[name].configs]
    redact: Any = settings.stages["redact"]
    problems = []
    for check in (*checks, redact.redactor_spec().check):  # `check` may load no model
        try:
            check()
        except ReticentError as error:
            problems.append(str(error))
    for problem in dict.fromkeys(problems):
        yield Finding("settings", "failed", problem)
    if not problems:
        yield Finding("settings", "ok", f"{settings.path.name}: every stage accepts them")


def _input(settings: ProjectSettings) -> Iterator[Finding]:
    corpus = read_corpus(settings, open_store(settings, create=False), read=False)
    text = f"{corpus.num_files:,} files"
    if corpus.left_out:
        yield Finding("input", "warning", f"{text}; not read: {left_out_text(corpus.left_out)}")
    else:
        yield Finding("input", "ok", text)


def _store(settings: ProjectSettings) -> Iterator[Finding]:
    private, public, _ = settings.roots()
    roots = open_store(settings, create=False)
    if not roots.private.is_dir():
        yield Finding("store", "ok", f"none yet; the first run makes {private} and {public}")
    else:
        if changed := runs.changed_documents(roots):
            yield Finding("store", "failed", f"{changed[0][1]} (`reticent verify` lists all)")
        releases = read_ledger(roots)
        if problem := location_problem(roots):
            yield Finding("store", "failed", problem)
        newest = next(runs.records(roots), None)
        last = "no run" if newest is None else f"newest run {newest['run_id']} {newest.get('state')}"
        yield Finding("store", "ok", f"{last}; the ledger is whole, with {len(releases)} entries")
    yield from _file_system(nearest(private))


def _file_system(folder: Path) -> Iterator[Finding]:
    try:
        require_usable(folder)
    except ReticentError as error:
        yield Finding("store", "failed", str(error))
        return
    mount = mount_of(folder)
    if (reason := mount.unshared()) is not None:
        text = f"{folder} ({mount.kind}) cannot be shared by several machines: {reason}"
        yield Finding("store", "warning", text)


def _disk(settings: ProjectSettings) -> Iterator[Finding]:
    folder = nearest(settings.roots()[0])
    free = shutil.disk_usage(folder).free / _GIB
    if free < 1:
        yield Finding("disk", "warning", f"{free:.1f} GiB free below {folder}; `reticent gc` frees some")
    else:
        yield Finding("disk", "ok", f"{free:.0f} GiB free below {folder}")
    if encryption_of(folder) is None and settings.store_key() is None:
        yield Finding("disk", "warning", f"{folder} is not known to lie on an encrypted file system")


def _memory(settings: ProjectSettings) -> Iterator[Finding]:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / _GIB
    needed = settings.runtime.workers * _WORKER_GIB
    text = f"{total:.0f} GiB for {settings.runtime.workers} workers"
    if needed > total:
        yield Finding("memory", "warning", f"{text}, of about {_WORKER_GIB:g} GiB each; lower runtime.workers")
    else:
        yield Finding("memory", "ok", text)


def _device(settings: ProjectSettings) -> Iterator[Finding]:
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    text = f"torch {torch.__version__}, {count} GPUs"
    if settings.runtime.device == "cuda" and not count:
        yield Finding("device", "failed", f"{text}, and runtime.device = 'cuda'")
    else:
        yield Finding("device", "ok", text)


def _server(environ: Mapping[str, str]) -> Iterator[Finding]:
    if not environ.get("PREFECT_API_URL"):
        yield Finding("server", "ok", "PREFECT_API_URL names none, so runs use the embedded one")
        return
    check_password_is_needed()
    check_heartbeat(environ)
    yield Finding("server", "ok", "answers, and asks for a password")
