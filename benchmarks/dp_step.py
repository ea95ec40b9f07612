"""The time and memory of one private training step, against ordinary training and other engines.

    python benchmarks/dp_step.py                                  # the shapes of the README, a few minutes each
    python benchmarks/dp_step.py --shapes gpt2-256-5000 --rounds 5

Every contender is a process of its own; processes take turns step by step, so that a busy machine slows all of them
alike. A round's ratio is that of the two contenders' steps in the same round; the median over rounds is reported.
Before timing, all private contenders' clipped sums are compared with one example at a time at a small shape. The cells
of `benchmarks.gpu` measure the same steps on a GPU.

Contenders: ``plain`` (ordinary training, the model's own loss), ``fused`` (ordinary, with our fused head), ``ours``,
``ours_two_pass``, ``opacus_hooks``, ``opacus_ghost`` and ``fastdp`` where they are installed. A private step is
forward, backward, clipping, noise and the optimizer's step. With ``--jax-python PYTHON``, a Python that has
jax_privacy, also ``jax_plain`` and ``jax_privacy`` (`dp_jax`): the same GPT-2 in JAX, compiled.

Peak memory is the largest resident size less what was held before the model was built, of two steps in a further
process whose allocator gives freed blocks back at once (glibc's ``MALLOC_MMAP_THRESHOLD_``): so it is what the step
needs. ``resident`` is that of the process that was timed: what it needs and the holes that are left in the heap.

With ``--kept-heap`` every contender's C library keeps freed memory for the next step, as the training stage has it;
without, all of them pay for page faults, and the ratios move with the state of the heap.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dp_contenders as contenders
import torch
from common import command_line, installed, with_repository, write_json

from pipelines.training.devices import freed_memory_kept


def serve(name: str, shape: contenders.Shape) -> None:
    """Takes a step for each line on standard input and answers with its seconds; on ``end``, with peak memory."""
    if ARGUMENTS.threads:
        torch.set_num_threads(ARGUMENTS.threads)
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    make_warm_imports(name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = contenders.build(shape, name, terms())
    torch.manual_seed(1)
    ids = torch.randint(0, shape.vocab, (shape.batch, shape.length))
    step = contenders.make(name, model, ids, shape, terms())
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        if line.strip() == "end":
            break
        # The processor's time does not count other processes on the machine.
        clock = time.perf_counter if ARGUMENTS.wall else time.process_time
        start = clock()
        step()
        print(clock() - start, file=answers, flush=True)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(peak, file=answers, flush=True)


def make_warm_imports(name: str) -> None:
    """Imports what the contender needs and runs a tiny step, so that neither counts as the step's memory."""
    small = contenders.CHECK_SHAPES["gpt2"]
    model = contenders.build(small, name, terms())
    contenders.make(name, model, torch.randint(0, small.vocab, (2, small.length)), small, terms())()


def terms() -> contenders.Terms:
    return contenders.Terms(physical_batches=ARGUMENTS.physical_batches, untied=ARGUMENTS.untied)


def command(role: str, name: str, shape: str) -> list[str]:
    if name in contenders.JAX:
        path = Path(SCRATCH.name) / f"{role}-{shape}.npz"
        if not path.exists():
            shapes = contenders.CHECK_SHAPES if role == "check" else contenders.SHAPES
            contenders.save_for_jax(path, shapes[shape], terms())
        return [ARGUMENTS.jax_python, str(Path(__file__).resolve().with_name("dp_jax.py")), role, name, str(path)]
    line = [sys.executable, str(Path(__file__).resolve()), role, name, shape, "--threads", str(ARGUMENTS.threads)]
    line += ["--physical-batches", str(ARGUMENTS.physical_batches)] if role == "serve" else []
    line += ["--untied"] if ARGUMENTS.untied else []
    line += ["--kept-heap"] if ARGUMENTS.kept_heap else []
    return line + (["--wall"] if ARGUMENTS.wall else [])


def heap() -> contextlib.AbstractContextManager[None]:
    """Returns a context that keeps freed memory if asked for; freed memory is given back while peaks are measured."""
    is_kept = ARGUMENTS.kept_heap and "MALLOC_MMAP_THRESHOLD_" not in os.environ
    return freed_memory_kept() if is_kept else contextlib.nullcontext()


def environment(**variables: str) -> dict[str, str]:
    """Returns the workers' environment, with the repository on the path."""
    return with_repository(HF_HUB_OFFLINE="1", PYTHONWARNINGS="ignore", **variables)


def verified(name: str, kind: str) -> float | None:
    """Returns the error of a contender at a small shape; None if it does not run."""
    done = subprocess.run(command("check", name, kind), capture_output=True, text=True, env=environment(), check=False)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


class Worker:
    """A contender's process."""

    def __init__(self, name: str, shape: str, is_measured: bool = False) -> None:
        self.name = name
        settings = {"MALLOC_MMAP_THRESHOLD_": "65536"} if is_measured else {}
        self.process = subprocess.Popen(
            command("serve", name, shape), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if ARGUMENTS.quiet else None, text=True, env=environment(**settings),
        )  # fmt: skip

    def ask(self, word: str) -> float | None:
        """Returns a step's seconds, or peak bytes for ``end``; None if the process has ended."""
        try:
            if word:
                assert self.process.stdin is not None
                self.process.stdin.write(word + "\n")
                self.process.stdin.flush()
            assert self.process.stdout is not None
            line = self.process.stdout.readline().strip()
            return None if not line else 0.0 if line == "ready" else float(line)
        except (BrokenPipeError, ValueError):
            return None


