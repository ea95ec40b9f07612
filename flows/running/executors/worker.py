"""The code that runs in a worker of Dask or Ray: a check of the worker, then partitions, one at a time.

Nothing here raises, because the engine would log the error with its arguments. A worker returns its errors instead.
"""

from __future__ import annotations

import hashlib
import os
import platform
import queue
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from flows.environment import apply_defaults
from flows.running.installation import check_installation, code_digest
from flows.running.temporary import temporary_files
from pipelines.encryption.sources import KeySource
from pipelines.errors import ExecutorError, ReticentError, StageError
from pipelines.graph import GRAPH
from pipelines.store.building.execute import execute
from pipelines.store.building.lookup import resolve_key
from pipelines.store.building.workers import Request
from pipelines.store.objects.keys import own_ingredients
from pipelines.store.objects.session import Session, open_session
from pipelines.store.place.disk import disk_error
from pipelines.store.place.identity import key_of_ingredients
from pipelines.store.place.locks import is_locked
from pipelines.store.place.outcome import Outcome

_EXIT_SECONDS: Final = 2.0
"""The time between the answer that a partition took too long and the end of the process, which frees the key's lock."""
_UNRESOLVED: Final = "unresolved:"
_SHOWN: Final = 3


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms that a worker must share with the process of the flow: digests, versions and paths, and no secret.

    Attributes:
        run: path of the run's specification.
        folders: one folder of each root, in which the driver left a file.
        token: name of the driver's files. The driver holds a lock on the first.
        content: SHA-256 of the files' content.
        code: digest of our installed source.
        environment: versions of Python and of the packages that partitions use, and the kind of machine.
        stage_keys: HMAC, under the store's secret, of the input-independent ingredients of each stage's keys.
        timeout_seconds: time that a partition may take.
        store_key: source, on the worker's machine, of the key of an encrypted store, without the key itself.
    """

    run: str
    folders: tuple[str, ...]
    token: str
    content: str
    code: str
    environment: Mapping[str, str]
    stage_keys: Mapping[str, str]
    timeout_seconds: float
    store_key: KeySource | None = None


_agreed: set[str] = set()
"""The tokens of the terms that this process meets."""
_loaded: dict[str, tuple[int, int]] = {}
"""The modification time and size of each loaded module's file, as this process first saw it."""
_busy = threading.Lock()


def environment_of(session: Session) -> dict[str, str]:
    """Returns the versions of Python and of all packages that partition stages use, and the kind of machine."""
    versions = {"Python": platform.python_version(), "machine": platform.machine()}
    for name in _partition_stages(session):
        versions |= own_ingredients(session, name)["environment"]["packages"]
    return versions


def stage_keys_of(session: Session) -> dict[str, str]:
    """Returns an HMAC of each partition stage's input-independent ingredients, unless they never repeat."""
    keys = {}
    for name in _partition_stages(session):
        own = own_ingredients(session, name)
        if not any(reference.startswith(_UNRESOLVED) for reference in own["code"]):
            keys[name] = key_of_ingredients(own, session.roots.secret)
    return keys


def _partition_stages(session: Session) -> list[str]:
    return [name for name in session.spec.selected if GRAPH[name].partitioned]


def check_worker(terms: Terms) -> tuple[str, ...]:
    """Returns the reasons why this process cannot be a worker of a run; empty if it can."""
    if terms.token in _agreed:
        return ()
    apply_defaults()
    try:
        problems = tuple(_problems(terms))
    except ReticentError as error:
        problems = (str(error),)
    except OSError as error:
        problems = (str(disk_error(error)),)
    except Exception as error:
        problems = (f"the check failed with {type(error).__name__}",)
    _note_modules()
    if not problems:
        _agreed.add(terms.token)
    return problems


def _problems(terms: Terms) -> Iterator[str]:
    check_installation()
    # A worker outlives upgrades and edits of the code that it has loaded.
    if changed := sum(_state_of(file) != state for file, state in _loaded.items()):
        yield f"{changed} files of its code have changed since it started; start it again"
        return
    if code_digest() != terms.code:
        yield "it has another version of reticent; install the one that runs the flow"
        return
    for number, folder in enumerate(terms.folders):
        if problems := list(_storage_problems(Path(folder), terms, with_lock=number == 0)):
            yield from problems
            return
    session = _open(terms.run, terms.store_key)
    here = environment_of(session)
    if other := [name for name, version in terms.environment.items() if here.get(name) != version]:
        shown = [f"{n} {here.get(n, 'absent')} in place of {terms.environment[n]}" for n in other[:_SHOWN]]
        yield f"it has other versions, so keys and bytes would differ: {', '.join(shown)}"
        return
    own = stage_keys_of(session)
    if other := [name for name, key in terms.stage_keys.items() if own.get(name) != key]:
        yield f"a plug-in, model or data file that stage {GRAPH[other[0]].shown_name} uses is not the same there"
    if not _can_read_input(session):
        yield "it cannot read the input files; they must lie at the same path"


