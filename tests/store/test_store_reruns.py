"""Which stages an edit of each module makes anew, against a list that is looked at when it changes.

``RETICENT_GOLDEN=write`` writes the list; whoever reviews it asks of each line why that stage hangs on that module.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.patches import Patch

import pipelines
from pipelines.context import Runtime
from pipelines.graph import GRAPH
from pipelines.methods.registry import METHODS
from pipelines.store.building.plan import explain
from pipelines.store.objects import code
from pipelines.store.objects.keys import built_with, own_ingredients
from pipelines.store.objects.session import RunSpec, Session, make_session
from pipelines.training.tasks.registry import TASKS

ROOT = Path(pipelines.__file__).parents[1]
REVIEWED = Path(__file__).with_name("reruns.json")
TRAININGS = {"train", "train_phase1", "audit_model", "audit_domain_models"}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """With the built-in settings, on a store that remembers what the files say."""
    made = session(tmp_path_factory.mktemp("store"))
    hanging_on(made)
    made.stat_cache.save()
    return made


def session(folder: Path, **train: object) -> Session:
    """A run with the built-in settings, but for those of ``[train]`` that are given."""
    return make_session(
        RunSpec(
            run_id="run-1",
            private_root=str(folder / "private"),
            public_root=str(folder / "public"),
            secret_file=None,
            config_dir=str(folder),
            settings={"train": train, "corpus": {"inputs": ["x.txt"]}},
            seed=0,
            runtime=Runtime(),
            partitions=(),
        )
    )


def modules() -> Iterator[str]:
    """Every module of the distribution, and the data files beside them."""
    for package in ("pipelines", "tasks", "flows", "reticent"):
        for path in sorted((ROOT / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".typed":
                yield path.relative_to(ROOT).as_posix()


def hanging_on(opened: Session) -> dict[str, tuple[str, ...]]:
    """By module, the stages whose keys hold its digest."""
    files = {stage: own_ingredients(opened, stage).get("code", {}).keys() for stage in GRAPH}
    return {module: tuple(stage for stage in GRAPH if module in files[stage]) for module in modules()}


def test_golden_the_stages_that_an_edit_of_each_module_makes_anew(opened: Session) -> None:
    grouped: dict[str, list[str]] = {}
    for module, stages in hanging_on(opened).items():
        grouped.setdefault(", ".join(stages) or "nothing", []).append(module)
    if os.environ.get("RETICENT_GOLDEN") == "write":
        REVIEWED.write_text(json.dumps(grouped, indent=1, sort_keys=True) + "\n")
    reviewed = json.loads(REVIEWED.read_text())
    then = {module: stages for stages, listed in reviewed.items() for module in listed}
    now = {module: stages for stages, listed in grouped.items() for module in listed}
    changed = {m: (then.get(m), now.get(m)) for m in then.keys() | now.keys() if then.get(m) != now.get(m)}
    assert not changed, "look at each; then RETICENT_GOLDEN=write"


@pytest.mark.parametrize(
    "module", ["pipelines/corpus/split.py", "pipelines/training/loop.py", "pipelines/accounting/events.py"]
)
def test_an_edit_changes_the_keys_that_the_list_names(
    opened: Session, tmp_path: Path, patch: Patch, module: str
) -> None:
    before = {stage: own_ingredients(opened, stage) for stage in GRAPH}
    scan = code.scan_source
    edited = {"digest": "edited"}
    patch(code, "scan_source", lambda path, module: scan(path, module) | (edited if path == target else {}))
    target = ROOT / module
    now = session(tmp_path)
    after = {stage: own_ingredients(now, stage) for stage in GRAPH}
    changed = tuple(stage for stage in GRAPH if before[stage] != after[stage])
    assert changed == hanging_on(opened)[module]


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_model_hangs_on_no_module(opened: Session, method: str) -> None:
    with_method = session(opened.roots.private.parent, method=method)
    for stages in hanging_on(with_method).values():
        assert not TRAININGS & set(stages)


@pytest.mark.parametrize("task", sorted(TASKS))
def test_an_edit_of_what_measures_evaluates_anew_and_leaves_every_model_as_it_is(tmp_path: Path, task: str) -> None:
    """Neither does a training run, nor is its model called stale."""
    settings = {"task": task, **({"model": "minilm", "template": "sst2"} if task == "classification" else {})}
    settings |= {"model": "smollm2"} if TASKS[task].generates else {}
    opened = session(tmp_path, **settings)
    listed = hanging_on(opened)
    own = {**own_ingredients(opened, "train"), **built_with(opened, "train")}
    for module in (f"pipelines/training/scoring/{name}.py" for name in ("evaluation", "text_metrics", "generation")):
        assert "evaluate" in listed[module]
        assert not set(listed[module]) & TRAININGS
        assert explain({**own, "code": {**own["code"], module: "edited"}}, own, None) == []
    edited = {**own, "code": {**own["code"], "pipelines/training/loop.py": "edited"}}
    assert explain(edited, own, None) == ["code: pipelines/training/loop.py"]


def test_what_a_type_checker_alone_imports_counts_for_plug_ins_only(tmp_path: Path) -> None:
    """Models were keyed by it; ours have recipes."""
    path = tmp_path / "module.py"
    path.write_text("if TYPE_CHECKING:\n    import seen\nelse:\n    import run\n")
    assert code.scan_source(path, "pipelines.module")["imports"] == ["run"]
    assert code.scan_source(path, "plugin.module")["imports"] == ["run", "seen"]


def test_no_stage_hangs_on_what_is_above_the_library(opened: Session) -> None:
    for module, stages in hanging_on(opened).items():
        assert module.startswith("pipelines/") or not stages
