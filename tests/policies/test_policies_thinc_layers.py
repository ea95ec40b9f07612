"""What is remembered of words is, bit for bit, what the model computes."""

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from pipelines.language import load_pipeline, model_module
from pipelines.thinc_layers import RowMemory, reads_shared_vectors, remember_embeddings

MODEL = "en_core_web_sm"
TEXTS = [
    "I can't see Mary Jones of Google in Berlin.",
    "Can I see it, in Berlin?",
    "  Zoë paid $40 ...",
    "",
    "I can't see Mary Jones of Google in Berlin.",
]


@given(st.lists(st.lists(st.integers(0, 12), max_size=9), max_size=12), st.integers(1, 9))
def test_rows_are_the_computed_ones_and_never_more_than_fit_are_held(batches, max_rows):
    asked = []

    def compute(features):
        asked.append(len(features))
        return np.stack([features.sum(axis=1), features[:, 0] * 3], axis=1).astype(np.float32)

    memory = RowMemory(compute, max_rows)
    for batch in batches:
        features = np.array([[x, x * x] for x in batch], dtype=np.uint64).reshape(-1, 2)
        expected = [[x + x * x, 3 * x] for x in batch]
        assert memory.rows(features).reshape(-1, 2).tolist() == expected
        assert len(memory._places) <= max_rows
    num_computed = sum(asked)
    if batches and len(set(batches[-1])) <= max_rows:  # all of it is held now
        memory.rows(np.array([[x, x * x] for x in batches[-1]], dtype=np.uint64).reshape(-1, 2))
        assert sum(asked) == num_computed


@pytest.mark.parametrize("component", ["ner", "tok2vec"])
def test_vectors_have_the_same_bits_as_without_a_memory(component):
    plain = spacy.load(model_module(MODEL))
    ours = load_pipeline(MODEL, frozenset({"ner", "parser"}))

    def vectors(nlp, texts):
        model = nlp.get_pipe(component).model
        tok2vec = model if component == "tok2vec" else model.get_ref("tok2vec")
        made = tok2vec.predict([nlp.make_doc(text) for text in texts])
        return np.concatenate([np.asarray(part) for part in made]).reshape(-1, np.asarray(made[0]).shape[-1])

    assert "remembered" in {node.name for node in ours.get_pipe(component).model.walk()}
    for _ in range(2):
        np.testing.assert_array_equal(vectors(ours, TEXTS), vectors(plain, TEXTS))
    np.testing.assert_array_equal(vectors(ours, TEXTS[:1]), vectors(plain, TEXTS[:1]))


def test_a_pipeline_without_such_embeddings_is_left_alone():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    remember_embeddings(nlp)
    assert [len(list(doc.sents)) for doc in nlp.pipe(["One. Two."])] == [2]


def test_the_layers_have_the_names_that_are_looked_for():
    nlp = spacy.load(model_module(MODEL))
    names = {name: {node.name for node in nlp.get_pipe(name).model.walk()} for name in ("ner", "tok2vec", "tagger")}
    message = f"spaCy {spacy.__version__} names its layers in another way: see pipelines/thinc_layers.py"
    assert any(name.startswith("extract_features") for name in names["tok2vec"]), message
    assert {name: reads_shared_vectors(nlp, name) for name in names} == {
        "ner": False,
        "tok2vec": False,
        "tagger": True,
    }, message
    remember_embeddings(nlp)
    for name in ("ner", "tok2vec"):
        assert "remembered" in {node.name for node in nlp.get_pipe(name).model.walk()}, message
