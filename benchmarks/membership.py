"""Membership inference on WikiText-2, small models under `no_dp` and `dpsgd`, and one that saw no record.

    nice -n 14 python benchmarks/membership.py --data-dir FOLDER [--records 1000] [--epochs 4] [--work FOLDER]
                                               [--models private,target,unseen]

As in the papers: as many members as non-members, and a model that was fine-tuned on the members from a base, which is
the reference. Records are sentences, dealt out by one shuffle, so members and non-members have one source. The base is
trained here on sentences of its own, then public to the pipeline, which trains the target, the unseen model and, on the
target's records, the private one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import RESULTS, command_line, heading, read_json, write_json, write_lines
from data_sets import wikitext
from transformers import GPT2LMHeadModel

from flows.running.fetching import fetch
from pipelines.attacks.membership import CLASSIC, MembershipResult, attack_membership
from pipelines.attacks.membership_evaluation import auc_difference
from pipelines.corpus.split import Splitter
from pipelines.dp.language import causal_lm_losses
from pipelines.settings.loading import load_settings
from pipelines.training.data.vocabulary import Vocabulary, learn_vocabulary
from pipelines.training.models.network import build_model
from pipelines.training.models.shape import ModelShape
from pipelines.training.trained import TrainedModel, open_trained

SHAPE = ModelShape(num_layers=2, num_heads=2, embedding_size=64, context_length=64)
SETTINGS = """
[corpus]
inputs = ["corpus.jsonl"]
[redact]
policies = ["identifiers"]  # `no_dp` reads the original
conservative = "identifiers"
[gate]
enabled = false
[estimate]
source = "none"
[train]
model = "{base}"
model_is_public = true
context_length = {context_length}
epochs = {epochs}
max_eval_sentences = 50
"""
METHODS = {
    "no_dp": """method = "no_dp"
public_batch_size = 32
public_learning_rate = {learning_rate}
""",
    "dpsgd": """method = "dpsgd"
target_epsilon = 3.0
target_delta = 1e-5
expected_batch_size = 256
max_grad_norm = 0.5
private_learning_rate = {learning_rate}
""",
}


def sentences(data_dir: Path, num: int) -> list[str]:
    """Returns distinct sentences of eight words or more, in a fixed random order."""
    paragraphs = wikitext(data_dir, "train", min_words=21)
    random.Random("membership").shuffle(paragraphs)
    found: dict[str, None] = {}
    for parts in Splitter(mode="rules").split(paragraphs):
        found.update(dict.fromkeys(part.text for part in parts if len(part.text.split()) >= 8))
        if len(found) > 1.2 * num:
            break
    names = list(found)
    random.Random("membership").shuffle(names)
    return names[:num]


def train_base(texts: Sequence[str], vocabulary: Vocabulary, folder: Path, epochs: int) -> None:
    """Trains the base by plain AdamW, and writes it to a folder as `save_pretrained` does."""
    network = build_model(SHAPE, vocabulary.backend.get_vocab_size(), vocabulary.control, 0)
    encoded = as_trained(network, vocabulary).encode(texts)
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    rows = [slice(*encoded.offsets[at : at + 2]) for at in range(len(encoded))]
    for epoch in range(epochs):
        total = 0.0
        for batch in torch.randperm(len(rows), generator=generator).split(32):
            parts = [torch.from_numpy(encoded.ids[rows[at]].astype(np.int64)) for at in batch.tolist()]
            asked = [torch.from_numpy(encoded.is_target[rows[at]]) for at in batch.tolist()]
            labels = [torch.where(is_asked, ids, -100) for ids, is_asked in zip(parts, asked, strict=True)]
            pad = torch.nn.utils.rnn.pad_sequence
            losses = causal_lm_losses(
                network, pad(parts, batch_first=True), pad(labels, batch_first=True, padding_value=-100)
            )
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            total += float(losses.detach().sum())
        print(f"base, epoch {epoch}: loss a token {total / len(rows):.3f}", flush=True)
    network.save_pretrained(folder)
    vocabulary.tokenizer.save_pretrained(folder)


def as_trained(network: Any, vocabulary: Vocabulary) -> TrainedModel:
    """Returns a network as attacks take it, with the encoding of a fine-tuned model."""
    description = {"method": "no_dp", "task": "language_modelling", "context_length": SHAPE.context_length}
    return TrainedModel(network, vocabulary, {**description, "marks_tokens": False})


def fine_tuned(
    texts: Sequence[str], held_out: Sequence[str], folder: Path, base: Path, args: Any, method: str = "no_dp"
) -> TrainedModel:
    """Returns the model that a method trains from the base with these sentences."""
    rows = [(fold, text) for fold, part in (("train", texts), ("test", held_out)) for text in part]
    lines = ({"id": f"{n}", "text": text, "fold": fold} for n, (fold, text) in enumerate(rows))
    write_lines(folder / "corpus.jsonl", lines)
    config = folder / "reticent.toml"
    values = {"base": base, "epochs": args.epochs, "learning_rate": args.learning_rate}
    settings = (SETTINGS + METHODS[method]).format(context_length=SHAPE.context_length, **values)
    config.write_text(settings, encoding="utf-8")
    session, keys = fetch(load_settings(config, os.environ), "train")
    ((_, key),) = keys["train"]
    figures = session.roots.private_files("train", key).json("figures.json")
    print(f"{folder.name}: {figures['num_private_records']} records", flush=True)
    root = "private" if method == "no_dp" else "public"
    return open_trained(session.roots.object_dir(root, "train", key) / "model", device="cpu")


def table(result: MembershipResult) -> list[str]:
    lines = [
        *heading(
            "score", "AUC (95 %)", "of the unseen model", "accuracy", "found at 10 / 1 / 0.1 % false", "AUC of groups"
        )
    ]
    for name, attack in result.individual.items():
        one, group = attack.evaluation, result.group.get(name)
        low, high = one.auc_interval
        other = "" if attack.over_unseen is None else f"{attack.over_unseen.baseline_auc:.3f}"
        found = " / ".join(f"{100 * point.true_positive_rate:.1f} %" for point in one.points)
        lines.append(
            f"| `{name}` | {one.auc:.3f} ({low:.3f} – {high:.3f}) | {other} "
            f"| {one.accuracy.value:.3f} | {found} | {'' if group is None else f'{group.evaluation.auc:.3f}'} |"
        )
    return [*lines, "", f"Blind classifier: AUC {result.blind.auc:.3f}. Any leak: {result.any_leak}."]


def as_the_papers(result: MembershipResult) -> list[str]:
    """Returns lines of a table, one for each protocol."""
    lines = []
    for found in result.papers:
        for kind, one in (("records", found.individual), ("overlapping groups", found.overlapping_groups)):
            if one is not None:
                low, high = one.accuracy_interval or ("none", "holds")
                baselines = ", ".join(f"{name} {value:.3f}" for name, value in one.baselines.items())
                lines.append(
                    f"| {found.protocol.name} | {kind} | {one.accuracy:.3f} ({low} – {high}) | {baselines} "
                    f"| {one.accuracy_over:+.3f} |"
                )
    return lines


def over_classic(result: MembershipResult, name: str, members: set[str]) -> dict[str, Any]:
    """Returns the difference of the AUC of a score from the best of the papers' scores, on the same records."""
    best = max(CLASSIC, key=lambda score: result.individual[score].evaluation.auc)

    def scores(of: str, inside: bool) -> np.ndarray:
        return np.array([value for record, value in sorted(result.scores[of].items()) if (record in members) is inside])

    value, interval, p_value = auc_difference(
        (scores(name, True), scores(best, True)), (scores(name, False), scores(best, False)), 0.95
    )
    return {"classic": best, "difference": value, "interval": interval, "p_value": p_value}


