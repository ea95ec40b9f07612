"""Train: a language model on public and private shards, the events of what touched private records, and figures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from pipelines.config import StageConfig
from pipelines.context import StageContext
from pipelines.errors import ConfigError, InputError

if TYPE_CHECKING:
    from pipelines.training.corpus import TrainingCorpus
    from pipelines.training.methods.base import Hooks, Settings, Training
    from pipelines.training.shape import ModelShape
    from pipelines.training.views import RecordUnit

Size = Annotated[int, Field(strict=True)]

_OF_PLAIN = ("public_learning_rate", "public_batch_size")
_OF_PRIVATE = (
    *("private_learning_rate", "expected_batch_size", "max_grad_norm"),
    *("target_epsilon", "noise_multiplier"),
)
_OF_JFT = ("jft_variant", "jft_phase1_epochs", "jft_phase1_target_epsilon")
_FIELDS_OF_METHODS: Mapping[str, tuple[str, ...]] = {
    "crt": (*_OF_PLAIN, *_OF_PRIVATE),
    "jft": (*_OF_PLAIN, *_OF_PRIVATE, *_OF_JFT),
    "dpsgd": _OF_PRIVATE,
    "redaction_schedule": (*_OF_PLAIN, *_OF_PRIVATE, "schedule", "schedule_scale"),
    "sdpsgd_lstm": ("public_learning_rate", *_OF_PRIVATE, "max_private_spans", "max_state_norm"),
    "redacted": _OF_PLAIN,
    "anonymized": _OF_PLAIN,
    "no_dp": _OF_PLAIN,
}
"""Settings that not every method uses, by the methods that do. What a method does not use enters no key."""

_PHASE_TWO_ONLY = ("epochs", "private_learning_rate", "target_epsilon", "noise_multiplier")


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
    record: Literal["sentence", "dialogue", "block"] = Field(
        "sentence", description="The unit that is sampled, clipped, and protected."
    )
    sentences_per_block: Size | None = Field(
        None, ge=1, description="Sentences of a block, with record = block; which ones never depends on lengths."
    )
    repetition: Size = Field(
        0, ge=0, description="Tells repetitions of one training apart: other initial weights and order, nothing else."
    )
    model: Literal["tiny", "mini", "distilgpt2", "lstm"] = Field(
        "tiny",
        description="What is trained from scratch: a GPT-2 of that size (the four sizes below override it), or the "
        "LSTM of Selective-DP, which sdpsgd_lstm takes whatever stands here.",
    )
    num_layers: Size | None = Field(None, ge=1, le=96, description="Transformer blocks; unset: as the model says.")
    num_heads: Size | None = Field(None, ge=1, le=128, description="Attention heads a block; unset: as the model says.")
    embedding_size: Size | None = Field(None, ge=8, le=16_384, description="Width; unset: as the model says.")
    context_length: Size | None = Field(
        None, ge=8, le=8_192, description="Longest record, in tokens; longer ones are cut. Unset: as the model says."
    )
    tokenizer: Literal["bpe_public", "bytes"] = Field(
        "bpe_public",
        description="bpe_public: learnt on public rows only (bytes if there are none). bytes: not learnt.",
    )
    vocab_size: Size = Field(1_000, ge=325, le=200_000, description="Most tokens of a bpe_public vocabulary.")
    speakers: tuple[str, ...] = Field(
        (),
        max_length=64,
        description="Speakers with a control token; empty: the common ones of public rows.",
    )
    min_speaker_rows: Size = Field(
        10, ge=1, description="Public rows that a speaker needs for a control token, where speakers is empty."
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
        if self.noise_multiplier is not None and "target_epsilon" not in self.model_fields_set:
            self.__dict__["target_epsilon"] = None  # the default gives way; the instance is frozen from here on
        if (self.target_epsilon is None) == (self.noise_multiplier is None):
            raise ValueError("set exactly one of target_epsilon and noise_multiplier")
        try:
            self.shape()
            self.unit()
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return self

    def shape(self) -> ModelShape:
        """The sizes of the model."""
        from pipelines.training.shape import resolve_shape

        return resolve_shape(
            self.model,
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            embedding_size=self.embedding_size,
            context_length=self.context_length,
        )

    def unit(self) -> RecordUnit:
        """What one record is."""
        from pipelines.training.views import RecordUnit

        return RecordUnit(kind=self.record, sentences_per_block=self.sentences_per_block)

    def architecture(self) -> str:
        """The kind of network: ``gpt2`` or ``lstm``."""
        return "lstm" if self.model == "lstm" or self.method == "sdpsgd_lstm" else "gpt2"

    def keyed(self, stage: str | None = None) -> dict[str, Any]:
        """What the chosen method uses; for phase 1, what phase 1 uses."""
        if stage == "train_phase1" and self.method != "jft":
            return {}
        used = set(_FIELDS_OF_METHODS[self.method])
        unused = {name for fields in _FIELDS_OF_METHODS.values() for name in fields} - used
        if stage == "train_phase1":
            unused |= {"max_grad_norm", "target_delta", "expected_batch_size"} if not self.is_light_noise() else set()
            unused |= set(_PHASE_TWO_ONLY) - ({"private_learning_rate"} if self.is_light_noise() else set())
        return {name: value for name, value in super().keyed().items() if name not in unused}

    def is_light_noise(self) -> bool:
        """Whether phase 1 of jft adds noise."""
        return self.jft_variant in ("light_noise", "conservative_light_noise")

    def unread_inputs(self, stage: str) -> frozenset[str]:
        """What the chosen method does not read."""
        from pipelines.training.views import VIEWS, unread_stages

        learns = self.tokenizer == "bpe_public"
        if stage == "train_phase1":
            if self.method != "jft":
                return frozenset({"shard", "split", "redact", "estimate"})
            needed = {"direct": None, "conservative_light_noise": "redact"}.get(self.jft_variant, "estimate")
            return frozenset({"redact", "estimate"} - {needed})
        unread = unread_stages(VIEWS[self.method], tokenizer_reads_public_rows=learns)
        return unread if self.method == "jft" else unread | {"train_phase1"}

    def code_references(self) -> tuple[str, ...]:
        """The module of the chosen method."""
        from pipelines.training.methods import METHODS

        return (METHODS[self.method],)


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes events, figures and curves (private), and the model folder (public, or private without a bound)."""
    from pipelines.accounting.events import to_json
    from pipelines.training import evaluation, outputs
    from pipelines.training.devices import choose_device, cpu_threads_for
    from pipelines.training.methods import PRIVATE_ROOT_ONLY, load_method
    from pipelines.training.phases import load_phase

    config: TrainConfig = ctx.configs["train"]
    corpus = read(ctx, config, config.method)
    first = load_phase(ctx.inputs["train_phase1"][0].private_dir) if config.method == "jft" else None
    training = load_method(config.method).prepare(corpus, settings_of(ctx, config, first.record if first else None))
    noise_multiplier = _noise_multiplier(ctx, config, training)
    account = training.account(noise_multiplier)
    if ctx.ledger is not None:  # from here on private records are used
        event = to_json(account.event)
        ctx.ledger.reserve(event, config.target_delta, insecure_test_seed=config.insecure_test_seed)

    network = build(ctx, config, corpus)
    if first is not None:
        first.apply(network, corpus)
    network.to(choose_device(ctx.runtime.device))
    num_parameters = sum(p.numel() for p in network.parameters())
    with cpu_threads_for(num_parameters):
        before = first.evaluation if first else evaluation.evaluate(network, corpus.held_out)
        identity = [config.keyed("train"), noise_multiplier, len(corpus.public), len(corpus.private)]
        outcome = training.train(network, noise_multiplier or 0.0, hooks(ctx, config, corpus, identity))
    after = evaluation.Evaluation(**outcome.curve[-1]["evaluation"])
    outputs.write_outputs(
        outputs.Run(
            config=config.model_dump(mode="json"),
            corpus=corpus,
            account=account,
            outcome=outcome,
            planned_steps=training.num_steps,
            sample_rate=training.sample_rate,
            noise_multiplier=noise_multiplier,
            before=before,
            after=after,
            network=network,
        ),
        private=ctx.private_dir,
        model_folder=(ctx.private_dir if config.method in PRIVATE_ROOT_ONLY else ctx.public_root_dir()) / "model",
    )
    if ctx.ledger is not None:
        ctx.ledger.commit()
    return {
        "num_public_records": len(corpus.public),
        "num_private_records": len(corpus.private),
        "num_steps": outcome.num_steps,
        "num_parameters": num_parameters,
    }


