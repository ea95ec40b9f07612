"""Control tokens of conversations and domains: where they stand, who is named by them, and what they may not tell."""

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from support.small_models import load_model, save_family
from support.tiny import all_ids, making, read_tables, rows_of
from support.training_tables import row_of, write_tables

from pipelines.methods.registry import METHODS
from pipelines.training.data.control import RESERVED, AddedTokens, common_names, name_token
from pipelines.training.data.encoding import RecordEncoder
from pipelines.training.data.record_unit import RecordUnit
from pipelines.training.data.records import frame_of, target_positions
from pipelines.training.data.vocabulary import learn_vocabulary
from pipelines.training.models.loading import complete_model, open_model
from pipelines.training.tasks.dialogue import dialogue_example
from pipelines.training.tasks.responses import SELF, reply_prompts

TOLD = {"has_domains": True, "has_conversations": True}
ADDED = AddedTokens(speakers=("SYS", "USR"), domains=("AIRLINE",), **TOLD)
VOCABULARY = learn_vocabulary("bytes", 0, None, ADDED)
CONTROL = VOCABULARY.control


def read(folder, rows, method="crt", unit=None, context_length=400, kind="bytes", without=(), **changes):
    """Reads the tables of ``rows``; the training rows ``without`` are in the documents' lengths only."""
    documents = write_tables(folder, rows).documents
    kept = [row for row in rows if row not in without]
    tables = replace(write_tables(folder / "kept", kept), documents=documents)
    arguments = {
        "view": METHODS[method].view,
        "unit": unit or RecordUnit(),
        "make_vocabulary": making(kind, **TOLD),
        "make_encoder": lambda vocabulary: RecordEncoder(vocabulary, context_length),
        "speakers": ("SYS", "USR"),
        "domains": ("AIRLINE",),
    }
    return read_tables(tables, folder, **{**arguments, **changes})


def corpus_rows(lengths, domains=("AIRLINE", "MEDIA", None), fold="train"):
    return [
        row_of(
            f"{fold}{number}",
            at,
            f"turn {number}.{at}" + (" {Ann}" if (number + at) % 3 == 0 else ""),
            ("SYS", "USR", "Ms Quibble", None)[at % 4],
            fold,
            domain=domains[number % len(domains)],
        )
        for number, length in enumerate(lengths)
        for at in range(length)
    ]


def expected_ids(rows, control, encoder, column, unit):
    """The ids of every record of training rows, one by one and by the words of the settings."""
    documents = defaultdict(list)
    for sentence, redacted in rows:
        documents[sentence["doc_id"]].append((sentence if column == "text" else redacted)[column])
    found = []
    for doc_id, texts in documents.items():
        size = unit.num_sentences
        for start in range(0, len(texts), size):
            ids = [control.bos] + ([control.conversation_start] if start == 0 else [])
            for at, text in list(enumerate(texts))[start : start + size]:
                row = next(s for s, _ in rows if (s["doc_id"], s["sentence_index"]) == (doc_id, at))
                if row["domain"]:
                    ids.append(control.domains.get(row["domain"], control.other_domain))
                if row["speaker"]:
                    ids.append(control.speakers.get(row["speaker"], control.other_speaker))
                elif not row["domain"] and at > start:
                    text = " " + text
                ids += encoder.ids([text])[0]
            found.append([*ids, *([control.conversation_end] if start + size >= len(texts) else []), control.eos])
    return sorted(found)


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    unit=st.sampled_from([RecordUnit(), RecordUnit(kind="dialogue"), RecordUnit(kind="block", sentences_per_block=3)]),
    method=st.sampled_from(["crt", "redacted", "dpsgd", "no_dp", "sdpsgd_lstm"]),
)
def test_a_conversation_begins_and_ends_once_and_every_turn_has_its_domain(tmp_path_factory, lengths, unit, method):
    rows = corpus_rows(lengths)
    corpus = read(tmp_path_factory.mktemp("corpus"), rows, method, unit)
    control = corpus.vocabulary.control
    found = all_ids(corpus.nonprivate_examples) + all_ids(corpus.private_examples)
    column = "redacted_text" if METHODS[method].view.reads_shards else "text"
    marked = method == "sdpsgd_lstm"  # private pieces are encoded apart; bytes come out the same
    assert sorted(found) == expected_ids(rows, control, corpus.vocabulary.encoder, column, unit)
    flat = Counter(token for ids in found for token in ids)
    assert flat[control.conversation_start] == flat[control.conversation_end] == len(lengths)
    if marked:
        for ids, marks in zip(
            all_ids(corpus.private_examples), all_ids_of(corpus.private_examples.is_private), strict=True
        ):
            assert len(ids) == len(marks)
            assert not any(mark for token, mark in zip(ids, marks, strict=True) if token in control.never_text)


