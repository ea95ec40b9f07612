"""Two processes take steps together: each samples its own share, and noise is drawn once."""

import os
import socket
import subprocess
import sys
import textwrap

import pytest
import torch
from oracles import dp_gradients
from private_loops import cross_entropies, rows
from scipy import stats
from support import REPOSITORY, TESTS
from torch import nn

DDP = textwrap.dedent(
    """
    import os, sys, torch, datetime
    sys.path[:0] = PATHS
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader
    from private_loops import INSECURE, cross_entropies, rows, weights
    from pipelines.dp.privacy import PrivacyEngine

    torch.set_num_threads(1)
    folder, other = sys.argv[1], os.fork()  # what both import is imported once
    rank = 0 if other else 1
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2,
                            timeout=datetime.timedelta(seconds=60))
    torch.manual_seed(rank)  # processes start from different weights, and end up with the same
    for job, noise, batch_size in (("exact", 0.0, 24), ("noisy", 2.0, 6)):
        model = DistributedDataParallel(nn.Linear(3, 2))
        with torch.no_grad():
            model.module.weight += rank
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        engine = PrivacyEngine(**INSECURE)
        module, private, loader = engine.make_private(
            module=model, optimizer=optimizer, data_loader=DataLoader(rows(), batch_size=batch_size),
            noise_multiplier=noise, max_grad_norm=0.5, max_physical_batch_size=3)
        start, steps, drawn = weights(module), [], []
        optimizer.register_step_pre_hook(
            lambda *_: steps.append(torch.cat([p.grad.flatten() for p in module.parameters()]).clone()))
        for _ in range(60 if noise else 1):
            for batch in loader:
                if not private.is_probing:
                    drawn.append(batch[0])
                private.backward(cross_entropies(module, batch) * (0 if noise else 1))
                private.step()
        torch.save({"start": start, "steps": steps, "drawn": torch.cat(drawn), "end": weights(module),
                    "num_steps": engine.num_steps}, f"{folder}/{job}{rank}.pt")
    dist.destroy_process_group()
    if other:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))
    """
)


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gloo")
    paths = [str(folder) for folder in (TESTS / "dp", TESTS, REPOSITORY)]
    (folder / "job.py").write_text(DDP.replace("PATHS", repr(paths)))
    done = subprocess.run(
        [sys.executable, str(folder / "job.py"), str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return {job: [torch.load(folder / f"{job}{rank}.pt") for rank in range(2)] for job in ("exact", "noisy")}


@pytest.mark.slow
def test_two_processes_sample_apart_and_step_together(two_processes):
    first, second = two_processes["exact"]  # everybody in each step, no noise
    assert torch.equal(first["start"], second["start"])
    assert torch.equal(first["end"], second["end"])
    assert first["num_steps"] == second["num_steps"] == 1
    both = torch.cat([first["drawn"], second["drawn"]])
    assert sorted(both.tolist()) == sorted(rows()[:][0].tolist())
    model = nn.Linear(3, 2)
    nn.utils.vector_to_parameters(first["start"], model.parameters())
    data = rows()
    gradients = dp_gradients.example_gradients(model, lambda m, i: cross_entropies(m, data[i : i + 1])[0], 24)
    clipped = dp_gradients.clipped_sum(gradients, dp_gradients.limit(0.5))
    expected = torch.cat([g.flatten() for g in clipped]) / 24
    assert torch.allclose(first["steps"][0].double(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_two_processes_draw_noise_once_in_total(two_processes):
    first, second = two_processes["noisy"]
    assert first["num_steps"] == second["num_steps"] == 240
    assert all(torch.equal(a, b) for a, b in zip(first["steps"], second["steps"], strict=True))
    values = torch.cat(first["steps"]).numpy()
    deviation = 2.0 * 0.5 / 6
    assert stats.kstest(values, stats.norm(scale=deviation).cdf).pvalue > 1e-3
    assert stats.kstest(values, stats.norm(scale=deviation * 2**0.5).cdf).pvalue < 1e-6  # a draw for each process


ACCELERATE = textwrap.dedent(
    """
    import os, sys, torch
    sys.path[:0] = PATHS
    folder, other = sys.argv[1], os.fork()
    rank = "0" if other else "1"
    os.environ.update(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2])
    from accelerate import Accelerator
    from private_loops import PrivateLoop, cross_entropies, weights
    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == 2
    loop = PrivateLoop(limit=2)
    loop.optimizer = accelerator.prepare(loop.optimizer)
    found = {"num_steps": loop.run(2).engine.num_steps, "end": weights(loop.model)}
    wrapped = PrivateLoop(limit=2)
    try:
        wrapped.model, wrapped.optimizer = accelerator.prepare(wrapped.model, wrapped.optimizer)
        wrapped.run()
    except Exception as error:
        found["error"] = str(error)
    torch.save(found, f"{folder}/accelerate{rank}.pt")
    accelerator.end_training()
    if other:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))
    """
)


@pytest.mark.slow
def test_two_processes_of_accelerate_take_the_planned_steps(tmp_path):
    paths = [str(folder) for folder in (TESTS / "dp", TESTS, REPOSITORY)]
    (tmp_path / "job.py").write_text(ACCELERATE.replace("PATHS", repr(paths)))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = subprocess.run(
        [sys.executable, str(tmp_path / "job.py"), str(tmp_path), str(port)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    first, second = (torch.load(tmp_path / f"accelerate{rank}.pt") for rank in range(2))
    assert first["num_steps"] == second["num_steps"] == 6
    assert torch.equal(first["end"], second["end"])
    assert "optimizer = accelerator.prepare(optimizer)" in first["error"]