def read(ctx: StageContext, config: TrainConfig, view: str) -> TrainingCorpus:
    """What a view (`pipelines.training.views.VIEWS`) reads, as records.

    Raises:
        InputError: there is no row to train on.
    """
    from pipelines.training.corpus import read_corpus
    from pipelines.training.views import VIEWS

    corpus = read_corpus(
        view=VIEWS[view],
        unit=config.unit(),
        public_paths=[artifact.public("public.parquet") for artifact in ctx.inputs.get("shard", ())],
        private_paths=[artifact.private("private.parquet") for artifact in ctx.inputs.get("shard", ())],
        sentence_paths=[artifact.private("sentences.parquet") for artifact in ctx.inputs["split"]],
        redacted_paths=[
            artifact.private("redacted.parquet") for artifact in ctx.inputs.get("redact", ()) if ctx.stage == "train"
        ],
        screened_paths=[
            a.private("screened.parquet") for a in ctx.inputs.get("estimate", ()) if view == "jft_screened"
        ],
        scratch=ctx.scratch_dir,
        tokenizer_kind=config.tokenizer,
        vocab_size=config.vocab_size,
        speakers=config.speakers,
        min_speaker_rows=config.min_speaker_rows,
        context_length=config.shape().context_length,
        evaluate_fold=config.evaluate_fold,
        max_eval_sentences=config.max_eval_sentences,
        progress=ctx.progress,
    )
    if len(corpus.public) + len(corpus.private) == 0:
        raise InputError("train: there is no row to train on: every sentence is in a held-out fold, or was rejected")
    return corpus


