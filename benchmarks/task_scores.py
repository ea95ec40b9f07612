"""Classification and table-to-text on real data, with and without privacy: SST-2 and E2E. See docs/models.md.

    python benchmarks/task_scores.py --data-dir FOLDER [--seeds 1] [--tasks sst2_head,e2e_scratch] [--work build/tasks]

Every training is a whole run of the pipeline, from text to claims, offline and on the CPU. What is done is kept in the
work folder, so that the command may be stopped and given again; results are rewritten after every training.
"""

from __future__ import annotations

import csv
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from common import RESULTS, append_line, command_line, read_lines, write_json, write_lines
from data_sets import wikitext
from orderings import SIZES
from reproduce.corpora import TASK
from task_scores_page import markdown

from flows.commands.compare import SCORES, Variant, run_variant
from flows.environment import DEFAULTS
from flows.running.spec import open_store
from pipelines.corpus.datasets import linearise
from pipelines.settings.loading import load_settings
from pipelines.store.objects import runs
from pipelines.training.data.vocabulary import learn_vocabulary
from pipelines.training.models.sources import find_model
from pipelines.training.scoring.tables import GENERATED
from pipelines.training.scoring.text_metrics import bleu, rouge, score_texts

ENCODER = """
adaptation = "lora"
lora_alpha = 4
epochs = 1
public_batch_size = 32
expected_batch_size = 180
public_learning_rate = 2e-3
private_learning_rate = 1e-3
context_length = 64
max_eval_sentences = 500
task = "classification"
"""
TRAININGS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "no_dp": ("no_dp", {}),
    "jft, ε = 3": ("jft/direct", {"target_epsilon": "3"}),
    "crt, ε = 3": ("crt", {"target_epsilon": "3"}),
    "dpsgd, ε = 8": ("dpsgd", {"target_epsilon": "8"}),
    "dpsgd, ε = 3": ("dpsgd", {"target_epsilon": "3"}),
}
"""Method and settings of ``[train]``, by name."""


@dataclass(frozen=True)
class Job:
    """A task with a model.

    Attributes:
        title: title of its table.
        format: value of ``corpus.format``.
        rows: function that makes its corpus from the folder of data sets.
        train: text of ``[train]``; ``{folder}`` is a model that ``model`` writes.
        model: function that writes a model folder.
        trainings: names in `TRAININGS`.
        num_seeds: largest number of repetitions.
        baselines: function from the test rows and the training rows to rows of the table that need no training.
    """

    title: str
    format: str
    rows: Callable[[Path], list[dict[str, str]]]
    train: str
    model: Callable[[Path, Path], None] | None = None
    trainings: Sequence[str] = tuple(TRAININGS)
    num_seeds: int = 5
    baselines: Callable[[Sequence[Mapping[str, str]]], list[dict[str, Any]]] = field(default=lambda rows: [])


