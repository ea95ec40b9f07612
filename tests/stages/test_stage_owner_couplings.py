"""One person's text changes no private record of another: small corpora that differ in one person, through all stages.

The stages are those of the graph, from files to the records of private steps. A corpus is a tuple of people, each a
tuple of sentences, and every sentence is a document. The worlds of a person are all corpora in which the others wrote
the same. They must agree in the records of the others, the number of people, the rate, the number of steps, and the
number that a step's sum is divided by. With ``dedup.scope = corpus``, or a gate that holds rows, they do not.
"""

from __future__ import annotations

import importlib
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.contexts import artifact, stage_context

from pipelines.artifacts import Artifact
from pipelines.config import StageConfig
from pipelines.corpus.owners import owner_pseudonym
from pipelines.corpus.scan import scan
from pipelines.errors import PrivacyGateError
from pipelines.graph import GRAPH
from pipelines.settings.corpus import CorpusConfig
from pipelines.settings.dedup import DedupConfig
from pipelines.settings.gate import GateConfig
from pipelines.settings.redact import RedactConfig
from pipelines.settings.shard import ShardConfig
from pipelines.settings.split import SplitConfig
from pipelines.settings.train import TrainConfig
from pipelines.stages.train import train as train_stage

SECRET = b"k" * 32
PEOPLE = ("ann", "bob", "cy")
PLAIN, MASKED, COPY, BOTH = "so it is fine", "dear Zedekiah come", "dear Obadiah come", "see Zedekiah and Obadiah"
Corpus = tuple[tuple[str, ...], ...]
TRAIN: dict[str, Any] = {
    "method": "crt",
    "unit": "owner",
    "tokenizer": "bytes",
    "expected_batch_size": 2,
    "epochs": 2,
    "context_length": 64,
}
NAMES = {"policies": ("regex",), "patterns": {"NAME": "(?<=dear )[A-Z]\\w+"}, "check_language": False}


class World(NamedTuple):
    """What training reads of a corpus."""

    private: tuple[tuple[tuple[int, ...], ...], ...]  # records of each person, as ids
    plan: tuple[float, ...]  # number of people, rate, steps, divisor
    public: tuple[tuple[int, ...], ...]


