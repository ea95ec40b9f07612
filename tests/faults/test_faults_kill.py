"""The preparation's bytes do not depend on workers or kills, and a kill never leaves half an artifact."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from driver import COUNT
from support.project import NOISED_MODEL, warm_commands
from support.waiting import wait_for

from flows.running.spec import TRAINING
from pipelines.corpus.customersim import write_customersim
from pipelines.graph import GRAPH
from pipelines.store.objects import manifest as manifests
from pipelines.store.place.roots import open_roots
from pipelines.walks import default_stages

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
        "RETICENT__STORE__ROOT": str(root),
        "RETICENT__STORE__SECRET_FILE": str(root.parent / "secret"),
        "RETICENT__RUNTIME__WORKERS": str(workers),
    }


def _start(config: Path, root: Path, workers: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(DRIVER), str(config)],
        env={**os.environ, **_environment(root, workers)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


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


class Server:
    """A driver that has the heavy libraries loaded and runs each request in a forked child."""

    def __init__(self, error: Path) -> None:
        self._error = error
        self._connection = warm_commands().script(DRIVER, ["serve"], error)
        self._lines = self._connection.makefile("rw")

    def log(self) -> str:
        return self._error.read_text()

    def _read(self) -> int:
        line = self._lines.readline()
        assert line, f"the driver died: {self.log()}"
        return int(line)

    def begin(self, config: Path, root: Path, *, workers: int, last: str = "report", kill_at: int | None = None) -> int:
        """Starts a run; returns its process id, which is also its session's."""
        request = {
            "config": str(config),
            "last": last,
            "environment": _environment(root, workers),
            "kill_at": kill_at,
            "root": str(root),
        }
        self._lines.write(json.dumps(request) + "\n")
        self._lines.flush()
        return self._read()

    def end(self) -> int:
        """Waits for the run's end. Returns the exit code; negative if it was killed."""
        return os.waitstatus_to_exitcode(self._read())

    def run(self, config: Path, root: Path, *, workers: int, last: str = "report", **kill: Any) -> int:
        """A whole run. ``kill_after`` so many seconds, or ``kill_at`` a change of a file, it is killed.

        ``with_workers`` says whether its worker processes are killed, too, or orphaned.
        """
        child = self.begin(config, root, workers=workers, last=last, kill_at=kill.get("kill_at"))
        # A process that is waited for by the driver keeps its id until the driver answers, so this cannot hit another.
        send = os.killpg if kill.get("with_workers", True) else os.kill
        timer = threading.Timer(kill.get("kill_after", 180), lambda: send(child, signal.SIGKILL))
        timer.start()
        code = self.end()
        timer.cancel()
        timer.join()
        return code

    def close(self) -> None:
        self._connection.shutdown(socket.SHUT_WR)
        assert self._lines.read() == ""  # it ended
        self._lines.close()
        self._connection.close()


def _prepared(data: dict[str, bytes]) -> dict[str, bytes]:
    """Without the stages whose bytes differ between runs by design."""
    return {path: content for path, content in data.items() if path.split("/")[2] not in TRAINING}


@dataclass(frozen=True)
class Undisturbed:
    """A finished run: what killed ones are compared with.

    Attributes:
        num_steps: changes of files that it took, of which ``published`` made an artifact exist.
    """

    config: Path
    root: Path
    seconds: float
    data: dict[str, bytes]
    num_steps: int
    published: tuple[int, ...]

    def left(self, root: Path) -> int:
        """How many changes of files a run is from its end that finished what is in ``root``."""
        done = len(list((root / "private/manifests").glob("*/*.json")))
        return self.num_steps - (self.published[done - 1] if done else 0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("driver") / "log")
    yield made
    made.close()


def _undisturbed(server: Server, folder: Path, dialogues: int) -> Undisturbed:
    write_customersim(folder / "corpus", dialogues, 3)
    (folder / "secret").write_text("5" * 64)
    config = folder / "reticent.toml"
    config.write_text(SETTINGS + NOISED_MODEL)
    started = time.monotonic()
    assert server.run(config, folder / "undisturbed", workers=1, kill_at=COUNT) == 0, server.log()
    seconds = time.monotonic() - started
    steps = json.loads((folder / "steps.json").read_text())
    made = [n for n, s in enumerate(steps) if s.startswith(("rename", "replace")) and "/private/manifests/" in s]
    data = _prepared(_data(folder / "undisturbed"))
    return Undisturbed(config, folder / "undisturbed", seconds, data, len(steps), tuple(made))


@pytest.fixture(scope="module")
def undisturbed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return _undisturbed(server, tmp_path_factory.mktemp("whole"), 30)


