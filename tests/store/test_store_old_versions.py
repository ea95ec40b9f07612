"""Stores that earlier versions wrote (`make_old_stores.py`): what today's code reads in them, keeps, and refuses.

8044d3b is 0.1.0: its ledger is neither chained nor sealed, and ``store.json`` holds a version only. e586264 is the last
commit before 0.2.0 was begun. Their folders lie elsewhere than when they were made, as those of a store that was moved.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from support.old_stores import (
    BEFORE,
    COMMITS,
    FIRST,
    LAST,
    artifacts_of,
    document,
    manifest_of,
    open_store,
    reticent,
    run_stages,
    said,
    unpack,
)

from pipelines.accounting.ledger import overlapping, person_epsilon_of
from pipelines.errors import PrivacyGateError
from pipelines.numbers import same_figures
from pipelines.store.ledger.ledger import read_ledger
from pipelines.store.objects.ledger_lines import append, ledger_dir, locked, read_documents
from pipelines.store.place import versions
from pipelines.store.place.ledger_file import FILE, OLDER


@pytest.fixture(
    params=[commit if commit in (FIRST, BEFORE) else pytest.param(commit, marks=pytest.mark.slow) for commit in COMMITS]
)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A commit, and the project that it left."""
    return request.param, unpack(request.param, tmp_path)


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """The project of 0.1.0."""
    return unpack(FIRST, tmp_path)


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The project of the commit before 0.2.0 was begun."""
    return unpack(BEFORE, tmp_path)


def everything(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Mode, time and content of all that lies below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            content = str(path.readlink())
        else:
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[path.relative_to(folder).as_posix()] = (status.st_mode, status.st_mtime_ns, content)
    return found


LOOKING = (
    ("status",),
    ("runs",),
    ("ledger",),
    ("verify",),
    ("report",),
    ("inspect", "split", "--config"),
    ("inspect", "redact", "--config"),
    ("inspect", "private", "--config"),
    ("inspect", "public", "--config"),
)


@pytest.mark.slow
def test_commands_that_look_read_an_old_store_and_write_nothing_into_it(old: tuple[str, Path]) -> None:
    commit, project = old
    config = project / "crt.toml"
    untouched = everything(project)
    for command in LOOKING:
        assert reticent(*command, config)
    assert document("verify", config)["damaged"] == []
    now, then = document("runs", config)["runs"], said(commit)["runs"]["runs"]
    assert [{name: row[name] for name in old_row} for row, old_row in zip(now, then, strict=True)] == then
    assert {(row["purpose"], row["parent"]) for row in now} == {("release", None)}
    last = document("report", config)
    assert last["run_id"] == said(commit)["runs"]["runs"][0]["run_id"]
    assert last["metrics"]["num_sentences"] == (268 if commit == LAST else 202)  # the simulator changed
    assert "1 of 1 files not read yet" in reticent("status", config)  # a moved file is another one until it is read
    assert everything(project) == untouched


def test_plan_notes_what_it_read_and_seals_the_store(old: tuple[str, Path]) -> None:
    commit, project = old
    untouched = everything(project)
    rows = document("plan", project / "crt.toml")["stages"]
    assert rows[0]["stage"] == "split"
    assert not [
        reason for reason in rows[0]["reasons"] if reason.startswith("input")
    ]  # the files are those of the last run, in another place
    changed = dict(everything(project).items() - untouched.items())
    files = {path for path, (_, _, content) in changed.items() if content}
    is_first = commit == FIRST
    assert files == {"store/private/cache/inputs.json", "store/private/cache/code.json"} | (
        {"store/private/store.json"} if is_first else set()
    )
    assert untouched.keys() <= everything(project).keys()
    reticent("diff", "previous", "latest", "--config", project / "crt.toml")


def test_the_ledger_says_what_it_said(old: tuple[str, Path]) -> None:
    commit, project = old
    now, then = document("ledger", project / "crt.toml"), said(commit)["ledger"]
    rows = [
        {name: row[name] for name in old_row} for row, old_row in zip(now["releases"], then["releases"], strict=True)
    ]
    assert same_figures(rows, then["releases"])
    for group, old_group in zip(now["groups"], then["groups"], strict=True):
        assert (group["num_releases"], group["delta"]) == (old_group["num_releases"], old_group["delta"])
        assert group["epsilon"] == (old_group["epsilon"] and pytest.approx(old_group["epsilon"], rel=1e-3))
    assert [group["num_releases"] for group in now["groups"]] == [1, 3]


def test_a_ledger_of_before_people_bounds_nobody(old: tuple[str, Path]) -> None:
    """Its releases may be about anybody, so they compose for a person of any later one, and have no bound."""
    _, project = old
    releases = [r for r in read_ledger(open_store(project)) if r.counts]
    assert {(r.people, r.facts and r.facts.owner_bound) for r in releases} == {(None, None)}
    assert len(overlapping(releases)) == 2
    assert len(overlapping(releases, "overlap", "owner")) == 1
    assert math.isinf(person_epsilon_of(releases, 1e-6, "customers"))
    assert document("ledger", project / "crt.toml")["people"] == []


def test_credit_that_the_first_version_gave_too_much_of_is_gone(
    first: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It said epsilon 0 for masked secrets of a group of which one release had read the original text."""
    wrong = said(FIRST)["ledger"]["groups"][1]["amplified"]
    assert wrong["epsilon"] == 0
    _, group = document("ledger", first / "crt.toml")["groups"]
    assert group["credit"]["epsilon"] is None
    before = unpack(BEFORE, tmp_path_factory.mktemp("before"))
    _, group = document("ledger", before / "crt.toml")["groups"]
    assert group["credit"] == said(BEFORE)["ledger"]["groups"][1]["credit"]
    assert group["credit"]["epsilon"] > 1


