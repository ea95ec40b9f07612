"""Small models of four families with random weights, saved as the folders that real ones come in."""

from dataclasses import replace

import numpy as np
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from pipelines.training.data.control import AddedTokens
from pipelines.training.data.records import frame_of, target_positions
from pipelines.training.data.task_examples import causal_example
from pipelines.training.models.loading import complete_model, open_model
from support.tiny import rows_of

TEXT = [
    " It was great . It was terrible . It was great , terrible .",
    " Yes , No , Maybe . Yes ? No ? Maybe ? Yes , No , Maybe .",
    " name : The Mill | Type : pub | area : riverside",
    "The Mill is a pub in the riverside area. My name is John Smith.",
] * 3


def _byte_level(special):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=380,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def _model(kind, tokenizer, **changes):
    """A model of the named kind, three layers of width 16, for the tokenizer."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "max_position_embeddings": 64}
    if kind != "GPT2LMHeadModel":
        sizes["intermediate_size"] = 32
    model = getattr(transformers, kind)
    config = model.config_class(vocab_size=len(tokenizer), **{**sizes, **changes})
    return tokenizer, model(config)


def _gpt2():
    end = "<|endoftext|>"
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=_byte_level([end]), eos_token=end, bos_token=end)
    return _model("GPT2LMHeadModel", tokenizer, bos_token_id=0, eos_token_id=0)


def _llama(tie=False):
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=_byte_level(["<s>", "</s>"]), **names)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    ids = {"bos_token_id": 0, "eos_token_id": 1}
    return _model("LlamaForCausalLM", tokenizer, tie_word_embeddings=tie, **heads, **ids)


def _masked(kind, backend, names, **changes):
    """A masked language model whose special tokens are ``names``: begin, padding, end, unknown, mask."""
    begin, pad, end, unknown, mask = names
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, cls_token=begin, pad_token=pad, sep_token=end, unk_token=unknown, mask_token=mask
    )
    return _model(kind, tokenizer, **changes)


def _roberta():
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    backend = _byte_level([*names[:-1], AddedToken("<mask>", lstrip=True, special=True)])
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    tokenizer, model = _masked(
        "RobertaForMaskedLM", backend, names, max_position_embeddings=66, type_vocab_size=1, **ids
    )
    tokenizer.bos_token, tokenizer.eos_token = "<s>", "</s>"
    return tokenizer, model


def _bert():
    names = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    backend.train_from_iterator(TEXT, trainer)
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return _masked("BertForMaskedLM", backend, names, pad_token_id=0)


FAMILIES = {
    "gpt2": (_gpt2, "causal"),
    "llama": (_llama, "causal"),
    "llama-tied": (lambda: _llama(tie=True), "causal"),
    "roberta": (_roberta, "masked"),
    "bert": (_bert, "masked"),
}


def save_family(family, folder):
    """Writes one small model; the same weights each time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tokenizer, model = FAMILIES[family][0]()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def write(examples, padding, folder, name="examples", **options):
    from pipelines.artifacts import Target
    from pipelines.training.data.task_examples import write_examples

    folder.mkdir(parents=True, exist_ok=True)
    return write_examples(examples, padding, Target(folder=folder), name, **options)


def load_model(name, kind, *, seed, speakers=(), has_speakers=False, learnt=None, **options):
    """Opens a model and completes it, in one."""
    opened = open_model(name, kind, brings_tokenizer=learnt is None, **options)
    added = AddedTokens(has_speakers=has_speakers, speakers=speakers)
    return complete_model(opened, seed=seed, added=added, learnt=learnt)


def coding(loaded):
    """What texts are encoded with: the encoder and the control tokens."""
    return loaded.vocabulary.encoder, loaded.vocabulary.control


def sentence_example(text, speaker, encoder, control, context_length):
    """One sentence as a record of plain language modelling (`pipelines.training.data.records`)."""
    ids, is_cut = frame_of(rows_of([(speaker, text)]), control).encode(encoder.ids([text]), context_length)
    targets = target_positions(np.asarray(ids, dtype=np.int64), control)
    return replace(causal_example(ids, targets.tolist(), context_length), is_cut=is_cut)
