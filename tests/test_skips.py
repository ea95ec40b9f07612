"""Under CI, a test that is skipped for a reason that nobody listed fails the session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import TESTS
from support.skips import unknown


def session(folder: Path, reason: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_one.py").write_text(f"import pytest\n\ndef test_one():\n    pytest.skip({reason!r})\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "support.skips", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env={**{k: v for k, v in os.environ.items() if k != "CI"}, "PYTHONPATH": str(TESTS), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("reason", "code"), [("nobody knows why", 1), ("Caddy is not installed", 0)])
def test_an_unknown_reason_fails_under_ci(tmp_path: Path, reason: str, code: int) -> None:
    done = session(tmp_path, reason, CI="true")
    assert done.returncode == code, done.stdout
    assert f"skipped 1: {reason}" in done.stdout
    assert ("does not know" in done.stdout) == bool(code)


@pytest.mark.slow
def test_elsewhere_it_is_only_counted(tmp_path: Path) -> None:
    done = session(tmp_path, "nobody knows why")
    assert done.returncode == 0
    assert "skipped 1: nobody knows why" in done.stdout


def test_what_ci_installs_may_not_be_missing() -> None:
    assert unknown(
        ["kubernetes-validate is not installed: pip install --no-deps", "mkdocs is not installed: make site"]
    )
