"""Small files for token classifiers: what is read is what was reduced, within the rounding."""

import pytest
import torch
from support.tiny_token_classifier import write_model
from transformers import AutoModelForTokenClassification, AutoTokenizer

from pipelines.errors import ConfigError
from pipelines.policies.detectors.token_compact import COMPACT, load_compact, low_rank, save_compact
from pipelines.policies.options import PolicyOptions
from pipelines.policies.registry import make_policy


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    whole = write_model(tmp_path_factory.mktemp("whole"), seed=4)
    model = AutoModelForTokenClassification.from_pretrained(whole).eval()
    before = model.bert.embeddings.word_embeddings.weight.detach().clone()
    low_rank(24)(model)
    folder = tmp_path_factory.mktemp("compact")
    save_compact(model, AutoTokenizer.from_pretrained(whole), folder, 24)
    return whole, folder, model, before


def test_embeddings_get_the_rank_and_the_nearest_one(written):
    _, _, model, before = written
    after = model.bert.embeddings.word_embeddings.weight.detach()
    assert torch.linalg.matrix_rank(after, rtol=1e-3) <= 24
    best = torch.linalg.svdvals(before)[24:].square().sum().sqrt()
    assert (after - before).norm() <= 1.05 * best + 0.02 * before.norm()


def test_what_is_read_is_the_model_that_was_written(written):
    _, folder, model, _ = written
    tokenizer, read = load_compact(folder)
    stored = model.state_dict()
    for name, value in read.state_dict().items():
        assert torch.allclose(value, stored[name], atol=0.02 * float(stored[name].abs().max()) + 1e-6), name
    ids = torch.tensor([tokenizer("call Mary Jones, x9@acme")["input_ids"]])
    assert torch.allclose(model(ids).logits, read(ids).logits, atol=0.02)


def test_texts_are_cut_as_before(written):
    whole, folder, *_ = written
    tokenizer, _ = load_compact(folder)
    old = AutoTokenizer.from_pretrained(whole)
    for text in ("call Mary Jones in Paris now", "x9@acme 名前!", ""):
        assert tokenizer(text)["input_ids"] == old(text)["input_ids"]


def test_files_that_do_not_fit_together_are_refused(written, tmp_path):
    _, folder, *_ = written
    made = make_policy(PolicyOptions(name="token_classifier", token_classifier=str(folder)))
    assert made.labels == {"PERSON", "LOCATION", "UNREAD"}
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / COMPACT).write_bytes((folder / COMPACT).read_bytes()[:5_000])
    with pytest.raises(ConfigError, match="do not fit together"):
        make_policy(PolicyOptions(name="token_classifier", token_classifier=str(tmp_path)))
