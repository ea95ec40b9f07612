"""Every task through the train stage: what is learnt, what is scored, and which settings do not go together."""

import pytest
import torch
from pydantic import ValidationError
from stage_corpora import artifacts, write_corpus
from support.evaluations import evaluated, figures_of
from support.imports import loaded_after
from support.tables import read_table, table_writer
from test_stage_train_methods import SMALL, read, run
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from pipelines.accounting.facts import parse_training
from pipelines.errors import ConfigError, InputError
from pipelines.settings.train import TrainConfig

SIZES = ("num_layers", "num_heads", "embedding_size")
QUICK = {"epochs": 3, "jft_phase1_epochs": 3, "noise_multiplier": 0.3, "target_epsilon": None, "tokenizer": "auto"}
NAMES = ["Ann", "Bob", "Cleo", "Dan"]
SENTIMENTS = {"positive": "It was great", "negative": "It was terrible"}


def rows_of(task):
    """(document, index, original, secret, speaker, label, fold)."""
    found = []
    for number in range(30):
        fold = "test" if number >= 24 else "train"
        name = NAMES[number % 4] if number % 2 else None
        if task == "table_to_text":
            place = ("pub", "area")[number // 2 % 2]
            table = f"name[{name or 'The Mill'}], Type[{place}]"
            found.append((number, 0, f"{table} || The Mill is a {place}.", name, None, None, fold))
        elif task == "classification":
            label = ("positive", "negative")[number // 2 % 2]
            said = f"{SENTIMENTS[label]} {name}" if name else SENTIMENTS[label]
            found.append((number, 0, said, name, None, label, fold))
        else:
            turns = [("PERSONA", "i like pubs."), ("PARTNER", f"I am {name}" if name else "hello")]
            turns += [("SELF", "The Mill is great"), ("PARTNER", "where is it"), ("SELF", "in the area")]
            for index, (speaker, text) in enumerate(turns):
                secret = name if name and name in text else None
                found.append((number, index, text, secret, speaker, None, fold))
    if task in ("table_to_text", "classification"):  # a later copy: nothing of it is left
        label = "positive" if task == "classification" else None
        found.append((30, 0, found[0][2], found[0][2], None, label, "train"))
    return found


def corpus(folder, rows):
    write_corpus(folder, rows)
    (folder / "estimate/figures.json").write_text("{}")
    table_writer(folder / "estimate/screened.parquet", "shard").close()
    return artifacts(folder)


TASKS = {
    "dialogue": ("gpt2", {"task": "dialogue"}),
    "response": ("llama", {"task": "response", "max_new_tokens": 8, "num_beams": 2, "max_generated": 3}),
    "table_to_text": ("gpt2", {"task": "table_to_text", "max_new_tokens": 12, "num_beams": 2, "max_generated": 3}),
    "infilling": ("roberta", {"task": "classification", "template": "sst2"}),
    "head": ("bert", {"task": "classification", "classes": ("negative", "positive")}),
}
METHODS = ("crt", "dpsgd", "jft direct", "redaction_schedule", "redacted", "anonymized", "no_dp")
COVERED = {
    *(("anonymized", "dialogue"), ("jft direct", "response"), ("dpsgd", "table_to_text")),
    *(("redacted", "table_to_text"), ("redaction_schedule", "head"), ("no_dp", "head")),
}
"""One of nearly each method and of each task (crt, and what fills a blank in, is below); the others are long tests."""
COMBINATIONS = [
    (method, name) for name, (_, changes) in TASKS.items() for method in METHODS
    if not (method == "anonymized" and changes["task"] == "classification")
]  # fmt: skip


def train(folder, families, name, method, rows=None, **changes):
    family, settings = TASKS[name]
    rows = rows_of(settings["task"]) if rows is None else rows
    settings = {
        **QUICK,
        **dict.fromkeys(SIZES),
        "model": families[family],
        "model_is_public": True,
        "speakers": (),
        **settings,
        **changes,
    }
    return run(folder / "run", corpus(folder / "corpus", rows), method, **settings)


@pytest.mark.parametrize(
    ("method", "name"),
    [pytest.param(*pair, marks=() if pair in COVERED else pytest.mark.slow) for pair in COMBINATIONS],
)
def test_every_method_learns_every_task_that_makes_sense(tmp_path, families, method, name):
    ctx = train(tmp_path, families, name, method)
    figures = figures_of(ctx)
    task = TASKS[name][1]["task"]
    assert figures["task"] == task
    if task == "classification":
        assert 0 <= figures["accuracy"] <= 1
        assert set(figures["accuracy_by_class"]) == {"negative", "positive"}
        assert (figures["perplexity"], figures["perplexity_reason"]) == (None, "a classification has none")
    else:
        assert figures["perplexity"] < figures["perplexity_at_initialisation"]
    scored = {"response": ("f1", "rouge_l"), "table_to_text": ("bleu", "nist", "cider")}.get(task, ())
    assert bool(figures["scores"]) == bool(scored)
    assert all(figures["scores"][score] is not None for score in scored)
    if scored:
        assert figures["scores"]["num_outputs"] == min(3, figures["scores"]["num_available"])
    facts = parse_training(read(ctx, "events.json"))
    assert facts.record == ("dialogue" if task in ("dialogue", "response") else "sentence")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), [("infilling", "no_dp"), ("head", "no_dp"), ("infilling", "dpsgd")])
