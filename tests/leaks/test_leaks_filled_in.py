"""Values that are filled in are searched, our own prose around them is not, in every kind of public document."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from increment import drive
from support import TESTS
from support.tables import table_at, table_writer
from support.trainings import RUNS, build

from pipelines.artifacts import Target
from pipelines.filled_in import END, START, filled_ranges, mark_document, without_marks
from pipelines.gate.files import json_units, page_units, search_folder
from pipelines.gate.index import write_index
from pipelines.gate.search import Hits
from pipelines.gate.strings import words_of
from pipelines.graph import GRAPH
from pipelines.report.cards import data_card, model_card_sections
from pipelines.report.public import marked, public_version
from pipelines.report.render import render_html
from pipelines.stages.train import report as report_stage
from pipelines.training.data.control import ControlTokens
from pipelines.training.model_card import _CARD, model_card
from pipelines.training.tasks.spec import ClassificationSettings

SECRET = "Zebulon"
FULL = {**json.loads((TESTS / "report/golden/full.json").read_text("utf-8")), "warnings": [], "miss_rate": {}}


def public_report(run: str = "crt", **changes: Any) -> dict[str, Any]:
    """Returns the public report of a method, with claims as they are worded today."""
    claims = [*build(run, **changes).values()]
    return public_version(FULL, {"claims": claims, "headline": 0, "accountants": ACCOUNTANTS})


ACCOUNTANTS = [
    {"accountant": "pld", "relation": "replace_one", "epsilon": 1.0, "delta": 1e-6, "is_bound": True, "note": ""}
]
PUBLIC = public_report()
POISSON = "Differential privacy of Poisson-sampled DP-SGD, accounted with privacy loss distributions"


def search(folder: Path, *masked: str, case_sensitive: bool = False) -> set[str]:
    """Returns the names of the files below ``public`` in which one of some strings is a find."""
    index = folder / "index.parquet"
    strings = {" ".join(words_of(string, case_sensitive=case_sensitive)): "NAME" for string in masked}
    with table_writer(index, "gate_index") as writer:
        write_index(writer, [strings])
    hits = Hits()
    search_folder(
        folder / "public",
        table_at(index, "gate_index"),
        case_sensitive=case_sensitive,
        hits=hits,
        marked=folder / "marked",
    )
    return {hit.file for hit in hits.kept}


def publish(folder: Path, public: dict[str, Any]) -> Path:
    """Writes a public report and its cards as the stage does, with their marked copies."""
    for document, name in ((public, "public"), (marked(public), "marked")):
        report_stage.write_public(document, Target(folder=folder / name))
    return folder


def write(folder: Path, name: str, content: str, copy: str | None = None) -> Path:
    """Writes one public file, and a marked copy if there is one."""
    for place, text in (("public", content), ("marked", copy)):
        if text is not None:
            (folder / place).mkdir(parents=True, exist_ok=True)
            (folder / place / name).write_text(text, encoding="utf-8")
    return folder


# --- what is found --------------------------------------------------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the way to every string value of a document."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))
    elif isinstance(value, str):
        yield path


def planted(value: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    """Returns a copy of a document in which one value is changed."""
    if not path:
        return change(value)
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = planted(value[path[0]], path[1:], change)
    return copy


@pytest.mark.slow
def test_a_secret_in_any_value_of_a_public_report_is_found_in_the_report(tmp_path: Path) -> None:
    """A new value needs no list: every string of the document is filled in."""
    every = list(places(PUBLIC))
    assert len(every) > 150
    for number, path in enumerate(every):
        for change in (lambda _: SECRET, lambda text: f"{text} {SECRET}, as before"):
            folder = tmp_path / f"{number}"
            document = planted(PUBLIC, path, change)
            write(folder, "report.json", json.dumps(document), json.dumps(marked(document)))
            assert search(folder, SECRET) == {"report.json"}, path


FILLED_IN = {
    **PUBLIC,
    "signed_by": "x",
    "settings": {"train": {"model": "x"}},
    "training": {**PUBLIC["training"], "accuracy": 0.5, "accuracy_by_class": {"x": 0.5}}
    | {"base_model": "x", "evaluated_on": "x"},
}


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The public root without any of the names."""
    return publish(tmp_path_factory.mktemp("without") / "public", FILLED_IN)


