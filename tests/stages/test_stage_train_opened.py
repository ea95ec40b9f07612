"""A finished model is read back from its folder with its encoding: the same figures, token by token; and it writes."""

import json
import shutil
from itertools import pairwise

import numpy as np
import peft
import polars as pl
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from support.evaluations import evaluated, figures_of
from support.old_stores import COMMITS, unpack
from support.tables import table_at
from test_stage_train_methods import corpus, run
from test_stage_train_models import QUICK, SIZES
from test_stage_train_tasks import train

from pipelines.artifacts import Target
from pipelines.errors import ConfigError
from pipelines.training.data.control import RESERVED
from pipelines.training.data.record_unit import RecordUnit
from pipelines.training.data.records import target_positions
from pipelines.training.data.row_store import RowStore
from pipelines.training.data.rows import original_rows
from pipelines.training.encoded import Record, targets_of
from pipelines.training.plain_loading import prepare
from pipelines.training.trained import open_trained

ONE = {"epochs": 1, "noise_multiplier": 0.5, "target_epsilon": None}
LSTM = {"model": "lstm", **dict.fromkeys(SIZES)}
MODELS = {
    "gpt2 from scratch": ("crt", {}),
    "domains": ("crt", {"domain_tokens": True, "domains": ("a", "b")}),
    "masks asked for": ("anonymized", {"typed_masks": ("NAME",)}),
    "lstm": ("crt", LSTM),
    "lstm with marked tokens": ("sdpsgd_lstm", {"public_learning_rate": 1.0, "private_learning_rate": 0.1}),
    "pretrained": ("crt", {"family": "llama"}),
    "low-rank additions": ("dpsgd", {"family": "gpt2", "adaptation": "lora"}),
    "prefix": ("crt", {"family": "llama", "adaptation": "prefix", "prefix_length": 3}),
}


def model_of(ctx):
    return ctx.out.public_folder / "model" if (ctx.out.public_folder / "model").is_dir() else ctx.out.folder / "model"


def held_out(corpus_folder, folder, kind="sentence"):
    """The records that training evaluated on, with their keys, as its reader gives them."""
    folder.mkdir()
    store = RowStore(Target(folder=folder), "held_out", RecordUnit(kind=kind))
    store.add(
        original_rows([table_at(corpus_folder / "split/sentences.parquet", "sentences")], "test"),
        is_private=True,
        hashed=False,
    )
    stored = store.records()
    return [(stored.keys(number), stored[number]) for number in range(len(stored))]


@pytest.fixture(scope="module")
def opened(tmp_path_factory, families):
    """Trains a model once and opens it; with its context and its held-out records."""
    made = {}

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("opened")
            method, changes = MODELS[name]
            changes = {**ONE, **changes}
            family = changes.pop("family", None)
            if family is not None:
                changes |= {**QUICK, **dict.fromkeys(SIZES), "model": families[family], "model_is_public": True}
            ctx = run(folder / "run", corpus(folder / "corpus"), method, **changes)
            made[name] = ctx, held_out(folder / "corpus", folder / "rows"), open_trained(model_of(ctx), device="cpu")
        return made[name]

    return get


SLOW = ("domains", "low-rank additions", "lstm with marked tokens")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in MODELS])
def test_the_opened_model_scores_what_training_said(opened, name):
    ctx, rows, trained = opened(name)
    figures = figures_of(ctx)
    losses = trained.losses(record for _, record in rows)
    assert losses.perplexity == pytest.approx(figures["perplexity"], rel=1e-5)
    assert int(losses.num_tokens.sum()) == figures["num_eval_tokens"]
    assert (trained.method, trained.task) == (figures["method"], figures["task"])
    assert np.exp(losses.mean @ losses.num_tokens / losses.num_tokens.sum()) == pytest.approx(losses.perplexity)
    scores = pl.read_parquet(evaluated(ctx).out.folder / "token_scores.parquet")
    columns = scores.select("doc_id", "sentence_index", "losses", "end_losses").iter_rows()
    of_training = {(doc_id, index): [*tokens, *ends] for doc_id, index, tokens, ends in columns}
    for number, ([key], _) in enumerate(rows):
        asked = losses.records.is_target[losses.records.offsets[number] : losses.records.offsets[number + 1]]
        found = losses.of(number)
        assert (found[~asked] == 0).all()
        np.testing.assert_allclose(found[asked], of_training[key], rtol=1e-4, atol=1e-5)
        assert losses.per_record[number] == pytest.approx(found.sum())


