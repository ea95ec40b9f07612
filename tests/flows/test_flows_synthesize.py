"""``reticent synthesize`` on a finished project: killed and gone on with, no planted secret, nothing private."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from increment import drive
from looked_at import finished_run
from support import REPOSITORY
from support.copies import copied
from support.project import reticent
from support.shared_server import shared_server
from support.waiting import wait_for

from flows.commands.ledger import ledger_document
from flows.running.spec import SYNTHESIS
from pipelines.graph import GRAPH

pytestmark = pytest.mark.slow  # trains a model; CI runs it
SETTINGS = {
    "RETICENT__SYNTHESIZE__PARTITION_ROWS": "50",
    "RETICENT__SYNTHESIZE__MAX_NEW_TOKENS": "16",
    "RETICENT__SYNTHESIZE__BATCH_SIZE": "8",
    "RETICENT__SYNTHESIZE__DOWNSTREAM_STEPS": "5",
}
CONTRACT = {"schema_version", "num_rows", "path", "epsilon", "delta", "replayed"}
USUAL = tuple(name for name, stage in GRAPH.items() if not stage.optional)


def project(folder):
    config = copied(finished_run().parent, folder / "project") / "reticent.toml"
    drive(config, USUAL)  # the copy is a store of its own
    return config


def synthesized(config, *arguments, **settings):
    environment = {**SETTINGS, **settings, **shared_server()}
    done = reticent("synthesize", config, *arguments, "--json", cwd=config.parent, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


DRIVES = """
import sys
from pathlib import Path
from increment import drive
drive(Path(sys.argv[1]), tuple(sys.argv[2:]))
"""


def test_killed_and_gone_on_with_by_other_workers_it_is_the_same_table(tmp_path):
    config = project(tmp_path / "one")
    told = {**SETTINGS, "RETICENT__SYNTHESIZE__ENABLED": "true", "RETICENT__SYNTHESIZE__ROWS": "300"}
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVES, str(config), *USUAL, *SYNTHESIS],
        cwd=config.parent,
        env={**os.environ, **told, "PYTHONPATH": os.pathsep.join(map(str, (REPOSITORY, REPOSITORY / "benchmarks")))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    manifests = config.parent / "reticent-store/private/manifests/synthesize_rows"
    wait_for("two pieces", lambda: len(list(manifests.glob("*.json"))) >= 2, 240, process=process, pause=0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(list(manifests.glob("*.json"))) < 6, "all was written before the kill"

    states, made = driven(config, RETICENT__RUNTIME__WORKERS="2", **told)
    assert 0 < states.count("cached") < 6
    assert len(list(manifests.glob("*.json"))) == 6
    table = pl.read_parquet(config.parent / "reticent-store/public/latest/synthetic/*.parquet")
    assert table.height == 300
    states, anew = driven(config, forced=("synthesize_rows", "synthesize"), **told)
    assert states == ["completed"] * 6
    assert anew == made


def driven(config, **how):
    """What became of the pieces, and the digest of the table."""
    outcomes = drive(config, (*USUAL, *SYNTHESIS), **how)
    (table,) = (config.parent / "reticent-store/public/latest/synthetic").iterdir()
    return [outcome.state for outcome in outcomes if outcome.stage == "synthesize_rows"], digest(table)


def test_no_planted_secret_is_written_and_nothing_private_is_public(tmp_path):
    config = project(tmp_path)
    before = ledger_document(config, {})["releases"]
    found = synthesized(config, "--rows", "300")
    assert found["is_guarantee"]
    assert found["replayed"] == 0
    assert 0 <= found["gate_hits"] < 15  # a short name comes out of noise by chance
    assert found["epsilon"] > 0
    assert ledger_document(config, {})["releases"] == before, "to compute from a release is no release"
    table = pl.read_parquet(found["path"])
    rows = [
        json.loads(line) for path in (config.parent / "corpus").iterdir() for line in path.read_text().splitlines()[:15]
    ]
    secrets = {row["text"][span["start"] : span["end"]] for row in rows for span in row["spans"]}
    secrets = {secret for secret in secrets if len(secret) >= 6}
    assert len(secrets) > 50
    everything = "\n".join(table["text"]).lower()
    assert not [secret for secret in secrets if secret.lower() in everything]
    document = (Path(found["path"]).with_name("synthetic.json")).read_text().lower()
    assert not [secret for secret in secrets if secret.lower() in document]
    sentences = pl.read_parquet(config.parent / "reticent-store/private/latest/sentences/*.parquet")
    assert not [one for one in sentences["doc_id"].unique() if one in document]
    assert table.columns == ["record", "turn", "domain", "speaker", "text", "num_tokens"]
    assert (config.parent / "reticent-store/public/latest/synthetic/part-00000.parquet").exists()
