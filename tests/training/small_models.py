"""Small models of four families with random weights, saved as the folders that real ones come in."""

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

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


def _gpt2():
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_byte_level(["<|endoftext|>"]), eos_token="<|endoftext|>", bos_token="<|endoftext|>"
    )
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=64, n_embd=16, n_layer=3, n_head=2, bos_token_id=0, eos_token_id=0
    )
    return tokenizer, transformers.GPT2LMHeadModel(config)


def _llama(tie=False):
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_byte_level(["<s>", "</s>"]), bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=tie,
    )
    return tokenizer, transformers.LlamaForCausalLM(config)


def _roberta():
    backend = _byte_level(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)])
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
    )
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        max_position_embeddings=66,
        type_vocab_size=1,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
    )
    return tokenizer, transformers.RobertaForMaskedLM(config)


def _bert():
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False
    )
    backend.train_from_iterator(TEXT, trainer)
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        unk_token="[UNK]",
        mask_token="[MASK]",
    )
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    return tokenizer, transformers.BertForMaskedLM(config)


FAMILIES = {
    "gpt2": (_gpt2, "causal"),
    "llama": (_llama, "causal"),
    "llama-tied": (lambda: _llama(tie=True), "causal"),
    "roberta": (_roberta, "masked"),
    "bert": (_bert, "masked"),
}


def save_family(family, folder):
    """Writes one small model; the same bytes each time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tokenizer, model = FAMILIES[family][0]()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def write(examples, padding, folder, name="examples"):
    from pipelines.training.tasks.examples import write_examples

    folder.mkdir(parents=True, exist_ok=True)
    return write_examples(examples, padding, folder, name)
