"""The training of one model by several processes on GPUs: the weights of one process, and noise once in total."""

from __future__ import annotations

import math
import multiprocessing
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from common import gpt2_config

from .cells import Place

STEPS: Final = 4
RECORDS: Final = 24
LEARNING_RATE: Final = 0.1
MAX_GRAD_NORM: Final = 0.5
NOISE: Final = 2.0
TOLERANCE: Final = 1e-4
"""Largest relative error of the update: float32 sums of the same terms in another order (1e-6), in four steps that
each begin with the rounding error of the step before."""


@dataclass(frozen=True)
class Job:
    """The work of every process.

    Attributes:
        tiny: true for toy size.
        device: ``cpu`` or ``cuda``.
        noise: noise multiplier; with noise, losses are 0 and the step is noise alone.
    """

    tiny: bool
    device: str
    noise: float = 0.0


def trained(job: Job) -> torch.Tensor:
    """Trains a model, and returns its update, flat and on the CPU: all records in each step, only the job's noise."""
    from torch.utils.data import DataLoader, TensorDataset
    from transformers import GPT2LMHeadModel

    from pipelines.dp.language import causal_lm_losses
    from pipelines.dp.privacy import PrivacyEngine

    width, length, vocab = (16, 12, 61) if job.tiny else (256, 128, 5_000)
    torch.manual_seed(0)
    config = gpt2_config(vocab=vocab, length=length, width=width, layers=2, heads=2)
    model = GPT2LMHeadModel(config).train().to(job.device)
    ids = torch.randint(0, vocab, (RECORDS, length))
    before = _flat(model)
    engine = PrivacyEngine(test_seed=1, insecure_test_seed=True)
    module, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=LEARNING_RATE),
        data_loader=DataLoader(TensorDataset(ids), batch_size=RECORDS),
        noise_multiplier=job.noise,
        max_grad_norm=MAX_GRAD_NORM,
        max_physical_batch_size=5,
    )
    for _ in range(1 if job.noise else STEPS):
        for (batch,) in loader:
            rows = batch.to(job.device)
            optimizer.backward(causal_lm_losses(module, rows, rows) * (0.0 if job.noise else 1.0))
            optimizer.step()
    return _flat(model) - before


def _flat(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten().cpu() for p in model.parameters()])


def work(job: Job, progress: Any) -> dict[str, Any]:
    """Trains in each process that the training stage's launcher starts, and compares the updates of all processes."""
    group = torch.distributed
    moved = trained(job)
    noise = trained(Job(job.tiny, job.device, NOISE))
    return {
        "backend": group.get_backend(),
        "processes": group.get_world_size(),
        "moved": moved.numpy(),
        "noise": noise.numpy(),
        "alike": _is_alike(moved, job.device) and _is_alike(noise, job.device),
        "collectives": _collectives(job.device),
    }


def _is_alike(moved: torch.Tensor, device: str) -> bool:
    """Tells if all processes have the bits of the first one."""
    own = moved.to(device)
    first = own.clone()
    torch.distributed.broadcast(first, 0)
    differs = (own != first).any().float()
    torch.distributed.all_reduce(differs)
    return not float(differs)


def _collectives(device: str) -> bool:
    """Checks a sum and a broadcast in the group, because the engine itself needs neither with one process."""
    total = torch.arange(1_000.0, device=device) + torch.distributed.get_rank()
    torch.distributed.all_reduce(total)
    count = torch.distributed.get_world_size()
    expected = count * torch.arange(1_000.0) + count * (count - 1) / 2
    torch.distributed.broadcast(total, 0)
    return bool(torch.equal(total.cpu(), expected))


def launched(place: Place) -> dict[str, Any]:
    """Starts processes as the training stage does: one for each GPU, or two on the CPU."""
    from pipelines.artifacts import Target
    from pipelines.training.machines.launch import launch

    count = min(2, torch.cuda.device_count()) if place.device == "cuda" else 2
    found = launch(
        work,
        (Job(place.tiny, place.device),),
        count=count,
        device=place.device,
        progress=lambda *_: None,
        failures=Target(folder=place.scratch / "failures"),
    )
    return {**_figures(found, place), "gpus": count if place.device == "cuda" else 0}


def gloo(place: Place) -> dict[str, Any]:
    """Starts two processes on one device, which gloo accepts and NCCL does not."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(dir=place.scratch) as meeting:
        answers = context.Queue()
        job = Job(place.tiny, place.device)
        processes = [context.Process(target=_member, args=(rank, meeting, job, answers)) for rank in range(2)]
        for process in processes:
            process.start()
        found = answers.get()
        for process in processes:
            process.join()
    if isinstance(found, str):
        raise RuntimeError(found)
    return _figures(found, place)


def _member(rank: int, meeting: str, job: Job, answers: Any) -> None:
    try:
        torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}/store", rank=rank, world_size=2)
        found: Any = work(job, None)
        torch.distributed.barrier()
    except Exception as error:
        found = f"rank {rank}: {type(error).__name__}: {error}"
    if rank == 0 or isinstance(found, str):
        answers.put(found)


def _figures(found: dict[str, Any], place: Place) -> dict[str, Any]:
    alone = trained(Job(place.tiny, place.device)).double()
    together = torch.from_numpy(found["moved"]).double()
    error = float((together - alone).norm() / alone.norm())
    # Divided by the expected batch and multiplied by the learning rate, as the step is.
    expected = LEARNING_RATE * NOISE * MAX_GRAD_NORM / RECORDS
    noise = torch.from_numpy(found["noise"]).double()
    ratio, slack = float(noise.std()) / expected, 5 / math.sqrt(2 * len(noise))
    return {
        "passed": bool(error <= TOLERANCE and found["alike"] and found["collectives"] and abs(ratio - 1) <= slack),
        "backend": found["backend"],
        "processes": found["processes"],
        "error_of_what_training_moved": error,
        "tolerance": TOLERANCE,
        "same_bits_in_all": found["alike"],
        "sums_and_broadcasts": found["collectives"],
        "noise_over_one_draw": ratio,  # 1.41 were two processes to draw
        "noise_slack": slack,
    }


__all__: Sequence[str] = ("gloo", "launched")
