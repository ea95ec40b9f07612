"""The sentences that reviewers see: text, tokens, masks and neighbours of the sampled rows, joined from the tables.

Copies that deduplication masked whole are not shown, because nothing in them is left to judge. The order of sentences
does not depend on their content (replicate, then HMAC), so those reviewed so far are a random part of all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from pipelines.miss_rate.review_log import Ballot, Judgement, Range, Secret, asks_again, covered
from pipelines.miss_rate.sampling import Partition, SentenceId, joined, read_sample, rows_of
from pipelines.policies.held import held_rows
from pipelines.policies.labels import ReviewLabels
from pipelines.policies.redact import masked_runs, token_mask
from pipelines.tables import Table

NUM_NEIGHBOURS: Final = 2
"""Number of sentences of the document that are shown before, and after, the one to review."""


@dataclass(frozen=True)
class Mask:
    """A maximal run of masked tokens, as characters, with its label in reviews."""

    start: int
    end: int
    label: str


class Neighbour(NamedTuple):
    """A sentence near the one to review: its speaker, if the text is a dialogue, and the original text."""

    speaker: str | None
    text: str


@dataclass(frozen=True)
class Item:
    """A sentence to review.

    Attributes:
        key: HMAC of the text.
        text: original text.
        starts, ends: character positions of its tokens.
        masks: current masks of the policies, in order.
        speaker: speaker of a dialogue turn, for people.
        row: document and sentence number of the shown copy.
        first_replicate: first replicate that holds it.
        before, after: neighbours in the document of the shown copy, in order.
        kind: reason for its review: ``sample`` for sentences of the sample or of the screening set, ``held`` for those
            that the gate holds.
    """

    key: str
    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    masks: tuple[Mask, ...]
    speaker: str | None
    row: SentenceId
    first_replicate: int
    before: tuple[Neighbour, ...] = ()
    after: tuple[Neighbour, ...] = ()
    kind: str = "sample"

    def open_tokens(self) -> list[Range]:
        """Returns the characters of the tokens that no mask covers."""
        masked = covered((mask.start, mask.end) for mask in self.masks)
        return [pair for pair in zip(self.starts, self.ends, strict=True) if not masked.intersection(range(*pair))]

    def needs_review(self, judgement: Judgement | None) -> bool:
        """Returns true if nobody has judged it, or the current masks do not cover a trusted secret."""
        return judgement is None or bool(asks_again(judgement, self.open_tokens()))


def load_items(
    sample: Table, partitions: Sequence[Partition], key_of: Callable[[str], str], labels: ReviewLabels
) -> list[Item]:
    """Loads the distinct sentences to review, in review order.

    Args:
        sample: ``sample`` table.
        partitions: tables of each partition.
        key_of: function from the text of a sentence to its key.
        labels: labels of reviews for policies' labels.

    Raises:
        StageError: a sampled row is missing from the tables.
    """
    sampled = read_sample(sample)
    found: dict[str, Item] = {}
    for partition in partitions:
        for item in _items(sampled.get(partition.name, {}), partition, key_of, labels):
            known = found.get(item.key)
            if known is None or item.first_replicate < known.first_replicate:
                found[item.key] = item
    return sorted(found.values(), key=lambda item: (item.first_replicate, item.key))


def load_held_items(
    held: Mapping[str, Table],
    hits: Table,
    partitions: Sequence[Partition],
    key_of: Callable[[str], str],
    labels: ReviewLabels,
) -> list[Item]:
    """Loads the first sentence that is held for each string that the gate found. The found string counts as masked.

    If a reviewer calls such a mask wrong, the string is not a secret, and the gate no longer searches for it.

    Args:
        held: rows that the gate holds, by partition.
        hits: finds of the gate.
        partitions, key_of, labels: arguments as for `load_items`.

    Raises:
        StageError: a held row is missing from the tables.
    """
    asked: dict[SentenceId, str] = {}
    known: set[str] = set()
    for hit in hits.rows(("string", "label", "doc_id", "sentence_index")):
        if hit["string"] not in known:
            known.add(hit["string"])
            asked.setdefault((hit["doc_id"], hit["sentence_index"]), hit["label"].split("+")[0])
    found: dict[str, Item] = {}
    for partition in partitions:
        ranges = {row: pairs for row, pairs in held_rows([held[partition.name]]).items() if row in asked}
        for item in _items({row: [0] for row in ranges}, partition, key_of, labels):
            label = labels.first([(asked[item.row], None)])
            masks = tuple(Mask(start, end, label) for start, end in ranges[item.row])
            found.setdefault(item.key, replace(item, masks=masks, kind="held"))
    return sorted(found.values(), key=lambda item: item.key)


def _items(
    sampled: dict[SentenceId, list[int]], partition: Partition, key_of: Callable[[str], str], labels: ReviewLabels
) -> Iterator[Item]:
    near = _neighbours(sampled, partition)
    for row in itertools.chain.from_iterable(joined(partition, sampled, ["speaker"])):
        if row["is_duplicate"]:
            continue
        identity = row["doc_id"], row["sentence_index"]
        starts, ends = tuple(row["token_starts"]), tuple(row["token_ends"])
        yield Item(
            key=key_of(row["text"]),
            text=row["text"],
            starts=starts,
            ends=ends,
            masks=tuple(_masks(row["text"], starts, ends, row, labels)),
            speaker=row["speaker"],
            row=identity,
            first_replicate=min(sampled[identity]),
            before=_near(near, identity, range(-NUM_NEIGHBOURS, 0)),
            after=_near(near, identity, range(1, NUM_NEIGHBOURS + 1)),
        )


def _neighbours(sampled: Iterable[SentenceId], partition: Partition) -> dict[SentenceId, Neighbour]:
    """Returns the sentences around the sampled ones, within their documents."""
    wanted = {(d, max(0, i + away)) for d, i in sampled for away in range(-NUM_NEIGHBOURS, NUM_NEIGHBOURS + 1)}
    rows = rows_of(partition.sentences, ("doc_id", "sentence_index", "text", "speaker"), wanted)
    return {(row["doc_id"], row["sentence_index"]): Neighbour(row["speaker"], row["text"]) for row in rows}


def _near(near: Mapping[SentenceId, Neighbour], row: SentenceId, away: Iterable[int]) -> tuple[Neighbour, ...]:
    return tuple(found for by in away if (found := near.get((row[0], row[1] + by))) is not None)


def open_characters(starts: Sequence[int], ends: Sequence[int], spans: Sequence[Mapping[str, Any]]) -> list[Range]:
    """Returns the characters of the tokens that no span covers."""
    masked = {token for span in spans for token in range(span["start_token"], span["end_token"])}
    return [(starts[i], ends[i]) for i in range(len(starts)) if i not in masked]


def _masks(
    text: str, starts: tuple[int, ...], ends: tuple[int, ...], redacted: Mapping[str, Any], labels: ReviewLabels
) -> Iterator[Mask]:
    spans = list(redacted["spans"] or ())
    whole = [(0, len(starts))] if redacted["failed_closed"] else []
    masked = token_mask(len(starts), whole or [(span["start_token"], span["end_token"]) for span in spans])
    for first, last in masked_runs(text, starts, ends, masked):
        here = [(s["label"], s["policy"]) for s in spans if s["start_token"] < last and s["end_token"] > first]
        yield Mask(starts[first], ends[last - 1], labels.first(here))


def judged_secrets(item: Item, marked: Sequence[Secret], wrong: Sequence[Range]) -> tuple[list[Secret], list[Range]]:
    """Returns all secrets of a sentence by a reviewer's marks, in order, and those that only a policy supports.

    A mask that is not called wrong is a trusted secret. A mark includes the masks that it touches: "Jane" next to a
    masked "Doe", marked as one, is one secret.
    """
    rejected = covered(wrong)
    secrets, trusted = [_grown(mark, item.masks, rejected) for mark in marked], []
    looked_at = covered(secrets)
    for mask in item.masks:
        here = set(range(mask.start, mask.end))
        if here & rejected or here & looked_at:
            continue
        secrets.append(Secret(mask.start, mask.end, mask.label))
        trusted.append((mask.start, mask.end))
    return sorted(secrets), trusted


def _grown(mark: Secret, masks: Sequence[Mask], rejected: set[int]) -> Secret:
    """Returns the mark together with the masks that it touches and that are not called wrong."""
    here = set(range(mark.start, mark.end))
    touched = [
        mask
        for mask in masks
        if not here.isdisjoint(range(mask.start, mask.end)) and rejected.isdisjoint(range(mask.start, mask.end))
    ]
    start = min(mark.start, *(mask.start for mask in touched)) if touched else mark.start
    end = max(mark.end, *(mask.end for mask in touched)) if touched else mark.end
    return Secret(start, end, mark.label)


def cohens_kappa(both: int, first: int, second: int, total: int) -> float | None:
    """Returns the agreement of two raters beyond chance (Cohen 1960).

    Args:
        both: number of units that both call sensitive.
        first, second: number of units that each calls sensitive.
        total: number of all units.

    Returns:
        Kappa: 1 for full agreement, 0 for the agreement of chance. None if chance alone gives full agreement (no unit,
        or both call everything, or nothing, sensitive).
    """
    if total == 0:
        return None
    agreed = (total - first - second + 2 * both) / total
    by_chance = (first * second + (total - first) * (total - second)) / total**2
    return None if by_chance >= 1 else (agreed - by_chance) / (1 - by_chance)


def agreement(ballots: Mapping[str, Ballot], items: Iterable[Item]) -> list[dict[str, Any]]:
    """Returns Cohen's kappa of each pair of reviewers over the tokens of the sentences that both judged.

    Returns:
        A row a pair: ``reviewers``, ``num_sentences``, ``num_tokens``, ``kappa``, ``num_disputed`` (sentences that the
        pair sees differently).
    """
    sums: dict[tuple[str, str], list[int]] = {}
    for item in items:
        judged = ballots[item.key].judged if item.key in ballots else []
        if len(judged) < 2:
            continue
        tokens = {d.reviewer: _sensitive(item, d.secrets) for d in judged}
        for pair in itertools.combinations(sorted(tokens), 2):
            a, b = tokens[pair[0]], tokens[pair[1]]
            row = sums.setdefault(pair, [0, 0, 0, 0, 0, 0])
            for at, value in enumerate((len(a & b), len(a), len(b), len(item.starts), 1, a != b)):
                row[at] += value
    return [
        {
            "reviewers": list(pair),
            "num_sentences": row[4],
            "num_tokens": row[3],
            "num_disputed": row[5],
            "kappa": cohens_kappa(row[0], row[1], row[2], row[3]),
        }
        for pair, row in sorted(sums.items())
    ]


def _sensitive(item: Item, secrets: Iterable[tuple[Any, ...]]) -> set[int]:
    characters = covered(secrets)
    tokens = zip(item.starts, item.ends, strict=True)
    return {i for i, pair in enumerate(tokens) if not characters.isdisjoint(range(*pair))}
