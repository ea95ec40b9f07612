"""Exposure over all 10^6 six-digit candidates: shared prefixes against scoring them one by one.

    python benchmarks/exposure.py                 # a few minutes
    python benchmarks/exposure.py --full          # scores all 10^6 one by one too, and compares ranks of 100 canaries
    python benchmarks/exposure.py --tokenizer bytes --threads 2 --write

The model is the default of ``train.model`` (a GPT-2 of 2 layers, width 128) with random weights: how long scoring takes
does not depend on them. The peer is `TrainedModel.losses`, which scores whole records in batches of like length; both
are given texts and encode them. It is timed on a sample of candidates, a part of it after each block of ours, so that a
busy machine slows both alike; the factor is of times per candidate.

First, outputs are compared: losses of a random sample over all candidates, and the ranks of all 10^4 candidates of the
same form with four digits. What is unfair: our blocks use ``--threads`` threads, the peer one, which is what it takes
for a model of this size; factors are therefore also stated in CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from typing import Any

import numpy as np
import torch
from common import RESULTS as ALL_RESULTS
from common import command_line, read_json, write_json

from pipelines.attacks.canaries import draw_canaries
from pipelines.attacks.candidates import CandidateScorer, enumerated_ranks
from pipelines.attacks.exposure import exposure_of
from pipelines.attacks.patterns import Pattern
from pipelines.corpus.customersim import simulate
from pipelines.training.data.control import AddedTokens
from pipelines.training.data.vocabulary import learn_vocabulary
from pipelines.training.models.network import build_model
from pipelines.training.models.recurrent import build_recurrent
from pipelines.training.models.shape import PRESETS
from pipelines.training.trained import TrainedModel

RESULTS = ALL_RESULTS / "exposure.json"
FORM = "My ID is {{digits:{}}}."
BLOCK = 50_000
LARGEST_DIFFERENCE = 1e-4
"""The largest allowed difference between two losses of one candidate, in nats."""


def model_of(name: str, tokenizer: str, device: str) -> TrainedModel:
    """Returns an untrained model with a vocabulary of 1,000 tokens, learnt on simulated dialogues, or of bytes."""
    rows = simulate(200, 0)
    texts = [line.split(": ", 1)[-1] for row in rows for line in row["text"].splitlines()]
    vocabulary = learn_vocabulary(tokenizer, 1_000, texts, AddedTokens(speakers=("SYS", "USR")))
    size, shape = vocabulary.backend.get_vocab_size(), PRESETS[name]
    network = build_recurrent(size, 0) if name == "lstm" else build_model(shape, size, vocabulary.control, 0)
    length = shape.context_length
    described = {"method": "no_dp", "task": "language_modelling", "context_length": length, "marks_tokens": False}
    return TrainedModel(network.eval().requires_grad_(False).to(device), vocabulary, described)


def check(model: TrainedModel, digits: int, generator: np.random.Generator) -> dict[str, Any]:
    """Compares outputs.

    Raises:
        SystemExit: the outputs differ.
    """
    pattern = Pattern.parse(FORM.format(digits))
    sample = np.sort(generator.choice(pattern.size, min(2_000, pattern.size), replace=False)).tolist()
    shared = CandidateScorer(model, pattern).losses(sample)
    plain = model.losses([pattern.text(index) for index in sample]).per_record
    difference = float(np.abs(shared - plain).max())
    small = Pattern.parse(FORM.format(min(digits, 4)))
    canaries = draw_canaries(generator, small, small.size, variant="missed")
    scorer = CandidateScorer(model, small)
    ranks = enumerated_ranks(scorer, canaries)
    by_one = enumerated_ranks(scorer, canaries, model.losses(small.texts(0, small.size)).per_record)
    if difference > LARGEST_DIFFERENCE or ranks != by_one:
        raise SystemExit(f"outputs differ: losses by {difference:.2g} nats, equal ranks: {ranks == by_one}")
    return {"largest_difference_nats": difference, "equal_ranks": len(ranks), "spread_nats": float(plain.std())}


class Clock:
    """A sum of wall and CPU seconds."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def __enter__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def __exit__(self, *error: object) -> None:
        self.wall += time.perf_counter() - self._wall
        self.cpu += time.process_time() - self._cpu


def measure(model: TrainedModel, options: argparse.Namespace, generator: np.random.Generator) -> dict[str, Any]:
    pattern = Pattern.parse(FORM.format(options.digits))
    scorer = CandidateScorer(model, pattern, num_threads=options.threads)
    chunk = BLOCK * options.threads
    num_chunks = -(-pattern.size // chunk)
    ours, peer = Clock(), Clock()
    found, by_one, num_peer = [], [], 0
    for start in range(0, pattern.size, chunk):
        run = range(start, min(start + chunk, pattern.size))
        with ours:
            found.append(scorer.losses(run))
        size = len(run) if options.full else min(len(run), options.peer_sample // num_chunks)
        chosen = run if options.full else sorted(generator.choice(run, size, replace=False).tolist())
        texts = [pattern.text(index) for index in chosen]
        with peer:
            by_one.append(model.losses(texts).per_record)
        num_peer += size
    canaries = draw_canaries(generator, pattern, 100, variant="missed")
    refining = Clock()
    losses = np.concatenate(found)
    with refining:
        ranks = enumerated_ranks(scorer, canaries, losses)
    figures = {
        "candidates": pattern.size,
        "shared_seconds": ours.wall,
        "shared_cpu_seconds": ours.cpu,
        "ranks_of_100_canaries_seconds": refining.wall,
        "peer_candidates": num_peer,
        "peer_seconds": peer.wall / num_peer * pattern.size,
        "peer_cpu_seconds": peer.cpu / num_peer * pattern.size,
        "mean_exposure_bits": float(np.mean([exposure_of(rank).bits for rank in ranks.values()])),
    }
    figures["factor"] = figures["peer_seconds"] / ours.wall
    figures["factor_cpu"] = figures["peer_cpu_seconds"] / ours.cpu
    if options.full:
        figures["ranks_of_100_canaries_equal"] = ranks == enumerated_ranks(scorer, canaries, np.concatenate(by_one))
        figures["order_equal_in_float32"] = float((np.argsort(losses) == np.argsort(np.concatenate(by_one))).mean())
    return figures


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--model", default="tiny", choices=[name for name in PRESETS if name != "scratch"])
    parser.add_argument("--tokenizer", default="bpe_public", choices=("bpe_public", "bytes"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="blocks of ours at a time")
    parser.add_argument("--digits", type=int, default=6, help="digits of the candidates")
    parser.add_argument("--peer-sample", type=int, default=20_000)
    parser.add_argument("--full", action="store_true", help="time the peer on all, and compare ranks of 100 canaries")
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/results")
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    model = model_of(options.model, options.tokenizer, options.device)
    load = os.getloadavg()[0]
    result = {
        "settings": {name: value for name, value in vars(options).items() if name != "write"},
        "checked": check(model, options.digits, generator),
        "measured": measure(model, options, generator),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__},
        "load": [load, os.getloadavg()[0]],
    }
    print(json.dumps(result, indent=2))
    if options.write:
        kept = read_json(RESULTS) if RESULTS.exists() else {}
        kept[f"{options.model} {options.tokenizer} {options.threads} {'full' if options.full else 'sample'}"] = result
        write_json(RESULTS, kept, indent=2, sort_keys=True)


if __name__ == "__main__":
    main()
