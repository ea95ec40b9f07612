"""``reticent redact`` and ``reticent evaluate-policy``, in this process."""

from __future__ import annotations

import json
import math
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support import REPOSITORY
from support.plugins import Named
from typer.testing import CliRunner

from flows.arguments import app
from flows.commands.evaluate_policy import evaluation_document, evaluation_text
from flows.commands.redact import redact_lines, redactor_spec, settings_options
from pipelines.corpus.languages import stop_words
from pipelines.errors import ConfigError, InputError
from pipelines.policies.judging.stabilise import PLACEHOLDER
from pipelines.policies.protocol import Sentence, Span
from pipelines.settings.redact import RedactConfig


def lines_of(
    path: Path, policies: list[str], options: dict[str, Any] | None = None, **more: Any
) -> list[dict[str, Any]]:
    spec = redactor_spec(policies, options or {})
    return [json.loads(line) for line in redact_lines(str(path), spec, **more)]


def test_lines_of_text_give_offsets_into_each_line(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"  Room 12,\tfloor 3.\r\n\nnothing\n")
    first, second = lines_of(path, ["digits"])
    assert first == {
        "id": "1",
        "redacted_text": "  Room <MASK>,\tfloor <MASK>.",
        "spans": [
            {"start": 7, "end": 9, "label": "DIGITS", "policy": "digits", "score": 1.0},
            {"start": 17, "end": 18, "label": "DIGITS", "policy": "digits", "score": 1.0},
        ],
    }
    assert (second["id"], second["redacted_text"], second["spans"]) == ("3", "nothing", [])


def test_json_lines_keep_their_ids_and_unions_patterns_and_flags_work(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"id": "a", "text": "code ab1 or xy2"}\n{"text": "see you soon"}\n', encoding="utf-8")
    options = {**settings_options(["CODE=xy"], None, None), "conservative": "conservative"}
    a, b = lines_of(path, ["digits,regex"], options, as_json=True)
    assert (a["schema_version"], a["id"], a["redacted_text"]) == (1, "a", "code <MASK> or <MASK>")
    assert {span["label"] for span in a["spans"]} == {"DIGITS", "CODE"}
    assert (a["flagged_by_conservative"], b["id"], b["flagged_by_conservative"]) == (True, "2", False)


@pytest.mark.parametrize(
    ("policies", "options", "message"),
    [
        (["high_entitty"], {}, "did you mean 'high_entity'"),
        (["regex"], {"patterns": {"A": "(x"}}, "does not compile"),
        (["regex"], {}, "'regex' needs the setting 'patterns'"),
        (["digits"], {"patterns": {"A": "x"}}, "'patterns' need the policy 'regex'"),
        (["propagate"], {}, "name at least one other policy"),
        (["digits"], {"conservative": "propagate"}, "cannot vouch"),
        ([], {}, "--policy"),
    ],
)
def test_bad_options_are_refused_before_any_work(policies: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        redactor_spec(policies, options)


def test_a_missing_model_is_refused_with_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("x\n")
    with pytest.raises(ConfigError, match="pip install xx-none"):
        lines_of(tmp_path / "in.txt", ["high_entity"], {"model": "xx_none"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"txt": "hidden secret"}\n', 'line 1: not a JSON object with a string "text"'),
        (b'{"text": 5, "x": "hidden"}\n', 'line 1: not a JSON object with a string "text"'),
        (b'{"text": "a"}\n{"text": "hidden \xe9"}\n', "line 2: not UTF-8"),
        (b"a\nhidden \xff\xfe\n", "line 2: not UTF-8"),
        (b'{"text": "a"}\n{"txt": "hidden secret"}\n', "line 2: not a JSON object"),
        (b'{"text": "a"}\n{"text": "hidden \\ud800"}\n', "line 2: holds half of a surrogate pair"),
        (b'{"text": "a", "id": "hidden \\udfff"}\n', "line 1: holds half of a surrogate pair"),
        (b'{"text": "a", "id": {"x": "hidden"}}\n', 'line 1: "id" must be'),
        (b'{"text": "a"}\n' + b"[" * 100_000 + b"\n", "line 2: not a JSON object"),
    ],
)
def test_records_that_cannot_be_used_are_refused_by_their_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as told:
        lines_of(path, ["digits"])
    assert "hidden" not in str(told.value)
    with pytest.raises(InputError, match="No such file"):
        lines_of(tmp_path / "none", ["digits"])


