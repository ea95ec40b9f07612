"""What a guarantee rests on, parsed: the events of training, and facts about the stages before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.accounting.events import Event, UnsupportedEventError, from_json, is_silent

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class TrainingFacts:
    """The contents of ``events.json``.

    Attributes:
        method: the training method.
        record: the unit that was sampled and clipped.
        num_private_records, num_public_records: records of each set.
        event: what ran on the private records.
        target_delta: the delta that epsilon is stated at.
        target_epsilon: what the noise was calibrated for, if it was.
        insecure_test_seed: whether noise and samples came from a known seed.
        tokenizer_trained_on: ``public``, ``none``, or what else it was fitted on.
        public_order: in which order public rows were trained on.
        notes: assumptions that training names itself.
    """

    method: str
    record: str
    num_private_records: int
    num_public_records: int
    event: Event
    target_delta: float
    target_epsilon: float | None
    insecure_test_seed: bool
    tokenizer_trained_on: str
    public_order: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CorpusFacts:
    """What deduplication and redaction were told to do.

    Attributes:
        dedup_stability: training records that replacing one sentence of the raw corpus can change; None: no bound.
        dedup_reason: why, in words.
        dedup_min_tokens: shorter sentences are not deduplicated.
        has_conservative: whether a conservative policy decided what is public; otherwise every row is private.
        couples_rows: names of policies, the conservative one included, that look beyond one sentence.
        plugins: names of policies, the conservative one included, of which it cannot be known whether they do.
        collapses: whether a run of masks becomes one.
    """

    dedup_stability: int | None
    dedup_reason: str
    dedup_min_tokens: int = 0
    has_conservative: bool = False
    couples_rows: tuple[str, ...] = field(default=())
    plugins: tuple[str, ...] = field(default=())
    collapses: bool = True


def parse_training(document: Mapping[str, Any]) -> TrainingFacts:
    """Reads ``events.json``.

    Raises:
        UnsupportedEventError: another schema version, a missing key, an unknown event, or numbers that contradict
            each other.
    """
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise UnsupportedEventError(
            f"events.json has schema version {version!r}, {SCHEMA_VERSION} is known; rerun train"
        )
    try:
        facts = TrainingFacts(
            method=str(document["method"]),
            record=str(document["record"]),
            num_private_records=int(document["num_private_records"]),
            num_public_records=int(document["num_public_records"]),
            event=from_json(document["event"]),
            target_delta=float(document["target_delta"]),
            target_epsilon=None if document["target_epsilon"] is None else float(document["target_epsilon"]),
            # Anything but a plain false counts as insecure: a missing or odd value must not make a guarantee.
            insecure_test_seed=document["insecure_test_seed"] is not False,
            tokenizer_trained_on=str(document["tokenizer"]["trained_on"]),
            public_order=str(document["public_order"]),
            notes=tuple(str(note) for note in document.get("assumption_notes", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnsupportedEventError(
            f"events.json is not what the train stage writes ({type(error).__name__}: {error}); rerun train"
        ) from error
    if not 0 < facts.target_delta < 1:
        raise UnsupportedEventError(f"events.json: target_delta must be between 0 and 1, not {facts.target_delta}")
    if is_silent(facts.event) and facts.num_private_records > 0:
        raise UnsupportedEventError(
            "events.json counts private records but no event that used them; an epsilon of 0 would be a guess"
        )
    return facts
