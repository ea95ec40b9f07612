"""What `reticent deploy` refuses, and the wheel that an image installs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import REPOSITORY, run_command

PACKAGES = {"reticent", "flows", "tasks", "pipelines"}


def _deploy(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {k: v for k, v in os.environ.items() if k != "PREFECT_API_URL"}
    return run_command(
        [sys.executable, "-m", "flows.cli", "deploy", *arguments],
        env={**variables, "PREFECT_HOME": str(folder), **environment},
        cwd=folder,
    )


@pytest.mark.parametrize(
    ("arguments", "api", "code", "told"),
    [
        ([], None, 2, "reticent deploy --init-auth"),
        pytest.param(["--cron", "every night"], "http://127.0.0.1:9/api", 2, "cron", marks=pytest.mark.slow),
        pytest.param(
            ["--timezone", "Mars/Olympus"], "http://127.0.0.1:9/api", 2, "Europe/Berlin", marks=pytest.mark.slow
        ),
        pytest.param([], "http://127.0.0.1:9/api", 5, "does not answer", marks=pytest.mark.slow),
    ],
    ids=["no server named", "cron", "zone", "server down"],
)
def test_deploy_says_what_is_wrong(tmp_path: Path, arguments: list[str], api: str | None, code: int, told: str) -> None:
    (tmp_path / "reticent.toml").write_text('[corpus]\ninputs = ["."]\n')
    done = _deploy(tmp_path, *arguments, **({"PREFECT_API_URL": api} if api else {}))
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("registered", [True, False], ids=["another distribution", "a stale folder"])
def test_foreign_tasks_package_is_refused(tmp_path: Path, registered: bool) -> None:
    """As it would be if another distribution, or what is left of one, also had a package called tasks."""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks/__init__.py").write_text("")
    if registered:
        info = tmp_path / "taskmaster-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: taskmaster\nVersion: 1.0\n")
        (info / "top_level.txt").write_text("tasks\n")
        (info / "RECORD").write_text("tasks/__init__.py,,\n")

    def check(**environment: str) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "PREFECT_API_URL": "http://127.0.0.1:9/api", **environment}
        variables["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"] = "30"
        command = [sys.executable, "-m", "flows.commands.deploy"]
        return subprocess.run(command, env=variables, cwd=tmp_path.parent, capture_output=True, text=True, check=False)

    assert check().returncode == 0
    refused = check(PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert refused.returncode == 2
    assert ("taskmaster" if registered else str(tmp_path)) in refused.stderr


@pytest.mark.slow
def test_wheel_holds_all_of_the_four_packages_and_works_elsewhere(tmp_path: Path) -> None:
    """What the Dockerfile installs."""
    source, wheels, site = tmp_path / "source", tmp_path / "wheels", tmp_path / "site"
    ignore = shutil.ignore_patterns("__pycache__")
    for name in PACKAGES:
        shutil.copytree(REPOSITORY / name, source / name, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(wheels), str(source)]
    subprocess.run(build, check=True, timeout=120)
    (wheel,) = wheels.glob("reticent-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(site), str(wheel)], check=True)
    assert {p.name for p in site.iterdir() if p.is_dir()} >= PACKAGES
    assert not {"tests", "benchmarks", "deploy"} & {p.name for p in site.iterdir()}
    shipped = [path.relative_to(source) for path in source.glob("*/**/*") if path.is_file()]
    assert [path for path in shipped if path.parts[0] in PACKAGES and not (site / path).is_file()] == []
    assert {Path("flows/commands/starter.toml"), Path("reticent/py.typed")} <= set(shipped)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    code = "import flows.cli, sys; print(flows.__file__); sys.argv = ['reticent', 'init', 'p', '--dialogues', '2']"
    done = run_command([sys.executable, "-c", f"{code}; flows.cli.main()"], env=environment, cwd=tmp_path, check=True)
    assert done.stdout.startswith(str(site))
    assert (tmp_path / "p/reticent.toml").is_file()
