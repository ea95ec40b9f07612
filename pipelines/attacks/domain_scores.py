"""Figures of leakage across domains: success rates, the likelihood ratio, C of domain privacy, the threshold z.

Source: Kabra and Elenberg (2023), "Domain-Private Transformers for Multi-Domain Dialog Systems". Imports no torch.

**Direction.** A text's score is log PPL_target(x | c) - log PPL_reference(x | c), so a *low* score is suspicious: the
attacked model finds the text likelier than a model that never saw the domain. The paper (section 3) selects the
*highest* PPL_target / PPL_reference, which are the least suspicious texts. Its code sorts by log PPL_reference /
log PPL_target, highest first, as this module does. The paper's success rate (section 3) ignores the score: it covers
all non-empty texts. This module gives both rates: of all texts, and of the most suspicious ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pipelines.attacks.rates import Rate
from pipelines.errors import ConfigError

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Pair = tuple[str, str]
"""Domain of the prompts, and domain that may leak."""

DIRECTION: Final = "log PPL_target - log PPL_reference; low is suspicious"
_NUM_RESAMPLES: Final = 2_000


@dataclass(frozen=True, kw_only=True)
class Judged:
    """N texts that one model wrote after the prompts of one domain, judged for another domain.

    Attributes:
        conversations: (N,) conversation of each prompt; texts of one conversation are one cluster.
        policy_scores: (N,) highest score that the other domain's policy gives to a part of the text, in [0, 1]; 0 if
            it finds nothing; NaN if the text is empty, or the policy failed.
        lira: (N,) score (see above); NaN if the text has no token; None without a reference.
        num_empty, num_failed: number of empty texts, and of texts on which the policy failed; neither counts.
    """

    conversations: Sequence[Hashable]
    policy_scores: FloatArray
    num_empty: int
    num_failed: int
    lira: FloatArray | None = None

    def success_rate(self, threshold: float, confidence: float = 0.95) -> Rate:
        """Returns the rate of successes among all judged texts (the paper, section 3: non-empty generations)."""
        return self._rate(~np.isnan(self.policy_scores), threshold, confidence)

    def success_rate_of_most_suspicious(self, threshold: float, num: int, confidence: float = 0.95) -> Rate:
        """Returns the rate among the ``num`` judged texts of the lowest likelihood ratio; of equal ones the first.

        Raises:
            ConfigError: there was no reference.
        """
        if self.lira is None:
            raise ConfigError("the likelihood ratio needs a reference model")
        ranked = np.where(np.isnan(self.policy_scores), np.nan, self.lira)
        order = np.argsort(ranked, kind="stable")  # NaN last
        chosen = np.zeros(len(ranked), dtype=np.bool_)
        chosen[order[:num]] = True
        return self._rate(chosen & ~np.isnan(ranked), threshold, confidence)

    def _rate(self, chosen: BoolArray, threshold: float, confidence: float) -> Rate:
        where = np.flatnonzero(chosen).tolist()
        hits = self.policy_scores[where] > threshold
        return Rate.clustered(hits, [self.conversations[n] for n in where], confidence)

    def counts(self, threshold: float) -> tuple[dict[Hashable, float], dict[Hashable, float]]:
        """Returns the numbers of successes, and of judged texts, of each conversation."""
        hits: dict[Hashable, float] = dict.fromkeys(self.conversations, 0.0)
        units = dict(hits)
        for name, score in zip(self.conversations, self.policy_scores.tolist(), strict=True):
            if not np.isnan(score):
                units[name] += 1
                hits[name] += score > threshold
        return hits, units


@dataclass(frozen=True, kw_only=True)
class LeakRatio:
    """C of Definition 4.1, for one pair of domains or for all: the least C with Pr[M_D leaks] <= C Pr[M_{D_j} leaks].

    It is an estimate over the used prompts, and no guarantee for others.

    Attributes:
        value: ratio of both rates; None if no rate was measured, or the reference never leaked.
        low: lower end of its interval, at least 0.
        high: upper end of its interval; None if no finite C is known.
    """

    value: float | None
    low: float
    high: float | None


def leak_ratio(target: Judged, reference: Judged, threshold: float, confidence: float = 0.95) -> LeakRatio:
    """Returns C of one pair: the ratio of the model's leaks to those of a model that never saw the domain.

    Each rate gets its own interval at half the error probability (Bonferroni). So both hold together with the stated
    confidence, and so does the interval of their ratio, for any dependence of the two models. It is rather long. Zero
    leaks are no special case.
    """
    each = 1 - (1 - confidence) / 2
    ours, theirs = (judged.success_rate(threshold, each) for judged in (target, reference))
    value = None
    if ours.value is not None and theirs.value:
        value = ours.value / theirs.value
    low = ours.low / theirs.high if theirs.num_units and ours.num_units else 0.0
    high = ours.high / theirs.low if theirs.low > 0 and ours.num_units else None
    return LeakRatio(value=value, low=low, high=high)


def domain_privacy(
    targets: Mapping[Pair, Judged], references: Mapping[Pair, Judged], threshold: float, confidence: float = 0.95
) -> tuple[LeakRatio, dict[Pair, LeakRatio]]:
    """Returns C of a model (Definition 4.1): the largest of all pairs, whose intervals hold together (Bonferroni).

    Args:
        targets: judged texts of the model.
        references: judged texts of the reference trained on D without d_j, for each pair (d_i, d_j) of ``targets``.
        threshold: z.
        confidence: confidence of all intervals together.

    Returns:
        C of the model, and of each pair.

    Raises:
        ConfigError: there is no pair, or a pair has no reference.
    """
    if not targets or targets.keys() - references.keys():
        raise ConfigError("C of domain privacy needs a reference for every pair of domains, and two domains at least")
    each = 1 - (1 - confidence) / len(targets)
    pairs = {pair: leak_ratio(judged, references[pair], threshold, each) for pair, judged in targets.items()}
    values = [ratio.value for ratio in pairs.values() if ratio.value is not None]
    highs = [ratio.high for ratio in pairs.values() if ratio.high is not None]
    whole = LeakRatio(
        value=max(values) if len(values) == len(pairs) else None,
        low=max(ratio.low for ratio in pairs.values()),
        high=max(highs) if len(highs) == len(pairs) else None,
    )
    return whole, pairs


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """The threshold z, chosen as in the paper.

    Attributes:
        value: z.
        gap: success rate of Public less that of DOMAIN-only at z.
        rate_public, rate_domain_only: success rates of the two at z.
    """

    value: float
    gap: float
    rate_public: float
    rate_domain_only: float


def choose_threshold(public: Iterable[Judged], domain_only: Iterable[Judged], thresholds: Iterable[float]) -> Threshold:
    """Returns z with the largest difference of success rates between Public and DOMAIN-only (the paper, section 6.2).

    The difference is Public less DOMAIN-only: the first has seen the other domain. Of equal differences the highest z
    is taken, which calls the least a leak. Choose z on other prompts than those of the reported rates.

    Args:
        public: judged texts, for each pair, of a model that was trained on all domains without protection.
        domain_only: judged texts, for each pair, of models that were trained only on the domain of the prompts.
        thresholds: values of z to try; for the policy `classifier` not below 0.5, because it names only the likeliest
            domain of a window.

    Raises:
        ConfigError: nothing was judged, or there is no threshold.
    """
    both = []
    for kind in (public, domain_only):
        scores = np.concatenate([np.zeros(0), *(judged.policy_scores for judged in kind)])
        both.append(scores[~np.isnan(scores)])
    if any(len(scores) == 0 for scores in both):
        raise ConfigError("no text of Public, or of DOMAIN-only, was judged: z cannot be chosen")
    found: list[Threshold] = []
    for threshold in sorted(thresholds):
        of_public, of_only = (float((scores > threshold).mean()) for scores in both)
        found.append(
            Threshold(value=threshold, gap=of_public - of_only, rate_public=of_public, rate_domain_only=of_only)
        )
    if not found:
        raise ConfigError("z cannot be chosen: name the thresholds to look at")
    return max(found, key=lambda threshold: (threshold.gap, threshold.value))


def rate_difference(
    first: Mapping[Pair, Judged], second: Mapping[Pair, Judged], threshold: float, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Returns the success rate of one model less that of another over the same pairs, with its 95 % interval.

    Uses a percentile bootstrap over conversations (Efron 1979), which both models were asked about. It does not cover
    that a training with another seed would have given another model.

    Returns:
        The difference, and both ends of its interval.

    Raises:
        ConfigError: the pairs differ, or nothing was judged.
    """
    if first.keys() != second.keys():
        raise ConfigError("rates of two models are compared over the same pairs of domains")
    tables = []
    for judged in (first, second):
        hits: dict[Hashable, float] = {}
        units: dict[Hashable, float] = {}
        for (prompted, _), found in judged.items():
            own_hits, own_units = found.counts(threshold)
            for name in own_units:
                key = (prompted, name)
                hits[key] = hits.get(key, 0.0) + own_hits[name]
                units[key] = units.get(key, 0.0) + own_units[name]
        tables.append((hits, units))
    names = sorted({name for _, units in tables for name in units}, key=repr)
    # (conversations, 4): hits and units of the first model, and of the second
    counts = np.asarray([[table.get(name, 0.0) for pair in tables for table in pair] for name in names])
    if not len(counts) or not counts[:, 1].sum() or not counts[:, 3].sum():
        raise ConfigError("no text of one of the two models was judged")
    drawn = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=_NUM_RESAMPLES)
    totals = np.vstack([counts.sum(axis=0), drawn @ counts])
    with np.errstate(invalid="ignore"):
        differences = totals[:, 0] / totals[:, 1] - totals[:, 2] / totals[:, 3]
    low, high = np.nanquantile(differences[1:], [0.025, 0.975])
    return float(differences[0]), float(low), float(high)


