"""Replaces parts of the code as tests do, by the same helper, which fails if nothing uses the replacement."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.patches import SOURCE, patching, set_for_process

__all__ = ["SOURCE", "patching", "set_for_process"]
