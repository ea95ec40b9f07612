"""Metrics of generated text, against libraries and numbers worked out by hand."""

import importlib.util
import math
import random
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import ConfigError, InputError
from pipelines.settings.train import TrainConfig
from pipelines.training.scoring import text_metrics
from pipelines.training.scoring.ngrams import cider_d, ngrams, nist, normalised_words, word_f1
from pipelines.training.scoring.text_metrics import bert_score, bleu, rouge, score_texts, words_of

WORDS = ["the", "mill", "is", "a", "pub", "in", "area", "cheap"]
_SENTENCE = st.lists(st.sampled_from(WORDS), min_size=5, max_size=9)


@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(st.tuples(_SENTENCE, _SENTENCE), min_size=1, max_size=5))
def test_nist_is_nltks_where_each_sentence_has_one_reference(pairs):
    nltk_nist = pytest.importorskip("nltk.translate.nist_score")
    outputs, references = [p[0] for p in pairs], [[p[1]] for p in pairs]
    assert nist(outputs, references) == pytest.approx(nltk_nist.corpus_nist(references, outputs), abs=1e-9)


def test_nist_by_hand_with_two_references():
    # References "a b" and "a c": 4 words; counts a 2, b 1, c 1, ab 1, ac 1.
    # Output "a b": information of a log2(4/2) = 1, of b log2(4/1) = 2, of ab log2(2/1) = 1; length as expected.
    assert nist([["a", "b"]], [[["a", "b"], ["a", "c"]]]) == pytest.approx(3 / 2 + 1 / 1)
    # A word that occurs once in each reference is right once: the second "a" gains nothing.
    assert nist([["a", "a"]], [[["a", "b"], ["a", "c"]]]) == pytest.approx(1 / 2)


def test_nists_length_penalty_is_a_half_at_two_thirds():
    reference = [["a", "b", "c"]]
    whole = nist([["a", "b"]], [[["a", "b"]]], max_size=1)
    assert whole == pytest.approx(1.0)  # each word 1 bit
    short = nist([["a", "b"]], [reference], max_size=1)
    assert short == pytest.approx(math.log2(3) * 0.5)
    assert nist([[]], [reference]) == 0.0


