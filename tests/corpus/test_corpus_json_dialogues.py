"""Dialogues in JSON: documents, rows, speakers, parts left out, rejected rows, and the recogniser."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from corpus_files import documents, dump, head_of, read, rejections, write_table
from format_examples_json import ASK, CHATGPT, EXAMPLES, OPENAI, REPLY, TASKMASTER, THANKS, chat, lines, whole
from hypothesis import given
from hypothesis import strategies as st

from pipelines.corpus.options import ReadOptions, SourceOptions
from pipelines.corpus.recognise_json import recognise
from pipelines.corpus.recognition import Reading
from pipelines.corpus.transcripts import transcript_turns
from pipelines.settings.corpus import CorpusConfig


def looked_at(path: Path) -> Reading | None:
    return recognise(head_of(path.name, path.read_bytes())._replace(path=path))


def written(folder: Path, name: str, data: bytes) -> Path:
    return dump("", name, data, folder)


def turns_of(document):
    return [(turn.speaker, document.text[turn.start : turn.end]) for turn in document.turns or ()]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_settings_that_are_found_are_settings(name):
    example = EXAMPLES[name]
    found = recognise(head_of(example.file_name, example.data))
    config = CorpusConfig(format=found.format, **dict(found.fields))
    sourced = CorpusConfig(source=[{"pattern": "*", "format": found.format, **dict(found.fields)}])
    for field, value in found.fields:
        assert getattr(config.read_options(), field) == value
        assert getattr(sourced.read_options().for_file("a"), field) == value


def test_settings_that_came_later_leave_older_keys_as_they_were():
    keyed = CorpusConfig(source=[{"pattern": "*.x", "text_field": "body"}]).keyed()
    assert not {"turns_field", "speaker_field"} & (keyed.keys() | keyed["source"][0].keys())
    changed = CorpusConfig(source=[{"pattern": "*.x", "turns_field": "a"}], speaker_field="who").keyed()
    assert changed["speaker_field"] == "who"
    assert changed["source"][0]["turns_field"] == "a"
    assert ReadOptions().columns == ("text", "id", "domain", "fold", "label", "spans")


def test_a_nested_list_of_turns_wins_over_a_longer_text_beside_it(tmp_path):
    found = looked_at(written(tmp_path, "tm.json", whole(TASKMASTER)))
    assert found.score >= 0.9
    assert dict(found.fields) == {"turns_field": "utterances", "id_field": "conversation_id"}


# --- messages ---------------------------------------------------------------------------------------------------


def test_messages_keep_the_system_and_count_pictures_and_tools(tmp_path):
    path = written(tmp_path, "a.jsonl", EXAMPLES["messages_parts"].data)
    first, _ = documents(read(path, "messages"))
    assert [speaker for speaker, _ in turns_of(first)] == ["system", "user", "assistant"]
    assert first.left_out == (("image", 1), ("tool", 2))


def test_metadata_of_the_record_is_kept(tmp_path):
    record = {"messages": OPENAI, "key": 7, "topic": "late", "fold": "valid", "label": True}
    (found,) = documents(
        read(written(tmp_path, "a.jsonl", lines(record)), "messages", id_field="key", domain_field="topic")
    )
    assert (found.source_id, found.domain, found.fold, found.label) == ("7", "late", "valid", "true")


def test_a_bad_line_or_turn_hurts_nobody(tmp_path):
    rows = [
        {"messages": OPENAI}, {"messages": "no speakers"}, {"messages": []}, {"other": 1}, 7,
        {"messages": [{"role": "user"}]},
        {"messages": [*OPENAI, 5, {"role": "user", "content": {"type": "text", "text": 7}}]}, {"messages": OPENAI},
    ]  # fmt: skip
    items = read(written(tmp_path, "a.jsonl", lines(*rows) + b'{"messages": [\n' + lines(rows[0])), "messages")
    assert [document.row for document in documents(items)] == [1, 7, 8, 10]
    assert rejections(items) == [
        (2, "no_turns"), (3, "empty"), (4, "no_turns"), (5, "not_an_object"), (6, "missing_text"),
        (7, "wrong_type"), (7, "wrong_type"), (9, "bad_json"),
    ]  # fmt: skip
    assert not any(ASK in item.detail for item in items if hasattr(item, "detail"))


def test_an_array_keeps_what_stands_beside_broken_elements(tmp_path):
    good = json.dumps({"messages": OPENAI})
    data = f'[{good}, {{"messages": [}}, {good}, 7, "x", {good}]'.encode()
    items = read(written(tmp_path, "a.json", data), "messages")
    assert len(documents(items)) == 3
    assert len(rejections(items)) == 2


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("as_columns", [False, True])
def test_tables_with_a_column_of_messages(tmp_path, kind, as_columns):
    def column(turns):
        return {key: [turn[key] for turn in turns] for key in turns[0]} if as_columns else turns

    table = pa.table({"n": [1, 2, 3], "id": ["a", "b", "c"], "messages": [column(OPENAI), None, column(OPENAI)]})
    path = write_table(tmp_path / f"a.{kind}", table)
    found = looked_at(path)
    assert (found.format, found.fields) == ("messages", ())
    items = read(path, "messages", rows=2)
    assert [turns_of(document)[0] for document in documents(items)] == [("user", ASK)] * 2
    assert rejections(items) == [(2, "no_turns")]


def test_tables_of_instructions(tmp_path):
    table = pa.table({"instruction": ["Greet."], "input": ["Ann"], "output": ["Hi Ann."]})
    (found,) = documents(read(write_table(tmp_path / "a.parquet", table), "instructions"))
    assert turns_of(found) == [("user", "Greet.\nAnn"), ("assistant", "Hi Ann.")]


def test_a_source_of_another_format_in_a_corpus(tmp_path):
    path = written(tmp_path, "a.json", EXAMPLES["multiwoz"].data)
    source = SourceOptions(pattern="*.json", format="turns", fields=(("speaker_field", "-"), ("turns_field", "*.log")))
    assert [d.source_id for d in documents(read(path, "turns", sources=(source,)))] == [
        f"PMUL{n}.json" for n in range(4)
    ]


# --- instructions -----------------------------------------------------------------------------------------------


def test_instructions_with_a_system_text_history_and_lists_of_messages(tmp_path):
    rows = [
        {"instruction": "c", "input": "", "output": "d", "system": "s", "history": [["a", "b"], "x"]},
        {"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]},
        {"prompt": "\n\nHuman: a\n\nAssistant: b\n\nHuman: c\n\nAssistant:", "response": "d"},
        {"prompt": "a"},
        {"prompt": "a", "completion": "  "},
    ]
    items = read(written(tmp_path, "a.jsonl", lines(*rows)), "instructions")
    first, second, third = documents(items)
    assert turns_of(first) == [("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")]
    assert turns_of(second) == [("user", "a"), ("assistant", "b")]
    assert [text for _, text in turns_of(third)] == ["a", "b", "c", "d"]
    assert rejections(items) == [(1, "wrong_type"), (4, "missing_text"), (5, "empty")]


def test_a_list_of_prompts_and_one_of_answers_are_read_together(tmp_path):
    row = {"prompt": OPENAI[:1], "completion": OPENAI[1:2]}
    assert looked_at(written(tmp_path, "a.jsonl", lines(row, row))).format == "instructions"


# --- ChatGPT ----------------------------------------------------------------------------------------------------


def test_the_current_branch_of_a_conversation(tmp_path):
    items = documents(read(written(tmp_path, "a.json", whole([CHATGPT])), "chatgpt"))
    assert turns_of(items[0]) == [("user", ASK), ("assistant", REPLY), ("user", THANKS)]
    assert items[0].left_out == (("image", 1), ("system", 1))
    assert items[0].source_id == "c-1"


def test_a_tree_that_forms_a_circle_ends(tmp_path):
    nodes = {n: {**CHATGPT["mapping"]["n1"], "id": n, "parent": p} for n, p in (("a", "b"), ("b", "a"), ("c", "c"))}
    for last in ("a", "c", None, 7, "unknown"):
        (found,) = documents(
            read(written(tmp_path, "a.json", whole([{"mapping": nodes, "current_node": last}])), "chatgpt")
        )
        assert 1 <= len(found.turns) <= 2


# --- transcripts in a text --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("Human: a\nb\n\nAssistant: c\nNote: d", [("Human", "a\nb"), ("Assistant", "c\nNote: d")]),
        ("Ann: a\r\nBob: at 10:30: b\r\nAnn: http://x", [("Ann", "a"), ("Bob", "at 10:30: b"), ("Ann", "http://x")]),
        ("Ann: a\nNote: b\nc\nAnn: d", [("Ann", "a\nNote: b\nc"), ("Ann", "d")]),
        ("#Person1#: a\n#Person2#: b", [("Person1", "a"), ("Person2", "b")]),
        ("### Human: a### Assistant: b", [("Human", "a"), ("Assistant", "b")]),
        ("<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>", [("user", "a"), ("assistant", "b")]),
        ("<human>: a\n<bot>: b", [("human", "a"), ("bot", "b")]),
        ("**Ann:** a\n**Bob:** b", [("Ann", "a"), ("Bob", "b")]),
        ("Be kind.\nHuman: a\nAssistant: b", [(None, "Be kind.\n"), ("Human", "a"), ("Assistant", "b")]),
        ("no speaker at all", None),
        ("", None),
    ],
)
def test_speakers_before_utterances(text, turns):
    assert transcript_turns(text) == turns


@given(st.text("Ab: #*<|>\n", max_size=60))
def test_no_text_of_a_transcript_is_lost(text):
    found = transcript_turns(text)
    if found is not None:
        kept = "".join(part for _, part in found)
        assert sum(map(kept.count, "b")) <= text.count("b")


# --- turns of any names -----------------------------------------------------------------------------------------

NAMES = st.from_regex("[a-z]{3,8}", fullmatch=True)
SAID = st.text("abc ", min_size=3, max_size=30).filter(lambda text: len(text.split()) > 1)


@given(
    names=st.lists(NAMES, min_size=4, max_size=4, unique=True),
    said=st.lists(st.lists(SAID, min_size=2, max_size=6), min_size=2, max_size=6),
    layout=st.sampled_from(["lines", "array", "object", "deeper"]),
)
def test_turns_of_any_names_come_back_as_they_were(tmp_path_factory, names, said, layout):
    turns_field, speaker, text, around = names
    records = [
        {turns_field: [{speaker: ("user", "agent")[n % 2], text: one} for n, one in enumerate(turns)]} for turns in said
    ]
    form = {
        "lines": ("a.jsonl", lines(*records), turns_field),
        "array": ("a.json", whole(records), turns_field),
        "object": ("a.json", whole({f"d.{n}": record for n, record in enumerate(records)}), f"*.{turns_field}"),
        "deeper": ("a.json", whole({around: records, "n": 1}), f"{around}.*.{turns_field}"),
    }
    name, data, place = form[layout]
    path = written(tmp_path_factory.mktemp("any"), name, data)
    fields = {"turns_field": place, "speaker_field": speaker, "text_field": text}
    items = read(path, "turns", **fields)
    assert [[part for _, part in turns_of(d)] for d in items] == [[one.strip() for one in turns] for turns in said]
    assert {speaker for d in items for speaker, _ in turns_of(d)} == {"user", "agent"}
    found = looked_at(path)
    assert found is not None
    assert {**dict(found.fields), **{k: v for k, v in fields.items() if v in ("turns", "speaker", "text")}} == fields


def test_a_wrong_place_is_a_reason_and_no_silence(tmp_path):
    path = written(tmp_path, "a.json", EXAMPLES["multiwoz"].data)
    assert rejections(read(path, "turns", turns_field="other.*.log")) == [(1, "no_turns")]
    assert {reason for _, reason in rejections(read(path, "turns", turns_field="*.other"))} == {"no_turns"}
    assert {reason for _, reason in rejections(read(path, "turns", turns_field="*.log", text_field="x"))} == {
        "missing_text"
    }


def test_one_file_is_one_dialogue(tmp_path):
    path = written(tmp_path, "a.json", b"\xef\xbb\xbf" + whole(chat("who", "said", ("Ann", "Bob"))))
    (found,) = documents(read(path, "turns", turns_field=".", speaker_field="who", text_field="said"))
    assert turns_of(found) == [("Ann", ASK), ("Bob", REPLY), ("Ann", THANKS)]


def test_numbers_as_speakers_are_no_names(tmp_path):
    row = {"turns": [{"speaker": 0, "text": "a"}, {"speaker": "1", "text": "b"}, {"speaker": True, "text": "c"}]}
    (found,) = documents(read(written(tmp_path, "a.jsonl", lines(row)), "turns"))
    assert [speaker for speaker, _ in turns_of(found)] == ["SPEAKER_0", "SPEAKER_1", "SPEAKER_1"]


# --- calls ------------------------------------------------------------------------------------------------------


def test_segments_of_one_speaker_are_one_turn(tmp_path):
    (found,) = documents(read(written(tmp_path, "a.json", EXAMPLES["diarised"].data), "diarised"))
    assert turns_of(found) == [
        ("SPEAKER_0", ASK), ("SPEAKER_1", "I am sorry. Which order?"), ("SPEAKER_0", THANKS)
    ]  # fmt: skip


def test_words_with_speakers_are_joined_to_turns(tmp_path):
    texts = {
        "amazon": "Hello.\nGood morning!\nBye.", "google": "Hello.\nGood morning!", "speechmatics": "Hello.\nYes",
        "rev": "Good day.\nGood day.", "deepgram_words": "Hello.\nBye.",
    }  # fmt: skip
    for name, text in texts.items():
        (found,) = documents(read(written(tmp_path, "a.json", EXAMPLES[name].data), "diarised"))
        assert found.text == text, name


# --- files of other formats -------------------------------------------------------------------------------------

TEXT = "The quick brown fox jumps over the lazy dog and runs away."
OTHERS = {
    "slack.json": [{"type": "message", "user": f"U{n % 3}", "text": TEXT, "ts": f"17.{n}"} for n in range(20)],
    "discord.json": {
        "guild": {"id": "1"},
        "channel": {"id": "2"},
        "messages": [{"timestamp": "2024", "content": TEXT, "author": {"name": f"ann{n % 2}"}} for n in range(20)],
    },
    "telegram.json": {
        "name": "x",
        "messages": [{"date": "2024", "from": f"Ann{n % 2}", "from_id": "u", "text": TEXT} for n in range(20)],
    },
    "squad.json": {"data": [{"paragraphs": [{"context": TEXT, "qas": [{"question": TEXT}] * 2}] * 3}] * 3},
    "tags.json": [{"id": n, "text": TEXT, "tags": ["a b", "c d"]} for n in range(5)],
    "recipes.json": [{"title": TEXT, "ingredients": ["two eggs and milk", "one cup of flour"]} for n in range(5)],
    "authors.json": [{"abstract": TEXT, "authors": [{"name": "Ann", "at": TEXT}, {"name": "Bob", "at": TEXT}]}] * 5,
    "forms.json": [
        {"id": 1, "fields": [{"name": "street", "value": "12 high street"}, {"name": "note", "value": TEXT}]}
    ]
    * 4,
    "package.json": {"name": "x", "scripts": {"a": "b"}, "files": ["a", "b"]},
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_files_are_not_claimed(tmp_path, name):
    found = looked_at(written(tmp_path, name, whole(OTHERS[name])))
    assert found is None or found.score < 0.7


def test_side_files_are_no_text(tmp_path):
    found = looked_at(written(tmp_path, "schema.json", whole([{"service_name": "a", "slots": [], "intents": []}])))
    assert (found.format, found.score) == (None, 0.95)