def seed_of(ctx: StageContext, config: TrainConfig) -> int:
    """The stage's seed, another one for each repetition."""
    if config.repetition == 0:
        return ctx.seed
    digest = hashlib.sha256(f"repetition/{ctx.seed}/{config.repetition}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def settings_of(ctx: StageContext, config: TrainConfig, phase_one: Mapping[str, Any] | None = None) -> Settings:
    """What a method is told."""
    from pipelines.training.methods.base import Settings

    return Settings(
        epochs=config.epochs,
        public_batch_size=config.public_batch_size,
        expected_batch_size=config.expected_batch_size,
        max_grad_norm=config.max_grad_norm,
        public_learning_rate=config.public_learning_rate,
        private_learning_rate=config.private_learning_rate,
        seed=seed_of(ctx, config),
        target_delta=config.target_delta,
        schedule=config.schedule,
        schedule_scale=config.schedule_scale,
        max_private_spans=config.max_private_spans,
        max_state_norm=config.max_state_norm,
        variant=config.jft_variant if config.method == "jft" else None,
        phase_one=phase_one,
    )


def build(ctx: StageContext, config: TrainConfig, corpus: TrainingCorpus) -> Any:
    """The network, with random weights that depend on settings only."""
    from pipelines.training.lstm_model import build_lstm
    from pipelines.training.model import build_model

    vocab_size = corpus.tokenizer.get_vocab_size()
    if config.architecture() == "lstm":
        return build_lstm(vocab_size, seed_of(ctx, config))
    return build_model(config.shape(), vocab_size, corpus.control, seed_of(ctx, config))


def hooks(ctx: StageContext, config: TrainConfig, corpus: TrainingCorpus, identity: list[Any]) -> Hooks:
    """What the stage lends to a training; a checkpoint is good for the same ``identity`` only."""
    from pipelines.training.checkpoint import Checkpoints
    from pipelines.training.evaluation import evaluate
    from pipelines.training.losses import example_losses
    from pipelines.training.methods.base import Hooks
    from pipelines.training.randomness import seeded, unpredictable

    whole = [*identity, ctx.seed, corpus.tokenizer.get_vocab_size()]
    return Hooks(
        randomness=seeded(ctx.seed) if config.insecure_test_seed else unpredictable,
        checkpoints=Checkpoints(ctx.scratch_dir / "train.ckpt", json.dumps(whole, sort_keys=True)),
        losses=example_losses,
        evaluate=lambda trained: evaluate(trained, corpus.held_out),
        microbatch_size=ctx.runtime.microbatch_size,
        progress=ctx.progress,
    )


def _noise_multiplier(ctx: StageContext, config: TrainConfig, training: Training) -> float | None:
    if training.num_steps == 0:
        return None
    if config.target_epsilon is None:
        return config.noise_multiplier
    ctx.progress(0, None, "calibrating the noise")
    return training.calibrate(config.target_epsilon, config.target_delta)
