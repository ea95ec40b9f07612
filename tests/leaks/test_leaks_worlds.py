"""Two corpora that differ in one secret, under one store secret: what does the public root tell of which it was?

Everything that lies in the public root is compared, file by file, but for what the model itself decides (its weights,
and figures on held-out text): that is what epsilon is about.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from increment import drive

from pipelines.graph import GRAPH

pytestmark = pytest.mark.slow

SETTINGS = """
[store]
secret_file = "secret"
[corpus]
inputs = ["corpus"]
partition_documents = 10
[redact]
policies = ["digits"]
conservative = "regex"
patterns = { CODEWORD = "frobnix\\\\w*" }
[sample]
replicates = 1
fraction = 1.0
[train]
num_layers = 1
num_heads = 2
embedding_size = 16
context_length = 32
vocab_size = 340
epochs = 1
expected_batch_size = 32
noise_multiplier = 2.0
"""
OPENINGS = ("the office opens early", "the shop closes late", "the train runs often", "the garden rests", "it rains")
THINGS = ("lamps", "chairs", "windows", "tables", "doors", "walls", "stairs", "roofs")
OF_PEOPLE = {
    "RETICENT__TRAIN__UNIT": "owner",
    "RETICENT__TRAIN__EXPECTED_BATCH_SIZE": "3",
    "RETICENT__CORPUS__OWNER_FROM": "field",
    "RETICENT__CORPUS__OWNER_FIELD": "person",
    "RETICENT__DEDUP__SCOPE": "owner",
    "RETICENT__GATE__ON_HIT": "stop",
}
# What the model decides: its loss on held-out text, and all that follows.
OF_THE_MODEL = {
    *("perplexity", "perplexity_per_word", "bits_per_byte", "perplexity_at_initialisation", "loss_per_token"),
    *("loss_per_token_standard_error", "next_token_accuracy", "next_word_accuracy"),
}


def document(number: int, secret: str) -> dict[str, Any]:
    """Sentences that are public, and two with a secret each, one of which may be masked by hand."""
    plain = [f"{OPENINGS[(number + at) % 5].capitalize()} near the {THINGS[number % 8]}." for at in range(4)]
    found, missed = f"My code is {4000 + number} as before.", "My word is frobnixa for ever."
    if number == 3 and secret == "caught":
        found = "My code is <MASK> as before."
    if number == 3 and secret == "missed":
        missed = "My word is <MASK> for ever."
    more = [f"My code is {5000 + at} again." for at in range(9)] if secret == "more" and number == 3 else []
    spans, text = [], ""
    for sentence in (*plain, found, missed, *more):
        for label, pattern in (("CODE", r"\d{4}"), ("WORD", "frobnixa")):
            spans += [
                {"start": len(text) + m.start(), "end": len(text) + m.end(), "label": label}
                for m in re.finditer(pattern, sentence)
            ]
        text += sentence + " "
    fold = "test" if number >= 18 else "train"
    return {"id": f"d{number}", "text": text, "spans": spans, "fold": fold, "person": f"{fold} {number % 9}"}


def world(folder: Path, secret: str, **environment: str) -> Path:
    (folder / "corpus").mkdir(parents=True)
    (folder / "secret").write_text("5e" * 32)
    for file in range(2):
        lines = "".join(json.dumps(document(n, secret)) + "\n" for n in range(10 * file, 10 * file + 10))
        (folder / "corpus" / f"f{file}.jsonl").write_text(lines)
    config = folder / "reticent.toml"
    config.write_text(SETTINGS)
    drive(config, tuple(GRAPH), **environment)
    return folder / "reticent-store" / "public"


def told(public: Path) -> dict[str, Any]:
    """What stands in the public root, by stage and file; keys of artifacts are under the store's secret."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in public.rglob("*") if p.is_file() and "objects" in p.parts):
        stage, _, *inside = path.relative_to(public / "objects").parts
        name = f"{stage}/{'/'.join(inside)}"
        content: Any = path.read_bytes()
        if path.suffix == ".safetensors":
            content = path.stat().st_size
        elif path.name == "report.json":
            content = _without_figures(json.loads(content))
        elif path.name == "report.html":
            content = re.sub(rb"(?s)<h2 id=\"utility\">.*?</section>", b"", content)
            content = re.sub(rb"<dt>Held-out perplexity</dt><dd>.*?</dd>", b"", content)
        elif path.name == "model_card.md":
            content, count = re.subn(rb"(?m)^\| (Perplexity|Bits|Next|Loss)[^|]*\|[^|]*\|$", b"", content)
            assert count >= 3
        elif path.name == "manifest.json":
            content = {n: None if "model" in n or "report" in n else e for n, e in json.loads(content)["files"].items()}
        found.setdefault(name, []).append(content)
    return {name: sorted(map(repr, contents)) for name, contents in found.items()}


def _without_figures(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_figures(inner) for name, inner in value.items() if name not in OF_THE_MODEL}
    return [_without_figures(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("method", ["crt", "dpsgd"])
def test_the_public_root_does_not_tell_which_of_two_worlds_it_was(tmp_path: Path, method: str) -> None:
    """Guards counts, rates, refusals, identifiers, order, lineage and sizes in everything that is published."""
    environment = {"RETICENT__TRAIN__METHOD": method}
    worlds = {name: told(world(tmp_path / name, name, **environment)) for name in ("none", "caught", "missed")}
    assert len(worlds["none"]) > 8
    for name in ("caught", "missed"):
        assert worlds[name].keys() == worlds["none"].keys()
        for file, content in worlds["none"].items():
            assert worlds[name][file] == content, (name, file)
    table = pl.read_parquet(tmp_path / "none/reticent-store/public/latest/public/*.parquet")
    assert (len(table) > 0) == (method == "crt")


@pytest.mark.parametrize("method", ["crt", "dpsgd"])
def test_a_training_on_people_does_not_tell_how_much_one_of_them_wrote(tmp_path: Path, method: str) -> None:
    """In the other world a person has nine more private records."""
    environment = OF_PEOPLE | {"RETICENT__TRAIN__METHOD": method}
    one, other = (told(world(tmp_path / name, name, **environment)) for name in ("none", "more"))
    assert one.keys() == other.keys()
    for file, content in one.items():
        assert other[file] == content, file


@pytest.mark.parametrize(("name", "changes"), [("missed", {}), ("more", OF_PEOPLE)])
def test_the_comparison_would_see_what_the_settings_can_publish(
    tmp_path: Path, name: str, changes: dict[str, str]
) -> None:
    """Guards the tests above: with rates and counts in the public root the two worlds differ."""
    environment = {"RETICENT__REPORT__PUBLISH_COUNTS": "true", **changes}
    one, other = (told(world(tmp_path / which, which, **environment)) for which in ("none", name))
    assert one["report/report.json"] != other["report/report.json"]
    assert one["publish/public.parquet"] == other["publish/public.parquet"]
