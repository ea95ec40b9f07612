"""Many, slow and idle clients of the review page's server: none keeps the reviewer out."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from support.waiting import wait_for

from flows.review.server import MAX_CONNECTIONS, ReviewServer

AT_ONCE = 40


class Served:
    """A server with one function, which waits where it is asked to."""

    def __init__(self) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.server = ReviewServer({"echo": self._echo, "wait": self._wait})
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self._clients: list[socket.socket] = []
        token = self.server.token
        assert token is not None
        self.server.exchange(token)
        self.cookie = f"{self.server.cookie}={self.server.session}"

    def _echo(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return request

    def _wait(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.entered.set()
        self.go_on.wait(60)
        return request

    def start(self) -> None:
        self._thread.start()

    def connect(self, timeout: float = 60.0) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.server.server_port), timeout)
        self._clients.append(client)
        return client

    def request(self, name: str, body: Mapping[str, Any]) -> bytes:
        host = f"127.0.0.1:{self.server.server_port}"
        data = json.dumps(body).encode()
        head = (
            f"POST /api/{name} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: {self.cookie}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        return head.encode() + data

    def close(self) -> None:
        self.go_on.set()
        for client in self._clients:
            client.close()
        if self._thread.is_alive():
            self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.close()


def _answer(client: socket.socket) -> tuple[int, Any]:
    answer = http.client.HTTPResponse(client)
    answer.begin()
    body = answer.read()
    return answer.status, json.loads(body) if answer.getheader("Content-Type") == "application/json" else body


def _is_cut_off(client: socket.socket, within: float) -> bool:
    client.settimeout(within)
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def _handlers() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def test_forty_connections_at_once_are_all_answered(served: Served) -> None:
    """Five could wait, so that a browser that opened several pages at once saw some of them hang for seconds."""
    clients = [served.connect(timeout=2) for _ in range(AT_ONCE)]  # nobody accepts them yet
    for number, client in enumerate(clients):
        client.settimeout(60)
        client.sendall(served.request("echo", {"number": number}))
    served.start()
    assert [_answer(client) for client in clients] == [(200, {"number": number}) for number in range(AT_ONCE)]


def test_forty_long_answers_at_once_do_not_wait_for_each_other(served: Served) -> None:
    served.start()
    clients = [served.connect() for _ in range(AT_ONCE)]
    for client in clients:
        client.sendall(served.request("wait", {}))
    wait_for("the threads", lambda: _handlers() >= AT_ONCE, pause=0.02)
    other = served.connect()
    other.sendall(served.request("echo", {"quick": True}))
    assert _answer(other) == (200, {"quick": True})
    served.go_on.set()
    assert [_answer(client) for client in clients] == [(200, {})] * AT_ONCE


def test_idle_connections_take_neither_the_reviewers_place_nor_threads_without_end(served: Served) -> None:
    """Another user of the machine can open connections without the token; each held a thread for a minute or more."""
    served.start()
    reviewer = served.connect()
    reviewer.sendall(served.request("echo", {"first": 1}))
    assert _answer(reviewer) == (200, {"first": 1})
    for _ in range(3 * MAX_CONNECTIONS):
        served.connect()
    wait_for("the threads", lambda: _handlers() <= MAX_CONNECTIONS, pause=0.02)
    reviewer.sendall(served.request("echo", {"second": 2}))  # the connection that was there before
    assert _answer(reviewer) == (200, {"second": 2})
    new = served.connect()
    new.sendall(served.request("echo", {"third": 3}))
    assert _answer(new) == (200, {"third": 3})
    # A thread that was cut off takes a moment to end.
    wait_for("the threads", lambda: _handlers() <= MAX_CONNECTIONS, pause=0.02)


def test_a_request_that_comes_byte_by_byte_is_cut_off(served: Served) -> None:
    """Each byte started the time-out anew, so that a slow client kept its thread as long as it liked."""
    served.server.request_seconds = 1.0
    served.start()
    whole = served.request("echo", {"slow": "x" * 1_000})
    clients = [served.connect(), served.connect()]
    clients[1].sendall(whole[:-500])  # inside the body
    open_ones, deadline = list(clients), time.monotonic() + 20
    while open_ones and time.monotonic() < deadline:
        for client in list(open_ones):
            try:
                client.sendall(b"x")
            except OSError:
                open_ones.remove(client)
        time.sleep(0.05)
    assert not open_ones  # all bytes would take 25 seconds
    wait_for("the threads", lambda: _handlers() == 0, pause=0.02)


@pytest.mark.slow
def test_who_never_asks_is_cut_off_and_who_asked_may_think(served: Served) -> None:
    served.start()
    reviewer, stranger = served.connect(), served.connect()
    reviewer.sendall(served.request("echo", {}))
    assert _answer(reviewer) == (200, {})
    served.server.request_seconds = 0.5
    assert _is_cut_off(stranger, within=60)
    assert not _is_cut_off(reviewer, within=1)
    served.server.idle_seconds = 0.5
    assert _is_cut_off(reviewer, within=60)


def test_a_long_answer_is_not_cut_off(served: Served) -> None:
    served.start()
    client = served.connect()
    client.sendall(served.request("wait", {"patient": True}))
    assert served.entered.wait(60)
    served.server.request_seconds = served.server.idle_seconds = 0.2
    time.sleep(1)
    served.go_on.set()
    assert _answer(client) == (200, {"patient": True})


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b"[]", b""], ids=lambda body: body[:6])
def test_a_body_that_is_no_request_is_refused_and_its_connection_lives(served: Served, body: bytes) -> None:
    served.start()
    client = http.client.HTTPConnection("127.0.0.1", served.server.server_port, timeout=60)
    origin = f"http://127.0.0.1:{served.server.server_port}"
    headers = {"Origin": origin, "Cookie": served.cookie, "Content-Type": "application/json"}
    client.request("POST", "/api/echo", body, headers)
    refused = client.getresponse()
    assert refused.status == 400
    assert "reload the page" in json.loads(refused.read())["error"]
    client.request("POST", "/api/echo", b'{"a": 1}', headers)  # on the same connection
    assert json.loads(client.getresponse().read()) == {"a": 1}
    client.close()
