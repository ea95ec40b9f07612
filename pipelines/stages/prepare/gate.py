"""Gate: before anything is published, every masked string is searched in everything that will be public.

The policies are not asked again: what they masked in one sentence, in any spelling of case and punctuation, must not
stand unmasked in another one that is published. A sentence in which it does is held: it goes to the private side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from pipelines.config import StageConfig
from pipelines.context import StageContext

if TYPE_CHECKING:
    from pipelines.gate.strings import Choice
    from pipelines.miss_rate.review_log import Decision, Range
    from pipelines.tables import Table


class GateConfig(StageConfig):
    """The ``[gate]`` table: which masked strings must not stand unmasked in anything public."""

    SENSITIVE: ClassVar[frozenset[str]] = frozenset({"ignore"})

    enabled: bool = Field(default=True, description="Whether to search. Without it nothing stops such a leak.")
    on_hit: Literal["hold", "stop"] = Field(
        default="hold",
        description="What a find in a sentence does. hold: the sentence is kept on the private side, and what was "
        "found in it is masked there; `reticent inspect gate` shows which, and why. stop: the run ends with exit code "
        "4. A find in a speaker's name, a domain, a label, or in a file that is no table of sentences always ends it.",
    )
    max_held_fraction: float = Field(
        default=0.02,
        ge=0,
        le=1,
        description="Share of the training sentences that may be held; with more the run ends with exit code 4, for "
        "then the policies miss much, or mask what is no secret.",
    )
    labels: tuple[str, ...] = Field(
        default=(),
        description="Labels whose masked strings are searched for. Empty: all but those that describe and do not "
        "identify (spaCy's CARDINAL, DATE, GPE, ORG and the like; Presidio's DATE_TIME, LOCATION, NRP, URL).",
    )
    min_characters: int = Field(
        default=3,
        ge=1,
        le=1_000,
        description="Letters and digits that a string needs to be searched for; shorter ones hit by chance.",
    )
    everyday_words: bool = Field(
        default=False,
        description="Whether to search as well for everyday English: single words (hope, young), which are names in "
        "some sentences, and several of which no list of names holds one (email address, isn't, good bye). Together "
        "with a name (Rich Hall), with two number words, or several as a password, they are always searched for.",
    )
    case_sensitive: bool = Field(default=False, description="Whether upper and lower case must agree.")
    ignore: tuple[str, ...] = Field(
        default=(),
        description="Strings that are no secret although they were masked, for false alarms. Never shown by any "
        "command, nor in a report.",
    )

    @property
    def holds(self) -> bool:
        """Whether a sentence with a find is held, and does not end the run."""
        return self.enabled and self.on_hit == "hold"

    def choice(self) -> Choice:
        """These settings as the search takes them."""
        from pipelines.gate.common_words import is_everyday
        from pipelines.gate.strings import Choice

        return Choice(
            labels=frozenset(self.labels),
            min_characters=self.min_characters,
            case_sensitive=self.case_sensitive,
            ignore=self.ignore,
            is_everyday=None if self.everyday_words else is_everyday,
        )


def run(ctx: StageContext) -> Mapping[str, Any]:
    """Writes to the private root: the strings searched for; held rows, of each partition and of all; finds; counts.

    A string of which reviewers said that it is no secret, in a sentence that is held for it, is searched for no more.

    ``passed.json`` is the same whatever was searched for, so that later stages run again only for their own reasons.
    ``held.json`` has the same bytes where no row is held, and others for other held rows: it enters the key of
    trainings that read the text of held rows elsewhere than in the shards (`TrainConfig.files_read`). Likewise
    ``held_by_label.json``, which the private report shows.

    Raises:
        PrivacyGateError: a masked string stands in a speaker's name, a domain or a label that would be public; in a
            sentence, where finds stop the run; or in too many of them. Where it stands is told in a private table.
    """
    from pipelines.gate.hits import (
        Finds,
        explained,
        first_masked,
        judged_to_be_none,
        public_parts,
        search_rows,
        write_held,
    )
    from pipelines.gate.index import write_index
    from pipelines.gate.masked_strings import MaskedStrings
    from pipelines.gate.search import Hits, num_training_rows, row_words
    from pipelines.gate.strings import StringIndex
    from pipelines.gate.tables import GATE_HITS, GATE_INDEX, GATE_PLACES, GATE_STRINGS
    from pipelines.miss_rate.review_log import read_decisions
    from pipelines.policies.tables import REDACTED

    config: GateConfig = ctx.configs["gate"]
    choice = config.choice()
    in_tags, num_public, parts, dismissed = Hits(), 0, set[str](), set[str]()
    all_strings = [artifact.table(GATE_STRINGS, "strings") for artifact in ctx.inputs["gate_strings"]]
    tables = {artifact.partition or "": artifact.table(REDACTED) for artifact in ctx.inputs["redact"]}
    searched = tables if config.enabled else {}
    with ctx.out.scratch.emptied("finds") as scratch, ctx.out.scratch.emptied("strings") as of_strings:
        finds, strings = Finds(scratch), MaskedStrings(all_strings, choice, of_strings)

        def texts_of(number: int, table: Table) -> Iterator[Sequence[str]]:
            ctx.run.progress(number, len(searched), "partitions searched for hashes of masked strings")
            return row_words(table, choice)

        texts = [partial(texts_of, number, table) for number, table in enumerate(searched.values())]
        for chunk, places_in in strings.to_search(texts):
            index = StringIndex(chunk)
            for done, (partition, table) in enumerate(searched.items()):
                ctx.run.progress(done, len(searched), "partitions searched for masked strings")
                with finds.writer(partition) as found:
                    if (may_hold := places_in[done]) is not None:
                        search_rows(table, index, choice, found, in_tags, may_hold())
        num_training = sum(map(num_training_rows, searched.values()))
        left_out = strings.left_out
        if ctx.outside.reviews is not None:
            secrets_of = _reviewed(read_decisions(*ctx.outside.reviews), ctx.run.secret)
            finds.dismiss(dismissed := judged_to_be_none(tables, finds, choice, secrets_of))
            in_tags, left_out["judged"] = in_tags.without(dismissed), len(dismissed)
        if in_tags.by_label:
            raise in_tags.refuse("nothing of this run", ctx.out.failures, ", in a speaker's name, a domain or a label")
        num_held = sum(len(finds.of(partition)) for partition in tables)
        places = [artifact.table(GATE_PLACES, "places") for artifact in ctx.inputs["gate_strings"]]
        masked = first_masked(places, finds.strings)
        if (why := _why_stop(config, num_held, num_training)) is not None:
            hits = Hits()
            for hit in explained(tables, finds, masked):
                hits.add(hit)
            raise hits.refuse("nothing of this run", ctx.out.failures, why)
        with ctx.out.table(GATE_HITS, "hits") as hit_writer:
            for hit in explained(tables, finds, masked):
                hit_writer.append(**vars(hit))
        by_label = write_held(ctx.out, tables, finds, choice)
        for singles in strings.singles():
            num_public, some = public_parts(searched, finds, choice, singles.parts_of)
            parts |= some
        with ctx.out.table(GATE_INDEX, "index") as writer:
            num_strings = write_index(writer, strings.chunks(), parts, dismissed)
    figures = {
        "enabled": config.enabled,
        "on_hit": config.on_hit,
        "case_sensitive": config.case_sensitive,
        "min_characters": config.min_characters,
        "num_strings": num_strings,
        "num_strings_by_label": dict(sorted(strings.searched.items())),
        "num_left_out_by_reason": dict(sorted(left_out.items())),
        "num_public_rows": num_public,
        "num_held_rows": num_held,
        "num_held_rows_by_label": dict(sorted(by_label.items())),
    }
    ctx.out.json("passed.json", {"schema_version": 1})
    ctx.out.json("figures.json", figures)
    return {"num_strings": num_strings, "num_public_rows": num_public, "num_held_rows": num_held}


def _reviewed(decisions: Sequence[Decision], secret: bytes) -> Callable[[str], list[Range] | None]:
    """What reviewers call sensitive in a sentence; None of one that nobody judged."""
    from pipelines.miss_rate.review_log import ballots_of, sentence_key

    ballots = ballots_of(decisions)

    def secrets_of(text: str) -> list[Range] | None:
        ballot = ballots.get(sentence_key(secret, text))
        judgement = ballot.judgement() if ballot is not None else None
        return None if judgement is None else [(start, end) for start, end, _ in judgement.secrets]

    return secrets_of


def _why_stop(config: GateConfig, num_held: int, num_training: int) -> str | None:
    """Why finds in sentences end the run, as the error says it; None where these are held."""
    if num_held and config.on_hit == "stop":
        return " (gate.on_hit = 'hold' keeps such rows on the private side instead)"
    if num_held <= config.max_held_fraction * num_training:
        return None
    return (
        f", in {num_held:,} of {num_training:,} training rows, which is more than gate.max_held_fraction = "
        f"{config.max_held_fraction:g} lets the gate hold back"
    )