def without_curves(figures: Any) -> Any:
    """Returns the figures without their ROC, which would be most of the file."""
    if isinstance(figures, dict):
        return {name: without_curves(part) for name, part in figures.items() if name != "roc"}
    return figures


def named(kind: str, texts: Sequence[str]) -> Mapping[str, str]:
    return {f"{kind}{number}": text for number, text in enumerate(texts)}


def main() -> None:
    parser = command_line(__doc__, data_dir=True, work="build/membership")
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--base-records", type=int, default=4_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--models", default="private,target,unseen", help="models that are attacked")
    args = parser.parse_args()
    size, work = args.records, args.work.absolute()
    texts = sentences(args.data_dir, 3 * size + 550 + args.base_records)
    members, non_members, of_unseen = (texts[at * size : (at + 1) * size] for at in range(3))
    rest = texts[3 * size :]
    population, held_out, of_base = rest[:500], rest[500:550], rest[550 : 550 + args.base_records]
    vocabulary = learn_vocabulary("bpe_public", 2_000, of_base)
    base = work / f"base-{args.base_records}"
    if not (base / "config.json").exists():
        train_base(of_base, vocabulary, base, 2)
    wanted = args.models.split(",")
    models = {
        name: fine_tuned(part, held_out, work / f"{name}-{size}", base, args, method)
        for name, part, method in (
            ("private", members, "dpsgd"),
            ("target", members, "no_dp"),
            ("unseen", of_unseen, "no_dp"),
        )
        if name in wanted
    }
    network = GPT2LMHeadModel.from_pretrained(base)
    read = next(iter(models.values())).vocabulary
    network.resize_token_embeddings(read.backend.get_vocab_size())
    reference = as_trained(network.eval(), read)
    path = RESULTS / "membership.json"
    document = read_json(path) if path.exists() else {"models": {}}
    document["command"] = f"python benchmarks/membership.py --records {size} --epochs {args.epochs}"
    results: dict[str, MembershipResult] = {}
    for name, model in models.items():
        found = attack_membership(
            model,
            named("m", members),
            named("n", non_members),
            reference=reference,
            unseen=None if name == "unseen" else models.get("unseen"),
            population=named("z", population),
            generator=np.random.default_rng(0),
        )
        results[name] = found
        document["models"][name] = without_curves(found.document())
        print(name, *table(found), *as_the_papers(found), sep="\n", flush=True)
    if "target" in results:
        document["ez_over_classic"] = over_classic(results["target"], "ez", set(named("m", members)))
        print("ez over the best of the papers' scores:", document["ez_over_classic"])
    write_json(path, document, allow_nan=False)


if __name__ == "__main__":
    main()
