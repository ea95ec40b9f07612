"""Source files stay short enough to read in one go."""

from support import REPOSITORY

LONGEST = 400


def test_files_stay_short():
    folders = ("reticent", "flows", "tasks", "pipelines", "benchmarks", "tests")
    paths = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.py")]
    assert len(paths) > 1000
    lengths = {str(path.relative_to(REPOSITORY)): len(path.read_text("utf-8").splitlines()) for path in paths}
    assert {path: length for path, length in lengths.items() if length > LONGEST} == {}
