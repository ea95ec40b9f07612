"""What leaves the house: a folder that other programs open, with a card and a signature, and nothing private."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from huggingface_hub import DatasetCard, DatasetCardData, ModelCard, ModelCardData
from increment import drive
from looked_at import finished_run
from safetensors import safe_open
from support.patches import Patch
from typer.testing import CliRunner

from flows.arguments import app
from flows.commands.export_release import release_document, release_text
from flows.commands.verify_release import verify_document, verify_text
from flows.running.spec import open_store
from pipelines.errors import ConfigError, PrivacyGateError, StoreError
from pipelines.graph import GRAPH
from pipelines.release_folder import verify_folder
from pipelines.settings.loading import load_settings
from pipelines.signatures import own_fingerprint
from pipelines.store.ledger.ledger import document_of, published, read_ledger
from pipelines.store.objects import runs
from pipelines.store.objects.ledger_lines import append, locked
from pipelines.store.place.roots import Roots

OF_VLLM = ("GPT2LMHeadModel", "LlamaForCausalLM")
"""Architectures of ours that vLLM's registry of models names, as `transformers` writes them."""


@pytest.fixture(scope="module")
def roots() -> Roots:
    return open_store(load_settings(finished_run(), {}), create=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("release") / "model"
    release_document(finished_run(), {}, "model", out, licence="apache-2.0")
    return out


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("release") / "dataset"
    done = CliRunner().invoke(app, ["export", "dataset", "--out", str(out), "-c", str(finished_run()), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["kind"] == "dataset"
    return out


def test_both_are_signed_by_the_store_and_whole(model: Path, dataset: Path, roots: Roots) -> None:
    for folder, kind in ((model, "model"), (dataset, "dataset")):
        found = verify_folder(folder)
        assert found["is_whole"]
        assert found["signed_by"] == own_fingerprint(roots.secret)
        assert found["about"]["kind"] == kind
        assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o644}
        assert found["signed_by"] in (folder / "report" / "report.html").read_text("utf-8")
        assert found["signed_by"] in (roots.private / "latest" / "report" / "report.html").read_text("utf-8")


def test_every_file_is_a_public_one_but_card_and_settings_of_generation(
    model: Path, dataset: Path, roots: Roots
) -> None:
    public = {path.read_bytes() for path in (roots.public / "objects").rglob("*") if path.is_file()}
    made = {"README.md", "generation_config.json", "release.json", "release.sig", "release.pem"}
    for folder in (model, dataset):
        for path in folder.rglob("*"):
            assert path.is_dir() or path.name in made or path.read_bytes() in public
    private = "".join(row for (row,) in _sentences(roots))
    assert "frobnix" in private
    assert not any(b"frobnix" in path.read_bytes() for path in model.rglob("*") if path.is_file())


def _sentences(roots: Roots) -> list[tuple[Any, ...]]:
    return pl.read_parquet(str(roots.private / "latest" / "sentences" / "*.parquet")).select("text").rows()


def test_the_model_card_is_valid_for_the_hub_and_states_the_headline(model: Path) -> None:
    card = ModelCard.load(model / "README.md")
    data = ModelCardData(**card.data.to_dict())
    assert (data.library_name, data.pipeline_tag, data.license) == ("transformers", "text-generation", "apache-2.0")
    assert ModelCard(str(card)).data.to_dict() == card.data.to_dict()
    claims = json.loads((model / "report" / "report.json").read_text("utf-8"))["claims"]
    headline = next(claim for claim in claims if claim["is_headline"])
    privacy = data.to_dict()["privacy"]
    for name in ("notion", "epsilon", "delta", "relation", "unit", "theorem"):
        assert privacy[name] == headline[name]
    assert privacy["num_assumptions"] == len(headline["assumptions"])
    text = card.text
    assert "# A language model trained with Reticent" in text
    assert f"`{headline['notion']}`" in text
    assert "## What was not measured, or is not told" in text
    assert all(assumption in text for assumption in headline["assumptions"])


def test_the_code_of_the_model_card_runs_in_the_folder(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(model)
    section = (model / "README.md").read_text("utf-8").split("## How to load it")[1].split("\n## ")[0]
    examples = re.findall(r"```python\n(.*?)```", section, re.S)
    assert len(examples) == 2
    for example in examples:
        exec(compile(example, "README.md", "exec"), {})
        assert capsys.readouterr().out.strip()


def test_the_dataset_card_is_valid_for_the_hub_and_names_tables_that_are_there(dataset: Path, roots: Roots) -> None:
    card = DatasetCard.load(dataset / "README.md")
    data = DatasetCardData(**card.data.to_dict()).to_dict()
    assert data["task_categories"] == ["text-generation"]
    (table,) = data["configs"]
    assert table["config_name"] == "public"
    (files,) = table["data_files"]
    released = pl.read_parquet(dataset / files["path"])
    published = pl.read_parquet(str(roots.public / "latest" / "public" / "*.parquet"))
    assert released.equals(published)
    assert len(released) > 0
    assert "are not protected at all" in card.text
    assert data["privacy"]["unprotected"] == ["public"]
    assert "the table of public rows" in data["privacy"]["about"]


@pytest.mark.slow  # a model writes
def test_synthetic_text_goes_with_its_claim(project: Path, tmp_path: Path) -> None:
    switched = {"RETICENT__SYNTHESIZE__ENABLED": "true", "RETICENT__SYNTHESIZE__ROWS": "20"}
    drive(project, tuple(GRAPH), **switched, RETICENT__SYNTHESIZE__MAX_NEW_TOKENS="8")
    release_document(project, {}, "dataset", tmp_path / "out")
    assert verify_folder(tmp_path / "out")["is_whole"]
    card = DatasetCard.load(tmp_path / "out" / "README.md")
    tables = [table["config_name"] for table in DatasetCardData(**card.data.to_dict()).to_dict()["configs"]]
    assert tables == ["public", "synthetic"]
    assert len(pl.read_parquet(tmp_path / "out" / "synthetic" / "*.parquet")) == 20
    told = json.loads((tmp_path / "out" / "synthetic" / "synthetic.json").read_text("utf-8"))
    assert f"Guarantee (`{told['notion']}`)" in card.text
    assert all(assumption in card.text for assumption in told["assumptions"])


def test_both_commands_tell_the_same_number_of_signed_files(tmp_path: Path) -> None:
    """Guards 12 files in one command beside 9 in the other: three of them carry the signature."""
    made = release_document(finished_run(), {}, "dataset", tmp_path / "out")
    wrote, read = release_text(made), verify_text(verify_document(tmp_path / "out", None))
    numbers = {match[1] for text in (wrote, read) for match in re.finditer(r"(\d+) signed files", text)}
    assert numbers == {str(made["num_files"] - 3)}
    assert wrote.count(" signed files") == read.count(" signed files") == 1
    assert "the 3 files of their signature (release.json, release.sig, release.pem)" in wrote


def test_a_plain_loader_finds_what_it_needs(model: Path) -> None:
    """The layout that the loaders of transformers and vLLM read: see docs/releasing.md."""
    settings = json.loads((model / "config.json").read_text())
    assert settings["architectures"][0] in OF_VLLM
    with safe_open(model / "model.safetensors", "pt") as weights:
        names = set(weights.keys())
    assert all(name.startswith("transformer.") for name in names)
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    ids = {*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"])}
    assert max(ids) < settings["vocab_size"]
    generation = json.loads((model / "generation_config.json").read_text())
    own = json.loads((model / "reticent.json").read_text())["control"]
    assert (generation["eos_token_id"], generation["pad_token_id"]) == (own["eos"], own["pad"])
    assert set(generation["suppress_tokens"]) >= {own["mask"], own["bos"], *own["speakers"]}
    assert own["eos"] not in generation["suppress_tokens"]


def test_claims_that_do_not_hold_now_are_not_signed(project: Path, tmp_path: Path) -> None:
    roots = open_store(load_settings(project, {}), create=False)
    second = replace(read_ledger(roots)[-1], release_id="5e" * 8, key="5e" * 20)  # trained since; no claims yet
    with locked(roots) as path:
        append(roots, path, [document_of(second), published(second.release_id)])
    for kind in ("model", "dataset"):
        with pytest.raises(PrivacyGateError, match="claims that do not hold now"):
            release_document(project, {}, kind, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_damage_forgetting_and_wrong_places_are_refused(project: Path, tmp_path: Path, patch: Patch) -> None:
    roots = open_store(load_settings(project, {}), create=False)
    for place in (roots.public / "release", tmp_path / "none" / "release", project):
        with pytest.raises(ConfigError, match="--out"):
            release_document(project, {}, "model", place)
    (table,) = list((roots.public / "latest" / "model").resolve().glob("config.json"))
    table.write_text(table.read_text() + " ")
    with pytest.raises(StoreError, match="missing or damaged"):
        release_document(project, {}, "model", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["project"]
    record = runs.latest(roots)
    patch(runs, "latest", lambda _: {**(record or {}), runs.FORGOTTEN: True})
    with pytest.raises(PrivacyGateError, match="forgotten"):
        release_document(project, {}, "dataset", tmp_path / "out")


def test_without_texts_for_cards_nothing_is_exported(project: Path, tmp_path: Path) -> None:
    roots = open_store(load_settings(project, {}), create=False)
    record = dict(runs.latest(roots) or {})
    shutil.rmtree(roots.private / "manifests" / "report")
    assert record
    with pytest.raises(StoreError, match="report is missing"):
        release_document(project, {}, "dataset", tmp_path / "out")


def test_a_licence_is_for_cards(tmp_path: Path) -> None:
    arguments = ["export", "redacted", "--out", str(tmp_path / "x"), "-c", str(finished_run()), "--license", "mit"]
    assert isinstance(CliRunner().invoke(app, arguments).exception, ConfigError)
