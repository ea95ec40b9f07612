"""Texts for the cells: WikiText-2 where a data folder is given, and this project's own documentation otherwise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FILES: Final = ("README.md", "CHANGELOG.md", "docs/*.md", "docs/tutorials/*.md")
_SECRET: Final = re.compile(r"(?<!^)(?<![.!?] )\b[A-Z][a-z]+\b|\b\w*\d\w*\b")


def paragraphs(data_dir: Path | None, *, held_out: bool = False) -> list[str]:
    """Returns paragraphs of running text, for training or for evaluation.

    Raises:
        FileNotFoundError: the data folder has no WikiText-2.
    """
    if data_dir is not None:
        name = "wiki.valid.raw" if held_out else "wiki.train.raw"
        lines = (data_dir / "wikitext2" / name).read_text("utf-8").splitlines()
        return [line.strip() for line in lines if line.strip() and not line.strip().startswith("=")]
    files = [file for pattern in FILES for file in sorted(ROOT.glob(pattern))]
    whole = [text for file in files for text in file.read_text("utf-8").split("\n\n") if re.match(r"[A-Za-z*]", text)]
    texts = [" ".join(text.split()) for text in whole]
    return [text for number, text in enumerate(texts) if (number % 10 == 9) == held_out]


def name_of(data_dir: Path | None) -> str:
    """Returns the name of the texts, for a result."""
    return "WikiText-2" if data_dir is not None else "this project's documentation"


def redacted(text: str, mask: str) -> str:
    """Masks numbers and capitalised words inside sentences: a rule for benchmarks, and no policy of the project."""
    return _SECRET.sub(mask, text)
