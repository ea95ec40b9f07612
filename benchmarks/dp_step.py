"""One private training step against ordinary training and other engines: time and memory of the same step.

    python benchmarks/dp_step.py                                  # the shapes of the README, a few minutes each
    python benchmarks/dp_step.py --shapes gpt2-256-5000 --rounds 5
    python benchmarks/dp_step.py --device cuda --dtype bf16 --shapes gpt2-small-512 gpt2-medium-1024 --largest-batch

Every contender is a process of its own; processes take turns step by step, so that a busy machine slows all of them
alike. A round's ratio is that of the two contenders' steps in the same round; the
median over rounds is reported. Before timing, all private contenders' clipped sums are compared with one example at a
time at a small shape.

Contenders: ``plain`` (ordinary training, the model's own loss), ``fused`` (ordinary, with our fused head), ``ours``,
``ours_two_pass``, ``opacus_hooks``, ``opacus_ghost`` and ``fastdp`` where they are installed. A private step is
forward, backward, clipping, noise and the optimizer's step.

Peak memory is the largest resident size less what was held before the model was built (on a GPU: the allocator's
peak), of two steps in a further process whose allocator gives freed blocks back at once (glibc's
``MALLOC_MMAP_THRESHOLD_``): so it is what the step needs. ``resident`` is that of the process that was timed: what it
needs and the holes that happen to be left in the heap.

With ``--kept-heap`` every contender's C library keeps freed memory for the next step, as the training stage has it;
without, all of them pay for page faults, and the ratios move with the state of the heap.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PRIVATE = ("ours", "ours_two_pass", "opacus_hooks", "opacus_ghost", "fastdp")
CONTENDERS = ("plain", "fused", *PRIVATE)


@dataclass(frozen=True)
class Shape:
    """A model and a batch."""

    kind: str
    width: int
    layers: int
    heads: int
    vocab: int
    length: int
    batch: int


SHAPES = {
    "gpt2-256-5000": Shape("gpt2", 256, 4, 4, 5_000, 128, 16),
    "gpt2-256-50257": Shape("gpt2", 256, 4, 4, 50_257, 128, 16),
    "gpt2-768-5000": Shape("gpt2", 768, 12, 12, 5_000, 128, 4),
    "gpt2-768-50257": Shape("gpt2", 768, 12, 12, 50_257, 128, 4),
    "lstm-200-50257": Shape("lstm", 200, 1, 1, 50_257, 128, 16),
    "gpt2-small-512": Shape("gpt2", 768, 12, 12, 50_257, 512, 16),
    "gpt2-small-1024": Shape("gpt2", 768, 12, 12, 50_257, 1_024, 8),
    "gpt2-medium-512": Shape("gpt2", 1_024, 24, 16, 50_257, 512, 8),
    "gpt2-medium-1024": Shape("gpt2", 1_024, 24, 16, 50_257, 1_024, 4),
}
CPU_SHAPES = tuple(name for name in SHAPES if "small" not in name and "medium" not in name)
CHECK_SHAPES = {"gpt2": Shape("gpt2", 32, 2, 2, 97, 12, 3), "lstm": Shape("lstm", 20, 1, 1, 97, 12, 3)}
MAX_GRAD_NORM, NOISE, LEARNING_RATE = 0.1, 1.0, 1e-4


# ---------------------------------------------------------------------------------------------------------- contenders


def build(shape: Shape, name: str, device: str) -> Any:
    """The model of a contender. Opacus ghost refuses tied weights, and its LSTM is a layer of its own."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    if shape.kind == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(
            vocab_size=shape.vocab, n_positions=shape.length, n_embd=shape.width, n_layer=shape.layers,
            n_head=shape.heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
            tie_word_embeddings=not name.startswith(("opacus", "fastdp")) and not ARGUMENTS.untied,
        )  # fmt: skip
        return GPT2LMHeadModel(config).train().to(device)

    class LstmLM(nn.Module):
        def __init__(self, lstm: Any) -> None:
            super().__init__()
            self.embedding = nn.Embedding(shape.vocab, shape.width)
            self.lstm = lstm(shape.width, shape.width, batch_first=True)
            self.lm_head = nn.Linear(shape.width, shape.vocab)

        def hidden(self, ids: Any) -> Any:
            return self.lstm(self.embedding(ids))[0]

        def forward(self, input_ids: Any) -> Any:
            return self.lm_head(self.hidden(input_ids))

    lstm: Any = nn.LSTM
    if name.startswith("opacus"):
        from opacus.layers import DPLSTM as lstm
    return LstmLM(lstm).train().to(device)


