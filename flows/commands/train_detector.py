"""``reticent train-detector``: a detector of one's own from labelled text, from gold tables, and from reviews."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flows.commands.learnt import Noted, note_texts, write_noted
from flows.commands.redact import opened, records
from flows.printing import steer
from pipelines.errors import ConfigError, InputError

if TYPE_CHECKING:
    from pipelines.policies.learning.examples import Example

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
    """Trains and writes the folder.

    Args:
        data: files, CoNLL by their ending, else JSON lines with ``text`` and ``spans``; ``-`` is standard input.
        gold: settings of a project whose corpus brings labels; those of the training fold are learnt.
        reviews: settings of a project; what its reviewers decided is learnt.
        out: the folder to write.
        environ: the environment.
        project: settings of the project whose corpus the files are from; what it has of their sentences is noted.
        options: as `pipelines.policies.learning.detector.train_detector`.

    Raises:
        ConfigError, InputError: as there; or nothing to learn from was named; a record that is wrong is named by its
            number.
    """
    from pipelines.policies.learning.detector import train_detector

    examples: list[Example] = []
    sources = []
    learnt_from: Noted = {}
    for name in data:
        examples += _read(name)
        sources.append("a CoNLL file" if name.lower().endswith(_CONLL) else "JSON lines")
    if project is not None:
        if not data:
            raise ConfigError("--project says whose corpus --data is from: name --data FILE as well")
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
        raise ConfigError("--project, --gold and --reviews must be of one store: estimates could know one list only")

    def note(folder: Path) -> None:
        write_noted(folder, learnt_from)

    show = _show if sys.stderr.isatty() else None
    document = train_detector(examples, out, sources=sources, progress=show, add_files=note, **options)
    return {**document, "folder": str(out.absolute())}


_LEAST_PRECISION: Final = 0.5
"""Of a detector's masks, on held-out text, below which people are warned: its next use would mask nearly all."""


def detector_text(document: Mapping[str, Any]) -> str:
    """For people."""
    held_out = document["held_out"]
    lines = [
        f"{document['num_training_texts']:,} texts; on {held_out['num_texts']:,} held-out ones: token recall "
        f"{held_out['token_recall']}, precision {held_out['token_precision']}, masked {held_out['masked_share']}"
    ]
    lines += [f"  {label}: recall {recall}" for label, recall in held_out["recall_by_label"].items()]
    if (held_out["token_precision"] or 0) < _LEAST_PRECISION:
        lines.append(
            "warning: most of what it masks is no secret: it has learnt little, and more reviewed text is needed"
        )
    return "\n".join(
        [
            *lines,
            f"wrote {document['folder']}",
            f'next: [redact] policies = [..., "token_classifier"], token_classifier = "{document["folder"]}"; then '
            "draw another sample (sample.draw): sentences that it learnt from say nothing about what it misses",
        ]
    )


def _read(name: str) -> Iterator[Example]:
    from pipelines.policies.judging.scoring import gold_spans
    from pipelines.policies.learning.examples import make_example, read_conll

    with opened(name) as lines:
        if name.lower().endswith(_CONLL):
            try:
                yield from read_conll((line.decode("utf-8") for line in lines), name)
            except UnicodeDecodeError:
                raise InputError(f"{name} is not UTF-8 text; convert it first") from None
            return
        for number, record in enumerate(records(lines, name), 1):
            try:
                yield make_example(record["text"], gold_spans(record))
            except ValueError as error:
                raise InputError(f"{name}, record {number}: {error}") from None


def _of_gold(config: Path, environ: Mapping[str, str], noted: Noted) -> Iterator[Example]:
    """The sentences of training documents that carry labels. The split stage is run where it is not up to date."""
    from flows.running.fetching import fetch
    from pipelines.corpus.tables import DOCUMENTS, GOLD, SENTENCES
    from pipelines.miss_rate.review_log import sentence_key
    from pipelines.policies.learning.examples import make_example
    from pipelines.settings.loading import load_settings

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
            "--gold: no training document of this project carries labels; corpus.gold_field names the "
            "field that holds them"
        )


def _of_reviews(config: Path, environ: Mapping[str, str], noted: Noted) -> list[Example]:
    """What reviewers hold sensitive in sentences of this draw and of those before; disputed sentences are left."""
    from flows.commands.review import open_items
    from pipelines.miss_rate.review_log import ballots_of, read_decisions
    from pipelines.policies.learning.examples import make_example
    from pipelines.settings.loading import load_settings
    from pipelines.store.objects.reviews import reviews_path

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
        if found:  # a sample that nobody has reviewed can still be evidence
            noted.setdefault(opened_items.roots.secret, set()).update(opened_items.drawn)
        learnt += found
    if not learnt:
        raise InputError("--reviews: nobody has judged a sentence of the sample; run `reticent review` first")
    return learnt


def _show(done: int, total: int) -> None:
    steer(sys.stderr, f"\rtraining {done}/{total}" + ("\n" if done == total else ""))
