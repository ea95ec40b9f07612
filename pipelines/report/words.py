"""What the report says about the things that other parts of the project name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

POLICIES: Final[Mapping[str, str]] = {
    "low_entity": "persons, organisations, dates and locations, found by a language model's entity recogniser",
    "high_entity": "all 18 kinds of named entity that the OntoNotes corpus knows, found by a language model's entity "
    "recogniser",
    "low_contextual": "all named entities, proper nouns, pronouns, and the subjects and objects of sentences",
    "high_contextual": "as low_contextual, and all verbs",
    "customersim": "names, addresses, phone numbers, order numbers and tracking numbers of customers, by pattern",
    "digits": "every token that holds a digit",
    "regex": "what the patterns in the settings match (the patterns are not shown)",
    "keywords": "the keywords of each domain",
    "names": "the names on a list of the settings (the list is not shown)",
    "presidio": "personal data, found by Microsoft Presidio's recognisers",
    "classifier": "what a trained classifier takes for sensitive",
    "propagate": "every further mention, in the same document, of what another policy found",
    "conservative": "a sentence counts as public only if every word of it is an everyday word, used as one",
}
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


def policy(name: str) -> str:
    """What a policy masks; a plug-in's name says nothing that could be checked here."""
    return POLICIES.get(name, "a policy of the user's own")


def label(name: str) -> str:
    """What a label stands for, or an empty string."""
    return LABELS.get(name, "")
