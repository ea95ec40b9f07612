"""Settings of ``[gate]``: the masked strings that must not stand unmasked in anything public."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from pipelines.config import StageConfig

if TYPE_CHECKING:
    from pipelines.gate.strings import Choice


class GateConfig(StageConfig):
    """The masked strings that must not stand unmasked in anything public."""

    SENSITIVE: ClassVar[frozenset[str]] = frozenset({"ignore"})

    enabled: bool = Field(
        default=True, description="true searches for masked strings. Without the search nothing stops such a leak."
    )
    on_hit: Literal["hold", "stop"] = Field(
        default="hold",
        description="Effect of a find in a sentence. hold: the sentence stays on the private side, and the find is "
        "masked there; `reticent inspect gate` shows the sentences and the reasons. stop: the run ends with exit code "
        "4. A find in a speaker's name, a domain, a label, or in a file that is no table of sentences always ends the "
        "run.",
    )
    max_held_fraction: float = Field(
        default=0.02,
        ge=0,
        le=1,
        description="Share of the training sentences that may be held. With more the run ends with exit code 4, "
        "because the policies then miss much, or mask what is no secret.",
    )
    labels: tuple[str, ...] = Field(
        default=(),
        description="Labels whose masked strings are searched for. Empty: all but labels that describe and do not "
        "identify (spaCy's CARDINAL, DATE, GPE, ORG and the like; Presidio's DATE_TIME, LOCATION, NRP, URL).",
    )
    min_characters: int = Field(
        default=3,
        ge=1,
        le=1_000,
        description="Fewest letters and digits of a string that is searched for. Shorter strings hit by chance.",
    )
    everyday_words: bool = Field(
        default=False,
        description="true also searches for everyday English: single words (hope, young), which are names in some "
        "sentences, and several words of which no list of names holds one (email address, isn't, good bye). Such "
        "words together with a name (Rich Hall), with two number words, or several as a password, are always searched "
        "for.",
    )
    case_sensitive: bool = Field(default=False, description="true: upper and lower case must agree.")
    ignore: tuple[str, ...] = Field(
        default=(),
        description="Strings that are no secret although they were masked, for false alarms. No command and no report "
        "shows them.",
    )

    @property
    def holds(self) -> bool:
        """True if the gate holds a sentence with a find instead of ending the run."""
        return self.enabled and self.on_hit == "hold"

    def choice(self) -> Choice:
        """Returns the choice of strings to search for."""
        from pipelines.gate.common_words import is_everyday  # reads word lists
        from pipelines.gate.strings import Choice

        return Choice(
            labels=frozenset(self.labels),
            min_characters=self.min_characters,
            case_sensitive=self.case_sensitive,
            ignore=self.ignore,
            is_everyday=None if self.everyday_words else is_everyday,
        )
