"""Domain privacy: Figures 1, 2 and 4 to 7, and further findings in the copy of the paper.

The copy has neither the points of the figures nor the bodies of the tables, so most cells have no printed figure; the
text says which model lies above which. Ours are of benchmarks/domains.py, which docs/audit.md describes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from benchmarks.reproduce.cells import Cell, Compute, LeftOut, Recorded, cells_of
from benchmarks.reproduce.verdicts import Claim, Number, Ordering, Positive, Within, claims_of

P: Final = "domain"
_cell: Final = cells_of(P)
_claim: Final = claims_of(P)
COMMAND: Final = "python benchmarks/domains.py --data-dir DATA"
SEEDS: Final = " --seed 0 (1, 2)"
BY_CLASSIFIER: Final = f"{COMMAND} --redacted-by classifier"
DIFFERS: Final = (
    "a GPT-2 of two blocks that learnt English from WikiText-2, for GPT-2; a small BERT for RoBERTa; "
    "300 conversations a domain, customers' turns only; a conversation as a record, for chunks of 1,024 tokens of "
    "all conversations ([decision 4](decisions/0004-record-and-sensitivity.md))"
)
POLICIES: Final = {"keyword": ("keywords", "", COMMAND), "classifier": ("classifier", "_by_classifier", BY_CLASSIFIER)}
"""For each policy of the figures, which redacts and judges: its name, what names of results end with, the command."""
OTHER_PROMPTS: Final = {  # figure: domain of the prompts, policy
    "figure4": ("media", "keyword"),
    "figure5": ("media", "classifier"),
    "figure6": ("insurance", "keyword"),
    "figure7": ("insurance", "classifier"),
}
JUDGED: Final = "redacted by keywords, judged by the classifier"
MODELS: Final = ("DOMAIN-only", "Public", "Pub+Redacted", "Private", "JFT", "Redaction Schedule")
PAIRS: Final = (
    ("Public", "Redaction Schedule"),
    ("Private", "DOMAIN-only"),
    ("Public", "DOMAIN-only"),
    ("DOMAIN-only", "Redaction Schedule"),
    ("DOMAIN-only", "JFT"),
    ("DOMAIN-only", "Pub+Redacted"),
    ("Redaction Schedule", "JFT"),
)
NO_SECOND: Final = LeftOut(reason="tables 1 to 3 show examples and outputs, which the copy does not have")


def _rates(place: str, policy: str, prompts: str = "airline") -> list[Cell]:
    """Returns the rate of each model, and differences of rates, with one policy for both redaction and attack."""
    judge, variant, command = POLICIES[policy]
    if prompts == "airline":
        command += SEEDS
    else:
        variant, command = f"{variant}_{prompts}", f"{command} --prompts {prompts}"
    common = {"policy": judge, "variant": variant}
    return [
        *(
            _cell(
                place,
                f"{model}, {policy} policy",
                unit="% of texts",
                measure="leaks",
                minutes=0.0,
                run=Recorded(function="leak_rate", command=command, arguments={**common, "model": model}),
                differs=DIFFERS,
                headline=place == "figure1",
            )
            for model in MODELS
        ),
        *(_difference(place, first, second, f"{policy} policy", common, command) for first, second in PAIRS),
    ]


def _difference(place: str, first: str, second: str, said: str, common: Mapping[str, str], command: str) -> Cell:
    arguments = {**common, "first": first, "second": second}
    return _cell(
        place,
        f"{first} less {second}, {said}",
        unit="points",
        measure="difference",
        run=Recorded(function="leak_difference", command=command, arguments=arguments),
        differs=DIFFERS,
        minutes=0.0,
    )


CELLS: Final[tuple[Cell, ...]] = (
    *(cell for policy in POLICIES for cell in _rates("figure1", policy)),
    *(
        _cell(
            "figure1",
            f"{model}, perplexity, {policy} policy",
            measure="perplexity",
            run=Recorded(
                function="perplexity_after", command=command + SEEDS, arguments={"model": model, "variant": variant}
            ),
            differs=DIFFERS,
            minutes=0.0,
        )
        for policy, (_, variant, command) in POLICIES.items()
        for model in ("Public", "Pub+Redacted", "Private", "JFT", "Redaction Schedule")
    ),
    _cell(
        "figure2",
        "Redaction Schedule's privacy guarantee over JFT's",
        printed="35",
        unit="% better",
        measure="saving_percent",
        run=Compute(function="schedule_saving", arguments={"kind": "expconcave", "steps": 5_000.0}),
        exact=True,
        differs="expconcave at s = 1 beside a second stage of JFT as long as the schedule, at equal noise and rate; "
        "the paper's steps are in the figure, which the copy does not have",
        minutes=0.1,
    ),
    *(cell for place, (prompts, policy) in OTHER_PROMPTS.items() for cell in _rates(place, policy, prompts)),
    *(
        _cell(
            "figure8",
            f"{model}, {policy} policy, without domain tokens",
            unit="% of texts",
            measure="leaks",
            minutes=0.0,
            run=Recorded(
                function="leak_rate",
                command=f"{COMMAND} --without-domain-tokens --models 'Public;JFT;Redaction Schedule'",
                arguments={"policy": POLICIES[policy][0], "model": model, "variant": "_without_tokens"},
            ),
            differs=f"{DIFFERS}; redacted by keywords",
        )
        for policy in POLICIES
        for model in ("DOMAIN-only", "Public", "Redaction Schedule")
    ),
    *(
        _difference("text", first, second, JUDGED, {"policy": "classifier"}, COMMAND + SEEDS)
        for first, second in PAIRS
        if "DOMAIN-only" in (first, second)
    ),
    *(_cell(place=f"table{number}", name="all", unit="", run=NO_SECOND) for number in (1, 2, 3)),
)


def _d(first: str, second: str, policy: str, place: str = "figure1") -> str:
    return f"{P}/{place}/{first} less {second}, {policy} policy"


def _both(first: str, second: str) -> tuple[Positive, ...]:
    return tuple(Positive(_d(first, second, policy)) for policy in POLICIES)


CLAIMS: Final[tuple[Claim, ...]] = (
    _claim(
        "Fine-tuning on all domains (Public) leaks more than the redaction schedule",
        headline=True,
        rules=_both("Public", "Redaction Schedule"),
        note="by the classifier, which redacts as well, the order is the reverse in each of three trainings. The third "
        "claim has a likely reason",
    ),
    _claim(
        "Public and Private leak more than the model of one domain",
        headline=True,
        rules=(*_both("Public", "DOMAIN-only"), *_both("Private", "DOMAIN-only")),
    ),
    _claim(
        "All models but Private and Public leak less than the model of one domain (the paper: by its classifier)",
        headline=True,
        rules=tuple(
            Positive(_d("DOMAIN-only", model, "classifier")) for model in ("Redaction Schedule", "JFT", "Pub+Redacted")
        ),
        note="the classifier masks what it is sure of, and models learn from the text that it does not recognise. "
        "People's own texts have the order by keywords and its reverse by the classifier "
        "([audit](audit.md#across-domains))",
    ),
    _claim(
        "Redaction schedule and JFT leak alike, within five points",
        headline=True,
        rules=tuple(Within(_d("Redaction Schedule", "JFT", policy), 5.0) for policy in POLICIES),
    ),
    _claim(
        "JFT has a better perplexity than Pub+Redacted, and the redaction schedule a worse one",
        rules=tuple(
            Ordering(
                f"{P}/figure1/{better}, perplexity, {policy} policy",
                f"{P}/figure1/{worse}, perplexity, {policy} policy",
            )
            for policy in POLICIES
            for better, worse in (("JFT", "Pub+Redacted"), ("Pub+Redacted", "Redaction Schedule"))
        ),
    ),
    _claim(
        "Attacks find more by the classifier than by keywords",
        rules=tuple(
            Ordering(f"{P}/figure1/{model}, keyword policy", f"{P}/figure1/{model}, classifier policy")
            for model in MODELS
        ),
    ),
    _claim(
        "The same with prompts of media and of insurance: Public leaks more than the redaction schedule",
        rules=tuple(
            Positive(_d("Public", "Redaction Schedule", policy, place)) for place, (_, policy) in OTHER_PROMPTS.items()
        ),
        note="the paper shows these in Figures 4 to 7, and its text says nothing about them",
    ),
    _claim(
        "Without domain tokens models leak as much, or slightly more",
        rules=tuple(
            Ordering(
                f"{P}/figure1/{model}, keyword policy", f"{P}/figure8/{model}, keyword policy, without domain tokens"
            )
            for model in ("DOMAIN-only", "Public", "Redaction Schedule")
        ),
    ),
    _claim(
        "The redaction schedule's Rényi guarantee is about 35 % better than JFT's",
        rules=(Number(f"{P}/figure2/Redaction Schedule's privacy guarantee over JFT's"),),
        note="exp(-1) = 36.8 % in the limit of many steps: the share of redacted steps",
    ),
)
