"""The real stages from the split table on: what training would read, file by file, and what the estimate says of it.

A corpus is ``{partition: [(doc_id, text, speaker), ...]}``; gold secrets are marked in the text with brackets:
``"call [Jane]{NAME} now"``. `by_hand` gives the corpus in which some of them were overwritten with a mask.
"""

import json
import re
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from support.contexts import artifact, stage_context
from support.tables import read_table, table_writer, write_rows

from pipelines.corpus.split import Splitter
from pipelines.corpus.tables import DOCUMENTS
from pipelines.graph import GRAPH
from pipelines.mask import MASK
from pipelines.policies.held import HELD
from pipelines.settings.corpus import CorpusConfig
from pipelines.settings.dedup import DedupConfig
from pipelines.settings.estimate import EstimateConfig
from pipelines.settings.redact import RedactConfig
from pipelines.settings.sample import SampleConfig
from pipelines.settings.shard import ShardConfig
from pipelines.settings.split import SplitConfig
from pipelines.tables import TableWriter

_SECRET = re.compile(r"\[([^\]]+)\]\{([A-Z0-9_]+)\}")
_SPLITTER = Splitter(mode="turns", max_sentence_tokens=10_000)


class Sentence(NamedTuple):
    """A row of the split table; ``secrets`` are characters, a label, and the number of the secret in its document."""

    doc_id: str
    index: int
    text: str
    secrets: tuple = ()
    speaker: str | None = None


def sentence(doc_id, index, marked, speaker=None, numbers=None):
    """A sentence from text with its secrets in brackets."""
    text, secrets, at = "", [], 0
    for n, match in enumerate(_SECRET.finditer(marked)):
        text += marked[at : match.start()]
        number = 100 * index + n if numbers is None else numbers[n]
        secrets.append((len(text), len(text) + len(match[1]), match[2], number))
        text, at = text + match[1], match.end()
    return Sentence(doc_id, index, text + marked[at:], tuple(secrets), speaker)


def corpus(*documents):
    """One partition of documents, each a list of marked sentences or of pairs (speaker, marked sentence)."""
    rows = []
    for number, lines in enumerate(documents):
        for index, line in enumerate(lines):
            speaker, marked = line if isinstance(line, tuple) else (None, line)
            rows.append(sentence(f"d{number}", index, marked, speaker))
    return {"p0": rows}


def overwritten(row, ranges):
    """The sentence with these ranges of characters overwritten by hand; secrets beside them stay labelled."""
    text, at = "", 0
    moved = {}
    for start, end in sorted(ranges):
        moved[end] = len(text) + start - at + len(MASK) - end
        text += row.text[at:start] + MASK
        at = end
    kept = []
    for start, end, label, number in row.secrets:
        if all(end <= a or start >= b for a, b in ranges):
            shift = next((moved[e] for e in sorted(moved, reverse=True) if e <= start), 0)
            kept.append((start + shift, end + shift, label, number))
    return row._replace(text=text + row.text[at:], secrets=tuple(kept))


def by_hand(partitions, chosen):
    """The neighbouring corpus.

    ``chosen``: (doc_id, index, start, end). Exact copies of a sentence, by the same speaker, are changed with it.
    """
    ranges = {}
    for rows in partitions.values():
        for row in rows:
            for doc_id, index, start, end in chosen:
                if (row.doc_id, row.index) == (doc_id, index):
                    ranges.setdefault((row.text, row.speaker), set()).add((start, end))
    return {
        name: [overwritten(row, ranges.get((row.text, row.speaker), ())) for row in rows]
        for name, rows in partitions.items()
    }


