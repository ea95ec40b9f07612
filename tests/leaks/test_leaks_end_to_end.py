"""Planted secrets through the whole job: found ones stay in the private root, missed ones in public redacted text.

One small corpus of our own, not the simulator's: the secrets must be found, missed, and half missed on purpose.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from support import patches
from support.project import SMALL_MODEL, reticent
from support.shared_server import server_files, shared_server

FOUND = "Zebulon Quackenbush"
HALF_FOUND = "Thaddeus Wigglesworth"
MISSED = "oxalis ferntree"
SECRETS = {"found": FOUND, "half found": HALF_FOUND, "missed": MISSED, "number": "843-58572-7002"}

PLUG_INS = f'''
"""Policies for tests."""
import logging
import warnings

{patches.SOURCE}
from pipelines.policies.judging.tables import RedactionFigures


class FlagsNothing:
    needs = frozenset()

    def __init__(self, options):
        pass

    def find(self, sentence):
        return []


class Crashes(FlagsNothing):
    """Makes the stage itself fail with the text in its mouth, and says it to everybody on the way."""

    def find(self, sentence):
        logging.getLogger("some.library").error("cannot read %s", sentence.text)
        warnings.warn(sentence.text, stacklevel=1)

        def fail(figures, out, verdict, text=sentence.text):
            raise ValueError(text, out)

        patch_for_process(RedactionFigures, "add", fail, mark=__file__ + ".raised")
        return []


class CrashesTheFlow(FlagsNothing):
    """Makes the flow fail with all text in its mouth, after the stage."""

    texts = []

    def find(self, sentence):
        from flows.running import wiring

        self.texts.append(sentence.text)

        def fail(stage, outcomes):
            raise ValueError(self.texts)

        patch_for_process(wiring, "outcomes_to_record", fail, mark=__file__ + ".flow")
        return []
'''

SETTINGS = """
[corpus]
inputs = ["corpus"]
[split]
valid_fraction = 0.0
test_fraction = 0.0
[redact]
policies = ["customersim"]
conservative = "plug_ins:FlagsNothing"
"""

EVERYTHING_LOGGED = {
    "PREFECT_LOGGING_LEVEL": "DEBUG",
    "PREFECT_SERVER_LOGGING_LEVEL": "DEBUG",
    "PREFECT_LOGGING_TO_API_ENABLED": "true",
    "PYTHONWARNINGS": "always",
}
COLOURS = ("red", "blue", "green", "white", "black", "brown", "grey", "pink")
THINGS = ("cup", "table", "chair", "lamp", "spoon")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty harmless sentences, and six that are not."""
    folder = tmp_path_factory.mktemp("leaks")
    corpus = folder / "corpus"
    corpus.mkdir()
    texts = [f"i would like to have the {colour} {thing} , please ." for colour in COLOURS for thing in THINGS]
    texts += [
        f"My name is {FOUND}.",
        f"Hello, this is {HALF_FOUND}.",
        f"please remind {HALF_FOUND.lower()} of the lamp .",  # in lower case no policy sees it
        f"please remind {MISSED} of the chair .",
        f"My order number is {SECRETS['number']}.",
    ]
    # File names and ids are secrets as well.
    (corpus / "zebulon quackenbush.jsonl").write_text(
        "\n".join(json.dumps({"id": f"{FOUND} {i}", "text": text}) for i, text in enumerate(texts)) + "\n"
    )
    (folder / "plug_ins.py").write_text(PLUG_INS)
    (folder / "reticent.toml").write_text(f"{SETTINGS}{SMALL_MODEL}expected_batch_size = 16\n")
    return folder


Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def logged() -> dict[str, str]:
    """A server that logs everything, as the runs do."""
    return EVERYTHING_LOGGED | shared_server()


@pytest.fixture(scope="module")
def crashed(project: Path, logged: dict[str, str]) -> Done:
    """A run whose redact stage raises an exception that quotes the text."""
    policies = '["customersim", "plug_ins:Crashes"]'
    config = project / "reticent.toml"
    done = reticent("run", config, "--json", cwd=project, **logged, RETICENT__REDACT__POLICIES=policies)
    assert (project / "plug_ins.py.raised").exists()
    return done


@pytest.fixture(scope="module")
def flow_crashed(project: Path, logged: dict[str, str], crashed: Done) -> Done:
    """A run whose flow raises an exception that quotes the text."""
    settings = {
        "RETICENT__REDACT__POLICIES": '["customersim", "plug_ins:CrashesTheFlow"]',
        "RETICENT__RUNTIME__WORKERS": "1",
    }
    done = reticent("run", project / "reticent.toml", cwd=project, **logged, **settings)
    assert (project / "plug_ins.py.flow").exists()
    return done


@pytest.fixture(scope="module")
def refused(project: Path, logged: dict[str, str], flow_crashed: Done) -> tuple[Done, list[Path]]:
    """A run with a name that is masked in one sentence and missed in another; and what its public root then held."""
    config = project / "reticent.toml"
    done = reticent("run", config, "--json", cwd=project, **logged, RETICENT__GATE__ON_HIT="stop")
    return done, [path for path in (project / "reticent-store/public").rglob("*") if not path.is_dir()]