def test_a_classifier_learns(tmp_path, families, name, method):
    """Random encoders find the word that matters only after a while, so the rows are few and say little else."""
    rows = [(*row[:2], SENTIMENTS[row[5]], None, *row[4:]) for row in rows_of("classification")[:30]]
    # Without noise, clipped sums teach what plain ones do.
    no_noise = {"noise_multiplier": 0.0, "insecure_test_seed": True, "expected_batch_size": 24}
    ctx = train(tmp_path, families, name, method, rows, epochs=40, public_batch_size=32, **no_noise)
    figures = figures_of(ctx)
    assert figures["accuracy"] == 1.0
    assert figures["accuracy_by_class"] == {"negative": 1.0, "positive": 1.0}
    assert figures["accuracy_at_initialisation"] < 1
    curve = read(ctx, "curves.json")["epochs"]
    loss = "public_loss" if method == "no_dp" else "private_loss"
    # The smallest, because a step of Adam at a loss near zero may throw it up again, with other noise in each run.
    assert min(point[loss] for point in curve) < 0.3 * curve[0][loss]


@pytest.mark.slow
def test_a_wholly_masked_row_counts_and_teaches_nothing(tmp_path, families):
    for name in ("table_to_text", "infilling"):
        ctx = train(tmp_path / name, families, name, "crt", epochs=1)
        figures = figures_of(ctx)
        assert figures["num_all_mask_records"] == 1
        assert figures["num_private_records"] == 13


@pytest.mark.parametrize(("name", "which"), [("table_to_text", "public"), ("infilling", "private")])
def test_a_task_with_no_public_or_no_private_rows(tmp_path, families, name, which):
    rows = rows_of(TASKS[name][1]["task"])
    kept = [row for row in rows if row[6] == "test" or (row[3] is None) == (which == "private")]
    ctx = train(tmp_path, families, name, "crt", kept, epochs=1)
    figures = figures_of(ctx)
    assert figures[f"num_{which}_records"] == 0
    assert (figures["num_steps"] == 0) == (which == "private")
    assert figures["num_eval_sentences"] == 6


@pytest.mark.slow
def test_what_a_classifier_is_saved_as(tmp_path, families):
    head = train(tmp_path / "head", families, "head", "crt", epochs=1, adaptation="lora")
    model = AutoModelForSequenceClassification.from_pretrained(head.out.public_folder / "model")
    assert model.config.id2label == {0: "negative", 1: "positive"}
    assert "pipeline_tag: text-classification" in (head.out.public_folder / "model/README.md").read_text()
    infilling = train(tmp_path / "infilling", families, "infilling", "crt", epochs=1)
    assert AutoModelForMaskedLM.from_pretrained(infilling.out.public_folder / "model").config.vocab_size > 0
    card = (infilling.out.public_folder / "model/README.md").read_text()
    assert "{first} It was {blank} ." in card
    assert "terrible" in card


