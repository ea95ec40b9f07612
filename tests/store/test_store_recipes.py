"""Stages with a recipe: no code, packages or bytes before them make them anew; what the user changes does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.patches import Patch
from support.toy import Toy, drive, ran

from pipelines import graph
from pipelines.store.building import lookup
from pipelines.store.building.plan import Planned, explain, make_plan
from pipelines.store.objects import keys, runs
from pipelines.store.objects import manifest as manifests
from pipelines.store.place.identity import key_of_ingredients

BEGIN = {"outputs": {}, "metrics": {}, "state": "completed"}
RECIPE = """
    def recipe(self, stage):
        return {"joining": 1}
"""


@pytest.fixture
def model(toy: Toy, patch: Patch) -> Toy:
    """The toy's last stage stands for a training; it has run once."""
    patch.item(graph.GRAPH, "join", replace(graph.GRAPH["join"], has_recipe=True))  # type: ignore[arg-type]
    toy.edit("join", "    counted: bool = True\n", f"    counted: bool = True\n{RECIPE}")
    complete(toy)
    return toy


def complete(toy: Toy, **changes: Any) -> set[str]:
    """A whole run, with its record; what was built."""
    session = toy.session(**changes)
    built = ran(drive(session))
    runs.record(session, session.outcomes, BEGIN, make_latest=True)
    return built


def planned(toy: Toy, stage: str = "join", **changes: Any) -> Planned:
    session = toy.session(**changes)
    return {p.stage: p for p in make_plan(session, runs.latest(session.roots))}[stage]


def key_of_the_model(toy: Toy, stage: str = "join") -> str:
    return {s: k for s, _, k in (runs.latest(toy.session().roots) or {})["artifacts"]}[stage]


def make_older(toy: Toy, stage: str) -> str:
    """Turns a stage's artifact into one of before there were recipes, keyed by code and packages; its key then."""
    session = toy.session()
    now = key_of_the_model(toy, stage)
    manifest = manifests.load(session.roots, stage, now)
    assert manifest is not None
    made_of = {n: v for n, v in manifest.lineage["ingredients"].items() if n not in ("recipe", "data", "plugins")}
    made_of |= manifest.lineage["built_with"]
    then = key_of_ingredients(made_of, session.roots.secret)
    lineage = {**manifest.lineage, "ingredients": made_of}
    del lineage["built_with"]
    private = toy.folder / "private"
    (private / "objects" / stage / now).rename(private / "objects" / stage / then)
    session.roots.manifest_path(stage, now).unlink()
    old = replace(manifest, key=then, lineage=lineage)
    manifests.write_json(session.roots.manifest_path(stage, then), manifests.joint_document(old, session.roots.secret))
    return then


def test_another_code_of_its_own_is_told_and_makes_nothing_anew(model: Toy) -> None:
    assert planned(model).action == "hit"
    before = key_of_the_model(model)
    model.edit("join", "parts = [", "parts = [] + [")
    found = planned(model)
    assert (found.action, found.key) == ("stale", before)
    assert "code: toyproject/join.py" in found.reasons
    assert complete(model) == set()
    assert key_of_the_model(model) == before


def test_other_packages_are_told_and_make_nothing_anew(model: Toy, patch: Patch) -> None:
    patch(keys.platform, "python_version", lambda: "3.99.0")
    assert planned(model).action == "stale"
    assert any(reason.startswith("python: ") for reason in planned(model).reasons)
    assert "join" not in complete(model)


def test_what_it_read_may_change_through_code_alone(model: Toy) -> None:
    before = key_of_the_model(model)
    model.edit("helper", "VERSION = 0", "VERSION = 2")  # other bytes of every partition
    assert planned(model).action == "stale"  # known before the stages in front of it are run
    assert complete(model) == {"upper/p-a", "upper/p-b", "upper/p-c"}
    assert key_of_the_model(model) == before
    assert "output of upper changed" in planned(model).reasons
    assert complete(model) == set()  # and the next night as well


@pytest.mark.parametrize("change", ["own setting", "setting before it", "seed", "new file", "changed file"])
def test_what_the_user_changes_makes_it_anew(model: Toy, change: str) -> None:
    model.edit("helper", "VERSION = 0", "VERSION = 1")  # an upgrade in the same night is no excuse
    model.edit("join", "parts = [", "parts = [] + [")
    if change == "own setting":
        model.settings = {"join": {"separator": "+"}}
    elif change == "setting before it":
        model.settings = {"count": {"modulus": 2}}
    elif change == "seed":
        model.seed = 5
    elif change == "new file":
        model.write("d.txt", "delta")
    else:
        model.write("a.txt", "other text")
    assert planned(model).action in ("run", "maybe")
    assert "join" in complete(model)


def test_a_setting_that_is_new_has_its_default_in_models_of_before(model: Toy) -> None:
    model.edit("join", "    counted: bool = True\n", "    counted: bool = True\n    shout: bool = False\n")
    assert planned(model).action == "stale"
    assert "join" not in complete(model)
    model.settings = {"join": {"shout": True}}
    assert planned(model).action == "run"
    assert "join" in complete(model)


def test_a_setting_that_is_new_before_it_may_change_what_it_would_read(model: Toy) -> None:
    model.edit("count", "    modulus: int = 3\n", "    modulus: int = 3\n    offset: int = 1\n")
    model.edit("count", "total %", "(total + ctx.configs['count'].offset) %")
    assert planned(model).action == "stale"
    assert complete(model) == {"count"}
    model.settings = {"count": {"offset": 2}}
    assert "join" in complete(model)


