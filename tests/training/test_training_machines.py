"""Machines that train together: who may join, what they must share, how sums cross, and what is said of it."""

from __future__ import annotations

import socket
import ssl
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.patches import Patch

from flows.commands.join import join_trainings
from flows.own_tables import RuntimeConfig
from flows.running.spec import open_store
from flows.settings import load_settings
from pipelines.artifacts import Target
from pipelines.errors import ConfigError, ExecutorError, StageError
from pipelines.training import launch
from pipelines.training.machines import crossings, guest, host, invitation, team, wire
from pipelines.training.machines.guest import Joining, wait_and_join
from pipelines.training.machines.host import Machines, gathered
from pipelines.training.machines.sums import MachineSums
from pipelines.training.machines.team import Failure, check_interface
from pipelines.training.machines.wire import Link, LostError


@pytest.fixture
def pem() -> bytes:
    return wire.make_certificate()


@pytest.fixture
def links(pem: bytes) -> Iterator[tuple[Link, Link]]:
    """The two ends of a connection."""
    with wire.listen("127.0.0.1") as listener, ThreadPoolExecutor(1) as pool:
        there = pool.submit(wire.accept, listener, pem)
        here = wire.connect(*listener.getsockname()[:2], pem)
        accepted = there.result(10)
        assert accepted is not None
        yield accepted, here
        for link in (accepted, here):
            link.close()


def test_whoever_lacks_the_certificate_is_not_let_in_nor_joined(pem: bytes) -> None:
    for shown in (wire.make_certificate(), None):
        with wire.listen("127.0.0.1") as listener, ThreadPoolExecutor(1) as pool:
            there = pool.submit(wire.accept, listener, pem)
            where = listener.getsockname()[:2]
            if shown is not None:
                with pytest.raises(LostError):
                    wire.connect(*where, shown)
            else:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                with context.wrap_socket(socket.create_connection(where)) as stranger, pytest.raises(ssl.SSLError):
                    stranger.recv(1)  # no certificate was shown
            assert there.result(10) is None


def test_who_says_nothing_is_let_go(pem: bytes, patch: Patch) -> None:
    patch.constant(wire, "HELLO_SECONDS", 0.1)
    with wire.listen("127.0.0.1") as listener, socket.create_connection(listener.getsockname()[:2]):
        assert wire.accept(listener, pem) is None


def test_messages_arrive_whole_and_an_end_is_noticed(links: tuple[Link, Link]) -> None:
    there, here = links
    here.send_json({"machine": 1})
    here.send(b"ab", memoryview(bytes(range(256))))
    assert there.receive_json() == {"machine": 1}
    parts = bytearray(200), bytearray(58)
    there.receive_into(*map(memoryview, parts))
    assert bytes(parts[0] + parts[1]) == b"ab" + bytes(range(256))
    here.send(b"abc")
    with pytest.raises(LostError):  # of another length: the ends are out of step
        there.receive_into(memoryview(bytearray(2)))
    here.close()
    with pytest.raises(LostError):
        there.receive_json()


@pytest.mark.parametrize("address", ["0.0.0.0", "[::]:80", "a:b", "", "tls://a", "u@h", "0.0.0.0:5"])
def test_addresses_that_are_none_or_stand_for_all_interfaces_are_refused(address: str) -> None:
    with pytest.raises(ValueError):
        RuntimeConfig(num_machines=2, train_address=address)


def test_settings() -> None:
    assert wire.parse_address("10.0.0.1") == ("10.0.0.1", 0)
    assert wire.parse_address("node-a:7070") == ("node-a", 7070)
    assert wire.parse_address("[fd00::1]:7070") == ("fd00::1", 7070)
    with pytest.raises(ValueError, match="needs train_address"):
        RuntimeConfig(num_machines=2)
    check_interface("lo")
    check_interface(None)
    with pytest.raises(ConfigError, match="no interface none7 here; there are lo"):
        check_interface("none7")
    with pytest.raises(ConfigError, match=r"nothing can listen at 203\.0\.113\.9 here"):
        wire.listen("203.0.113.9")


def on_threads(*work: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(work)) as pool:
        futures: list[Future[Any]] = [pool.submit(one) for one in work]
        return [future.result(20) for future in futures]


def test_sums_over_machines_are_the_same_bits_everywhere(links: tuple[Link, Link]) -> None:
    there, here = links
    torch.manual_seed(0)
    own = [[torch.randn(3, 4).t(), torch.tensor(1.5, dtype=torch.float64), torch.zeros(0)] for _ in range(2)]
    expected = [a + b for a, b in zip(*own, strict=True)]
    machines = [
        MachineSums(first=0, count=4, to_others=(there,)),
        MachineSums(first=2, count=4, to_first=here),
    ]
    on_threads(*(lambda m=m, t=t: m.add_up(t) for m, t in zip(machines, own, strict=True)))  # type: ignore[misc]
    for tensors in own:
        assert all(torch.equal(a, b) for a, b in zip(tensors, expected, strict=True))
    own[1][0].zero_()
    on_threads(*(lambda m=m, t=t: m.follow_first(t) for m, t in zip(machines, own, strict=True)))  # type: ignore[misc]
    assert torch.equal(own[1][0], expected[0])
    machines[1].close()
    with pytest.raises(LostError):
        machines[0].add_up(own[0])


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(
        count=2, address="127.0.0.1", interface=None, wait_seconds=20, folder=tmp_path / "trainings",
        needed=(str(tmp_path),),
    )  # fmt: skip


