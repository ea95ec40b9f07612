"""Every method and every task says all that settings, claims, cards and documentation ask of it, and says it once."""

import importlib
import re
import typing
from dataclasses import replace

import pytest
from support import REPOSITORY
from support.imports import loaded_after

from pipelines.accounting import confidentiality_claims, owner_claims, selective_claims
from pipelines.errors import ConfigError
from pipelines.methods import registry as methods
from pipelines.methods.rule import ClaimName
from pipelines.methods.settings import MethodSettings
from pipelines.methods.view import View
from pipelines.settings.train import TrainConfig
from pipelines.training.tasks import registry as tasks
from pipelines.training.tasks.spec import TaskSettings

DOCS = REPOSITORY / "docs"
BUILDERS = {**owner_claims.BUILDERS, **confidentiality_claims.BUILDERS, **selective_claims.BUILDERS}
WORDS = ("name", "module", "description")
WORDS_OF_TASKS = ("name", "module", "reads", "learns", "scores", "layout")


def rows_of_table(page, first):
    """The cells of the table whose head begins with that cell, row by row."""
    lines = (DOCS / page).read_text("utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.split("|")[1:-1]])
    return rows


@pytest.mark.parametrize("spec", methods.METHODS.values(), ids=lambda spec: spec.name)
def test_a_method_is_described(spec):
    assert all(getattr(spec, word).strip() for word in WORDS)
    assert spec.without_noise or spec.with_noise
    assert spec.source or spec.is_unprotected
    assert spec.recipe >= 1
    assert callable(importlib.import_module(spec.module).prepare)
    assert spec.rules
    for rule in spec.rules.values():
        assert set(rule.claims) <= set(BUILDERS)
        assert all(reason.startswith("it is not recorded that") for reason in rule.requires.values())
    assert bool(spec.with_noise) == (spec.view.private != "none")
    assert bool(spec.without_noise) == (
        spec.view.nonprivate != "none" or spec.view.marks_tokens or bool(spec.first_phase)
    )


@pytest.mark.parametrize("spec", methods.METHODS.values(), ids=lambda spec: spec.name)
def test_the_settings_of_a_method_are_those_of_the_table(spec):
    assert issubclass(spec.settings, MethodSettings)
    assert set(spec.settings.model_fields) <= set(TrainConfig.model_fields)
    assert all(field.description for field in spec.settings.model_fields.values())
    assert set(spec.settings.model_fields) >= spec.settings.PROTECTIONS
    config = TrainConfig(method=spec.name)
    assert type(config.of_method()) is spec.settings
    assert set(spec.settings.model_fields) - config.silent() <= set(config.keyed("train"))
    if spec.variant_setting is None:
        assert set(spec.rules) == {None}
    else:
        variants = typing.get_args(spec.settings.model_fields[spec.variant_setting].annotation)
        assert set(spec.rules) == set(variants)
    if (phase := spec.first_phase) is not None:
        assert {*phase.views, *phase.noised_variants, *phase.figures} <= set(spec.rules)
        assert phase.only_later | phase.with_noise | phase.of_noise <= set(TrainConfig.model_fields)


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (View(nonprivate="none", private="original"), "contradict"),  # redaction would get credit
        (View(nonprivate="redacted", private="private_shard"), "is_unnoised"),  # differential privacy would be claimed
    ],
)
def test_a_description_that_promises_more_than_is_read_is_refused(view, message):
    with pytest.raises(ConfigError, match=message):
        replace(methods.METHODS["crt"], view=view)


def test_every_claim_is_one_that_a_method_can_make():
    assert set(BUILDERS) == set(typing.get_args(ClaimName))
    named = {name for spec in methods.METHODS.values() for rule in spec.rules.values() for name in rule.claims}
    assert named == set(BUILDERS)


def test_a_model_without_a_bound_is_not_published():
    """Where masked or original text of private rows is read without noise and nothing follows with noise."""
    for spec in methods.METHODS.values():
        assert spec.publishes_model == bool(spec.with_noise)


def test_the_table_of_methods_in_the_documentation_is_that_of_the_descriptions():
    rows = rows_of_table("methods.md", "`method`")
    roots = {True: "public root", False: "private root"}
    told = {
        f"`{spec.name}`": [spec.without_noise, spec.with_noise, spec.source, roots[spec.publishes_model]]
        for spec in methods.METHODS.values()
    }
    assert {name: cells for name, *cells in rows} == told


def test_the_variants_of_the_documentation_are_those_of_the_method():
    variants = [row[0].strip("`") for row in rows_of_table("methods.md", "`jft_variant`")]
    assert variants == list(methods.METHODS["jft"].rules)


@pytest.mark.parametrize("spec", tasks.TASKS.values(), ids=lambda spec: spec.name)
def test_a_task_is_described(spec):
    assert all(getattr(spec, word).strip() for word in WORDS_OF_TASKS)
    assert callable(importlib.import_module(spec.module).make_task)
    assert issubclass(spec.settings, TaskSettings)
    assert set(spec.settings.model_fields) <= set(TrainConfig.model_fields)
    places = set(re.findall(r"{(\w+)}", spec.layout))
    assert places <= {"begin", "end", "marks", *spec.settings().words()}
    assert {"begin", "end"} <= places
    assert ("marks" in places) == spec.has_speakers


def test_the_table_of_tasks_in_the_documentation_is_that_of_the_descriptions():
    told = {f"`{spec.name}`": [spec.reads, spec.learns, spec.scores] for spec in tasks.TASKS.values()}
    assert {name: cells for name, *cells in rows_of_table("models.md", "`task`")} == told


def test_which_task_goes_with_which_method_is_documented():
    said = {}
    head, *rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (DOCS / "models.md").read_text("utf-8").splitlines()
        if line.startswith(
            ("| | `crt`", "| `language_modelling` | yes", "| `dialogue`, `resp", "| `classification` | yes")
        )
    ]
    for names, *cells in rows:
        for task in re.findall(r"`(\w+)`", names):
            for group, cell in zip(head[1:], cells, strict=True):
                said |= {(task, method): cell.startswith("yes") for method in re.findall(r"`(\w+)`", group)}
    assert said == {(task, method): goes(task, method) for task in tasks.TASKS for method in methods.METHODS}


def goes(task, method):
    """Whether settings that name both are taken."""
    more = {"template": "sst2", "model": "minilm"} if task == "classification" else {}
    try:
        TrainConfig(task=task, method=method, **more)
    except ValueError:
        return False
    return True


def test_no_description_needs_torch():
    assert "torch" not in loaded_after("import pipelines.settings.train")
