"""The page docs/reproductions.md, a page for each paper, and their drawings, from the results and the rules."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from common import ROOT

from . import authors, comparisons, drawings, results, verdicts
from .base import RECIPES
from .cells import Cell, Recorded, Scale, Train, expected_hours
from .papers import CELLS, CLAIMS, TITLES
from .verdicts import Claim, Estimate, Results, Verdict

DOCS: Final = ROOT / "docs"
WORDS: Final = ("reproduced", "partly", "not", "not run here", "not possible here")
COMMAND: Final = "python -m benchmarks.reproduce --data-dir DATA"
WORD: Final = "perplexity_per_word"
NOTES: Final = Path(__file__).with_name("notes.md")
SUMMARIES: Final = Path(__file__).with_name("summaries")
"""Texts about the papers; ``{PAPER/PLACE/CELL}`` stands for the mean of a cell."""
_FIGURE: Final = re.compile(r"\{([^{}]+)\}")
_LINK: Final = re.compile(r"\]\((?!https?:|#)")
"""The start of a link to another page, seen from a folder above."""
_SAID: Final = {
    "reproduced": ("holds here", "hold here"),
    "partly": ("holds in part", "hold in part"),
    "not": ("does not hold", "do not hold"),
    "not run here": ("did not run here", "did not run here"),
    "not possible here": ("cannot be tried here", "cannot be tried here"),
}
HEAD: Final = """# The papers' tables beside ours

