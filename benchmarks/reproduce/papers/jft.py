"""JFT: Tables 2, 3, 4, 6, 7, 8 and Figures 2, 3, 4.

The copy at hand has the paper's text without the bodies of its tables, so a cell has the paper's figure where the text
names it. Table 1 shows examples, Table 5 the range of the search; neither holds a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from benchmarks.reproduce.cells import Audit, Cell, Impossible, Train, cells_of

P: Final = "jft"
_cell: Final = cells_of(P)
BASE: Final = (
    "the small GPT-2 for GPT-2; a sample for all of WikiText-2, its signs joined to the words; sentences for blocks as "
    "records; one pass without noise, two with (batches of 300); only the step size without noise was tuned"
)
DIALOGUE: Final = (
    "CustomerSim for ABCD; the small GPT-2, trained without dialogues, for GPT-2; a sample; turns as records, whole "
    "dialogues compared for copies; one pass without noise, two with, in batches of 600 at 3e-3 (chosen once, by what "
    "DPSGD learnt on a half-trained start)"
)
ABCD: Final = (
    "the small GPT-2, trained without dialogues, for GPT-2; 6,000 turns of the test part for the training part, and "
    "400 more for the test; turns as records; one pass without noise, two with, in batches of 600 at 3e-3"
)
REDACTED: Final = "the redacted model is jft's after its first phase, scored in the same run"
AUDIT: Final = (
    f"{BASE}; sixty canaries that the policy misses and sixty that it finds, of which a coin inserts half, for one; "
    "exposure among 10,000 candidates"
)
AT_PAPER: Final = {"train.epochs": "20", "train.jft_phase1_epochs": "5", "train.expected_batch_size": "512"}
LOW: Final = {"train.epochs": "20", "train.jft_phase1_epochs": "5", "train.expected_batch_size": "50"}
LOW_QNLI: Final = {**LOW, "train.epochs": "10", "train.jft_phase1_epochs": "10", "train.public_batch_size": "8"}
MINUTES: Final[Mapping[str, Mapping[str, float]]] = {
    "wikitext": {"no_dp": 2.0, "dpsgd": 4.0, "crt": 4.0, "jft/direct": 6.0, "redacted": 6.0, "jft/light_noise": 7.0},
    "customersim": {"no_dp": 1.3, "dpsgd": 1.7, "crt": 2.5, "jft/direct": 2.4, "redacted": 2.4, "jft/light_noise": 3.0},
    "abcd": {"no_dp": 1.3, "dpsgd": 1.7, "jft/direct": 2.4, "redacted": 2.4, "jft/light_noise": 3.0},
    "wikitext_100": {"dpsgd": 2.0, "jft/direct": 3.0, "redacted": 3.0},
    "audit": {"no_dp": 4.0, "redacted": 5.0, "dpsgd": 6.0, "crt": 6.0, "jft/direct": 8.0},
}
LEVELS: Final = ("low_entity", "high_entity", "low_contextual", "high_contextual")
NO_GLUE: Final = Impossible(reason="the training part of this task is not at hand")
QNLI: Final = (
    "a head on MiniLM (22 million weights, LoRA) for RoBERTa-base; rows of the development part for the training part, "
    "and 500 more for the test"
)


def minutes_of(kind: str, method: str) -> float:
    """Expected of one seed; a second phase of the same shape takes as long."""
    known = MINUTES[kind]
    return known.get(method, known.get("jft/light_noise", known["jft/direct"]))


def _level(level: str) -> dict[str, str]:
    return {"redact.policies": f'["{level}"]', "redact.conservative": level}


def _wiki(place: str, name: str, method: str, printed: str = "", *, corpus: str = "wikitext", **more: str) -> Cell:
    once = {"train.epochs": "1"} if method == "no_dp" else {}
    settings = {**once, **{key.replace("__", "."): value for key, value in more.items()}}
    is_redacted = method == "redacted"
    differs = {"customersim": DIALOGUE, "abcd": ABCD}.get(corpus, BASE)
    return _cell(
        place,
        name,
        printed=printed,
        differs=f"{differs}; {REDACTED}" if is_redacted else differs,
        run=Train(corpus=corpus, method="jft/direct" if is_redacted else method, small=settings, paper=AT_PAPER),
        measure="perplexity_per_word_after_phase_1" if is_redacted else "perplexity_per_word",
        minutes=minutes_of(corpus, method),
        headline=place in ("table2", "table3"),
    )


def _with(cell: Cell, settings: Mapping[str, str]) -> Cell:
    if not isinstance(cell.run, Train):
        raise TypeError(cell.identity)
    return replace(cell, run=replace(cell.run, small={**cell.run.small, **settings}))


def _table2() -> list[Cell]:
    printed = {
        ("redacted", "low_contextual"): "37.90",
        ("jft", "low_contextual"): "25.62",
        ("redacted", "high_contextual"): "54.29",
        ("jft", "high_contextual"): "27.19",
    }
    cells = [
        _wiki("table2", "WikiText-2, No-DP", "no_dp", "20.48"),
        replace(_wiki("table2", "WikiText-2, DPSGD", "dpsgd", "27.05", train__added_tokens="false"), headline=False),
        _wiki("table2", "WikiText-2, DPSGD (+spe)", "dpsgd", "30.32"),
    ]
    for level in LEVELS:
        for name, method in (("redacted", "redacted"), ("jft", "jft/direct")):
            title = f"WikiText-2, {name}, {level.replace('_', ' ')}"
            cell = _with(_wiki("table2", title, method, printed.get((name, level), "")), _level(level))
            cells.append(replace(cell, headline=level != "low_entity"))
    cells += [
        _wiki("table2", "dialogue, No-DP", "no_dp", corpus="customersim"),
        _wiki("table2", "dialogue, DPSGD", "dpsgd", "8.31", corpus="customersim"),
        _wiki("table2", "dialogue, redacted", "redacted", corpus="customersim"),
        _wiki("table2", "dialogue, jft", "jft/direct", corpus="customersim"),
    ]
    starts = {"WikiText-2": ("wikitext", "30.08"), "dialogue": ("customersim", "13.60")}
    cells += [
        replace(
            _with(
                _wiki("table2", f"{name}, no fine-tuning", "jft/direct", printed_, corpus=corpus),
                _level("high_entity") if corpus == "wikitext" else {},
            ),
            measure="perplexity_per_word_before_phase_1",
        )
        for name, (corpus, printed_) in starts.items()
    ]
    glue = {"MNLI, redacted, high contextual": "83.23", "MNLI, DPSGD": "82.10", "QQP, all rows": ""}
    cells += [_cell("table2", name, printed=value, unit="% accuracy", run=NO_GLUE) for name, value in glue.items()]
    cells += [
        _qnli("table2", f"QNLI, {name}, {level.replace('_', ' ')}", method, printed, _level(level), minutes=12.0)
        for level, *figures in (("low_contextual", "85.30", "87.99"), ("high_contextual", "82.81", "87.06"))
        for name, method, printed in zip(("redacted", "jft"), ("redacted", "jft/direct"), figures, strict=True)
    ]
    return cells


_classify: Final = partial(_cell, unit="% accuracy", measure="accuracy_percent")


def _sst2(name: str, method: str, printed: str, level: str = "") -> Cell:
    once = {"train.epochs": "1"} if method in ("no_dp", "redacted") else {}
    settings = {**(_level(level) if level else {}), **once, "train.classes": '["negative", "positive"]'}
    return _classify(
        "table2",
        f"SST-2, {name}",
        printed=printed,
        run=Train(corpus="sst2", method=method, model="minilm", small=settings),
        minutes=6.0 if once else 15.0,
        differs="a head on MiniLM (22 million weights, LoRA) for RoBERTa-base; 20,000 phrases; five passes in batches "
        "of 500, without privacy one",
    )


def _qnli(
    place: str,
    name: str,
    method: str,
    printed: str,
    settings: Mapping[str, str],
    *,
    corpus: str = "qnli",
    minutes: float,
) -> Cell:
    small = {"train.classes": '["entailment", "not_entailment"]', **settings}
    return _classify(
        place,
        name,
        printed=printed,
        run=Train(corpus=corpus, method=method, model="minilm", small=small),
        minutes=minutes,
        differs=QNLI,
    )


def _audit(place: str, name: str, method: str, measure: str, *, copies: int) -> Cell:
    once = {"train.epochs": "1"} if method in ("no_dp", "redacted") else {}
    return _cell(
        place,
        name,
        unit="bits",
        measure=measure,
        differs=AUDIT,
        minutes=minutes_of("audit", method),
        run=Audit(corpus="wikitext", method=method, copies=copies, detected=60, small=once, paper=AT_PAPER),
        headline=place == "figure2",
    )


ATTACKED: Final = {  # method and figure; the authors' exposure of ten copies, and of one
    "No-DP": ("no_dp", "exposure_missed", "16.76", "1.24"),
    "DPSGD": ("dpsgd", "exposure_missed", "1.36", "1.27"),
    "CRT": ("crt", "exposure_missed", "1.54", "1.30"),
    "Redacted (missed)": ("redacted", "exposure_missed", "19.93", "1.79"),
    "Redacted (not missed)": ("redacted", "exposure_found", "0.29", "0.27"),
    "jft (missed)": ("jft/direct", "exposure_missed", "2.79", "0.66"),
    "jft (not missed)": ("jft/direct", "exposure_found", "0.55", "0.42"),
    "jft + light noise (missed)": ("jft/conservative_light_noise", "exposure_missed", "0.76", "0.54"),
}


def _attacks() -> list[Cell]:
    cells = []
    for name, (method, measure, *authors) in ATTACKED.items():
        for place, copies, theirs in zip(("figure2", "figure3"), (10, 1), authors, strict=True):
            cells.append(replace(_audit(place, name, method, measure, copies=copies), authors=theirs))
    for recall, rate in ((0.4, 0.5), (0.6, 0.3)):  # the audit simulates misses of a half and of three tenths
        for name, method in (
            ("Redacted", "redacted"),
            ("jft", "jft/direct"),
            ("jft + light noise", "jft/conservative_light_noise"),
        ):
            cell = _audit("figure4", f"{name}, recall {recall}", method, f"mean_exposure_at_{rate}", copies=1)
            cells.append(replace(cell, differs=f"{AUDIT}; recall {1 - rate}"))
    cells += [
        _audit("figure4", name, method, "exposure_missed", copies=1)
        for name, method in (("No-DP", "no_dp"), ("DPSGD", "dpsgd"))
    ]
    return cells


SCREENED: Final = {"sample.screening_fraction": "0.02", "train.jft_phase1_epochs": "5"}
CELLS: Final[tuple[Cell, ...]] = (
    *_table2(),
    _sst2("No-DP", "no_dp", "94.8"),
    _sst2("DPSGD", "dpsgd", "86.12"),
    _sst2("redacted, high contextual", "redacted", "91.17", "high_contextual"),
    _sst2("jft, high contextual", "jft/direct", "", "high_contextual"),
    _wiki("table3", "WikiText-2, jft + light noise", "jft/light_noise", "25.21"),
    _wiki("table3", "WikiText-2, jft + light conservative noise", "jft/conservative_light_noise", "26.59"),
    _wiki("table3", "WikiText-2, DPSGD", "dpsgd", "27.05"),
    _wiki("table3", "dialogue, jft + light noise", "jft/light_noise", "5.78", corpus="customersim"),
    _wiki(
        "table3",
        "dialogue, jft + light conservative noise",
        "jft/conservative_light_noise",
        "6.64",
        corpus="customersim",
    ),
    *(
        replace(
            _with(_wiki("table4", f"{name}, jft + manual screening", "jft/manual_screening", corpus=corpus), SCREENED),
            differs=f"{DIALOGUE if corpus == 'customersim' else BASE}; a fiftieth of the rows for a thousandth, and an "
            "oracle (Presidio) for the people who screen them",
        )
        for name, corpus in (("WikiText-2", "wikitext"), ("dialogue", "customersim"))
    ),
    *(
        _wiki("text", f"ABCD, {name}", method, printed, corpus="abcd")
        for name, method, printed in (
            ("No-DP", "no_dp", ""),
            ("DPSGD", "dpsgd", "8.31"),
            ("redacted", "redacted", ""),
            ("jft", "jft/direct", ""),
            ("jft + light noise", "jft/light_noise", "5.78"),
            ("jft + light conservative noise", "jft/conservative_light_noise", "6.64"),
        )
    ),
    *(
        _with(_wiki("table6", f"WikiText-2, {name}, {level.replace('_', ' ')}", method), _level(level))
        for level in LEVELS
        for name, method in (("CRT", "crt"), ("jft", "jft/direct"))
    ),
    _wiki("table6", "dialogue, CRT", "crt", corpus="customersim"),
    _wiki("table6", "dialogue, jft", "jft/direct", corpus="customersim"),
    *(
        _with(
            _wiki("table7", f"batch {batch}, {epochs} epochs", "dpsgd", printed),
            {"train.expected_batch_size": batch, "train.epochs": short, "train.added_tokens": "false"},
        )
        for batch, epochs, short, printed in (
            ("256", "200", "4", "27.04"),
            ("512", "200", "4", "27.05"),
            ("1024", "200", "4", "27.18"),
            ("1024", "600", "12", "27.01"),
            ("1024", "10", "1", "28.84"),
        )
    ),
    *(
        _qnli("table8", f"QNLI, {name}", method, printed, LOW_QNLI, corpus="qnli_100", minutes=2.0)
        for name, method, printed in (
            ("redacted", "redacted", "66.5"),
            ("jft", "jft/direct", "67.49"),
            ("DPSGD", "dpsgd", "50.54"),
        )
    ),
    *(
        _with(_wiki("table8", f"WikiText-2, {name}", method, corpus="wikitext_100"), LOW)
        for name, method in (("redacted", "redacted"), ("DPSGD", "dpsgd"), ("jft", "jft/direct"))
    ),
    *_attacks(),
)
