"""``reticent review``: serves the review page on this machine, and writes and reads files of reviews."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import sys
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from flows.review.server import ReviewServer
from flows.review.session import ReviewSession
from flows.running.fetching import fetch
from flows.running.signals import Terminated
from pipelines.errors import ConfigError, InputError
from pipelines.files import write_atomic
from pipelines.gate.tables import GATE_HITS
from pipelines.miss_rate.learnt import DRAW_ANEW, read_learnt, sampled_keys
from pipelines.miss_rate.review_files import FORMATS, export_reviews, find_format, import_reviews
from pipelines.miss_rate.review_items import Item, agreement, load_held_items, load_items
from pipelines.miss_rate.review_log import DecisionLog, ballots_of, read_decisions, sentence_key
from pipelines.miss_rate.sampling import Partition
from pipelines.miss_rate.tables import SAMPLE
from pipelines.policies.held import HELD
from pipelines.policies.labels import ReviewLabels
from pipelines.settings.loading import load_settings
from pipelines.store.objects.reviews import reviews_path
from pipelines.store.place.roots import Roots, private_umask

_NAME = re.compile(r"[\w .@-]{1,64}")
_BY_SUFFIX = {".csv": "csv", ".json": "label-studio"}


def login_name() -> str:
    """Returns the user's login name, which may be a number in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


Asked = Literal["sample", "screening", "held"]
"""Kind of sentences to review: the sample, the manual-screening set, or those that the gate holds."""


class Opened(NamedTuple):
    """The sentences of a review and their store.

    Attributes:
        items: sentences to review
        roots: roots of the store that keeps the reviews
        labels: labels of marks, with a mapping for labels of policies and earlier reviews
        drawn: keys of all sampled sentences, including copies; a model that learns from the reviews notes them
    """

    items: list[Item]
    roots: Roots
    labels: ReviewLabels
    drawn: frozenset[str]


def open_items(config: Path, environ: Mapping[str, str], *, asked: Asked, is_evidence: bool = True) -> Opened:
    """Returns the sentences to review, with their present masks.

    Args:
        config: settings file; stages that are not up to date are run
        asked: kind of sentences
        is_evidence: true to refuse a sample of which the policies learnt from every sentence

    Raises:
        ReticentError: a stage failed.
        InputError: there is no sentence to review, or the policies learnt from all of them.
    """
    source = "gate" if asked == "held" else "sample"
    session, keys = fetch(load_settings(config, environ), source, "redact", "split")
    roots = session.roots
    opened, redacted = roots.private_files, dict(keys["redact"])
    partitions = [
        Partition(name or "", opened("split", key), opened("redact", redacted[name])) for name, key in keys["split"]
    ]
    configs: Any = session.configs
    labels = configs["estimate"].review_labels(configs["redact"].policies)
    ((_, key),) = keys[source]
    made = roots.private_files(source, key)

    def key_of(text: str) -> str:
        return sentence_key(roots.secret, text)

    if asked == "held":
        held = {partition.name: made.table(HELD, partition.name) for partition in partitions}
        items = load_held_items(held, made.table(GATE_HITS, "hits"), partitions, key_of, labels)
        if not items:
            raise InputError("there is nothing to review: the gate holds no sentence back")
        return Opened(items, roots, labels, frozenset(item.key for item in items))
    table = made.table(SAMPLE, "screening" if asked == "screening" else None)
    items = load_items(table, partitions, key_of, labels)
    learnt = read_learnt(configs["redact"].learnt_from(), roots.secret)
    if items and is_evidence and asked == "sample" and all(item.key in learnt for item in items):
        raise InputError(DRAW_ANEW)
    if not items:
        raise InputError(nothing_to_review(asked, table.num_rows, config))
    return Opened(items, roots, labels, sampled_keys(table, partitions, roots.secret))


def nothing_to_review(asked: Asked, num_drawn: int, config: Path) -> str:
    """Explains why there is nothing to review, and names the setting that draws more and the next command."""
    setting = "sample.screening_fraction" if asked == "screening" else "sample.fraction or sample.min_sentences"
    why = "every sentence that was drawn is a copy that is masked whole" if num_drawn else "none was drawn"
    return f"there is no sentence to review: {why}. Raise {setting} in {config}, then `{command_of(config, asked)}`"


def command_of(config: Path, asked: Asked) -> str:
    """Returns the command that opens a review."""
    return f"reticent review {config}" + ("" if asked == "sample" else f" --{asked}")


def check_reviewer(name: str) -> str:
    """Returns a reviewer's name in its stored form.

    Raises:
        ConfigError: the name is empty, too long, or holds other characters.
    """
    name = name.strip()
    if not _NAME.fullmatch(name):
        raise ConfigError("--reviewer must be a name of 1 to 64 letters, digits, spaces or . @ _ -")
    return name


def serve(
    config: Path,
    environ: Mapping[str, str],
    *,
    reviewer: str,
    port: int,
    asked: Asked,
    adjudicate: bool,
    overlap: float,
    announce: Callable[[str, int], None],
) -> dict[str, Any]:
    """Serves the review page until interrupted, and returns the progress of the work.

    Raises:
        ConfigError: the port is taken, or a value is out of range.
    """
    reviewer = check_reviewer(reviewer)
    if not 0 <= overlap <= 1:
        raise ConfigError(f"--overlap is a share from 0 to 1, not {overlap:g}")
    items, roots, labels, _ = open_items(config, environ, asked=asked)
    log = DecisionLog(reviews_path(roots))
    mode = "adjudicate" if adjudicate else "review"
    session = ReviewSession(items, log, reviewer, labels=labels, mode=mode, overlap=overlap)  # type: ignore[arg-type]
    try:
        server = ReviewServer(session.api(), port)
    except OSError as error:
        raise ConfigError(f"port {port} cannot be used ({error.strerror}); choose another with --port") from None
    with private_umask(), server:
        try:
            announce(server.url, len(items))
            server.serve_forever(poll_interval=0.2)
        except Terminated:
            raise
        except KeyboardInterrupt:
            pass  # normal end; every decision is on the disk already
    state = session.state()
    return {name: state[name] for name in ("reviewer", "mode", "num_done", "num_total", "num_put_off", "agreement")}


