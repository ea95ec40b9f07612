"""Several processes train one model together, through the stage, on CPUs: what is the same as with one process."""

import json
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest
from safetensors.torch import load_file
from support.contexts import stage_context
from support.forked_ranks import forked_ranks
from support.waiting import wait_for
from test_stage_train_kill import FAST, attempt, facts, train_and_die
from test_stage_train_methods import METHODS, SMALL, corpus, read, run

from pipelines.context import Runtime
from pipelines.errors import ConfigError, StageError
from pipelines.methods import registry
from pipelines.settings.train import TrainConfig
from pipelines.stages.train import phase1 as train_phase1
from pipelines.stages.train import train

# Every record in every private step and no noise: then nothing is random but what is public.
EXACT = {"expected_batch_size": 1_000, "noise_multiplier": 0.0, "target_epsilon": None, "epochs": 2}
EXACT |= {"insecure_test_seed": True, "jft_phase1_epochs": 2}
SHARED = [name for name in METHODS if registry.METHODS[name.partition(" ")[0]].shares_steps]


def weights(ctx):
    (file,) = [*ctx.out.public_folder.glob("model/model.safetensors"), *ctx.out.folder.glob("model/model.safetensors")]
    return load_file(file)


@pytest.mark.slow  # two processes that share their steps are tried quickly in tests/dp/test_dp_processes.py
@pytest.mark.parametrize("name", SHARED)
def test_two_processes_come_to_what_one_comes_to(tmp_path, name):
    inputs, said = corpus(tmp_path / "corpus"), {}
    for count in (1, 2):
        said[count] = []

        def progress(stage, done, total, message="", count=count):
            if total and done:
                said[count].append((stage, done, total))

        with forked_ranks() if count == 2 and name != "crt" else nullcontext():  # one as in use
            run(tmp_path / str(count), inputs, name, progress, num_processes=count, **EXACT)
    one, two = (
        stage_context("train", tmp_path / count / "private", {}, public_folder=tmp_path / count / "public")
        for count in "12"
    )
    assert said[1] == said[2]  # each step once
    assert read(one, "events.json") == read(two, "events.json")
    assert facts(one) == facts(two)
    if "light_noise" in name:
        return  # its phase 1 finds a noise of its own, which no two trainings share
    for left, right in zip(read(one, "curves.json")["epochs"], read(two, "curves.json")["epochs"], strict=True):
        for kind in ("public_loss", "private_loss"):
            assert left[kind] == (right[kind] and pytest.approx(right[kind], rel=1e-4))  # None without such steps
    before, after = weights(one), weights(two)
    assert before.keys() == after.keys()
    for key, value in before.items():
        assert value == pytest.approx(after[key], abs=2e-3), key
    last_one, last_two = (read(made, "curves.json")["epochs"][-1]["evaluation"] for made in (one, two))
    assert last_two["perplexity"] == pytest.approx(last_one["perplexity"], rel=1e-3)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A training that nobody killed."""
    folder = tmp_path_factory.mktemp("whole")
    return run(folder / "run", corpus(folder / "corpus"), "crt", **FAST)


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "then"), [("rank 0", 1), ("rank 1", 2), ("this one", 2)])
def test_when_one_dies_all_end_and_the_next_attempt_goes_on(tmp_path, whole, victim, then):
    changes = json.dumps({**FAST, "num_processes": 2})
    done = train_and_die(tmp_path, "crt", "train", changes, victim)
    if victim == "this one":
        assert done.returncode == -signal.SIGKILL
    else:
        assert done.returncode == StageError.exit_code, done.stderr
        said = (tmp_path / "said").read_text()
        assert f"training process {victim[-1]} (of 2" in said
        assert "SIGKILL" in said
    assert "Traceback" not in done.stderr
    assert (tmp_path / "kept").exists(), "train_and_die.py has each step keep a checkpoint"
    processes = json.loads((tmp_path / "processes").read_text())
    assert set(processes) == {"rank 0", "rank 1"}
    wait_for("the end of all", lambda: not any(map(is_running, processes.values())), 20)
    steps_before = int((tmp_path / "died_after").read_text())
    with forked_ranks() if then > 1 else nullcontext():
        resumed, heard = attempt(tmp_path, "crt", "train", num_processes=then)
    steps = [done for done, total, _ in heard if total and done]
    assert steps == list(range(steps[0], heard[-1][1] + 1))
    assert steps[0] > steps_before
    assert facts(resumed) == facts(whole)


@pytest.mark.slow
def test_an_error_of_a_process_comes_back_with_its_rank_and_without_text(tmp_path):
    inputs = corpus(tmp_path / "corpus")
    (tmp_path / "corpus/split/sentences.parquet").write_bytes(b"Zebulon")
    failures = tmp_path / "b/failures"
    with pytest.raises(StageError, match=f"training process . .of 2.* failed with ArrowInvalid.*{failures}") as error:
        run(tmp_path / "b", inputs, "jft direct", num_processes=2, **EXACT)
    assert "Zebulon" not in str(error.value)
    assert "Traceback" in next(failures.glob("rank-*.txt")).read_text()


def test_what_cannot_be_shared_is_refused_before_a_row_is_read(tmp_path, patch):
    def context(stage, device="cpu", **settings):
        configs = {"train": TrainConfig(**{**SMALL, **settings})}
        return stage_context(stage, tmp_path, configs, runtime=Runtime(device=device, num_processes=3))

    with pytest.raises(ConfigError, match="sdpsgd_lstm trains in one process"):
        train.run(context("train", method="sdpsgd_lstm"))
    patch("torch.cuda", "is_available", lambda: True)
    patch("torch.cuda", "device_count", lambda: 2)
    for device in ("auto", "cuda"):
        with pytest.raises(ConfigError, match="num_processes is 3, and this machine shows 2 GPUs"):
            train.run(context("train", device))
        with pytest.raises(ConfigError, match="num_processes is 3, and this machine shows 2 GPUs"):
            train_phase1.run(context("train_phase1", device, method="jft"))
