"""Writes the list."""

from __future__ import annotations

import json

from flows.own_words import own_words
from pipelines.gate.own import OWN_WORDS

if __name__ == "__main__":
    OWN_WORDS.write_text(json.dumps(own_words(), ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
