"""The preparation's bytes do not depend on workers or kills, and a kill never leaves half an artifact."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from flows.spec import TRAINING
from pipelines.corpus.customersim import write_customersim
from pipelines.graph import GRAPH
from pipelines.store import manifest as manifests
from pipelines.store.roots import open_roots

DRIVER = Path(__file__).with_name("driver.py")
SETTINGS = """
[corpus]
inputs = ["corpus"]
partition_documents = 15
[redact]
policies = ["customersim", "high_entity"]
conservative = "conservative"
[sample]
replicates = 2
fraction = 0.5
"""


def _environment(root: Path, workers: int) -> dict[str, str]:
    return {
        **os.environ,
        "RETICENT__STORE__ROOT": str(root),
        "RETICENT__STORE__SECRET_FILE": str(root.parent / "secret"),
        "RETICENT__RUNTIME__WORKERS": str(workers),
    }


def _start(config: Path, root: Path, workers: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(DRIVER), str(config)],
        env=_environment(root, workers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _finish(config: Path, root: Path, workers: int) -> None:
    process = _start(config, root, workers)
    _, error = process.communicate(timeout=240)
    assert process.returncode == 0, error.decode()


def _data(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.glob("*/objects/**/*"))
        if path.is_file() and path.name != "manifest.json"
    }


def _assert_nothing_half_written(root: Path) -> int:
    """Everything that readers would see is whole."""
    roots = open_roots(root / "private", root / "public", root.parent / "secret")
    count = 0
    for path in (root / "private/manifests").glob("*/*.json"):
        manifest = manifests.load(roots, path.parent.name, path.stem)
        assert manifest is not None
        assert manifests.damage(roots, manifest, full=True) is None
        count += 1
    return count


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A settings file, and the data files of a run with one worker."""
    folder = tmp_path_factory.mktemp("bytes")
    write_customersim(folder / "corpus", 60, 3)
    (folder / "secret").write_text("5" * 64)
    config = folder / "reticent.toml"
    config.write_text(SETTINGS)
    _finish(config, folder / "one", 1)
    return config, _data(folder / "one")


def test_two_workers_give_the_same_bytes(undisturbed: tuple[Path, dict[str, bytes]]) -> None:
    config, expected = undisturbed
    root = config.parent / "two"
    _finish(config, root, 2)
    assert _data(root) == expected
    assert len(expected) > 20


