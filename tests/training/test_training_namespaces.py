"""Machines that train together, each in a network namespace of its own: what crosses, who listens, who is missed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.namespaces import ADDRESSES, Namespace, started, two_namespaces, why_not

from pipelines.errors import StageError

SCRIPT = Path(__file__).with_name("on_machine.py")
SECRET = b"Zebulon was seen on the wire. "
SNIFFER = """
import socket, sys
all_packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
all_packets.bind((sys.argv[1], 0))
print("here", flush=True)
with open(sys.argv[2], "wb", buffering=0) as file:
    while True:
        file.write(all_packets.recv(65_536))
"""
pytestmark = [pytest.mark.slow, pytest.mark.skipif(why_not() is not None, reason=f"{why_not()}")]


@pytest.fixture(scope="module")
def namespaces() -> Iterator[tuple[Namespace, Namespace]]:
    with two_namespaces() as found:
        yield found


def test_what_crosses_and_who_listens(tmp_path: Path, namespaces: tuple[Namespace, Namespace]) -> None:
    first, second = namespaces
    captured = tmp_path / "captured"
    with started(first, "-c", SNIFFER, first.interface, captured) as sniffer:
        assert sniffer.stdout is not None
        assert sniffer.stdout.readline() == "here\n"
        with (
            started(second, SCRIPT, "join", tmp_path, "add", second.interface),
            started(first, SCRIPT, "host", tmp_path, "add", first.interface) as host,
        ):
            out, error = host.communicate(timeout=120)
    assert host.returncode == 0, error
    *said, found = out.splitlines()
    assert (said[-1], found) == ("1 2 added up", f"found {len(SECRET) * 4:.1f} 2")
    assert SECRET in captured.read_bytes()  # what a claim says of the interface is true
    assert "Traceback" not in error
    addresses = {listening(line) for rank in (0, 1) for line in (tmp_path / f"listening-{rank}").read_text().split()}
    assert addresses == {*ADDRESSES}


def listening(line: str) -> str:
    """The address of a line of /proc/net/tcp."""
    address = line.split(":")[0]
    assert len(address) == 8, "over IPv6, where none was asked for"
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(address)))


def test_a_cable_that_is_pulled_ends_all_in_bounded_time(
    tmp_path: Path, namespaces: tuple[Namespace, Namespace]
) -> None:
    first, second = namespaces
    with (
        started(second, SCRIPT, "join", tmp_path, "wait", second.interface) as guest,
        started(first, SCRIPT, "host", tmp_path, "wait", first.interface) as host,
    ):
        assert host.stdout is not None
        while "added up" not in (line := host.stdout.readline()):
            assert line
        pulled = time.monotonic()
        second.ip("link", "set", second.interface, "down")
        try:
            _, error = host.communicate(timeout=90)
        finally:
            second.ip("link", "set", second.interface, "up")
        assert time.monotonic() - pulled < 60
        assert host.returncode == StageError.exit_code
        assert "lost its connection to another one" in error
        assert "Traceback" not in error
        assert guest.stdout is not None
        while "waiting for the other" not in guest.stdout.readline():
            pass
        assert guest.stdout.readline() == "training: processes 1 to 1 of 2, from 0\n"
        assert "the training" in guest.stdout.readline()  # its processes have ended, and it waits for the next
    assert not list((tmp_path / "trainings").iterdir())
