"""Detectors that are trained here: what they learn from, noise, thresholds, and the folder they leave."""

import json
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.simple_offsets import words_of
from support.tiny_token_classifier import write_model

from pipelines.errors import ConfigError, InputError
from pipelines.policies.detectors.token_encoder import EncoderReader
from pipelines.policies.detectors.token_spacy import SpacyReader
from pipelines.policies.detectors.trained_folder import DESCRIPTION
from pipelines.policies.learning.detector import train_detector
from pipelines.policies.learning.examples import NOISES, Example, add_noise, make_example, read_conll, sentences_of
from pipelines.policies.learning.names import draw_name
from pipelines.policies.learning.recall import choose_thresholds, measure_finds
from pipelines.policies.learning.spacy_ner import favour_entities, train_spacy
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence
from pipelines.policies.registry import make_policy

NAMES = ["mary", "jones"]
FRAMES = ["call {} now", "in paris {} now", "acme call {}", "{} call at acme now"]


def examples(number, seed=0):
    rng = random.Random(seed)
    made = []
    for i in range(number):
        frame, name = rng.choice(FRAMES), rng.choice(NAMES)
        at = frame.index("{")
        made.append(make_example(frame.format(name) + f" {i}", [(at, at + len(name), "PER")]))
    return [*made, *(make_example(f"call in at acme now {i}", []) for i in range(number // 4))]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("base"), seed=1)


@pytest.fixture(scope="module")
def trained(base, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "detector"
    return out, train_detector(examples(120), out, base=str(base), epochs=16, noise=False, names=False, recall=0.95)


def test_conll_words_and_tags_become_text_and_spans():
    lines = "RT\tO\n@\tB-PER\nann\tB-PER\n:\tO\nJoe\tB-person\nRay\tI-person\nin\tO\nRome\tB-LOC\n\nhi\tO\n".splitlines(
        True
    )
    first, second = read_conll(lines, "a.conll")
    assert first.text == "RT @ann : Joe Ray in Rome"
    assert [(first.text[a:b], label) for a, b, label in first.spans] == [
        ("@ann", "PERSON"),
        ("Joe Ray", "PERSON"),
        ("Rome", "LOCATION"),
    ]
    assert second == Example("hi", ())
    with pytest.raises(InputError, match=r"a\.conll, line 2"):
        list(read_conll(["a O\n", "untagged\n"], "a.conll"))


def test_overlapping_spans_and_labels_without_a_letter():
    assert make_example("abc def", [(0, 3, "per"), (0, 7, "org"), (4, 7, "LOC")]).spans == ((0, 7, "ORG"),)
    with pytest.raises(InputError, match="must be like PERSON"):
        make_example("abc", [(0, 1, "名")])


@given(st.integers(0, 10**6), st.booleans())
@example(672667, False)  # a typo drops the last letter of the second secret, and of the word before the first
def test_noise_never_moves_a_span_off_its_secret(seed, with_names):
    """Noise drops letters anywhere, the last ones of a secret too; brackets it leaves, so they show the borders."""
    text = "don't tell [<Mary O'Neill>] of {(Saint Ives)}, ok?"
    marked = [(text.index("<"), text.index(">") + 1, "PERSON"), (text.index("("), text.index(")") + 1, "LOC")]
    made = add_noise(make_example(text, marked), random.Random(seed), draw_name if with_names else None)
    assert [label for *_, label in made.spans] == ["PERSON", "LOCATION"]
    (first, first_end, _), (second, second_end, _) = made.spans
    assert made.text[first:first_end].strip() == made.text[first:first_end] != ""
    assert made.text[first - 1] + made.text[first_end] == "[]"
    assert made.text[second - 1 : second + 1] + made.text[second_end - 1 : second_end + 1] == "{()}"
    if not with_names:
        assert made.text[first] + made.text[first_end - 1] == "<>"


def test_every_kind_of_noise_changes_some_text_and_keeps_words():
    text = "don't ask Anna about internet problems please"
    made = {noise(random.Random(seed), text) for noise in NOISES for seed in range(5)}
    assert text in made
    assert text.lower() in made
    assert "dont ask Anna about internet problems please" in made
    assert any("#" in t for t in made)
    assert all(abs(len(t.split()) - 7) <= 1 for t in made)


def test_names_are_of_many_kinds_and_follow_the_seed():
    made = [draw_name(random.Random(seed)) for seed in range(200)]
    assert made == [draw_name(random.Random(seed)) for seed in range(200)]
    assert len(set(made)) > 150
    assert any(" " in name for name in made)


def test_an_encoder_learns_and_its_folder_is_a_policy_at_once(trained):
    out, told = trained
    assert told["labels"] == ["PERSON"]
    assert told["held_out"]["token_recall"] >= 0.95
    assert told["held_out"]["token_precision"] > 0.9
    policy = make_policy(PolicyOptions(name="token_classifier", token_classifier=str(out)))
    text = "call jones now"
    assert {s[:3] for s in policy.find(Sentence(text, *words_of(text)))} == {(1, 2, "PERSON")}
    assert policy._reader.thresholds == told["thresholds"]
    card = (out / "README.md").read_text()
    assert "do not publish it" in card
    assert "mary" not in json.dumps(told)
    assert [path.name for path in out.parent.iterdir()] == [out.name]  # nothing half-written is left


def test_the_same_seed_gives_the_same_weights_and_another_one_others(base, tmp_path):
    few = examples(30)
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        train_detector(few, tmp_path / name, base=str(base), epochs=1, seed=seed)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in "abc"]
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]
    described = [json.loads((tmp_path / name / DESCRIPTION).read_text()) for name in "ab"]
    assert described[0] == described[1]


def test_a_spacy_pipeline_learns_and_leans_to_recall(tmp_path):
    told = train_detector(examples(40), tmp_path / "s", kind="spacy", epochs=3, noise=False, names=False, recall=0.99)
    assert told["held_out"]["token_recall"] >= 0.99
    assert told["thresholds"] == {}
    policy = make_policy(PolicyOptions(name="token_classifier", token_classifier=str(tmp_path / "s")))
    assert policy.labels == {"PERSON"}


@pytest.mark.slow
def test_leaning_finds_more(tmp_path):
    nlp = train_spacy(examples(30), epochs=1, noise=False)
    judged = [sentence for sentence, _ in sentences_of(examples(30, seed=2))]
    found = []
    for _ in range(3):
        nlp.to_disk(tmp_path / "s")
        reader = SpacyReader(tmp_path / "s", {})
        found.append(sum(end - start for s in judged for start, end, *_ in reader.find(s)))
        favour_entities(nlp, 4.0)
    assert found[0] < found[2]
    assert found == sorted(found)


def test_thresholds_are_the_highest_that_reach_the_recall(trained):
    reader = EncoderReader(str(trained[0]), None, labels={}, threshold=None, thresholds={}, described={}, device="cpu")
    judged = list(sentences_of(examples(40, seed=9)))
    for recall in (0.3, 0.8, 1.0):
        reader.thresholds = choose_thresholds(reader, judged, recall)
        figures = measure_finds([reader.find(sentence) for sentence, _ in judged], judged)
        assert figures["recall_by_label"]["PERSON"] >= recall
    reader.thresholds = {"PERSON": choose_thresholds(reader, judged, 0.3)["PERSON"] + 1e-5}
    figures = measure_finds([reader.find(sentence) for sentence, _ in judged], judged)
    assert figures["recall_by_label"]["PERSON"] < 0.3


def test_what_cannot_be_trained_is_refused_and_leaves_no_folder(base, tmp_path):
    with pytest.raises(InputError, match="at least 20 texts; there are 3"):
        train_detector(examples(2) + examples(1), tmp_path / "x", base=str(base))
    with pytest.raises(InputError, match="nothing to learn"):
        train_detector([Example(f"text {i}", ()) for i in range(30)], tmp_path / "x", base=str(base))
    with pytest.raises(ConfigError, match="cannot be loaded"):
        train_detector(examples(30), tmp_path / "x", base=str(tmp_path))
    with pytest.raises(ConfigError, match="has 2 layers"):
        train_detector(examples(30), tmp_path / "x", base=str(base), layers=3)
    with pytest.raises(ConfigError, match=r"cannot load a tokeniser for it"):
        train_detector(examples(30), tmp_path / "x", kind="spacy", language="qq")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="something else"):
        train_detector(examples(30), tmp_path / "full", base=str(base))
