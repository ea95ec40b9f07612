"""Train: a model on public and private shards, the privacy events of the training, and figures."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pipelines import memory_files
from pipelines.accounting.events import to_json
from pipelines.accounting.facts import PERSON, PUBLIC_BASES, is_from_private_text
from pipelines.artifacts import Target
from pipelines.context import Spent, StageContext
from pipelines.corpus.tables import DOCUMENTS, SENTENCES
from pipelines.dp.ranks import Ranks
from pipelines.errors import ConfigError, InputError
from pipelines.methods.registry import rule_of
from pipelines.policies.held import HELD
from pipelines.policies.sharding import SHARD
from pipelines.policies.tables import REDACTED
from pipelines.randomness import of_training
from pipelines.settings.train import TrainConfig
from pipelines.stages.train.ranks import check_ranks, is_alone, on_ranks
from pipelines.training import outputs
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.data.corpus import CorpusSettings, TrainingCorpus, TrainingTables, read_corpus
from pipelines.training.devices import attention_on, autocast, choose_device, cpu_threads_for, freed_memory_kept
from pipelines.training.finished import FinishedTraining
from pipelines.training.loop import TrainingContext
from pipelines.training.machines.network_exchanges import network_exchanges_in
from pipelines.training.methods.base import Account, PlannedTraining, TrainingSettings
from pipelines.training.methods.phases import FinishedPhase, load_phase
from pipelines.training.models.adaptation import Adaptation
from pipelines.training.models.loading import OpenedModel, open_model
from pipelines.training.models.network import DEFAULT_CONTEXT_LENGTH, Network, NetworkFromScratch, PretrainedNetwork
from pipelines.training.models.shape import MIN_CONTEXT_LENGTH, num_states
from pipelines.training.scoring.evaluation import Evaluation
from pipelines.training.tasks.base import Task, TaskModel, has_targets

if TYPE_CHECKING:
    from torch import Tensor

    from pipelines.methods.view import View
    from pipelines.training.data.records import ExampleBatch
    from pipelines.training.data.vocabulary import Vocabulary


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes events, figures and curves (private), and the model folder (public, or private without a bound)."""
    config: TrainConfig = ctx.configs["train"]
    check_ranks(ctx)
    prepared = _prepare(ctx)
    if config.method_spec().publishes_model:
        with ctx.out.scratch.emptied("tokenizer") as tokenizer:
            with memory_files.writable(tokenizer.folder) as folder:
                prepared.corpus.vocabulary.tokenizer.save_pretrained(folder)
            ctx.run.search(tokenizer)
    noise_multiplier = _noise_multiplier(ctx, config, prepared.training)
    spent = None
    if ctx.run.ledger is not None:  # from here on private records are used
        account = prepared.training.account(noise_multiplier)
        spent = ctx.run.ledger.reserve(
            to_json(account.event),
            config.target_delta,
            facts=release_facts(config, prepared.corpus, account, ctx.configs.get("guarantee")),
            is_public=config.method_spec().publishes_model,
            insecure_test_seed=config.insecure_test_seed,
        )
    if is_alone(ctx):
        counts = _train(ctx, prepared, noise_multiplier, spent)
    else:
        del prepared  # each process reads for itself, and this one only watches them
        counts = on_ranks(ctx, prepare_and_train, noise_multiplier, spent)
    if ctx.run.ledger is not None:
        ctx.run.ledger.commit()
    return counts


def prepare_and_train(ctx: StageContext, noise_multiplier: float | None, spent: Spent | None) -> dict[str, Any]:
    """Prepares and trains in one of several processes. The process that started them keeps the ledger."""
    return _train(ctx, _prepare(ctx), noise_multiplier, spent)


