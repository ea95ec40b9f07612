"""The time of a run without changes beside an empty Prefect flow, and of `status` beside importing typer and pydantic.

    python benchmarks/startup.py --config reticent-demo/reticent.toml [--runs 5] [--out FILE]

The project must have run once. The contenders take turns; the output of the no-op run is checked first (all cached).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from common import command_line, write_json

EMPTY_FLOW = """
from prefect import flow
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

@flow
def empty():
    return None

with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
    empty()
"""


def _seconds(arguments: list[str], environment: dict[str, str]) -> tuple[float, str]:
    started = time.perf_counter()
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)
    return time.perf_counter() - started, done.stdout


def main() -> None:
    parser = command_line(__doc__, out="")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    environment = {
        **os.environ,
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    }
    environment.pop("PREFECT_API_URL", None)
    python, reticent = sys.executable, str(Path(sys.executable).with_name("reticent"))
    contenders = {
        "empty Prefect flow": [python, "-c", EMPTY_FLOW],
        "reticent run, nothing changed": [reticent, "run", str(options.config), "--json"],
        "import typer, pydantic": [python, "-c", "import typer, pydantic"],
        "reticent status": [reticent, "status", str(options.config)],
    }
    _, output = _seconds(contenders["reticent run, nothing changed"], environment)
    states = {row["state"] for row in json.loads(output.splitlines()[-1])["stages"]}
    if states != {"cached"}:
        raise SystemExit(f"the project has something to run first: {sorted(states)}")
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(options.runs):
        for name, arguments in contenders.items():
            times[name].append(_seconds(arguments, environment)[0])
    for name, values in times.items():
        print(f"{name:<32} median {statistics.median(values):6.2f} s  ({min(values):.2f} to {max(values):.2f})")
    write_json(options.out, {"median_seconds": {name: statistics.median(values) for name, values in times.items()}})
    share = [a / b for a, b in zip(times["reticent run, nothing changed"], times["empty Prefect flow"], strict=True)]
    ratio = [a / b for a, b in zip(times["reticent status"], times["import typer, pydantic"], strict=True)]
    print(f"no-op run over empty flow: median ratio {statistics.median(share):.2f} (pairwise)")
    print(f"status over imports: median ratio {statistics.median(ratio):.2f} (pairwise)")


if __name__ == "__main__":
    main()
