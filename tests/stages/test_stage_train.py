"""The train stage: what it writes where, and what its settings accept."""

import dataclasses
import json
import math
from collections import Counter

import numpy as np
import pytest
import torch
from support.contexts import artifact, stage_context
from support.evaluations import figures_of
from support.tables import read_table, write_rows
from transformers import AutoTokenizer

from pipelines.accounting.accountants import epsilon
from pipelines.accounting.events import NoEvent, from_json
from pipelines.errors import InputError, PrivacyGateError, StageError
from pipelines.settings.train import TrainConfig
from pipelines.stages.train import train as train_stage
from pipelines.stages.train.train import run
from pipelines.training import outputs
from pipelines.training.data.row_store import StoredRecords
from pipelines.training.finished import FinishedTraining, warnings_about
from pipelines.training.loop import TrainingOutcome
from pipelines.training.methods.base import Account, LoopTraining
from pipelines.training.scoring.evaluation import Evaluation

SMALL = {
    "num_layers": 1,
    "num_heads": 2,
    "embedding_size": 32,
    "context_length": 48,
    "vocab_size": 400,
    "epochs": 6,
    "expected_batch_size": 16,
    "public_batch_size": 8,
    "min_speaker_rows": 2,
}
NAMES = [a + b for a in ("Ab", "Cor", "Du", "El", "Fi", "Ga") for b in ("ra", "nix", "lop", "mio")]
ASKS = ["track my package", "cancel my order", "change my address", "speak to somebody", "return my hat"]
CANARY = "quixotryzebulon"


def rows(kind):
    public = [(f"Can I {ask}{end}", "USR") for ask in ASKS for end in ("?", ", please?", " today?", " or not?")]
    public += [(f"I will {ask} for you{end}", "SYS") for ask in ASKS for end in (".", " now.", " today.")]
    private = [(f"I am <MASK>, I want to {ASKS[i % 5]}. {name}", "USR") for i, name in enumerate(NAMES)]
    private += [(f"{CANARY} {CANARY} <MASK>", CANARY), *[("<MASK>", "USR")] * 15]
    return {"public": public, "private": private}[kind]


def write_shard(path, shard):
    rows = [
        {"doc_id": f"{index:032d}", "redacted_text": text, "speaker": speaker}
        for index, (text, speaker) in enumerate(shard)
    ]
    write_rows(path, "shard", rows, num_tokens=9, num_masked_tokens=1)


def write_sentences(path, folds):
    rows = [
        {
            "doc_id": f"{index // 4:032d}",
            "sentence_index": index % 4,
            "text": f"Hello, can I {ASKS[index % 5]}? My name is {NAMES[index % 24]}.",
            "fold": fold,
        }
        for index, fold in enumerate(folds)
    ]
    write_rows(path, "sentences", rows, speaker="USR")


