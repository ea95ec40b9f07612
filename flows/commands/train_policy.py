"""``reticent train-policy``: fits the classifier of the policy ``classifier`` to texts with domains."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.commands.redact import opened, records
from pipelines.errors import InputError


def train_document(data: str, out: Path, **options: Any) -> dict[str, Any]:
    """Trains and writes the folder.

    Args:
        data: a path, or ``-``, of JSON lines with ``text`` and ``domain``.
        out: the folder to write.
        options: as `pipelines.policies.detectors.classifier_training.train_classifier`.

    Raises:
        ConfigError, InputError: as there; a record without a domain is named by its number.
    """
    from pipelines.policies.detectors.classifier_training import train_classifier

    rows = []
    with opened(data) as lines:
        for number, record in enumerate(records(lines, data), 1):
            if not isinstance(record.get("domain"), str) or not record["domain"].strip():
                raise InputError(f'{data}, record {number}: needs a "domain"')
            rows.append((record["text"], record["domain"]))
    document = train_classifier(rows, out, progress=_show if sys.stderr.isatty() else None, **options)
    return {**document, "folder": str(out.absolute())}


def train_text(document: Mapping[str, Any]) -> str:
    """For people."""
    return (
        f"{len(document['domains'])} domains, {document['num_training_windows']:,} windows; accuracy on "
        f"{document['num_held_out_windows']:,} held-out windows {document['held_out_accuracy']:.3f}\n"
        f'wrote {document["folder"]}\nnext: [redact] policies = ["classifier"], classifier = "{document["folder"]}"'
    )


def _show(done: int, total: int) -> None:
    sys.stderr.write(f"\rtraining {done}/{total}" + ("\n" if done == total else ""))
