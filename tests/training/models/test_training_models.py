"""Loading, completing, freezing and saving models of four families."""

import importlib.metadata
import shutil

import numpy as np
import pytest
import torch
import transformers
from support.small_models import FAMILIES, coding, load_model, sentence_example, write
from support.tiny import rows_of

from pipelines.errors import ConfigError
from pipelines.training.data.task_examples import Example
from pipelines.training.data.vocabulary import learn_vocabulary
from pipelines.training.models.adaptation import Adaptation, adapt, blocks_of, count_parameters
from pipelines.training.models.loading import check_context, padding_of
from pipelines.training.models.losses import example_losses, logits_of
from pipelines.training.models.saving import PREFIX_FOLDER, save_model
from pipelines.training.models.sources import find_model
from pipelines.training.tasks.dialogue import dialogue_example

CAUSAL = [name for name, (_, kind) in FAMILIES.items() if kind == "causal"]
MASKED = [name for name, (_, kind) in FAMILIES.items() if kind == "masked"]


def load(families, family, **options):
    kind = options.pop("kind", FAMILIES[family][1])
    return load_model(families[family], kind, **{"seed": 1, **options})


def save(loaded, folder):
    save_model(loaded.model, loaded.vocabulary.tokenizer, folder, context_length=loaded.context_length)


@pytest.mark.parametrize("family", list(FAMILIES))
def test_a_model_gets_the_tokens_it_lacks_and_keeps_what_it_knows(families, family):
    loaded = load(families, family, speakers=("USR",))
    control = loaded.vocabulary.control
    plain = FAMILIES[family][1]
    before = {"causal": transformers.AutoModelForCausalLM, "masked": transformers.AutoModelForMaskedLM}[plain]
    before = before.from_pretrained(families[family])
    old_rows = before.get_input_embeddings().weight
    new_rows = loaded.model.get_input_embeddings().weight
    assert torch.equal(new_rows[: len(old_rows)], old_rows)
    if plain == "causal":
        assert loaded.vocabulary.tokenizer.mask_token == "<MASK>"
        assert (len(new_rows) - len(old_rows), loaded.num_new_tokens) == (2, 2)  # <MASK> and <USR>; no row for padding
        assert control.pad == control.eos
    else:
        assert loaded.vocabulary.tokenizer.mask_token != "<MASK>"
        assert control.mask == loaded.vocabulary.tokenizer.mask_token_id
        assert len(new_rows) - len(old_rows) == 1
    for row in new_rows[len(old_rows) :]:
        assert (row - old_rows.mean(dim=0)).abs().max() < old_rows.std()
    assert control.eos not in control.never_predicted
    assert control.mask in control.never_predicted
    output = loaded.model.get_output_embeddings().weight
    assert len(output) == len(new_rows)
    assert (output is new_rows) == (family != "llama")  # tied or not, as it came
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        assert torch.allclose(
            loaded.model(input_ids=ids).logits[..., : len(old_rows)], before(input_ids=ids).logits, atol=1e-5
        )


def test_adding_the_tokens_again_changes_nothing(families, tmp_path):
    loaded = load(families, "gpt2", speakers=("USR",))
    save(loaded, tmp_path / "one")
    again = load_model(str(tmp_path / "one"), "causal", seed=2, speakers=("USR",))
    assert again.num_new_tokens == 0
    assert again.vocabulary.control == loaded.vocabulary.control
    assert torch.equal(again.model.get_input_embeddings().weight, loaded.model.get_input_embeddings().weight)


@pytest.mark.parametrize("family", list(FAMILIES))
def test_text_cannot_write_control_tokens(families, family):
    loaded = load(families, family, speakers=("USR",))
    spelt = [token for token in loaded.vocabulary.tokenizer.all_special_tokens if token != "<MASK>"]
    text = "hello <MASK> area " + " ".join([*spelt, "<USR>"])
    ids = loaded.vocabulary.encoder.ids([text])[0]
    control = {*loaded.vocabulary.control.never_predicted.tolist(), loaded.vocabulary.control.eos}
    assert [i for i in ids if i in control] == [loaded.vocabulary.control.mask]
    # The check has power: the tokenizer alone does let them through.
    assert loaded.vocabulary.control.eos in loaded.vocabulary.tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("family", list(FAMILIES))
