"""JFT: Tables 2, 3, 4, 6, 7, 8 and Figures 2, 3, 4.

The copy at hand has the paper's text without the bodies of its tables, so a cell has the paper's figure where the text
names it. Table 1 shows examples, Table 5 the range of the search; neither holds a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from benchmarks.reproduce.cells import Audit, Cell, Impossible, Run, Train
from benchmarks.reproduce.verdicts import Alike, Below, Claim, Ordering

P: Final = "jft"
BASE: Final = (
    "the small GPT-2 for GPT-2; a sample for all of WikiText-2; sentences for blocks as records; nothing tuned"
)
DIALOGUE: Final = "CustomerSim for ABCD; the small GPT-2, which saw no dialogue, for GPT-2; a sample; turns as records"
AUDIT: Final = f"{BASE}; sixty canaries, of which a coin inserts half, for one; exposure among 10,000 candidates"
AT_PAPER: Final = {"train.epochs": "20", "train.jft_phase1_epochs": "5", "train.expected_batch_size": "512"}
LOW: Final = {"train.epochs": "20", "train.expected_batch_size": "50"}
LEVELS: Final = ("low_entity", "high_entity", "low_contextual", "high_contextual")
NO_GLUE: Final = Impossible(reason="its data (GLUE's MNLI, QQP, QNLI) and RoBERTa are not at hand")


def _level(level: str) -> dict[str, str]:
    return {"redact.policies": f'["{level}"]', "redact.conservative": level}


def _wiki(place: str, name: str, method: str, printed: str = "", *, corpus: str = "wikitext", **more: str) -> Cell:
    settings = {key.replace("__", "."): value for key, value in more.items()}
    return Cell(
        paper=P,
        place=place,
        name=name,
        printed=printed,
        differs=DIALOGUE if corpus == "customersim" else BASE,
        run=Train(corpus=corpus, method=method, small=settings, paper=AT_PAPER),
        minutes=4.0 if method in ("no_dp", "redacted") else 8.0,
        headline=place in ("table2", "table3") and corpus == "wikitext" and "low entity" not in name,
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
        _wiki("table2", "WikiText-2, DPSGD", "dpsgd", "27.05", train__added_tokens="false"),
        _wiki("table2", "WikiText-2, DPSGD (+spe)", "dpsgd", "30.32"),
    ]
    for level in LEVELS:
        for name, method in (("redacted", "redacted"), ("jft", "jft/direct")):
            title = f"WikiText-2, {name}, {level.replace('_', ' ')}"
            cells.append(_with(_wiki("table2", title, method, printed.get((name, level), "")), _level(level)))
    cells += [
        _wiki("table2", "dialogue, No-DP", "no_dp", corpus="customersim"),
        _wiki("table2", "dialogue, DPSGD", "dpsgd", "8.31", corpus="customersim"),
        _wiki("table2", "dialogue, redacted", "redacted", corpus="customersim"),
        _wiki("table2", "dialogue, jft", "jft/direct", corpus="customersim"),
    ]
    starts: dict[str, tuple[str, Run]] = {
        "WikiText-2, no fine-tuning": ("30.08", Train(corpus="wikitext", method="no_dp", paper=AT_PAPER)),
        "dialogue, no fine-tuning": ("13.60", Train(corpus="customersim", method="no_dp", paper=AT_PAPER)),
    }
    cells += [
        Cell(
            paper=P,
            place="table2",
            name=name,
            printed=printed_,
            run=run,
            measure="perplexity_at_initialisation",
            unit="perplexity (ours by token)",
            differs=BASE,
            minutes=4.0,
        )
        for name, (printed_, run) in starts.items()
    ]
    glue = {
        "MNLI, redacted, high contextual": "83.23",
        "MNLI, DPSGD": "82.10",
        "QNLI, redacted, low contextual": "85.30",
        "QNLI, jft, low contextual": "87.99",
        "QNLI, redacted, high contextual": "82.81",
        "QNLI, jft, high contextual": "87.06",
        "QQP, all rows": "",
    }
    cells += [
        Cell(paper=P, place="table2", name=name, printed=value, unit="% accuracy", run=NO_GLUE)
        for name, value in glue.items()
    ]
    return cells


def _sst2(name: str, method: str, printed: str, level: str = "") -> Cell:
    settings = {**(_level(level) if level else {}), "train.classes": '["negative", "positive"]'}
    return Cell(
        paper=P,
        place="table2",
        name=f"SST-2, {name}",
        printed=printed,
        unit="% accuracy",
        measure="accuracy_percent",
        run=Train(corpus="sst2", method=method, model="minilm", small=settings),
        minutes=15.0,
        differs="a head on MiniLM (22 million weights, LoRA) for RoBERTa-base; 10,000 phrases",
    )


def _audit(place: str, name: str, method: str, measure: str, *, copies: int, detected: int = 0) -> Cell:
    epochs = {"train.epochs": "4", "train.jft_phase1_epochs": "4"}
    return Cell(
        paper=P,
        place=place,
        name=name,
        unit="bits",
        measure=measure,
        differs=AUDIT,
        minutes=12.0,
        run=Audit(corpus="wikitext", method=method, copies=copies, detected=detected, small=epochs, paper=AT_PAPER),
        headline=place == "figure2",
    )


_ATTACKED: Final = {
    "No-DP": ("no_dp", "exposure_missed"),
    "DPSGD": ("dpsgd", "exposure_missed"),
    "CRT": ("crt", "exposure_missed"),
    "Redacted (missed)": ("redacted", "exposure_missed"),
    "Redacted (not missed)": ("redacted", "exposure_found"),
    "jft (missed)": ("jft/direct", "exposure_missed"),
    "jft (not missed)": ("jft/direct", "exposure_found"),
    "jft + light noise (missed)": ("jft/conservative_light_noise", "exposure_missed"),
}


def _attacks() -> list[Cell]:
    cells = []
    for place, copies in (("figure2", 10), ("figure3", 1)):
        for name, (method, measure) in _ATTACKED.items():
            detected = 60 if measure == "exposure_found" or method == "redacted" else 0
            cells.append(_audit(place, name, method, measure, copies=copies, detected=detected))
    for recall, rate in ((0.4, 0.5), (0.6, 0.3)):  # the audit simulates misses of a half and of three tenths
        for name, method in (
            ("Redacted", "redacted"),
            ("jft", "jft/direct"),
            ("jft + light noise", "jft/conservative_light_noise"),
        ):
            cell = _audit(
                "figure4", f"{name}, recall {recall}", method, f"mean_exposure_at_{rate}", copies=1, detected=60
            )
            cells.append(replace(cell, differs=f"{AUDIT}; recall {1 - rate}"))
    cells += [
        _audit("figure4", name, method, "exposure_missed", copies=1)
        for name, method in (("No-DP", "no_dp"), ("DPSGD", "dpsgd"))
    ]
    return cells


def _light(place: str, corpus: str, name: str, method: str, printed: str) -> Cell:
    return _wiki(place, name, method, printed, corpus=corpus)


SCREENED: Final = {"sample.screening_fraction": "0.05", "train.jft_variant": "manual_screening"}
CELLS: Final[tuple[Cell, ...]] = (
    *_table2(),
    _sst2("No-DP", "no_dp", "94.8"),
    _sst2("DPSGD", "dpsgd", "86.12"),
    _sst2("redacted, high contextual", "redacted", "91.17", "high_contextual"),
    _sst2("jft, high contextual", "jft/direct", "", "high_contextual"),
    _light("table3", "wikitext", "WikiText-2, jft + light noise", "jft/light_noise", "25.21"),
    _light("table3", "wikitext", "WikiText-2, jft + light conservative noise", "jft/conservative_light_noise", "26.59"),
    _light("table3", "wikitext", "WikiText-2, DPSGD", "dpsgd", "27.05"),
    _light("table3", "customersim", "dialogue, jft + light noise", "jft/light_noise", "5.78"),
    _light("table3", "customersim", "dialogue, jft + light conservative noise", "jft/conservative_light_noise", "6.64"),
    *(
        Cell(
            paper=P,
            place="table4",
            name=name,
            run=Impossible(
                reason="people, or an oracle in their place, have to screen a sample first: `methods_table.py "
                "--only jft/manual_screening` has such a row on models from random weights"
            ),
        )
        for name in ("WikiText-2, jft + manual screening", "dialogue, jft + manual screening")
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
            ("256", "200", "8", "27.04"),
            ("512", "200", "8", "27.05"),
            ("1024", "200", "8", "27.18"),
            ("1024", "600", "24", "27.01"),
            ("1024", "10", "1", "28.84"),
        )
    ),
    *(
        Cell(paper=P, place="table8", name=name, printed=printed, unit="% accuracy", run=NO_GLUE)
        for name, printed in (
            ("QNLI, redacted", "66.5"),
            ("QNLI, jft", "67.49"),
            ("QNLI, DPSGD", "50.54"),
        )
    ),
    *(
        _with(_wiki("table8", f"WikiText-2, {name}", method, corpus="wikitext_100"), LOW)
        for name, method in (("redacted", "redacted"), ("DPSGD", "dpsgd"), ("jft", "jft/direct"))
    ),
    *_attacks(),
)


def _t2(name: str) -> str:
    return f"{P}/table2/{name}"


CLAIMS: Final[tuple[Claim, ...]] = (
    Claim(
        paper=P,
        text="Without privacy, fine-tuning is better than jft (WikiText-2)",
        headline=True,
        rules=(
            Ordering(_t2("WikiText-2, No-DP"), _t2("WikiText-2, jft, high entity")),
            Ordering(_t2("WikiText-2, No-DP"), _t2("WikiText-2, jft, low contextual")),
        ),
    ),
    Claim(
        paper=P,
        text="At equal ε, jft is better than DPSGD with the same added tokens, at every level up to low contextual",
        headline=True,
        rules=tuple(
            Ordering(_t2(f"WikiText-2, jft, {level}"), _t2("WikiText-2, DPSGD (+spe)"))
            for level in ("low entity", "high entity", "low contextual")
        ),
    ),
    Claim(
        paper=P,
        text="jft with the high contextual detector is on par with DPSGD",
        rules=(Alike(_t2("WikiText-2, jft, high contextual"), _t2("WikiText-2, DPSGD"), 0.05),),
    ),
    Claim(
        paper=P,
        text="Private fine-tuning improves on the redacted model (low and high contextual)",
        headline=True,
        rules=(
            Ordering(_t2("WikiText-2, jft, low contextual"), _t2("WikiText-2, redacted, low contextual")),
            Ordering(_t2("WikiText-2, jft, high contextual"), _t2("WikiText-2, redacted, high contextual")),
        ),
    ),
    Claim(
        paper=P,
        text="Added special tokens cost DPSGD perplexity",
        rules=(Ordering(_t2("WikiText-2, DPSGD"), _t2("WikiText-2, DPSGD (+spe)")),),
    ),
    Claim(
        paper=P,
        text="jft with light noise, conservative or not, is better than DPSGD",
        headline=True,
        rules=(
            Ordering(f"{P}/table3/WikiText-2, jft + light noise", f"{P}/table3/WikiText-2, DPSGD"),
            Ordering(f"{P}/table3/WikiText-2, jft + light conservative noise", f"{P}/table3/WikiText-2, DPSGD"),
        ),
    ),
    Claim(
        paper=P,
        text="On dialogues jft and light noise are better than DPSGD",
        rules=(
            Ordering(_t2("dialogue, jft"), _t2("dialogue, DPSGD")),
            Ordering(f"{P}/table3/dialogue, jft + light noise", _t2("dialogue, DPSGD")),
            Ordering(f"{P}/table3/dialogue, jft + light conservative noise", _t2("dialogue, DPSGD")),
        ),
    ),
    Claim(
        paper=P,
        text="With the same noise, jft is better than CRT (high entity, low contextual)",
        rules=tuple(
            Ordering(f"{P}/table6/WikiText-2, jft, {level}", f"{P}/table6/WikiText-2, CRT, {level}")
            for level in ("high entity", "low contextual")
        ),
    ),
    Claim(
        paper=P,
        text="On a hundred records the redacted model is better than DPSGD",
        rules=(Ordering(f"{P}/table8/WikiText-2, redacted", f"{P}/table8/WikiText-2, DPSGD"),),
    ),
    Claim(
        paper=P,
        text="Redacted text teaches SST-2 better than DPSGD does",
        rules=(Ordering(_t2("SST-2, DPSGD"), _t2("SST-2, redacted, high contextual")),),
    ),
    Claim(
        paper=P,
        text="Ten copies: no privacy memorises a canary, DPSGD does not",
        headline=True,
        rules=(Ordering(f"{P}/figure2/DPSGD", f"{P}/figure2/No-DP"), Below(f"{P}/figure2/DPSGD", 3.0)),
    ),
    Claim(
        paper=P,
        text="A missed canary is memorised by the redacted model and by jft, and not with light noise",
        headline=True,
        rules=(
            Ordering(f"{P}/figure2/Redacted (not missed)", f"{P}/figure2/Redacted (missed)"),
            Ordering(f"{P}/figure2/jft + light noise (missed)", f"{P}/figure2/jft (missed)"),
        ),
    ),
    Claim(
        paper=P,
        text="Inserted once, no canary is exposed by more than 3 bits, without privacy either",
        rules=tuple(Below(f"{P}/figure3/{name}", 3.0) for name in _ATTACKED),
    ),
    Claim(
        paper=P,
        text="Ten canaries once: a detector of recall 0.6 leaves less exposure than one of 0.4",
        rules=(Ordering(f"{P}/figure4/jft, recall 0.6", f"{P}/figure4/jft, recall 0.4"),),
    ),
)