NAMES = (SECRET, "Noise", "Will", "Gold", "Documents", "Guarantees")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_not_found_where_nobody_filled_it_in(without: Path, name: str) -> None:
    assert search(without, name) == set()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("path", "files"),
    [
        (("title",), {"report.json", "report.html"}),
        (("training", "base_model"), {"report.json", "report.html"}),
        (("training", "accuracy_by_class"), {"report.json", "report.html"}),
        (("redaction", "conservative"), {"report.json", "report.html", "data_card.md"}),
        (("claims", 0, "assumptions", 1), {"report.json", "report.html", "data_card.md", "model_card.md"}),
        (("claims", 0, "statement"), {"report.json", "report.html", "data_card.md", "model_card.md"}),
        (("claims", 0, "covers"), {"report.json", "report.html", "data_card.md", "model_card.md"}),
        (("training", "evaluated_on"), {"report.json", "report.html", "model_card.md"}),
        (("accountants", 0, "note"), {"report.json", "report.html"}),
        (("settings", "train", "model"), {"report.json", "report.html"}),
        (("signed_by",), {"report.json", "report.html", "data_card.md", "model_card.md"}),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_a_name_that_is_filled_in_is_found_even_if_it_is_a_word_of_our_prose(
    tmp_path: Path, name: str, path: tuple[Any, ...], files: set[str]
) -> None:
    value = {name: 0.5} if path[-1] == "accuracy_by_class" else name
    assert search(publish(tmp_path / "with", planted(FILLED_IN, path, lambda _: value)), name) == files


@pytest.mark.parametrize("name", ["gold", "sentence", "crt"])
def test_a_word_of_our_source_is_found_where_values_are_free(tmp_path: Path, name: str) -> None:
    """A class, a title or a base model may be called like a fixed word."""
    training = {**PUBLIC["training"], "accuracy": 0.5, "accuracy_by_class": {name: 0.5}}
    for number, change in enumerate(
        ({"training": training}, {"title": name}, {"training": {**training, "base_model": name}})
    ):
        document = {**PUBLIC, **change}
        write(tmp_path / f"{number}", "report.html", render_html(document), render_html(marked(document)))
        assert search(tmp_path / f"{number}", name) == {"report.html"}


def test_a_sentence_of_ours_may_hold_a_value_that_is_found(tmp_path: Path) -> None:
    claim = {
        **PUBLIC["claims"][0],
        "assumptions": [f"the unit of privacy is one {SECRET}. A person or a fact may be spread over many"],
    }
    found = search(publish(tmp_path, {**PUBLIC, "claims": [claim]}), SECRET)
    assert found == {"report.json", "report.html", "model_card.md", "data_card.md"}


def test_a_name_across_our_words_and_a_value_is_found(tmp_path: Path) -> None:
    card, plain = f"A Rich {START}Hall{END} of ours\n", "A Rich Hall of ours\n"
    assert search(write(tmp_path, "README.md", plain, card), "Rich Hall")
    assert not search(write(tmp_path, "README.md", plain, card), "Rich")
    assert not search(write(tmp_path, "README.md", plain, card), "of ours")


# --- what is not ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["Poisson", "Poisson sampled", "Noise", "Will", "Guarantees", "Wang", "What can be claimed"]
)
def test_words_of_our_own_prose_are_no_finds(tmp_path: Path, name: str) -> None:
    """Whoever is masked in the corpus and is called as a word of our report is: the run is not stopped for it."""
    claim = {**PUBLIC["claims"][0], "theorem": POISSON}
    assert search(publish(tmp_path, {**PUBLIC, "claims": [claim]}), name) == set()


PARTS = {"any", "each", "for", "only", "record", "secret", "sees", "sentence", "settings", "the", "trained", "training"}
PARTS |= {"whoever"}
"""Everyday words that claims fill into their sentences."""
FILLED = {"Bayesian confidentiality", "a", "a labelled", "trained on", "for any.", "were"}
FILLED |= {"sentence", "labelled", "each secret", "the secret", "one kind of secret of a test"}
"""Parts of claims that no literal of three words covers. The last one is of the tests."""


