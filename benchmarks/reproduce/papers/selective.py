"""Selective DP: Tables 2 and 3, Figures 3 to 8. Table 1 shows a dialogue, Figures 1 and 2 show no result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from benchmarks.reproduce.cells import Audit, Cell, Compute, Recorded, Secrets, Train, cells_of

from .crt import LSTM_SHAPE, NO_SECRETS, SPEAKERS, UNNOISED
from .jft import BASE, minutes_of

P: Final = "selective"
_cell: Final = cells_of(P)
_TRAINED: Final = (
    "from random weights; a sample for all records; a vocabulary learnt on rows "
    "without secrets, of 2,000 tokens; sentences as records; four passes of 40 private steps in all; No-DP by AdamW "
    "for SGD at 20 with a falling step size; three trainings for five"
)
LSTM: Final = f"LSTM of width 200 as in the paper, {_TRAINED}"
DIFFERS: Final = {"lstm": LSTM, "gru": f"GRU of width 200 for the paper's LSTM, {_TRAINED}"}
TUNED: Final = "step sizes of SGD chosen by held-out perplexity"
ADAM: Final = "DPSGD by AdamW, which the paper does not have"
BUT_SECRETS: Final = ", words outside secrets"
SDP: Final = {  # step sizes: public, private; more of them in the page's notes
    "WikiText-2": {"train.public_learning_rate": "5", "train.private_learning_rate": "1000", "train.epochs": "4"},
    "CustomerSim": {"train.public_learning_rate": "5", "train.private_learning_rate": "20", "train.epochs": "4"},
}
DPSGD: Final = {
    "WikiText-2": {"train.optimizer": "sgd", "train.private_learning_rate": "300", "train.epochs": "4"},
    "CustomerSim": {"train.optimizer": "sgd", "train.private_learning_rate": "4000", "train.epochs": "4"},
}
BY_ADAM: Final = {"train.optimizer": "adamw", "train.private_learning_rate": "5e-3"}
MINUTES: Final = {"no_dp": 1.5, "anonymized": 1.5, "dpsgd": 2.0, "sdpsgd_lstm": 2.5}
CORPORA: Final = {
    "WikiText-2": ("wikitext_digits", {"no_dp": "60.98", "dpsgd": "305.86", "sdpsgd_lstm": "160.04"}),
    "CustomerSim": ("customersim", {"no_dp": "3.06", "dpsgd": "11.82", "sdpsgd_lstm": "10.42"}),
}
NOISE: Final = {  # σ and C of Table 2
    ("WikiText-2", "dpsgd"): ("0.5", "0.1"),
    ("WikiText-2", "sdpsgd_lstm"): ("0.5", "1e-3"),
    ("CustomerSim", "dpsgd"): ("0.6", "0.01"),
    ("CustomerSim", "sdpsgd_lstm"): ("0.7", "5e-3"),
}
NAMES: Final = {"no_dp": "No-DP", "dpsgd": "DPSGD", "sdpsgd_lstm": "S-DPSGD", "anonymized": "anonymised"}
ATTACKED: Final = ("no_dp", "dpsgd", "sdpsgd_lstm")
STEP: Final = "the paper's S-DPSGD takes credit for sampling; here one step without it, the least that is sound"
MOMENTS: Final = {
    "WikiText-2": "100 epochs in batches of 7 pieces of 35 tokens, by the authors' README; 9,994 batches are GPT-2's "
    "tokens of the release with `<unk>` and ten canaries; Opacus' accountant of 2021, by PLD 3.35",
    "CustomerSim": "100 epochs of single dialogues, by the authors' README: 10,000 and ten canaries; Opacus' "
    "accountant of 2021, by PLD 1.68",
}


def _settings(corpus: str, method: str, **more: str) -> dict[str, str]:
    noise, clip = NOISE.get((corpus, method), ("", ""))
    private = {"train.noise_multiplier": noise, "train.max_grad_norm": clip} if noise else {}
    if method == "sdpsgd_lstm":
        private |= {"train.max_state_norm": clip, **SDP[corpus]}
    elif method == "dpsgd":
        private |= DPSGD[corpus]
    else:
        private = UNNOISED
    return {**LSTM_SHAPE, **private, **SPEAKERS[corpus], **more}


def _lstm(
    place: str, name: str, corpus: str, method: str, printed: str = "", *, model: str = "lstm", **more: str
) -> Cell:
    source, _ = CORPORA[corpus]
    return _cell(
        place,
        name,
        printed=printed,
        differs=f"{DIFFERS[model]}; {TUNED}" if method in ("dpsgd", "sdpsgd_lstm") else DIFFERS[model],
        minutes=MINUTES[method],
        run=Train(
            corpus=source,
            method=method,
            model=model,
            small=_settings(corpus, method, **more),
            paper={"train.epochs": "50"},
        ),
        headline=place == "table2",
    )


GRU: Final = {  # step sizes
    "dpsgd": {"train.private_learning_rate": "1000"},
    "sdpsgd_lstm": {"train.public_learning_rate": "2", "train.private_learning_rate": "5"},
}

EXPOSED: Final = {  # the last checkpoint of the authors' results, in the mean over their seeds
    ("figure3", "no_dp"): "19.93",
    ("figure3", "dpsgd"): "0.55",
    ("figure3", "sdpsgd_lstm"): "0.73",
    ("figure4", "no_dp"): "19.93",
    ("figure4", "sdpsgd_lstm"): "1.11",
    ("figure6", "anonymized"): "19.93",
    ("figure6", "sdpsgd_lstm"): "5.50",
}


def _attack(place: str, corpus: str, method: str, measure: str = "exposure_found") -> Cell:
    source, _ = CORPORA[corpus]
    name = "exposure of a missed canary" if measure == "exposure_missed" else "exposure"
    return _cell(
        place,
        f"{name}, {NAMES[method]}",
        authors=EXPOSED.get((place, method), ""),
        unit="bits",
        measure=measure,
        differs=f"{LSTM}; sixty canaries that the policy misses and sixty that it finds, of which a coin inserts half, "
        "for one",
        minutes=2 * MINUTES[method],
        run=Audit(corpus=source, method=method, model="lstm", small=_settings(corpus, method), copies=10, detected=60),
    )


ABOVE: Final = "above what texts alone tell"
ASKED: Final = (
    f"{LSTM}; as many distinct secrets of the training text as there are, up to 500 of either kind, and made-up ones; "
    "the threshold is chosen on half of them, and measured on the other half"
)
OF_NAMES: Final = f"{ASKED}; of all secrets the surest 30 % are kept without a look at the truth"


def membership(place: str, corpus: str, method: str, what: str, measure: str, **fields: Any) -> Cell:
    """Returns a cell about single secrets of a training of Table 2."""
    return _cell(
        place,
        f"{what}, {NAMES[method]}",
        measure=measure,
        minutes=MINUTES[method],
        run=Secrets(corpus=CORPORA[corpus][0], method=method, model="lstm", small=_settings(corpus, method)),
        **fields,
    )


def _single_secrets() -> list[Cell]:
    """Returns the cells of Figures 3 (c), 4 (c) and 8."""
    digits, names, percent = "DIGITS, alone", "NAME, alone", "% accuracy"
    theirs = {"no_dp": ("90", ""), "dpsgd": ("", "67.4"), "sdpsgd_lstm": ("", "76.2")}
    cells = []
    for method in ATTACKED:
        printed, authors = theirs[method]
        told = {"printed": printed, "authors": authors, "differs": ASKED}
        cells += [
            membership("figure3", "WikiText-2", method, "digits", f"accuracy of {digits}", unit=percent, **told),
            membership("figure3", "WikiText-2", method, f"digits {ABOVE}", f"above texts of {digits}", unit="AUC"),
            membership(
                *("figure4", "CustomerSim", method, "names, the surest", f"surest of {names}"),
                **{"unit": percent, "differs": OF_NAMES, "printed": "60" if method == "no_dp" else ""},
            ),
            membership("figure4", "CustomerSim", method, f"names {ABOVE}", f"above texts of {names}", unit="AUC"),
            membership(
                *("figure8", "CustomerSim", method, "names", f"accuracy of {names}"),
                **{"unit": percent, "differs": ASKED, "printed": "58" if method == "no_dp" else ""},
            ),
        ]
    return cells


TABLE3: Final = {
    "GPT2 + no DP": ("no_dp", "", "20.47"),
    "DPSGD": ("dpsgd", "", "27.05"),
    "Redacted, all entities": ("redacted", "high_entity", "24.30"),
    "S-DP, all entities": ("jft/direct", "high_entity", "22.56"),
    "Redacted, contextual": ("redacted", "low_contextual", "38.66"),
    "S-DP, contextual": ("jft/direct", "low_contextual", "25.61"),
}


def _level(level: str) -> dict[str, str]:
    return {"redact.policies": f'["{level}"]', "redact.conservative": level} if level else {}


CELLS: Final[tuple[Cell, ...]] = (
    *(
        _lstm("table2", f"{corpus}, {NAMES[method]}", corpus, method, printed)
        for corpus, (_, figures) in CORPORA.items()
        for method, printed in figures.items()
    ),
    *(
        replace(_lstm("table2", f"{corpus}, DPSGD by AdamW", corpus, "dpsgd", **BY_ADAM), differs=f"{LSTM}; {ADAM}")
        for corpus in CORPORA
    ),
    *(
        replace(_lstm("table2", f"{corpus}, {NAMES[method]}{BUT_SECRETS}", corpus, method), **NO_SECRETS)
        for corpus in CORPORA
        for method in ("dpsgd", "sdpsgd_lstm")
    ),
    *(
        _lstm("text", f"CustomerSim, {NAMES[method]}, a GRU", "CustomerSim", method, model="gru", **sizes)
        for method, sizes in GRU.items()
    ),
    *(
        _cell(
            "table2",
            f"{corpus}, ε of S-DPSGD, σ = {noise}",
            printed=printed,
            unit="ε",
            measure="epsilon",
            run=Compute(function="unsampled_step", arguments={"noise": noise, "delta": 8e-5}),
            exact=True,
            headline=True,
            differs=STEP,
            minutes=0.1,
        )
        for corpus, noise, printed in (("WikiText-2", 0.5, "4.91"), ("CustomerSim", 0.7, "2.74"))
    ),
    *(
        _cell(
            "table2",
            f"{corpus}, ε of DPSGD",
            printed=printed,
            unit="ε",
            measure="epsilon",
            run=Compute(
                function="moments_epsilon",
                arguments={"noise": noise, "batches": batches, "epochs": 100.0, "delta": 8e-5},
            ),
            exact=True,
            differs=MOMENTS[corpus],
            minutes=0.1,
        )
        for corpus, noise, batches, printed in (
            ("WikiText-2", 0.5, 9_994.0, "4.89"),
            ("CustomerSim", 0.6, 10_010.0, "2.51"),
        )
    ),
    *(
        _cell(
            "table3",
            name,
            printed=printed,
            minutes=minutes_of("wikitext", method),
            run=Train(
                corpus="wikitext",
                method="jft/direct" if method == "redacted" else method,
                small=_level(level) if level else {"train.epochs": "1"} if method == "no_dp" else {},
            ),
            measure="perplexity_per_word_after_phase_1" if method == "redacted" else "perplexity_per_word",
            differs=BASE,
            headline=True,
        )
        for name, (method, level, printed) in TABLE3.items()
    ),
    *(
        _lstm("figure3", f"DPSGD, σ = {noise}", "WikiText-2", "dpsgd", printed, **{"train.noise_multiplier": noise})
        for noise, printed in (("0.25", "266.6"), ("0.5", ""))
    ),
    *(
        _lstm(
            "figure3",
            f"DPSGD, σ = 0.25, step size {rate}",
            "WikiText-2",
            "dpsgd",
            **{"train.noise_multiplier": "0.25", "train.private_learning_rate": rate},
        )
        for rate in ("100", "1000")
    ),
    *(_attack("figure3", "WikiText-2", method) for method in ATTACKED),
    *(_attack("figure4", "CustomerSim", method) for method in ATTACKED),
    *_single_secrets(),
    *(
        _cell(
            place,
            f"the authors' {name}, by a classifier that sees texts alone",
            unit="% accuracy",
            measure="accuracy_percent",
            run=Recorded(
                function="authors_list",
                command="python -m benchmarks.reproduce.candidates --data-dir DATA",
                arguments={"name": name},
            ),
            minutes=0.0,
        )
        for place, name in (
            ("figure3", "digits"),
            ("figure8", "first names"),
            ("figure4", "first names kept by the truth"),
        )
    ),
    _cell(
        "text",
        "names kept by the truth, a model that knows nothing",
        unit="% accuracy",
        measure="accuracy_percent",
        run=Compute(function="kept_by_truth", arguments={"num": 500.0, "share": 0.4}),
        differs="500 names of either kind with random scores, of which the authors' script keeps two fifths",
        minutes=0.1,
    ),
    *(
        replace(
            _lstm("figure5", f"digits, {NAMES[method]}", "WikiText-2", method),
            measure="private_perplexity",
            unit="perplexity a token of digits",
        )
        for method in ("anonymized", "sdpsgd_lstm")
    ),
    *(_attack("figure6", "WikiText-2", method, "exposure_missed") for method in ("anonymized", "sdpsgd_lstm")),
    *(
        _lstm(
            "figure7",
            f"S-DPSGD, σ = {noise}, C = {clip}",
            "WikiText-2",
            "sdpsgd_lstm",
            **{"train.noise_multiplier": noise, "train.max_grad_norm": clip, "train.max_state_norm": clip},
        )
        for noise, clip in (("0.5", "0.01"), ("0.5", "1e-3"), ("0.5", "5e-6"), ("0.1", "1e-3"))
    ),
)