@pytest.fixture(scope="module")
def finished(project: Path, logged: dict[str, str], refused: tuple[Done, list[Path]]) -> Done:
    """The same where such a sentence is held. A pattern, which finds nothing here, is a secret as well."""
    settings = {
        "RETICENT__GATE__MAX_HELD_FRACTION": "0.03",
        "RETICENT__REDACT__POLICIES": '["customersim", "regex"]',
        "RETICENT__REDACT__PATTERNS": f'{{NAME = "{HALF_FOUND.lower()} junior"}}',
    }
    return reticent("run", project / "reticent.toml", "--json", cwd=project, **logged, **settings)


def _forms(secret: str) -> list[bytes]:
    spaced = secret.replace(" ", "_"), secret.replace(" ", "-"), secret.replace(" ", "")
    return [form.lower().encode() for form in (secret, *spaced)]


def _holds(data: bytes, secret: str) -> bool:
    return any(form in data.lower() for form in _forms(secret))


def _prefect(project: Path) -> Iterator[tuple[str, bytes]]:
    """Everything in Prefect's homes: files, and the database as statements (parameters, results, logs, artifacts)."""
    homes = project / ".prefect", server_files()
    for path in (path for home in homes for path in home.rglob("*")):
        if path.is_file():
            yield str(path), path.read_bytes()
    assert "POST /api/flow_runs/" in (server_files() / "server.log").read_text()
    with sqlite3.connect(server_files() / "prefect.db") as connection:
        statements = "\n".join(connection.iterdump())
    assert "nightly" in statements  # the right database
    assert 'INSERT INTO "log"' in statements  # with its logs
    yield "database", statements.encode()


