"""The review page's server. It listens on 127.0.0.1 only, serves one browser, and loads nothing from other machines.

The page shows secrets. Therefore:

* A one-time token opens the page. The server exchanges it for a cookie that scripts and other sites cannot use.
* The Host header must be ours, which shuts out names that somebody pointed at this machine. Writes must come from our
  own page.
* Every answer forbids caching, framing and foreign content. Nothing is logged.

Anybody on this machine can connect. The server cuts off a connection that sends no complete request. If there are too
many connections, it cuts off the one that has waited longest. The reviewer's own, which has shown the cookie, is last.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from pipelines.errors import ReticentError

HOST: Final = "127.0.0.1"
_PAGE: Final = Path(__file__).parent / "page"
_FILES: Final[Mapping[str, tuple[str, str]]] = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/review.css": ("review.css", "text/css; charset=utf-8"),
    "/review.js": ("review.js", "text/javascript; charset=utf-8"),
}
_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Pragma": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_MAX_BODY_BYTES: Final = 1 << 20
MAX_CONNECTIONS: Final = 64
"""Most open connections, each with a thread. A browser opens about six for one page."""
_COOKIE: Final = "reticent_review"

Api = Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]]
"""Functions by path below /api/. Each takes the request's JSON object and returns the answer's."""


@dataclass
class _Connection:
    """A client's connection.

    Attributes:
        since: time since when the server waits for the rest of a request; None while a request is answered
        is_known: flag that the client has shown the cookie
    """

    since: float | None
    is_known: bool = False


class ReviewServer(ThreadingHTTPServer):
    """Serves the page and an API.

    Args:
        api: functions that the page may call; see `Api`
        port: port to listen on; 0 takes a free one

    Attributes:
        url: address to open once, with the one-time token
        request_seconds: time limit for a client to send a complete request
        idle_seconds: time for which a browser that has shown the cookie may keep an idle connection
    """

    daemon_threads = True
    request_queue_size = 2 * MAX_CONNECTIONS  # connections that the kernel keeps until they are accepted
    # Another user's process must not be able to take over the port while we listen.
    allow_reuse_address = True
    allow_reuse_port = False

    def __init__(self, api: Api, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.api = api
        self.token: str | None = secrets.token_urlsafe(32)
        self.session = secrets.token_urlsafe(32)
        self.hosts = {f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"}
        self.cookie = (
            f"{_COOKIE}_{self.server_port}"  # browsers share cookies between ports, so each server needs its own name
        )
        self.request_seconds = 20.0
        self.idle_seconds = 60.0
        self._connections: dict[socket.socket, _Connection] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Address to open once in the browser."""
        return f"http://{HOST}:{self.server_port}/?token={self.token}"

    def exchange(self, token: str) -> bool:
        """Checks the one-time token, and uses it up if it is right."""
        if self.token is None or not hmac.compare_digest(token.encode(), self.token.encode()):
            return False
        self.token = None
        return True

    def process_request(self, request: Any, client_address: Any) -> None:
        """Takes a connection, and cuts off others if there are too many."""
        with self._lock:
            self._connections[request] = _Connection(time.monotonic())
            waiting = [(c.is_known, c.since, one) for one, c in self._connections.items() if c.since is not None]
            surplus = max(0, len(self._connections) - MAX_CONNECTIONS)
            for _, _, one in sorted(waiting, key=lambda entry: entry[:2])[:surplus]:
                self._cut_off(one)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Cuts off clients that take too long, even if bytes still come. Runs several times a second."""
        now = time.monotonic()
        with self._lock:
            for one, connection in list(self._connections.items()):
                patience = self.idle_seconds if connection.is_known else self.request_seconds
                if connection.since is not None and now - connection.since > patience:
                    self._cut_off(one)

    def _cut_off(self, one: socket.socket) -> None:
        """Cuts off a connection, which ends its thread. The caller holds the lock."""
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        self._connections.pop(one, None)

    def shutdown_request(self, request: Any) -> None:
        """Closes a connection."""
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    @contextlib.contextmanager
    def answering(self, request: socket.socket, *, is_known: bool) -> Iterator[None]:
        """Stops the client's time limit while its request is answered, and restarts it afterwards."""
        self._note(request, None, is_known)
        try:
            yield
        finally:
            self._note(request, time.monotonic(), is_known)

    def _note(self, request: socket.socket, since: float | None, is_known: bool) -> None:
        with self._lock:
            if (connection := self._connections.get(request)) is not None:
                connection.since, connection.is_known = since, connection.is_known or is_known

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints nothing: a traceback may quote private text, and a browser that went away is normal."""


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    protocol_version = "HTTP/1.1"
    server_version = "reticent"
    sys_version = ""
    timeout = 60

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing, because paths hold the token and bodies hold sensitive text."""

    def do_GET(self) -> None:
        """Serves the page and its two files, and exchanges the token for the cookie."""
        with self.server.answering(self.connection, is_known=self._has_session()):
            self._get()

    def _get(self) -> None:
        path = urlsplit(self.path)
        if self.headers.get("Host") not in self.server.hosts:
            return self._refuse(421, "This address is not the review page's own.")
        if path.path == "/" and (tokens := parse_qs(path.query).get("token")):
            return self._enter(tokens[0])
        if not self._has_session():
            return self._refuse(403, "Open the address that reticent review printed. It works once; start it again.")
        if path.path not in _FILES or path.query:
            return self._refuse(404, "There is no such page.")
        name, kind = _FILES[path.path]
        return self._answer(200, (_PAGE / name).read_bytes(), kind)

    def do_POST(self) -> None:
        """Answers one call of the API."""
        length = self.headers.get("Content-Length", "")
        body = b""
        if length.isdecimal() and int(length) <= _MAX_BODY_BYTES:
            body = self.rfile.read(int(length))
        else:
            self.close_connection = True
            return self._refuse(413, "The request is too large.")
        with self.server.answering(self.connection, is_known=self._has_session()):
            return self._post(body)

    def _post(self, body: bytes) -> None:
        if self.headers.get("Host") not in self.server.hosts:
            return self._refuse(421, "This address is not the review page's own.")
        if self.headers.get("Origin") != f"http://{self.headers['Host']}" or not self._has_session():
            return self._refuse(403, "This request does not come from the review page.")
        if self.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            return self._refuse(415, "Only JSON is taken.")
        name = self.path.removeprefix("/api/")
        if not self.path.startswith("/api/") or name not in self.server.api:
            return self._refuse(404, "There is no such function.")
        try:
            request = json.loads(body)
            if not isinstance(request, dict):
                raise ValueError
            answer = self.server.api[name](request)
        except ReticentError as error:
            return self._json(500, {"error": str(error)})
        except (ValueError, TypeError, LookupError, RecursionError):
            return self._json(400, {"error": "The request could not be understood; reload the page."})
        return self._json(200, answer)

    def _has_session(self) -> bool:
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self.server.session.encode())

    def _enter(self, token: str) -> None:
        if not self.server.exchange(token) and not self._has_session():
            return self._refuse(403, "This address was used before. Start reticent review again for a new one.")
        cookie = f"{self.server.cookie}={self.server.session}; Path=/; HttpOnly; SameSite=Strict"
        # Going on to "/" keeps the token out of the address bar and of the history.
        return self._answer(303, b"", "text/plain", {"Set-Cookie": cookie, "Location": "/"})

    def _refuse(self, status: int, message: str) -> None:
        self._answer(status, f"{message}\n".encode(), "text/plain; charset=utf-8")

    def _json(self, status: int, document: Mapping[str, Any]) -> None:
        self._answer(status, json.dumps(document, ensure_ascii=False).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str, extra: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **(extra or {}), "Content-Type": kind}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
