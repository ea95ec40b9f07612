"""Settings of ``[split]``: the division of documents into sentences and folds."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from pipelines.config import StageConfig
from pipelines.language import model_distribution


class SplitConfig(StageConfig):
    """The division of documents into sentences and folds."""

    LATER: ClassVar[frozenset[str]] = frozenset({"cut_fields"})

    mode: Literal["auto", "rules", "senter", "parser", "turns"] = Field(
        "auto",
        description="Rows of a document. turns: lines 'SPEAKER: utterance'. rules: sentences, by punctuation and line "
        "breaks. senter, parser: sentences, by that component of split.model. auto: turns if every line of a document "
        "is one, else rules. A speaker's tag that names no role (a person's name) is replaced by SPEAKER_1 and so on.",
    )
    model: str = Field("en_core_web_sm", min_length=1, description="spaCy model of the modes senter and parser.")
    language: str = Field("en", min_length=2, description="Language code of spaCy's tokeniser rules.")
    languages: tuple[str, ...] = Field(
        (),
        description="Language codes that documents may be in; empty: `language` alone. Stop words decide the "
        "language of a document.",
    )
    other_languages: Literal["name", "hold"] = Field(
        "name",
        description="Treatment of documents that are plainly in another language, in which the policies find little. "
        "name counts them and warns. hold leaves them out (table rejected, not counted as rejected rows), and ends "
        "all claims about single secrets, because a secret may decide about its whole document.",
    )
    max_sentence_tokens: int = Field(
        256, ge=8, description="Longest sentence in tokens. Longer sentences are cut at token borders and marked."
    )
    cut_fields: bool = Field(
        False,
        description="true: tokens also end at the marks of JSON, CSV, markup and key=value, so that a mask on a value "
        "leaves the name of its field open. `reticent init` writes true.",
    )
    valid_fraction: float = Field(
        0.05, ge=0, lt=1, description="Share of documents in the valid fold, if the corpus gives none (0 to 1)."
    )
    test_fraction: float = Field(
        0.05, ge=0, lt=1, description="Share of documents in the test fold, if the corpus gives none (0 to 1)."
    )

    @model_validator(mode="after")
    def _some_train(self) -> SplitConfig:
        if self.valid_fraction + self.test_fraction >= 1:
            raise ValueError("valid_fraction and test_fraction leave nothing to train on; their sum must be below 1")
        return self

    def check(self, stage: str) -> None:
        """Makes the splitter, if it may need a model or a language that is not installed."""
        if stage != "split":
            return
        from pipelines.settings.as_installed import has_tokenizer  # other commands do not need it

        if self.mode in ("senter", "parser") or not has_tokenizer(self.language):
            from pipelines.corpus.split import Splitter  # spaCy is slow to import

            Splitter(self.language, self.mode, self.max_sentence_tokens, self.model, self.cut_fields)

    def package_references(self) -> tuple[str, ...]:
        """Returns the distribution of the spaCy model."""
        if self.mode not in ("senter", "parser"):
            return ()
        return (model_distribution(self.model),)
