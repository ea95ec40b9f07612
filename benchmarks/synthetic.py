"""The use of synthetic text, its repetitions of the corpus, and the speed of writing it.

    nice -n 10 python benchmarks/synthetic.py [--data-dir DATA] [--dialogues 300] [--rows 3000] [--only PART]

Corpora are the built-in one and, with ``--data-dir``, MultiDoGO (three domains). Into each, lines with a number of six
digits are planted. A model is trained by ``crt`` at ε = 8, and writes a table by the stages of ``reticent synthesize``.
Counted: planted numbers and known secrets in the table; replayed passages and masked strings, as the stage counts them.
Then *train on synthetic, test on real*, as the stage measures it: a classifier (of domains; of speakers where there is
one domain), a trigram model, and the run's own network without noise, three times for 300 steps, trained on as many
rows of synthetic, redacted and real text each, tried on held-out rows. Real rows are what a release would have to hide;
redacted rows are not protected where redaction missed.

Parts are ``built-in``, ``multidogo`` and ``speed``: tokens a second of one thread, by the processor's time, beside
``generate`` of transformers, with the same model and prompts, after both were seen to give the same texts at
temperature 0. Rows have one length, or each its own. ``generate`` takes one number, so it is given the longest of each
batch, and tokens beyond a row's own length do not count; batches are sorted by length for it, as ours are, which it
does not do by itself.
"""

from __future__ import annotations

import json
import os
import platform
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import torch
from common import RESULTS as ALL_RESULTS
from common import command_line, read_json, write_json, write_lines
from domains_corpus import DOMAINS, rows_of

from flows.running.fetching import fetch
from pipelines.corpus.customersim import simulate
from pipelines.gate.strings import StringIndex, words_of
from pipelines.settings.loading import load_settings
from pipelines.synthesis.writing import Asked, Decoding, continued, prompt_ids
from pipelines.training.data.control import AddedTokens
from pipelines.training.data.vocabulary import learn_vocabulary
from pipelines.training.encoded import Record
from pipelines.training.models.network import build_model
from pipelines.training.models.shape import ModelShape
from pipelines.training.scoring.generation import BeamSearch, generate_each
from pipelines.training.trained import TrainedModel

RESULTS: Final = ALL_RESULTS / "synthetic.json"
NUM_PLANTED: Final = 40
LEAST_CHARACTERS: Final = 6
SETTINGS: Final = """
[corpus]
inputs = ["corpus.jsonl"]
max_rejected_fraction = 0.05
[redact]
policies = {policies}
conservative = "conservative"
[sample]
replicates = 1
fraction = 0.05
[train]
method = "crt"
target_epsilon = 8.0
domain_tokens = {domain_tokens}
num_layers = 2
num_heads = 4
embedding_size = 128
context_length = 64
vocab_size = 1500
epochs = 8
public_batch_size = 32
public_learning_rate = 0.003
expected_batch_size = 256
[synthesize]
enabled = true
rows = {rows}
max_new_tokens = 32
downstream_steps = 300
"""


def planted(rows: Sequence[dict[str, Any]]) -> set[str]:
    """Adds a line with a number of six digits to some training documents, and returns the numbers."""
    generator = random.Random(0)
    chosen = generator.sample([row for row in rows if row.get("fold", "train") == "train"], NUM_PLANTED)
    numbers = {f"{generator.randrange(10**6):06d}" for _ in chosen}
    for row, number in zip(chosen, sorted(numbers), strict=False):
        row["text"] += f"\nUSR: my id is {number}"
    return numbers


def built_in(num: int) -> Iterator[dict[str, Any]]:
    """Yields dialogues of CustomerSim with their known secrets."""
    for number, row in enumerate(simulate(num, 0)):
        yield {**row, "fold": "test" if number % 5 == 0 else "train"}


