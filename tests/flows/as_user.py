"""Runs commands of ``reticent`` as other users, each in a child of one process that has loaded what they need.

Another user may not be able to read the place where Python is installed, so nothing may be left to load.

``as_user.py WARM_CONFIG`` reads a line of JSON for each command, ``[user id, working folder, [argument...]]``, and
answers with ``[exit code, output, error output]``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile

from flows.cli import main

READING = (
    ("status",),
    ("plan",),
    ("inspect", "redact", "--config"),
    ("show", "redacted", "--config"),
    ("report",),
    ("runs",),
    ("diff", "latest", "previous", "--config"),
    ("ledger",),
    ("dedup-stats",),
    ("verify",),
)
WRITING = (
    ("run",),
    ("run", "--dry-run"),
    ("verify", "--repair"),
    ("gc",),
    ("adopt", "train", "0123456789", "--config"),
    ("sample",),
    ("estimate",),
    ("review", "--status"),
    ("review", "--no-browser", "--reviewer", "ann"),
)


def warm_up(config: str) -> None:
    """Loads what the commands load, by running them on a store of this user's own, without a run in it."""
    import encodings.idna  # noqa: F401
    import pwd  # noqa: F401
    import traceback  # noqa: F401

    import flows.commands.review  # noqa: F401  # not run below
    from flows.arguments import app

    for command in (*READING, *WRITING):
        if command[:1] not in (("run",), ("review",), ("estimate",), ("sample",)) or "--dry-run" in command:
            with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
                app([*command, config], standalone_mode=False)


def run(user: int, folder: str, arguments: list[str]) -> tuple[int, str, str]:
    """One command."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(error.fileno(), 2)
            os.chdir(folder)
            if user:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            sys.argv = ["reticent", *arguments]
            main()
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, error):
            file.seek(0)
            texts.append(file.read().decode())
        return os.waitstatus_to_exitcode(status), texts[0], texts[1]


if __name__ == "__main__":
    warm_up(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(run(*json.loads(line))), flush=True)
