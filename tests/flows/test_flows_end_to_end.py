"""The whole job through Prefect, as a user runs it; then changes, and what reruns.

A run of its own process, on the embedded server, is a long test: another user of the machine tries what the server lets
him do in the meantime.
"""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
from attackers import as_another_user, lacking, need_another_user
from support import REPOSITORY, run_command
from support.project import completed, prefect_home, reticent, small_project, without_prefect
from support.shared_server import run_json, server_files
from support.waiting import wait_for

import reticent as library

ATTACK = """
found = {}
api = sys.argv[1]
found["read"] = ask("GET", api + "/admin/settings")[0]
found["runs"] = ask("POST", api + "/flow_runs/filter", {})[0]
found["write"] = ask("POST", api + "/flows/", {"name": "planted"})[0]
found["health"] = ask("GET", api + "/health")[0]
def allowed(path):
    try:
        return len(open(path, "rb").read()) > 0
    except OSError:
        return False
found["environ"] = [p for p in sys.argv[3:] if allowed(f"/proc/{p}/environ")]
found["database"] = allowed(sys.argv[2])
found["commands"] = "".join(open(f"/proc/{p}/cmdline").read() for p in sys.argv[3:])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def attacked() -> Iterator[dict[str, Any]]:
    """A project that has run once, on the embedded server, and what another user got from that in the meantime."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)  # pytest's own folders are closed to others
    config = small_project(folder)
    home = prefect_home(folder / ".prefect")
    home.chmod(0o755)
    (home / "prefect.db").chmod(0o644)
    can_attack = lacking() is None
    if can_attack:
        assert as_another_user("print(json.dumps(open(sys.argv[1], 'rb').read(6).decode()))", str(home / "prefect.db"))
    run = subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "run", str(config), "--json"],
        cwd=folder,
        env=without_prefect(PREFECT_HOME=str(home)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    found: dict[str, Any] = {}
    try:
        if can_attack:
            found = _attack(run, home)
        output, errors = run.communicate(timeout=300)
    finally:
        with contextlib.suppress(ProcessLookupError):
            run.kill()
    assert run.returncode == 0, errors
    yield {**found, "config": config, "output": output, "errors": errors, "home": home}
    shutil.rmtree(folder)


def _attack(run: subprocess.Popen[str], home: Path) -> dict[str, Any]:
    """While the run is stopped."""
    database = str(home / "prefect.db")
    server, port = wait_for("the embedded server", lambda: _server_of(run), 120, process=run)
    run.send_signal(signal.SIGSTOP)  # so that the server lives until all was tried
    found = as_another_user(ATTACK, f"http://127.0.0.1:{port}/api", database, str(server.pid), str(run.pid))
    password = server.environ().get("PREFECT_SERVER_API_AUTH_STRING", "").removeprefix("reticent:")
    run.send_signal(signal.SIGCONT)
    return {**found, "password": password, "mode": home.stat().st_mode & 0o777}


def _server_of(run: subprocess.Popen[str]) -> tuple[psutil.Process, int] | None:
    for child in psutil.Process(run.pid).children():
        with contextlib.suppress(psutil.Error):
            if ports := [c.laddr.port for c in child.net_connections("tcp") if c.status == psutil.CONN_LISTEN]:
                return child, ports[0]
    return None


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings of the project that `first` has run."""
    return small_project(tmp_path_factory.mktemp("end-to-end"))


@pytest.fixture(scope="module")
def first(project: Path) -> dict[str, Any]:
    """What the project's run printed."""
    return run_json(project)


def _planned(config: Path, **environment: str) -> dict[str, set[str]]:
    done = reticent("plan", config, "--json", cwd=config.parent, **environment)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["stages"]
    return {
        a: {(r["step"] and f"{r['stage']}.{r['step']}") or r["stage"] for r in rows if r["action"] == a}
        for a in ("hit", "run", "maybe")
    }


@pytest.mark.slow
def test_a_run_on_the_embedded_server_says_the_same(attacked: dict[str, Any], first: dict[str, Any]) -> None:
    document = json.loads(attacked["output"].splitlines()[-1])
    assert {row["state"] for row in document["stages"]} == {"completed"}
    assert completed(document) == completed(first)
    assert (document["outputs"].keys(), document["metrics"].keys()) == (
        first["outputs"].keys(),
        first["metrics"].keys(),
    )
    _no_secret_in(attacked["config"], document, attacked["home"] / "prefect.db")


def test_document_of_a_run(first: dict[str, Any]) -> None:
    assert {"schema_version", "run_id", "stages", "outputs", "metrics"} <= first.keys()
    assert {row["state"] for row in first["stages"]} == {"completed"}
    assert all({"stage", "partition", "state", "seconds", "key"} <= row.keys() for row in first["stages"])
    stages = {row["stage"] for row in first["stages"]}
    assert stages == {"split", "dedup", "redact", "sample", "estimate", "gate", "shard", "train", "guarantee", "report"}
    assert {"public", "private", "sentences", "model", "report"} <= first["outputs"].keys()
    metrics = first["metrics"]
    for name in ("perplexity", "coverage", "duplicates", "miss_rate", "false_negative_rate_upper", "epsilon", "delta"):
        assert isinstance(metrics[name], int | float), name
    assert metrics["perplexity"] < metrics["perplexity_at_initialisation"]


def test_outputs_open_in_polars_and_transformers(first: dict[str, Any]) -> None:
    outputs = first["outputs"]
    public = pl.read_parquet(f"{outputs['public']}/*.parquet")
    private = pl.read_parquet(f"{outputs['private']}/*.parquet")
    redacted = pl.read_parquet(f"{outputs['redacted']}/*.parquet")
    sentences = pl.read_parquet(f"{outputs['sentences']}/*.parquet")
    assert redacted.height == sentences.height
    assert public.height + private.height == redacted.filter(pl.col("fold") == "train").height
    assert public.height > 0
    assert not public["redacted_text"].str.contains("<MASK>", literal=True).any()
    joined = redacted.join(sentences, on=["doc_id", "sentence_index"], how="inner")
    assert joined.height == redacted.height
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(outputs["model"])
    model = AutoModelForCausalLM.from_pretrained(outputs["model"])
    out = model(**tokenizer("Hello, how can I help?", return_tensors="pt"))
    assert out.logits.shape[-1] == model.config.vocab_size
    assert "<html" in Path(outputs["report"]).read_text()


def test_the_full_report_names_its_run_and_shows_five_rows_that_are_open(first: dict[str, Any]) -> None:
    page = Path(first["outputs"]["report"])
    _, _, examples = page.read_text().partition('<ul class="examples">')
    shown = [html.unescape(text) for text in re.findall("<li>([^<]*)</li>", examples.partition("</ul>")[0])]
    rows = pl.read_parquet(f"{first['outputs']['public']}/*.parquet")["redacted_text"].to_list()
    assert len(shown) == 5
    assert set(shown) <= set(rows)
    assert first["run_id"] in page.read_text()
    public = Path(first["outputs"]["public_report"]).parent
    told = [path for path in public.iterdir() if any(text in path.read_text() for text in (*shown, first["run_id"]))]
    assert told == []
    assert library.open_run(page.parents[4]).report == page


def test_second_run_is_all_cached_and_loads_no_heavy_library(project: Path) -> None:
    code = (
        "import sys, json, atexit\n"
        "heavy = ('torch', 'spacy', 'transformers', 'prefect')\n"
        "atexit.register(lambda: print(json.dumps([m for m in heavy if m in sys.modules])))\n"
        f"sys.argv = ['reticent', 'run', {str(project)!r}, '--json']\n"
        "from flows.cli import main\nmain()\n"
    )
    done = run_command(
        [sys.executable, "-c", code],
        cwd=project.parent,
        env={**os.environ, "PREFECT_HOME": str(project.parent / ".prefect")},
    )
    assert done.returncode == 0, done.stderr
    document, modules = (json.loads(line) for line in done.stdout.splitlines()[-2:])
    assert {row["state"] for row in document["stages"]} == {"cached"}
    assert modules == []


def test_plan_of_each_change_by_hand(project: Path) -> None:
    assert _planned(project)["hit"] >= {"split", "train", "report"}
    epochs = _planned(project, RETICENT__TRAIN__EPOCHS="2")
    assert epochs["run"] == {"train"}
    assert epochs["maybe"] == {"train.evaluate", "train.utility", "guarantee", "report"}
    redact = _planned(project, RETICENT__REDACT__POLICIES='["digits"]')
    assert redact["run"] == {"redact"}
    after = {
        "estimate.stability",
        "estimate",
        "gate.strings",
        "gate.search",
        "shard",
        "shard.publish",
        "train",
        "train.evaluate",
        "train.utility",
        "guarantee",
        "report",
    }
    assert redact["maybe"] == after
    assert _planned(project, RETICENT__RUNTIME__WORKERS="2")["hit"] >= {"split", "train", "report"}
    text = project.read_text()
    project.write_text(text + "\n# a comment\n")
    assert not _planned(project)["run"]
    project.write_text(text)


@pytest.mark.slow
def test_a_helper_of_redact_alone_reruns_redact_and_a_comment_nothing(project: Path, tmp_path: Path) -> None:
    """On a copy of the code, which is edited."""
    for name in ("reticent", "flows", "tasks", "pipelines"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    helper = tmp_path / "pipelines/policies/detectors/customersim.py"
    source = helper.read_text()

    def plan() -> dict[str, list[str]]:
        done = run_command(
            [sys.executable, "-m", "flows.cli", "plan", str(project), "--json"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
            check=True,
        )
        rows = json.loads(done.stdout)["stages"]
        return {r["stage"]: r["reasons"] for r in rows if r["action"] == "run"}

    assert plan() == {}
    helper.write_text(source + "\n# a comment\n")
    assert plan() == {}
    helper.write_text(source + "\nANOTHER_NAME = 1\n")
    assert plan() == {"redact": ["code: pipelines/policies/detectors/customersim.py"]}
    helper.write_text(source)
    other = tmp_path / "pipelines/policies/detectors/presidio.py"  # a policy that the settings do not select
    other.write_text(other.read_text() + "\nANOTHER_NAME = 1\n")
    assert plan() == {}


@pytest.mark.slow  # what reruns is tested stage by stage in test_flows_increment.py
def test_new_file_reruns_its_partition_and_what_reads_everything(project: Path) -> None:
    from pipelines.corpus.customersim import simulate

    before = _planned(project)
    assert not before["run"]
    row = next(iter(simulate(1, 99)))
    extra = project.parent / "corpus" / "zz-new.jsonl"
    extra.write_text(json.dumps(row) + "\n")
    try:
        rows = json.loads(reticent("plan", project, "--json", cwd=project.parent).stdout)["stages"]
        assert sum(r["stage"] == "split" and r["action"] == "run" for r in rows) == 1
        assert "1 new file" in " ".join(r for row in rows for r in row["reasons"])
        document = run_json(project)
        built = completed(document)
        assert built["split"] == built["dedup.keys"] == built["redact"] == built["shard"] == 1
        assert built["train"] == built["report"] == 1
    finally:
        extra.unlink()
    reverted = run_json(project)
    # The model of the longer corpus was released as well: claims, and what shows them, are of both.
    assert set(completed(reverted)) == {"guarantee", "report"}


def test_same_size_edit_with_restored_mtime_is_noticed(project: Path) -> None:
    path = sorted((project.parent / "corpus").glob("*.jsonl"))[0]
    data, status = path.read_bytes(), path.stat()
    path.write_bytes(data.replace(b"Hello", b"Hullo", 1))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    try:
        assert path.stat().st_size == status.st_size
        assert path.stat().st_mtime_ns == status.st_mtime_ns
        assert "split" in _planned(project)["run"]
    finally:
        path.write_bytes(data)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_no_secret_reaches_prefect_or_the_public_root(project: Path, first: dict[str, Any]) -> None:
    _no_secret_in(project, first, server_files() / "prefect.db")


def _no_secret_in(project: Path, document: dict[str, Any], database: Path) -> None:
    gold = [
        (row["text"][s["start"] : s["end"]])
        for path in (project.parent / "corpus").glob("*.jsonl")
        for row in map(json.loads, path.read_text().splitlines())
        for s in row["spans"]
    ]
    secrets = {value.encode() for value in gold if len(value) > 6}
    assert len(secrets) > 50
    with sqlite3.connect(database) as connection:
        dump = "\n".join(connection.iterdump()).encode()
    assert b"nightly" in dump  # the right database
    public = Path(document["outputs"]["public"]).parents[1]
    files = {str(p): p.read_bytes() for p in public.rglob("*") if p.is_file()}
    tables = [pl.read_parquet(p).write_ndjson().encode() for p in files if p.endswith(".parquet")]
    for secret in secrets:
        assert secret not in dump
        assert not any(secret in data for data in (*files.values(), *tables))


@pytest.mark.slow
def test_another_user_cannot_call_the_embedded_server(attacked: dict[str, Any]) -> None:
    """Guards: Prefect's own has no password, so any user reads figures and settings and plants runs and states."""
    need_another_user()
    assert attacked["health"] == 200  # it was there
    refused = {401, 403}
    assert {attacked["read"], attacked["runs"], attacked["write"]} <= refused


@pytest.mark.slow
def test_another_user_reads_neither_password_nor_database(attacked: dict[str, Any]) -> None:
    """Guards: the password is in environments only, and SQLite's files are readable by all in a folder that is."""
    need_another_user()
    assert attacked["environ"] == []
    assert attacked["database"] is False
    assert attacked["mode"] == 0o700


@pytest.mark.slow
def test_the_embedded_servers_password_is_in_no_command_output_or_database(attacked: dict[str, Any]) -> None:
    need_another_user()
    password = attacked["password"]
    assert len(password) >= 40
    assert password not in attacked["commands"]
    assert password not in attacked["output"] + attacked["errors"]
    files = [path for path in attacked["home"].rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if password.encode() in path.read_bytes()]


def test_failed_stage_tells_nothing_and_exits_5(project: Path, tmp_path: Path) -> None:
    plug_in = tmp_path / "reticent.toml"
    plug_in.write_text(
        project.read_text().replace('inputs = ["corpus"]', f'inputs = ["{project.parent / "corpus"}"]')
        + "learning = 1\n"
    )
    done = reticent("run", plug_in, cwd=tmp_path)
    assert done.returncode == 2
    assert "unknown key train.learning" in done.stderr


@pytest.mark.slow
def test_status_inspect_verify_gc_report(project: Path) -> None:
    folder = project.parent
    status = reticent("status", project, "--json", cwd=folder)
    assert json.loads(status.stdout)["last_run"]["state"] == "completed"
    for name in ("split", "dedup", "redact", "sample", "shard", "rejected"):
        shown = reticent("inspect", name, "--config", project, "--json", cwd=folder)
        assert shown.returncode == 0, shown.stderr
        for table in json.loads(shown.stdout)["tables"]:
            frame = eval(table["polars"], {"pl": pl}).collect()  # the printed line works as it stands
            assert frame.height == table["num_rows"]
    sentences = reticent("inspect", "sentences", "--config", project, cwd=folder).stdout
    assert "characters)" in sentences
    assert "Hello" not in sentences
    assert "Hello" in reticent("inspect", "sentences", "--config", project, "--show-text", cwd=folder).stdout
    assert reticent("verify", project, cwd=folder).returncode == 0
    assert reticent("report", project, cwd=folder).returncode == 0
    assert reticent("gc", project, "--keep-runs", "1", cwd=folder).returncode == 0
    assert not _planned(project)["run"]
    victim = sorted((folder / "reticent-store/private/objects/redact").rglob("redacted.parquet"))[0]
    victim.write_bytes(victim.read_bytes()[:-1])
    assert reticent("verify", project, cwd=folder).returncode == 5
    assert reticent("verify", project, "--repair", cwd=folder).returncode == 0
    assert "redact" in _planned(project)["run"]
