"""Templates and label words of text infilling. Imports no torch, so that settings can be checked with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pipelines.errors import ConfigError

FIRST: Final = "{first}"
SECOND: Final = "{second}"
BLANK: Final = "{blank}"


@dataclass(frozen=True, kw_only=True)
class Template:
    """A template and its label words.

    Attributes:
        pattern: text with ``{first}``, ``{blank}`` and, for pairs, ``{second}``.
        label_words: word of each class, by the class's name. Their order numbers the classes.
    """

    pattern: str
    label_words: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.pattern.count(BLANK) != 1 or self.pattern.count(FIRST) != 1 or self.pattern.count(SECOND) > 1:
            raise ConfigError("infilling: a template holds {first} and {blank} once each, and {second} at most once")
        if len(set(self.label_words.values())) != len(self.label_words) or len(self.label_words) < 2:
            raise ConfigError("infilling: there must be at least two classes, each with a label word of its own")

    @property
    def takes_pairs(self) -> bool:
        """True if an input is two texts."""
        return SECOND in self.pattern


# Table 10 ("borrowed from the work by Gao et al. (2020)"). Its printed blanks before punctuation are spaces between
# the table's symbols; as there, the sentence keeps its own final punctuation.
TEMPLATES: Final[Mapping[str, Template]] = {
    "sst2": Template(pattern="{first} It was {blank} .", label_words={"negative": "terrible", "positive": "great"}),
    "mnli": Template(
        pattern="{first} ? {blank} , {second}",
        label_words={"entailment": "Yes", "neutral": "Maybe", "contradiction": "No"},
    ),
    "qnli": Template(pattern="{first} ? {blank} , {second}", label_words={"entailment": "Yes", "not_entailment": "No"}),
    "qqp": Template(pattern="{first} {blank} , {second}", label_words={"not_equivalent": "No", "equivalent": "Yes"}),
}
"""Templates of Li et al., by GLUE task. Classes are in GLUE's order."""


def choose_template(name: str | None, classes: Sequence[str], label_words: Sequence[str]) -> Template | None:
    """Returns the template of text infilling, or None for a head on ``classes``.

    Args:
        name: name of a known template, or your own pattern for ``classes`` and ``label_words``.
        classes: names of the classes. Empty for a known template, which brings them.
        label_words: word for each class.

    Raises:
        ConfigError: the arguments contradict each other.
    """
    if name is None:
        if label_words:
            raise ConfigError("label_words belong to a template. Leave them out, or set train.template")
        if len(set(classes)) != len(classes) or len(classes) < 2:
            raise ConfigError("a classification needs train.template, or at least two names in train.classes")
        return None
    if name in TEMPLATES:
        if classes or label_words:
            raise ConfigError(f"the template {name} brings its classes. Leave classes and label_words out")
        return TEMPLATES[name]
    if len(classes) != len(label_words):
        raise ConfigError("a template of your own needs a word in label_words for each of the classes")
    return Template(pattern=name, label_words=dict(zip(classes, label_words, strict=True)))
