"""The dedup stages, from a sentences table to one decision per sentence."""

import dataclasses
import itertools
import json
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.contexts import artifact, stage_context
from support.imports import loaded_after
from support.tables import read_table, write_rows

from pipelines.dedup.hash_ranges import bucket_names
from pipelines.errors import StoreError
from pipelines.graph import GRAPH
from pipelines.settings.corpus import CorpusConfig
from pipelines.settings.dedup import DedupConfig
from pipelines.settings.split import SplitConfig
from pipelines.tables import Table

SENTENCE = {"doc_id": "d0", "text": "Hello.", "token_starts": [0, 5], "token_ends": [5, 6]}


@dataclasses.dataclass
class Pipeline:
    """Runs the stages as the store would, one folder per stage and partition."""

    root: object
    config: DedupConfig
    counts: dict = dataclasses.field(default_factory=dict)
    processes: int = 1

    def run(self, stage, partition, inputs):
        name = f"{stage}-{partition}"
        configs = {"dedup": self.config, "corpus": CorpusConfig(), "split": SplitConfig()}
        out = self.root / name
        ctx = stage_context(stage, out, configs, inputs, partition=partition, processes=self.processes)
        self.counts[name] = GRAPH[stage].run()(ctx)
        return artifact(stage, out, partition, key=name)

    def resolve(self, keys):
        names = self.config.partition_names(0)
        buckets = tuple(self.run("dedup_buckets", name, {"dedup_keys": keys}) for name in names)
        return self.run("dedup_resolve", None, {"dedup_keys": keys, "dedup_buckets": buckets})

    def split(self, partition, rows):
        private_dir = self.root / f"split-{partition}"
        write_rows(private_dir / "sentences.parquet", "sentences", rows, **SENTENCE)
        return artifact("split", private_dir, partition, key=partition)


def dedup(root, partitions, **config):
    """Runs all steps over {partition: rows}; returns decisions per partition, figures, and the pipeline."""
    pipeline = Pipeline(root, DedupConfig(**config))
    split = {name: pipeline.split(name, rows) for name, rows in partitions.items()}
    keys = tuple(pipeline.run("dedup_keys", name, {"split": (artifact,)}) for name, artifact in split.items())
    resolved = pipeline.resolve(keys)
    decisions = {}
    for name, sentences in split.items():
        masked = pipeline.run("dedup_mask", name, {"split": (sentences,), "dedup_resolve": (resolved,)})
        decisions[name] = read_table(masked.blob("decisions.parquet"), "decisions").to_pylist()
    figures = json.loads(resolved.blob("figures.json").read_text())
    return decisions, figures, pipeline


def document(doc_id, *texts, **fields):
    return [{"doc_id": doc_id, "sentence_index": n, "text": text, **fields} for n, text in enumerate(texts)]


def outcomes(decisions):
    return [(d["is_duplicate"], d["duplicate_of"], d["occurrence"]) for part in decisions.values() for d in part]


def test_first_copy_is_kept_across_partitions_and_every_row_gets_a_decision(tmp_path):
    corpus = {"p-0": document("a", "x", "y", "x"), "p-1": [], "p-2": document("b", "x", "z") + document("c", "z")}
    decisions, figures, pipeline = dedup(tmp_path, corpus)
    assert [(d["doc_id"], d["sentence_index"]) for d in decisions["p-2"]] == [("b", 0), ("b", 1), ("c", 0)]
    assert decisions["p-1"] == []
    kept = (False, None, 1)
    assert outcomes(decisions) == [kept, kept, (True, "a:0", 2), (True, "a:0", 3), kept, (True, "b:1", 2)]
    assert figures == {
        "mode": "mask_later",
        "unit": "sentence",
        "has_other": False,
        "num_in_other": 0,
        "num_other_documents": 0,
        "num_other_rejected": 0,
        "normalise": "none",
        "verify": True,
        "backend": "bloom",
        "hash_seed": 0x52455449,
        "min_tokens": 0,
        "target_false_positive_rate": 1e-6,
        "expected_items": 1_000_000,
        "num_buckets": 1,
        "num_bits": figures["num_bits"],
        "num_hashes": 16,
        "num_filters": 1,
        "num_sentences": 6,
        "num_in_scope": 6,
        "num_nominated": 3,
        "num_false_positives": 0,
        "num_duplicates": 3,
        "stability": {"add_or_remove_one": 1, "replace_one": 1},
        "stability_reason": figures["stability_reason"],
    }
    assert 39_000_000 < figures["num_bits"] < 40_000_000  # bits, not bytes
    assert pipeline.counts["dedup_mask-p-2"] == {"num_sentences": 3, "num_duplicates": 2}
    assert not list((tmp_path / "dedup_buckets-001-of-001.scratch").iterdir())
    listed = {path.name for path in (tmp_path / "dedup_resolve-None").iterdir()}
    assert listed == {"p-0.parquet", "p-1.parquet", "p-2.parquet", "figures.json"}
    found = read_table(tmp_path / "dedup_resolve-None" / "p-2.parquet", "duplicates").to_pylist()
    assert [(row["row"], row["doc_id"]) for row in found] == [(0, "b"), (2, "c")]


