"""Simple token offsets for tests."""

import re


def words_of(text):
    """Simple offsets for tests: runs of word characters, and every other visible character on its own."""
    found = [m.span() for m in re.finditer(r"\w+|[^\w\s]", text)]
    return [a for a, _ in found], [b for _, b in found]
