"""Comparison of the scores of members and of non-members: of single records, of groups, and of people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pipelines.attacks.membership_evaluation import (
    FALSE_POSITIVE_RATES,
    Evaluation,
    FloatArray,
    Interval,
    auc_difference,
    evaluate,
)
from pipelines.attacks.membership_scores import Scores
from pipelines.errors import ConfigError

FEWEST: Final = 2
FEWEST_PEOPLE: Final = 8
"""Fewest people of each kind. With fewer, an interval of the AUC is too wide to be of use."""


@dataclass(frozen=True, kw_only=True)
class MembershipSettings:
    """The settings of an attack's evaluation.

    Attributes:
        group_size: number of records of a group, whose mean score separates groups of members from groups of
            non-members (CRT, appendix A.4: 20). Groups share no record, so they are independent.
            `pipelines.attacks.membership.MembershipResult.papers` has the paper's overlapping groups.
        confidence: confidence of each interval, two-sided. All tests together have the level 1 - confidence.
        num_resamples: number of resamples of the bootstrap.
        false_positive_rates: false positive rates at which the ROC is read.
    """

    group_size: int = 20
    confidence: float = 0.95
    num_resamples: int = 1_000
    false_positive_rates: tuple[float, ...] = FALSE_POSITIVE_RATES


@dataclass(frozen=True, kw_only=True)
class Excess:
    """The excess of an attack's AUC over that of a baseline on the same records.

    Attributes:
        baseline_auc: AUC of the baseline.
        value: attack's AUC less the baseline's, or less one half if the baseline is below one half.
        interval: DeLong interval of the difference to the baseline; None if the baseline is below one half.
        p_value: one-sided p-value of an AUC above the baseline's.
    """

    baseline_auc: float
    value: float
    interval: Interval | None
    p_value: float


@dataclass(frozen=True, kw_only=True)
class Attack:
    """The results of one score on records, or on groups.

    Attributes:
        evaluation: figures of the score.
        over_blind: excess over the classifier that sees only texts.
        over_unseen: excess over the same score of a model that never saw the records; None without one.
        p_value: greatest p-value against one half and the baselines: the attack must beat all three.
        adjusted_p_value: p-value corrected for the number of attacks (Holm), individual and group ones together.
    """

    evaluation: Evaluation
    over_blind: Excess
    over_unseen: Excess | None
    p_value: float
    adjusted_p_value: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Scores of members and non-members, of records or of groups of them, and those of the baselines.

    Attributes:
        names: identifiers of members, and of non-members.
        scores: scores by name of the score and identifier.
        unseen: the same of a model that never saw them.
        blind: scores of a classifier that sees only texts.
        settings: settings of the evaluation.
    """

    names: tuple[list[str], list[str]]
    scores: Mapping[str, Scores]
    unseen: Mapping[str, Scores]
    blind: Scores
    settings: MembershipSettings

    def attacks(self, generator: np.random.Generator) -> tuple[dict[str, Attack], Evaluation]:
        """Returns the figures of each score, with uncorrected p-values, and of the blind classifier."""
        found = {}
        for name, scores in self.scores.items():
            evaluation = self._evaluate(scores, generator)
            over_blind = self._excess(scores, self.blind, evaluation.auc)
            over_unseen = self._excess(scores, self.unseen[name], evaluation.auc) if name in self.unseen else None
            p_value = max(evaluation.p_value, over_blind.p_value, 0.0 if over_unseen is None else over_unseen.p_value)
            found[name] = Attack(
                evaluation=evaluation,
                over_blind=over_blind,
                over_unseen=over_unseen,
                p_value=p_value,
                adjusted_p_value=p_value,
            )
        return found, self._evaluate(self.blind, generator)

    def grouped(self, generator: np.random.Generator) -> Comparison | None:
        """Returns the comparison of groups that share no record, by mean scores; None for fewer than two of either."""
        size = self.settings.group_size
        members, non_members = (
            [part[at : at + size].tolist() for at in range(0, len(part) - size + 1, size)]
            for part in (generator.permutation(np.array(names, dtype=object)) for names in self.names)
        )
        return self._of_groups(members, non_members)

    def by_person(self, people: Mapping[str, str]) -> Comparison | None:
        """Returns the comparison of people by mean scores; None for fewer than `FEWEST_PEOPLE` of either."""
        if min(num_people(people, *self.names)) < FEWEST_PEOPLE:
            return None
        found: list[list[list[str]]] = []
        for names in self.names:
            of_person: dict[str, list[str]] = defaultdict(list)
            for name in names:
                of_person[people[name]].append(name)
            found.append(list(of_person.values()))
        return self._of_groups(*found)

    def _of_groups(self, members: list[list[str]], non_members: list[list[str]]) -> Comparison | None:
        if min(len(members), len(non_members)) < FEWEST:
            return None
        groups = {f"group {number}": names for number, names in enumerate([*members, *non_members])}

        def means(scores: Scores) -> Scores:
            return {group: float(np.mean([scores[name] for name in names])) for group, names in groups.items()}

        labels = list(groups)
        return Comparison(
            names=(labels[: len(members)], labels[len(members) :]),
            scores={name: means(scores) for name, scores in self.scores.items()},
            unseen={name: means(scores) for name, scores in self.unseen.items()},
            blind=means(self.blind),
            settings=self.settings,
        )

    def _split(self, scores: Scores) -> tuple[FloatArray, FloatArray]:
        inside, outside = (np.array([scores[name] for name in names]) for names in self.names)
        return inside, outside

    def _evaluate(self, scores: Scores, generator: np.random.Generator) -> Evaluation:
        return evaluate(
            *self._split(scores),
            generator=generator,
            confidence=self.settings.confidence,
            num_resamples=self.settings.num_resamples,
            false_positive_rates=self.settings.false_positive_rates,
        )

    def _excess(self, scores: Scores, baseline: Scores, auc: float) -> Excess:
        inside, outside = self._split(scores)
        others_inside, others_outside = self._split(baseline)
        difference, interval, p_value = auc_difference(
            (inside, others_inside), (outside, others_outside), self.settings.confidence
        )
        baseline_auc = auc - difference
        is_above_half = baseline_auc > 0.5
        return Excess(
            baseline_auc=baseline_auc,
            value=auc - max(baseline_auc, 0.5),
            interval=interval if is_above_half else None,
            p_value=p_value,
        )


def num_people(people: Mapping[str, str], members: Iterable[str], non_members: Iterable[str]) -> tuple[int, int]:
    """Returns the numbers of people among members and among non-members.

    Raises:
        ConfigError: a person is among both.
    """
    inside, outside = ({people[name] for name in names} for names in (members, non_members))
    if inside & outside:
        raise ConfigError("a person is among members and non-members; folds must not divide people (corpus.owner_from)")
    return len(inside), len(outside)


def adjusted_by(attacks: Mapping[str, Attack], kind: str, p_values: Mapping[str, float]) -> dict[str, Attack]:
    """Returns the attacks of a kind with corrected p-values, which are named by kind and score."""
    return {name: replace(attack, adjusted_p_value=p_values[f"{kind} {name}"]) for name, attack in attacks.items()}
