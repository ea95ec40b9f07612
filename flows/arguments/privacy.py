"""Commands of accounting: ``reticent privacy ...``."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from flows.arguments.common import JsonOption, RelationOption, SampleRateOption, StepsOption, emit, privacy_app


@privacy_app.command("epsilon")
def privacy_epsilon(
    sample_rate: SampleRateOption,
    noise_multiplier: Annotated[float, typer.Option(help="Standard deviation of the noise over the clipping norm.")],
    steps: StepsOption,
    delta: Annotated[float, typer.Option(help="Delta at which epsilon is stated.")],
    relation: RelationOption = "add_or_remove_one",
    as_json: JsonOption = False,
) -> None:
    """Compute epsilon of DP-SGD by PLD (upper and lower bound), RDP and, as an asymptotic figure, GDP-CLT."""
    from flows.commands.privacy import epsilon_document, epsilon_text

    document = epsilon_document(
        sample_rate=sample_rate, noise_multiplier=noise_multiplier, steps=steps, delta=delta, relation=relation
    )
    emit(document, as_json, epsilon_text(document))


@privacy_app.command("person")
def privacy_person(
    sample_rate: SampleRateOption,
    noise_multiplier: Annotated[float, typer.Option(help="Standard deviation of the noise over the clipping norm.")],
    steps: StepsOption,
    delta: Annotated[float, typer.Option(help="Delta at which epsilon is stated.")],
    records: Annotated[int, typer.Option(help="Largest number of records of one person.")],
    as_json: JsonOption = False,
) -> None:
    """Compute epsilon of a person with several records, if DP-SGD samples records. Neighbours replace the person."""
    from flows.commands.privacy_person import person_document, person_text

    document = person_document(
        sample_rate=sample_rate, noise_multiplier=noise_multiplier, steps=steps, delta=delta, records=records
    )
    emit(document, as_json, person_text(document))


@privacy_app.command("plan")
def privacy_plan(
    context: typer.Context,
    people: Annotated[int | None, typer.Option(help="Number of people, which must be public.")] = None,
    records: Annotated[int | None, typer.Option(help="Number of records, likewise.")] = None,
    median: Annotated[int | None, typer.Option(help="Records that half of the people do not exceed, likewise.")] = None,
    most: Annotated[int | None, typer.Option(help="Records that nobody exceeds, likewise.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Epsilon to meet. Default: train.target_epsilon.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="Its delta. Default: train.target_delta, or less for many people.")
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Compute, as passes over the records. Default: train.epochs.")
    ] = None,
    gradients: Annotated[float | None, typer.Option(help="Compute, as gradients of single records.")] = None,
    tokens: Annotated[float | None, typer.Option(help="Compute, as tokens.")] = None,
    hours: Annotated[float | None, typer.Option(help="Compute, as hours.")] = None,
    record_tokens: Annotated[float | None, typer.Option(help="Tokens of an average record, for --tokens.")] = None,
    throughput: Annotated[
        float | None, typer.Option(help="Gradients of records that a second computes, for hours.")
    ] = None,
    parameters: Annotated[
        int | None, typer.Option(help="Number of trained parameters. Default: that of train.model.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A settings file, for what is not given.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A file for a picture of the plan (SVG).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Recommend unit, batch size, steps and noise before anybody trains, and warn if noise will drown the signal."""
    from flows.commands.privacy_plan import Budget, plan_document, plan_text

    given = Budget(**{field.name: context.params[field.name] for field in fields(Budget)})
    document = plan_document(given, config, os.environ, out)
    emit(document, as_json, plan_text(document))


@privacy_app.command("calibrate")
def privacy_calibrate(
    target_epsilon: Annotated[float, typer.Option(help="Epsilon to meet.")],
    target_delta: Annotated[float, typer.Option(help="Delta that goes with it.")],
    sample_rate: SampleRateOption,
    steps: StepsOption,
    relation: RelationOption = "add_or_remove_one",
    accountant: Annotated[str, typer.Option(help="pld, or rdp to compare with papers that used it.")] = "pld",
    as_json: JsonOption = False,
) -> None:
    """Find the least noise multiplier of DP-SGD that meets a target epsilon."""
    from flows.commands.privacy import calibrate_document, calibrate_text

    document = calibrate_document(
        target_epsilon=target_epsilon,
        target_delta=target_delta,
        sample_rate=sample_rate,
        steps=steps,
        relation=relation,
        accountant=accountant,
    )
    emit(document, as_json, calibrate_text(document))


@privacy_app.command("confidentiality")
def privacy_confidentiality(
    epsilon: Annotated[float, typer.Option(help="Epsilon of the whole training under replace_one, without credit.")],
    delta: Annotated[float, typer.Option(help="Its delta.")],
    gamma: Annotated[float, typer.Option(help="Share of secrets with any token unmasked; an upper bound.")],
    delta2: Annotated[float, typer.Option(help="Share of secrets missed in a public sentence; an upper bound.")] = 0.0,
    group_size: Annotated[
        int | None, typer.Option(help="Also state the loss of a group of this many unique secrets.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute what redaction adds to a training's epsilon (CRT, Theorem 8)."""
    from flows.commands.privacy import confidentiality_document, confidentiality_text

    document = confidentiality_document(epsilon=epsilon, delta=delta, gamma=gamma, delta2=delta2, group_size=group_size)
    emit(document, as_json, confidentiality_text(document))


@privacy_app.command("amplify")
def privacy_amplify(
    epsilon: Annotated[float, typer.Option(help="Epsilon of phase 1 as a whole, without credit.")],
    delta: Annotated[float, typer.Option(help="Its delta.")],
    miss_rate: Annotated[float, typer.Option(help="JFT's miss rate m: missed sensitive tokens over all tokens.")],
    gamma: Annotated[
        float | None, typer.Option(help="Share of secrets that redaction missed, for the sound form.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute JFT's figure for light noise (an estimate, never a guarantee) and its sound form."""
    from flows.commands.privacy import amplify_document, amplify_text

    document = amplify_document(epsilon=epsilon, delta=delta, miss_rate=miss_rate, gamma=gamma)
    emit(document, as_json, amplify_text(document))


@privacy_app.command("selection")
def privacy_selection(
    sample_rate: SampleRateOption,
    noise_multiplier: Annotated[
        float, typer.Option(help="Each training's standard deviation of noise over its clipping norm.")
    ],
    steps: StepsOption,
    delta: Annotated[float, typer.Option(help="Delta at which epsilon is stated.")],
    candidates: Annotated[float, typer.Option(help="Mean number of trainings; the actual number is drawn.")],
    shape: Annotated[
        float, typer.Option(help="Shape of that number's distribution: 0 is logarithmic, 1 is geometric.")
    ] = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Compute the cost of choosing the best of a random number of trainings (Papernot and Steinke 2022, Theorem 2)."""
    from flows.commands.privacy import selection_document, selection_text

    document = selection_document(
        sample_rate=sample_rate,
        noise_multiplier=noise_multiplier,
        steps=steps,
        delta=delta,
        candidates=candidates,
        shape=shape,
    )
    emit(document, as_json, selection_text(document))
