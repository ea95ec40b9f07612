"""Words of the report for the things that other parts of the project name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pipelines.policies.detectors.specs import SPECS

LABELS: Final[Mapping[str, str]] = {
    "PERSON": "people",
    "NORP": "nationalities, religious and political groups",
    "FAC": "buildings, airports, roads, bridges",
    "ORG": "companies, agencies, institutions",
    "GPE": "countries, cities, states",
    "LOC": "other places",
    "PRODUCT": "objects, vehicles, foods",
    "EVENT": "named storms, battles, sports events",
    "WORK_OF_ART": "titles of books, songs and the like",
    "LAW": "named laws",
    "LANGUAGE": "named languages",
    "DATE": "dates and periods",
    "DATE_TIME": "dates and times",
    "TIME": "times shorter than a day",
    "PERCENT": "percentages",
    "MONEY": "amounts of money",
    "QUANTITY": "measures of weight or distance",
    "ORDINAL": "first, second, …",
    "CARDINAL": "other numbers",
    "NAME": "names of customers",
    "ADDRESS": "street addresses",
    "PHONE": "phone numbers",
    "ORDER": "order numbers",
    "TRACKING": "tracking numbers",
    "DIGITS": "tokens with a digit",
}
DEDUP_MODES: Final[Mapping[str, str]] = {
    "mask_later": "the first copy of a sentence stays, every later one is replaced by one mask",
    "mask_all": "every copy of a sentence that occurs more than once is replaced by one mask",
}
NORMALISE: Final[Mapping[str, str]] = {
    "none": "the exact text",
    "whitespace": "the text, with runs of white space as one space",
    "casefold": "the text, without regard to case, compatibility characters and white space",
}
SYNTHETIC_NOT_MEASURED: Final = (
    "planted secrets: the model that wrote the table has read none, so none of them can come out",
    "secrets that no policy masked: only masked ones are looked for",
    "near repeats, and repeats of fewer words than a passage has",
    "how a larger model that is trained on the table does",
)
"""Of a synthetic table."""

SOURCES: Final[Mapping[str, str]] = {
    "gold": "labels that came with the corpus",
    "human": "people who read the sample",
    "proxy": "a proxy: another program, which misses secrets itself; no guarantee rests on it",
    "not_measured": "nobody",
}
RELATIONS: Final[Mapping[str, str]] = {
    "replace_one": "one record is replaced by another",
    "add_or_remove_one": "one record is added or removed",
}
CORPORA: Final[Mapping[str, str]] = {
    "raw": "the corpus after splitting into sentences, before deduplication",
    "deduplicated": "the corpus after deduplication",
    "private_set": "the private set, as training reads it",
}
RESTS_ON_REVIEW: Final = frozenset(
    {"group_confidentiality", "group_confidentiality_at_average_rate", "bayesian_confidentiality"}
)
"""Notions that give credit for redaction, so that an epsilon of 0 is about labelled secrets only."""


def policy(name: str, plugins: Mapping[str, str] | None = None) -> str:
    """Returns what a policy masks, in its own words.

    Args:
        name: name in the settings.
        plugins: descriptions that plug-ins give of themselves, by name; the public report has none.
    """
    return SPECS[name].description if name in SPECS else (plugins or {}).get(name, "a policy of the user's own")


def label(name: str) -> str:
    """Returns what a label stands for, or an empty string."""
    return LABELS.get(name, "")
