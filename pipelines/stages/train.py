"""Train: a language model on public and private shards, the events of what touched private records, and figures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from pipelines.config import StageConfig
from pipelines.context import StageContext
from pipelines.errors import ConfigError, InputError

if TYPE_CHECKING:
    from pipelines.training.corpus import TrainingCorpus
    from pipelines.training.engine.sampling import PrivatePlan
    from pipelines.training.methods.crt import Outcome
    from pipelines.training.shape import ModelShape

Size = Annotated[int, Field(strict=True)]


class TrainConfig(StageConfig):
    """The settings of ``[train]``."""

    method: Literal["crt"] = Field("crt", description="Training method. crt: AdamW on public, DP-AdamW on private.")
    model: Literal["tiny", "mini", "distilgpt2"] = Field(
        "tiny", description="Size of the GPT-2 that is trained from scratch; the four sizes below override it."
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

    def unread_inputs(self) -> frozenset[str]:
        """What the chosen method does not read."""
        from pipelines.training.views import VIEWS, unread_stages

        return unread_stages(VIEWS[self.method], tokenizer_reads_public_rows=self.tokenizer == "bpe_public")

    def code_references(self) -> tuple[str, ...]:
        """The module of the chosen method."""
        from pipelines.training.methods import METHODS

        return (METHODS[self.method],)


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes events, figures and curves (private), and the model folder (public)."""
    from pipelines.training import evaluation, model, outputs
    from pipelines.training.devices import choose_device, cpu_threads_for
    from pipelines.training.methods import load_method

    config: TrainConfig = ctx.configs["train"]
    method = load_method(config.method)
    corpus = _read(ctx, config)
    plan = method.plan(len(corpus.private), config.expected_batch_size, config.epochs)
    noise_multiplier = _noise_multiplier(ctx, config, plan)
    event = method.event(plan, noise_multiplier)
    if ctx.ledger is not None:  # from here on private records are used
        ctx.ledger.reserve(event, config.target_delta, insecure_test_seed=config.insecure_test_seed)

    vocab_size = corpus.tokenizer.get_vocab_size()
    network = model.build_model(config.shape(), vocab_size, corpus.control, ctx.seed)
    network.to(choose_device(ctx.runtime.device))
    num_parameters = sum(p.numel() for p in network.parameters())
    with cpu_threads_for(num_parameters):
        before = evaluation.evaluate(network, corpus.held_out)
        outcome = _train(ctx, config, corpus, network, plan, noise_multiplier)
    after = evaluation.Evaluation(**outcome.curve[-1]["evaluation"])

    warnings = outputs.warnings_about(
        num_private=len(corpus.private),
        target_delta=config.target_delta,
        insecure_test_seed=config.insecure_test_seed,
        noise_multiplier=noise_multiplier,
    )
    events = outputs.events_document(
        method=config.method,
        event=event,
        corpus=corpus,
        target_delta=config.target_delta,
        target_epsilon=config.target_epsilon,
        max_grad_norm=config.max_grad_norm,
        insecure_test_seed=config.insecure_test_seed,
        warnings=warnings,
    )
    figures = outputs.figures_document(
        method=config.method,
        corpus=corpus,
        before=before,
        after=after,
        plan=plan,
        noise_multiplier=noise_multiplier,
        epochs=config.epochs,
        num_steps=outcome.num_steps,
        num_parameters=num_parameters,
        vocab_size=vocab_size,
        evaluate_fold=config.evaluate_fold,
        warnings=warnings,
    )
    outputs.write_json(ctx.private_dir / "events.json", events)
    outputs.write_json(ctx.private_dir / "figures.json", figures)
    outputs.write_json(ctx.private_dir / "curves.json", {"note": outputs.CURVES_NOTE, "epochs": outcome.curve})
    outputs.write_model_folder(
        ctx.public_root_dir() / "model",
        network,
        corpus,
        method=config.method,
        target_epsilon=config.target_epsilon,
        target_delta=config.target_delta,
        context_length=config.shape().context_length,
    )
    if ctx.ledger is not None:
        ctx.ledger.commit()
    return {
        "num_public_records": len(corpus.public),
        "num_private_records": len(corpus.private),
        "num_steps": outcome.num_steps,
        "num_parameters": num_parameters,
    }


def _read(ctx: StageContext, config: TrainConfig) -> TrainingCorpus:
    from pipelines.training.corpus import read_corpus
    from pipelines.training.views import VIEWS, RecordUnit

    corpus = read_corpus(
        view=VIEWS[config.method],
        unit=RecordUnit(),
        public_paths=[artifact.public("public.parquet") for artifact in ctx.inputs.get("shard", ())],
        private_paths=[artifact.private("private.parquet") for artifact in ctx.inputs.get("shard", ())],
        sentence_paths=[artifact.private("sentences.parquet") for artifact in ctx.inputs["split"]],
        redacted_paths=[artifact.private("redacted.parquet") for artifact in ctx.inputs.get("redact", ())],
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


def _noise_multiplier(ctx: StageContext, config: TrainConfig, plan: PrivatePlan) -> float | None:
    from pipelines.accounting.calibration import calibrate_noise_multiplier

    if plan.num_steps == 0:
        return None
    if config.target_epsilon is None:
        return config.noise_multiplier
    ctx.progress(0, None, "calibrating the noise")
    return calibrate_noise_multiplier(
        target_epsilon=config.target_epsilon,
        target_delta=config.target_delta,
        sample_rate=plan.sample_rate,
        num_steps=plan.num_steps,
        relation="replace_one",
    )


def _train(
    ctx: StageContext,
    config: TrainConfig,
    corpus: TrainingCorpus,
    network: Any,
    plan: PrivatePlan,
    noise_multiplier: float | None,
) -> Outcome:
    from pipelines.training.checkpoint import Checkpoints
    from pipelines.training.evaluation import evaluate
    from pipelines.training.methods import load_method
    from pipelines.training.randomness import seeded, unpredictable

    method = load_method(config.method)
    recipe = method.Recipe(
        epochs=config.epochs,
        public_learning_rate=config.public_learning_rate,
        private_learning_rate=config.private_learning_rate,
        public_batch_size=config.public_batch_size,
        max_grad_norm=config.max_grad_norm,
        noise_multiplier=noise_multiplier or 0.0,
        seed=ctx.seed,
    )
    identity = [config.keyed(), repr(recipe), repr(plan), len(corpus.public), corpus.tokenizer.get_vocab_size()]
    outcome: Outcome = method.train(
        network,
        corpus.public,
        corpus.private,
        recipe,
        plan,
        randomness=seeded(ctx.seed) if config.insecure_test_seed else unpredictable,
        checkpoints=Checkpoints(ctx.scratch_dir / "train.ckpt", json.dumps(identity, sort_keys=True)),
        evaluate=lambda trained: evaluate(trained, corpus.held_out),
        microbatch_size=ctx.runtime.microbatch_size,
        progress=ctx.progress,
    )
    return outcome
