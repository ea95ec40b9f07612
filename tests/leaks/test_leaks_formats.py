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
from pipelines.gate.index import write_index
from pipelines.gate.search import Hits
from pipelines.gate.strings import words_of
from pipelines.training.models.network import NetworkFromScratch
from pipelines.training.models.recurrent import save_recurrent
from pipelines.training.models.saving import save_model
from pipelines.training.models.shape import ModelShape

SMALL = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
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


def _search(folder: Path, index: Path, strings: set[str], basis: Path | None = None) -> Hits:
    with table_writer(index, "gate_index") as writer:
        write_index(writer, [dict.fromkeys(strings, "PERSON")])
    hits = Hits()
    search_folder(folder, table_at(index, "gate_index"), case_sensitive=False, hits=hits, basis=basis)
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


# --- what a folder says whatever the text is ----------------------------------------------------------------------

SHAPE = ModelShape(num_layers=1, num_heads=1, embedding_size=8, context_length=16)


def _trained(architecture: str, folder: Path) -> tuple[Path, Path]:
    """A folder as training publishes it, and the basis that was written before any text was read."""
    network = NetworkFromScratch(architecture, SHAPE, tokenizer_kind="bpe_public", vocab_size=400, seed=1)
    basis, public = folder / "basis", folder / "public"
    network.write_basis(basis)
    vocabulary = network.vocabulary(["Zebulon"], [], ["a hat, a hat", "the hat", "the hat"])
    made = network.build()
    if architecture == "lstm":
        save_recurrent(made, public)
        vocabulary.tokenizer.save_pretrained(public)
    else:
        save_model(made, vocabulary.tokenizer, public, context_length=16)
    return public, basis


def _said(folder: Path) -> set[str]:
    """Every word of a folder's files, and every two neighbours; the vocabulary by its control tokens only."""
    units = [u for path in folder.iterdir() for u in units_of(path) if u.kind == "text" or u.text.startswith("<")]
    words = [words_of(text) for text in [*(unit.text for unit in units), *(path.name for path in folder.iterdir())]]
    return {" ".join(found[at : at + n]) for found in words for n in (1, 2) for at in range(len(found) - n + 1)}


@pytest.mark.parametrize("architecture", ["gpt2", "lstm"])
def test_what_an_untrained_folder_says_at_the_same_place_is_no_find(architecture: str, tmp_path: Path) -> None:
    public, basis = _trained(architecture, tmp_path)
    said = _said(basis)
    assert {"pad", "byte fallback", "special tokens"} <= said
    assert _search(public, tmp_path / "index.parquet", said - {"zebulon", "hat"}, basis).kept == []
    alone = _search(public, tmp_path / "index.parquet", said - {"zebulon", "hat"}).kept
    assert {"pad", "byte fallback", "special tokens"} <= {hit.string for hit in alone}
    found = _search(public, tmp_path / "index.parquet", {"zebulon", "hat"}, basis).by_label
    assert found["PERSON"] >= 3  # the speaker's token as a vocabulary entry and as an added token; a learnt word


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("config.json", {"note": "special tokens"}),
        ("config.json", {"special_tokens": 1}),
        ("config.json", {"architectures": ["special tokens"]}),
        ("tokenizer.json", {"decoder": {"special_tokens": {}}}),
        ("other.json", {"special_tokens": 1}),
        ("README.md", "special tokens"),
        ("special tokens.txt", ""),
    ],
)
def test_the_same_words_at_another_place_are_a_find(name: str, change: object, tmp_path: Path) -> None:
    public, basis = _trained("gpt2", tmp_path)
    index = tmp_path / "index.parquet"
    assert _search(public, index, {"special tokens"}, basis).kept == []
    path = public / name
    if isinstance(change, str):
        path.write_text(change)
    else:
        assert isinstance(change, dict)
        path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | change))
    assert [hit.file for hit in _search(public, index, {"special tokens"}, basis).kept] == [name]


def test_what_the_card_calls_the_base_model_is_no_find_and_the_same_name_beside_it_is(tmp_path: Path) -> None:
    public, basis = tmp_path / "public", tmp_path / "basis"
    for folder, card in ((public, "fine-tuned from acme/roberta-base."), (basis, "acme/roberta-base")):
        folder.mkdir()
        (folder / "README.md").write_text(card)
    index = tmp_path / "index.parquet"
    assert _search(public, index, {"roberta"}, basis).kept == []
    (public / "README.md").write_text("Roberta, fine-tuned from acme/roberta-base.")
    assert len(_search(public, index, {"roberta"}, basis).kept) == 1
