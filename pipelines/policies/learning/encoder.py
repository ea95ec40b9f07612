"""Trains a token classifier on an encoder such as MiniLM: a head over its last layer, with labels without prefixes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer

from pipelines.errors import ConfigError
from pipelines.policies.detectors.classifier_training import base_model
from pipelines.policies.detectors.token_encoder import EncoderReader
from pipelines.policies.learning.examples import Example, add_noise
from pipelines.policies.learning.recall import HeldOut, choose_thresholds
from pipelines.policies.options import OUTSIDE
from pipelines.quiet import quiet_transformers

MAX_PIECES: Final = 128
"""Word pieces of a window in training. A longer text gives several windows."""


def fit_encoder(
    examples: Sequence[Example], folder: Path, held_out: HeldOut, recall: float, **options: Any
) -> tuple[dict[str, float], list[Any]]:
    """Trains a token classifier, writes it, and sets its thresholds on held-out texts.

    Args:
        examples: texts with spans.
        folder: folder to write into.
        held_out: held-out sentences and their spans.
        recall: wanted token recall of every label.
        options: arguments of `train_encoder`.

    Returns:
        The thresholds by label, and the finds in every held-out sentence.
    """
    model, tokenizer = train_encoder(examples, **options)
    with quiet_transformers():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    reader = EncoderReader(str(folder), None, labels={}, threshold=None, thresholds={}, described={}, device="auto")
    reader.thresholds = choose_thresholds(reader, held_out, recall)
    return reader.thresholds, [reader.find(sentence) for sentence, _ in held_out]


def train_encoder(
    examples: Sequence[Example],
    *,
    base: str,
    layers: int | None = None,
    epochs: int = 3,
    batch_size: int = 16,
    learning_rate: float = 2e-4,
    noise: bool = True,
    names: Callable[[random.Random], str] | None = None,
    seed: int = 0,
    prepare: Callable[[Any], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Any, Any]:
    """Trains a token classifier without changing the word embeddings.

    Args:
        examples: texts with spans.
        base: ``minilm``, a folder, or a model in the local cache.
        layers: number of the encoder's first layers to keep. None keeps all.
        epochs: passes over the examples.
        batch_size: texts of a step.
        learning_rate: peak learning rate of AdamW. The head's is ten times as high.
        noise: true if every pass adds other noise to the texts (`pipelines.policies.learning.examples.add_noise`).
        names: function that draws names to replace some persons.
        seed: seed of the head, the order and the noise.
        prepare: function that may change the model's weights before training.
        progress: function that gets the number of steps done and of all steps.

    Returns:
        The model, on the CPU, and its tokenizer.

    Raises:
        ConfigError: the base cannot be loaded, or its tokenizer gives no offsets.
    """
    labels = sorted({label for example in examples for *_, label in example.spans})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, tokenizer = _load(base, [OUTSIDE, *labels])
        encoder = model.base_model
        if layers is not None:
            _keep_layers(model, layers)
        if prepare is not None:
            prepare(model)
        for parameter in encoder.get_input_embeddings().parameters():
            parameter.requires_grad_(False)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model.to(device).train()
        head = list(model.classifier.parameters())
        body = [p for p in model.parameters() if p.requires_grad and all(p is not h for h in head)]
        optimizer = torch.optim.AdamW(
            [{"params": body, "lr": learning_rate}, {"params": head, "lr": 10 * learning_rate}], weight_decay=0.01
        )
        peaks = [group["lr"] for group in optimizer.param_groups]
        order = random.Random(seed)  # noqa: S311 - no secret depends on it
        steps = max(1, epochs * -(-len(examples) // batch_size))
        pending: list[Example] = []
        for step in range(steps):
            while len(pending) < batch_size:
                pending += order.sample(list(examples), len(examples))
            batch, pending = pending[:batch_size], pending[batch_size:]
            if noise:
                batch = [add_noise(example, order, names) for example in batch]
            inputs, targets = _encode(tokenizer, batch, labels)
            factor = min(1.0, (step + 1) / (0.1 * steps)) * (1 - step / steps)
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["lr"] = peak * factor
            logits = model(**{name: value.to(device) for name, value in inputs.items()}).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), targets.flatten().to(device), ignore_index=-100
            )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(body, 1.0)
            optimizer.step()
            if progress is not None:
                progress(step + 1, steps)
    return model.to("cpu").eval(), tokenizer


def _encode(tokenizer: Any, batch: Sequence[Example], labels: Sequence[str]) -> tuple[dict[str, Any], Any]:
    """Returns the word pieces ``(windows, pieces)`` of a batch, and the class of each, -100 for special tokens."""
    read = tokenizer(
        [example.text for example in batch],
        truncation=True,
        max_length=min(MAX_PIECES, tokenizer.model_max_length),
        stride=0,
        padding=True,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        return_tensors="pt",
    )
    targets = torch.full(read["input_ids"].shape, -100)
    for row, number in enumerate(read["overflow_to_sample_mapping"].tolist()):
        text, spans = batch[number].text, batch[number].spans
        for at, ((start, end), is_special) in enumerate(
            zip(read["offset_mapping"][row].tolist(), read["special_tokens_mask"][row].tolist(), strict=True)
        ):
            if is_special or start >= end:
                continue
            if start < len(text) and text[start].isspace():
                start += 1  # some tokenizers include the space before a piece
            targets[row, at] = next(
                (labels.index(label) + 1 for a, b, label in spans if a < max(end, start + 1) and start < b), 0
            )
    inputs = {name: read[name] for name in ("input_ids", "attention_mask")}
    return inputs, targets


def _load(base: str, classes: Sequence[str]) -> tuple[Any, Any]:
    place = base_model(base)
    try:
        with quiet_transformers():
            tokenizer: Any = AutoTokenizer.from_pretrained(place, local_files_only=True)
            model: Any = AutoModelForTokenClassification.from_pretrained(
                place,
                local_files_only=True,
                id2label=dict(enumerate(classes)),
                label2id={name: index for index, name in enumerate(classes)},
                ignore_mismatched_sizes=True,
            )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--base: the model cannot be loaded ({type(error).__name__}); name minilm, a folder, or a model in the "
            "local Hugging Face cache"
        ) from None
    if not tokenizer.is_fast:
        raise ConfigError("--base: its tokenizer does not tell offsets; choose a model with a tokenizer.json")
    if not hasattr(model, "classifier"):
        raise ConfigError(f"--base: a {model.config.model_type} gets no head here; choose a BERT-like encoder")
    return model.float(), tokenizer


def _keep_layers(model: Any, layers: int) -> None:
    present = getattr(getattr(model.base_model, "encoder", None), "layer", None)
    if present is None or not 1 <= layers <= len(present):
        raise ConfigError(f"--layers {layers}: the encoder has {len(present) if present is not None else 'no'} layers")
    model.base_model.encoder.layer = present[:layers]
    model.config.num_hidden_layers = layers
