"""The evaluation of a finished model: from its folder alone. Its figures are checked by `support.evaluations`."""

import json
import shutil
from dataclasses import replace

import pytest
from support.contexts import artifact, stage_context
from support.evaluations import evaluated, figures_of, trained_artifact
from support.tables import read_table
from test_stage_train_methods import corpus, read, run
from test_stage_train_tasks import train

from pipelines.errors import ConfigError
from pipelines.graph import GRAPH
from pipelines.settings.train import TrainConfig
from pipelines.stages.train import evaluate

ONE = {"epochs": 1, "noise_multiplier": 0.5, "target_epsilon": None}
FILES = {"figures.json", "generated.parquet", "token_scores.parquet"}


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """A model whose control tokens a folder of version 0.1.0 does not tell apart."""
    folder = tmp_path_factory.mktemp("typed")
    inputs = corpus(folder / "corpus")
    return inputs, run(folder / "run", inputs, "anonymized", **ONE, typed_masks=("NAME",))


def again(ctx, folder, trained, **changes):
    """The evaluation of what a training wrote, in another folder, perhaps with other settings."""
    config = ctx.configs["train"].model_copy(update=changes)
    made = stage_context("evaluate", folder, {"train": config}, {"train": (trained,), "split": ctx.inputs["split"]})
    evaluate.run(made)
    return made


def test_it_writes_the_same_bytes_again_and_nothing_else(typed, tmp_path):
    _, ctx = typed
    assert figures_of(ctx)["num_eval_sentences"] == 24
    one, two = evaluated(ctx), again(ctx, tmp_path / "again", trained_artifact(ctx))
    assert {path.name for path in two.out.folder.iterdir()} == FILES
    assert all((one.out.folder / name).read_bytes() == (two.out.folder / name).read_bytes() for name in FILES)
    assert not FILES & {path.name for path in ctx.out.folder.iterdir()} - {"figures.json"}
    assert not read(one, "figures.json").keys() & read(ctx, "figures.json").keys()  # each is told once


def test_what_is_generated_can_be_scored_otherwise_without_another_training(tmp_path, families):
    ctx = train(tmp_path, families, "table_to_text", "no_dp", epochs=1)
    assert read_table(evaluated(ctx).out.folder / "generated.parquet", "generated").num_rows == 3
    fewer = again(ctx, tmp_path / "fewer", trained_artifact(ctx), max_generated=1, num_beams=1)
    assert read_table(fewer.out.folder / "generated.parquet", "generated").num_rows == 1
    assert read(fewer, "figures.json")["scores"]["num_outputs"] == 1


def test_a_folder_that_does_not_tell_its_encoding_keeps_what_its_training_measured(typed, tmp_path):
    _, ctx = typed
    folder = tmp_path / "trained"
    shutil.copytree(ctx.out.folder, folder)
    (folder / "model/reticent.json").write_text(json.dumps({"schema_version": 1, "method": "anonymized"}))
    for name in FILES:  # 0.1.0 had them there
        shutil.copy(evaluated(ctx).out.folder / name, folder)
    (folder / "figures.json").write_text(json.dumps(figures_of(ctx)))
    old = again(ctx, tmp_path / "old", artifact("train", folder))
    assert all(
        (old.out.folder / name).read_bytes() == (folder / name).read_bytes() for name in FILES - {"figures.json"}
    )
    assert read(old, "figures.json") == read(evaluated(ctx), "figures.json")


def test_a_damaged_folder_is_no_old_one(typed, tmp_path):
    _, ctx = typed
    folder = tmp_path / "trained"
    shutil.copytree(ctx.out.folder, folder)
    (folder / "model/model.safetensors").write_bytes(b"")
    with pytest.raises(ConfigError, match="damaged"):
        again(ctx, tmp_path / "again", replace(artifact("train", folder)))


def test_what_it_reads():
    """The model in either root, held-out rows, and marks where the method encodes by them."""
    reads = {edge.stage for edge in GRAPH["evaluate"].edges_read({"train": TrainConfig()})}
    assert reads == {"train", "split"}
    reads = {edge.stage for edge in GRAPH["evaluate"].edges_read({"train": TrainConfig(method="sdpsgd_lstm")})}
    assert reads == {"train", "split", "redact"}
    stage = GRAPH["evaluate"]
    assert (stage.roots, stage.is_release, stage.has_recipe) == (("private",), False, False)
    fields = set(stage.fields["train"])
    assert fields <= TrainConfig.model_fields.keys()
    assert not {"epochs", "noise_multiplier", "target_epsilon", "max_grad_norm"} & fields
