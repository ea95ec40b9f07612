"""Token-classification models as a policy: labels, windows, fixed shapes, and what is refused."""

import json
import random
import re

import pytest
import spacy
import torch
from support.simple_offsets import words_of
from support.tiny_token_classifier import write_model, write_tokenizer

from pipelines.errors import ConfigError
from pipelines.policies.detectors.token_encoder import EncoderReader
from pipelines.policies.detectors.token_labels import group_classes
from pipelines.policies.detectors.trained_folder import DESCRIPTION, detector_digest
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.judge import FAILED_LABEL, Request
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence
from pipelines.policies.registry import make_policy
from pipelines.settings.redact import RedactConfig

KNOWN = {"mary": 1, "jones": 2, "paris": 3}


def sentence(text):
    """Tokens are what white space parts."""
    found = [match.span() for match in re.finditer(r"\S+", text)]
    return Sentence(text, [start for start, _ in found], [end for _, end in found])


def policy(folder, **options):
    return make_policy(PolicyOptions(name="token_classifier", token_classifier=str(folder), **options))


def found(made, text):
    return {(s.start_token, s.end_token, s.label) for s in made.find(sentence(text))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"), words=KNOWN)


@pytest.fixture(scope="module")
def random_folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("random"), seed=3)


def test_classes_of_a_label_count_together_and_sub_words_mask_whole_tokens(folder):
    made = policy(folder)
    assert made.labels == {"PERSON", "LOCATION", "UNREAD"}
    assert found(made, "call Mary Jones in Paris now") == {(1, 3, "PERSON"), (4, 5, "LOCATION")}
    assert found(made, "call x-mary-x@acme.at now") == {(1, 2, "PERSON")}
    assert found(made, "") == set()
    # B-PER and I-PER share the probability: neither alone reaches what they reach together.
    reader = made._reader
    scores, _ = reader.scores(sentence("call mary now"))
    assert scores["PERSON"][1] > 0.9
    assert scores["PERSON"][0] < 0.5


def test_thresholds_and_labels_of_the_settings(folder):
    text = "call mary in paris"
    told = policy(folder, token_classifier_labels={"PER": "NAME", "LOC": "O"})
    assert found(told, text) == {(1, 2, "NAME")}
    assert found(policy(folder, token_classifier_threshold=0.9999), text) == set()
    sure = policy(folder, token_classifier_thresholds={"LOCATION": 0.9999})
    assert found(sure, text) == {(1, 2, "PERSON")}
    assert len(found(policy(folder, token_classifier_threshold=1e-6), text)) == 2  # one run of each label
    assert {s.score for s in policy(folder, token_classifier_threshold=1e-6).find(sentence(text))} <= {
        round(s.score, 6) for s in policy(folder, token_classifier_threshold=1e-6).find(sentence(text))
    }


@pytest.mark.parametrize(
    ("classes", "groups"),
    [
        (["O", "B-PER", "I-PER"], {"PERSON": [1, 2]}),
        (["O", "B-PER", "I-PER", "L-PER", "U-PER"], {"PERSON": [1, 2, 3, 4]}),
        (["S_GPE", "E_GPE", "O"], {"GPE": [0, 1]}),
        (["PERSON", "O", "private_email"], {"PERSON": [0], "PRIVATE_EMAIL": [2]}),
    ],
)
def test_bio_bilou_and_plain_labels(classes, groups):
    assert group_classes(dict(enumerate(classes)), {}) == groups


def test_labels_without_names_or_without_an_outside_are_refused():
    with pytest.raises(ConfigError, match="LABEL_0"):
        group_classes({0: "LABEL_0", 1: "LABEL_1"}, {})
    assert group_classes({0: "LABEL_0", 1: "LABEL_1"}, {"LABEL_0": "O", "LABEL_1": "PERSON"}) == {"PERSON": [1]}
    with pytest.raises(ConfigError, match="no entity"):
        group_classes({0: "B-PER", 1: "I-PER"}, {})
    with pytest.raises(ConfigError, match="nothing is masked"):
        group_classes({0: "O", 1: "B-PER"}, {"PER": "O"})
    with pytest.raises(ConfigError, match=r"no label 'PRE'.*PER"):
        group_classes({0: "O", 1: "B-PER"}, {"PRE": "PERSON"})
    with pytest.raises(ConfigError, match="gives no label of ours"):
        group_classes({0: "O", 1: "B-名"}, {})


