"""``reticent privacy``: computes accountants and closed forms on the user's numbers. Reads no settings and no data.

Each command has a document (for ``--json``) and its text, which names the relation and the assumptions. Only functions
that compose privacy losses import dp-accounting. None imports torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipelines.accounting.confidentiality import (
    AmplifiedLoss,
    PrivacyLoss,
    bayesian_confidentiality,
    group_confidentiality,
    jft_amplified,
    num_missed_of_group,
)
from pipelines.accounting.events import NeighboringRelation, dp_sgd
from pipelines.accounting.selection import gamma_of, selected_epsilon
from pipelines.errors import ConfigError
from pipelines.files import finite
from pipelines.miss_rate.rates import Delta2, FalseNegativeRate, MissRate
from pipelines.numbers import real, upper_bound

_MU: Final = "the distribution of secrets that gamma and delta2 were measured over"
_NAMES: Final[Mapping[str, str]] = {"pld": "PLD", "pld_lower": "PLD, lower bound", "rdp": "RDP", "gdp_clt": "GDP-CLT"}
SAMPLING: Final = (
    "Poisson sampling: each record enters each step on its own with the sample rate; batches of a fixed size, or a "
    "shuffled order, are not covered",
    "every record's contribution is clipped to the norm that the noise multiplier refers to",
    "the figures cover the weights only, and one training only",
)
_SELECTION: Final = (
    "neighbours: one record is added or removed; for those that replace one, no such figure is known here",
    "Papernot and Steinke 2022, Theorem 2; no claim of a run rests on it, because `reticent compare` runs the methods "
    "that you name, and its models are composed",
    "the number of trainings is drawn first, and each draws its own hyper-parameters from the same candidates",
    "only the best model is published: no figure of the others, and not how many there were",
    "the score is computed from the model and public text, or is private itself and a part of each training's cost",
)
_CONFIDENTIALITY: Final = (
    "epsilon and delta are those of the whole training (all phases and nights composed) under replace_one, and hold "
    "no credit for redaction yet: compose first, amplify once",
    "gamma is an upper bound on the probability over mu that any token of a secret stays unmasked, or that its "
    "redaction is not stable (masking it by hand changes what else is masked); a miss rate m over all tokens is far "
    "smaller and must not be given here",
    "delta2 is an upper bound on the probability over mu that a secret is not masked and its sentence is public",
    "the secret is in one kept sentence, and masks are collapsed",
)


def epsilon_document(
    *, sample_rate: float, noise_multiplier: float, steps: int, delta: float, relation: str
) -> dict[str, Any]:
    """Returns every accountant's epsilon of DP-SGD.

    Raises:
        ConfigError: a number is out of range, or the relation is unknown.
    """
    check_training(noise_multiplier, sample_rate, steps, delta)
    neighbours = _relation(relation)
    from pipelines.accounting.accountants import all_epsilons

    event = dp_sgd(noise_multiplier=noise_multiplier, sample_rate=sample_rate, num_steps=steps)
    figures = all_epsilons(event, delta, neighbours)
    return {
        **{figure.accountant: finite(figure.epsilon) for figure in figures},
        "delta": delta,
        "relation": neighbours.value,
        "sample_rate": sample_rate,
        "noise_multiplier": noise_multiplier,
        "steps": steps,
        "notes": {figure.accountant: figure.note for figure in figures if figure.note},
        "assumptions": [*_about_relation(neighbours), *SAMPLING],
    }


def epsilon_text(document: Mapping[str, Any]) -> str:
    """Formats the figures in a small table, then their assumptions."""
    lines = [
        f"epsilon at delta {real(document['delta'])}, {document['relation']}, {document['steps']} steps at sample rate "
        f"{document['sample_rate']:g}, noise multiplier {document['noise_multiplier']:g}"
    ]
    for key, name in _NAMES.items():
        note = document["notes"].get(key, "an upper bound" if document[key] is not None else "")
        lines.append(f"  {name:<17} {number_text(document[key]):>9}  {note}".rstrip())
    return with_assumptions(lines, document)


def calibrate_document(
    *, target_epsilon: float, target_delta: float, sample_rate: float, steps: int, relation: str, accountant: str
) -> dict[str, Any]:
    """Finds the least noise multiplier that meets a target.

    Raises:
        ConfigError: a number is out of range, the relation or accountant is unknown, or the target is out of reach.
    """
    _check_above_zero("--target-epsilon", target_epsilon)
    _check_probability("--target-delta", target_delta)
    _check_rate(sample_rate)
    _check_steps(steps)
    neighbours = _relation(relation)
    if accountant not in ("pld", "rdp"):
        raise ConfigError(f"--accountant must be pld or rdp, not {accountant!r}; gdp_clt is no bound")
    from pipelines.accounting.calibration import calibrate_noise_multiplier

    noise = calibrate_noise_multiplier(
        target_epsilon=target_epsilon,
        target_delta=target_delta,
        sample_rate=sample_rate,
        num_steps=steps,
        relation=neighbours,
        accountant="rdp" if accountant == "rdp" else "pld",
    )
    return {
        "noise_multiplier": noise,
        "accountant": accountant,
        "relation": neighbours.value,
        "target_epsilon": target_epsilon,
        "target_delta": target_delta,
        "sample_rate": sample_rate,
        "steps": steps,
        "assumptions": [*_about_relation(neighbours), *SAMPLING],
    }


def calibrate_text(document: Mapping[str, Any]) -> str:
    """Formats the noise multiplier, then its assumptions."""
    return with_assumptions(
        [
            f"noise multiplier {document['noise_multiplier']:.6g} meets epsilon {document['target_epsilon']:g} at "
            f"delta {real(document['target_delta'])} by {document['accountant']}, {document['relation']}, "
            f"{document['steps']} steps at sample rate {document['sample_rate']:g}"
        ],
        document,
    )


def confidentiality_document(
    *, epsilon: float, delta: float, gamma: float, delta2: float, group_size: int | None
) -> dict[str, Any]:
    """Applies CRT, Theorem 8, to a training's own epsilon and delta.

    Raises:
        ConfigError: a number is out of range.
    """
    total = _loss(epsilon, delta)
    rate = FalseNegativeRate(value=_share("--gamma", gamma), upper=gamma, confidence=1.0, mu=_MU)
    escape = Delta2(value=_share("--delta2", delta2), upper=delta2, confidence=1.0, mu=_MU)
    if group_size is not None and group_size < 1:
        raise ConfigError(f"--group-size must be at least 1, not {group_size}")

    def shown(loss: AmplifiedLoss, theorem: str, reasons: Sequence[str]) -> dict[str, Any]:
        vacuous = ("delta is 1 or more, which promises nothing",) if loss.is_vacuous else ()
        return {
            "epsilon": finite(loss.epsilon),
            "delta": finite(loss.delta),
            "theorem": theorem,
            "is_guarantee": loss.is_guarantee and not reasons and not vacuous,
            "not_guaranteed_because": [*reasons, *vacuous],
        }

    escaping = (
        [f"a missed secret may be public with probability up to {upper_bound(delta2)}, and for that one nothing holds"]
        if delta2 > 0
        else []
    )
    too_many = (
        [
            f"delta2 {upper_bound(delta2)} is above delta {real(delta)}: Theorem 8 is refused; "
            "review more, or make every row private"
        ]
        if delta2 > delta
        else []
    )
    one = AmplifiedLoss(epsilon=epsilon, delta=delta, unamplified=total)
    document: dict[str, Any] = {
        "bayesian": shown(bayesian_confidentiality(total, rate, escape), "CRT, Theorem 8.3", too_many),
        "missed_secret": shown(one, "CRT, Theorem 8.1, a secret that the policy misses", escaping),
        "masked_secret": {**shown(group_confidentiality(total, 0), "CRT, Theorem 8.1 (Proposition 5)", [])},
        "group": None,
    }
    if group_size is not None:
        num_missed = num_missed_of_group(group_size, rate)
        average = (
            ["the theorem is about the group's own missed share, which may be larger than gamma"]
            if num_missed < group_size
            else []
        )
        document["group"] = {
            "group_size": group_size,
            "num_missed": num_missed,
            **shown(group_confidentiality(total, num_missed), "CRT, Theorem 8.2", [*average, *escaping]),
        }
    return {
        **document,
        "epsilon_unamplified": epsilon,
        "delta_unamplified": delta,
        "gamma": gamma,
        "delta2": delta2,
        "mu": _MU,
        "relation": NeighboringRelation.REPLACE_ONE.value,
        "assumptions": list(_CONFIDENTIALITY),
    }


def confidentiality_text(document: Mapping[str, Any]) -> str:
    """Formats Theorem 8 line by line, then its assumptions."""
    rows = {
        "a secret drawn from mu": document["bayesian"],
        "a secret that is missed": document["missed_secret"],
        "a secret masked stably": document["masked_secret"],
    }
    group = document["group"]
    if group is not None:
        rows[f"{group['group_size']} secrets, {group['num_missed']} missed"] = group
    lines = [f"confidentiality (CRT) from epsilon {document['epsilon_unamplified']:g}, gamma {document['gamma']:g}"]
    for name, figures in rows.items():
        lines.append(
            f"  {name:<26} epsilon {number_text(figures['epsilon']):>9}  delta {number_text(figures['delta']):>9}  "
            f"{figures['theorem']}"
        )
        lines += [f"    no guarantee: {reason}" for reason in figures["not_guaranteed_because"]]
    return with_assumptions(lines, document)


def amplify_document(*, epsilon: float, delta: float, miss_rate: float, gamma: float | None) -> dict[str, Any]:
    """Computes JFT's light noise by amplification at rate m, which is always an estimate, and the sound statement.

    Raises:
        ConfigError: a number is out of range.
    """
    total = _loss(epsilon, delta)
    m = MissRate(value=_share("--miss-rate", miss_rate), upper=miss_rate, confidence=1.0)
    found = jft_amplified(total, m)
    sound = None
    if gamma is not None:
        rate = FalseNegativeRate(value=_share("--gamma", gamma), upper=gamma, confidence=1.0, mu=_MU)
        loss = bayesian_confidentiality(total, rate, Delta2.zero(_MU))
        sound = {"epsilon": loss.epsilon, "delta": loss.delta, "gamma": gamma, "theorem": "CRT, Proposition 6"}
    return {
        "epsilon": found.epsilon,
        "delta": found.delta,
        "is_guarantee": found.is_guarantee,
        "not_guaranteed_because": [
            "misses are drawn once and not at every step, so they are no subsampling",
            "m counts tokens, while a record holds many: a block of 1,024 tokens almost surely holds a missed one",
            "JFT itself calls the figure an empirical estimate (section 3.1)",
        ],
        "bayesian": sound,
        "miss_rate": miss_rate,
        "epsilon_unamplified": epsilon,
        "delta_unamplified": delta,
        "assumptions": [
            "epsilon and delta are those of phase 1 as a whole, at its own sampling rate p, no credit taken yet",
            "the sound form holds for a secret drawn from mu, with gamma (per secret, not per token), and where every "
            "row is trained on with noise",
        ],
    }


def amplify_text(document: Mapping[str, Any]) -> str:
    """Formats the estimate, the reasons why it is no guarantee, and the sound form or how to get it."""
    lines = [
        f"ESTIMATE, no guarantee: epsilon {number_text(document['epsilon'])}, delta {number_text(document['delta'])} "
        f"(JFT, amplification at miss rate {document['miss_rate']:g})",
        *(f"  because {reason}" for reason in document["not_guaranteed_because"]),
    ]
    sound = document["bayesian"]
    lines.append(
        "sound form: give --gamma, the share of secrets that are not masked stably"
        if sound is None
        else f"sound form: epsilon {number_text(sound['epsilon'])}, delta {number_text(sound['delta'])} for a secret "
        f"drawn from mu ({sound['theorem']}, gamma {sound['gamma']:g})"
    )
    return with_assumptions(lines, document)


def selection_document(
    *, sample_rate: float, noise_multiplier: float, steps: int, delta: float, candidates: float, shape: float
) -> dict[str, Any]:
    """Computes the cost of publishing the best of a random number of trainings (`pipelines.accounting.selection`).

    Raises:
        ConfigError: a number is out of range.
    """
    check_training(noise_multiplier, sample_rate, steps, delta)
    if not (math.isfinite(candidates) and candidates > 1):
        raise ConfigError(f"--candidates, the mean number of trainings, must be above 1, not {candidates}")
    if not (math.isfinite(shape) and shape > -1):
        raise ConfigError(f"--shape must be above -1, not {shape}")
    chosen, alone = selected_epsilon(
        noise_multiplier=noise_multiplier,
        sample_rate=sample_rate,
        num_steps=steps,
        delta=delta,
        mean=candidates,
        eta=shape,
    )
    return {
        "epsilon": chosen,
        "epsilon_alone": alone,
        "delta": delta,
        "relation": NeighboringRelation.ADD_OR_REMOVE_ONE.value,
        "candidates": candidates,
        "shape": shape,
        "gamma": gamma_of(shape, candidates),
        "assumptions": [*_SELECTION, *SAMPLING[:2]],
    }


def selection_text(document: Mapping[str, Any]) -> str:
    """Formats the figures, then their assumptions."""
    lines = [
        f"the best of a random number of trainings, {document['candidates']:g} on average: epsilon "
        f"{number_text(document['epsilon'])} at delta {real(document['delta'])}, {document['relation']}",
        f"  one training alone, by the same accounting (RDP): {number_text(document['epsilon_alone'])}",
        f"  draw the number from the truncated negative binomial distribution with eta {document['shape']:g} and gamma "
        f"{document['gamma']:.6g}",
    ]
    return with_assumptions(lines, document)


def _about_relation(relation: NeighboringRelation) -> tuple[str, ...]:
    if relation is NeighboringRelation.REPLACE_ONE:
        return (
            "neighbours: one record is replaced, so the clipped sum moves by up to twice the norm; the noise "
            "multiplier is over the norm once",
        )
    return (
        "neighbours: one record is added or removed; selective DP and confidentiality replace one and need "
        "--relation replace_one, which costs more",
    )


def _relation(name: str) -> NeighboringRelation:
    try:
        return NeighboringRelation(name)
    except ValueError:
        known = ", ".join(relation.value for relation in NeighboringRelation)
        raise ConfigError(f"unknown relation {name!r}; --relation is one of {known}") from None


def _loss(epsilon: float, delta: float) -> PrivacyLoss:
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise ConfigError(f"--epsilon must be a finite number >= 0, not {epsilon}")
    if not 0 <= delta < 1:
        raise ConfigError(f"--delta must be at least 0 and below 1, not {delta}")
    return PrivacyLoss(epsilon, delta)


def check_training(noise_multiplier: float, sample_rate: float, steps: int, delta: float) -> None:
    """Raises a ConfigError if a number of a training by DP-SGD is out of range."""
    _check_above_zero("--noise-multiplier", noise_multiplier, " (without noise epsilon is infinite)")
    _check_rate(sample_rate)
    _check_steps(steps)
    _check_probability("--delta", delta)


def _check_rate(value: float) -> None:
    if not 0 < value <= 1:
        raise ConfigError(f"--sample-rate must be above 0 and at most 1, not {value}")


def _check_steps(value: int) -> None:
    if value < 1:
        raise ConfigError(f"--steps must be at least 1, not {value}")


def _check_probability(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ConfigError(f"{name} must be strictly between 0 and 1, not {value}")


def _check_above_zero(name: str, value: float, why: str = "") -> None:
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{name} must be a finite number above 0, not {value}{why}")


def _share(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ConfigError(f"{name} must be between 0 and 1, not {value}")
    return value


def number_text(value: float | None) -> str:
    """Formats a figure to six digits, rounded up; "-" for None."""
    return "-" if value is None else real(value, 6, upper=True)


def with_assumptions(lines: Sequence[str], document: Mapping[str, Any]) -> str:
    """Joins lines, and adds the assumptions of the document."""
    return "\n".join([*lines, "rests on:", *(f"  - {text}" for text in document["assumptions"])])
