"""Sentences as the split stage makes them."""

import pytest
from support.simple_offsets import words_of

from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import Sentence
from pipelines.policies.registry import make_policy


@pytest.fixture(scope="session")
def cut():
    """text -> (starts, ends) with spaCy's tokenizer, as the split stage gives them."""
    from pipelines.corpus.split import Splitter

    splitter = Splitter(mode="turns", max_sentence_tokens=10_000)

    def offsets(text):
        sentences = next(iter(splitter.split([text])))
        assert len(sentences) == 1
        assert sentences[0].text == text
        return sentences[0].token_starts, sentences[0].token_ends

    return offsets


@pytest.fixture(scope="session")
def find():
    """(policy name, text) -> [(label, masked text)] with the simple offsets, for policies that need no Doc."""

    def run(name, text, patterns=None):
        policy = make_policy(PolicyOptions(name=name, patterns=patterns or {}))
        assert not policy.needs
        starts, ends = words_of(text)
        spans = policy.find(Sentence(text, starts, ends))
        return sorted({(s.label, text[starts[s.start_token] : ends[s.end_token - 1]]) for s in spans})

    return run
