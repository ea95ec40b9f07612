"""Data of benchmarks/domains.py: three domains of MultiDoGO, policies that fit them, and small public models.

MultiDoGO's files here have the customers' turns only, of 3.2 words on average: a text of one such turn has no room for
a leak. So a conversation is made of two long turns, its first three utterances (the prompt) and all others (the text).
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from common import gpt2_config
from data_sets import wikitext
from reproduce.base import byte_pairs
from transformers import BertConfig, BertModel, GPT2LMHeadModel, set_seed

from pipelines.attacks.domains import LabelledPolicies
from pipelines.attacks.rates import Rate

DOMAINS: Final = ("airline", "media", "insurance")
CONTEXT: Final = 128
NUM_HELD_OUT: Final = 100
_PROMPT_UTTERANCES: Final = 3
_LEAST_LABELLED: Final = 3
_LEAST_FREQUENT: Final = 20
_TIMES_AS_FREQUENT: Final = 3.0

Keywords = Mapping[str, Sequence[str]]


def rows_of(data_dir: Path, domain: str, fold: str) -> Iterator[list[str]]:
    """Yields the cells of each line; broken lines are left out."""
    for line in (data_dir / "multidogo" / domain / f"{fold}.tsv").read_text("utf-8").splitlines()[1:]:
        cells = line.split("\t")
        if len(cells) == 7 and cells[4].strip():
            yield cells


def conversations(data_dir: Path, domain: str, fold: str, num: int) -> Iterator[dict[str, str]]:
    """Yields conversations of two turns each, by a fixed seed; conversations too short for two are left out."""
    utterances: dict[str, list[str]] = {}
    for cells in rows_of(data_dir, domain, fold):
        utterances.setdefault(cells[0], []).append(" ".join(cells[4].lower().split()))
    names = sorted(name for name, said in utterances.items() if len(said) > _PROMPT_UTTERANCES)
    random.Random(f"{domain}/{fold}").shuffle(names)
    for name in names[:num]:
        said = utterances[name]
        turns = (" . ".join(part) for part in (said[:_PROMPT_UTTERANCES], said[_PROMPT_UTTERANCES:]))
        text = "\n".join(f"USR: {turn}" for turn in turns)
        kind = "valid" if fold == "dev" else fold
        yield {"id": f"{domain}-{fold}-{name}", "text": text, "domain": domain, "fold": kind}


def turns_of(row: Mapping[str, str]) -> list[str]:
    return [line.removeprefix("USR: ") for line in row["text"].split("\n")]


def keywords(data_dir: Path) -> tuple[Keywords, Keywords]:
    """Finds words of each domain in the training files.

    Returns:
        All keywords, which are masked: the values of the corpus's own slots (labelled in half of a word's places) and
        the distinctive words. And the latter alone: at least three times as frequent as in either other domain.
    """
    words: dict[str, Counter[str]] = {domain: Counter() for domain in DOMAINS}
    labelled: dict[str, Counter[str]] = {domain: Counter() for domain in DOMAINS}
    for domain in DOMAINS:
        for cells in rows_of(data_dir, domain, "train"):
            said, labels = cells[4].lower().split(), cells[5].split()
            words[domain].update(said)
            if len(said) == len(labels):
                labelled[domain].update(word for word, label in zip(said, labels, strict=True) if label != "O")
    everything, distinctive = {}, {}
    for domain in DOMAINS:
        own, others = words[domain], [words[other] for other in DOMAINS if other != domain]
        usable = [word for word in sorted(own) if re.fullmatch(r"[a-z]{3,}", word)]
        distinctive[domain] = [
            word
            for word in usable
            if own[word] >= _LEAST_FREQUENT
            and all(
                own[word] / own.total() >= _TIMES_AS_FREQUENT * (other[word] + 1) / other.total() for other in others
            )
        ]
        slots = [word for word in usable if labelled[domain][word] >= max(_LEAST_LABELLED, own[word] / 2)]
        everything[domain] = sorted({*slots, *distinctive[domain]})
    return everything, distinctive


def held_out_rates(
    data_dir: Path, prompted: Sequence[str], policies: LabelledPolicies, z: float, masked: Keywords
) -> dict[str, Any]:
    """Measures the leaks that policies find in people's held-out texts, whole and without the masked keywords.

    The first is the rate of a perfect DOMAIN-only model, the second that of a perfect model of redacted text.
    """
    gone = {word for words in masked.values() for word in words}
    found: dict[str, Any] = {}
    for kind in ("whole", "without keywords"):
        hits, clusters = [], []
        for domain in prompted:
            rows = list(conversations(data_dir, domain, "test", NUM_HELD_OUT))
            texts = [turns_of(row)[1] for row in rows]
            if kind != "whole":
                texts = [" ".join(word for word in text.split() if word not in gone) for text in texts]
            for leaked, scores in policies.scores(texts).items():
                if leaked != domain:
                    hits += (scores > z).tolist()
                    clusters += [row["id"] for row in rows]
        found[kind] = Rate.clustered(hits, clusters, 0.95).document()
    return found


def public_lines(data_dir: Path) -> list[str]:
    """Returns the paragraphs of WikiText-2 in small letters, as the dialogues are."""
    return [line.lower() for line in wikitext(data_dir, "train", min_words=21, headings=True)]


def write_model(
    lines: Sequence[str],
    folder: Path,
    num_steps: int,
    *,
    vocabulary: int = 1_500,
    length: int = CONTEXT,
    width: int = 96,
    layers: int = 2,
) -> None:
    """Writes a small GPT-2 that learnt its language and its vocabulary from public lines."""
    tokenizer = _tokenizer(lines, vocabulary, folder)
    size = tokenizer.backend_tokenizer.get_vocab_size()
    set_seed(0)
    network = GPT2LMHeadModel(gpt2_config(vocab=size, length=length, width=width, layers=layers, heads=4))
    ids = torch.tensor([token for line in lines for token in tokenizer(line).input_ids])
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    for _ in range(num_steps):
        starts = torch.randint(len(ids) - CONTEXT, (16,), generator=generator).tolist()
        batch = torch.stack([ids[start : start + CONTEXT] for start in starts])
        loss = network(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"public model: {loss.item():.2f} nats a token after {num_steps} steps", flush=True)
    network.save_pretrained(folder)


def write_classifier_base(data_dir: Path, folder: Path) -> None:
    """Writes a tiny BERT with random weights, from which `train-policy` makes a classifier of domains."""
    tokenizer = _tokenizer(public_lines(data_dir), 3_000, folder)
    set_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.backend_tokenizer.get_vocab_size(), hidden_size=64, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=128, max_position_embeddings=CONTEXT, pad_token_id=0,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)


def _tokenizer(lines: Sequence[str], size: int, folder: Path) -> Any:
    made = byte_pairs(lines[:5_000], size)
    made.save_pretrained(folder)
    return made
