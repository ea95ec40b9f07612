"""What a worker of Dask or Ray must share with the run, each point in turn; what travels to it, and what it answers."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.patches import Patch, patching
from support.toy import Toy, drive, states, use_toy_graph
from support.waiting import wait_for

from flows.running.executors import choosing, worker
from flows.running.executors import cluster as worker_cluster
from flows.running.executors.cluster import Cluster
from flows.running.executors.ray_workers import RayWorkers
from flows.running.executors.worker import Terms, build_partition, check_worker
from pipelines.context import Runtime
from pipelines.encryption import places
from pipelines.encryption.sources import KeySource
from pipelines.errors import ConfigError, ExecutorError, StageError
from pipelines.settings.general import RuntimeConfig
from pipelines.store.building.lookup import resolve_key
from pipelines.store.building.workers import Request
from pipelines.store.objects.session import make_session, open_session, read_session, save_spec
from pipelines.store.place import unlocking
from pipelines.store.place.file_system import Mount
from pipelines.store.place.outcome import Outcome


class InThisProcess(Cluster):
    """Only the terms of a run: nothing is handed out."""

    engine = "No engine"

    def is_joined(self) -> bool:
        return False

    def join(self) -> None:
        pass

    def check(self, terms: Terms) -> Iterator[tuple[str, tuple[str, ...]]]:
        yield "here", check_worker(terms)

    def hand_out(self, waiting: object) -> Iterator[tuple[int, Outcome]]:
        return iter(())

    def leave(self) -> None:
        pass


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patch: Patch) -> Toy:
    made = use_toy_graph(monkeypatch, tmp_path)
    made.write("a.txt", "the text of Ann Lee")
    patch.constant(worker, "_agreed", set())
    patch.constant(worker, "_loaded", {})  # other tests wrote modules, and edited them
    return made


@pytest.fixture
def cluster(toy: Toy) -> Iterator[InThisProcess]:
    made = InThisProcess(str(save_spec(make_session(toy.spec()))))
    with pytest.raises(ExecutorError, match="was lost 3 times"):  # it joins, and nothing is answered
        list(made.build([request_of(made._run)]))
    worker._agreed.clear()
    yield made
    made.close()


def request_of(run: str) -> Request:
    session = open_session(run)
    key, _ = resolve_key(session, "letters", "p-a", {})
    return Request(run=run, stage="letters", partition="p-a", inputs={}, key=key)


def wrong_with(terms: Terms) -> str:
    worker._agreed.clear()
    found = check_worker(terms)
    assert found
    answer = build_partition(terms, request_of(terms.run))
    assert isinstance(answer, ExecutorError)  # nothing is built before all is well
    assert found[0] in str(answer)
    return found[0]


def test_a_process_that_shares_all_builds_what_the_run_would(cluster: InThisProcess) -> None:
    request = request_of(cluster._run)
    answer = build_partition(cluster.terms, request)
    assert isinstance(answer, Outcome), answer
    assert (answer.state, answer.key) == ("completed", request.key)
    again = build_partition(cluster.terms, request)
    assert isinstance(again, Outcome)
    assert again.state == "cached"


def test_each_thing_that_is_not_shared_is_named(cluster: InThisProcess, tmp_path: Path) -> None:
    terms = cluster.terms
    assert check_worker(terms) == ()
    assert "another version of reticent" in wrong_with(replace(terms, code="0" * 64))
    other = {**terms.environment, "Python": "3.9.1"}
    assert "other versions" in wrong_with(replace(terms, environment=other))
    assert "in place of 3.9.1" in wrong_with(replace(terms, environment=other))
    assert "plug-in, model or data file" in wrong_with(replace(terms, stage_keys={"letters": "0" * 40}))
    elsewhere = (str(tmp_path), *terms.folders[1:])
    assert "does not see the run's file" in wrong_with(replace(terms, folders=elsewhere))
    assert "is another folder there" in wrong_with(replace(terms, content="0" * 64))


def test_a_worker_is_told_where_the_key_of_the_store_is_and_never_the_key(toy: Toy, tmp_path: Path) -> None:
    key = "ab" * 32
    (tmp_path / "key").write_text(key)
    toy.edit("letters", '(ctx.out.folder / "letters.txt").write_text(', 'ctx.out.text("letters.txt", ')
    toy.edit("letters", '(ctx.out.folder / "other.txt").write_text(', 'ctx.out.text("other.txt", ')
    source = KeySource(file=str(tmp_path / "key"))
    made = InThisProcess(str(save_spec(toy.session(store_key=source))))
    with pytest.raises(ExecutorError, match="was lost 3 times"):
        list(made.build([request_of(made._run)]))
    terms, request = made.terms, replace(request_of(made._run), store_key=source)
    for sent in (terms, request):
        assert sent.store_key == source
        assert key.encode() not in pickle.dumps(sent)
        assert bytes.fromhex(key) not in pickle.dumps(sent)

    def begin_a_worker() -> None:
        places._places.clear()
        unlocking._opened.clear()
        read_session.cache_clear()
        worker._agreed.clear()

    begin_a_worker()
    (problem,) = check_worker(replace(terms, store_key=None))
    assert "name where its key is" in problem
    begin_a_worker()
    assert check_worker(terms) == ()
    answer = build_partition(terms, request)
    assert isinstance(answer, Outcome), answer
    made.close()
    begin_a_worker()


def test_locks_that_do_not_hold_are_noticed(cluster: InThisProcess) -> None:
    assert cluster._rendezvous is not None
    os.close(cluster._rendezvous._descriptor)  # as on a file system whose locks stay on their machine
    assert "locks (flock)" in wrong_with(cluster.terms)
    cluster._rendezvous._descriptor = os.open(os.devnull, os.O_RDONLY)


def test_a_disk_that_machines_cannot_share_is_refused_where_there_are_several(toy: Toy, patch: Patch) -> None:
    patch(worker_cluster, "mount_of", lambda _: Mount("me@server:", "fuse.sshfs"))
    run = str(save_spec(make_session(toy.spec())))
    made = InThisProcess(run)
    made.address = "10.0.0.1:6379"
    with pytest.raises(ExecutorError, match=r"fuse\.sshfs.*one machine only"):
        list(made.build([request_of(run)]))
    assert not list(open_session(run).roots.cache.rglob("executor/*"))


def test_a_file_that_is_renamed_elsewhere_must_be_seen_here(cluster: InThisProcess) -> None:
    rendezvous = cluster._rendezvous
    assert rendezvous is not None
    check_worker(cluster.terms)
    rendezvous.require_renamed()
    for path in rendezvous.folders[0].glob("*.renamed"):
        path.unlink()
    with pytest.raises(ExecutorError, match="not seen here"):
        rendezvous.require_renamed()


def test_code_that_changed_since_the_worker_started_is_noticed(cluster: InThisProcess, patch: Patch) -> None:
    patch.item(worker._loaded, worker.__file__, (1, 1))
    assert "1 files of its code have changed since it started" in wrong_with(cluster.terms)


def test_what_killed_runs_left_is_removed_and_what_others_hold_is_not(cluster: InThisProcess) -> None:
    assert cluster._rendezvous is not None
    left = [folder / "dead" for folder in cluster._rendezvous.folders]
    for path in left:
        path.write_text("x")
    second = InThisProcess(cluster._run)
    with pytest.raises(ExecutorError):
        list(second.build([request_of(cluster._run)]))
    assert not any(path.exists() for path in left)
    assert all((folder / cluster._rendezvous.token).exists() for folder in cluster._rendezvous.folders)
    second.close()
    assert second._rendezvous is None


def test_neither_text_nor_secret_travels(cluster: InThisProcess) -> None:
    travels = pickle.dumps((build_partition, cluster.terms, request_of(cluster._run)))
    secret = open_session(cluster._run).roots.secret
    for kept_back in (secret, secret.hex().encode(), b"Ann", b"a.txt"):
        assert kept_back not in travels


def test_a_partition_that_takes_too_long_ends_its_worker(cluster: InThisProcess, patch: Patch) -> None:
    ended: list[int] = []
    patch.constant(worker, "_EXIT_SECONDS", 0.0)
    patch(worker.os, "_exit", ended.append)
    patch(worker, "_build", lambda request: time.sleep(0.5))
    answer = build_partition(replace(cluster.terms, timeout_seconds=0.05), request_of(cluster._run))
    assert isinstance(answer, StageError)
    assert "runtime.partition_timeout_seconds (0.05)" in str(answer)
    wait_for("the end of the process, and of its work", lambda: ended and not worker._busy.locked())
    assert ended == [1]


def test_an_error_is_an_answer_without_what_it_quotes(cluster: InThisProcess) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise RuntimeError("Ann Lee")

    with patching() as patch:
        patch(worker, "execute", fail)
        answer = build_partition(cluster.terms, request_of(cluster._run))
    assert str(answer) == "stage letters failed on a worker with RuntimeError"
    other_key = replace(request_of(cluster._run), key="0" * 40)
    assert "makes another key" in str(build_partition(cluster.terms, other_key))


def test_another_executor_builds_nothing_anew(toy: Toy) -> None:
    drive(toy.session())
    toy.runtime = Runtime(executor="dask", executor_address="tls://nowhere:1", partition_timeout_seconds=1)
    assert set(states(drive(toy.session())).values()) == {"cached"}


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1:1", "ws://h:1", "TLS.example:1"])
def test_dask_without_certificates_is_refused_unless_its_network_is_declared_private(address: str) -> None:
    with pytest.raises(ValueError, match=r"Use tls:// with certificates .* private_network = true"):
        RuntimeConfig(executor="dask", executor_address=address)
    RuntimeConfig(executor="dask", executor_address=address, private_network=True)
    for other in ("tls://127.0.0.1:1", None):
        RuntimeConfig(executor="dask", executor_address=other)


def test_ray_without_a_token_is_refused_unless_its_network_is_declared_private(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, patch: Patch
) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    patch(RayWorkers, "_connect", lambda self: None)
    for is_private, mode in ((False, ""), (True, ""), (False, "token")):
        toy.runtime = Runtime(executor="ray", executor_address="127.0.0.1:1", private_network=is_private)
        workers = RayWorkers(str(save_spec(make_session(toy.spec()))))
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        if is_private or mode:
            workers.join()
        else:
            with pytest.raises(ConfigError, match="RAY_AUTH_MODE=token"):
                workers.join()


def test_a_run_of_an_earlier_version_with_settings_that_are_gone_is_read(toy: Toy) -> None:
    document = toy.spec().to_json()
    document["runtime"] |= {"train_address": "10.0.0.1"}
    assert type(toy.spec()).from_json(document).runtime == toy.spec().runtime


def test_an_engine_that_is_not_installed_is_refused(toy: Toy, patch: Patch) -> None:
    toy.runtime = Runtime(executor="ray")
    run = str(save_spec(make_session(toy.spec())))
    patch(choosing.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"install reticent\[ray\] here and where the workers are"):
        choosing.require_installed(run)