def measure(shape: str, names: list[str], rounds: int) -> dict[str, Any]:
    workers = []
    for name in names:
        worker = Worker(name, shape)
        if worker.ask("") is not None and worker.ask("step") is not None:  # the first step warms up
            workers.append(worker)
        else:
            print(f"  {name}: does not run here", flush=True)
    seconds: dict[str, list[float]] = {w.name: [] for w in workers}
    for turn in range(rounds):
        for worker in workers[turn % len(workers) :] + workers[: turn % len(workers)]:
            took = worker.ask("step")
            if took is not None:
                seconds[worker.name].append(took)
    resident = {w.name: w.ask("end") for w in workers}
    for worker in workers:
        worker.process.wait()
    peaks = {name: peak(name, shape) for name in resident}
    result: dict[str, Any] = {}
    for name, own in seconds.items():
        ratios = {
            f"time_over_{base}": round(statistics.median(a / b for a, b in zip(own, seconds[base], strict=True)), 3)
            for base in ("plain", "fused", "opacus_ghost", "opacus_hooks", "jax_plain")
            if base in seconds
        }
        result[name] = {
            "seconds": round(statistics.median(own), 4),
            "tokens_per_second": round(
                ARGUMENTS.physical_batches
                * contenders.SHAPES[shape].batch
                * contenders.SHAPES[shape].length
                / statistics.median(own)
            ),
            "peak_megabytes": round((peaks[name] or 0) / 2**20),
            "resident_megabytes": round((resident[name] or 0) / 2**20),
            **ratios,
            **over_plain("memory", peaks, name),
            **over_plain("resident", resident, name),
        }
    return result


def peak(name: str, shape: str) -> float | None:
    """Measures the peak bytes of two steps of a process that gives freed memory back at once."""
    worker = Worker(name, shape, is_measured=True)
    for word in ("", "step", "step"):
        worker.ask(word)
    found = worker.ask("end")
    worker.process.wait()
    return found


def over_plain(what: str, values: dict[str, float | None], name: str) -> dict[str, float]:
    """Returns a contender's value over plain training's, if both are known."""
    own, plain = values[name], values.get("plain")
    return {f"{what}_over_plain": round(own / plain, 3)} if own and plain else {}


def main() -> None:
    names = contenders.available(list(ARGUMENTS.contenders))
    if not ARGUMENTS.jax_python or ARGUMENTS.physical_batches > 1 or ARGUMENTS.wall:
        names = [name for name in names if name not in contenders.JAX]
    if ARGUMENTS.physical_batches > 1:  # it has no skipped steps
        names = [name for name in names if name != "fastdp"]
    report: dict[str, Any] = {
        "command": " ".join(["python", *sys.argv]),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs",
        "versions": {p: installed(p) for p in ("torch", "transformers", "opacus")},
        "errors": {},
        "shapes": {},
    }
    for kind in sorted({contenders.SHAPES[s].kind for s in ARGUMENTS.shapes}):
        checked = [
            n for n in names if n in (*contenders.PRIVATE, "jax_privacy") and (kind == "gpt2" or n != "jax_privacy")
        ]
        report["errors"][kind] = {n: verified(n, kind) for n in checked}
        print(f"{kind}: relative error of the clipped sum at a small shape: {report['errors'][kind]}", flush=True)
        for name in [n for n in names if n in contenders.PRIVATE and n.startswith("ours")]:
            error = report["errors"][kind][name]
            if error is None or error > contenders.EXACT:
                sys.exit(f"{name} is wrong by {error}: nothing is measured")
    for shape in ARGUMENTS.shapes:
        print(f"{shape} {contenders.SHAPES[shape]}", flush=True)
        is_gpt2 = contenders.SHAPES[shape].kind == "gpt2"
        found = measure(shape, [n for n in names if is_gpt2 or n not in contenders.JAX], ARGUMENTS.rounds)
        for name, row in found.items():
            print(f"  {name:14} " + "  ".join(f"{k} {v}" for k, v in row.items()), flush=True)
        report["shapes"][shape] = found
    write_json(ARGUMENTS.output, report)


def arguments() -> argparse.Namespace:
    parser = command_line(__doc__)
    parser.add_argument("worker", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--shapes", nargs="+", default=list(contenders.CPU_SHAPES), choices=list(contenders.SHAPES))
    parser.add_argument(
        "--contenders", nargs="+", default=list(contenders.CONTENDERS), choices=list(contenders.CONTENDERS)
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=0, help="torch threads; 0: torch's default")
    parser.add_argument("--physical-batches", type=int, default=1, help="batches of a step, for every contender")
    parser.add_argument("--kept-heap", action="store_true", help="freed memory is kept, for every contender")
    parser.add_argument("--wall", action="store_true", help="wall-clock time on a CPU, in place of processor time")
    parser.add_argument("--untied", action="store_true", help="untied weights for every contender")
    parser.add_argument("--quiet", action="store_true", help="hide what workers write to standard error")
    parser.add_argument("--jax-python", help="a Python with jax_privacy, for its contenders")
    parser.add_argument("--output", type=Path, help="where to write JSON")
    return parser.parse_args()


if __name__ == "__main__":
    ARGUMENTS = arguments()
    SCRATCH = tempfile.TemporaryDirectory()
    if ARGUMENTS.worker:
        role, contender, shape_name = ARGUMENTS.worker
        chosen = (contenders.CHECK_SHAPES if role == "check" else contenders.SHAPES)[shape_name]
        with heap():
            if role == "serve":
                serve(contender, chosen)
            else:
                print(contenders.update_error(contender, chosen, terms()))
    else:
        main()
