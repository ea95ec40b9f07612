"""A file of tests can be run by itself: what tests of several folders need stands in `support`."""

import re

from support import REPOSITORY

TESTS = REPOSITORY / "tests"


def borrowed(paths):
    """Imports of a module of another folder of tests, which pytest finds only if it collects that one too."""
    folders = {}
    for path in TESTS.rglob("*.py"):
        folders.setdefault(path.stem, set()).add(path.parent)
    for path in paths:
        for name in re.findall(r"^\s*(?:from|import) (\w+)", path.read_text("utf-8"), re.M):
            if not {path.parent, TESTS} & folders.get(name, {TESTS}):
                yield path.name, name


def test_no_test_imports_from_another_folder_of_tests(tmp_path):
    assert list(borrowed(TESTS.rglob("*.py"))) == [], "move what both need to tests/support"
    wrong = tmp_path / "test_wrong.py"
    wrong.write_text("import json\nfrom support import REPOSITORY\nfrom test_training_crt import weights\n")
    assert list(borrowed([wrong])) == [("test_wrong.py", "test_training_crt")]
