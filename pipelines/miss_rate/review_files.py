"""Export and import of sentences to review and of reviews: JSON lines, CSV, and tasks of Label Studio.

The files hold the sentences themselves. Offsets count Unicode characters. A review is matched by its text, so it works
in a store with another secret.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from pipelines.errors import InputError
from pipelines.miss_rate.review_items import Item, Neighbour, judged_secrets
from pipelines.miss_rate.review_log import Decision, Secret, ballots_of

FORMATS: Final = ("jsonl", "csv", "label-studio")
_COLUMNS: Final = ("key", "text", "reviewer", "role", "at", "kind", "what", "start", "end", "label", "before", "after")
_NEEDED: Final = frozenset({"text", "start", "end", "label"})
_TODO: Final = "todo"
"""The ``kind`` of a sentence without a review, in a CSV file; a reviewer writes ``judge``."""
_Cells = tuple[str, int | str, int | str, str]
_NOTHING: Final[_Cells] = ("", "", "", "")
_IMPORTED_AT: Final = "1970-01-01T00:00:00+00:00"
_HELP: Final = "what each format holds says docs/reviewing.md, under Files"


def export_reviews(items: Sequence[Item], decisions: Iterable[Decision], format: str) -> tuple[str, int]:
    """Returns the text of a file with sentences and the reviews in force, and the number of its reviews.

    Args:
        items: sentences, also those without a review.
        decisions: decisions in the log.
        format: one of `FORMATS`. ``label-studio`` gives a list of tasks: masks as predictions, reviews as annotations.
    """
    ballots = ballots_of(decisions)
    reviews = {
        item.key: [
            *ballots[item.key].judged,
            *([a] if (a := ballots[item.key].adjudicated) is not None and a.kind == "judge" else []),
        ]
        for item in items
        if item.key in ballots
    }
    num_reviews = sum(map(len, reviews.values()))
    pairs = [(item, reviews.get(item.key, [])) for item in items]
    if format == "jsonl":
        text = "".join(json.dumps(_jsonl_row(item, found), ensure_ascii=False) + "\n" for item, found in pairs)
    elif format == "csv":
        text = _csv(pairs)
    else:
        text = json.dumps([_task(item, found) for item, found in pairs], ensure_ascii=False, indent=1) + "\n"
    return text, num_reviews


def _jsonl_row(item: Item, decisions: Sequence[Decision]) -> dict[str, Any]:
    return {
        "key": item.key,
        "kind": item.kind,
        "text": item.text,
        "speaker": item.speaker,
        "before": [list(neighbour) for neighbour in item.before],
        "after": [list(neighbour) for neighbour in item.after],
        "masks": [[mask.start, mask.end, mask.label] for mask in item.masks],
        "reviews": [d.to_json() for d in decisions],
    }


def _csv(pairs: Iterable[tuple[Item, Sequence[Decision]]]) -> str:
    """Returns one row for each span. A review without spans has an empty row, a sentence without reviews its masks."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for item, decisions in pairs:
        near = (_lines(item.before), _lines(item.after))
        for d in decisions:
            head = (item.key, item.text, d.reviewer, d.role, d.at, d.kind)
            rows: list[_Cells] = [
                ("secret", *secret) for secret in d.secrets if (secret.start, secret.end) not in d.trusted
            ]
            rows += [("trusted", *secret) for secret in d.secrets if (secret.start, secret.end) in d.trusted]
            rows += [("wrong", start, end, "") for start, end in d.wrong]
            writer.writerows((*head, *row, *near) for row in rows or [_NOTHING])
        if not decisions:
            masks: list[_Cells] = [("mask", mask.start, mask.end, mask.label) for mask in item.masks]
            todo = (item.key, item.text, "", "", "", _TODO)
            writer.writerows((*todo, *row, *near) for row in masks or [_NOTHING])
    return out.getvalue()


