"""What tests of more than one folder share, each in one place; pytest's ``pythonpath`` makes it importable."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
REPOSITORY = TESTS.parent