def test_text_is_encoded_as_by_the_models_own_tokenizer(families, family):
    loaded = load(families, family)
    text = "The Mill is a pub. It was great ."
    expected = loaded.vocabulary.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert loaded.vocabulary.encoder.ids([text]) == [expected]
    assert loaded.vocabulary.encoder.with_spans(text).ids == expected
    masked = loaded.vocabulary.encoder.with_spans("The <MASK> is a <MASK><MASK>")
    assert masked.ids == loaded.vocabulary.encoder.ids(["The <MASK> is a <MASK><MASK>"])[0]
    assert masked.ids.count(loaded.vocabulary.control.mask) == 3
    assert [masked.spans[i] for i, t in enumerate(masked.ids) if t == loaded.vocabulary.control.mask] == [
        (4, 10),
        (16, 22),
        (22, 28),
    ]


def _per_example_gradients(model, records):
    """One backward a row; rows in one padded batch."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    batch = records.collate(np.arange(len(records))).to(torch.device("cpu"), torch.float32)
    each = example_losses(model, batch)
    grads = [torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True) for loss in each]
    return each.detach(), grads


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("kind", ["full", "lora", "prefix", "top2", "scratch"])
def test_every_adaptation_has_a_loss_for_each_example_that_padding_does_not_touch(families, family, kind, tmp_path):
    loaded = load(families, family, adaptation=Adaptation(kind=kind, prefix_length=3))
    texts = ["The Mill", "The Mill is a <MASK> in the riverside area", "<MASK>"]
    examples = [sentence_example(t, None, *coding(loaded), 32) for t in texts]
    together = write(examples, padding_of(loaded), tmp_path / "together")
    losses, gradients = _per_example_gradients(loaded.model, together)
    assert losses[2] == 0
    assert together.num_targets.tolist()[2] == 0
    for at in range(2):
        alone = write([examples[at]], padding_of(loaded), tmp_path / str(at))
        loss, gradient = _per_example_gradients(loaded.model, alone)
        assert torch.allclose(loss[0], losses[at], atol=1e-5)
        for one, other in zip(gradient[0], gradients[at], strict=True):
            assert (one is None) == (other is None)
            assert one is None or torch.allclose(one, other, atol=1e-5)
    trained, total = count_parameters(loaded.model)
    assert trained == total if kind in ("full", "scratch") else 0 < trained < total


@pytest.mark.parametrize("family", MASKED)
@pytest.mark.parametrize("kind", ["full", "lora", "top2", "scratch"])
def test_masked_models_do_not_see_padding(families, family, kind, tmp_path):
    loaded = load(families, family, adaptation=Adaptation(kind=kind))
    rows = loaded.vocabulary.encoder.ids(["It was great", "It was <MASK> terrible , terrible ."])
    examples = [Example(ids=ids, labels=[-100] * (len(ids) - 1) + [ids[-1]]) for ids in rows]
    losses, _ = _per_example_gradients(loaded.model, write(examples, padding_of(loaded), tmp_path / "both"))
    for at in range(2):
        alone, _ = _per_example_gradients(loaded.model, write([examples[at]], padding_of(loaded), tmp_path / str(at)))
        assert torch.allclose(alone[0], losses[at], atol=1e-5)
    # The same rows without the mask do differ, so the comparison can fail.
    batch = write(examples, padding_of(loaded), tmp_path / "bare").collate(np.arange(2))
    bare = loaded.model(input_ids=batch.inputs).logits
    assert not torch.allclose(bare[0, 1], logits_of(loaded.model, batch)[0, 1], atol=1e-5)


def test_position_ids_are_those_of_the_family(families, tmp_path):
    loaded = load(families, "roberta")
    batch = write(
        [Example(ids=[5, 6, 7], labels=[-100] * 3), Example(ids=[5], labels=[-100])], padding_of(loaded), tmp_path
    )
    batch = batch.collate(np.arange(2))
    assert batch.position_ids.tolist() == [[2, 3, 4], [2, 1, 1]]
    own = loaded.model(input_ids=batch.inputs, attention_mask=batch.attention_mask).logits
    assert torch.allclose(own[0], logits_of(loaded.model, batch)[0], atol=1e-6)
    assert loaded.context_length == 64


@pytest.mark.parametrize("family", [*CAUSAL, *MASKED])
def test_top2_trains_the_last_two_blocks_only(families, family):
    loaded = load(families, family, adaptation=Adaptation(kind="top2"))
    blocks = blocks_of(loaded.model)
    inside = {id(p) for block in blocks[-2:] for p in block.parameters()}
    assert len(blocks) == 3
    assert all(p.requires_grad == (id(p) in inside) for p in loaded.model.parameters())


@pytest.mark.parametrize("kind", ["full", "lora", "top2"])
def test_a_classification_head_is_always_trained(families, kind):
    loaded = load(families, "roberta", kind="classification", num_labels=3, adaptation=Adaptation(kind=kind))
    trained = [name for name, p in loaded.model.named_parameters() if p.requires_grad]
    assert any("classifier" in name and "out_proj" in name for name in trained)


def test_prefix_is_refused_where_no_model_takes_one(families):
    with pytest.raises(ConfigError, match="causal"):
        load(families, "bert", adaptation=Adaptation(kind="prefix"))
    with pytest.raises(ConfigError, match="prefix_hidden must be positive"):
        Adaptation(kind="prefix", prefix_hidden=0)


def test_a_prefix_takes_positions_from_the_context(families):
    loaded = load(families, "gpt2", adaptation=Adaptation(kind="prefix", prefix_length=4))
    assert loaded.context_length == 60
    assert all("prompt_encoder" in name for name, p in loaded.model.named_parameters() if p.requires_grad)


@pytest.mark.parametrize("family", ["gpt2", "llama", "roberta"])
def test_weights_that_start_at_random_depend_on_the_seed_only(families, family):
    def weights(seed, noise):
        torch.manual_seed(noise)
        loaded = load(families, family, adaptation=Adaptation(kind="scratch"), seed=seed)
        return torch.cat([p.detach().flatten() for p in loaded.model.parameters()])

    assert torch.equal(weights(1, 2), weights(1, 3))
    assert not torch.equal(weights(1, 2), weights(2, 2))


@pytest.mark.parametrize("family", ["gpt2", "llama", "roberta", "bert"])
@pytest.mark.parametrize("kind", ["full", "lora", "top2"])
def test_a_saved_folder_loads_with_the_auto_classes(families, family, kind, tmp_path):
    loaded = load(families, family, adaptation=Adaptation(kind=kind), speakers=("USR",))
    with torch.no_grad():
        for parameter in loaded.model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    save(loaded, tmp_path)
    classes = {"causal": transformers.AutoModelForCausalLM, "masked": transformers.AutoModelForMaskedLM}
    again = classes[FAMILIES[family][1]].from_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        assert torch.allclose(again(input_ids=ids).logits, loaded.model(input_ids=ids).logits, atol=1e-5)
    assert tokenizer.get_vocab() == loaded.vocabulary.tokenizer.get_vocab()
    assert again.config.pad_token_id == loaded.vocabulary.control.pad
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o044


@pytest.mark.parametrize("hidden", [None, 8])
def test_a_saved_prefix_loads_with_peft(families, tmp_path, hidden):
    import peft

    loaded = load(families, "llama", adaptation=Adaptation(kind="prefix", prefix_length=3, prefix_hidden=hidden))
    hidden_layers = [n for n, _ in loaded.model.named_parameters() if "prompt_encoder" in n and "transform" in n]
    assert len(hidden_layers) == (4 if hidden else 0)
    save(loaded, tmp_path)
    base = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    again = peft.PeftModel.from_pretrained(base, tmp_path / PREFIX_FOLDER)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        found = again(input_ids=ids).logits
        assert torch.allclose(found, loaded.model(input_ids=ids).logits, atol=1e-5)
        assert not torch.allclose(found, base(input_ids=ids).logits, atol=1e-3)


def test_dropout_is_off(families):
    loaded = load(families, "gpt2")
    loaded.model.train()
    ids = torch.tensor([[5, 6, 7, 8]])
    assert torch.equal(loaded.model(input_ids=ids).logits, loaded.model(input_ids=ids).logits)


def test_a_context_longer_than_the_models_is_refused(families):
    assert load(families, "gpt2", context_length=16).context_length == 16
    with pytest.raises(ConfigError, match=r"context_length is 65 tokens, but .* reads at most 64"):
        load(families, "gpt2", context_length=65)
    with pytest.raises(ConfigError, match="reads at most 64"):
        load(families, "roberta", context_length=65)  # 66 rows
    with pytest.raises(ConfigError, match="at least"):
        check_context("gpt2", 4, 64)


@pytest.mark.parametrize(
    ("family", "kind", "message"),
    [
        ("roberta", "causal", "not a causal language model"),
        ("bert", "causal", "not a causal language model"),
        ("gpt2", "masked", "not a masked language model"),
        ("gpt2", "classification", "num_labels"),
    ],
)
def test_a_model_of_another_kind_is_refused(families, family, kind, message):
    with pytest.raises(ConfigError, match=message):
        load(families, family, kind=kind)


def test_a_model_without_the_weights_of_its_head_is_refused(families, tmp_path):
    bare = transformers.BertModel.from_pretrained(families["bert"])
    bare.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(families["bert"]).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="no weights for cls"):
        load_model(str(tmp_path), "masked", seed=0)
    assert load_model(str(tmp_path), "classification", num_labels=2, seed=0).model.config.num_labels == 2


def test_what_is_not_at_hand_is_refused_with_what_to_do(families, tmp_path, patch):
    with pytest.raises(ConfigError, match="hf download no-such-owner/no-such-model"):
        load_model("no-such-owner/no-such-model", "causal", seed=0)
    with pytest.raises(ConfigError, match="--revision v1"):
        load_model("no-such-owner/no-such-model", "causal", seed=0, revision="v1")
    with pytest.raises(ConfigError, match="no folder"):
        find_model(str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="absolute path"):
        find_model("./nowhere")
    with pytest.raises(ConfigError, match="no revision"):
        find_model("smollm2", revision="main")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"config\.json"):
        find_model(str(tmp_path / "empty"))
    shutil.copytree(families["gpt2"], tmp_path / "damaged")
    (tmp_path / "damaged" / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="missing or damaged"):
        load_model(str(tmp_path / "damaged"), "causal", seed=0)

    def none(name):
        raise importlib.metadata.PackageNotFoundError(name)

    patch(importlib.metadata, "distribution", none)
    with pytest.raises(ConfigError, match=r"reticent\[minilm\]"):
        find_model("minilm")


def test_the_tokenizer_of_others_fits_models_from_scratch_only(families):
    other = learn_vocabulary("bytes", 0, None)
    with pytest.raises(ConfigError, match="scratch"):
        load(families, "gpt2", learnt=other)
    loaded = load(families, "gpt2", learnt=other, adaptation=Adaptation(kind="scratch"))
    assert loaded.vocabulary is other
    assert loaded.model.get_input_embeddings().num_embeddings == len(other.tokenizer)


def test_a_masked_model_needs_a_mask_of_its_own(families, tmp_path):
    shutil.copytree(families["roberta"], tmp_path / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(families["roberta"])
    tokenizer.mask_token = None
    tokenizer.save_pretrained(tmp_path / "model")
    with pytest.raises(ConfigError, match="no mask token"):
        load_model(str(tmp_path / "model"), "masked", seed=0)


def test_blocks_of_an_unknown_model_are_not_guessed():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    model.config = transformers.GPT2Config()
    with pytest.raises(ConfigError, match="top2"):
        adapt(model, Adaptation(kind="top2"), "causal")


def test_a_dialogue_ends_each_turn_and_asks_for_text_only(families):
    loaded = load(families, "gpt2", speakers=("SYS", "USR"), has_speakers=True)
    control = loaded.vocabulary.control
    turns = [("SYS", "It was great"), ("USR", "<MASK>"), ("Ms Quibble", "It was <MASK> terrible")]
    example = dialogue_example(rows_of(turns), loaded.vocabulary.encoder, control, 64)
    ids = [*example.ids, control.eos]
    first, third = loaded.vocabulary.encoder.ids(["It was great", "It was <MASK> terrible"])
    assert ids == [
        *(control.bos, control.speakers["SYS"], *first, control.eos),
        *(control.speakers["USR"], control.mask, control.eos),
        *(control.other_speaker, *third, control.eos),
    ]
    asked = [t for t in example.labels if t != -100]
    assert asked == [*first, control.eos, *(t for t in third if t != control.mask), control.eos]
    only = dialogue_example(rows_of(turns), loaded.vocabulary.encoder, control, 64, learn_speakers=("SYS",))
    assert [t for t in only.labels if t != -100] == [*first, control.eos]


def test_a_record_longer_than_the_context_is_cut_and_says_so(families):
    loaded = load(families, "gpt2")
    example = sentence_example("The Mill is a pub. " * 20, None, *coding(loaded), 16)
    assert example.is_cut
    assert len(example.ids) == 15
    assert not sentence_example("The Mill", None, *coding(loaded), 16).is_cut
