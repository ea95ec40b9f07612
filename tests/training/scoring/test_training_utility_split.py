"""Utility on what the policies found, on the rest, and by domain: against sums by hand and by a slow reference."""

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tables import read_table, table_at, table_writer
from support.tiny import SHAPE, making, read_tables
from support.training_tables import TOKEN, row_of, write_tables

from pipelines.methods.registry import METHODS
from pipelines.training.data.encoding import RecordEncoder
from pipelines.training.data.record_unit import RecordUnit
from pipelines.training.models.network import build_model
from pipelines.training.scoring.evaluation import evaluate
from pipelines.training.scoring.token_scores import write_token_scores
from pipelines.training.scoring.utility import split_utility

WIDE = dataclasses.replace(SHAPE, context_length=200)
LOSS = {"Ann": 4.0, "Lee": 2.0, "Elm": 8.0}


def scored(row, end_loss=None, pieces=TOKEN):
    """A row of the scores table: a token a word or sign, its loss by what it says, right where it is below 1."""
    text = row["text"]
    found = [(m.start(), m.end()) for m in pieces.finditer(text)]
    words = [
        len(text[:start].split()) if text[start - 1 : start].isspace() or not start else None for start, _ in found
    ]
    for at, word in enumerate(words):
        words[at] = words[at - 1] if word is None else word
    losses = [LOSS.get(text[start:end], 0.5) for start, end in found]
    right = [all(x < 1 for x, w in zip(losses, words, strict=True) if w == word) for word in range(len(text.split()))]
    return {
        "doc_id": row["doc_id"],
        "sentence_index": row["sentence_index"],
        "token_starts": [a for a, _ in found],
        "token_ends": [b for _, b in found],
        "token_words": words,
        "token_bytes": [b - a for a, b in found],
        "losses": losses,
        "is_right": [x < 1 for x in losses],
        "word_is_right": [None if word == 0 else is_right for word, is_right in enumerate(right)],
        "end_losses": [] if end_loss is None else [end_loss],
        "end_is_right": [] if end_loss is None else [end_loss < 1],
    }


def split(folder, rows, ends):
    paths = write_tables(folder, rows, 2)
    with table_writer(folder / "scores.parquet", "token_scores") as writer:
        for (sentence, _), end in zip(rows, ends, strict=True):
            writer.append(**scored(sentence, end))
    return split_utility(table_at(folder / "scores.parquet", "token_scores"), paths.redacted)


def test_tokens_and_words_go_where_the_policies_put_them(tmp_path):
    rows = [
        row_of("a", 0, "I am {Ann Lee}.", fold="test"),
        row_of("a", 1, "Hello, you.", fold="test"),
        row_of("b", 0, "Hello, you.", fold="test", is_duplicate=True),
        row_of("c", 0, "of no interest", fold="train"),
    ]
    rows[0][1]["domain"] = "returns"
    found = split(tmp_path, rows[:3], [None, 0.25, 3.0])
    groups = found["groups"]
    # Of "Lee." the name is private and the full stop is not; the word is, with both.
    assert groups["private"]["num_tokens"] == 2
    assert groups["private"]["perplexity"] == pytest.approx(math.exp((4.0 + 2.0) / 2))
    assert groups["private"]["bits_per_byte"] == pytest.approx((4.0 + 2.0) / math.log(2) / len("AnnLee"))
    assert groups["masked_whole"]["bits_per_byte"] == pytest.approx(
        (4 * 0.5 + 3.0) / math.log(2) / (len("Hello,you.") + 1)
    )
    assert groups["private"]["num_words"] == 2
    assert groups["private"]["perplexity_per_word"] == pytest.approx(math.exp((4.0 + 2.0 + 0.5) / 2))
    assert (groups["private"]["next_token_accuracy"], groups["private"]["next_word_accuracy"]) == (0.0, 0.0)
    assert groups["public"]["num_tokens"] == 3 + 4 + 1
    assert groups["public"]["num_words"] == 2 + 2 + 1
    assert groups["public"]["perplexity"] == pytest.approx(math.exp((7 * 0.5 + 0.25) / 8))
    assert groups["masked_whole"]["num_tokens"] == 4 + 1
    assert groups["masked_whole"]["perplexity_per_word"] == pytest.approx(math.exp((4 * 0.5 + 3.0) / 3))
    assert found["domains"].keys() == {"returns"}
    assert found["domains"]["returns"]["num_tokens"] == 5
    assert "epsilon of training covers the weights" in found["note"]


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(
        st.lists(st.sampled_from(["{Ann Lee}", "at", "{4 Elm}", "St.", "hello,"]), min_size=1, max_size=6),
        min_size=1,
        max_size=5,
    )
)
def test_the_groups_are_the_whole(tmp_path_factory, texts):
    rows = [row_of(f"d{at}", 0, " ".join(words), fold="test") for at, words in enumerate(texts)]
    found = split(tmp_path_factory.mktemp("split"), rows, [0.5] * len(rows))["groups"]
    parts = [found[name] for name in ("public", "private", "masked_whole")]
    for kind in ("num_tokens", "num_words"):
        assert found["all"][kind] == sum(part[kind] for part in parts)
    total = sum(math.log(part["perplexity"]) * part["num_tokens"] for part in parts if part["num_tokens"])
    assert math.log(found["all"]["perplexity"]) * found["all"]["num_tokens"] == pytest.approx(total)
    secret = sum(len(TOKEN.findall(piece)) for words in texts for piece in words if "{" in piece) - 2 * sum(
        "{" in piece for words in texts for piece in words
    )
    assert found["private"]["num_tokens"] == secret


