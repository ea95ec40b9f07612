"""Presets of detectors: what a name among the policies stands for, and what the models of presets need."""

import re
import shutil
from pathlib import Path

import pytest
import torch
from support.tiny_token_classifier import write_tokenizer
from transformers import AutoModelForTokenClassification, OpenAIPrivacyFilterConfig
from transformers.models.openai_privacy_filter.configuration_openai_privacy_filter import (
    OPENAI_PRIVACY_FILTER_NER_LABELS,
)

import reticent
from pipelines.errors import ConfigError
from pipelines.policies.detectors.model_options import folder_of
from pipelines.policies.labels import ReviewLabels
from pipelines.policies.options import LABEL_PATTERN, PolicyOptions
from pipelines.policies.presets import PRESETS, expand
from pipelines.policies.protocol import Sentence
from pipelines.policies.registry import make_policy, review_labels
from pipelines.settings.redact import RedactConfig

OPENAI = "openai/privacy-filter"
NVIDIA = "nvidia/gliner-PII"


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_brings_model_revision_labels_and_threshold(name):
    preset = PRESETS[name]
    settings = RedactConfig(policies=("digits", name))
    assert settings.policies == tuple(sorted(("digits", preset.policy)))
    assert getattr(settings, preset.policy) == name
    assert getattr(settings, f"{preset.policy}_revision") == preset.revision
    assert getattr(settings, f"{preset.policy}_labels") == preset.labels
    assert getattr(settings, f"{preset.policy}_threshold") == preset.threshold
    assert preset.revision is None or re.fullmatch("[0-9a-f]{40}", preset.revision)
    assert all(LABEL_PATTERN.fullmatch(label) for label in preset.labels.values())
    known = review_labels((preset.policy,))
    assert isinstance(known, ReviewLabels)
    assert {label for label in preset.labels.values() if known.of(label, preset.policy) == "OTHER"} <= {"ATTRIBUTE"}
    again = RedactConfig.model_validate(settings.model_dump())
    assert again == settings
    page = Path("docs/policies.md").read_text("utf-8")
    assert f"`{name}`" in page
    assert preset.licence in page


def test_the_settings_come_before_a_preset(tmp_path):
    folder = RedactConfig(policies=(OPENAI,), token_classifier=str(tmp_path), token_classifier_threshold=0.2)
    assert folder.token_classifier == str(tmp_path)
    assert folder.token_classifier_revision is None  # a revision belongs to a model of the hub
    assert folder.token_classifier_threshold == 0.2
    assert folder.token_classifier_aggregation == "any"
    assert folder.token_classifier_labels == PRESETS[OPENAI].labels
    own = RedactConfig(policies=(NVIDIA,), gliner_labels={"person": "PERSON"}, gliner_revision="main")
    assert (own.gliner, own.gliner_revision, own.gliner_labels) == (NVIDIA, "main", {"person": "PERSON"})


def test_a_preset_stands_wherever_a_policy_stands():
    assert RedactConfig(policies=("digits",), conservative=OPENAI).conservative == "token_classifier"
    assert RedactConfig(policies=("digits",), also_levels=(NVIDIA,)).also_levels == ("gliner",)
    both = RedactConfig(policies=(OPENAI, NVIDIA), also_levels=("token_classifier",))
    assert (both.policies, both.also_levels) == (("gliner", "token_classifier"), ("token_classifier",))
    named = RedactConfig(policies=("token_classifier", OPENAI))
    assert named.policies == ("token_classifier",)


def test_unknown_and_clashing_names_are_refused():
    with pytest.raises(ValueError, match=r"is no preset; did you mean 'openai/privacy-filter'"):
        RedactConfig(policies=("openai/privacy-filters",))
    with pytest.raises(ValueError, match="both run by the policy 'token_classifier'"):
        RedactConfig(policies=(OPENAI, "nationaldesignstudio/rampart"))
    with pytest.raises(ValueError, match="named twice"):
        RedactConfig(policies=(OPENAI, "digits", "digits"))
    with pytest.raises(ValueError, match="policies"):
        RedactConfig(policies=([OPENAI],))
    assert expand({"policies": 3}) == {"policies": 3}


