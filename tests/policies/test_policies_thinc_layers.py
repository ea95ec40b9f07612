"""What is remembered of words and their neighbours is what the model computes, and depends on nothing else."""

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from pipelines import thinc_layers
from pipelines.language import load_pipeline, model_module
from pipelines.thinc_layers import RowMemory, VectorMemory, reads_shared_vectors, remember_vectors

MODEL = "en_core_web_sm"
TEXTS = [
    "I can't see Mary Jones of Google in Berlin.",
    "Can I see it, in Berlin?",
    "  Zoë paid $40 ...",
    "",
    "I can't see Mary Jones of Google in Berlin.",
]
WORDS = st.lists(st.integers(1, 9), max_size=9)


@given(st.lists(WORDS, max_size=12), st.integers(9, 12))
def test_rows_are_the_computed_ones_and_each_is_computed_once(batches, max_rows):
    asked = []

    def compute(keys):
        asked.extend(keys)
        return np.array([[key * key, key * 3] for key in keys], dtype=np.float32)

    memory = RowMemory(compute, max_rows)
    for batch in batches:
        places = memory.places(batch)
        if batch:
            assert memory.rows[places].tolist() == [[x * x, 3 * x] for x in batch]
    assert len(asked) == len(set(asked)) == len({x for batch in batches for x in batch})
    memory.forget()
    assert memory.has_room(max_rows)
    assert not memory.has_room(max_rows + 1)


@given(st.lists(st.lists(WORDS, max_size=6), max_size=6), st.integers(0, 3), st.integers(60, 300))
def test_vectors_are_those_of_windows_over_each_text_alone(batches, depth, max_rows):
    def embed(features):
        return np.stack([features[:, 0], features[:, 0] ** 2], axis=1).astype(np.float64)

    def layer(rows):
        return rows @ np.arange(12, dtype=np.float64).reshape(6, 2) % 7 + 1

    memory = VectorMemory(embed, [layer] * depth, 1, max_rows)
    for texts in filter(any, batches):
        made = memory.vectors([np.array(text, dtype=np.uint64).reshape(-1, 1) for text in texts])
        assert len(made) == len(texts)
        for text, vectors in zip(texts, made, strict=True):
            rows = np.zeros((len(text) + 2 * depth, 2))
            if text:
                rows[depth : depth + len(text)] = embed(np.array(text, dtype=np.uint64).reshape(-1, 1))
            for _ in range(depth):
                wide = np.concatenate([np.zeros((1, 2)), rows, np.zeros((1, 2))])
                rows = rows + layer(np.concatenate([wide[:-2], wide[1:-1], wide[2:]], axis=1))
            np.testing.assert_array_equal(vectors, rows[depth : depth + len(text)])


@pytest.mark.parametrize("component", [pytest.param("ner", marks=pytest.mark.slow), "tok2vec"])
def test_vectors_are_those_without_a_memory_and_have_the_same_bits_each_time(component, patch):
    plain = spacy.load(model_module(MODEL))
    ours = load_pipeline(MODEL, frozenset({"ner", "parser"}))
    patch(thinc_layers.VectorMemory, "vectors", thinc_layers.VectorMemory.vectors)

    def vectors(nlp, texts):
        model = nlp.get_pipe(component).model
        tok2vec = model if component == "tok2vec" else model.get_ref("tok2vec")
        made = tok2vec.predict([nlp.make_doc(text) for text in texts])
        return np.concatenate([np.asarray(part) for part in made]).reshape(-1, np.asarray(made[0]).shape[-1])

    together = vectors(ours, TEXTS)
    np.testing.assert_allclose(together, vectors(plain, TEXTS), atol=1e-5)
    np.testing.assert_array_equal(vectors(ours, TEXTS), together)
    remembers_nothing = load_pipeline.__wrapped__(MODEL, frozenset({"ner", "parser"}))
    alone = vectors(remembers_nothing, TEXTS[:1])
    np.testing.assert_array_equal(alone, together[: len(alone)])
    long = ["Ask Mary in Berlin. " * 900]  # more than is looked up together
    np.testing.assert_array_equal(vectors(ours, long), vectors(plain, long))


def test_a_pipeline_without_such_vectors_is_left_alone():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    remember_vectors(nlp)
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
    found = [
        name
        for name in ("ner", "tok2vec")
        for node in nlp.get_pipe(name).model.walk()
        if thinc_layers._is_embedding_with_windows(node)
    ]
    assert found == ["ner", "tok2vec"], message


def test_a_failure_leaves_no_number_without_its_row():
    is_broken = False

    def layer(rows):
        if is_broken:
            raise MemoryError
        return rows[:, :1] + 1

    memory = VectorMemory(lambda features: features.astype(np.float64), [layer], 1, 60)
    text = [np.array([[1], [2], [3]], dtype=np.uint64)]
    (expected,) = memory.vectors(text)
    is_broken = True
    with pytest.raises(MemoryError):
        memory.vectors([np.array([[7], [2], [5]], dtype=np.uint64)])
    is_broken = False
    (found,) = memory.vectors([np.array([[7], [2], [5]], dtype=np.uint64)])
    memory._forget()
    assert found.tolist() == memory.vectors([np.array([[7], [2], [5]], dtype=np.uint64)])[0].tolist()
    assert memory.vectors(text)[0].tolist() == expected.tolist()
