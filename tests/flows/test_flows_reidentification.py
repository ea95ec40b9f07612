"""Links to a table of people, from the settings to the reports: what redaction takes away, and where nothing may go."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from faker import Faker
from support.project import SMALL_MODEL, reticent

SETTINGS = """
[store]
private_root = "{here}/private"
public_root = "{here}/public"
[corpus]
inputs = ["{here}/corpus"]
id_field = "id"
partition_documents = 40
[split]
valid_fraction = 0.0
test_fraction = 0.0
[redact]
policies = ["digits", "names"]
names_file = "{here}/names.txt"
[sample]
replicates = 1
fraction = 1.0
[estimate]
reidentification_table = "{here}/people.csv"
reidentification_id = "document"
reidentification_documents = 60
"""


@pytest.mark.slow
def test_redaction_takes_links_away_and_the_table_stays_private(tmp_path: Path) -> None:
    faker = Faker("en_US")
    faker.seed_instance(7)
    people = [
        [f"case {n}", faker.unique.first_name(), f"Zu{faker.unique.last_name()}", faker.state(), faker.phone_number()]
        for n in range(300)
    ]
    with (tmp_path / "people.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["document", "first", "last", "state", "phone"], *people])
    (tmp_path / "corpus").mkdir()
    with (tmp_path / "corpus" / "cases.jsonl").open("w", encoding="utf-8") as file:
        for name, first, last, state, phone in people[:100]:
            text = f"{faker.sentence()} My name is {first} {last}. I live in {state}. Please call {phone}."
            file.write(json.dumps({"id": name, "text": text}) + "\n")
    # Every third name is missed by redaction, so that some links stay.
    masked = [word for number, (_, first, last, _, _) in enumerate(people) if number % 3 for word in (first, last)]
    (tmp_path / "names.txt").write_text("\n".join(masked), encoding="utf-8")
    settings = tmp_path / "reticent.toml"
    settings.write_text(SETTINGS.format(here=tmp_path) + SMALL_MODEL, encoding="utf-8")
    (tmp_path / "private").mkdir()

    ran = reticent("run", settings, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    asked = reticent("estimate", settings, "--json", cwd=tmp_path)
    assert asked.returncode == 0, asked.stderr
    found = json.loads(asked.stdout)["reidentification"]
    assert (found["num_documents"], found["num_rows"], found["num_in_table"]) == (60, 300, 60)
    original, redacted = found["original"], found["redacted"]
    assert original["num_correct"] == 60
    assert original["num_linked"] >= 57
    assert 0.15 * 60 <= redacted["num_correct"] <= 0.6 * 60
    assert redacted["linked"][0] < redacted["num_linked"] / 60 < redacted["linked"][1]
    assert "links" not in found

    (links,) = (tmp_path / "private").rglob("reidentification.json")
    listed = json.loads(links.read_text(encoding="utf-8"))["links"]
    assert len(listed) == redacted["num_linked"]
    private = [path.read_text("utf-8") for path in (tmp_path / "private").rglob("report.json")]
    assert any('"reidentification"' in report for report in private)

    said = [ran.stdout, ran.stderr, asked.stderr, asked.stdout]
    public = [
        path.read_bytes().decode("utf-8", "replace") for path in (tmp_path / "public").rglob("*") if path.is_file()
    ]
    assert public
    for text in (*said, *public):
        assert "people.csv" not in text
        assert not any(last in text or phone in text for _, _, last, _, phone in people[100:])
    assert not any("num_linked" in text or "table of people" in text for text in public)
