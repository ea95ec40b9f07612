"""Extraction: an attack that finds secrets of the training rows in a model's texts (after Carlini et al. 2021).

There are two kinds. *Untargeted*: a model writes after many prompts, and every secret is searched in all its texts
(`search`). *Targeted*: a model continues the text before a secret in its row (`targeted`). Each figure comes with
figures of chance: of a reference model that never saw the secrets, with the same prompts, decoding and number of texts;
of secrets of the same kind that no model saw (``decoys``, from held-out rows); and of the secrets of other rows after
this row's prompt. Common strings, such as "Monday", come out of all of them.

Strings stream by. Memory holds the written texts and a uniform sample of distinct secrets. Results are counts by label.
To see the strings, pass ``report`` and keep its output in the private root.
"""

from __future__ import annotations

import secrets as random_keys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from scipy import stats

from pipelines.attacks.rates import Rate
from pipelines.attacks.secret_search import DistinctSample, Match, WrittenText
from pipelines.gate.strings import Choice
from pipelines.randomness import sample_of
from pipelines.training.encoded import Record

ALL: Final = "all"
"""Name of all labels together; labels themselves are capitals."""
MAX_HELD: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Found:
    """A secret that came out. Private."""

    label: str
    string: str = field(repr=False)
    match: Match


@dataclass(frozen=True, kw_only=True)
class LabelExtraction:
    """The extracted secrets under one label.

    Attributes:
        num_secrets: number of occurrences in the stream.
        num_distinct: number of distinct secrets; an estimate if ``share_held`` is below 1.
        share_held: share of distinct secrets in the rates, drawn uniformly.
        num_verbatim: number of all distinct secrets that the model wrote verbatim.
        num_verbatim_reference: number of those that the reference wrote verbatim.
        num_model_only, num_reference_only: numbers of those that only one of them wrote.
        p_value: p-value of ``num_model_only`` if either is as likely to be the only one (one-sided exact sign test). It
            assumes independent secrets, and is too small if several come from one memorised row.
        verbatim, near: rates of the model over the held secrets. A near match is not verbatim.
        verbatim_reference, near_reference: rates of the reference.
        verbatim_decoys, near_decoys: rates of the model over decoys; None without any.
        near_kinds: number of the model's near matches by kind (`pipelines.attacks.secret_search`).
    """

    num_secrets: int
    num_distinct: float
    share_held: float
    num_verbatim: int
    num_verbatim_reference: int
    num_model_only: int
    num_reference_only: int
    p_value: float
    verbatim: Rate
    near: Rate
    verbatim_reference: Rate
    near_reference: Rate
    verbatim_decoys: Rate | None
    near_decoys: Rate | None
    near_kinds: Mapping[str, int]

    def document(self) -> dict[str, Any]:
        """Returns counts as JSON values."""
        return {
            name: value.document() if isinstance(value, Rate) else dict(value) if isinstance(value, Mapping) else value
            for name, value in vars(self).items()
        }


@dataclass(frozen=True, kw_only=True)
class Extraction:
    """Extracted secrets by label, with all labels together under `ALL`.

    Attributes:
        by_label: figures of each label.
        left_out: number of strings that were not searched, by reason: ``label`` (`Choice.has_label`), or
            `Choice.reason_against`.
    """

    by_label: Mapping[str, LabelExtraction]
    left_out: Mapping[str, int]

    def document(self) -> dict[str, Any]:
        """Returns labels and counts as JSON values."""
        return {
            "labels": {label: found.document() for label, found in sorted(self.by_label.items())},
            "left_out": dict(sorted(self.left_out.items())),
        }


