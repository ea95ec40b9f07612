"""The examples in the documentation run as they stand, and a resumed one spends the same epsilon."""

import functools
import re

import pytest
from support import REPOSITORY

from pipelines.accounting import accountants, calibration


def example(heading):
    text = (REPOSITORY / "docs" / "engine.md").read_text()
    return re.search(rf"\n## {heading}\n.*?```python\n(.*?)```", text, re.S)[1]


def run(code, capsys, names=None):
    """Runs an example. Returns what its last line prints: epsilon and the number of steps."""
    exec(compile(code, "docs/engine.md", "exec"), {} if names is None else names)
    epsilon, steps = capsys.readouterr().out.split()[-2:]
    return float(epsilon), int(steps)


@pytest.fixture(autouse=True)
def _one_plan(patch):
    """Computes noise and epsilon once for all runs of one plan."""
    for module, name in ((calibration, "calibrate_noise_multiplier"), (accountants, "epsilon")):
        patch(module, name, functools.cache(getattr(module, name)))


@pytest.mark.slow
def test_the_documented_loops_run(capsys):
    names = {}
    epsilon, steps = run(example("A private loop"), capsys, names)
    assert 7.9 < epsilon <= 8.0
    assert steps == 4
    renewed = example("A private loop").partition("for (batch,)")[0] + example("Loops that count items")
    exec(compile(renewed, "docs/engine.md", "exec"), names)
    assert names["engine"].num_steps == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("heading", "stops", "resumes"),
    [
        (
            "With transformers.Trainer",
            ("num_train_epochs=2,", "num_train_epochs=2, max_steps=6,"),
            ("trainer.train()", "trainer.train(resume_from_checkpoint=True)"),
        ),
        ("With accelerate", ("_epoch, 2):", "_epoch, 1):"), ("# accelerator.load_state", "accelerator.load_state")),
    ],
)
@pytest.mark.filterwarnings("ignore:.*planned noisy steps")
def test_the_documented_trainings_run_and_resume(heading, stops, resumes, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = example(heading)
    whole = run(code, capsys)
    assert 7.9 < whole[0] <= 8.0
    assert whole[1] == 8
    for change in (stops, resumes):
        assert code.count(change[0]) == 1
    stopped = run(code.replace(*stops), capsys)
    assert stopped[1] < 8
    assert stopped[0] < 7.5
    assert run(code.replace(*resumes), capsys) == whole