def _lines(neighbours: Iterable[Neighbour]) -> str:
    return "\n".join(f"{near.speaker}: {near.text}" if near.speaker else near.text for near in neighbours)


def _task(item: Item, decisions: Sequence[Decision]) -> dict[str, Any]:
    return {
        "data": {
            "text": item.text,
            "key": item.key,
            "kind": item.kind,
            "before": _lines(item.before),
            "after": _lines(item.after),
        },
        "predictions": [
            {
                "model_version": "masks",
                "result": [_region(item, f"m{n}", m.start, m.end, m.label) for n, m in enumerate(item.masks)],
            }
        ],
        "annotations": [
            {
                "completed_by": {"email": d.reviewer},
                "result": [_region(item, f"{d.id[:8]}-{n}", *secret) for n, secret in enumerate(d.secrets)],
            }
            for d in decisions
        ],
    }


def _region(item: Item, identity: str, start: int, end: int, label: str) -> dict[str, Any]:
    value = {"start": start, "end": end, "text": item.text[start:end], "labels": [label]}
    return {"id": identity, "from_name": "label", "to_name": "text", "type": "labels", "value": value}


def find_format(text: str, source: str) -> str:
    """Returns the format of a file, by its content.

    Raises:
        InputError: the content looks like none of `FORMATS`.
    """
    start = text.lstrip()
    if start.startswith("["):
        return "label-studio"
    if start.startswith("{"):
        return "jsonl"
    if set(next(csv.reader(io.StringIO(start)), ())) >= _NEEDED:
        return "csv"
    raise InputError(
        f"{source} is in none of the formats {', '.join(FORMATS)}: JSON lines begin with {{, tasks of Label Studio "
        "with [, and the first line of a CSV file names the columns text, start, end and label; see docs/reviewing.md"
    )


def import_reviews(
    text: str, items: Sequence[Item], format: str, *, reviewer: str, source: str, key_of: Callable[[str], str]
) -> tuple[list[Decision], int]:
    """Imports the reviews of given sentences from a file.

    Args:
        text: content of the file.
        items: given sentences.
        format: one of `FORMATS`.
        reviewer: name of the reviewer, if the file has none.
        source: name of the file, for messages.
        key_of: function from the text of a sentence to its key.

    Returns:
        (decisions, number of reviews of other sentences). The same file always gives the same ids.

    Raises:
        InputError: the file does not have this format. The message holds a line or task number, not the content.
    """
    known = {item.key: item for item in items}
    found: list[Decision] = []
    num_unknown = 0
    parse = {"jsonl": _from_jsonl, "csv": _from_csv, "label-studio": _from_label_studio}[format]
    for where, sentence, make in parse(text, source):
        try:
            item = known.get(key_of(sentence))
            if item is None:
                num_unknown += 1
            else:
                decision = make(item, reviewer)
                if any(secret.end > len(item.text) for secret in decision.secrets):
                    raise ValueError
                found.append(decision)
        except (ValueError, KeyError, TypeError, IndexError):
            # The original error may quote the file, which holds secrets.
            raise InputError(f"{source}, {where}: this is no review in the format {format}; {_HELP}") from None
    return found, num_unknown


Parsed = Iterator[tuple[str, str, Callable[[Item, str], Decision]]]


def _from_jsonl(text: str, source: str) -> Parsed:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
            sentence, reviews = str(document["text"]), list(document["reviews"])
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{source}, line {number}: this is no review in the format jsonl; {_HELP}") from None
        for review in reviews:
            yield f"line {number}", sentence, lambda item, _, r=review: Decision.from_json({**r, "key": item.key})  # type: ignore[misc]


