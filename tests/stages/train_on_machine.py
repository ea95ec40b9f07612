"""One machine of a training through the stage.

    train_on_machine.py host FOLDER METHOD CHANGES MACHINES [VICTIM]
    train_on_machine.py join FOLDER COUNT INTERFACE

``CHANGES`` are settings, ``MACHINES`` those of the run, as JSON. A checkpoint is kept after every step. After half of
the steps of the last stage the VICTIM is killed: ``host``, ``machine``, which has joined, or one of the processes, by
its name. Exits as the command line does.
"""

import json
import multiprocessing
import os
import signal
import sys
from functools import partial
from pathlib import Path

from support.patches import patch_for_process
from test_stage_train_kill import attempt
from test_stage_train_methods import corpus, run

from pipelines.errors import ReticentError
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.machines.worker import WorkerSettings, join_announced_trainings

# In training processes too, which import this file. The mark says that one of them kept a checkpoint.
patch_for_process(Checkpoints, "save_if_due", lambda self, state: self.save(state()), mark=f"{sys.argv[2]}/kept")


def pids(folder):
    """The processes of both machines, by name; those of the one that has joined are known by what they are given."""
    found = {child.name: child.pid for child in multiprocessing.active_children()}
    first = len(found)
    found |= {"host": os.getpid()}
    found["machine"] = int((folder / "machine").read_text())
    for child in Path(f"/proc/{found['machine']}/task/{found['machine']}/children").read_text().split():
        if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes():
            found[f"rank {first}"], first = int(child), first + 1
    return found


def host(folder, method, changes, machines, victim=None):
    def progress(where, done, total, message=""):
        if victim and where == "train" and total and done == total // 2 + 1:
            processes = pids(folder)
            (folder / "processes").write_text(json.dumps(processes))
            (folder / "died_after").write_text(str(done))
            os.kill(processes[victim], signal.SIGKILL)

    try:
        changes, machines = json.loads(changes), json.loads(machines)
        if (folder / "corpus").exists():  # another attempt
            attempt(folder, method, "train", machines=machines, **changes)
        else:
            run(folder / "run", corpus(folder / "corpus"), method, progress, machines=machines, **changes)
    except ReticentError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def join(folder, count, interface):
    (folder / "machine").write_text(str(os.getpid()))
    trainings = folder / "run" / "trainings"
    join_announced_trainings(
        WorkerSettings(folder=trainings, count=int(count), interface=interface, say=partial(print, flush=True))
    )


if __name__ == "__main__":
    {"host": host, "join": join}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
