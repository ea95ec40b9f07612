"""The public starting point: a small GPT-2 that is pre-trained once on named articles of WikiText-2.

The papers fine-tune OpenAI's GPT-2, which is no part of this project and not always at hand. Four fifths of the
articles of WikiText-2's training file (by a hash of the title) are public here: vocabulary and weights are made from
them alone. The others are what reproductions fine-tune on, and the articles of its test file what they are judged by.
Plain PyTorch: a model that the project itself trained is refused as a starting point, for it could have seen private
records.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
from common import gpt2_config, read_json
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast, set_seed

from pipelines.corpus.split import Splitter

from .cache import cached, content_key

END: Final = "<|endoftext|>"
_MINUTE: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A recipe of the starting point.

    Attributes:
        vocabulary: number of tokens of the BPE, learnt on the public articles.
        width, blocks, heads: sizes of the GPT-2.
        context: number of tokens of a row.
        rows: number of rows of a step.
        epochs: number of passes over the public articles.
        learning_rate: highest learning rate; the rate falls to a tenth along a cosine.
        seed: seed of weights and order.
    """

    vocabulary: int = 4_096
    width: int = 192
    blocks: int = 4
    heads: int = 4
    context: int = 128
    rows: int = 16
    epochs: int = 5
    learning_rate: float = 2e-3
    seed: int = 0


RECIPES: Final[Mapping[str, Recipe]] = {
    "small": Recipe(),
    "paper": Recipe(vocabulary=8_192, width=512, blocks=8, heads=8, context=512, rows=32, epochs=6, learning_rate=6e-4),
}
"""Recipes by scale. ``paper`` is for a machine with a GPU and without GPT-2; cells name GPT-2 if you have it."""
HALF: Final = Recipe(width=96, blocks=2, heads=2)
"""Recipe of ``small`` with half the blocks and half the width, for cells that compare two sizes."""