def all_ids_of(ragged):
    return [ragged[at].tolist() for at in range(len(ragged.lengths))]


@pytest.mark.parametrize("unit", [RecordUnit(), RecordUnit(kind="block", sentences_per_block=2)])
def test_taking_a_record_away_changes_no_other(tmp_path, unit):
    rows = corpus_rows([4, 3], domains=("AIRLINE",))
    last = [rows[3]] if unit.kind == "sentence" else rows[2:4]
    whole = Counter(map(tuple, all_ids(read(tmp_path / "a", rows, "dpsgd", unit).private_examples)))
    less = Counter(map(tuple, all_ids(read(tmp_path / "b", rows, "dpsgd", unit, without=last).private_examples)))
    assert less <= whole
    assert (whole - less).total() == 1


def test_a_domain_of_private_rows_only_is_named_nowhere(tmp_path):
    public = [row_of(f"p{n}", 0, f"hello {n}, how are you", "USR", domain="MEDIA") for n in range(8)]
    secret = [row_of(f"s{n}", 0, "I am {Ann Lee}.", "USR", domain="Quibble Ltd") for n in range(8)]
    arguments = {"kind": "bpe_public", "domains": (), "min_speaker_rows": 4}
    corpus = read(tmp_path / "crt", public + secret, **arguments)
    assert corpus.vocabulary.control.domains.keys() == {"MEDIA"}
    assert "Quibble" not in corpus.vocabulary.backend.to_str()
    marks = {ids[2] for ids in all_ids(corpus.private_examples)}
    assert marks == {corpus.vocabulary.control.other_domain}
    # The check has power: among public rows the name is learnt; and methods that protect those rows name none.
    open_rows = [row_of(f"s{n}", 0, "I am Ann Lee.", "USR", domain="Quibble Ltd") for n in range(8)]
    leaky = read(tmp_path / "leaky", public + open_rows, **arguments)
    assert leaky.vocabulary.control.domains.keys() == {"MEDIA", "Quibble Ltd"}
    careful = read(tmp_path / "dpsgd", public + open_rows, "dpsgd", **arguments)
    assert careful.vocabulary.control.domains == {}


def test_names_of_another_meaning_get_no_token():
    counts = {"AIRLINE": 9, "USR": 9, "_soc_": 9, "_eoc_": 9, "DOMAIN": 9, "rare": 1}
    assert common_names(counts, 2, {*RESERVED, name_token("USR")}) == ("AIRLINE",)


@settings(max_examples=50, deadline=None)
@given(
    turns=st.lists(st.tuples(st.sampled_from(["SYS", "USR", None]), st.sampled_from(["hi", "<MASK>"])), min_size=1),
    starts=st.booleans(),
    ends=st.booleans(),
    length=st.integers(8, 60),
)
def test_only_text_and_what_follows_it_is_asked_for(turns, starts, ends, length):
    record = rows_of(turns, starts, ends, "AIRLINE")
    whole, _ = frame_of(record, CONTROL).encode(VOCABULARY.encoder.ids(record.texts), 10_000)
    ids, is_cut = frame_of(record, CONTROL).encode(VOCABULARY.encoder.ids(record.texts), length)
    assert (ids, is_cut) == (whole[:length], len(whole) > length)
    asked = {token for token, target in zip(ids, target_positions(np.asarray(ids), CONTROL), strict=True) if target}
    text = set(ids) - set(CONTROL.never_text.tolist())
    assert asked == (text | (CONTROL.ends & set(ids)) if text else set())
    assert not {CONTROL.conversation_start, *CONTROL.turn_marks} & asked


