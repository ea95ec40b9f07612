"""A model is trained on canaries, and their exposure says so."""

import numpy as np
import pytest
import torch

from pipelines.attacks.canaries import document_of, draw_canaries, flip_coins, overlay_rows
from pipelines.attacks.candidates import CandidateScorer, enumerated_ranks
from pipelines.attacks.exposure import exposure_of
from pipelines.attacks.exposure_null import judge_exposures
from pipelines.attacks.patterns import Pattern
from pipelines.mask import MASK
from pipelines.training.data.control import AddedTokens
from pipelines.training.data.vocabulary import learn_vocabulary
from pipelines.training.models.network import build_model
from pipelines.training.models.shape import ModelShape
from pipelines.training.trained import TrainedModel

PATTERN = Pattern.parse("My ID is {digits:4}.")
SHAPE = ModelShape(num_layers=2, num_heads=4, embedding_size=64, context_length=48)


def read_as(row):
    """The row as training reads it."""
    text = row.text
    for start, end in reversed(row.masked):
        text = text[:start] + MASK + text[end:]
    return text


def train(texts, epochs, seed):
    vocabulary = learn_vocabulary("bytes", 400, None, AddedTokens())
    network = build_model(SHAPE, vocabulary.backend.get_vocab_size(), vocabulary.control, seed)
    described = {"method": "no_dp", "task": "language_modelling", "context_length": 48, "marks_tokens": False}
    model = TrainedModel(network, vocabulary, described)
    encoded = model.encode(texts)
    rng = np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    for rows in (chunk for _ in range(epochs) for chunk in np.array_split(rng.permutation(len(encoded)), 30)):
        longest = int(encoded.lengths[rows].max())
        ids = torch.zeros((len(rows), longest), dtype=torch.int64)
        labels = torch.full((len(rows), longest), -100)
        for line, row in enumerate(rows):
            of_row = slice(int(encoded.offsets[row]), int(encoded.offsets[row + 1]))
            found = torch.from_numpy(encoded.ids[of_row].astype(np.int64))
            ids[line, : len(found)] = found
            labels[line, : len(found)] = torch.where(torch.from_numpy(encoded.is_target[of_row]), found, -100)
        optimizer.zero_grad()
        network(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
    network.eval().requires_grad_(False)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_exposure_finds_the_canaries_that_were_trained_on_and_no_others(seed):
    """120 missed canaries, half of them included by coins, and 60 detected ones, ten copies of each."""
    rng = np.random.default_rng(seed)
    missed = draw_canaries(rng, PATTERN, 120, variant="missed", num_copies=10)
    taken = {canary.index for canary in missed}
    detected = draw_canaries(rng, PATTERN, 60, variant="detected", num_copies=10, taken=taken)
    coins = flip_coins(rng, missed)
    rows = overlay_rows(missed, in_distinct_sentences=False, included=coins)
    rows += overlay_rows(detected, in_distinct_sentences=False)
    model = train([read_as(row) for row in rows], 12, seed)
    ranks = enumerated_ranks(CandidateScorer(model, PATTERN), [*missed, *detected])
    documents = {row.document for row in rows}
    put_in = {canary.id for canary in missed if document_of(canary.id, 0) in documents}
    groups = {
        "in": {name: rank for name, rank in ranks.items() if name in put_in},
        "out": {name: rank for name, rank in ranks.items() if name in coins and name not in put_in},
        "masked": {canary.id: ranks[canary.id] for canary in detected},
    }
    judged = {name: judge_exposures(group, rng, level=0.001) for name, group in groups.items()}
    assert judged["in"].conclusion == "rejected"
    assert judged["in"].mean_bits > 2 * judged["in"].mean_limit_bits
    assert exposure_of(min(groups["in"].values(), key=lambda rank: rank.first)).bits > 10
    assert judged["out"].conclusion != "rejected"
    assert judged["masked"].conclusion == "not rejected"