class Server:
    """A driver that has the heavy libraries loaded and runs each request in a forked child."""

    def __init__(self, error: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(DRIVER), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=error.open("w"),
            text=True,
        )

    def _read(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the driver died"
        return int(line)

    def run(
        self,
        config: Path,
        root: Path,
        *,
        workers: int,
        kill_at: int | None = None,
        kill_after: float | None = None,
        with_workers: bool = True,
    ) -> int:
        """Returns the exit code; negative if it was killed."""
        request = {
            "config": str(config),
            "last": "report",
            "environment": {k: v for k, v in _environment(root, workers).items() if k.startswith("RETICENT")},
            "kill_at": kill_at,
            "root": str(root),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        child = self._read()
        # A process that is waited for by the driver keeps its id until the driver answers, so this cannot hit another.
        kill = os.killpg if with_workers else os.kill  # else its workers are orphaned
        timer = threading.Timer(kill_after or 180, lambda: kill(child, signal.SIGKILL))
        timer.start()
        status = self._read()
        timer.cancel()
        timer.join()
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(30) == 0


TINY_MODEL = """
[train]
num_layers = 1
num_heads = 2
embedding_size = 32
context_length = 48
vocab_size = 400
epochs = 1
expected_batch_size = 64
"""


def _prepared(data: dict[str, bytes]) -> dict[str, bytes]:
    """Without the stages whose bytes differ between runs by design."""
    return {path: content for path, content in data.items() if path.split("/")[2] not in TRAINING}


def _steps(root: Path) -> int:
    """A little less than the number of changes of files that a run which makes all this takes."""
    return 18 * len(list((root / "private/manifests").glob("*/*.json")))


def _kill_whole_runs(folder: Path, kills: int, seed: int, dialogues: int) -> Counter[str]:
    """Whole runs, training included, are killed and started again until there were enough kills.

    Every other kill strikes at a random change of a file, the rest at a random time.
    """
    write_customersim(folder / "corpus", dialogues, 3)
    (folder / "secret").write_text("5" * 64)
    config = folder / "reticent.toml"
    config.write_text(SETTINGS + TINY_MODEL)
    server = Server(folder / "driver.log")
    counts: Counter[str] = Counter()
    try:
        started = time.monotonic()
        assert server.run(config, folder / "undisturbed", workers=1) == 0, (folder / "driver.log").read_text()
        duration = time.monotonic() - started
        expected = _prepared(_data(folder / "undisturbed"))
        steps = _steps(folder / "undisturbed")
        rng = random.Random(seed)
        while counts["killed"] < kills:
            root = folder / f"store-{counts['finished']}"
            for attempt in range(kills):
                done = 0 if not (root / "private/manifests").is_dir() else _steps(root)
                if attempt % 2:
                    at = {"kill_at": rng.randrange(max(steps - done, 25)), "workers": 1}
                else:
                    at = {"kill_after": rng.uniform(0.05, duration), "workers": 1 + (counts["killed"] % 4 == 0)}
                    at["with_workers"] = bool(rng.randrange(2))
                code = server.run(config, root, **at)
                assert code in (0, -signal.SIGKILL), (folder / "driver.log").read_text()
                if (root / "private/manifests").is_dir():
                    _assert_nothing_half_written(root)
                if code == 0 or counts["killed"] >= kills:
                    break
                counts["killed"] += 1
            assert server.run(config, root, workers=1) == 0, (folder / "driver.log").read_text()
            counts["finished"] += 1
            assert _prepared(_data(root)) == expected
            assert {p.parent.name for p in (root / "private/manifests").glob("*/*.json")} == set(GRAPH)
            assert not list((root / "private/quarantine").iterdir())
            assert _assert_nothing_half_written(root) == _assert_nothing_half_written(folder / "undisturbed")
    finally:
        server.close()
    return counts


def test_whole_runs_killed(tmp_path: Path) -> None:
    counts = _kill_whole_runs(tmp_path, kills=4, seed=2, dialogues=20)
    assert counts["killed"] == 4


@pytest.mark.slow
def test_a_hundred_kills_over_whole_runs(tmp_path: Path) -> None:
    counts = _kill_whole_runs(tmp_path, kills=100, seed=7, dialogues=40)
    assert counts["killed"] == 100
    assert counts["finished"] >= 5


def test_orphaned_workers_die_with_their_parent(undisturbed: tuple[Path, dict[str, bytes]], tmp_path: Path) -> None:
    config, _ = undisturbed
    root = config.parent / "orphans"
    process = _start(config, root, 2)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list((root / "private/work").glob("*")):
        time.sleep(0.05)
    process.kill()  # the parent only
    process.communicate()

    def alive() -> list[str]:
        found = subprocess.run(["ps", "-eo", "pid,sess,args"], capture_output=True, text=True, check=True).stdout
        return [line for line in found.splitlines() if line.split()[1] == str(process.pid)]

    deadline = time.monotonic() + 20
    while alive() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert alive() == []


def test_a_dead_worker_is_replaced(undisturbed: tuple[Path, dict[str, bytes]]) -> None:
    """Killing a worker process costs a retry, not the run."""
    config, expected = undisturbed
    root = config.parent / "worker-lost"
    process = _start(config, root, 2)
    killed = False
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline and not killed:
        found = subprocess.run(["ps", "-eo", "pid,sess,args"], capture_output=True, text=True, check=True).stdout
        workers = [
            int(line.split()[0])
            for line in found.splitlines()
            if line.split()[1] == str(process.pid) and "forkserver" in line and list((root / "private/work").glob("*"))
        ]
        if len(workers) >= 3:  # the fork server and its two workers: the youngest is a worker
            os.kill(max(workers), signal.SIGKILL)
            killed = True
        time.sleep(0.05)
    _, error = process.communicate(timeout=240)
    assert process.returncode == 0, error.decode()
    assert killed
    assert _data(root) == expected


def test_run_records_hold_no_text(undisturbed: tuple[Path, dict[str, bytes]]) -> None:
    config, _ = undisturbed
    rows = [json.loads(line) for p in (config.parent / "corpus").glob("*.jsonl") for line in p.read_text().splitlines()]
    secrets = {row["text"][s["start"] : s["end"]] for row in rows for s in row["spans"]}
    for path in (config.parent / "one/private").glob("**/*.json"):
        text = path.read_text()
        assert not any(secret in text for secret in secrets if len(secret) > 6), path


DEADLY = """
import os
import signal

from pipelines.policies.digits import DigitsPolicy


class DeadlyPolicy(DigitsPolicy):
    def __init__(self, *arguments, **named):
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_workers_that_die_every_time_end_the_run_with_advice(tmp_path: Path) -> None:
    """As when the kernel kills what takes too much memory: not for ever again, and what was finished is kept."""
    write_customersim(tmp_path / "corpus", 30, 3)
    (tmp_path / "secret").write_text("5" * 64)
    (tmp_path / "deadly_plug_in.py").write_text(DEADLY)
    config = tmp_path / "reticent.toml"
    config.write_text(SETTINGS.replace('"customersim", "high_entity"', '"deadly_plug_in:DeadlyPolicy"'))
    process = _start(config, tmp_path / "store", 2)
    _, error = process.communicate(timeout=240)
    assert process.returncode == 5, error.decode()
    assert b"the worker process of stage redact died 3 times; it may have run out of memory" in error
    assert {p.parent.name for p in (tmp_path / "store/private/manifests").glob("*/*.json")} >= {"split", "dedup_mask"}
    _assert_nothing_half_written(tmp_path / "store")
