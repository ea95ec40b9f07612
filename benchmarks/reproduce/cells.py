"""The cells of the papers' tables and figures: one configuration each, its measure, and its differences."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Scale = Literal["small", "paper"]
SCALES: Final[tuple[Scale, ...]] = ("small", "paper")
SEEDS: Final = 3
PAPER_MODELS: Final[Mapping[str, str]] = {
    "base": "openai-community/gpt2",
    "half": "openai-community/gpt2",
    "minilm": "FacebookAI/roberta-base",
    "masked": "FacebookAI/roberta-base",
}
"""Models of the papers by their substitutes at small scale; names on the hub."""


@dataclass(frozen=True, kw_only=True)
class Train:
    """A whole run of the pipeline, from text to claims.

    Attributes:
        corpus: a name in `corpora.CORPORA`.
        method: name of the method, as in ``reticent compare``.
        small, paper: settings by ``table.field``, beside those of the corpus; ``paper`` adds to ``small``.
        model: ``base`` (the pre-trained GPT-2 of this benchmark), ``half`` (the same with half the blocks and width),
            ``masked`` (MiniLM with a head that fills blanks), or a value of `train.model`.
        paper_model: model of the paper, if `PAPER_MODELS` has another one.
    """

    corpus: str
    method: str
    small: Mapping[str, str] = field(default_factory=dict)
    paper: Mapping[str, str] = field(default_factory=dict)
    model: str = "base"
    paper_model: str | None = None

    def settings(self, scale: Scale) -> dict[str, str]:
        return {**self.small, **(self.paper if scale == "paper" else {})}

    def model_at(self, scale: Scale) -> str:
        return self.model if scale == "small" else self.paper_model or PAPER_MODELS.get(self.model, self.model)


@dataclass(frozen=True, kw_only=True)
class Audit(Train):
    """A run of the pipeline with canaries: the stages of ``reticent audit``.

    Attributes:
        copies: number of copies of each canary.
        canaries: number of canaries; a coin for each decides if the model trains on it.
        detected: number of canaries that the policies find.
    """

    copies: int = 10
    canaries: int = 60
    detected: int = 0


@dataclass(frozen=True, kw_only=True)
class Secrets(Train):
    """A run of the pipeline whose model is asked about single secrets (`audit.num_secrets`).

    Attributes:
        secrets: most secrets of each label, and of either kind.
    """

    secrets: int = 500


@dataclass(frozen=True, kw_only=True)
class Compute:
    """A calculation without a training, by a function of `computed`.

    Attributes:
        function: name of the function.
        arguments: arguments of the function.
    """

    function: str
    arguments: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A figure of another benchmark of this project, read from its results.

    Attributes:
        function: name of a function of `recorded`.
        arguments: arguments of the function.
        command: command that makes the results.
    """

    function: str
    arguments: Mapping[str, float | str]
    command: str


@dataclass(frozen=True, kw_only=True)
class Impossible:
    """A cell that cannot run here.

    Attributes:
        reason: data, model or machine that is missing; a sentence without its full stop.
    """

    reason: str


@dataclass(frozen=True, kw_only=True)
class LeftOut(Impossible):
    """A cell that this project decided not to make, or that has no figure to compare."""


Run = Train | Compute | Recorded | Impossible


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of a paper's table or figure.

    Attributes:
        paper: short name of the paper, a module of `papers`.
        place: ``table2``, ``figure3``, ``text``.
        name: name that is unique in its place.
        run: run that makes our figure.
        printed: the paper's figure as its text has it; empty if the copy at hand lacks it.
        authors: the figure at the last checkpoint of results that the authors published, if the copy has no figure.
        unit: unit of both figures.
        measure: name of the figure of the run.
        differs: differences from the paper, beside the scale.
        minutes: expected processor time of one seed at small scale.
        headline: true if a claim of the paper's abstract or introduction depends on it.
        exact: true if ours should be the paper's number, so that the verdict compares numbers.
        seeds: number of repetitions.
    """

    paper: str
    place: str
    name: str
    run: Run
    printed: str = ""
    authors: str = ""
    unit: str = "perplexity"
    measure: str = "perplexity_per_word"
    differs: str = ""
    minutes: float = 6.0
    headline: bool = False
    exact: bool = False
    seeds: int = SEEDS

    def __post_init__(self) -> None:
        if not re.fullmatch(r"(table|figure)\d+|text", self.place):
            raise ValueError(f"{self.identity}: no table, figure or text: {self.place}")
        if re.search(r"[/;]", self.name):
            raise ValueError(f"{self.identity}: a name holds / or ;")
        if self.printed and self.number is None:
            raise ValueError(f"{self.identity}: {self.printed} holds no number")

    @property
    def identity(self) -> str:
        """``paper/place/name``, as ``--only`` takes it."""
        return f"{self.paper}/{self.place}/{self.name}"

    @property
    def number(self) -> float | None:
        found = re.search(r"-?\d[\d,]*\.?\d*", self.printed)
        return float(found.group().replace(",", "")) if found else None

    @property
    def last_digit(self) -> float:
        """Returns half a unit of the last digit that the paper prints."""
        found = re.search(r"\.(\d+)", self.printed)
        return 0.5 * 10.0 ** (-len(found.group(1)) if found else 0)

    @property
    def runs_seeds(self) -> int:
        """Returns the number of results of a finished cell."""
        return self.seeds if isinstance(self.run, Train) else 0 if isinstance(self.run, Impossible) else 1

    def matches(self, pattern: str) -> bool:
        """Tells if ``PAPER[/TABLE[/CELL]]`` names the cell."""
        return not pattern or self.identity == pattern or self.identity.startswith(pattern.rstrip("/") + "/")


def cells_of(paper: str) -> Callable[..., Cell]:
    """Returns a constructor of a paper's cells, from place, name and the other fields."""
    return lambda place, name, **fields: Cell(paper=paper, place=place, name=name, **fields)


def expected_hours(left: Iterable[tuple[Cell, int]]) -> float:
    """Returns the hours of processor time at small scale for cells and seeds; shared runs are counted once."""
    minutes: dict[str, float] = {}
    for cell, seed in left:
        run = cell.run
        what = f"{settings_of(run, 'small')}" if isinstance(run, Train) else cell.identity
        key = f"{seed}: {what}"
        minutes[key] = max(minutes.get(key, 0.0), cell.minutes)
    return math.fsum(minutes.values()) / 60


def settings_of(run: Train, scale: Scale) -> dict[str, Any]:
    """Returns the settings that decide a result, for its record."""
    more: dict[str, Any] = {}
    if isinstance(run, Audit):
        more = {"copies": run.copies, "canaries": run.canaries, "detected": run.detected}
    elif isinstance(run, Secrets):
        more = {"secrets": run.secrets}
    return {"corpus": run.corpus, "method": run.method, "model": run.model_at(scale), **run.settings(scale), **more}
