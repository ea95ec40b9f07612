from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / "faults"), str(TESTS / "store"), str(TESTS / "flows")]  # for driver, toy and project