@pytest.mark.parametrize("run", RUNS)
def test_the_claims_of_a_method_fill_in_numbers_and_little_else(run: str) -> None:
    """Every method, refused and issued: what is filled in can stop a run if somebody is called so."""
    for clean, stable, conservative in ((False, False, False), (True, True, False), (False, True, True)):
        public = public_report(run, clean=clean, stable=stable, conservative=conservative, insecure_test_seed=clean)
        document = marked({"claims": public["claims"], "settings": {}})
        units = [unit.text for unit in json_units(json.loads(json.dumps(document)))]
        found = {without_marks(text)[a:b] for text in units for a, b in filled_ranges(text)}
        assert {text.strip() for text in found if not re.search(r"\d", text)} <= FILLED


SETTINGS = """
[corpus]
inputs = ["corpus.jsonl"]
[redact]
policies = ["regex"]
conservative = "regex"
patterns = { NAME = "(?<=called )\\\\w+" }
[gate]
everyday_words = true
max_held_fraction = 1.0
[sample]
replicates = 1
fraction = 1.0
[train]
method = "dpsgd"
num_layers = 1
num_heads = 2
embedding_size = 16
context_length = 32
tokenizer = "bytes"
epochs = 1
expected_batch_size = 32
noise_multiplier = 2.0
"""


@pytest.mark.slow
def test_a_run_is_not_stopped_by_names_that_are_words_of_our_prose(tmp_path: Path) -> None:
    """Every word of the page and of the model's card is masked somewhere, everyday words too."""
    page = re.sub(f"{START}.*?{END}", " ", render_html(marked(PUBLIC)))
    ours = {word for unit in page_units(page) for word in words_of(unit.text)} | set(words_of(_CARD))
    names = sorted(word for word in ours - PARTS if len(word) > 2 and word.isascii() and word.isalpha())
    assert {"noise", "guarantees", "poisson", "transformers"} <= set(names)
    assert len(names) > 500
    folds = ("test", *("train",) * 8)
    rows = [{"id": f"d{n}", "text": f"I am called {name}.", "fold": folds[n % 9]} for n, name in enumerate(names)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "reticent.toml").write_text(SETTINGS)
    drive(tmp_path / "reticent.toml", tuple(GRAPH))
    files = {path.name for path in (tmp_path / "reticent-store/public").rglob("*")}
    assert {"report.html", "model_card.md", "README.md", "reticent.json"} <= files


def model_run(**changes: Any) -> Any:
    """What a model's card looks at in a run."""
    tokens = {1: "<BOS>", 2: "<EOS>", 3: "<MASK>", 4: "<usr>", 5: "<OTHER>"}
    control = ControlTokens(pad=0, bos=1, eos=2, mask=3, speakers={"usr": 4}, other_speaker=5)
    known = {"config": {}, "tokens": {}, "base": "acme/base", **changes}
    return SimpleNamespace(
        task=ClassificationSettings.model_construct(template=None, classes=(), label_words=()),
        config={"method": "crt", "task": "language_modelling", "adaptation": "full", "target_epsilon": 3.0}
        | {"target_delta": 1e-6}
        | known["config"],
        corpus=SimpleNamespace(
            vocabulary=SimpleNamespace(
                tokenizer=SimpleNamespace(convert_ids_to_tokens=(tokens | known["tokens"]).__getitem__),
                control=control,
                kind="bytes",
                trained_on="none",
            )
        ),
        account=SimpleNamespace(variant=None, light_noise_miss_rate=None),
        network=torch.nn.Identity(),
        base=known["base"],
        head="causal",
        spent=None,
        planned_steps=1,
        context_length=128,
        unit="sentence",
    )


