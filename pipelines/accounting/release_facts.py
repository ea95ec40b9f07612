"""What the ledger keeps of a release beside its event, so that later claims can be made about all releases together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.accounting.events import from_json, to_json
from pipelines.accounting.run_facts import Phase


@dataclass(frozen=True, kw_only=True)
class ReleaseFacts:
    """Facts of one release, all of them settings but for the number of records.

    Attributes:
        method, variant: the training method.
        record: the unit that was sampled and clipped.
        num_private_records: how many of them there were.
        phases: what ran, by what it read of the private records.
        met: preconditions of the method that training recorded as met.
        redactions: identify how sentences were redacted and judged public: one for the recipe, one for its output.
            Releases that share one masked the same tokens of the same sentence, and let the same ones pass.
        sentence_stability: training records that one replaced sentence of the raw corpus can change, were each record
            a sentence; None: no bound.
        trains_on_public_rows: whether rows were trained on without noise because the conservative policy let them pass.
        publishes_rows: whether such rows were published as a table.
        typed_masks: whether masks told what kind of secret they stand for.
        is_noise_from_private_text: whether a noise multiplier was chosen by a measurement of the private text.
    """

    method: str
    record: str
    num_private_records: int
    phases: tuple[Phase, ...]
    redactions: frozenset[str]
    variant: str | None = None
    met: frozenset[str] = field(default_factory=frozenset)
    sentence_stability: int | None = None
    trains_on_public_rows: bool = False
    publishes_rows: bool = False
    typed_masks: bool = False
    is_noise_from_private_text: bool = False

    @property
    def records_per_sentence(self) -> int | None:
        """`sentence_stability` where it holds: for records of one sentence, and where only originals were read.

        A copy that deduplication unmasks stands in another record of any other kind.
        """
        is_known = self.record == "sentence" or all(phase.rows == "original" for phase in self.phases)
        return self.sentence_stability if is_known else None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "method": self.method,
            "variant": self.variant,
            "record": self.record,
            "num_private_records": self.num_private_records,
            "phases": [{"name": p.name, "rows": p.rows, "event": to_json(p.event)} for p in self.phases],
            "met": sorted(self.met),
            "redactions": sorted(self.redactions),
            "sentence_stability": self.sentence_stability,
            "trains_on_public_rows": self.trains_on_public_rows,
            "publishes_rows": self.publishes_rows,
            "typed_masks": self.typed_masks,
            "is_noise_from_private_text": self.is_noise_from_private_text,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ReleaseFacts:
        """The inverse of `to_json`.

        Raises:
            UnsupportedEventError: an event of no known kind.
            KeyError, TypeError, ValueError: a key is missing, unknown, or has a wrong value.
        """
        fields = dict(document)
        fields["phases"] = tuple(
            Phase(name=str(p["name"]), rows=p["rows"], event=from_json(p["event"])) for p in document["phases"]
        )
        fields |= {name: frozenset(document[name]) for name in ("met", "redactions")}
        return cls(**fields)
