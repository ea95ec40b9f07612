"""drive.py CONFIG: preparation up to the public rows, by the executor of the settings and without Prefect.

Prints what became of each stage as JSON, and exits as the command line does.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from flows.running.lifecycle import fail, finish, refuse_settings, running
from flows.running.spec import PREPARATION, begin
from pipelines.errors import ReticentError
from pipelines.store.objects.session import open_session
from pipelines.store.place.outcome import PartitionKeys
from tasks.builders import builder_of


def prepare(config: Path) -> dict[str, list[str]]:
    """The states of all partitions, by stage."""
    run = begin(config, os.environ, selected=PREPARATION)
    refuse_settings(run)
    keys: dict[str, PartitionKeys] = {}
    states: dict[str, list[str]] = {}
    with running(run):
        try:
            for name in PREPARATION:
                outcomes = builder_of(run).build_stage(name, keys)
                open_session(run).outcomes.extend(outcomes)
                keys[name] = tuple((outcome.partition, outcome.key or "") for outcome in outcomes)
                states[name] = [outcome.state for outcome in outcomes]
        except ReticentError:
            fail(run)
            raise
        finish(run)
    return states


if __name__ == "__main__":
    try:
        print(json.dumps(prepare(Path(sys.argv[1]))))
    except ReticentError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
