"""`reticent dedup-stats` and `dedup-filter`, after a preparation without an orchestrator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from increment import drive
from typer.testing import CliRunner

from flows.arguments import app
from flows.commands.dedup_stats import stats_document
from pipelines.errors import ConfigError, InputError

STAGES = ("split", "dedup_keys", "dedup_buckets", "dedup_resolve", "dedup_mask")
TEXTS = [
    ["Good day to you.", "The parcel is late."],
    ["Good day to you.", "Bye now."],
    ["Good day to you.", "Bye now."],
]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "corpus").mkdir()
    for number, sentences in enumerate(TEXTS):
        row = {"id": f"secret-{number}", "text": "\n".join(sentences), "fold": "train"}
        (tmp_path / "corpus" / f"{number}.jsonl").write_text(json.dumps(row))
    (tmp_path / "reticent.toml").write_text("[corpus]\npartition_documents = 1\n[dedup]\nfalse_positive_rate = 1e-3\n")
    return tmp_path / "reticent.toml"


def test_counts_and_most_frequent_without_texts(config: Path) -> None:
    with pytest.raises(ConfigError, match="did not run yet"):
        stats_document(config, {})
    drive(config, STAGES)
    done = CliRunner().invoke(app, ["dedup-stats", str(config), "--json"])
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["schema_version"] == 1
    assert (found["num_sentences"], found["num_in_scope"], found["num_duplicates"]) == (6, 6, 3)
    assert found["duplicate_share"] == 0.5
    assert found["most_frequent"] == [
        {"count": 3, "num_tokens": 5, "num_characters": 16},
        {"count": 2, "num_tokens": 3, "num_characters": 8},
    ]
    assert found["copies"] == [{"at_least": 2, "at_most": 3, "num_sentences": 2}]
    assert found["false_positives"]["verified"] == 0
    assert 0 < found["false_positives"]["expected"] < 1e-6
    shown = CliRunner().invoke(app, ["dedup-stats", str(config)]).stdout
    assert "3 x 5 tokens" in shown
    for secret in ("Good", "Bye", "secret-"):
        assert secret not in done.stdout + shown
    assert stats_document(config, {}, top=1, show_text=True)["most_frequent"][0]["text"] == "Good day to you."
    assert stats_document(config, {}, top=0)["most_frequent"] == []


@pytest.mark.slow
def test_a_changed_other_corpus_reruns_deduplication_and_no_name_of_it_is_told(config: Path) -> None:
    other = config.parent / "john-smith.txt"
    other.write_text("Bye now.")
    config.write_text(config.read_text() + f'against = ["{other}"]\n')
    drive(config, STAGES)
    assert stats_document(config, {})["num_in_other"] == 2
    assert {o.state for o in drive(config, STAGES)} == {"cached"}
    other.write_text("Good day to you.\nBye now.")
    plan = CliRunner().invoke(app, ["plan", str(config), "--json"]).stdout
    assert "data file 1" in plan
    assert "john-smith" not in plan
    drive(config, STAGES)
    assert stats_document(config, {})["num_in_other"] == 5


def test_a_filter_is_saved_and_used(config: Path) -> None:
    (config.parent / "other.txt").write_text("Bye now.")
    out = config.parent / "other.bloom"
    arguments = ["dedup-filter", str(config.parent / "other.txt"), "-c", str(config), "--json", "--out"]
    done = CliRunner().invoke(app, [*arguments, str(out)])
    assert json.loads(done.stdout)["num_items"] == 1
    assert isinstance(CliRunner().invoke(app, [*arguments, str(config.parent / "x.bin")]).exception, ConfigError)
    config.write_text(config.read_text() + f'against = ["{out}"]\n')
    drive(config, STAGES)
    assert stats_document(config, {})["num_in_other"] == 2


@pytest.mark.parametrize(
    ("given", "out", "said"),
    [
        ("missing.txt", "x.bloom", "dedup-filter: there is no file"),
        ("nothing.jsonl", "x.bloom", "dedup-filter holds no text"),
        ("other.jsonl", "x.bloom", "dedup-filter: 1 rows of 1 cannot be used"),
        ("other.txt", "no/folder/x.bloom", "x.bloom cannot be written"),
    ],
)
def test_a_filter_of_what_cannot_be_read_or_written_is_refused(config: Path, given: str, out: str, said: str) -> None:
    (config.parent / "other.txt").write_text("Bye now.")
    (config.parent / "other.jsonl").write_text('{"words": "Bye now."}')
    (config.parent / "nothing.jsonl").write_text("")
    done = CliRunner().invoke(
        app, ["dedup-filter", str(config.parent / given), "-c", str(config), "--out", str(config.parent / out)]
    )
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)
    assert not list(config.parent.rglob("*.bloom*"))


def test_messages_about_the_other_corpus_name_its_setting(config: Path) -> None:
    (config.parent / "other.jsonl").write_text("")
    config.write_text(config.read_text() + f'against = ["{config.parent / "other.jsonl"}"]\n')
    with pytest.raises(InputError, match=r"^dedup\.against holds no text"):
        drive(config, STAGES)
