"""Curves of results that the authors published as CSV files beside their code, drawn beside ours.

The files are no part of this project (``DATA/paper_results``). A drawing holds a few points of each curve, in the mean
over the authors' seeds. Those of a repository with a licence that allows it stand in docs/images. The others are drawn
into a build folder for whoever has the files.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import tostring

from .drawings import Figure, Picture, Point, drawn

FOLDER: Final = "paper_results"
MOST_POINTS: Final = 12
SELECTIVE: Final = "lm_privacy by Weiyan Shi, github.com/wyshi/lm_privacy, MIT License, © 2021 wyshi"
JFT: Final = "sdp_transformers, github.com/wyshi/sdp_transformers, which names no licence"


@dataclass(frozen=True, kw_only=True)
class Curves:
    """A figure of the authors' results.

    Attributes:
        figure: axes and title; its series are empty.
        files: pattern of the files of each curve, one file a seed, by the curve's name.
        x, y: names of columns.
        most_x: largest x that is drawn, because perplexities of the first steps are thousands.
        source: repository and licence.
        is_free: true if the licence allows to publish the points.
    """

    figure: Figure
    files: Mapping[str, str]
    x: str = "model_ppl"
    y: str = "canary_exposure"
    most_x: float = math.inf
    source: str = SELECTIVE
    is_free: bool = True

    @property
    def file(self) -> str:
        """Returns the name of the drawing."""
        return f"authors-{self.figure.paper}-{self.figure.place}.svg"

    def lines(self, folder: Path) -> dict[str, list[Point]]:
        """Returns the points of each curve, thinned.

        Raises:
            FileNotFoundError: no file of a curve is in the folder.
        """
        return {name: self._line(folder, pattern) for name, pattern in self.files.items()}

    def _line(self, folder: Path, pattern: str) -> list[Point]:
        seeds = [_rows(path) for path in sorted(folder.glob(pattern))]
        if not seeds:
            raise FileNotFoundError(f"{pattern}: no such file below {folder}")
        checkpoints = zip(*seeds, strict=False)  # a seed that was stopped earlier ends the mean
        means = [tuple(_mean(rows, column) for column in (self.x, self.y)) for rows in checkpoints]
        return thinned([(x, y) for x, y in means if x <= self.most_x])


def _rows(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a file in the order of the training; the last checkpoint may stand first."""
    with path.open(encoding="utf-8", newline="") as file:
        return sorted(csv.DictReader(file), key=lambda row: float(row.get("step") or row["epoch"]))


def _mean(rows: Sequence[Mapping[str, str]], column: str) -> float:
    return math.fsum(float(row[column]) for row in rows) / len(rows)


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """Returns at most ``most`` points, evenly spaced in the order of the training, the first and last among them."""
    if len(points) <= most:
        return list(points)
    return [points[round(number * (len(points) - 1) / (most - 1))] for number in range(most)]


def _figure(paper: str, place: str, title: str, y_name: str) -> Figure:
    x_name = "perplexity a token (the paper's)"
    return Figure(paper=paper, place=place, title=title, x_name=x_name, y_name=y_name, series={})


def _of_jft(copies: int, place: str, files: Mapping[str, str]) -> Curves:
    times = "ten times" if copies == 10 else "once"
    return Curves(
        figure=_figure("jft", place, f"The authors' results: JFT, a canary inserted {times}", "exposure, bits"),
        files={name: f"jft_canaries/{copies}/{file}.csv" for name, file in files.items()},
        x="valid_ppl",
        source=JFT,
        is_free=False,
    )


_EXPOSURE: Final = "selective_results/canary_insertion"
_MEMBERSHIP: Final = "selective_results/membership_inference"
_WORDS_OF_SELECTIVE: Final = "The authors' results: Selective DP, Figure"
CURVES: Final = (
    Curves(
        figure=_figure("selective", "figure3", f"{_WORDS_OF_SELECTIVE} 3 (b), WikiText-2", "exposure, bits"),
        files={
            "No-DP": f"{_EXPOSURE}/nodp/*.csv",
            "DPSGD": f"{_EXPOSURE}/dp/*.csv",
            "S-DPSGD": f"{_EXPOSURE}/partialdp/lr0.1_sigma0.5_norm0.001_seed*.csv",
        },
        most_x=600.0,
    ),
    Curves(
        figure=_figure("selective", "figure3c", f"{_WORDS_OF_SELECTIVE} 3 (c), WikiText-2", "accuracy on digits"),
        files={
            "No-DP": f"{_MEMBERSHIP}/nodp/*_new_new_seed1111_new.csv",
            "DPSGD": f"{_MEMBERSHIP}/dp/*_new_new_seed1111_new.csv",
            "S-DPSGD": f"{_MEMBERSHIP}/partialdp/*_new_new_seed1111_new.csv",
        },
        y="inference_ppl_acc",
        most_x=600.0,
    ),
    Curves(
        figure=_figure("selective", "figure4", f"{_WORDS_OF_SELECTIVE} 4 (b), CustomerSim", "exposure, bits"),
        files={
            "No-DP": f"{_EXPOSURE}/dialog/nodp/*.csv",
            "S-DPSGD": f"{_EXPOSURE}/dialog/partialdp/lr0.1_sigma0.7_norm0.005_*.csv",
        },
        most_x=30.0,
    ),
    Curves(
        figure=_figure("selective", "figure6", f"{_WORDS_OF_SELECTIVE} 6, a missed canary", "exposure, bits"),
        files={
            "anonymised": f"{_EXPOSURE}/nodp_normalized_miss1/*.csv",
            "S-DPSGD": f"{_EXPOSURE}/partialdp_missed_1/*.csv",
        },
        most_x=600.0,
    ),
    _of_jft(
        10,
        "figure2",
        {
            "No-DP": "baseline_public",
            "DPSGD": "baseline_dpsgd",
            "CRT": "high_entity_CRT_missed",
            "Redacted (missed)": "high_entity_missed_public",
            "Redacted (not missed)": "high_entity_not_missed_public",
            "jft (missed)": "high_entity_missed_SDP",
            "jft (not missed)": "high_entity_not_missed_SDP",
            "jft + light noise (missed)": "amp_2nd_200epoches",
        },
    ),
    _of_jft(
        1,
        "figure3",
        {
            "No-DP": "public_exposure",
            "DPSGD": "dpsgd_exposure",
            "CRT": "high_entity_CRT",
            "Redacted (missed)": "high_entity_missed_public",
            "Redacted (not missed)": "high_entity_not_missed_public_exposure",
            "jft (missed)": "high_entity_missed_SDP",
            "jft (not missed)": "high_entity_not_missed_SDP_exposure",
            "jft + light noise (missed)": "amp_2nd",
        },
    ),
)


def write(data_dir: Path, images: Path, build: Path) -> None:
    """Draws the authors' curves, if their files are below ``data_dir``; those without a licence into ``build``."""
    folder = data_dir / FOLDER
    if not folder.is_dir():
        return
    for curves in CURVES:
        into = images if curves.is_free else build
        into.mkdir(parents=True, exist_ok=True)
        lines = {name: [points] for name, points in curves.lines(folder).items()}
        picture = tostring(drawn(curves.figure, lines), encoding="unicode")
        (into / curves.file).write_text(picture + "\n", encoding="utf-8")


def pictures(images: Path) -> list[Picture]:
    """Returns the drawings of authors' results that are in a folder, each with its source."""
    return [
        Picture(paper=curves.figure.paper, file=curves.file, title=curves.figure.title, source=curves.source)
        for curves in CURVES
        if curves.is_free and (images / curves.file).exists()
    ]
