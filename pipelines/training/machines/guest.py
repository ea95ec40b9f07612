"""A machine that joins trainings which another one runs: it waits for an invitation, trains along, and waits again."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from pipelines.context import silent
from pipelines.training.machines.host import job_in
from pipelines.training.machines.invitation import Invitation, installed, open_invitations
from pipelines.training.machines.team import Elsewhere, Share, Team, loopback, pipe_of, tell, watch
from pipelines.training.machines.wire import HELLO_SECONDS, Link, LostError, connect

LOOK_SECONDS: Final = 1.0
_SAY: Final = {
    "refused": "a process refused ({name})",
    "died": "a process {name}",
    "failed": "a process failed with {name}",
    "lost": "another machine was lost",
}


@dataclass(frozen=True, kw_only=True)
class Joining:
    """How this machine takes part.

    Attributes:
        root: the private root, which work comes from.
        folder: of invitations.
        count: processes to start.
        interface: that its settings declare private; None if none.
        say: told in words what happens; never private text.
    """

    root: Path
    folder: Path
    count: int
    interface: str | None
    say: Callable[[str], None]


def wait_and_join(joining: Joining, is_over: Callable[[], bool] = lambda: False) -> None:
    """Joins every training that invites this machine, until ``is_over``."""
    seen: set[str] = set()
    joining.say("waiting for a training")
    while not is_over():
        for invitation in open_invitations(joining.folder):
            if invitation.token not in seen:
                try:
                    link = connect(invitation.host, invitation.port, invitation.pem, HELLO_SECONDS)
                except LostError:
                    continue  # it was killed, or has ended; perhaps the network is not up yet
                seen.add(invitation.token)
                joining.say(_join(joining, invitation, link))
        time.sleep(LOOK_SECONDS)


def _join(joining: Joining, invitation: Invitation, link: Link) -> str:
    """Takes part in one training; how it ended, in words."""
    try:
        missing = next((folder for folder in invitation.needed if not Path(folder).is_dir()), None)
        link.send_json(
            {
                "machine": platform.node(),
                "processes": joining.count,
                "gpus": torch.cuda.device_count() if torch.cuda.is_available() else 0,
                "interface": joining.interface,
                "installed": installed(),
                "missing": missing,
            }
        )
        joining.say("joined a training; waiting for the other machines")
        match link.receive_json():
            case {"start": dict(order)}:
                return _train(joining, invitation, link, order)
            case {"refused": str(problem)}:
                return f"this machine cannot take part: {problem}"
    except LostError:
        pass
    finally:
        link.close()
    return "the training ended without this machine"


def _train(joining: Joining, invitation: Invitation, link: Link, order: dict[str, Any]) -> str:
    meeting, is_private = Path(order["meeting"]), bool(order["is_private"])
    if is_private and joining.interface is None:
        return "the training would send sums as they are, and no runtime.private_interface is set here"
    if not meeting.resolve().is_relative_to(joining.root.resolve()):
        return "the training would be started from a folder that is not of this store"
    work, arguments = job_in(meeting)
    share = Share(
        first=order["first"],
        count=joining.count,
        total=order["total"],
        device=order["device"],
        meeting=meeting,
        interface=joining.interface if is_private and joining.interface else loopback(),
        elsewhere=Elsewhere(
            host=invitation.host,
            port=invitation.port,
            pem=invitation.pem,
            machine=order["machine"],
            num_machines=order["machines"],
            is_private=is_private,
        ),
    )
    last = share.first + share.count - 1
    joining.say(f"training: processes {share.first} to {last} of {share.total}, from 0")
    partner = pipe_of(link, 0, "")
    with Team(share, work, arguments) as team:
        results, failed = watch(team.running, silent, hear=lambda failure: tell(link, failure), partner=partner)
    if failed:
        first = min(failed, key=lambda failure: list(_SAY).index(failure.kind))
        return f"the training ended: {_SAY[first.kind].format(name=first.name)}; the flow's machine says more"
    if len(results) < joining.count:
        return "the training was ended by the flow's machine, or that is gone"
    tell(link, None)
    with suppress(EOFError, OSError):
        partner.recv()  # until the training is over: its last words may still be on their way
    return "the training is complete"