class Stages:
    """Runs the stages on a corpus; the gate may stop it, and then nothing is trained."""

    def __init__(self, folder: Path, *, scope: Any = "owner", **tables: Any) -> None:
        self._folder, self._number = folder, 0
        self._network: Any = None
        self.configs: dict[str, StageConfig] = {
            "corpus": CorpusConfig(
                format="jsonl", owner_from="field", owner_field="customer", owner_space="customers",
                **tables.get("corpus", {}),
            ),
            "split": SplitConfig(valid_fraction=0.0, test_fraction=0.0),
            "dedup": DedupConfig(scope=scope, expected_items=100, **tables.get("dedup", {})),
            "redact": RedactConfig(**{**NAMES, **tables.get("redact", {})}),
            "gate": GateConfig(**{"max_held_fraction": 1.0, **tables.get("gate", {})}),
            "shard": ShardConfig(),
            "train": TrainConfig(**{**TRAIN, **tables.get("train", {})}),
        }  # fmt: skip
        space = [owner_pseudonym(SECRET, "customers", person) for person in PEOPLE]
        self._order = [sorted(space).index(own) for own in space]

    def __call__(self, corpus: Corpus) -> World | None:
        self._number += 1
        folder = self._folder / str(self._number)
        rows = [
            {"text": text, "customer": person} for person, texts in zip(PEOPLE, corpus, strict=True) for text in texts
        ]
        folder.mkdir(parents=True)
        (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        settings: Any = self.configs["corpus"]
        parts = scan(
            [folder / "in.jsonl"], base_dir=folder, format="jsonl", options=settings.read_options(),
            partition_documents=settings.partition_documents, secret=SECRET,
        )  # fmt: skip
        self._made: dict[str, tuple[Artifact, ...]] = {}
        for part in parts:
            self._run(folder, "split", part.name, (), pieces=part.pieces)
        names = [part.name for part in parts]
        self._each(folder, "dedup_keys", names, "split")
        self._each(folder, "dedup_buckets", self.configs["dedup"].partition_names(0), all_of=("dedup_keys",))
        self._run(folder, "dedup_resolve", None, ("dedup_keys", "dedup_buckets"))
        self._each(folder, "dedup_mask", names, "split", all_of=("dedup_resolve",))
        self._each(folder, "redact", names, "split", "dedup_mask")
        self._each(folder, "gate_strings", names, "split", "redact")
        try:
            self._run(folder, "gate", None, ("gate_strings", "redact"))
        except PrivacyGateError:
            return None
        self._each(folder, "shard", names, "redact", all_of=("gate",))
        return self._trained(folder)

    def _each(self, folder: Path, stage: str, names: Iterable[str], *own: str, all_of: tuple[str, ...] = ()) -> None:
        for name in names:
            self._run(folder, stage, name, all_of, own)

    def _run(
        self,
        folder: Path,
        stage: str,
        name: str | None,
        all_of: tuple[str, ...],
        own: tuple[str, ...] = (),
        **more: Any,
    ) -> None:
        inputs: dict[str, Any] = {other: self._made[other] for other in all_of}
        inputs |= {other: [a for a in self._made[other] if a.partition == name] for other in own}
        out = folder / f"{stage}-{name}"
        GRAPH[stage].run()(stage_context(stage, out, self.configs, inputs, partition=name, secret=SECRET, **more))
        self._made[stage] = (*self._made.get(stage, ()), artifact(stage, out, name))

    def _trained(self, folder: Path) -> World:
        config: Any = self.configs["train"]
        inputs = {stage: self._made[stage] for stage in ("split", "redact", "shard", "gate")}
        ctx = stage_context("train", folder / "train", self.configs, inputs, seed=1, basis_folder=folder / "basis")
        self._network = self._network or train_stage.open_network(ctx, config, 1)
        corpus, _ = train_stage.read(ctx, config, config.view(), self._network)
        prepare = importlib.import_module(config.method_spec().module).prepare
        training = prepare(corpus, train_stage.settings_of(ctx, config))
        assert corpus.owners is not None
        private = defaultdict(list)
        for record, person in enumerate(corpus.owners.of_records.tolist()):
            private[person].append(tuple(corpus.private_examples.ids[record].tolist()))
        nonprivate = corpus.nonprivate_examples
        return World(
            tuple(tuple(sorted(private[person])) for person in self._order),
            (corpus.owners.count, training.sample_rate, training.num_steps, training.plan.expected_batch_size),
            tuple(tuple(nonprivate.ids[at].tolist()) for at in range(len(nonprivate))),
        )


def coupled(stages: Stages, corpora: Iterable[Corpus]) -> Iterator[tuple[Corpus, Corpus]]:
    """Pairs of corpora that differ in one person, have the same public rows, and differ in what is another's."""
    worlds = {corpus: world for corpus in corpora if (world := stages(corpus)) is not None}
    assert worlds
    for person in range(len(PEOPLE)):
        apart: dict[Any, dict[Any, Corpus]] = defaultdict(dict)
        for corpus, world in worlds.items():
            others = corpus[:person] + corpus[person + 1 :]
            seen = world.private[:person] + world.private[person + 1 :], world.plan
            apart[others, tuple(sorted(world.public))].setdefault(seen, corpus)
        for found in apart.values():
            yield from itertools.combinations(found.values(), 2)


def wrote(alphabet: tuple[str, ...], most: int) -> list[tuple[str, ...]]:
    """All that a person may write: one to ``most`` sentences, with repetitions, in one order."""
    return [texts for size in range(1, most + 1) for texts in itertools.combinations_with_replacement(alphabet, size)]


def first_pair(stages: Stages, most: int) -> tuple[Corpus, Corpus] | None:
    """The first pair of corpora that couples people, of all that they may write, six sentences at most."""
    corpora = itertools.product(wrote((PLAIN, MASKED), most), repeat=len(PEOPLE))
    return next(coupled(stages, (corpus for corpus in corpora if sum(map(len, corpus)) <= 6)), None)


PUBLIC: dict[str, Any] = {"redact": {"conservative": "regex"}}
APART: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "mask_all": {"dedup": {"mode": "mask_all"}},
    "casefold": {"dedup": {"normalise": "casefold"}},
    "documents": {"dedup": {"unit": "document"}},
    "exact": {"dedup": {"backend": "exact", "max_rows_in_memory": 1}},
    "partitions and buckets": {"corpus": {"partition_documents": 1}, "dedup": {"buckets": 2}},
    "surrogates": {"redact": {"replacement": "surrogate"}},
    "names in a document": {"redact": {"policies": ("regex", "propagate")}},
    "public rows": {**PUBLIC, "gate": {"on_hit": "stop"}},
    "no redaction": {"train": {"method": "dpsgd"}, "scope": "corpus"},
}


@pytest.mark.parametrize("how", APART)
def test_one_person_changes_nothing_of_another(tmp_path: Path, how: str) -> None:
    assert first_pair(Stages(tmp_path, **APART[how]), 1) is None


@pytest.mark.parametrize(
    "how", ["as it comes", "mask_all", "documents", pytest.param("partitions and buckets", marks=pytest.mark.slow)]
)
def test_deduplication_over_the_corpus_couples_people(tmp_path: Path, how: str) -> None:
    """Guards the test above: it finds what must be found."""
    assert first_pair(Stages(tmp_path, **{**APART[how], "scope": "corpus"}), 1) is not None


def test_a_gate_that_holds_rows_couples_people_and_one_that_stops_does_not(tmp_path: Path) -> None:
    neighbours = [((masked,), (BOTH,), (PLAIN,)) for masked in (MASKED, COPY)]
    assert next(coupled(Stages(tmp_path / "hold", **PUBLIC), neighbours), None) is not None
    stops = Stages(tmp_path / "stop", **PUBLIC, gate={"on_hit": "stop"})
    assert [stops(corpus) for corpus in neighbours] == [None, None]


def test_copies_of_one_person_are_found_wherever_they_are(tmp_path: Path) -> None:
    corpus = ((PLAIN, MASKED, PLAIN), (PLAIN, PLAIN.upper()), (MASKED,))
    one, other = Stages(tmp_path / "one")(corpus), Stages(tmp_path / "other", **APART["partitions and buckets"])(corpus)
    assert one == other
    assert one is not None
    assert [len(set(records)) for records in one.private] == [3, 2, 1]  # a masked copy is a record of its own
    assert len(set(one.private[0]) & set(one.private[1])) == len(set(one.private[0]) & set(one.private[2])) == 1
    assert set(one.private[1]).isdisjoint(one.private[2])  # neither is masked


@pytest.mark.slow
@pytest.mark.parametrize(("how", "most"), [("as it comes", 3), ("public rows", 2)])
def test_no_pair_of_small_corpora_couples_people(tmp_path: Path, how: str, most: int) -> None:
    assert first_pair(Stages(tmp_path, **APART[how]), most) is None
