"""Every example in the docstrings of the public API runs and says what it says there."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import reticent

MODULES = ["reticent", *sorted(m.name for m in pkgutil.walk_packages(reticent.__path__, "reticent."))]
WITH_EXAMPLES = {
    f"reticent.{n}" for n in ("accounting", "dp", "miss_rate", "models", "plugins.policies", "policies", "runs")
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in ("reticent.accounting", "reticent.dp") else n for n in MODULES],
)
def test_examples_run(name: str, project: Path, model_folder: Path) -> None:
    module = importlib.import_module(name)
    found = doctest.DocTestFinder(exclude_empty=True).find(
        module, extraglobs={"project": project, "model_folder": model_folder}
    )
    examples = [test for test in found if test.examples]
    assert bool(examples) == (name in WITH_EXAMPLES)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in examples:
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
