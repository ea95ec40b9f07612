"""Scores of membership by shadow models, which are trained like the attacked model, on known records.

The signal of a record is its mean log-probability of a token, over the target's number of tokens. LiRA's logit scaling
is for confidences of a class. The logarithm of a text's likelihood is a sum over its tokens, and so already near to a
Gaussian.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy import stats

from pipelines.attacks.membership_scores import FloatArray, Scores

if TYPE_CHECKING:
    from pipelines.training.trained import TrainedModel

MODELS_FOR_OWN_VARIANCE: Final = 64
"""Number of shadow models from which LiRA uses each record's own variance. With fewer, all records share one."""
_LEAST_VARIANCE: Final = 1e-12


@dataclass(frozen=True, kw_only=True)
class Shadow:
    """A model of the same recipe.

    Attributes:
        model: trained model.
        members: identifiers of the attacked records in its training; they may name others too.
    """

    model: TrainedModel
    members: Set[str]


@dataclass(frozen=True, kw_only=True)
class Signals:
    """Signals of records under the target and S shadow models.

    Attributes:
        target: signal of each record under the target.
        shadows: signal of each record, for each shadow model.
        members: training records of each shadow model.
    """

    target: Mapping[str, float]
    shadows: Sequence[Mapping[str, float]]
    members: Sequence[Set[str]]

    def split(self, identifier: str) -> tuple[FloatArray, FloatArray]:
        """Returns the record's signals under the models that saw it, and under those that did not."""
        pairs = list(zip(self.shadows, self.members, strict=True))
        return (
            np.array([signals[identifier] for signals, members in pairs if identifier in members]),
            np.array([signals[identifier] for signals, members in pairs if identifier not in members]),
        )

    def fewest(self) -> tuple[int, int]:
        """Returns the least number of models that saw a record, and the least number that did not see one."""
        halves = [self.split(identifier) for identifier in self.target]
        return min(len(seen) for seen, _ in halves), min(len(unseen) for _, unseen in halves)


def lira_online(signals: Signals) -> Scores:
    """Returns log N(s; in) - log N(s; out) of each signal s (Carlini et al. 2022, arXiv 2112.03570: online LiRA).

    Each record needs two models that saw it and two that did not.
    """
    seen = {identifier: signals.split(identifier)[0] for identifier in signals.target}
    unseen = {identifier: signals.split(identifier)[1] for identifier in signals.target}
    spread_in, spread_out = _spreads(seen, len(signals.shadows)), _spreads(unseen, len(signals.shadows))
    return {
        identifier: float(
            stats.norm.logpdf(signal, seen[identifier].mean(), spread_in[identifier])
            - stats.norm.logpdf(signal, unseen[identifier].mean(), spread_out[identifier])
        )
        for identifier, signal in signals.target.items()
    }


def lira_offline(signals: Signals) -> Scores:
    """Returns each record's signal above the models that did not see it, in standard deviations (offline LiRA).

    The paper's score is the normal probability below that value, with the same order. Each record needs two such
    models.
    """
    unseen = {identifier: signals.split(identifier)[1] for identifier in signals.target}
    spread = _spreads(unseen, len(signals.shadows))
    return {
        identifier: float((signal - unseen[identifier].mean()) / spread[identifier])
        for identifier, signal in signals.target.items()
    }


def _spreads(samples: Mapping[str, FloatArray], num_models: int) -> dict[str, float]:
    """Returns standard deviations: each record's own, or with few models the pooled one of all records."""
    if num_models >= MODELS_FOR_OWN_VARIANCE:
        return {name: max(float(sample.var(ddof=1)), _LEAST_VARIANCE) ** 0.5 for name, sample in samples.items()}
    squares = sum(float(((sample - sample.mean()) ** 2).sum()) for sample in samples.values())
    freedom = sum(len(sample) - 1 for sample in samples.values())
    return dict.fromkeys(samples, max(squares / freedom, _LEAST_VARIANCE) ** 0.5)


def rmia(records: Signals, population: Signals, *, gamma: float = 1.0, offline_a: float = 1.0) -> Scores:
    """Returns the share of population z with LR(x, z) >= gamma (Zarifzadeh et al. 2024, arXiv 2312.03262, section 3).

    LR(x, z) = (Pr(x | target) / Pr(x)) / (Pr(z | target) / Pr(z)), with Pr(x) the mean over models that saw x and that
    did not, half and half. If no model saw some record, Pr(x) = ((1 + a) out(x) + 1 - a) / 2 for all records (its
    offline form): two forms in one list would reveal which records the shadow models were offered. Pr of a text is the
    geometric mean of its tokens' probabilities, as in the authors' Privacy Meter.

    Args:
        records: signals of the attacked records; each needs a model that did not see it.
        population: signals of records of the same distribution that neither the target nor a shadow model saw.
        gamma: threshold of the ratio; the authors' code has 1.
        offline_a: a, between 0 and 1. The paper fits it to each data set of images. Probabilities of tokens are so
            small that 1 - a would drown them. With a = 1, Pr(x) = out(x).
    """
    ratios = _ratios(records, offline_a, is_online=records.fewest()[0] > 0)
    others = np.sort(np.array(list(_ratios(population, offline_a, is_online=False).values())))
    # LR(x, z) >= gamma if the ratio of z is at most that of x over gamma.
    return {
        name: float(np.searchsorted(others, ratio / gamma, "right")) / len(others) for name, ratio in ratios.items()
    }


def _ratios(signals: Signals, offline_a: float, *, is_online: bool) -> Scores:
    ratios = {}
    for identifier, signal in signals.target.items():
        seen, unseen = (np.exp(part) for part in signals.split(identifier))
        if is_online:
            marginal = (seen.mean() + unseen.mean()) / 2
        else:
            marginal = ((1 + offline_a) * unseen.mean() + 1 - offline_a) / 2
        ratios[identifier] = float(np.exp(signal) / marginal)
    return ratios