def test_a_model_that_was_not_fetched_is_named_with_the_command_that_fetches_it():
    for name, policy in ((OPENAI, "token_classifier"), (NVIDIA, "gliner")):
        config = RedactConfig(policies=(name,))
        fields = {field: getattr(config, field) for field in type(config).model_fields if field.startswith(policy)}
        with pytest.raises(ConfigError, match=f"hf download {name}"):
            make_policy(PolicyOptions(name=policy, **fields))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The architecture and the classes of the OpenAI privacy filter, with few random weights."""
    folder = tmp_path_factory.mktemp("filter")
    torch.manual_seed(0)
    config = OpenAIPrivacyFilterConfig(
        vocab_size=len(write_tokenizer(folder)),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        num_local_experts=4,
        num_experts_per_tok=2,
        pad_token_id=0,
        eos_token_id=0,
        id2label=dict(enumerate(OPENAI_PRIVACY_FILTER_NER_LABELS)),
        label2id={label: i for i, label in enumerate(OPENAI_PRIVACY_FILTER_NER_LABELS)},
    )
    model = AutoModelForTokenClassification.from_config(config)
    with torch.no_grad():
        next(module for name, module in model.named_modules() if name.endswith("score")).weight.mul_(50)
    model.save_pretrained(folder)
    return folder


def test_the_classes_of_the_privacy_filter_have_our_labels(tiny):
    with reticent.Redactor([OPENAI], token_classifier=str(tiny)) as redactor:
        texts = [f"call {name} at {place} in {city}" for name in "abcd" for place in ("acme", "now") for city in "xyz"]
        redacted = list(redactor.redact(texts))
        assert {find.label for text in redacted for find in text.finds} <= {*PRESETS[OPENAI].labels.values()}
        assert any(text.finds for text in redacted)
        assert not any(text.failed_closed for text in redacted)
        assert [next(iter(redactor.redact([text]))) for text in texts] == redacted


def test_a_preset_reads_its_revision_from_the_cache_of_the_hub(tiny, tmp_path, patch):
    patch.constant(
        "huggingface_hub.constants", "HF_HUB_CACHE", str(tmp_path / "hub"), read_by="huggingface_hub.file_download"
    )
    commit = PRESETS[OPENAI].revision
    shutil.copytree(tiny, tmp_path / "hub" / "models--openai--privacy-filter" / "snapshots" / commit)
    assert RedactConfig(policies=(OPENAI,)).keyed("redact")["token_classifier_commit"] == commit
    texts = ["call mary at acme in paris"]
    with reticent.Redactor([OPENAI]) as cached, reticent.Redactor([OPENAI], token_classifier=str(tiny)) as folder:
        assert list(cached.redact(texts)) == list(folder.redact(texts))
    other = tmp_path / "hub" / "models--nvidia--gliner-PII"
    (other / "snapshots" / ("d" * 40)).mkdir(parents=True)
    (other / "refs").mkdir()
    (other / "refs" / "main").write_text("d" * 40)
    (other / "snapshots" / ("d" * 40) / "gliner_config.json").write_text("{}")
    assert RedactConfig(policies=(NVIDIA,)).keyed("redact")["gliner_commit"] == "d" * 40
    assert folder_of("gliner", NVIDIA, None) == other / "snapshots" / ("d" * 40)


def test_all_labels_together_can_reach_the_threshold(tiny):
    options = {"token_classifier": str(tiny), "token_classifier_threshold": 0.6}
    words = ["call", "mary", "jones", "in", "paris", "at", "acme", "now"]
    starts = [sum(len(w) + 1 for w in words[:i]) for i in range(len(words))]
    text = Sentence(" ".join(words), starts, [s + len(w) for s, w in zip(starts, words, strict=True)])

    def masked(aggregation):
        policy = make_policy(
            PolicyOptions(name="token_classifier", token_classifier_aggregation=aggregation, **options)
        )
        scores, _ = policy._reader.scores(text)
        return {i for s in policy.find(text) for i in range(s.start_token, s.end_token)}, scores

    alone, _ = masked("label")
    together, scores = masked("any")
    assert alone <= together
    assert together == {i for i, score in enumerate(scores[""]) if score >= 0.6} | alone
    assert scores[""] == pytest.approx([sum(v[i] for k, v in scores.items() if k) for i in range(len(words))], abs=1e-4)
