"""How rows become documents: the settings that readers and the index share. Light to import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """See ``CorpusConfig`` for each field; ``plugin`` holds ``[corpus.options]`` as JSON, since options are hashed."""

    txt_document: Literal["file", "line", "paragraph"] = "file"
    text_field: str = "text"
    id_field: str = "id"
    domain_field: str = "domain"
    fold_field: str = "fold"
    label_field: str = "label"
    gold_field: str = "spans"
    quoting: str = "auto"
    wikitext_joiners: str = "keep"
    max_document_chars: int = 1_000_000
    plugin: str = "{}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read of a table."""
        names = (self.text_field, self.id_field, self.domain_field, self.fold_field, self.label_field, self.gold_field)
        return tuple(dict.fromkeys(names))
