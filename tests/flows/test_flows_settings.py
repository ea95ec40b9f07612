"""Settings: strict, and messages that name file, line and the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.reference import settings_markdown
from flows.settings import load_settings, tables
from flows.starter import write_starter
from pipelines.errors import ConfigError, InputError

REPOSITORY = Path(__file__).parents[2]


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "reticent.toml"
    path.write_text(text)
    return path


def test_defaults_and_overrides(tmp_path: Path) -> None:
    path = _write(tmp_path, "[train]\nepochs = 2\n")
    settings = load_settings(path, {"RETICENT__TRAIN__EPOCHS": "7", "RETICENT__REDACT__MODEL": "en_core_web_sm"})
    assert settings.stages["train"].epochs == 7  # type: ignore[attr-defined]
    assert load_settings(path, {}).stages["train"].epochs == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[train]\n\nepoch = 3\n", r"line 3: unknown key train.epoch; did you mean epochs\?"),
        ("[trian]\nepochs = 3\n", r"line 1: unknown table \[trian\]; did you mean train\?"),
        ('[train]\nepochs = "3"\n', r"line 2: train.epochs: input should be a valid integer"),
        ("[train]\nepochs = 0\n", r"line 2: train.epochs: input should be greater than or equal to 1"),
        ("[redact]\npolicies = 'high_entity'\n", r"line 2: redact.policies"),
        ('[redact]\npolicies = ["hihg_entity"]\n', r"line 2: redact.policies.*high_entity"),
        ("train = 3\n", r"train must be a table"),
        ("[train\n", r"not valid TOML"),
        ("[runtime]\nworkers = 0\n", r"line 2: runtime.workers"),
    ],
)
def test_bad_settings_are_located(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_settings(_write(tmp_path, text), {})


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(_write(tmp_path, "[train]\nepoch = 3\nmax_grad_norm = -1.0\n[sample]\nfracton = 1\n"), {})
    assert len(str(caught.value).splitlines()) == 3


def test_bad_override_names_the_variable(tmp_path: Path) -> None:
    path = _write(tmp_path, "")
    with pytest.raises(ConfigError, match="environment variable RETICENT__TRAIN__EPOCH: unknown key"):
        load_settings(path, {"RETICENT__TRAIN__EPOCH": "1"})
    with pytest.raises(ConfigError, match="TABLE__FIELD"):
        load_settings(path, {"RETICENT__TRAIN": "1"})


def test_a_wrong_value_is_not_quoted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(_write(tmp_path, '[train]\nepochs = "CANARY-55"\n'), {})
    assert "CANARY-55" not in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load_settings(tmp_path / "no.toml", {})
    with pytest.raises(InputError, match="is a folder"):
        load_settings(tmp_path, {})


def test_starter_is_valid_and_shows_the_defaults_it_changes(tmp_path: Path) -> None:
    path = write_starter(tmp_path / "a", [], dialogues=3, seed=1)
    load_settings(path, {})
    assert (tmp_path / "a" / "corpus").is_dir()
    with pytest.raises(ConfigError, match="there already"):
        write_starter(tmp_path / "a", [], dialogues=3, seed=1)
    (tmp_path / "notes.txt").write_text("One sentence.")
    own = load_settings(write_starter(tmp_path / "b", [str(tmp_path / "notes.txt")], dialogues=3, seed=1), {})
    assert own.stages["sample"].replicates == 10  # type: ignore[attr-defined]
    assert own.stages["sample"].fraction == 0.0001  # type: ignore[attr-defined]
    assert not (tmp_path / "b" / "corpus").exists()
    with pytest.raises(InputError):
        write_starter(tmp_path / "c", [str(tmp_path / "nothing.txt")], dialogues=3, seed=1)


def test_every_setting_is_documented() -> None:
    assert (REPOSITORY / "docs" / "settings.md").read_text() == settings_markdown(), "run `make docs`"
    for model in tables().values():
        assert all(field.description for field in model.model_fields.values())
