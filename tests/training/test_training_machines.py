"""Machines that train together: who may join, what they must share, what is listened at, and what is said of it."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import threading
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.namespaces import started
from support.patches import Patch
from support.waiting import wait_for

from flows.commands.join import join_trainings
from flows.running.spec import open_store
from pipelines.artifacts import Target
from pipelines.errors import ConfigError, ExecutorError, StageError
from pipelines.settings.loading import load_settings
from pipelines.training.machines import coordinator, launch, network_exchanges, process_group, rendezvous, worker
from pipelines.training.machines.coordinator import CoordinatorSettings, announce_training, wait_for_workers
from pipelines.training.machines.process_group import ProcessFailure, check_interface
from pipelines.training.machines.worker import WorkerSettings, join_announced_trainings

SCRIPT = Path(__file__).with_name("on_machine.py")


def settings(folder: Path, runtime: str) -> Path:
    config = folder / "reticent.toml"
    config.write_text(f'[corpus]\ninputs = ["corpus"]\n[runtime]\n{runtime}\n')
    return config


def test_an_interface_must_be_declared(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs private_interface, the network interface"):
        load_settings(settings(tmp_path, "num_machines = 2"), {})
    with pytest.raises(ConfigError, match=r"line 4: runtime\.train_address is gone: .*set runtime\.private_interface"):
        load_settings(settings(tmp_path, 'train_address = "10.0.0.1"'), {})
    load_settings(settings(tmp_path, 'num_machines = 2\nprivate_interface = "lo"'), {})
    check_interface("lo")
    with pytest.raises(ConfigError, match=r"no interface none7 here\. There are lo"):
        check_interface("none7")
    with pytest.raises(ConfigError, match=r"needs runtime\.private_interface: gloo and NCCL send"):
        check_interface(None)
    with pytest.raises(ConfigError, match=r"needs runtime\.private_interface"):
        join_announced_trainings(WorkerSettings(folder=tmp_path, count=1, interface=None, say=print))
    alone = announce_training(
        CoordinatorSettings(count=2, interface=None, wait_seconds=1, folder=tmp_path / "trainings")
    )
    with pytest.raises(ConfigError, match=r"needs runtime\.private_interface"), alone:
        pass
    assert not (tmp_path / "trainings").exists()


@pytest.fixture
def two(tmp_path: Path) -> CoordinatorSettings:
    return CoordinatorSettings(
        count=2, interface="lo", wait_seconds=60, folder=tmp_path / "trainings", needed=(str(tmp_path),)
    )  # fmt: skip


def meet(two: CoordinatorSettings, patch: Patch) -> list[str]:
    """What the machine that joins says, when the first one ends as soon as it is there."""
    said: list[str] = []
    is_over = threading.Event()
    for module in (coordinator, worker):
        patch.constant(module, "LOOK_SECONDS", 0.02)
    joining = WorkerSettings(folder=two.folder, count=3, interface="lo", say=said.append)
    thread = threading.Thread(target=join_announced_trainings, args=(joining, is_over.is_set))
    thread.start()
    try:
        with announce_training(two) as folder:
            (found,) = wait_for_workers(folder, two, False, lambda *told: None)
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
            assert found["processes"] == 3
            said.append("gathered")
    finally:
        wait_for("an answer", lambda: len(said) > 2 or not thread.is_alive())
        is_over.set()
        thread.join(60)
        assert not list(two.folder.iterdir())
    return said


def test_a_machine_with_all_that_is_needed_joins(two: CoordinatorSettings, patch: Patch) -> None:
    dead = two.folder / "dead"  # a training that was killed: its file of addresses is not used again
    dead.mkdir(parents=True)
    for name in ("training.lock", "training.json", "store"):
        (dead / name).write_text("{}")
    said = meet(two, patch)
    assert said[:2] == ["waiting for a training", "joined a training; waiting for the other machines"]
    assert said[2:] == ["gathered", "the training ended without this machine; the flow's machine says why"]


def test_each_thing_that_a_machine_lacks_is_named(two: CoordinatorSettings, patch: Patch) -> None:
    with pytest.raises(ExecutorError, match="does not see /nowhere; all machines must mount one file system"):
        meet(replace(two, needed=("/nowhere",)), patch)
    here = {"machine": "m", "processes": 2, "gpus": 1, "installed": rendezvous.installed(), "missing": None}
    assert coordinator._problem(here, on_gpu=False) is None
    assert "shows only 1 GPUs" in str(coordinator._problem(here, on_gpu=True))
    other = {**here, "installed": {**rendezvous.installed(), "torch": "1.0"}}
    assert f"torch 1.0 in place of {torch.__version__}" in str(coordinator._problem(other, on_gpu=False))
    with announce_training(two) as folder, pytest.raises(ExecutorError, match="1 of 2 machines were there within 0 s"):
        wait_for_workers(folder, replace(two, wait_seconds=0), False, lambda *told: None)


def test_who_failed_is_told_before_who_lost_its_partner(tmp_path: Path) -> None:
    folder = Target(folder=tmp_path)
    lost = ProcessFailure(0, "lost", "PartnerLostError")
    error = launch._as_error([lost, ProcessFailure(2, "died", "was ended by SIGKILL", machine="node-b")], 4, folder)
    assert "training process 2 (of 4, from 0, on node-b) was ended by SIGKILL" in str(error)
    error = launch._as_error([lost], 4, folder)
    assert isinstance(error, StageError)
    assert "lost its connection to another one" in str(error)


def test_what_crossed_is_remembered_over_attempts(tmp_path: Path) -> None:
    scratch = Target(folder=tmp_path)
    assert network_exchanges.network_exchanges_in(scratch) == ()
    network_exchanges.record_network_exchange(scratch, "private_interface")
    assert network_exchanges.network_exchanges_in(scratch) == ("private_interface",)
    (tmp_path / "crossings.json").write_text('["encrypted"]')  # of version 0.2
    assert network_exchanges.network_exchanges_in(scratch) == ("encrypted",)
    (tmp_path / "crossings.json").write_text("{")
    assert network_exchanges.network_exchanges_in(scratch) == ("encrypted", "private_interface")  # the worst
    (tmp_path / "crossings.json").unlink()
    assert network_exchanges.network_exchanges_in(scratch, ("private_interface",)) == ("private_interface",)


class _OverError(Exception):
    pass


def test_a_machine_may_be_there_before_the_store(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("9f3a" * 16)
    config = settings(tmp_path, 'private_interface = "lo"\n[store]\nkey_file = "key"')
    told: list[str] = []

    def say(text: str) -> None:
        told.append(text)
        if text.startswith("waiting for the store"):
            open_store(load_settings(config, {}))
        else:
            raise _OverError

    with pytest.raises(_OverError):
        join_trainings(config, {}, say=say)
    assert told[0].startswith(f"waiting for the store at {tmp_path}")
    assert told[1:] == ["waiting for a training"]
    with pytest.raises(_OverError):
        join_trainings(config, {}, say=say)
    assert told[2:] == ["waiting for a training"]


def ports_of(process: subprocess.Popen[str]) -> set[int]:
    """Ports at which the training processes of a machine listen; all of them at loopback."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    own, found = set(), set()
    for child in children:
        for path in Path(f"/proc/{child}/fd").iterdir():
            with suppress(OSError):
                own.add(os.readlink(path))
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
            assert fields[1].startswith("0100007F:")
            found.add(int(fields[1].split(":")[1], 16))
    return found


