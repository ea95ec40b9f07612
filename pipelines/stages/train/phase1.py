"""Train, phase 1: the redacted fine-tune of JFT (section 4.1), an artifact that several second phases may share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.context import StageContext
from pipelines.dp.ranks import Ranks
from pipelines.errors import ConfigError, InputError
from pipelines.methods.jft import LEAST_MISS_RATE
from pipelines.miss_rate.rates import miss_rate_of
from pipelines.stages.train.ranks import check_ranks, on_ranks
from pipelines.stages.train.train import open_network, read, seed_of, settings_of, training_context
from pipelines.training.devices import choose_device, cpu_threads_for, freed_memory_kept
from pipelines.training.machines.network_exchanges import network_exchanges_in
from pipelines.training.methods.jft_phase_one import prepare_phase_one
from pipelines.training.methods.phases import write_no_phase, write_phase

if TYPE_CHECKING:
    from pipelines.settings.train import TrainConfig


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``phase.json`` and, for jft, ``weights.safetensors``. Other methods have no first phase."""
    config: TrainConfig = ctx.configs["train"]
    if config.method_spec().first_phase is None:
        write_no_phase(ctx.out)
        return {}
    check_ranks(ctx)
    return on_ranks(ctx, redacted_fine_tune)


def redacted_fine_tune(ctx: StageContext) -> dict[str, Any]:
    """Trains the phase in this process, or in each process that trains together. The first process writes."""
    config: TrainConfig = ctx.configs["train"]
    phase = config.method_spec().first_phase
    assert phase is not None  # noqa: S101  # or `run` had stopped
    is_screened = config.jft_variant == "manual_screening"
    seed = seed_of(ctx, config)
    start = open_network(ctx, config, seed)
    try:
        corpus, task = read(ctx, config, phase.view_of(config.variant()), start)
    except InputError:
        if not is_screened:
            raise
        raise ConfigError(
            "train.jft_variant = 'manual_screening' fine-tunes on rows that people have screened, and there are none: "
            "screen rows with `reticent review --screening`, then `reticent run` again. sample.screening_fraction sets "
            "the number of rows to screen"
        ) from None
    miss_rate = _miss_rate(ctx, config)
    training = prepare_phase_one(corpus, settings_of(ctx, config), config.jft_phase1_epochs, miss_rate)
    noise_multiplier = None
    if training.num_steps:
        ctx.run.progress(0, None, "calibrating the noise")
        noise_multiplier = training.calibrate(config.jft_phase1_target_epsilon, config.target_delta)
    network = start.build()
    network.to(choose_device(ctx.runtime.device))
    with cpu_threads_for(sum(p.numel() for p in network.parameters())), freed_memory_kept():
        before = task.evaluate(network, corpus.held_out) if Ranks.here().is_first else None
        identity = [config.keyed("train_phase1"), noise_multiplier, len(corpus.nonprivate_examples)]
        context = training_context(ctx, config, corpus, task, identity)
        outcome = training.train(network, noise_multiplier or 0.0, context)
    if before is not None:
        account, exchanges = training.account(noise_multiplier), network_exchanges_in(ctx.out.scratch)
        write_phase(ctx.out, network, corpus, account, outcome, before, seed, exchanges)
    return {"num_records": len(corpus.nonprivate_examples), "num_steps": outcome.num_steps}


def _miss_rate(ctx: StageContext, config: TrainConfig) -> dict[str, Any] | None:
    """Returns the miss rate m that light noise follows: value, upper bound, confidence, basis; None without such noise.

    A rate that was measured on a sample has the lower end of its interval, too. A measured upper bound is never below
    `LEAST_MISS_RATE`, and its basis is ``measured``.

    Raises:
        ConfigError: the miss rate was neither set nor measured.
    """
    if not config.is_light_noise():
        return None
    if (value := config.jft_miss_rate) is not None:
        return {"value": value, "upper": value, "confidence": 1.0, "basis": config.jft_miss_rate_basis}
    if config.jft_variant == "conservative_light_noise":
        parts = [a.json("figures.json") for a in ctx.inputs["redact"]]
        tokens = sum(part["num_tokens"] - part["num_duplicate_tokens"] for part in parts)
        masked = sum(part["num_masked_tokens"] for part in parts)
        share = masked / tokens if tokens else 0.0  # every token masked was missed: the worst that could be (4.3)
        measured = {"value": share, "upper": share, "confidence": 1.0}
    else:
        rate = miss_rate_of(ctx.input("estimate").json("figures.json"))
        if rate is None:
            raise ConfigError(
                "train.jft_variant = 'light_noise' chooses its noise by the miss rate, which was not measured; set "
                "train.jft_miss_rate, review a sample or bring labels, or take conservative_light_noise"
            )
        measured = {"value": rate.value, "lower": rate.lower, "upper": rate.upper, "confidence": rate.confidence}
    return {**measured, "upper": max(measured["upper"], LEAST_MISS_RATE), "basis": "measured"}
