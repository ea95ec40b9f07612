"""``reticent train-detector``: trains a detector on labelled text, gold labels of a corpus, and reviews."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from flows.commands.gold_records import gold_records
from flows.commands.learnt import Noted, note_texts, write_noted
from flows.commands.redact import opened
from flows.commands.review import open_items
from flows.printing import training_progress
from flows.running.fetching import fetch
from pipelines.corpus.tables import DOCUMENTS, GOLD, SENTENCES
from pipelines.errors import ConfigError, InputError
from pipelines.miss_rate.review_log import ballots_of, read_decisions, sentence_key
from pipelines.policies.learning.detector import train_detector
from pipelines.policies.learning.examples import Example, make_example, read_conll
from pipelines.settings.loading import load_settings
from pipelines.store.objects.reviews import reviews_path

_CONLL = (".conll", ".bio", ".iob", ".iob2")


def detector_document(
    data: Sequence[str],
    gold: Path | None,
    reviews: Path | None,
    out: Path,
    environ: Mapping[str, str],
    *,
    project: Path | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Trains the detector and writes its folder.

    Raises:
        ConfigError, InputError: `train_detector` failed, no source was named, or a record is wrong. The message names
            the record's number.
    """
    examples: list[Example] = []
    sources = []
    learnt_from: Noted = {}
    for name in data:
        examples += _read(name)
        sources.append("a CoNLL file" if name.lower().endswith(_CONLL) else "JSON lines")
    if project is not None:
        if not data:
            raise ConfigError("--project names the corpus that --data comes from: name --data FILE as well")
        note_texts([example.text for example in examples], project, environ, learnt_from)
    if gold is not None:
        examples += _of_gold(gold, environ, learnt_from)
        sources.append("gold labels of a corpus")
    if reviews is not None:
        examples += _of_reviews(reviews, environ, learnt_from)
        sources.append("reviews")
    if not sources:
        raise ConfigError("name what to learn from: --data FILE, --gold reticent.toml or --reviews reticent.toml")
    if len(learnt_from) > 1:
        raise ConfigError("--project, --gold and --reviews must name one store: an estimate can use only one list")

    note = partial(write_noted, noted=learnt_from)
    document = train_detector(examples, out, sources=sources, progress=training_progress(), add_files=note, **options)
    return {**document, "folder": str(out.absolute())}


_LEAST_PRECISION: Final = 0.5
"""Precision on held-out text below which the user is warned, because the detector would mask nearly everything."""


def detector_text(document: Mapping[str, Any]) -> str:
    """Formats the result for people."""
    held_out = document["held_out"]
    lines = [
        f"{document['num_training_texts']:,} texts; on {held_out['num_texts']:,} held-out ones: token recall "
        f"{held_out['token_recall']}, precision {held_out['token_precision']}, masked {held_out['masked_share']}"
    ]
    lines += [f"  {label}: recall {recall}" for label, recall in held_out["recall_by_label"].items()]
    if (held_out["token_precision"] or 0) < _LEAST_PRECISION:
        lines.append("warning: most of its masks are not secrets. It has learnt little and needs more reviewed text")
    return "\n".join(
        [
            *lines,
            f"wrote {document['folder']}",
            f'next: [redact] policies = [..., "token_classifier"], token_classifier = "{document["folder"]}"; then '
            "draw another sample (sample.draw), because sentences that it learnt from do not measure its misses",
        ]
    )


def _read(name: str) -> Iterator[Example]:
    with opened(name) as lines:
        if name.lower().endswith(_CONLL):
            try:
                yield from read_conll((line.decode("utf-8") for line in lines), name)
            except UnicodeDecodeError:
                raise InputError(f"{name} is not UTF-8 text; convert it first") from None
            return
        for number, record in enumerate(gold_records(lines, name), 1):
            try:
                yield make_example(record["text"], record["gold"])
            except ValueError as error:
                raise InputError(f"{name}, record {number}: {error}") from None


def _of_gold(config: Path, environ: Mapping[str, str], noted: Noted) -> Iterator[Example]:
    """Yields the sentences of training documents that have labels. Runs the split stage if it is not up to date."""
    session, keys = fetch(load_settings(config, environ), "split")
    secret = session.roots.secret
    known = noted.setdefault(secret, set())
    found = False
    for _, key in keys["split"]:
        files = session.roots.private_files("split", key)
        documents = files.table(DOCUMENTS)
        labelled = {
            row["doc_id"]
            for batch in documents.batches(["doc_id", "fold", "has_gold"])
            for row in batch.to_pylist()
            if row["has_gold"] and row["fold"] == "train"
        }
        if not labelled:
            continue
        found = True
        spans: dict[tuple[str, int], list[tuple[int, int, str]]] = defaultdict(list)
        for batch in files.table(GOLD).batches(["doc_id", "sentence_index", "start", "end", "label"]):
            for row in batch.to_pylist():
                spans[row["doc_id"], row["sentence_index"]].append((row["start"], row["end"], row["label"]))
        for batch in files.table(SENTENCES).batches(["doc_id", "sentence_index", "text"]):
            for row in batch.to_pylist():
                if row["doc_id"] in labelled:
                    known.add(sentence_key(secret, row["text"]))
                    yield make_example(row["text"], spans[row["doc_id"], row["sentence_index"]])
    if not found:
        raise InputError(
            "--gold: no training document of this project has labels; set corpus.gold_field to the field that holds "
            "them"
        )


def _of_reviews(config: Path, environ: Mapping[str, str], noted: Noted) -> list[Example]:
    """Returns the secrets that reviewers marked in this draw and earlier ones, without disputed sentences."""
    learnt = []
    last: Any = load_settings(config, environ).stages["sample"]
    for draw in range(1, last.draw + 1):
        of_draw = {**environ, "RETICENT__SAMPLE__DRAW": str(draw)}
        opened_items = open_items(config, of_draw, asked="sample", is_evidence=False)
        path = reviews_path(opened_items.roots)
        ballots = ballots_of(read_decisions(path)) if path.exists() else {}
        found = []
        for item in opened_items.items:
            judgement = ballots[item.key].judgement() if item.key in ballots else None
            if judgement is not None and not judgement.is_disputed:
                secrets = [(s.start, s.end, opened_items.labels.of(s.label)) for s in judgement.secrets]
                found.append(make_example(item.text, secrets))
        if found:  # a sample without reviews can still be evidence
            noted.setdefault(opened_items.roots.secret, set()).update(opened_items.drawn)
        learnt += found
    if not learnt:
        raise InputError("--reviews: no sentence of the sample has been judged; run `reticent review` first")
    return learnt