@pytest.mark.parametrize("name", ["infilling", pytest.param("head", marks=pytest.mark.slow)])
def test_the_published_classifier_has_the_accuracy_that_is_stated(tmp_path, families, name):
    """By what a reader of its card does, with nothing of ours: a count by hand."""
    ctx = train(tmp_path, families, name, "crt", epochs=2, max_eval_sentences=6)
    figures, folder = figures_of(ctx), ctx.out.public_folder / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    kind = AutoModelForMaskedLM if name == "infilling" else AutoModelForSequenceClassification
    model = kind.from_pretrained(folder).eval()
    right = {"negative": [], "positive": []}
    for row in rows_of("classification"):
        if row[6] != "test":
            continue
        text = f"{row[2]} It was {tokenizer.mask_token} ." if name == "infilling" else row[2]
        batch = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            logits = model(**batch).logits[0]
        if name == "infilling":
            words = [tokenizer(f" {word}", add_special_tokens=False)["input_ids"] for word in ("terrible", "great")]
            (at,) = (batch["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0]
            logits = torch.stack([logits[at, ids[0]] for ids in words])
        right[row[5]].append(["negative", "positive"][int(logits.argmax())] == row[5])
    counts = {label: sum(found) / len(found) for label, found in right.items()}
    assert figures["accuracy_by_class"] == counts
    assert figures["accuracy"] == sum(map(sum, right.values())) / 6


def test_what_is_generated_is_kept_with_every_reference_of_the_fold(tmp_path, families):
    rows = [row for row in rows_of("table_to_text") if row[6] == "train"]
    for number, (table, text) in enumerate([("a : b", "One."), ("a : b", "Two."), ("c : d", "Three.")]):
        rows.append((100 + number, 0, f"{table} || {text}", None, None, None, "test"))
    for most, tables in ((1, 1), (3, 2)):
        ctx = train(tmp_path / str(most), families, "table_to_text", "no_dp", rows, epochs=1, max_eval_sentences=most)
        found = read_table(evaluated(ctx).out.folder / "generated.parquet", "generated").to_pylist()
        assert len(found) == tables == figures_of(ctx)["scores"]["num_outputs"]
        expected = {"a : b": ["One.", "Two."], "c : d": ["Three."]}
        for row in found:
            table = row["given"].replace("<|endoftext|>", "")
            assert sorted(row["references"]) == expected[table]
    ctx = train(tmp_path / "classes", families, "head", "no_dp", epochs=1)
    assert read_table(evaluated(ctx).out.folder / "generated.parquet", "generated").num_rows == 0


def numbered():
    """Labels as in GLUE's files."""
    rows = [list(row) for row in rows_of("classification")]
    for row in rows:
        row[5] = {"negative": "0", "positive": "1"}[row[5]]
    return rows


@pytest.mark.slow
def test_labels(tmp_path, families):
    rows = numbered()
    assert figures_of(train(tmp_path / "numbers", families, "infilling", "crt", rows, epochs=1))["accuracy"]

    held_out = [*rows, [40, 0, "It was great", None, None, None, "test"]]
    ctx = train(tmp_path / "unlabelled", families, "infilling", "crt", held_out, epochs=1)
    assert figures_of(ctx)["num_eval_sentences"] == 6  # one without a label is not scored

    only_negative = [row for row in rows if row[6] == "test" or row[5] == "0"]
    ctx = train(tmp_path / "unseen", families, "infilling", "no_dp", only_negative, epochs=1)
    assert set(figures_of(ctx)["accuracy_by_class"]) == {"negative", "positive"}  # known, and never seen


def test_labels_that_are_refused(tmp_path, families):
    rows = numbered()
    strange = [*rows, [41, 0, "It was great", None, None, "mixed", "train"]]
    with pytest.raises(InputError, match="none of negative, positive") as error:
        train(tmp_path / "strange", families, "infilling", "no_dp", strange)
    assert "mixed" not in str(error.value)  # what rows say is not for messages
    missing = [*rows, [42, 0, "It was great", None, None, None, "train"]]
    with pytest.raises(InputError, match="has no label"):
        train(tmp_path / "missing", families, "infilling", "no_dp", missing)


def test_a_corpus_of_another_task_is_refused(tmp_path, families):
    with pytest.raises(InputError, match="a row holds one text"):
        train(tmp_path / "table", families, "table_to_text", "no_dp", rows_of("classification"))
    with pytest.raises(InputError, match="takes two texts"):
        train(tmp_path / "pairs", families, "infilling", "no_dp", template="mnli")
    nobody = [(*row[:4], "USR", *row[5:]) for row in rows_of("response")]
    with pytest.raises(InputError, match="anything to learn"):
        train(tmp_path / "replies", families, "response", "no_dp", nobody)


def test_a_model_without_a_mask_token_cannot_fill_in_a_blank(tmp_path, families):
    with pytest.raises(ConfigError, match="not a masked language model"):
        train(tmp_path, families, "infilling", "crt", model=families["gpt2"])


def test_generated_text_has_to_fit_beside_its_prompt(tmp_path, families):
    with pytest.raises(ConfigError, match="max_new_tokens"):
        train(tmp_path, families, "table_to_text", "crt", context_length=32, max_new_tokens=30)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "dialogue", "record": "sentence"}, "a record of task = 'dialogue' is a dialogue"),
        ({"task": "table_to_text", "record": "block", "sentences_per_block": 2}, "is a sentence"),
        ({"task": "dialogue", "method": "sdpsgd_lstm"}, "the LSTM is a language model"),
        ({"task": "response", "model": "lstm"}, "the LSTM is a language model"),
        ({"task": "response", "model": "gru"}, "the GRU is a language model"),
        ({"task": "classification", "template": "sst2"}, "needs a pretrained model"),
        ({"task": "classification", "template": "sst2", "model": "smollm2", "method": "anonymized"}, "writes no text"),
        ({"task": "classification", "model": "smollm2", "adaptation": "prefix", "template": "sst2"}, "prefix"),
        ({"task": "classification", "model": "minilm"}, "at least two names"),
        ({"task": "classification", "model": "minilm", "classes": ("a", "a")}, "at least two names"),
        (
            {"task": "classification", "model": "minilm", "template": "sst2", "classes": ("a", "b")},
            "brings its classes",
        ),
        ({"task": "classification", "model": "minilm", "template": "{first} {blank}", "classes": ("a", "b")}, "a word"),
        ({"task": "classification", "model": "minilm", "template": "{first}"}, "once each"),
        ({"task": "translation"}, "language_modelling"),
    ],
)
def test_settings_that_do_not_go_together(settings, message):
    with pytest.raises(ValidationError, match=message):
        TrainConfig(**settings)


