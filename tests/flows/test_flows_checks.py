"""What a later stage would refuse is said by ``plan``, and by ``run`` before its first stage."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from support.imports import loaded_after

from flows.commands.init import write_starter
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


@pytest.fixture
def starter(tmp_path: Path) -> Path:
    """Settings that `reticent init` writes for the user's own text."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "a.csv").write_text("id,note\n" + "".join(f"{n},Parcel {n} is late. Please call me.\n" for n in range(60)))
    return write_starter(tmp_path / "job", [str(own)], dialogues=1, seed=0)


@pytest.mark.slow
def test_a_plan_after_one_new_file_loads_no_model(starter: Path) -> None:
    plan_document(starter, {}, read=True)
    (starter.parent.parent / "own" / "b.csv").write_text("id,note\n1,Please call Ann Lee.\n")
    loaded = loaded_after(
        "from pathlib import Path\nfrom flows.commands.plan import plan_document\n"
        f"plan_document(Path({str(starter)!r}), {{}}, read=True)"
    )
    assert "pipelines.policies.detectors.identifiers.policy" in loaded  # the policies that are quick to make
    assert not {"spacy", "thinc", "torch", "transformers", "presidio_analyzer", "pyarrow", "prefect"} & loaded


@pytest.mark.slow
def test_a_plan_after_one_new_file_takes_two_seconds_of_cpu(starter: Path) -> None:
    command = [sys.executable, "-m", "flows.cli", "plan", str(starter)]
    subprocess.run(command, check=True, capture_output=True)
    (starter.parent.parent / "own" / "b.csv").write_text("id,note\n1,Please call Ann Lee.\n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2 * 2  # twice, for a slow machine


@pytest.mark.slow
def test_doctor_loads_the_model(starter: Path) -> None:
    loaded = loaded_after(
        "from pathlib import Path\nfrom flows.commands.doctor import doctor_document\n"
        f"doctor_document(Path({str(starter)!r}), {{}})"
    )
    assert {"spacy", "presidio_analyzer"} <= loaded
