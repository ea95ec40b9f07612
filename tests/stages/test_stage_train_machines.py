"""Two machines, each in a network namespace of its own, train one model: what is the same as with one process."""

import json
import shutil
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.contexts import stage_context
from support.namespaces import started, two_namespaces, why_not
from support.project import SECRET, reticent, small_project
from support.waiting import wait_for
from test_stage_train_kill import FAST, attempt, facts
from test_stage_train_methods import SMALL, corpus, read, run
from test_stage_train_ranks import EXACT, is_running, weights

from pipelines.context import Runtime
from pipelines.encryption.places import FILE, leave
from pipelines.encryption.sealed import MAGIC
from pipelines.encryption.sources import KeySource
from pipelines.errors import ConfigError, StageError
from pipelines.files import read_file
from pipelines.settings.train import TrainConfig
from pipelines.stages.train import train
from pipelines.store.place.unlocking import unlock
from pipelines.training.machines.network_exchanges import EXCHANGE_NOTES

KEY = "9f3a" * 16
SCRIPT = Path(__file__).with_name("train_on_machine.py")
needs_namespaces = pytest.mark.skipif(why_not() is not None, reason=f"{why_not()}")


@pytest.fixture(scope="module")
def namespaces():
    with two_namespaces() as found:
        yield found


def machines_of(first, **more):
    return json.dumps({"num_machines": 2, "private_interface": first.interface, **more})


def written(folder):
    """The context of what `run` wrote there."""
    return stage_context("train", folder / "private", {}, public_folder=folder / "public")


def without_notes(ctx):
    events = read(ctx, "events.json")
    notes = [note for note in events.pop("assumption_notes") if note not in EXCHANGE_NOTES.values()]
    return {**events, "assumption_notes": notes}


