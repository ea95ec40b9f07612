"""Every benchmark runs at toy size, in a copy of its folder, so that no kept result is overwritten."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support import REPOSITORY
from support.project import small_project, warm_commands
from support.shared_server import run_json
from support.tiny_token_classifier import write_model
from toy_data import write_toy_data

MOST_SECONDS = 600
OUTPUT = re.compile(r"--(?:out|output|write) (\S+\.\w+)")
"""The option that names the file of results."""


@dataclass(frozen=True)
class Toy:
    """One command, without ``python`` before it.

    Attributes:
        command: words after ``python``, with ``{data}`` for the data sets and ``{work}`` for an empty folder.
        writes: files that are new or written anew, beside `OUTPUT`; paths as in the command, or below the root.
        says: words that it prints.
        settings: values of the pipeline's settings, by TABLE__FIELD.
        needs: modules of other people's tools, without which it is skipped.
        before: function that prepares the folder ``{work}``.
        is_alone: True for a process of its own, as a reader starts it. The others are children of `support.warm_cli`,
            because most of what a toy costs is the loading of libraries.
    """

    command: str
    writes: tuple[str, ...] = ()
    says: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    before: Callable[[Path], object] = lambda work: None
    is_alone: bool = False


def results(*names: str) -> tuple[str, ...]:
    return tuple(f"benchmarks/results/{name}" for name in names)


def published_lists(work: Path) -> None:
    """Lists of secrets in the place of those that authors published."""
    from benchmarks.reproduce.candidates import FOLDER, LISTS

    for name in LISTS.values():
        folder = work / FOLDER / "selective_candidates" / name
        folder.mkdir(parents=True)
        for kind in ("train", "test"):
            (folder / f"{kind}.txt").write_text("".join(f"{kind} {number}\n" for number in range(20)), "utf-8")


def detector(work: Path) -> None:
    """A detector as `train_english_detector` leaves it, untrained."""
    from train_english_detector import DESCRIPTION, describe

    write_model(work / "detector", classes=("O", "B-PERSON", "I-PERSON"))
    describe(work / "detector", ["btc_train"])
    assert (work / "detector" / DESCRIPTION).exists()


def finished_run(work: Path) -> None:
    """A project that has run."""
    run_json(small_project(work / "project", dialogues=12))


TOYS = {
    "audit_methods": Toy(
        "benchmarks/audit_methods.py --seeds 1 --dialogues 40 --canaries 20 --only no_dp --work {work}"
        " --set TRAIN__EPOCHS=1 --set AUDIT__NUM_MEMBERS=20",
        writes=results("audit_methods.json"),
    ),
    "audit_plots": Toy(
        "benchmarks/audit_plots.py --out {work}",
        writes=("{work}/audit-exposure.svg", "{work}/audit-miss-rates.svg", "{work}/audit-roc.svg"),
    ),
    "audit_power": Toy(
        "benchmarks/audit_power.py --runs 1 --trials 100 --methods dpsgd --faults correct 'no noise'"
        " --out {work}/out.json"
    ),
    "audit_tightness": Toy("benchmarks/audit_tightness.py --only power --runs 1 --out {work}/out.json"),
    "calibrated_policy": Toy("benchmarks/calibrated_policy.py limits --data-dir {data}", says="limits"),
    "dedup": Toy("benchmarks/dedup.py --sentences 4000 --repeats 1 --only Reticent polars --out {work}/out.json"),
    "dedup_peers": Toy("benchmarks/dedup_peers.py rbloom {work} --idle", says="{", needs=("rbloom",)),
    "domains": Toy(
        "benchmarks/domains.py --data-dir {data} --conversations 12 --epochs 1 --steps 10 --prompts airline"
        " --models Public --work {work}",
        writes=results("domains.json"),
    ),
    "dp_jax": Toy(
        "benchmarks/dp_step.py --shapes gpt2-toy --contenders jax_plain jax_privacy --jax-python python --rounds 1",
        says="jax_privacy",
        needs=("jax_privacy",),
    ),
    "dp_step": Toy(
        "benchmarks/dp_step.py --shapes gpt2-toy --contenders plain ours --rounds 1 --quiet --output {work}/out.json"
    ),
    "encryption": Toy("benchmarks/encryption.py --rows 2000", says="log"),
    "english_detector": Toy(
        "benchmarks/english_detector.py --data-dir {data} --of-btc {work}/detector --of-wnut {work}/detector"
        " --out {work}/out.json",
        before=detector,
    ),
    "exposure": Toy(
        "benchmarks/exposure.py --digits 3 --tokenizer bytes --peer-sample 50", says="factor", is_alone=True
    ),
    "default_redaction": Toy(
        "benchmarks/default_redaction.py --sentences 40 --rounds 1 --workers 1 --out {work}/out.json", says="chat"
    ),
    "gate_growth": Toy(
        "benchmarks/gate_growth.py --sentences 2000 4000 --partition 1000 --work {work} --out {work}/out.json"
    ),
    "gpu.__main__": Toy(
        "-m benchmarks.gpu --device cpu --tiny --only exactness/noise --out {work}", writes=("{work}/summary.json",)
    ),
    "gpu.parts": Toy(
        "-m benchmarks.gpu.parts {data}/ner --out {work}/parts", writes=("{work}/parts/parts.json",), is_alone=True
    ),
    "growth": Toy("benchmarks/growth.py --dialogues 2 6 --stages split --work {work}/growth --out {work}/out.json"),
    "increment": Toy("benchmarks/increment.py --files 2 --dialogues 3", says='"ratio"'),
    "membership": Toy(
        "benchmarks/membership.py --data-dir {data} --records 30 --base-records 60 --epochs 1 --work {work}",
        writes=results("membership.json"),
    ),
    "methods_table": Toy(
        "benchmarks/methods_table.py --data-dir {data} --sentences 60 --only no_dp --work {work}",
        writes=(*results("methods.json"), "docs/methods.md"),
    ),
    "miss_rate_coverage": Toy("benchmarks/miss_rate_coverage.py --repetitions 20 --out {work}/out.svg"),
    "name_parts": Toy("benchmarks/name_parts.py --data-dir {data} --texts 4 --out {work}/out.json"),
    "known_things": Toy(
        "benchmarks/known_things.py --data-dir {data} --out {work}/things.toml", writes=("{work}/things.toml",)
    ),
    "nights": Toy("benchmarks/nights.py --nights 3 --files 2 --dialogues 3 --work {work}/nights --out {work}/out.json"),
    "miss_rate_worlds": Toy("benchmarks/miss_rate_worlds.py --repetitions 5 --out {work}/out.json"),
    "opacus_examples": Toy(
        "benchmarks/opacus_examples.py --examples words --seeds 1 --rounds 1 --write {work}/out.md",
        needs=("opacus", "sklearn"),
    ),
    "orderings": Toy(
        "benchmarks/orderings.py --data-dir {data} --seeds 1 --sentences 60 --corpus customersim --only no_dp"
        " --work {work}",
        writes=results("orderings.json", "orderings.md"),
    ),
    "ordinary_words": Toy(
        "benchmarks/ordinary_words.py --data-dir {data} --out {work}/words.toml", writes=("{work}/words.toml",)
    ),
    "owners": Toy(
        "benchmarks/owners.py --dialogues 60 --seeds 1 --only 'person: four turns;no noise, turns' --work {work}",
        writes=(*results("owners.json"), "docs/images/people-cost.svg", "docs/concepts.md"),
    ),
    "performance": Toy(
        "benchmarks/performance.py --only night --limit 200", writes=(*results("performance.json"), "docs/scale.md")
    ),
    "pii": Toy("benchmarks/pii.py --data-dir {data} --texts 4 --out {work}/out.json"),
    "plan_check": Toy(
        "benchmarks/plan_check.py --records 128 --seeds 1 --batches 64 128 --out {work}/out.json", says="rank"
    ),
    "policy_coverage": Toy("benchmarks/policy_coverage.py --data-dir {data} --lines 10", says="after_collapsing"),
    "policy_misses": Toy("benchmarks/policy_misses.py --data-dir {data} --sentences 100 --out {work}/out.json"),
    "propagation": Toy("benchmarks/propagation.py --data-dir {data} --dialogues 3 --out {work}/out.json"),
    "public_side": Toy("benchmarks/public_side.py --data-dir {data} --texts 20 --out {work}/out.json"),
    "redaction": Toy("benchmarks/redaction.py --sentences 20 --rounds 1 --one-process", says="presidio"),
    "reproduce.__main__": Toy(
        "-m benchmarks.reproduce --quick --only selective/table2 --results {work}/results --work {work}/made",
        says="selective",
    ),
    "reproduce.candidates": Toy(
        "-m benchmarks.reproduce.candidates --data-dir {work} --out {work}/out.json", before=published_lists
    ),
    "scale_plan": Toy("benchmarks/scale_plan.py", says="sentences"),
    "schedule": Toy("benchmarks/schedule.py --partitions 40 --workers 4", says="all of it"),
    "short_texts": Toy("benchmarks/short_texts.py --out {work}/out.json"),
    "split": Toy("benchmarks/split.py --characters 20000 --repeats 1 --out {work}/out.json"),
    "stability": Toy(
        "benchmarks/stability.py --data-dir {data} --dialogues 3 --lines 5 --rounds 1 --workers 1 --out {work}/out.json"
    ),
    "startup": Toy(
        "benchmarks/startup.py --config {work}/project/reticent.toml --runs 1 --out {work}/out.json",
        before=finished_run,
    ),
    "synthetic": Toy(
        "benchmarks/synthetic.py --only built-in --dialogues 60 --rows 30 --work {work} --out {work}/out.json",
        settings={"SYNTHESIZE__DOWNSTREAM_STEPS": "2", "TRAIN__EPOCHS": "1"},
    ),
    "task_scores": Toy(
        "benchmarks/task_scores.py --data-dir {data} --tasks e2e_scratch --only no_dp --work {work}",
        writes=results("tasks.json", "tasks.md"),
    ),
    "train_english_detector": Toy(
        "benchmarks/train_english_detector.py --data-dir {data} --train btc_dev --out {work}/detector",
        writes=("{work}/detector/reticent.json",),
    ),
    "vllm_opens": Toy("benchmarks/vllm_opens.py {work}", says="same", needs=("vllm",)),
}


def benchmarks() -> Iterator[str]:
    """Those that can be run, by module."""
    folder = REPOSITORY / "benchmarks"
    for path in sorted(folder.rglob("*.py")):
        if "__main__" in path.read_text("utf-8"):
            yield ".".join(path.relative_to(folder).with_suffix("").parts)


def test_every_benchmark_has_a_run_at_toy_size() -> None:
    assert sorted(TOYS) == list(benchmarks())


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What benchmarks read and write of the project, copied; the code itself is that of the checkout."""
    folder = tmp_path_factory.mktemp("benchmarks")
    _copy(folder)
    return folder