def release_facts(
    config: TrainConfig, corpus: TrainingCorpus, account: Account, guarantee: Any = None
) -> dict[str, Any]:
    """Returns what the ledger keeps of a training besides its event (`pipelines.accounting.facts.ReleaseFacts`)."""
    rule = rule_of(config.method, account.variant)
    is_bound = corpus.owner_bound is not None and guarantee.owner_bound_basis in PUBLIC_BASES
    phases = account.phases or ((config.method, rule.rows or "original", account.event),)
    return {
        "method": config.method,
        "variant": account.variant,
        "record": config.record if corpus.owners is None else PERSON,
        "num_private_records": corpus.num_private,
        "phases": [{"name": name, "rows": rows, "event": to_json(event)} for name, rows, event in phases],
        "met": sorted(account.preconditions),
        "trains_on_public_rows": rule.has_public_set,
        "typed_masks": bool(corpus.vocabulary.control.typed_masks),
        "is_noise_from_private_text": is_from_private_text(account.light_noise_miss_rate),
        **({"owner_bound": corpus.owner_bound} if is_bound else {}),
    }


class _Prepared(NamedTuple):
    """A planned training before its first step."""

    first: FinishedPhase | None
    start: Network
    corpus: TrainingCorpus
    task: Task
    training: PlannedTraining


def _prepare(ctx: StageContext) -> _Prepared:
    config: TrainConfig = ctx.configs["train"]
    first = load_phase(ctx.input("train_phase1")) if config.method_spec().first_phase else None
    start = open_network(ctx, config, seed_of(ctx, config) if first is None else first.seed)
    corpus, task = read(ctx, config, config.view(), start)
    training = importlib.import_module(config.method_spec().module).prepare(
        corpus, settings_of(ctx, config, first.record if first else None)
    )
    return _Prepared(first, start, corpus, task, training)


def _train(
    ctx: StageContext, prepared: _Prepared, noise_multiplier: float | None, spent: Spent | None
) -> dict[str, Any]:
    """Trains, alone or with other processes, and writes the results if this process is the first."""
    config: TrainConfig = ctx.configs["train"]
    first, start, corpus, task, training = prepared
    network = start.build()
    if first is not None:
        first.apply(network, corpus)
    network.to(choose_device(ctx.runtime.device))
    num_parameters = sum(p.numel() for p in network.parameters())
    is_first = Ranks.here().is_first
    with cpu_threads_for(num_parameters), freed_memory_kept():
        before = first.evaluation if first else task.evaluate(network, corpus.held_out) if is_first else None
        identity = [
            config.keyed("train"),
            noise_multiplier,
            len(corpus.nonprivate_examples),
            len(corpus.private_examples),
        ]
        outcome = training.train(
            network, noise_multiplier or 0.0, training_context(ctx, config, corpus, task, identity)
        )
        if before is None or not is_first:
            return {}
    outputs.write_outputs(
        FinishedTraining(
            config=config.model_dump(mode="json"),
            task=config.of_task(),
            corpus=corpus,
            account=training.account(noise_multiplier),
            outcome=outcome,
            planned_steps=training.num_steps,
            sample_rate=training.sample_rate,
            noise_multiplier=noise_multiplier,
            before=before,
            network=network,
            base=start.base,
            context_length=start.context_length,
            head=config.head(),
            spent=spent,
            network_exchanges=network_exchanges_in(ctx.out.scratch, first.network_exchanges if first else ()),
        ),
        private=ctx.out,
        model=(ctx.out.public if config.method_spec().publishes_model else ctx.out).below("model"),
        marked=ctx.out.marked.below("model"),
    )
    private = {"num_private_records": len(corpus.private_examples)}
    return {
        "num_public_records": len(corpus.nonprivate_examples),
        **(private if corpus.owners is None else {"num_people": corpus.owners.count}),
        **({} if corpus.owner_bound is None else {"num_over_bound": corpus.num_over_bound}),
        "num_steps": outcome.num_steps,
        "num_parameters": num_parameters,
    }


