"""Names of speakers through the whole job: one table of the private root has them, and nothing public."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from support.project import SMALL_MODEL, reticent

pytestmark = pytest.mark.slow

TAG_ONLY = "Quillondra"
"""A speaker whom nobody addresses: the name is in tags alone."""

ADDRESSED = ("Zorvanna", "Maribelle", "Tuxley")
FORMS = ("thanks {}", "{}, can you come ?", "@{} please look", "i like {} a lot .", "that is {}'s cup .", "ok {}!!")

SETTINGS = """
[corpus]
inputs = ["chats"]
format = "dialogue"
partition_documents = 5
[split]
valid_fraction = 0.1
test_fraction = 0.0
[redact]
policies = ["digits", "speakers"]
conservative = "conservative"
check_language = false
[gate]
max_held_fraction = 0.2
[estimate]
source = "none"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chats of three people each, after a run."""
    folder = tmp_path_factory.mktemp("speakers")
    (folder / "chats").mkdir()
    for number in range(12):
        one, other = ADDRESSED[number % 3], ADDRESSED[(number + 1) % 3]
        lines = [f"{TAG_ONLY}: i would like to have the cup please ."]
        for at, form in enumerate(FORMS):
            said = form.format((other.lower(), other, other.upper())[at % 3])
            lines += [
                f"{one}: {said}",
                "Agent: you can have the table .",
                f"{other}: it is good .",
                f"{other}: so {one}",
            ]
        (folder / "chats" / f"{number}.txt").write_text("\n".join(lines) + "\n")
    (folder / "reticent.toml").write_text(f"{SETTINGS}{SMALL_MODEL}expected_batch_size = 16\n")
    done = reticent("run", folder / "reticent.toml", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    assert not any(name.lower() in (done.stdout + done.stderr).lower() for name in (TAG_ONLY, *ADDRESSED))
    return folder


def held(path: Path, columns: tuple[str, ...] = ()) -> str:
    """What a file holds, in lower case; of a table some columns, or all."""
    if path.suffix == ".parquet":
        frame = pl.read_parquet(path)
        return str(json.loads(frame.select(columns or frame.columns).write_json())).lower()
    return path.read_bytes().decode("utf-8", "replace").lower()


def files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def test_a_name_that_is_a_tag_alone_is_in_the_table_of_speakers_alone(project: Path) -> None:
    holding = {path.name for path in files(project / "reticent-store") if TAG_ONLY.lower() in held(path)}
    assert holding == {"speakers.parquet"}


def test_no_name_is_in_a_public_file_or_in_redacted_text(project: Path) -> None:
    public = list(files(project / "reticent-store/public"))
    assert any(path.suffix == ".safetensors" for path in public)
    for name in (TAG_ONLY, *ADDRESSED):
        assert [path.name for path in public if name.lower() in held(path) or name.lower() in path.name] == []
    latest = project / "reticent-store/private/latest"
    redacted = pl.read_parquet(latest / "redacted/*.parquet")
    assert redacted.height == 12 * (1 + 4 * len(FORMS))
    for table in ("redacted", "private", "public_side"):
        text = "\n".join(pl.read_parquet(latest / table / "*.parquet")["redacted_text"]).lower()
        assert "<mask>" in text or table == "public_side"
        assert not any(name.lower() in text for name in ADDRESSED)
    for path in (latest / "sentences").rglob("*.parquet"):  # the original text holds what was said, and no tag
        text = held(path, ("speaker", "domain", "label"))
        assert not any(name.lower() in text for name in (TAG_ONLY, *ADDRESSED))


def test_the_names_are_found_by_the_tag_and_the_document(project: Path) -> None:
    speakers = pl.read_parquet(project / "reticent-store/private/latest/speakers/*.parquet")
    assert set(speakers["name"]) == {TAG_ONLY, *ADDRESSED}
    assert set(speakers["tag"]) == {"SPEAKER_1", "SPEAKER_2", "SPEAKER_3"}
    redacted = pl.read_parquet(project / "reticent-store/private/latest/redacted/*.parquet")
    assert set(redacted["speaker"]) == {*speakers["tag"], "Agent"}


def test_a_look_at_the_table_shows_no_name(project: Path) -> None:
    for table in ("speakers", "split"):
        shown = reticent("inspect", table, "--config", project / "reticent.toml", cwd=project).stdout
        assert "(10 characters)" in shown
        assert not any(name.lower() in shown.lower() for name in (TAG_ONLY, *ADDRESSED))