def example_losses(model: Any, ids: Any, shape: Shape) -> Any:
    """(B,) mean cross-entropies of next tokens from the model's own logits."""
    from torch.nn import functional

    out = model(ids)
    logits = out if shape.kind == "lstm" else out.logits
    token = functional.cross_entropy(logits[:, :-1].transpose(1, 2).float(), ids[:, 1:], reduction="none")
    return token.mean(dim=1)


def plain_loss(model: Any, ids: Any, shape: Shape) -> Any:
    """The ordinary loss of a batch: for GPT-2, the model's own."""
    from torch.nn import functional

    if shape.kind == "gpt2":
        return model(input_ids=ids, labels=ids, use_cache=False).loss
    logits = model(ids)[:, :-1]
    return functional.cross_entropy(logits.reshape(-1, shape.vocab), ids[:, 1:].reshape(-1))


def fused_losses(model: Any, ids: Any, shape: Shape) -> Any:
    """(B,) losses through our fused head."""
    import torch

    from pipelines.dp.head import fused_losses as fused
    from pipelines.dp.language import causal_lm_losses

    if shape.kind == "gpt2":
        return causal_lm_losses(model, ids, ids)
    labels = torch.cat([ids[:, 1:], ids.new_full((len(ids), 1), -100)], dim=1)
    return fused(model.hidden(ids), model.lm_head, labels)


Step = Callable[[], None]


