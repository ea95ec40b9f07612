"""Passwords and folders of Prefect, which only their owner may read, and checks that a server needs its password."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shlex
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flows.environment import DEFAULTS, HEARTBEAT, HEARTBEAT_SECONDS
from pipelines.errors import ConfigError, PrivacyGateError, StoreError

DEFAULT_API = "http://127.0.0.1:4200/api"
HOW_TO_CLOSE = (
    "make a file with a password (`reticent deploy --init-auth FILE`), read it in every terminal "
    "(`set -a; . FILE; set +a`), and start the server again (`prefect server start`)"
)

_PASSWORDS = ("PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?(/[A-Za-z0-9._/-]*)?")


def init_auth(file: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Writes the variables with which server, worker and command line talk to each other and to nobody else.

    A shell, systemd and Docker Compose can read the file. The values of an existing file stay.

    Args:
        file: file to write, created with mode 0600; an existing file keeps its owner and its mode
        environ: environment, whose ``PREFECT_API_URL`` names a server other than this machine's port 4200

    Returns:
        A dictionary of ``file`` and ``added``, the names that were added to the file; never a value.

    Raises:
        ConfigError: the file cannot be written, others may read or change it, or it holds only one of the two
            passwords.
    """
    try:
        before = _read(file)
        pairs = [line.split("=", 1) for line in before.splitlines() if "=" in line]
        present = {name.strip() for name, value in pairs if value.strip()}
        lines = [f"{name}={value}" for name, value in _contents(environ) if name not in present]
        if len(missing := [name for name in _PASSWORDS if name not in present]) == 1:
            raise ConfigError(f"{file} has a password but no {missing[0]}; both are needed, with the same value")
        if lines:
            _write(file, "".join(f"{line}\n" for line in (*before.splitlines(), *lines)))
    except (OSError, UnicodeDecodeError) as error:
        code = errno.errorcode.get(getattr(error, "errno", None) or 0, "not text")
        raise ConfigError(f"{file} cannot be written ({code})") from None
    return {"file": str(file.resolve()), "added": [line.split("=", 1)[0] for line in lines]}


def init_auth_text(document: Mapping[str, Any]) -> str:
    """Returns the next steps, for people."""
    file = shlex.quote(document["file"])
    done = "has a new password" if set(_PASSWORDS) & set(document["added"]) else "keeps its password"
    return (
        f"{file} {done}\n"
        f"in each terminal  set -a; . {file}; set +a\n"
        "then              prefect server start\n"
        "the page asks     for the value of PREFECT_API_AUTH_STRING"
    )


def _contents(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    api = environ.get("PREFECT_API_URL") or DEFAULT_API
    if not _ADDRESS.fullmatch(api):  # this also keeps out characters that a shell would interpret
        raise ConfigError("PREFECT_API_URL is no address as in http://127.0.0.1:4200/api")
    place = urlsplit(api)
    password = f"reticent:{secrets.token_urlsafe(32)}"
    yield "PREFECT_API_URL", api
    yield "PREFECT_UI_API_URL", api
    yield "PREFECT_SERVER_API_HOST", "127.0.0.1"
    # The address may name another port if the server is behind a proxy.
    yield "PREFECT_SERVER_API_PORT", str(place.port or 4200)
    for name in _PASSWORDS:
        yield name, password
    # The server's own page needs only its own origin. Prefect's default allows all.
    yield "PREFECT_SERVER_CORS_ALLOWED_ORIGINS", f"{place.scheme}://{place.netloc}"
    yield "PREFECT_SERVER_CSRF_PROTECTION_ENABLED", "true"
    yield HEARTBEAT, str(HEARTBEAT_SECONDS)
    yield from ((name, DEFAULTS[name]) for name in ("DO_NOT_TRACK", "PREFECT_SERVER_ANALYTICS_ENABLED"))


def _read(file: Path) -> str:
    """Reads the file; returns an empty text if there is none.

    Raises:
        ConfigError: others may read or change it.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return ""
    with os.fdopen(descriptor, encoding="utf-8") as opened:
        if os.fstat(opened.fileno()).st_mode & 0o027:
            raise ConfigError(
                f"{file} can be read or changed by others; if it holds a password, delete it and make a new one, "
                f"else `chmod 600 {file}`"
            )
        return opened.read()


def _write(file: Path, text: str) -> None:
    """Replaces the whole file, which nobody else can read at any moment."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            if file.exists():
                found = file.stat()
                os.fchown(opened.fileno(), found.st_uid, found.st_gid)
                os.fchmod(opened.fileno(), stat.S_IMODE(found.st_mode))
            os.fsync(opened.fileno())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def close_home(home: Path) -> None:
    """Makes Prefect's home private, because its database holds figures, keys and paths, and SQLite lets all read it.

    Raises:
        ConfigError: the home is a folder that all users share.
        PrivacyGateError: the home belongs to another user and is open to others.
    """
    try:
        found = home.stat()
    except FileNotFoundError:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return
    if not found.st_mode & 0o077:
        return
    if found.st_mode & stat.S_ISVTX:
        raise ConfigError(f"PREFECT_HOME is {home}, which all users share; set it to a folder of your own")
    if found.st_uid != os.geteuid():
        raise PrivacyGateError(
            f"Prefect's home {home} belongs to another user and others can read it; give it mode 0700, "
            "or set PREFECT_HOME to a folder of your own"
        )
    home.chmod(0o700)


def check_password_is_needed() -> None:
    """Checks that the server that PREFECT_API_URL names refuses a request without a password.

    Anybody who may start runs on a server chooses what its worker runs, and the worker reads the private root.

    Raises:
        ConfigError: the server answers the request.
        StoreError: the server cannot be reached.
    """
    import httpx
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.settings import PREFECT_API_URL

    try:
        with SyncPrefectClient(PREFECT_API_URL.value()) as client:
            client.request("GET", "/admin/version")
    except httpx.HTTPStatusError as error:
        if error.response.status_code in (401, 403):
            return
        raise StoreError(
            f"the server that PREFECT_API_URL names answers with status {error.response.status_code}; is it Prefect's?"
        ) from None
    except (httpx.TransportError, RuntimeError):
        raise StoreError(
            "the Prefect server that PREFECT_API_URL names does not answer; start it (prefect server start)"
        ) from None
    raise ConfigError(
        "the Prefect server that PREFECT_API_URL names asks for no password: other users of its machine, and web pages "
        f"that are open on it, can make the worker run what they like; {HOW_TO_CLOSE}"
    )
