"""A setting is shown only where its type or its name proves it harmless."""

from __future__ import annotations

import enum
import json
from typing import Annotated, Any, ClassVar, Literal

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from pipelines.config import StageConfig
from pipelines.filled_in import filled_ranges
from pipelines.report.public import marked
from pipelines.report.settings import shown_settings
from pipelines.settings.corpus import CorpusConfig
from pipelines.settings.redact import RedactConfig
from pipelines.settings.train import TrainConfig

SECRET = "ACME-4711"


class Colour(enum.Enum):
    RED = "red"


class Inner(StageConfig):
    depth: int = 3
    word: str = SECRET


class Everything(StageConfig):
    UNKEYED: ClassVar[frozenset[str]] = frozenset({"workers"})

    switch: bool = True
    size: Annotated[int, Field(ge=1)] = 5
    rate: float | None = None
    endless: float = float("inf")
    mode: Literal["a", "b"] = "a"
    colour: Colour = Colour.RED
    groups: tuple[int, ...] = (2, 10)
    seed: int = 4711
    insecure_test_seed: bool = False
    path: str = f"/home/{SECRET}"
    empty: str = ""
    names: list[str] = [SECRET, SECRET]  # noqa: RUF012 -- pydantic copies it
    patterns: dict[str, str] = {SECRET: SECRET}  # noqa: RUF012
    anything: Any = SECRET
    either: int | str = SECRET
    inner: Inner = Inner()
    workers: int = 8


def test_each_kind_of_field() -> None:
    (shown,) = shown_settings({"t": Everything()}).values()
    hidden = {"is_set": True}
    assert shown == {
        "switch": True,
        "size": 5,
        "rate": None,
        "endless": "inf",
        "mode": "a",
        "colour": "red",
        "groups": [2, 10],
        "seed": hidden,
        "insecure_test_seed": False,
        "path": hidden,
        "empty": {"is_set": False},
        "names": {"num_values": 2},
        "patterns": {"num_values": 1},
        "anything": hidden,
        "either": hidden,
        "inner": {"depth": 3, "word": hidden},
    }


def test_planted_secrets_of_the_real_tables_do_not_show() -> None:
    configs = {
        "corpus": CorpusConfig(inputs=(f"/data/{SECRET}",), text_field=SECRET),
        "redact": RedactConfig(policies=("regex", f"acme.{'plugin'}:Policy"), patterns={"ACME": f"{SECRET}[0-9]+"}),
        "train": TrainConfig(speakers=(SECRET,)),
    }
    shown = shown_settings(configs)
    assert SECRET not in json.dumps(shown)
    assert "acme" not in json.dumps(shown).lower().replace('"acme"', "")
    assert shown["redact"]["patterns"] == {"num_values": 1}
    assert shown["redact"]["policies"] == {"num_values": 2}
    assert shown["train"]["speakers"] == {"num_values": 1}
    assert "inputs" not in shown["corpus"]  # outside the key


def test_registered_policies_are_shown_by_name() -> None:
    shown = shown_settings({"redact": RedactConfig(policies=("high_entity", "digits"), conservative="conservative")})
    assert shown["redact"]["policies"] == ["digits", "high_entity"]
    assert shown["redact"]["conservative"] == "conservative"


@given(st.text(min_size=1), st.lists(st.text()), st.dictionaries(st.text(), st.text()))
@settings(deadline=None, max_examples=100)
def test_free_text_never_changes_what_is_shown_but_its_number(
    word: str, words: list[str], mapping: dict[str, str]
) -> None:
    config = Everything(path=word, names=words, patterns=mapping, anything=word, either=word, inner=Inner(word=word))
    other = Everything(names=["x"] * len(words), patterns={str(i): "x" for i in range(len(mapping))})
    assert shown_settings({"t": config}) == shown_settings({"t": other})


def test_a_models_name_is_shown_and_where_it_lies_is_not() -> None:
    for model, shown in (("smollm2", "smollm2"), ("/home/me/x", {"is_set": True})):
        assert shown_settings({"train": TrainConfig(model=model, model_is_public=True)})["train"]["model"] == shown


def test_names_of_formats_and_language_models_are_ours_and_a_model_of_the_user_is_not():
    """A nickname of a chat may be "irc" or "core", which stopped the report of a run over logs of IRC."""
    settings = {"corpus": {"format": "irc"}, "redact": {"model": "en_core_web_sm"}, "train": {"model": "core"}}
    shown = marked({"settings": settings})["settings"]
    assert not filled_ranges(str(shown["corpus"]["format"]))
    assert not filled_ranges(str(shown["redact"]["model"]))
    assert not filled_ranges(str(marked({"settings": {"corpus": {"format": "auto"}}})["settings"]["corpus"]["format"]))
    for model, is_ours in (("pl_core_news_md", True), ("core", False), ("anne_core_web_sm", False)):
        found = marked({"settings": {"redact": {"model": model}}})["settings"]["redact"]["model"]
        assert bool(filled_ranges(str(found))) is not is_ours
    assert filled_ranges(str(shown["train"]["model"])) == [(0, 4)]
    assert filled_ranges(str(marked({"settings": {"corpus": {"format": "anne"}}})["settings"]["corpus"]["format"]))
