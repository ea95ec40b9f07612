"""Table of a finished model's scores on each held-out token, to join with what the policies found."""

from __future__ import annotations

import numpy as np
import torch

from pipelines.tables import TableWriter
from pipelines.training.data.alignment import NO_WORD
from pipelines.training.data.held_out import HeldOut
from pipelines.training.scoring.evaluation import ScoredRecord, score_records


def write_token_scores(writer: TableWriter, model: torch.nn.Module, held_out: HeldOut) -> None:
    """Writes the table ``token_scores``. Writes no rows if the task does not record the places of tokens. Private."""
    if held_out.places is None or held_out.word_of_token is None:
        return
    scored = {record.number: record for record in score_records(model, held_out)}
    for number in sorted(scored, key=lambda number: held_out.keys[number][0]):
        _write_rows(writer, held_out, scored[number])


def _write_rows(writer: TableWriter, held_out: HeldOut, scored: ScoredRecord) -> None:
    """Writes the rows of one record, by sentence index. The tokens that end the record go with the last row."""
    assert held_out.places is not None  # noqa: S101  # checked by the caller
    assert held_out.word_of_token is not None  # noqa: S101
    places = np.asarray(held_out.places[scored.number]).reshape(-1, 4)
    words = np.asarray(held_out.word_of_token[scored.number])
    keys = held_out.keys[scored.number]
    ends = np.flatnonzero((places[:, 0] < 0) & scored.is_target)
    for row, (doc_id, sentence_index) in enumerate(keys):
        at = np.flatnonzero((places[:, 0] == row) & scored.is_target)
        own = words[at]
        first = int(own[own != NO_WORD].min(initial=len(scored.right_words)))
        after = int(own.max(initial=first - 1)) + 1
        own_ends = ends if row == len(keys) - 1 else ends[:0]
        writer.append(
            doc_id=doc_id,
            sentence_index=sentence_index,
            token_starts=places[at, 1].tolist(),
            token_ends=places[at, 2].tolist(),
            token_words=[NO_WORD if word == NO_WORD else int(word) - first for word in own],
            token_bytes=places[at, 3].tolist(),
            losses=scored.losses[at].tolist(),
            is_right=scored.is_right[at].tolist(),
            word_is_right=[
                bool(right) if asked else None
                for right, asked in zip(scored.right_words[first:after], scored.asked_words[first:after], strict=True)
            ],
            end_losses=scored.losses[own_ends].tolist(),
            end_is_right=scored.is_right[own_ends].tolist(),
        )
