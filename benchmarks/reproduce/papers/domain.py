"""Domain privacy: Figures 1 and 2, and further findings in the copy of the paper.

The copy has neither the points of the figures nor the bodies of the tables, so most cells have no printed figure; the
text says which model lies above which. Ours are of benchmarks/domains.py, which docs/audit.md describes.
"""

from __future__ import annotations

from typing import Final

from benchmarks.reproduce.cells import Cell, Compute, Hours, LeftOut, Recorded, cells_of
from benchmarks.reproduce.verdicts import Claim, Number, Ordering, Positive, Within, claims_of

P: Final = "domain"
_cell: Final = cells_of(P)
_claim: Final = claims_of(P)
COMMAND: Final = "python benchmarks/domains.py --data-dir DATA --prompts airline --seed 0 (1, 2)"
DIFFERS: Final = (
    "a GPT-2 of two blocks that learnt English from WikiText-2, for GPT-2; 300 conversations a domain, customers' "
    "turns only; prompts of one domain; a conversation as a record, for chunks of 1,024 tokens of all conversations "
    "([decision 4](decisions/0004-record-and-sensitivity.md))"
)
POLICIES: Final = {"keywords": "keyword", "classifier": "classifier"}
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

CELLS: Final[tuple[Cell, ...]] = (
    *(
        _cell(
            "figure1",
            f"{model}, {name} policy",
            unit="% of texts",
            measure="leaks",
            minutes=0.0,
            run=Recorded(function="leak_rate", command=COMMAND, arguments={"policy": policy, "model": model}),
            differs=DIFFERS,
            headline=True,
        )
        for policy, name in POLICIES.items()
        for model in MODELS
    ),
    *(
        _cell(
            "figure1",
            f"{first} less {second}, {name} policy",
            unit="points",
            measure="difference",
            run=Recorded(
                function="leak_difference",
                command=COMMAND,
                arguments={"policy": policy, "first": first, "second": second},
            ),
            differs=DIFFERS,
            minutes=0.0,
        )
        for policy, name in POLICIES.items()
        for first, second in PAIRS
    ),
    *(
        _cell(
            "figure1",
            f"{model}, perplexity",
            measure="perplexity",
            run=Recorded(function="perplexity_after", command=COMMAND, arguments={"model": model}),
            differs=DIFFERS,
            minutes=0.0,
        )
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
    *(_cell(place=f"table{number}", name="all", unit="", run=NO_SECOND) for number in (1, 2, 3)),
    _cell(
        "figure4",
        "prompts of media and insurance",
        unit="% of texts",
        run=Hours(
            reason="the same trainings with texts after all prompts, in hours; no figure is in the copy",
            command="python benchmarks/domains.py --data-dir DATA",
        ),
    ),
)


def _d(first: str, second: str, policy: str) -> str:
    return f"{P}/figure1/{first} less {second}, {policy} policy"


def _both(first: str, second: str) -> tuple[Positive, ...]:
    return tuple(Positive(_d(first, second, policy)) for policy in POLICIES.values())


CLAIMS: Final[tuple[Claim, ...]] = (
    _claim(
        "Fine-tuning on all domains (Public) leaks more than the redaction schedule",
        headline=True,
        rules=_both("Public", "Redaction Schedule"),
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
        note="people's own texts have the order by keywords and its reverse by the classifier, which was fitted "
        "on text with keywords ([audit](audit.md#across-domains))",
    ),
    _claim(
        "Redaction schedule and JFT leak alike, within five points",
        headline=True,
        rules=tuple(Within(_d("Redaction Schedule", "JFT", policy), 5.0) for policy in POLICIES.values()),
    ),
    _claim(
        "JFT has a better perplexity than Pub+Redacted, and the redaction schedule a worse one",
        rules=tuple(
            Ordering(f"{P}/figure1/{better}, perplexity", f"{P}/figure1/{worse}, perplexity")
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
        "The redaction schedule's Rényi guarantee is about 35 % better than JFT's",
        rules=(Number(f"{P}/figure2/Redaction Schedule's privacy guarantee over JFT's"),),
        note="exp(-1) = 36.8 % in the limit of many steps: the share of redacted steps",
    ),
)
