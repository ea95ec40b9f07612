"""Runs a training and ends as the kernel ends a process, in the middle of a phase.

    train_and_die.py FOLDER METHOD STAGE CHANGES [VICTIM]

``CHANGES`` are settings as JSON. A checkpoint is kept after every step; a process dies after the first half of the
steps of STAGE, so that what it did after its last epoch is in a checkpoint only: this one, or, of two that train
together, the one named VICTIM, and then what the stage says of it is written down.
"""

import json
import multiprocessing
import os
import signal
import sys
from pathlib import Path

from support.patches import patch_for_process
from test_stage_train_methods import corpus, run

from pipelines.errors import StageError
from pipelines.training.checkpoint import Checkpoints

# In training processes too, which import this file. The mark says that one of them kept a checkpoint.
patch_for_process(Checkpoints, "save_if_due", lambda self, state: self.save(state()), mark=f"{sys.argv[1]}/kept")


def main():
    folder, method, stage, changes = Path(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
    victim = sys.argv[5] if len(sys.argv) > 5 else "this one"

    def progress(where, done, total, message=""):
        if where == stage and total and done == total // 2 + 1:
            processes = {child.name: child.pid for child in multiprocessing.active_children()}
            (folder / "processes").write_text(json.dumps(processes))
            (folder / "died_after").write_text(str(done))
            os.kill(processes.get(victim, os.getpid()), signal.SIGKILL)

    try:
        run(folder / "run", corpus(folder / "corpus"), method, progress, **changes)
    except StageError as error:
        (folder / "said").write_text(str(error))
        sys.exit(StageError.exit_code)


if __name__ == "__main__":
    main()
