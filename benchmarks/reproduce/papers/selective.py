"""Selective DP: Tables 2 and 3, Figures 3 to 8. Table 1 shows a dialogue, Figures 1 and 2 show no result."""

from __future__ import annotations

from typing import Final

from benchmarks.reproduce.cells import Audit, Cell, Compute, Impossible, Train
from benchmarks.reproduce.verdicts import Claim, Number, Ordering

P: Final = "selective"
DELTA: Final = "8e-5"
LSTM: Final = (
    "LSTM of width 200 as in the paper, from random weights; 2,500 records for all; a vocabulary learnt on rows "
    "without secrets, of 2,000 tokens; sentences as records; no step size tuned"
)
SHAPE: Final = {
    "train.embedding_size": "200",
    "train.tokenizer": "bpe_public",
    "train.vocab_size": "2000",
    "train.target_delta": DELTA,
    "train.target_epsilon": "",
    "train.context_length": "128",
}
NO_DP: Final = {"train.public_learning_rate": "5e-3", "train.epochs": "12"}
SDP: Final = {"train.public_learning_rate": "1.0", "train.private_learning_rate": "0.1"}
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
NAMES: Final = {"no_dp": "No-DP", "dpsgd": "DPSGD", "sdpsgd_lstm": "S-DPSGD"}
NO_CREDIT: Final = (
    "a single private update costs more than that without credit for sampling, and none is due: a record's public "
    "tokens show which records a step read ([methods](methods.md#selective-dpsgd-takes-no-credit-for-sampling))"
)
STEP: Final = "the paper's S-DPSGD takes credit for sampling; here one step without it, the least that is sound"


def _settings(corpus: str, method: str, **more: str) -> dict[str, str]:
    noise, clip = NOISE.get((corpus, method), ("", ""))
    private = {"train.noise_multiplier": noise, "train.max_grad_norm": clip} if noise else {}
    if method == "sdpsgd_lstm":
        private |= {"train.max_state_norm": clip, **SDP}
    speakers = {"train.speakers": '["SYS", "USR"]'} if corpus == "CustomerSim" else {}
    return {**SHAPE, **(NO_DP if method == "no_dp" else {}), **private, **speakers, **more}


def _lstm(place: str, name: str, corpus: str, method: str, printed: str = "", **more: str) -> Cell:
    source, _ = CORPORA[corpus]
    return Cell(
        paper=P,
        place=place,
        name=name,
        printed=printed,
        differs=LSTM,
        minutes=15.0 if method == "sdpsgd_lstm" else 6.0,
        run=Train(
            corpus=source,
            method=method,
            model="lstm",
            small=_settings(corpus, method, **more),
            paper={"train.epochs": "50"},
        ),
        headline=place == "table2",
    )


