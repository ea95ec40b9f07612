"""Settings of the training: what is refused, what enters keys, and what reading them imports."""

import pytest
from pydantic import ValidationError
from support.imports import loaded_after

from pipelines.graph import GRAPH
from pipelines.settings.train import TrainConfig


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 0},
        {"epochs": "3"},
        {"target_epsilon": 3.0, "noise_multiplier": 1.0},
        {"target_epsilon": 0},
        {"target_epsilon": None},
        {"target_delta": 1.0},
        {"max_grad_norm": 0.0},
        {"private_learning_rate": float("inf")},
        {"model": "./huge"},
        {"adaptation": "lora"},
        {"tokenizer": "pretrained"},
        {"model": "smollm2", "num_layers": 3},
        {"model": "smollm2", "tokenizer": "bytes"},
        {"model": "smollm2", "method": "sdpsgd_lstm"},
        {"model": "smollm2", "model_revision": "main"},
        {"num_heads": 7},
        {"context_length": 3},
        {"vocab_size": 100},
        {"method": "dpsgd2"},
        {"noise": 1.0},
    ],
)
def test_wrong_settings_are_refused(settings):
    with pytest.raises(ValidationError):
        TrainConfig(**settings)


def test_settings_as_read_from_a_file():
    config = TrainConfig.model_validate_json('{"epochs": 2, "target_epsilon": 4, "speakers": ["A"]}', strict=True)
    assert (config.epochs, config.target_epsilon, config.speakers) == (2, 4.0, ("A",))
    assert TrainConfig.model_validate_json("{}", strict=True).target_epsilon == 3.0
    assert TrainConfig(noise_multiplier=1.5).target_epsilon is None
    assert TrainConfig(**TrainConfig(noise_multiplier=1.5).model_dump()) == TrainConfig(noise_multiplier=1.5)
    assert TrainConfig().code_references()[0] == "pipelines.training.methods.crt"
    assert all(field.description for field in TrainConfig.model_fields.values())


def test_loading_the_stage_and_its_settings_imports_no_torch():
    loaded = loaded_after(
        "from pipelines.settings.train import TrainConfig; c = TrainConfig(); c.code_references(); c.keyed()"
    )
    assert not {"torch", "transformers", "numpy", "pyarrow", "scipy", "tokenizers"} & loaded


def test_only_what_the_method_reads_enters_the_key():
    assert TrainConfig().unread_inputs("train") == {"redact", "train_phase1"}
    assert TrainConfig(method="dpsgd", tokenizer="bytes").unread_inputs("train") == {"redact", "shard", "train_phase1"}
    assert TrainConfig(method="sdpsgd_lstm").unread_inputs("train") == {"shard", "train_phase1"}
    typed = TrainConfig(method="redacted", tokenizer="bytes", typed_masks=["NAME"])
    assert typed.unread_inputs("train") == {"shard", "train_phase1"}
    read = {edge.stage for edge in GRAPH["train"].edges_read({"train": TrainConfig()})}
    assert read == {"shard", "split", "gate", "overlay"}  # the last in child runs that have one
    jft = TrainConfig(method="jft", jft_variant="light_noise")
    read = {edge.stage for edge in GRAPH["train_phase1"].edges_read({"train": jft})}
    assert read == {"shard", "split", "estimate", "overlay"}
    assert {edge.stage for edge in GRAPH["train_phase1"].edges_read({"train": TrainConfig()})} == set()


@pytest.mark.parametrize(
    ("method", "other"),
    [
        ("crt", {"jft_phase1_epochs": 9, "schedule": "step", "max_private_spans": 9, "added_tokens": False}),
        ("crt", {"domains": ["AIRLINE"]}),
        ("dpsgd", {"public_learning_rate": 9.0, "public_batch_size": 9}),
        ("no_dp", {"private_learning_rate": 9.0, "expected_batch_size": 9, "max_grad_norm": 9.0}),
        ("jft", {"schedule_scale": 9.0, "max_state_norm": 9.0, "typed_masks": ["NAME"]}),
    ],
)
def test_settings_of_other_methods_have_no_effect_on_the_key(method, other):
    config, plain = TrainConfig(method=method, **other), TrainConfig(method=method)
    assert config.keyed("train") == plain.keyed("train")
    assert (config.control_tokens(), config.view()) == (plain.control_tokens(), plain.view())
    assert TrainConfig(method=method, epochs=9).keyed("train") != TrainConfig(method=method).keyed("train")


def test_conversation_and_domain_tokens_enter_the_key_where_they_are_used():
    plain = TrainConfig().keyed("train")
    assert not {"conversation_tokens", "domain_tokens", "domains"} & plain.keys()
    told = TrainConfig(conversation_tokens=True, domain_tokens=True, domains=["AIRLINE"])
    assert told.keyed("train") == {**plain, "conversation_tokens": True, "domain_tokens": True, "domains": ["AIRLINE"]}
    table = {"task": "table_to_text", "model": "tiny"}
    assert TrainConfig(**table, domain_tokens=True).keyed("train") == TrainConfig(**table).keyed("train")
    first = TrainConfig(method="jft").keyed("train_phase1")
    assert TrainConfig(method="jft", conversation_tokens=True).keyed("train_phase1") != first


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"domain_tokens": True, "speakers": ["USR"], "domains": ["USR"]}, "another meaning"),
        ({"domain_tokens": True, "domains": ["_soc_"]}, "another meaning"),
        ({"domain_tokens": True, "method": "no_dp", "vocab_size": 389}, "at least 390"),
        ({"conversation_tokens": True, "method": "dpsgd", "added_tokens": False}, "added_tokens"),
    ],
)
def test_control_tokens_that_do_not_go_together_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        TrainConfig(**settings)


def test_the_second_phase_of_jft_can_change_without_the_first():
    first = TrainConfig(method="jft").keyed("train_phase1")
    assert TrainConfig(method="jft", epochs=9, target_epsilon=9.0).keyed("train_phase1") == first
    assert TrainConfig(method="jft", jft_phase1_epochs=9).keyed("train_phase1") != first
    assert TrainConfig(method="jft", num_layers=3).keyed("train_phase1") != first
    assert TrainConfig(method="crt", epochs=9).keyed("train_phase1") == {}