def test_held_out_records_are_aligned_with_their_text(tmp_path):
    rows = corpus_rows([3, 2], fold="test") + corpus_rows([2])
    corpus = read(tmp_path, rows, "dpsgd", RecordUnit(kind="dialogue"))
    control, held_out = corpus.vocabulary.control, corpus.held_out
    for at, ids in enumerate(all_ids(held_out.records)):
        words, places = held_out.word_of_token[at], held_out.places[at].reshape(-1, 4)[:, :3]
        assert ids[1] == control.conversation_start
        assert ids[-2] == control.conversation_end
        is_text = ~np.isin(ids, control.never_text)
        assert (words >= 0).tolist() == (places[:, 0] >= 0).tolist() == is_text.tolist()
    assert sorted(held_out.num_words) == [2 * 2 + 1, 3 * 2 + 1 + 1]  # with a name in the second, and each with its end


def test_the_turns_of_a_dialogue_are_marked_and_its_end_is_part_of_the_last():
    record = rows_of([("SYS", "hello"), ("USR", "bye")], starts=True, ends=True, domain="AIRLINE")
    example = dialogue_example(record, VOCABULARY.encoder, CONTROL, 100)
    first, second = VOCABULARY.encoder.ids(["hello", "bye"])
    domain, end = CONTROL.domains["AIRLINE"], CONTROL.eos
    assert [*example.ids, CONTROL.conversation_end] == [
        *(CONTROL.bos, CONTROL.conversation_start, domain, CONTROL.speakers["SYS"], *first, end),
        *(domain, CONTROL.speakers["USR"], *second, end, CONTROL.conversation_end),
    ]
    assert [t for t in example.labels if t != -100] == [*first, end, *second, end, CONTROL.conversation_end]


def test_a_reply_is_asked_for_after_the_same_tokens_as_in_training():
    control = learn_vocabulary("bytes", 0, None, AddedTokens(speakers=(SELF,), **TOLD)).control
    record = rows_of([("PARTNER", "hello"), (SELF, "hi")], starts=True, ends=True, domain="AIRLINE")
    encoder = VOCABULARY.encoder
    [prompt] = reply_prompts(record, encoder, control, 100, 10)
    ids = list(dialogue_example(record, encoder, control, 100).ids)
    assert ids[: len(prompt.ids)] == prompt.ids
    assert prompt.ids[1] == control.conversation_start
    assert prompt.ids[-2:] == [control.other_domain, control.speakers[SELF]]


def test_a_pretrained_model_gets_the_tokens_once(tmp_path):
    folder = save_family("gpt2", tmp_path / "model")
    loaded = complete_model(open_model(folder, "causal"), seed=1, added=ADDED)
    plain = load_model(folder, "causal", seed=1, has_speakers=True, speakers=("SYS", "USR"))
    assert loaded.num_new_tokens == plain.num_new_tokens + 4  # start, end, one domain, and all others
    loaded.vocabulary.tokenizer.save_pretrained(tmp_path / "again")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert again.convert_tokens_to_ids("<_soc_>") == loaded.vocabulary.control.conversation_start
    assert again.convert_tokens_to_ids("<AIRLINE>") == loaded.vocabulary.control.domains["AIRLINE"]
    spelt = loaded.vocabulary.encoder.ids(["<_eoc_> <AIRLINE> <_soc_>"])[0]
    assert not set(spelt) & set(loaded.vocabulary.control.never_text.tolist())
