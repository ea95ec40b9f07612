"""What a flow that cannot begin tells Prefect: the kind of the error, but no file name and no setting."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.arguments import app
from flows.running.lifecycle import run_of
from flows.running.spec import EVERYTHING
from pipelines.errors import ConfigError, InputError, ReticentError, StoreError

NAME = "zebulon-quackenbush"


def _missing(folder: Path) -> str:
    return f'[corpus]\ninputs = ["{NAME}.txt"]\n'


def _unknown_key(folder: Path) -> str:
    return f'[corpus]\ninputs = ["."]\n{NAME} = 1\n'


def _no_store(folder: Path) -> str:
    """A file is where the store should be: an error of the system, with the path in it."""
    (folder / "a.txt").write_text("A text.")
    (folder / NAME).write_text("")
    return f'[corpus]\ninputs = ["a.txt"]\n[store]\nroot = "{NAME}/store"\n'


@pytest.mark.parametrize(
    ("broken", "kind"),
    [(_missing, InputError), (_unknown_key, ConfigError), (_no_store, StoreError)],
    ids=lambda x: x.__name__,
)
def test_no_name_in_what_prefect_stores(
    tmp_path: Path, broken: Callable[[Path], str], kind: type[ReticentError]
) -> None:
    config = tmp_path / "reticent.toml"
    config.write_text(broken(tmp_path))
    with pytest.raises(kind) as raised, run_of(str(config), EVERYTHING):
        pass
    shown = "".join(traceback.format_exception(raised.value))
    assert NAME not in shown
    assert raised.value.__context__ is None
    assert f"`reticent plan {config}`" in str(raised.value)
    assert NAME in _told_by_plan(config)


def _told_by_plan(config: Path) -> str:
    """What the advice leads to: the message itself, on the terminal of whoever asks for it."""
    done = CliRunner().invoke(app, ["plan", str(config)])
    return f"{done.output}{done.exception}"