def _kill_whole_runs(server: Server, whole: Undisturbed, *, kills: int, seed: int) -> Counter[str]:
    """Whole runs, training included, are killed and started again until there were enough kills.

    Every other kill strikes at a random change of a file, the rest at a random time. Some of those runs have worker
    processes.
    """
    seconds = whole.seconds
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    while counts["killed"] < kills:
        root = whole.config.parent / f"store-{counts['finished']}"
        for attempt in range(kills):
            if attempt % 2:
                at = {"kill_at": rng.randrange(whole.left(root)), "workers": 1}
            else:
                workers = 2 if counts["killed"] % 4 == 0 else 1
                at = {"kill_after": rng.uniform(0.05, seconds), "workers": workers}
                at["with_workers"] = bool(rng.randrange(2))
            started = time.monotonic()
            code = server.run(whole.config, root, **at)
            if code == 0 and attempt == 0:  # kills that come too late tell nothing, and the machine became faster
                seconds = min(seconds, time.monotonic() - started)
            assert code in (0, -signal.SIGKILL), server.log()
            if (root / "private/manifests").is_dir():
                _assert_nothing_half_written(root)
            if code == 0 or counts["killed"] >= kills:
                break
            counts["killed"] += 1
        assert server.run(whole.config, root, workers=1) == 0, server.log()
        counts["finished"] += 1
        assert _prepared(_data(root)) == whole.data
        assert {p.parent.name for p in (root / "private/manifests").glob("*/*.json")} == set(default_stages())
        assert not list((root / "private/quarantine").iterdir())
        assert _assert_nothing_half_written(root) == _assert_nothing_half_written(whole.root)
    return counts


@pytest.mark.slow
def test_twenty_kills_over_whole_runs(server: Server, undisturbed: Undisturbed) -> None:
    """At random times and steps. Those of `test_faults_points.py` strike at each step once."""
    counts = _kill_whole_runs(server, undisturbed, kills=20, seed=7)
    assert counts["killed"] == 20
    assert counts["finished"] >= 2


def _of_session(session: int, word: str = "") -> list[int]:
    """Processes of a session, zombies aside."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if not folder.name.isdigit():
                continue
            state, _, _, of = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if state != "Z" and int(of) == session and word in (folder / "cmdline").read_text():
                found.append(int(folder.name))
        except OSError:  # it ended meanwhile
            continue
    return found


def _building_in_a_pool(session: int, root: Path) -> list[int]:
    """The fork server and its two workers, once a partition is being built; the youngest last."""

    def found() -> list[int]:
        assert Path(f"/proc/{session}").exists()
        own = _of_session(session, "forkserver") if any((root / "private/work").glob("*")) else []
        return sorted(own) if len(own) >= 3 else []

    processes: list[int] = wait_for("worker processes", found, 120, pause=0.02)
    return processes


@pytest.mark.slow
def test_workers_die_with_their_parent_are_replaced_and_give_the_same_bytes(
    server: Server, undisturbed: Undisturbed
) -> None:
    """First the parent is killed, then, in the run after it, a worker: that costs a try, not the run."""
    root = undisturbed.config.parent / "two-workers"
    run = server.begin(undisturbed.config, root, workers=2, last="shard")
    _building_in_a_pool(run, root)
    os.kill(run, signal.SIGKILL)
    assert server.end() == -signal.SIGKILL
    wait_for("the end of the workers", lambda: not _of_session(run), 20)

    run = server.begin(undisturbed.config, root, workers=2, last="shard")
    worker = _building_in_a_pool(run, root)[-1]
    os.kill(worker, signal.SIGKILL)
    assert server.end() == 0, server.log()
    data = _data(root)
    assert len(data) > 20
    assert data.items() <= undisturbed.data.items()
    assert {path.split("/")[2] for path in data} == set(list(GRAPH)[: list(GRAPH).index("shard") + 1])


@pytest.mark.slow
def test_run_records_hold_no_text(undisturbed: Undisturbed) -> None:
    corpus = undisturbed.config.parent / "corpus"
    rows = [json.loads(line) for p in corpus.glob("*.jsonl") for line in p.read_text().splitlines()]
    secrets = {row["text"][s["start"] : s["end"]] for row in rows for s in row["spans"]}
    for path in (undisturbed.root / "private").glob("**/*.json"):
        text = path.read_text()
        assert not any(secret in text for secret in secrets if len(secret) > 6), path


DEADLY = """
import os
import signal

from pipelines.policies.detectors.digits import DigitsPolicy


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
