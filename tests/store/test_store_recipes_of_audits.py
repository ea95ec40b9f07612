"""A model of the audit stands for the release: upgrades keep both, and it never stands for another training."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.patches import Patch
from support.toy import Toy
from test_store_recipes import RECIPE, complete, key_of_the_model, make_older, planned

from pipelines import graph
from pipelines.graph_audit import AUDIT_STAGES
from pipelines.stage import Input, Stage
from pipelines.store.objects import manifest as manifests

OTHER = "another recipe than the released model's: joining 1 → 2"
TWIN = """
from pipelines.config import StageConfig

class Config(StageConfig):
    places: int = 1

    def recipe(self, stage):
        return {"twinning": 1}

def run(ctx):
    read = [a.public.blob("public.txt").read_text() for a in ctx.inputs["upper"]]
    (ctx.out.folder / "twin.txt").write_text(ctx.configs["join"].separator.join(read))
    return {}
"""


@pytest.fixture
def audited(toy: Toy, patch: Patch, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """``join`` is the training of a release, and ``twin`` that of the audit's model. Nothing has run."""
    patch.item(graph.GRAPH, "join", replace(graph.GRAPH["join"], has_recipe=True))  # type: ignore[arg-type]
    toy.edit("join", "    counted: bool = True\n", f"    counted: bool = True\n{RECIPE}")
    (toy.code / "twin.py").write_text(TWIN)
    twin = Stage(
        name="twin",
        title="The toy stage twin.",
        table="twin",
        module="toyproject.twin",
        configs={name: f"toyproject.{name}:Config" for name in ("twin", "join")},
        inputs=(Input("upper", ("public.txt",), "all"), Input("join", in_key=False)),
        runs=("join",),
        has_recipe=True,
    )
    monkeypatch.setitem(graph.GRAPH, "twin", twin)  # type: ignore[arg-type]
    return toy


@pytest.fixture
def both(audited: Toy) -> Toy:
    """Release and audit have run once."""
    assert {"join", "twin"} <= complete(audited)
    return audited


def test_every_stage_of_the_audit_that_trains_stands_for_the_release_and_has_a_recipe() -> None:
    trains = {stage.name for stage in AUDIT_STAGES if "train" in stage.runs}
    assert trains == {"audit_model", "audit_domain_models"}
    for stage in AUDIT_STAGES:
        is_model = stage.name in trains
        assert (stage.has_recipe, stage.stands_for) == (is_model, "train" if is_model else None), stage.name


def test_its_key_holds_both_recipes_and_nothing_of_the_release(both: Toy) -> None:
    manifest = manifests.load(both.session().roots, "twin", key_of_the_model(both, "twin"))
    assert manifest is not None
    assert manifest.recipe == {"twinning": 1, "joining": 1}
    made_of = manifest.lineage["ingredients"]
    assert "code" not in made_of
    assert made_of["inputs"].keys() == {"upper"}
    assert manifest.lineage["inputs"]["join"] == [[None, key_of_the_model(both)]]


@pytest.mark.parametrize("module", ["twin", "join"])
def test_another_code_makes_nothing_anew(both: Toy, module: str) -> None:
    assert planned(both, "twin").action == "hit"
    old = {"twin": "read = [", "join": "parts = ["}[module]
    both.edit(module, old, old.replace("[", "[] + ["))
    found = planned(both, "twin")
    assert found.action == ("stale" if module == "twin" else "hit")
    assert ("code: toyproject/twin.py" in found.reasons) == (module == "twin")
    assert complete(both) == set()


def test_what_both_read_may_change_through_code_alone(both: Toy) -> None:
    before = [key_of_the_model(both, name) for name in ("join", "twin")]
    both.edit("helper", "VERSION = 0", "VERSION = 2")  # other bytes of every partition
    assert planned(both, "twin").action == "stale"  # known before the stages in front of it are run
    assert complete(both) == {"upper/p-a", "upper/p-b", "upper/p-c"}
    assert [key_of_the_model(both, name) for name in ("join", "twin")] == before
    assert complete(both) == set()


def test_it_stays_with_a_release_of_an_older_recipe_and_goes_with_it(both: Toy) -> None:
    before = key_of_the_model(both, "twin")
    both.edit("join", '"joining": 1', '"joining": 2')
    found = planned(both, "twin")
    assert (found.action, found.key, found.reasons) == ("stale", before, ("recipe: joining 1 → 2",))
    assert complete(both) == set()
    # A release by the present recipe needs a model by the present recipe.
    assert planned(both, "twin", forced=("join",)).action == "maybe"
    assert complete(both, forced=("join",)) == {"join", "twin"}
    assert key_of_the_model(both, "twin") != before
    assert planned(both, "twin").action == "hit"


def test_another_release_by_the_same_recipe_needs_no_other_model(both: Toy) -> None:
    assert complete(both, forced=("join",)) == {"join"}
    both.edit("twin", "read = [", "read = [] + [")
    assert complete(both, forced=("join",)) == {"join"}


def test_a_release_that_read_text_of_another_code_needs_another_model(both: Toy) -> None:
    both.edit("helper", "VERSION = 0", "VERSION = 2")
    assert {"join", "twin"} <= complete(both, forced=("join",))


def test_a_model_trained_after_an_upgrade_says_that_the_release_has_another_recipe(audited: Toy) -> None:
    """There is none to keep. It is then kept in its turn, although its recipe is not that of the release."""
    complete(audited, selected=("letters", "upper", "count", "join"))
    audited.edit("join", '"joining": 1', '"joining": 2')
    found = planned(audited, "twin")
    assert (found.action, found.reasons) == ("run", ("never run", OTHER))
    assert complete(audited) == {"twin"}
    audited.edit("join", '"joining": 2', '"joining": 3')
    assert planned(audited, "twin").action == "stale"
    assert complete(audited) == set()


@pytest.mark.parametrize("is_forced", [False, True])
def test_a_model_of_before_the_audit_had_recipes_is_found(both: Toy, *, is_forced: bool) -> None:
    """Its recipe was the first. If the release was trained anew by the same one, it stands for that release too."""
    then = make_older(both, "twin")
    if is_forced:
        complete(both, forced=("join",), selected=("letters", "upper", "count", "join"))
    assert (planned(both, "twin").action, planned(both, "twin").key) == ("hit", then)
    assert complete(both) == set()
    both.edit("twin", "read = [", "read = [] + [")
    assert (planned(both, "twin").action, planned(both, "twin").key) == ("stale", then)


def test_a_model_of_no_finished_run_is_kept_if_its_recipe_is_the_releases(both: Toy) -> None:
    make_older(both, "twin")
    for record in (both.folder / "private/runs").glob("*/record.json"):
        record.unlink()
    both.edit("join", '"joining": 1', '"joining": 2')
    assert complete(both) == set()
    for record in (both.folder / "private/runs").glob("*/record.json"):
        record.unlink()
    assert complete(both, forced=("join",)) == {"join", "twin"}


@pytest.mark.parametrize("change", ["own setting", "setting of the training", "new file"])
def test_what_the_user_changes_makes_it_anew(both: Toy, change: str) -> None:
    both.edit("twin", "read = [", "read = [] + [")  # an upgrade in the same night is no excuse
    if change == "new file":
        both.write("d.txt", "delta")
    else:
        both.settings = {"twin": {"places": 2}} if change == "own setting" else {"join": {"separator": "+"}}
    assert planned(both, "twin").action in ("run", "maybe")
    assert "twin" in complete(both)
