"""Tasks: what is read, what is asked for, and what it scores."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.small_models import coding, load_model, write
from support.tiny import rows_of

from pipelines.errors import ConfigError, InputError
from pipelines.training.data.held_out import HeldOut
from pipelines.training.models.adaptation import Adaptation
from pipelines.training.models.loading import padding_of
from pipelines.training.models.losses import example_losses
from pipelines.training.scoring.evaluation import evaluate, evaluate_classes
from pipelines.training.scoring.generation import BeamSearch, generate
from pipelines.training.tasks.classification import Classification, class_number
from pipelines.training.tasks.dialogue import dialogue_example
from pipelines.training.tasks.head import HeadClassification
from pipelines.training.tasks.infilling import Infilling
from pipelines.training.tasks.registry import TASKS
from pipelines.training.tasks.responses import SELF, Responses, reply_prompts
from pipelines.training.tasks.spec import GenerationSettings
from pipelines.training.tasks.table_to_text import table_example, table_prompt
from pipelines.training.tasks.templates import TEMPLATES, Template

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def roberta(families):
    return load_model(families["roberta"], "masked", seed=0)


@pytest.fixture(scope="module")
def gpt2(families):
    return load_model(families["gpt2"], "causal", seed=0, speakers=TASKS["response"].speakers)


def _collated(task, examples, folder):
    return write(examples, task.padding, folder, by_class=True).collate(np.arange(len(examples))).to(CPU, torch.float32)


@pytest.mark.parametrize("name", list(TEMPLATES))
def test_templates_are_filled_as_in_table_10(roberta, name):
    template = TEMPLATES[name]
    second = "a pub" if template.takes_pairs else None
    label = next(iter(template.label_words))
    example = Infilling(template, roberta).example("The Mill", second, 0)
    text = roberta.vocabulary.tokenizer.decode(example.ids)
    expected = {
        "sst2": "<s>The Mill It was<mask> .</s>",
        "mnli": "<s>The Mill ?<mask> , a pub</s>",
        "qnli": "<s>The Mill ?<mask> , a pub</s>",
        "qqp": "<s>The Mill<mask> , a pub</s>",
    }
    assert text == expected[name]
    # It is what the model's own tokenizer makes of the whole sentence.
    whole = {
        "sst2": "The Mill It was <mask> .",
        "mnli": "The Mill ? <mask> , a pub",
        "qnli": "The Mill ? <mask> , a pub",
        "qqp": "The Mill <mask> , a pub",
    }
    assert example.ids == roberta.vocabulary.tokenizer(whole[name])["input_ids"]
    blank = example.ids.index(roberta.vocabulary.control.mask)
    assert [at for at, label in enumerate(example.labels) if label != -100] == [blank]
    assert roberta.vocabulary.tokenizer.decode([example.labels[blank]]) == " " + template.label_words[label]


def test_the_templates_own_mask_is_found_by_its_index_among_redaction_masks(roberta, tmp_path):
    task = Infilling(TEMPLATES["sst2"], roberta)
    text = "<MASK> is <MASK> great"
    example = task.example(text, None, 1)
    masks = [at for at, token in enumerate(example.ids) if token == roberta.vocabulary.control.mask]
    assert len(masks) == 3
    assert [at for at, label in enumerate(example.labels) if label != -100] == [masks[2]]
    batch = _collated(task, [example, task.example("It was terrible .", None, 0)], tmp_path)
    losses = Classification(task).example_losses(roberta.model, batch)
    with torch.no_grad():
        logits = roberta.model(input_ids=torch.tensor([example.ids])).logits[0]
    words = logits[masks[2], task.label_ids]
    assert torch.allclose(task.class_logits(roberta.model, batch)[0], words, atol=1e-5)
    assert losses[0].item() == pytest.approx(-torch.log_softmax(words, 0)[1].item(), abs=1e-5)
    other = logits[masks[0], task.label_ids]  # a redaction mask's output is another one
    assert not torch.allclose(other, words, atol=1e-3)


@pytest.mark.parametrize("family", ["roberta", "bert"])
@settings(max_examples=15, deadline=None)
@given(words=st.lists(st.sampled_from(["<MASK>", "great", "<mask>", "[MASK]", "</s>", "a"]), max_size=8))
def test_no_text_moves_the_blank(families, family, words):
    loaded = load_model(families[family], "masked", seed=0)
    example = Infilling(TEMPLATES["sst2"], loaded).example(" ".join(words), None, 1)
    mask = loaded.vocabulary.control.mask
    assert example.ids.count(mask) == words.count("<MASK>") + 1
    blank = next(at for at, label in enumerate(example.labels) if label != -100)
    assert blank == max(at for at, token in enumerate(example.ids) if token == mask)


def test_too_long_a_text_loses_its_end_and_never_the_template(roberta):
    short = load_model(roberta.vocabulary.tokenizer.name_or_path, "masked", seed=0, context_length=20)
    task = Infilling(TEMPLATES["mnli"], short)
    example = task.example("The Mill " * 30, "a pub", 1)
    assert example.is_cut
    assert len(example.ids) == 20
    assert short.vocabulary.tokenizer.decode(example.ids).endswith("?<mask> , a pub</s>")
    long_both = task.example("The Mill " * 30, "area " * 30, 1)
    assert len(long_both.ids) == 20
    assert short.vocabulary.control.mask in long_both.ids


def test_a_label_never_seen_and_a_word_of_two_tokens_are_refused(roberta, gpt2):
    task = Infilling(TEMPLATES["sst2"], roberta)
    with pytest.raises(InputError, match="negative, positive"):
        class_number(task.classes, "mixed")
    with pytest.raises(InputError, match="different numbers of texts"):
        task.example("It was", "great", 1)
    with pytest.raises(ConfigError, match="'flabbergasting'"):
        Infilling(Template(pattern="{first} {blank}", label_words={"a": "flabbergasting", "b": "great"}), roberta)
    with pytest.raises(ConfigError, match="masked language model"):
        Infilling(TEMPLATES["sst2"], gpt2)
    with pytest.raises(ConfigError, match="of its own"):
        Template(pattern="{first} {blank}", label_words={"a": "great", "b": "great"})
    with pytest.raises(ConfigError, match="once each"):
        Template(pattern="{first}", label_words={"a": "great", "b": "terrible"})


def _learn(model, losses_of, batch, steps=30):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    first = last = None
    for _ in range(steps):
        loss = losses_of(model, batch).mean()
        last = loss.item()
        first = last if first is None else first
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return first, last


ROWS = [("It was great", 1), ("It was terrible", 0), ("great , great", 1), ("terrible", 0)]


def test_labels_are_names_or_as_in_glue_numbers():
    classes = ("negative", "positive")
    assert [class_number(classes, label) for label in ("positive", "negative", "1", "0")] == [1, 0, 1, 0]
    assert class_number(("2", "0"), "0") == 1  # classes that have numbers for names
    for wrong in ("2", "-1", "POSITIVE", "", "½"):
        with pytest.raises(InputError, match="negative, positive"):
            class_number(classes, wrong)


def test_infilling_learns_and_is_scored(families, tmp_path):
    loaded = load_model(families["roberta"], "masked", seed=0)
    task = Infilling(TEMPLATES["sst2"], loaded)
    examples = [task.example(text, None, label) for text, label in ROWS]
    examples.append(task.example("It was", None, None))
    records = write(examples, task.padding, tmp_path, by_class=True)
    losses = Classification(task).example_losses
    batch = records.collate(np.arange(4)).to(CPU, torch.float32)
    first, last = _learn(loaded.model, losses, batch)
    assert last < first / 2
    scores = evaluate_classes(loaded.model, task, records)
    assert (scores.accuracy, scores.num_sentences) == (1.0, 4)
    assert scores.loss == pytest.approx(losses(loaded.model, batch).mean().item(), rel=1e-4)
    assert scores.accuracy_by_class == {"negative": 1.0, "positive": 1.0}
    assert records.num_targets.tolist() == [1, 1, 1, 1, 0]
    with_unknown = losses(loaded.model, records.collate(np.arange(5)).to(CPU, torch.float32))
    assert with_unknown[4] == 0
    assert torch.allclose(with_unknown[:4], losses(loaded.model, batch), atol=1e-4)


@pytest.mark.parametrize("family", ["roberta", "bert", "gpt2"])
def test_a_head_learns_and_is_scored(families, family, tmp_path):
    loaded = load_model(families[family], "classification", num_labels=2, seed=0)
    task = HeadClassification(("negative", "positive"), loaded)
    examples = [task.example(text, None, label) for text, label in ROWS]
    records = write(examples, task.padding, tmp_path, by_class=True)
    losses = Classification(task).example_losses
    batch = records.collate(np.arange(4)).to(CPU, torch.float32)
    each = losses(loaded.model, batch)
    alone = write(examples[:1], task.padding, tmp_path / "one", by_class=True)
    assert torch.allclose(
        losses(loaded.model, alone.collate(np.arange(1)).to(CPU, torch.float32))[0], each[0], atol=1e-5
    )
    first, last = _learn(loaded.model, losses, batch)
    assert last < first / 2
    scores = evaluate_classes(loaded.model, task, records)
    assert scores.accuracy == 1.0
    wrong = write([task.example(t, None, 1 - n) for t, n in ROWS], task.padding, tmp_path, by_class=True)
    assert evaluate_classes(loaded.model, task, wrong).accuracy == 0.0


@pytest.mark.parametrize(("family", "between"), [("roberta", 2), ("bert", 1), ("gpt2", 1)])
def test_pairs_are_joined_as_the_model_is_used_to(families, family, between):
    loaded = load_model(families[family], "classification", num_labels=2, seed=0, context_length=16)
    task = HeadClassification(("no", "yes"), loaded)
    example = task.example("area", "pub", 1)
    first, second = loaded.vocabulary.encoder.ids(["area", "pub"])
    end = [loaded.vocabulary.control.eos]
    assert example.ids == [loaded.vocabulary.control.bos, *first, *end * between, *second, *end]
    if family != "gpt2":
        own = loaded.vocabulary.tokenizer("area", "pub")
        assert example.ids == own["input_ids"]
    assert example.token_types == [0] * (1 + len(first) + between) + [1] * (len(second) + 1)
    long = task.example("area " * 20, "pub", 0)
    assert (len(long.ids), long.is_cut) == (16, True)
    with pytest.raises(ConfigError, match="3 classes"):
        HeadClassification(("a", "b", "c"), loaded)


def test_the_loss_is_on_the_description_only(gpt2):
    table = "name : The Mill | area : riverside"
    example = table_example(table, "The Mill is a <MASK> pub", *coding(gpt2), 64)
    prompt, answer = gpt2.vocabulary.encoder.ids([table, "The Mill is a <MASK> pub"])
    control = gpt2.vocabulary.control
    assert [*example.ids, control.eos] == [control.bos, *prompt, control.bos, *answer, control.eos]
    assert [t for t in example.labels if t != -100] == [*(t for t in answer if t != control.mask), control.eos]
    assert example.labels[: len(prompt) + 1] == [-100] * (len(prompt) + 1)
    assert not example.is_cut
    cut = table_example(table, "The Mill is a pub " * 20, *coding(gpt2), 24)
    assert (len(cut.ids), cut.is_cut) == (23, True)
    assert sum(label != -100 for label in cut.labels) >= 12  # the answer keeps half at least
    assert len(table_prompt(table, gpt2.vocabulary.encoder, control, 24, 10)) <= 14


def test_beam_search_writes_what_was_learnt_and_no_control_token(families, tmp_path):
    loaded = load_model(families["gpt2"], "causal", seed=0)
    data = {"pub": "The Mill is a pub.", "area": "It was great."}
    examples = [table_example(f"Type : {key}", text, *coding(loaded), 48) for key, text in data.items()]
    batch = write(examples, padding_of(loaded), tmp_path).collate(np.arange(2)).to(CPU, torch.float32)
    _, last = _learn(loaded.model, example_losses, batch, steps=100)
    assert last < 0.2
    prompts = [table_prompt(f"Type : {key}", *coding(loaded), 48, 20) for key in data]
    how = BeamSearch(num_beams=3, max_new_tokens=20)
    found = generate(loaded.model, loaded.vocabulary.tokenizer, prompts, loaded.vocabulary.control, how)
    assert found == list(data.values())
    one_by_one = BeamSearch(num_beams=3, max_new_tokens=20, batch_size=1)
    assert generate(loaded.model, loaded.vocabulary.tokenizer, prompts, loaded.vocabulary.control, one_by_one) == found
    # A model that wants to write masks is not let.
    with torch.no_grad():
        loaded.model.get_input_embeddings().weight[loaded.vocabulary.control.mask] = 10.0
        loaded.model.transformer.ln_f.weight.zero_()
        loaded.model.transformer.ln_f.bias.fill_(1.0)
        first = loaded.model(input_ids=torch.tensor([prompts[0]])).logits[0, -1].argmax()
        assert first == loaded.vocabulary.control.mask
    short = BeamSearch(num_beams=2, max_new_tokens=4)
    [text] = generate(loaded.model, loaded.vocabulary.tokenizer, prompts[:1], loaded.vocabulary.control, short)
    assert "<MASK>" not in text


@pytest.mark.parametrize("hidden", [None, 8])
def test_a_model_with_a_prefix_generates(families, hidden):
    adaptation = Adaptation(kind="prefix", prefix_length=3, prefix_hidden=hidden)
    loaded = load_model(families["llama"], "causal", seed=0, adaptation=adaptation)
    texts = generate(
        loaded.model,
        loaded.vocabulary.tokenizer,
        [[0, 5, 6], [0, 7]],
        loaded.vocabulary.control,
        BeamSearch(num_beams=2, max_new_tokens=5),
    )
    assert len(texts) == 2


TURNS = [
    *(("PERSONA", "i like pubs."), ("PERSONA", "my name is John.")),
    *(("PARTNER", "hello"), (SELF, "The Mill is great")),
    *(("PARTNER", "where is it"), (SELF, "in the riverside area")),
]


def _reply_example(turns, loaded, context_length):
    return dialogue_example(rows_of(turns), *coding(loaded), context_length, learn_speakers=(SELF,))


def test_a_conversation_is_one_record_whose_replies_are_learnt(gpt2):
    example = _reply_example(TURNS, gpt2, 128)
    replies = gpt2.vocabulary.encoder.ids([TURNS[3][1], TURNS[5][1]])
    eos = gpt2.vocabulary.control.eos
    assert [t for t in example.labels if t != -100] == [*replies[0], eos, *replies[1], eos]
    assert example.ids[1] == gpt2.vocabulary.control.speakers["PERSONA"]


def test_reply_prompts_keep_the_persona_and_drop_the_oldest_turns(gpt2):
    control = gpt2.vocabulary.control
    prompts = reply_prompts(rows_of(TURNS), gpt2.vocabulary.encoder, control, 128, 20)
    assert [prompt.reference for prompt in prompts] == [TURNS[3][1], TURNS[5][1]]
    # Each is the beginning of the record that is trained on.
    record = list(_reply_example(TURNS, gpt2, 128).ids)
    for prompt in prompts:
        assert record[: len(prompt.ids)] == prompt.ids
    short = reply_prompts(rows_of(TURNS), gpt2.vocabulary.encoder, control, len(prompts[1].ids) - 1 + 20, 20)[1].ids
    assert short[1] == control.speakers["PERSONA"]
    assert short[-1] == control.speakers[SELF]
    assert short.count(control.speakers["PARTNER"]) == 1
    assert short.count(control.speakers[SELF]) == 2  # the reply before it, and the one to come
    assert len(reply_prompts(rows_of(TURNS), gpt2.vocabulary.encoder, control, 30, 20)[1].ids) <= 10


def test_perplexity_of_replies_is_over_replies_only(gpt2, tmp_path):
    records = write([_reply_example(TURNS, gpt2, 64)] * 2, padding_of(gpt2), tmp_path)
    batch = records.collate(np.arange(2)).to(CPU, torch.float32)
    expected = torch.exp(example_losses(gpt2.model, batch)).mean().item()
    held_out = HeldOut(records=records, documents=np.arange(2), num_available=2)
    found = evaluate(gpt2.model, held_out)
    assert found.perplexity == pytest.approx(expected, rel=1e-4)
    assert found.num_tokens == 2 * int(records.num_targets[0])
    assert found.perplexity_per_word is None
    nothing = HeldOut(records=write([], padding_of(gpt2), tmp_path / "none"), documents=np.arange(0), num_available=0)
    assert evaluate(gpt2.model, nothing).perplexity is None


ASKED = [("hello", "The Mill is great"), ("where is it", "in the riverside area"), ("what is it", "a cheap pub .")]


def _ranked(loaded, asked, num, folder):
    """Scores of replies to questions, a dialogue each."""
    turns = [[("PARTNER", question), (SELF, reply)] for question, reply in asked]
    task = Responses(loaded, GenerationSettings(task="response", num_distractors=num, max_new_tokens=4, num_beams=1))
    records = write([task.example(rows_of(each)) for each in turns], padding_of(loaded), folder)
    held_out = HeldOut(
        records=records, documents=np.arange(len(turns)), num_available=len(turns), rows=list(map(rows_of, turns))
    )
    return task, task.scores(loaded.model, held_out, lambda *_: None).figures


@pytest.mark.slow
def test_a_reply_is_ranked_among_those_of_other_dialogues(families, tmp_path):
    loaded = load_model(families["gpt2"], "causal", seed=0, speakers=TASKS["response"].speakers)
    examples = [_reply_example([("PARTNER", question), (SELF, reply)], loaded, 64) for question, reply in ASKED]
    batch = write(examples, padding_of(loaded), tmp_path).collate(np.arange(3)).to(CPU, torch.float32)
    _learn(loaded.model, example_losses, batch)
    task, figures = _ranked(loaded, ASKED, 2, tmp_path)
    assert (figures["hits_at_1"], figures["num_distractors"]) == (1.0, 2)
    wrong = [(question, reply) for (question, _), (_, reply) in zip(ASKED, ASKED[1:] + ASKED[:1], strict=True)]
    assert _ranked(loaded, wrong, 2, tmp_path)[1]["hits_at_1"] == 0.0
    assert "hits_at_1" not in _ranked(loaded, ASKED, 0, tmp_path)[1]
    few = _ranked(loaded, ASKED, 3, tmp_path)[1]
    assert few["hits_at_1"] is None
    assert few["hits_at_1_reason"].startswith("a dialogue has 2 replies of others")
    # The same reply in two dialogues is no distractor of either.
    assert _ranked(loaded, [*ASKED, ("hello again", ASKED[0][1])], 3, tmp_path)[1]["hits_at_1"] is None
    # A reply's loss is that of its record.
    ids = reply_prompts(rows_of([("PARTNER", ASKED[0][0]), (SELF, "")]), *coding(loaded), 64, 20)[0].ids
    losses = task._reply_losses(loaded.model, ids, [reply for _, reply in ASKED])
    records = [_reply_example([("PARTNER", ASKED[0][0]), (SELF, reply)], loaded, 64) for _, reply in ASKED]
    batch = write(records, padding_of(loaded), tmp_path).collate(np.arange(3)).to(CPU, torch.float32)
    assert torch.allclose(losses, example_losses(loaded.model, batch), atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5), data=st.data())
def test_weights_sum_to_one_inside_each_example(tmp_path_factory, lengths, data):
    from pipelines.training.data.records import Padding
    from pipelines.training.data.task_examples import Example

    examples = []
    for length in lengths:
        labels = data.draw(st.lists(st.sampled_from([-100, 3]), min_size=length, max_size=length))
        examples.append(Example(ids=[5] * length, labels=labels))
    records = write(examples, Padding(pad=0), tmp_path_factory.mktemp("weights"))
    batch = records.collate(np.arange(len(lengths)))
    expected = [1.0 if any(label != -100 for label in e.labels) else 0.0 for e in examples]
    assert batch.weights.sum(dim=1).tolist() == pytest.approx(expected)
    assert ((batch.weights > 0).sum(dim=1).numpy() == records.num_targets).all()
    assert batch.position_ids.shape == batch.inputs.shape
    assert (records.num_targets == 0).sum() == expected.count(0.0)


def test_changing_one_row_changes_one_example(gpt2, tmp_path):
    def ids(texts, name):
        examples = [table_example("name : A", text, *coding(gpt2), 64) for text in texts]
        records = write(examples, padding_of(gpt2), tmp_path / name)
        return [records.ids[at].tolist() for at in range(len(records))]

    before = ids(["It was great"] * 3, "a")
    after = ids(["It was great", "It was " * 9, "It was great"], "b")
    assert [at for at in range(3) if before[at] != after[at]] == [1]