def test_text_that_only_looks_odd_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    lines = [
        "\ufeffroom 1",
        "[" * 50_000,
        "nul \x00 2",
        "\u202ertl 3\u202c",
        "e\u0301 zero\u200bwidth 4",
        "a\u2028b\x85c 5",
    ]
    path.write_bytes("\r\n".join(lines).encode())
    found = lines_of(path, ["digits"])
    assert [row["id"] for row in found] == ["1", "2", "3", "4", "5", "6"]
    assert found[0]["redacted_text"] == "room <MASK>"
    lines[0] = lines[0][1:]
    for row, line in zip(found, lines, strict=True):
        found_there = "".join(line[span["start"] : span["end"]] for span in row["spans"])
        assert [c for c in found_there if c.isdigit()] == [c for c in line if c.isdigit()]


class Leaves(Named):
    """A policy that ends the process, as a careless library may."""

    def find(self, sentence: Sentence) -> list[Any]:
        if "leave" in sentence.text:
            sys.exit(0)
        return []


class Reads(Named):
    """A policy that masks the word "tail" where it reads a placeholder."""

    def find(self, sentence: Sentence) -> list[Span]:
        words = sentence.tokens()
        return [
            Span(i, i + 1, "X", self.name) for i, word in enumerate(words) if word == "tail" and PLACEHOLDER in words
        ]


@pytest.mark.parametrize(("options", "expected"), [([], "room <MASK>"), (["--no-stabilise"], "room <MASK> tail")])
def test_what_is_redacted_is_what_a_run_redacts_unless_asked(tmp_path: Path, options: list[str], expected: str) -> None:
    """Guards figures of policies: both commands read as a run reads by default (`redact.stabilise`)."""
    path, gold = tmp_path / "in.txt", tmp_path / "gold.jsonl"
    path.write_text("room 12 tail\n")
    gold.write_text('{"text": "room 12 tail", "spans": [{"start": 8, "end": 12, "label": "A"}]}\n')
    policies = ["--policy", f"digits,{__name__}:Reads", *options]
    done = CliRunner().invoke(app, ["redact", *policies, str(path)])
    assert json.loads(done.output)["redacted_text"] == expected
    done = CliRunner().invoke(app, ["evaluate-policy", *policies, "--gold", str(gold), "--json"])
    document = json.loads(done.output)
    assert document["stabilise"] == (not options)
    assert document["overall"]["token_recall"]["value"] == (0.0 if options else 1.0)
    assert RedactConfig(policies=("digits",)).stabilise


def test_failing_policies_are_told_of_and_fail_closed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.txt"
    path.write_text("leave now\nstay\n")
    name = f"{__name__}:Leaves"
    left, stayed = lines_of(path, [name])
    assert (left["redacted_text"], stayed["redacted_text"]) == ("<MASK>", "stay")
    assert "a policy failed on 1 text;" in capsys.readouterr().err
    left, stayed = lines_of(path, ["digits"], {"conservative": name})
    assert (left["flagged_by_conservative"], stayed["flagged_by_conservative"]) == (True, False)
    assert "the conservative policy failed on 1 text;" in capsys.readouterr().err


def test_a_model_for_another_language_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("Hund\n")
    with pytest.raises(ConfigError, match=r"is for 'en', but redact\.language is 'de'"):
        lines_of(tmp_path / "in.txt", ["high_entity"], {"language": "de"})
    assert lines_of(tmp_path / "in.txt", ["digits"], {"language": "de"})  # reads no model


def test_stop_words_are_spacys_own() -> None:
    from spacy.lang.nl.stop_words import STOP_WORDS

    assert stop_words("nl") == STOP_WORDS


GERMAN = (
    "Das ist der Brief, den ich dir gestern mit der Post nach Hause geschickt habe, und er ist noch nicht da. " * 10
)


def test_text_in_another_language_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text(GERMAN + "\n")
    with pytest.raises(ConfigError, match="looks like 'de'"):
        lines_of(path, ["digits"])
    assert lines_of(path, ["digits"], check_language=False)
    path.write_text("Это письмо я отправил вчера домой. " * 40)
    with pytest.raises(ConfigError, match="not in Latin letters"):
        lines_of(path, ["digits"])
    path.write_text("John Smith 12\nMary Jones 13\n" * 100)  # terse text is no foreign text
    assert lines_of(path, ["digits"])


def test_long_texts_are_read_to_their_last_word(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("word " * 5_000 + "12")
    (row,) = lines_of(path, ["digits"])
    assert row["redacted_text"].endswith("word <MASK>")
    assert [span["start"] for span in row["spans"]] == [25_000]


@pytest.mark.slow
def test_two_workers_give_the_same_lines_as_one(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"Mary Jones paid {i} dollars to Google in May.\n" for i in range(40)))
    assert lines_of(path, ["high_entity"], workers=2) == lines_of(path, ["high_entity"])


