"""How the batch size that `reticent privacy plan` recommends ranks among others of equal compute, on a small model.

    OMP_NUM_THREADS=1 python benchmarks/plan_check.py [--out benchmarks/results/plan_check.json]

The loop, its samples, noise and optimizer are those of ``reticent run`` (`pipelines.training.loop`). The records are
turns of the built-in dialogues, and tokens are bytes. Two questions:

1. *Batch and steps.* For one epsilon and one number of epochs, each batch size is trained with its calibrated noise.
   The learning rate is chosen for each batch size by the held-out loss of the first seed, so no batch size suffers
   from another's learning rate. The constants of the rules were chosen with the first epsilon, and not the second.
2. *When noise drowns the signal.* At one batch size the noise grows, for two sizes of model. What counts is the share
   that is left of what training without noise learns beyond the frequencies of tokens.

Takes about 8 minutes of one processor core, and prints the tables of docs/models.md. With ``--table`` it prints those
of the results that are there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from common import RESULTS, command_line, heading, read_json, write_json

from pipelines.accounting.calibration import calibrate_noise_multiplier
from pipelines.accounting.planning import Goal, batch_sizes, best_batch
from pipelines.corpus.customersim import simulate
from pipelines.dp.sampling import PrivatePlan, plan_private_steps
from pipelines.randomness import seeded
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.data.control import AddedTokens
from pipelines.training.data.ragged import RaggedArray
from pipelines.training.data.records import Records, target_positions
from pipelines.training.data.tokenizer import byte_tokenizer, loadable
from pipelines.training.data.vocabulary import control_tokens_of
from pipelines.training.loop import StepSettings, TrainingContext, train
from pipelines.training.models.losses import example_losses
from pipelines.training.models.network import build_model
from pipelines.training.models.shape import ModelShape
from pipelines.training.programme import Segment
from pipelines.training.scoring.evaluation import Evaluation

RECORDS, HELD_OUT, DELTA = 1_000, 300, 1e-5
EPSILON, EPOCHS, BATCHES = 8.0, 8, (8, 16, 32, 64, 128, 256, 1_000)
OTHER_EPSILON, OTHER_EPOCHS, OTHER_BATCHES = 3.0, 4, (8, 16, 32, 64, 128)
SWEPT = 128
RATES = (1e-3, 4e-3, 1.6e-2, 6.4e-2)
SEEDS = range(3)
NOISE_FACTORS, FEWER_RATES = (0.0, 1.0, 2.0, 4.0), (4e-3, 1.6e-2)
SHAPE = ModelShape(num_layers=1, num_heads=2, embedding_size=16, context_length=32)
TOKENIZER = byte_tokenizer(AddedTokens())
CONTROL = control_tokens_of(loadable(TOKENIZER), AddedTokens())
LARGER = ModelShape(num_layers=1, num_heads=2, embedding_size=48, context_length=32)
OUT = RESULTS / "plan_check.json"


def records_of(texts: Sequence[str]) -> Records:
    """Returns a record for each text, cut to the context."""
    encoded = TOKENIZER.encode_batch(list(texts), add_special_tokens=False)
    rows = [[CONTROL.bos, *found.ids[: SHAPE.context_length - 2], CONTROL.eos] for found in encoded]
    targets = [int(target_positions(np.asarray(row), CONTROL).sum()) for row in rows]
    flat = np.asarray([token for row in rows for token in row], dtype=np.int32)
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Records(ids=RaggedArray(flat, offsets), num_targets=np.asarray(targets), num_truncated=0, control=CONTROL)


def targets_of(records: Records) -> np.ndarray:
    """Returns the tokens to predict."""
    rows = [np.asarray(records.ids[at]) for at in range(len(records))]
    return np.concatenate([row[target_positions(row, CONTROL)] for row in rows])


def turns(number: int, seed: int) -> list[str]:
    """Returns turns of the built-in dialogues."""
    found: list[str] = []
    for row in simulate(10**6, seed):
        found += [line.strip() for line in row["text"].splitlines() if line.strip()]
        if len(found) >= number:
            return found[:number]
    raise AssertionError("dialogues have no end")


class Setup:
    """The records, and one training after the other on them."""

    def __init__(self, shape: ModelShape, num_records: int, seeds: Sequence[int]) -> None:
        self.shape, self.seeds = shape, seeds
        self.records, self.held_out = records_of(turns(num_records, 1)), records_of(turns(HELD_OUT, 2))
        self.nothing = records_of([])
        self.num_parameters = sum(p.numel() for p in self.model(0).parameters())

    def model(self, seed: int) -> torch.nn.Module:
        """Returns an untrained model."""
        return build_model(self.shape, TOKENIZER.get_vocab_size(), CONTROL, seed)

    @torch.no_grad()
    def loss(self, model: torch.nn.Module) -> float:
        """Returns the mean loss of a held-out token, in nats."""
        losses = example_losses(model, self.held_out.collate(np.arange(len(self.held_out)))).double().numpy()
        return float((losses * self.held_out.num_targets).sum() / self.held_out.num_targets.sum())

    def trained(self, plan: PrivatePlan, noise: float, rate: float, seed: int) -> float:
        """Trains, and returns the held-out loss."""
        model = self.model(seed)
        with TemporaryDirectory() as folder:
            train(
                model, self.nothing, self.records,
                [Segment(kind="private", num_steps=plan.num_steps, ends_epoch=True)],
                StepSettings(
                    public_learning_rate=1e-3, private_learning_rate=rate, public_batch_size=8, max_grad_norm=0.1,
                    noise_multiplier=noise, seed=seed,
                ),
                plan,
                TrainingContext(
                    randomness=seeded(seed), checkpoints=Checkpoints(Path(folder) / "none", "plan", writes=False),
                    losses=example_losses, evaluate=lambda _: Evaluation(reason="not yet"), microbatch_size=256,
                    progress=lambda *_: None,
                ),
                epsilon_so_far=lambda _: math.inf,
            )  # fmt: skip
        return self.loss(model)

    def frequencies(self) -> float:
        """Returns the held-out loss of the frequencies of tokens in the records."""
        counts = np.bincount(targets_of(self.records), minlength=TOKENIZER.get_vocab_size()) + 1.0
        return float(-np.log(counts / counts.sum())[targets_of(self.held_out)].mean())

    def tuned(self, plan: PrivatePlan, noise: float, rates: Sequence[float]) -> dict[str, Any]:
        """Trains every seed with the learning rate that is best for the first seed."""
        by_rate = {rate: self.trained(plan, noise, rate, self.seeds[0]) for rate in rates}
        best = min(by_rate, key=lambda rate: by_rate[rate])
        losses = [by_rate[best], *(self.trained(plan, noise, best, seed) for seed in self.seeds[1:])]
        return {"learning_rate": best, "losses": losses, "by_rate": {f"{r:g}": v for r, v in by_rate.items()}}


def measured(num_records: int, seeds: Sequence[int], chosen: Sequence[int]) -> dict[str, Any]:
    """Trains everything, and returns the results."""
    began = time.process_time()
    small, large = (Setup(shape, num_records, seeds) for shape in (SHAPE, LARGER))
    checks, noises = [], []
    for epsilon, epochs, batches, rates in (
        (EPSILON, EPOCHS, BATCHES, RATES),
        (OTHER_EPSILON, OTHER_EPOCHS, OTHER_BATCHES, FEWER_RATES),
    ):
        rows = []
        for batch in (batch for batch in batches if batch in chosen):
            plan = plan_private_steps(num_records, batch, epochs)
            noise = noise_of(plan, epsilon)
            found = small.tuned(plan, noise, rates)
            rows.append({"batch": batch, "steps": plan.num_steps, "noise_multiplier": noise, **found})
        checks.append({"epsilon": epsilon, "epochs": epochs, "batches": rows})
    plan = plan_private_steps(num_records, SWEPT, EPOCHS)
    for setup in (small, large):
        for factor in NOISE_FACTORS:
            noise = factor * noise_of(plan, EPSILON)
            row = {"parameters": setup.num_parameters, "noise_multiplier": noise}
            noises.append({**row, **setup.tuned(plan, noise, FEWER_RATES)})
    about = {
        "records": num_records,
        "delta": DELTA,
        "swept": SWEPT,
        "swept_steps": plan.num_steps,
        "frequencies": small.frequencies(),
    }
    return {**about, "cpu_seconds": round(time.process_time() - began), "checks": checks, "noises": noises}


def total_noise(noise: float, batch: float, steps: int) -> float:
    """Returns the figure of a plan."""
    return noise / (batch * math.sqrt(steps))


def batches_table(check: Mapping[str, Any], results: Mapping[str, Any]) -> list[str]:
    """Returns the table of batch sizes at one epsilon."""
    number = results["records"]
    goal = Goal(epsilon=check["epsilon"], delta=results["delta"], gradients=number * check["epochs"])
    best = best_batch(batch_sizes("record", number, goal)).batch
    ranks = sorted(check["batches"], key=lambda row: mean(row["losses"]))
    lines = heading("batch", "steps", "noise multiplier", "total noise", "learning rate", "loss of three seeds", "rank")
    for row in check["batches"]:
        name = f"**{row['batch']:,}, recommended**" if row["batch"] == best else f"{row['batch']:,}"
        lines.append(
            f"| {name} | {row['steps']:,} | {row['noise_multiplier']:.2f} "
            f"| {total_noise(row['noise_multiplier'], row['batch'], row['steps']):.5f} | {row['learning_rate']:g} "
            f"| {shown(row['losses'])} | {ranks.index(row) + 1} |"
        )
    return lines


def tables(results: Mapping[str, Any]) -> list[str]:
    """Returns a table for each check of batch sizes, and one of noise."""
    lines = [line for check in results["checks"] for line in (*batches_table(check, results), "")]
    lines += heading("parameters", "total noise", "loss of three seeds", "share that is left")
    for row in results["noises"]:
        without = next(r for r in results["noises"] if r["parameters"] == row["parameters"])  # the first has no noise
        left = results["frequencies"] - mean(row["losses"])
        share = left / (results["frequencies"] - mean(without["losses"]))
        total = total_noise(row["noise_multiplier"], results["swept"], results["swept_steps"])
        lines.append(f"| {row['parameters']:,} | {total:.5f} | {shown(row['losses'])} | {share:.0%} |")
    return lines


def shown(losses: Sequence[float]) -> str:
    """Returns the mean, and each loss."""
    return f"{mean(losses):.3f} ({', '.join(f'{loss:.2f}' for loss in losses)})"


def noise_of(plan: PrivatePlan, epsilon: float) -> float:
    """Returns the noise multiplier of a plan at epsilon."""
    return calibrate_noise_multiplier(
        target_epsilon=epsilon, target_delta=DELTA, sample_rate=plan.sample_rate, num_steps=plan.num_steps
    )


def main() -> None:
    """Trains unless the results are there, and prints the tables."""
    parser = command_line(__doc__, out=OUT)
    parser.add_argument("--table", action="store_true", help="only print the tables of the results")
    parser.add_argument("--records", type=int, default=RECORDS, help="number of records")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="number of seeds")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, help="batch sizes")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if not given.table:
        write_json(given.out, measured(given.records, range(given.seeds), given.batches))
    print(*tables(read_json(given.out)), sep="\n")


if __name__ == "__main__":
    main()