def _from_csv(text: str, source: str) -> Parsed:
    reader = csv.DictReader(io.StringIO(text))
    if not set(reader.fieldnames or ()) >= _NEEDED:
        raise InputError(f"{source}: the columns text, start, end and label are needed; see `--export --format csv`")
    groups: dict[tuple[str, ...], list[tuple[int, dict[str, Any]]]] = {}
    for number, row in enumerate(reader, start=2):
        same = (
            row["text"] or "",
            row.get("reviewer") or "",
            row.get("role") or "reviewer",
            row.get("at") or _IMPORTED_AT,
        )
        groups.setdefault(same, []).append((number, row))
    for (sentence, name, role, at), rows in groups.items():
        if all(row.get("kind") == _TODO and (row.get("what") or "mask") == "mask" for _, row in rows):
            continue  # unchanged since its export: nobody has judged it

        def make(
            item: Item, reviewer: str, name: str = name, role: str = role, at: str = at, rows: Any = rows
        ) -> Decision:
            spans = [
                (row.get("what") or "secret", int(row["start"]), int(row["end"]), row["label"] or "OTHER")
                for _, row in rows
                if row["start"] and row.get("what") != "mask"
            ]
            if role not in ("reviewer", "adjudicator") or any(not 0 <= s < e for _, s, e, _ in spans):
                raise ValueError
            return _decision(
                item,
                name or reviewer,
                at,
                [Secret(s, e, label) for what, s, e, label in spans if what == "secret"],
                [(s, e) for what, s, e, _ in spans if what == "wrong"],
                role=role,
            )

        yield f"row {rows[0][0]}", sentence, make


def _from_label_studio(text: str, source: str) -> Parsed:
    try:
        tasks = json.loads(text)
        if not isinstance(tasks, list):
            raise ValueError
    except ValueError:
        raise InputError(f"{source}: a list of Label Studio tasks is needed (export as JSON)") from None
    for number, task in enumerate(tasks, start=1):
        try:
            sentence, annotations = str(task["data"]["text"]), list(task.get("annotations") or ())
        except (KeyError, TypeError, AttributeError):
            raise InputError(f"{source}, task {number}: there is no data.text") from None
        for annotation in annotations:

            def make(item: Item, reviewer: str, annotation: Any = annotation) -> Decision:
                if annotation.get("was_cancelled"):
                    raise ValueError
                by = annotation.get("completed_by")
                name = str(by["email"]) if isinstance(by, dict) and by.get("email") else reviewer
                marks = [_mark(item, region) for region in annotation["result"] if region.get("type") == "labels"]
                marked = {position for mark in marks for position in range(mark.start, mark.end)}
                wrong = [(m.start, m.end) for m in item.masks if marked.isdisjoint(range(m.start, m.end))]
                at = str(annotation.get("created_at") or _IMPORTED_AT)
                return _decision(item, name, at, marks, wrong)

            yield f"task {number}", sentence, make


def _mark(item: Item, region: Any) -> Secret:
    """Reads a region of Label Studio. Checks offsets against its text, because tools count emoji differently."""
    value = region["value"]
    start, end, label = int(value["start"]), int(value["end"]), str((value.get("labels") or ["OTHER"])[0])
    marked = value.get("text")
    if marked is not None and item.text[start:end] != marked:
        units = item.text.encode("utf-16-le")
        start, end = (len(units[: 2 * at].decode("utf-16-le")) for at in (start, end))
        if item.text[start:end] != marked:
            raise ValueError
    if not 0 <= start < end <= len(item.text):
        raise ValueError
    return Secret(start, end, label[:64])


def _decision(
    item: Item,
    reviewer: str,
    at: str,
    marked: Sequence[Secret],
    wrong: Sequence[tuple[int, int]],
    role: str = "reviewer",
) -> Decision:
    secrets, trusted = judged_secrets(item, marked, wrong)
    content = json.dumps([item.key, reviewer, at, role, secrets, wrong])
    return Decision(
        id=hashlib.sha256(content.encode()).hexdigest()[:32],
        at=at,
        reviewer=reviewer,
        role="adjudicator" if role == "adjudicator" else "reviewer",
        key=item.key,
        secrets=tuple(secrets),
        wrong=tuple(wrong),
        trusted=tuple(trusted),
    )