@pytest.mark.parametrize("name", ["Zebulon", "Noise", "Will", "Poisson", "123456"])
@pytest.mark.parametrize(
    "change",
    [
        lambda name: {"base": name},
        lambda name: {"tokens": {4: f"<{name}>"}},
        lambda name: {"config": {"adaptation": name}},
    ],
)
def test_a_name_that_is_filled_into_a_models_card_is_found(
    tmp_path: Path, name: str, change: Callable[[str], dict[str, Any]]
) -> None:
    for folder, run in ((tmp_path / "with", model_run(**change(name))), (tmp_path / "without", model_run())):
        card = model_card(run)
        write(folder, "README.md", without_marks(card), card)
        assert bool(search(folder, name, "128")) == (folder.name == "with")


# --- the marks ------------------------------------------------------------------------------------------------------


def test_a_file_without_a_copy_or_with_another_one_is_searched_throughout(tmp_path: Path) -> None:
    for number, copy in enumerate(
        (None, "We sample Poisson batches", f"by {START}Poisson{END} sampling", f"by Poisson {END}sampling")
    ):
        assert search(write(tmp_path / f"{number}", "README.md", "by Poisson sampling", copy), "Poisson")
    assert not search(write(tmp_path / "same", "README.md", "by Poisson sampling", "by Poisson sampling"), "Poisson")
    assert search(write(tmp_path / "json", "report.json", '{"a": "Poisson"}', '{"a": "Gauss"}'), "Poisson")
    assert search(write(tmp_path / "broken", "report.json", '{"a": "Poisson"}', "{"), "Poisson")


def test_a_value_cannot_unmark_itself(tmp_path: Path) -> None:
    forged = f"{END}{SECRET}{START}"
    assert filled_ranges(mark_document(forged)) == [(0, len(SECRET))]
    found = search(publish(tmp_path, {**PUBLIC, "title": forged}), SECRET)
    assert found == {"report.json", "report.html"}


def test_marks_change_nothing_in_what_is_written() -> None:
    """Else no copy agrees with its file, and our own prose is searched."""
    for write_text in (render_html, model_card_sections, data_card):
        assert without_marks(write_text(marked(PUBLIC))) == write_text(PUBLIC)


# --- pages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "html",
    [
        "<p>O&#39;Brien</p>",
        "<p>O&#x27;Brien</p>",
        "<td>O&apos;</td><td>Brien</td>",
        "<svg aria-label='O&#39;Brien'></svg>",
        '<p title="O&#39;Brien">x</p>',
        "<!-- O'Brien -->",
        "<style>/* O'Brien */</style>",
    ],
)
def test_a_page_hides_nothing_behind_entities_attributes_or_comments(tmp_path: Path, html: str) -> None:
    page = f"<html><body>{html}</body></html>"
    assert search(write(tmp_path / "plain", "report.html", page), "O'Brien")
    assert search(
        write(tmp_path / "filled", "report.html", page, f"<html><body>{START}{html}{END}</body></html>"), "O'Brien"
    )
    assert not search(write(tmp_path / "ours", "report.html", page, page), "O'Brien")


@pytest.mark.parametrize(
    ("file", "content", "is_found"),
    [
        ("report.html", "<p>123 456</p>", False),
        ("report.json", '{"x": 123456}', False),
        ("report.json", '{"x": "123-456"}', True),
        ("report.json", '{"x": "call 123456 now"}', True),
        ("README.md", "call 123456", True),
        ("model_card.md", "call 123456", False),
    ],
)
def test_computed_numbers_alone_are_no_find(tmp_path: Path, file: str, content: str, is_found: bool) -> None:
    assert bool(search(write(tmp_path, file, content), "123456")) is is_found


def test_the_text_of_a_page_comes_line_by_line() -> None:
    units = [unit.text for unit in page_units("<p class='soft'>one <em>two</em>\nthree</p><!-- four -->")]
    assert units == ["one\ntwo\nthree", "soft", " four "]


def test_case_counts_no_more_than_for_the_search(tmp_path: Path) -> None:
    assert not search(write(tmp_path / "a", "README.md", POISSON, POISSON), "Poisson", case_sensitive=True)
    assert search(write(tmp_path / "b", "README.md", "Ask Dwork"), "Dwork", case_sensitive=True)
