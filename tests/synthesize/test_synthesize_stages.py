"""The stages of synthetic text: equal bytes in any order, published where the model is, from the model alone."""

import hashlib
import math

import polars as pl
import pytest
from small_writers import writer
from support.contexts import artifact, stage_context
from support.trainings import document
from test_synthesize_claim import claims

from pipelines.artifacts import Target
from pipelines.errors import ConfigError
from pipelines.graph import GRAPH
from pipelines.settings.synthesize import SynthesizeConfig, check_writes_rows
from pipelines.settings.train import TrainConfig
from pipelines.stages.synthesize import rows as synthesize_rows
from pipelines.stages.synthesize import synthesize

SETTINGS = {"rows": 30, "partition_rows": 12, "max_new_tokens": 6, "batch_size": 5}


def written(folder, patch, method="dpsgd", order=1, **changes):
    """Both stages in one go: their contexts' outputs."""
    patch(synthesize_rows, "open_audited", lambda ctx, stage: writer())
    configs = {
        "synthesize": SynthesizeConfig.model_validate({**SETTINGS, **changes}),
        "train": TrainConfig.model_validate({"method": method}),
    }
    train = folder / "train"
    train.mkdir(parents=True)
    names = configs["synthesize"].partition_names(0)
    for name in names[::order]:
        ctx = stage_context("synthesize_rows", folder / name, configs, {"train": train}, partition=name, seed=4)
        synthesize_rows.run(ctx)
    given = folder / "guarantee"
    Target(folder=given).json("claims.json", {"public": claims(method)})
    Target(folder=train).json("events.json", document(method))
    inputs = {
        "synthesize_rows": [artifact("synthesize_rows", folder / name, name) for name in names],
        "train": artifact("train", train, key="0123456789abcdef"),
        "guarantee": given,
    }
    ctx = stage_context("synthesize", folder / "out", configs, inputs, public_folder=folder / "public")
    synthesize.run(ctx)
    return folder


def digests(folder):
    files = sorted(path for name in ("out", "public") for path in (folder / name).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_table_in_any_order_of_the_pieces_and_another_with_another_seed(tmp_path, patch):
    one = digests(written(tmp_path / "one", patch))
    assert digests(written(tmp_path / "two", patch, order=-1)) == one
    table = pl.read_parquet(tmp_path / "one/public/synthetic.parquet")
    assert table["record"].to_list() == list(range(30))
    assert set(table["speaker"]) == {"SYS", "USR"}
    assert table["num_tokens"].is_between(1, 6).all()
    assert digests(written(tmp_path / "three", patch, seed=1)) != one


def test_the_public_document_states_settings_and_the_models_claim(tmp_path, patch):
    folder = written(tmp_path, patch, speakers={"USR": 3, "SYS": 1}, filter=["digits"])
    told, private = synthesize_document(folder / "public"), synthesize_document(folder / "out")
    assert told["is_guarantee"]
    assert private["epsilon"] == pytest.approx(0.457, abs=1e-3)
    # The digits beyond the third would give the number of private records back.
    assert told["epsilon"] == math.ceil(private["epsilon"] * 1000) / 1000
    numbers = dict.fromkeys(("epsilon", "delta", "epsilon_this_model"))
    assert told | numbers == private | numbers
    assert told["settings"]["speakers"] == [["SYS", 0.25], ["USR", 0.75]]
    table = pl.read_parquet(folder / "public/synthetic.parquet")
    assert table.height == told["num_rows"] == 30 - told["num_filtered"] < 30
    assert not table["text"].str.contains(r"\d").any()
    assert pl.read_parquet(folder / "out/private_synthetic.parquet").is_empty()


def synthesize_document(folder):
    import json

    return json.loads((folder / "synthetic.json").read_text())


def test_text_of_a_model_that_stays_private_stays_private_and_says_that_nothing_is_guaranteed(tmp_path, patch):
    folder = written(tmp_path, patch, method="no_dp")
    told = synthesize_document(folder / "out")
    assert (told["is_published"], told["is_guarantee"], told["epsilon"]) == (False, False, None)
    assert told["not_guaranteed_because"]
    assert pl.read_parquet(folder / "out/private_synthetic.parquet").height == 30
    assert pl.read_parquet(folder / "public/synthetic.parquet").is_empty()
    assert [path.name for path in (folder / "public").iterdir()] == ["synthetic.parquet"]


def test_what_is_published_is_computed_from_the_release_alone():
    stages = [stage for stage in GRAPH.values() if stage.table == "synthesize"]
    read = {edge.stage for stage in stages if "public" in stage.roots for edge in stage.inputs}
    rows = next(stage for stage in stages if stage.name == "synthesize_rows")
    assert [edge.stage for edge in rows.inputs] == ["train"]
    assert read == {"synthesize_rows", "train", "guarantee"}, "claims are made of settings and events (claims.json)"
    assert not {"gate", "split", "redact", "synthesize_check"} & read


def test_only_the_report_reads_what_was_counted():
    """Its public version is the same whatever was counted: tests/report/test_report_synthetic.py."""
    assert [stage.name for stage in GRAPH.values() if stage.reads("synthesize_check")] == ["report"]
    assert GRAPH["synthesize_check"].roots == ("private",)


def test_a_model_that_writes_no_rows_is_refused():
    with pytest.raises(ConfigError, match="cannot write rows without an input"):
        check_writes_rows(TrainConfig(task="table_to_text", method="dpsgd"))
    check_writes_rows(TrainConfig(task="dialogue", method="dpsgd"))
