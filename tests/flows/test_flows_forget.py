"""`reticent forget`: nothing of a document is left in either root but in the models that are named."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from increment import drive
from looked_at import EVERYTHING
from support.patches import Patch, patching
from support.project import reticent

from flows.commands import forget
from flows.commands.diff import diff_document, runs_document, runs_text
from flows.commands.forget import forget_document, forget_text
from flows.commands.ledger import ledger_document
from flows.commands.plan import last_run, plan_document, plan_text
from flows.running.spec import SYNTHESIS, open_store
from pipelines.accounting import groups
from pipelines.corpus.tables import DOCUMENTS, SENTENCES
from pipelines.errors import ConfigError, InputError, StoreError
from pipelines.files import read_json
from pipelines.miss_rate.review_log import Decision, DecisionLog, read_decisions, sentence_key
from pipelines.settings.loading import load_settings
from pipelines.store.objects import publish, runs
from pipelines.store.objects.reviews import reviews_path
from pipelines.store.place.ledger_file import LedgerError
from pipelines.store.place.locks import store_lock
from pipelines.store.place.roots import Roots
from pipelines.store.upkeep import forgetting
from pipelines.store.upkeep.forgetting import MODELS
from pipelines.store.upkeep.maintenance import gc, verify

FILE = "night-00.jsonl"


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, patch: Patch) -> None:
    """No figure for all sentences of a file, which takes ten seconds; the long tests compute it."""
    if request.node.get_closest_marker("slow") is None:
        patch(groups, "group_epsilon", lambda *_: math.inf, read_by=forget)


def roots_of(config: Path) -> Roots:
    return open_store(load_settings(config, {}))


def only_in(corpus: Path, name: str, lines: slice = slice(None)) -> set[str]:
    """Secrets and ids of some lines of a file that stand nowhere else in the corpus."""
    own, others = [], []
    for path in corpus.iterdir():
        for number, line in enumerate(path.read_text().splitlines()):
            chosen = path.name == name and number in range(*lines.indices(10**6))
            (own if chosen else others).append(line)
    rows = [json.loads(line) for line in own]
    found = {row["text"][span["start"] : span["end"]] for row in rows for span in row["spans"]}
    found = {secret for secret in found if len(secret) > 5 and not any(secret in line for line in others)}
    assert found
    return found | {f'"{row["id"]}"' for row in rows}


def text_of(path: Path) -> str:
    if path.suffix == ".parquet":
        return json.dumps(pq.read_table(path).to_pylist(), default=str, ensure_ascii=False)
    return path.read_bytes().decode("utf-8", "replace")


def places(roots: Roots, strings: set[str]) -> set[str]:
    """The files of both roots, but for those of models, in which, or in whose name, one of the strings stands."""
    found = set()
    for root in (roots.private, roots.public):
        for path in root.rglob("*"):
            name = path.relative_to(root).as_posix()
            if path.is_file() and not name.startswith(tuple(f"objects/{model}/" for model in MODELS)):
                text = f"{name} {text_of(path)}"
                found |= {name} if any(s in text for s in strings) else set()
    return found


def leave_traces(roots: Roots, config: Path, strings: set[str]) -> None:
    """What runs that were killed, and people who looked, leave: the strings as such, and reviews."""
    quoted = " ".join(sorted(strings))
    for folder in (
        "work/abc/scratch",
        "quarantine/split-x-0",
        "failures",
        "first_look",
        "cache/made_again",
        "overlays/o",
    ):
        (roots.private / folder).mkdir(parents=True, exist_ok=True)
        (roots.private / folder / "left.json").write_text(json.dumps({"traceback": quoted}))
    orphan = roots.public / "objects" / "publish" / ("0" * 40)
    orphan.mkdir(parents=True)
    (orphan / "left.txt").write_text(quoted)


def sentences(roots: Roots) -> list[dict[str, Any]]:
    folders = (roots.private / "objects" / "split").glob("*")
    return [row for f in folders for row in roots.private_files("split", f.name).table(SENTENCES).rows()]


def doc_ids(roots: Roots, name: str) -> set[str]:
    """What tables call the documents of a file: a row that names one is derived from it."""
    folders = (roots.private / "objects" / "split").glob("*")
    rows = (row for f in folders for row in roots.private_files("split", f.name).table(DOCUMENTS).rows())
    return {row["doc_id"] for row in rows if row["source_file"] == name}


def states(config: Path, **options: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for outcome in drive(config, EVERYTHING, **options):
        found.setdefault(outcome.stage, set()).add(outcome.state)
    return found


@pytest.mark.slow
def test_nothing_of_a_forgotten_file_is_left_but_in_the_models_that_are_named(project: Path) -> None:
    roots, corpus = roots_of(project), project.parent / "corpus"
    strings = {*only_in(corpus, FILE), *doc_ids(roots, FILE), FILE}
    leave_traces(roots, project, strings)
    before = places(roots, strings)
    assert {path.split("/")[1] for path in before if path.startswith("objects/")} >= {"split", "redact", "publish"}
    assert {path.split("/")[0] for path in before} >= {"work", "failures", "first_look", "runs", "cache", "quarantine"}
    ledger, trained = ledger_document(project, {}), runs.latest(roots)
    assert trained is not None

    page = roots.private / "latest/report/report.html"
    assert "drawn at random" in page.read_text()  # whichever rows they are

    looked = forget_document(project, {}, [FILE], dry_run=True)
    assert places(roots, strings) == before
    done = forget_document(project, {}, [FILE], dry_run=False)
    assert done["artifacts"] == looked["artifacts"]
    assert done["artifacts"]["redact"] == 1  # the other partitions' rows are not its rows
    assert places(roots, strings) == set()
    assert "<h1>" in page.read_text()
    assert "drawn at random" not in page.read_text()

    assert {(m["stage"], m["key"]) for m in done["models"]} == {("train", runs.key_in(trained, "train"))}
    text = forget_text(done)
    assert re.search(r"epsilon \d[\d.e+]*, delta [\d.⁻⁰¹²³⁴⁵⁶⁷⁸⁹× ]+, unamplified, for one sentence of it", text)
    assert "still among the input files" in text
    assert FILE not in text
    assert ledger_document(project, {})["releases"] == ledger["releases"]


@pytest.mark.slow
def test_runs_after_it_leave_the_document_out_and_the_model_as_it_is(project: Path) -> None:
    roots = roots_of(project)
    strings = {*only_in(project.parent / "corpus", FILE), FILE}
    trained = last_run(project, {})
    forget_document(project, {}, [FILE], dry_run=False)
    assert [c for c in verify(roots) if c.problem] == []

    plan = plan_document(project, {}, read=True)
    assert plan["left_out_files"] == {"forgotten": 1}
    assert "nothing but what was forgotten" in plan_text(plan)
    assert not {row["stage"] for row in plan["stages"]} & {"train", "report", "guarantee"}
    found = states(project)
    assert not found.keys() & {"train", "train_phase1", "guarantee", "report"}
    assert "cached" in found["redact"]  # of other partitions
    assert found["dedup_resolve"] == {"completed"}
    assert states(project).keys() == found.keys()  # and so does every later run
    assert places(roots, strings) == set()
    now = last_run(project, {})
    assert now["trained_by"] == trained["run_id"]
    assert "model" in now["outputs"]
    assert len(ledger_document(project, {})["releases"]) == 1
    assert [c for c in verify(roots) if c.problem] == []
    diff_document(project, {}, trained["run_id"], now["run_id"], show_names=True)
    marked = {run["run_id"]: run["is_forgotten"] for run in runs.each_run(roots)}
    assert (marked[trained["run_id"]], marked[now["run_id"]]) == (True, False)
    assert "read what was forgotten since" in runs_text(runs_document(project, {}))
    gc(roots, keep_runs=1, dry_run=False)
    assert "train" not in states(project)

    (project.parent / "corpus" / FILE).unlink()  # as the user was told to do
    assert "train" not in states(project)
    (project.parent / "corpus" / "night-03.jsonl").write_text('{"id": "n", "text": "A new day. It is raining."}\n')
    assert plan_document(project, {}, read=True)["training_waits"] is None  # other text asks for training


def test_another_pattern_for_the_same_files_brings_nothing_back(project: Path) -> None:
    """Names of files in the corpus follow from `corpus.inputs`."""
    forget_document(project, {}, [FILE], dry_run=False)
    for inputs in ('["corp*/*.jsonl"]', '["."]'):
        plan = plan_document(project, {"RETICENT__CORPUS__INPUTS": inputs}, read=False)
        assert plan["left_out_files"]["forgotten"] == 1


@pytest.mark.slow
def test_a_model_that_is_trained_anew_has_not_read_it(project: Path) -> None:
    forget_document(project, {}, [FILE], dry_run=False)
    assert states(project, forced=("train",))["train"] == {"completed"}
    assert len(ledger_document(project, {})["releases"]) == 2
    assert {s for found in states(project).values() for s in found} == {"cached"}
    assert not forget_document(project, {}, [FILE], dry_run=True)["artifacts"]


@pytest.mark.slow
def test_one_document_of_a_file_is_left_out_of_it_by_its_id(project: Path) -> None:
    roots, corpus = roots_of(project), project.parent / "corpus"
    lines = (corpus / FILE).read_text().splitlines()
    id_ = json.loads(lines[3])["id"]
    strings = only_in(corpus, FILE, slice(3, 4))
    assert places(roots, strings)
    done = forget_document(project, {}, [f"{FILE}:{id_}"], dry_run=False)
    assert (done["num_files"], done["num_documents"]) == (0, 1)
    assert places(roots, strings) == set()
    found = states(project)
    assert found["split"] == {"cached", "completed"}
    assert "train" not in found
    assert places(roots, strings) == set()
    again = forget_document(project, {}, [id_], dry_run=True)
    assert (again["artifacts"], [m["key"] for m in again["models"]]) == ({}, [m["key"] for m in done["models"]])
    rest = [json.loads(line)["id"] for n, line in enumerate(lines) if n != 3]
    tables = [roots.private_files("split", f.name) for f in (roots.private / "objects/split").glob("*")]
    kept = [row["source_id"] for table in tables for row in table.table(DOCUMENTS).rows() if row["source_file"] == FILE]
    assert sorted(kept) == sorted(rest)


def test_reviews_of_it_are_removed_and_those_of_sentences_that_stand_elsewhere_are_not(project: Path) -> None:
    roots = roots_of(project)
    forgotten = only_in(project.parent / "corpus", FILE)
    texts = {row["text"] for row in sentences(roots)}
    own = next(text for text in texts if any(secret in text for secret in forgotten))
    other = next(text for text in texts if "frobnixe" in text)  # of another file
    log = DecisionLog(reviews_path(roots))
    decisions = [
        Decision(id=str(n), at="2026-01-01T00:00:00Z", reviewer="r", key=sentence_key(roots.secret, text))
        for n, text in enumerate((own, other, own))
    ]
    log.append(decisions)
    assert forget_document(project, {}, [FILE], dry_run=False)["num_reviews"] == 2
    assert [d.id for d in read_decisions(reviews_path(roots))] == ["1"]
    log.append([decisions[0]])
    assert len(read_decisions(reviews_path(roots))) == 2


@pytest.mark.parametrize("step", ["remove_tree", "remember_release", "drop_dangling", "_rename_in_runs"])
def test_a_kill_in_the_middle_is_made_good_by_another_call(project: Path, step: str) -> None:
    roots = roots_of(project)
    strings = {*only_in(project.parent / "corpus", FILE), FILE}
    calls = []

    def killed(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 7 or step in ("drop_dangling", "_rename_in_runs"):
            if step == "remove_tree":
                next(path for path in arguments[0].rglob("*") if path.is_file()).unlink()
            raise KeyboardInterrupt
        return whole(*arguments, **options)

    module = publish if step == "remove_tree" else forgetting  # within `publish.remove_artifact`
    whole = getattr(module, step)
    with patching() as patch:
        patch(module, step, killed)
        with pytest.raises(KeyboardInterrupt):
            forget_document(project, {}, [FILE], dry_run=False)
    if step == "remove_tree":  # the artifact on its way out is no damage
        assert [c for c in verify(roots) if c.problem] == []
    assert places(roots, strings)
    done = forget_document(project, {}, [FILE], dry_run=False)
    assert places(roots, strings) == set()
    assert len(done["models"]) == 1
    assert [c for c in verify(roots) if c.problem] == []


@pytest.mark.slow
def test_text_that_a_model_wrote_goes_and_the_model_stays(project: Path) -> None:
    """It may repeat the document; the pieces that the published table is put together from hold the same text."""
    roots, written = roots_of(project), SYNTHESIS
    asked = {"ENABLED": "true", "ROWS": "12", "PARTITION_ROWS": "6", "MAX_NEW_TOKENS": "8", "BASELINE_ROWS": "4"}
    on = {f"RETICENT__SYNTHESIZE__{name}": value for name, value in asked.items()}

    def left() -> list[str]:
        found = (path for root in (roots.private, roots.public) for path in root.glob("objects/synth*/*/*"))
        return sorted({f"{path.parts[-3]}/{path.suffix}" for path in found})

    drive(project, EVERYTHING, **on)
    table = roots.public / "latest" / "synthetic"
    assert table.is_dir()
    assert {place.split("/")[0] for place in left()} == set(written)
    looked = forget_document(project, on, [FILE], dry_run=True)
    assert left()
    done = forget_document(project, on, [FILE], dry_run=False)
    assert done["artifacts"] == looked["artifacts"]
    names = ("synthesize.rows", "synthesize", "synthesize.check")
    assert [done["artifacts"][name] for name in names] == [2, 1, 1]
    assert left() == []
    assert not table.exists()
    text = forget_text(done)
    assert "2 synthesize.rows" in text
    assert "synthetic text that others took" in text
    ((stage, key),) = {(m["stage"], m["key"]) for m in done["models"]}
    assert roots.manifest_path(stage, key).exists()
    assert [c for c in verify(roots) if c.problem] == []

    found = states(project, **on)  # the model that read it writes no more
    assert not found.keys() & {"train", *written}
    again = {outcome.stage: outcome.state for outcome in drive(project, EVERYTHING, ("train",), **on)}
    assert {again[name] for name in ("train", *written)} == {"completed"}
    assert table.is_dir()


@pytest.mark.slow
def test_it_waits_for_no_run_and_knows_what_it_is_asked_for(project: Path) -> None:
    roots = roots_of(project)
    with store_lock(roots.private), pytest.raises(StoreError, match="in use by a run"):
        forget_document(project, {}, [FILE], dry_run=False)
    with pytest.raises(ConfigError, match="no file of the corpus has this name") as refused:
        forget_document(project, {}, ["Hartmann.txt"], dry_run=True)
    assert "Hartmann" not in str(refused.value)
    done = reticent("forget", FILE, "-c", project, "--dry-run", "--json", cwd=project.parent)
    assert json.loads(done.stdout.splitlines()[-1])["artifacts"]["split"] == 1
    assert not (roots.private / "forgotten.json").exists()


def test_a_list_that_was_edited_stops_runs(project: Path) -> None:
    """Otherwise a later run might read again what was forgotten."""
    roots = roots_of(project)
    forget_document(project, {}, [FILE], dry_run=False)
    path = roots.private / "forgotten.json"
    document = read_json(path)
    path.write_text(json.dumps({**document, "files": []}))
    with pytest.raises(StoreError, match="seal does not fit"):
        states(project)
    assert any("forgotten.json" in str(c.key) for c in verify(roots) if c.problem)


def test_a_damaged_ledger_is_told_before_anything_goes(project: Path) -> None:
    """Not after it, as if nothing had gone."""
    roots = roots_of(project)
    (ledger,) = (roots.private / "ledger").glob("*.jsonl")
    ledger.write_bytes(ledger.read_bytes()[:-20] + b"\n")
    before = {path for path in roots.private.rglob("*") if path.is_file()}
    with pytest.raises(LedgerError, match="damaged"):
        forget_document(project, {}, [FILE], dry_run=False)
    assert {path for path in roots.private.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_where_all_files_were_forgotten_that_is_said(project: Path) -> None:
    names = sorted(path.name for path in (project.parent / "corpus").glob("*.jsonl"))
    forget_document(project, {}, names, dry_run=False)
    with pytest.raises(InputError, match="was forgotten"):
        plan_document(project, {}, read=True)
    done = reticent("inspect", "public", "-c", project, cwd=project.parent)
    assert "`reticent run --force train`" in done.stderr
