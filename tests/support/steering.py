"""Characters that steer a terminal or hide text, and a corpus that has them wherever a corpus has text."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

SEQUENCES = (
    "\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\x00", "\x08", "\r", "\x0b", "\x0c", "\x7f", "\x85",
    "\u00ad", "\u061c", "\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202b",
    "\u202c", "\u202d", "\u202e", "\u2060", "\u2066", "\u2067", "\u2068", "\u2069", "\ufeff", "\U000e0041",
)  # fmt: skip
ODD = "".join(f"{sequence}x" for sequence in SEQUENCES if sequence != "\x00")  # rows with that one are rejected
NAME = "quirk\x1b[2J\u202e\u2066\u200f\u061c\u200b\u2028"
"""For files, fields and labels: short, and without what a file system refuses."""
_VISIBLE = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2")


def steering(text: str) -> list[str]:
    """The characters of a text that are neither a tab, a line feed nor seen."""
    hidden = {
        c for c in set(text) - set("\t\n") - _VISIBLE if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    }
    return sorted(map(ascii, hidden))


def is_escaped(text: str) -> bool:
    """Whether something was there to escape."""
    return bool(re.search(r"\\u(001b|009b|202e|2066)", text))


def odd_row(row: dict[str, Any], number: int) -> dict[str, Any]:
    """A dialogue whose text, speakers, domain, label and field names are odd; it has a secret in odd characters."""
    secret = f"Zoe{ODD}Quux{number}"
    text = f"{row['text']}\nUSR{NAME}: my name is {secret}, thanks"
    start = text.index(secret)
    spans = [*row["spans"], {"start": start, "end": start + len(secret), "label": f"NAME{NAME}"}]
    return row | {"text": text, "spans": spans, "domain": f"shop{NAME}", f"field{NAME}": ODD}


def make_odd(corpus: Path) -> None:
    """Makes all rows of the JSON-lines files of a folder odd, and adds a file with an odd name."""
    for file, path in enumerate(sorted(corpus.iterdir())):
        lines = path.read_text("utf-8").splitlines()
        rows = [odd_row(json.loads(line), 100 * file + number) for number, line in enumerate(lines)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (corpus / f"night-09{NAME}.jsonl").write_text(json.dumps(odd_row({"text": "USR: hi", "spans": []}, 999)) + "\n")