def articles(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields title and lines of each article of a raw WikiText file.

    A title is between blank lines, with one sign of equality on either side; headings inside an article have more.
    """
    title, body = "", []
    for number, line in enumerate(lines):
        near = lines[max(0, number - 1) : number] + lines[number + 1 : number + 2]
        text = line.strip()
        is_title = text.startswith("= ") and text.endswith(" =") and text.count("=") == 2
        if is_title and not any(other.strip() for other in near):
            if title:
                yield title, body
            title, body = text.strip("= "), []
        elif text and not text.startswith("="):
            body.append(text)
    if title:
        yield title, body


def is_public(title: str) -> bool:
    """Tells if an article belongs to the starting point: four in five, by a hash of the title alone."""
    return hashlib.sha256(f"reticent/wikitext2/{title}".encode()).digest()[0] % 5 != 0


def split_articles(data_dir: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Returns the articles of the training file: public ones, and those to fine-tune on."""
    lines = (data_dir / "wikitext2" / "wiki.train.raw").read_text("utf-8").splitlines()
    public: dict[str, list[str]] = {}
    private: dict[str, list[str]] = {}
    for title, body in articles(lines):
        (public if is_public(title) else private).setdefault(title, []).extend(body)
    return public, private


def sentences(paragraphs: Sequence[str]) -> list[str]:
    """Cuts paragraphs into sentences by the pipeline's splitter."""
    splitter = Splitter(mode="rules")
    return [sentence.text for found in splitter.split(paragraphs) for sentence in found]


@cache
def key_of(data_dir: Path, recipe: Recipe) -> str:
    """Returns the key of the starting point that a recipe makes of public articles, made or not."""
    public, _ = split_articles(data_dir)
    return content_key({"recipe": asdict(recipe), "articles": public, "version": 1})


def starting_point(data_dir: Path, work: Path, recipe: Recipe, minutes: float = math.inf) -> Path | None:
    """Returns the folder of the starting point, which is made if it is missing; None if the time is over first."""
    public, _ = split_articles(data_dir)
    key = key_of(data_dir, recipe)
    deadline = time.monotonic() + minutes * _MINUTE
    return cached(work / "base", key, lambda folder: _make(public, recipe, folder, deadline, data_dir))


def _make(
    public: Mapping[str, Sequence[str]], recipe: Recipe, folder: Path, deadline: float, data_dir: Path
) -> dict[str, Any] | None:
    tokenizer = _tokenizer([line for body in public.values() for line in body], recipe.vocabulary, folder)
    rows = _rows(public, tokenizer, recipe, folder / "rows.pt")
    set_seed(recipe.seed)
    sizes = {"width": recipe.width, "layers": recipe.blocks, "heads": recipe.heads}
    network = GPT2LMHeadModel(gpt2_config(vocab=len(tokenizer), length=recipe.context, **sizes))
    optimizer = torch.optim.AdamW(network.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=0.1)
    checkpoint, state = folder / "checkpoint.pt", {"step": 0, "seconds": 0.0, "losses": []}
    if checkpoint.exists():
        known = torch.load(checkpoint, weights_only=True)
        network.load_state_dict(known["weights"])
        optimizer.load_state_dict(known["optimizer"])
        state = known["state"]

    def save() -> None:
        new = checkpoint.with_suffix(".new")
        torch.save({"weights": network.state_dict(), "optimizer": optimizer.state_dict(), "state": state}, new)
        new.replace(checkpoint)

    num_steps = recipe.epochs * (len(rows) // recipe.rows)
    saved = started = time.monotonic()
    before = state["seconds"]
    while state["step"] < num_steps:
        loss = _step(network, optimizer, rows, recipe, state["step"], num_steps)
        state["step"] += 1
        state["seconds"] = before + time.monotonic() - started
        if state["step"] % 100 == 0:
            state["losses"].append(round(loss, 4))
            print(f"base: step {state['step']} of {num_steps}, {loss:.3f} nats, {state['seconds']:.0f} s", flush=True)
        if time.monotonic() > deadline:
            save()
            return None
        if time.monotonic() - saved > _MINUTE:
            save()
            saved = time.monotonic()
    save()
    network.save_pretrained(folder)
    return {
        "num_parameters": sum(p.numel() for p in network.parameters()),
        "num_articles": len(public),
        "num_tokens": rows.numel(),
        "num_steps": num_steps,
        "seconds": round(state["seconds"]),
        "losses_each_100_steps": state["losses"],
        **_held_out(network, tokenizer, data_dir, recipe.context),
    }


def _step(
    network: Any, optimizer: torch.optim.Optimizer, rows: torch.Tensor, recipe: Recipe, step: int, num_steps: int
) -> float:
    """Takes a step, whose rows and step size follow from its number alone, so that a killed training can continue."""
    an_epoch = len(rows) // recipe.rows
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(recipe.seed + step // an_epoch))
    batch = rows[order[(step % an_epoch) * recipe.rows :][: recipe.rows]].long()
    share = 0.1 + 0.9 * (1 + math.cos(math.pi * step / num_steps)) / 2
    for group in optimizer.param_groups:
        group["lr"] = recipe.learning_rate * min(share, (step + 1) / 100)
    loss = network(input_ids=batch, labels=batch).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def _tokenizer(lines: Sequence[str], size: int, folder: Path) -> Any:
    if (folder / "tokenizer.json").exists():
        return PreTrainedTokenizerFast.from_pretrained(folder)
    made = byte_pairs(lines, size)
    made.save_pretrained(folder)
    return made


def byte_pairs(lines: Sequence[str], size: int) -> Any:
    """Makes a vocabulary of ``size`` byte pairs, `END` among them, from public lines."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, bos_token=END, pad_token=END)


def _rows(public: Mapping[str, Sequence[str]], tokenizer: Any, recipe: Recipe, path: Path) -> torch.Tensor:
    """Returns rows of tokens, (rows, context): an article's sentences, each after an end token, as in records."""
    if path.exists():
        return torch.load(path, weights_only=True)
    rows: list[list[int]] = []
    for text in (sentences(body) for body in public.values()):
        ids = [token for encoded in tokenizer([END + sentence for sentence in text]).input_ids for token in encoded]
        rows += [ids[start : start + recipe.context] for start in starts(ids, recipe.context)]
    found = torch.tensor(rows, dtype=torch.int16 if recipe.vocabulary < 2**15 else torch.int32)
    torch.save(found, path)
    return found


def starts(ids: Sequence[int], context: int) -> list[int]:
    """Returns the starts of rows of ``context`` tokens: each at an end token (0), the next at the last one inside.

    After a sentence longer than a row comes the next sentence, so rows always go forward.
    """
    begins = [place for place, token in enumerate(ids) if token == 0]
    found: list[int] = []
    for place, following in zip(begins, [*begins[1:], len(ids)], strict=True):
        if place + context > len(ids):
            break
        # The row of the last start ends inside this sentence, or before it.
        if not found or following > found[-1] + context:
            found.append(place)
    return found


def _held_out(network: Any, tokenizer: Any, data_dir: Path, context: int) -> dict[str, float]:
    """Measures the perplexity a word of the validation file: by sentence alone, as in records, and in running text."""
    lines = (data_dir / "wikitext2" / "wiki.valid.raw").read_text("utf-8").splitlines()
    body = [line for _, paragraphs in articles(lines) for line in paragraphs]
    chosen = sentences(body)
    random.Random("held out").shuffle(chosen)
    alone, num_words = 0.0, 0
    network.eval()
    with torch.no_grad():
        for text in chosen[:600]:
            ids = torch.tensor([tokenizer(END + text + END).input_ids[:context]])
            alone += network(input_ids=ids, labels=ids).loss.item() * (ids.shape[1] - 1)
            num_words += len(text.split())
        running = " ".join(body[:200])
        ids = torch.tensor(tokenizer(running).input_ids)
        blocks = ids[: len(ids) // context * context].view(-1, context)
        loss = sum(network(input_ids=b[None], labels=b[None]).loss.item() for b in blocks) / len(blocks)
    words_a_token = len(running.split()) / len(ids)
    return {
        "perplexity_a_word_of_sentences": math.exp(alone / num_words),
        "perplexity_a_word_of_running_text": math.exp(loss / words_a_token),
    }


def written(folder: Path) -> dict[str, Any]:
    """Returns the document of a finished starting point."""
    return read_json(folder / "cached.json")
