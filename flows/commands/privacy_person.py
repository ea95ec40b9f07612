"""``reticent privacy person``: computes the epsilon of a person with several records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from flows.commands.privacy import SAMPLING, check_training, number_text, with_assumptions
from pipelines.accounting.events import NeighboringRelation, dp_sgd
from pipelines.errors import ConfigError
from pipelines.files import finite
from pipelines.numbers import real

_PERSON: Final = (
    "neighbours: all records of one person are replaced by others, and every person keeps the number of records",
    "nobody has more records than --records; a person with fewer is covered as well",
    "the person's own records only: what other people's records say about the person is not covered",
    "the proof is on the page docs/concepts.md",
)


def person_document(
    *, sample_rate: float, noise_multiplier: float, steps: int, delta: float, records: int
) -> dict[str, Any]:
    """Returns the epsilon of a person, and of one record.

    Raises:
        ConfigError: a number is out of range.
    """
    check_training(noise_multiplier, sample_rate, steps, delta)
    if records < 1:
        raise ConfigError(f"--records must be at least 1, not {records}")
    from pipelines.accounting.accountants import epsilon
    from pipelines.accounting.groups import group_epsilon

    event = dp_sgd(noise_multiplier=noise_multiplier, sample_rate=sample_rate, num_steps=steps)
    return {
        "epsilon": finite(group_epsilon(event, delta, records)),
        "epsilon_record": finite(epsilon(event, delta, NeighboringRelation.REPLACE_ONE)),
        "records": records,
        "delta": delta,
        "relation": NeighboringRelation.REPLACE_ONE.value,
        "sample_rate": sample_rate,
        "noise_multiplier": noise_multiplier,
        "steps": steps,
        "assumptions": [*_PERSON, *SAMPLING],
    }


def person_text(document: Mapping[str, Any]) -> str:
    """Formats both figures, then their assumptions."""
    lines = [
        f"epsilon at delta {real(document['delta'])}, {document['relation']}, {document['steps']} steps at sample rate "
        f"{document['sample_rate']:g}, noise multiplier {document['noise_multiplier']:g}",
        f"  {'one record':<28} {number_text(document['epsilon_record']):>9}  {_odds(document['epsilon_record'])}",
        f"  {'a person with ' + str(document['records']) + ' records':<28} {number_text(document['epsilon']):>9}  "
        f"{_odds(document['epsilon'])}",
    ]
    return with_assumptions(lines, document)


def _odds(epsilon: float | None) -> str:
    """Returns the factor by which the odds of a guess can grow, in words."""
    if epsilon is None:
        return "no bound"
    factor = math.exp(min(epsilon, 700))
    return f"the odds of a guess grow at most {f'{factor:,.1f}' if factor < 1e6 else f'e^{epsilon:.0f}'}-fold"