def _copy(folder: Path) -> None:
    for name in ("benchmarks", "docs"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "README.md", folder)
    for name in ("pipelines", "tasks", "flows", "reticent", "tests"):
        (folder / name).symlink_to(REPOSITORY / name)
    write_toy_data(folder / "data")
    me = ["-c", "user.name=x", "-c", "user.email=x"]
    for command in (["init", "-q"], ["add", "README.md"], [*me, "commit", "-qmx"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", TOYS)
def test_it_runs_at_toy_size(name: str, root: Path, tmp_path: Path) -> None:
    toy = TOYS[name]
    if missing := [module for module in toy.needs if importlib.util.find_spec(module) is None]:
        pytest.skip(f"another tool that is measured beside ours is not installed: {', '.join(missing)}")
    places = {"data": str(root / "data"), "work": str(tmp_path)}
    toy.before(tmp_path)
    settings = {f"RETICENT__{name}": value for name, value in toy.settings.items()}
    written = [root / place.format(**places) for place in (*toy.writes, *re.findall(OUTPUT, toy.command))]
    before = {path: path.stat().st_mtime_ns for path in written if path.exists()}
    words = [word.format(**places) for word in shlex.split(toy.command)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", **settings}
    if toy.is_alone:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            check=False,
        )
    else:
        done = warm_commands().run(root, words, environment, seconds=MOST_SECONDS, python=True)
    assert done.returncode == 0, f"{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    assert toy.says in done.stdout
    assert done.stdout or written, "a run that leaves nothing shows nothing"
    for path in written:
        assert path.exists(), path
        assert path.stat().st_size
        assert path.stat().st_mtime_ns > before.get(path, 0), path