def multidogo(data_dir: Path, num: int) -> Iterator[dict[str, Any]]:
    """Yields the customers' turns of conversations, a third of them of each domain; a fifth is held out."""
    for domain in DOMAINS:
        said: dict[str, list[str]] = {}
        for cells in rows_of(data_dir, domain, "train"):
            said.setdefault(cells[0], []).append(" ".join(cells[4].split()))
        for number, name in enumerate(sorted(said)[: num // len(DOMAINS)]):
            text = "\n".join(f"USR: {turn}" for turn in said[name])
            fold = "test" if number % 5 == 0 else "train"
            yield {"id": f"{domain}-{name}", "text": text, "domain": domain, "fold": fold}


def project(folder: Path, rows: list[dict[str, Any]], num_rows: int, policies: Sequence[str]) -> Path:
    write_lines(folder / "corpus.jsonl", rows)
    has_domains = json.dumps(bool(rows[0].get("domain")))
    config = folder / "reticent.toml"
    settings = SETTINGS.format(policies=json.dumps(policies), rows=num_rows, domain_tokens=has_domains)
    config.write_text(settings, encoding="utf-8")
    return config


def measured(config: Path, numbers: set[str], secrets: set[str]) -> dict[str, Any]:
    session, keys = fetch(load_settings(config, os.environ), "synthesize_check")

    def artifact(stage: str) -> Any:
        ((_, key),) = keys[stage]
        return session.roots, stage, key

    roots, _, key = artifact("synthesize")
    text = pl.read_parquet(roots.object_dir("public", "synthesize", key) / "synthetic.parquet")
    told = roots.private_files("synthesize", key).json("synthetic.json")
    check = roots.private_files("synthesize_check", artifact("synthesize_check")[2]).json("check.json")
    known = StringIndex({" ".join(words_of(secret)): "SECRET" for secret in secrets | numbers})
    found = {string for line in text["text"] for string in known.find(words_of(line))}
    return {
        "epsilon": told["epsilon"],
        "is_guarantee": told["is_guarantee"],
        "num_rows": told["num_rows"],
        "num_secrets": len(known.labels),
        "num_planted_found": len(found & numbers),
        "num_secrets_found": len(found),
        "replay": check["replay"],
        "finds": check["finds"],
        "distance": check["distance"],
        **check["downstream"],
    }


def speed(num_rows: int = 256, most: int = 48, batch_size: int = 64) -> list[dict[str, Any]]:
    """Measures tokens a second of one thread, by the processor's time, of a model with random weights."""
    torch.set_num_threads(1)
    shape = ModelShape(num_layers=6, num_heads=8, embedding_size=256, context_length=64)
    texts = (row["text"] for row in simulate(300, 0))
    vocabulary = learn_vocabulary("bpe_public", 5_000, texts, AddedTokens(speakers=("SYS", "USR")))
    network = build_model(shape, vocabulary.backend.get_vocab_size(), vocabulary.control, 0).eval()
    told = {"method": "crt", "task": "language_modelling", "context_length": 64, "marks_tokens": False}
    model = TrainedModel(network.requires_grad_(False), vocabulary, told)
    speakers = sorted(model.control.speakers)
    prompt = [prompt_ids(model, Record(texts=[""], speakers=[name])) for name in speakers]
    generator = np.random.default_rng(0)
    results = []
    of_rows = {"one length": [most] * num_rows, "1 to 48": generator.integers(1, most + 1, num_rows)}
    for name, lengths in of_rows.items():
        rows = [
            Asked(prompt=prompt[n % len(prompt)], fewest=int(length), most=int(length), uniforms=generator.random(most))
            for n, length in enumerate(lengths)
        ]
        how = BeamSearch(num_beams=1, max_new_tokens=8, batch_size=32)
        free = [Asked(prompt=row.prompt, fewest=0, most=8, uniforms=row.uniforms) for row in rows[:32]]
        theirs = generate_each(network, model.vocabulary.tokenizer, [r.prompt for r in free], model.control, how)
        ours = continued(model, free, Decoding(temperature=0, batch_size=32))
        decode = model.vocabulary.tokenizer.decode
        if [decode(ids).strip() for ids in ours] != [text for (text,) in theirs]:
            raise AssertionError("not the same texts at temperature 0")
        num_tokens = int(sum(lengths))
        seconds = {}
        for side in ("ours", "transformers"):
            started = time.process_time()
            if side == "ours":
                continued(model, rows, Decoding(batch_size=batch_size))
            else:
                _generate(network, model, rows, batch_size)
            seconds[side] = time.process_time() - started
        results.append(
            {
                "lengths": name,
                "num_rows": num_rows,
                "batch_size": batch_size,
                "tokens": num_tokens,
                **{f"{side}_tokens_a_second": round(num_tokens / one) for side, one in seconds.items()},
                "ratio": seconds["transformers"] / seconds["ours"],
            }
        )
    return results


def _generate(network: Any, model: TrainedModel, rows: Sequence[Asked], batch_size: int) -> None:
    """Runs ``generate`` on the same batches, each as long as its longest row, sorted by length, as ours are."""
    ordered = sorted(rows, key=lambda row: row.most)
    for first in range(0, len(ordered), batch_size):
        batch = ordered[first : first + batch_size]
        longest = max(row.most for row in batch)
        with torch.no_grad():
            network.generate(
                input_ids=torch.tensor([list(row.prompt) for row in batch]),
                attention_mask=torch.ones((len(batch), len(batch[0].prompt)), dtype=torch.int64),
                do_sample=True,
                top_k=0,
                min_new_tokens=longest,
                max_new_tokens=longest,
                pad_token_id=model.control.pad,
            )


def line(name: str, found: Mapping[str, Any]) -> str:
    rows, start = found["replay"]["table"], found["replay"]["start"]
    words = [
        f"{name}: epsilon {found['epsilon']}, {found['num_rows']} rows; {found['num_planted_found']} planted numbers, "
        f"{found['num_secrets_found']} of {found['num_secrets']} known secrets",
        f"  replay {rows['rows']['num_hits']} rows, {rows['rows_unpublished']['num_hits']} unpublished (start "
        f"weights {start['rows']['num_hits']} of {start['rows']['num_units']}), documents "
        f"{rows['documents']['num_hits']}/{rows['documents']['num_units']} "
        f"against held-out {rows['held_out_documents']['num_hits']}/{rows['held_out_documents']['num_units']}, "
        f"p {rows['p_value']:.2g}; finds {found['finds'] and found['finds']['table']['rows']['num_hits']}",
        f"  distance {found['distance']}",
    ]
    measures = {f"accuracy of {found['classifier_of']}": found["accuracy"], "perplexity": found["perplexity"]}
    for measure, by_kind in {**measures, "perplexity of the network": found["network"]["perplexity"]}.items():
        cells = (f"{k} {v['value']:.3g} [{v['low']:.3g}, {v['high']:.3g}]" for k, v in by_kind.items())
        words.append(f"  {measure}: {'; '.join(cells)}")
    return "\n".join(words)


def main() -> None:
    parser = command_line(__doc__, data_dir=False, work="build/synthetic", out=RESULTS)
    parser.add_argument("--dialogues", type=int, default=300)
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--only", choices=("built-in", "multidogo", "speed"), help="One of the three.")
    given = parser.parse_args()
    corpora: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
        "built-in": (list(built_in(given.dialogues)), ["customersim", "high_entity"])
    }
    if given.data_dir is not None:
        corpora["multidogo"] = (list(multidogo(given.data_dir, given.dialogues)), ["identifiers", "high_entity"])
    results: dict[str, Any] = {
        "command": "python benchmarks/synthetic.py --data-dir DATA; multidogo with --dialogues 1200",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}",
        "corpora": {},
    }
    for name, (rows, policies) in corpora.items():
        if given.only not in (None, name):
            continue
        secrets = {row["text"][s["start"] : s["end"]] for row in rows for s in row.get("spans", ())}
        numbers = planted(rows)
        config = project(given.work / name, rows, given.rows, policies)
        secrets = {secret for secret in secrets if len(secret) >= LEAST_CHARACTERS}
        results["corpora"][name] = {"num_documents": len(rows), **measured(config, numbers, secrets)}
        print(line(name, results["corpora"][name]), flush=True)
    if given.only in (None, "speed"):
        results["speed"] = speed()
        print(json.dumps(results["speed"], indent=1))
    if given.only is not None and given.out.exists():  # what was measured before stays
        known = read_json(given.out)
        results = {**known, **results, "corpora": {**known["corpora"], **results["corpora"]}}
    write_json(given.out, results)


if __name__ == "__main__":
    main()
