"""Membership inference: attacks that ask if a language model was trained on a record.

Members and non-members must come from one source: the training fold and the held-out fold of one corpus. Two baselines
test this: a *blind* classifier that sees only texts, and the same scores from a model that never saw the records. An
attack shows a leak if its AUC is above one half and above both baselines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pipelines.attacks import membership_scores as scoring
from pipelines.attacks import membership_shadows as shadowing
from pipelines.attacks.blind import blind_scores
from pipelines.attacks.membership_comparison import (
    FEWEST,
    Attack,
    Comparison,
    MembershipSettings,
    adjusted_by,
    num_people,
)
from pipelines.attacks.membership_evaluation import Evaluation, holm
from pipelines.attacks.membership_protocols import ProtocolResult, as_the_papers
from pipelines.attacks.membership_scores import Evidence, Scores
from pipelines.attacks.membership_shadows import Shadow, Signals
from pipelines.errors import ConfigError
from pipelines.training.encoded import rows_of

if TYPE_CHECKING:
    from pipelines.training.data.row_store import RecordRows
    from pipelines.training.encoded import Record
    from pipelines.training.trained import TrainedModel

    Text = str | Record | RecordRows

CLASSIC: Final = ("perplexity", "lower_case", "reference_ratio", "zlib_length", "zlib_entropy")
"""Scores of the papers; the others came later."""


@dataclass(frozen=True, kw_only=True)
class MembershipResult:
    """The results of the attacks on one model.

    Attributes:
        individual: attacks on single records, by name of score.
        group: attacks on groups of records, by name of score; empty if there are too few records.
        person: attacks on people, by name of score: the mean score of all attacked records of a person. Empty without
            people, or with too few of them.
        blind, blind_group, blind_person: evaluation of the classifier that sees only texts.
        num_people: numbers of people among members and non-members; None if no people are judged.
        papers: results by perplexity alone, as Selective DP and CRT measured it, with the baselines subtracted, of
            protocols for which there are enough records.
        skipped: reason for each score that could not be computed.
        num_dropped: numbers of non-members with the text of a member, and of records without a token to score.
        settings: settings of the evaluation.
        scores: scores of each record, by name and identifier. They describe single records: for private artifacts only.
    """

    individual: Mapping[str, Attack]
    group: Mapping[str, Attack]
    blind: Evaluation
    blind_group: Evaluation | None
    person: Mapping[str, Attack]
    blind_person: Evaluation | None
    num_people: tuple[int, int] | None
    papers: tuple[ProtocolResult, ...]
    skipped: Mapping[str, str]
    num_dropped: Mapping[str, int]
    settings: MembershipSettings
    scores: Mapping[str, Mapping[str, float]] = field(repr=False)

    @property
    def any_leak(self) -> bool:
        """True if some attack is above one half and its baselines, at the level of the settings for all together.

        If people are judged, only attacks on people count: records of one person are no independent evidence.
        """
        level = 1 - self.settings.confidence
        kinds = (self.individual, self.group) if self.num_people is None else (self.person,)
        return any(attack.adjusted_p_value < level for attacks in kinds for attack in attacks.values())

    def document(self) -> dict[str, Any]:
        """Returns the figures as JSON values, without texts, identifiers or scores of single records."""
        people: dict[str, Any] = {}
        if self.num_people is not None:
            people = {
                "person": {name: asdict(attack) for name, attack in self.person.items()},
                "blind_person": self.blind_person and asdict(self.blind_person),
                "num_people": list(self.num_people),
            }
        return {
            **people,
            "individual": {name: asdict(attack) for name, attack in self.individual.items()},
            "group": {name: asdict(attack) for name, attack in self.group.items()},
            "blind": asdict(self.blind),
            "blind_group": self.blind_group and asdict(self.blind_group),
            "papers": [asdict(result) for result in self.papers],
            "any_leak": self.any_leak,
            "skipped": dict(self.skipped),
            "num_dropped": dict(self.num_dropped),
            "settings": asdict(self.settings),
        }


@dataclass(frozen=True, kw_only=True)
class _Records:
    """Attacked records by identifier, and the evidence of other models on them."""

    rows: Mapping[str, RecordRows]
    population: Mapping[str, RecordRows]
    reference: Mapping[str, Evidence] | None
    shadows: Sequence[tuple[Mapping[str, Evidence], Mapping[str, Evidence], Shadow]]


def attack_membership(
    target: TrainedModel,
    members: Mapping[str, Text],
    non_members: Mapping[str, Text],
    *,
    reference: TrainedModel | None = None,
    unseen: TrainedModel | None = None,
    shadows: Sequence[Shadow] = (),
    population: Mapping[str, Text] | None = None,
    people: Mapping[str, str] | None = None,
    settings: MembershipSettings | None = None,
    generator: np.random.Generator,
) -> MembershipResult:
    """Attacks a model by every score that its arguments allow.

    Args:
        target: attacked model.
        members: records on which it was trained, as it read them, by identifier.
        non_members: records of the same source on which it was not trained.
        reference: model that saw none of them, with the target's vocabulary: the model from which the target was
            fine-tuned, or one trained on other records of the same source.
        unseen: another model that saw none of them, scored as if it were attacked. Without one, the reference replaces
            it in the scores that need no reference.
        shadows: models of the target's recipe, each trained on a known part of members and non-members. Without any,
            RMIA uses the reference as one.
        population: records of the same source that none of the models saw, for RMIA.
        people: person of each member and non-member, by its identifier. Then people are attacked as well, each by the
            mean score of all of the person's records. A mean, because a sum would tell how many records a person has.
        settings: settings of the evaluation.
        generator: generator that draws halves, groups, folds and resamples.

    Raises:
        ConfigError: an identifier names two records, a person is among members and non-members, or too few records
            are left.
    """
    settings = settings or MembershipSettings()
    inside, outside = ({name: rows_of(row) for name, row in rows.items()} for rows in (members, non_members))
    others = {name: rows_of(row) for name, row in (population or {}).items()}
    if inside.keys() & outside.keys() or others.keys() & (inside.keys() | outside.keys()):
        raise ConfigError("an identifier names two of: a member, a non-member, a record of the population")
    known = {tuple(row.texts) for row in inside.values()}
    fresh = {name: row for name, row in outside.items() if tuple(row.texts) not in known}
    records = {**inside, **fresh}
    evidence = scoring.read_evidence(target, records)
    rows = {name: row for name, row in records.items() if name in evidence}
    data = _Records(
        rows=rows,
        population=others,
        reference=None if reference is None else scoring.read_evidence(reference, rows),
        shadows=[
            (scoring.read_evidence(shadow.model, rows), scoring.read_evidence(shadow.model, others), shadow)
            for shadow in (shadows or ([] if reference is None else [Shadow(model=reference, members=frozenset())]))
        ],
    )
    names = [name for name in inside if name in rows], [name for name in fresh if name in rows]
    if min(map(len, names)) < FEWEST:
        raise ConfigError("membership inference needs at least two members and two non-members, of different texts")
    scores, skipped = _all_scores(target, data, evidence)
    baselines: Mapping[str, Scores] = {}
    if unseen is not None:
        baselines, _ = _all_scores(unseen, data, scoring.read_evidence(unseen, rows))
    elif reference is not None and data.reference is not None:
        baselines = _own_scores(reference, data, data.reference)
    blind = blind_scores(*({name: _text(rows[name]) for name in part} for part in names), generator=generator)
    compare = Comparison(names=names, scores=scores, unseen=baselines, blind=blind, settings=settings)
    attacks, of_blind = compare.attacks(generator)
    grouped = compare.grouped(generator)
    group_attacks, of_blind_groups = grouped.attacks(generator) if grouped else ({}, None)
    by_person = None if people is None else compare.by_person(people)
    person_attacks, of_blind_people = by_person.attacks(generator) if by_person else ({}, None)
    never_saw = {"never saw": baselines["perplexity"]} if "perplexity" in baselines else {}
    papers = as_the_papers(
        scores["perplexity"], {"blind": blind, **never_saw}, *names, generator=generator, confidence=settings.confidence
    )
    p_values = {f"individual {name}": attack.p_value for name, attack in attacks.items()}
    p_values |= {f"person {name}": attack.p_value for name, attack in person_attacks.items()}
    adjusted = holm(p_values | {f"group {name}": attack.p_value for name, attack in group_attacks.items()})
    return MembershipResult(
        individual=adjusted_by(attacks, "individual", adjusted),
        group=adjusted_by(group_attacks, "group", adjusted),
        person=adjusted_by(person_attacks, "person", adjusted),
        blind=of_blind,
        blind_group=of_blind_groups,
        blind_person=of_blind_people,
        num_people=None if people is None else num_people(people, *names),
        papers=papers,
        skipped=skipped,
        num_dropped={"same_text": len(outside) - len(fresh), "without_tokens": len(records) - len(rows)},
        settings=settings,
        scores={**scores, "blind": blind},
    )


def _text(row: RecordRows) -> str:
    return "\n".join(row.texts)


def _own_scores(model: TrainedModel, data: _Records, evidence: Mapping[str, Evidence]) -> dict[str, Scores]:
    """Computes the scores that need only the model."""
    lowered = scoring.read_evidence(model, {name: scoring.lower(row) for name, row in data.rows.items()})
    texts = {name: _text(row) for name, row in data.rows.items()}
    return {
        "perplexity": {name: scoring.perplexity(found) for name, found in evidence.items()},
        "lower_case": {name: scoring.lower_case(found, lowered[name]) for name, found in evidence.items()},
        "zlib_length": {name: scoring.zlib_length(found, texts[name]) for name, found in evidence.items()},
        "zlib_entropy": {name: scoring.zlib_entropy(found, texts[name]) for name, found in evidence.items()},
    }


def _all_scores(
    model: TrainedModel, data: _Records, evidence: Mapping[str, Evidence]
) -> tuple[dict[str, Scores], dict[str, str]]:
    """Computes every possible score, and says why the others are skipped."""
    scores = _own_scores(model, data, evidence)
    skipped: dict[str, str] = {}
    reference = data.reference
    if reference is None:
        skipped |= dict.fromkeys(("reference_ratio", "ez", "wbc"), "no reference model")
    else:
        scores["reference_ratio"] = {
            name: scoring.reference_ratio(found, reference[name]) for name, found in evidence.items()
        }
        if scoring.are_comparable(evidence, reference):
            scores["ez"] = {name: scoring.ez(found, reference[name]) for name, found in evidence.items()}
            scores["wbc"] = {name: scoring.wbc(found, reference[name]) for name, found in evidence.items()}
        else:
            skipped |= dict.fromkeys(("ez", "wbc"), "the reference model reads other tokens")
    found, why_not = _shadow_scores(model, data, evidence)
    return {**scores, **found}, {**skipped, **why_not}


def _shadow_scores(
    model: TrainedModel, data: _Records, evidence: Mapping[str, Evidence]
) -> tuple[dict[str, Scores], dict[str, str]]:
    """Computes LiRA and RMIA, and says why they are skipped."""
    scores, skipped = {}, {}
    signals = _signals(evidence, [(found, shadow) for found, _, shadow in data.shadows])
    seen, unseen = signals.fewest()
    if min(seen, unseen) >= FEWEST:
        scores["lira_online"] = shadowing.lira_online(signals)
    else:
        skipped["lira_online"] = "some record has not two shadow models that saw it and two that did not"
    if unseen >= FEWEST:
        scores["lira_offline"] = shadowing.lira_offline(signals)
    else:
        skipped["lira_offline"] = "some record has not two shadow models that did not see it"
    if data.population and unseen:
        others = scoring.read_evidence(model, data.population)
        scores["rmia"] = shadowing.rmia(signals, _signals(others, [(found, s) for _, found, s in data.shadows]))
    else:
        skipped["rmia"] = "no population, or some record that no shadow or reference model has not seen"
    return scores, skipped


def _signals(evidence: Mapping[str, Evidence], shadows: Iterable[tuple[Mapping[str, Evidence], Shadow]]) -> Signals:
    """Returns mean log-probabilities, all by the tokens of the target's vocabulary."""
    sizes = {name: len(found.token_losses) for name, found in evidence.items()}
    pairs = list(shadows)
    return Signals(
        target={name: -found.nats / sizes[name] for name, found in evidence.items()},
        shadows=[{name: -found[name].nats / size for name, size in sizes.items()} for found, _ in pairs],
        members=[shadow.members for _, shadow in pairs],
    )