def document(
    targets: Mapping[Pair, Judged],
    references: Mapping[Pair, Judged],
    threshold: float,
    *,
    num_suspicious: int = 100,
    confidence: float = 0.95,
) -> dict[str, Any]:
    """Returns all figures of one model as JSON values: names of domains and counts.

    Args:
        targets, references: judged texts as for `domain_privacy`.
        threshold: z.
        num_suspicious: number of texts with the lowest score, of each pair, that have a rate of their own.
        confidence: confidence of each rate's interval, and of the intervals of C together.
    """
    whole, ratios = domain_privacy(targets, references, threshold, confidence)
    return {
        "direction": DIRECTION,
        "threshold": threshold,
        "confidence": confidence,
        "c": vars(whole),
        "pairs": [
            {
                "prompts": prompted,
                "leaked": leaked,
                "rate": judged.success_rate(threshold, confidence).document(),
                "rate_most_suspicious": judged.success_rate_of_most_suspicious(
                    threshold, num_suspicious, confidence
                ).document(),
                "rate_reference": references[prompted, leaked].success_rate(threshold, confidence).document(),
                "num_empty": judged.num_empty,
                "num_failed": judged.num_failed,
                "c": vars(ratios[prompted, leaked]),
            }
            for (prompted, leaked), judged in sorted(targets.items())
        ],
    }
