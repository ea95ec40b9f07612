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
    # Programs that .ci/run installs where it may, and people need not have.
    r"(Chromium is not installed|no Chromium)",
    r"Caddy is not installed",
    r"glusterfs is not installed",
    r"ray is not installed",
    # Optional packages outside requirements.lock.
    r"pip install reticent\[gliner\]",
    r".*could not import '(sacrebleu|rouge_score|nltk|gliner|ray|peers?)[.\w]*'",
    r".*pip install --no-deps \w+",
    # Corpora and oracles that are not part of the project.
    r"no real corpora at ",
    r".* is not below .*",
    r"no oracles? at ",
    # The machine: rights, kernel, processor, accelerator.
    r"only root can ",
    r"once is enough; only root ",
    r"this processor has no ",
    r".*bfloat16.*",
    r".*(no GPU|CUDA is not available|needs a GPU|a GPU is needed).*",
    r".*namespaces.*",
    # Benchmarks that measure other programs, each in an environment of its own.
    r".*(an environment of its own|environments of their own|peers?).*",
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
