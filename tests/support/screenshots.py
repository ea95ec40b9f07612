"""The picture of the report in the documentation: ``make screenshots``.

PYTHONPATH=tests python -m support.screenshots PROJECT OUT
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import reticent
from support.chrome import Chrome


def take(project: Path, out: Path) -> Path:
    """Photographs the top of the full report of a project's last run, as ``report.png``.

    Args:
        project: the folder of a settings file whose run is finished, on text that is not private: the built-in job.
        out: where the picture is written.
    """
    report = reticent.open_run(project).report
    assert report is not None, "the last run has no report"
    with tempfile.TemporaryDirectory() as folder:
        browser = Chrome(Path(folder) / "profile", 1200, 900)
        try:
            browser.open(report.resolve().as_uri())
            browser.screenshot(out / "report.png")
        finally:
            browser.close()
    return out / "report.png"


if __name__ == "__main__":
    print(take(Path(sys.argv[1]), Path(sys.argv[2])))
