"""Ids of people through the whole job: HMACs in one private table, folds by person, and figures for a person."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.project import NOISED_MODEL, SECRET, reticent
from support.shared_server import server_files, shared_server

pytestmark = pytest.mark.slow

PEOPLE = [f"Zubrowka-{number:02}@secret-owner.example" for number in range(12)]
COLOURS = ("red", "blue", "green", "white", "black", "brown", "grey", "pink")
SETTINGS = """
[runtime]
workers = {workers}
[store]
secret_file = "secret"
[corpus]
inputs = ["corpus"]
owner_from = "field"
owner_field = "user_id"
owner_space = "customers"
partition_documents = 10
[split]
valid_fraction = 0.1
test_fraction = 0.1
[redact]
policies = ["digits"]
[estimate]
source = "none"
"""
Done = subprocess.CompletedProcess[str]


def make_project(folder: Path, workers: int, *, is_whole: bool = True) -> Path:
    """Sixty documents of twelve people, who have one to nine each."""
    (folder / "corpus").mkdir(parents=True)
    rows = []
    for number in range(60):
        owner = PEOPLE[number % 12 if number < 40 else number % 3]
        text = f"i would like to have the {COLOURS[number % 8]} cup number {number} . it is for the table ."
        rows.append({"id": f"{owner} {number}", "text": text, "user_id": f" {owner.upper() if number % 3 else owner}"})
    for name, part in (("one", rows[:35]), ("two", rows[35:])):
        lines = [json.dumps(row if is_whole or at % 7 else {"text": row["text"]}) for at, row in enumerate(part)]
        (folder / "corpus" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "secret").write_text(SECRET)
    (folder / "secret").chmod(0o600)
    config = folder / "reticent.toml"
    config.write_text(f"{SETTINGS.format(workers=workers)}{NOISED_MODEL}method = 'dpsgd'\ntarget_delta = 1e-3\n")
    return config


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A run in which some documents have no owner."""
    config = make_project(tmp_path_factory.mktemp("refused"), 1, is_whole=False)
    return reticent("run", config, "--json", cwd=config.parent, **shared_server())


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """The same corpus and secret in two stores, prepared by one and by two processes; and what the runs said."""
    configs, said = [], ""
    for workers in (1, 2):
        config = make_project(tmp_path_factory.mktemp(f"workers-{workers}"), workers)
        done = reticent("run", config, "--json", cwd=config.parent, **shared_server())
        assert done.returncode == 0, done.stderr + done.stdout
        configs.append(config)
        said += done.stdout + done.stderr
    return configs[0], configs[1], said


def latest(config: Path, root: str = "private") -> Path:
    return config.parent / f"reticent-store/{root}/latest"


def documents(config: Path) -> pl.DataFrame:
    return pl.read_parquet(latest(config) / "documents/*.parquet")


def report(config: Path, root: str = "private") -> dict[str, Any]:
    folder = "report" if root == "private" else "public_report"
    found: dict[str, Any] = json.loads((latest(config, root) / folder / "report.json").read_text())
    return found


def holds_a_person(data: bytes) -> bool:
    return b"zubrowka" in data.lower() or b"secret-owner" in data.lower()


def test_documents_without_an_owner_stop_the_run_by_number(refused: Done) -> None:
    assert refused.returncode != 0
    message = json.loads(refused.stdout.splitlines()[-1])["error"]["message"]
    assert "9 documents have no owner" in message
    assert "`reticent inspect rejected --rows 50 --show-text -c SETTINGS` shows it" in message
    assert not holds_a_person((refused.stdout + refused.stderr).encode())


def test_no_id_is_in_any_file_but_the_table_of_documents_ids_and_in_no_log(projects: tuple[Path, Path, str]) -> None:
    one, other, said = projects
    assert not holds_a_person(said.encode())
    pseudonyms = {owner.encode() for owner in documents(one)["owner"]}
    for config in (one, other):
        store = config.parent / "reticent-store"
        for path in (path for path in store.rglob("*") if path.is_file() and not path.is_symlink()):
            assert not holds_a_person(str(path.relative_to(store)).encode())
            data = path.read_bytes()
            if path.suffix == ".parquet":
                frame = pl.read_parquet(path)
                assert ("owner" in frame.columns) == (path.name == "documents.parquet")
                named = {"source_file", "source_id"} & set(frame.columns)  # a document's own file and id
                data = frame.drop(named).write_ndjson().encode()
            assert not holds_a_person(data), path.name
            if "public" in path.relative_to(store).parts[0] or path.suffix != ".parquet":
                assert not any(owner in data for owner in pseudonyms), path.name
    with sqlite3.connect(server_files() / "prefect.db") as connection:
        statements = "\n".join(connection.iterdump()).encode()
    assert not holds_a_person(statements)
    assert not any(owner in statements for owner in pseudonyms)