def _slow_cider(outputs, references):
    """CIDEr-D as vectors over all n-grams."""
    total = []
    for output, group in zip(outputs, references, strict=True):
        per_reference = []
        for reference in group:
            value = 0.0
            for size in (1, 2, 3, 4):
                grams = sorted({*ngrams(output, size), *ngrams(reference, size)})
                document = [sum(any(g in ngrams(r, size) for r in rs) for rs in references) for g in grams]
                idf = np.array([math.log(len(references) / max(1, d)) for d in document])
                c = np.array([ngrams(output, size)[g] for g in grams]) * idf
                s = np.array([ngrams(reference, size)[g] for g in grams]) * idf
                norm = np.sqrt(c @ c) * np.sqrt(s @ s) if grams else 0
                if norm > 0:
                    value += (np.minimum(c, s) @ s) / norm * math.exp(-((len(output) - len(reference)) ** 2) / 72)
            per_reference.append(10 * value / 4)
        total.append(np.mean(per_reference))
    return float(np.mean(total))


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.tuples(_SENTENCE, st.lists(_SENTENCE, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_cider_is_the_sum_over_all_ngrams(rows):
    outputs, references = [row[0] for row in rows], [row[1] for row in rows]
    assert cider_d(outputs, references) == pytest.approx(_slow_cider(outputs, references), abs=1e-9)


def test_cider_by_hand():
    # Two sentences with no common n-gram: every weight is log 2; equal texts of 4 words have cosine 1 for n = 1..4.
    outputs = [["a", "b", "c", "d"], ["e", "f", "g", "h"]]
    assert cider_d(outputs, [[outputs[0]], [outputs[1]]]) == pytest.approx(10.0)
    # The first output repeats its last word: 5 words against 4.
    # n=1: (1,1,1,2) against (1,1,1,1), clipped 4 / (sqrt 7 * 2); n=2: 3 of 4; n=3: 2 of 3; n=4: 1 of 2.
    longer = [["a", "b", "c", "d", "d"], outputs[1]]
    cosine = [4 / (math.sqrt(7) * 2), 3 / math.sqrt(4 * 3), 2 / math.sqrt(3 * 2), 1 / math.sqrt(2)]
    expected = 10 * (sum(cosine) / 4 * math.exp(-1 / 72) + 1) / 2
    assert cider_d(longer, [[outputs[0]], [outputs[1]]]) == pytest.approx(expected)
    assert cider_d([["a"]], [[["a"]]]) == 0.0  # one sentence has no document frequencies
    assert cider_d([], []) == 0.0


def test_f1_of_words_by_hand():
    assert normalised_words("The Mill, an OLD pub!") == ["mill", "old", "pub"]
    assert word_f1("the mill is old", ["a pub", "the old mill"]) == pytest.approx(2 * 2 / (3 + 2))
    assert word_f1("mill mill", ["mill"]) == pytest.approx(2 / 3)
    assert word_f1("", ["mill"]) == 0.0


def test_bleu_by_hand():
    # 4 of 5 words, 3 of 4 pairs, 2 of 3 triples, 1 of 2 quadruples; lengths equal.
    expected = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert bleu(["a b c d e"], [["a b c d x"]]) == pytest.approx(expected)
    assert bleu(["a b c d e"], [["x", "A b c d e"]]) == pytest.approx(100.0)
    # Sentences may have different numbers of references; one too short is punished by exp(1 - r/c).
    assert bleu(["a b c d e", "f g h i"], [["a b c d e"], ["q", "f g h i j"]]) == pytest.approx(
        100 * math.exp(1 - 10 / 9), rel=1e-9
    )


def test_rouge_by_hand():
    # Longest common subsequence 3 of 4 and of 5 words: F1 = 2 * 3 / 9.
    assert rouge("rougeL", ["a b c d"], [["a x b y c", "q"]]) == pytest.approx(100 * 6 / 9)
    # Words without their order: 4 of 4 and of 5. Pairs: a b and c d of 3 and of 4.
    assert rouge("rouge1", ["a b c d"], [["c d x a b", "q"]]) == pytest.approx(100 * 8 / 9)
    assert rouge("rouge2", ["a b c d"], [["c d x a b", "q"]]) == pytest.approx(100 * 4 / 7)
    assert rouge("rouge2", ["a b", "c"], [["a b"], ["c"]]) == pytest.approx(50)  # one word has no pair


def test_bert_score_without_its_package_says_what_to_install_before_a_training(patch):
    TrainConfig(bert_score_model="roberta-large").check("train")  # the task generates no text
    patch(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'reticent\[bert-score\]'"):
        TrainConfig(task="response", bert_score_model="roberta-large").check("train")


BERT_SCORE = """
import torch
given = []
def score(outputs, references, *, model_type, num_layers):
    given.append((outputs, references, model_type, num_layers))
    return None, None, torch.tensor([0.5, 0.75])
"""


def test_bert_score_takes_the_best_layer_and_every_reference_with_text(patch, tmp_path, monkeypatch):
    """The package is no dependency, so this one stands in for it, with the arguments of bert-score 0.3.13."""
    package = tmp_path / "packages/bert_score"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(BERT_SCORE)
    (package / "utils.py").write_text('model2layers = {"known": 2}')
    (tmp_path / "config.json").write_text('{"model_type": "bert", "num_hidden_layers": 3}')
    for name in ("bert_score", "bert_score.utils"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(package.parent)
    patch(text_metrics, "hub_folder", lambda name, _: tmp_path if name != "absent" else None)
    texts, references = ["a b", " ", "c", "d"], [["a"], ["b"], ["c", " "], [""]]
    for name, layer in (("owner/known", 2), ("owner/other", 3)):
        found = bert_score(texts, references, name)
        assert found == {"bert_score": (0.5 + 0.75) / 4, "bert_score_layer": layer}
    assert sys.modules["bert_score"].given[0] == (["a b", "c"], [["a"], ["c"]], str(tmp_path), 2)
    for name in ("absent", "/a/folder"):
        with pytest.raises(ConfigError, match="hf download"):
            bert_score(texts, references, name)
    for name in ("bert_score", "bert_score.utils"):
        monkeypatch.delitem(sys.modules, name)


def test_meteor_by_hand():
    pytest.importorskip("nltk")
    # All three words match, one of them by its stem, in one chunk: penalty 0.5 (1/3)^3, precision 1, recall 3/4.
    scores = score_texts(["cheap pubs serve"], [["cheap pub serves food"]])
    mean = (1 * 0.75) / (0.9 * 1 + 0.1 * 0.75)
    assert scores.meteor == pytest.approx(mean * (1 - 0.5 / 27))
    assert scores.meteor_matching in ("exact and stem", "exact, stem and synonym")  # as WordNet's data is at hand
    # Two chunks cost more: words in another order.
    assert score_texts(["serve cheap pubs"], [["cheap pub serves food"]]).meteor == pytest.approx(
        mean * (1 - 0.5 * (2 / 3) ** 3)
    )


def test_all_scores_at_once_and_perfect_output():
    texts = ["The Mill is a cheap pub.", "It is in the riverside area."]
    scores = score_texts(texts, [[text] for text in texts])
    assert (scores.bleu, scores.rouge_l, scores.f1) == pytest.approx((100, 100, 1))
    assert (scores.rouge_1, scores.rouge_2) == pytest.approx((100, 100))
    assert scores.cider == pytest.approx(10)
    assert scores.meteor > 0.99
    assert scores.num_outputs == 2
    assert scores.missing == {}
    shuffled = [" ".join(random.Random(0).sample(text.split(), len(text.split()))) for text in texts]
    worse = score_texts(shuffled, [[text] for text in texts])
    for name in ("bleu", "rouge_2", "rouge_l", "nist", "meteor", "cider"):
        assert getattr(worse, name) < getattr(scores, name)


def test_a_missing_library_is_named_and_the_rest_is_scored(patch):
    patch.missing_module("sacrebleu.metrics.bleu")
    scores = score_texts(["a b"], [["a b"]])
    assert scores.bleu is None
    assert "reticent[metrics]" in scores.missing["bleu"]
    assert scores.f1 == 1.0


@pytest.mark.parametrize(("outputs", "references"), [([], []), (["a"], [[]]), (["a"], [])])
def test_outputs_without_references_are_refused(outputs, references):
    with pytest.raises(InputError, match="reference"):
        score_texts(outputs, references)


def test_words_are_lower_case_with_marks_apart():
    assert words_of("The Café, it's £5!") == ["the", "café", ",", "it", "'", "s", "£", "5", "!"]