@pytest.mark.parametrize("name", ["dialogue", pytest.param("response", marks=pytest.mark.slow), "table_to_text"])
def test_so_it_does_for_other_tasks(tmp_path, families, name):
    ctx = train(tmp_path, families, name, "crt", epochs=1)
    rows = held_out(tmp_path / "corpus", tmp_path / "rows", "sentence" if name == "table_to_text" else "dialogue")
    trained = open_trained(model_of(ctx), device="cpu")
    losses = trained.losses(record for _, record in rows)
    assert losses.perplexity == pytest.approx(figures_of(ctx)["perplexity"], rel=1e-5)
    prompt = "name : The Mill" if name == "table_to_text" else Record(texts=["hello", ""], speakers=["PARTNER", "SELF"])
    assert len(trained.generate([prompt], num=2, max_new_tokens=4, seed=1)[0]) == 2


PLAIN = {"gpt2 from scratch": "transformers", "masks asked for": "transformers", "pretrained": "transformers"}
PLAIN |= {"low-rank additions": "transformers", "prefix": "peft"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in PLAIN])
def test_a_plain_loader_writes_the_same(opened, tmp_path, name):
    ctx, _, trained = opened(name)
    folder = tmp_path / "model"
    shutil.copytree(model_of(ctx), folder)
    assert prepare(folder)[0] == PLAIN[name]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    if PLAIN[name] == "peft":
        model = peft.PeftModel.from_pretrained(model, folder / "prefix")
    prompts = ["hello", "my order is", "thank"]
    expected = trained.generate(prompts, max_new_tokens=12, temperature=0)
    for prompt, ([text],) in zip(prompts, ([found] for found in expected), strict=True):
        ids = torch.tensor([trained._encoder.prompt(prompt)])
        written = model.generate(input_ids=ids, do_sample=False, max_new_tokens=12)[0, ids.shape[1] :]
        assert tokenizer.decode(written, skip_special_tokens=True).strip() == text
    for family in (tokenizer, model):
        assert type(family).__module__.split(".")[0] in ("transformers", "peft")


def test_what_no_text_may_hold_no_loader_writes(opened, tmp_path):
    ctx, _, trained = opened("gpt2 from scratch")
    folder = tmp_path / "model"
    shutil.copytree(model_of(ctx), folder)
    prompt = trained._encoder.prompt("hello")
    with torch.no_grad():
        likeliest = int(trained.model(torch.tensor([prompt])).logits[0, -1].argmax())
    weights = load_file(folder / "model.safetensors")
    weights["transformer.wte.weight"][trained.control.mask] = 2 * weights["transformer.wte.weight"][likeliest]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    def written():
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        return model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=1)[0, -1]

    assert written() == trained.control.mask
    prepare(folder)
    assert written() != trained.control.mask


def test_an_lstm_says_what_opens_it(opened, tmp_path):
    ctx, _, _ = opened("lstm")
    shutil.copytree(model_of(ctx), tmp_path / "model")
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    loader, (note,) = prepare(tmp_path / "model")
    assert loader == "recurrent"
    assert "open_trained" in note
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}


def test_classifiers_and_other_folders_are_refused(tmp_path, families):
    ctx = train(tmp_path, families, "head", "no_dp", epochs=1)
    with pytest.raises(ConfigError, match="classifier"):
        open_trained(model_of(ctx))
    with pytest.raises(ConfigError, match="Reticent trained"):
        open_trained(families["gpt2"])
    with pytest.raises(ConfigError, match="no model folder") as caught:
        open_trained(tmp_path / "quackenbush")
    assert "quackenbush" not in str(caught.value)


