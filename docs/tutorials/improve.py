"""Sample, review, learn, measure again: the rounds of docs/tutorials/improve.md, with gold labels as the reviewer.

    python docs/tutorials/improve.py --data-dir FOLDER [--rounds 3] [--fraction 0.1] [--domains airline media]
        [--iterations 30] [--work FOLDER] [--out improve.json]

FOLDER holds `multidogo/` (https://github.com/awslabs/multi-domain-goal-oriented-dialogues-dataset, its `paper_splits`).
Customers' turns of the test part; every slot label (name, mail address, booking number, city, car, ...) is a secret.

Each round draws a sample of its own (`sample.draw`), a reviewer marks what the policies of that round miss, the rates
are estimated, and a detector learns from all reviews so far. Beside the estimate stand the rates by the gold labels: of
the sentences that nothing learnt from, which the estimate is about, and of all. The last columns are what the same
sample says of the next detector, which has learnt from it, and what `reticent estimate` makes of that.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flows.commands.estimate import estimate_document
from flows.commands.review import Opened, open_items
from flows.running.fetching import fetch
from pipelines.corpus.tables import GOLD, SENTENCES
from pipelines.graph_names import FIGURES
from pipelines.language import make_doc
from pipelines.miss_rate.learnt import LEARNT, write_learnt
from pipelines.miss_rate.review_items import Item, judged_secrets
from pipelines.miss_rate.review_log import Decision, DecisionLog, Secret, ballots_of, read_decisions, sentence_key
from pipelines.policies.tables import REDACTED
from pipelines.settings.loading import load_settings
from pipelines.store.objects.reviews import reviews_path
from pipelines.store.place.roots import Roots

POLICIES = ("addresses", "high_entity", "identifiers")
KINDS = {
    **dict.fromkeys(("name",), "PERSON"),
    **dict.fromkeys(("email_address", "phone_number", "username"), "CONTACT"),
    **dict.fromkeys(("booking_confirmation_number", "claimid", "ssn", "policyid", "account_id", "flight_number"), "ID"),
    **dict.fromkeys(("arrival_city", "current_city", "current_zipcode", "departure_city"), "LOCATION"),
    **dict.fromkeys(("start_date", "end_date", "date", "departure_time", "arrival_time", "car_year"), "DATE"),
}
"""What a reviewer calls MultiDoGO's slots; OTHER for the rest (cars, services, categories)."""

GoldSpans = dict[tuple[str, int], list[tuple[int, int, str]]]
"""Secrets of each sentence, as characters, by document and number."""


def settings(work: Path, draw: int, fraction: float, model: Path | None) -> Path:
    """Writes the settings of a round."""
    policies = [*POLICIES, *(["token_classifier"] if model is not None else [])]
    learnt = f"token_classifier = {json.dumps(str(model))}\n" if model is not None else ""
    path = work / "reticent.toml"
    path.write_text(
        f'[corpus]\nformat = "multidogo"\ninputs = ["corpus"]\n'
        f"[redact]\npolicies = {json.dumps(sorted(policies))}\n{learnt}"
        f"[sample]\nreplicates = 1\nfraction = {fraction}\ndraw = {draw}\n"
        '[estimate]\nsource = "human"\n',
        encoding="utf-8",
    )
    return path


def gold_of(config: Path) -> GoldSpans:
    """The gold labels, from what split made of them."""
    session, keys = fetch(load_settings(config, os.environ), "split")
    found: GoldSpans = {}
    for _, key in keys["split"]:
        for row in session.roots.private_files("split", key).table(GOLD).rows():
            kind = KINDS.get(row["label"].lower(), "OTHER")
            found.setdefault((row["doc_id"], row["sentence_index"]), []).append((row["start"], row["end"], kind))
    return found