def _public(project: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of the public root, with its name; tables without their column redacted_text."""
    for path in (project / "reticent-store/public").rglob("*"):
        if path.is_symlink() or path.is_dir():
            yield str(path), os.fsencode(os.path.realpath(path)).removeprefix(os.fsencode(project))
        elif path.suffix == ".parquet":
            frame = pl.read_parquet(path).drop("redacted_text")
            yield str(path), path.name.encode() + frame.write_ndjson().encode() + str(pq.read_metadata(path)).encode()
        else:
            yield str(path), path.name.encode() + path.read_bytes()


def test_a_seeded_leak_trips_the_gate_and_nothing_is_public(project: Path, refused: tuple[Done, list[Path]]) -> None:
    done, public = refused
    assert done.returncode == 4, done.stderr
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["error"]["type"] == "PrivacyGateError"
    assert "NAME 1" in document["error"]["message"]
    assert public == []
    hits = next((project / "reticent-store/private/failures").rglob("hits.parquet"))
    assert str(hits) in document["error"]["message"]
    assert hits.stat().st_mode & 0o077 == 0
    found = pl.read_parquet(hits)
    assert found["text"].to_list() == [f"please remind {HALF_FOUND.lower()} of the lamp ."]
    assert found["string"].to_list() == [HALF_FOUND.lower()]


def test_a_crash_with_the_text_in_its_exception_tells_only_its_kind(project: Path, crashed: Done) -> None:
    assert crashed.returncode == 5, crashed.stderr
    assert "ValueError" in crashed.stdout
    kept = [p for p in (project / "reticent-store/private/failures").glob("redact-*") if p.is_file()]
    assert len(kept) == 1
    assert "ValueError" in kept[0].read_text()
    assert kept[0].stat().st_mode & 0o077 == 0


def test_found_secrets_are_nowhere_outside_the_private_root(project: Path, finished: Done) -> None:
    assert finished.returncode == 0, finished.stderr
    public = list(_public(project))
    assert any("safetensors" in name for name, _ in public)
    texts = pl.read_parquet(project / "reticent-store/public/latest/public/*.parquet")["redacted_text"]
    assert texts.len() == 41  # the harmless ones, and one with the missed secret
    for kind, secret in SECRETS.items():
        if secret != MISSED:
            assert not any(_holds(text.encode(), secret) for text in texts), kind
            assert [name for name, data in public if _holds(data, secret)] == [], kind


@pytest.mark.slow
def test_a_held_sentence_is_shown_to_the_trusted_side_only(project: Path, finished: Done) -> None:
    document = json.loads(finished.stdout.splitlines()[-1])
    assert document["metrics"]["num_held"] == 1
    config = project / "reticent.toml"
    assert "1 rows are held back" in reticent("report", config, cwd=project).stdout
    assert "held rows          1," in reticent("status", config, cwd=project).stdout
    shown = reticent("inspect", "gate", "--config", config, "--show-text", "--json", cwd=project).stdout
    (table,) = json.loads(shown)["tables"]
    (row,) = table["sample"]
    assert table["num_rows_by_label"] == {"NAME": 1}
    report = project / "reticent-store/private/latest/report"
    assert json.loads((report / "report.json").read_text())["shards"]["num_held_by_label"] == {"NAME": 1}
    assert "masked as NAME" in (report / "report.html").read_text()
    assert (row["string"], row["text"]) == (HALF_FOUND.lower(), f"please remind {HALF_FOUND.lower()} of the lamp .")
    redacted = pl.read_parquet(project / "reticent-store/private/latest/redacted/*.parquet")
    masked = redacted.filter(doc_id=row["masked_doc_id"], sentence_index=row["masked_sentence_index"])
    assert masked["redacted_text"].to_list() == ["Hello, this is <MASK>."]
    private = pl.read_parquet(project / "reticent-store/private/latest/private/*.parquet")
    assert "please remind <MASK> of the lamp ." in private["redacted_text"].to_list()
    told = reticent("inspect", "gate", "--config", config, cwd=project).stdout
    assert "by label of the masked strings in them: NAME 1" in told
    assert HALF_FOUND.lower() not in told
    assert not [name for name, data in _public(project) if b"by_label" in data and b"held" in data]


def test_missed_secrets_are_only_in_public_redacted_text(project: Path, finished: Done) -> None:
    texts = pl.read_parquet(project / "reticent-store/public/latest/public/*.parquet")["redacted_text"]
    assert sum(_holds(text.encode(), MISSED) for text in texts) == 1  # the test would else show nothing
    assert [name for name, data in _public(project) if _holds(data, MISSED)] == []


def test_no_secret_reaches_prefect_or_the_terminal_in_any_of_the_four_runs(
    project: Path, crashed: Done, flow_crashed: Done, refused: tuple[Done, list[Path]], finished: Done
) -> None:
    for kind, secret in SECRETS.items():
        assert [name for name, data in _prefect(project) if _holds(data, secret)] == [], kind
        for done in (crashed, flow_crashed, refused[0], finished):
            assert not _holds((done.stdout + done.stderr).encode(), secret), kind


def test_a_failure_has_one_message_and_a_refusal_one_sentence_in_prefect(
    project: Path, flow_crashed: Done, finished: Done
) -> None:
    """States, logs and artifacts, which the test before searches for secrets, say what they are to say."""
    assert flow_crashed.returncode == 5
    assert flow_crashed.stderr.splitlines()[-1].startswith("reticent: unexpected ValueError at ")
    with sqlite3.connect(server_files() / "prefect.db") as connection:
        names = ", ".join(f"'nightly {run.name}'" for run in (project / "reticent-store/private/runs").iterdir())
        ours = f"SELECT id FROM flow_run WHERE name IN ({names}) ORDER BY start_time DESC LIMIT 4"
        states = connection.execute(
            "SELECT s.name, s.message FROM flow_run r JOIN flow_run_state s "
            f"ON s.id = r.state_id WHERE r.id IN ({ours}) ORDER BY r.start_time"
        ).fetchall()
        logs = [text for (text,) in connection.execute(f"SELECT message FROM log WHERE flow_run_id IN ({ours})")]
        kinds = f"SELECT key, data FROM artifact WHERE flow_run_id IN ({ours}) ORDER BY created"
        artifacts = connection.execute(kinds).fetchall()
    assert [name for name, _ in states] == ["Failed", "Failed", "Refused", "Completed"]
    stage, flow, gate = (message for _, message in states[:3])
    assert stage.startswith("stage redact of partition ")
    assert flow.startswith("unexpected ValueError at plug_ins.py:")
    assert gate.endswith(".")
    assert ". " not in gate
    assert not [text for text in logs if "Traceback" in text]
    assert any("sentences in" in text for text in logs)  # the key figure of a stage
    texts = [data for key, data in artifacts if key == "reticent-summary"]
    assert [key for key, _ in artifacts][-1] == "reticent-summary"
    assert [
        word in text for word, text in zip((": failed", ": failed", ": refused", ": completed"), texts, strict=True)
    ] == [True] * 4
    assert "up to date" not in texts[2]
    for said in ("epsilon in the ledger before this run | 0 |", "budget left", "latest/report/report.html"):
        assert said in texts[3]


def test_no_file_name_anywhere_in_the_store_holds_a_secret(project: Path, finished: Done) -> None:
    for path in (project / "reticent-store").rglob("*"):
        assert not any(_holds(os.fsencode(path), secret) for secret in SECRETS.values())


def test_everything_below_the_private_root_is_closed_to_others(project: Path, finished: Done) -> None:
    private = project / "reticent-store/private"
    assert private.stat().st_mode & 0o777 == 0o700
    open_files = [
        path for path in private.rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o077
    ]
    assert open_files == []


def test_a_private_root_that_others_can_read_is_closed_or_refused(project: Path, finished: Done) -> None:
    private = project / "reticent-store/private"
    private.chmod(0o755)
    done = reticent("status", project / "reticent.toml", cwd=project)
    assert done.returncode == 0
    assert private.stat().st_mode & 0o777 == 0o700  # our own: closed again
    if os.geteuid() == 0:
        private.chmod(0o750)
        os.chown(private, 12_345, 12_345)
        try:
            refused = reticent("run", project / "reticent.toml", cwd=project)
            assert refused.returncode == 4
            assert "belongs to another user" in refused.stderr
        finally:
            os.chown(private, 0, 0)
            private.chmod(0o700)
