"""Strong DP learners: Tables 1, 3 and 9, Figures 3, 5, 7 and 8, and with `strong_generation` the others.

The copy of the paper lost its formulas: privacy levels of rows (ε = 3, then 8, then none) follow from their order.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.reproduce.cells import Cell, Compute, Impossible, LeftOut, Recorded, Train, cells_of

from . import strong_generation as generation
from .strong_generation import NO_RGP, P, settings_at

_cell: Final = cells_of(P)
SST2_DIFFERS: Final = (
    "MiniLM (22 million weights, LoRA) for RoBERTa-base; 20,000 phrases for 67,349; 5 passes in batches of 500 for "
    "3 of 1,024: two hundred noisy steps of 5e-3 (the first size tried with which a head left chance on phrases held "
    "out of the training file)"
)
NO_DATA: Final = Impossible(reason="the data set is not at hand")
NO_TRAINING_PART: Final = Impossible(reason="the training part of this task is not at hand")
QNLI_DIFFERS: Final = (
    "MiniLM (22 million weights, LoRA) for RoBERTa-base; rows of QNLI's development part for the 104,743 of the "
    "training part, and 500 more for the test"
)
_accuracy: Final = partial(_cell, unit="% accuracy", measure="accuracy_percent", differs=SST2_DIFFERS)
TABLE1: Final = {  # SST-2, RoBERTa-base at ε = 3 and 8
    "full": ("86.12", "85.89"),
    "full + infilling": ("91.86", "92.09"),
}


CLASSES: Final = {"sst2": '["negative", "positive"]', "qnli": '["entailment", "not_entailment"]'}


def _classified(level: str, *, infilling: bool, task: str = "sst2", **more: str) -> Train:
    chosen = {"train__template": task} if infilling else {"train__classes": CLASSES[task]}
    method, settings = settings_at(level, **{**chosen, **more})
    paper = {"train.epochs": "3", "train.expected_batch_size": "1024"}
    return Train(corpus=task, method=method, small=settings, paper=paper, model="masked" if infilling else "minilm")


def _table1() -> list[Cell]:
    cells = [
        _accuracy(
            "table1",
            f"SST-2, {name}, {level}",
            printed=printed,
            run=_classified(level, infilling="infilling" in name),
            minutes=30.0 if "infilling" in name else 15.0,
            headline=level == "ε = 8",
        )
        for name, figures in TABLE1.items()
        for level, printed in zip(("ε = 3", "ε = 8"), figures, strict=True)
    ]
    cells += [
        _accuracy(
            "table1",
            f"SST-2, {name}, non-private",
            run=_classified("non-private", infilling="infilling" in name),
            minutes=6.0,
        )
        for name in TABLE1
    ]
    sizes = {
        "SST-2": (67_349, 1, "1.73", "2.41", "4.33", "6.69"),
        "QNLI": (104_743, 2, "2.00", "2.57", "4.75", "6.87"),
        "QQP": (363_846, 6, "2.52", "2.75", "5.85", "7.16"),
        "MNLI": (392_702, 6, "2.52", "2.75", "5.83", "7.15"),
    }
    for task, (rows, factor, clt3, pld3, clt8, pld8) in sizes.items():
        arguments = {"rows": float(rows), "factor": float(factor)}
        differs = f"δ = 1 over twice the rows; batches of {1_024 * factor:,}, {3 * factor} epochs" + (
            ", by the factor of the authors' script: the text says the rate and the steps of SST-2"
            if factor > 1
            else ""
        )
        for target, clt, pld in ((3.0, clt3, pld3), (8.0, clt8, pld8)):
            for name, printed, measure in (
                ("by the Gaussian limit", clt, "epsilon_clt"),
                ("by PLD", pld, "epsilon_pld"),
            ):
                cells.append(
                    _cell(
                        "table1",
                        f"{task}, ε = {target:g} {name}",
                        printed=printed,
                        unit="ε",
                        measure=measure,
                        run=Compute(function="converted", arguments={**arguments, "target": target}),
                        differs=differs,
                        minutes=0.1,
                        exact=True,
                        headline=task == "SST-2" and measure == "epsilon_pld",
                    )
                )
    cells += [
        _cell(
            "table1",
            f"SST-2, ε = {target:g} {name}, if there were four epochs",
            unit="ε",
            measure=measure,
            run=Compute(function="converted", arguments={"rows": 67_349.0, "target": target, "epochs": 4.0}),
            differs="four epochs come to the paper's Gaussian limit, and pass its PLD",
            minutes=0.1,
        )
        for target in (3.0, 8.0)
        for name, measure in (("by the Gaussian limit", "epsilon_clt"), ("by PLD", "epsilon_pld"))
    ]
    for task, figures in (("MNLI", ("82.47", "82.45")), ("QQP", ("85.41", "85.56"))):
        cells += [
            _cell("table1", f"{task}, {name}, ε = 3", printed=printed, unit="% accuracy", run=NO_TRAINING_PART)
            for name, printed in zip(TABLE1, figures, strict=True)
        ]
    cells += [
        _accuracy(
            "table1",
            f"QNLI, {name}, ε = 3",
            printed=printed,
            run=_classified("ε = 3", infilling="infilling" in name, task="qnli"),
            minutes=25.0,
            differs=QNLI_DIFFERS,
        )
        for name, printed in zip(TABLE1, ("84.62", "87.42"), strict=True)
    ]
    cells += [
        _cell("table1", f"SST-2, RGP ({model}), ε = 8", printed=printed, unit="% accuracy", run=NO_RGP)
        for model, printed in (("RoBERTa-base", "91.6"), ("RoBERTa-large", "93.0"))
    ]
    cells += [
        _cell(
            "table1",
            f"SST-2, {name} (RoBERTa-large), ε = 3",
            printed=printed,
            unit="% accuracy",
            run=Impossible(reason="RoBERTa-large is not at hand"),
        )
        for name, printed in (("full", "90.71"), ("full + infilling", "93.04"))
    ]
    return cells


_OWN: Final = {"train__template": "{first} It was {blank} .", "train__classes": CLASSES["sst2"]}
LABEL_WORDS: Final = {
    "great, terrible": {},  # the paper's template: the cells of `table1`
    "good, bad": {**_OWN, "train__label_words": '["bad", "good"]'},
    "table, chair": {**_OWN, "train__label_words": '["chair", "table"]'},
}
STEP_COMMAND: Final = "python -m benchmarks.gpu"


def _studies() -> list[Cell]:
    cells = [
        _cell(
            "figure3",
            f"noise over batch {batch:g}, ε = 3",
            unit="σ over batch size",
            minutes=0.1,
            measure="effective_noise",
            run=Compute(function="effective_noise", arguments={"batch": batch, "target": 3.0}),
            differs="rows of E2E, 400 steps; the paper's are in the figure",
        )
        for batch in (64.0, 256.0, 1024.0, 4096.0)
    ]
    cells += [
        _cell(
            "figure5",
            f"memory, {name}, {tokens} tokens",
            unit="times as much",
            measure="ratio",
            printed=printed,
            minutes=0.1,
            run=Recorded(
                function="memory_of_a_step",
                arguments={"shape": f"gpt2-small-{tokens}-bf16", "first": first, "second": second, "batch": 16.0},
                command=STEP_COMMAND,
            ),
            differs="GPT-2 small with random weights in bfloat16 on one H100, batches of 16; Opacus 1.6 with its own "
            "ghost clipping for Opacus 0.14, which held a gradient of each example",
        )
        for name, first, second, tokens, printed in (
            ("private over ordinary training", "ours", "plain", 100, ""),
            ("private over ordinary training", "ours", "plain", 512, ""),
            ("private over ordinary training with the same head", "ours", "fused", 512, ""),
            ("Opacus over this engine", "opacus_ghost", "ours", 512, "3"),
        )
    ]
    cells += [
        _cell(
            "figure5",
            "throughput of ghost clipping",
            unit="% more than layer by layer",
            printed="10",
            run=LeftOut(reason="this project has no clipping layer by layer with gradients of each example"),
        )
    ]
    cells += [
        _cell(
            "figure7",
            f"σ by the square-root rule over σ needed, batch {batch:g}",
            unit="share",
            measure="share",
            minutes=0.1,
            run=Compute(function="square_root_rule", arguments={"batch": batch}),
            differs="50,000 rows and 50 epochs; the paper's numbers are lost in the copy",
        )
        for batch in (16.0, 64.0, 256.0, 1024.0)
    ]
    cells += [
        _accuracy("figure8", f"{name}, {level}", minutes=30.0, run=_classified(level, infilling=True, **words))
        for name, words in LABEL_WORDS.items()
        for level in ("ε = 8", "non-private")
    ]
    return cells


def _batches_and_rates() -> list[Cell]:
    """The grid of `figure2` on a task that reaches its end on two cores; the fourth is a cell of `table1`."""
    return [
        _accuracy(
            "text",
            f"SST-2, full, ε = 8, batch {batch}, learning rate {rate}",
            minutes=20.0,
            run=_classified(
                "ε = 8", infilling=False, train__expected_batch_size=batch, train__private_learning_rate=rate
            ),
            differs=f"{SST2_DIFFERS}, where the name does not say another; the paper's grid is of E2E",
        )
        for batch, rate in (("500", "5e-4"), ("50", "5e-3"), ("50", "5e-4"))
    ]


def _others() -> list[Cell]:
    cells = [
        _cell("table3", f"GPT-2, {level}, {unit}", printed=printed, unit=unit, run=NO_DATA)
        for level, figures in (
            ("ε = 3", ("15.90", "24.59")),
            ("ε = 8", ("16.08", "23.57")),
            ("non-private", ("17.96", "18.52")),
        )
        for unit, printed in zip(("F1", "perplexity"), figures, strict=True)
    ]
    cells += [
        _cell(
            "table9",
            "canaries in E2E",
            unit="bits",
            run=LeftOut(
                reason="the copy lost the table's numbers; canaries in running text are in JFT's Figures 2 and 3"
            ),
        )
    ]
    return cells


CELLS: Final[tuple[Cell, ...]] = (
    *_table1(),
    *generation.tables("table2", generation.TABLE2),
    *generation.tables("table7", generation.SCORES),
    *generation.grids(),
    *_studies(),
    *generation.sizes(),
    *_batches_and_rates(),
    *generation.step_sizes(),
    *_others(),
    *generation.dart(),
)