def read(ctx: StageContext, config: TrainConfig, view: View, network: Network) -> tuple[TrainingCorpus, Task]:
    """Reads the rows of a view as examples of the task.

    Raises:
        ConfigError: the texts to be generated do not fit into the model's context.
        InputError: no row to train on exists, or no row has anything to learn.
    """
    spec = config.task_spec()
    if spec.generates and network.context_length < config.max_new_tokens + MIN_CONTEXT_LENGTH:
        raise ConfigError(
            f"train.max_new_tokens ({config.max_new_tokens}) leaves no room for the input in a context of "
            f"{network.context_length} tokens; lower train.max_new_tokens"
        )
    encoders: list[Task] = []

    def make_encoder(vocabulary: Vocabulary) -> Task:
        model = TaskModel(vocabulary=vocabulary, context_length=network.context_length, loaded=network.loaded)
        encoders.append(importlib.import_module(spec.module).make_task(model, config.of_task()))
        return encoders[-1]

    corpus = read_corpus(
        _tables(ctx, config, view),
        CorpusSettings(
            view=view,
            unit=config.record_unit(),
            speakers=config.speakers or spec.speakers,
            domains=config.domains,
            min_speaker_rows=config.min_speaker_rows,
            evaluate_fold=config.evaluate_fold,
            max_eval_sentences=config.max_eval_sentences,
            owner_records=config.owner_records if config.by_owner() else None,
            owner_bound=_owner_bound(ctx),
        ),
        make_vocabulary=network.vocabulary,
        make_encoder=make_encoder,
        scratch=_own_scratch(ctx),
        progress=ctx.run.progress,
    )
    if len(corpus.nonprivate_examples) + len(corpus.private_examples) == 0:
        raise InputError("train: there is no row to train on: every sentence is in a held-out fold, or was rejected")
    if config.task != "language_modelling" and not has_targets(corpus.nonprivate_examples, corpus.private_examples):
        raise InputError(f"train: no row has anything to learn for task = {config.task!r}; is corpus.format right?")
    return corpus, encoders[0]


def _tables(ctx: StageContext, config: TrainConfig, view: View) -> TrainingTables:
    """Returns the tables among the inputs that this view reads."""
    split, shard = ctx.inputs["split"], ctx.inputs.get("shard", ())
    redacted = ctx.inputs.get("redact", ()) if ctx.stage == "train" else ()
    estimate = ctx.inputs.get("estimate", ()) if view.nonprivate == "screened" else ()
    needs_documents = config.conversation_tokens or config.by_owner() or _owner_bound(ctx) is not None
    tables = TrainingTables(
        public=[artifact.table(SHARD, "public") for artifact in shard],
        private=[artifact.table(SHARD, "private") for artifact in shard],
        sentences=[artifact.table(SENTENCES) for artifact in split],
        redacted=[artifact.table(REDACTED) for artifact in redacted],
        screened=[artifact.table(SHARD, "screened") for artifact in estimate],
        documents=[artifact.table(DOCUMENTS) for artifact in split if needs_documents],
        held=[artifact.table(HELD) for artifact in ctx.inputs.get("gate", ()) if view.reads_masks],
    )
    return tables if ctx.outside.overlay is None else tables.with_overlay(ctx.outside.overlay)


def _owner_bound(ctx: StageContext) -> int | None:
    """Returns ``guarantee.owner_bound``, which a first phase of a training does not read."""
    return ctx.configs["guarantee"].owner_bound if "guarantee" in ctx.configs else None