def test_no_person_is_in_two_folds_and_processes_change_no_byte(projects: tuple[Path, Path, str]) -> None:
    one, other, _ = projects
    found = documents(one)
    assert found["owner"].n_unique() == 12
    assert set(found.group_by("owner").agg(pl.col("fold").n_unique())["fold"]) == {1}
    assert found.group_by("fold").len().height > 1
    for config in (one, other):
        assert len(list((latest(config) / "documents").glob("*.parquet"))) > 4
    tables = [{p.name: p.read_bytes() for p in (latest(c) / "documents").glob("*.parquet")} for c in (one, other)]
    assert tables[0] == tables[1]


def test_the_reports_state_what_the_command_states_for_a_person(projects: tuple[Path, Path, str]) -> None:
    config, _, _ = projects
    full = report(config)
    train = documents(config).filter(pl.col("fold") == "train")
    records = train.group_by("owner").agg(pl.col("num_sentences").sum())["num_sentences"].sort()
    person, training = full["person"], full["training"]
    assert person["is_known"]
    assert (person["owner_from"], person["num_people"], person["basis"]) == ("field", len(records), "dp_private_set")
    sizes = [figure["num_records"] for figure in person["figures"]]
    assert sizes == [1, records[len(records) // 2], records[-1]]
    for figure in person["figures"]:
        done = reticent(
            *("privacy", "person", "--sample-rate", str(training["sample_rate"]), "--json"),
            *("--noise-multiplier", str(training["noise_multiplier"]), "--steps", str(training["num_steps"])),
            *("--delta", "1e-3", "--records", str(figure["num_records"])),
            cwd=config.parent,
        )
        stated = json.loads(done.stdout.splitlines()[-1])
        assert figure["epsilon"] == pytest.approx(stated["epsilon"], rel=1e-6)
    assert person["figures"][0]["epsilon"] == pytest.approx(full["metrics"]["epsilon_dp"], rel=1e-6)
    page = (latest(config) / "report/report.html").read_text()
    assert "For a person." in page
    assert f"with {sizes[-1]} records (the most of anybody)" in page


def test_the_public_report_and_the_card_tell_no_number_of_records(projects: tuple[Path, Path, str]) -> None:
    config, _, _ = projects
    person = report(config, "public")["person"]
    assert person["is_known"]
    assert person["num_people"] is None
    assert [figure["num_records"] for figure in person["figures"]] == [1, 4]
    card = (latest(config, "public") / "public_report/model_card.md").read_text()
    assert "**For a person.** The ε of one record does not cover a person with several." in card
    assert "How many records people have is not told here." in card


def test_the_ledger_and_the_page_to_sign_state_a_person(projects: tuple[Path, Path, str]) -> None:
    config, _, _ = projects
    told = reticent("ledger", config, "--json", cwd=config.parent)
    (group,) = json.loads(told.stdout.splitlines()[-1])["groups"]
    assert group["person"]["is_known"]
    expected = [pytest.approx(figure["epsilon"], rel=1e-6) for figure in report(config)["person"]["figures"]]
    assert [figure["epsilon"] for figure in group["person"]["figures"]] == expected
    shown = reticent("ledger", config, cwd=config.parent).stdout
    assert "for a person with 1 record" in shown
    assert "records (the most of anybody)" in shown
    assert "a person of the space customers, 1 release, whatever its files: no bound" in shown
    signed = reticent("sign", config, "--json", cwd=config.parent)
    page = Path(json.loads(signed.stdout.splitlines()[-1])["page"]).read_text()
    assert page.index("What that means for a person") < page.index("What of the text is open")
    assert "A person is whoever the documents name in the field of corpus.owner_field." in page
    assert "for one person there is no bound, because nothing limits how many records" in page
