"""``reticent run --sample``: a first look that publishes nothing and quotes the text in a private file alone."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.patches import Patch
from typer.testing import CliRunner

from flows.arguments import app
from flows.commands import run_sample as command
from flows.commands.run_sample import fraction_of, num_open, run_sample, sample_text
from pipelines.corpus.customersim import write_customersim
from pipelines.errors import ConfigError, InputError
from pipelines.policies.detectors.conservative import ConservativePolicy
from pipelines.policies.protocol import PolicyOptions, Sentence


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write_customersim(folder / "corpus", 120, 3)
    (folder / "corpus" / "notes.pdf").write_text("x")
    (folder / "corpus" / "torn.jsonl").write_text("not json\n" * 3)
    path = folder / "reticent.toml"
    path.write_text('[redact]\npolicies = ["customersim"]\nconservative = "conservative"\n')
    return path


@pytest.mark.parametrize(
    ("words", "masked", "is_suspicious"),
    [
        ("Dear Ann ,", "Ann", False),
        ("Dear Ann ,", "", True),
        ("Dear Ann Smith ,", "Ann", True),
        ("Dear Ann Smith ,", "Ann Smith", False),
        ("Please write to 4711 now .", "", True),
        ("Please write to 4711 now .", "4711", False),
    ],
)
def test_a_masked_salutation_is_not_suspicious(words: str, masked: str, is_suspicious: bool) -> None:
    tokens = words.split()
    starts = [sum(len(token) + 1 for token in tokens[:at]) for at in range(len(tokens))]
    ends = [start + len(token) for start, token in zip(starts, tokens, strict=True)]
    spans = ConservativePolicy(PolicyOptions(name="conservative")).find(Sentence(words, starts, ends))
    assert spans
    assert (num_open(spans, [token in masked.split() for token in tokens]) > 0) is is_suspicious


def test_counts_are_shown_and_text_is_private(config: Path) -> None:
    found = run_sample(config, "10%", environ={})
    assert 50 <= found["num_documents"] <= 60  # at least 50
    assert found["num_documents_read"] == 120
    assert 0 < found["masked_share"] < 0.6
    assert 0 < found["num_public_rows"] < found["num_rows"]
    assert found["masked_tokens_by_label"]
    assert found["left_out_files"] == {".pdf": 1}
    assert found["suspected"]["is_proxy"] is True
    assert found["suspected"]["rows_upper"] > found["suspected"]["num_rows"] / found["num_rows"]
    assert found["known_secrets"]["num"] > found["known_secrets"]["num_missed"]

    store = config.parent / "reticent-store"
    path = Path(found["examples"])
    assert path.is_relative_to(store / "private")
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0
    originals = [line.removeprefix("  original: ") for line in path.read_text().splitlines() if "original: " in line]
    shown = sample_text(found, config) + json.dumps(found)
    assert originals
    assert not [text for text in originals if len(text) > 30 and text in shown]
    assert f"  suspicious           {found['suspected']['num_rows']} rows" in shown
    assert "used as a proxy" in shown
    assert "still open" not in shown  # most of them are no secrets
    assert "3 bad_json: too many (corpus.max_rejected_fraction), a run would stop" in shown
    assert "a run would stop" not in sample_text({**found, "is_too_much_rejected": False}, config)

    made = {p.relative_to(store).parts[:2] for p in store.rglob("*") if p.is_file()}
    assert made == {("private", "cache"), ("private", "first_look"), ("private", "secret"), ("private", "store.json")}
    again = run_sample(config, "10%", environ={})
    assert again == found


def test_it_stops_when_its_time_is_over(config: Path, patch: Patch) -> None:
    everything = run_sample(config, "100%", environ={})
    assert everything["num_rows_left"] == 0
    assert everything["is_read_in_part"] is False
    assert "stopped" not in sample_text(everything, config)

    patch.constant(command, "_SECONDS", 0.0)
    patch.constant(command, "_BATCH_TOKENS", 500)
    found = run_sample(config, "100%", environ={})
    assert 0 < found["num_rows"] < everything["num_rows"]
    assert found["num_rows"] + found["num_rows_left"] == everything["num_rows"]
    assert f"stopped redacting    after 0 s: {found['num_rows_left']:,} more rows" in sample_text(found, config)

    patch.constant(command, "_READING_SECONDS", 0.0)
    found = run_sample(config, "100%", environ={})
    assert found["num_documents_read"] == found["num_documents"] == 1
    assert "stopped reading" in sample_text(found, config)


ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 900)), max_size=30)


@given(rows=ROWS, by_document=st.booleans())
def test_batches_hold_every_row_once(rows: list[tuple[int, int]], by_document: bool) -> None:
    made = [{"doc_id": str(doc), "token_starts": range(tokens)} for doc, tokens in sorted(rows)]
    batches = list(command._batches(made, by_document))
    assert [row for batch in batches for row in batch] == made
    for batch, following in itertools.pairwise(batches):
        assert sum(len(row["token_starts"]) for row in batch) >= command._BATCH_TOKENS
        assert not by_document or batch[-1]["doc_id"] != following[0]["doc_id"]
    if not by_document:
        assert all(sum(len(r["token_starts"]) for r in batch[:-1]) < command._BATCH_TOKENS for batch in batches)


def test_a_larger_share_holds_the_smaller_one(config: Path) -> None:
    everything = run_sample(config, "1", environ={})
    assert everything["num_documents"] == 120
    assert everything["num_rows"] > run_sample(config, "0.3", environ={})["num_rows"]


@pytest.mark.parametrize("text", ["0", "2", "-1%", "101%", "one", "", "1%%", "."])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--sample"):
        fraction_of(text)
    assert fraction_of("1%") == fraction_of("0.01") == 0.01


def test_it_runs_no_stage(config: Path) -> None:
    done = CliRunner().invoke(app, ["run", str(config), "--sample", "5%", "--only", "split"])
    assert isinstance(done.exception, ConfigError)


def test_a_corpus_without_a_usable_document(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"no": "text"}\n')
    path = tmp_path / "reticent.toml"
    path.write_text('[corpus]\ninputs = ["a.jsonl"]\n')
    with pytest.raises(
        InputError, match=r"a\.jsonl .*\(the rows were rejected: 1 missing_text\).*set corpus\.text_field"
    ):
        run_sample(path, "1%", environ={})