def ordinary(model: Any, ids: Any, shape: Shape, is_fused: bool) -> Step:
    """Ordinary AdamW."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, foreach=False)

    def step() -> None:
        for _ in range(ARGUMENTS.physical_batches):
            with autocast():
                loss = fused_losses(model, ids, shape).mean() if is_fused else plain_loss(model, ids, shape)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def ours(model: Any, ids: Any, shape: Shape, mode: str, noise: float = NOISE) -> Step:
    """Our engine and optimizer step, as PrivacyEngine runs them."""
    import torch

    from pipelines.dp.gradients import GradientEngine
    from pipelines.dp.optimizer import noisy_step
    from pipelines.randomness import unpredictable

    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, foreach=False)
    engine = GradientEngine(model, max_grad_norm=MAX_GRAD_NORM, mode=mode)  # type: ignore[arg-type]

    def step() -> None:
        for _ in range(ARGUMENTS.physical_batches):
            with engine.recording(len(ids)), autocast():
                losses = fused_losses(model, ids, shape)
            engine.backward(losses)
        noisy_step(optimizer, engine, noise_multiplier=noise, expected_batch_size=len(ids), rng=unpredictable(0))

    return step


def opacus(model: Any, ids: Any, shape: Shape, mode: str, noise: float = NOISE) -> Step:
    """Opacus with per-sample gradients (hooks) or ghost clipping, driven through its own engine."""
    import torch
    from opacus import PrivacyEngine
    from torch.nn import functional
    from torch.utils.data import DataLoader, TensorDataset

    if shape.kind == "gpt2":
        from transformers.pytorch_utils import Conv1D

        for parent in list(model.modules()):  # as its tutorials do: it has no ghost rule for Conv1D
            for name, child in list(parent.named_children()):
                if isinstance(child, Conv1D):
                    linear = torch.nn.Linear(*child.weight.shape)
                    linear.weight.data, linear.bias.data = child.weight.data.t().contiguous(), child.bias.data
                    setattr(parent, name, linear)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, foreach=False)
    criterion = torch.nn.CrossEntropyLoss(reduction="mean")
    loader = DataLoader(TensorDataset(ids), batch_size=len(ids))
    settings: dict[str, Any] = {"grad_sample_mode": mode, "poisson_sampling": False}
    if mode == "ghost":
        settings["criterion"] = criterion
    made = PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=noise, max_grad_norm=MAX_GRAD_NORM,
        **settings,
    )  # fmt: skip
    private, private_optimizer = made[0], made[1]
    positions = torch.arange(shape.length, device=ids.device).repeat(len(ids), 1)

    def logits() -> Any:
        out = private(ids) if shape.kind == "lstm" else private(ids, position_ids=positions)
        return (out if shape.kind == "lstm" else out.logits)[:, :-1]

    def step() -> None:
        for number in range(ARGUMENTS.physical_batches):
            with autocast():
                flat, targets = logits().reshape(-1, shape.vocab).float(), ids[:, 1:].reshape(-1).contiguous()
                if mode == "ghost":
                    loss = made[2](flat, targets, shape=(len(ids), shape.length - 1))
                else:
                    loss = functional.cross_entropy(flat, targets)
            private_optimizer.signal_skip_step(do_skip=number < ARGUMENTS.physical_batches - 1)
            loss.backward()
            private_optimizer.step()
            private_optimizer.zero_grad()

    return step


def fastdp(model: Any, ids: Any, shape: Shape, noise: float = NOISE) -> Step:
    """fast-differential-privacy, its book-keeping engine with mixed ghost norms."""
    import torch
    from fastDP import PrivacyEngine, transformers_support

    # Its own forward pass for GPT-2 is that of an old version; expanded position ids make it needless.
    transformers_support.forward_swapper = lambda module: None
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, foreach=False)
    engine = PrivacyEngine(
        model, batch_size=len(ids), sample_size=1_000_000, noise_multiplier=noise, epochs=1, clipping_fn="Abadi",
        clipping_mode="MixOpt", max_grad_norm=MAX_GRAD_NORM, origin_params=None,
    )  # fmt: skip
    engine.attach(optimizer)
    positions = torch.arange(shape.length, device=ids.device).repeat(len(ids), 1)

    def step() -> None:
        with autocast():
            out = model(ids) if shape.kind == "lstm" else model(ids, position_ids=positions).logits
            loss = torch.nn.functional.cross_entropy(
                out[:, :-1].reshape(-1, shape.vocab).float(), ids[:, 1:].reshape(-1)
            )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def make(name: str, model: Any, ids: Any, shape: Shape, noise: float = NOISE) -> Step:
    """The step of a contender."""
    if name in ("plain", "fused"):
        return ordinary(model, ids, shape, name == "fused")
    if name.startswith("ours"):
        return ours(model, ids, shape, "two_pass" if name == "ours_two_pass" else "book_keeping", noise)
    if name.startswith("opacus"):
        return opacus(model, ids, shape, name.removeprefix("opacus_"), noise)
    return fastdp(model, ids, shape, noise)


def autocast() -> Any:
    """bfloat16 where asked for."""
    import torch

    return torch.autocast(ARGUMENTS.device, dtype=torch.bfloat16, enabled=ARGUMENTS.dtype == "bf16")


# ------------------------------------------------------------------------------------------------------------- a worker


def serve(name: str, shape: Shape) -> None:
    """Takes a step for each line on standard input and answers with its seconds; on ``end``, with peak memory."""
    import torch

    if ARGUMENTS.threads:
        torch.set_num_threads(ARGUMENTS.threads)
    device = ARGUMENTS.device
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    make_warm_imports(name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = build(shape, name, device)
    torch.manual_seed(1)
    ids = torch.randint(0, shape.vocab, (shape.batch, shape.length), device=device)
    step = make(name, model, ids, shape)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        if line.strip() == "end":
            break
        # On a CPU, the processor's time: other processes on the machine do not count.
        clock = time.perf_counter if device == "cuda" or ARGUMENTS.wall else time.process_time
        start = clock()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        print(clock() - start, file=answers, flush=True)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    if device == "cuda":
        peak = torch.cuda.max_memory_allocated()
    print(peak, file=answers, flush=True)


def make_warm_imports(name: str) -> None:
    """Imports what the contender needs and runs a tiny step, so that neither counts as the step's memory."""
    import torch

    small = CHECK_SHAPES["gpt2"]
    model = build(small, name, "cpu")
    make(name, model, torch.randint(0, small.vocab, (2, small.length)), small)()