def _storage_problems(folder: Path, terms: Terms, *, with_lock: bool) -> Iterator[str]:
    rendezvous = folder / terms.token
    try:
        content = rendezvous.read_bytes()
    except PermissionError:
        yield f"it may not read {folder}; it must run as the user whose store it is"
        return
    except OSError:
        yield f"it does not see the run's file in {folder}; all machines must mount one file system, at one path"
        return
    if hashlib.sha256(content).hexdigest() != terms.content:
        yield f"{folder} is another folder there"
        return
    if with_lock and not is_locked(rendezvous):
        yield f"locks (flock) of other machines do not hold in {folder}; mount the file system with them"
    mine = f"{terms.token}.{uuid.uuid4().hex}"
    try:
        (folder / f"{mine}.new").write_bytes(content)
        (folder / f"{mine}.new").rename(folder / f"{mine}.renamed")
    except OSError as error:
        yield f"it cannot write and rename a file in {folder} ({type(error).__name__})"


def _can_read_input(session: Session) -> bool:
    if "split" not in session.spec.selected:
        return True
    ends = [*session.spec.partitions[:1], *session.spec.partitions[-1:]]
    return all(os.access(piece.path, os.R_OK) for plan in ends for piece in plan.pieces[:1])


def _open(run: str, store_key: KeySource | None) -> Session:
    """Opens the run in a worker, where a stage has no processes of its own."""
    session = open_session(run, store_key)
    if session.spec.runtime.workers > 1:
        session.spec = replace(session.spec, runtime=replace(session.spec.runtime, workers=1))
    return session


def build_partition(terms: Terms, request: Request) -> Outcome | ReticentError:
    """Builds one partition, or returns the error.

    The process ends if that takes longer than the terms allow, because nothing else frees the lock of the key.
    """
    if problems := check_worker(terms):
        return ExecutorError(worker_problems_message([(where_this_is(), problems)]))
    if not _busy.acquire(blocking=False):
        return ExecutorError("a worker was handed two partitions at once; start workers with one thread each")
    answers: queue.SimpleQueue[Outcome | ReticentError] = queue.SimpleQueue()

    def work() -> None:
        answer = _build(request)
        _busy.release()  # before the next partition can come
        answers.put(answer)

    threading.Thread(target=work, name="reticent-partition", daemon=True).start()
    try:
        return answers.get(timeout=terms.timeout_seconds)
    except queue.Empty:
        threading.Timer(_EXIT_SECONDS, os._exit, (1,)).start()
        return StageError(
            f"a partition of stage {GRAPH[request.stage].shown_name} took longer than "
            f"runtime.partition_timeout_seconds ({terms.timeout_seconds:g}), and its worker was ended; what was "
            "finished is kept"
        )


def _build(request: Request) -> Outcome | ReticentError:
    try:
        with temporary_files():
            session = _open(request.run, request.store_key)
            keyed = resolve_key(session, request.stage, request.partition, request.inputs)
            repeats = not any(reference.startswith(_UNRESOLVED) for reference in keyed[1].get("code", ()))
            if keyed[0] != request.key and repeats:
                return ExecutorError(
                    f"a worker on {where_this_is()} makes another key for a partition of stage "
                    f"{GRAPH[request.stage].shown_name}: it reads other artifacts, or code changed during the run"
                )
            return execute(session, request.stage, request.partition, request.inputs, keyed=keyed)
    except ReticentError as error:
        return error
    except OSError as error:
        return disk_error(error)
    except Exception as error:
        return StageError(f"stage {GRAPH[request.stage].shown_name} failed on a worker with {type(error).__name__}")
    finally:
        _note_modules()


def where_this_is() -> str:
    """Returns the name of this machine for messages."""
    return platform.node()


def worker_problems_message(found: list[tuple[str, tuple[str, ...]]]) -> str:
    """Makes the message about workers that cannot take part, from the problems of each."""
    shown = "\n".join(f"  {where}: {problem}" for where, problems in found[:_SHOWN] for problem in problems)
    more = f"\n  and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"workers cannot take part in this run:\n{shown}{more}"


def _module_files() -> Iterator[str]:
    for module in list(sys.modules.values()):
        file: Any = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield file


def _state_of(file: str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)  # noqa: PTH116  (thousands of files)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _note_modules() -> None:
    for file in _module_files():
        if file not in _loaded and (state := _state_of(file)) is not None:
            _loaded[file] = state