def migrate(project: Path) -> tuple[Path, bytes]:
    """Adds a line to the ledger; its file, and its bytes before that."""
    roots = open_store(project, create=True)
    path = ledger_dir(roots) / FILE
    data = path.read_bytes()
    with locked(roots) as held:
        entries = [d for d in read_documents(roots, held) if d["type"] == "release"]
        append(roots, held, [{**entries[-1], "release_id": "new"}, {"type": "published", "release_id": "new"}])
    return path, data


def test_the_first_line_that_is_added_seals_the_old_ones(old: tuple[str, Path]) -> None:
    commit, project = old
    path, data = migrate(project)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert path.read_bytes().startswith(data)  # appended to, never rewritten
    assert [line["type"] for line in lines].count(OLDER) == (commit == FIRST)
    identity = json.loads((project / "store/private/store.json").read_text())
    assert identity["schema_version"] == versions.STORE
    assert identity["ledger"]["count"] == len(lines)
    assert document("verify", project / "crt.toml")["damaged"] == []
    groups = document("ledger", project / "crt.toml")["groups"]
    assert [group["num_releases"] for group in groups] == [1, 4]
    assert groups[1]["epsilon"] > said(commit)["ledger"]["groups"][1]["epsilon"]
    path.write_bytes(path.read_bytes().replace(b'"data":"', b'"data":"0', 1))  # in the first line, an old one
    with pytest.raises(PrivacyGateError, match=r"not those that it seals|its seal does not fit"):
        document("ledger", project / "crt.toml")


def a_quieter_event(data: bytes) -> bytes:
    return data.replace(b'"noise_multiplier":2.0', b'"noise_multiplier":20.0')


def a_smaller_epsilon(data: bytes) -> bytes:
    return re.sub(rb'"epsilon":1\.\d+', b'"epsilon":0.5', data, count=1)


def no_entry(data: bytes) -> bytes:
    first, rest = data.split(b"\n", 1)
    assert b'"release"' in first
    return b'{"type"\n' + rest


def a_bit(data: bytes) -> bytes:
    return data.replace(b'"tokens":["', b'"tokens":["0', 1)


