"""What commands say of an encrypted store that a kill or damage left, without a run; names that `export` takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.patches import Patch
from support.project import small_project

from flows import cli
from flows.commands.compare import compare_text
from flows.commands.export import export_document
from flows.commands.rotate_key import rotate_document
from flows.commands.run_sample import run_sample, sample_text
from flows.running.spec import open_store
from pipelines.encryption import places
from pipelines.errors import ConfigError, DamagedFileError, StoreError
from pipelines.files import read_file, write_atomic
from pipelines.settings.loading import load_settings
from pipelines.store.place import rotation, unlocking
from pipelines.store.place.roots import Roots
from pipelines.store.place.rotation import rotate
from pipelines.store.place.unlocking import in_plain

OLD, NEW = "ab" * 32, "cd" * 32
TEXT = b"Call Hartmann. " * 9000
"""More than one chunk."""


def leave() -> None:
    places._places.clear()
    unlocking._opened.clear()


@pytest.fixture(autouse=True)
def _nothing_is_open() -> Iterator[None]:
    leave()
    yield
    leave()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = small_project(tmp_path / "p", dialogues=1)
    (tmp_path / "p" / "reticent-store" / "private" / "secret").unlink()
    for name, key in (("old", OLD), ("new", NEW)):
        (tmp_path / name).write_text(key)
    path.write_text(path.read_text() + f"[store]\nkey_file = '{tmp_path / 'old'}'\n")
    return path


def store(config: Path) -> Roots:
    leave()
    return open_store(load_settings(config, {}))


def put(roots: Roots, name: str) -> Path:
    path = roots.private / name
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, TEXT)
    return path


def cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-1000])
    return path


def test_rotation_ends_over_what_kills_left_and_repairs_put_aside(config: Path) -> None:
    roots = store(config)
    whole = put(roots, "objects/split/k/sentences.parquet")
    left = [
        cut(put(roots, name))
        for name in ("work/k/rows", "quarantine/split-k-0/rows", "runs/r/.record.json.7.tmp", rotation._TEMPORARY)
    ]
    new = config.parent.parent / "new"
    rotate_document(config, {}, file=new, env=None, reencrypt=True)
    assert read_file(whole) == TEXT
    assert not [path for path in left if path.exists()]
    damaged = cut(put(roots, "objects/split/k/documents.parquet"))
    config.write_text(config.read_text().replace(str(config.parent.parent / "old"), str(new)))
    with pytest.raises(StoreError, match="verify --repair"):
        rotate_document(config, {}, file=new, env=None, reencrypt=True)
    assert damaged.exists()


def test_a_rotation_killed_within_a_file_adds_none_to_the_artifact(config: Path, patch: Patch) -> None:
    roots = store(config)
    file = put(roots, "objects/split/k/sentences.parquet")

    def killed(path: Path) -> None:
        if path.name not in ("home", "secret", "store.json", roots.private.name):
            raise KeyboardInterrupt

    patch(rotation, "fsync_path", killed)
    settings, new = load_settings(config, {}), config.parent.parent / "new"
    key = settings.store_key()
    assert key is not None
    with pytest.raises(KeyboardInterrupt):
        rotate(roots, key, type(key)(file=str(new)), reencrypt=True)
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    patch.undo()
    leave()
    with pytest.raises(ConfigError, match="has the new key already"):
        rotate_document(config, {}, file=new, env=None, reencrypt=True)


def test_another_wrong_key_is_not_taken_for_the_new_one(config: Path, tmp_path: Path) -> None:
    store(config)
    leave()
    (tmp_path / "old").write_text("ef" * 32)
    with pytest.raises(ConfigError, match="not the one"):
        rotate_document(config, {}, file=tmp_path / "new", env=None, reencrypt=False)


def test_damage_names_its_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._code_of(DamagedFileError("a sealed file is not as it was written")) == StoreError.exit_code
    assert "`reticent verify --repair`" in capsys.readouterr().err


def test_export_takes_any_path_below_the_private_root(config: Path, tmp_path: Path) -> None:
    roots = store(config)
    put(roots, "failures/r/traceback.txt")
    export_document(config, {}, "failures", tmp_path / "out")
    assert (tmp_path / "out" / "r" / "traceback.txt").read_bytes() == TEXT
    (roots.public / "latest" / "model").mkdir(parents=True)
    with pytest.raises(ConfigError, match="model is public"):
        export_document(config, {}, "model", tmp_path / "model")
    with pytest.raises(ConfigError, match="has no table"):
        export_document(config, {}, "nothing", tmp_path / "nothing")


def test_a_first_look_says_how_its_examples_are_read(config: Path, tmp_path: Path) -> None:
    found = run_sample(config, "100%", environ={})
    assert "`reticent export first_look/examples.txt" in sample_text(found, config)
    export_document(config, {}, "first_look/examples.txt", tmp_path / "examples.txt")
    assert (tmp_path / "examples.txt").read_text().strip()


def test_what_a_comparison_and_an_audit_name_says_how_it_is_read(config: Path, tmp_path: Path) -> None:
    pages = put(store(config), "comparisons/c/comparison.html"), put(store(config), "objects/report/k/report.html")
    compared = {"methods": [], "variants": [], "together": None, "outputs": {"html": str(pages[0])}}
    text = compare_text(compared)
    assert text.splitlines()[-1].split("`")[1] == "reticent export comparisons/c/comparison.html --out FILE"
    (hint,) = in_plain(pages[1])
    export_document(config, {}, hint.split("`")[1].split()[2], tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes() == TEXT
    assert in_plain(tmp_path / "report.html") == []
