"""What tests of more than one folder share, each in one place; pytest's ``pythonpath`` makes it importable."""

import os
from pathlib import Path

TESTS = Path(__file__).parents[1]
REPOSITORY = TESTS.parent


def child_environment(**variables: str) -> dict[str, str]:
    """The environment for a Python process that imports what tests import, and what is given."""
    paths = [str(REPOSITORY), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables}
