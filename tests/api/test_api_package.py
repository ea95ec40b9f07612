"""The package `reticent`: light to import, one version, deprecations that warn."""

from __future__ import annotations

import importlib
import pkgutil
import tomllib
from pathlib import Path

import pytest
from support import REPOSITORY
from support.imports import loaded_after

import reticent
from pipelines.graph import GRAPH
from pipelines.store.objects.code import CodeDigests
from pipelines.store.place.statcache import StatCache

HEAVY = (
    "torch",
    "transformers",
    "spacy",
    "prefect",
    "polars",
    "pyarrow",
    "numpy",
    "scipy",
    "dp_accounting",
    "pydantic",
)


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_after("import reticent; dir(reticent); reticent.__version__")
    assert not loaded & {*HEAVY, "pipelines", "flows", "tasks"}


def test_the_version_is_that_of_the_distribution_and_of_the_changelog() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert reticent.__version__ == project["version"]
    sections = [
        line for line in (REPOSITORY / "CHANGELOG.md").read_text("utf-8").splitlines() if line.startswith("## ")
    ]
    assert next(line for line in sections if line != "## Unreleased").startswith(f"## {reticent.__version__} - ")


def test_no_key_of_an_artifact_depends_on_the_version(tmp_path: Path) -> None:
    """Packages enter keys by name, code by content: neither is that of `reticent`."""
    code = CodeDigests(StatCache(tmp_path / "cache.json"))
    for stage in GRAPH.values():
        assert "reticent" not in stage.packages
        assert {name.partition("/")[0] for name in code.of([stage.module])} == {"pipelines"}


def test_a_plug_in_depends_on_what_stands_behind_the_names_that_it_imports_and_on_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a wheel is installed, our packages lie beside the plug-in, as here by links."""
    for name in ("reticent", "pipelines"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    (tmp_path / "mine.py").write_text("from reticent.plugins.policies import Span\nimport reticent\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    digests = CodeDigests(StatCache(tmp_path / "cache.json")).of(["mine"])
    assert {name.partition("/")[0] for name in digests} == {"mine.py", "pipelines"}
    assert "pipelines/policies/protocol.py" in digests
    assert "pipelines/corpus/formats.py" not in digests


def test_every_public_name_is_there() -> None:
    for info in (None, *pkgutil.walk_packages(reticent.__path__, "reticent.")):
        module = reticent if info is None else importlib.import_module(info.name)
        if module.__name__.rpartition(".")[2].startswith("_"):
            continue
        names = getattr(module, "__all__", ())
        assert list(names) == sorted(names)
        for name in names:
            assert getattr(module, name) is not None
        assert set(names) <= set(dir(module))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = reticent.nonsense  # type: ignore[attr-defined]


def test_plug_ins_are_checked_without_anything_heavy() -> None:
    kinds = ("policies", "readers", "methods", "tasks")
    loaded = loaded_after("; ".join(f"import reticent.plugins.{kind}" for kind in kinds))
    assert not loaded & {"torch", "transformers", "spacy", "prefect", "polars", "scipy", "dp_accounting"}


@pytest.mark.parametrize(
    "part", ["accounting", pytest.param("miss_rate", marks=pytest.mark.slow), "policies", "runs", "errors"]
)
def test_parts_load_neither_torch_nor_prefect(part: str) -> None:
    loaded = loaded_after(f"import reticent.{part}")
    assert not loaded & {"torch", "transformers", "prefect", "dask", "ray"}
