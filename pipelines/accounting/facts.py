"""Facts of a guarantee: of a training, of the stages before it, and of both in the ledger."""

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
PERSON: Final = "person"
"""The unit of a training whose private steps sample people, in place of the kind of its records."""
COPIES_BY_PERSON: Final = "copies of a person"
"""The decision of releases whose deduplication compared the text of each person by itself."""
PUBLIC_BASES: Final = ("fixed_beforehand", "public_text")
"""Sources of a rate that sets noise, without reading the private text (`TrainingFacts.noise_basis`)."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A part of training that reads private records in one form.

    Attributes:
        name: name for people.
        rows: form of the records that it reads.
        event: privacy event; `NonPrivate` if no noise was added.
    """

    name: str
    rows: Rows
    event: Event

    @property
    def is_unnoised(self) -> bool:
        """True if some of it ran without noise."""
        return any(isinstance(leaf, NonPrivate) for _, leaf in leaves(self.event))


@dataclass(frozen=True, kw_only=True)
class TrainingFacts:
    """The contents of ``events.json``.

    Attributes:
        method: training method.
        record: unit that was sampled and clipped.
        num_private_records, num_public_records: number of records of each set.
        event: privacy event of all phases on the private records.
        target_delta: delta at which epsilon is stated.
        target_epsilon: epsilon for which the noise was calibrated, if it was.
        insecure_test_seed: true if noise and samples came from a known seed.
        tokenizer_trained_on: ``public``, ``none``, ``elsewhere`` (it came with a model), or another training text.
        public_order: order in which public rows were trained on.
        notes: assumptions that training names itself.
        variant: variant of the method, such as ``light_noise`` of jft.
        phases: phases of ``event``, by the form of the private records that they read.
        met: preconditions that training recorded as met.
        light_noise_miss_rate: miss rate m with which the noise of phase 1 was chosen; None if it was not.
        noise_basis: source of that m: ``fixed_beforehand``, ``public_text`` or ``measured``; None without m.
        is_noise_from_private_text: true if a measurement of the private text chose a noise multiplier. Then the
            mechanism is different in a neighbouring world.
        typed_masks: true if masks showed, in training, the kind of their secret.
        reads_places: true if training knew which records begin or end their conversation.
        is_compared: true if examples were compared before the first private step (`pipelines.dp.isolation`), as far as
            that is recorded.
        is_on_other_text: true if it read the text as an earlier version redacted and divided it, which differs from the
            current text.
        withdrawn: faults of its recipe that were found later.
        num_compared: number of other models on these files of comparisons, which may have been chosen in its place.
        is_chosen_by_private_scores: true if it was chosen, among them or others, by scores on private text.
        owner_records: most records that a drawn person brought to a step; None if steps sampled records.
        owner_space: settings that say who is a person (``CorpusConfig.space_of_people``); empty if nobody knows.
        owner_bound: largest number of records of a person, if steps sampled records and others were left out.
        owner_missing: setting ``corpus.owner_missing``.
        is_bound_measured: true if ``owner_bound`` was counted on the private text.
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
    owner_records: int | None = None
    owner_space: str = ""
    owner_bound: int | None = None
    owner_missing: str = "stop"
    is_bound_measured: bool = False

    @property
    def by_owner(self) -> bool:
        """True if private steps sampled people, so that a record is everything of a person."""
        return self.record == PERSON

    def event_on(self, *rows: Rows) -> Event:
        """Returns the event of the phases on private records in these forms."""
        return Composed(events=tuple(phase.event for phase in self.phases if phase.rows in rows))

    @property
    def reads_original(self) -> bool:
        """True if only the original text was read, so that redaction gives no credit."""
        return bool(self.phases) and all(phase.rows == "original" for phase in self.phases)

    @property
    def reads_any_original(self) -> bool:
        """True if a part of the training read original text, for which redaction gives no credit."""
        return not is_silent(self.event_on("original"))


@dataclass(frozen=True, kw_only=True)
class CorpusFacts:
    """Facts of deduplication and redaction.

    Attributes:
        dedup_stability: number of training records that replacing one sentence of the raw corpus can change; None: no
            bound.
        dedup_reason: reason for that number, in words.
        dedup_min_tokens: length below which sentences are not deduplicated, in tokens.
        has_conservative: true if a conservative policy decided what is public. Otherwise every row is private.
        has_public_rows: true if rows that it accepted are trained on without noise, or published.
        reads_documents: names of policies that look beyond one sentence, at its document.
        fitted: names of policies, the conservative one included, that were fitted on text.
        learnt: names of such policies if some are known to have learnt from sentences of this corpus. Then ``fitted``
            is empty.
        plugins: names of policies, the conservative one included, for which neither can be known.
        collapses: true if a run of masks becomes one mask.
        replacement: text that replaces what is masked. Every kind except a mask reveals something about it.
        redactor_is_stable: true if every policy is known to mask the same tokens if the tokens that it masks are
            replaced by others of their kind, so that redact(D) = redact(D') for F-neighbours.
        reads_redacted: true if training read redacted text at all.
        holds_rows: true if the gate keeps rows with strings that are masked elsewhere on the private side, and masks
            those strings there.
        decisions: names of decisions beyond a row that the settings asked for (`pipelines.accounting.decisions`).
        foreign_public_rows: true if an earlier release published rows by another redaction's judgement, so that their
            secrets are unknown.
        couples_people: ways in which the text of one person may change the private records of another, in words.
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
    couples_people: tuple[str, ...] = ("deduplication compared the text of different people",)

    @property
    def gives_credit(self) -> bool:
        """True if a masked secret leaves no trace in the text that training read."""
        return self.masks_are_alike and self.reads_redacted

    @property
    def masks_are_alike(self) -> bool:
        """True if the same mask replaces every secret, so that it reveals nothing about the secret."""
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
            light_noise_miss_rate=None if rate is None else _rate(rate),
            noise_basis=None if rate is None else rate.get("basis"),
            is_noise_from_private_text=is_from_private_text(rate),
            owner_records=None if (each := document.get("owner_records")) is None else int(each),
            owner_bound=int(document["owner_bound"]) if "owner_bound" in document else None,
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
    """Returns true if a miss rate that set noise was counted on the private text, or has an unknown origin."""
    return rate is not None and rate.get("basis") not in PUBLIC_BASES


def _rate(document: Mapping[str, Any]) -> MissRate:
    return MissRate(lower=document.get("lower"), **{n: document[n] for n in ("value", "upper", "confidence")})


def _mechanisms(event: Event) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for count, leaf in leaves(event):
        found[leaf] += count
    return found


def _what_ran(document: Mapping[str, Any]) -> tuple[Event, tuple[Phase, ...]]:
    event, listed = from_json(document["event"]), document.get("phases")
    if listed is None:
        rule = rule_of(method := str(document["method"]), document.get("variant"))
        if rule.reads_spans:  # the first version wrote only its noised queries
            phases = (
                Phase(name="private spans", rows="original", event=event),
                Phase(name="public spans", rows="redacted", event=NonPrivate()),
            )
            return Composed(events=tuple(phase.event for phase in phases)), phases
        if rule.rows is None and rule.claims != ("dp",):
            raise ValueError(f"the method {method} must list its phases")
        rows = rule.rows or "original"  # nothing is known of a method that is not in the table
        return event, (Phase(name=method, rows=rows, event=event),)
    for phase in listed:
        if phase["rows"] not in get_args(Rows):
            raise ValueError(f"rows of a phase are one of {', '.join(get_args(Rows))}")
        if phase["rows"] != "original" and is_silent(from_json(phase["event"])):
            raise ValueError("a phase on redacted text without noise must have the event non_private, not none")
    return event, tuple(Phase(name=str(p["name"]), rows=p["rows"], event=from_json(p["event"])) for p in listed)


@dataclass(frozen=True, kw_only=True)
class ReleaseFacts:
    """Facts of one release, for later claims about all releases together.

    All of them are settings, except the number of records.

    Attributes:
        method, variant: training method and its variant.
        record: unit that was sampled and clipped.
        num_private_records: number of private records.
        phases: phases of the training, by the form of the private records that they read.
        met: preconditions of the method that training recorded as met.
        redactions: identifiers of how sentences were redacted and judged public: one for the recipe, one for its
            output. Releases that share one masked the same tokens of the same sentence, and accepted the same ones.
        sentence_stability: number of training records that one replaced sentence of the raw corpus can change, if each
            record is a sentence; None: no bound.
        trains_on_public_rows: true if rows were trained on without noise because the conservative policy accepted them.
        publishes_rows: true if such rows were published as a table.
        typed_masks: true if masks showed the kind of their secret.
        is_noise_from_private_text: true if a measurement of the private text chose a noise multiplier.
        holds_rows: true if the gate was set to hold rows with a find (`pipelines.accounting.held_rows`). The number of
            held rows depends on the secrets, and no claim uses it.
        decisions: names of decisions beyond a row that the settings asked for (`pipelines.accounting.decisions`).
        owner_space: settings that say who is a person (``CorpusConfig.space_of_people``); empty if nobody knows. Older
            versions refuse the key.
        owner_bound: largest number of records of a person, if steps sampled records and the rest was dropped
            (``guarantee.owner_bound``); None without a bound that holds. Older versions refuse the key.
        recipe: declared versions of the computation (`pipelines.training.recipes`); empty for older releases.
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
    owner_space: str = ""
    owner_bound: int | None = None

    @property
    def people(self) -> str | None:
        """Name of the set of people (``corpus.owner_space``), perhaps empty; None if nobody knows whose records."""
        return self.owner_space.partition("/")[0] if self.owner_space else None

    def records_of_a_person(self, owner_space: str) -> int | None:
        """Returns how many records a person of a space had at most; None: no bound. Steps on people count as one."""
        if not owner_space or self.owner_space != owner_space:
            return None
        return 1 if self.record == PERSON else self.owner_bound

    @property
    def records_per_sentence(self) -> int | None:
        """`sentence_stability` for records of one sentence, or if only originals were read; otherwise None.

        In other kinds of records, a copy that deduplication unmasks is in another record.
        """
        is_known = self.record == "sentence" or all(phase.rows == "original" for phase in self.phases)
        return self.sentence_stability if is_known else None

    def to_json(self) -> dict[str, Any]:
        """Returns the facts as JSON values."""
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
            **({"holds_rows": True} if self.holds_rows else {}),  # earlier versions did not write this key
            **({"decisions": sorted(self.decisions)} if self.decisions else {}),
            **({"recipe": dict(self.recipe)} if self.recipe else {}),
            **({"owner_space": self.owner_space} if self.owner_space else {}),
            **({"owner_bound": self.owner_bound} if self.owner_bound is not None else {}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ReleaseFacts:
        """Reads facts written by `to_json`.

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
