"""What a guarantee rests on: facts about a training, about the stages before it, and what the ledger keeps of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from pipelines.accounting.events import (
    Composed,
    Event,
    NonPrivate,
    UnsupportedEventError,
    from_json,
    is_silent,
    leaves,
    to_json,
)
from pipelines.accounting.withdrawn import Withdrawal
from pipelines.mask import Replacement
from pipelines.methods.registry import rule_of
from pipelines.methods.rule import Rows
from pipelines.miss_rate.rates import MissRate

SCHEMA_VERSION = 1
PUBLIC_BASES: Final = ("fixed_beforehand", "public_text")
"""Where a rate that sets noise may come from without telling of the private text (`TrainingFacts.noise_basis`)."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A part of training that reads private records in one form.

    Attributes:
        name: for people.
        rows: what it reads of them.
        event: what ran; `NonPrivate` where no noise was added.
    """

    name: str
    rows: Rows
    event: Event

    @property
    def is_unnoised(self) -> bool:
        """Whether some of it ran without noise."""
        return any(isinstance(leaf, NonPrivate) for _, leaf in leaves(self.event))


@dataclass(frozen=True, kw_only=True)
class TrainingFacts:
    """The contents of ``events.json``.

    Attributes:
        method: the training method.
        record: the unit that was sampled and clipped.
        num_private_records, num_public_records: records of each set.
        event: what ran on the private records, all phases.
        target_delta: the delta that epsilon is stated at.
        target_epsilon: what the noise was calibrated for, if it was.
        insecure_test_seed: whether noise and samples came from a known seed.
        tokenizer_trained_on: ``public``, ``none``, ``elsewhere`` (it came with a model), or what else it was
            fitted on.
        public_order: in which order public rows were trained on.
        notes: assumptions that training names itself.
        variant: of the method, such as ``light_noise`` of jft.
        phases: ``event`` by what was read of the private records.
        met: preconditions that training recorded as met.
        light_noise_miss_rate: the m that the noise of phase 1 was chosen with; None where that was not done.
        noise_basis: where that m came from: ``fixed_beforehand``, ``public_text`` or ``measured``; None where there is
            none.
        is_noise_from_private_text: whether a noise multiplier was chosen by a measurement of the private text, so that
            the mechanism is another one in a neighbouring world.
        typed_masks: whether masks told, in training, what kind of secret they stand for.
        reads_places: whether training was told which records begin or end their conversation.
        is_compared: whether examples were compared before the first private step (`pipelines.dp.isolation`), as far as
            that is recorded.
        is_on_other_text: whether it read the text as it was redacted and divided by an earlier version, which is
            otherwise than it is now.
        withdrawn: what was found wrong with its recipe since.
        num_compared: how many other models on these files a comparison trained (`reticent compare`), among which this
            one may have been chosen.
        is_chosen_by_private_scores: whether it was chosen, among them or others, by scores on private text.
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
    variant: str | None = None
    phases: tuple[Phase, ...] = ()
    met: frozenset[str] = frozenset()
    light_noise_miss_rate: MissRate | None = None
    noise_basis: str | None = None
    is_noise_from_private_text: bool = False
    typed_masks: bool = False
    reads_places: bool = False
    is_compared: bool = True
    is_on_other_text: bool = False
    withdrawn: tuple[Withdrawal, ...] = ()
    num_compared: int = 0
    is_chosen_by_private_scores: bool = False

    def event_on(self, *rows: Rows) -> Event:
        """What ran on private records in these forms."""
        return Composed(events=tuple(phase.event for phase in self.phases if phase.rows in rows))

    @property
    def reads_original(self) -> bool:
        """Whether nothing but the original text was read, so that redaction gives no credit."""
        return bool(self.phases) and all(phase.rows == "original" for phase in self.phases)

    @property
    def reads_any_original(self) -> bool:
        """Whether a part of the training read original text, for which redaction gives no credit."""
        return not is_silent(self.event_on("original"))