def test_a_damaged_folder_is_told_from_a_good_one(opened, tmp_path):
    ctx, _, _ = opened("gpt2 from scratch")
    for name, content in (("model.safetensors", b"no weights"), ("config.json", b"{"), ("reticent.json", b"[]")):
        folder = tmp_path / name
        shutil.copytree(model_of(ctx), folder)
        (folder / name).write_bytes(content)
        with pytest.raises(ConfigError, match="damaged"):
            open_trained(folder, device="cpu")


@pytest.mark.parametrize("name", ["gpt2 from scratch", "lstm", "prefix", "masks asked for"])
def test_a_folder_of_the_first_version_is_told_its_task(opened, tmp_path, name):
    ctx, rows, trained = opened(name)
    folder = tmp_path / "model"
    shutil.copytree(model_of(ctx), folder)
    (folder / "reticent.json").write_text(json.dumps({"schema_version": 1, "method": trained.method}))
    with pytest.raises(ConfigError, match=r"pass the value of train\.task"):
        open_trained(folder, device="cpu")
    if name == "masks asked for":
        with pytest.raises(ConfigError, match="which control tokens"):
            open_trained(folder, device="cpu", task="language_modelling")
        return
    old = open_trained(folder, device="cpu", task="language_modelling")
    assert old.control == trained.control
    assert old.losses(r for _, r in rows).perplexity == pytest.approx(trained.losses(r for _, r in rows).perplexity)
    with pytest.raises(ConfigError, match="not for 'dialogue'"):
        open_trained(model_of(ctx), device="cpu", task="dialogue")


def test_scores_of_one_record_depend_on_no_other(opened):
    _, _, trained = opened("gpt2 from scratch")
    texts = ["may I see it", "x", "may I wait here now, or call you then, or go on and on and on and on", "x" * 500]
    together, encoded = trained.losses(texts), trained.encode(texts)
    for number, text in enumerate(texts):
        np.testing.assert_allclose(together.of(number), trained.losses([text]).of(0), rtol=1e-4, atol=1e-5)
    assert encoded.num_truncated == 2
    assert encoded.lengths.max() == trained.context_length
    nothing = trained.losses([])
    assert len(nothing.records) == 0
    assert np.isnan(nothing.perplexity)
    masked = trained.losses(["<MASK>"])
    assert (masked.num_tokens[0], masked.per_record[0]) == (0, 0.0)
    assert np.isnan(masked.mean[0])


@pytest.mark.slow
def test_marked_pieces_are_encoded_by_themselves(opened):
    _, _, trained = opened("lstm with marked tokens")
    record = Record(texts=["I am Abra, may I"], speakers=["USR"], private_chars=[[(5, 9)]])
    plain = Record(texts=["I am Abra, may I"], speakers=["USR"])
    # Bytes: pieces are cut alike. The record is checked to be read, and the model to score it.
    assert trained.encode([record]).ids.tolist() == trained.encode([plain]).ids.tolist()
    assert trained.losses([record]).num_tokens[0] == len(record.texts[0]) + 1


@pytest.mark.parametrize("record", [Record(texts=[]), Record(texts="ab"), Record(texts=["a", "b"], speakers=["USR"])])
def test_records_that_do_not_fit_together_are_refused(opened, record):
    with pytest.raises(ConfigError, match="record"):
        opened("gpt2 from scratch")[2].encode([record])


def test_targets_of_all_records_are_those_of_each(opened):
    rng = np.random.default_rng(5)
    for name in ("gpt2 from scratch", "masks asked for", "pretrained"):
        control = opened(name)[2].control
        lengths = rng.integers(1, 9, size=200)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        ids = rng.integers(0, 14, size=offsets[-1]).astype(np.int32)  # control tokens and a few bytes
        found = targets_of(ids, offsets, control)
        for start, stop in pairwise(offsets):
            row = ids[start:stop].astype(np.int64)
            np.testing.assert_array_equal(found[start:stop], target_positions(row, control))


