"""Scores of membership: what models say of a record, as one number, higher for likelier members.

Notation: L is the mean loss of a record's tokens in nats under the attacked model, exp(L) its perplexity.

- ``perplexity``: exp(L) (Carlini et al. 2021, arXiv 2012.07805, section 4; CRT, A.4; Selective DP, section 5.1);
- ``lower_case``: exp(L) against that of the text in small letters (Carlini et al. 2021, section 5.2);
- ``reference_ratio``: exp(L) against that of a reference model (Carlini et al. 2021, section 5.2);
- ``zlib_length``: L against the bytes of the compressed text (Carlini et al. 2021, section 5.2: its "zlib entropy");
- ``zlib_entropy``: exp(L) against the entropy of a compressed byte (what the attack published with Selective DP takes);
- ``ez``: which way wrongly predicted tokens moved from the reference (EZ-MIA, arXiv 2601.12104, sections 3.3 and 3.4);
- ``wbc``: windows of tokens that are likelier than to the reference (WBC, arXiv 2601.02751, section 4.1).

Those of shadow models are in `pipelines.attacks.membership_shadows`. Evidence is kept by the record's identifier, and
only so: lists in another order would show no leakage where there is some.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pipelines.training.data.row_store import RecordRows
    from pipelines.training.encoded import Losses, Record

FloatArray = npt.NDArray[np.float64]
Scores = dict[str, float]

WINDOWS: Final = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)
"""Tokens in a window of WBC: the sizes that the paper's experiments name; its equation 12 rounds to slightly others."""
_MOST_NATS: Final = 700.0  # exp() of more is infinite


class ScoringModel(Protocol):
    """What `pipelines.training.trained.TrainedModel` is to an attack."""

    def losses(self, records: Sequence[str | Record | RecordRows]) -> Losses:
        """The losses of records, in their order."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one model says of one record; T counts the tokens that are asked for.

    Attributes:
        token_losses: (T,) in nats.
        is_error: (T,) whether the model held another token for likelier.
        token_ids: (T,).
    """

    token_losses: FloatArray
    is_error: npt.NDArray[np.bool_]
    token_ids: npt.NDArray[np.int32]

    @property
    def nats(self) -> float:
        """The record's loss."""
        return float(self.token_losses.sum())

    @property
    def mean(self) -> float:
        """The mean loss of a token."""
        return self.nats / len(self.token_losses)

    @property
    def perplexity(self) -> float:
        """exp of the mean loss."""
        return math.exp(min(self.mean, _MOST_NATS))


def read_evidence(model: ScoringModel, records: Mapping[str, str | Record | RecordRows]) -> dict[str, Evidence]:
    """What a model says of records, by identifier. A record without a token that is asked for is left out."""
    losses = model.losses(list(records.values()))
    encoded = losses.records
    found = {}
    for number, identifier in enumerate(records):
        here = slice(encoded.offsets[number], encoded.offsets[number + 1])
        asked = encoded.is_target[here]
        if asked.any():
            found[identifier] = Evidence(
                token_losses=losses.per_token[here][asked],
                is_error=~losses.is_likeliest[here][asked],
                token_ids=encoded.ids[here][asked],
            )
    return found


def lower(record: RecordRows) -> RecordRows:
    """The record in small letters. No letter becomes two, so that ranges of characters stay right."""
    return record._replace(
        texts=["".join(c.lower() if len(c.lower()) == 1 else c for c in text) for text in record.texts]
    )


def perplexity(target: Evidence) -> float:
    """Minus the perplexity."""
    return -target.perplexity


def lower_case(target: Evidence, lowered: Evidence) -> float:
    """Minus the logarithm of the ratio of perplexities, before to after small letters."""
    return lowered.mean - target.mean


def reference_ratio(target: Evidence, reference: Evidence) -> float:
    """Minus the logarithm of the ratio of perplexities, both by the target's number of tokens."""
    return (reference.nats - target.nats) / len(target.token_losses)


def zlib_length(target: Evidence, text: str) -> float:
    """Minus the log-perplexity by the bytes of the compressed text, nats a byte."""
    return -target.mean / len(zlib.compress(text.encode()))


def zlib_entropy(target: Evidence, text: str) -> float:
    """Minus the perplexity by Shannon's entropy of the compressed text's bytes, in bits a byte."""
    compressed = zlib.compress(text.encode())
    shares = np.array(list(Counter(compressed).values())) / len(compressed)
    return -target.perplexity / float(-(shares * np.log2(shares)).sum())


def ez(target: Evidence, reference: Evidence) -> float:
    """The error-zone score of EZ-MIA as P / (P + N), which orders as its P / N and stays finite.

    At the tokens that the target predicts wrongly, P is the sum of log-probability gained against the reference, and N
    of what is lost. The paper takes N = 0 and a record without an error for the strongest sign (its appendices E.5 and
    E.6), so both score 1; the code published with it scores both, and a single error, 0.
    """
    if not target.is_error.any():
        return 1.0
    shifts = (reference.token_losses - target.token_losses)[target.is_error]
    gained, lost = float(shifts[shifts > 0].sum()), float(-shifts[shifts < 0].sum())
    return gained / (gained + lost) if gained + lost > 0 else 0.5


def wbc(target: Evidence, reference: Evidence, windows: Sequence[int] = WINDOWS) -> float:
    """The mean over window sizes of the share of windows that lose less under the target than under the reference.

    A window longer than the record is the record.
    """
    sums = np.concatenate([[0.0], np.cumsum(reference.token_losses - target.token_losses)])
    length = len(target.token_losses)
    sizes = [min(size, length) for size in windows]
    return float(np.mean([np.mean(sums[size:] - sums[:-size] > 0) for size in sizes]))


def are_comparable(target: Mapping[str, Evidence], reference: Mapping[str, Evidence]) -> bool:
    """Whether two models were asked for the same tokens of the same records."""
    return target.keys() <= reference.keys() and all(
        np.array_equal(found.token_ids, reference[identifier].token_ids) for identifier, found in target.items()
    )
