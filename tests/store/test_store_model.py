"""Random edits of code, settings and input against a model of what must run; and plan against run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.toy import drive, ran, use_toy_graph

from pipelines.store.building.plan import make_plan
from pipelines.store.objects import runs

EDITS = st.one_of(
    st.tuples(st.just("width"), st.integers(0, 5)),
    st.tuples(st.just("suffix"), st.sampled_from(["", "?"])),
    st.tuples(st.just("modulus"), st.integers(1, 3)),
    st.tuples(st.just("helper"), st.integers(0, 2)),
    st.tuples(st.just("comment"), st.integers(0, 9)),
    st.tuples(st.just("write"), st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "x", "xyz", "xyzw"]))),
    st.tuples(st.just("remove"), st.sampled_from("abcd")),
    st.tuples(st.just("note"), st.integers(0, 3)),
)


class Model:
    """The pipeline as plain functions, and what has ever been computed."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {"width": 8, "suffix": "", "modulus": 3, "helper": 0}
        self.files = {"a": "xyz"}
        self.seen: set[tuple[Any, ...]] = set()

    def step(self) -> set[str]:
        """Names of what must run now."""
        built: set[str] = set()

        def need(name: str, *ingredients: Any) -> None:
            stage = name.split("/")[0]
            if (stage, *ingredients) not in self.seen:
                self.seen.add((stage, *ingredients))
                built.add(name)

        v = self.values
        letters, upper = {}, {}
        for f, text in sorted(self.files.items()):
            need(f"letters/p-{f}", f, text, v["width"])
            letters[f] = text[: v["width"]]
            need(f"upper/p-{f}", letters[f], v["helper"], v["suffix"])
            upper[f] = (letters[f].upper() + ("!" if v["helper"] == 2 else "") + v["suffix"])[::-1]
        need("count", tuple(letters.items()), v["modulus"])
        count = sum(map(len, letters.values())) % v["modulus"]
        need("join", tuple(upper.items()), count)
        return built


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(st.lists(EDITS, min_size=1, max_size=3), min_size=1, max_size=5))
def test_exactly_the_dependent_stages_run(script: list[list[tuple[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        toy, model = use_toy_graph(monkeypatch, Path(folder)), Model()
        toy.write("a.txt", "xyz")
        record = None
        for edits in [[], *script]:
            for kind, value in edits:
                if kind in ("width", "suffix", "modulus", "note"):
                    table = {"width": "letters", "note": "letters", "suffix": "upper", "modulus": "count"}[kind]
                    toy.settings.setdefault(table, {})[kind] = str(value) if kind == "note" else value
                    if kind != "note":
                        model.values[kind] = value
                elif kind == "helper":
                    toy.edit("helper", f"VERSION = {model.values['helper']}", f"VERSION = {value}")
                    model.values["helper"] = value
                elif kind == "comment":
                    with (toy.code / "letters.py").open("a") as file:
                        file.write(f"\n# {value}\n")
                elif kind == "write":
                    toy.write(f"{value[0]}.txt", value[1])
                    model.files[value[0]] = value[1]
                elif len(model.files) > 1 and value in model.files:
                    (toy.input / f"{value}.txt").unlink()
                    del model.files[value]
            plan = {f"{p.stage}/{p.partition}" if p.partition else p.stage: p for p in make_plan(toy.session(), record)}
            session = toy.session()
            outcomes = drive(session)
            record = runs.record(session, outcomes, {})
            assert ran(outcomes) == model.step()
            built = {o.key for o in outcomes if o.state == "completed"}
            for outcome in outcomes:
                name = f"{outcome.stage}/{outcome.partition}" if outcome.partition else outcome.stage
                if plan[name].action == "hit":
                    assert outcome.state == "cached", name
                elif plan[name].action == "run":  # or another partition of equal content was built first
                    assert outcome.state == "completed" or outcome.key in built, name