def test_text_of_any_length_is_read_in_windows_that_overlap(folder):
    rng = random.Random(1)
    words = [rng.choice(["call", "in", "at", "now", "mary", "paris", "acme-acme-acme"]) for _ in range(400)]
    made = policy(folder)
    text = " ".join(words)
    names = {i for s, e, label in found(made, text) if label == "PERSON" for i in range(s, e)}
    assert names == {i for i, word in enumerate(words) if word == "mary"}
    windows = made._reader.windows(text)
    assert len(windows) > 10
    assert all(len(ids) <= 64 for ids, _ in windows)
    read = {place for _, offsets in windows for place in offsets if place != (0, 0)}
    assert {c for a, b in read for c in range(a, b)} == {i for i, c in enumerate(text) if not c.isspace()}
    assert found(made, "mary" * 500) == {(0, 1, "UNREAD")}  # more letters than word pieces are cut of


@pytest.fixture
def inexact(patch):
    """A machine on which more rows at once run other kernels."""
    exact = EncoderReader._probabilities
    patch(
        EncoderReader, "_probabilities", lambda self, batch, shape: exact(self, batch, shape) + 1e-4 * (len(batch) > 1)
    )


@pytest.mark.parametrize("machine", ["this", "inexact", "always 4 rows"])
def test_company_in_a_batch_flips_no_decision(random_folder, machine, request):
    if machine == "inexact":
        request.getfixturevalue(machine)
    rng = random.Random(5)
    words = ["mary", "call", "acme", "x9", "in", "paris"]
    texts = [" ".join(rng.choices(words, k=rng.choice([1, 6, 7, 8, 60, 120]))) for _ in range(30)]
    made = policy(random_folder, token_classifier_threshold=0.2)
    made._reader._rows = 4 if machine == "always 4 rows" else None
    alone = [made._reader.scores(sentence(t)) for t in texts]
    for order in (range(30), reversed(range(30)), rng.sample(range(30), 11)):
        part = list(order)
        made.prepare([sentence(texts[i]) for i in part])
        assert [made._reader.scores(sentence(texts[i])) for i in part] == [alone[i] for i in part]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        made.prepare([])
        assert [made._reader.scores(sentence(t)) for t in texts] == alone
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_equal_windows_are_read_in_batches_and_what_was_prepared_is_not_read_again(random_folder, patch):
    texts = [f"call {word} in paris" for word in ("mary", "jones", "acme", "at", "now", "in", "call", "x", "y", "z")]
    made = policy(random_folder)
    read = []
    once = EncoderReader._probabilities
    patch(
        EncoderReader, "_probabilities", lambda self, batch, *rest: read.append(len(batch)) or once(self, batch, *rest)
    )
    made.prepare([sentence(text) for text in texts])
    made.prepare([sentence(text) for text in texts])
    assert sorted(read) == sorted([*[1] * 8, 8, *[1] * 2, 2, 8, 2, 8, 2])  # tried, then read twice
    for text in texts:
        made.find(sentence(text))
    assert len(read) == 16
    made.find(sentence("call mary"))
    assert read[-1] == 1
    assert len(made._reader._seen) == len(texts)  # a find by itself leaves nothing behind


def test_windows_without_padding_share_no_batch_with_others(random_folder, patch):
    """A mask of ones is dropped by some models, and then another kernel runs: company would decide which."""
    made = policy(random_folder)
    once = EncoderReader._probabilities
    kinds = []
    patch(
        EncoderReader,
        "_probabilities",
        lambda self, batch, shape: kinds.append({len(i) == shape for i in batch}) or once(self, batch, shape),
    )
    made.prepare(
        [sentence(text) for name in ("mary", "jones") for text in (f"call {name} in paris now at", f"{name} x")]
    )
    assert sorted(map(tuple, kinds)) == [(False,)] * 4 + [(True,)] * 4


@pytest.mark.slow
def test_the_same_verdicts_for_any_number_of_workers(random_folder):
    texts = [f"call mary {i} in paris" for i in range(40)]
    spec = RedactorSpec(
        policies=("token_classifier",),
        options={"token_classifier": str(random_folder), "token_classifier_threshold": 0.25},
        stabilise=True,
    )
    requests = [Request(text, *words_of(text)) for text in texts]
    one = Redactor.from_spec(spec).judge(requests)
    assert one == [Redactor.from_spec(spec).judge([request])[0] for request in requests]
    with Redactor.from_spec(spec, 2) as redactor:
        assert redactor.judge(requests) == one
    assert any(verdict.spans for verdict in one)


