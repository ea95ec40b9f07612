"""Membership of single secrets: was the model trained on this name, number or address, or on another of its form?

Selective DP (Shi et al. 2022, section 5.1 and appendix A.5) scores digit sequences and names alone, CRT (Zhao et al.
2022, appendix A.4) whole sentences with their secret, and groups of 20, by perplexity, against made-up secrets of a
similar form. A text may give away that it was made up, so the blind classifier stands beside each figure, and real
secrets of held-out rows are tried as well.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from pipelines.attacks.blind import blind_scores
from pipelines.attacks.membership_comparison import Comparison, MembershipSettings
from pipelines.attacks.membership_evaluation import FloatArray, Interval
from pipelines.attacks.membership_scores import perplexity, read_evidence
from pipelines.intervals import clopper_pearson
from pipelines.training.encoded import Record

if TYPE_CHECKING:
    from pipelines.training.trained import TrainedModel

ALONE, IN_CONTEXT, HELD_OUT = "alone", "in its sentence", "alone, against held-out ones"
FEWEST: Final = 8
"""Fewest secrets of each kind. With fewer, an interval of the AUC is too wide to be of use."""
REFINED: Final = 0.3
"""The share of secrets that the refined attack keeps: 300 of 1,000, as in Selective DP, A.5."""
_ATTEMPTS: Final = 32
_WORD: Final = re.compile(r"(\w+)")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row with masked spans.

    Attributes:
        text: original text.
        spans: label, start and end of each masked span, in characters.
        speaker, domain: speaker and domain that the model was trained with.
    """

    text: str
    spans: Sequence[tuple[str, int, int]]
    speaker: str | None = None
    domain: str | None = None

    def secrets(self, label: str) -> list[str]:
        """Returns the secrets of a label."""
        return [self.text[start:end] for found, start, end in self.spans if found == label]

    def with_secrets(self, label: str, others: Sequence[str]) -> Row:
        """Returns the row with other secrets in the place of those of a label; spans of other labels move with it."""
        text, spans, at, left = "", [], 0, iter(others)
        for found, start, end in sorted(self.spans, key=lambda span: span[1]):
            if start < at:  # overlaps the span before it
                continue
            text += self.text[at:start]
            secret = next(left) if found == label else self.text[start:end]
            spans.append((found, len(text), len(text) + len(secret)))
            text, at = text + secret, end
        return Row(text=text + self.text[at:], spans=spans, speaker=self.speaker, domain=self.domain)


@dataclass(frozen=True, kw_only=True)
class SecretAttack:
    """The figures of one comparison, by perplexity.

    Attributes:
        label: label of the secrets.
        kind: `ALONE`, `IN_CONTEXT` or `HELD_OUT`.
        num_members, num_others: number of secrets that were trained on, and of others.
        auc, interval: area below the ROC, and its interval by DeLong.
        blind_auc: the same of the classifier that sees only texts.
        accuracy: accuracy at a threshold that the other half chose; None below four of either.
        group_auc, group_blind_auc: areas for groups of 20 that share no secret; None for fewer than two groups of
            either. Groups make any difference of form clearer, so only an area above the blind one tells of a model.
        refined_accuracy, refined_interval: accuracy on the secrets with the lowest and the highest perplexities
            (`REFINED`), of which the former are taken for members. No truth is used to choose them.
        p_value: one-sided p-value of an AUC above one half and above the blind one.
    """

    label: str
    kind: str
    num_members: int
    num_others: int
    auc: float
    interval: Interval
    blind_auc: float
    accuracy: float | None
    group_auc: float | None
    group_blind_auc: float | None
    refined_accuracy: float
    refined_interval: Interval
    p_value: float