def test_one_line_chooses_a_task_and_what_it_does_not_use_enters_no_key():
    assert TrainConfig(task="dialogue").record == "dialogue"
    assert TrainConfig(**TrainConfig(task="response").model_dump()) == TrainConfig(task="response")
    keyed = TrainConfig(**SMALL).keyed("train")
    assert TrainConfig(**SMALL, num_beams=9, max_generated=9, max_new_tokens=9).keyed("train") == keyed
    assert TrainConfig(task="response", num_beams=9).keyed("train") != TrainConfig(task="response").keyed("train")
    plain, scored = (TrainConfig(task="response", num_distractors=number) for number in (0, 19))
    assert scored.keyed("train") == plain.keyed("train")  # hits@1 of a finished model is no reason to train it anew
    assert scored.keyed("evaluate") == {**plain.keyed("evaluate"), "num_distractors": 19}
    assert "num_distractors" in TrainConfig(**SMALL, num_distractors=19).idle() - scored.idle()
    assert TrainConfig(task="dialogue").code_references()[1] == "pipelines.training.tasks.dialogue"


def test_checking_a_task_loads_no_torch():
    loaded = loaded_after(
        "from pipelines.settings.train import TrainConfig;"
        "c = TrainConfig(task='classification', template='sst2', model='smollm2', adaptation='lora');"
        "c.code_references(); c.keyed(); c.data_files(); c.package_references()"
    )
    assert not {"torch", "transformers", "numpy", "huggingface_hub"} & loaded
