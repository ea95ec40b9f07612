"""What the description of a task says. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipelines.training.tasks.templates import choose_template

Size = Annotated[int, Field(strict=True)]


class TaskSettings(BaseModel):
    """What a task is told that others are not; fields of ``[train]``, or, of another package's task, its options."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    task: str = Field(
        "language_modelling", description="What the model learns to do; docs/models.md says what each reads and scores."
    )

    def words(self) -> dict[str, str]:
        """What `TaskSpec.layout` has places for beside control tokens."""
        return {}


class ClassificationSettings(TaskSettings):
    """Those of `classification`."""

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
        """The template, and the words of its classes."""
        if self.template is None:
            return {"blank": ""}
        template = choose_template(self.template, self.classes, self.label_words)
        assert template is not None  # noqa: S101  # there is one
        words = ", ".join(f"{name}: {word}" for name, word in template.label_words.items())
        return {"blank": f", in the template `{template.pattern}`; the word at the blank is the class ({words})"}


class GenerationSettings(TaskSettings):
    """Those of tasks whose scores are those of generated text."""

    num_beams: Size = Field(5, ge=1, le=64, description="response, table_to_text: hypotheses of beam search.")
    max_new_tokens: Size = Field(
        64, ge=1, le=4_096, description="response, table_to_text: longest text to generate, in tokens."
    )
    max_generated: Size = Field(
        200, ge=0, description="response, table_to_text: most held-out inputs that text is generated for."
    )


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """A task, as settings, checks, model card and documentation see it.

    Attributes:
        name: as ``train.task`` gives it.
        module: what does it: a module with ``make_task(model, settings)`` (`pipelines.training.tasks.base`).
        recipe: version of what is learnt from a record, as `pipelines.methods.spec.MethodSpec.recipe`.
        reads, learns, scores: for the table of tasks: which rows, what of them is asked for, what is measured.
        layout: for the model card: how a record is written, with ``{begin}``, ``{end}`` and ``{marks}`` for control
            tokens.
        record: what a record is; None: what the settings say.
        settings: what it is told beside what every task is.
        has_speakers: whether its records have speakers.
        speakers: those that have a control token whatever the public rows say.
        writes_text: whether the model writes text.
        takes_lstm: whether an LSTM can do it.
        needs_pretrained: whether it asks for a pretrained model.
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
        """Whether its scores are those of generated text."""
        return issubclass(self.settings, GenerationSettings)

    def record_of(self, asked: str) -> Any:
        """What a record is: its own unit, or the one that is asked for where it has none."""
        return self.record or asked