def test_another_recipe_is_told_and_its_models_stay_until_the_user_asks(model: Toy) -> None:
    before = key_of_the_model(model)
    model.edit("join", '"joining": 1', '"joining": 2')
    found = planned(model)
    assert (found.action, found.key) == ("stale", before)
    assert "recipe: joining 1 → 2" in found.reasons
    assert complete(model) == set()
    assert planned(model, forced=("join",)).reasons == ("forced",)
    assert complete(model, forced=("join",)) == {"join"}
    assert key_of_the_model(model) != before
    assert planned(model).action == "hit"


def test_a_damaged_model_is_made_anew_under_the_present_recipe(model: Toy) -> None:
    before = key_of_the_model(model)
    model.edit("join", '"joining": 1', '"joining": 2')
    (model.folder / "private/objects/join" / before / "join.txt").write_text("other")
    assert complete(model) == {"join"}
    assert key_of_the_model(model) != before


def test_a_model_of_before_there_were_recipes_is_found(model: Toy) -> None:
    """The first versions keyed models by code and packages, in one document."""
    then = make_older(model, "join")
    assert (planned(model).action, planned(model).key) == ("hit", then)
    assert complete(model) == set()
    model.edit("join", "parts = [", "parts = [] + [")
    assert (planned(model).action, planned(model).key) == ("stale", then)
    model.settings = {"join": {"separator": "+"}}
    assert complete(model) == {"join"}


def test_the_key_of_a_recipe_holds_no_code_and_lineage_does(model: Toy) -> None:
    manifest = manifests.load(model.session().roots, "join", key_of_the_model(model))
    assert manifest is not None
    assert manifest.lineage["ingredients"].keys() == {
        *("schema_version", "stage", "recipe", "data", "config", "seed", "inputs")
    }
    assert "toyproject/join.py" in manifest.lineage["built_with"]["code"]
    assert manifest.lineage["built_with"]["environment"]["python"]


def test_a_model_of_before_there_were_recipes_is_found_by_its_plug_ins(model: Toy) -> None:
    (model.folder / "gadget.py").write_text("SIZE = 1\n")
    plug_in = "\n    def plugin_references(self):\n        return ('gadget',)\n"
    model.edit("join", "    counted: bool = True\n", f"    counted: bool = True\n{plug_in}")
    assert complete(model) == {"join"}  # the user chose a plug-in
    make_older(model, "join")
    assert complete(model) == set()
    (model.folder / "gadget.py").write_text("SIZE = 2\n")
    assert complete(model) == {"join"}


@pytest.mark.parametrize("stage", ["join", "count"])
def test_an_edit_of_a_plug_in_is_the_users_change(model: Toy, stage: str) -> None:
    """Of the stage with the recipe, and of one before it whose other output only our code would otherwise explain."""
    (model.folder / "gadget.py").write_text("SIZE = 1\n")
    field = {"join": "    counted: bool = True\n", "count": "    modulus: int = 3\n"}[stage]
    plug_in = "\n    def plugin_references(self):\n        return ('gadget',)\n"
    model.edit(stage, field, f"{field}{plug_in}")
    model.edit("count", "return {}", "(ctx.out.folder / 'gadget.txt').write_text(open('GADGET').read())\n    return {}")
    model.edit("count", "'GADGET'", repr(str(model.folder / "gadget.py")))
    complete(model, forced=("join",))
    assert "join" not in complete(model)
    (model.folder / "gadget.py").write_text("SIZE = 2\n")
    assert planned(model).action in ("run", "maybe")
    assert "join" in complete(model, forced=("count",))


def test_a_package_that_holds_a_model_is_compared_with_what_the_first_version_kept() -> None:
    """Its version stood among all packages, and not beside the files, in keys of before there were recipes."""
    now = {"data": {"torch": "1", "data file 1": "x"}}
    old = {"code": {"data file 1": "x", "a.py": "y"}, "environment": {"packages": {"torch": "1", "numpy": "2"}}}
    assert lookup._data_of(old, now["data"]) == lookup._data_of(now, ())
    old["environment"]["packages"]["torch"] = "0"
    assert lookup._data_of(old, now["data"]) != lookup._data_of(now, ())


def test_a_plan_names_the_files_of_a_model_that_changed() -> None:
    """Guards a plan that said "data file 1" to "data file 13" of a detector. A file in front moves the numbers."""
    base: dict[str, Any] = {"config": {}, "seed": 0, "environment": {"packages": {}, "python": "", "machine": ""}}
    then = {**base, "code": {"a.py": "1", "data file 1": "x", "data file 2": "y"}}
    now = {**base, "code": {"a.py": "2", "data file 1": "new", "data file 2": "x", "data file 3": "z"}}

    def names() -> list[str]:
        return ["config.json", "model.safetensors", "data file 3"]

    assert explain(then, now, None, names) == ["code: a.py", "files: config.json, data file 3"]
    assert explain(now, then, None, names)[1:] == ["files: model.safetensors, 1 fewer"]
    many = {**base, "code": {f"data file {n}": str(n) for n in range(1, 14)}}
    (reason,) = explain({**base, "code": {}}, many, None, lambda: [f"part-{n:02}" for n in range(1, 14)])
    assert reason == f"files: {', '.join(f'part-{n:02}' for n in range(1, 9))}, 5 more"
    assert explain(many, many, None, lambda: pytest.fail("listed for nothing")) == []
