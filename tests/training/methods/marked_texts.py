"""Records with marks on what is private, and a small LSTM to read them."""

import numpy as np
import torch
from support.tiny import CONTROL, TOKENIZER, rows_of
from support.training_tables import parse

from pipelines.training.data.ragged import RaggedArray
from pipelines.training.data.records import Records, frame_of, target_positions
from pipelines.training.data.rows import split_private
from pipelines.training.models.recurrent import build_recurrent

TEXTS = [
    "My name is {Ann Lee}, thank you.",
    "{Bo} here. I live at {12 Elm St}.",
    "No secret.",
    "Call {555} and {777} or {999} now, please.",
    "It is {Ann}",
    "{all of it}",
]


def marked_records(texts, context_length=64):
    """Records of texts whose private parts stand in braces."""
    ids, marks = [], []
    for marked in texts:
        row, flags = [], [0]
        for piece, is_private in split_private(*parse(marked)):
            found = TOKENIZER.encode(piece, add_special_tokens=False).ids
            row += found
            flags += [int(is_private)] * len(found)
        record, _ = frame_of(rows_of([(None, marked)]), CONTROL).encode([row], context_length)
        ids.append(record)
        marks.append([*flags, 0][: len(record)])
    offsets = np.cumsum([0, *map(len, ids)])
    flat = lambda rows, dtype: np.asarray([x for row in rows for x in row], dtype=dtype)  # noqa: E731
    return Records(
        ids=RaggedArray(flat(ids, np.int32), offsets),
        num_targets=np.asarray([int(target_positions(np.asarray(row), CONTROL).sum()) for row in ids], dtype=int),
        num_truncated=0,
        control=CONTROL,
        is_private=RaggedArray(flat(marks, np.uint8), offsets),
    )


def small_model(seed=1, **changes):
    return build_recurrent(TOKENIZER.get_vocab_size(), seed, 12, 10, **changes)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])
