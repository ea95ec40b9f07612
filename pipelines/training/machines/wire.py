"""Connections between machines that train together.

Both ends show the one certificate of the training and accept no other, over TLS 1.3. Whoever can read its key can read
the private root. Recorded traffic stays closed when the key becomes known later: each connection agrees on a key of its
own. A peer that is gone without a word is noticed by the kernel (`DEAD_SECONDS`), so that nothing here needs a timeout.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
import ssl
import struct
import tempfile
import threading
from collections.abc import Iterator
from multiprocessing.connection import wait
from typing import Any, Final
from urllib.parse import urlsplit

from pipelines.errors import ConfigError

DEAD_SECONDS: Final = 30
"""After so long without an answer from the other machine's kernel a connection is lost."""
HELLO_SECONDS: Final = 5.0
"""How long whoever connects may take until he has shown the certificate."""
_LENGTH: Final = struct.Struct(">Q")
_PIECE: Final = 2**24
_LARGEST_MESSAGE: Final = 2**24
_VALID: Final = datetime.timedelta(days=365)
_CLOCKS: Final = datetime.timedelta(days=1)


class LostError(Exception):
    """The other end of a connection is gone."""


def make_certificate() -> bytes:
    """A fresh key and a certificate for it, signed by itself, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "reticent training")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _CLOCKS)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)


def _context(pem: bytes, purpose: int) -> ssl.SSLContext:
    context = ssl.SSLContext(purpose)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate is known, and no other one is accepted
    context.verify_mode = ssl.CERT_REQUIRED
    with _named(pem) as path:
        context.load_cert_chain(path)
        context.load_verify_locations(path)
    if purpose == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # so that whatever makes a connection readable is a message
    return context


@contextlib.contextmanager
def _named(pem: bytes) -> Iterator[str]:
    """A file that OpenSSL can open, in memory where that can be: the key is on no disk."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("pem"), "wb") as file:
            file.write(pem)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as named:
            named.write(pem)
            named.flush()
            yield named.name


class Link:
    """A connection to another machine. One thread may read while others write."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._connection = connection
        self._lock = threading.Lock()  # OpenSSL's connections are not for two threads at once

    def send(self, *parts: bytes | memoryview) -> None:
        """Sends one message.

        Raises:
            LostError: the other end is gone.
        """
        try:
            with self._lock:
                self._connection.sendall(_LENGTH.pack(sum(len(part) for part in parts)))
                for part in parts:
                    for start in range(0, len(part), _PIECE):
                        self._connection.sendall(memoryview(part)[start : start + _PIECE])
        except (OSError, ValueError):
            raise LostError from None

    def receive_into(self, *parts: memoryview) -> None:
        """Receives one message that fills the parts.

        Raises:
            LostError: the other end is gone, or says something of another length.
        """
        self._wait()
        with self._lock:
            if self._length() != sum(len(part) for part in parts):
                raise LostError
            for part in parts:
                self._fill(part)

    def send_json(self, message: Any) -> None:
        """`send` of a small JSON document."""
        self.send(json.dumps(message).encode())

    def receive_json(self) -> Any:
        """A small JSON document.

        Raises:
            LostError: the other end is gone, or says something else.
        """
        self._wait()
        with self._lock:
            length = self._length()
            if length > _LARGEST_MESSAGE:
                raise LostError
            message = bytearray(length)
            self._fill(memoryview(message))
        try:
            return json.loads(message)
        except ValueError:
            raise LostError from None

    def fileno(self) -> int:
        """Of the socket: readable when the other end has spoken, or is gone."""
        return self._connection.fileno()

    def close(self) -> None:
        """Ends the connection for both."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for a message
        self._connection.close()

    def _wait(self) -> None:
        """Until there is something to read. Not in `recv`, which would hold the lock."""
        try:
            with self._lock:
                if self._connection.pending():
                    return
            wait([self._connection])
        except (OSError, ValueError):
            raise LostError from None

    def _length(self) -> int:
        head = bytearray(_LENGTH.size)
        self._fill(memoryview(head))
        (length,) = _LENGTH.unpack(head)
        return int(length)

    def _fill(self, part: memoryview) -> None:
        while part:
            try:
                count = self._connection.recv_into(part)
            except (OSError, ValueError):
                raise LostError from None
            if not count:
                raise LostError
            part = part[count:]


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of ``HOST``, ``HOST:PORT`` or ``[HOST]:PORT``; port 0 where none is given.

    Raises:
        ValueError: it is no such address, or stands for all interfaces of a machine.
    """
    split = urlsplit(f"//{address}")
    if not split.hostname or split.path or split.query or split.fragment or split.username is not None:
        raise ValueError("train_address is HOST, HOST:PORT or [HOST]:PORT")
    if split.hostname in ("0.0.0.0", "::", "*"):  # noqa: S104  (refused)
        raise ValueError("train_address is the address of one interface, not of all")
    return split.hostname, split.port or 0


def listen(address: str) -> socket.socket:
    """A socket that listens at one address.

    Raises:
        ConfigError: the machine does not have it, or the port is taken.
    """
    host, port = parse_address(address)
    try:
        family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(128)
    except OSError as error:
        raise ConfigError(
            f"runtime.train_address: nothing can listen at {address} here ({os.strerror(error.errno or 0)}); it is an "
            "address of the machine that runs the flow, with a free port or none"
        ) from None
    return listener


def accept(listener: socket.socket, pem: bytes) -> Link | None:
    """The next who connects; None for one who does not show the certificate in time."""
    connection, _ = listener.accept()
    try:
        connection.settimeout(HELLO_SECONDS)
        made = _context(pem, ssl.PROTOCOL_TLS_SERVER).wrap_socket(connection, server_side=True)
    except OSError:
        connection.close()
        return None
    return _linked(made)


def connect(host: str, port: int, pem: bytes, timeout: float | None = None) -> Link:
    """A connection to the machine that runs the flow.

    Raises:
        LostError: it does not answer, or is another one.
    """
    connection = None
    try:
        connection = socket.create_connection((host, port), timeout or DEAD_SECONDS)
        connection.settimeout(timeout)
        return _linked(_context(pem, ssl.PROTOCOL_TLS_CLIENT).wrap_socket(connection))
    except OSError:
        if connection is not None:
            connection.close()
        raise LostError from None


def _linked(connection: ssl.SSLSocket) -> Link:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", DEAD_SECONDS // 3),
        ("TCP_KEEPINTVL", DEAD_SECONDS // 6),
        ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", DEAD_SECONDS * 1_000),
    ):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return Link(connection)