def context(folder, *, public=None, private=None, folds=("test", "train") * 30, progress=None, **settings):
    public = rows("public") if public is None else public
    private = rows("private") if private is None else private
    shards, splits = [], []
    for part in ("p0", "p1"):
        for name in (f"shard-{part}", f"split-{part}"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        at = int(part[1])
        write_shard(folder / f"shard-{part}" / "private.parquet", private[at::2])
        write_shard(folder / f"shard-{part}" / "public.parquet", public[at::2])
        write_sentences(folder / f"split-{part}" / "sentences.parquet", folds[at::2])
        shards.append(artifact("shard", folder / f"shard-{part}", part))
        splits.append(artifact("split", folder / f"split-{part}", part))
    return stage_context(
        "train",
        folder / "private",
        {"train": TrainConfig(**{**SMALL, **settings})},
        {"shard": shards, "split": splits},
        public_folder=folder / "public",
        scratch=folder / "scratch",
        seed=11,
        **({"progress": progress} if progress else {}),
    )


def read(ctx, name):
    return json.loads((ctx.out.folder / name).read_text())


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    ctx = context(tmp_path_factory.mktemp("train"))
    return ctx, run(ctx)


def test_events_say_what_touched_the_private_records(trained):
    ctx, _ = trained
    events = read(ctx, "events.json")
    assert events["event"]["type"] == "self_composed"
    assert events["event"]["count"] == 6 * round(40 / 16)
    step = events["event"]["event"]
    assert step["sample_rate"] == 16 / 40
    assert step["event"]["type"] == "gaussian"
    assert events["num_private_records"] == 40
    assert events["num_public_records"] == 35
    assert (events["relation"], events["record"], events["target_epsilon"]) == ("replace_one", "sentence", 3.0)
    assert events["tokenizer"] == {"kind": "bpe_public", "trained_on": "public"}
    assert not events["insecure_test_seed"]


def test_the_noise_meets_the_target(trained):
    from pipelines.accounting.accountants import epsilon
    from pipelines.accounting.events import NeighboringRelation, from_json

    events = read(trained[0], "events.json")
    spent = epsilon(from_json(events["event"]), events["target_delta"], NeighboringRelation.REPLACE_ONE)
    assert 2.9 < spent <= 3.0 + 1e-6


def test_held_out_text_is_predicted_better_than_at_the_start(trained):
    figures = figures_of(trained[0])
    gain = math.log(figures["perplexity_at_initialisation"]) - figures["loss_per_token"]
    assert gain > 2 * figures["loss_per_token_standard_error"] > 0
    assert figures["perplexity"] == pytest.approx(math.exp(figures["loss_per_token"]))
    assert figures["num_all_mask_records"] == 15
    assert figures["num_eval_sentences"] == 30
    assert figures["num_steps"] == read(trained[0], "events.json")["event"]["count"]
    assert figures["warnings"] == []


def test_curves_are_marked_as_private(trained):
    curves = read(trained[0], "curves.json")
    assert "epsilon does not" in curves["note"]
    rows = curves["epochs"]
    assert [row["epoch"] for row in rows] == list(range(1, 7))
    assert rows[-1]["num_private_steps"] == read(trained[0], "figures.json")["num_steps"]
    assert all(row["num_steps"] > row["num_private_steps"] > 0 for row in rows)
    assert all(row["public_loss"] > 0 and row["private_loss"] > 0 for row in rows)
    spent = [row["epsilon_so_far"] for row in rows]
    assert spent == sorted(spent)
    claimed = epsilon(from_json(read(trained[0], "events.json")["event"]), 1e-5)
    assert claimed <= spent[-1] < 1.02 * claimed


def test_the_model_folder_loads_offline_and_speaks(trained, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = trained[0].out.public_folder / "model"
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == model.config.vocab_size
    prompt = tokenizer("<BOS><USR>Can I", return_tensors="pt", add_special_tokens=False)
    assert tokenizer.convert_ids_to_tokens(prompt["input_ids"][0])[:2] == ["<BOS>", "<USR>"]
    written = model.generate(**prompt, max_new_tokens=5, do_sample=False)
    assert tokenizer.decode(written[0], skip_special_tokens=True).startswith("Can I")
    assert (tokenizer.pad_token, tokenizer.mask_token, tokenizer.eos_token) == ("<PAD>", "<MASK>", "<EOS>")
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in folder.iterdir())


def test_public_files_hold_no_private_text_and_no_count(trained):
    ctx, _ = trained
    public = files(ctx.out.public_folder)
    assert {name.split("/")[0] for name in public} == {"model"}
    for name, raw in public.items():
        assert CANARY[:5].encode() not in raw, name
        assert not [n for n in NAMES if n.encode() in raw], name
    card = public["model/README.md"].decode()
    assert "ε = 3" in card
    assert not {"40", "35", "15"} & set(card.split())
    for name in ("events.json", "figures.json", "curves.json"):
        assert CANARY not in (ctx.out.folder / name).read_text()


def test_returned_counts_are_small_and_plain(trained):
    _, counts = trained
    assert counts["num_public_records"] == 35
    assert set(map(type, counts.values())) == {int}


@pytest.mark.slow
def test_two_runs_differ_unless_the_seed_is_the_insecure_one(tmp_path, trained):
    fast = {"epochs": 1, "noise_multiplier": 1.0}
    made = []
    for name, insecure in (("a", True), ("b", True), ("c", False), ("d", False)):
        ctx = context(tmp_path / name, insecure_test_seed=insecure, **fast)
        run(ctx)
        made.append((files(ctx.out.folder), files(ctx.out.public_folder)))
    assert made[0] == made[1]
    assert made[2][1]["model/model.safetensors"] != made[3][1]["model/model.safetensors"]
    events = json.loads(made[0][0]["events.json"])
    assert events["insecure_test_seed"]
    assert any("insecure_test_seed" in note for note in events["assumption_notes"])


def test_all_private_uses_bytes_and_still_trains(tmp_path):
    ctx = context(tmp_path, public=[], private=rows("private") + rows("public"), epochs=2, noise_multiplier=0.5)
    run(ctx)
    events, figures = read(ctx, "events.json"), figures_of(ctx)
    assert events["tokenizer"] == {"kind": "bytes", "trained_on": "none"}
    assert events["target_epsilon"] is None
    assert figures["perplexity"] < figures["perplexity_at_initialisation"]


def test_all_public_has_no_event(tmp_path):
    ctx = context(tmp_path, private=[], epochs=1)
    run(ctx)
    assert read(ctx, "events.json")["event"] == {"type": "none"}
    figures = read(ctx, "figures.json")
    assert (figures["noise_multiplier"], figures["num_steps"], figures["sample_rate"]) == (None, 0, 0.0)


def test_an_empty_test_fold_gives_null_and_a_reason(tmp_path):
    ctx = context(tmp_path, folds=("train",) * 10, epochs=1, noise_multiplier=1.0)
    run(ctx)
    figures = figures_of(ctx)
    assert figures["perplexity"] is None
    assert figures["perplexity_at_initialisation"] is None
    assert figures["perplexity_reason"]
    assert figures["num_eval_sentences"] == 0


def test_nothing_to_train_on_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no row to train on"):
        run(context(tmp_path, public=[], private=[]))


def test_a_large_delta_is_warned_about(tmp_path):
    ctx = context(tmp_path, epochs=1, noise_multiplier=0.0, target_delta=0.05)
    run(ctx)
    notes = read(ctx, "figures.json")["warnings"]
    assert any("1/40" in note for note in notes)
    assert any("noise_multiplier is 0" in note for note in notes)
    assert set(notes) <= set(read(ctx, "events.json")["assumption_notes"])


def test_reading_does_not_touch_the_global_generators(tmp_path):
    torch.manual_seed(3)
    np.random.seed(3)
    expected = torch.rand(1).item(), np.random.rand()
    torch.manual_seed(3)
    np.random.seed(3)
    run(context(tmp_path, epochs=1, noise_multiplier=1.0))
    assert (torch.rand(1).item(), np.random.rand()) == expected


def read_crt(ctx):
    config = ctx.configs["train"]
    return train_stage.read(ctx, config, config.view(), train_stage.open_network(ctx, config, 0))[0]


def test_events_tell_what_was_done_and_not_what_was_meant(trained):
    """The tokenizer's origin and the order of public rows come from the corpus that was read."""
    ctx, _ = trained
    corpus = read_crt(ctx)
    assert (corpus.vocabulary.trained_on, corpus.nonprivate_order) == ("public", "content_hash")
    vocabulary = dataclasses.replace(corpus.vocabulary, trained_on="private")
    other = dataclasses.replace(corpus, vocabulary=vocabulary, nonprivate_order="unknown")
    nothing = Evaluation(**dict.fromkeys((f.name for f in dataclasses.fields(Evaluation)), None))
    done = FinishedTraining(
        config=ctx.configs["train"].model_dump(mode="json"),
        task=ctx.configs["train"].of_task(),
        corpus=other,
        account=Account(event=NoEvent()),
        outcome=TrainingOutcome(num_steps=0, curve=[], was_resumed=False),
        planned_steps=0,
        sample_rate=0.0,
        noise_multiplier=None,
        before=nothing,
        network=torch.nn.Module(),
        context_length=48,
    )
    events = outputs.events_document(done)
    assert events["tokenizer"]["trained_on"] == "private"
    assert events["public_order"] == "unknown"
    assert any("the tokenizer comes from private rows" in note for note in events["assumption_notes"])


def test_an_order_that_is_not_that_of_the_hashes_is_noticed(tmp_path, patch):
    ctx = context(tmp_path)
    patch(StoredRecords, "content_order", lambda self, records: records)  # the order of storage
    assert read_crt(ctx).nonprivate_order == "unknown"


def test_a_bytes_tokenizer_is_trained_on_nothing(tmp_path):
    ctx = context(tmp_path, tokenizer="bytes")
    assert read_crt(ctx).vocabulary.trained_on == "none"


@pytest.mark.slow
def test_steps_that_are_not_accounted_for_stop_the_run(tmp_path, patch):
    ctx = context(tmp_path, epochs=1)
    real = LoopTraining.train

    def one_more(*arguments):
        done = real(*arguments)
        return dataclasses.replace(done, num_steps=done.num_steps + 1)

    patch(LoopTraining, "train", one_more)
    with pytest.raises(StageError, match="private steps, and"):
        run(ctx)
    assert files(ctx.out.public_folder) == {}
    assert not (ctx.out.folder / "events.json").exists()


@pytest.mark.slow
def test_a_model_is_told_where_conversations_begin_and_end_and_of_what_domain(tmp_path):
    conversations = {"conversation_tokens": True, "domain_tokens": True, "domains": ("AIRLINE",), "record": "dialogue"}
    ctx = context(tmp_path, epochs=1, **conversations)
    for split in ctx.inputs["split"]:
        doc_ids = read_table(split.blob("sentences.parquet"), "sentences").column("doc_id").to_pylist()
        documents = [{"doc_id": doc_id, "num_sentences": number} for doc_id, number in Counter(doc_ids).items()]
        write_rows(split.folder / "documents.parquet", "documents", documents)
    run(ctx)
    card = (ctx.out.public_folder / "model" / "README.md").read_text()
    assert "`<AIRLINE>`. Any other: `<DOMAIN>`" in card
    assert "`<_soc_>` follows `<BOS>`" in card
    assert {"<_soc_>", "<_eoc_>", "<AIRLINE>", "<DOMAIN>"} <= AutoTokenizer.from_pretrained(
        ctx.out.public_folder / "model"
    ).get_vocab().keys()
    notes = read(ctx, "events.json")["assumption_notes"]
    assert any("domain of a row is trained on" in note for note in notes)
    assert any("begins or ends its conversation" in note for note in notes)


def test_the_vocabulary_is_searched_before_anything_is_trained_or_charged(tmp_path):
    searched = []

    def search(folder):
        searched.append(json.loads(folder.blob("tokenizer.json").read_text()))
        raise PrivacyGateError("a masked string")

    class Untouched:
        def reserve(self, *_, **__):
            raise AssertionError("charged")

    ctx = context(tmp_path)
    ctx = dataclasses.replace(ctx, run=dataclasses.replace(ctx.run, search=search, ledger=Untouched()))
    with pytest.raises(PrivacyGateError):
        run(ctx)
    assert "<SYS>" in searched[0]["model"]["vocab"]
    assert files(ctx.out.folder) == files(ctx.out.public_folder) == {}
    assert (ctx.out.basis / "config.json").exists()


@pytest.mark.parametrize(
    ("unit", "says"),
    [
        ("sentence", "number of private records: a mechanism that publishes one random record would"),
        ("person", "number of people: a mechanism that publishes all of one random person's text would"),
    ],
)
def test_a_large_delta_is_measured_by_the_number_of_units(unit, says):
    (warning,) = warnings_about(
        num_private=10, target_delta=0.1, insecure_test_seed=False, noise_multiplier=1.0, unit=unit
    )
    assert says in warning
