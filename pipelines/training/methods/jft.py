"""JFT: just fine-tune twice (Shi et al. 2022, section 4).

    phase 1, redacted fine-tune (`pipelines/stages/train/phase1.py`, an artifact of its own), by variant:
        direct                     AdamW on the redacted text of all rows                            (section 4.1)
        manual_screening           AdamW on the few redacted rows that people have screened          (section 4.3)
        light_noise                DP-AdamW on the redacted text, noise by the miss rate m           (section 4.3)
        conservative_light_noise   the same with m = the share of tokens that redaction masks        (section 4.3)
    phase 2, private fine-tune, from the weights of phase 1:
        DP-AdamW on the original text of all rows                                                    (section 4.2)

This module is phase 2. Its account includes what phase 1 did to private rows: the event of phase 1 is composed with the
event of phase 2, without credit for redaction. The guarantee stage takes that credit once, at the end.
"""

from __future__ import annotations

from dataclasses import replace

from pipelines.accounting.events import Composed, Event, NoEvent, adds_no_noise, from_json
from pipelines.errors import StageError
from pipelines.training.data.corpus import TrainingCorpus
from pipelines.training.methods.base import Account, LoopTraining, TrainingSettings, with_noise


def prepare(corpus: TrainingCorpus, settings: TrainingSettings) -> LoopTraining:
    """Plans phase 2.

    Raises:
        StageError: phase 1 left no record, so nothing could be claimed about the whole training.
    """
    first = settings.phase_one
    if first is None or first.get("variant") != settings.variant:
        raise StageError("jft: phase 1 of this variant has not run. Run the train stage with all before it")
    first_event = from_json(first["event"])

    def describe(event: Event) -> Account:
        return Account(
            event=Composed(events=(first_event, event)),
            variant=settings.variant,
            phases=(("redacted fine-tune", str(first["rows"]), first_event), ("private fine-tune", "original", event)),
            preconditions=tuple(first["preconditions"]),
            light_noise_miss_rate=first["light_noise_miss_rate"],
            public_order=first["public_order"],
        )

    before = NoEvent() if adds_no_noise(first_event) else first_event
    return replace(with_noise(corpus, settings), describe=describe, before=before)