def status_document(config: Path, environ: Mapping[str, str], *, asked: Asked) -> dict[str, Any]:
    """Returns the progress of the review and the agreement of reviewers. Quotes no text."""
    items, roots, _, _ = open_items(config, environ, asked=asked)
    ballots = ballots_of(read_decisions(reviews_path(roots)))
    judgements = {item.key: ballots[item.key].judgement() for item in items if item.key in ballots}
    done = [item for item in items if not item.needs_review(judgements.get(item.key))]
    return {
        "num_total": len(items),
        "num_done": len(done),
        "num_to_ask_again": sum(judgements.get(i.key) is not None for i in items) - len(done),
        "num_disputed": sum(ballots[i.key].is_disputed for i in items if i.key in ballots),
        "agreement": agreement(ballots, items),
    }


def status_text(document: Mapping[str, Any], command: str) -> str:
    """Formats the progress for people. ``command`` opens this review."""
    lines = [f"{document['num_done']:,} of {document['num_total']:,} sentences are reviewed"]
    if document.get("num_to_ask_again"):
        lines.append(f"  {document['num_to_ask_again']:,} need another review, because less of them is masked now")
    if document.get("num_disputed"):
        lines.append(f"  {document['num_disputed']:,} are judged differently: `{command} --adjudicate`")
    for row in document["agreement"]:
        kappa = "undefined" if row["kappa"] is None else f"{row['kappa']:.3f}"
        lines.append(
            f"  {' and '.join(row['reviewers'])}: Cohen's kappa {kappa} over {row['num_tokens']:,} tokens of "
            f"{row['num_sentences']:,} sentences"
        )
    if document["num_done"] < document["num_total"]:
        lines.append(f"  the rest: `{command}`")
    elif not document.get("num_disputed"):
        lines.append("  all are reviewed: the next `reticent run` uses the reviews")
    return "\n".join(lines)


def export_document(
    config: Path, environ: Mapping[str, str], file: Path, format: str | None, *, asked: Asked
) -> dict[str, Any]:
    """Writes sentences and reviews to a file, which holds secrets and is readable by its owner only.

    Raises:
        ConfigError: the format is unknown.
        InputError: the file cannot be written.
    """
    format = format or _BY_SUFFIX.get(file.suffix.lower(), FORMATS[0])
    _check_format(format)
    items, roots, _, _ = open_items(config, environ, asked=asked)
    decisions = read_decisions(reviews_path(roots))
    text, num_reviews = export_reviews(items, decisions, format)
    try:
        write_atomic(file, text.encode())
    except OSError as error:
        raise InputError(f"{file} cannot be written ({error.strerror})") from None
    return {"file": str(file), "format": format, "num_sentences": len(items), "num_reviews": num_reviews}


def import_document(
    config: Path, environ: Mapping[str, str], file: Path, format: str | None, reviewer: str, *, asked: Asked
) -> dict[str, Any]:
    """Adds the reviews of a file to those in the private root.

    Raises:
        ConfigError: the format is unknown.
        InputError: the file is missing or has another form.
    """
    if format is not None:
        _check_format(format)
    reviewer = check_reviewer(reviewer)
    items, roots, _, _ = open_items(config, environ, asked=asked)
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{file} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read as UTF-8 text ({type(error).__name__})") from None
    format = format or find_format(text, file.name)
    known = {d.id for d in read_decisions(reviews_path(roots))}
    found, num_unknown = import_reviews(
        text, items, format, reviewer=reviewer, source=file.name, key_of=lambda t: sentence_key(roots.secret, t)
    )
    fresh = [d for d in found if d.id not in known]
    with private_umask():
        DecisionLog(reviews_path(roots)).append(fresh)
    return {
        "file": str(file),
        "format": format,
        "num_reviews": len(fresh),
        "num_known_already": len(found) - len(fresh),
        "num_not_in_sample": num_unknown,
    }


def import_text(document: Mapping[str, Any]) -> str:
    """Formats the counts for people."""
    rest = [
        f"{document[name]:,} {said}"
        for name, said in (
            ("num_known_already", "are known already"),
            ("num_not_in_sample", "are of sentences that are not in the sample"),
        )
        if document[name]
    ]
    added = f"added {document['num_reviews']:,} reviews, read as {document['format']}"
    return "; ".join([added, *rest])


def _check_format(format: str) -> None:
    if format not in FORMATS:
        raise ConfigError(f"--format must be one of {', '.join(FORMATS)}, not {format}")


def announce_page(url: str, num_sentences: int, *, open_browser: bool) -> None:
    """Prints the review page's address, and opens it if a terminal is attached.

    The address holds the one-time token, and is printed to the terminal and nowhere else.
    """
    sys.stderr.write(f"{num_sentences:,} sentences to review. Open this address (it works once):\n\n  {url}\n\n")
    sys.stderr.write("Every answer is saved at once. Ctrl-C ends.\n")
    sys.stderr.flush()
    if open_browser and sys.stderr.isatty():
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(url)