@pytest.mark.parametrize(("method", "unit"), [("dpsgd", RecordUnit()), ("sdpsgd_lstm", RecordUnit(kind="dialogue"))])
@pytest.mark.parametrize(("kind", "is_told"), [("bpe_public", False), ("bytes", False), ("bytes", True)])
def test_scores_of_a_model_add_up_to_its_evaluation(tmp_path, method, unit, kind, is_told):
    marked = ["I am {Ann Lee}.", "At {4 Elm} St. I think, ", "nothing", "{all of it}", "Yes, \N{SNOWMAN} please."]
    rows = [row_of(f"d{at // 3}", at % 3, marked[at % 5], "SYS" if at % 2 else None, "test") for at in range(8)]
    rows += [row_of(f"t{at}", 0, "I am at home, nothing else.", "SYS") for at in range(9)]
    corpus = read_tables(
        write_tables(tmp_path, rows, 2),
        tmp_path,
        view=METHODS[method].view,
        unit=unit,
        make_vocabulary=making(kind, has_conversations=is_told, has_domains=is_told),
        make_encoder=lambda vocabulary: RecordEncoder(vocabulary, WIDE.context_length),
        min_speaker_rows=2,
    )
    model = build_model(WIDE, corpus.vocabulary.backend.get_vocab_size(), corpus.vocabulary.control, 0)
    with table_writer(tmp_path / "scores.parquet", "token_scores") as writer:
        write_token_scores(writer, model, corpus.held_out)
    redacted = [table_at(path, "redacted") for path in sorted(tmp_path.glob("redacted*.parquet"))]
    found = split_utility(table_at(tmp_path / "scores.parquet", "token_scores"), redacted)["groups"]
    whole = evaluate(model, corpus.held_out)
    assert found["all"]["num_tokens"] == whole.num_tokens
    for name in ("perplexity", "perplexity_per_word", "bits_per_byte", "next_token_accuracy", "next_word_accuracy"):
        assert found["all"][name] == pytest.approx(getattr(whole, name))
    blank = 0 if unit.kind == "sentence" else 1  # between rows of a record, but before a speaker's token
    texts = [sentence["text"] for sentence, _ in rows[:8]]
    num_documents = len({sentence["doc_id"] for sentence, _ in rows[:8]})
    ends = (8 if unit.kind == "sentence" else num_documents) + is_told * num_documents
    blanks = blank * sum(not at % 2 and at % 3 > 0 for at in range(8))
    num_bytes = sum(len(text.encode()) for text in texts) + ends + blanks
    assert whole.bits_per_byte == pytest.approx(whole.loss * whole.num_tokens / math.log(2) / num_bytes)
    if method == "sdpsgd_lstm":  # whose own marks are by piece, the blank before it included
        assert found["private"]["num_tokens"] <= whole.num_private_tokens
    table = {
        (row["doc_id"], row["sentence_index"]): row
        for row in read_table(tmp_path / "scores.parquet", "token_scores").to_pylist()
    }
    for sentence, _ in rows[:8]:
        row = table[sentence["doc_id"], sentence["sentence_index"]]
        pieces = [sentence["text"][a:b] for a, b in zip(row["token_starts"], row["token_ends"], strict=True)]
        if "\N{SNOWMAN}" not in sentence["text"]:  # whose bytes are tokens of their own
            assert "".join(pieces) == sentence["text"]


def test_nothing_scored_is_no_crash(tmp_path):
    found = split(tmp_path, [], [])
    assert found["groups"]["private"]["perplexity"] is None
    assert found["groups"]["all"]["next_word_accuracy"] is None
    assert found["domains"] == {}