def search(
    secrets: Iterable[tuple[str, str]],
    *,
    written: Iterable[str],
    written_by_reference: Iterable[str],
    choice: Choice,
    decoys: Iterable[tuple[str, str]] = (),
    max_held: int = MAX_HELD,
    confidence: float = 0.95,
    report: Callable[[Found], None] | None = None,
) -> Extraction:
    """Searches for every secret in the texts of two models.

    Args:
        secrets: (label, string) of masked strings in the model's training rows, in any order; repeats and several
            labels of one string are allowed.
        written: all texts of the attacked model.
        written_by_reference: all texts of a model that was trained without the rows; as many, after the same prompts.
        choice: comparison of text, and choice of the strings to search.
        decoys: (label, string) of rows that no model was trained on. Strings that are secrets too are dropped.
        max_held: most distinct secrets, and decoys, for near matches and rates; of more a uniform sample is drawn.
        confidence: confidence of intervals.
        report: function that receives each distinct secret that came out verbatim, and each held one that came out
            nearly. Private.
    """
    key = random_keys.token_bytes(32)
    model, reference = WrittenText(written, choice, key), WrittenText(written_by_reference, choice, key)
    left_out: Counter[str] = Counter()
    held_decoys: DistinctSample[_Secret] = DistinctSample(max_held)
    for label, string in _searched(decoys, choice, Counter()):
        _hold(held_decoys, model.digest(string), label, string)
    held: DistinctSample[_Secret] = DistinctSample(max_held)
    num_secrets: Counter[str] = Counter()
    mine: dict[str, set[bytes]] = defaultdict(set)
    theirs: dict[str, set[bytes]] = defaultdict(set)
    for label, string in _searched(secrets, choice, left_out):
        digest = model.digest(string)
        held_decoys.remove(digest)
        _hold(held, digest, label, string)
        for name in (label, ALL):
            num_secrets[name] += 1
        if model.has(string):
            if report is not None and digest not in mine[label]:
                report(Found(label=label, string=string, match="verbatim"))
            for name in (label, ALL):
                mine[name].add(digest)
        if reference.has(string):
            for name in (label, ALL):
                theirs[name].add(digest)
    matches = _by_label(held, model, report)
    matches_reference = _by_label(held, reference)
    matches_decoys = _by_label(held_decoys, model)
    by_label = {}
    for label, number in num_secrets.items():
        own, decoy = matches[label], matches_decoys.get(label, [])
        only, reference_only = len(mine[label] - theirs[label]), len(theirs[label] - mine[label])
        by_label[label] = LabelExtraction(
            num_secrets=number,
            num_distinct=len(own) / held.share,
            share_held=held.share,
            num_verbatim=len(mine[label]),
            num_verbatim_reference=len(theirs[label]),
            num_model_only=only,
            num_reference_only=reference_only,
            p_value=float(stats.binom.sf(only - 1, only + reference_only, 0.5)),
            verbatim=_rate(own, True, confidence),
            near=_rate(own, False, confidence),
            verbatim_reference=_rate(matches_reference[label], True, confidence),
            near_reference=_rate(matches_reference[label], False, confidence),
            verbatim_decoys=_rate(decoy, True, confidence) if decoy else None,
            near_decoys=_rate(decoy, False, confidence) if decoy else None,
            near_kinds=Counter(match for match in own if match not in (None, "verbatim")),
        )
    return Extraction(by_label=by_label, left_out=left_out)


@dataclass
class _Secret:
    """A secret in plain text, only in memory on the private side."""

    string: str = field(repr=False)
    labels: set[str]


def _searched(strings: Iterable[tuple[str, str]], choice: Choice, left_out: Counter[str]) -> Iterator[tuple[str, str]]:
    """Yields the strings to search, in the compared form."""
    for label, string in strings:
        compared = choice.normalise(string)
        reason = _reason_against(label, compared, choice)
        if reason is None:
            yield label, compared
        else:
            left_out[reason] += 1


def _reason_against(label: str, compared: str, choice: Choice) -> str | None:
    return choice.reason_against(compared, label) if choice.has_label(label) else "label"


def _hold(sample: DistinctSample[_Secret], digest: bytes, label: str, string: str) -> None:
    known = sample.items.get(digest)
    if known is None:
        sample.add(digest, _Secret(string, {label, ALL}))
    else:
        known.labels.add(label)


def _by_label(
    sample: DistinctSample[_Secret], text: WrittenText, report: Callable[[Found], None] | None = None
) -> dict[str, list[Match | None]]:
    found: dict[str, list[Match | None]] = defaultdict(list)
    for secret in sample.items.values():
        match = text.match(secret.string)
        for label in secret.labels:
            found[label].append(match)
            if report is not None and label != ALL and match is not None and match != "verbatim":
                report(Found(label=label, string=secret.string, match=match))
    return found


