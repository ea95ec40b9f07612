"""Runs a training and ends as the kernel ends a process, in the middle of a phase.

    train_and_die.py FOLDER METHOD STAGE CHANGES

``CHANGES`` are settings as JSON. A checkpoint is kept after every step; the process dies after the first half of the
steps of STAGE, so that what it did after its last epoch is in a checkpoint only.
"""

import json
import os
import signal
import sys
from pathlib import Path

from test_stage_train_methods import corpus, run

from pipelines.training.checkpoint import Checkpoints


def main():
    folder, method, stage, changes = Path(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
    Checkpoints.save_if_due = lambda self, state: self.save(state())

    def progress(where, done, total, message=""):
        if where == stage and total and done == total // 2 + 1:
            (folder / "died_after").write_text(str(done))
            os.kill(os.getpid(), signal.SIGKILL)

    run(folder / "run", corpus(folder / "corpus"), method, progress, **changes)


if __name__ == "__main__":
    main()
