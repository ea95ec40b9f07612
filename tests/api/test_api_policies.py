"""Redaction as a library: the same as the command line, typed results, plug-ins by class, errors before work."""

from __future__ import annotations

import dataclasses
import json
from typing import get_args

import pytest

import reticent
from pipelines.policies.judging.texts import RENDERINGS
from pipelines.settings.redact import RedactConfig
from reticent.errors import ConfigError, InputError
from reticent.policies import LabelledText, PolicyOptions, RedactOptions, Redactor, Rendering, Sentence, Span


class Shouting:
    needs: frozenset[str] = frozenset()

    def __init__(self, options: PolicyOptions) -> None:
        self.name = options.name

    def find(self, sentence: Sentence) -> list[Span]:
        return [Span(i, i + 1, "SHOUT", self.name) for i, word in enumerate(sentence.tokens()) if word.isupper()]


def test_options_are_the_settings_of_redact() -> None:
    assert get_args(Rendering) == RENDERINGS
    # Arguments, of a run alone, and how finds are rendered.
    own = {"policies", "conservative", "also_levels", "collapse", "replacement"}
    own |= {"surrogate_scope", "surrogate_persons", "shift_dates", "day_first"}
    assert set(RedactOptions.__annotations__) == set(RedactConfig.model_fields) - own


def test_it_masks_as_the_command_line_does(tmp_path) -> None:
    from flows.commands.redact import redact_lines, redactor_spec

    text = "Mr Quux of 12 Elm Street called 4711 times. " * 3
    (tmp_path / "text.txt").write_text(text.strip() + "\n")
    (line,) = redact_lines(str(tmp_path / "text.txt"), redactor_spec(["digits", "names"], {"names": ("Quux",)}))
    (found,) = reticent.redact([text.strip()], policies=["names", "digits"], names=["Quux"])
    told = json.loads(line)
    assert found.text == told["redacted_text"]
    assert [dataclasses.asdict(find) for find in found.finds] == told["spans"]
    assert "Quux" not in repr(found)


def test_a_class_is_a_policy() -> None:
    (found,) = reticent.redact(["ask NASA about 47"], policies=[Shouting, "digits"])
    assert found.text == "ask <MASK> about <MASK>"
    assert {find.label for find in found.finds} == {"SHOUT", "DIGITS"}
    assert (found.num_tokens, found.num_masked_tokens, found.is_flagged) == (4, 2, None)

    class Hidden(Shouting):
        pass

    with pytest.raises(ConfigError, match="top of a module"):
        Redactor([Hidden])


def test_a_conservative_policy_flags_and_masks_nothing() -> None:
    plain, loud = reticent.redact(["all is well", "all is WELL"], policies=["digits"], conservative=Shouting)
    assert (plain.is_flagged, loud.is_flagged) == (False, True)
    assert loud.text == "all is WELL"


def test_many_texts_are_streamed_in_order() -> None:
    with Redactor(["digits"]) as redactor:
        found = list(redactor.stream((f"room {number}" for number in range(2_500)), rendering="tokens"))
    assert len(found) == 2_500
    assert all(one.text == "room <MASK>" for one in found)


@pytest.mark.parametrize(
    ("policies", "options", "message"),
    [
        (["digitz"], {}, "did you mean 'digits'"),
        ([], {}, "policies"),
        (["digits"], {"names": ["Quux"]}, "names"),
        (["digits"], {"temperature": 3}, "temperature"),
    ],
)
def test_what_is_wrong_is_told_before_any_text(policies, options, message) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Redactor(policies, **options)
    assert "Quux" not in str(caught.value)


def test_texts_that_cannot_be_used_are_refused() -> None:
    with Redactor(["digits"]) as redactor:
        with pytest.raises(InputError, match="text 1: half"):
            redactor.redact(["fine", "half \ud800"])
        with pytest.raises(ConfigError, match="rendering"):
            redactor.redact(["fine"], rendering="loud")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="no labelled text"):
            redactor.evaluate([])
        with pytest.raises(InputError, match="inside its text"):
            redactor.evaluate([LabelledText("a 1", [(2, 9, "X")])])


def test_scores() -> None:
    texts = [LabelledText("code 4711 of Ann", [(5, 9, "CODE"), (13, 16, "NAME")]), LabelledText("no secret 5")]
    with Redactor(["digits"]) as redactor:
        scores = redactor.evaluate(texts, confidence=0.9)
    assert (scores.num_texts, scores.num_tokens, scores.confidence) == (2, 7, 0.9)
    assert (scores.overall.span_recall.num_hits, scores.overall.span_recall.num_units) == (1, 2)
    assert scores.by_label["NAME"].token_recall.value == 0
    assert scores.by_label["CODE"].span_recall.value == 1
    assert scores.overall.token_precision.value == 0.5
    assert scores.texts_missed.value == 0
    assert 0 <= scores.overall.token_f2.low <= scores.overall.token_f2.value <= scores.overall.token_f2.high <= 1
