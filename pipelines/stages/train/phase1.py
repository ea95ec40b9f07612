"""Train, phase 1: the redacted fine-tune of JFT (section 4.1), an artifact that several second phases may share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.context import StageContext
from pipelines.errors import ConfigError, InputError

if TYPE_CHECKING:
    from pipelines.stages.train.config import TrainConfig


def run(ctx: StageContext) -> dict[str, Any]:
    """Writes ``phase.json`` and, for jft, ``weights.safetensors``. Other methods have no first phase."""
    from pipelines.training.methods.phases import write_no_phase

    config: TrainConfig = ctx.configs["train"]
    if config.method_spec().first_phase is None:
        write_no_phase(ctx.out)
        return {}
    from pipelines.stages.train.ranks import check_ranks, on_ranks

    check_ranks(ctx)
    return on_ranks(ctx, redacted_fine_tune)


def redacted_fine_tune(ctx: StageContext) -> dict[str, Any]:
    """The phase, in this process or in each of those that train together; the first one writes."""
    from pipelines.dp.ranks import Ranks
    from pipelines.stages.train.train import open_network, read, seed_of, settings_of, training_context
    from pipelines.training.devices import choose_device, cpu_threads_for, freed_memory_kept
    from pipelines.training.machines.network_exchanges import network_exchanges_in
    from pipelines.training.methods.jft_phase_one import prepare_phase_one
    from pipelines.training.methods.phases import write_phase

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
            "screen them in `reticent review --screening`, then `reticent run` again. sample.screening_fraction says "
            "how many there are"
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
    """The m that light noise is chosen with: value, upper bound, confidence, basis; None without light noise.

    A measured one is never below `LEAST_MISS_RATE`, and bears the mark of a measurement.

    Raises:
        ConfigError: it was neither set nor measured.
    """
    from pipelines.methods.jft import LEAST_MISS_RATE
    from pipelines.miss_rate.rates import miss_rate_of

    if not config.is_light_noise():
        return None
    if (given := config.jft_miss_rate) is not None:
        return {"value": given, "upper": given, "confidence": 1.0, "basis": config.jft_miss_rate_basis}
    if config.jft_variant == "conservative_light_noise":
        parts = [a.json("figures.json") for a in ctx.inputs["redact"]]
        tokens = sum(part["num_tokens"] - part["num_duplicate_tokens"] for part in parts)
        masked = sum(part["num_masked_tokens"] for part in parts)
        share = masked / tokens if tokens else 0.0  # every token masked was missed: the worst that could be (4.3)
        found = {"value": share, "upper": share, "confidence": 1.0}
    else:
        rate = miss_rate_of(ctx.input("estimate").json("figures.json"))
        if rate is None:
            raise ConfigError(
                "train.jft_variant = 'light_noise' chooses its noise by the miss rate, which was not measured; set "
                "train.jft_miss_rate, review a sample or bring labels, or take conservative_light_noise"
            )
        found = {"value": rate.value, "upper": rate.upper, "confidence": rate.confidence}
    return {**found, "upper": max(found["upper"], LEAST_MISS_RATE), "basis": "measured"}
