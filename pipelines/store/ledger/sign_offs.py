"""Signatures of runs: lines of the privacy ledger, chained and sealed like all others (`ledger_file`)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pipelines.errors import DamagedFileError
from pipelines.files import read_file
from pipelines.store.objects.ledger_lines import append, ledger_dir, locked, read_documents
from pipelines.store.place.ledger_file import FILE, SIGNATURE_FIELDS, SIGNED
from pipelines.store.place.roots import Roots

FOLDER: Final = "sign_off"
"""The folder of the private root with the pages that were shown for signing."""


def page_path(roots: Roots, run_id: str) -> Path:
    """Returns the path of a run's page for signing."""
    return roots.private / FOLDER / f"{run_id}.html"


def enter_signature(roots: Roots, *, name: str, run_id: str, digest: str, report: str) -> Mapping[str, Any]:
    """Adds a signature to the ledger, and returns it as `signatures` does.

    Args:
        name: name of the person who signs.
        run_id: id of the signed run.
        digest: SHA-256 of the signed page.
        report: key of the report behind the page.

    Raises:
        LedgerError: the ledger was changed or damaged.
    """
    at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    line = {"type": SIGNED, "name": name, "at": at, "run_id": run_id, "digest": digest, "report": report}
    with locked(roots) as path:
        read_documents(roots, path)
        append(roots, path, [line])
    return {field: line[field] for field in SIGNATURE_FIELDS}


def signatures(roots: Roots) -> list[dict[str, Any]]:
    """Returns every signature, oldest first: ``name``, ``at``, ``run_id``, ``digest`` of the page, ``report`` (a key).

    Raises:
        LedgerError: the ledger was changed or damaged.
    """
    documents = read_documents(roots, ledger_dir(roots) / FILE)
    return [{field: d[field] for field in SIGNATURE_FIELDS} for d in documents if d["type"] == SIGNED]


def page_state(roots: Roots, signed: Mapping[str, Any]) -> str:
    """Compares the page of a signature with the signed one: ``as signed``, ``another one now`` or ``gone``."""
    try:
        page = read_file(page_path(roots, signed["run_id"]))
    except (FileNotFoundError, DamagedFileError):
        return "gone"
    return "as signed" if hashlib.sha256(page).hexdigest() == signed["digest"] else "another one now"
