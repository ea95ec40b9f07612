"""Makes ``pipelines/gate/own_words.json``: what our own public prose says (``make own-words``).

Reports and model cards of many settings are rendered by the code that publishes them, and read by the code that
searches them. Where a value of the user's or of the corpus is filled in, a mark stands instead
(`pipelines.gate.own.HOLE`); numbers are told by their digits. Nothing is read from source text: what no document prints
is no wording of ours, be it a comment, a docstring or the author of a paper.
"""

from __future__ import annotations

from flows.own_words import cards, claims, pages
from pipelines.gate.own import runs_of


def own_words() -> list[str]:
    """The runs of our wording, sorted."""
    lines: set[str] = set()
    for texts in (claims.texts(), pages.texts(), cards.texts()):
        for text in texts:
            lines.update(text.split("\n"))
    return sorted({run for line in lines for run in runs_of(line)})
