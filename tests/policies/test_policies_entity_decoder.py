"""The entities are those of spaCy's own decoder."""

import functools
import random

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.corpus.customersim import simulate
from pipelines.entity_decoder import decoder_of
from pipelines.language import load_pipeline, make_doc, model_module

MODEL = "en_core_web_sm"
WORDS = (
    "John", "Mary", "Jones", "of", "the", "Bank", "America", "New", "York", "on", "3", "May", "2019", "$", "40",
    "million", ",", ".", "and", "Dr.", "visited", "Berlin", "Google", "Inc.", "\n", "  ", "first", "ten", "percent",
    "%", "A", "x1y2", "zzz", "—", "Zoë", "Müller",
)  # fmt: skip


@functools.cache
def plain():
    return spacy.load(model_module(MODEL), enable=["ner"])


@functools.cache
def ours():
    nlp = load_pipeline(MODEL, frozenset({"ner"}))
    return nlp, decoder_of(nlp)


def found(nlp, texts, borders=frozenset()):
    docs = []
    for words in texts:
        doc = spacy.tokens.Doc(nlp.vocab, words=words)
        for at in borders:
            if 0 < at < len(doc):
                doc[at].is_sent_start = True
        docs.append(doc)
    return docs


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=25), max_size=12), st.frozensets(st.integers(0, 25), max_size=3)
)
def test_entities_are_those_of_the_model(texts, borders):
    nlp, decoder = ours()
    expected = [
        [(e.start, e.end, e.label_) for e in doc.ents]
        for doc in (plain().get_pipe("ner")(doc) for doc in found(plain(), texts, borders))
    ]
    assert decoder.find(found(nlp, texts, borders)) == expected


@pytest.mark.slow
def test_entities_of_dialogues_and_of_a_long_text_are_those_of_the_model():
    nlp, decoder = ours()
    turns = [turn for dialogue in simulate(20, 4) for turn in dialogue["text"].splitlines()]
    random.Random(2).shuffle(turns)
    texts = [*turns, " ".join(turns), ""]
    docs = [nlp.make_doc(text) for text in texts]
    expected = [[(e.start, e.end, e.label_) for e in plain()(text).ents] for text in texts]
    assert decoder.find(docs) == expected


@pytest.mark.parametrize("change", ["beam", "unseen", "version"])
def test_a_recogniser_of_another_kind_stays_with_spacy(change, patch):
    nlp = spacy.load(model_module(MODEL), enable=["ner"])
    assert decoder_of(nlp) is not None
    if change == "beam":
        nlp.get_pipe("ner").cfg["beam_width"] = 4
    elif change == "unseen":
        nlp.get_pipe("ner").model.attrs["unseen_classes"] = {3}
    else:
        patch.constant("pipelines.entity_decoder", "MADE_FOR", "3.9.")
    assert decoder_of(nlp) is None
    assert decoder_of(spacy.blank("en")) is None


def test_a_doc_from_the_text_itself_has_the_tokens_that_are_asked_for():
    nlp = load_pipeline(MODEL, frozenset({"ner"}))
    for text, starts, ends in (
        ("I can't go.", [0, 2, 4, 8, 10], [1, 4, 7, 10, 11]),  # as the model cuts it
        ("I can't go.", [0, 2, 8], [1, 7, 11]),
        ("a  b", [0, 3], [1, 4]),
        (" a", [1], [2]),
        ("", [], []),
    ):
        doc = make_doc(nlp, text, starts, ends)
        assert [token.text for token in doc] == [text[a:b] for a, b in zip(starts, ends, strict=True)]