@needs_namespaces
@pytest.mark.slow
def test_two_machines_come_to_what_one_process_comes_to(tmp_path, namespaces):
    method = "jft direct"  # which has both phases
    first, second = namespaces
    folder = tmp_path / "several"
    folder.mkdir()
    changes = json.dumps({**EXACT, "num_processes": 1})
    with (
        started(second, SCRIPT, "join", folder, 2, second.interface),
        started(first, SCRIPT, "host", folder, method, changes, machines_of(first)) as host,
    ):
        _, error = host.communicate(timeout=300)
    assert host.returncode == 0, error
    assert (folder / "kept").exists(), "train_on_machine.py has each step keep a checkpoint"
    one, several = run(tmp_path / "one", corpus(tmp_path / "corpus"), method, **EXACT), written(folder / "run")
    assert without_notes(one) == without_notes(several)
    told = EXCHANGE_NOTES["private_interface"]
    assert [note for note in EXCHANGE_NOTES.values() if note in read(several, "events.json")["assumption_notes"]] == [
        told
    ]
    assert facts(one)[::2] == facts(several)[::2]
    for left, right in zip(read(one, "curves.json")["epochs"], read(several, "curves.json")["epochs"], strict=True):
        for kind in ("public_loss", "private_loss"):
            assert left[kind] == (right[kind] and pytest.approx(right[kind], rel=1e-4))
    before, after = weights(one), weights(several)
    assert before.keys() == after.keys()
    for key, value in before.items():
        assert value == pytest.approx(after[key], abs=2e-3), key
    assert not [*folder.glob("run/trainings/*"), *folder.rglob("meeting*")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A training of one machine that nobody killed."""
    folder = tmp_path_factory.mktemp("whole")
    return run(folder / "run", corpus(folder / "corpus"), "crt", **FAST)


@needs_namespaces
@pytest.mark.slow
@pytest.mark.parametrize("victim", ["machine", "rank 2", "rank 0", "host"])
def test_when_one_dies_all_end_and_another_number_goes_on(tmp_path, namespaces, whole, victim):
    first, second = namespaces
    changes = json.dumps({**FAST, "num_processes": 1})
    with (
        started(second, SCRIPT, "join", tmp_path, 2, second.interface) as guest,
        started(first, SCRIPT, "host", tmp_path, "crt", changes, machines_of(first), victim) as host,
    ):
        _, error = host.communicate(timeout=300)
        if victim == "host":
            assert host.returncode == -signal.SIGKILL
        else:
            assert host.returncode == StageError.exit_code, error
            who = {"machine": "training process 1 (of 3", "rank 2": "training process 2 (of 3"}
            assert who.get(victim, "training process 0 (of 3") in error
            assert ("was lost with its machine" if victim == "machine" else "SIGKILL") in error
        assert "Traceback" not in error
        assert (tmp_path / "kept").exists(), "train_on_machine.py has each step keep a checkpoint"
        processes = json.loads((tmp_path / "processes").read_text())
        assert set(processes) == {"host", "machine", "rank 0", "rank 1", "rank 2"}
        mortal = [pid for name, pid in processes.items() if name != "machine" or victim == "machine"]
        wait_for("the end of all", lambda: not any(map(is_running, mortal)), 20)
        if victim != "machine":  # it waits for the next training
            assert is_running(processes["machine"])
        if victim == "rank 2":  # which comes with another number of processes
            again = json.dumps({**FAST, "num_processes": 2})
            with started(first, SCRIPT, "host", tmp_path, "crt", again, machines_of(first)) as resumed:
                out, error = resumed.communicate(timeout=300)
            assert resumed.returncode == 0, out + error
            guest.terminate()
            assert "training: processes 2 to 3 of 4" in guest.communicate(timeout=20)[0]
            ctx = written(tmp_path / "run")
        else:
            guest.terminate()
            ctx, heard = attempt(tmp_path, "crt", "train")  # alone
            steps = [done for done, total, _ in heard if total and done]
            assert steps[0] > int((tmp_path / "died_after").read_text())
    assert [*facts(ctx)[::2], without_notes(ctx)] == [*facts(whole)[::2], without_notes(whole)]
    assert (
        EXCHANGE_NOTES["private_interface"] in read(ctx, "events.json")["assumption_notes"]
    )  # its sums have crossed all the same


@needs_namespaces
@pytest.mark.slow
def test_a_run_and_a_machine_that_joins(tmp_path, namespaces):
    alone, several = small_project(tmp_path / "alone"), small_project(tmp_path / "several")
    first, second = namespaces
    with _joined_by(second, alone, comes=False):
        done = reticent("run", alone, cwd=alone.parent)
        assert done.returncode == 0, done.stdout + done.stderr
    # In an encrypted store, whose keys each machine has from its settings.
    several.write_text(f'[store]\nkey_file = "key"\nsecret_file = "secret"\n{several.read_text()}')
    (several.parent / "key").write_text(KEY)
    (several.parent / "secret").write_text(SECRET)
    shutil.rmtree(several.parent / "reticent-store")
    variables = {"PREFECT_HOME": str(several.parent / ".prefect"), "DO_NOT_TRACK": "1"}
    for key, value in json.loads(machines_of(first, num_processes=1)).items():
        variables[f"RETICENT__RUNTIME__{key.upper()}"] = str(value)
    with _joined_by(second, several, comes=True):
        with started(first, "-m", "flows.cli", "run", several, **variables) as host:
            out, error = host.communicate(timeout=500)
        assert host.returncode == 0, out + error
    found, spent = {}, {}
    for config in (alone, several):
        private = config.parent / "reticent-store/private"
        (group,) = json.loads(reticent("ledger", config, "--json", cwd=config.parent).stdout)["groups"]
        if config == several:
            files = [path for path in private.rglob("*") if path.is_file() and path.stat().st_size]
            assert [path for path in files if not path.read_bytes().startswith(MAGIC)] == [private / FILE]
            unlock(private, KeySource(file=str(config.parent / "key")), create=False)
        (claims,) = (private / "objects/guarantee").glob("*/claims.json")
        found[config] = read_file(claims).decode()
        leave(private)
        spent[config] = group["num_releases"], group["epsilon"]
    assert EXCHANGE_NOTES["private_interface"] in found[several]
    assert EXCHANGE_NOTES["private_interface"] not in found[alone]
    assert spent[alone] == spent[several] == (1, spent[alone][1])
    assert spent[alone][1] > 0


@contextmanager
def _joined_by(machine, config, comes):
    """A machine that joins what trains meanwhile; it is to have been in a training, or not."""
    joining = {"RETICENT__RUNTIME__NUM_PROCESSES": "2", "RETICENT__RUNTIME__PRIVATE_INTERFACE": machine.interface}
    with started(machine, "-m", "flows.cli", "join", config, **joining) as guest:
        assert guest.stdout.readline().startswith("waiting for the store")  # it is there first
        yield
        guest.terminate()
        said, _ = guest.communicate(timeout=30)
    assert ("the training is complete" in said) == comes


def test_what_cannot_be_shared_between_machines_is_refused_before_a_row_is_read(tmp_path):
    def context(**runtime):
        configs = {"train": TrainConfig(**{**SMALL, "method": runtime.pop("method", "crt")})}
        return stage_context("train", tmp_path, configs, runtime=Runtime(device="cpu", num_machines=2, **runtime))

    with pytest.raises(ConfigError, match=r"sdpsgd_lstm trains in one process.*runtime\.num_machines = 1"):
        train.run(context(method="sdpsgd_lstm", private_interface="lo"))
    with pytest.raises(ConfigError, match="there is no interface none7 here"):
        train.run(context(private_interface="none7"))
    with pytest.raises(ConfigError, match=r"needs runtime\.private_interface"):
        train.run(context())
