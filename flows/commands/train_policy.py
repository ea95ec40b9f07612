"""``reticent train-policy``: fits the classifier of the policy ``classifier`` to texts with domains."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from flows.commands.learnt import Noted, note_texts, write_noted
from flows.commands.redact import opened, records
from flows.printing import training_progress
from pipelines.errors import InputError
from pipelines.policies.detectors.classifier_training import train_classifier


def train_document(
    data: str, out: Path, environ: Mapping[str, str], *, project: Path | None = None, **options: Any
) -> dict[str, Any]:
    """Trains the classifier and writes its folder.

    Raises:
        ConfigError, InputError: `train_classifier` failed, or a record has no domain. The message names its number.
    """
    rows = []
    with opened(data) as lines:
        for number, record in enumerate(records(lines, data), 1):
            if not isinstance(record.get("domain"), str) or not record["domain"].strip():
                raise InputError(
                    f'{data}, record {number}: needs a "domain", a string that is not empty, in addition to "text"'
                )
            rows.append((record["text"], record["domain"]))
    learnt_from: Noted = {}
    if project is not None:
        note_texts([text for text, _ in rows], project, environ, learnt_from)

    note = partial(write_noted, noted=learnt_from)
    document = train_classifier(rows, out, progress=training_progress(), add_files=note, **options)
    return {**document, "folder": str(out.absolute())}


def train_text(document: Mapping[str, Any]) -> str:
    """Formats the result for people."""
    return (
        f"{len(document['domains'])} domains, {document['num_training_windows']:,} windows; accuracy on "
        f"{document['num_held_out_windows']:,} held-out windows {document['held_out_accuracy']:.3f}\n"
        f'wrote {document["folder"]}\nnext: [redact] policies = ["classifier"], classifier = "{document["folder"]}"'
    )
