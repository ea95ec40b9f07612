"""Gate: before anything is published, every masked string is searched in everything that will be public.

The policies are not asked again: what they masked in one sentence, in any spelling of case and punctuation, must not
stand unmasked in another one that is published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from pipelines.config import StageConfig
from pipelines.context import StageContext

if TYPE_CHECKING:
    from pipelines.gate.strings import Choice


class GateConfig(StageConfig):
    """The ``[gate]`` table: which masked strings must not stand unmasked in anything public."""

    SENSITIVE: ClassVar[frozenset[str]] = frozenset({"ignore"})

    enabled: bool = Field(default=True, description="Whether to search. Without it nothing stops such a leak.")
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
        "with a name (Rich Hall), or with two number words, they are always searched for.",
    )
    case_sensitive: bool = Field(default=False, description="Whether upper and lower case must agree.")
    ignore: tuple[str, ...] = Field(
        default=(),
        description="Strings that are no secret although they were masked, for false alarms. Never shown by any "
        "command, nor in a report.",
    )

    def choice(self) -> Choice:
        """These settings as the search takes them."""
        from pipelines.gate.everyday import is_everyday
        from pipelines.gate.strings import Choice

        return Choice(
            labels=frozenset(self.labels),
            min_characters=self.min_characters,
            case_sensitive=self.case_sensitive,
            ignore=self.ignore,
            is_everyday=None if self.everyday_words else is_everyday,
        )


def run(ctx: StageContext) -> Mapping[str, Any]:
    """Writes to the private root: the strings searched for, for the stages that publish; counts; and the passage.

    ``passed.json`` is the same whatever was searched for, so that later stages run again only for their own reasons.

    Raises:
        PrivacyGateError: a masked string stands in a sentence that would be public. Where it stands is told in a
            private table.
    """
    from pipelines.gate.search import Hits, chunks_of, hits_in_row, public_rows, write_index
    from pipelines.gate.strings import StringIndex, fragments
    from pipelines.gate.tables import GATE_INDEX, GATE_STRINGS
    from pipelines.policies.tables import REDACTED

    config: GateConfig = ctx.configs["gate"]
    choice = config.choice()
    left_out: Counter[str] = Counter()
    searched: Counter[str] = Counter()
    hits = Hits()
    words: set[str] = set()
    num_rows = 0
    tables = ctx.inputs["redact"]

    def searched_chunks() -> Any:
        nonlocal num_rows
        strings = [artifact.table(GATE_STRINGS, "strings") for artifact in ctx.inputs["gate_strings"]]
        for number, chunk in enumerate(chunks_of(strings, choice, left_out, searched)):
            index = StringIndex(chunk)
            for done, artifact in enumerate(tables if config.enabled else ()):
                ctx.run.progress(done, len(tables), "partitions searched for masked strings")
                for row in public_rows(artifact.table(REDACTED)):
                    if number == 0:
                        num_rows += 1
                    found, row_words = hits_in_row(row, index, choice)
                    words.update(row_words)
                    for hit in found:
                        hits.add(hit)
            yield chunk, fragments(index.singles, words)

    with ctx.out.table(GATE_INDEX, "index") as writer:
        num_strings = write_index(writer, searched_chunks())
    if hits.by_label:
        raise hits.refuse("nothing of this run", ctx.out.failures)
    figures = {
        "enabled": config.enabled,
        "case_sensitive": config.case_sensitive,
        "min_characters": config.min_characters,
        "num_strings": num_strings,
        "num_strings_by_label": dict(sorted(searched.items())),
        "num_left_out_by_reason": dict(sorted(left_out.items())),
        "num_public_rows": num_rows,
    }
    ctx.out.json("passed.json", {"schema_version": 1})
    ctx.out.json("figures.json", figures)
    return {"num_strings": num_strings, "num_public_rows": num_rows}
