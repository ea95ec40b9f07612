"""Commands of accounting: ``reticent privacy ...``."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.arguments.common import JsonOption, RelationOption, SampleRateOption, StepsOption, emit, privacy_app


@privacy_app.command("epsilon")
def privacy_epsilon(
    sample_rate: SampleRateOption,
    noise_multiplier: Annotated[float, typer.Option(help="Noise deviation over the clipping norm.")],
    steps: StepsOption,
    delta: Annotated[float, typer.Option(help="Delta that epsilon is stated at.")],
    relation: RelationOption = "add_or_remove_one",
    as_json: JsonOption = False,
) -> None:
    """Epsilon of DP-SGD by PLD (upper and lower bound), RDP and, as an asymptotic figure, GDP-CLT."""
    from flows.commands.privacy import epsilon_document, epsilon_text

    document = epsilon_document(
        sample_rate=sample_rate, noise_multiplier=noise_multiplier, steps=steps, delta=delta, relation=relation
    )
    emit(document, as_json, epsilon_text(document))


@privacy_app.command("calibrate")
def privacy_calibrate(
    target_epsilon: Annotated[float, typer.Option(help="Epsilon to meet.")],
    target_delta: Annotated[float, typer.Option(help="Delta that goes with it.")],
    sample_rate: SampleRateOption,
    steps: StepsOption,
    relation: RelationOption = "add_or_remove_one",
    accountant: Annotated[str, typer.Option(help="pld, or rdp as some papers did.")] = "pld",
    as_json: JsonOption = False,
) -> None:
    """The least noise multiplier of DP-SGD that meets a target epsilon."""
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
    epsilon: Annotated[float, typer.Option(help="Epsilon of the whole training, replace_one, no credit taken.")],
    delta: Annotated[float, typer.Option(help="Its delta.")],
    gamma: Annotated[float, typer.Option(help="Share of secrets with any token unmasked; an upper bound.")],
    delta2: Annotated[float, typer.Option(help="Share of secrets missed in a public sentence; an upper bound.")] = 0.0,
    group_size: Annotated[int | None, typer.Option(help="Also for a group of so many unique secrets.")] = None,
    as_json: JsonOption = False,
) -> None:
    """What redaction adds to a training's epsilon (CRT, Theorem 8)."""
    from flows.commands.privacy import confidentiality_document, confidentiality_text

    document = confidentiality_document(epsilon=epsilon, delta=delta, gamma=gamma, delta2=delta2, group_size=group_size)
    emit(document, as_json, confidentiality_text(document))


@privacy_app.command("amplify")
def privacy_amplify(
    epsilon: Annotated[float, typer.Option(help="Epsilon of phase 1 as a whole, no credit taken.")],
    delta: Annotated[float, typer.Option(help="Its delta.")],
    miss_rate: Annotated[float, typer.Option(help="m, missed sensitive tokens over all tokens (JFT).")],
    gamma: Annotated[float | None, typer.Option(help="Share of secrets missed, for the sound form.")] = None,
    as_json: JsonOption = False,
) -> None:
    """JFT's figure for light noise: an estimate, never a guarantee, with the sound form beside it."""
    from flows.commands.privacy import amplify_document, amplify_text

    document = amplify_document(epsilon=epsilon, delta=delta, miss_rate=miss_rate, gamma=gamma)
    emit(document, as_json, amplify_text(document))


@privacy_app.command("selection")
def privacy_selection(
    sample_rate: SampleRateOption,
    noise_multiplier: Annotated[float, typer.Option(help="Noise deviation over the clipping norm, of each training.")],
    steps: StepsOption,
    delta: Annotated[float, typer.Option(help="Delta that epsilon is stated at.")],
    candidates: Annotated[float, typer.Option(help="How many trainings are run on average; the number is drawn.")],
    shape: Annotated[
        float, typer.Option(help="Of the law of that number: 0 is the logarithmic, 1 the geometric one.")
    ] = 0.0,
    as_json: JsonOption = False,
) -> None:
    """What choosing the best of a random number of trainings costs (Papernot and Steinke 2022, Theorem 2)."""
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
