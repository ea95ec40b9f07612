"""Scores by word, on private tokens, and what epsilon has to do with them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tables import span_of, table_at, write_rows
from support.tiny import ADDED, SHAPE, TOKENIZER, all_ids, corpus_of, tiny_model, write_sentences

from pipelines.artifacts import Target
from pipelines.training.data.alignment import NO_WORD, right_words, starts_word, word_numbers
from pipelines.training.data.control import AddedTokens
from pipelines.training.data.encoding import RecordEncoder
from pipelines.training.data.held_out import read_held_out
from pipelines.training.data.record_unit import RecordUnit
from pipelines.training.data.tokenizer import loadable, train_bpe
from pipelines.training.data.vocabulary import control_tokens_of, vocabulary_of
from pipelines.training.models.network import build_model
from pipelines.training.scoring.evaluation import evaluate

TEXTS = ["The Mill is a pub.", "My name is John Smith.", "It was great, it was terrible."] * 3


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet="ab .é<\n\t", max_size=20))
@pytest.mark.parametrize("tokenizer", [TOKENIZER, train_bpe(TEXTS, 325)])
def test_tokens_of_a_word_spell_the_word(tokenizer, text):
    encoding = tokenizer.encode(text, add_special_tokens=False)
    numbers = word_numbers(text, encoding.offsets)
    words = text.split()
    covered = {number: set() for number in range(len(words))}
    for (start, end), number in zip(encoding.offsets, numbers, strict=True):
        if number != NO_WORD:
            covered[number] |= set(range(start, end))
    at = 0
    for number, word in enumerate(words):
        at = text.index(word, at)
        assert set(range(at, at + len(word))) <= covered[number]
        at += len(word)
    assert sorted(n for n in numbers if n != NO_WORD) == [n for n in numbers if n != NO_WORD]


def test_blanks_belong_to_the_word_after_them():
    assert word_numbers("a  bc ", [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]) == [0, 1, 1, 1, 1, NO_WORD]
    assert word_numbers("a bc", [(0, 1), (1, 4)]) == [0, 1]


def _right(numbers, right, after, target=None):
    size = len(numbers)
    right, asked = right_words(
        np.array(numbers),
        np.array(right, dtype=bool),
        np.ones(size, dtype=bool) if target is None else np.array(target, dtype=bool),
        np.array(after, dtype=bool),
    )
    return int(right.sum()), int(asked.sum())


def test_a_word_is_right_if_all_its_tokens_are_and_it_then_ends():
    #        begin  word 0     word 1  end
    words = [NO_WORD, 0, 0, 1, NO_WORD]
    assert _right(words, [0, 1, 1, 1, 1], [0, 0, 1, 1, 0]) == (2, 2)
    assert _right(words, [0, 1, 0, 1, 1], [0, 0, 1, 1, 0]) == (1, 2)
    assert _right(words, [0, 1, 1, 1, 1], [0, 1, 0, 1, 0]) == (1, 2)  # it would go on writing word 0
    assert _right(words, [0, 1, 1, 1, 1], [0, 0, 1, 1, 0], target=[0, 1, 0, 1, 1]) == (1, 1)
    assert _right([NO_WORD, 0, 1], [0, 1, 1], [0, 1, 0]) == (1, 1)  # the last word may be cut
    assert _right([], [], []) == (0, 0)


def test_tokens_that_begin_a_word():
    added = AddedTokens(speakers=("USR",), has_conversations=True)
    tokenizer = train_bpe(TEXTS, 345, added)
    control = control_tokens_of(loadable(tokenizer), added)
    starts = starts_word(tokenizer, control.never_text)
    # How byte-level vocabularies write the bytes that are white space: moved up by 256.
    blanks = {chr(256 + byte) for byte in range(33) if chr(byte).isspace()}
    for token, number in tokenizer.get_vocab(with_added_tokens=True).items():
        is_control = number in control.never_predicted or number in control.ends
        assert starts[number] == (is_control or token[:1] in blanks), token
    assert starts[-1]
    assert len(starts) == tokenizer.get_vocab_size() + 1


class _Parrot(torch.nn.Module):
    """Ranks first what it was told comes next, whatever the tokenizer."""

    def __init__(self, rows, size, wrong=()):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.config = None
        self.rows = [list(row) for row in rows]
        self.size = size
        self.wrong = set(wrong)

    def forward(self, input_ids, **_):
        logits = torch.zeros(*input_ids.shape, self.size) + self.weight
        for at, given_ids in enumerate(input_ids.tolist()):
            row = next(r for r in self.rows if given_ids[: len(r) - 1] == r[:-1])
            for t, token in enumerate(row[1:]):
                logits[at, t, 0 if token in self.wrong else token] = 10.0
        return type("Output", (), {"logits": logits})


def _held_out(folder, tokenizer, texts, spans=None, context_length=200):
    folder.mkdir(parents=True, exist_ok=True)
    write_sentences(folder / "s.parquet", [(text, None, "test") for text in texts])
    redacted = None
    if spans is not None:
        redacted = [table_at(folder / "r.parquet", "redacted")]
        rows = [
            {"doc_id": f"{index // 3:032d}", "sentence_index": index % 3, "redacted_text": text}
            | {"spans": [span_of(a, b, "X") for a, b in found], "num_masked_tokens": len(found)}
            for index, (text, found) in enumerate(zip(texts, spans, strict=True))
        ]
        write_rows(redacted[0].path, "redacted", rows, fold="test")
    vocabulary = vocabulary_of(loadable(tokenizer), ADDED, kind="bytes", trained_on="none")
    return read_held_out(
        [table_at(folder / "s.parquet", "sentences")],
        redacted,
        fold="test",
        most=100,
        unit=RecordUnit(),
        encoder=RecordEncoder(vocabulary, context_length),
        scratch=Target(folder=folder),
    )


def test_next_word_accuracy_does_not_depend_on_the_tokenizer(tmp_path):
    texts = ["The Mill is a pub.", "It was great"]
    found = []
    for number, tokenizer in enumerate([TOKENIZER, train_bpe(TEXTS, 345, ADDED)]):
        control = control_tokens_of(loadable(tokenizer), ADDED)
        held_out = _held_out(tmp_path / str(number), tokenizer, texts)
        # Wrong about every token that has an "r" in it: one word of eight.
        wrong = [n for token, n in tokenizer.get_vocab().items() if "r" in token and n not in control.never_predicted]
        parrot = _Parrot(all_ids(held_out.records), tokenizer.get_vocab_size(), wrong)
        found.append(evaluate(parrot, held_out))
    assert [f.next_word_accuracy for f in found] == [7 / 8, 7 / 8]
    assert [f.num_words for f in found] == [8, 8]
    assert found[0].next_token_accuracy != found[1].next_token_accuracy


def test_a_model_about_to_write_a_longer_word_is_wrong(tmp_path):
    held_out = _held_out(tmp_path, TOKENIZER, ["a pub"])
    row = all_ids(held_out.records)[0]
    blank = TOKENIZER.encode(" ", add_special_tokens=False).ids[0]
    b = TOKENIZER.encode("b", add_special_tokens=False).ids[0]

    class _Longer(_Parrot):
        def forward(self, input_ids, **options):
            output = super().forward(input_ids, **options)
            output.logits[0, row.index(blank) - 1, b] = 20.0  # "ab" where the text says "a "
            return output

    scores = evaluate(_Longer([row], TOKENIZER.get_vocab_size()), held_out)
    # "a" would have gone on, and the blank before "pub" was not ranked first.
    assert (scores.next_word_accuracy, scores.num_words) == (0.0, 2)
    assert evaluate(_Parrot([row], TOKENIZER.get_vocab_size()), held_out).next_word_accuracy == 1.0


def test_perplexity_on_private_tokens_is_theirs_alone(tmp_path):
    texts = ["My name is John Smith.", "It was great"]
    secret = [(11, 21)]
    held_out = _held_out(tmp_path, TOKENIZER, texts, spans=[secret, []])
    scores = evaluate(tiny_model(), held_out)
    assert scores.num_private_tokens == 11  # with the blank before it
    model = tiny_model()
    row = next(r for r in all_ids(held_out.records) if len(r) == len(texts[0]) + 2)
    with torch.no_grad():
        losses = torch.nn.functional.cross_entropy(
            model(input_ids=torch.tensor([row[:-1]])).logits[0], torch.tensor(row[1:]), reduction="none"
        )
    assert scores.private_perplexity == pytest.approx(math.exp(losses[10:21].mean()), rel=1e-5)
    assert scores.private_perplexity != pytest.approx(math.exp(losses[11:21].mean()), rel=1e-5)
    assert evaluate(tiny_model(), _held_out(tmp_path / "b", TOKENIZER, texts)).private_perplexity is None
    nothing = evaluate(tiny_model(), _held_out(tmp_path / "c", TOKENIZER, texts, spans=[[], []]))
    assert (nothing.private_perplexity, nothing.num_private_tokens) == (None, 0)


def test_the_last_word_of_a_cut_sentence_is_not_judged(tmp_path):
    held_out = _held_out(tmp_path, TOKENIZER, ["The Mill is a pub."], context_length=8)
    parrot = _Parrot(all_ids(held_out.records), TOKENIZER.get_vocab_size())
    scores = evaluate(parrot, held_out)
    assert (scores.next_word_accuracy, scores.num_words) == (1.0, 1)  # "The"; of "Mill" it reads "Mil"


def test_a_corpus_read_by_the_stage_has_word_scores(tmp_path):
    rows = [(text, "SYS") for text in TEXTS]
    corpus = corpus_of(tmp_path, rows, [], [(text, "SYS", "test") for text in TEXTS])
    model = build_model(SHAPE, corpus.vocabulary.backend.get_vocab_size(), corpus.vocabulary.control, 0)
    scores = evaluate(model, corpus.held_out)
    assert corpus.held_out.records.num_truncated == 0
    assert scores.num_words == sum(len(text.split()) for text in TEXTS)
    assert 0 <= scores.next_word_accuracy <= 1
