"""Scores of membership: one number for the evidence of models on a record, higher for likelier members.

Notation: L is the mean loss of a record's tokens in nats under the attacked model, exp(L) its perplexity.

- ``perplexity``: exp(L) (Carlini et al. 2021, arXiv 2012.07805, section 4; CRT, A.4; Selective DP, section 5.1);
- ``lower_case``: exp(L) against that of the text in lower case (Carlini et al. 2021, section 5.2);
- ``reference_ratio``: exp(L) against that of a reference model (Carlini et al. 2021, section 5.2);
- ``zlib_length``: L against the bytes of the compressed text (Carlini et al. 2021, section 5.2: its "zlib entropy");
- ``zlib_entropy``: exp(L) against the entropy of a compressed byte (as in the attack published with Selective DP);
- ``ez``: direction of wrongly predicted tokens from the reference (EZ-MIA, arXiv 2601.12104, sections 3.3 and 3.4);
- ``wbc``: windows of tokens that are likelier than under the reference (WBC, arXiv 2601.02751, section 4.1).

Scores of shadow models are in `pipelines.attacks.membership_shadows`. Evidence is only kept by the record's identifier:
lists in different orders would hide a leak.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pipelines.training.data.row_store import RecordRows
    from pipelines.training.encoded import Record
    from pipelines.training.trained import TrainedModel

FloatArray = npt.NDArray[np.float64]
Scores = dict[str, float]

WINDOWS: Final = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)
"""Numbers of tokens in a window of WBC, from the paper's experiments; its equation 12 rounds to slightly others."""
_MOST_NATS: Final = 700.0  # exp() of more is infinite


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The evidence of one model on one record with T target tokens.

    Attributes:
        token_losses: (T,) losses in nats.
        is_error: (T,) true if another token is likelier for the model.
        token_ids: (T,) ids of the tokens.
    """

    token_losses: FloatArray
    is_error: npt.NDArray[np.bool_]
    token_ids: npt.NDArray[np.int32]

    @property
    def nats(self) -> float:
        """The loss of the record, in nats."""
        return float(self.token_losses.sum())

    @property
    def mean(self) -> float:
        """The mean loss of a token."""
        return self.nats / len(self.token_losses)

    @property
    def perplexity(self) -> float:
        """exp of the mean loss."""
        return math.exp(min(self.mean, _MOST_NATS))


def read_evidence(model: TrainedModel, records: Mapping[str, str | Record | RecordRows]) -> dict[str, Evidence]:
    """Returns the evidence of a model on records, by identifier. Records without a target token are left out."""
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
    """Returns the record in lower case. No letter becomes two, so that ranges of characters stay right."""
    return record._replace(
        texts=["".join(c.lower() if len(c.lower()) == 1 else c for c in text) for text in record.texts]
    )


def perplexity(target: Evidence) -> float:
    """Returns minus the perplexity."""
    return -target.perplexity


def lower_case(target: Evidence, lowered: Evidence) -> float:
    """Returns minus the logarithm of the ratio of perplexities, before to after lower case."""
    return lowered.mean - target.mean


def reference_ratio(target: Evidence, reference: Evidence) -> float:
    """Returns minus the logarithm of the ratio of perplexities, both by the target's number of tokens."""
    return (reference.nats - target.nats) / len(target.token_losses)


def zlib_length(target: Evidence, text: str) -> float:
    """Returns minus the log-perplexity over the bytes of the compressed text, in nats a byte."""
    return -target.mean / len(zlib.compress(text.encode()))


def zlib_entropy(target: Evidence, text: str) -> float:
    """Returns minus the perplexity over Shannon's entropy of the compressed text's bytes, in bits a byte."""
    compressed = zlib.compress(text.encode())
    shares = np.array(list(Counter(compressed).values())) / len(compressed)
    return -target.perplexity / float(-(shares * np.log2(shares)).sum())


def ez(target: Evidence, reference: Evidence) -> float:
    """Returns the error-zone score of EZ-MIA as P / (P + N), which has the order of its P / N and stays finite.

    At the tokens that the target predicts wrongly, P is the sum of log-probabilities gained against the reference, and
    N the sum of those lost. In the paper N = 0 and a record without an error are the strongest signs (its appendices
    E.5 and E.6), so both score 1. The code published with it scores both, and a single error, 0.
    """
    if not target.is_error.any():
        return 1.0
    shifts = (reference.token_losses - target.token_losses)[target.is_error]
    gained, lost = float(shifts[shifts > 0].sum()), float(-shifts[shifts < 0].sum())
    return gained / (gained + lost) if gained + lost > 0 else 0.5


def wbc(target: Evidence, reference: Evidence) -> float:
    """Returns the share of windows with less loss under the target than under the reference, averaged over sizes.

    A window longer than the record is cut to the record.
    """
    sums = np.concatenate([[0.0], np.cumsum(reference.token_losses - target.token_losses)])
    length = len(target.token_losses)
    sizes = [min(size, length) for size in WINDOWS]
    return float(np.mean([np.mean(sums[size:] - sums[:-size] > 0) for size in sizes]))


def are_comparable(target: Mapping[str, Evidence], reference: Mapping[str, Evidence]) -> bool:
    """Returns true if two models scored the same tokens of the same records."""
    return target.keys() <= reference.keys() and all(
        np.array_equal(found.token_ids, reference[identifier].token_ids) for identifier, found in target.items()
    )