@dataclass(frozen=True, kw_only=True)
class CorpusFacts:
    """What deduplication and redaction were told to do.

    Attributes:
        dedup_stability: training records that replacing one sentence of the raw corpus can change; None: no bound.
        dedup_reason: why, in words.
        dedup_min_tokens: shorter sentences are not deduplicated.
        has_conservative: whether a conservative policy decided what is public; otherwise every row is private.
        has_public_rows: whether rows that it let pass are trained on without noise, or published.
        reads_documents: names of policies that look beyond one sentence, at its document.
        fitted: names of policies, the conservative one included, that were fitted on text.
        learnt: those of which some are known to have learnt from sentences of this corpus; then ``fitted`` is empty.
        plugins: names of policies, the conservative one included, of which neither can be known.
        collapses: whether a run of masks becomes one.
        replacement: what stands in the place of what is masked; all but a mask tells something of it.
        redactor_is_stable: whether every policy is known to mask the same tokens when the tokens that it masks are
            replaced by others of their kind, so that redact(D) = redact(D') for F-neighbours.
        reads_redacted: whether training read redacted text at all.
        holds_rows: whether the gate keeps rows on the private side, and masks in them, what is masked elsewhere.
        decisions: names of decisions beyond a row that the settings asked for (`pipelines.accounting.decisions`).
        foreign_public_rows: whether an earlier release gave away rows by another redaction's judgement, of which it is
            not known which secrets they hold.
    """

    dedup_stability: int | None
    dedup_reason: str
    dedup_min_tokens: int = 0
    has_conservative: bool = False
    has_public_rows: bool = False
    reads_documents: tuple[str, ...] = field(default=())
    fitted: tuple[str, ...] = field(default=())
    learnt: tuple[str, ...] = field(default=())
    plugins: tuple[str, ...] = field(default=())
    collapses: bool = True
    replacement: Replacement = "mask"
    redactor_is_stable: bool = False
    reads_redacted: bool = True
    foreign_public_rows: bool = False
    holds_rows: bool = False
    decisions: frozenset[str] = frozenset()

    @property
    def gives_credit(self) -> bool:
        """Whether a masked secret leaves no trace in what training read."""
        return self.masks_are_alike and self.reads_redacted

    @property
    def masks_are_alike(self) -> bool:
        """Whether one mask stands for every secret, so that it tells nothing of which one it is."""
        return self.collapses and self.replacement == "mask"


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
        event, phases = _what_ran(document)
        rate = document.get("light_noise_miss_rate") or None
        facts = TrainingFacts(
            method=str(document["method"]),
            record=str(document["record"]),
            num_private_records=int(document["num_private_records"]),
            num_public_records=int(document["num_public_records"]),
            event=event,
            target_delta=float(document["target_delta"]),
            target_epsilon=None if document["target_epsilon"] is None else float(document["target_epsilon"]),
            # Anything but a plain false counts as insecure: a missing or odd value must not make a guarantee.
            insecure_test_seed=document["insecure_test_seed"] is not False,
            tokenizer_trained_on=str(document["tokenizer"]["trained_on"]),
            public_order=str(document["public_order"]),
            notes=tuple(str(note) for note in document.get("assumption_notes", ())),
            variant=None if document.get("variant") is None else str(document["variant"]),
            phases=phases,
            # Only a plain true counts.
            met=frozenset(str(n) for n, is_met in document.get("preconditions", {}).items() if is_met is True),
            typed_masks=bool(document.get("typed_masks", False)),
            reads_places=bool(document.get("reads_places", False)),
            is_compared=document.get("num_comparisons") != 0,
            light_noise_miss_rate=_rate(rate),
            noise_basis=None if rate is None else rate.get("basis"),
            is_noise_from_private_text=is_from_private_text(rate),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnsupportedEventError(
            f"events.json is not what the train stage writes ({type(error).__name__}: {error}); rerun train"
        ) from error
    if not 0 < facts.target_delta < 1:
        raise UnsupportedEventError(f"events.json: target_delta must be between 0 and 1, not {facts.target_delta}")
    if Counter(_mechanisms(facts.event)) != sum((Counter(_mechanisms(p.event)) for p in facts.phases), Counter()):
        raise UnsupportedEventError("events.json: the events of its phases are not those of the whole run; rerun train")
    if is_silent(facts.event) and facts.num_private_records > 0:
        raise UnsupportedEventError(
            "events.json counts private records but no event that used them; an epsilon of 0 would be a guess"
        )
    return facts


def is_from_private_text(rate: Mapping[str, Any] | None) -> bool:
    """Whether a miss rate that set noise was counted on the private text; one of unknown origin counts so."""
    return rate is not None and rate.get("basis") not in PUBLIC_BASES


def _rate(document: Mapping[str, Any] | None) -> MissRate | None:
    return MissRate(**{name: document[name] for name in ("value", "upper", "confidence")}) if document else None


def _mechanisms(event: Event) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for count, leaf in leaves(event):
        found[leaf] += count
    return found


def _what_ran(document: Mapping[str, Any]) -> tuple[Event, tuple[Phase, ...]]:
    event, listed = from_json(document["event"]), document.get("phases")
    if listed is None:
        rule = rule_of(method := str(document["method"]), document.get("variant"))
        if rule.reads_spans:  # as the first version wrote it: its noised queries alone
            phases = (
                Phase(name="private spans", rows="original", event=event),
                Phase(name="public spans", rows="redacted", event=NonPrivate()),
            )
            return Composed(events=tuple(phase.event for phase in phases)), phases
        if rule.rows is None and rule.claims != ("dp",):
            raise ValueError(f"the method {method} must list its phases")
        rows = rule.rows or "original"  # of a method that is not in the table nothing is known
        return event, (Phase(name=method, rows=rows, event=event),)
    for phase in listed:
        if phase["rows"] not in get_args(Rows):
            raise ValueError(f"rows of a phase are one of {', '.join(get_args(Rows))}")
        if phase["rows"] != "original" and is_silent(from_json(phase["event"])):
            raise ValueError("a phase on redacted text without noise must have the event non_private, not none")
    return event, tuple(Phase(name=str(p["name"]), rows=p["rows"], event=from_json(p["event"])) for p in listed)


@dataclass(frozen=True, kw_only=True)
class ReleaseFacts:
    """Facts of one release, so that later claims can be made about all releases together.

    All of them are settings but for the number of records.

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
        holds_rows: whether the gate was to hold rows with a find (`pipelines.accounting.held_rows`). How many it held
            depends on the secrets, and no claim uses it.
        decisions: names of decisions beyond a row that the settings asked for (`pipelines.accounting.decisions`).
        recipe: declared versions of what was computed (`pipelines.training.recipes`); empty before there were any.
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
    holds_rows: bool = False
    decisions: frozenset[str] = frozenset()
    recipe: Mapping[str, int] = field(default_factory=dict)

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
            **({"holds_rows": True} if self.holds_rows else {}),  # no key that earlier versions wrote
            **({"decisions": sorted(self.decisions)} if self.decisions else {}),
            **({"recipe": dict(self.recipe)} if self.recipe else {}),
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
        fields["decisions"] = frozenset(document.get("decisions", ()))
        return cls(**fields)
