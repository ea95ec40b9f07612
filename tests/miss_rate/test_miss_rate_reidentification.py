"""Links of documents to a table of people: clues, found links, chance, wrong tables, and what a report shows of it."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faker import Faker
from hypothesis import given
from hypothesis import strategies as st

from flows.commands.estimate import estimate_text
from pipelines.errors import ConfigError, InputError
from pipelines.miss_rate.clues import clues_of
from pipelines.miss_rate.linking import FALSE_LINKS, People, linked
from pipelines.miss_rate.reidentification import PeopleTable
from pipelines.settings.estimate import EstimateConfig

SHAPES = ("I am {0} {1}", "born {2}", "from {3}", "call me at {4}", "I work as {5}")
EVERYTHING = range(len(SHAPES))


def table_of(number: int, seed: int) -> list[list[str]]:
    faker = Faker("en_US")
    faker.seed_instance(seed)
    makers = faker.first_name, faker.last_name, lambda: faker.date_of_birth().isoformat(), faker.city
    return [[make() for make in (*makers, faker.phone_number, faker.job)] for _ in range(number)]


@pytest.fixture(scope="module")
def people() -> list[list[str]]:
    return table_of(1_000, 1)


@pytest.fixture(scope="module")
def writes(people: list[list[str]]) -> Any:
    """A function that writes 150 documents, each of one row, with some of what the row says."""
    faker = Faker("en_US")
    faker.seed_instance(2)
    filler = [faker.sentence(12) for _ in range(300)]
    chosen = random.Random(3).sample(range(len(people)), 150)

    def documents(says: Any) -> tuple[list[set[str]], list[set[int]]]:
        own = random.Random(4)
        texts = [". ".join([*own.sample(filler, 3), *(SHAPES[i].format(*people[row]) for i in says)]) for row in chosen]
        return [clues_of(text) for text in texts], [{row} for row in chosen]

    return documents


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("11 February 1990", "1990-02-11"),
        ("Feb 11th, 1990", "11.02.1990"),
        ("2/11/1990", "1990/2/11"),
        ("(555) 010-2288", "+1 555 010 2288"),
        ("0044 20 7946 0958", "+44 (0)20 7946 0958"),
        ("Mary.Jones@Example.org.", "mary.jones@example.org"),
        ("Zoë Núñez", "zoe nunez"),
        ("plate AB12CDE", "ab12cde"),
    ],
)
def test_two_spellings_are_one_clue(one: str, other: str) -> None:
    rare = {clue for clue in clues_of(one) & clues_of(other) if not clue.isdigit()}
    assert rare


def test_masks_and_labels_are_no_clues() -> None:
    assert clues_of("I am <MASK> of <PERSON>, <EMAIL_ADDRESS>") == {"am", "of"}
    assert clues_of("31.31.2020") <= {"31", "2020", "#31312020"}
    assert clues_of("") == set()


@given(st.text(max_size=200))
def test_any_text_has_clues(text: str) -> None:
    assert all(isinstance(clue, str) and len(clue) > 1 for clue in clues_of(text))


@pytest.mark.parametrize("hostile", ["a@" * 50_000, "1" * 100_000, "1-" * 50_000, "a1" * 50_000, "Jan " * 30_000])
def test_hostile_text_is_read_in_linear_time(hostile: str) -> None:
    assert len(clues_of(hostile)) < 100_000  # the limit of the test's time is the test


@pytest.mark.parametrize(("says", "least"), [(EVERYTHING, 150), ((2, 4), 140), ((3,), 150), ((2,), 20)])
def test_known_links_are_found(people: list[list[str]], writes: Any, says: Any, least: int) -> None:
    original, _ = writes(EVERYTHING)
    texts, truth = writes(says)
    found, links = linked(People(people, original), texts, truth, seed=5)
    assert found["num_correct"] >= least
    assert found["num_linked"] == len(links)
    assert found["num_linked"] >= 0.9 * least or says == (2,)
    wrong = [link for _, link in links if not link["is_correct"]]
    assert len(wrong) <= 0.1 * len(texts)
    assert all(link["row"] - 1 in truth[number] for number, link in links if link["is_correct"])


def test_masked_text_links_to_nothing(people: list[list[str]], writes: Any) -> None:
    original, _ = writes(EVERYTHING)
    nothing, truth = writes(())
    found, _ = linked(People(people, original), nothing, truth, seed=5)
    assert found["num_correct"] <= 3
    assert found["num_linked"] <= 2 * FALSE_LINKS * len(nothing)


@pytest.mark.parametrize("seed", range(5))
def test_a_shuffled_table_has_no_more_links_than_stated(people: list[list[str]], writes: Any, seed: int) -> None:
    """150 documents: more than 15 links would have a probability below 1 in 200 at a rate of 5 %."""
    columns = np.array(people).T
    generator = np.random.default_rng(seed)
    shuffled = np.stack([generator.permutation(column) for column in columns]).T.tolist()
    for row in shuffled:
        row[4] = ""  # a phone number in a document is that of a person, wherever its cell is moved
    original, _ = writes((0, 1, 2, 4))
    found, _ = linked(People(shuffled, original), original, None, seed=seed)
    assert found["num_linked"] <= 15
    assert found["false_links"] <= 0.08
    assert found["num_correct"] is None


def test_a_table_of_other_people_has_few_links(writes: Any) -> None:
    original, _ = writes(EVERYTHING)
    found, _ = linked(People(table_of(1_000, 99), original), original, None, seed=0)
    assert found["num_linked"] <= 15


def test_two_rows_of_one_person_are_no_link(people: list[list[str]], writes: Any) -> None:
    original, truth = writes(EVERYTHING)
    found, _ = linked(People([row for row in people for _ in range(2)], original), original, truth, seed=0)
    assert found["num_best"] == 0


def write_csv(path: Path, rows: list[list[str]], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_is_read_as_a_stream(tmp_path: Path, delimiter: str) -> None:
    rows = [["id", "name", "note"], ["d1", "Ann", "two\nlines"], [" d2 ", "Bob", f"a{delimiter} b"], ["d1", "Cy", ""]]
    table = PeopleTable(write_csv(tmp_path / "people.csv", rows, delimiter), "id")
    named: dict[str, set[int]] = {"d1": set(), "d2": set()}
    assert list(table.rows(named)) == [row[1:] for row in rows[1:]]
    assert named == {"d1": {0, 2}, "d2": {1}}


def test_wrong_tables_are_refused_without_a_word_of_them(tmp_path: Path) -> None:
    secret = "Quackenbush"
    wide = write_csv(tmp_path / "wide.csv", [["id", "name"], ["1", secret], ["2", secret, "more"]])
    with pytest.raises(InputError, match="row 2 has 3 cells and the header 2") as wrong:
        list(PeopleTable(wide, None).rows({}))
    assert secret not in str(wrong.value)
    with pytest.raises(InputError, match="no column"):
        PeopleTable(wide, secret)
    (tmp_path / "latin.csv").write_bytes(f"id,name\n1,{secret}\xe9".encode("latin-1"))
    with pytest.raises(InputError, match="UTF-8") as wrong:
        list(PeopleTable(tmp_path / "latin.csv", None).rows({}))
    assert secret not in str(wrong.value)
    (tmp_path / "quotes.csv").write_text(f'id,name\n1,"{secret}"x\n')
    with pytest.raises(InputError, match="row 1 is no CSV"):
        list(PeopleTable(tmp_path / "quotes.csv", None).rows({}))
    with pytest.raises(InputError, match="cannot be read"):
        PeopleTable(tmp_path / "missing.csv", None)


def test_settings(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "people.csv", [["id"]])
    config = EstimateConfig(reidentification_table=str(path), reidentification_id="id")
    config.check("estimate")
    assert config.code_references("estimate") == (str(path),)
    assert config.code_references("stability") == ()  # stability does not read it
    assert "reidentification_table" not in config.keyed("estimate")
    assert EstimateConfig().keyed() == {k: v for k, v in config.keyed().items() if k != "reidentification_id"}
    with pytest.raises(ValueError, match="absolute"):
        EstimateConfig(reidentification_table="people.csv")
    with pytest.raises(ValueError, match="need 'reidentification_table'"):
        EstimateConfig(reidentification_documents=5)
    with pytest.raises(ConfigError, match="no file"):
        EstimateConfig(reidentification_table=str(tmp_path / "no.csv")).check("estimate")


def figures(correct: bool) -> dict[str, Any]:
    text = {
        **{"num_best": 9, "best": [0.4, 0.9], "num_linked": 7, "linked": [0.123456, 0.8], "false_links": 0.04},
        **{"num_correct": 6 if correct else None, "correct": [0.3, 0.8] if correct else None, "least_lead": 1.5},
    }
    shared = {"num_documents": 12, "num_rows": 4_321, "num_in_table": None, "confidence": 0.95}
    return {**shared, "original": text, "redacted": text}


@pytest.mark.parametrize("correct", [True, False])
def test_people_read_both_texts_side_by_side(correct: bool) -> None:
    document = {"source": "not_measured", "warnings": [], "reidentification": figures(correct)}
    text = estimate_text(document)
    assert "links of 12 documents to a table of 4,321 rows (an estimate; no claim uses it)" in text
    assert (
        "its lead exceeds chance  7 original (95% 12.3\N{NO-BREAK SPACE}% to 80\N{NO-BREAK SPACE}%), 7 redacted" in text
    )
    assert ("correct" in text) == correct
