"""What a run left behind is read through the public API; nothing is changed by reading."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from support.old_stores import FIRST, unpack

import reticent
from reticent.accounting import composed_epsilon
from reticent.errors import ConfigError, InputError, StoreError


@pytest.fixture(scope="module")
def run(project: Path) -> reticent.Run:
    return reticent.open_run(project)


def test_every_table_has_the_rows_of_latest(run: reticent.Run) -> None:
    assert set(run.tables) >= {"sentences", "redacted", "private", "public"}
    assert run.table("token_scores").select(pl.len()).collect().item() > 0  # the training of 0.1.0 wrote it
    views = {
        path.name for folder in (run.store.private_root, run.store.public_root) for path in folder.glob("latest/*")
    }
    for name in views & set(run.tables):  # nor had it a view of all that there are views of now
        root = run.store.public_root if name == "public" else run.store.private_root
        latest = pl.scan_parquet(f"{root}/latest/{name}/*.parquet").select(pl.len()).collect().item()
        frame = run.table(name)
        assert isinstance(frame, pl.LazyFrame)
        assert frame.select(pl.len()).collect().item() == latest


def test_rows_of_several_partitions_stand_in_order_and_join(run: reticent.Run) -> None:
    assert len(run.partitions) >= 1
    both = run.table("sentences").join(run.table("redacted"), on=["doc_id", "sentence_index"]).select(pl.len())
    assert both.collect().item() == run.table("sentences").select(pl.len()).collect().item()


def test_figures_artifacts_and_pages_are_those_of_the_run(run: reticent.Run) -> None:
    artifact = run.artifact("train")
    assert run.figures("train") == json.loads((artifact.private_folder / "figures.json").read_text())
    assert artifact.public_folder is not None
    assert artifact.stats["num_steps"] == run.figures("train")["num_steps"]
    assert set(artifact.files) >= {"private/figures.json", "public/model/model.safetensors"}
    assert run.artifact("dedup.keys", run.partitions[0]).partition == run.partitions[0]
    assert run.report is not None
    assert run.report.is_relative_to(run.store.private_root)
    assert run.public_report is not None
    assert run.public_report.is_relative_to(run.store.public_root)
    assert run.finished is not None
    assert (run.state, run.purpose, run.store.runs()[0].state) == ("completed", "release", "completed")
    assert run.metrics["perplexity"] == pytest.approx(run.figures("train")["perplexity"])
    assert run.run_id in repr(run)


def test_claims_are_typed_and_their_numbers_those_of_the_document(run: reticent.Run) -> None:
    document = json.loads((run.artifact("guarantee").private_folder / "claims.json").read_text())
    assert [claim.epsilon for claim in run.claims] == [claim["epsilon"] for claim in document["claims"]]
    assert run.headline == run.claims[document["headline"]]
    assert all(isinstance(claim.assumptions, tuple) for claim in run.claims)
    assert len(run.public_claims) == len(document["public"]["claims"])


def test_the_ledger_adds_up(run: reticent.Run) -> None:
    releases = run.store.ledger()
    mine = [r for r in releases if r.key == run.artifact("train").key and not r.is_table][:1]
    assert len(mine) == 1
    assert mine[0].epsilon == pytest.approx(composed_epsilon(mine, mine[0].delta), rel=1e-6)
    assert composed_epsilon(releases, 1e-4) > composed_epsilon(mine, 1e-4)
    assert any(r.is_table for r in releases)


def test_the_model_scores(run: reticent.Run) -> None:
    losses = run.open_model(device="cpu").losses(["hello"])
    assert np.isfinite(losses.per_record).all()


def test_a_project_is_found_by_file_folder_and_store(project: Path, tmp_path: Path, run: reticent.Run) -> None:
    assert reticent.open_run(project.parent / "store").run_id == run.run_id
    assert reticent.open_run(project, "previous").run_id < run.run_id
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "reticent.toml").write_text('[corpus]\ninputs = ["."]\n')
    with pytest.raises(InputError, match="does not exist yet"):
        reticent.open_store(folder)
    with pytest.raises(InputError, match="neither"):
        reticent.open_store(tmp_path)
    with pytest.raises(ConfigError, match="no recorded run"):
        reticent.open_run(project, "1999")


def test_what_a_run_has_not_is_told(run: reticent.Run) -> None:
    with pytest.raises(ConfigError, match="no table 'secrets'"):
        run.table("secrets")
    with pytest.raises(ConfigError, match="no output of audit"):
        run.figures("audit")
    with pytest.raises(ConfigError, match="by partition"):
        run.artifact("dedup.keys")


def test_files_that_are_gone_are_told(tmp_path: Path) -> None:
    folder = unpack(FIRST, tmp_path) / "store"
    run = reticent.open_run(folder)
    assert run.table("redacted").select(pl.len()).collect().item() > 0
    shutil.rmtree(folder / "private/objects/redact")
    with pytest.raises(StoreError, match="gone"):
        run.table("redacted")
