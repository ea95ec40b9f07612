"""Our own wording in public prose: what passes for it, and that nobody hides behind it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables import table_at, table_writer

from pipelines.gate.files import page_units, search_folder
from pipelines.gate.index import write_index
from pipelines.gate.own import HOLE, OWN_WORDS, OwnWords, own_words, runs_of
from pipelines.gate.search import Hits
from pipelines.gate.strings import words_of

POISSON = "Differential privacy of Poisson-sampled DP-SGD, accounted with privacy loss distributions"
RUNS = [run.split(" ") for run in json.loads(OWN_WORDS.read_text("utf-8"))]


def finds(folder: Path, masked: str, name: str, content: str, *, case_sensitive: bool = False) -> bool:
    """Whether a masked string is found in a file that is about to be published."""
    (folder / "public").mkdir(exist_ok=True, parents=True)
    (folder / "public" / name).write_text(content, encoding="utf-8")
    index = folder / "index.parquet"
    string = " ".join(words_of(masked, case_sensitive=case_sensitive))
    with table_writer(index, "gate_index") as writer:
        write_index(writer, [{string: "NAME"}])
    hits = Hits()
    search_folder(folder / "public", table_at(index, "gate_index"), case_sensitive=case_sensitive, hits=hits)
    return bool(hits.by_label)


def own(*lines: str) -> OwnWords:
    return OwnWords(run for line in lines for run in runs_of(line))


FILES = {
    "report.html": "<p>written by {}</p>",
    "report.json": '{{"claims": ["written by {}"]}}',
    "README.md": "written by {}\n",
    "config.json": '{{"note": "{}"}}',
}
CITED = ["Wang", "Zhao", "Shi", "Sanders", "Rich Hall", "Dwork", "Roth", "Gopi", "Elenberg", "Kabra", "Opacus", "Balle"]
CITED += ["Li", "Korn", "Graubard"]  # these stand in our wording, elsewhere


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("name", CITED)
def test_a_name_that_is_cited_in_the_source_is_a_find(tmp_path: Path, name: str, file: str) -> None:
    """Whatever stood anywhere in six packages passed for our own wording: authors of papers, examples in comments."""
    assert finds(tmp_path, name, file, FILES[file].format(name))


@pytest.mark.parametrize("name", ["Poisson", "Poisson sampled"])
def test_a_name_in_our_own_wording_passes_there_and_nowhere_else(tmp_path: Path, name: str) -> None:
    """One list of words would let it pass in every place, the name of a domain or of a class among them."""
    for file in FILES:
        if file != "config.json":
            ours = POISSON if file != "report.html" else f"<dd>{POISSON}</dd>"
            template = FILES[file].replace("written by ", "")
            assert not finds(tmp_path / f"ours-{file}", name, file, template.format(ours))
        assert finds(tmp_path / f"alone-{file}", name, file, FILES[file].format(name))
        assert finds(tmp_path / f"both-{file}", name, file, FILES[file].format(f"{POISSON}. Ask {name}"))


@pytest.mark.parametrize(
    ("string", "text", "is_ours"),
    [
        ("rich hall", "a rich hall", True),
        ("rich hall", "the rich hall", False),  # another word before it
        ("rich hall", "a rich hall stands", False),  # our line ends there
        ("grace", "the grace of a hall", True),
        ("grace", "the grace of god", False),  # the second word behind it
        ("grace", "by grace of a hall", False),
        ("grace", "may ask grace\nthe grace of a hall", True),
        ("grace", "may ask grace and ask grace", False),  # one of the two places is ours
        ("hall may", "a rich hall may ask grace", False),  # over the border of two runs
        ("hall may", "a rich hall\nmay ask grace", True),  # two lines of ours, nothing filled in
        ("seen by grace", "seen by grace", False),  # filled in
        ("grace", "seen by grace", False),
        ("by", "seen by grace", True),
        ("grace", "grace", True),  # a heading
        ("grace", "grace grace", False),
        ("grace", "to grace at grace", False),
    ],
)
def test_a_string_passes_only_in_a_run_of_ours_with_the_words_beside_it(string: str, text: str, is_ours: bool) -> None:
    known = own("the grace of a hall", "a rich hall", "may ask grace", f"seen by {HOLE}", "grace", f"{HOLE} of {HOLE}")
    assert known.explain(string, text) is is_ours


def test_a_word_between_two_places_that_are_filled_in_is_no_wording_of_ours() -> None:
    assert list(runs_of(f"{HOLE} grace {HOLE} or hall {HOLE} grace")) == ["or hall", "grace $"]
    assert list(runs_of("at most 1,234.5 tokens")) == ["^ at most # tokens $"]
    assert list(runs_of(f"{HOLE} 3")) == []


@given(st.sampled_from([run for run in RUNS if len(run) > 4]), st.data())
def test_a_foreign_name_is_found_wherever_it_is_put_into_our_wording(run: list[str], data: st.DataObject) -> None:
    """Also a word of ours, which has other neighbours elsewhere."""
    words = [token.replace("#", "3") for token in run if token not in "^$"]
    at = data.draw(st.integers(0, len(words)))
    for name in ("zebulon", "wang", "rich hall", "graubard"):
        text = " ".join([*words[:at], name, *words[at:]])
        assert not own_words().explain(name, text)
    whole = " ".join(words)
    if run[0] == "^" and run[-1] == "$":
        assert own_words().uncovered(whole) == []


def test_case_counts_no_more_than_for_the_search(tmp_path: Path) -> None:
    assert not finds(tmp_path / "a", "Poisson", "README.md", POISSON, case_sensitive=True)
    assert not finds(tmp_path / "b", "Guarantees", "report.html", "<h2>Guarantees</h2>")
    assert finds(tmp_path / "c", "Dwork", "README.md", "Ask Dwork", case_sensitive=True)


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
    """The page escapes an apostrophe, and ``O&#39;Brien`` was no "O'Brien"; what stood in a tag was not searched."""
    assert finds(tmp_path, "O'Brien", "report.html", f"<html><body>{html}</body></html>")


@pytest.mark.parametrize(
    ("file", "content", "is_found"),
    [
        ("report.html", "<p>123 456</p>", False),
        ("report.json", '{"x": 123456}', False),
        ("report.json", '{"x": "123-456"}', True),
        ("report.json", '{"x": "call 123456 now"}', True),
        ("README.md", "* At most 123456 tokens.", False),
        ("README.md", "* At most 123,456 tokens.", False),
        ("README.md", "call 123456", True),
        ("README.md", "* Speakers: `<123456>`.", True),  # a name is filled in there, not a number
        ("report.json", '{"a": "0.123456 of Zebulon"}', True),
    ],
)
def test_computed_numbers_alone_are_no_find(tmp_path: Path, file: str, content: str, is_found: bool) -> None:
    """A number that was filled into our wording is computed; one that stands by itself may be somebody's."""
    assert finds(tmp_path, "123456", file, content) is is_found


def test_the_text_of_a_page_comes_line_by_line() -> None:
    units = [unit.text for unit in page_units("<p class='soft'>one <em>two</em>\nthree</p><!-- four -->")]
    assert units == ["one\ntwo\nthree", "soft", " four "]
