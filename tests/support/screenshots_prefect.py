"""Pictures of a run on Prefect's page: ``make screenshots-prefect``.

PYTHONPATH=tests python -m support.screenshots_prefect OUT
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from support.chrome import Chrome
from support.prefect_server import Server
from support.project import small_project
from support.waiting import wait_for

FINISHED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def take(out: Path) -> list[Path]:
    """Photographs a finished run of the built-in job, and its summary, on the page of a server of its own.

    Args:
        out: where ``prefect-run.png`` and ``prefect-summary.png`` are written.
    """
    pictures = [out / "prefect-run.png", out / "prefect-summary.png"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "server").mkdir()
        server = Server(Path(folder) / "server")
        try:
            run, summary = _run(server)
            browser = Chrome(Path(folder) / "profile", 1400, 560)
            try:
                page = server.api.removesuffix("/api")
                browser.open(page)
                browser.js(f"localStorage.setItem('prefect-password', btoa({server.password!r}))")
                _photograph(browser, f"{page}/runs/flow-run/{run}", "Task runs", pictures[0])
                browser.resize(1400, 900)
                _photograph(browser, f"{page}/artifacts/artifact/{summary}", "Taken from the store", pictures[1])
            finally:
                browser.close()
        finally:
            server.stop()
    return pictures


def _run(server: Server) -> tuple[str, str]:
    """Deploys the job, runs it once, and returns the ids of the run and of its summary."""
    config = small_project(server.folder / "project")
    done = server.reticent("deploy", config)
    assert done.returncode == 0, done.stderr
    server.start("worker", "worker", "start", "--pool", "local-proc", "--type", "process")
    run = server.trigger(server.call("POST", "/deployments/filter", {})[0]["id"])
    wait_for("the run", lambda: server.state(run) in FINISHED, 600)
    assert server.state(run) == "COMPLETED"
    found = {"flow_runs": {"id": {"any_": [run]}}}
    (summary,) = (
        artifact["id"]
        for artifact in server.call("POST", "/artifacts/filter", found)
        if artifact["key"] == "reticent-summary"
    )
    return run, summary


def _photograph(browser: Chrome, address: str, shown: str, picture: Path) -> None:
    browser.open(address)
    browser.wait(f"document.body.innerText.includes({shown!r})", 60)
    browser.js("new Promise(done => setTimeout(done, 3000))")  # the graph is drawn after the text
    browser.screenshot(picture)


if __name__ == "__main__":
    print(*take(Path(sys.argv[1])), sep="\n")
