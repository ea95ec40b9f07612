"""CRT: Figures 2 to 6. The paper has no table of results; its text describes the figures without their points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from benchmarks.reproduce.cells import Audit, Cell, Compute, Impossible, Recorded, Secrets, Train, cells_of
from benchmarks.reproduce.verdicts import Above, Alike, Below, Claim, Number, Ordering, claims_of

from .jft import minutes_of
from .jft_claims import DIALOGUE_GAINS, WIKITEXT_GAINS

P: Final = "crt"
_cell: Final = cells_of(P)
_claim: Final = claims_of(P)
BASE: Final = (
    "the small GPT-2 for DistilGPT-2; a sample for all records; sentences as records; CRT takes two passes over both "
    "parts, No-DP one over all, DPSGD two"
)
PAPER_MODEL: Final = "distilbert/distilgpt2"
AT_PAPER: Final = {"train.epochs": "10", "train.private_learning_rate": "5e-4"}
A3: Final = "lr = 5e-4, batch 256, 10 epochs (A.3) at paper scale"
SCRATCH: Final = (
    "a one-block GPT-2 from random weights (benchmarks/audit_methods.py); misses are simulated on one training; "
    "120 canaries for ten"
)
COMMAND: Final = "python benchmarks/audit_methods.py --data-dir DATA"
METHODS: Final = {"No-DP-GPT": "no_dp", "DPSGD-GPT": "dpsgd", "CRT-GPT": "crt"}
SOURCES: Final = {"WikiText-2": "wikitext_digits", "CustomerSim": "customersim"}
NO_SECRETS: Final = {"measure": "perplexity_per_word_but_secrets", "unit": "perplexity, words outside secrets"}
CRT_LSTM: Final = {"train.embedding_size": "200", "train.vocab_size": "2000"}
LSTM_SHAPE: Final = {
    **CRT_LSTM,
    "train.tokenizer": "bpe_public",
    "train.target_delta": "8e-5",
    "train.target_epsilon": "",
    "train.context_length": "128",
}
UNNOISED: Final = {"train.public_learning_rate": "5e-3", "train.epochs": "4"}
SPEAKERS: Final[Mapping[str, Mapping[str, str]]] = {
    "WikiText-2": {},
    "CustomerSim": {"train.speakers": '["SYS", "USR"]'},
}
"""Settings of the LSTMs of Selective DP, which these figures share."""
GAMMAS: Final = (0.0, 0.1, 0.3, 0.5)


def _figure2() -> list[Cell]:
    cells = []
    for corpus, source in SOURCES.items():
        cells += [
            _cell(
                "figure2",
                f"{corpus}, {name}{scored}",
                differs=f"{BASE}; {A3}",
                minutes=minutes_of("customersim" if corpus == "CustomerSim" else "wikitext", method),
                run=Train(
                    corpus=source,
                    method=method,
                    small={"train.epochs": "1"} if method == "no_dp" else {},
                    paper=AT_PAPER,
                    paper_model=PAPER_MODEL,
                ),
                headline=True,
                **measure,
            )
            for scored, measure in (("", NO_SECRETS), (", whole text", {}))
            for name, method in METHODS.items()
        ]
        cells.append(
            _cell(
                "figure2",
                f"{corpus}, S-DP-LSTM, γ > 0",
                printed="",
                unit="ε",
                run=Impossible(
                    reason="ε = ∞, as the paper says: a missed secret is a public token to S-DPSGD. Nothing is "
                    "there to train; its perplexity is in Selective DP, Table 2"
                ),
            )
        )
        cells.append(
            _cell(
                "figure2",
                f"{corpus}, CRT-LSTM",
                differs="LSTM of width 200, as in A.3; a sample for all records",
                run=Train(corpus=source, method="crt", model="lstm", small=CRT_LSTM, paper={"train.epochs": "100"}),
                minutes=10.0,
                **NO_SECRETS,
            )
        )
    return cells


def _figure3() -> list[Cell]:
    cells = []
    for gamma in GAMMAS:
        for name, method in (("No-DP with mask", "redacted"), ("CRT", "crt")):
            for place, figure, unit in (
                ("figure3", "largest_of_ten", "bits, largest of ten"),
                ("figure4", "auc", "AUC"),
                ("figure5", "auc_of_groups", "AUC of groups of 20"),
            ):
                cells.append(
                    _cell(
                        place,
                        f"WikiText-2, {name}, γ = {gamma:g}",
                        unit=unit,
                        measure=figure,
                        differs=SCRATCH if place == "figure3" else f"{SCRATCH}; the AUC for the paper's accuracy",
                        minutes=0.0,
                        headline=place == "figure3",
                        run=Recorded(
                            function="by_miss_rate",
                            command=COMMAND,
                            arguments={"corpus": "wikitext2", "method": method, "gamma": gamma, "figure": figure},
                        ),
                    )
                )
    cells += [
        _cell(
            "figure3",
            f"pre-trained, {name}",
            unit="bits",
            measure=measure,
            headline=True,
            differs=f"{BASE}; all entities are secret; ten copies for twenty; sixty canaries for ten; exposure among "
            "10,000 candidates; misses are simulated on one training",
            minutes=minutes_of("audit", method),
            run=Audit(
                corpus="wikitext",
                method=method,
                copies=10,
                detected=60,
                small={"train.epochs": "1"} if method == "redacted" else {},
                paper=AT_PAPER,
                paper_model=PAPER_MODEL,
            ),
        )
        for name, method, measure in (
            ("No-DP with mask, γ = 0.5", "redacted", "largest_of_ten_at_0.5"),
            ("CRT, γ = 0.5", "crt", "largest_of_ten_at_0.5"),
            ("No-DP with mask, γ = 0", "redacted", "largest_of_ten_at_0.0"),
            ("CRT, γ = 0", "crt", "largest_of_ten_at_0.0"),
        )
    ]
    return cells


def _figure6() -> list[Cell]:
    return [
        _cell(
            "figure6",
            f"ε' = {epsilon:g}, γ = {gamma:g}",
            unit="ε",
            measure="epsilon",
            minutes=0.1,
            printed="0.2" if (epsilon, gamma) == (1.0, 0.1) else "",
            exact=True,
            headline=gamma == 0.1 and epsilon != 2.0,
            run=Compute(function="bayesian_epsilon", arguments={"epsilon_of_training": epsilon, "gamma": gamma}),
        )
        for epsilon in (1.0, 2.0, 3.0)
        for gamma in (0.05, 0.1, 0.2, 0.5)
    ]


SINGLE: Final = (
    "LSTM of width 200, by AdamW without privacy (models of Selective DP, Table 2); a sample for all records; up to "
    "1,000 sentences as they are and as many of the training text with made-up secrets, none in both; groups share no "
    "sentence"
)
LABELS: Final = {"WikiText-2": "DIGITS", "CustomerSim": "ADDRESS"}
ASKED: Final = {"No-DP-LSTM": "no_dp", "No-DP-LSTM with mask": "anonymized", "CRT-LSTM": "crt"}
PLACES: Final = (("figure4", "accuracy", "% accuracy"), ("figure5", "groups", "AUC of groups of 20"))


def _single_secrets() -> list[Cell]:
    """Returns cells about single secrets and groups of 20, as A.4 has them: without a mask, and with all found."""
    return [
        _cell(
            place,
            f"{corpus}, sentences with {said}, {name}",
            unit=unit,
            measure=f"{measure} of {LABELS[corpus]}, in its sentence",
            differs=SINGLE,
            minutes=10.0 if method == "crt" else 2.0,
            run=Secrets(
                corpus=SOURCES[corpus],
                method=method,
                model="lstm",
                small=CRT_LSTM if method == "crt" else {**LSTM_SHAPE, **UNNOISED, **SPEAKERS[corpus]},
                secrets=1_000,
            ),
        )
        for corpus, said in (("WikiText-2", "digits"), ("CustomerSim", "an address"))
        for name, method in ASKED.items()
        for place, measure, unit in PLACES
    ]


CELLS: Final[tuple[Cell, ...]] = (*_figure2(), *_figure3(), *_single_secrets(), *_figure6())


def _f(number: int, name: str) -> str:
    return f"{P}/figure{number}/{name}"


def _better(scored: str) -> tuple[Ordering, ...]:
    return tuple(
        Ordering(_f(2, f"{corpus}, CRT-GPT{scored}"), _f(2, f"{corpus}, DPSGD-GPT{scored}")) for corpus in SOURCES
    )


def _close(scored: str) -> tuple[Alike, ...]:
    return tuple(
        Alike(_f(2, f"{corpus}, No-DP-GPT{scored}"), _f(2, f"{corpus}, CRT-GPT{scored}"), 0.1) for corpus in SOURCES
    )


CLAIMS: Final[tuple[Claim, ...]] = (
    _claim(
        "CRT-GPT has a lower perplexity than DPSGD-GPT at the same noise budget",
        headline=True,
        rules=_better(""),
        context=(*WIKITEXT_GAINS, *DIALOGUE_GAINS),
        note="words outside secrets are scored: CRT reads no secret that the policy finds",
    ),
    _claim(
        "CRT-GPT is close to No-DP-GPT (perplexity within a tenth)",
        headline=True,
        rules=_close(""),
        note="words outside secrets are scored. The papers' GPT-2 is larger, read the web and trains for more steps",
    ),
    _claim(
        "CRT-GPT has a lower perplexity than DPSGD-GPT on all words, secrets among them",
        rules=_better(", whole text"),
        note="the paper does not say whether the text that it tests on holds secrets",
    ),
    _claim(
        "With the noise of DPSGD-GPT (ε = 3) and γ = 0.1, CRT-GPT has a lower ε, a Bayesian one",
        headline=True,
        rules=(Below(_f(6, "ε' = 3, γ = 0.1"), 3.0),),
    ),
    _claim(
        "All models have a lower perplexity on CustomerSim, whose dialogues come from templates, than on WikiText-2",
        rules=tuple(
            Ordering(_f(2, f"CustomerSim, {name}, whole text"), _f(2, f"WikiText-2, {name}, whole text"))
            for name in METHODS
        ),
    ),
    _claim(
        "GPT-2 is better than the LSTM under CRT",
        rules=tuple(Ordering(_f(2, f"{corpus}, CRT-GPT"), _f(2, f"{corpus}, CRT-LSTM")) for corpus in SOURCES),
    ),
    _claim(
        "Without noise, exposure rises steeply with the share γ that the policy misses",
        headline=True,
        rules=(
            Ordering(_f(3, "WikiText-2, No-DP with mask, γ = 0"), _f(3, "WikiText-2, No-DP with mask, γ = 0.1")),
            Above(_f(3, "WikiText-2, No-DP with mask, γ = 0.5"), 10.0),
        ),
    ),
    _claim(
        "If the policy finds all (γ = 0), masks alone protect as well",
        rules=(Below(_f(3, "WikiText-2, No-DP with mask, γ = 0"), 6.0),),
        note="the largest of ten canaries that no model saw has 4.2 bits on average; 85 % of such tens are below 6",
    ),
    _claim(
        "Under CRT exposure is far below that of training with masks alone, at every γ > 0",
        headline=True,
        rules=tuple(
            Ordering(_f(3, f"WikiText-2, CRT, γ = {g:g}"), _f(3, f"WikiText-2, No-DP with mask, γ = {g:g}"))
            for g in GAMMAS[1:]
        ),
    ),
    _claim(
        "Under CRT the largest exposure of ten canaries is close to 0, below a bit",
        rules=tuple(Below(_f(3, f"WikiText-2, CRT, γ = {g:g}"), 1.0) for g in GAMMAS),
        note="the largest of ten canaries that no model saw has 4.2 bits on average (H₁₀ over ln 2)",
    ),
    _claim(
        "On a pre-trained model, too, exposure rises with γ under masks alone, and CRT keeps it far below",
        headline=True,
        rules=(
            Ordering(_f(3, "pre-trained, No-DP with mask, γ = 0"), _f(3, "pre-trained, No-DP with mask, γ = 0.5")),
            Ordering(_f(3, "pre-trained, CRT, γ = 0.5"), _f(3, "pre-trained, No-DP with mask, γ = 0.5")),
        ),
    ),
    _claim(
        "Membership inference stays near chance under CRT",
        rules=tuple(Below(_f(4, f"WikiText-2, CRT, γ = {g:g}"), 0.6) for g in GAMMAS),
        note="all means are below 0.6, but three trainings of some sixty canaries (118 at γ = 0.5) give wide intervals",
    ),
    _claim(
        "Membership inference of groups of 20 stays near chance under CRT",
        rules=tuple(Below(_f(5, f"WikiText-2, CRT, γ = {g:g}"), 0.6) for g in GAMMAS),
        note="means over 20 canaries make a small effect large: an AUC of 0.567 for single ones would be some 0.77 for "
        "groups. Three trainings differ much (0.15, 0.82 and 0.70 at γ = 0)",
    ),
    _claim(
        "Without noise, membership inference rises above chance with γ",
        rules=(Above(_f(4, "WikiText-2, No-DP with mask, γ = 0.5"), 0.6),),
    ),
    _claim(
        "Attacks on groups are stronger than on single secrets (no noise)",
        rules=tuple(
            Ordering(_f(4, name), _f(5, name))
            for name in (f"WikiText-2, No-DP with mask, γ = {g:g}" for g in GAMMAS[1:])
        ),
    ),
    _claim(
        "Single secrets in their sentences: near chance under CRT and with masks (γ = 0), above it without either",
        rules=tuple(
            rule
            for corpus, said in (("WikiText-2", "digits"), ("CustomerSim", "an address"))
            for rule in (
                Below(_f(4, f"{corpus}, sentences with {said}, CRT-LSTM"), 60.0),
                Below(_f(4, f"{corpus}, sentences with {said}, No-DP-LSTM with mask"), 60.0),
                Above(_f(4, f"{corpus}, sentences with {said}, No-DP-LSTM"), 60.0),
            )
        ),
        note="only digits without privacy miss the mark: they are above chance, but below 60 %. Probably an LSTM of "
        "four passes has hardly learnt them",
    ),
    _claim(
        "The better the policy, the less ε is left",
        rules=tuple(
            Ordering(_f(6, f"ε' = {e:g}, γ = {low:g}"), _f(6, f"ε' = {e:g}, γ = {high:g}"))
            for e in (1.0, 2.0, 3.0)
            for low, high in ((0.05, 0.1), (0.1, 0.2), (0.2, 0.5))
        ),
    ),
    _claim(
        "At ε' = 1 and γ = 0.1 a Bayesian ε of 0.2 is left", headline=True, rules=(Number(_f(6, "ε' = 1, γ = 0.1")),)
    ),
)