def _attack(place: str, corpus: str, method: str) -> Cell:
    source, _ = CORPORA[corpus]
    return Cell(
        paper=P,
        place=place,
        name=f"exposure, {NAMES[method]}",
        unit="bits",
        measure="exposure_missed",
        differs=f"{LSTM}; sixty canaries, of which a coin inserts half, for one",
        minutes=20.0,
        run=Audit(corpus=source, method=method, model="lstm", small=_settings(corpus, method), copies=10),
    )


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
    Cell(
        paper=P,
        place="table2",
        name="WikiText-2, ε of S-DPSGD, σ = 0.5",
        printed="4.91",
        unit="ε",
        measure="epsilon",
        run=Compute(function="unsampled_step", arguments={"noise": 0.5, "delta": 8e-5}),
        exact=True,
        headline=True,
        differs=STEP,
        minutes=0.1,
    ),
    Cell(
        paper=P,
        place="table2",
        name="CustomerSim, ε of S-DPSGD, σ = 0.7",
        printed="2.74",
        unit="ε",
        measure="epsilon",
        run=Compute(function="unsampled_step", arguments={"noise": 0.7, "delta": 8e-5}),
        exact=True,
        headline=True,
        differs=STEP,
        minutes=0.1,
    ),
    *(
        Cell(
            paper=P,
            place="table2",
            name=f"{corpus}, ε of DPSGD",
            printed=printed,
            unit="ε",
            run=Impossible(
                reason="it follows from batch size and number of steps, which the copy of the paper does not have"
            ),
        )
        for corpus, printed in (("WikiText-2", "4.89"), ("CustomerSim", "2.51"))
    ),
    *(
        Cell(
            paper=P,
            place="table3",
            name=name,
            printed=printed,
            minutes=6.0,
            run=Train(corpus="wikitext", method=method, small=_level(level)),
            differs="the small GPT-2 for GPT-2; a sample of WikiText-2; nothing tuned",
        )
        for name, (method, level, printed) in TABLE3.items()
    ),
    *(
        _lstm("figure3", f"DPSGD, σ = {noise}", "WikiText-2", "dpsgd", printed, **{"train.noise_multiplier": noise})
        for noise, printed in (("0.25", "266.6"), ("0.5", ""))
    ),
    *(_attack("figure3", "WikiText-2", method) for method in NAMES),
    *(_attack("figure4", "CustomerSim", method) for method in NAMES),
    *(
        Cell(
            paper=P,
            place=place,
            name=name,
            printed=printed,
            unit="% accuracy",
            run=Impossible(
                reason="membership of single secrets (digits, names) is not what the stage of the audit attacks: it "
                "attacks records"
            ),
        )
        for place, name, printed in (
            ("figure3", "membership, No-DP", "90"),
            ("figure4", "membership, all", "60"),
            ("figure8", "membership, first version", "58"),
        )
    ),
    *(
        Cell(
            paper=P,
            place="figure5",
            name=f"perplexity of digits, {name}",
            measure="private_perplexity",
            run=Impossible(
                reason="`train.utility` scores what the policies found in held-out text; the drawing by ε "
                "needs a run for each point, which is not declared yet"
            ),
        )
        for name in ("anonymised", "S-DPSGD")
    ),
    Cell(
        paper=P,
        place="figure6",
        name="exposure of a missed canary, S-DPSGD",
        unit="bits",
        measure="exposure_missed",
        run=Impossible(
            reason="canaries that the policy misses are public tokens to S-DPSGD; the audit inserts canaries "
            "for it that the policy finds"
        ),
    ),
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


def _t(name: str) -> str:
    return f"{P}/{name}"


CLAIMS: Final[tuple[Claim, ...]] = (
    Claim(
        paper=P,
        text="S-DPSGD has a better perplexity than DPSGD at a similar ε, on both corpora",
        headline=True,
        rules=tuple(Ordering(_t(f"table2/{corpus}, S-DPSGD"), _t(f"table2/{corpus}, DPSGD")) for corpus in CORPORA),
    ),
    Claim(
        paper=P,
        text="No-DP has the best perplexity",
        rules=tuple(Ordering(_t(f"table2/{corpus}, No-DP"), _t(f"table2/{corpus}, S-DPSGD")) for corpus in CORPORA),
    ),
    Claim(
        paper=P,
        text="S-DPSGD spends ε = 4.91 at σ = 0.5 and 2.74 at σ = 0.7",
        headline=True,
        note=NO_CREDIT,
        rules=(
            Number(_t("table2/WikiText-2, ε of S-DPSGD, σ = 0.5")),
            Number(_t("table2/CustomerSim, ε of S-DPSGD, σ = 0.7")),
        ),
    ),
    Claim(
        paper=P,
        text="Transformers: fine-tuning twice is better than the redacted model, and than DPSGD",
        headline=True,
        rules=(
            Ordering(_t("table3/S-DP, all entities"), _t("table3/Redacted, all entities")),
            Ordering(_t("table3/S-DP, contextual"), _t("table3/Redacted, contextual")),
            Ordering(_t("table3/S-DP, all entities"), _t("table3/DPSGD")),
            Ordering(_t("table3/S-DP, contextual"), _t("table3/DPSGD")),
        ),
    ),
    Claim(
        paper=P,
        text="S-DPSGD exposes a canary less than No-DP does",
        rules=tuple(Ordering(_t(f"figure{n}/exposure, S-DPSGD"), _t(f"figure{n}/exposure, No-DP")) for n in (3, 4)),
    ),
    Claim(
        paper=P,
        text="C = 1e-3 is better than 0.01 and than 5e-6",
        rules=(
            Ordering(_t("figure7/S-DPSGD, σ = 0.5, C = 1e-3"), _t("figure7/S-DPSGD, σ = 0.5, C = 0.01")),
            Ordering(_t("figure7/S-DPSGD, σ = 0.5, C = 1e-3"), _t("figure7/S-DPSGD, σ = 0.5, C = 5e-6")),
        ),
    ),
)
