"""Secrets in fixed phrases, names in code, and the marked short texts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pipelines.policies.detectors.identifiers.forms import find_forms
from pipelines.policies.english.code import is_identifier_of_code


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Kind regards,\nOluchi Eze", "Oluchi Eze"),
        ("Cheers,\n\nGus", "Gus"),
        ("# FIXME(@dmarlow): later", "dmarlow"),
        ("O'Leary and McBride left", "O'Leary"),
        ("user dmarlow pw tulipfield", "tulipfield"),
        ("Security question: first car? Answer: Blue Beetle", "Blue Beetle"),
        ("deploy token → fern-otter", "fern-otter"),
        ("QQ 11 22 33 C", "QQ 11 22 33 C"),
        ("at 52.51627, 13.37770 now", "52.51627, 13.37770"),
        ("didn't Rose call?", "Rose"),
        ("Hazel is our neighbour.", "Hazel"),
        ("curl -u qxwv:tulip https://localhost", "qxwv"),
        ("mysql -u qxwv -ptulip shop", "qxwv"),
    ],
)
def test_finds_secrets_in_fixed_phrases(text: str, secret: str) -> None:
    assert secret in {text[start:end] for start, end, _ in find_forms(text)}


@pytest.mark.parametrize(
    "text",
    [
        "Kind regards,\nThe Support Team",
        "Your username and password are required.",
        "did you reply",
        "it is our neighbour",
        "TODO(#123): later",
        "it costs 3.50, 4.50 with milk",
        "python -u script.py, then git push -u origin",
    ],
)
def test_leaves_plain_phrases(text: str) -> None:
    assert not list(find_forms(text))


@pytest.mark.parametrize(
    ("text", "find", "label", "expected"),
    [
        ("x = load_rows(path)", "load_rows", "USERNAME", True),
        ("return self.stack_size", "self.stack_size", "URL", True),
        ("thanks moonlit_ferret for the fish", "moonlit_ferret", "USERNAME", False),
        ('user = "moonlit_ferret"', "moonlit_ferret", "USERNAME", False),
        ("x = f(y)  # ask moonlit_ferret", "moonlit_ferret", "USERNAME", False),
        ("x = send(example.com)", "example.com", "URL", False),
        ("maria_gonzalez = f(y)", "maria_gonzalez", "USERNAME", False),
    ],
)
def test_knows_names_of_code_from_names_of_persons(text: str, find: str, label: str, expected: bool) -> None:
    start = text.index(find)
    assert is_identifier_of_code(text, start, start + len(find), label) is expected


@pytest.mark.parametrize(
    "piece",
    ["regards,\n", "did ", "user a pw ", "security question ", "1.111, ", "O'", "Aa is my ", "mysql -u", "-u a"],
)
def test_reads_a_hundred_kilobytes_of_its_worst_text_in_time(piece: str) -> None:
    began = time.process_time()
    list(find_forms(piece * (100_000 // len(piece))))
    assert time.process_time() - began < 5


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("short_texts*.txt")), ids=lambda path: path.stem)
def test_short_texts_have_marks_in_pairs_and_no_marks_without_secrets(path: Path) -> None:
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        kind, _, text = line.partition("\t")
        assert text.count("⟦") == text.count("⟧")
        assert kind.startswith("clean") == ("⟦" not in text)
