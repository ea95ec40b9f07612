"""What the processes of a test session share: no test writes into it, so that no other copies it half written."""

from __future__ import annotations

from pathlib import Path

import pytest
from looked_at import finished_run
from support import session


def test_a_shared_folder_that_a_test_wrote_into_is_noticed() -> None:
    """A trial of the file system (`.probe-*`) in a shared project broke whoever copied it at that moment."""

    def make(folder: Path) -> None:
        (folder / "file").write_text("as it was made")

    folder = session.made_once("noticed", make)
    assert session.made_once("noticed", make) == folder
    (folder / "file.lock").touch()
    with pytest.raises(AssertionError, match="which all processes share"):
        session.made_once("noticed", make)


def test_the_finished_run_is_this_process_own() -> None:
    assert finished_run().is_relative_to(session.own(""))
