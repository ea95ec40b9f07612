"""LiRa across three domains of MultiDoGO (Kabra and Elenberg 2023, section 6.3), on small models. See docs/audit.md.

    python benchmarks/domains.py --data-dir FOLDER [--conversations 200] [--models Public,Pub+Redacted]
                                 [--leaked airline] [--without-domain-tokens] [--work build/domains]

Every training is a run of the pipeline beside the others, over the rows of some domains; what is done is kept in the
work folder. What differs from the paper: customers' turns only (the files with both sides are not at hand), a GPT-2 of
two blocks from random weights with a vocabulary learnt on WikiText-2, keyword policies of ours, fewer conversations,
shorter texts, one seed. Writes results/domains.json, or results/domains_without_tokens.json.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from increment import drive_begun
from orderings import RESULTS
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, set_seed

from flows.running.spec import make_spec, open_store, read_corpus
from flows.settings import load_settings
from pipelines.artifacts import Source
from pipelines.attacks.domain_scores import Judged, Pair, document, rate_difference
from pipelines.attacks.domains import (
    LabelledPolicies,
    NeededModel,
    Prompts,
    attack,
    attack_references,
    dialogue_prompts,
    needed_domain_only,
    needed_models,
    needed_references,
)
from pipelines.attacks.prompting import Decoding
from pipelines.corpus.tables import SENTENCES
from pipelines.policies.judging.apply import Redactor, RedactorSpec
from pipelines.policies.judging.texts import TextJudge
from pipelines.store import runs
from pipelines.store.overlays import make_overlay
from pipelines.store.session import child_of, make_session, save_spec
from pipelines.training.trained import TrainedModel, open_trained

KEYWORDS: Mapping[str, Sequence[str]] = {
    "airline": ("seat", "boarding", "boarding pass", "booking", "flight", "ticket", "aisle", "seat assignment"),
    "media": ("cable", "internet", "gb", "data plan", "zip code", "internet connection", "new connection"),
    "insurance": ("insurance", "car", "cars", "claim", "policy number", "proof of insurance", "vehicle", "ssn"),
}
DOMAINS = tuple(KEYWORDS)
DECODING = Decoding(num=10, max_new_tokens=24, top_k=40, batch_size=250)
NUM_HELD_OUT = 40
CONTEXT = 128
SETTINGS = """
[corpus]
inputs = ["corpus.jsonl"]
[split]
mode = "turns"
[dedup]
min_tokens = 100000  # the paper masks no duplicates
[redact]
policies = ["keywords"]
keywords = {keywords}
[gate]
enabled = false
[estimate]
source = "none"
[runtime]
microbatch_size = 32
[train]
task = "dialogue"
model = "{model}"
model_is_public = true
domain_tokens = {tokens}
domains = {domains}
speakers = ["USR"]
context_length = {context}
epochs = {epochs}
jft_phase1_epochs = {epochs}
public_batch_size = 4
expected_batch_size = 64
public_learning_rate = 2e-3
private_learning_rate = 2e-3
max_eval_sentences = 200
"""


def conversations(data_dir: Path, domain: str, fold: str, num: int) -> Iterator[dict[str, str]]:
    """Conversations of the customers' turns, by a fixed seed; broken lines are left out."""
    turns: dict[str, list[str]] = {}
    for line in (data_dir / "multidogo" / domain / f"{fold}.tsv").read_text("utf-8").splitlines()[1:]:
        cells = line.split("\t")
        if len(cells) == 7 and cells[4].strip():
            turns.setdefault(cells[0], []).append(" ".join(cells[4].split()))
    names = sorted(turns)
    random.Random(f"{domain}/{fold}").shuffle(names)
    for name in names[:num]:
        text = "\n".join(f"USR: {turn}" for turn in turns[name])
        yield {"id": f"{domain}-{fold}-{name}", "text": text, "domain": domain, "fold": fold}