def check(name: str, shape: Shape) -> None:
    """Prints how far a contender's noiseless step is from one example at a time, as relative error of the update."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    torch.manual_seed(1)
    model = build(shape, name, "cpu")
    ids = torch.randint(0, shape.vocab, (shape.batch, shape.length))
    total = {n: torch.zeros_like(p, dtype=torch.float64) for n, p in model.named_parameters()}
    for row in range(shape.batch):
        model.zero_grad()
        example_losses(model, ids[row : row + 1], shape)[0].backward()
        grads = {n: p.grad.double() for n, p in model.named_parameters()}
        norm = torch.stack([g.square().sum() for g in grads.values()]).sum().sqrt()
        for n, g in grads.items():
            total[n] += g * min(1.0, MAX_GRAD_NORM / float(norm))
    model.zero_grad()
    handed: list[Any] = []
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: handed.extend(p.grad.clone() for g in optimizer.param_groups for p in g["params"])
    )
    make(name, model, ids, shape, noise=0.0)()
    hook.remove()
    expected = torch.cat([t.flatten() for t in total.values()])
    found = torch.cat([g.flatten().double() for g in handed]) * shape.batch
    # Layers may have been replaced by transposed ones: sorted values do not care.
    print(float((found.sort().values - expected.sort().values).norm() / expected.norm()))


# ----------------------------------------------------------------------------------------------------------- the parent


def command(role: str, name: str, shape: str, batch: int | None = None) -> list[str]:
    """The command line of a worker."""
    line = [sys.executable, str(Path(__file__).resolve()), role, name, shape, "--device", ARGUMENTS.device]
    line += ["--dtype", ARGUMENTS.dtype, "--threads", str(ARGUMENTS.threads)]
    line += ["--physical-batches", str(ARGUMENTS.physical_batches)] if role == "serve" else []
    line += ["--batch", str(batch)] if batch else []
    line += ["--untied"] if ARGUMENTS.untied else []
    line += ["--kept-heap"] if ARGUMENTS.kept_heap else []
    return line + (["--wall"] if ARGUMENTS.wall else [])


def heap() -> contextlib.AbstractContextManager[None]:
    """What becomes of freed memory, as asked for; where peak memory is measured, it is given back."""
    from pipelines.training.devices import freed_memory_kept

    is_kept = ARGUMENTS.kept_heap and "MALLOC_MMAP_THRESHOLD_" not in os.environ
    return freed_memory_kept() if is_kept else contextlib.nullcontext()


def environment() -> dict[str, str]:
    """The workers' environment, with the repository on the path."""
    root = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}


def available(names: list[str]) -> list[str]:
    """Those whose package is installed."""
    package = {"opacus_hooks": "opacus", "opacus_ghost": "opacus", "fastdp": "fastDP"}
    return [n for n in names if n not in package or importlib.util.find_spec(package[n]) is not None]


def verified(name: str, kind: str) -> float | None:
    """The error of a contender at a small shape; None where it does not run."""
    done = subprocess.run(command("check", name, kind), capture_output=True, text=True, env=environment(), check=False)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


class Worker:
    """A contender's process."""

    def __init__(self, name: str, shape: str, batch: int | None = None, is_measured: bool = False) -> None:
        self.name = name
        settings = {"MALLOC_MMAP_THRESHOLD_": "65536"} if is_measured else {}
        self.process = subprocess.Popen(
            command("serve", name, shape, batch), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if ARGUMENTS.quiet else None, text=True, env={**environment(), **settings},
        )  # fmt: skip

    def ask(self, word: str) -> float | None:
        """A step's seconds, or peak bytes for ``end``; None if the process is gone."""
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
    """Interleaved steps of all contenders."""
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
    peaks = resident if ARGUMENTS.device == "cuda" else {name: peak(name, shape) for name in resident}
    result: dict[str, Any] = {}
    for name, own in seconds.items():
        ratios = {
            f"time_over_{base}": round(statistics.median(a / b for a, b in zip(own, seconds[base], strict=True)), 3)
            for base in ("plain", "fused", "opacus_ghost", "opacus_hooks")
            if base in seconds
        }
        result[name] = {
            "seconds": round(statistics.median(own), 4),
            "tokens_per_second": round(
                ARGUMENTS.physical_batches * SHAPES[shape].batch * SHAPES[shape].length / statistics.median(own)
            ),
            "peak_megabytes": round((peaks[name] or 0) / 2**20),
            "resident_megabytes": round((resident[name] or 0) / 2**20),
            **ratios,
            **over_plain("memory", peaks, name),
            **over_plain("resident", resident, name),
        }
    return result


