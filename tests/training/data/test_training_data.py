"""From rows to token ids: nothing private shapes the tokenizer, nothing leaves its record."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny import CONTROL, TOKENIZER, all_ids, corpus_of, ids_of, records_of, rows_of

from pipelines.artifacts import Target
from pipelines.errors import ConfigError
from pipelines.training.data.control import EVERY, USUAL_TOKENS, common_names
from pipelines.training.data.ragged import RaggedWriter
from pipelines.training.data.records import frame_of, target_positions
from pipelines.training.data.row_store import content_hash
from pipelines.training.models.shape import PRESETS, ModelShape, resolve_shape

PUBLIC = [
    ("Hello, what can I do for you?", "SYS"),
    ("My package has not arrived yet.", "USR"),
    ("Have a nice day! Bye.", "SYS"),
    ("No more questions. See you.", "USR"),
    ("What can I do for you today?", "SYS"),
    ("Can you track the package, please?", "USR"),
]
CANARY = "zyxwvut"
PRIVATE = [(f"{CANARY} {CANARY} is the name of <MASK>", "Ms Quibble"), ("<MASK>", "USR")] * 5


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=5), max_size=6))
def test_ragged_rows_come_back(tmp_path_factory, rows):
    with RaggedWriter(Target(folder=tmp_path_factory.mktemp("ragged")), "rows", np.int32) as writer:
        for row in rows:
            writer.append(row)
    array = writer.open()
    assert [array[i].tolist() for i in range(len(array))] == rows
    assert array.lengths.tolist() == [len(row) for row in rows]


def _pieces_of_the_canary(corpus):
    pieces = (piece.strip("Ġ") for piece in corpus.vocabulary.backend.get_vocab())
    return [piece for piece in pieces if len(piece) > 1 and piece in CANARY]


def test_the_tokenizer_never_sees_private_text(tmp_path):
    corpus = corpus_of(tmp_path / "a", PUBLIC, PRIVATE)
    same_but_other_private = corpus_of(tmp_path / "b", PUBLIC, [("nothing here", None)])
    assert corpus.vocabulary.backend.to_str() == same_but_other_private.vocabulary.backend.to_str()
    assert not _pieces_of_the_canary(corpus)
    assert "Quibble" not in corpus.vocabulary.backend.to_str()
    # The check has power: the same text among public rows does show.
    leaky = corpus_of(tmp_path / "c", PUBLIC + PRIVATE, [])
    assert _pieces_of_the_canary(leaky)


def test_a_speaker_of_private_rows_only_becomes_the_common_token(tmp_path):
    corpus = corpus_of(tmp_path, PUBLIC, PRIVATE)
    assert tuple(corpus.vocabulary.control.speakers) == ("SYS", "USR")
    found = {len(ids): ids[1] for ids in all_ids(corpus.private_examples)}
    assert found == {32: corpus.vocabulary.control.other_speaker, 4: corpus.vocabulary.control.speakers["USR"]}


def test_rare_blank_and_colliding_speakers_get_no_token():
    counts = {"USR": 50, "John Smith": 1, "MASK": 90, "BOS": 90, " ": 90}
    assert common_names(counts, min_rows=2) == ("USR",)


def test_speakers_from_the_settings_are_used_as_they_are(tmp_path):
    assert corpus_of(tmp_path, PUBLIC, PRIVATE, speakers=("BOT",)).vocabulary.control.speakers.keys() == {"BOT"}


def test_without_public_rows_the_tokenizer_is_bytes(tmp_path):
    corpus = corpus_of(tmp_path, [], PRIVATE)
    assert corpus.vocabulary.kind == "bytes"
    assert corpus.vocabulary.control.speakers == {}
    assert corpus.vocabulary.backend.get_vocab_size() == 256 + len(EVERY) + len(USUAL_TOKENS.names())
    assert corpus.vocabulary.backend.get_vocab_size() <= USUAL_TOKENS.min_vocab_size


@settings(max_examples=50, deadline=None)
@given(text=st.text(max_size=30).filter(lambda t: "<" not in t))
def test_bytes_round_trip(text):
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids
    assert len(ids) == len(text.encode())
    assert TOKENIZER.decode(ids) == text


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), num_files=st.integers(1, 3))
def test_public_rows_do_not_show_the_corpus_order(tmp_path_factory, seed, num_files):
    rows = [*PUBLIC, ("Bye.", None), ("Bye.", "SYS"), ("Bye.", None)]
    shuffled = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]
    first = corpus_of(tmp_path_factory.mktemp("order"), rows)
    second = corpus_of(tmp_path_factory.mktemp("order"), shuffled, num_files=num_files)
    assert all_ids(first.nonprivate_examples) == all_ids(second.nonprivate_examples)
    assert first.vocabulary.backend.to_str() == second.vocabulary.backend.to_str()


_FIELD = st.none() | st.text(max_size=3)


@settings(max_examples=200, deadline=None)
@given(
    one=st.tuples(_FIELD, _FIELD, _FIELD, st.text(max_size=3)),
    other=st.tuples(_FIELD, _FIELD, _FIELD, st.text(max_size=3)),
)
def test_content_hash_tells_different_rows_apart(one, other):
    assert (content_hash(*one) == content_hash(*other)) == (one == other)


def test_content_hash_keeps_field_borders():
    assert content_hash("ab", None, None, "c") != content_hash("a", None, None, "bc")
    assert content_hash("a", None, None, "") != content_hash(None, "a", None, "")
    assert content_hash("", None, None, "") != content_hash(None, None, None, "")


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(st.sampled_from(["<MASK>", "a", " b", "<PAD>", "<BOS>", "<USR>"]), max_size=6))
def test_targets_are_text_and_its_end_only(parts):
    ids = np.asarray(ids_of("".join(parts), "USR"))
    targets = target_positions(ids, CONTROL)
    text = [i for i in range(len(ids)) if ids[i] not in CONTROL.never_predicted and ids[i] != CONTROL.eos]
    expected = [*text, len(ids) - 1] if text else []
    assert np.flatnonzero(targets).tolist() == expected


def test_a_wholly_masked_record_has_no_targets_and_stays_a_record():
    records = records_of([("<MASK>", "USR"), "hello", "<MASK>"])
    assert len(records) == 3
    assert records.num_targets.tolist() == [0, 6, 0]


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(st.sampled_from(["<MASK>", "a", "hello <MASK> you", ""]), min_size=1, max_size=5))
def test_the_loss_is_normalised_inside_each_example(texts):
    records = records_of(texts)
    batch = records.collate(np.arange(len(texts)))
    expected = [1.0 if n else 0.0 for n in records.num_targets]
    assert batch.weights.sum(dim=1).tolist() == pytest.approx(expected)
    for at, (ids, num_targets) in enumerate(zip(all_ids(records), records.num_targets, strict=True)):
        marked = batch.weights[at] > 0
        assert int(marked.sum()) == num_targets
        assert batch.labels[at][marked].tolist() == [i for i in ids if i not in CONTROL.never_predicted][:num_targets]


def test_a_long_record_is_cut_and_never_spills():
    frame = frame_of(rows_of([("SYS", "")]), CONTROL)
    ids, cut = frame.encode([list(range(70, 170))], 16)
    assert (len(ids), cut) == (16, True)
    assert ids[:2] == [CONTROL.bos, CONTROL.speakers["SYS"]]
    assert CONTROL.eos not in ids
    assert frame_of(rows_of([(None, "")]), CONTROL).encode([[70]], 16) == ([CONTROL.bos, 70, CONTROL.eos], False)


def test_lengthening_one_row_changes_one_record(tmp_path):
    private = [(f"order {i} for <MASK>", "USR") for i in range(12)]
    longer = list(private)
    longer[4] = ("order 4, with far more to say than before, " * 9 + "for <MASK>", "USR")
    before = all_ids(corpus_of(tmp_path / "a", PUBLIC, private).private_examples)
    after = all_ids(corpus_of(tmp_path / "b", PUBLIC, longer).private_examples)
    assert sum(before[i] != after[i] for i in range(12)) == 1


def test_held_out_sentences_are_a_sample_of_the_right_fold(tmp_path):
    sentences = [(f"held out {i}", "USR", "test" if i % 2 else "train") for i in range(60)]
    corpus = corpus_of(tmp_path, PUBLIC, [], sentences, max_eval_sentences=10)
    assert len(corpus.held_out.records) == 10
    assert corpus.held_out.num_available == 30
    decoded = [corpus.vocabulary.backend.decode(ids) for ids in all_ids(corpus.held_out.records)]
    allowed = {text for text, _, fold in sentences if fold == "test"}
    assert set(decoded) <= allowed
    assert corpus.held_out.num_words.tolist() == [3 + 1] * 10


def test_words_of_a_cut_sentence_are_those_that_were_kept(tmp_path):
    sentences = [("one two three four five six seven", None, "test")]
    corpus = corpus_of(tmp_path, [], PRIVATE, sentences, context_length=10)
    assert corpus.vocabulary.backend.decode(all_ids(corpus.held_out.records)[0]) == "one two t"
    assert corpus.held_out.num_words.tolist() == [3]


@pytest.mark.parametrize("sizes", [{"num_heads": 3}, {"context_length": 4}, {"num_layers": 0}, {"embedding_size": 30}])
def test_sizes_that_do_not_fit_are_refused(sizes):
    with pytest.raises(ConfigError, match="train"):
        resolve_shape("tiny", **sizes)


def test_explicit_sizes_override_the_preset():
    assert resolve_shape("tiny", num_layers=1) == ModelShape(
        num_layers=1, num_heads=4, embedding_size=128, context_length=128
    )
    with pytest.raises(ConfigError, match=", ".join(PRESETS)):
        resolve_shape("huge")
