"""``reticent train-detector``: from files, from gold labels of a corpus, and from what reviewers marked."""

import json
import os
import re

import pytest
from support.tiny_token_classifier import write_model
from typer.testing import CliRunner

from flows.arguments import app
from flows.commands.init import write_starter
from flows.commands.review import open_items
from flows.commands.train_detector import _of_gold, _of_reviews, detector_document, detector_text
from flows.running.fetching import fetch
from pipelines.corpus.tables import SENTENCES
from pipelines.errors import ConfigError, InputError
from pipelines.miss_rate.learnt import LEARNT, read_learnt
from pipelines.miss_rate.review_log import Decision, DecisionLog, Secret, sentence_key
from pipelines.settings.loading import load_settings
from pipelines.settings.redact import RedactConfig
from pipelines.store.objects.reviews import reviews_path


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("base"), seed=1)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    config = write_starter(tmp_path_factory.mktemp("project"), [], dialogues=25, seed=3)
    text = re.sub(r"(?m)^policies = .*$", 'policies = ["digits"]', config.read_text(), count=1)
    config.write_text(re.sub(r"(?m)^conservative = .*$", "", text))
    return config


def test_json_lines_and_conll_files_train_through_the_command_line(base, tmp_path):
    rows = [{"text": f"call mary now {i}", "spans": [{"start": 5, "end": 9, "label": "PER"}]} for i in range(30)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "b.conll").write_text("".join(f"in O\nparis B-LOC\n{i} O\n\n" for i in range(20)))
    out = tmp_path / "detector"
    given = ["--data", str(tmp_path / "a.jsonl"), "--data", str(tmp_path / "b.conll"), "--base", str(base)]
    done = CliRunner().invoke(app, ["train-detector", *given, "--out", str(out), "--epochs", "1", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["labels"] == ["LOCATION", "PERSON"]
    assert told["folder"] == str(out)
    (tmp_path / "in.txt").write_text("call mary now\n")
    policy = ["redact", "--policy", "token_classifier", "--token-classifier", str(out), str(tmp_path / "in.txt")]
    assert CliRunner().invoke(app, policy).exit_code == 0


def test_bad_records_are_named_and_not_quoted(base, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "secret words", "spans": [{"start": 0, "end": 99, "label": "A"}]}\n')
    with pytest.raises(InputError, match=r"a\.jsonl, record 1: .* must lie inside its text") as told:
        detector_document([str(tmp_path / "a.jsonl")], None, None, tmp_path / "x", os.environ, base=str(base))
    assert "words" not in str(told.value)
    with pytest.raises(ConfigError, match="name what to learn from"):
        detector_document([], None, None, tmp_path / "x", os.environ)
    done = CliRunner().invoke(app, ["train-detector", "--out", str(tmp_path / "x"), "--kind", "crf"])
    assert done.exit_code != 0
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_gold_labels_of_a_corpus_are_learnt_sentence_by_sentence(project):
    noted = {}
    learnt = list(_of_gold(project, os.environ, noted))
    ((_, keys),) = noted.items()
    assert len(keys) == len({example.text for example in learnt})
    assert len(learnt) > 100
    labels = {label for example in learnt for *_, label in example.spans}
    assert {"PERSON", "PHONE"} <= labels
    assert any(not example.spans for example in learnt)


@pytest.mark.slow
def test_what_reviewers_marked_is_learnt_and_nothing_else(project):
    with pytest.raises(InputError, match="run `reticent review` first"):
        _of_reviews(project, os.environ, {})
    opened = open_items(project, os.environ, asked="sample")
    first, second = opened.items[:2]
    secret = Secret(first.starts[0], first.ends[0], "PERSON")
    common = {"at": "2026-11-22T00:00:00+00:00", "reviewer": "ann"}
    log = DecisionLog(reviews_path(opened.roots))
    log.append(
        [Decision(id="1", key=first.key, secrets=(secret,), **common), Decision(id="2", key=second.key, **common)]
    )
    noted = {}
    learnt = {example.text: example.spans for example in _of_reviews(project, os.environ, noted)}
    assert noted == {opened.roots.secret: set(opened.drawn)}  # all of the sample, copies and unreviewed ones too
    assert learnt == {first.text: ((secret.start, secret.end, "PERSON"),), second.text: ()}
    log.append([Decision(id="3", key=second.key, secrets=(Secret(0, 1, "ID"),), **{**common, "reviewer": "bob"})])
    assert {example.text for example in _of_reviews(project, os.environ, {})} == {first.text}  # they disagree
    second_draw = {**os.environ, "RETICENT__SAMPLE__DRAW": "2"}
    noted = {}
    assert {example.text for example in _of_reviews(project, second_draw, noted)} >= {first.text}
    assert opened.drawn <= noted[opened.roots.secret]


@pytest.mark.slow
def test_a_detector_says_which_sentences_of_the_store_it_learnt_from(project, tmp_path):
    out = tmp_path / "detector"
    detector_document([], project, None, out, os.environ, kind="spacy", epochs=1)
    config = RedactConfig(policies=("digits", "token_classifier"), token_classifier=str(out))
    assert config.learnt_from() == (out / LEARNT,)
    roots = open_items(project, os.environ, asked="sample").roots
    assert len(read_learnt(config.learnt_from(), roots.secret)) > 100


@pytest.mark.parametrize("command", ["train-policy", "train-detector"])
def test_texts_of_a_projects_corpus_are_noted_as_its_sentences(command, base, tmp_path):
    """Each cut is known: the corpus has sentences of the first file, and turns of the second without their tags."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    texts = ["Ann came. She left at 9.", "USR: call Bob. Now\nSYS: ok then"]
    for number, text in enumerate([*texts, "Nobody learnt this."]):
        (corpus / f"{number}.txt").write_text(text)
    config = tmp_path / "reticent.toml"
    config.write_text(f'[store]\nprivate_root = "{tmp_path}/private"\npublic_root = "{tmp_path}/public"\n')
    spans = [{"start": 0, "end": 3, "label": "A"}]
    rows = [
        {"text": text, "domain": "xy"[number % 2], "spans": spans}
        for number, text in enumerate([*texts, *(f"one more {i}" for i in range(40))])
    ]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "model"
    given = ["--data", str(tmp_path / "data.jsonl"), "--out", str(out), "--base", str(base), "--epochs", "1"]
    done = CliRunner().invoke(app, [command, *given, "--project", str(config)])
    assert done.exit_code == 0, done.output
    name = "classifier" if command == "train-policy" else "token_classifier"
    settings = RedactConfig(policies=(name,), **{name: str(out)})
    assert settings.learnt_from() == (out / LEARNT,)
    session, keys = fetch(load_settings(config, os.environ), "split")
    ((_, key),) = keys["split"]
    secret = session.roots.secret
    known = read_learnt(settings.learnt_from(), secret)
    sentences = session.roots.private_files("split", key).table(SENTENCES).rows(["text"])
    learnt = {row["text"]: sentence_key(secret, row["text"]) in known for row in sentences}
    assert learnt == {
        "Ann came.": True,
        "She left at 9.": True,
        "call Bob. Now": True,
        "ok then": True,
        "Nobody learnt this.": False,
    }
    assert CliRunner().invoke(app, [command, *given]).exit_code == 0
    assert settings.learnt_from() == ()  # another model, of texts that are of no project


@pytest.mark.parametrize(("precision", "is_warned"), [(0.0658, True), (None, True), (0.9, False)])
def test_a_detector_that_masks_nearly_all_is_warned_of(precision: float | None, is_warned: bool) -> None:
    held_out = {"num_texts": 8, "token_recall": 1.0, "token_precision": precision, "masked_share": 0.9}
    document = {"num_training_texts": 34, "folder": "x", "held_out": {**held_out, "recall_by_label": {}}}
    assert ("warning: most of its masks" in detector_text(document)) is is_warned
