"""Makes a small store with the code of an earlier commit, and packs it as a fixture of `test_store_old_versions.py`.

Run by hand, in a checkout, with a Python that has the dependencies of both versions::

    python tests/store/make_old_stores.py 8044d3b e586264

For each commit it writes two files into ``tests/store/old_stores/``:

- ``COMMIT.tar.xz``: a project, that is settings, two corpora of the built-in simulator, and the store that the runs of
  `RUNS` left, with everything in it; names are sorted and owners left out, modes and times kept. Its secret is a
  throw-away. Records of runs hold absolute paths, of a folder that is gone: so a test's copy is a store that was moved.
- ``COMMIT.json``: the commit, and what ``reticent ledger --json`` and ``reticent runs --json`` said of the store then.

A fixture is made once and kept: training draws fresh noise, so a second one is another store.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "old_stores"
SECRET = "5e" * 32 + "\n"
CORPORA = {"corpus": 0, "other": 7}
"""Folders of dialogues and the seeds that they are made with."""
NUM_DIALOGUES = 24
SETTINGS = """\
[store]
root = "store"
[corpus]
inputs = ["{corpus}"]
partition_documents = 24
[split]
valid_fraction = 0.1
test_fraction = 0.1
[dedup]
expected_items = 1000
[redact]
policies = ["customersim", "high_entity"]
conservative = "conservative"
[sample]
replicates = 1
fraction = 1.0
[train]
method = "{method}"
tokenizer = "bytes"
num_layers = 1
num_heads = 1
embedding_size = 8
context_length = 48
epochs = 1
expected_batch_size = 16
noise_multiplier = 2.0
target_delta = 1e-4
[audit]
num_members = 20
num_canaries = 12
candidates = 200
num_prompts = 2
num_generations = 1
max_new_tokens = 8
num_trials = 100
"""
METHODS = {"crt": "corpus", "dpsgd": "corpus", "jft": "other"}
"""Settings files, which are called as their methods, and the corpora that they read."""
RUNS = (("jft",), ("dpsgd",), ("crt",), ("crt", "--force", "train"))
"""Three releases on one corpus, the last a forced retraining, and one on another corpus."""
AUDITS = ("crt",)
"""Settings files of runs that are audited at the end. Stores of before 25421ec were made without audits."""


@contextmanager
def worktree(commit: str, folder: Path) -> Iterator[Path]:
    """The code of a commit, in a folder of its own."""
    path = folder / "code"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(path), commit], cwd=REPOSITORY, check=True)
    try:
        yield path
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(path)], cwd=REPOSITORY, check=True)


def make_store(code: Path, project: Path) -> dict[str, Any]:
    """Runs the project with the code given, and returns what that said of its ledger and of its runs."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "RETICENT"))}
    variables |= {
        "PYTHONPATH": str(code),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PREFECT_HOME": str(project.parent / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }

    def reticent(*arguments: str) -> str:
        command = [sys.executable, "-m", "flows.cli", *arguments]
        done = subprocess.run(command, cwd=project, env=variables, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.splitlines()[-1]

    private = project / "store" / "private"
    private.mkdir(parents=True, mode=0o700)
    (private / "secret").write_text(SECRET)
    (private / "secret").chmod(0o600)
    for name, seed in CORPORA.items():
        reticent("simulate", "customersim", "--dialogues", str(NUM_DIALOGUES), "--seed", str(seed), "--out", name)
        made = project / name / "dialogues-00000.jsonl"
        made.rename(made.with_name(f"{name}.jsonl"))  # files of one name would be taken for one file, changed
    for method, corpus in METHODS.items():
        (project / f"{method}.toml").write_text(SETTINGS.format(method=method, corpus=corpus))
    for method, *options in RUNS:
        print(reticent("run", f"{method}.toml", *options, "--json")[:100])
    for method in AUDITS:
        print(reticent("audit", f"{method}.toml", "--json")[:100])
    return {name: json.loads(reticent(name, "crt.toml", "--json")) for name in ("ledger", "runs")}


def pack(project: Path, path: Path) -> None:
    """Packs a project. The same files give the same bytes."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = int(member.mtime)
        return member

    with tarfile.open(path, "w:xz", preset=9) as archive:
        for file in sorted(project.rglob("*")):
            archive.add(file, file.relative_to(project).as_posix(), recursive=False, filter=plain)


def main(commits: list[str]) -> None:
    """See the module's docstring."""
    FOLDER.mkdir(exist_ok=True)
    for commit in commits:
        with tempfile.TemporaryDirectory(prefix="reticent-old-") as folder:
            project = Path(folder) / "project"
            project.mkdir()
            with worktree(commit, Path(folder)) as code:
                said = make_store(code, project)
            pack(project, FOLDER / f"{commit}.tar.xz")
        text = json.dumps({"commit": commit, **said}, indent=1)
        (FOLDER / f"{commit}.json").write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
