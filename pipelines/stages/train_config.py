"""The ``[train]`` table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from pipelines.config import StageConfig
from pipelines.errors import ConfigError
from pipelines.methods.registry import METHODS
from pipelines.methods.view import unread_stages, with_typed_masks
from pipelines.stages.train_checks import LEAST_MISS_RATE, check_together
from pipelines.stages.train_uses import OF_LIGHT_NOISE, method_uses, unused_fields, unused_in_phase_one

if TYPE_CHECKING:
    from pipelines.methods.spec import MethodSpec
    from pipelines.methods.view import View
    from pipelines.training.data.control import AddedTokens
    from pipelines.training.data.record_unit import RecordUnit
    from pipelines.training.models.shape import ModelShape

Size = Annotated[int, Field(strict=True)]


class TrainConfig(StageConfig):
    """The settings of ``[train]``. Those that the chosen method does not use have no effect."""

    method: Literal["crt", "jft", "dpsgd", "redaction_schedule", "sdpsgd_lstm", "redacted", "anonymized", "no_dp"] = (
        Field("crt", description="Training method; docs/methods.md says what each does, and what it promises.")
    )
    jft_variant: Literal["direct", "manual_screening", "light_noise", "conservative_light_noise"] = Field(
        "direct", description="jft: what phase 1 reads, and with how much noise."
    )
    jft_phase1_epochs: Size = Field(4, ge=1, le=100_000, description="jft: passes of phase 1 over redacted text.")
    jft_phase1_target_epsilon: float = Field(
        3.0,
        gt=0,
        allow_inf_nan=False,
        description="jft with light noise: what the noise of phase 1 is chosen for, at the sampling rate times the "
        "miss rate. An estimate, no guarantee.",
    )
    jft_miss_rate: float | None = Field(
        None,
        ge=LEAST_MISS_RATE,
        le=1,
        description="jft with light noise: the miss rate m that the noise of phase 1 is chosen with. Unset: what was "
        "measured on this text (at least the smallest value allowed), as in the paper; then nothing is a guarantee.",
    )
    jft_miss_rate_basis: Literal["measured", "fixed_beforehand", "public_text"] = Field(
        "measured",
        description="Where jft_miss_rate comes from. measured: from a measurement of this text, copied by hand or "
        "taken by the stage: every claim is an estimate. fixed_beforehand: set before this text was measured. "
        "public_text: measured on other, public text. The last two are your word, and stand among the assumptions.",
    )
    schedule: Literal["step", "linear", "expconcave", "expconvex"] = Field(
        "linear", description="redaction_schedule: how the chance of a redacted step falls."
    )
    schedule_scale: float = Field(
        1.0, gt=0, allow_inf_nan=False, description="redaction_schedule: scale of the two exponential schedules."
    )
    max_private_spans: Size = Field(
        2, ge=1, le=64, description="sdpsgd_lstm: private spans of a record; later ones join the last. Each costs."
    )
    max_state_norm: float = Field(
        0.1, gt=0, allow_inf_nan=False, description="sdpsgd_lstm: norm that hidden and cell states are clipped to."
    )
    task: Literal["language_modelling", "dialogue", "response", "table_to_text", "classification"] = Field(
        "language_modelling", description="What the model learns to do; docs/models.md says what each reads and scores."
    )
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
    num_beams: Size = Field(5, ge=1, le=64, description="response, table_to_text: hypotheses of beam search.")
    max_new_tokens: Size = Field(
        64, ge=1, le=4_096, description="response, table_to_text: longest text to generate, in tokens."
    )
    max_generated: Size = Field(
        200, ge=0, description="response, table_to_text: most held-out inputs that text is generated for."
    )
    record: Literal["sentence", "dialogue", "block"] = Field(
        "sentence",
        description="The unit that is sampled, clipped, and protected. dialogue and response: always dialogue; "
        "table_to_text and classification: always sentence, which is a row.",
    )
    sentences_per_block: Size | None = Field(
        None, ge=1, description="Sentences of a block, with record = block; which ones never depends on lengths."
    )
    repetition: Size = Field(
        0, ge=0, description="Tells repetitions of one training apart: other initial weights and order, nothing else."
    )
    model: str = Field(
        "tiny",
        min_length=1,
        max_length=4_096,
        description="From scratch: tiny (or scratch), mini or distilgpt2, a GPT-2 of that size (the four sizes below "
        "override it), or lstm, the LSTM of Selective-DP, which sdpsgd_lstm takes in their place. Pretrained: smollm2 "
        "(from its package), the absolute path of a folder, or the name of a hub model (owner/name) that lies in the "
        "local Hugging Face cache.",
    )
    model_revision: str | None = Field(
        None, min_length=1, max_length=256, description="Branch, tag or commit of a hub model; unset: main."
    )
    model_is_public: bool = Field(
        False,
        strict=True,
        description="Says of a model in a folder, which is refused otherwise, that neither its weights nor its "
        "vocabulary were made from this corpus. Claims rest on it; the gate does not search what the model brings.",
    )
    adaptation: Literal["full", "lora", "prefix", "top2", "scratch"] = Field(
        "full",
        description="Which weights of a pretrained model are trained: all, low-rank additions, a prefix, the last two "
        "blocks, or all from random weights.",
    )
    lora_rank: Size = Field(4, ge=1, le=4_096, description="Rank of the low-rank additions.")
    lora_alpha: Size = Field(32, ge=1, le=65_536, description="Scale of the low-rank additions, times their rank.")
    prefix_length: Size = Field(10, ge=1, le=4_096, description="Positions of the prefix, taken off the context.")
    num_layers: Size | None = Field(None, ge=1, le=96, description="Transformer blocks; unset: as the model says.")
    num_heads: Size | None = Field(None, ge=1, le=128, description="Attention heads a block; unset: as the model says.")
    embedding_size: Size | None = Field(None, ge=8, le=16_384, description="Width; unset: as the model says.")
    context_length: Size | None = Field(
        None,
        ge=8,
        le=1_048_576,
        description="Longest record, in tokens; longer ones are cut. Unset: as the model says, at most 1024 for a "
        "pretrained one. More than the model reads is refused.",
    )
    tokenizer: Literal["auto", "bpe_public", "bytes", "pretrained"] = Field(
        "auto",
        description="bpe_public: learnt on public rows only (bytes if there are none). bytes: not learnt. pretrained: "
        "the pretrained model's own, which other weights than random ones need. auto: the model's own, or else "
        "bpe_public for crt and no_dp, and bytes for the others, which protect public rows too: their claims are void "
        "with a vocabulary that was learnt on some of their records.",
    )
    vocab_size: Size = Field(
        1_000,
        ge=325,
        le=200_000,
        description="Most tokens of a bpe_public vocabulary; with domain_tokens at least 390.",
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
        description="language_modelling, dialogue, response: whether <_soc_> begins the first record of a conversation "
        "(a document) and <_eoc_> ends its last.",
    )
    domain_tokens: bool = Field(
        False,
        strict=True,
        description="language_modelling, dialogue, response: whether each row begins with its domain's control token "
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
        description="Public rows that a speaker or a domain needs for a token, where speakers, or domains, is empty.",
    )
    typed_masks: tuple[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")], ...] = Field(
        (),
        max_length=64,
        description="redacted, anonymized: labels whose masks say so (<PERSON>) instead of <MASK>; for an ablation.",
    )
    added_tokens: bool = Field(
        True,
        strict=True,
        description="dpsgd, no_dp: whether the vocabulary has <MASK> and speakers, as that of every other method. "
        "Without, the model is not told who speaks.",
    )
    epochs: Size = Field(8, ge=1, le=100_000, description="Passes over public and (in expectation) private records.")
    public_learning_rate: float = Field(2e-3, gt=0, le=10, allow_inf_nan=False, description="AdamW step size, public.")
    private_learning_rate: float = Field(
        2e-3, gt=0, le=10, allow_inf_nan=False, description="AdamW step size on noisy private sums."
    )
    public_batch_size: Size = Field(16, ge=1, description="Records in a public minibatch.")
    expected_batch_size: Size = Field(
        256,
        ge=1,
        description="Private records in an average step (Poisson sampling). Larger: less noise, fewer steps.",
    )
    max_grad_norm: float = Field(
        0.1, gt=0, allow_inf_nan=False, description="Norm that the gradient of one private record is clipped to."
    )
    target_epsilon: float | None = Field(
        3.0, gt=0, allow_inf_nan=False, description="Epsilon to calibrate the noise for; not with noise_multiplier."
    )
    noise_multiplier: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="Noise deviation over max_grad_norm, instead of target_epsilon.",
    )
    target_delta: float = Field(
        1e-5, gt=0, lt=1, description="Delta of the guarantee; should be well below 1 / number of private records."
    )
    evaluate_fold: Literal["test", "valid"] = Field("test", description="Fold whose original text is evaluated on.")
    max_eval_sentences: Size = Field(2_000, ge=1, description="Most held-out sentences to evaluate on.")
    insecure_test_seed: bool = Field(
        False, strict=True, description="For tests: predictable samples and noise. The guarantee is void."
    )

    @model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        from pipelines.training.tasks import RECORDS

        if self.noise_multiplier is not None and "target_epsilon" not in self.model_fields_set:
            self.__dict__["target_epsilon"] = None  # the default gives way; the instance is frozen from here on
        if (self.target_epsilon is None) == (self.noise_multiplier is None):
            raise ValueError("set exactly one of target_epsilon and noise_multiplier")
        if self.task != "language_modelling" and "record" not in self.model_fields_set:
            self.__dict__["record"] = RECORDS.get(self.task, "sentence")
        try:
            check_together(self)
            self.unit()
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return self

    def head(self) -> Literal["causal", "masked", "classification"]:
        """What the model has to compute."""
        if self.task != "classification":
            return "causal"
        return "classification" if self.template is None else "masked"

    def is_pretrained(self) -> bool:
        """Whether the architecture, and unless it starts from scratch the weights, come from somewhere else."""
        from pipelines.training.models.shape import PRESETS

        return self.model not in PRESETS

    def tokenizer_kind(self) -> str:
        """``bpe_public``, ``bytes`` or ``pretrained``."""
        if self.tokenizer != "auto":
            return self.tokenizer
        if self.is_pretrained():
            return "pretrained"
        return "bpe_public" if self.view().learns_words else "bytes"

    def shape(self) -> ModelShape:
        """The sizes of a model from scratch."""
        from pipelines.training.models.shape import resolve_shape

        return resolve_shape(
            self.model,
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            embedding_size=self.embedding_size,
            context_length=self.context_length,
        )

    def unit(self) -> RecordUnit:
        """What one record is."""
        from pipelines.training.data.record_unit import RecordUnit

        return RecordUnit(kind=self.record, sentences_per_block=self.sentences_per_block)

    def architecture(self) -> str:
        """The kind of network from scratch: ``gpt2`` or ``lstm``."""
        return "lstm" if self.model == "lstm" or self.spec().needs_lstm else "gpt2"

    def keyed(self, stage: str | None = None) -> dict[str, Any]:
        """What the chosen method uses; for phase 1, what phase 1 uses."""
        if stage == "train_phase1" and self.spec().first_phase is None:
            return {}
        fields = {name: value for name, value in super().keyed().items() if name not in self._unused_by_the_model()}
        fields |= {"tokenizer": self.tokenizer_kind(), **self._identity_of_the_model()}
        unused = unused_fields(self.method, self.task) | self._unused_tokens()
        if stage == "train_phase1":
            unused |= unused_in_phase_one(adds_noise=self.is_light_noise())
        return {name: value for name, value in fields.items() if name not in unused}

    def idle(self) -> frozenset[str]:
        """The settings that have no effect with the chosen method, task and model."""
        used = {*self.keyed("train"), "model_revision"}  # a commit stands for the revision
        idle = type(self).model_fields.keys() - used
        if self.method == "jft" and not self.is_light_noise():
            idle |= OF_LIGHT_NOISE
        return frozenset(idle)

    def _unused_tokens(self) -> set[str]:
        from pipelines.training.tasks import HAVE_SPEAKERS

        tells = self.task in HAVE_SPEAKERS and self.has_added_tokens()
        unused = set() if tells and self.domain_tokens else {"domain_tokens", "domains"}
        return unused if tells and self.conversation_tokens else unused | {"conversation_tokens"}

    def _unused_by_the_model(self) -> set[str]:
        unused = {"model_revision"}  # a commit stands for it
        unused |= {"lora_rank", "lora_alpha"} if self.adaptation != "lora" else set()
        unused |= {"prefix_length"} if self.adaptation != "prefix" else set()
        if not self.is_pretrained():
            unused |= {"adaptation", "model_is_public"}
        if self.tokenizer_kind() != "bpe_public":
            unused.add("vocab_size")
        return unused

    def _identity_of_the_model(self) -> dict[str, Any]:
        from pipelines.training.models.sources import hub_commit, origin_of

        if not self.is_pretrained():
            return {}
        origin = origin_of(self.model)
        if origin == "folder":
            return {"model": "a folder"}  # whose files count by content
        return {"model_commit": hub_commit(self.model, self.model_revision)} if origin == "hub" else {}

    def data_files(self) -> tuple[str, ...]:
        """The files of a model in a folder, which count by content."""
        from pipelines.training.models.sources import model_files

        return tuple(map(str, model_files(self.model))) if self.is_pretrained() else ()

    def data_packages(self) -> tuple[str, ...]:
        """The packages that a model comes in."""
        from pipelines.training.models.sources import distributions_of

        return tuple(distributions_of(self.model))

    def package_references(self) -> tuple[str, ...]:
        """The packages that a model comes in, or is adapted with."""
        return (*self.data_packages(), *(("peft",) if self.adaptation in ("lora", "prefix") else ()))

    def recipe(self, stage: str) -> dict[str, int]:
        """The versions of the engine, of reading records, of the method and of the task."""
        from pipelines.training.recipes import recipe_of

        is_first_phase = stage == "train_phase1"
        if is_first_phase and METHODS[self.method].first_phase is None:
            return {}
        return recipe_of(self.method, self.task, is_first_phase=is_first_phase)

        return {} if stage == "train_phase1" and self.method != "jft" else recipe_of(self.method, self.task)

    def is_light_noise(self) -> bool:
        """Whether phase 1 of jft adds noise."""
        return self.jft_variant in ("light_noise", "conservative_light_noise")

    def unread_inputs(self, stage: str) -> frozenset[str]:
        """What the chosen method does not read."""
        learns = self.tokenizer_kind() == "bpe_public"
        if stage == "train_phase1":
            if self.spec().first_phase is None:
                return frozenset({"shard", "split", "redact", "estimate"})
            needed = {"direct": None, "conservative_light_noise": "redact"}.get(self.jft_variant, "estimate")
            if self.is_light_noise() and self.jft_miss_rate is not None:
                needed = None
            return frozenset({"redact", "estimate"} - {needed})
        unread = unread_stages(self.view(), tokenizer_reads_public_rows=learns)
        return unread if self.spec().first_phase else unread | {"train_phase1"}

    def spec(self) -> MethodSpec:
        """What the chosen method is."""
        return METHODS[self.method]

    def variant(self) -> str | None:
        """That of the chosen method; None where it has none."""
        setting = self.spec().variant_setting
        return None if setting is None else str(getattr(self, setting))

    def view(self) -> View:
        """What the method reads."""
        view = self.spec().view
        return with_typed_masks(view) if self.typed_masks and method_uses(self.method, "typed_masks") else view

    def first_view(self) -> View:
        """What its first phase reads.

        Raises:
            ConfigError: it has none.
        """
        phase, variant = self.spec().first_phase, self.variant()
        if phase is None or variant is None:
            raise ConfigError(f"method {self.method} has no first phase")
        return phase.view_of(variant)

    def control_tokens(self) -> AddedTokens:
        """Those that the vocabulary has beside begin, end and padding."""
        from pipelines.mask import MASK
        from pipelines.training.data.control import AddedTokens
        from pipelines.training.tasks import HAVE_SPEAKERS

        if not self.has_added_tokens():
            return AddedTokens(masks=(), has_speakers=False)
        typed = self.typed_masks if method_uses(self.method, "typed_masks") else ()
        masks = (MASK, *(f"<{label}>" for label in typed))
        has_speakers = self.task in HAVE_SPEAKERS
        return AddedTokens(
            masks=masks,
            has_speakers=has_speakers,
            has_domains=has_speakers and self.domain_tokens,
            has_conversations=has_speakers and self.conversation_tokens,
        )

    def has_added_tokens(self) -> bool:
        """Whether the vocabulary has control tokens beside begin, end and padding."""
        return self.added_tokens or not method_uses(self.method, "added_tokens")

    def code_references(self) -> tuple[str, ...]:
        """The modules of the chosen method and task."""
        from pipelines.training.tasks import TASKS

        return self.spec().module, TASKS[self.task]
