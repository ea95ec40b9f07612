"""Sentences of a corpus that a policy learnt from, which are no evidence of that policy's misses.

A detector that was trained on reviewed sentences knows them: rates measured on the same sentences are too low. A model
that is trained on reviews, or on gold labels of a store's corpus, keeps a list of its sentences. Estimates leave these
sentences out, and the rates are over the others. The rest of the sample is a random part of the others, because the
rows of a sample are drawn by their number alone (`pipelines.miss_rate.sampling`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pipelines.context import pseudonym
from pipelines.errors import ConfigError
from pipelines.files import write_atomic
from pipelines.miss_rate.review_log import sentence_key
from pipelines.miss_rate.sampling import Partition, SentenceId, read_sample, rows_of
from pipelines.tables import Table

LEARNT: Final = "learnt_from.json"
"""Name of the list, in the model's folder."""

_VERSION: Final = 1
DRAW_ANEW: Final = (
    "every sampled sentence is one that a policy learnt from, so none of them shows what it misses; draw others: set "
    "sample.draw to a number that was not used yet (1 is the first), and review those"
)


def _store(secret: bytes) -> str:
    """Returns an identifier of the store, because keys of one store mean nothing in another."""
    return pseudonym(secret, "learnt from", "")


def sampled_keys(sample: Table, partitions: Sequence[Partition], secret: bytes) -> frozenset[str]:
    """Returns the keys of all sentences of a sample, copies included.

    A model that learns from the reviews of a sample must list the whole sample. If it listed only the reviewed
    sentences, the rest of the sample would be its copies, which nobody reviews, and not a random part of the other
    sentences.
    """
    sampled = read_sample(sample)
    wanted = ((partition, sampled.get(partition.name, {})) for partition in partitions)
    rows = (row for part, ids in wanted for row in rows_of(part.sentences, ("doc_id", "sentence_index", "text"), ids))
    return frozenset(sentence_key(secret, row["text"]) for row in rows)


def write_learnt(folder: Path, secret: bytes, keys: Iterable[str]) -> None:
    """Writes the list of the sentences that a model learnt from.

    Args:
        folder: folder of the model.
        secret: secret of the store. Keys are HMACs under it, which are meaningless without it.
        keys: keys of the sentences (`sampled_keys`, `pipelines.miss_rate.review_log.sentence_key`).
    """
    document = {"schema_version": _VERSION, "store": _store(secret), "sentences": sorted(set(keys))}
    write_atomic(folder / LEARNT, (json.dumps(document, indent=1) + "\n").encode())


def read_learnt(files: Iterable[Path], secret: bytes) -> frozenset[str]:
    """Reads the keys in several lists. Ignores lists of other stores, which name none of this store's sentences.

    Raises:
        ConfigError: a file is not such a list.
    """
    found: set[str] = set()
    for path in files:
        try:
            document = json.loads(path.read_bytes())
            if document["schema_version"] != _VERSION:
                raise ValueError
            store, keys = document["store"], [str(key) for key in document["sentences"]]
        except (OSError, ValueError, KeyError, TypeError):
            raise ConfigError(
                f"{path} says what a model learnt from, and cannot be read; put the file back that was written with "
                "the model, or train it again"
            ) from None
        if store == _store(secret):
            found.update(keys)
    return frozenset(found)


@dataclass
class Learnt:
    """A filter that leaves sentences that policies learnt from out of a sample.

    Attributes:
        keys: keys of the sentences that policies learnt from.
        key_of: function from the text of a sentence to its key.
        num_left_out: number of sampled sentences left out so far.
    """

    keys: frozenset[str]
    key_of: Callable[[str], str]
    num_left_out: int = 0

    def without(self, partition: Partition, sampled: Mapping[SentenceId, Any]) -> dict[SentenceId, Any]:
        """Returns the sampled sentences of one partition that no policy learnt from."""
        if not self.keys:
            return dict(sampled)
        rows = rows_of(partition.sentences, ("doc_id", "sentence_index", "text"), sampled)
        known = {(row["doc_id"], row["sentence_index"]) for row in rows if self.key_of(row["text"]) in self.keys}
        self.num_left_out += len(known)
        return {identity: value for identity, value in sampled.items() if identity not in known}
