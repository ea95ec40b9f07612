"""Settings: strict, and messages that name file, line and the nearest name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import REPOSITORY

from flows.commands.init import OWN_POLICIES, write_starter
from flows.docs.reference import settings_markdown
from pipelines.errors import ConfigError, InputError
from pipelines.graph import config_references
from pipelines.settings.loading import load_settings, tables
from pipelines.settings.tables import STAGE_TABLES


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "reticent.toml"
    path.write_text(text)
    return path


def test_the_loader_knows_the_tables_that_stages_read() -> None:
    assert list(STAGE_TABLES.items()) == list(config_references().items())


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
    with pytest.raises(ConfigError, match="exists already"):
        write_starter(tmp_path / "a", [], dialogues=3, seed=1)
    (tmp_path / "notes.txt").write_text("One sentence.")
    own = load_settings(write_starter(tmp_path / "b", [str(tmp_path / "notes.txt")], dialogues=3, seed=1), {})
    assert own.stages["redact"].policies == tuple(sorted(OWN_POLICIES))  # type: ignore[attr-defined]
    assert load_settings(_write(tmp_path, ""), {}).stages["redact"].policies == ("high_entity",)  # type: ignore[attr-defined]
    assert own.stages["sample"].replicates == 10  # type: ignore[attr-defined]
    assert own.stages["sample"].fraction == 0.0001  # type: ignore[attr-defined]
    assert not (tmp_path / "b" / "corpus").exists()
    with pytest.raises(InputError):
        write_starter(tmp_path / "c", [str(tmp_path / "nothing.txt")], dialogues=3, seed=1)


def test_every_setting_is_documented() -> None:
    assert (REPOSITORY / "docs" / "settings.md").read_text() == settings_markdown(), "run `make docs`"
    for model in tables().values():
        assert all(field.description for field in model.model_fields.values())


IDLE = [
    ('method = "redacted"\nnoise_multiplier = 2.0', "noise_multiplier"),
    ('method = "no_dp"\ntarget_epsilon = 3.0', "target_epsilon"),
    ('method = "anonymized"\nmax_grad_norm = 0.1', "max_grad_norm"),
    ('method = "jft"\njft_miss_rate = 0.01', "jft_miss_rate"),
    ('method = "crt"\njft_phase1_target_epsilon = 3.0', "jft_phase1_target_epsilon"),
    ('method = "dpsgd"\nmax_state_norm = 0.1', "max_state_norm"),
]


@pytest.mark.parametrize(("train", "field"), IDLE)
def test_a_protection_that_does_nothing_is_refused(tmp_path: Path, train: str, field: str) -> None:
    """Guards ``method = "redacted"`` with noise_multiplier = 2, which trained silently without any noise."""
    path = _write(tmp_path, f"[train]\n{train}\n")
    with pytest.raises(ConfigError, match=rf"line 3: train.{field} is set, and method .* gives no such protection"):
        load_settings(path, {})
    name = f"RETICENT__TRAIN__{field.upper()}"
    assert load_settings(path, {name: ""}).warnings == ()  # as the message advises
    with pytest.raises(ConfigError, match=f"environment variable {name}: train.{field} is set"):
        load_settings(path, {name: "0.5"})
    assert load_settings(path, {}, refuses_idle=False).warnings


def test_other_settings_that_do_nothing_are_warned_of(tmp_path: Path) -> None:
    path = _write(tmp_path, '[train]\nmethod = "crt"\nschedule = "step"\nlora_rank = 8\nepochs = 2\n')
    warnings = load_settings(path, {}).warnings
    assert [text.split(" has no effect")[0] for text in warnings] == [
        f"{tmp_path / 'reticent.toml'}, line 4: train.lora_rank",
        f"{tmp_path / 'reticent.toml'}, line 3: train.schedule",
    ]
    light = '[train]\nmethod = "jft"\njft_variant = "light_noise"\njft_miss_rate = 0.01\njft_phase1_epochs = 2\n'
    assert load_settings(_write(tmp_path, light), {}).warnings == ()
    assert load_settings(_write(tmp_path, ""), {}).warnings == ()


@pytest.mark.parametrize("rate", ["0.0", "1e-5", "1.5"])
def test_a_miss_rate_that_sets_noise_has_a_floor(tmp_path: Path, rate: str) -> None:
    """Guards m = 0, which took all noise out of phase 1."""
    text = f'[train]\nmethod = "jft"\njft_variant = "light_noise"\njft_miss_rate = {rate}\n'
    with pytest.raises(ConfigError, match=r"train.jft_miss_rate"):
        load_settings(_write(tmp_path, text), {})


def test_a_basis_needs_its_rate(tmp_path: Path) -> None:
    text = '[train]\nmethod = "jft"\njft_variant = "light_noise"\njft_miss_rate_basis = "fixed_beforehand"\n'
    with pytest.raises(ConfigError, match="set jft_miss_rate"):
        load_settings(_write(tmp_path, text), {})


def test_a_store_whose_path_is_not_utf8_is_refused(tmp_path: Path) -> None:
    """Parquet and the orchestrator take no such path: a run ended in a traceback after it had started."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "reticent.toml").write_text("")
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        load_settings(folder / "reticent.toml", {}).roots()
    assert "store.root" in str(caught.value)
    elsewhere = load_settings(folder / "reticent.toml", {"RETICENT__STORE__ROOT": str(tmp_path / "store")})
    assert elsewhere.roots()[0] == tmp_path / "store/private"