def sst2_rows(data: Path, num_train: int = 3_600) -> list[dict[str, str]]:
    """Returns phrases of 5 to 15 words of the training set, drawn by a fixed seed, and the development set as test.

    Most rows of the training set are shorter pieces of others; much longer ones cost padding in every batch.
    """
    with (data / "sst2/train.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = [row for row in rows if 5 <= len(row["sentence"].split()) <= 15]
    random.Random("sst2").shuffle(rows)
    found = [{"sentence": r["sentence"].strip(), "label": r["label"], "fold": "train"} for r in rows[:num_train]]
    test = read_lines(data / "sst2/dev.jsonl")
    return found + [{"sentence": row["a"], "label": row["label"], "fold": "test"} for row in test]


def e2e_rows(data: Path, num_train: int, num_tables: int) -> list[dict[str, str]]:
    """Returns training rows drawn by a fixed seed, and tables of the test set with all their references."""
    lines = (data / "e2e/train_tok.jsonl").read_text("utf-8").splitlines()
    random.Random("e2e").shuffle(lines)
    found = [{**json.loads(line), "fold": "train"} for line in lines[:num_train]]
    with (data / "e2e/testset_w_refs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    tables = sorted({row["mr"] for row in rows})
    random.Random("e2e").shuffle(tables)
    chosen = set(tables[:num_tables])
    return [*found, *({**row, "fold": "test"} for row in rows if row["mr"] in chosen)]


def majority(rows: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Returns the accuracy of the class that is most frequent in training."""
    best, _ = Counter(row["label"] for row in rows if row["fold"] == "train").most_common(1)[0]
    test = [row["label"] for row in rows if row["fold"] == "test"]
    share = test.count(best) / len(test)
    error = (share * (1 - share) / len(test)) ** 0.5
    return [{"name": "majority class", "accuracy": share, "low": share - 1.96 * error, "high": share + 1.96 * error}]


def without_model(rows: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Returns the scores of the table itself as its description, and of a random description of the training set."""
    references: dict[str, list[str]] = {}
    for row in rows:
        if row["fold"] == "test":
            references.setdefault(linearise(row["mr"]), []).append(row["ref"])
    train = [row["ref_tokenised"] for row in rows if row["fold"] == "train"]
    chance = random.Random("chance").choices(train, k=len(references))
    return [
        {"name": name, **scored(texts, list(references.values()))}
        for name, texts in (("the table itself", list(references)), ("a description of another table", chance))
    ]


def masked_model(data: Path, folder: Path, num_steps: int = 300, seed: int = 0) -> None:
    """Writes MiniLM's encoder with the head of a masked language model, which its package lacks, learnt on WikiText-2.

    Only the head is trained; embeddings are those of the encoder. Public text on a public model.
    """
    source = find_model("minilm").location
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    model = transformers.BertForMaskedLM.from_pretrained(source)
    model.requires_grad_(False)
    model.cls.requires_grad_(True)
    model.cls.predictions.decoder.weight.requires_grad_(False)  # the embeddings
    lines = wikitext(data, "train", min_words=21, headings=True)
    torch.manual_seed(seed)
    random.Random(seed).shuffle(lines)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    losses: list[float] = []
    for start in range(0, 32 * num_steps, 32):
        batch = tokenizer(lines[start : start + 32], truncation=True, max_length=48, padding=True, return_tensors="pt")
        chosen = (torch.rand(batch["input_ids"].shape) < 0.2) & (batch["input_ids"] > 999)  # below are special tokens
        labels = batch["input_ids"][chosen]
        batch["input_ids"][chosen] = tokenizer.mask_token_id
        with torch.no_grad():
            hidden = model.bert(**batch).last_hidden_state[chosen]
        loss = torch.nn.functional.cross_entropy(model.cls(hidden), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"masked head: {len(losses)} steps, loss {losses[0]:.2f} -> {np.mean(losses[-20:]):.2f}", flush=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def small_gpt2(data: Path, folder: Path, vocab_size: int = 2_000) -> None:
    """Writes a GPT-2 of two blocks with random weights, with a vocabulary that is learnt on WikiText-2: public text."""
    raw = (data / "wikitext2/wiki.train.raw").read_text("utf-8").splitlines()
    tokenizer = learn_vocabulary("bpe_public", vocab_size, (line for line in raw if line.strip())).tokenizer
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=256, n_embd=128, n_layer=2, n_head=4, bos_token_id=None,
        eos_token_id=None,
    )  # fmt: skip
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


JOBS: Mapping[str, Job] = {
    "sst2_head": Job(
        title="SST-2, a head on MiniLM (22 million weights, LoRA)",
        format="glue",
        rows=sst2_rows,
        train=ENCODER + 'model = "minilm"\nclasses = ["negative", "positive"]\n',
        trainings=("no_dp", "crt, ε = 3", "dpsgd, ε = 8", "dpsgd, ε = 3"),
        baselines=majority,
    ),
    "sst2_infilling": Job(
        title="SST-2 by text infilling, MiniLM with a masked head learnt on WikiText-2 (22 million weights, LoRA)",
        format="glue",
        rows=sst2_rows,
        train=ENCODER + 'model = "{folder}"\nmodel_is_public = true\ntemplate = "sst2"\n',
        model=masked_model,
        trainings=("no_dp", "dpsgd, ε = 8", "dpsgd, ε = 3"),
        baselines=majority,
    ),
    "e2e_scratch": Job(
        title="E2E, a GPT-2 of two blocks of width 128 from random weights",
        format="e2e",
        rows=lambda data: e2e_rows(data, num_train=2_000, num_tables=60),
        train="""
task = "table_to_text"
model = "{folder}"
model_is_public = true
adaptation = "scratch"
tokenizer = "pretrained"
context_length = 192
epochs = 5
jft_phase1_epochs = 5
expected_batch_size = 400
max_eval_sentences = 150
max_generated = 60
max_new_tokens = 80
""",
        model=small_gpt2,
        baselines=without_model,
    ),
    "e2e_smollm2": Job(
        title="E2E, SmolLM2-135M (LoRA)",
        format="e2e",
        rows=lambda data: e2e_rows(data, num_train=192, num_tables=16),
        train="""
task = "table_to_text"
model = "smollm2"
adaptation = "lora"
context_length = 160
epochs = 1
expected_batch_size = 64
public_learning_rate = 5e-4
max_eval_sentences = 16
max_generated = 16
max_new_tokens = 64
""",
        trainings=("no_dp", "dpsgd, ε = 8"),
        num_seeds=1,
        baselines=without_model,
    ),
}


def prepare(name: str, job: Job, folder: Path, data: Path) -> tuple[Path, list[dict[str, str]]]:
    """Writes corpus, model and settings, and returns the settings file and the rows of the corpus."""
    config, corpus = folder / "reticent.toml", folder / "corpus.jsonl"
    if not corpus.exists():
        write_lines(corpus, job.rows(data))
    if job.model is not None and not (folder / "model").exists():
        job.model(data, folder / "partial")
        (folder / "partial").rename(folder / "model")
    config.write_text(TASK.format(format=job.format, train=job.train.format(folder=folder / "model")), encoding="utf-8")
    return config, read_lines(corpus)


def scored(texts: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Returns all scores, and intervals of BLEU and ROUGE-L by a bootstrap over tables."""
    found = asdict(score_texts(texts, references))
    draws = np.random.default_rng(0).integers(len(texts), size=(200, len(texts)))
    for name, metric in (("bleu", bleu), ("rouge_l", partial(rouge, "rougeL"))):
        values = [metric([texts[i] for i in draw], [references[i] for i in draw]) for draw in draws]
        found[f"{name}_low"], found[f"{name}_high"] = (float(v) for v in np.percentile(values, [2.5, 97.5]))
    return found


def generated(config: Path, run_id: str) -> tuple[list[str], list[list[str]]]:
    roots = open_store(load_settings(config, os.environ))
    record = runs.resolve(roots, run_id)
    key = next(key for stage, _, key in record["artifacts"] if stage == "evaluate")
    rows = roots.private_files("evaluate", key).table(GENERATED).read().to_pylist()
    return [row["text"] for row in rows], [row["references"] for row in rows]


def train(config: Path, job: Job, name: str, seed: int) -> dict[str, Any]:
    method, settings = TRAININGS[name]
    overrides = {f"RETICENT__TRAIN__{key.upper()}": value for key, value in settings.items()}
    row = {"name": name, "seed": seed, **run_variant(Variant(config, method, seed, overrides), os.environ)}
    if row["state"] == "completed" and job.format == "e2e":
        texts, references = generated(config, row["run_id"])
        row |= scored(texts, references)
        row["examples"] = texts[:3]
    return row


def summary(job: Job, rows: Sequence[Mapping[str, Any]], corpus: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Returns the table of one job: means over seeds; intervals over test rows, or tables, of one model."""
    table: list[dict[str, Any]] = list(job.baselines(corpus))
    for name in job.trainings:
        found = [row for row in rows if row["name"] == name]
        if not found:
            continue
        first = found[0]
        row = {
            "name": name,
            "num_seeds": len(found),
            "epsilon": first["epsilon_unamplified"],
            "headline": first["headline"],
            **{figure: first[figure] for figure in SIZES},
            "num_scored": first["num_eval_sentences"] if job.format == "glue" else first["num_outputs"],
            "train_seconds": float(np.mean([r["train_seconds"] for r in found])),
        }
        if job.format == "glue":
            values = [r["accuracy"] for r in found]
            error = first["accuracy_standard_error"]
            row |= {
                "accuracy": float(np.mean(values)),
                "low": float(np.mean(values)) - 1.96 * error,
                "high": float(np.mean(values)) + 1.96 * error,
                "least": min(values),
                "most": max(values),
                "accuracy_at_initialisation": float(np.mean([r["accuracy_at_initialisation"] for r in found])),
                "accuracy_by_class": first["accuracy_by_class"],
            }
        else:
            means = ("perplexity", "perplexity_at_initialisation", *SCORES)
            measured = [key for key in means if all(r.get(key) is not None for r in found)]
            row |= {key: float(np.mean([r[key] for r in found])) for key in measured}
            row |= {key: first[key] for key in ("bleu_low", "bleu_high", "rouge_l_low", "rouge_l_high")}
            row["examples"] = first["examples"]
        table.append(row)
    folds = Counter(row["fold"] for row in corpus)
    sizes = {"num_train": folds["train"], "num_test": folds["test"], "num_scored": table[-1].get("num_scored")}
    return {"title": job.title, **sizes, "rows": table}


def write(document: Mapping[str, Any]) -> None:
    write_json(RESULTS / "tasks.json", document, sort_keys=True, ensure_ascii=False, allow_nan=False)
    (RESULTS / "tasks.md").write_text(markdown(document), encoding="utf-8")


def main() -> None:
    parser = command_line(__doc__, data_dir=True, work="build/tasks")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tasks", default=",".join(JOBS), help="names, separated by commas")
    parser.add_argument("--only", help="names of trainings, separated by semicolons")
    args = parser.parse_args()
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    args.work.mkdir(parents=True, exist_ok=True)
    only = None if args.only is None else {name.strip() for name in args.only.split(";")}
    log = args.work / "trainings.jsonl"
    rows = read_lines(log)
    done = {(row["job"], row["name"], row["seed"]) for row in rows}
    tasks: dict[str, Any] = {}
    for task, job in JOBS.items():
        mine = [row for row in rows if row["job"] == task]
        if task not in args.tasks.split(",") and not mine:
            continue
        config, corpus = prepare(task, job, (args.work / task).absolute(), args.data_dir)
        for seed in range(min(args.seeds, job.num_seeds) if task in args.tasks.split(",") else 0):
            for name in job.trainings:
                if (task, name, seed) in done or (only is not None and name not in only):
                    continue
                row = {"job": task, **train(config, job, name, seed)}
                print(task, seed, name, row["state"], row.get("reason", ""), flush=True)
                if row["state"] != "completed":
                    raise SystemExit(1)
                mine.append(row)
                rows.append(row)
                append_line(log, row)
        tasks[task] = summary(job, mine, corpus)
        seconds = sum(row["train_seconds"] for row in rows)
        command = f"python benchmarks/task_scores.py --seeds {args.seeds}"
        write({"schema_version": 1, "command": command, "seconds": seconds, "tasks": tasks})


if __name__ == "__main__":
    main()
