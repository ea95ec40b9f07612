"""One machine of a training without a stage: on_machine.py ROLE FOLDER ORDER INTERFACE.

``host`` prints what came of it and exits as the command line does; ``join`` takes part until it is killed.
"""

import os
import sys
import time
from pathlib import Path

import torch

from pipelines.artifacts import Target
from pipelines.dp.ranks import Ranks
from pipelines.errors import ReticentError
from pipelines.training.machines.coordinator import CoordinatorSettings
from pipelines.training.machines.launch import launch
from pipelines.training.machines.worker import WorkerSettings, join_announced_trainings

SECRET = b"Zebulon was seen on the wire. "
SIZE = 3_000  # so that it is not cut into pieces of one packet only


def own_listeners():
    """Local addresses, in hexadecimal, at which sockets of this process listen."""
    own = {os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                yield fields[1]


def work(order, folder, progress):
    """Run by every process."""
    ranks = Ranks.here()
    sums = torch.zeros(SIZE)
    if not ranks.is_first:  # one that is not the first sends it, and is the only one that has it
        sums[: len(SECRET) * 4] = torch.frombuffer(bytearray(SECRET * 16), dtype=torch.float32)
    ranks.add_up([sums])
    ranks.check_agree("the same", sums.device)
    (folder / f"listening-{ranks.rank}").write_text("\n".join(own_listeners()))
    progress(1, 2, "added up")
    if order == "wait":
        while True:
            ranks.add_up([sums])
            time.sleep(0.05)
    return float(sums.count_nonzero()), ranks.count


def main():
    role, folder, order, interface = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    trainings = folder / "trainings"
    if role == "join":
        join_announced_trainings(
            WorkerSettings(folder=trainings, count=1, interface=interface, say=lambda text: print(text, flush=True))
        )
    machines = CoordinatorSettings(
        count=2, interface=interface, wait_seconds=60, folder=trainings, needed=(str(folder),),
    )  # fmt: skip
    try:
        found = launch(
            work, (order, folder), count=1, device="cpu", progress=lambda *said: print(*said, flush=True),
            failures=Target(folder=folder / "failures"), machines=machines,
        )  # fmt: skip
        print("found", *found)
    except ReticentError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
