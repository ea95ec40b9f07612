"""kill -9 in each phase of each kind of method: the next attempt comes to the same steps, samples and epsilon."""

import json
import shutil
import signal
from pathlib import Path

import pytest
from stage_corpora import artifacts
from support import child_environment
from support.project import warm_commands
from test_stage_train_methods import read, run

FAST = {"noise_multiplier": 1.0, "target_epsilon": None, "epochs": 3}
CASES = {
    "crt": ("crt", "train"),
    "jft, phase 1": ("jft direct", "train_phase1"),
    "jft, phase 2": ("jft direct", "train"),
    "jft with light noise, phase 1": ("jft light_noise", "train_phase1"),
    "redaction_schedule": ("redaction_schedule", "train"),
    "sdpsgd_lstm": ("sdpsgd_lstm", "train"),
}


def train_and_die(folder, *arguments):
    """What becomes of a process of its own that trains there until somebody is killed."""
    words = [str(Path(__file__).with_name("train_and_die.py")), str(folder), *arguments]
    return warm_commands().run(folder, words, child_environment(OMP_NUM_THREADS="1"), python=True)


def killed(folder, method, stage):
    """Lets a process train until it is killed; the steps that it did."""
    folder.mkdir()
    done = train_and_die(folder, method, stage, json.dumps(FAST))
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (folder / "kept").exists(), "train_and_die.py has each step keep a checkpoint"
    scratch = "first.scratch" if stage == "train_phase1" else "scratch"
    return int((folder / "died_after").read_text()), folder / "run" / scratch / "train.ckpt"


def attempt(folder, method, stage, **changes):
    """Another attempt with what is in the scratch folders; its context, and what progress said of the stage."""
    said = []

    def progress(where, done, total, message=""):
        if where == stage:
            said.append((done, total, message))

    for name in ("private", "public", "first"):  # the store gives each attempt empty folders
        shutil.rmtree(folder / "run" / name, ignore_errors=True)
    return run(folder / "run", artifacts(folder / "corpus"), method, progress, **{**FAST, **changes}), said


def facts(ctx):
    """What may not depend on a kill: every number that the accountant and the report are given, and the epochs."""
    figures, events = read(ctx, "figures.json"), read(ctx, "events.json")
    counted = {name: value for name, value in figures.items() if isinstance(value, int) or name == "sample_rate"}
    return counted, events, [row["num_steps"] for row in read(ctx, "curves.json")["epochs"]]


@pytest.mark.slow  # whole runs are killed quickly in tests/faults/test_faults_kill.py
@pytest.mark.parametrize("case", CASES)
def test_a_killed_training_goes_on_to_the_same_steps_and_epsilon(tmp_path, case):
    method, stage = CASES[case]
    steps_before, checkpoint = killed(tmp_path / "a", method, stage)
    damaged = tmp_path / "b"
    shutil.copytree(tmp_path / "a", damaged)
    resumed, said = attempt(tmp_path / "a", method, stage)
    steps = [done for done, total, _ in said if total and done]
    assert steps == list(range(steps_before + 1, said[-1][1] + 1))  # none twice, none left out
    assert not any("damaged" in message for _, _, message in said)

    content = bytearray((damaged / checkpoint.relative_to(tmp_path / "a")).read_bytes())
    content[len(content) // 2] ^= 1
    (damaged / checkpoint.relative_to(tmp_path / "a")).write_bytes(content)
    rebuilt, said = attempt(damaged, method, stage)
    assert sum("the checkpoint is damaged: training starts again" in message for _, _, message in said) == 1
    assert [done for done, total, _ in said if total and done] == list(range(1, said[-1][1] + 1))
    assert facts(resumed) == facts(rebuilt)
    assert facts(resumed)[0]["num_steps"] > 0
