"""The cells that run on a GPU: one for each result, most valuable first."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True, kw_only=True)
class Place:
    """The surroundings of a cell.

    Attributes:
        device: ``cuda`` or ``cpu``.
        tiny: true if cells run at toy size, as a test.
        data_dir: the folder of data sets, if there is one.
        models: folders of models by name, joined from their parts.
        scratch: an empty folder for files that nobody needs afterwards.
    """

    device: str
    tiny: bool
    data_dir: Path | None
    models: Mapping[str, Path]
    scratch: Path


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A measurement or check with one result.

    Attributes:
        name: ``group/name``, as ``--only`` takes it.
        what: description of the measurement, for the page.
        function: ``module.function`` of this package; it takes a `Place` and the arguments, and returns figures. A
            figure ``passed`` says whether the cell holds what it checks.
        arguments: arguments of the function.
        needs: modules that have to be installed.
        seconds: expected time on a GPU.
        is_timed: false for a check, which may share the device with others.
    """

    name: str
    what: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    seconds: float = 60.0
    is_timed: bool = True

    def run(self, place: Place) -> dict[str, Any]:
        module, _, name = self.function.partition(".")
        function: Callable[..., dict[str, Any]] = getattr(importlib.import_module(f"benchmarks.gpu.{module}"), name)
        return function(place, **self.arguments)


_TRANSFORMERS: Final = ("transformers", "pydantic")


def _exactness() -> list[Cell]:
    words = {"bfloat16": "bfloat16 autocast", "float32": "float32", "float64": "float64"}
    words["tf32"] = "float32 with TF32 products"
    cells = []
    for precision in words:
        cells += [
            Cell(
                name=f"exactness/{kind}-{precision}",
                what=f"clipped sums and norms of {text} against one example at a time, {words[precision]}",
                function=f"exactness.{kind}",
                arguments={"precision": precision},
                needs=_TRANSFORMERS,
                seconds=60 if kind == "layers" else 90,
                is_timed=False,
            )
            for kind, text in (("layers", "every layer rule"), ("models", "whole models"))
            if not (kind == "models" and precision == "float64")
        ]
    noise = Cell(
        name="exactness/noise",
        what="noise drawn on the device: normal, of the deviation asked for, never twice the same",
        function="exactness.noise",
        needs=_TRANSFORMERS,
        seconds=30,
        is_timed=False,
    )
    return [*cells, noise]


STEP_SHAPES: Final = (
    "gpt2-small-512",
    "gpt2-small-100",
    "gpt2-small-1024",
    "roberta-base-256",
    "gpt2-medium-100",
    "gpt2-medium-512",
    "gpt2-medium-1024",
)
_STEP_NEEDS: Final = dict.fromkeys(("opacus_hooks", "opacus_ghost"), (*_TRANSFORMERS, "opacus"))


def _steps() -> list[Cell]:
    return [
        Cell(
            name=f"dp_step/{shape}-{dtype}/{contender}",
            what=f"{contender}: tokens a second and peak memory up to the largest batch that fits, {shape}, {dtype}",
            function="steps.largest",
            arguments={"shape": shape, "contender": contender, "dtype": dtype},
            needs=_STEP_NEEDS.get(contender, _TRANSFORMERS),
            seconds=60,
        )
        for dtype, shapes in (("bf16", STEP_SHAPES), ("fp32", STEP_SHAPES[:1]))
        for shape in shapes
        for contender in ("plain", "fused", "ours", "ours_two_pass", "opacus_hooks", "opacus_ghost")
    ]


def _methods() -> list[Cell]:
    return [
        Cell(
            name=f"methods/{method}-{block}",
            what=f"{method} with records of up to {block} tokens, from text to perplexity, by the training loop",
            function="methods.train_method",
            arguments={"method": method, "block": block},
            needs=(*_TRANSFORMERS, "tokenizers", "safetensors", "pyarrow"),
            seconds=180,
        )
        for block in (512, 1_024)
        for method in ("jft", "crt")
    ]


_EXACT: Final = _exactness()
_STEPS: Final = _steps()
_PROCESSES: Final = [
    Cell(
        name="processes/launched",
        what="processes that the training stage starts, one for each GPU, over NCCL: the weights of one process",
        function="shared.launched",
        needs=_TRANSFORMERS,
        seconds=60,
    ),
    Cell(
        name="processes/gloo-on-one-device",
        what="two processes that share one device, over gloo: the weights of one process, noise once in total",
        function="shared.gloo",
        needs=_TRANSFORMERS,
        seconds=60,
        is_timed=False,
    ),
]
_SPACY: Final = [
    Cell(
        name="spacy/entities",
        what="entities that spaCy finds on the GPU against those on the CPU, and the time of both",
        function="entities.compare",
        needs=("spacy", "cupy"),
        seconds=90,
    )
]

CELLS: Final[Sequence[Cell]] = [
    *_EXACT[:2],
    *_STEPS[:6],
    *_EXACT[2:],
    *_PROCESSES,
    *(methods := _methods())[:2],
    *_STEPS[6:12],
    *methods[2:],
    *_SPACY,
    *_STEPS[12:],
]
"""All cells, most valuable first."""
