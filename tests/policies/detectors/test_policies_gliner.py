"""GLiNER models as a policy, with one of random weights: windows, offsets, and what fails closed."""

import itertools
import json
import re

import pytest
import torch
from support.tiny_token_classifier import LETTERS, tiny_bert, write_tokenizer

from pipelines.errors import ConfigError
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence
from pipelines.policies.registry import make_policy
from pipelines.settings.redact import RedactConfig

ASKED = {"person": "PERSON", "city": "LOCATION", "verb": "O"}


def sentence(text):
    """Tokens are what white space parts."""
    found = [match.span() for match in re.finditer(r"\S+", text)]
    return Sentence(text, [start for start, _ in found], [end for _, end in found])


def policy(folder, threshold=0.3, labels=ASKED):
    return make_policy(
        PolicyOptions(name="gliner", gliner=str(folder), gliner_labels=labels, gliner_threshold=threshold)
    )


@pytest.fixture(scope="module")
def folder2(tmp_path_factory):
    gliner2 = pytest.importorskip("gliner2", reason="pip install reticent[gliner2]; it is not in requirements.lock")
    made = tmp_path_factory.mktemp("gliner2")
    tokenizer = write_tokenizer(made)
    torch.manual_seed(0)
    config = gliner2.ExtractorConfig(model_name=str(made), max_width=4)
    encoder = tiny_bert(tokenizer, layers=1)
    gliner2.GLiNER2(config, encoder_config=encoder, tokenizer=tokenizer).save_pretrained(str(made))
    return made


@pytest.fixture(params=["gliner", "gliner2"])
def either(request):
    return request.getfixturevalue({"gliner": "folder", "gliner2": "folder2"}[request.param])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    gliner = pytest.importorskip("gliner", reason="pip install reticent[gliner]; it is not in requirements.lock")
    made = tmp_path_factory.mktemp("gliner")
    encoder = tiny_bert(write_tokenizer(made), layers=1)
    config = gliner.GLiNERConfig(
        model_name=str(made), hidden_size=32, max_len=40, max_width=4, encoder_config=encoder.to_dict(), dropout=0.0
    )
    torch.manual_seed(0)
    gliner.GLiNER.from_config(config, backbone_from_pretrained=False).save_pretrained(made)
    return made


@pytest.fixture
def finds_mary(folder, patch):
    """A policy whose model finds every "mary", and says where in what it was shown."""
    made = policy(folder)
    shown = []

    def inference(texts, labels, **options):
        assert set(labels) == set(ASKED)
        shown.extend(texts)
        return [
            [{"start": m.start(), "end": m.end(), "label": "person", "score": 0.9} for m in re.finditer("mary", text)]
            for text in texts
        ]

    patch(made._model.model, "inference", inference)
    return made, shown


def test_what_the_model_finds_is_masked_by_whole_tokens_and_our_labels(folder):
    text = "call mary-jones in paris now"
    made = policy(folder)
    answers = made._model.model.predict_entities(text, list(ASKED), threshold=0.3, flat_ner=False, multi_label=True)
    one = sentence(text)
    expected = {(*one.widen(a["start"], a["end"]), ASKED[a["label"]]) for a in answers} - {None}
    assert {span[:3] for span in made.find(one)} == {e for e in expected if e[2] != "O"}
    assert {e[2] for e in expected} == {"PERSON", "LOCATION", "O"}  # random weights find much
    assert all(0.3 <= span.score <= 1 for span in made.find(one))
    assert made.find(one) == policy(folder).find(one)
    assert policy(folder, threshold=0.99).find(one) == []
    assert made.find(Sentence("", [], [])) == []


def test_text_of_any_length_is_read_to_the_last_token(finds_mary):
    made, shown = finds_mary
    words = ["call", "mary", "in", "paris"] * 60
    found = {i for span in made.find(sentence(" ".join(words))) for i in range(span.start_token, span.end_token)}
    assert found == {i for i, word in enumerate(words) if word == "mary"}
    assert all(made._fits(made._model.size_of(text)) for text in shown)
    assert len(shown) > 5


def test_a_token_that_is_too_long_is_masked_and_costs_its_neighbours_nothing(finds_mary):
    made, _ = finds_mary
    found = made.find(sentence(f"call mary {LETTERS * 3} mary"))
    assert [span[:3] for span in found] == [(1, 2, "PERSON"), (2, 3, "UNREAD"), (3, 4, "PERSON")]


def test_a_model_of_gliner2_is_read_like_one_of_gliner(folder2):
    made = policy(folder2)
    found = made.find(sentence("call mary-jones in paris"))
    assert {span.label for span in found} == {"PERSON", "LOCATION"}  # "verb" is asked for, and masks nothing
    assert all(0 <= span.start_token < span.end_token <= 4 and span.score >= 0.3 for span in found)
    assert policy(folder2, threshold=0.99).find(sentence("call mary")) == []
    assert [s[:3] for s in policy(folder2, threshold=0.99).find(sentence(f"a {LETTERS * 3} b"))] == [(1, 2, "UNREAD")]


def test_batches_change_no_find(either):
    words = ["call", "mary", "in", "paris", "at", "acme"]
    texts = [" ".join(chosen) for length in (2, 3) for chosen in itertools.permutations(words, length)]
    sentences = [sentence(text) for text in [*texts, " ".join(words * 20)]]
    alone = policy(either)
    expected = [alone.find(one) for one in sentences]
    together = policy(either)
    together.prepare(sentences)
    assert [together.find(one) for one in sentences] == expected
    assert any(expected)
    assert together._exact  # at least one batch was tried


def test_what_is_no_number_fails_closed(either):
    made = policy(either)
    with torch.no_grad():
        next(made._model.model.parameters()).fill_(float("nan"))
    with pytest.raises(ValueError, match="no number"):
        made.find(sentence("call mary"))


def test_bad_models_are_refused_before_any_work(folder, tmp_path):
    with pytest.raises(ConfigError, match=r"set redact\.gliner"):
        make_policy(PolicyOptions(name="gliner"))
    with pytest.raises(ConfigError, match="no gliner_config"):
        policy(tmp_path)
    (tmp_path / "gliner_config.json").write_text(json.dumps({"model_name": "nobody/nothing"}))
    with pytest.raises(ConfigError, match="cannot be loaded"):
        policy(tmp_path)
    with pytest.raises(ConfigError, match="name fewer"):
        policy(folder, labels={f"label {i}": "PERSON" for i in range(40)})


def test_keys_hold_the_files_of_the_model_and_not_its_place(tmp_path):
    (tmp_path / "weights.bin").write_text("x")
    settings = RedactConfig(policies=("gliner",), gliner=str(tmp_path))
    assert settings.data_files() == (str(tmp_path / "weights.bin"),)
    assert settings.keyed("redact")["gliner"] == "a folder"
    with pytest.raises(ValueError, match="absolute"):
        RedactConfig(policies=("gliner",), gliner="./here")
    with pytest.raises(ValueError, match="capitals"):
        RedactConfig(policies=("gliner",), gliner=str(tmp_path), gliner_labels={"person": "person"})
