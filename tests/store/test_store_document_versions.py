"""No version of a document of the store is forgotten: each is declared, and tests read stores of earlier ones."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support import REPOSITORY
from support.old_stores import COMMITS, unpack

from pipelines.accounting import facts
from pipelines.miss_rate import review_log
from pipelines.store.place import versions
from pipelines.training import description

PRESENT: Mapping[str, int] = {
    **{name: number for name, number in vars(versions).items() if name.isupper()},
    "EVENTS": facts.SCHEMA_VERSION,
    "REVIEW": review_log._VERSION,
    "MODEL": description.VERSION,
}
"""Every kind of document that no run makes anew, with its present version."""


def documents(private: Path) -> Iterator[tuple[str, Any]]:
    """Kind and version of the documents below a private root."""
    yield "HOME", 1  # none before: `home` held a text
    yield "STORE", json.loads((private / "store.json").read_text())["schema_version"]
    for line in (private / "ledger/releases.jsonl").read_text().splitlines():
        yield "LEDGER", json.loads(line)["schema_version"]
    for path in [private / "latest.json", *private.glob("runs/*/*.json")]:
        yield "RUN", json.loads(path.read_text()).get("schema_version", 1)  # a record of 0.1.0 does not say it
    for path in private.glob("manifests/*/*.json"):
        manifest = json.loads(path.read_text())
        yield "MANIFEST", manifest["schema_version"]
        yield "KEY", manifest["lineage"]["ingredients"]["schema_version"]
    for path in private.glob("objects/*/*/events.json"):
        yield "EVENTS", json.loads(path.read_text())["schema_version"]
    for path in private.parent.glob("public/objects/train/*/model/reticent.json"):
        yield "MODEL", json.loads(path.read_text())["schema_version"]


def test_tests_read_stores_with_every_earlier_version_of_a_document(tmp_path: Path) -> None:
    """When a version is raised, a store of the last one has to be made (`make_old_stores.py`) before that."""
    found = {pair for commit in COMMITS for pair in documents(unpack(commit, tmp_path / commit) / "store/private")}
    wanted = {(kind, earlier) for kind, present in PRESENT.items() for earlier in range(1, present)}
    assert wanted <= found
    assert {(kind, number) for kind, number in found if number > PRESENT[kind]} == set()
    unusual = {"MARK", "REMOVED", "REVIEW", "MIRROR", "FORGOTTEN"}  # which no finished run leaves
    assert {kind for kind, _ in found} >= PRESENT.keys() - unusual


def test_documents_of_the_store_say_a_version_that_is_declared() -> None:
    """A number beside ``schema_version`` is one that nobody will think of when the document changes."""
    files = sorted((REPOSITORY / "pipelines/store").rglob("*.py"))
    assert len(files) > 30
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            for name, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
                if isinstance(name, ast.Constant) and name.value == "schema_version":
                    assert isinstance(value, ast.Attribute), path.name
                    assert value.attr in PRESENT, path.name


@pytest.mark.parametrize("kind", PRESENT)
def test_versions_are_told_apart_by_what_the_declaration_says(kind: str) -> None:
    """Each declared version of several says what the earlier ones were."""
    text = (REPOSITORY / "pipelines/store/place/versions.py").read_text()
    told = re.search(rf"^{kind}: Final = \d+\n\"\"\"(.*?)\"\"\"", text, re.M | re.S)
    if told is not None:
        assert all(re.search(rf"\b{number}\b", told[1]) for number in range(1, PRESENT[kind]))
