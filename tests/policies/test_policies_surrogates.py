"""Surrogates tell the label and which mentions are one secret, nothing else; and they can be turned back."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.commands.redact import redact_lines, redactor_spec
from flows.commands.restore import replacing, restored_lines
from pipelines.errors import ConfigError, InputError
from pipelines.mask import MASK
from pipelines.policies.labels import REVIEW_LABELS
from pipelines.policies.protocol import Span
from pipelines.policies.surrogates import Surrogates, restored, typed_text
from pipelines.settings.estimate import EstimateConfig

KEY = b"k" * 32
NAMES = EstimateConfig().review_labels(())
LABELS = [
    "PERSON",
    "EMAIL_ADDRESS",
    "PHONE_NUMBER",
    "ADDRESS",
    "DATE",
    "CARDINAL",
    "PASSWORD",
    "GPE",
    "ORG",
    "ODD",
    "ORDER",
]


def tokens(text):
    found = [m.span() for m in re.finditer(r"\w+|[^\w\s]", text)]
    return [a for a, _ in found], [b for _, b in found]


def spans_of(*found):
    return [Span(a, b, label, "p") for a, b, label in found]


@settings(deadline=None, max_examples=150)
@given(
    words=st.lists(
        st.sampled_from(["Jane", "12", "a1", "é😀", "Alex", "Marlow", ",", "<MASK>", "at"]),
        min_size=1,
        max_size=12,
    ),
    marks=st.lists(st.tuples(st.integers(0, 11), st.integers(1, 3), st.sampled_from(LABELS)), max_size=5),
    glue=st.sampled_from(["", " ", "\n "]),
    consistent=st.sampled_from(["document", "corpus"]),
)
def test_every_text_comes_back(words, marks, glue, consistent):
    text = glue.join(words)
    starts, ends = tokens(text)
    spans = spans_of(*((a, min(a + n, len(starts)), label) for a, n, label in marks if a < len(starts)))
    written, table = Surrogates(KEY, NAMES, consistent).text("d", text, starts, ends, spans)
    if table or not spans:
        assert restored(written, table) == text
    else:
        assert MASK in written  # no way back: masks


def test_nothing_of_a_secret_shows_but_its_label():
    """The generator draws from a hash: over many secrets, length and digits of the surrogate say nothing of theirs."""
    maker = Surrogates(KEY, NAMES)

    def lengths(secret):
        found = []
        for number in range(400):
            text = f"{secret}{number:03}"
            written, _ = maker.text("d", text, [0], [len(text)], spans_of((0, 1, "PERSON")))
            assert not re.search(r"\d", written)
            found.append(len(written))
        return sum(found) / len(found)

    assert lengths("J") == pytest.approx(lengths("A very long name " * 5), abs=0.5)


def surrogate(document, secret, label="PERSON", key=KEY, consistent="document"):
    ((row,)) = Surrogates(key, NAMES, consistent).text(document, secret, [0], [len(secret)], spans_of((0, 1, label)))[1]
    return row.surrogate


def test_where_surrogates_are_consistent():
    assert surrogate("one", "Jane") == surrogate("one", "Jane")
    assert surrogate("one", "Jane") != surrogate("two", "Jane")
    assert surrogate("one", "Jane", consistent="corpus") == surrogate("two", "Jane", consistent="corpus")
    assert surrogate("one", "Jane") != surrogate("one", "Jane", key=b"x" * 32)
    assert surrogate("one", "Jane") != surrogate("one", "Jane", label="GPE")
    with pytest.raises(ValueError):
        Surrogates(b"short", NAMES)


@pytest.mark.parametrize("label", [*LABELS, *REVIEW_LABELS])
def test_every_label_has_surrogates_enough(label):
    assert len({surrogate(str(n), "Jane", label) for n in range(200)}) > 25


@pytest.mark.parametrize("label", ["FAILED_CLOSED", "LITERAL_MASK"])
def test_what_nobody_named_stays_a_mask(label):
    assert Surrogates(KEY, NAMES).text("d", "Jane", [0], [4], spans_of((0, 1, label))) == (MASK, [])
    assert typed_text("Jane x", [0, 5], [4, 6], spans_of((0, 1, label)), NAMES) == f"{MASK} x"


def test_labels_in_place_of_masks():
    spans = spans_of((0, 1, "GPE"), (0, 2, "PERSON"), (3, 4, "CARDINAL"))
    starts, ends = tokens("Jane Doe has 12")
    assert typed_text("Jane Doe has 12", starts, ends, spans, NAMES) == "<PERSON> has <NUMBER>"


def redacted(tmp_path, rows, **options):
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = redactor_spec(["digits", "customersim"], {})
    given = {
        "replacement": "surrogate",
        "key": tmp_path / "key",
        "table": tmp_path / "map.jsonl",
        "consistent": "document",
    }
    with replacing(spec=spec, **given | options) as replace:
        return [json.loads(line) for line in redact_lines(str(file), spec, check_language=False, replace=replace)]


ROWS = [
    {"id": 1, "text": "call 5551234567 or 77"},
    {"id": "b", "text": "it is 77, and 5551234567 again: 77"},
    {"text": "none"},
]


def test_a_file_is_written_and_comes_back(tmp_path):
    written = redacted(tmp_path, ROWS)
    assert all("spans" not in row for row in written)
    assert not any("5551234567" in row["redacted_text"] or "77" in row["redacted_text"].split() for row in written)
    for name in ("key", "map.jsonl"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps(row) + "\n" for row in written))
    back = [json.loads(line) for line in restored_lines(str(answers), tmp_path / "map.jsonl")]
    assert [row["text"] for row in back] == [row["text"] for row in ROWS]
    quoted = json.loads((tmp_path / "map.jsonl").read_text().splitlines()[0])
    answers.write_text(json.dumps({"id": 1, "text": f"I called {quoted['surrogate']}."}) + "\n")
    (line,) = restored_lines(str(answers), tmp_path / "map.jsonl")
    assert json.loads(line)["text"] == f"I called {quoted['original']}."


def test_options_that_do_not_fit_are_refused(tmp_path):
    redacted(tmp_path, ROWS)
    for options, told in (
        ({}, "exists already"),
        ({"table": None}, "needs --surrogate-key"),
        ({"replacement": "label"}, "need --replacement surrogate"),
        ({"replacement": "other"}, "must be one of"),
        ({"consistent": "book", "table": tmp_path / "new"}, "document or corpus"),
    ):
        with pytest.raises(ConfigError, match=told):
            redacted(tmp_path, ROWS, **options)
    (tmp_path / "key").write_text("abc")
    with pytest.raises(ConfigError, match=r"as a key|fewer than 32") as error:
        redacted(tmp_path, ROWS, table=tmp_path / "new")
    assert "abc" not in str(error.value)


def test_a_damaged_map_is_told_by_its_line(tmp_path):
    (tmp_path / "map").write_text('{"id": "1", "surrogate": "Alex", "original": "Jane", "label": "PERSON"}\nJane\n')
    with pytest.raises(InputError, match="line 2") as error:
        list(restored_lines(str(tmp_path / "map"), tmp_path / "map"))
    assert "Jane" not in str(error.value)
    row = '{"id": "1", "surrogate": "Alex", "original": "%s", "label": "PERSON"}\n'
    (tmp_path / "map").write_text(row % "Jane" + row % "Ann")
    with pytest.raises(InputError, match="same id"):
        list(restored_lines(str(tmp_path / "map"), tmp_path / "map"))