def test_mask_all_masks_the_first_copy_too(tmp_path):
    corpus = {"p": document("a", "x", "y", "x", "x")}
    decisions, figures, _ = dedup(tmp_path, corpus, mode="mask_all")
    assert outcomes(decisions) == [(True, None, 1), (False, None, 1), (True, "a:0", 2), (True, "a:0", 3)]
    assert figures["num_duplicates"] == 3
    assert figures["stability"] == {"add_or_remove_one": 3, "replace_one": 3}


def test_speaker_domain_label_must_be_equal_and_other_folds_are_left_alone(tmp_path):
    corpus = {
        "p": [
            *document("a", "x", speaker="USR"),
            *document("b", "x", speaker="SYS"),
            *document("c", "x", domain="d"),
            *document("d", "x", label="1"),
            *document("e", "x", fold="test", speaker="USR"),
            *document("f", "x", fold="valid", speaker="USR"),
            *document("g", "x", speaker="USR"),
        ]
    }
    decisions, figures, _ = dedup(tmp_path, corpus)
    assert [d["duplicate_of"] for d in decisions["p"]] == [None] * 6 + ["a:0"]
    assert (figures["num_sentences"], figures["num_in_scope"]) == (7, 5)


def test_a_held_out_copy_that_comes_first_is_not_the_kept_copy(tmp_path):
    corpus = {"p": document("a", "x", fold="test") + document("b", "x") + document("c", "x")}
    decisions, _, _ = dedup(tmp_path, corpus)
    assert [d["duplicate_of"] for d in decisions["p"]] == [None, None, "b:0"]


def test_min_tokens_leaves_short_sentences_out(tmp_path):
    short = document("a", "ok", "ok", token_starts=[0], token_ends=[2])
    long = document("b", "o k", "o k", token_starts=[0, 2], token_ends=[1, 3])
    empty = document("c", "", "", token_starts=[], token_ends=[])
    decisions, figures, _ = dedup(tmp_path, {"p": short + long + empty}, min_tokens=2)
    assert [d["is_duplicate"] for d in decisions["p"]] == [False, False, False, True, False, False]
    assert figures["num_in_scope"] == 2
    (tmp_path / "default").mkdir()
    decisions, _, _ = dedup(tmp_path / "default", {"p": short + long + empty})
    assert [d["is_duplicate"] for d in decisions["p"]] == [False, True] * 3


@pytest.mark.parametrize(("normalise", "masked"), [("none", []), ("whitespace", [1]), ("casefold", [1, 2])])
def test_normalise_is_passed_on(tmp_path, normalise, masked):
    decisions, figures, _ = dedup(tmp_path, {"p": document("a", "x y", "x\ty ", "X Y")}, normalise=normalise)
    assert [n for n, d in enumerate(decisions["p"]) if d["is_duplicate"]] == masked
    assert figures["stability"]["replace_one"] == (1 if normalise == "none" else 3)


def test_unverified_reports_what_it_cannot_know_as_unknown(tmp_path):
    corpus = {"p": document("a", "x", "y", "x"), "q": document("b", "x")}
    decisions, figures, _ = dedup(tmp_path, corpus, verify=False)
    kept = (False, None, 1)
    assert outcomes(decisions) == [kept, kept, (True, None, 0), (True, None, 0)]
    assert figures["num_false_positives"] is None
    assert figures["stability"] == {"add_or_remove_one": None, "replace_one": None}
    assert "verify = false" in figures["stability_reason"]


def files_of(root, skip):
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.relative_to(root).parts[0].startswith(skip)
    }


