"""Commands of accounting: ``reticent privacy ...``."""

from __future__ import annotations

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