def _rate(matches: Sequence[Match | None], is_verbatim: bool, confidence: float) -> Rate:
    hits = sum(match is not None and (match == "verbatim") == is_verbatim for match in matches)
    return Rate.of(hits, len(matches), confidence)


@dataclass(frozen=True, kw_only=True)
class Target:
    """A secret with the text before it in its row. Private."""

    label: str
    secret: str = field(repr=False)
    prompt: Record = field(repr=False)


def targets(rows: Iterable[Mapping[str, Any]], choice: Choice, num: int, rng: np.random.Generator) -> list[Target]:
    """Draws secrets of training rows with their prompts, uniformly from all that are searched.

    Args:
        rows: ``text``, ``speaker``, ``domain``, and ``spans`` with ``start``, ``end``, ``label``, of the training fold.
        choice: choice of the secrets to search.
        num: most secrets that are drawn.
        rng: generator of the draws.
    """
    secrets = ((row, span, row["text"][span["start"] : span["end"]]) for row in rows for span in row["spans"])
    searched = (
        found for found in secrets if _reason_against(found[1]["label"], choice.normalise(found[2]), choice) is None
    )
    drawn = []
    for row, span, secret in sample_of(searched, num, rng):
        before = row["text"][: span["start"]].rstrip()
        prompt = Record(texts=[before], speakers=[row["speaker"]], domains=[row["domain"]])
        drawn.append(Target(label=span["label"], secret=secret, prompt=prompt))
    return drawn


@dataclass(frozen=True, kw_only=True)
class TargetedExtraction:
    """The rate of texts that hold the secret that followed their prompt.

    Attributes:
        model, reference: rates over prompts; equal secrets are one cluster.
        chance: share of the other secrets with the label of a prompt's own secret that the model wrote after the
            prompt, over all such pairs without sampling. None if there is no other secret.
    """

    model: Rate
    reference: Rate
    chance: float | None

    def document(self) -> dict[str, Any]:
        """Returns counts as JSON values."""
        return {"model": self.model.document(), "reference": self.reference.document(), "chance": self.chance}


def targeted(
    given: Sequence[Target],
    *,
    written: Sequence[Sequence[str]],
    written_by_reference: Sequence[Sequence[str]],
    choice: Choice,
    confidence: float = 0.95,
) -> dict[str, TargetedExtraction]:
    """Returns rates of verbatim answers by label, and under `ALL`.

    Args:
        given: secrets with their prompts.
        written: texts that the model wrote after each prompt, in the order of ``given``.
        written_by_reference: texts that the reference wrote.
        choice: comparison of text.
        confidence: confidence of intervals.
    """
    secrets = [choice.normalise(target.secret) for target in given]
    key = random_keys.token_bytes(32)
    answers = [WrittenText(texts, choice, key) for texts in written]
    of_reference = [WrittenText(texts, choice, key) for texts in written_by_reference]
    distinct = {target.label: set[str]() for target in given}
    for target, secret in zip(given, secrets, strict=True):
        distinct[target.label].add(secret)
    results = {}
    for label in [*sorted(distinct), ALL] if given else []:
        rows = [n for n, target in enumerate(given) if label in (ALL, target.label)]
        strings = [secrets[n] for n in rows]
        others = [answers[n].has(string) for n in rows for string in distinct[given[n].label] - {secrets[n]}]
        results[label] = TargetedExtraction(
            model=Rate.clustered([answers[n].has(secrets[n]) for n in rows], strings, confidence),
            reference=Rate.clustered([of_reference[n].has(secrets[n]) for n in rows], strings, confidence),
            chance=sum(others) / len(others) if others else None,
        )
    return results


def tag_prompts(tags: Iterable[tuple[str | None, str | None]]) -> list[Record]:
    """Returns an empty turn of each distinct (speaker, domain), in the order of their first occurrence."""
    return [Record(texts=[""], speakers=[speaker], domains=[domain]) for speaker, domain in dict.fromkeys(tags)]
