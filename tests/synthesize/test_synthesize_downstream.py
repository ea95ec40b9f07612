"""The small models that say what synthetic text is good for."""

import random

import pytest

from pipelines.synthesis.downstream import Row, Trigrams, classified, perplexity, worth

WORDS = ("red", "blue", "cup", "lamp")


def test_the_language_model_is_a_distribution_and_knows_what_it_read():
    model = Trigrams(["red cup", "red lamp red cup", "blue"], frozenset(WORDS))
    for before in (("", ""), ("", "red"), ("red", "lamp"), ("never", "seen")):
        total = sum(model._probability(before, word) for word in (*WORDS, "<unk>", "</s>"))
        assert total == pytest.approx(1)
    assert model._probability(("", "red"), "cup") > model._probability(("", "red"), "blue")
    assert model.words("a Red cup") == ["<unk>", "red", "cup", "</s>"]


def rows(seed, num=60):
    generator = random.Random(seed)
    labels = {"a": ("red", "blue"), "b": ("cup", "lamp")}
    return [
        Row(text=" ".join(generator.choices(labels[label], k=3)), label=label, cluster=str(at // 2))
        for at in range(num)
        for label in (generator.choice("ab"),)
    ]


def test_text_of_the_same_kind_teaches_more_than_shuffled_text():
    train, test = rows(0), rows(1)
    assert classified(train, test).value == 1
    labels = [row.label for row in train]
    random.Random(2).shuffle(labels)
    wrong = [Row(text=row.text, label=label) for row, label in zip(train, labels, strict=True)]
    assert classified(wrong, test).value < 0.9
    same = perplexity(train, test, frozenset(WORDS))
    assert same["low"] < same["value"] < same["high"]
    other = perplexity([Row(text="unlike it", label="a")] * 60, test, frozenset(WORDS))
    assert other["low"] > same["high"]


def test_what_text_is_worth_is_measured_on_as_many_rows_of_each_kind():
    def told(found):
        return [{"text": row.text, "domain": row.label, "speaker": "USR", "cluster": row.cluster} for row in found]

    real, other = told(rows(0, 90)), told([Row(text="unlike it", label="a")] * 50)
    found = worth({"synthetic": other, "redacted": real[:70], "real": real}, told(rows(1, 30)))
    assert (found["num_train_rows"], found["num_test_rows"], found["classifier_of"]) == (50, 30, "domain")
    assert found["accuracy"]["real"]["value"] == 1 > found["accuracy"]["synthetic"]["high"]
    assert found["perplexity"]["real"]["high"] < found["perplexity"]["synthetic"]["low"]
    assert worth({"real": real[:5]}, real) is None
    one_class = [{**row, "domain": None} for row in real]
    found = worth({"real": one_class}, one_class[:30])
    assert (found["classifier_of"], found["accuracy"]) == (None, None)
    assert found["perplexity"]["real"]["value"] > 1
