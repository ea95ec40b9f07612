"""Descriptions of tasks. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipelines.training.tasks.templates import choose_template

Size = Annotated[int, Field(strict=True)]


class TaskSettings(BaseModel):
    """Settings of one task: fields of ``[train]``, or the options of another package's task."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    task: str = Field(
        "language_modelling", description="What the model learns to do; docs/models.md says what each reads and scores."
    )

    def words(self) -> dict[str, str]:
        """Returns texts for the places of `TaskSpec.layout` that are not control tokens."""
        return {}


class ClassificationSettings(TaskSettings):
    """Settings of `classification`."""

    classes: tuple[str, ...] = Field(
        (),
        max_length=1_000,
        description="classification: the labels, in the order that numbers them; a known template brings them.",
    )
    template: str | None = Field(
        None,
        min_length=1,
        max_length=1_000,
        description="classification: text infilling with sst2, mnli, qnli, qqp, or a text with {first}, {blank} and, "
        "for pairs, {second}. Unset: a head on top of the model.",
    )
    label_words: tuple[str, ...] = Field(
        (), max_length=1_000, description="classification: the word at the blank for each of the classes."
    )

    def words(self) -> dict[str, str]:
        """Returns the template, and the words of its classes."""
        if self.template is None:
            return {"blank": ""}
        template = choose_template(self.template, self.classes, self.label_words)
        assert template is not None  # noqa: S101  # there is one
        words = ", ".join(f"{name}: {word}" for name, word in template.label_words.items())
        return {"blank": f", in the template `{template.pattern}`; the word at the blank is the class ({words})"}


class GenerationSettings(TaskSettings):
    """Settings of tasks whose generated text is scored."""

    num_beams: Size = Field(5, ge=1, le=64, description="response, table_to_text: hypotheses of beam search.")
    max_new_tokens: Size = Field(
        64, ge=1, le=4_096, description="response, table_to_text: longest text to generate, in tokens."
    )
    max_generated: Size = Field(
        200, ge=0, description="response, table_to_text: most held-out inputs that text is generated for."
    )
    num_distractors: Size = Field(
        0,
        ge=0,
        le=1_000,
        description="response: replies of other held-out dialogues among which the model has to rank the real one "
        "first (hits@1). ConvAI2 has 19; 0 leaves hits@1 out.",
    )
    bert_score_model: str | None = Field(
        None,
        min_length=1,
        max_length=4_096,
        description="response, table_to_text: encoder of BERTScore, such as FacebookAI/roberta-large, which lies in "
        "the local Hugging Face cache. It needs the package bert-score. Unset: no BERTScore.",
    )


SCORES_ONLY: Final = frozenset({"num_distractors", "bert_score_model"})
"""Settings of tasks that change scores of a finished model and nothing in its training."""


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """Description of a task, for settings, checks, model card and documentation.

    Attributes:
        name: value of ``train.task``.
        module: module with ``make_task(model, settings)`` (`pipelines.training.tasks.base`).
        recipe: version of what the model learns from a record, as `pipelines.methods.spec.MethodSpec.recipe`.
        reads, learns, scores: cells of the table of tasks: rows, targets and measures.
        layout: format of a record in the model card, with ``{begin}``, ``{end}`` and ``{marks}`` for control tokens.
        record: unit of a record. None if the settings say it.
        settings: class of the task's own settings.
        has_speakers: true if its records have speakers.
        speakers: names of speakers that always have a control token.
        writes_text: true if the model writes text.
        takes_lstm: true if an LSTM or a GRU can do it.
        needs_pretrained: true if it needs a pretrained model.
    """

    name: str
    module: str
    recipe: int = 1
    reads: str
    learns: str
    scores: str
    layout: str
    record: Literal["sentence", "dialogue"] | None = "sentence"
    settings: type[TaskSettings] = TaskSettings
    has_speakers: bool = False
    speakers: tuple[str, ...] = ()
    writes_text: bool = True
    takes_lstm: bool = False
    needs_pretrained: bool = False

    @property
    def generates(self) -> bool:
        """True if its scores are those of generated text."""
        return issubclass(self.settings, GenerationSettings)

    def record_of(self, asked: str) -> Any:
        """Returns the task's own unit of a record, or the unit that is asked for."""
        return self.record or asked