@pytest.mark.parametrize("name", ["gpt2 from scratch", "lstm", "prefix"])
def test_it_writes_texts(opened, name):
    _, _, trained = opened(name)
    prompts = ["may I", Record(texts=["may I see it now", ""], speakers=["USR", "USR"])]
    texts = trained.generate(prompts, num=3, max_new_tokens=8, seed=7)
    assert [len(found) for found in texts] == [3, 3]
    assert texts == trained.generate(prompts, num=3, max_new_tokens=8, seed=7)
    assert texts != trained.generate(prompts, num=3, max_new_tokens=8, seed=8)
    assert trained.generate(["may I"], num=8, max_new_tokens=8) != trained.generate(["may I"], num=8, max_new_tokens=8)
    assert not any(token in text for found in texts for text in found for token in (*RESERVED, "<USR>"))
    greedy = trained.generate(["may I"], temperature=0, max_new_tokens=8)
    assert greedy == trained.generate(["may I"], top_k=1, max_new_tokens=8)
    assert greedy == trained.generate(["may I"], top_p=1e-9, max_new_tokens=8)
    assert trained.generate([]) == []
    with pytest.raises(ConfigError, match="leaves no room"):
        trained.generate(["may I " * 20], max_new_tokens=20)
    with pytest.raises(ConfigError, match="temperature"):
        trained.generate(["may I"], temperature=-1.0, max_new_tokens=2)


def test_greedy_text_has_the_likeliest_tokens(opened):
    for name in ("gpt2 from scratch", "lstm"):
        _, _, trained = opened(name)
        control = trained.control
        ((text,),) = trained.generate(["may I"], temperature=0, max_new_tokens=4)
        forbidden = [*control.never_predicted.tolist(), *(control.ends - {control.eos})]
        ids, written = trained.encode(["may I"]).ids[:-1].tolist(), []
        for _ in range(4):
            with torch.no_grad():
                logits = trained.model(torch.tensor([[*ids, *written]])).logits[0, -1]
            logits[forbidden] = -np.inf
            written.append(int(logits.argmax()))
            if written[-1] == control.eos:
                written.pop()
                break
        assert text == trained.vocabulary.tokenizer.decode(written).strip()


def test_beams_are_for_transformers(opened):
    _, _, trained = opened("gpt2 from scratch")
    assert trained.generate(["may I"], num_beams=3, max_new_tokens=4) == trained.generate(
        ["may I"], num_beams=3, max_new_tokens=4
    )
    with pytest.raises(ConfigError, match="one text per prompt"):
        trained.generate(["may I"], num_beams=3, num=2, max_new_tokens=4)
    with pytest.raises(ConfigError, match="LSTM and GRU have no beam search"):
        opened("lstm")[2].generate(["may I"], num_beams=3, max_new_tokens=4)


@pytest.mark.parametrize("commit", COMMITS)
def test_models_of_earlier_versions_score_what_they_did(tmp_path, commit):
    """Their folders do not say how records were encoded; that is told from the order of the control tokens."""
    private = unpack(commit, tmp_path) / "store/private"
    (folder,) = {path.resolve() for path in (private / "latest").glob("private_model")} | {
        path.resolve() for path in (private.parent / "public/latest").glob("model")
    }
    trained_figures = json.loads((private / "objects/train" / folder.parent.name / "figures.json").read_text())
    trained = open_trained(folder, device="cpu", task=trained_figures["task"])
    (evaluated,) = {path.resolve().parent for path in (private / "latest/token_scores").glob("*.parquet")} or {
        private / "objects/train" / folder.parent.name  # before the stage `evaluate` was one of its own
    }
    figures = json.loads((evaluated / "figures.json").read_text())
    scores = pl.read_parquet(evaluated / "token_scores.parquet")
    sentences = pl.read_parquet(private / "latest/sentences/*.parquet")
    rows = scores.join(sentences, on=["doc_id", "sentence_index"], how="inner").to_dicts()
    assert len(rows) == figures["num_eval_sentences"]
    losses = trained.losses(Record(texts=[r["text"]], speakers=[r["speaker"]], domains=[r["domain"]]) for r in rows)
    assert losses.perplexity == pytest.approx(figures["perplexity"], rel=1e-5)
