"""The embedded Prefect server, which serves only the process that starts it.

Prefect's own embedded server has no password and takes the first free port, on which another user may already listen
for our data. Ours asks for a password that lives as long as this process, and gets a port that this process has bound.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
from functools import lru_cache

from flows.environment import on_server
from flows.server.credentials import check_password_is_needed, close_home
from pipelines.errors import ConfigError, StoreError
from pipelines.processes import ignore_interrupts

# A server gets no signal if its parent is killed by SIGKILL, so it checks for the parent.
_SERVE = """
import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
import os, socket, sys, threading, time, uvicorn
def end_with_parent():
    while os.getppid() == int(sys.argv[2]):
        time.sleep(0.5)
    os._exit(0)
threading.Thread(target=end_with_parent, daemon=True).start()
config = uvicorn.Config("prefect.server.api.server:create_app", factory=True, log_level="error", lifespan="on")
server = uvicorn.Server(config)
server.run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
sys.exit(0 if server.started else 3)
"""
_SERVER_ENVIRONMENT = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}


def protect_server() -> None:
    """Makes the server that Prefect will start in this process serve only this process.

    Call it before the first flow. The password is in the environment, which Prefect reads, its server inherits, and
    only this user can read. If the settings name a separate server, that server must ask for a password, because it
    gets figures of private data and this process trusts its answers.

    Raises:
        ConfigError, PrivacyGateError: the named server asks for no password, or others may use the folder that holds
            Prefect's database.
    """
    if on_server():
        _check_named_server()
        return
    before = {name: os.environ.get(name) for name in _protection()}
    os.environ.update(_protection())
    if "prefect.context" in sys.modules:
        _read_environment()
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME

    if PREFECT_API_URL.value():  # a profile names a server, which has a password of its own
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        _read_environment()
        _check_named_server()
        return
    close_home(PREFECT_HOME.value())
    _replace_server()


def _check_named_server() -> None:
    try:
        check_password_is_needed()
    except StoreError:
        return  # the first flow reports it
    except ConfigError as error:
        raise ConfigError(f"{error}. Or unset PREFECT_API_URL to use the embedded server") from None


@lru_cache(maxsize=1)
def _protection() -> dict[str, str]:
    password = f"reticent:{secrets.token_urlsafe(32)}"
    return {
        "PREFECT_API_AUTH_STRING": password,
        "PREFECT_SERVER_API_AUTH_STRING": password,
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": "https://none.invalid",
        "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
    }


def _read_environment() -> None:
    """Refreshes Prefect's global settings, the only ones that its threads see."""
    from prefect.context import refresh_global_settings_context

    refresh_global_settings_context()


def _replace_server() -> None:
    from prefect.server.api.server import SubprocessASGIServer
    from prefect.settings import get_current_settings

    class OwnServer(SubprocessASGIServer):
        """Listens on a socket that was bound before the server starts."""

        _bound: socket.socket

        def find_available_port(self) -> int:
            self._bound = socket.socket()
            self._bound.bind(("127.0.0.1", 0))
            return int(self._bound.getsockname()[1])

        def _run_uvicorn_command(self) -> subprocess.Popen[bytes]:
            # Ignores interrupts until the server has set its own handler, which ends it without a traceback.
            with contextlib.closing(self._bound) as bound, ignore_interrupts():
                return subprocess.Popen(
                    [sys.executable, "-P", "-c", _SERVE, str(bound.fileno()), str(os.getpid())],
                    env={
                        **os.environ,
                        **_SERVER_ENVIRONMENT,
                        **get_current_settings().to_environment_variables(exclude_unset=True),
                    },
                    pass_fds=[bound.fileno()],
                    umask=0o077,
                )

    if SubprocessASGIServer._instances.get(None) is None:
        OwnServer()
