"""Fields of ``[train]``, and values that follow from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from pipelines.config import StageConfig
from pipelines.mask import MASK
from pipelines.methods import registry as methods
from pipelines.methods.settings import MethodSettings, Size
from pipelines.methods.view import View, with_typed_masks
from pipelines.plugins import own_settings
from pipelines.training.data.record_unit import RecordUnit
from pipelines.training.models.shape import PRESETS, RECURRENT, ModelShape, resolve_shape
from pipelines.training.tasks import registry as tasks
from pipelines.training.tasks.spec import SCORES_ONLY, ClassificationSettings, TaskSettings, TaskSpec

if TYPE_CHECKING:
    from pipelines.methods.spec import MethodSpec
    from pipelines.training.data.control import AddedTokens


class TrainWhen(BaseModel):
    """The table ``[train.when]``: the runs that train. The first met condition counts. Other runs prepare only."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    nights: int | None = Field(None, ge=1, le=10_000, description="Days (UTC) after the last run that trained.")
    changed: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Share of the input that was added, edited or removed since that run. Claims then suppose that the "
        "same runs train whatever a secret is.",
    )

    @model_validator(mode="after")
    def _says_something(self) -> TrainWhen:
        if self.nights is None and self.changed is None:
            raise ValueError("give nights, changed, or both")
        return self