@pytest.mark.parametrize("damage", [a_quieter_event, a_smaller_epsilon, no_entry])
def test_a_damaged_old_ledger_is_refused(old: tuple[str, Path], damage: Callable[[bytes], bytes]) -> None:
    _, project = old
    change_ledger(project, damage)
    with pytest.raises(PrivacyGateError, match="privacy ledger"):
        document("ledger", project / "crt.toml")
    (problem,) = document("verify", project / "crt.toml")["damaged"]
    assert problem["stage"] == "ledger"


def change_ledger(project: Path, damage: Callable[[bytes], bytes]) -> None:
    path = project / "store/private/ledger" / FILE
    damaged = damage(path.read_bytes())
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)


def last_release(data: bytes) -> bytes:
    return b"".join(data.splitlines(keepends=True)[:-2])


@pytest.mark.parametrize("damage", [a_bit, last_release, lambda data: b""])
def test_damage_that_only_a_seal_can_show_is_refused_in_a_sealed_store(
    before: Path, damage: Callable[[bytes], bytes]
) -> None:
    change_ledger(before, damage)
    with pytest.raises(PrivacyGateError, match="privacy ledger"):
        document("ledger", before / "crt.toml")


def test_models_of_an_unsealed_ledger_that_was_removed_still_count(first: Path) -> None:
    """Lines of 0.1.0 bear no seal, so a lost one is not noticed; a model that is there is charged for all the same."""
    shutil.rmtree(first / "store/private/ledger")
    (group,) = document("ledger", first / "crt.toml")[
        "groups"
    ]  # of lost lines nothing is known, so they overlap with all
    assert group["num_releases"] == 3  # the model before the forced retraining is gone, and its line with it
    assert group["epsilon"] is None


def test_models_of_an_old_store_can_be_opened(old: tuple[str, Path]) -> None:
    _, project = old
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folders = sorted((project / "store/public/objects/train").glob("*/model"))
    assert len(folders) == 3
    for folder in [*folders, project / "store/public/latest/model"]:
        tokens = AutoTokenizer.from_pretrained(folder)("My name is <MASK>.", return_tensors="pt")
        with torch.no_grad():
            found = AutoModelForCausalLM.from_pretrained(folder)(**tokens)
        assert torch.isfinite(found.logits).all()


def test_preparation_since_the_first_version_differs_where_it_was_corrected(first: Path) -> None:
    """Tokens: a full stop behind a code that ends with a letter is one by itself. Redaction: `redact.stabilise`, which
    reads each row again, is switched off here; then nothing else differs.
    """
    names = ("split", "dedup_keys", "dedup_buckets", "dedup_resolve", "dedup_mask", "redact")
    before = artifacts_of(first)
    found = run_stages(first / "crt.toml", names, environ={"RETICENT__REDACT__STABILISE": "false"})
    there = {name: outcome for name, (outcome,) in found.items() if name != "dedup_buckets"}  # of dedup.resolve then
    keys = {name: (before[name, outcome.partition], outcome.key or "") for name, outcome in there.items()}
    duplicates = (f"{there['split'].partition}.parquet",)
    for name, files in (("dedup_resolve", duplicates), ("dedup_mask", ())):  # they compare texts
        then, now = (manifest_of(first, name, key) for key in keys[name])
        assert then.output_digest(files) == now.output_digest(files), name

    def tables(stage: str, file: str) -> list[pl.DataFrame]:
        return [pl.read_parquet(first / "store/private/objects" / stage / key / file) for key in keys[stage]]

    then, now = tables("split", "sentences.parquet")
    tokens = ["token_starts", "token_ends"]
    assert then.drop(tokens).equals(now.drop(tokens))
    is_cut_anew = then["token_starts"] != now["token_starts"]
    assert 0 < is_cut_anew.sum() < 5
    assert then.filter(is_cut_anew)["text"].str.contains(r"[0-9][A-Z]\.(\s|$)").all()
    then, now = tables("redact", "redacted.parquet")
    assert then.filter(~is_cut_anew).equals(now.filter(~is_cut_anew))