Five papers are compared with what this project gives at a size that two cores carry: what each claims, what holds
here and what does not are on [a page for each](#which-claims-hold-here), with its tables. `python -m
benchmarks.reproduce --render` makes these pages from the results in `benchmarks/results/reproduce` (scale `{scale}`).
Every figure and verdict of their tables is computed. Numbers of the papers are those of the copies at hand, which
lack some tables. *Authors' results* marks the last checkpoint of files that authors published beside their code. Those
of [lm_privacy](https://github.com/wyshi/lm_privacy) (MIT License) are drawn on its page. Those of
[sdp_transformers](https://github.com/wyshi/sdp_transformers) name no licence: their curves are not drawn here, and
`--render --data-dir DATA` draws them into `build/reproduce` if the files are in `DATA/paper_results`.

**Starting point**{perplexity}: a GPT-2 of {blocks} blocks of width {width}, with a BPE of {vocabulary} tokens,
pre-trained on 472 of the 600 training articles of WikiText-2, chosen by a hash of the title
([names](../benchmarks/reproduce/articles.txt)). Cells are fine-tuned on the other 128 and judged on the articles of
its test file. It is not OpenAI's GPT-2. So the numbers of trained models cannot match. Verdicts of trained cells are
about orders between cells.

**Verdicts** follow from rules in the code. *Reproduced*: the 95 % interval is on the paper's side (Student's t over
seeds, with differences seed by seed). *Partly*: the mean is on the paper's side and the interval reaches the other,
or there is one run, or only some of a claim's rules hold. *Not*: the mean is on the other side. Accounting is
exact, and is compared to the last digit that the paper prints (within a tenth: partly).

**Perplexities** of the papers are per token. Our tables give those per token first, then per word. A token of the
starting point is a shorter piece than one of GPT-2 (4,096 for 50,257 in the vocabulary) and easier to guess. Verdicts
compare perplexities per word, because a vocabulary does not change the differences of their logarithms.

**To run the rest**: `{command}` takes headline cells first, seed by seed. You can stop and repeat it. Expected CPU
hours that are left: {hours}. `--only jft/table2` runs a table, `--headline --seeds 1` a first look, `--quick`
everything without training, and `--list` shows all cells. The headline cells that ran here took {spent} CPU hours
(without cells read from other benchmarks). Two cores need half of that if two commands run cells of different tables.
The starting point, made once, takes 50 minutes of processor time more (7,190 steps of 0.41 s, one thread).

So far {told}. Everything here ran on a CPU unless it says otherwise."""


def known_results(folder: Path, scale: Scale) -> Results:
    return {cell.identity: (cell, results.read_all(folder, cell, scale)) for cell in CELLS}


def write(
    folder: Path = results.RESULTS, scale: Scale = "small", docs: Path = DOCS, data_dir: Path | None = None
) -> None:
    """Writes all pages and the drawings that have points; authors' curves, if their files are below ``data_dir``."""
    known = known_results(folder, scale)
    images = docs / "images"
    if data_dir is not None:
        authors.write(data_dir, images, ROOT / "build" / "reproduce")
    pictures = [
        *comparisons.write(known, images, in_the_papers_unit),
        *drawings.write(known, images),
        *authors.pictures(DOCS / "images"),
    ]
    for name, lines in pages(known, scale, pictures).items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def pages(known: Results, scale: Scale, pictures: Sequence[drawings.Picture] = ()) -> dict[str, list[str]]:
    """Returns the lines of ``reproductions.md``, the index, and of a page for each paper, by name below ``docs/``."""
    judged = [(claim, claim.judge(known)) for claim in CLAIMS]
    notes = NOTES.read_text("utf-8").splitlines()
    found = {"reproductions.md": [*_head(known, scale), *_summary(judged), "", *notes]}
    for paper in TITLES:
        mine = [one for one in judged if one[0].paper == paper]
        lines = _paper(paper, mine, known, [picture for picture in pictures if picture.paper == paper])
        found[f"papers/{paper}.md"] = [_LINK.sub("](../", line) for line in lines]
    return found


def _paper(
    paper: str, judged: Sequence[tuple[Claim, Verdict]], known: Results, pictures: Sequence[drawings.Picture]
) -> Iterator[str]:
    summary = (SUMMARIES / f"{paper}.md").read_text("utf-8")
    yield from _FIGURE.sub(lambda match: _mean(match[1], known), summary).splitlines()
    for picture in sorted(pictures, key=lambda one: (not one.file.startswith("compared"), one.file.partition("-")[2])):
        source = f" ({picture.source})" if picture.source else ""
        yield from ("", f"![{picture.title}](images/{picture.file})", "", f"{picture.title}{source}.")
    words = Counter(verdict.word for _, verdict in judged)
    told = ", ".join(f"{words[word]} {said[words[word] > 1]}" for word, said in _SAID.items() if words[word])
    yield from ("", "## Its claims", "", f"Of {len(judged)} claims {told}. Verdicts follow from rules, not from us")
    yield from (
        "([how](reproductions.md)). A signed number after `a < b` is a difference of logarithms: +0.1 is some 10 %.",
        "",
    )
    yield from _claims(judged, known)
    yield from _cells([cell for cell in CELLS if cell.paper == paper], known)


def _mean(name: str, known: Results) -> str:
    """Returns the mean of a cell, as text about a paper has it.

    Raises:
        KeyError: there is no such cell.
    """
    found = verdicts.estimate(*known[name])
    if found is None:
        return "(not run here)"
    return f"{found.mean:,.0f}" if abs(found.mean) >= 1_000 else f"{found.mean:.3g}"


def _head(known: Results, scale: Scale) -> Iterator[str]:
    ran = [result for _, found in known.values() for result in found]
    of = Counter(str(result["device"]) for result in ran)
    recipe = RECIPES[scale]
    bases = {
        f"{point['perplexity_a_word']:,.0f}"
        for cell, found in known.values()
        if isinstance(cell.run, Train) and cell.run.model == "base"
        for result in found
        if (point := result.get("starting_point")) and "key" in point
    }
    perplexity = f" ({', '.join(sorted(bases))} a word on held-out sentences)" if bases else " (not made yet)"
    commits = sorted({str(result["commit"]) for result in ran})
    told = (
        f"{len(ran)} results: {', '.join(f'{num} on {name}' for name, num in sorted(of.items()))}" if ran else "nothing"
    )
    made_by = f", of {len(commits)} commits, which each names" if commits else ""
    yield HEAD.format(
        scale=scale,
        perplexity=perplexity,
        blocks=recipe.blocks,
        width=recipe.width,
        vocabulary=f"{recipe.vocabulary:,}",
        command=COMMAND,
        hours=_hours(known),
        spent=f"{_spent(known):.1f}",
        told=told + made_by,
    )


def _hours(known: Results) -> str:
    left = [(cell, seed) for cell, found in known.values() for seed in range(len(found), cell.runs_seeds)]
    headline = expected_hours((cell, seed) for cell, seed in left if cell.headline)
    return f"{headline:.0f} for headline cells, {expected_hours(left):.0f} for all"


def _spent(known: Results) -> float:
    """Returns hours of processor time of the headline cells; a run with several figures counts once."""
    runs = (result for cell, found in known.values() if cell.headline for result in found)
    seconds = (run.get("cpu_seconds") or run["wall_seconds"] for run in runs if not run.get("same_run_as"))
    return math.fsum(seconds) / 3600


def _summary(judged: Sequence[tuple[Claim, Verdict]]) -> Iterator[str]:
    yield from ("", "## Which claims hold here", "", "| paper | claims | " + " | ".join(WORDS) + " |", "|---" * 7 + "|")
    for paper in TITLES:
        words = Counter(verdict.word for claim, verdict in judged if claim.paper == paper)
        told = " | ".join(str(words[word] or "") for word in WORDS)  # type: ignore[index]
        yield f"| [{_short(paper)}](papers/{paper}.md) | {words.total()} | {told} |"
    words = Counter(verdict.word for _, verdict in judged)
    yield f"| together | {words.total()} | " + " | ".join(str(words[word] or "") for word in WORDS) + " |"  # type: ignore[index]
    yield from ("", "| paper | claim (headline ones) | verdict |", "|---|---|---|")
    for claim, verdict in judged:
        if claim.headline:
            yield f"| {_short(claim.paper)} | {claim.text} | **{verdict.word}** |"


def _short(paper: str) -> str:
    return TITLES[paper].split(" (")[0]


def _claims(judged: Sequence[tuple[Claim, Verdict]], known: Results) -> Iterator[str]:
    yield from ("| claim | verdict | why |", "|---|---|---|")
    for claim, verdict in judged:
        note = f". Note: {claim.note}" if claim.note else ""
        told = f". What there is to gain: {told}" if (told := claim.background(known)) else ""
        yield f"| {claim.text} | **{verdict.word}** | {_lines(verdict.reason + told + note)} |"


def _cells(cells: Sequence[Cell], known: Results) -> Iterator[str]:
    claims = [claim for claim in CLAIMS if claim.paper == cells[0].paper]
    for place in dict.fromkeys(cell.place for cell in cells):
        mine = [cell for cell in cells if cell.place == place]
        name = place.replace("table", "Table ").replace("figure", "Figure ").replace("text", "Beside the tables")
        yield from ("", f"## {name}", "", "| cell | paper | ours (95 %) | seeds | verdict |", "|---|---|---|---|---|")
        for cell in mine:
            found = known[cell.identity][1]
            verdict = verdicts.of_cell(cell, claims, known)
            yield (
                f"| {cell.name} | {_printed(cell)} | {_ours(cell, known)} | {_seeds(cell, found)} "
                f"| {_of_cell(cell, verdict)} |"
            )
        if differs := list(_differences(cell.differs for cell in mine)):
            yield from ("", "What differs:", "", *(f"- {text}." for text in differs))
        recorded = dict.fromkeys(cell.run.command for cell in mine if isinstance(cell.run, Recorded))
        if recorded:
            yield from ("", *(f"Measured by `{command}`." for command in recorded))


def _differences(of_cells: Iterable[str]) -> Iterator[str]:
    """Yields differences from the paper, each part once, in the order of the cells."""
    told: set[str] = set()
    for text in of_cells:
        new = [part for part in text.split("; ") if part and part not in told]
        told.update(new)
        yield from new


def _of_cell(cell: Cell, verdict: Verdict) -> str:
    if verdict.word == "not run here":
        return (
            _lines(f"not compared: {verdict.reason}") if verdict.reason else f'not run here: `--only "{cell.identity}"`'
        )
    if verdict.word in ("not possible here", "left out", "not compared"):
        return _lines(f"{verdict.word}: {verdict.reason}")
    return verdict.word


def _printed(cell: Cell) -> str:
    if cell.printed:
        return f"{cell.printed} {cell.unit}".strip()
    if cell.authors:
        return f"{cell.authors} {cell.unit} (authors' results)"
    return f"not in the copy ({cell.unit})" if cell.unit else ""


def _ours(cell: Cell, known: Results) -> str:
    done = known[cell.identity][1]
    found = verdicts.estimate(cell, done)
    if found is None:
        return ""
    if not cell.measure.startswith(WORD):
        return _interval(found)
    tokens = [value for result in done if (value := perplexity_per_token(result)) is not None]
    of_tokens = f"{_interval(verdicts.interval(tokens))} a token, " if len(tokens) == len(done) else ""
    return f"{of_tokens}{f'{found.mean:.4g}' if of_tokens else _interval(found)} a word"


def in_the_papers_unit(result: Mapping[str, Any]) -> float | None:
    """Returns a result's perplexity a token if it has one, or its value."""
    if "perplexity_per_word" in result["figures"]:
        return perplexity_per_token(result)
    value = result["value"]
    return None if value is None else float(value)


def perplexity_per_token(result: Mapping[str, Any]) -> float | None:
    """Returns the perplexity a token of a result whose value is one a word of the whole held-out text.

    Both are of the same text, so a word has the same number of tokens at any time of the training: the number follows
    from both perplexities at its end.

    Returns:
        None if the value is of some words only, or the result has no perplexity a token.
    """
    figures, value = result["figures"], result["value"]
    if "perplexity" not in figures or value == figures.get("perplexity_per_word_but_secrets"):
        return None
    tokens_a_word = math.log(figures["perplexity_per_word"]) / math.log(figures["perplexity"])
    return float(value ** (1 / tokens_a_word))


def _interval(found: Estimate) -> str:
    if found.exact or not found.has_interval:
        return f"{found.mean:.4g}"
    return f"{found.mean:.4g} ({found.low:.4g} to {found.high:.4g})"


def _lines(text: str) -> str:
    """Puts each part of a reason on a line of its own."""
    return text.replace("; ", "<br>")


def _seeds(cell: Cell, found: Sequence[object]) -> str:
    return f"{len(found)} of {cell.runs_seeds}" if cell.runs_seeds > 1 else ""