def test_scores_of_a_policy_that_can_be_counted_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    rows = [
        {
            "text": "id 12 of ann lee",
            "spans": [{"start": 3, "end": 5, "label": "ID"}, {"start": 9, "end": 16, "label": "NAME"}],
        },
        {"text": "room 7", "spans": []},
        {"text": "ref 99 x", "spans": [{"start": 0, "end": 6, "label": "ID"}]},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = evaluation_document(str(path), redactor_spec(["digits"], {}))
    overall = document["overall"]
    assert (overall["token_recall"]["num_hits"], overall["token_recall"]["num_units"]) == (2, 5)
    assert overall["token_precision"]["value"] == pytest.approx(2 / 3)
    assert overall["token_f2"]["value"] == pytest.approx(5 * (2 / 3) * 0.4 / (4 * (2 / 3) + 0.4))
    assert overall["span_recall"]["value"] == pytest.approx(1 / 3)
    assert document["by_label"]["ID"]["token_recall"]["value"] == pytest.approx(2 / 3)
    assert document["by_label"]["NAME"]["span_recall"]["value"] == 0
    low, high = (overall["token_recall"][end] for end in ("low", "high"))
    assert low < 0.4 < high
    assert document["most_missed"][0] == {
        "label": "ID",
        "num_missed_spans": 1,
        "num_missed_tokens": 1,
        "share_of_all_missed_spans": 0.5,
    }
    assert document["texts"] == {
        "share_without_a_find": 0.0,
        "num_bearing_a_secret": 2,
        "num_bearing_a_secret_without_a_find": 0,
        "missed": 0.0,
        "missed_low": 0.0,
        "missed_high": pytest.approx(1 - math.sqrt(0.025)),
    }
    assert document["coverage"] == pytest.approx(3 / 11)
    assert "ann" not in evaluation_text(document) + json.dumps(document)


def test_scoring_by_sentence_cuts_gold_spans_with_the_text(tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text('{"text": "I paid. It was 12 euros.", "spans": [{"start": 15, "end": 17, "label": "N"}]}\n')
    document = evaluation_document(str(path), redactor_spec(["digits"], {}), by_sentence=True)
    assert document["num_texts"] == 2
    assert document["texts"]["num_bearing_a_secret"] == 1
    assert document["overall"]["token_recall"]["value"] == 1.0


def test_bad_gold_is_refused_without_a_quote(tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    for spans in ("null", '[{"start": 0, "end": 99, "label": "A"}]', '[{"start": true, "end": 1, "label": "A"}]'):
        path.write_text(f'{{"text": "hidden", "spans": {spans}}}\n')
        with pytest.raises(InputError, match="record 1") as told:
            evaluation_document(str(path), redactor_spec(["digits"], {}))
        assert "hidden" not in str(told.value)
    path.write_text("")
    with pytest.raises(InputError, match="no gold record"):
        evaluation_document(str(path), redactor_spec(["digits"], {}))


def test_the_settings_and_the_command_that_the_documentation_shows_work(tmp_path: Path) -> None:
    text = (REPOSITORY / "docs" / "policies.md").read_text(encoding="utf-8")
    toml, shell = (re.search(rf"```{kind}\n(.*?)```", text, re.S) for kind in ("toml", "sh"))
    assert toml is not None
    assert shell is not None
    config = RedactConfig.model_validate(tomllib.loads(toml[1])["redact"])
    assert (config.conservative, len(config.policies)) == ("conservative", 5)
    (tmp_path / "in.txt").write_text(shell[1].partition("'")[2].partition("\\n")[0], encoding="utf-8")
    assert lines_of(tmp_path / "in.txt", ["high_entity,digits"])[0]["redacted_text"] == "Ask <MASK> at <MASK>."


ANNOTATED = {
    "spans": '{"text": "Room 12", "spans": [{"start": 5, "end": 7, "label": "N"}]}',
    "entities with other keys": '{"full_text": "Room 12", "entities": '
    '[{"start_position": 5, "end_position": 7, "entity_type": "N"}]}',
    "triples": '{"text": "Room 12", "label": [[5, 7, "N"]]}',
    "offsets": '{"text": "Room 12", "entities": [{"id": 1, "label": "N", "start_offset": 5, "end_offset": 7}]}',
    "an array": '\ufeff[{"text": "Room 12",\n "gold": [{"start": 5, "end": 7, "label": "N"}]}]',
    "an annotated task": '[{"data": {"text": "Room 12"}, "annotations": [{"result": [{"type": "labels", "value": '
    '{"start": 5, "end": 7, "text": "12", "labels": ["N"]}}]}]}]',
}


@pytest.mark.parametrize("name", ANNOTATED)
def test_records_of_annotation_tools_are_scored(tmp_path: Path, name: str) -> None:
    path = tmp_path / "gold.json"
    path.write_text(ANNOTATED[name], encoding="utf-8")
    document = evaluation_document(str(path), redactor_spec(["digits"], {}), check_language=False)
    assert document["by_label"]["N"]["token_recall"]["value"] == 1.0
    assert document["num_texts"] == 1