def made_up(secret: str, pool: Sequence[str], known: frozenset[str], rng: np.random.Generator) -> str | None:
    """Makes up a secret of the form of another one, that occurs nowhere; None if no attempt gives one.

    Digits, and the letters of a word with digits, are drawn anew. Each other word comes from the same place of another
    secret. Blanks and marks stay.

    Args:
        secret: secret whose form is kept.
        pool: secrets of the same label.
        known: all secrets of the corpus.
        rng: generator of the draws.
    """
    pieces = _WORD.split(secret)  # a word at every odd place
    for _ in range(_ATTEMPTS):
        found = "".join(_word(piece, at // 2, pool, rng) if at % 2 else piece for at, piece in enumerate(pieces))
        if found not in known:
            return found
    return None


def _word(word: str, place: int, pool: Sequence[str], rng: np.random.Generator) -> str:
    if any(char.isdigit() for char in word):
        return "".join(_character(char, rng) for char in word)
    others = _WORD.findall(pool[int(rng.integers(len(pool)))])
    return others[place] if place < len(others) else word


def _character(char: str, rng: np.random.Generator) -> str:
    if char.isdigit():
        return str(rng.integers(10))
    return chr(ord("A" if char.isupper() else "a") + int(rng.integers(26))) if char.isalpha() else char


def refined_accuracy(members: FloatArray, others: FloatArray) -> tuple[int, int]:
    """Returns the number of right answers on the surest secrets, and their number.

    Args:
        members: (m,) scores of secrets that were trained on, higher for likelier members.
        others: (n,) scores of the others.
    """
    half = max(1, round(REFINED * (len(members) + len(others)) / 2))
    is_member = np.repeat([True, False], [len(members), len(others)])[np.argsort(-np.concatenate([members, others]))]
    return int(is_member[:half].sum() + (~is_member[-half:]).sum()), 2 * half


class SecretAttacker:
    """Attacks the secrets of training rows, label by label.

    Args:
        model: attacked model.
        trained: rows that it was trained on.
        held_out: rows that it was not trained on.
        most: most secrets of each label, and of each kind.
        marks_tokens: true to show the model which tokens are private, as in its training.
        rng: generator of the draws.
        confidence: confidence of each interval, two-sided.
    """

    def __init__(
        self,
        model: TrainedModel,
        trained: Sequence[Row],
        held_out: Iterable[Row],
        *,
        most: int,
        marks_tokens: bool,
        rng: np.random.Generator,
        confidence: float = 0.95,
    ) -> None:
        self._model, self._rows, self._most, self._marks, self._rng = model, trained, most, marks_tokens, rng
        self._settings = MembershipSettings(confidence=confidence)
        self._trained, self._held_out = _by_label(trained), _by_label(held_out)
        self._known = frozenset(text for own in (self._trained, self._held_out) for of in own.values() for text in of)

    def attacks(self) -> list[SecretAttack]:
        """Returns the figures of all labels and kinds with enough secrets."""
        found = []
        for label in sorted(self._trained):
            pool = sorted({*self._trained[label], *self._held_out.get(label, {})})
            own = self._drawn(sorted(self._trained[label]))
            fresh = sorted(set(self._held_out.get(label, {})) - set(self._trained[label]))
            others = dict.fromkeys(made_up(secret, pool, self._known, self._rng) for secret in own)
            pairs = {
                ALONE: (_alone(label, own), _alone(label, [text for text in others if text is not None])),
                HELD_OUT: (_alone(label, own), _alone(label, self._drawn(fresh))),
                IN_CONTEXT: self._in_context(label, pool),
            }
            found += [self._attack(label, kind, *pair) for kind, pair in pairs.items() if min(map(len, pair)) >= FEWEST]
        return found

    def _drawn(self, texts: Sequence[str]) -> list[str]:
        return [texts[at] for at in self._rng.permutation(len(texts))[: self._most]]

    def _in_context(self, label: str, pool: Sequence[str]) -> tuple[list[Row], list[Row]]:
        """Returns rows as they are, and other rows with made-up secrets: rows of the training all of them."""
        rows = [row for row in {row.text: row for row in self._rows}.values() if row.secrets(label)]
        drawn = [rows[at] for at in self._rng.permutation(len(rows))[: 2 * self._most]]
        changed = []
        for row in drawn[len(drawn) // 2 :]:
            secrets = [made_up(secret, pool, self._known, self._rng) for secret in row.secrets(label)]
            if None not in secrets:
                changed.append(row.with_secrets(label, [secret for secret in secrets if secret is not None]))
        return drawn[: len(drawn) // 2], changed

    def _attack(self, label: str, kind: str, members: Sequence[Row], others: Sequence[Row]) -> SecretAttack:
        rows = {f"{at}": row for at, row in enumerate((*members, *others))}
        evidence = read_evidence(self._model, {name: self._record(row) for name, row in rows.items()})
        scores = {name: perplexity(found) for name, found in evidence.items()}
        names = list(rows)
        inside, outside = (
            [name for name in part if name in scores] for part in (names[: len(members)], names[len(members) :])
        )
        texts = ({name: rows[name].text for name in part} for part in (inside, outside))
        compare = Comparison(
            names=(inside, outside),
            scores={"perplexity": scores},
            unseen={},
            blind=blind_scores(*texts, generator=self._rng),
            settings=self._settings,
        )
        of_all, blind = compare.attacks(self._rng)
        single = of_all["perplexity"]
        groups = compare.grouped(self._rng)
        of_groups, blind_groups = groups.attacks(self._rng) if groups else (None, None)
        right, num = refined_accuracy(*(np.array([scores[name] for name in part]) for part in (inside, outside)))
        accuracy = single.evaluation.accuracy
        return SecretAttack(
            label=label,
            kind=kind,
            num_members=len(inside),
            num_others=len(outside),
            auc=single.evaluation.auc,
            interval=single.evaluation.auc_interval,
            blind_auc=blind.auc,
            accuracy=None if accuracy is None else accuracy.value,
            group_auc=None if of_groups is None else of_groups["perplexity"].evaluation.auc,
            group_blind_auc=None if blind_groups is None else blind_groups.auc,
            refined_accuracy=right / num,
            refined_interval=clopper_pearson(right, num, self._settings.confidence),
            p_value=single.p_value,
        )

    def _record(self, row: Row) -> Record:
        private = [[(start, end) for _, start, end in row.spans] if self._marks else []]
        return Record(texts=[row.text], speakers=[row.speaker], domains=[row.domain], private_chars=private)


def _by_label(rows: Iterable[Row]) -> Mapping[str, Mapping[str, None]]:
    """Returns the distinct secrets of each label."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for row in rows:
        for label, start, end in row.spans:
            found[label][row.text[start:end]] = None
    return found


def _alone(label: str, secrets: Iterable[str]) -> list[Row]:
    return [Row(text=secret, spans=[(label, 0, len(secret))]) for secret in secrets]
