"""Nights in an encrypted store: surrogates and back, imported reviews, another key, a night that does not train."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from increment import built, drive, write_project

import reticent
from flows.commands import review
from flows.commands.restore import restored_lines
from flows.commands.rotate_key import rotate_document
from flows.running.spec import EVERYTHING, open_store
from pipelines.encryption import places
from pipelines.encryption.sealed import MAGIC
from pipelines.errors import ConfigError
from pipelines.settings.loading import load_settings
from pipelines.store.objects import runs, session
from pipelines.store.place import unlocking
from pipelines.store.place.roots import Roots

pytestmark = pytest.mark.slow

MORE = """
[train]
num_layers = 1
num_heads = 2
embedding_size = 16
context_length = 48
vocab_size = 400
epochs = 1
expected_batch_size = 32
target_epsilon = 2.0
when = {nights = 7}
"""


def leave() -> None:
    """As if the process had ended."""
    places._places.clear()
    unlocking._opened.clear()
    session.read_session.cache_clear()


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One night, with a training, whose redaction writes surrogates."""
    folder = tmp_path_factory.mktemp("nights")
    for name, key in (("old", "ab"), ("new", "cd")):
        (folder / name).write_text(key * 32)
    path = write_project(folder / "p", 1, 8)
    text = path.read_text().replace("[store]", f"[store]\nkey_file = '{folder / 'old'}'")
    path.write_text(text.replace("[redact]", "[redact]\nreplacement = 'surrogate'") + MORE)
    leave()
    drive(path, EVERYTHING)
    return path


def test_surrogates_of_a_run_are_turned_back(config: Path, tmp_path: Path) -> None:
    run = reticent.open(config)
    rows = run.table("redacted").collect().to_dicts()
    texts = {(r["doc_id"], r["sentence_index"]): r["text"] for r in run.table("sentences").collect().to_dicts()}
    lines = tmp_path / "lines.jsonl"
    names = ("doc_id", "sentence_index", "redacted_text")
    kept = [{name: row[name] for name in names} for row in rows if not row["is_duplicate"]]
    lines.write_text("".join(json.dumps(row) + "\n" for row in kept))
    restored = [json.loads(line) for line in restored_lines(str(lines), config, {})]
    assert any(texts[row["doc_id"], row["sentence_index"]] != row["redacted_text"] for row in kept)
    assert [row["text"] for row in restored] == [texts[row["id"], row["sentence_index"]] for row in restored]


def test_imported_reviews_are_kept_sealed_and_once(config: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    review.export_document(config, {}, sheet, None, asked="sample")
    rows = list(csv.DictReader(sheet.read_text("utf-8").splitlines()))
    for row in rows:
        row["kind"] = "judge" if row["kind"] == "todo" and not row["what"] else row["kind"]
    with sheet.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    first, again = (review.import_document(config, {}, sheet, None, "Adastra", asked="sample") for _ in range(2))
    assert first["num_reviews"] == again["num_known_already"] > 10
    assert again["num_reviews"] == 0
    private = config.parent / "reticent-store" / "private"
    logs = [path for path in private.rglob("decisions.jsonl") if path.read_bytes().startswith(MAGIC)]
    assert logs
    assert not [p for p in private.rglob("*") if p.is_file() and b"Adastra" in p.read_bytes()]


def test_a_night_under_a_new_key_builds_nothing_and_one_that_waits_leaves_the_model(config: Path) -> None:
    new = config.parent.parent / "new"
    assert rotate_document(config, {}, file=new, env=None, reencrypt=False)["num_files"] == 0
    leave()
    with pytest.raises(ConfigError, match="not the one"):
        drive(config, EVERYTHING)
    config.write_text(config.read_text().replace(str(config.parent.parent / "old"), str(new)))
    leave()
    trained = runs.latest(unlocked(config))
    assert "train" not in built(drive(config, EVERYTHING))
    (file,) = (config.parent / "corpus").iterdir()
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    rows[0]["text"] += "\nUSR: One more line."
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = built(drive(config, EVERYTHING))
    assert "redact" in done
    assert "train" not in done
    assert runs.key_in(runs.latest(unlocked(config)) or {}, "train") == runs.key_in(trained or {}, "train")


def unlocked(config: Path) -> Roots:
    return open_store(load_settings(config, {}))