class TrainSettings(tasks.SettingsOfTasks, methods.SettingsOfMethods, StageConfig):
    """The fields of ``[train]``, before they are checked as a whole (`pipelines.settings.train.TrainConfig`)."""

    SENSITIVE: ClassVar[frozenset[str]] = frozenset({"options"})
    UNKEYED: ClassVar[frozenset[str]] = frozenset({"when"})
    LATER: ClassVar[frozenset[str]] = frozenset({"optimizer", "unit", "owner_records", "prefix_hidden", *SCORES_ONLY})

    method: str = Field(
        "crt",
        description="Training method; docs/methods.md describes each method and its promises. Or a method of another "
        "package: a name that it offers, or package.module:SPEC (docs/extending.md).",
        json_schema_extra={"enum": [*methods.METHODS]},
    )
    task: str = Field(
        "language_modelling",
        description="Task that the model learns; docs/models.md describes what each task reads and scores. Or a task "
        "of another package, as for method.",
        json_schema_extra={"enum": [*tasks.TASKS]},
    )
    record: Literal["sentence", "dialogue", "block"] = Field(
        "sentence",
        description="Unit that is sampled, clipped, and protected. dialogue and response: always dialogue; "
        "table_to_text and classification: always sentence, which is a row.",
    )
    sentences_per_block: Size | None = Field(
        None,
        ge=1,
        description="Sentences of a block, with record = block. The choice of sentences never depends on lengths.",
    )
    repetition: Size = Field(
        0,
        ge=0,
        description="Number of the repetition of a training. Repetitions differ in initial weights and "
        "order, and in nothing else.",
    )
    model: str = Field(
        "tiny",
        min_length=1,
        max_length=4_096,
        description="From scratch: tiny (or scratch), mini or distilgpt2, a GPT-2 of that size (the four sizes below "
        "override it), or lstm, the network of Selective-DP, or gru in its place (sdpsgd_lstm never takes a GPT-2). "
        "Pretrained: smollm2 (from its package), the absolute path of a folder, or the name of a hub model "
        "(owner/name) that lies in the local Hugging Face cache.",
    )
    model_revision: str | None = Field(
        None, min_length=1, max_length=256, description="Branch, tag or commit of a hub model; unset: main."
    )
    model_is_public: bool = Field(
        False,
        strict=True,
        description="Your declaration, about a model in a folder, that neither its weights nor its vocabulary were "
        "made from this corpus. Without it such a model is refused. Claims rest on it; the gate does not search what "
        "the model brings.",
    )
    adaptation: Literal["full", "lora", "prefix", "top2", "scratch"] = Field(
        "full",
        description="Weights of a pretrained model that are trained: all, low-rank additions, a prefix, the last two "
        "blocks, or all from random weights.",
    )
    lora_rank: Size = Field(4, ge=1, le=4_096, description="Rank of the low-rank additions.")
    lora_alpha: Size = Field(32, ge=1, le=65_536, description="Scale of the low-rank additions, times their rank.")
    prefix_length: Size = Field(10, ge=1, le=4_096, description="Positions of the prefix, which shorten the context.")
    prefix_hidden: Size | None = Field(
        None,
        ge=1,
        le=65_536,
        description="Width of the MLP that makes the prefix, 512 in Li and Liang (2021). Unset: the prefix itself is "
        "trained.",
    )
    num_layers: Size | None = Field(None, ge=1, le=96, description="Transformer blocks; unset: those of the model.")
    num_heads: Size | None = Field(
        None, ge=1, le=128, description="Attention heads per block; unset: those of the model."
    )
    embedding_size: Size | None = Field(None, ge=8, le=16_384, description="Width; unset: that of the model.")
    context_length: Size | None = Field(
        None,
        ge=8,
        le=1_048_576,
        description="Longest record, in tokens; longer records are cut. Unset: the length of the model, at most 1024 "
        "for a pretrained one. More than the model reads is refused.",
    )
    tokenizer: Literal["auto", "bpe_public", "bytes", "pretrained"] = Field(
        "auto",
        description="Vocabulary. bpe_public: learnt on public rows only (bytes if there are none). bytes: not learnt. "
        "pretrained: the pretrained model's own, which all weights but random ones need. auto: the model's own, or "
        "else bpe_public for crt and no_dp, and bytes for the other methods, which protect public rows too: a "
        "vocabulary that was learnt on some of their records would void their claims.",
    )
    vocab_size: Size = Field(
        1_000,
        ge=325,
        le=200_000,
        description="Most tokens of a bpe_public vocabulary, at least 390 with domain_tokens.",
    )
    speakers: tuple[str, ...] = Field(
        (),
        max_length=64,
        description="Speakers with a control token; empty: crt and no_dp take the common ones of public rows, and the "
        "other methods have one token for all speakers.",
    )
    conversation_tokens: bool = Field(
        False,
        strict=True,
        description="language_modelling, dialogue, response: true if <_soc_> begins the first record of a "
        "conversation (a document) and <_eoc_> ends its last.",
    )
    domain_tokens: bool = Field(
        False,
        strict=True,
        description="language_modelling, dialogue, response: true if each row begins with its domain's control token "
        "(<AIRLINE>).",
    )
    domains: tuple[str, ...] = Field(
        (),
        max_length=64,
        description="Domains with a control token of their own, with domain_tokens; empty: as for speakers.",
    )
    min_speaker_rows: Size = Field(
        10,
        ge=1,
        description="Public rows that a speaker or a domain needs for a token, if speakers, or domains, is empty.",
    )
    epochs: Size = Field(8, ge=1, le=100_000, description="Passes over public and (in expectation) private records.")
    target_delta: float = Field(
        1e-5, gt=0, lt=1, description="Delta of the guarantee. It should be well below 1 / number of private records."
    )
    evaluate_fold: Literal["test", "valid"] = Field("test", description="Fold whose original text is evaluated on.")
    max_eval_sentences: Size = Field(2_000, ge=1, description="Most held-out sentences to evaluate on.")
    insecure_test_seed: bool = Field(
        False, strict=True, description="For tests: predictable samples and noise. The guarantee is void."
    )
    when: TrainWhen | None = Field(
        None,
        description="Runs that train, and so spend budget: every so many nights, or when a share of the input changed "
        "({nights = 7, changed = 0.05}; docs/deploying.md). Other runs prepare text, and what is published stays. "
        "Unset: every run.",
    )
    options: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Options that a method or a task of another package declares: a table [train.options.NAME].",
    )

    @field_validator("method")
    @classmethod
    def _known_method(cls, name: str) -> str:
        methods.module_of(name)
        return name

    @field_validator("task")
    @classmethod
    def _known_task(cls, name: str) -> str:
        tasks.module_of(name)
        return name

    def method_spec(self) -> MethodSpec:
        """Returns the spec of the chosen method."""
        return methods.method(self.method)

    def task_spec(self) -> TaskSpec:
        """Returns the spec of the chosen task."""
        return tasks.task(self.task)

    def of_method(self) -> MethodSettings:
        """Returns the settings that the method has and not every other method has.

        Raises:
            ValueError: an option of the method is wrong.
        """
        options = self.options.get(self.method, {})
        return own_settings(self.method_spec().settings, self, options, f"options.{self.method}")

    def of_task(self) -> TaskSettings:
        """Returns the settings that the task has and not every other task has.

        Raises:
            ValueError: an option of the task is wrong.
        """
        return own_settings(self.task_spec().settings, self, self.options.get(self.task, {}), f"options.{self.task}")

    def uses(self, field: str) -> bool:
        """Checks that the chosen method uses a setting that not every method uses."""
        return field in self.method_spec().settings.model_fields

    def variant(self) -> str | None:
        """Returns the variant of the chosen method; None for a method without variants."""
        setting = self.method_spec().variant_setting
        return None if setting is None else str(getattr(self.of_method(), setting))

    def view(self) -> View:
        """Returns the view of the corpus that the method reads."""
        view = self.method_spec().view
        return with_typed_masks(view) if self.typed_masks and self.uses("typed_masks") else view

    def head(self) -> Literal["causal", "masked", "classification"]:
        """Returns the kind of the model's output head."""
        if not issubclass(self.task_spec().settings, ClassificationSettings):
            return "causal"
        return "classification" if self.template is None else "masked"

    def is_pretrained(self) -> bool:
        """Checks that the architecture, and unless ``adaptation`` is scratch the weights, are of a pretrained model."""
        return self.model not in PRESETS

    def tokenizer_kind(self) -> str:
        """Returns ``bpe_public``, ``bytes`` or ``pretrained``."""
        if self.tokenizer != "auto":
            return self.tokenizer
        if self.is_pretrained():
            return "pretrained"
        return "bpe_public" if self.view().learns_words else "bytes"

    def shape(self) -> ModelShape:
        """Returns the sizes of a model from scratch."""
        return resolve_shape(
            self.model,
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            embedding_size=self.embedding_size,
            context_length=self.context_length,
        )

    def by_owner(self) -> bool:
        """Checks that private steps sample people."""
        return self.unit == "owner" and self.uses("unit")

    def record_unit(self) -> RecordUnit:
        """Returns the unit that is one record."""
        return RecordUnit(kind=self.record, sentences_per_block=self.sentences_per_block)

    def architecture(self) -> str:
        """Returns the kind of network from scratch: ``gpt2``, ``lstm`` or ``gru``."""
        if self.model in RECURRENT:
            return self.model
        return "lstm" if self.method_spec().needs_lstm else "gpt2"

    def is_light_noise(self) -> bool:
        """Checks that the method's first phase adds noise."""
        phase = self.method_spec().first_phase
        return phase is not None and self.variant() in phase.noised_variants

    def control_tokens(self) -> AddedTokens:
        """Returns the control tokens of the vocabulary besides begin, end and padding."""
        from pipelines.training.data.control import AddedTokens  # numpy is slow to import

        if not self.has_added_tokens():
            return AddedTokens(masks=(), has_speakers=False)
        typed = self.typed_masks if self.uses("typed_masks") else ()
        masks = (MASK, *(f"<{label}>" for label in typed))
        has_speakers = self.task_spec().has_speakers
        return AddedTokens(
            masks=masks,
            has_speakers=has_speakers,
            has_domains=has_speakers and self.domain_tokens,
            has_conversations=has_speakers and self.conversation_tokens,
        )

    def has_added_tokens(self) -> bool:
        """Checks that the vocabulary has control tokens besides begin, end and padding."""
        return self.added_tokens or not self.uses("added_tokens")