def review(opened: Opened, gold: GoldSpans) -> int:
    """Judges the sentences of the sample as somebody who knows every secret would; the number of marks."""
    decisions, num_marks = [], 0
    for item in opened.items:
        secrets = gold.get(item.row, [])
        lies_open = item.open_tokens()
        marks = [Secret(*s) for s in secrets if any(start < s[1] and end > s[0] for start, end in lies_open)]
        wrong = [(m.start, m.end) for m in item.masks if not any(m.start < s[1] and m.end > s[0] for s in secrets)]
        judged, trusted = judged_secrets(item, marks, wrong)
        num_marks += len(marks)
        decisions.append(
            Decision(
                id=uuid.uuid4().hex,
                at="2026-01-01T00:00:00+00:00",
                reviewer="gold",
                key=item.key,
                secrets=tuple(judged),
                wrong=tuple(wrong),
                trusted=tuple(trusted),
            )
        )
    DecisionLog(reviews_path(opened.roots)).append(decisions)
    return num_marks


def learn(items: Sequence[Item], drawn: set[str], roots: Roots, folder: Path, iterations: int) -> None:
    """Trains an entity recogniser on what reviewers called secret, and notes what it learnt from."""
    import spacy
    from spacy.training import Example
    from spacy.util import fix_random_seed, minibatch

    fix_random_seed(0)
    nlp = spacy.blank("en")
    ner: Any = nlp.add_pipe("ner")
    ballots = ballots_of(read_decisions(reviews_path(roots)))
    examples = []
    for item in items:
        ballot = ballots.get(item.key)
        judgement = ballot.judgement() if ballot is not None else None
        if judgement is None:
            continue
        doc = make_doc(nlp, item.text, item.starts, item.ends)
        tags = ["O"] * len(doc)
        for secret in judgement.secrets:
            inside = [i for i in range(len(doc)) if item.starts[i] < secret.end and item.ends[i] > secret.start]
            for at, token in enumerate(inside):
                tags[token] = ("I-" if at else "B-") + secret.label
                ner.add_label(secret.label)
        examples.append(Example.from_dict(doc, {"entities": spacy.training.iob_to_biluo(tags)}))
    optimizer = nlp.initialize(lambda: examples)
    order = random.Random(0)  # noqa: S311  # the same model from the same reviews
    for _ in range(iterations):
        order.shuffle(examples)
        for batch in minibatch(examples, 32):
            nlp.update(batch, sgd=optimizer, drop=0.2)
    shutil.rmtree(folder, ignore_errors=True)
    nlp.to_disk(folder)
    write_learnt(folder, roots.secret, drawn)


def whole_text(config: Path, gold: GoldSpans, drawn: set[str]) -> dict[str, float]:
    """m by the gold labels over all sentences, and over those that nothing learnt from; the share that is masked."""
    session, keys = fetch(load_settings(config, os.environ), "redact", "split")
    files, redacted, secret = session.roots.private_files, dict(keys["redact"]), session.roots.secret
    tokens, missed, num_masked = [0, 0], [0, 0], 0
    for name, key in keys["split"]:
        num_masked += files("redact", redacted[name]).json(FIGURES)["num_masked_tokens"]
        rows = files("redact", redacted[name]).table(REDACTED).rows()
        for sentence, row in zip(files("split", key).table(SENTENCES).rows(), rows, strict=True):
            masked = {t for span in row["spans"] for t in range(span["start_token"], span["end_token"])}
            is_whole = row["is_duplicate"] or row["failed_closed"]
            lies_open = set() if is_whole else set(_tokens(sentence, gold)) - masked
            for which in (0,) if sentence_key(secret, sentence["text"]) in drawn else (0, 1):
                tokens[which] += row["num_tokens"]
                missed[which] += len(lies_open)
    return {
        "miss_rate": missed[0] / tokens[0],
        "miss_rate_of_the_others": missed[1] / tokens[1],
        "masked": num_masked / tokens[0],
    }