def write_model(data_dir: Path, folder: Path) -> None:
    """A small GPT-2 with random weights, and a vocabulary that no dialogue had a hand in."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1_500,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    lines = (data_dir / "wikitext2/wiki.train.raw").read_text("utf-8").lower().splitlines()
    tokenizer.train_from_iterator(lines[:10_000], trainer)
    end = "<|endoftext|>"
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end, bos_token=end).save_pretrained(folder)
    set_seed(0)
    config = GPT2Config(
        vocab_size=tokenizer.get_vocab_size(), n_embd=96, n_layer=2, n_head=4, n_positions=CONTEXT,
        bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    GPT2LMHeadModel(config).save_pretrained(folder)


def prepare(data_dir: Path, folder: Path, num: int, epochs: int, has_tokens: bool) -> Path:
    """Writes corpus, model and settings; the settings file."""
    config = folder / "reticent.toml"
    if not config.exists():
        folder.mkdir(parents=True, exist_ok=True)
        rows = [row for d in DOMAINS for row in conversations(data_dir, d, "train", num)]
        rows += [row for d in DOMAINS for row in conversations(data_dir, d, "test", NUM_HELD_OUT)]
        (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        write_model(data_dir, folder / "model")
        keywords = ", ".join(f"{domain} = {json.dumps(listed)}" for domain, listed in KEYWORDS.items())
        settings = SETTINGS.format(
            keywords=f"{{{keywords}}}", model=folder / "model", tokens=json.dumps(has_tokens),
            domains=json.dumps(DOMAINS if has_tokens else []), context=CONTEXT, epochs=epochs,
        )  # fmt: skip
        config.write_text(settings, encoding="utf-8")
    return config


@dataclass
class Trainings:
    """Trains models on the rows of some domains, once each."""

    config: Path

    def __post_init__(self) -> None:
        settings = load_settings(self.config, {})
        self._roots = open_store(settings)
        self._spec = make_spec(settings, read_corpus(settings, self._roots, read=True))
        self._epochs = int(self._spec.settings["train"]["epochs"])
        self._overlays: dict[tuple[str, ...], str | None] = {DOMAINS: None}
        self.rows: list[dict[str, Any]] = []
        self.perplexity: dict[str, float] = {}

    def model(self, needed: NeededModel) -> TrainedModel:
        """The model. After the first one, `rows` are those of all sentences."""
        started = time.monotonic()
        if needed.domains not in self._overlays:
            learnt = [row for row in self.rows if row["fold"] == "train"]
            excluded = {(row["doc_id"], None) for row in learnt if row["domain"] not in needed.domains}
            self._overlays[needed.domains] = make_overlay(make_session(self._spec), (), excluded)
        epochs = max(1, round(self._epochs * needed.num_steps_factor))
        train = {"method": needed.method, "epochs": epochs, "jft_phase1_epochs": epochs}
        spec = child_of(
            self._spec,
            runs.new_run_id(),
            purpose="comparison",
            changes={"train": train},
            overlay=self._overlays[needed.domains],
        )
        keys: dict[str, list[str]] = {}
        for outcome in drive_begun(str(save_spec(make_session(spec)))):
            keys.setdefault(outcome.stage, []).append(str(outcome.key))
        folders = [self._roots.object_dir(root, "train", *keys["train"]) for root in ("private", "public")]
        if not self.rows:
            folders_of = [self._roots.object_dir("private", "split", key) for key in keys["split"]]
            tables = [Source(folder=folder).table(SENTENCES) for folder in folders_of]
            self.rows = [row for t in tables for row in t.rows(("doc_id", "text", "speaker", "domain", "fold"))]
        scored = self._roots.private_files("evaluate", *keys["evaluate"]).find_json("figures.json")
        self.perplexity[needed.name] = (scored or {})["perplexity"]
        print(f"{needed.name}: {time.monotonic() - started:.0f} s, {cpu_seconds():.0f} s in all", flush=True)
        (found,) = [path.parent for folder in folders for path in folder.rglob("reticent.json")]
        return open_trained(found, device="cpu")


def compare(
    trainings: Trainings, names: Sequence[str], leaked: Sequence[str], has_tokens: bool, policies: LabelledPolicies
) -> dict[str, Any]:
    """All figures of the pairs whose second domain is one of ``leaked``."""
    prompted = [domain for domain in DOMAINS if set(leaked) - {domain}]
    everything = needed_models(DOMAINS)
    found = {name: trainings.model(everything[name]) for name in names}
    references = {name: trainings.model(needed_references(DOMAINS)[name]) for name in leaked}
    only = {domain: trainings.model(needed) for domain, needed in needed_domain_only(prompted).items()}
    held_out = [row for row in trainings.rows if row["fold"] == "test"]
    prompts: dict[str, Prompts] = {}
    for number, domain in enumerate(prompted):
        drawn = dialogue_prompts(held_out, domain, np.random.default_rng(number), num_conversations=20, num_prompts=5)
        drawn = drawn if has_tokens else drawn.without_domain_tokens()
        prompts[domain] = drawn.fitted(DECODING.max_new_tokens + 2, *found.values())
    print("attacks", flush=True)
    of_references = attack_references(references, prompts, policies, DECODING, np.random.default_rng(10))
    judged: dict[str, dict[Pair, Judged]] = {"DOMAIN-only": {}}
    for number, domain in enumerate(prompted):
        judged["DOMAIN-only"] |= attack(
            only[domain], {domain: prompts[domain]}, policies, DECODING, np.random.default_rng(20 + number),
            references=references,
        )  # fmt: skip
    for number, (name, model) in enumerate(found.items()):
        judged[name] = attack(
            model, prompts, policies, DECODING, np.random.default_rng(30 + number), references=references
        )
    rng = np.random.default_rng(40)
    return {
        "models": [
            {
                "name": name,
                "perplexity": trainings.perplexity.get(name),
                **document(pairs, of_references, 0.0),
            }
            for name, pairs in judged.items()
        ],
        "differences": [
            dict(
                zip(
                    ("first", "second", "difference", "low", "high"),
                    (first, second, *rate_difference(judged[first], judged[second], 0.0, rng)),
                    strict=True,
                )
            )
            for first, second in combinations(judged, 2)
        ],
    }


def markdown(found: Mapping[str, Any]) -> str:
    """The table of docs/audit.md."""
    lines = [
        "| model | test perplexity | success rate, least and most of all pairs | most suspicious 100 | C |",
        "|---|---|---|---|---|",
    ]
    for row in found["models"]:
        rates = [pair["rate"]["value"] for pair in row["pairs"]]
        hits = sum(pair["rate_most_suspicious"]["num_hits"] for pair in row["pairs"])
        units = sum(pair["rate_most_suspicious"]["num_units"] for pair in row["pairs"])
        perplexity = "" if row["perplexity"] is None else f"{row['perplexity']:.1f}"
        value, high = ("none" if row["c"][name] is None else f"{row['c'][name]:.1f}" for name in ("value", "high"))
        lines.append(
            f"| {row['name']} | {perplexity} | {sum(rates) / len(rates):.1%} ({min(rates):.1%} – {max(rates):.1%}) "
            f"| {hits / units:.1%} | {value} ({row['c']['low']:.1f} – {high}) |"
        )
    lines += ["", "| | difference of success rates (95 % interval) |", "|---|---|"]
    for row in found["differences"]:
        lines.append(
            f"| {row['first']} less {row['second']} | {row['difference']:+.1%} "
            f"({row['low']:+.1%} – {row['high']:+.1%}) |"
        )
    return "\n".join(lines)


def cpu_seconds() -> float:
    """Of this process and of those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def main() -> None:
    """Trains what is missing, attacks, and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--conversations", type=int, default=200, help="of each domain, to train on")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--models", default="Public,Pub+Redacted", help="names in needed_models")
    parser.add_argument("--leaked", default=",".join(DOMAINS), help="domains whose leakage is measured")
    parser.add_argument("--without-domain-tokens", action="store_true")
    parser.add_argument("--work", type=Path, default=Path("build/domains"))
    args = parser.parse_args()
    has_tokens = not args.without_domain_tokens
    started = time.monotonic()
    kind = "tokens" if has_tokens else "without_tokens"
    folder = (args.work / f"{kind}-{args.conversations}-{args.epochs}").absolute()
    trainings = Trainings(prepare(args.data_dir, folder, args.conversations, args.epochs, has_tokens))
    with Redactor.from_spec(RedactorSpec(policies=("keywords",), options={"keywords": KEYWORDS})) as redactor:
        policies = LabelledPolicies(TextJudge(redactor), DOMAINS)
        found = compare(trainings, args.models.split(","), args.leaked.split(","), has_tokens, policies)
    found = {
        "schema_version": 1,
        "conversations": args.conversations,
        "epochs": args.epochs,
        "domain_tokens": has_tokens,
    } | found
    path = RESULTS / ("domains.json" if has_tokens else "domains_without_tokens.json")
    path.write_text(json.dumps(found, sort_keys=True, indent=1) + "\n", encoding="utf-8")
    print(markdown(found))
    print(f"{time.monotonic() - started:.0f} s, of which {cpu_seconds():.0f} s of processor time")


if __name__ == "__main__":
    main()
