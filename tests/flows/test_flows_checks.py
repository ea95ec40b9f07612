"""What a later stage would refuse is said by ``plan``, and by ``run`` before its first stage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flows.commands.plan import plan_document
from flows.commands.run import run_job
from flows.running.lifecycle import refuse_settings
from flows.running.spec import begin
from pipelines.errors import ConfigError

CASES = [
    ('[redact]\npolicies = ["no_such_module:Policy"]', "module 'no_such_module' not found"),
    ('[redact]\nconservative = "no_such_module:Policy"', "redact.conservative"),
    ('[redact]\nmodel = "xx_core_web_sm"', "'xx_core_web_sm' is not installed"),
    ('[redact]\npolicies = ["names"]\nnames_file = "/nowhere/names.txt"', "names_file"),
    ('[split]\nlanguage = "qq"', "cannot load a tokeniser"),
    ('[split]\nmode = "senter"\nmodel = "xx_core_web_sm"', "split.model"),
    ('[train]\nmodel = "nobody/nothing"', "not in the local Hugging Face cache"),
    ('[redact]\nreplacement = "surrogate"\n[train]\nmethod = "jft"', "method jft needs masks"),
    (
        '[redact]\nreplacement = "label"\n[train]\nmethod = "anonymized"\ntyped_masks = ["PERSON"]',
        "train.typed_masks writes masks",
    ),
]


def settings(folder: Path, text: str) -> Path:
    (folder / "a.txt").write_text("The parcel is late.\n")
    path = folder / "reticent.toml"
    path.write_text(f'[corpus]\ninputs = ["a.txt"]\n{text}\n')
    return path


@pytest.mark.parametrize(("text", "told"), CASES)
def test_what_a_later_stage_refuses_is_said_first(tmp_path: Path, text: str, told: str) -> None:
    config = settings(tmp_path, text)
    with pytest.raises(ConfigError, match=told):
        plan_document(config, {}, read=True)
    with pytest.raises(ConfigError, match=told):
        run_job(config, from_stage=None, only=None, force=(), verify=None, environ={})
    assert not list((tmp_path / "reticent-store" / "private" / "objects").glob("*/*"))
    plan_document(config, {}, read=False)  # status still shows the last run


def test_stages_that_the_run_leaves_alone_are_not_asked(tmp_path: Path) -> None:
    config = settings(tmp_path, '[train]\nmodel = "nobody/nothing"')
    refuse_settings(begin(config, os.environ, selected=("split",)))
    with pytest.raises(ConfigError, match="Hugging Face"):
        refuse_settings(begin(config, os.environ))