@pytest.mark.slow
def test_idle_connections_keep_no_machine_out(tmp_path: Path) -> None:
    with (
        ExitStack() as stack,
        started(None, SCRIPT, "host", tmp_path, "add", "lo") as host,
        started(None, SCRIPT, "join", tmp_path, "add", "lo") as guest,
    ):
        wait_for("both machines", lambda: list(tmp_path.glob("trainings/*/machine-*.json")))
        os.kill(guest.pid, signal.SIGSTOP)  # the honest machine comes after the others
        wait_for("a port", lambda: ports_of(host) or host.poll() is not None, pause=0.02)
        for port in ports_of(host):
            for _ in range(8):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert ports_of(host)
        os.kill(guest.pid, signal.SIGCONT)
        out, error = host.communicate(timeout=90)
        assert host.returncode == 0, out + error
        assert "found" in out
        assert not list((tmp_path / "trainings").iterdir())


@pytest.mark.slow
def test_a_machine_that_is_not_reached_ends_the_training_in_time(tmp_path: Path) -> None:
    share = process_group.ProcessShare(
        count=1, total=2, device="cpu", interface="lo", store=tmp_path / "store", connect_seconds=1.0
    )  # fmt: skip
    with process_group.ProcessGroup(share, print, ()) as alone:  # nobody comes
        _, (failure,) = alone.watch(lambda *said: None, list)
    error = launch._as_error([failure], 2, Target(folder=tmp_path))
    assert "did not reach each other over runtime.private_interface within 1 s" in str(error)