def test_words_that_the_model_cannot_read_are_masked_and_emojis_are_not(folder):
    assert found(policy(folder), "call 名前 at \U0001f600 now") == {(1, 2, "UNREAD")}


def test_what_is_no_number_fails_closed(tmp_path):
    folder = write_model(tmp_path, words=KNOWN)
    spec = RedactorSpec(policies=("token_classifier",), options={"token_classifier": str(folder)})
    redactor = Redactor.from_spec(spec)
    with torch.no_grad():
        next(iter(redactor._judge._policies.values()))._reader._model.classifier.bias.fill_(float("nan"))
    verdict = redactor.judge([Request("call mary now", *words_of("call mary now"))])[0]
    assert verdict.failed_closed
    assert verdict.spans[0][:3] == (0, 3, FAILED_LABEL)


def test_bad_models_are_refused_before_any_work(folder, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"set redact\.token_classifier"):
        make_policy(PolicyOptions(name="token_classifier"))
    with pytest.raises(ConfigError, match="there is no folder"):
        policy(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="cannot be loaded"):
        policy(tmp_path / "empty")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ConfigError, match="hf download nobody/nothing"):
        policy("nobody/nothing")
    with pytest.raises(ConfigError, match="and to no folder"):
        policy(folder, token_classifier_revision="main")
    with pytest.raises(ConfigError, match=r"finds no 'PRESON'.*PERSON"):
        policy(folder, token_classifier_thresholds={"PRESON": 0.4})
    from transformers import BertConfig, BertModel

    headless = tmp_path / "headless"
    write_tokenizer(headless)
    BertModel(BertConfig(vocab_size=99, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)).save_pretrained(
        headless
    )
    with pytest.raises(ConfigError, match="no trained token classifier"):
        policy(headless)
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="sees no GPU"):
            policy(folder, token_classifier_device="cuda")


def test_a_description_holds_thresholds_and_guards_the_weights(tmp_path):
    folder = write_model(tmp_path / "m", words=KNOWN)
    described = {"kind": "detector", "thresholds": {"LOCATION": 0.9999}, "weights_sha256": detector_digest(folder)}
    (folder / DESCRIPTION).write_text(json.dumps(described))
    assert found(policy(folder), "mary in paris") == {(0, 1, "PERSON")}
    (folder / DESCRIPTION).write_text(json.dumps(described | {"weights_sha256": "0"}))
    with pytest.raises(ConfigError, match="are not those"):
        policy(folder)
    (folder / DESCRIPTION).write_text(json.dumps({"domains": ["a"]}))
    with pytest.raises(ConfigError, match="another kind of model"):
        policy(folder)
    (folder / DESCRIPTION).write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        policy(folder)


def test_a_spacy_pipeline_in_a_folder(tmp_path):
    nlp = spacy.blank("en")
    ner = nlp.add_pipe("ner")
    ner.add_label("PER")
    nlp.initialize()
    nlp.to_disk(tmp_path / "spacy")
    made = policy(tmp_path / "spacy")
    assert made.labels == {"PERSON"}
    assert all(span.label == "PERSON" and span.score == 1.0 for span in made.find(sentence("call mary jones now")))
    with pytest.raises(ConfigError, match="gives no probabilities"):
        policy(tmp_path / "spacy", token_classifier_threshold=0.2)
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ConfigError, match="no component 'ner'"):
        policy(tmp_path / "blank")


def test_keys_hold_the_files_of_a_model_and_not_its_place(folder, tmp_path):
    one = RedactConfig(policies=("token_classifier",), token_classifier=str(folder))
    elsewhere = RedactConfig(policies=("token_classifier",), token_classifier=str(tmp_path))
    assert one.keyed() == elsewhere.keyed()
    assert one.keyed("estimate")["token_classifier"] == "a folder"
    assert str(folder / "model.safetensors") in one.data_files()
    hub = RedactConfig(policies=("token_classifier",), token_classifier="owner/name")
    assert hub.keyed()["token_classifier_commit"] is None
    assert hub.data_files() == ()
    assert RedactConfig().data_files() == ()
    with pytest.raises(ValueError, match="the policy 'token_classifier' needs the setting 'token_classifier'"):
        RedactConfig(policies=("token_classifier",))
    with pytest.raises(ValueError, match="absolute folder"):
        RedactConfig(policies=("token_classifier",), token_classifier="./here")
    with pytest.raises(ValueError, match="between 0 and 1"):
        RedactConfig(policies=("token_classifier",), token_classifier="a/b", token_classifier_thresholds={"A": 1.0})
