"""A token classifier of transformers with random weights, whose decisions are known: it labels listed words."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,@-"
WORDS = ["mary", "jones", "paris", "call", "in", "at", "now", "acme"]


def write_tokenizer(folder: Path):
    """A word-piece tokenizer for lower-case Latin letters, digits and a few marks."""
    pieces = [*MARKS, *WORDS, *LETTERS, *(f"##{c}" for c in LETTERS)]
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(dict.fromkeys(pieces))}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    fast.save_pretrained(folder)
    return fast


def tiny_bert(tokenizer, layers=2, positions=64, **more):
    """The settings of a small BERT that reads the pieces of a tokenizer."""
    return BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=positions,
        pad_token_id=0,
        **more,
    )


def write_model(folder: Path, classes=("O", "B-PER", "I-PER", "B-LOC"), positions=64, seed=0, words=None, noise=0.02):
    """A folder of ``save_pretrained``.

    Args:
        folder: to write.
        classes: names of the classes.
        positions: word pieces that it reads.
        seed: of the weights.
        words: class by word; other pieces are of class 0. None leaves the weights random.
        noise: how much random layers add to the embeddings.
    """
    torch.manual_seed(seed)
    tokenizer = write_tokenizer(folder)
    names = {"id2label": dict(enumerate(classes)), "label2id": {name: i for i, name in enumerate(classes)}}
    config = tiny_bert(tokenizer, positions=positions, **names)
    model = BertForTokenClassification(config).eval()
    if words is not None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(noise)
            embeddings = model.bert.embeddings
            embeddings.LayerNorm.weight.fill_(1)
            for layer in model.bert.encoder.layer:
                layer.attention.output.LayerNorm.weight.fill_(1)
                layer.output.LayerNorm.weight.fill_(1)
            table = embeddings.word_embeddings.weight
            table[:, 0] = 5.0
            for word, index in words.items():
                table[tokenizer.convert_tokens_to_ids(word)] = 0.0
                table[tokenizer.convert_tokens_to_ids(word), index] = 5.0
            model.classifier.weight.zero_()
            for index in range(len(classes)):
                model.classifier.weight[index, index] = 1.0
            model.classifier.bias.zero_()
    model.save_pretrained(folder)
    return folder
