"""Strong DP learners: text from tables. Tables 2, 7 and 8, Figures 1, 2, 4 and 9, and step sizes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from benchmarks.reproduce.cells import Cell, LeftOut, Run, Train, cells_of

P: Final = "strong"
_cell: Final = cells_of(P)
LEVELS: Final = {"ε = 3": ("dpsgd", "3"), "ε = 8": ("dpsgd", "8"), "non-private": ("no_dp", "")}
METEOR: Final = "METEOR is nltk's, of other parameters than the official one, so its figures are on another scale"
E2E_DIFFERS: Final = (
    "the small GPT-2, which saw WikiText-2 alone, for GPT-2; 6,000 of 42,061 rows; 60 test tables; 2 passes "
    "for 10 (without privacy one), in batches of 600"
)
DART_DIFFERS: Final = (
    "the small GPT-2, which saw WikiText-2 alone, for GPT-2; 2,708 triple sets of the development part for the "
    "training part, and 60 more for the test part; 2 passes for 10 (without privacy one), in batches of 600; only full "
    f"fine-tuning, without BERTScore and BLEURT; {METEOR}"
)
SIZES: Final = {"2 blocks of width 96": ("half", "gpt2"), "4 blocks of width 192": ("base", "gpt2-medium")}
SIZES_DIFFER: Final = (
    "two sizes of one model, pre-trained alike, for GPT-2 and GPT-2 medium, with the step size chosen for the larger; "
    f"{E2E_DIFFERS}"
)
PACKAGES_DIFFER: Final = (
    "SmolLM2 and Gemma 3: LoRA on the query and value weights instead of all weights; one pass over 1,200 rows in "
    "batches of 120 (without privacy 16); packages round weights to some four bits; SmolLM2 was tuned to follow "
    "instructions; the two are of different families, and may have seen E2E"
)
NO_RGP: Final = LeftOut(reason="[decision 6](decisions/0006-no-rgp.md)")
E2E_MINUTES: Final = 6.0
_bleu: Final = partial(_cell, unit="BLEU", measure="bleu", minutes=E2E_MINUTES, differs=E2E_DIFFERS)
METHODS: Final = {"full": "full", "LoRA": "lora", "prefix": "prefix", "top2": "top2", "retrain": "scratch"}
TABLE7: Final = {  # BLEU, NIST, METEOR, ROUGE-L, CIDEr at ε = 3, 8 and without privacy
    "full": ("61.519 6.697 0.384 65.670 1.761", "63.189 7.444 0.400 66.429 1.919", "69.463 8.780 0.461 71.359 2.422"),
    "LoRA": ("58.153 5.463 0.370 65.773 1.581", "63.389 7.449 0.407 67.525 1.948", "69.682 8.822 0.463 71.709 2.491"),
    "prefix": ("47.772 5.775 0.331 58.964 1.300", "49.263 6.276 0.349 60.730 1.496", "68.845 8.722 0.456 70.805 2.418"),
    "RGP": ("58.482 5.249 0.363 65.560 1.507", "58.455 5.525 0.364 65.030 1.569", "68.328 8.722 0.445 68.844 2.345"),
    "top2": ("25.920 1.510 0.197 44.536 0.452", "26.885 1.547 0.207 46.421 0.499", "65.752 8.418 0.443 68.704 2.180"),
    "retrain": (
        "15.457 0.376 0.113 35.240 0.116",
        "24.247 1.010 0.145 39.951 0.281",
        "65.731 8.286 0.429 68.751 2.004",
    ),
}
TABLE8: Final = ("meteor", "rouge_1", "rouge_2", "rouge_l", "bleu")
TABLE8_FULL: Final = (  # at ε = 3, 8 and without privacy
    "0.294 62.815 40.773 52.063 31.025",
    "0.319 66.423 43.609 54.576 35.057",
    "0.369 71.563 47.168 56.717 42.783",
)
SCORES: Final = ("bleu", "nist", "meteor", "rouge_l", "cider")
TABLE2: Final = ("bleu", "rouge_l")
UNITS: Final = {
    **{"bleu": "BLEU", "nist": "NIST", "meteor": "METEOR", "cider": "CIDEr"},
    **{"rouge_1": "ROUGE-1", "rouge_2": "ROUGE-2", "rouge_l": "ROUGE-L"},
}


def settings_at(level: str, **more: str) -> tuple[str, dict[str, str]]:
    """The method of a privacy level and its settings, with more of them, whose dots are written as ``__``."""
    method, epsilon = LEVELS[level]
    private = {"train.target_epsilon": epsilon} if epsilon else {"train.epochs": "1"}
    return method, private | {name.replace("__", "."): value for name, value in more.items()}


def _e2e(adaptation: str, level: str, **more: str) -> Train:
    if adaptation == "prefix":
        # Ten positions of the starting point's 128 hold the prefix, which an MLP of the paper's width makes.
        more |= {"train__context_length": "118", "train__prefix_hidden": "512"}
    method, settings = settings_at(level, train__adaptation=adaptation, **more)
    at_paper = {"train.epochs": "10", "train.expected_batch_size": "1024", "train.max_generated": "630"}
    return Train(corpus="e2e", method=method, small=settings, paper=at_paper)


def tables(place: str, scores: tuple[str, ...]) -> list[Cell]:
    """Tables 2 and 7: each method at each privacy level, by some of the scores."""
    cells = []
    for name, lines in TABLE7.items():
        for level, line in zip(LEVELS, lines, strict=True):
            for score, printed in zip(SCORES, line.split(), strict=True):
                if score not in scores:
                    continue
                run: Run = _e2e(METHODS[name], level) if name in METHODS else NO_RGP
                cells.append(
                    _cell(
                        place,
                        f"{name}, {level}, {UNITS[score]}",
                        printed=printed,
                        unit=UNITS[score],
                        measure=score,
                        run=run,
                        differs=f"{E2E_DIFFERS}; {METEOR}" if score == "meteor" else E2E_DIFFERS,
                        minutes=E2E_MINUTES,
                        headline=score == "bleu"
                        and place == "table2"
                        and name in ("full", "retrain")
                        and "3" not in level,
                    )
                )
    return cells


def grids() -> list[Cell]:
    """Batch sizes by learning rates, and clipping norms."""
    cells = [
        _bleu(
            place,
            f"batch {batch}, learning rate {rate}",
            run=_e2e("full", "ε = 3", train__expected_batch_size=batch, train__private_learning_rate=rate),
        )
        for place in ("figure2", "figure9")
        for batch in ("64", "600")
        for rate in ("2e-4", "2e-3")
    ]
    cells += [
        _bleu("figure4", f"C = {clip}", run=_e2e("full", "ε = 3", train__max_grad_norm=clip))
        for clip in ("0.1", "1", "10")
    ]
    return cells


def sizes() -> list[Cell]:
    """Two sizes of one model, and two models of packages."""
    cells = [
        _cell(
            "figure1",
            f"{name}, E2E, full, ε = 8, {UNITS.get(score, score)}",
            unit=UNITS.get(score, score),
            measure=score,
            minutes=E2E_MINUTES,
            run=replace(_e2e("full", "ε = 8"), model=model, paper_model=f"openai-community/{paper_model}"),
            differs=SIZES_DIFFER,
            headline=score == "bleu",
        )
        for name, (model, paper_model) in SIZES.items()
        for score in (*TABLE2, "perplexity")
    ]
    cells += [
        _bleu(
            "figure1",
            f"{name}, E2E, LoRA, {level}",
            minutes=minutes,
            run=replace(_e2e("lora", level), corpus="e2e_1200", model=model),
            differs=PACKAGES_DIFFER,
        )
        for name, level, model, minutes in (
            ("SmolLM2 (135 million weights)", "ε = 8", "smollm2", 20.0),
            ("SmolLM2 (135 million weights)", "non-private", "smollm2", 20.0),
            ("Gemma 3 (268 million weights)", "ε = 8", "google/gemma-3-270m", 40.0),
        )
    ]
    return cells


def dart() -> list[Cell]:
    """Table 8, full fine-tuning."""
    return [
        _cell(
            "table8",
            f"DART, full, {level}, {UNITS[score]}",
            printed=printed,
            unit=UNITS[score],
            measure=score,
            run=replace(_e2e("full", level), corpus="dart"),
            differs=DART_DIFFERS,
            minutes=2 * E2E_MINUTES,
        )
        for level, line in zip(LEVELS, TABLE8_FULL, strict=True)
        for score, printed in zip(TABLE8, line.split(), strict=True)
    ]


def step_sizes() -> list[Cell]:
    """Step sizes with which LoRA and prefix may come to the BLEU of full fine-tuning."""
    return [
        _bleu(
            "text",
            f"{name}, ε = 8, learning rate {rate}",
            run=_e2e(METHODS[name], "ε = 8", train__private_learning_rate=rate),
        )
        for name, rates in {"full": ("1e-2",), "LoRA": ("1e-2", "3e-2"), "prefix": ("3e-2",)}.items()
        for rate in rates
    ]
