"""Gate: a search, before anything is published, for every masked string in everything that will be public.

The policies do not run again. A string that they masked in one sentence, in any spelling of case and punctuation, must
not stand unmasked in another sentence that is published. The gate holds such a sentence: it goes to the private side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines.context import StageContext
from pipelines.gate.hits import Finds, explained, first_masked, judged_to_be_none, public_parts, search_rows, write_held
from pipelines.gate.index import write_index
from pipelines.gate.masked_strings import MaskedStrings
from pipelines.gate.search import Hits, num_training_rows, row_words
from pipelines.gate.strings import StringIndex
from pipelines.gate.tables import GATE_HITS, GATE_INDEX, GATE_PLACES, GATE_STRINGS
from pipelines.miss_rate.review_log import Decision, Range, ballots_of, read_decisions, sentence_key
from pipelines.policies.tables import REDACTED
from pipelines.settings.gate import GateConfig

if TYPE_CHECKING:
    from pipelines.tables import Table


def run(ctx: StageContext) -> Mapping[str, Any]:
    """Writes the searched strings, the held rows of each partition and of all, the finds and counts. All are private.

    If a sentence is held for a string that reviewers called no secret there, the gate stops searching for that string.

    ``passed.json`` has the same bytes whatever was searched for, so that later stages run again only for their own
    reasons. ``held.json`` has the same bytes if no row is held, and other bytes for other held rows: it enters the key
    of trainings that read the text of held rows outside the shards (`TrainConfig.files_read`). The same is true of
    ``held_by_label.json``, which the private report shows.

    Raises:
        PrivacyGateError: a masked string stands in a speaker's name, a domain or a label that would be public; in a
            sentence, if finds stop the run; or in too many sentences. A private table lists the places.
    """
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
                with finds.writer(partition) as partition_finds:
                    if (may_hold := places_in[done]) is not None:
                        search_rows(table, index, choice, partition_finds, in_tags, may_hold())
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
    """Returns a function that gives the sensitive ranges of a sentence as reviewers see them; None for no judgement."""
    ballots = ballots_of(decisions)

    def secrets_of(text: str) -> list[Range] | None:
        ballot = ballots.get(sentence_key(secret, text))
        judgement = ballot.judgement() if ballot is not None else None
        return None if judgement is None else [(start, end) for start, end, _ in judgement.secrets]

    return secrets_of


def _why_stop(config: GateConfig, num_held: int, num_training: int) -> str | None:
    """Returns the words of the error if finds in sentences end the run; None if the sentences are held."""
    if num_held and config.on_hit == "stop":
        return " (gate.on_hit = 'hold' keeps such rows on the private side instead)"
    if num_held <= config.max_held_fraction * num_training:
        return None
    return (
        f", in {num_held:,} of {num_training:,} training rows, which is more than gate.max_held_fraction = "
        f"{config.max_held_fraction:g} lets the gate hold back"
    )