def meet(machines: Machines, patch: Patch, interface: str | None = None) -> list[str]:
    """What the machine that joins says, when the first one ends as soon as it is there."""
    said: list[str] = []
    is_over = threading.Event()
    patch.constant(guest, "LOOK_SECONDS", 0.02)
    joining = Joining(root=machines.folder, folder=machines.folder, count=3, interface=interface, say=said.append)
    thread = threading.Thread(target=wait_and_join, args=(joining, is_over.is_set))
    thread.start()
    try:
        with gathered(machines, False, lambda *told: None) as found:
            assert {stat.S_IMODE(path.stat().st_mode) for path in machines.folder.iterdir()} == {0o600}
            assert [(one.count, bool(one.name)) for one in found.guests] == [(3, True)]
            said.append("gathered")
    finally:
        is_over.set()
        thread.join(20)
        assert not list(machines.folder.iterdir())
    return said


def test_a_machine_with_all_that_is_needed_joins(machines: Machines, patch: Patch) -> None:
    machines.folder.mkdir()
    for name in ("dead.lock", "dead.json"):  # of a training that was killed
        (machines.folder / name).write_text("{}")
    said = meet(machines, patch)
    assert said[:2] == ["waiting for a training", "joined a training; waiting for the other machines"]
    assert said[2:] == ["gathered", "the training ended without this machine"]


def test_each_thing_that_a_machine_lacks_is_named(machines: Machines, patch: Patch) -> None:
    def refused(machines: Machines) -> str:
        with pytest.raises(ExecutorError, match="cannot take part in this training") as error:
            meet(machines, patch)
        return str(error.value)

    assert "does not see /nowhere; all machines must mount one file system" in refused(
        replace(machines, needed=("/nowhere",))
    )
    assert "no runtime.private_interface" in refused(replace(machines, interface="lo"))
    patch(host, "installed", lambda: {**invitation.installed(), "torch": "1.0"})
    assert f"torch {torch.__version__} in place of 1.0" in refused(machines)
    alone = gathered(replace(machines, wait_seconds=0), False, lambda *told: None)
    with pytest.raises(ExecutorError, match="1 of 2 machines were there within 0 s"), alone:
        pass


def test_what_a_machine_does_not_do_though_it_is_told_to(tmp_path: Path, pem: bytes) -> None:
    joining = Joining(root=tmp_path, folder=tmp_path, count=1, interface=None, say=print)
    invited = invitation.Invitation(token="t", pem=pem, host="h", port=1, needed=())

    def answer(**order: Any) -> str:
        return guest._train(joining, invited, None, {"meeting": str(tmp_path), **order})  # type: ignore[arg-type]

    assert "no runtime.private_interface is set here" in answer(is_private=True)
    for elsewhere in ("/tmp", f"{tmp_path}/../other"):
        assert "a folder that is not of this store" in answer(is_private=False, meeting=elsewhere)
    assert pem.decode() not in repr(invited)


def test_who_failed_is_told_before_who_lost_its_partner(tmp_path: Path) -> None:
    folder = Target(folder=tmp_path)
    lost = Failure(0, "lost", "LostError")
    error = launch._as_error([lost, Failure(2, "died", "was ended by SIGKILL", machine="node-b")], 4, folder)
    assert "training process 2 (of 4, from 0, on node-b) was ended by SIGKILL" in str(error)
    error = launch._as_error([lost], 4, folder)
    assert isinstance(error, StageError)
    assert "lost its connection to another machine" in str(error)


def test_a_machine_is_heard_as_a_process_is(links: tuple[Link, Link]) -> None:
    there, here = links
    pipe = team.pipe_of(there, 2, "node-b")
    failure = Failure(3, "failed", "ValueError", "Traceback")
    team.tell(here, failure)
    assert team.watch({pipe: (2, None)}, print) == ({}, [replace(failure, machine="node-b")])
    here.close()
    _, (gone,) = team.watch({pipe: (2, None)}, print)
    assert (gone.kind, gone.name) == ("died", "was lost with its machine")


def test_how_sums_crossed_is_remembered_over_attempts(tmp_path: Path) -> None:
    scratch = Target(folder=tmp_path)
    assert crossings.crossings_in(scratch) == ()
    crossings.note_crossing(scratch, "private_interface")
    crossings.note_crossing(scratch, "encrypted")
    assert crossings.crossings_in(scratch) == ("encrypted", "private_interface")
    (tmp_path / "crossings.json").write_text("{")
    assert crossings.crossings_in(scratch) == ("encrypted", "private_interface")  # the worst is supposed
    (tmp_path / "crossings.json").unlink()
    assert crossings.crossings_in(scratch, ("private_interface",)) == ("private_interface",)


class _OverError(Exception):
    pass


def test_a_machine_may_be_there_before_the_store(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("9f3a" * 16)
    config = tmp_path / "reticent.toml"
    config.write_text('[store]\nkey_file = "key"\n[corpus]\ninputs = ["corpus"]\n')
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