def seed_of(ctx: StageContext, config: TrainConfig) -> int:
    """Returns the stage's seed, which differs between repetitions."""
    if config.repetition == 0:
        return ctx.seed
    digest = hashlib.sha256(f"repetition/{ctx.seed}/{config.repetition}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def settings_of(ctx: StageContext, config: TrainConfig, phase_one: Mapping[str, Any] | None = None) -> TrainingSettings:
    """Returns the settings that the training method gets."""
    return TrainingSettings(
        epochs=config.epochs,
        public_batch_size=config.public_batch_size,
        expected_batch_size=config.expected_batch_size,
        max_grad_norm=config.max_grad_norm,
        public_learning_rate=config.public_learning_rate,
        private_learning_rate=config.private_learning_rate,
        seed=seed_of(ctx, config),
        target_delta=config.target_delta,
        variant=config.variant(),
        own=config.of_method(),
        phase_one=phase_one,
        num_states=num_states(config.architecture()),
    )


def open_network(ctx: StageContext, config: TrainConfig, seed: int) -> Network:
    """Opens the network that the training starts from, before any row of the corpus is read.

    Raises:
        ConfigError: the model cannot be used.
    """
    own: dict[str, Any] = {"tokenizer_kind": config.tokenizer_kind(), "vocab_size": config.vocab_size, "seed": seed}
    own["added"] = config.control_tokens()
    network: Network
    if config.is_pretrained():
        network = PretrainedNetwork(_open_model(ctx, config, seed), **own)
    else:
        network = NetworkFromScratch(config.architecture(), config.shape(), **own)
    if Ranks.here().is_first:
        with memory_files.writable(ctx.out.basis) as folder:
            network.write_basis(folder)
    return network


def _open_model(ctx: StageContext, config: TrainConfig, seed: int) -> OpenedModel:
    ctx.run.progress(0, None, "loading the model")
    return open_model(
        config.model,
        config.head(),
        adaptation=Adaptation(
            kind=config.adaptation,
            lora_rank=config.lora_rank,
            lora_alpha=config.lora_alpha,
            prefix_length=config.prefix_length,
            prefix_hidden=config.prefix_hidden,
        ),
        num_labels=len(config.classes) if config.head() == "classification" else None,
        brings_tokenizer=config.tokenizer_kind() == "pretrained",
        context_length=config.context_length,
        default_context_length=DEFAULT_CONTEXT_LENGTH,
        revision=config.model_revision,
        attention=attention_on(ctx.runtime.device),
        cache=ctx.out.cache,
        seed=seed,
    )


def _own_scratch(ctx: StageContext) -> Target:
    """Returns the folder in which this process keeps the corpus."""
    ranks = Ranks.here()
    return ctx.out.scratch if ranks.is_first else ctx.out.scratch.below(f"rank-{ranks.rank}")


def training_context(
    ctx: StageContext, config: TrainConfig, corpus: TrainingCorpus, task: Task, identity: list[Any]
) -> TrainingContext:
    """Returns what a training needs from the stage: randomness, checkpoints, losses, evaluation and progress.

    A checkpoint is valid for the same ``identity`` only. It is valid for any number of processes, because all hold the
    same state, and only samples that are still to be drawn differ.
    """

    def losses(network: Any, batch: ExampleBatch) -> Tensor:
        with autocast(batch.inputs.device, ctx.runtime.dtype):
            return task.example_losses(network, batch)

    def evaluate(network: Any) -> Evaluation:
        if not ranks.is_first:
            return Evaluation(reason="another process evaluates")
        return task.evaluate(network, corpus.held_out)

    ranks = Ranks.here()
    checkpoint_identity = [*identity, ctx.seed, corpus.vocabulary.backend.get_vocab_size()]
    return TrainingContext(
        randomness=of_training(ctx.seed, ranks.rank, insecure_test_seed=config.insecure_test_seed),
        checkpoints=Checkpoints(
            ctx.out.scratch.blob("train.ckpt"), json.dumps(checkpoint_identity, sort_keys=True), writes=ranks.is_first
        ),
        losses=losses,
        evaluate=evaluate,
        microbatch_size=ctx.runtime.microbatch_size,
        progress=ctx.run.progress,
    )


def _noise_multiplier(ctx: StageContext, config: TrainConfig, training: PlannedTraining) -> float | None:
    if training.num_steps == 0:
        return None
    if config.target_epsilon is None:
        return config.noise_multiplier
    ctx.run.progress(0, None, "calibrating the noise")
    return training.calibrate(config.target_epsilon, config.target_delta)
