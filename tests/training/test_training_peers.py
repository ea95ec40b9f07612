"""Other users of the machine: whoever connects to torch's sockets takes the place of a process, unless it is seen."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from pipelines.artifacts import Target
from pipelines.errors import PrivacyGateError
from pipelines.training import peers
from pipelines.training.machines import launch

NOBODY = 65534
CONNECTS = """
import socket, sys, time
connected = [socket.create_connection(("127.0.0.1", int(port))) for port in sys.argv[1:]]
print("connected", flush=True)
time.sleep(60)
"""
TAKES_A_PLACE = """
import socket, struct, sys, time
known = []
print("ready", flush=True)
while True:
    for line in open("/proc/net/tcp").read().splitlines()[1:]:
        place, state, owner = [line.split()[i] for i in (1, 3, 7)]
        if state == "0A" and owner == sys.argv[1] and place not in known:
            known.append(place)
            for number in range(3):  # of a pair of processes: gloo counts them
                one = socket.create_connection(("127.0.0.1", int(place.split(":")[1], 16)))
                one.sendall(struct.pack("<q", number))
                known.append(one)
"""


def another_user(code: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of another user, from the moment when it has printed a line."""
    command = ["/usr/bin/env", "python3", "-c", code, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, user=NOBODY, env={"PATH": "/usr/bin:/bin"}) as process:
        try:
            assert process.stdout
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def need_another_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can act for another user")
    if not Path("/usr/bin/python3").exists():
        pytest.skip("there is no python3 here")


def test_connections_of_our_own_user_are_no_strangers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        accepted, _ = server.accept()
        with accepted:
            assert not peers.has_strangers()


def test_another_user_at_the_other_end_is_noticed(patch) -> None:  # type: ignore[no-untyped-def]
    need_another_user()
    patch.constant(peers, "WAIT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        for process in another_user(CONNECTS, str(server.getsockname()[1])):
            accepted, _ = server.accept()
            with accepted:
                assert peers.has_strangers()
                with pytest.raises(PrivacyGateError, match="another user of this machine connected"):
                    peers.require_own_peers()
            process.kill()
    assert not peers.has_strangers()


def add_up(progress: object) -> list[float]:
    total = torch.full((8,), 1000.0)
    torch.distributed.all_reduce(total)
    return total.tolist()


@pytest.mark.slow
def test_whoever_takes_the_place_of_a_training_process_gets_no_sum(tmp_path: Path) -> None:
    """In a network of its own, so that nothing else of this machine is connected to."""
    need_another_user()
    here = [sys.executable, str(Path(__file__).resolve()), str(tmp_path)]
    script = 'ip link set lo up && exec "$@"'
    done = subprocess.run(["unshare", "--net", "sh", "-c", script, "sh", *here], capture_output=True, timeout=120)
    if b"unshare failed" in done.stderr:
        pytest.skip("network namespaces are not allowed here")
    assert b"another user of this machine connected" in done.stderr, done.stderr.decode()


def attack() -> None:
    """Trains beside an attacker. On a busy machine the attacker may be late. Then the sum is that of our processes."""
    for attacker in another_user(TAKES_A_PLACE, str(os.geteuid())):
        threading.Timer(45, attacker.kill).start()
        try:
            total = launch.launch(
                add_up,
                (),
                count=2,
                device="cpu",
                progress=lambda *_: None,
                failures=Target(folder=Path(sys.argv[1]) / "f"),
            )
        except PrivacyGateError as error:
            print(error, file=sys.stderr, flush=True)
            attacker.kill()
            os._exit(0)
        assert total == [2000.0] * 8


if __name__ == "__main__":
    threading.Timer(110, os._exit, (3,)).start()  # processes that wait for one that will never answer
    for _ in range(5):
        attack()
    os._exit(4)
