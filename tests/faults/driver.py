"""Runs the whole graph without Prefect, with worker processes, so that a test can kill it.

``driver.py CONFIG [LAST_STAGE]`` runs up to a stage (``shard`` if not given), prints what became of each stage as JSON
and exits as the command line does. ``driver.py serve`` loads the heavy libraries and the language model, and reads the
code, once; then it does a run in a forked child for every line of JSON on its input: ``{"config", "last",
"environment", "kill_at", "root"}``. With ``COUNT`` for ``kill_at`` nothing is killed, and the changes of files below
the root are listed in ``steps.json`` beside it.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path

from flows.running.lifecycle import fail, finish, running
from flows.running.spec import begin
from pipelines.errors import ReticentError
from pipelines.store.objects.session import open_session
from pipelines.store.place.outcome import Outcome, PartitionKeys
from pipelines.walks import default_stages
from tasks.builders import builder_of

COUNT = -1


def run_until(config: Path, last: str = "shard") -> list[Outcome]:
    """Every stage up to ``last``, partitions side by side; then ``latest/`` and the record, as in a flow."""
    run = begin(config, os.environ)
    session = open_session(run)
    keys: dict[str, PartitionKeys] = {}
    with running(run):
        try:
            for name in default_stages():
                outcomes = builder_of(run).build_stage(name, keys)
                keys[name] = tuple((outcome.partition, outcome.key or "") for outcome in outcomes)
                session.outcomes.extend(outcomes)
                if name == last:
                    break
        except ReticentError:
            fail(run)
            raise
        finish(run)
    return list(session.outcomes)


def one_run(config: Path, last: str) -> int:
    """A run with its result on the output, or its message on the error output, and the exit code."""
    try:
        outcomes = run_until(config, last)
    except ReticentError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(json.dumps([[o.stage, o.partition, o.state, o.key] for o in outcomes]), flush=True)
    return 0


def serve() -> None:
    """Answers each request with the child's process id, and with its exit status when it has ended."""
    from inject import die, striking

    sys.path.append(str(Path(__file__).parents[1]))
    from support.loaded import load_library

    load_library()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 70
            try:
                os.setsid()
                os.dup2(os.open(os.devnull, os.O_RDWR), 0)
                os.dup2(2, 1)
                os.environ.update(request["environment"])
                root = Path(request["root"])
                at = request["kill_at"]
                with nullcontext() if at is None else striking([root], die, at if at >= 0 else None) as counter:
                    code = one_run(Path(request["config"]), request["last"])
                if at == COUNT:
                    root.with_name("steps.json").write_text(json.dumps(counter.steps))
            finally:
                os._exit(code)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(status, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        sys.exit(one_run(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "shard"))