def _tokens(sentence: dict[str, Any], gold: GoldSpans) -> Iterator[int]:
    for start, end, _ in gold.get((sentence["doc_id"], sentence["sentence_index"]), []):
        pairs = zip(sentence["token_starts"], sentence["token_ends"], strict=True)
        yield from (token for token, (a, b) in enumerate(pairs) if a < end and b > start)


def rates(config: Path) -> dict[str, Any]:
    """Returns the answer of `reticent estimate`."""
    figures = estimate_document(config, os.environ)
    gamma = figures["false_negative_rate"] or {}
    return {
        "source": figures["source"],
        "num_sentences": figures["num_sampled_sentences"],
        "num_learnt_sentences": figures["num_learnt_sentences"],
        "miss_rate": figures["miss_rate"] and figures["miss_rate"]["value"],
        "miss_rate_interval": figures["miss_rate"] and figures["miss_rate"]["recommended"],
        "gamma": gamma.get("value"),
        "gamma_upper": gamma.get("upper"),
    }


def said_by_what_was_learnt_from(config: Path, model: Path) -> dict[str, Any]:
    """The rates of a detector on the sample that it learnt from, with the list put aside: what no estimate gives."""
    aside = model.parent / LEARNT
    (model / LEARNT).rename(aside)
    try:
        return rates(config)
    finally:
        aside.rename(model / LEARNT)


def run(given: argparse.Namespace, work: Path) -> list[dict[str, Any]]:
    """All rounds; a row each."""
    for domain in given.domains:
        (work / "corpus" / domain).mkdir(parents=True)
        # All of it is text to train on here, so the part is not called test.
        shutil.copy(given.data_dir / "multidogo" / domain / "test.tsv", work / "corpus" / domain / "train.tsv")
    model: Path | None = None
    items: dict[str, Item] = {}
    drawn: set[str] = set()
    found: list[dict[str, Any]] = []
    for number in range(1, given.rounds + 1):
        config = settings(work, number, given.fraction, model)
        opened = open_items(config, os.environ, asked="sample")
        gold = gold_of(config)
        num_marks = review(opened, gold)
        row = {"round": number, "num_marks": num_marks, **rates(config)}
        row["whole_text"] = whole_text(config, gold, drawn)
        items.update((item.key, item) for item in opened.items)
        drawn |= opened.drawn
        model = work / f"detector-{number}"
        learn(list(items.values()), drawn, opened.roots, model, given.iterations)
        config = settings(work, number, given.fraction, model)
        row["next_on_the_same_sample"] = said_by_what_was_learnt_from(config, model)
        row["estimate_of_next"] = rates(config)["source"]
        found.append(row)
        print(line(row), flush=True)
    return found


COLUMNS = ("round", "sentences", "marks", "m", "by gold", "by gold, all", "γ ≤", "masked", "same sample, next", "told")
HEAD = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    low, high = row["miss_rate_interval"]
    whole = row["whole_text"]
    cells = (
        row["round"],
        row["num_sentences"],
        row["num_marks"],
        f"{row['miss_rate']:.2%} ({low:.2%} – {high:.2%})",
        f"{whole['miss_rate_of_the_others']:.2%}",
        f"{whole['miss_rate']:.2%}",
        f"{row['gamma_upper']:.1%}",
        f"{whole['masked']:.1%}",
        f"{row['next_on_the_same_sample']['miss_rate']:.2%}",
        row["estimate_of_next"].replace("_", " "),
    )
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Reads the arguments, runs the rounds, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fraction", type=float, default=0.1, help="of the sentences, reviewed in each round")
    parser.add_argument("--domains", nargs="+", default=["airline", "insurance", "media"])
    parser.add_argument("--iterations", type=int, default=30, help="passes of training over all reviewed sentences")
    parser.add_argument("--work", type=Path, help="an empty folder for the project; by default a temporary one")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    print(HEAD, flush=True)
    if given.work is not None:
        found = run(given, given.work.absolute())
    else:
        with tempfile.TemporaryDirectory() as folder:
            found = run(given, Path(folder))
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