@dataclass
class Pipeline:
    """Runs the stages as the store would, one folder a stage and partition."""

    root: object
    redact: RedactConfig
    dedup: DedupConfig = field(default_factory=DedupConfig)
    estimate: EstimateConfig = field(default_factory=EstimateConfig)
    sample: SampleConfig = field(default_factory=lambda: SampleConfig(replicates=1, fraction=1.0))
    processes: int = 1
    secret: bytes = b""
    names: dict = field(default_factory=dict)  # of speakers, by document
    made: dict = field(default_factory=dict)

    def stage(self, name, partition, inputs):
        out = self.root / f"{name}-{partition}"
        configs = {
            "redact": self.redact,
            "dedup": self.dedup,
            "estimate": self.estimate,
            "sample": self.sample,
            "corpus": CorpusConfig(),
            "split": SplitConfig(),
            "shard": ShardConfig(),
        }
        more = {"public_folder": out, "processes": self.processes, "secret": self.secret}
        GRAPH[name].run()(stage_context(name, out, configs, inputs, partition=partition, **more))
        self.made[name, partition] = artifact(name, out, partition)
        return self.made[name, partition]

    def shards(self, partitions):
        """From the split table to the shards; returns what training reads."""
        split = {name: self._split(name, rows) for name, rows in partitions.items()}
        keys = tuple(self.stage("dedup_keys", name, {"split": (split[name],)}) for name in partitions)
        names = self.dedup.partition_names(0)
        found = tuple(self.stage("dedup_buckets", name, {"dedup_keys": keys}) for name in names)
        resolved = self.stage("dedup_resolve", None, {"dedup_keys": keys, "dedup_buckets": found})
        read = {}
        for name in partitions:
            own = {"split": (split[name],)}
            decided = self.stage("dedup_mask", name, {**own, "dedup_resolve": (resolved,)})
            redacted = self.stage("redact", name, {**own, "dedup_mask": (decided,)})
            shard = self.stage("shard", name, {"redact": (redacted,), "gate": (self._holding_nothing(name),)})
            for side in ("private", "public"):
                rows = read_table(shard.blob(f"{side}.parquet"), "shard").to_pylist()
                # Token counts, which differ where a secret is not one token, are read by nobody who trains.
                read[name, side] = [
                    {k: v for k, v in row.items() if k not in ("num_tokens", "num_masked_tokens")} for row in rows
                ]
        return read

    def _holding_nothing(self, name):
        """What the gate gives where it finds nothing: verdicts are about the policies alone."""
        folder = self.root / "gate"
        folder.mkdir(exist_ok=True)
        with TableWriter(folder / f"{name}.parquet", HELD):
            return artifact("gate", folder, None)

    def measured(self):
        """From the redacted table to the figures, after `shards`."""
        names = [partition for stage, partition in self.made if stage == "split"]
        split, redacted = (tuple(self.made[stage, name] for name in names) for stage in ("split", "redact"))
        sampled = self.stage("sample", None, {"split": split})
        stable = tuple(self.verdicts(name) for name in names)
        inputs = {"sample": (sampled,), "split": split, "redact": redacted, "stability": stable}
        found = self.stage("estimate", None, inputs)
        return json.loads(found.blob("figures.json").read_text())

    def verdicts(self, name):
        own = {stage: (self.made[stage, name],) for stage in ("split", "redact")}
        return self.stage("stability", name, {"sample": (self.made["sample", None],), **own})

    def stable(self):
        """{(doc_id, index, start_token, end_token): row of the stability table}, after `measured`."""
        tables = [a.blob("stability.parquet") for (stage, _), a in self.made.items() if stage == "stability"]
        return {
            (row["doc_id"], row["sentence_index"], row["start_token"], row["end_token"]): row
            for path in tables
            for row in read_table(path, "stability").to_pylist()
        }

    def _split(self, name, rows):
        out = self.root / f"split-{name}"
        out.mkdir(parents=True)
        documents = {}
        sentences, gold = [], []
        for row in rows:
            starts, ends = _SPLITTER.tokens(row.text)
            documents.setdefault(row.doc_id, []).append(len(starts))
            head = {"doc_id": row.doc_id, "sentence_index": row.index}
            offsets = {"token_starts": starts, "token_ends": ends}
            sentences.append(head | offsets | {"text": row.text, "speaker": row.speaker})
            for start, end, label, number in row.secrets:
                tokens = tokens_of(row.text, start, end)
                span = {"start": start, "end": end, "start_token": tokens[0], "end_token": tokens[1]}
                gold.append(head | span | {"label": label, "secret_id": number})
        write_rows(out / "sentences.parquet", "sentences", sentences)
        write_rows(out / "gold.parquet", "gold", gold)
        with table_writer(out / "speakers.parquet", "speakers") as writer:
            for doc_id in documents:
                for number, speaker in enumerate(self.names.get(doc_id, ()), 1):
                    writer.append(doc_id=doc_id, tag=f"SPEAKER_{number}", name=speaker)
        with TableWriter(out / "documents.parquet", DOCUMENTS.whole) as writer:
            for doc_id, lengths in documents.items():
                writer.append(
                    doc_id=doc_id, source_file="f", source_row=1, source_id=None, num_sentences=len(lengths),
                    num_tokens=sum(lengths), num_chars=9, fold="train", has_gold=True, owner="one",
                )  # fmt: skip
        self.made["split", name] = artifact("split", out, name)
        return self.made["split", name]


def tokens_of(text, start, end):
    """The tokens that characters touch."""
    starts, ends = _SPLITTER.tokens(text)
    inside = [i for i in range(len(starts)) if starts[i] < end and ends[i] > start]
    return inside[0], inside[-1] + 1


def secrets_of(partitions):
    """Every secret that stands in one sentence: (doc_id, index, start, end), its tokens."""
    for rows in partitions.values():
        for row in rows:
            for start, end, _, _ in row.secrets:
                yield (row.doc_id, row.index, start, end), tokens_of(row.text, start, end)


def characters_of(text, tokens):
    """The characters from the first to the last of some tokens."""
    starts, ends = _SPLITTER.tokens(text)
    return starts[tokens[0]], ends[tokens[1] - 1]


def oracle(root, partitions, pipeline, secrets):
    """Whether training reads the same, file by file, once these secrets were overwritten by hand: the slow way."""
    world = replace(pipeline, root=root, made={})
    return world.shards(by_hand(partitions, secrets))
