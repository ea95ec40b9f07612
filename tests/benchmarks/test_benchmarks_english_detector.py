"""The benchmark of the small English detector: figures counted by hand; thresholds chosen without the judged set."""

import english_detector
from train_english_detector import parted

from pipelines.policies.learning.examples import Example

FIGURES = {0.4: (0.9, 0.2), 0.5: (0.85, 0.5), 0.6: (0.8, 0.85), 0.7: (0.5, 0.9), 0.8: (0.3, 1.0), 0.9: (0.1, 1.0)}


def test_figures_of_a_text_counted_by_hand():
    text = "my name is Ann Lee, order 1234567890123 from Bo"
    secrets = [(11, 18, "PERSON"), (45, 47, "PERSON"), (0, 2, "LOCATION")]
    found = english_detector.score([(text, secrets)], ("identifiers",), None)
    assert (found["num_tokens_of_persons"], found["person_recall"], found["person_precision"]) == (3, 0.667, 1.0)
    assert (found["recall"], found["precision"]) == (0.5, 0.667)  # the number is labelled by nobody


def test_a_held_out_fifth_shares_no_text_with_the_others():
    held_out, learnt = parted([Example(f"text {i % 50}", ()) for i in range(80)])
    assert (len(held_out), len(learnt)) == (10, 40)
    assert {e.text for e in held_out}.isdisjoint(e.text for e in learnt)


def test_a_threshold_is_chosen_by_f2_on_what_was_held_out(tmp_path, patch, capsys):
    (tmp_path / "ner").mkdir()
    lines = "".join(f"hi O\n{i} O\n@ O\nann{i} O\n\n" for i in range(10))
    for part in ("a_train", "a_dev"):
        (tmp_path / "ner" / f"{part}.conll").write_text(lines)
    sizes = []

    def score(texts, policies, folder, threshold):
        sizes.append(len(texts))
        assert all(label == "PERSON" for _, spans in texts for *_, label in spans)  # handles, as the recipe has them
        assert policies == ("token_classifier",)
        recall, precision = FIGURES[threshold]
        return {"person_recall": recall, "person_precision": precision}

    patch(english_detector, "score", score)
    english_detector.choose(tmp_path, tmp_path, "a_train")
    english_detector.choose(tmp_path, tmp_path, "a_dev")
    assert sizes == [2] * 6 + [10] * 6
    assert capsys.readouterr().out.splitlines()[-1] == "highest F2: 0.6"