def peak(name: str, shape: str) -> float | None:
    """Peak bytes of two steps, where freed memory is given back at once."""
    worker = Worker(name, shape, is_measured=True)
    for word in ("", "step", "step"):
        worker.ask(word)
    found = worker.ask("end")
    worker.process.wait()
    return found


def over_plain(what: str, values: dict[str, float | None], name: str) -> dict[str, float]:
    """A contender's value over plain training's, where both are known."""
    own, plain = values[name], values.get("plain")
    return {f"{what}_over_plain": round(own / plain, 3)} if own and plain else {}


def largest_batch(name: str, shape: str) -> int:
    """The largest power of two that a step runs with."""
    fits = 0
    batch = 1
    while batch <= 4_096:
        worker = Worker(name, shape, batch)
        ran = worker.ask("") is not None and worker.ask("step") is not None
        worker.process.kill()
        worker.process.wait()
        if not ran:
            break
        fits, batch = batch, batch * 2
    return fits


def main() -> None:
    """Measures, prints a table, writes JSON."""
    names = available(list(ARGUMENTS.contenders))
    if ARGUMENTS.physical_batches > 1:  # it has no skipped steps
        names = [name for name in names if name != "fastdp"]
    report: dict[str, Any] = {
        "command": " ".join(["python", *sys.argv]),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, {ARGUMENTS.device} {ARGUMENTS.dtype}",
        "versions": {p: version(p) for p in ("torch", "transformers", "opacus")},
        "errors": {},
        "shapes": {},
    }
    if ARGUMENTS.device == "cuda":
        import torch

        report["machine"] = torch.cuda.get_device_name()
    for kind in sorted({SHAPES[s].kind for s in ARGUMENTS.shapes}):
        report["errors"][kind] = {n: verified(n, kind) for n in names if n in PRIVATE}
        print(f"{kind}: relative error of the clipped sum at a small shape: {report['errors'][kind]}", flush=True)
        for name in [n for n in names if n in PRIVATE and n.startswith("ours")]:
            error = report["errors"][kind][name]
            if error is None or error > 1e-5:
                sys.exit(f"{name} is wrong by {error}: nothing is measured")
    for shape in ARGUMENTS.shapes:
        print(f"{shape} {SHAPES[shape]}", flush=True)
        found = measure(shape, names, ARGUMENTS.rounds)
        for name, row in found.items():
            print(f"  {name:14} " + "  ".join(f"{k} {v}" for k, v in row.items()), flush=True)
        if ARGUMENTS.largest_batch:
            for name in found:
                found[name]["largest_batch"] = largest_batch(name, shape)
                print(f"  {name:14} largest batch {found[name]['largest_batch']}", flush=True)
        report["shapes"][shape] = found
    if ARGUMENTS.output:
        ARGUMENTS.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def version(package: str) -> str | None:
    """Of an installed package."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed(package)
    except PackageNotFoundError:
        return None


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worker", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--shapes", nargs="+", default=list(CPU_SHAPES), choices=list(SHAPES))
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=list(CONTENDERS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=0, help="torch threads; 0: torch's default")
    parser.add_argument(
        "--physical-batches", type=int, default=1, help="batches that make up a step, for every contender"
    )
    parser.add_argument("--kept-heap", action="store_true", help="freed memory is kept, for every contender")
    parser.add_argument("--wall", action="store_true", help="wall-clock time on a CPU, in place of processor time")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--untied", action="store_true", help="untied weights for every contender")
    parser.add_argument("--largest-batch", action="store_true", help="search the largest batch that fits")
    parser.add_argument("--quiet", action="store_true", help="hide what workers write to standard error")
    parser.add_argument("--output", type=Path, help="where to write JSON")
    return parser.parse_args()


if __name__ == "__main__":
    ARGUMENTS = arguments()
    if ARGUMENTS.worker:
        role, contender, shape_name = ARGUMENTS.worker
        chosen = (CHECK_SHAPES if role == "check" else SHAPES)[shape_name]
        if ARGUMENTS.batch:
            from dataclasses import replace

            chosen = replace(chosen, batch=ARGUMENTS.batch)
        with heap():
            (serve if role == "serve" else check)(contender, chosen)
    else:
        main()