def test_bytes_do_not_depend_on_batches_memory_or_an_earlier_attempt(tmp_path, patch):
    corpus = {f"p{n}": document(f"d{n}", *(str(i * i % (40 + n)) for i in range(90))) for n in range(3)}
    plain, small = tmp_path / "plain", tmp_path / "small"
    plain.mkdir()
    (small / "dedup_buckets-001-of-001.scratch" / "resolve").mkdir(parents=True)
    (small / "dedup_buckets-001-of-001.scratch" / "resolve" / "nominated.bin").write_bytes(b"left by a killed attempt")
    dedup(plain, corpus)
    batches = Table.batches
    patch(Table, "batches", lambda *a, **k: batches(*a, **{**k, "batch_rows": 7}))
    dedup(small, corpus, max_rows_in_memory=11)
    assert files_of(plain, "split") == files_of(small, "split")
    assert {"max_rows_in_memory", "buckets"}.isdisjoint(DedupConfig().keyed())


@settings(deadline=None, max_examples=15)
@given(
    texts=st.lists(st.sampled_from("abcdefg"), max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=3),
    mode=st.sampled_from(["mask_later", "mask_all"]),
)
def test_decisions_do_not_depend_on_how_the_corpus_is_partitioned(tmp_path_factory, texts, cuts, mode):
    rows = document("d", *texts)
    edges = [0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]
    parts = {f"p{n}": rows[a:b] for n, (a, b) in enumerate(itertools.pairwise(edges))}
    decisions, _, _ = dedup(tmp_path_factory.mktemp("run"), parts, mode=mode, expected_items=3, false_positive_rate=0.5)
    seen, expected = Counter(), []
    for text in texts:
        seen[text] += 1
        masked = seen[text] > 1 or (mode == "mask_all" and texts.count(text) > 1)
        expected.append((masked, f"d:{texts.index(text)}" if seen[text] > 1 else None, seen[text]))
    assert outcomes(decisions) == expected


def _resolved(root):
    return {path.name: path.read_bytes() for path in (root / "dedup_resolve-None").glob("*.parquet")}


@pytest.mark.parametrize(("backend", "mode"), [("bloom", "mask_later"), ("bloom", "mask_all"), ("exact", "mask_later")])
@settings(deadline=None, max_examples=6)
@given(
    texts=st.lists(st.integers(0, 40).map(str), max_size=60),
    out_of_scope=st.sets(st.integers(0, 59)),
    cuts=st.lists(st.integers(0, 60), max_size=3),
    buckets=st.sampled_from([2, 7, 30]),
    max_rows=st.sampled_from([1, 5, 1000]),
)
def test_buckets_are_decided_apart_and_give_the_bytes_of_one(
    tmp_path_factory, backend, mode, texts, out_of_scope, cuts, buckets, max_rows
):
    rows = document("d", *texts)
    for number, row in enumerate(rows):
        row["fold"] = "test" if number in out_of_scope else "train"
    edges = [0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]
    parts = {f"p{n}": rows[a:b] for n, (a, b) in enumerate(itertools.pairwise(edges))}
    config = {"backend": backend, "mode": mode, "expected_items": 3, "false_positive_rate": 0.5}
    one, many = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("many")
    decisions, figures, _ = dedup(one, parts, **config)
    _, split_up, pipeline = dedup(many, parts, **config, buckets=buckets, max_rows_in_memory=max_rows)
    assert _resolved(one) == _resolved(many)
    of_buckets = [pipeline.counts[f"dedup_buckets-{name}"] for name in bucket_names(buckets)]
    assert sum(counts["num_sentences"] for counts in of_buckets) == len(rows)
    assert split_up["num_buckets"] == buckets
    for name in ("num_sentences", "num_in_scope", "num_duplicates"):
        assert figures[name] == split_up[name]
    seen, in_scope = Counter(), [text for n, text in enumerate(texts) if n not in out_of_scope]
    for number, (text, found) in enumerate(zip(texts, itertools.chain(*decisions.values()), strict=True)):
        if number in out_of_scope:
            assert not found["is_duplicate"]
            continue
        seen[text] += 1
        masked = seen[text] > 1 or (mode == "mask_all" and in_scope.count(text) > 1)
        assert (found["is_duplicate"], found["occurrence"]) == (masked, seen[text])


def test_a_bucket_reads_only_row_groups_that_may_hold_its_keys(tmp_path, patch):
    """With many partitions and buckets, everything else would be read as often as there are buckets."""
    patch.constant("pipelines.tables", "ROW_GROUP_ROWS", 64)
    texts = [str(n % 900) for n in range(1_000)]
    read = []
    batches = Table.batches

    def counted(table, *args, **options):
        for batch in batches(table, *args, **options):
            if "near" in options:
                read.append(batch.num_rows)
            yield batch

    patch(Table, "batches", counted)
    _, figures, _ = dedup(tmp_path, {"p": document("d", *texts)}, buckets=8)
    assert figures["num_duplicates"] == 100
    assert sum(read) <= 2 * (1_000 + 8 * 2 * 64)  # each row twice, and two row groups at the ends of each bucket


