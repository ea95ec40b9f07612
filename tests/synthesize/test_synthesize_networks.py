"""The run's own network, trained on each kind of text: what it learns, the same again, and what is left out."""

import math
import random

import pytest
import torch
from small_writers import CONTEXT, SIZE, VOCABULARY, writer

from pipelines.gate.strings import words_of
from pipelines.synthesis import networks
from pipelines.synthesis.downstream import Row
from pipelines.synthesis.networks import Trial, is_affordable
from pipelines.training.models.network import build_model
from pipelines.training.models.shape import ModelShape
from pipelines.training.trained import TrainedModel

TOLD = {"method": "crt", "task": "language_modelling", "context_length": CONTEXT, "marks_tokens": False}


def start(seed):
    shape = ModelShape(num_layers=1, num_heads=2, embedding_size=16, context_length=CONTEXT)
    return TrainedModel(build_model(shape, SIZE, VOCABULARY.control, seed).requires_grad_(False), VOCABULARY, TOLD)


def rows(words, num=24, seed=0):
    generator = random.Random(seed)
    return [
        Row(text=" ".join(generator.choices(words, k=4)), label="", cluster=str(n // 2), speaker="USR")
        for n in range(num)
    ]


def test_a_network_learns_what_it_reads_and_gives_the_same_figures_again(patch):
    patch.constant(networks, "NUM_SEEDS", 1)
    kinds = {"same": rows(("aa", "bb")), "other": rows(("zz", "qq"))}
    test = rows(("aa", "bb"), seed=1)
    trial = Trial(start=start, num_steps=12, learning_rate=0.03)
    before = torch.random.get_rng_state()
    found = trial(kinds, test)
    assert torch.equal(before, torch.random.get_rng_state())
    same, other = found["perplexity"]["same"], found["perplexity"]["other"]
    assert same["low"] < same["value"] < same["high"] < other["low"]
    assert trial(kinds, test) == found


def test_perplexity_is_of_whole_rows_by_words_and_by_documents(patch):
    patch.constant(networks, "NUM_SEEDS", 2)
    test = [*rows(("aa",), 4), Row(text="long " * CONTEXT, label="")]
    found = Trial(start=start, num_steps=1, learning_rate=0.0)({"one": rows(("aa",))}, test)
    assert found["num_test_rows"] == 4, "the long one is cut"
    texts = [networks._record(row) for row in test[:4]]
    nats = [start(seed).losses(texts).per_record.sum() for seed in range(2)]  # nothing was learnt
    words = sum(len(words_of(row.text)) + 1 for row in test[:4])
    assert found["perplexity"]["one"]["of_seeds"] == pytest.approx([math.exp(one / words) for one in nats], rel=1e-5)
    assert found["perplexity"]["one"]["value"] == pytest.approx(math.exp(sum(nats) / 2 / words), rel=1e-5)


def test_a_large_network_is_trained_on_a_gpu_only(patch):
    assert is_affordable(writer())
    patch.constant(networks, "MOST_WEIGHTS_ON_CPU", 1_000)
    assert not is_affordable(writer())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "llama", "prefix", "lstm", "gru"])
def test_every_kind_of_network_learns(kind, patch):
    patch.constant(networks, "NUM_SEEDS", 1)
    read = {"same": rows(("aa", "bb")), "other": rows(("zz", "qq"))}
    trial = Trial(start=lambda seed: writer(kind), num_steps=40, learning_rate=0.01)
    perplexity = trial(read, rows(("aa", "bb"), seed=1))["perplexity"]
    assert perplexity["same"]["high"] < perplexity["other"]["low"]
    assert perplexity["same"]["value"] < 10
