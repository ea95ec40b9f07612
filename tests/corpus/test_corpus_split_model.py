"""Sentences by a spaCy model's senter or parser: the tokeniser's own tokens, and the model's borders in each line."""

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.corpus.split import Splitter
from pipelines.errors import ConfigError
from pipelines.language import model_module

MODES = ["senter", "parser"]
TEXT = "My parcel did not arrive when is it coming Dr. Lee said so.\nThank you very much! I will wait."


@pytest.fixture(scope="module", params=MODES)
def splitter(request):
    return Splitter(mode=request.param)


@pytest.mark.parametrize("mode", MODES)
def test_borders_are_those_of_the_model_inside_each_line(mode):
    nlp = spacy.load(model_module("en_core_web_sm"), exclude=["ner", "lemmatizer", "attribute_ruler"])
    if mode == "senter":
        nlp.disable_pipe("parser")
        nlp.enable_pipe("senter")
    expected = [sentence.text for line in TEXT.split("\n") for sentence in nlp(line).sents]
    (found,) = Splitter(mode=mode).split([TEXT])
    assert [sentence.text for sentence in found] == expected
    assert len(expected) >= 3


def test_rules_and_model_share_their_tokens(splitter):
    (ruled,) = Splitter(mode="rules").split([TEXT])
    (found,) = splitter.split([TEXT])
    tokens = [[s.char_start + start for s in sentences for start in s.token_starts] for sentences in (ruled, found)]
    assert tokens[0] == tokens[1]


@settings(deadline=None, max_examples=25)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), min_size=1, max_size=4))
def test_offsets_are_exact_and_batches_change_nothing(splitter, texts):
    found = list(splitter.split(texts))
    for text, sentences in zip(texts, found, strict=True):
        for s in sentences:
            assert text[s.char_start : s.char_start + len(s.text)] == s.text
        covered = {s.char_start + at for s in sentences for at in range(len(s.text))}
        assert all(character.isspace() for at, character in enumerate(text) if at not in covered)
    assert [sentences for text in texts for sentences in splitter.split([text])] == found


def test_turns_stay_whole_and_long_sentences_are_cut_at_tokens():
    (turns,) = Splitter(mode="senter").split(["SYS: Hello. How are you?\nUSR: Fine. Thanks."], "turns")
    assert [(t.speaker, t.text) for t in turns] == [("SYS", "Hello. How are you?"), ("USR", "Fine. Thanks.")]
    (pieces,) = Splitter(mode="parser", max_sentence_tokens=8).split(["word " * 30])
    assert all(len(piece.token_starts) <= 8 for piece in pieces)
    assert sum(len(piece.token_starts) for piece in pieces) == 30


def test_a_model_that_is_missing_is_refused():
    with pytest.raises(ConfigError, match="is not installed"):
        Splitter(mode="senter", model="en_core_web_none")
