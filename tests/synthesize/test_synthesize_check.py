"""What the trusted side counts: replay of one document's passages, masked strings, and distances."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from small_writers import writer
from support.contexts import artifact, stage_context
from support.tables import table_at, write_rows

from pipelines.artifacts import Target
from pipelines.gate.strings import words_of
from pipelines.gate.tables import GATE_INDEX
from pipelines.mask import MASK
from pipelines.settings.synthesize import SynthesizeConfig
from pipelines.settings.train import TrainConfig
from pipelines.stages.synthesize import check as synthesize_check
from pipelines.synthesis import downstream as downstream_scores
from pipelines.synthesis.finds import finds_in
from pipelines.synthesis.quality import distances, divergence, sampled
from pipelines.synthesis.replay import Line, Passages, replayed
from pipelines.synthesis.tables import SYNTHETIC

KEY = b"0" * 32
WORDS = st.lists(st.sampled_from("abc"), max_size=12).map(" ".join)


def lines(*rows):
    return [Line(document=name, is_trained_on=is_trained_on, text=text) for name, is_trained_on, text in rows]


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans(), WORDS), max_size=8),
    st.lists(WORDS, max_size=6),
    st.lists(WORDS, max_size=2),
)
def test_replay_is_what_comparing_words_one_by_one_finds(rows, texts, published):
    rows = sorted((f"{number}-{is_trained_on}", is_trained_on, text) for number, is_trained_on, text in rows)
    found = replayed(texts, Passages(lines(*rows), KEY, 3, published))

    def passages(text):
        words = words_of(text)
        return {tuple(words[at : at + 3]) for at in range(len(words) - 2)}

    holders = {}
    for name, is_trained_on, text in rows:
        for passage in passages(text):
            holders.setdefault(passage, {})[name] = is_trained_on
    alone = [{p for p in passages(t) if len(holders.get(p, {})) == 1 and any(holders[p].values())} for t in texts]
    single = [bool(found) for found in alone]
    is_open = {p for text in published for p in passages(text)}
    assert found.rows_unpublished.num_hits == sum(bool(found - is_open) for found in alone)
    of_any = [any(any(holders.get(p, {}).values()) for p in passages(text)) for text in texts]
    assert (found.rows.num_hits, found.rows_of_any.num_hits) == (sum(single), sum(of_any))
    hit = {next(iter(holders[p].items())) for text in texts for p in passages(text) if len(holders.get(p, {})) == 1}
    assert found.documents.num_hits == sum(is_trained_on for _, is_trained_on in hit)
    assert found.held_out_documents.num_hits == sum(not is_trained_on for _, is_trained_on in hit)


def documents(generator, num):
    words = [f"w{number}" for number in range(200)]
    return [" ".join(generator.choice(words, 12)) for _ in range(num)]


def test_a_model_that_replays_is_found_out_and_one_that_does_not_is_not():
    generator = np.random.default_rng(0)
    texts = documents(generator, 300)
    rows = [(f"d{number}", number % 3 > 0, text) for number, text in enumerate(texts)]
    passages = Passages(lines(*rows), KEY, 8)
    trained = [text for _, is_trained_on, text in rows if is_trained_on]
    replays = replayed([*trained[:30], *documents(generator, 30)], passages)
    assert replays.rows.num_hits == 30
    assert replays.p_value < 1e-4
    blind = replayed([texts[number] for number in generator.permutation(300)[:60]], passages)  # as often of both
    assert blind.rows.num_hits > 20
    assert blind.p_value > 1e-3
    assert replayed(["what all say to begin with is no secret of one"] * 3, passages).rows.num_hits == 0


def index_at(folder, strings):
    with Target(folder=folder).table(GATE_INDEX, "index") as writer:
        for string, label in sorted(strings.items()):
            writer.append(string=string, label=label, is_part_of_public_word=False)


def test_masked_strings_are_found_by_row_and_label(tmp_path):
    index_at(tmp_path, {"ann lee": "NAME", "5550100": "PHONE"})
    texts = ["I am Ann LEE.", "call 5550100, Ann Lee!", "planned leeway", "Ann, Lee", "5550100 5550100"]
    told = []
    found = finds_in(
        lambda: texts, table_at(tmp_path / "index.parquet", "gate_index"), case_sensitive=False,
        tell=lambda *one: told.append(one),
    )  # fmt: skip
    assert found.rows.num_hits == 4
    assert found.num_by_label == {"NAME": 3, "PHONE": 2}
    assert found.num_distinct == 2
    assert told[0] == (0, "ann lee", "NAME")


def test_distances_are_near_those_of_real_text_for_real_text_and_far_for_other():
    generator = np.random.default_rng(1)
    real = documents(generator, 240)
    same = distances(real[:160], real[160:], np.random.default_rng(2))
    assert same["other"]["low"] < 0.55
    assert same["other"]["lengths"] < 0.1
    other = distances(real, [" ".join(["other"] * 4)] * 80, np.random.default_rng(2))
    assert other["other"]["low"] > 0.9
    assert other["other"]["words"] == pytest.approx(1)
    assert other["other"]["lengths"] == 1
    assert other["real"]["low"] < 0.6
    assert distances(real[:10], real, generator) is None
    assert sampled(["a ", "", "b"], 5, generator) in (["a", "b"], ["b", "a"])


@given(*[st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), min_size=1).map(Counter)] * 2)
def test_divergence_is_scipys(one, other):
    p, q = ([counts[kind] for kind in "abcd"] for counts in (one, other))
    assert divergence(one, other) == pytest.approx(jensenshannon(p, q, base=2) ** 2, abs=1e-9)


def test_the_stage_counts_in_the_table_and_in_what_the_start_weights_write(tmp_path, patch):
    patch(synthesize_check, "open_audited", lambda ctx, stage: writer())
    patch.constant(downstream_scores, "_FEWEST_ROWS", 1)
    secret = "my number is five five five zero one zero zero"
    texts = [(secret, "train"), ("nothing to see", "train"), ("nothing to see", "test")]
    rows = [
        {"doc_id": f"{n:032d}", "sentence_index": 0, "text": text, "token_ends": [len(text)], "fold": fold}
        for n, (text, fold) in enumerate(texts)
    ]
    for name in ("split", "redact", "gate", "made", "publish"):
        (tmp_path / name).mkdir()
    write_rows(tmp_path / "split/sentences.parquet", "sentences", rows)
    said = [
        {"doc_id": row["doc_id"], "fold": row["fold"], "redacted_text": MASK if row["text"] == secret else "nothing"}
        for row in rows
    ]
    write_rows(tmp_path / "redact/redacted.parquet", "redacted", said)
    index_at(tmp_path / "gate", {"five five five": "NUMBER"})
    Target(folder=tmp_path / "gate").json("figures.json", {"enabled": True, "case_sensitive": False})
    with Target(folder=tmp_path / "made").table(SYNTHETIC) as table:
        for number, text in enumerate([f"well {secret}", "harmless words"]):
            table.append(record=number, turn=0, domain=None, speaker="USR", text=text, num_tokens=4)
    write_rows(
        tmp_path / "publish/public.parquet",
        "published",
        [{"row_id": "r", "redacted_text": secret, "num_tokens": 9, **dict.fromkeys(("speaker", "domain", "label"))}],
    )
    configs = {
        "synthesize": SynthesizeConfig(rows=4, max_new_tokens=5, baseline_rows=3, downstream_steps=2),
        "train": TrainConfig(method="dpsgd"),
    }
    inputs = {
        "synthesize": artifact("synthesize", tmp_path / "made"), "train": tmp_path, "gate": tmp_path / "gate",
        "split": tmp_path / "split", "redact": tmp_path / "redact",
        "publish": artifact("publish", tmp_path / "publish"),
    }  # fmt: skip
    ctx = stage_context("synthesize_check", tmp_path / "out", configs, inputs, secret=b"s" * 32)
    assert synthesize_check.run(ctx) == {"num_replayed": 1, "num_finds": 1}
    found = json.loads((tmp_path / "out/check.json").read_text())
    assert found["num_baseline_rows"] == 3
    assert found["replay"]["table"]["rows"]["num_hits"] == found["finds"]["table"]["rows"]["num_hits"] == 1
    assert found["replay"]["table"]["rows_unpublished"]["num_hits"] == 0
    assert found["replay"]["start"]["rows"] == found["finds"]["start"]["rows"]
    assert found["replay"]["start"]["rows"]["num_hits"] == 0
    assert found["distance"] is None
    downstream = found["downstream"]
    assert (downstream["num_train_rows"], downstream["num_test_rows"], downstream["accuracy"]) == (1, 1, None)
    worth = {kind: values["value"] for kind, values in downstream["perplexity"].items()}
    assert worth["redacted"] < worth["synthetic"], "the one row that is not masked begins as the held-out one does"
    taught = {kind: len(values["of_seeds"]) for kind, values in downstream["network"]["perplexity"].items()}
    assert taught == {"synthetic": 3, "redacted": 3, "real": 3}
