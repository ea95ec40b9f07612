"""No process of the built-in job connects to anything outside loopback. Needs strace."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("no_network.sh")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_built_in_job_connects_to_loopback_only() -> None:
    done = subprocess.run(
        ["bash", str(SCRIPT), sys.executable], capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode == 77:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no connection outside loopback" in done.stdout
