"""Sentences to review, with a mask each."""

from __future__ import annotations

import re

from pipelines.miss_rate.review_items import Item, Mask, Neighbour

SECRET = "Zebediah"


def make_items(number=24):
    """Sentences `order <n> is for Zebediah Quill`, of which the name's second word is masked."""
    items = []
    for i in range(number):
        text = f"order {i:03} is for {SECRET} Quill"
        starts = [m.start() for m in re.finditer(r"\S+", text)]
        ends = [m.end() for m in re.finditer(r"\S+", text)]
        mask = Mask(starts[5], ends[5], "PERSON")
        near = (Neighbour("SYS", f"what is order {i}"),), (Neighbour(None, "<b>thanks</b>"),)
        items.append(Item(f"{i:032x}", text, tuple(starts), tuple(ends), (mask,), "USR", ("d", i), 0, *near))
    return items
