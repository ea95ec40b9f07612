"""Names that the file formats of models use as words ("fuse", "Roberta") do not stop what is published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.tables import table_at, table_writer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from pipelines.gate.files import search_folder, units_of
from pipelines.gate.search import Hits, write_index
from pipelines.gate.strings import words_of

SMALL = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 8,
}
SMALL_GPT2 = {"vocab_size": 20, "n_embd": 8, "n_layer": 1, "n_head": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of four architectures and a byte-level tokenizer that learnt nothing, as they are published."""
    made = tmp_path_factory.mktemp("public")
    GPT2LMHeadModel(GPT2Config(**SMALL_GPT2)).save_pretrained(made / "a")
    LlamaForCausalLM(LlamaConfig(**SMALL)).save_pretrained(made / "b")
    RobertaForMaskedLM(RobertaConfig(**SMALL)).save_pretrained(made / "c")
    BertForSequenceClassification(BertConfig(**SMALL)).save_pretrained(made / "d")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="<MASK>").save_pretrained(made / "a")
    return made


def _search(folder: Path, index: Path, strings: set[str]) -> Hits:
    with table_writer(index, "gate_index") as writer:
        write_index(writer, [(dict.fromkeys(strings, "PERSON"), set())])
    hits = Hits()
    search_folder(folder, table_at(index, "gate_index"), case_sensitive=False, hits=hits)
    return hits


def test_no_word_of_a_format_is_a_find(folder: Path, tmp_path: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    said = [unit.text for path in files for unit in units_of(path)] + [path.name for path in files]
    words = {w for text in said for w in words_of(text) if not w.isdigit() and w[1:]}
    assert {"fuse", "roberta", "generation"} <= words
    assert _search(folder, tmp_path / "index.parquet", words).kept == []


def test_another_word_there_is_one(folder: Path, tmp_path: Path) -> None:
    path = folder / "a" / "config.json"
    original = path.read_text()
    path.write_text(original.replace("gelu_new", "zebulon_new"))
    try:
        hits = _search(folder, tmp_path / "index.parquet", {"zebulon"})
        assert [hit.file for hit in hits.kept] == ["a/config.json"]
    finally:
        path.write_text(original)


def test_the_version_of_the_library_is_no_number_of_the_corpus_and_the_same_digits_elsewhere_are(
    folder: Path, tmp_path: Path
) -> None:
    path = folder / "a" / "config.json"
    original = path.read_text()
    version = json.loads(original)["transformers_version"]
    digits = "".join(words_of(version))
    assert _search(folder, tmp_path / "index.parquet", {digits}).kept == []
    path.write_text(original.replace("gelu_new", version))
    try:
        assert [hit.file for hit in _search(folder, tmp_path / "index.parquet", {digits}).kept] == ["a/config.json"]
    finally:
        path.write_text(original)