def test_a_plain_filter_and_another_corpus_have_one_bucket():
    """There, which bucket a key is in would change what is taken for a duplicate, or be read again for each."""
    for config in (DedupConfig(verify=False), DedupConfig(against=("/x.txt",))):
        assert config.partition_names(2**40) == ("001-of-001",)
    with pytest.raises(ValidationError, match="one bucket"):
        DedupConfig(verify=False, buckets=2)
    assert len(DedupConfig(buckets=5).partition_names(0)) == 5


def test_a_change_of_one_partition_leaves_unrelated_partitions_their_bytes(tmp_path):
    corpus = {"p": document("a", "x", "y"), "q": document("b", "y", "z"), "r": document("c", "w", "w")}
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    dedup(before, corpus)
    dedup(after, {"n": document("m", "v", "y"), **corpus})
    same = {
        name: (before / "dedup_resolve-None" / f"{name}.parquet").read_bytes()
        == (after / "dedup_resolve-None" / f"{name}.parquet").read_bytes()
        for name in corpus
    }
    assert same == {"p": False, "q": False, "r": True}


def test_a_list_of_another_partition_is_refused_without_quoting_it(tmp_path):
    pipeline = Pipeline(tmp_path, DedupConfig())
    one, other = (pipeline.split(name, document(f"secret-{name}", "x", "x")) for name in "pq")
    keys = pipeline.run("dedup_keys", "p", {"split": (one,)})
    resolved = pipeline.resolve((keys,))
    resolved.blob("p.parquet").rename(resolved.blob("q.parquet"))
    with pytest.raises(StoreError) as error:
        pipeline.run("dedup_mask", "q", {"split": (other,), "dedup_resolve": (resolved,)})
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "mask_all", "verify": False},
        {"mode": "mask"},
        {"unit": "document", "verify": False},
        {"unit": "paragraph"},
        {"against": ["relative/path"]},
        {"false_positive_rate": 0},
        {"false_positive_rate": 0.9},
        {"expected_items": 0},
        {"min_tokens": -1},
        {"hash_seed": 2**32},
        {"max_rows_in_memory": 0},
        {"buckets": 0},
        {"buckets": 257},
        {"normalize": "none"},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValidationError):
        DedupConfig(**wrong)


def test_settings_import_nothing_heavy():
    loaded = loaded_after("from pipelines.settings import dedup, estimate, guarantee, sample")
    assert not {"numpy", "scipy", "pyarrow", "mmh3", "dp_accounting", "torch", "spacy"} & loaded


def _run_shuffled(root, corpus, num_workers, rng):
    """All three steps; partitions start in a shuffled order and end in any."""
    pipeline = Pipeline(root, DedupConfig(unit="sentence", max_rows_in_memory=50, buckets=3), processes=num_workers)
    split = {name: pipeline.split(name, rows) for name, rows in corpus.items()}
    order = list(corpus)

    def each(work):
        rng.shuffle(order)

        def late(name):
            time.sleep(rng.random() * 0.01)
            return work(name)

        with ThreadPoolExecutor(num_workers) as pool:
            return dict(zip(order, pool.map(late, order), strict=True))

    keys = each(lambda name: pipeline.run("dedup_keys", name, {"split": (split[name],)}))
    keys = tuple(keys[name] for name in corpus)
    order[:] = pipeline.config.partition_names(0)
    buckets = each(lambda name: pipeline.run("dedup_buckets", name, {"dedup_keys": keys}))
    buckets = tuple(buckets[name] for name in sorted(buckets))
    resolved = pipeline.run("dedup_resolve", None, {"dedup_keys": keys, "dedup_buckets": buckets})
    order[:] = corpus
    each(lambda name: pipeline.run("dedup_mask", name, {"split": (split[name],), "dedup_resolve": (resolved,)}))
    return {str(file.relative_to(root)): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}


@pytest.mark.slow
def test_any_number_of_workers_and_order_of_completion_give_the_same_bytes(tmp_path):
    rng = random.Random(3)
    corpus = {
        f"p-{n}": [row for d in range(5) for row in document(f"{n}-{d}", *(str(rng.randrange(60)) for _ in range(9)))]
        for n in range(12)
    }
    results = []
    for num_workers in (1, 2, 8, 8):
        root = tmp_path / str(len(results))
        root.mkdir()
        results.append(_run_shuffled(root, corpus, num_workers, rng))
    assert len(results[0]) == 12 * 4 + 3 * 2 + 12 + 1
    assert all(result == results[0] for result in results[1:])
